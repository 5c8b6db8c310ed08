//! One pass over the bytes of a table before cells are read: [`layout`] tells the delimiter and the header, [`Scan`] refuses a
//! quote that is never closed and a line that takes too much memory. It takes the same steps as the `csv` crate's reader, without
//! holding anything.

use super::super::lines::Lines;
use super::super::table::MOST_COLUMNS;
use crate::base::error::{Error, Result};

/// Bytes of a line at most, or of a row whose cells run over several lines.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes and lines at most that tell the layout.
const LAYOUT_BYTES: usize = 64 << 10;
const LAYOUT_LINES: usize = 100;
/// Lines before the header at most.
const LINES_BEFORE: usize = 50;
/// Delimiters, the surest first: a comma stands in numbers and in text, too.
const DELIMITERS: [u8; 4] = *b"\t;|,";
/// The delimiter of a file of one column: a byte that no text has.
const NONE: u8 = 0x1f;

/// State of a scan over a table's bytes, part by part.
#[derive(Debug)]
pub(super) struct Scan {
    name: String,
    delimiter: u8,
    /// Cells in quotes that run over several lines: their number, and the line of the first.
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

/// State of the scan within a row.
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
    /// Begins a table whose header is on this line.
    pub(super) fn new(name: &str, delimiter: u8, line: usize) -> Self {
        Self {
            name: name.to_owned(),
            delimiter,
            long_cells: None,
            empty_line: None,
            lines: Lines::default(),
            at: At::RowStart,
            line,
            rows: 0,
            length: 0,
            cells: 1,
            row_line: line,
            quote_line: line,
            empty_after: None,
            last: 0,
        }
    }

    fn refuse(&self, line: usize, problem: &str) -> Result<()> {
        let message = format!("{}, line {line}: {problem}", self.name);
        Err(Error::Data(message))
    }

    /// Scans the next bytes.
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

    /// Ends the scan; returns the line of each row.
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

/// Layout of a table: delimiter, lines before the header, shape of the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) delimiter: u8,
    /// Bytes and lines that stand before the header.
    pub(super) skipped: usize,
    pub(super) skipped_lines: usize,
    pub(super) header: Header,
    /// Notes on unusual things in the first lines.
    pub(super) notes: Vec<String>,
}

/// Number of names in the header, compared with the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    AsMany,
    /// One less: rows begin with a row name, as R writes them.
    OneLess,
    /// One more, which is empty: the header ends in a delimiter.
    OneMore,
}

/// A row of the first bytes, which tell the layout.
#[derive(Clone, Copy, Debug)]
struct Looked<'a> {
    start: usize,
    text: &'a [u8],
    cells: usize,
}

/// Tells if these first bytes of a file are enough to tell its layout.
pub(super) fn tells_layout(bytes: &[u8]) -> bool {
    let lines = bytes.split(|byte| b"\r\n".contains(byte));
    let after_comments = lines.skip_while(|line| line.is_empty() || line.starts_with(b"#"));
    bytes.len() > LAYOUT_BYTES || after_comments.count() > 2 * LAYOUT_LINES + 1
}

