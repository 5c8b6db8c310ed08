//! Files of rows and labels: one source file a format, and what all of them share. Later ones use earlier ones: names and bytes,
//! then formats, then tables and arrays, then [`Labelled`](super::Labelled) rows.

mod array;
pub(super) mod arrays;
#[cfg(all(target_arch = "wasm32", any(feature = "hdf5", feature = "parquet")))]
mod blob_now;
mod csv;
#[cfg(not(target_arch = "wasm32"))]
pub(super) mod disk;
mod foreign;
mod format;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
mod guarded;
#[cfg(feature = "hdf5")]
mod hdf5;
pub(super) mod input;
mod join;
mod json_lines;
mod labels;
mod lines;
mod named_file;
pub(crate) mod npy;
mod npz;
mod packed;
#[cfg(feature = "parquet")]
mod parquet;
mod read;
mod row_numbers;
mod safetensors;
mod settled;
mod table;
mod table_reader;
mod vectors;

#[cfg(feature = "parquet")]
pub use self::parquet::ParquetFile;
pub use format::Format;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
pub use guarded::is_guarded;
#[cfg(feature = "hdf5")]
pub use hdf5::Hdf5File;
#[cfg(all(feature = "hdf5", not(target_arch = "wasm32")))]
pub use hdf5::add_embeddings;
pub use named_file::NamedFile;
pub(crate) use npy::NpyElement;
pub(crate) use npy::array_header;
#[cfg(not(target_arch = "wasm32"))]
pub use npy::triplets_header;
pub use npy::{matrix_header, write_matrix};
pub use npz::NpzWriter;
pub use table::Table;
pub use table_reader::TableReader;
