//! [`Missing`]: treatment of cells that hold no number, as chosen, and what is said of cells and labels that are missing.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::base::quote::listed;

/// Treatment of cells that are empty, not finite, or no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The file is refused, with the first such cell.
    #[default]
    Refuse,
    /// Rows with such a cell are left out, and rows without a label.
    DropRows,
    /// Columns with such a cell are left out.
    DropColumns,
    /// Such a cell gets the median of the numbers in its column.
    Median,
}

impl Missing {
    /// All treatments, with the names that settings use and a description.
    pub const ALL: [(&'static str, Self, &'static str); 4] = [
        ("refuse", Self::Refuse, "refuse the file"),
        ("drop-rows", Self::DropRows, "leave such rows out"),
        ("drop-columns", Self::DropColumns, "leave such columns out"),
        ("median", Self::Median, "fill with the median of the column"),
    ];

    /// Advice on such cells, for the end of a refusal.
    pub(crate) const ADVICE: &str = "choose what becomes of such cells";

    /// The treatment of this name.
    ///
    /// # Errors
    /// [`Error::Config`] with the names there are.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, ..)| *known == name);
        found.map(|(_, policy, _)| *policy).ok_or_else(|| {
            let known = Self::ALL.map(|(name, ..)| name);
            Error::Config(format!("missing: expected {}", known.join(", ")))
        })
    }

    /// Error that every row or column was left out.
    pub(crate) fn nothing_left(self, name: &str) -> Error {
        let what = match self {
            Self::DropColumns => "column",
            _ => "row",
        };
        Error::Cells(format!(
            "{name}: every {what} holds a cell without a number, and nothing is left of the features: choose otherwise what becomes of such \
             cells"
        ))
    }
}

/// Note on rows that were left out, `left_out` of `rows`.
pub(crate) fn rows_note(left_out: usize, rows: usize) -> String {
    format!(
        "left out {left_out} of {rows} rows, in which a cell holds no number or the label is missing"
    )
}

/// Note on columns that were left out; some may have no names.
pub(crate) fn columns_note(left_out: &[usize], names: &[String]) -> String {
    let name = |column: &usize| match names.get(*column) {
        Some(name) => name.clone(),
        None => format!("column {}", column + 1),
    };
    let names: Vec<String> = left_out.iter().map(name).collect();
    let names = listed(names.iter().map(String::as_str));
    format!("left out, as a cell holds no number: {names}")
}

/// Note on cells that were filled.
pub(crate) fn filled_note(cells: u64) -> String {
    let cells = match cells {
        1 => "1 cell that holds".to_owned(),
        _ => format!("{cells} cells that hold"),
    };
    format!("filled {cells} no number with the median of the column")
}

/// Tells if a label stands for a missing one, as pandas, NumPy and R write it, apart from blanks at its ends. Case counts: `Na` may
/// be sodium.
pub(crate) fn is_missing_label(label: &str) -> bool {
    [
        "", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "NaT",
    ]
    .contains(&label.trim())
}

/// Refusal of rows without a label; `can_drop` if they can be left out while reading.
pub(crate) fn no_label(message: String, can_drop: bool) -> Error {
    match can_drop {
        true => Error::NoLabel(message),
        false => Error::Data(message),
    }
}

/// Advice on a missing label; `can_drop` if such rows can be left out while reading.
pub(crate) fn advice_on_missing(label: &str, can_drop: bool) -> String {
    let how = match can_drop {
        true if cfg!(target_arch = "wasm32") => " (\"leave such rows out\" does)",
        true => " (--missing drop-rows does)",
        false => "",
    };
    let drop = format!("every row needs a label: drop the rows without one{how}");
    match label.trim() {
        "" => drop,
        _ => format!(
            "{drop}, or, where {label} is the name of a class, give it another name, such as \"{label}_\""
        ),
    }
}
