//! One name for each class, however files write it. Takes the labels of a file, whatever its format, and gives them as they are
//! compared: text in Unicode NFC without blanks at its ends, numbers that are equal in one spelling.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use unicode_normalization::UnicodeNormalization as _;

use super::Texts;
use crate::base::order;
use crate::base::quote::{LISTED, quoted};

/// Whole numbers below this are exact as f64.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Gives each label its one name. Returns notes on spellings that became one, and on names that look alike and stay apart.
pub(crate) fn settle(labels: &mut Texts) -> Vec<String> {
    let mut spellings: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    // A text without rows is no class.
    let used: BTreeSet<u32> = labels.codes().iter().copied().collect();
    for code in used {
        let label = &labels.distinct()[code as usize];
        let one = name(label).into_owned();
        spellings.entry(one).or_default().push(label);
    }
    let merged = spellings.iter().filter(|(_, written)| written.len() > 1);
    let merged: Vec<String> = merged
        .map(|(one, written)| {
            let written: Vec<String> = written.iter().map(|text| shown(text)).collect();
            format!("{} (written {})", quoted(one), written.join(" and "))
        })
        .collect();
    let mut notes = Vec::new();
    if !merged.is_empty() {
        notes.push(format!("one class, several spellings: {}", few(&merged)));
    }
    notes.extend(look_alike(spellings.keys().map(String::as_str)));
    if spellings
        .iter()
        .any(|(one, written)| written[..] != [one.as_str()])
    {
        *labels = labels.iter().map(name).collect();
    }
    notes
}

/// Note on class names that look alike and stay apart, of one file or of several; none if there are none.
pub fn look_alike<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut alike: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let words = names
        .into_iter()
        .filter(|name| name.parse::<f64>().is_err());
    for name in words {
        alike.entry(outline(name)).or_default().insert(name);
    }
    let alike = alike.into_values().filter(|names| names.len() > 1);
    let together = |names: BTreeSet<&str>| {
        names
            .into_iter()
            .map(quoted)
            .collect::<Vec<_>>()
            .join(" and ")
    };
    let alike: Vec<String> = alike.map(together).collect();
    (!alike.is_empty()).then(|| {
        format!(
            "classes that differ only in capitals, blanks or a mark at the end, and stay apart: {}; where they are one, write them \
             alike",
            few(&alike)
        )
    })
}

/// The first of these texts, and the number of the others.
fn few(all: &[String]) -> String {
    match all.len().saturating_sub(LISTED) {
        0 => all.join(", "),
        more => format!("{} and {more} more", all[..LISTED].join(", ")),
    }
}

/// A spelling for display, in which blanks at the ends, and accents apart from their letters, can be seen.
fn shown(text: &str) -> String {
    let is_mark = |c: char| ('\u{300}'..'\u{370}').contains(&c);
    match text.contains(is_mark) {
        true => format!("{} with accents apart", quoted(text)),
        false => quoted(text),
    }
}

/// The name of a label, the same for all its spellings.
pub(crate) fn name(label: &str) -> Cow<'_, str> {
    let text = label.trim();
    if let Some(number) = number(text) {
        return number.into();
    }
    match text.is_ascii() {
        true => text.into(),
        false => text.nfc().collect::<String>().into(),
    }
}

/// The spelling of a number, the same for equal ones: 101 for "101.0", "+101" and "1.01e2". None for other text; codes are text:
/// "007" stays as it is, and so do numbers larger than f64 tells apart.
fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_code =
        digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    if is_code || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let size = value.abs();
    match value.fract() == 0.0 {
        true if size < EXACT => Some((value as i64).to_string()),
        false if size > 1e-5 => Some(value.to_string()),
        _ => None,
    }
}

/// The name without capitals, blanks, `_`, `-` and the marks at its end.
fn outline(name: &str) -> String {
    let letters = name
        .chars()
        .filter(|c| !c.is_whitespace() && !"_-".contains(*c));
    let letters: String = letters.flat_map(char::to_lowercase).collect();
    letters.trim_end_matches(['.', ',', ';', ':']).to_owned()
}

/// The distinct labels in label order.
pub(crate) fn classes(labels: &[String]) -> Vec<String> {
    let distinct: HashSet<&str> = labels.iter().map(String::as_str).collect();
    ordered(distinct.into_iter().map(str::to_owned).collect())
}

/// Labels in label order, each once.
pub(crate) fn ordered(mut names: Vec<String>) -> Vec<String> {
    order::sort_by(&mut names, Ord::cmp);
    names.dedup();
    let numbers: Option<Vec<i128>> = names.iter().map(|name| name.parse().ok()).collect();
    if let Some(numbers) = numbers {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order::sort_places(&mut order, &|a, b| numbers[a].cmp(&numbers[b]));
        names = order.into_iter().map(|i| names[i].clone()).collect();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_class_become_one_and_it_is_said() {
        for (written, one) in [
            (&["0", "0.0", "0.000e+00", "-0", " 0"][..], "0"),
            (&["101", "101.0", "1.01e2", "+101"], "101"),
            (&["-1", "-1.0"], "-1"),
            (&["0.1", ".1", "0.10", "1e-1"], "0.1"),
            (&["ash", "ash ", "\u{a0}ash", "ash\t"], "ash"),
            (&["caf\u{e9}", "cafe\u{301}"], "caf\u{e9}"),
            (&["\u{1112}\u{1161}\u{11ab}", "\u{d55c}"], "\u{d55c}"),
        ] {
            let mut labels: Texts = written.iter().collect();
            let notes = settle(&mut labels);
            assert!(
                labels.iter().all(|label| label == one),
                "{written:?}: {labels:?}"
            );
            let start = format!("one class, several spellings: {} (written ", quoted(one));
            assert!(notes[0].starts_with(&start), "{notes:?}");
            assert_eq!(notes.len(), 1);
        }
    }

    #[test]
    fn what_may_be_two_classes_stays_two() {
        for [one, other] in [
            ["007", "7"],
            ["ash", "Ash"],
            ["a b", "ab"],
            ["1", "1a"],
            ["<=50K", "<=50K."],
            ["9007199254740993", "9007199254740992"],
            ["\u{17f}", "s"],
            ["\u{ff11}", "1"],
        ] {
            let mut labels: Texts = [one, other].iter().collect();
            settle(&mut labels);
            assert_eq!(labels, [one, other][..]);
        }
        let mut labels: Texts = ["ash", "ASH", "oak", "C", "C++"].iter().collect();
        let notes = settle(&mut labels);
        let said = "classes that differ only in capitals, blanks or a mark at the end, and stay apart: \"ASH\" and \"ash\"; ";
        assert!(notes.len() == 1 && notes[0].starts_with(said), "{notes:?}");
        let mut plain: Texts = ["1.5", "15", "", "nan"].iter().collect();
        assert_eq!(settle(&mut plain), [""; 0]);
    }

    fn names(labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    #[test]
    fn integer_labels_are_ordered_as_numbers_and_others_as_text() {
        assert_eq!(
            classes(&names(&["10", "9", "-1", "9"])),
            names(&["-1", "9", "10"])
        );
        assert_eq!(classes(&names(&["10", "9", "b"])), names(&["10", "9", "b"]));
    }
}
