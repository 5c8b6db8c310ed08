//! Rows and their columns: labels, roles, numbers and cells without one, whatever file they come from.

mod aside;
pub(super) mod class_names;
pub(super) mod columns;
mod labelled;
mod left_out;
pub(super) mod look;
pub(super) mod mended;
pub(super) mod missing;
pub(super) mod notation;
pub(super) mod roles;
pub(super) mod texts;
pub(super) mod unlabelled;
pub(super) mod values;

pub(crate) use aside::Aside;
pub(crate) use class_names::classes;
pub use class_names::look_alike;
pub use columns::Columns;
pub use labelled::{Choice, Labelled, Labels};
pub(crate) use left_out::LeftOut;
pub use missing::Missing;
pub use notation::Marks;
pub use roles::{ColumnRole, Role, TableColumn};
pub use texts::Texts;
pub(crate) use values::check_squares;
