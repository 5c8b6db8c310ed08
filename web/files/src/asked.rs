//! Messages between the page's worker and the worker that reads and writes files: questions and answers. Files or buffers follow
//! each message. Both crates compile this file.

use nearfar::{Columns, Cure, Labelled, Labels, Missing, Piece, RowsOf, Working};
use serde::{Deserialize, Serialize};

/// Hash of the code, which ends each message: a new version may be published while the page is open.
pub(crate) const CODE: &[u8] = env!("NEARFAR_CODE").as_bytes();

/// A question to the worker, which is ended once it has answered.
#[derive(Deserialize, Serialize)]
pub(crate) enum Asked {
    /// Reads the rows of the file that follows, with the labels of a second file if one follows.
    Rows {
        /// The column or array of the labels.
        label: Option<String>,
        /// Columns of a table that are features, and those that settings name.
        columns: Columns,
        /// Treatment of cells without a number.
        missing: Option<Missing>,
    },
    /// Reads the labels in the file that follows.
    Labels {
        /// The column or array of the labels.
        label: Option<String>,
        /// Columns that settings name; they are no labels.
        columns: Columns,
        /// Treatment of rows without a label.
        missing: Option<Missing>,
        /// Name of the file whose rows the labels belong to.
        of: String,
        /// Number of rows in that file.
        rows: usize,
    },
    /// Reads the checkpoint in the file that follows, which is of an exported run.
    SavedRun,
    /// Estimates the bytes of each piece of the run that follows as [`nearfar::Taken`].
    Sizes {
        /// The pieces.
        pieces: Vec<Piece>,
        /// Rows for the pieces that are made of rows.
        side: RowsOf,
    },
    /// Makes a piece of the run that follows.
    Make {
        /// The piece.
        piece: Piece,
    },
    /// Names the tensor that a text's script ran out of memory with.
    Diagnose {
        /// A traceback, or the lines of a setup.
        text: String,
    },
}

/// Message of a refusal, and the choice that would make the file readable.
pub(crate) type Refused = (String, Cure);

/// Names of the columns or arrays that could be labels, and the result of reading.
pub(crate) type Read<T> = (Vec<String>, Result<T, Refused>);

/// A program that can use a run, the piece whose file its lines of code read, and the lines.
pub(crate) type Code = (String, Piece, String);

/// The answer to a question.
#[derive(Deserialize, Serialize)]
pub(crate) enum Answer {
    /// Progress of reading; more answers follow.
    Working(Working),
    /// Answers [`Asked::Rows`]; the feature values follow in a buffer.
    Rows(Box<Read<Labelled>>),
    /// Answers [`Asked::Labels`].
    Labels(Box<Read<Labels>>),
    /// Answers [`Asked::Sizes`]; with them come lines of code for each program that can use the run.
    Sizes(Vec<(Piece, Option<u64>)>, Vec<Code>),
    /// Answers [`Asked::SavedRun`]: the checkpoint follows in a buffer, or the error says why there is none.
    SavedRun(Result<(), String>),
    /// Answers [`Asked::Make`]: the file's name, with its bytes in a buffer, or why there is no file.
    Made(Result<String, String>),
    /// Answers [`Asked::Diagnose`]: the lines, each with its heading.
    Diagnosed(Vec<(String, String)>),
}
