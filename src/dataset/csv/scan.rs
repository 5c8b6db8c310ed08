//! One look over the bytes of a table before a cell is read: which delimiter, whether every quote is closed, and that no line
//! takes more memory than a table's line may. Takes the same steps as the `csv` crate's reader, without holding anything.

use crate::error::{Error, Result};

/// Bytes of a line, or of a row whose cells run over several.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes of the first line that tell the delimiter.
const DELIMITER_BYTES: usize = 64 << 10;
/// Cells of a line: what is held for each is more than a cell of a byte.
const MAX_CELLS: usize = 1 << 20;

/// What a table's bytes say of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) delimiter: u8,
    /// Cells in quotes that run over several lines: how many, and the line of the first.
    pub(super) long_cells: Option<(usize, usize)>,
    /// The first empty line that stands between two rows.
    pub(super) empty_line: Option<usize>,
}

/// Where in a row a byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    RowStart,
    CellStart,
    Cell,
    Quoted,
    /// After a quote in a cell in quotes: the end of the cell, unless another quote follows.
    Quote,
    /// Blanks after such a cell.
    Blank,
}

impl Scan {
    /// Looks over a table, without its byte order mark.
    ///
    /// # Errors
    /// [`Error::Data`] with the line of a quote that is not closed or closes inside a cell, and of a row that is too long.
    pub(super) fn new(name: &str, bytes: &[u8]) -> Result<Self> {
        let refuse = |line, problem: &str| {
            let message = format!("{name}, line {line}: {problem}");
            Err(Error::Data(message))
        };
        let delimiter = delimiter(bytes);
        let mut scan = Self {
            delimiter,
            long_cells: None,
            empty_line: None,
        };
        let (mut at, mut line) = (At::RowStart, 1);
        let (mut start, mut row_line, mut cells, mut quote_line) = (0, 1, 1, 1);
        let (mut rows, mut empty_line) = (0, None);
        for (place, byte) in bytes.iter().copied().enumerate() {
            let ends_line = byte == b'\n' || byte == b'\r';
            let half = byte == b'\n' && place > 0 && bytes[place - 1] == b'\r';
            at = match at {
                At::Quoted => match byte {
                    b'"' => At::Quote,
                    _ => At::Quoted,
                },
                At::RowStart if ends_line => {
                    if !half && rows > 0 {
                        empty_line = empty_line.or(Some(line));
                    }
                    start = place + 1;
                    At::RowStart
                }
                _ if ends_line => {
                    rows += 1;
                    start = place + 1;
                    cells = 1;
                    At::RowStart
                }
                _ if byte == delimiter => {
                    cells += 1;
                    At::CellStart
                }
                At::RowStart | At::CellStart if byte == b'"' => {
                    quote_line = line;
                    At::Quoted
                }
                At::Quote if byte == b'"' => At::Quoted,
                At::Quote | At::Blank if byte == b' ' || byte == b'\t' => At::Blank,
                At::Quote | At::Blank => {
                    let to = if quote_line == line {
                        String::new()
                    } else {
                        format!(" on line {line}")
                    };
                    return refuse(
                        quote_line,
                        &format!(
                            "the quote that opens a cell here is closed{to} and more text follows: a quote is missing or \
                             too many, and one inside a cell is written twice"
                        ),
                    );
                }
                At::RowStart | At::CellStart | At::Cell => At::Cell,
            };
            if at != At::RowStart {
                if place == start {
                    row_line = line;
                    scan.empty_line = scan.empty_line.or(empty_line);
                }
                if place - start >= MAX_LINE_BYTES {
                    return match at {
                        At::Quoted => refuse(
                            quote_line,
                            "the quote that opens here is not closed within 16 MiB: close or remove it",
                        ),
                        _ => refuse(
                            row_line,
                            "longer than 16 MiB: a table has a line for each row, so this is another kind of file",
                        ),
                    };
                }
                if cells > MAX_CELLS {
                    return refuse(
                        row_line,
                        "more than 1,048,576 columns: a table has a line for each row, so this is another kind of file, \
                         or turned on its side",
                    );
                }
            }
            if ends_line && at == At::Quoted && !half {
                let (count, first) = scan.long_cells.unwrap_or((0, quote_line));
                // The line that opened it is counted once, however many follow.
                scan.long_cells = Some((count + usize::from(quote_line == line), first));
            }
            if ends_line && !half {
                line += 1;
            }
        }
        match at {
            At::Quoted => refuse(
                quote_line,
                "the quote that opens here is never closed: close or remove it",
            ),
            _ => Ok(scan),
        }
    }
}

