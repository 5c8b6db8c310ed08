//! Values that can be used: finite, and small enough to square. Others are refused with their place.

use super::Missing;
use crate::base::error::{Error, Result};

/// Advice on a value that is not finite, if no treatment can be chosen for it.
const FIX_VALUES: &str = "fill or drop such rows";

/// Index of the first value whose square, summed over a row of `dim` such values, is not finite in f32.
fn too_large(values: &[f32], dim: usize) -> Option<usize> {
    if all_are_small(values, dim) {
        return None;
    }
    let most = f64::from(f32::MAX) / dim.max(1) as f64;
    values
        .iter()
        .position(|value| f64::from(*value).powi(2) >= most)
}

/// Refuses rows with a value whose square, summed over a row, is not finite in f32; `rows` are the rows' numbers.
///
/// # Errors
/// [`Error::Data`] with the first such value and its place.
pub(crate) fn check_squares(rows: &[u32], values: &[f32], dim: usize) -> Result<()> {
    match too_large(values, dim) {
        None => Ok(()),
        Some(at) => Err(Error::Data(format!(
            "row {}, column {}: {:e} is too large to square: scale the rows",
            rows[at / dim] + 1,
            at % dim + 1,
            values[at]
        ))),
    }
}

/// Tells if all values are finite and far from too large to square. Nearly always they are; the loop has no branch for a value.
pub(crate) fn all_are_small(values: &[f32], dim: usize) -> bool {
    let small = (f64::from(f32::MAX) / dim.max(1) as f64).sqrt() as f32 / 2.0;
    let small = |all, value: &f32| all & (value.abs() < small);
    values.iter().fold(true, small)
}

/// As [`check_values`], but with the choices for cells without a number in the error.
pub(crate) fn check_cells(name: &str, values: &[f32], dim: usize, first: usize) -> Result<()> {
    let is_finite = || values.iter().all(|value| value.is_finite());
    match check_values(name, values, dim, first) {
        Err(Error::Data(message)) if !is_finite() => {
            Err(Error::Cells(message.replace(FIX_VALUES, Missing::ADVICE)))
        }
        checked => checked,
    }
}

/// Refuses a value that is not finite, or so large that its square is not; `values` begin with row `first`.
pub(crate) fn check_values(name: &str, values: &[f32], dim: usize, first: usize) -> Result<()> {
    if all_are_small(values, dim) {
        return Ok(());
    }
    let infinite = values.iter().position(|value| !value.is_finite());
    let (at, problem) = match (infinite, too_large(values, dim)) {
        (None, None) => return Ok(()),
        (Some(at), _) => (at, format!("the value is not finite: {FIX_VALUES}")),
        // Larger numbers of 64 bits were read as this one.
        (None, Some(at)) if values[at].abs() == f32::MAX => {
            let problem = "too large for 32-bit floats (3.4e38 at most): scale the features";
            (at, problem.to_owned())
        }
        (None, Some(at)) => {
            let value = values[at];
            let problem = format!("{value:e} is too large to square: scale the features");
            (at, problem)
        }
    };
    let (row, column) = (first + at / dim + 1, at % dim + 1);
    Err(Error::Data(format!(
        "{name}: row {row}, column {column}: {problem}"
    )))
}

/// Adds the number of such cells to the refusal of the first cell without a number.
pub(crate) fn counted(error: Error, values: &[f32]) -> Error {
    let count = values.iter().filter(|value| !value.is_finite()).count();
    match error {
        Error::Cells(message) if count > 1 => {
            let one = format!("the value is not finite, one of {count} such cells");
            Error::Cells(message.replace("the value is not finite", &one))
        }
        error => error,
    }
}