/// The layout of a file of this name that begins with these bytes.
pub(super) fn layout(name: &str, bytes: &[u8]) -> Layout {
    let is_whole = bytes.len() <= LAYOUT_BYTES;
    let bytes = &bytes[..bytes.len().min(LAYOUT_BYTES)];
    let mut layout = Layout {
        delimiter: NONE,
        skipped: 0,
        skipped_lines: 0,
        header: Header::AsMany,
        notes: Vec::new(),
    };
    let lines = looked_at(bytes, NONE, is_whole);
    let named = lines
        .first()
        .and_then(|line| Some((named_delimiter(line.text)?, lines.get(1)?)));
    if let Some((delimiter, next)) = named {
        layout.delimiter = delimiter;
        layout.skipped = next.start;
    } else {
        layout.delimiter = delimiter(name, bytes, is_whole);
    }
    let rows = looked_at(&bytes[layout.skipped..], layout.delimiter, is_whole);
    let cells = usual(rows.iter().filter(|row| !is_comment(row))).map_or(1, |(cells, _)| cells);
    let all = |rows: &[Looked<'_>]| rows.len() > 1 && rows.iter().all(|row| row.cells == cells);
    let is_before = |at: usize| {
        let row = &rows[at];
        // A line that another delimiter parts into as many cells is a header.
        let parted = |other: &u8| {
            looked_at(row.text, *other, true)
                .first()
                .is_some_and(|row| row.cells == cells)
        };
        let has_words =
            row.text.contains(&b' ') || row.text.first().is_some_and(u8::is_ascii_punctuation);
        let is_text = || has_words && !DELIMITERS.iter().any(parted);
        let title = || {
            let few = row.cells == 1 && cells > 2 && at < LINES_BEFORE;
            few && is_text() && all(&rows[at + 1..])
        };
        match is_comment(row) {
            true => row.cells != cells || above_a_header(&rows[at + 1..], layout.delimiter),
            false => row.cells != cells && title(),
        }
    };
    let before = (0..rows.len()).find(|at| !is_before(*at)).unwrap_or(0);
    if before > 0 {
        layout.notes.push(match before {
            1 => "the first line is no row and no header: passed over".to_owned(),
            _ => format!("the first {before} lines are no rows and no header: passed over"),
        });
        layout.skipped += rows[before].start;
    }
    layout.skipped_lines = line_ends(&bytes[..layout.skipped]);
    let Some((header, rest)) = rows[before..].split_first() else {
        return layout;
    };
    let is_a_row = |row: &Looked<'_>| {
        let text = String::from_utf8_lossy(row.text);
        let mut cells = text.split(char::from(layout.delimiter));
        cells.all(|cell| cell.trim().trim_matches('"').parse::<f64>().is_ok())
    };
    let same = rest.iter().all(|row| row.cells == cells);
    let is_short = cells > 1 && header.cells + 1 == cells && !is_a_row(header);
    if same && is_short && are_names(rest, layout.delimiter) {
        layout.header = Header::OneLess;
        layout.notes.push(
            "the header has one name less than the rows have cells: the first cell of each is the row's name".to_owned(),
        );
    } else if same && header.cells == cells + 1 && header.text.ends_with(&[layout.delimiter]) {
        layout.header = Header::OneMore;
    }
    layout
}

/// Tells if the first of these rows after comments is a header: it has no number, and the next row has one. Then a line above it
/// that begins with # is no header.
fn above_a_header(rows: &[Looked<'_>], delimiter: u8) -> bool {
    let mut rows = rows.iter().skip_while(|row| is_comment(row));
    let (Some(header), Some(row)) = (rows.next(), rows.next()) else {
        return false;
    };
    let are_numbers = |row: &Looked<'_>| -> Vec<bool> {
        let text = String::from_utf8_lossy(row.text);
        let cells = text.split(char::from(delimiter));
        cells
            .map(|cell| cell.trim().trim_matches('"').parse::<f64>().is_ok())
            .collect()
    };
    let (above, below) = (are_numbers(header), are_numbers(row));
    above.len() == below.len() && !above.contains(&true) && below.contains(&true)
}

/// Tells if the first cells of these rows are row names: texts that all differ, or numbers that count.
fn are_names(rows: &[Looked<'_>], delimiter: u8) -> bool {
    let name = |row: &Looked<'_>| {
        let end = row.text.iter().position(|byte| *byte == delimiter);
        let cell = String::from_utf8_lossy(&row.text[..end.unwrap_or(row.text.len())]);
        cell.trim().trim_matches('"').to_owned()
    };
    let names: Vec<String> = rows.iter().map(name).collect();
    let numbers: Vec<f64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let counts = numbers.len() == names.len()
        && numbers
            .windows(2)
            .all(|pair| pair[0].fract() == 0.0 && pair[1] == pair[0] + 1.0);
    names.len() > 1 && distinct.len() == names.len() && (numbers.is_empty() || counts)
}

