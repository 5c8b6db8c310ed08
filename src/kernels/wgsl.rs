//! The text of shaders, compiled in without its comments, its indents and the spaces beside signs, which only a reader of `shaders/`
//! needs. Lines keep their numbers.

/// The code of files in `shaders/`, one part for each: a file that several shaders share is compiled in once.
macro_rules! wgsl {
    ($($file:literal),+) => {
        &[$({
            const TEXT: &str = include_str!(concat!("../../shaders/", $file));
            const CODE: [u8; $crate::kernels::wgsl::length(TEXT)] = $crate::kernels::wgsl::code(TEXT);
            match str::from_utf8(&CODE) {
                Ok(code) => code,
                Err(_) => unreachable!(),
            }
        }),+]
    };
}
pub(super) use wgsl;

/// Bytes of a text without its comments and indents.
pub(super) const fn length(text: &str) -> usize {
    let (mut at, mut length) = (0, 0);
    while at < text.len() {
        at = past_unread(text.as_bytes(), at);
        if at < text.len() {
            length += 1;
            at += 1;
        }
    }
    length
}

/// A text without its comments, which run from `//` to the end of a line, and without spaces that follow another, begin a line, or
/// stand beside a sign that nothing joins. `LENGTH` is its [`length`].
pub(super) const fn code<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let bytes = text.as_bytes();
    let mut code = [0; LENGTH];
    let (mut at, mut length) = (0, 0);
    while at < bytes.len() {
        at = past_unread(bytes, at);
        if at < bytes.len() {
            code[length] = bytes[at];
            length += 1;
            at += 1;
        }
    }
    code
}

/// The end of what is left out from here on, or here where nothing is.
const fn past_unread(bytes: &[u8], mut at: usize) -> usize {
    while at > 0 && at < bytes.len() && bytes[at] == b' ' && is_needless(bytes, at) {
        at += 1;
    }
    if at + 1 < bytes.len() && bytes[at] == b'/' && bytes[at + 1] == b'/' {
        while at < bytes.len() && bytes[at] != b'\n' {
            at += 1;
        }
    }
    at
}

/// Whether the space there parts nothing.
const fn is_needless(bytes: &[u8], at: usize) -> bool {
    let before = bytes[at - 1];
    let after = if at + 1 < bytes.len() {
        bytes[at + 1]
    } else {
        b' '
    };
    // The end of a type and the sign after it would be one.
    let joins = before == b'>' && after == b'=';
    !joins && (before == b' ' || before == b'\n' || parts(before) || parts(after))
}

/// Whether a sign stands for itself, whatever is next to it. A minus does not, beside another.
const fn parts(sign: u8) -> bool {
    matches!(
        sign,
        b',' | b';' | b':' | b'=' | b'{' | b'}' | b'(' | b')' | b'+' | b'*' | b'?'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_indents_go_and_lines_stay() {
        const TEXT: &str =
            "// What it does: √n.\n  let a = b / c - -1;  // why\n\n    // so\nlet d = 1; /";
        const CODE: [u8; length(TEXT)] = code(TEXT);
        assert_eq!(
            str::from_utf8(&CODE),
            Ok("\nlet a=b / c - -1;\n\n\nlet d=1;/")
        );
    }
}
