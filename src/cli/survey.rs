//! Survey of rows before they are compared: warnings are printed beside the results and are part of the report.

use nearfar::{Distance, Error, Result, RowSource, Survey};

use super::note_line;
use super::progress::Tasks;

/// Surveys rows, each with its name on the command line, and returns the warnings.
///
/// # Errors
/// [`Error::Data`] for zero rows if distances are compared: the similarity does not define the distance of a row without a
/// direction.
pub(super) fn survey(named: &[(&str, &RowSource)], distance: Distance) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let tasks = Tasks::default();
    for (name, rows) in named {
        let found = pollster::block_on(Survey::of(rows, |working| tasks.hear(&working)));
        tasks.finish();
        let found = found?;
        if distance == Distance::L2 && found.zero_rows > 0 {
            return Err(Error::Data(format!(
                "{name}: row {} is zero ({} of {} rows are): a zero row has no direction, so --distance l2 cannot compare it: \
                 leave such rows out, or use --distance cosine",
                found.first_zero + 1,
                found.zero_rows,
                found.rows
            )));
        }
        let said = found.warnings();
        warnings.extend(said.into_iter().map(|warning| format!("{name}: {warning}")));
    }
    for warning in &warnings {
        note_line(format_args!("warning: {warning}"));
    }
    Ok(warnings)
}
