//! Vectors in the cells of a table, in every format alike: notations of a vector in text, and the choice of the column of features
//! among several.

use crate::base::error::{Error, Result};
use crate::base::quote::{listed, quoted};

/// Words that Python writes before the brackets of an array.
const CALLS: [&str; 5] = [
    "array(",
    "np.array(",
    "numpy.array(",
    "tensor(",
    "torch.tensor(",
];
/// Message about a list that NumPy or pandas printed in short.
pub(super) const CUT_SHORT: &str = "holds a list that was cut short with \"...\": save the table with pandas' .to_parquet(..), which keeps every number";
/// Floats that base64 holds at least: the bytes of fewer may be ordinary numbers by chance.
const FEWEST_IN_BASE64: usize = 8;

/// The numbers of a text that holds a vector; none for other text, and for a single number.
///
/// A vector is a list as Python, NumPy, PyTorch and databases write it (`[0.5, 1]`, `[0.5 1.]`, `(0.5, 1)`, `{0.5,1}`, `array([0.5,
/// 1.])`), numbers most of which have a fraction (`0.5 0.25`, `0.5;0.25`), or 32-bit floats in base64.
pub(super) fn of_text(text: &str) -> Option<Vec<f32>> {
    let text = text.trim();
    let found = in_brackets(text).or_else(|| without(text));
    found
        .or_else(|| of_base64(text))
        .filter(|numbers| numbers.len() > 1)
}

/// Problem with a text that is no vector of `dim` numbers, the length of the one in the first `row` (a line or a row).
pub(super) fn problem(text: &str, dim: usize, row: &str) -> String {
    match (of_text(text), text.contains("...")) {
        (Some(values), _) => {
            let len = values.len();
            format!("holds {len} numbers, expected {dim} as in the first {row}")
        }
        (None, true) => CUT_SHORT.to_owned(),
        (None, false) => format!(
            "holds {}, expected {dim} numbers as in the first {row}; where it is no vector, leave the column out (on the command line --ignore)",
            quoted(text)
        ),
    }
}

fn in_brackets(text: &str) -> Option<Vec<f32>> {
    let call = CALLS.iter().find_map(|call| text.strip_prefix(call));
    let text = match call {
        // Text after the list gives its type.
        Some(inner) => &inner[..=inner.rfind(']')?],
        None => text,
    };
    // Accounting writes negative numbers as `(1,200)`.
    if text.starts_with('(') && !text.contains([' ', '.', 'e']) {
        return None;
    }
    let pairs = [('[', ']'), ('(', ')'), ('{', '}')];
    let inner = |text: &'_ str| {
        let bare = |(open, close)| text.strip_prefix(open)?.strip_suffix(close);
        pairs
            .into_iter()
            .find_map(bare)
            .map(str::trim)
            .map(str::to_owned)
    };
    let list = inner(text)?;
    // One row of a matrix is a vector.
    let list = inner(&list).unwrap_or(list);
    let number = |text: &str| match text {
        "None" | "null" | "NULL" => Some(f32::NAN),
        text => text.parse().ok(),
    };
    let list = list.strip_suffix(',').unwrap_or(&list);
    match list.contains(',') {
        true => list.split(',').map(|text| number(text.trim())).collect(),
        false => list.split_whitespace().map(number).collect(),
    }
}

/// Numbers without brackets: most have a fraction, unlike the parts of a date, a telephone number or thousands.
fn without(text: &str) -> Option<Vec<f32>> {
    let mark = text.chars().find(|mark| [',', ';', '|'].contains(mark));
    let parts: Vec<&str> = match mark {
        Some(mark) => text.split(mark).map(str::trim).collect(),
        None => text.split_whitespace().collect(),
    };
    let fractions = parts.iter().filter(|part| part.contains(['.', 'e', 'E']));
    if 2 * fractions.count() <= parts.len() {
        return None;
    }
    parts.iter().map(|part| part.parse().ok()).collect()
}