/// The rows of these bytes; the last one only if the bytes are the whole file, or hold no other row. Empty lines are no rows.
fn looked_at(bytes: &[u8], delimiter: u8, is_whole: bool) -> Vec<Looked<'_>> {
    let mut rows = Vec::new();
    let (mut start, mut cells, mut quoted, mut at_start) = (0, 1, false, true);
    for (at, byte) in bytes.iter().enumerate() {
        let ends = !quoted && b"\r\n".contains(byte);
        if ends {
            if at > start {
                rows.push(Looked {
                    start,
                    text: &bytes[start..at],
                    cells,
                });
            }
            (start, cells, at_start) = (at + 1, 1, true);
            continue;
        }
        match *byte {
            b'"' if quoted => quoted = false,
            b'"' if at_start => quoted = true,
            byte if byte == delimiter && !quoted => cells += 1,
            _ => {}
        }
        at_start = *byte == delimiter && !quoted;
    }
    if start < bytes.len() && (is_whole || rows.is_empty()) {
        rows.push(Looked {
            start,
            text: &bytes[start..],
            cells,
        });
    }
    let comments = rows.iter().take_while(|row| is_comment(row)).count();
    rows.truncate(comments + LAYOUT_LINES);
    rows
}

fn line_ends(bytes: &[u8]) -> usize {
    let lone = |pair: &[u8]| pair[0] == b'\r' && pair[1] != b'\n';
    let returns =
        bytes.windows(2).filter(|pair| lone(pair)).count() + usize::from(bytes.ends_with(b"\r"));
    bytes.iter().filter(|byte| **byte == b'\n').count() + returns
}

fn is_comment(row: &Looked<'_>) -> bool {
    row.text.starts_with(b"#")
}

/// The delimiter that a line like `sep=;` names, as spreadsheets write it before a table.
fn named_delimiter(line: &[u8]) -> Option<u8> {
    let text = line
        .strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(line);
    match text.split_at_checked(4)? {
        (start, [delimiter]) if start.eq_ignore_ascii_case(b"sep=") => {
            Some(*delimiter).filter(|delimiter| DELIMITERS.contains(delimiter))
        }
        _ => None,
    }
}

/// Most frequent number of cells in a row (the larger of equally frequent ones), and the fraction of rows that have it.
fn usual<'a>(rows: impl Iterator<Item = &'a Looked<'a>>) -> Option<(usize, f64)> {
    let mut counts = std::collections::BTreeMap::new();
    let mut all = 0;
    for row in rows {
        *counts.entry(row.cells).or_insert(0) += 1;
        all += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(cells, count)| (*count, *cells));
    most.map(|(cells, count)| (cells, f64::from(count) / f64::from(all)))
}

