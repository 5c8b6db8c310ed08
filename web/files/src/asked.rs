//! What the page's worker asks of the worker that reads and writes files, and what that one answers: each a message, then files or
//! buffers. Both compile this file.

use nearfar::{Columns, Cure, Labelled, Labels, Missing, Piece, RowsOf, Working};
use serde::{Deserialize, Serialize};

/// Ends each message: the code that wrote it. A new version may be published while the page is open.
pub(crate) const CODE: &[u8] = env!("NEARFAR_CODE").as_bytes();

/// One question; the worker is ended once it is answered.
#[derive(Deserialize, Serialize)]
pub(crate) enum Asked {
    /// Rows of the file that comes along, with the labels of a second one where there is one.
    Rows {
        /// The column or array of the labels.
        label: Option<String>,
        /// Which columns of a table are features.
        columns: Columns,
        /// What becomes of cells without a number.
        missing: Option<Missing>,
    },
    /// Labels in the file that comes along.
    Labels {
        /// Their column or array.
        label: Option<String>,
        /// Columns that settings name, which are no labels.
        columns: Columns,
        /// What becomes of rows without one.
        missing: Option<Missing>,
        /// The file whose rows they belong to.
        of: String,
        /// How many rows it has.
        rows: usize,
    },
    /// The checkpoint in the file that comes along, a run that was taken home.
    SavedRun,
    /// Bytes of each piece, about, of the run that comes along as [`nearfar::Taken`].
    Sizes {
        /// The pieces.
        pieces: Vec<Piece>,
        /// The rows of those that are made of rows.
        side: RowsOf,
    },
    /// A piece of the run that comes along.
    Make {
        /// The piece.
        piece: Piece,
    },
}

/// The message of a refusal, and what can be chosen so that the file is read.
pub(crate) type Refused = (String, Cure);

/// The names that labels could have, and what was read.
pub(crate) type Read<T> = (Vec<String>, Result<T, Refused>);

/// The answer to a question.
#[derive(Deserialize, Serialize)]
pub(crate) enum Answer {
    /// How far reading is; more answers follow.
    Working(Working),
    /// To [`Asked::Rows`]; the values come in a buffer.
    Rows(Box<Read<Labelled>>),
    /// To [`Asked::Labels`].
    Labels(Box<Read<Labels>>),
    /// To [`Asked::Sizes`].
    Sizes(Vec<(Piece, Option<u64>)>),
    /// To [`Asked::SavedRun`]: the checkpoint comes in a buffer, or why there is none.
    SavedRun(Result<(), String>),
    /// To [`Asked::Make`]: the name of the file, whose bytes come in a buffer, or why there is none.
    Made(Result<String, String>),
}
