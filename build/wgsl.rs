//! The text of shaders, made smaller.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A text without its comments, which run from `//` to the end of a line, and without spaces that part nothing. Lines keep their
/// numbers.
pub(crate) fn packed(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(' ').filter(|word| !word.is_empty());
        let mut line = words.next().unwrap_or_default().to_owned();
        for word in words {
            if needs_space(&line, word) {
                line.push(' ');
            }
            line += word;
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same on one line.
pub(crate) fn joined(text: &str) -> String {
    packed(&text.replace('\n', " "))
}

/// Whether two pieces of code would be read otherwise without a space: two words, or two signs that could be one.
fn needs_space(before: &str, after: &str) -> bool {
    let stands_alone = |sign: char| ",;:{}()[]@".contains(sign);
    match (before.ends_with(belongs), after.starts_with(belongs)) {
        (true, true) => true,
        (false, false) => !before.ends_with(stands_alone) && !after.starts_with(stands_alone),
        _ => false,
    }
}

/// Whether a sign is part of a word or a number.
fn belongs(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// The words of a text, and what stands between them, in turn: numbers are no words.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut left = text;
    std::iter::from_fn(move || {
        let is_word = left.starts_with(belongs);
        let end = left
            .find(|sign| belongs(sign) != is_word)
            .unwrap_or(left.len());
        let (piece, rest) = left.split_at(end);
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn is_word(piece: &str) -> bool {
    piece.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_')
}

/// A short name for every name of at least three letters that the shaders give: the shortest for the one that takes most room. What
/// one shader calls `row` has the same name in all, as files are joined. Left as they are: entry points and overrides, which Rust
/// calls by name, and what is WGSL's own somewhere.
pub(crate) fn short_names<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let mut room = BTreeMap::new();
    let [mut given, mut defined, mut called, mut kept] = [const { BTreeSet::new() }; 4];
    for text in texts {
        let pieces: Vec<&str> = pieces(text).collect();
        let mut is_entry = false;
        for at in (0..pieces.len()).filter(|&at| is_word(pieces[at])) {
            let word = pieces[at];
            *room.entry(word).or_insert(0) += word.len();
            let before = |back: usize| at.checked_sub(back).map_or("", |at| pieces[at]);
            let after = pieces.get(at + 1).unwrap_or(&"");
            is_entry |= word == "compute";
            if after.starts_with('(') {
                called.insert(word);
            }
            let is_named = before(1) == " ";
            match before(2) {
                "fn" if is_named && is_entry => {
                    kept.insert(word);
                    is_entry = false;
                }
                "fn" | "struct" if is_named => {
                    defined.insert(word);
                }
                "const" | "let" | "var" if is_named => {
                    given.insert(word);
                }
                "builtin" | "override" => {
                    kept.insert(word);
                }
                // A parameter, a field or a variable of a given type.
                _ if after.starts_with(':') && word != "default" => {
                    given.insert(word);
                }
                _ => {}
            }
        }
    }
    kept.extend(called.difference(&defined));
    let all = given.union(&defined).copied();
    let mut names: Vec<&str> = all
        .filter(|name| name.len() > 2 && !kept.contains(name))
        .collect();
    names.sort_by_key(|name| (Reverse(room[name]), *name));
    let letters = || ('a'..='z').chain('A'..='Z').map(String::from);
    let with_digit =
        letters().flat_map(|letter| (0..10).map(move |digit| format!("{letter}{digit}")));
    let free = letters()
        .chain(with_digit)
        .filter(|name| !room.contains_key(name.as_str()));
    names.into_iter().zip(free).collect()
}

/// A text with other names.
pub(crate) fn renamed(text: &str, names: &BTreeMap<&str, String>) -> String {
    pieces(text)
        .map(|piece| names.get(piece).map_or(piece, String::as_str))
        .collect()
}