/// The delimiter that the first line has most of, outside quotes.
fn delimiter(bytes: &[u8]) -> u8 {
    let mut counts = [0; 3];
    let delimiters = *b";\t,";
    let mut quoted = false;
    let lines = bytes.iter().skip_while(|byte| b"\r\n".contains(byte));
    for byte in lines.take(DELIMITER_BYTES) {
        quoted ^= *byte == b'"';
        if quoted {
            continue;
        }
        if b"\r\n".contains(byte) {
            break;
        }
        for (count, delimiter) in counts.iter_mut().zip(delimiters) {
            *count += usize::from(*byte == delimiter);
        }
    }
    let most = counts
        .iter()
        .zip(delimiters)
        .max_by_key(|(count, _)| **count);
    most.map_or(b',', |(_, delimiter)| delimiter)
}

/// The line, from 1, of the row that begins at this place or after the line ends that stand there.
pub(super) fn line_of(bytes: &[u8], place: usize) -> usize {
    let ends = |byte: &&u8| b"\r\n".contains(*byte);
    let place = place.min(bytes.len());
    let place = place + bytes[place..].iter().take_while(ends).count();
    let before = &bytes[..place];
    let count = |wanted| before.iter().filter(|byte| **byte == wanted).count();
    let both = before.windows(2).filter(|pair| pair == b"\r\n").count();
    1 + count(b'\r') + count(b'\n') - both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Result<Scan, String> {
        Scan::new("x.csv", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_quote_that_is_not_closed_is_refused_with_the_line_where_it_opened() {
        for (text, line) in [
            ("x,label\n1,\"a\n2,b\n", 2),
            ("\"x,label\r\n1,a\r\n", 1),
            ("x,label\r\r1,a\r2,\"b\r", 4),
            ("x,label\r\n\r\n\"1\n\",a\r\n2,\"b", 5),
        ] {
            let message = scan(text).expect_err("refused");
            let start = format!("x.csv, line {line}: the quote that opens here is never closed");
            assert!(message.starts_with(&start), "{text:?}: {message}");
        }
        let message = scan("x,label\n1,\"a\n2,\"b\n3,c\n").expect_err("refused");
        assert!(
            message
                .starts_with("x.csv, line 2: the quote that opens a cell here is closed on line 3"),
            "{message}"
        );
    }

    #[test]
    fn cells_over_several_lines_and_empty_lines_are_noticed() {
        let plain = scan("x,label\n1,\"a \"\"b\"\"\" \n2,c\"d\n\n\n").expect("is sound");
        assert_eq!((plain.long_cells, plain.empty_line), (None, None));
        let long = scan("x,label\r\n1,\"a\r\nb\r\nc\"\r\n\r\n2,\"d\ne\"\r\n").expect("is sound");
        assert_eq!((long.long_cells, long.empty_line), (Some((2, 2)), Some(5)));
    }

    #[test]
    fn delimiters_are_counted_outside_quotes_and_in_the_first_line_that_is_one() {
        for (text, delimiter) in [
            ("\"a,b,c\";x;label\n", b';'),
            ("\n\nx;label\n1,5;2,5\n", b';'),
            ("x\tlabel\r1\ta,b,c,d\r", b'\t'),
            ("x,label", b','),
            ("label\na\n", b','),
        ] {
            assert_eq!(
                scan(text).expect("is sound").delimiter,
                delimiter,
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_before_it_is_held() {
        let refusal = |text: &str| scan(text).expect_err("refused");
        let cells = format!("x\n{}\n", "1,".repeat(MAX_CELLS));
        assert!(refusal(&cells).starts_with("x.csv, line 2: more than 1,048,576 columns"));
        let cell = format!("x\n{}\n", "1".repeat(MAX_LINE_BYTES + 1));
        assert!(refusal(&cell).starts_with("x.csv, line 2: longer than 16 MiB"));
        let open = format!("x\n\n\"{}\n", "1\n".repeat(MAX_LINE_BYTES / 2));
        assert!(refusal(&open).contains("line 3: the quote that opens here is not closed within"));
        assert!(
            scan(&format!(
                "{}\n{}",
                "1".repeat(MAX_LINE_BYTES),
                "1,".repeat(9)
            ))
            .is_ok()
        );
    }

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        for ends in ["\n", "\r\n", "\r"] {
            let text = ["a", "", "b", "c"].join(ends);
            for (row, line) in [("a", 1), ("b", 3), ("c", 4)] {
                let place = text.find(row).expect("is there");
                assert_eq!(line_of(text.as_bytes(), place), line, "{text:?}");
                // From the end of the row before.
                let before = text[..place].trim_end_matches(['\r', '\n']).len();
                assert_eq!(line_of(text.as_bytes(), before), line, "{text:?}");
            }
        }
    }
}
