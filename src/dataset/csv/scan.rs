//! One look over the bytes of a table before a cell is read: which delimiter, whether every quote is closed, and that no line
//! takes more memory than a table's line may. Takes the same steps as the `csv` crate's reader, without holding anything.

use crate::dataset::lines::Lines;
use crate::dataset::table::MOST_COLUMNS;
use crate::error::{Error, Result};

/// Bytes of a line, or of a row whose cells run over several.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes of the first line that tell the delimiter.
const DELIMITER_BYTES: usize = 64 << 10;

/// What a table's bytes say of it, part by part.
#[derive(Debug)]
pub(super) struct Scan {
    name: String,
    delimiter: u8,
    /// Cells in quotes that run over several lines: how many, and the line of the first.
    pub(super) long_cells: Option<(usize, usize)>,
    /// The first empty line that stands between two rows.
    pub(super) empty_line: Option<usize>,
    lines: Lines,
    at: At,
    line: usize,
    rows: usize,
    /// Bytes of the row so far, its cells, and the line that it begins on.
    length: usize,
    cells: usize,
    row_line: usize,
    quote_line: usize,
    /// An empty line after a row, until another row comes.
    empty_after: Option<usize>,
    last: u8,
}

/// Where in a row a byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Begins with a table, without its byte order mark.
    pub(super) fn new(name: &str, delimiter: u8) -> Self {
        Self {
            name: name.to_owned(),
            delimiter,
            long_cells: None,
            empty_line: None,
            lines: Lines::default(),
            at: At::RowStart,
            line: 1,
            rows: 0,
            length: 0,
            cells: 1,
            row_line: 1,
            quote_line: 1,
            empty_after: None,
            last: 0,
        }
    }

    fn refuse(&self, line: usize, problem: &str) -> Result<()> {
        let message = format!("{}, line {line}: {problem}", self.name);
        Err(Error::Data(message))
    }

    /// Looks over the next bytes.
    ///
    /// # Errors
    /// [`Error::Data`] with the line of a quote that closes inside a cell, and of a row that is too long.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        for byte in bytes.iter().copied() {
            let ends_line = byte == b'\n' || byte == b'\r';
            let half = byte == b'\n' && self.last == b'\r';
            self.last = byte;
            let begins = self.at == At::RowStart && !ends_line;
            self.at = match self.at {
                At::Quoted => match byte {
                    b'"' => At::Quote,
                    _ => At::Quoted,
                },
                At::RowStart if ends_line => {
                    if !half && self.rows > 0 {
                        self.empty_after = self.empty_after.or(Some(self.line));
                    }
                    At::RowStart
                }
                _ if ends_line => {
                    self.rows += 1;
                    (self.length, self.cells) = (0, 1);
                    At::RowStart
                }
                _ if byte == self.delimiter => {
                    self.cells += 1;
                    At::CellStart
                }
                At::RowStart | At::CellStart if byte == b'"' => {
                    self.quote_line = self.line;
                    At::Quoted
                }
                At::Quote if byte == b'"' => At::Quoted,
                At::Quote | At::Blank if byte == b' ' || byte == b'\t' => At::Blank,
                At::Quote | At::Blank => return self.refuse_quote(),
                At::RowStart | At::CellStart | At::Cell => At::Cell,
            };
            if begins {
                self.begin_row();
            }
            if self.at != At::RowStart {
                self.length += 1;
                if self.length > MAX_LINE_BYTES || self.cells > MOST_COLUMNS {
                    return self.refuse_row();
                }
            }
            if ends_line && !half {
                if self.at == At::Quoted {
                    let (count, first) = self.long_cells.unwrap_or((0, self.quote_line));
                    // The line that opened it is counted once, however many follow.
                    let opened_here = usize::from(self.quote_line == self.line);
                    self.long_cells = Some((count + opened_here, first));
                }
                self.line += 1;
            }
        }
        Ok(())
    }

    fn begin_row(&mut self) {
        self.row_line = self.line;
        self.empty_line = self.empty_line.or(self.empty_after);
        self.lines.begin(self.rows, self.line);
    }

    fn refuse_quote(&self) -> Result<()> {
        let to = match self.quote_line == self.line {
            true => String::new(),
            false => format!(" on line {}", self.line),
        };
        self.refuse(
            self.quote_line,
            &format!(
                "the quote that opens a cell here is closed{to} and more text follows: a quote is missing or too many, and \
                 one inside a cell is written twice"
            ),
        )
    }

    fn refuse_row(&self) -> Result<()> {
        match self.at {
            _ if self.cells > MOST_COLUMNS => self.refuse(
                self.row_line,
                "more than 262,144 columns: a table has a line for each row, so this is another kind of file, or turned on \
                 its side",
            ),
            At::Quoted => self.refuse(
                self.quote_line,
                "the quote that opens here is not closed within 16 MiB: close or remove it",
            ),
            _ => self.refuse(
                self.row_line,
                "longer than 16 MiB: a table has a line for each row, so this is another kind of file",
            ),
        }
    }

    /// The line of each row, once all bytes were seen.
    ///
    /// # Errors
    /// [`Error::Data`] with the line of a quote that is not closed.
    pub(super) fn finish(self) -> Result<Lines> {
        if self.at == At::Quoted {
            self.refuse(
                self.quote_line,
                "the quote that opens here is never closed: close or remove it",
            )?;
        }
        Ok(self.lines)
    }

    /// The line of a row, counted from 0 and from the first line on.
    pub(super) fn line_of(&self, row: usize) -> usize {
        self.lines.of(row)
    }
}

/// Whether these bytes, a file's first, hold its first line or as much of it as is looked at.
pub(super) fn has_first_line(bytes: &[u8]) -> bool {
    let text = bytes.iter().skip_while(|byte| b"\r\n".contains(byte));
    bytes.len() > DELIMITER_BYTES || text.clone().any(|byte| b"\r\n".contains(byte))
}

/// The delimiter that the first line has most of, outside quotes.
pub(super) fn delimiter(bytes: &[u8]) -> u8 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A look over a text in parts of so many bytes.
    fn scan_in(text: &str, part: usize) -> Result<Scan, String> {
        let mut scan = Scan::new("x.csv", delimiter(text.as_bytes()));
        let mut parts = text.as_bytes().chunks(part);
        let pushed = parts.try_for_each(|part| scan.push(part));
        pushed.map_err(|error| error.to_string())?;
        Ok(scan)
    }

    fn scan(text: &str) -> Result<Scan, String> {
        let whole = scan_in(text, text.len().max(1))?;
        let finished = scan_in(text, 3)?.finish().map(|_| whole);
        finished.map_err(|error| error.to_string())
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
            assert_eq!(super::delimiter(text.as_bytes()), delimiter, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_before_it_is_held() {
        let refusal = |text: &str| scan(text).expect_err("refused");
        let cells = format!("x\n{}\n", "1,".repeat(MOST_COLUMNS));
        assert!(refusal(&cells).starts_with("x.csv, line 2: more than 262,144 columns"));
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
            for part in [1, 2, 100] {
                let text = ["a", "", "b", "\"c", "c\"", "d"].join(ends);
                let scan = scan_in(&text, part).expect("is sound");
                let lines: Vec<usize> = (0..4).map(|row| scan.line_of(row)).collect();
                assert_eq!(lines, [1, 3, 4, 6], "{text:?} in parts of {part}");
            }
        }
    }
}