/// Delimiter of the cells: a tab in a `.tsv` file, else the one for which most lines have the same number of cells.
fn delimiter(name: &str, bytes: &[u8], is_whole: bool) -> u8 {
    let ends = |ending: &str| {
        name.to_ascii_lowercase()
            .trim_end_matches(".gz")
            .ends_with(ending)
    };
    if ends(".tsv") {
        return b'\t';
    }
    let agreement = |delimiter: u8| {
        let rows = looked_at(bytes, delimiter, is_whole);
        let (cells, part) = usual(rows.iter().filter(|row| !is_comment(row)))?;
        // The header may have another number.
        let rest_agrees = rows.iter().skip(1).all(|row| row.cells == cells);
        (cells > 1).then_some((part, rest_agrees, delimiter))
    };
    let mut best: Option<(f64, bool, u8)> = None;
    for (part, rest_agrees, delimiter) in DELIMITERS.into_iter().filter_map(agreement) {
        // Of equally good ones the surest.
        if best.is_none_or(|(known, ..)| part > known) {
            best = Some((part, rest_agrees, delimiter));
        }
    }
    // Lines of text may have a comma each now and then.
    match best {
        Some((part, rest_agrees, delimiter)) if part > 0.5 && (rest_agrees || !ends(".txt")) => {
            delimiter
        }
        _ if ends(".txt") => NONE,
        _ => {
            // The one that occurs most often in the first line.
            let rows = looked_at(bytes, NONE, is_whole);
            let first = rows.first().map_or(&[][..], |row| row.text);
            let count = |delimiter: &u8| {
                looked_at(first, *delimiter, true)
                    .first()
                    .map_or(1, |row| row.cells)
            };
            DELIMITERS.into_iter().max_by_key(count).unwrap_or(b',')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look over a text in parts of so many bytes.
    fn scan_in(text: &str, part: usize) -> Result<Scan, String> {
        let mut scan = Scan::new("x.csv", delimiter("x.csv", text.as_bytes(), true), 1);
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
    fn the_delimiter_is_that_by_which_the_lines_agree() {
        for (name, text, expected) in [
            ("x.csv", "\"a,b,c\";x;label\n", b';'),
            ("x.csv", "\n\nx;label\n1,5;2,5\n", b';'),
            ("x.csv", "1,5;2,5\n2,5;3,5\n", b';'),
            ("x.csv", "x\tlabel\r1\ta,b,c,d\r", b'\t'),
            ("x.csv", "length, mm\twidth, mm\n1\t2\n", b'\t'),
            ("x.csv", "x,label", b','),
            ("x.csv", "x|y|label\n1|2|a, b\n", b'|'),
            ("x.csv", "label\na\n", b','),
            ("x.csv", "x,label\n1,a;b\n2,c;d\n", b','),
            ("x.csv", "x,label\n1,\"a\tb\"\n2,\"c\td\"\n3\n", b','),
            ("x.tsv", "Portland, 1\nSalem, 2\n", b'\t'),
            ("x.TSV.gz", "a,b\n", b'\t'),
            ("x.txt", "T cell, alpha\nB cell\nT cell, beta\n", NONE),
            ("x.txt", "x,label\n1,a\n", b','),
        ] {
            let found = delimiter(name, text.as_bytes(), true);
            assert_eq!(found, expected, "{text:?} in {name}: {}", char::from(found));
        }
    }

    #[test]
    fn what_stands_before_the_header_is_passed_over() {
        let of = |text: &str| layout("x.csv", text.as_bytes());
        let table = "a,b,label\n1,2,x\n3,4,y\n";
        for (before, lines) in [
            ("", 0),
            ("# by hand\n", 1),
            ("# by hand, in May\n# cm\r\n\r\n", 3),
            ("|1x3 Cross validator\n", 1),
            ("Measurements of May\n\n", 2),
            ("# by A, B and C\n", 1),
            ("# x,y,z\n# u,v,w\n", 2),
            ("sep=,\n", 1),
            ("\"sep=,\"\r\n", 1),
        ] {
            let layout = of(&format!("{before}{table}"));
            assert_eq!(
                (layout.delimiter, layout.skipped),
                (b',', before.len()),
                "{before:?}"
            );
            assert_eq!(layout.skipped_lines, lines, "{before:?}");
        }
        for kept in [
            "#,x,label\n1,2,a\n2,3,b\n",
            "# a,b,label\n1,2,x\n3,4,y\n",
            "label\na\nb\n",
            "x,label\n1,a\n2,b\n",
            "a\n",
            "f\n,b,label\n1,2,x\n3,4,y\n",
        ] {
            assert_eq!((of(kept).skipped, of(kept).notes.len()), (0, 0), "{kept:?}");
        }
        for (text, header) in [
            ("a,label\n1,2,x\n2,3,y\n", Header::OneLess),
            ("a,label\n\"Mazda\",2,x\n\"Fiat\",3,y\n", Header::OneLess),
            ("a,label\n1.5,2,x\n2.5,3,y\n", Header::AsMany),
            ("a,label\nu,2,x\nu,3,y\n", Header::AsMany),
            ("1,2\n1,2,3\n2,3,4\n", Header::AsMany),
            ("a,label,\n1,x\n2,y\n", Header::OneMore),
            ("a,label,\n1,x,\n2,y,\n", Header::AsMany),
            ("a,label,c\n1,x\n2,y\n", Header::AsMany),
        ] {
            assert_eq!(of(text).header, header, "{text:?}");
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
