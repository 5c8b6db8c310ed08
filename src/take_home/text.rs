//! Escapes names from people and files for other languages, so that they stay names: CSV, TSV, HTML, Markdown, Python.

use serde_json::json;

/// A cell of a CSV that a spreadsheet may open: text that it would take for a formula gets an apostrophe in front, as does such
/// text that already begins with apostrophes, so that [`cell_text`] restores every cell. Numbers stay numbers.
pub(super) fn cell(text: &str) -> String {
    let guard = if is_formula(text) { "'" } else { "" };
    format!("{guard}{text}")
}

/// The text of a cell that [`cell`] wrote.
pub(super) fn cell_text(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_formula(text) => text,
        _ => cell,
    }
}

fn is_formula(text: &str) -> bool {
    let inner = text.trim_start_matches('\'');
    inner.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number(inner)
}

/// Tells if a text is a decimal number. By hand: the standard library's parser would be 13 kB of the page.
fn is_number(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, unsigned(exponent)),
        None => (text, "0".to_owned()),
    };
    let digits = unsigned(mantissa).replacen('.', "", 1);
    [digits, exponent]
        .iter()
        .all(|part| !part.is_empty() && are_digits(part))
}

/// A cell of a TSV, which has no quotes: on one line, without tabs.
pub(super) fn tsv(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Text in HTML, within an attribute too.
pub(super) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text in Markdown, within a table too: no markup of Markdown, none of HTML, on one line.
pub(super) fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // An address would become a link by itself.
            ':' if rest.as_str().starts_with("//") => escaped.push_str("&#58;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A Python literal of text or of a list of texts: JSON's are Python's, too.
pub(super) fn python(value: impl serde::Serialize) -> String {
    json!(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_is_a_formula_is_text_and_comes_back() {
        for formula in [
            "=1+1",
            "+cmd|' /C calc'!A0",
            "-x",
            "@SUM(A1)",
            "\t=1",
            "'=1",
            "''@",
            "-",
            "+.",
            "-1e",
            "--1",
            "-1.2.3",
            "+1-2",
        ] {
            let written = cell(formula);
            assert_eq!(written, format!("'{formula}"));
            assert_eq!(cell_text(&written), formula);
        }
        for plain in ["-1", "+2.5e3", "-.5E-3", "-1.", "a=b", "", "'tis", "rose"] {
            assert_eq!(cell(plain), plain);
            assert_eq!(cell_text(plain), plain);
        }
    }

    #[test]
    fn markup_stays_text() {
        let name = "</script><img src=x onerror=\"a('b')\">&|`*[x](http://y)\n# h";
        let (html, markdown) = (html(name), markdown(name));
        for (escaped, what) in [(&html, "HTML"), (&markdown, "Markdown")] {
            assert!(!escaped.contains(['<', '>']), "{what}: {escaped}");
        }
        assert!(!html.contains(['"', '\'']));
        let markup = |c: char| "`*[]|#".contains(c);
        let bare = markdown.match_indices(markup).find(|(at, mark)| {
            let entity = *mark == "#" && markdown[..*at].ends_with('&');
            !entity && !markdown[..*at].ends_with('\\')
        });
        assert_eq!(bare, None, "{markdown}");
        assert!(!markdown.contains('\n'));
        assert_eq!(tsv("a\tb\nc"), "a b c");
        assert_eq!(python("a\"\n'''"), r#""a\"\n'''""#);
    }
}
