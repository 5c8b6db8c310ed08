//! Rows whose label means that they have no class: -1, as scikit-learn and HDBSCAN write it, or a word such as "Unknown". Takes the
//! labels of a file, finds those that mean no class, and leaves their rows out.

use super::aside::set_aside;
use super::mended::keep_rows;
use super::{Labelled, Texts};
use crate::base::error::{Error, Result};
use crate::base::quote::{LISTED, quoted};

/// Words that mean no class, whatever their case.
const WORDS: [&str; 14] = [
    "unknown",
    "unlabelled",
    "unlabeled",
    "unassigned",
    "unannotated",
    "undefined",
    "undetermined",
    "not labelled",
    "not labeled",
    "not assigned",
    "no label",
    "no class",
    "missing",
    "?",
];
/// Words that may mean no class, and are classes of their own in other data.
const UNSURE: [&str; 4] = ["noise", "other", "outlier", "unclassified"];
/// Labels from 0 on at least, beside which -1 means no class: two of them and -1 may be three classes.
const FEWEST_FROM_ZERO: usize = 3;
/// Setting that takes every label for a class.
pub(super) const NONE: &str = "none";

/// Labels that mean no class.
#[derive(Debug, Default, PartialEq)]
struct Marks {
    sure: Vec<String>,
    unsure: Vec<String>,
}

/// Finds the labels that mean no class by the labels alone.
fn marks(labels: &[String]) -> Marks {
    let mut marks = Marks::default();
    for label in labels {
        let is = |word: &&str| label.eq_ignore_ascii_case(word);
        if WORDS.iter().any(is) {
            marks.sure.push(label.clone());
        } else if UNSURE.iter().any(is) {
            marks.unsure.push(label.clone());
        }
    }
    let numbers = labels.iter().filter_map(|label| label.parse::<i64>().ok());
    let numbers: Vec<i64> = numbers.filter(|number| *number != -1).collect();
    let others = labels.len() - marks.sure.len() - marks.unsure.len();
    // -1 beside all of 0, 1, 2, ..
    let from_zero = numbers
        .iter()
        .all(|number| (0..numbers.len() as i64).contains(number));
    if from_zero && numbers.len() + 1 == others && labels.iter().any(|label| label == "-1") {
        match numbers.len() {
            FEWEST_FROM_ZERO.. => marks.sure.push("-1".to_owned()),
            2 => marks.unsure.push("-1".to_owned()),
            _ => {}
        }
    }
    // At least two classes have to be left.
    if others < 2 {
        marks.unsure.append(&mut marks.sure);
    }
    marks
}

/// Leaves out the rows whose label is one of `chosen`, or, if nothing is chosen and rows may be left out, surely means no class.
/// Adds notes on that, and on labels that may mean no class.
///
/// # Errors
/// [`Error::Data`] if no row is left.
pub(crate) fn settle(
    rows: &mut Labelled,
    chosen: Option<&[String]>,
    may_leave_out: bool,
) -> Result<()> {
    let used = Used::of(&rows.labels);
    let (out, unsure) = match chosen {
        Some(chosen) => {
            let is_chosen = |label: &&String| chosen.contains(label);
            (
                used.names.iter().filter(is_chosen).cloned().collect(),
                Vec::new(),
            )
        }
        None => {
            let marks = marks(&used.names);
            match may_leave_out {
                true => (marks.sure, marks.unsure),
                false => (Vec::new(), [marks.sure, marks.unsure].concat()),
            }
        }
    };
    let unknown = chosen.unwrap_or_default().iter();
    let unknown = unknown.filter(|label| *label != NONE && !used.names.contains(label));
    let unknown: Vec<String> = unknown.cloned().collect();
    if !unknown.is_empty() {
        rows.notes
            .push(format!("no row is labelled {}", named(&unknown)));
    }
    rows.notes.extend(used.may_mean_none(&unsure));
    if out.is_empty() {
        return Ok(());
    }
    if out.len() == used.names.len() {
        return Err(Error::Data(format!(
            "{}: every row is labelled {}, which is said to mean no class: no row is left",
            rows.name,
            named(&out)
        )));
    }
    let why = match chosen {
        Some(_) => "as chosen".to_owned(),
        None => format!("on the command line --unlabelled={NONE} takes this label for a class"),
    };
    rows.notes.push(format!(
        "left out {} of {} rows, which have no class: they are labelled {} ({why})",
        used.count(&out),
        rows.labels.len(),
        named(&out)
    ));
    let keep: Vec<bool> = rows
        .labels
        .iter()
        .map(|label| !out.iter().any(|out| out == label))
        .collect();
    set_aside(rows, &keep);
    keep_rows(rows, &keep);
    Ok(())
}

/// Note on labels that mean, or may mean, that rows have no class, if none is left out.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn note(labels: &Texts) -> Option<String> {
    let used = Used::of(labels);
    let marks = marks(&used.names);
    used.may_mean_none(&[marks.sure, marks.unsure].concat())
}

/// Labels as they are shown.
fn named(labels: &[String]) -> String {
    let shown: Vec<String> = labels
        .iter()
        .take(LISTED)
        .map(|label| quoted(label))
        .collect();
    shown.join(" and ")
}

/// The labels that rows have, and the number of rows of each.
struct Used {
    names: Vec<String>,
    counts: Vec<usize>,
}

impl Used {
    fn of(labels: &Texts) -> Self {
        let mut counts = vec![0; labels.distinct().len()];
        for code in labels.codes() {
            counts[*code as usize] += 1;
        }
        let used = labels.distinct().iter().zip(counts);
        let used = used.filter(|(_, count)| *count > 0);
        let (names, counts) = used.map(|(name, count)| (name.to_string(), count)).unzip();
        Self { names, counts }
    }

    /// Note that rows with these labels may have no class; none if there are no such labels.
    fn may_mean_none(&self, unsure: &[String]) -> Option<String> {
        (!unsure.is_empty()).then(|| {
            format!(
                "{} of {} rows are labelled {}, which may mean that they have no class: on the command line --unlabelled={} leaves \
                 them out",
                self.count(unsure),
                self.counts.iter().sum::<usize>(),
                named(unsure),
                unsure.join(",")
            )
        })
    }

    fn count(&self, names: &[String]) -> usize {
        let all = self.names.iter().zip(&self.counts);
        let counted = all.filter(|(name, _)| names.contains(name));
        counted.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_no_class_is_told_by_the_labels_beside_it() {
        for (labels, sure, unsure) in [
            (&["0", "1", "2", "-1"][..], &["-1"][..], &[][..]),
            // A feeling may be negative.
            (&["-1", "0", "1"], &[], &["-1"]),
            (&["-1", "1"], &[], &[]),
            (&["-2", "-1", "0", "1", "2"], &[], &[]),
            (&["-1", "0", "2", "3"], &[], &[]),
            (&["B cell", "T cell", "Unknown"], &["Unknown"], &[]),
            (
                &["oak", "elm", "unlabelled", "noise"],
                &["unlabelled"],
                &["noise"],
            ),
            (&["known", "unknown"], &[], &["unknown"]),
            (&["unknown author", "oak", "elm"], &[], &[]),
        ] {
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            let found = marks(&labels);
            assert_eq!(
                (&found.sure[..], &found.unsure[..]),
                (
                    &sure
                        .iter()
                        .map(|mark| (*mark).to_owned())
                        .collect::<Vec<_>>()[..],
                    &unsure
                        .iter()
                        .map(|mark| (*mark).to_owned())
                        .collect::<Vec<_>>()[..]
                ),
                "{labels:?}"
            );
        }
    }
}