/// The little-endian 32-bit floats of base64, if all are of an ordinary size: those of other bytes hardly ever are.
fn of_base64(text: &str) -> Option<Vec<f32>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if digits.len() < 4 * FEWEST_IN_BASE64 * 4 / 3 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut held, mut bits) = (0u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (held, bits) = (held << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    let (floats, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    let floats = floats.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let floats: Vec<f32> = floats.collect();
    let is_ordinary = |float: &f32| *float == 0.0 || (1e-8..1e8).contains(&float.abs());
    let is_vector =
        floats.iter().all(is_ordinary) && floats.iter().any(|float| float.fract() != 0.0);
    is_vector.then_some(floats)
}

/// Index of the list that holds the features, among lists with their lengths: the wanted one, or else the first of the longest.
/// None if there is no list.
///
/// # Errors
/// [`Error::Data`] if there is no list of the wanted name.
pub(super) fn choose(
    file: &str,
    lists: &[(&str, usize)],
    wanted: Option<&str>,
) -> Result<Option<usize>> {
    let Some(wanted) = wanted else {
        let longest = lists.iter().map(|(_, dim)| *dim).max();
        return Ok(lists.iter().position(|(_, dim)| Some(*dim) == longest));
    };
    let found = lists.iter().position(|(name, _)| *name == wanted);
    found.map(Some).ok_or_else(|| {
        let there = match lists {
            [] => "there is none".to_owned(),
            _ => format!("there are: {}", listed(lists.iter().map(|(name, _)| *name))),
        };
        Error::Data(format!(
            "{file}: {} is no column of lists of numbers; {there}",
            quoted(wanted)
        ))
    })
}

/// Note on the list that was taken if there are others, with the way to take one of those.
pub(super) fn note(
    file: &str,
    taken: &str,
    wanted: Option<&str>,
    others: &[String],
) -> Option<String> {
    let first = others.first()?;
    let why = match wanted {
        Some(_) => "as chosen",
        None => "the first of the longest lists",
    };
    Some(format!(
        "the features are the numbers of {} ({why}); other lists of numbers: {}; on the command line {file}:{first} takes that one",
        quoted(taken),
        listed(others.iter().map(String::as_str))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_read_however_text_holds_it_and_other_text_is_none() {
        for text in [
            "[0.5, -1e-3, 2]",
            "[ 0.5 -0.001\n 2. ]",
            "(0.5, -0.001, 2)",
            "{0.5,-0.001,2}",
            "[0.5, -0.001, 2,]",
            "[[0.5, -0.001, 2.0]]",
            "array([ 0.5  , -0.001,  2.   ], dtype=float32)",
            "tensor([0.5000, -1.0e-3, 2.0000])",
            "0.5 -0.001 2",
            "0.5, -0.001, 2.0",
            "0.5;-0.001;2",
            "0.5|-1e-3|2.0",
        ] {
            assert_eq!(of_text(text), Some(vec![0.5, -1e-3, 2.0]), "{text}");
        }
        assert!(of_text("[1, None]").is_some_and(|numbers| numbers[1].is_nan()));
        for text in [
            "",
            "0.5",
            "[0.5]",
            "ash",
            "1,234.50",
            "(1,200)",
            "1,234,567.89",
            "0,5",
            "2024 11 27",
            "192.168.1.1",
            "2024.11.27",
            "[a, b]",
            "555 123 4567",
            "12 kg",
            "1.5 kg",
            "[1, 2",
            "v1.2 v1.3",
            "(x)",
            "[]",
            "()",
            "[1 ... 3]",
            "array(x)",
        ] {
            assert_eq!(of_text(text), None, "{text}");
        }
    }

    #[test]
    fn floats_in_base64_are_a_vector_and_hashes_are_none() {
        // `base64.b64encode(np.array([0.5, -1.25, 3, 0, 1e-3, 2, 7.5, -0.125], "f4"))`
        let text = "AAAAPwAAoL8AAEBAAAAAAG8SgzoAAABAAADwQAAAAL4=";
        let numbers = vec![0.5, -1.25, 3.0, 0.0, 1e-3, 2.0, 7.5, -0.125];
        assert_eq!(of_text(text), Some(numbers.clone()));
        assert_eq!(of_text(text.trim_end_matches('=')), Some(numbers));
        // SHA-256 in base64 and in hex, a word, and random letters.
        let mut state = 1u64;
        let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for round in 0..20_000 {
            let (most, length) = [(64, 43), (16, 64), (52, 48)][round % 3];
            let mut text = String::new();
            for _ in 0..length {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let digit = (state >> 33) as usize % most;
                let digit = if most == 16 {
                    b"0123456789abcdef"[digit]
                } else {
                    digits[digit]
                };
                text.push(char::from(digit));
            }
            assert_eq!(of_text(&text), None, "{text}");
        }
    }
}
