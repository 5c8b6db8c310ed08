//! Words, numbers and marks of a text: Python code, a traceback and prose alike.

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name, or a word of prose, as it stands.
    Word(String),
    /// A number, `120K`, `1e6` and `65_536` among them.
    Number(f64),
    /// A text in quotes, without them.
    Quoted(String),
    /// Any other character.
    Mark(char),
    /// The end of a line.
    End,
}

impl Token {
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn is(&self, mark: char) -> bool {
        *self == Self::Mark(mark)
    }
}

/// The most characters that are read of a text.
const MOST: usize = 200_000;

/// Cuts a text into its tokens.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().take(MOST).collect();
    let (mut found, mut at, mut depth) = (Vec::new(), 0, 0usize);
    while at < chars.len() {
        let c = chars[at];
        let rest = &chars[at..];
        let (token, length) = if c.is_alphabetic() || c == '_' {
            word(rest)
        } else if c.is_ascii_digit() {
            number(rest, depth == 0)
        } else if let Some(quoted) = quoted(rest) {
            quoted
        } else {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let token = if c == '\n' {
                Token::End
            } else {
                Token::Mark(c)
            };
            (token, 1)
        };
        if token == Token::End || !c.is_whitespace() {
            found.push(token);
        }
        at += length;
    }
    found
}

fn word(chars: &[char]) -> (Token, usize) {
    let is_part = |c: &&char| c.is_alphanumeric() || **c == '_';
    let word: String = chars.iter().take_while(is_part).collect();
    let length = word.chars().count();
    (Token::Word(word), length)
}

/// A number with its unit of thousands or millions. In prose a comma may part its thousands; in brackets it parts two numbers.
fn number(chars: &[char], in_prose: bool) -> (Token, usize) {
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let (mut text, mut at) = (String::new(), 0);
    while let Some(&c) = chars.get(at) {
        // In brackets a noun must follow: `(11,659 queries)`.
        let noun = || {
            chars.get(at + 4) == Some(&' ') && chars.get(at + 5).is_some_and(|c| c.is_alphabetic())
        };
        let parts_thousands = c == ','
            && (1..=3).all(|next| digit(at + next))
            && !digit(at + 4)
            && (in_prose || noun())
            && text.len() <= 9;
        match c {
            '0'..='9' => text.push(c),
            '_' if digit(at + 1) => {}
            ',' if parts_thousands => {}
            '.' if digit(at + 1) && !text.contains(['.', 'e']) => text.push(c),
            'e' | 'E' if digit(at + 1) && !text.contains('e') => text.push('e'),
            'e' | 'E'
                if chars.get(at + 1).is_some_and(|c| "+-".contains(*c))
                    && digit(at + 2)
                    && !text.contains('e') =>
            {
                text.push('e');
                text.push(chars[at + 1]);
                at += 1;
            }
            _ => break,
        }
        at += 1;
    }
    let ends = |at: usize| {
        !chars
            .get(at)
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
    };
    let unit = match chars.get(at) {
        Some('k' | 'K') if ends(at + 1) => 1e3,
        Some('M') if ends(at + 1) => 1e6,
        _ => 1.0,
    };
    let length = if unit > 1.0 { at + 1 } else { at };
    (
        Token::Number(text.parse().unwrap_or(0.0) * unit),
        length.max(1),
    )
}

/// A short text in quotes on one line.
fn quoted(chars: &[char]) -> Option<(Token, usize)> {
    let mark = *chars.first().filter(|c| ['"', '\''].contains(c))?;
    let inner = chars[1..].iter().take(200);
    let end = inner.take_while(|c| **c != '\n').position(|c| *c == mark)?;
    let text: String = chars[1..=end].iter().collect();
    // An apostrophe of prose opens nothing.
    let is_name = |c: char| c.is_alphanumeric() || "_-./@: ".contains(c);
    text.chars()
        .all(is_name)
        .then_some((Token::Quoted(text), end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let numbers =
            |text: &str| -> Vec<f64> { tokens(text).iter().filter_map(Token::number).collect() };
        assert_eq!(
            numbers("65_536 and 1e6, 120K or 3.81 GiB"),
            [65_536.0, 1e6, 120e3, 3.81]
        );
        assert_eq!(numbers("59,551 images"), [59_551.0]);
        assert_eq!(numbers("(11,659 queries)"), [11_659.0]);
        assert_eq!(numbers("torch.randn(256,128)"), [256.0, 128.0]);
        assert_eq!(numbers("lr 3e-4"), [3e-4]);
    }

    #[test]
    fn an_apostrophe_hides_nothing() {
        let words = |text: &str| -> Vec<String> {
            tokens(text)
                .iter()
                .filter_map(Token::word)
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(words("it's k=None, isn't it")[..3], ["it", "s", "k"]);
        assert_eq!(
            tokens("k='max_bin_count'")[2],
            Token::Quoted("max_bin_count".into())
        );
    }
}
