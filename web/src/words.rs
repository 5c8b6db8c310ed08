//! Numbers, times and names as a person reads them.

use nearfar::Side;

/// A number with thin spaces between its thousands, from five digits on.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A rough time in words.
pub(crate) fn time(ms: f64) -> String {
    let seconds = ms / 1e3;
    match seconds {
        _ if seconds < 1.0 => "less than a second".to_owned(),
        _ if seconds < 5.0 => format!("about {} s", (2.0 * seconds).round() / 2.0),
        _ if seconds < 10.0 => format!("about {seconds:.0} s"),
        _ if seconds < 90.0 => format!("about {:.0} s", 5.0 * (seconds / 5.0).round()),
        _ if seconds < 5400.0 => format!("about {:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("about {:.0} h", seconds / 3600.0),
        _ if seconds < 63_115_200.0 => format!("about {:.0} days", seconds / 86_400.0),
        _ => format!("about {:.0} years", seconds / 31_557_600.0),
    }
}

/// A text with a capital as its first letter, to begin a sentence.
pub(crate) fn capitalized(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// The name of data as a person reads it.
pub(crate) fn shown_name(name: &str) -> String {
    match name.strip_prefix("sample:") {
        Some(sample) => sample_text(sample).to_owned(),
        None => name.to_owned(),
    }
}

/// The samples in the order of the page; it opens with the first.
pub(crate) const LISTED: [&str; 5] = ["digits", "cells", "mirrored", "many-classes", "large"];

/// Name of a sample on the page.
pub(crate) fn sample_text(name: &str) -> &'static str {
    match name {
        "mirrored" => "Mirrored measurements",
        "many-classes" => "Many classes",
        "digits" => "Handwritten digits",
        "cells" => "Single cells: human and mouse pancreas",
        "large" => "Large: 100,000 rows",
        _ => "Imagined data",
    }
}

/// A side, as an adjective.
pub(crate) fn side_text(side: Side) -> &'static str {
    match side {
        Side::Test => "test",
        Side::Validation => "validation",
        Side::Train => "training",
    }
}
