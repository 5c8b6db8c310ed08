//! Quotations in messages of text that a person or a file wrote: short, on one line, and free of characters that steer a terminal.

/// The most characters of a quotation.
const LONGEST: usize = 40;
/// The most characters of a parser's message.
const LONGEST_SAID: usize = 800;
/// The most names that a message lists.
pub(crate) const LISTED: usize = 12;

/// The text in quotation marks, cut if it is long.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", cut(text))
}

/// The start of the text.
pub(crate) fn cut(text: &str) -> String {
    let mut start = plain(text.chars().take(LONGEST));
    if text.chars().nth(LONGEST).is_some() {
        start.push_str("..");
    }
    start
}

/// A parser's message about a file, made safe to show: it may repeat text of the file.
pub(crate) fn said(error: impl std::fmt::Display) -> String {
    let said = plain(error.to_string().chars());
    match said.char_indices().nth(LONGEST_SAID) {
        Some((end, _)) => format!("{}..", &said[..end]),
        None => said,
    }
}

/// Quoted names with commas; of many names the first, and the number of the others.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut list: Vec<String> = names.by_ref().take(LISTED).map(quoted).collect();
    let more = names.count();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list.join(", ")
}

/// Characters as they are, but for those that move the cursor, colour the screen or turn the direction of the text.
pub(crate) fn plain(text: impl Iterator<Item = char>) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::new();
    for c in text {
        if steers(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_is_short_and_steers_no_terminal() {
        assert_eq!(quoted("château"), "\"château\"");
        assert_eq!(quoted(&"é".repeat(40)), format!("\"{}\"", "é".repeat(40)));
        assert_eq!(quoted(&"é".repeat(41)), format!("\"{}..\"", "é".repeat(40)));
        assert_eq!(
            quoted("\x1b[31mred\x07\n\u{202e}"),
            r#""\u{1b}[31mred\u{7}\n\u{202e}""#
        );
    }

    #[test]
    fn a_list_is_cut_and_says_how_many_are_left() {
        assert_eq!(listed(["a", "b"]), "\"a\", \"b\"");
        let list = listed(vec!["a"; 15]);
        assert!(list.ends_with("\"a\", and 3 more"), "{list}");
    }
}
