//! CSV and TSV: reads text, part by part, into the rows of a [`Table`]. A file is read once, and may be larger than the memory.

mod scan;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::foreign::{self, saved_again};
use super::table::{Builder, Cell, Commas, MOST_COLUMNS, delimiter_argument};
use super::{Table, vectors};
use crate::base::error::{Error, Result};
use crate::base::quote::quoted;
use crate::data::{Choice, Columns};
use scan::{Header, Layout, Scan};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Name of the column that R writes without a name.
const ROW_NAMES: &str = "row.names";
/// Rows by whose length the number of all rows is estimated.
const MEASURED_ROWS: usize = 256;

/// Takes the bytes of a CSV, and gives its table.
#[derive(Debug)]
pub(super) struct CsvReader {
    name: String,
    /// The column of the label, and that of vectors, if they were chosen.
    label: Option<String>,
    vector: Option<String>,
    columns: Columns,
    /// Bytes of the file.
    total: u64,
    /// The first bytes, held until they tell the layout.
    start: Vec<u8>,
    parser: Option<Parser>,
}

impl CsvReader {
    /// Begins with a file of this name and so many bytes; `choice` says which column is the label, and which list the features.
    pub(super) fn new(name: &str, total: u64, choice: Choice<'_>) -> Self {
        Self {
            name: name.to_owned(),
            label: choice.labels.map(str::to_owned),
            vector: choice.features.map(str::to_owned),
            columns: choice.columns(),
            total,
            start: Vec::new(),
            parser: None,
        }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is no CSV, for a ragged row, a quote in the wrong place and a line of absurd length;
    /// with the line.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.parser {
            Some(parser) => parser.push(bytes),
            None => {
                self.start.extend_from_slice(bytes);
                match scan::tells_layout(&self.start) {
                    true => self.begin(),
                    false => Ok(()),
                }
            }
        }
    }

    /// Tells the layout from the bytes so far, and parses them.
    fn begin(&mut self) -> Result<()> {
        let name = &self.name;
        if let Some(error) = foreign::refusal(name, &self.start) {
            return Err(error);
        }
        let start = std::mem::take(&mut self.start);
        let content = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start);
        let layout = scan::layout(name, content);
        let content = &content[layout.skipped..];
        let mut parser = Parser::new(name, self.total, layout);
        (parser.label, parser.wanted) = (self.label.clone(), self.vector.clone());
        parser.columns = self.columns.clone();
        self.parser.insert(parser).push(content)
    }

    /// The table, once all bytes were pushed.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is empty, a quote that is never closed, and a header without rows.
    pub(super) fn finish(mut self) -> Result<Table> {
        if self.parser.is_none() {
            self.begin()?;
        }
        let empty = || Error::Data(format!("{}: the file is empty", self.name));
        let parser = self.parser.ok_or_else(empty)?;
        parser.finish()?.ok_or_else(empty)
    }
}

/// Start of a table: its builder, its vector as (cell, length), and a note on that.
struct Begun {
    builder: Builder,
    vector: Option<(usize, usize)>,
    note: Option<String>,
}

/// A table while it is parsed.
#[derive(Debug)]
struct Parser {
    name: String,
    /// The column of the label, and that of vectors, if they were chosen.
    label: Option<String>,
    wanted: Option<String>,
    columns: Columns,
    total: u64,
    scan: Scan,
    header: Header,
    /// Notes on unusual things in the first lines.
    notes: Vec<String>,
    delimiter: u8,
    reader: Box<Reader>,
    /// The cells of the record under way, one after the other, and the end of each.
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// Lengths of both that are in use.
    cells_len: usize,
    ends_len: usize,
    /// Bytes of all records so far.
    bytes: u64,
    /// The first line, until the second tells which columns hold vectors.
    first: Vec<String>,
    /// The cell of a row that holds a list of numbers, and the list's length.
    vector: Option<(usize, usize)>,
    builder: Option<Builder>,
}

impl Parser {
    fn new(name: &str, total: u64, layout: Layout) -> Self {
        let delimiter = layout.delimiter;
        Self {
            name: name.to_owned(),
            label: None,
            wanted: None,
            columns: Columns::default(),
            total,
            scan: Scan::new(name, delimiter, 1 + layout.skipped_lines),
            header: layout.header,
            notes: layout.notes,
            delimiter,
            reader: Box::new(ReaderBuilder::new().delimiter(delimiter).build()),
            cells: vec![0; 1024],
            ends: vec![0; 64],
            cells_len: 0,
            ends_len: 0,
            bytes: 0,
            first: Vec::new(),
            vector: None,
            builder: None,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        // Errors in quotes are found before a cell is taken.
        self.scan.push(bytes)?;
        self.parse(bytes)
    }

    /// Takes the records that these bytes complete; empty `bytes` end the last record.
    fn parse(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let (cells, ends) = (
                &mut self.cells[self.cells_len..],
                &mut self.ends[self.ends_len..],
            );
            let (result, read, written, ended) = self.reader.read_record(bytes, cells, ends);
            bytes = &bytes[read..];
            self.cells_len += written;
            self.ends_len += ended;
            match result {
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return Ok(()),
                ReadRecordResult::OutputFull => self.cells.resize(2 * self.cells.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => {
                    self.take()?;
                    (self.cells_len, self.ends_len) = (0, 0);
                }
            }
        }
    }

    /// Rows that were taken, the first line too.
    fn rows(&self) -> usize {
        let rows = self.builder.as_ref().map(|builder| 1 + builder.rows());
        rows.unwrap_or(usize::from(!self.first.is_empty()))
    }

    /// Takes a record.
    fn take(&mut self) -> Result<()> {
        let (row, ends) = (self.rows(), &self.ends[..self.ends_len]);
        let (name, delimiter) = (&self.name, self.delimiter);
        // Each cell has to be UTF-8 by itself.
        let is_apart = |text: &&str| ends.iter().all(|end| text.is_char_boundary(*end));
        let text = std::str::from_utf8(&self.cells[..self.cells_len]).ok();
        let Some(text) = text.filter(is_apart) else {
            let line = self.scan.line_of(row);
            let arguments = format!("{}, encoding=\"latin-1\"", delimiter_argument(delimiter));
            return Err(Error::Data(format!(
                "{name}, line {line}: not UTF-8: save the file as UTF-8, with pandas {}",
                saved_again(name, &arguments, "")
            )));
        };
        let cell = |at: usize| {
            let start = at.checked_sub(1).map_or(0, |before| ends[before]);
            text[start..ends[at]].trim()
        };
        if self.first.is_empty() {
            let mut first: Vec<String> = (0..ends.len()).map(|at| cell(at).to_owned()).collect();
            match self.header {
                Header::AsMany => {}
                Header::OneLess => first.insert(0, ROW_NAMES.to_owned()),
                Header::OneMore => drop(first.pop()),
            }
            self.first = first;
            return Ok(());
        }
        if self.builder.is_none() {
            let cells: Vec<&str> = (0..ends.len()).map(cell).collect();
            let begun = self.begun(&cells)?;
            (self.vector, self.builder) = (begun.vector, Some(begun.builder));
            self.notes.extend(begun.note);
        }
        let Some(builder) = &mut self.builder else {
            return Ok(());
        };
        if ends.len() != self.first.len() {
            let (expected, len) = (self.first.len(), ends.len());
            let s = if len == 1 { "" } else { "s" };
            let line = self.scan.line_of(row);
            return Err(Error::Data(format!(
                "{name}, line {line}: {len} value{s}, expected {expected} as in the first line"
            )));
        }
        if row <= MEASURED_ROWS {
            self.bytes += (self.cells_len + ends.len()) as u64;
            // A cell and its delimiter are two bytes at least.
            let most = self.total / (2 * ends.len() as u64);
            let likely = self.total.saturating_mul(row as u64) / self.bytes.max(1);
            builder.expect(likely.min(most));
        }
        let Some((vector, dim)) = self.vector else {
            return builder.push(|at| Cell::Text(cell(at)));
        };
        let values = match cell(vector) {
            "" => vec![f32::NAN; dim],
            text => vectors::of_text(text)
                .filter(|values| values.len() == dim)
                .ok_or_else(|| {
                    let (line, column) = (self.scan.line_of(row), quoted(&self.first[vector]));
                    let problem = vectors::problem(text, dim, "row");
                    Error::Data(format!("{name}, line {line}: column {column} {problem}"))
                })?,
        };
        builder.push(|at| match at.checked_sub(vector) {
            None => Cell::Text(cell(at)),
            Some(place) if place < dim => Cell::Number(values[place]),
            Some(_) => Cell::Text(cell(at + 1 - dim)),
        })
    }

    /// Begins the table after the first line, given the cells of the first row: those of one column may be lists of numbers.
    fn begun(&self, cells: &[&str]) -> Result<Begun> {
        let dims = cells.iter().enumerate().map(|(at, cell)| {
            let is_out = at < self.first.len() && self.columns.rules_out(&self.first, at);
            let values = vectors::of_text(cell).filter(|_| !is_out);
            values.map_or(0, |values| values.len())
        });
        let lists = self.first.iter().zip(dims).enumerate();
        let lists = lists.filter(|(_, (_, dim))| *dim > 0);
        let (places, lists): (Vec<usize>, Vec<(&str, usize)>) = lists
            .map(|(at, (name, dim))| (at, (name.as_str(), dim)))
            .unzip();
        let chosen = vectors::choose(&self.name, &lists, self.wanted.as_deref())?;
        let mut columns = self.first.clone();
        let (mut text, mut vector, mut note) = (Vec::new(), None, None);
        if let Some(chosen) = chosen {
            if self.first.len() + lists[chosen].1 > MOST_COLUMNS {
                let name = &self.name;
                let problem = "more than 262,144 numbers in a row: this is another kind of file";
                return Err(Error::Data(format!("{name}: {problem}")));
            }
            let (at, (name, dim)) = (places[chosen], lists[chosen]);
            columns.splice(at..=at, (0..dim).map(|part| format!("{name}[{part}]")));
            text = (0..columns.len())
                .filter(|column| !(at..at + dim).contains(column))
                .collect();
            let others = lists.iter().filter(|(other, _)| *other != name);
            let others: Vec<String> = others.map(|(name, _)| (*name).to_owned()).collect();
            note = vectors::note(&self.name, name, self.wanted.as_deref(), &others);
            vector = Some((at, dim));
        }
        let mut builder = Builder::new(&self.name, columns, self.label.as_deref())
            .with_commas(match self.delimiter {
                b';' => Commas::Decimal,
                b',' => Commas::Refused,
                _ => Commas::WhereSure,
            })
            .with(&self.columns);
        if vector.is_some() {
            // Numbers beside a vector are no features, as in JSON Lines.
            builder.are_text(&text);
            builder.has_vector();
        }
        Ok(Begun {
            builder,
            vector,
            note,
        })
    }

    /// Finishes the table; none for a file without a line.
    fn finish(mut self) -> Result<Option<Table>> {
        self.parse(&[])?;
        if self.builder.is_none() && !self.first.is_empty() {
            self.builder = Some(self.begun(&[])?.builder);
        }
        let notes = self.notes;
        let (empty_line, long_cells) = (self.scan.empty_line, self.scan.long_cells);
        let lines = self.scan.finish()?;
        let Some(builder) = self.builder.filter(|builder| !builder.is_blank()) else {
            return Ok(None);
        };
        if let (1, Some(line)) = (builder.columns(), empty_line) {
            return Err(Error::Data(format!(
                "{}, line {line}: an empty line in a file of one column: a value is missing, so fill the line or remove the \
                 row everywhere",
                self.name
            )));
        }
        let has_names = self.header == Header::AsMany;
        let mut table = builder.finish(Some(lines), Some(self.delimiter), has_names)?;
        notes.into_iter().for_each(|note| table.note(note));
        if let Some((count, line)) = long_cells {
            let cells = match count {
                1 => "1 cell in quotes runs".to_owned(),
                _ => format!("{count} cells in quotes run"),
            };
            table.note(format!("{cells} over several lines, from line {line} on"));
        }
        Ok(Some(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Columns, Dataset, Labelled, Missing, NamedFile, Sides, TableReader};

    fn read(text: &str, label: Option<&str>) -> Result<Dataset> {
        let choice = Choice {
            labels: label,
            ..Choice::default()
        };
        Labelled::read(&file(text), None, choice).and_then(Dataset::new)
    }

    fn file(text: &str) -> NamedFile {
        NamedFile {
            name: "data.csv".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn dataset(text: &str, label: Option<&str>) -> Dataset {
        read(text, label).expect("reads")
    }

    fn refusal(text: &str, label: Option<&str>) -> String {
        read(text, label).expect_err("refused").to_string()
    }

    #[test]
    fn the_label_is_found_by_name_then_as_the_only_text_then_as_the_only_few_integers() {
        let named = dataset("x,Species,note\n1,b,u\n2,a,v\n", None);
        assert_eq!(named.class_names, ["a", "b"]);
        assert_eq!((named.features.dim(), &named.labels), (1, &vec![1, 0]));
        assert_eq!(
            named.notes,
            ["label = \"Species\" (by its name)", "left out: \"note\""]
        );
        assert_eq!(
            named.columns,
            [("note".to_owned(), ["u", "v"].iter().collect())]
        );
        let text = dataset("x;kind\n1.5;b\n2;a\n", None);
        assert_eq!(text.notes, ["label = \"kind\" (the only text column)"]);
        let integers = dataset("x\tgroup\n0.5\t10\n2\t9\n2.5\t9\n", None);
        assert_eq!(integers.class_names, ["9", "10"]);
        assert_eq!(integers.features.in_memory(), Some(&[0.5, 2.0, 2.5][..]));
        let chosen = dataset("a,b,y\n1,2,0\n3,2,1\n", Some("a"));
        assert_eq!(chosen.features.in_memory(), Some(&[2.0, 0.0, 2.0, 1.0][..]));
    }

    #[test]
    fn labels_are_text_whatever_they_look_like() {
        let mostly_numbers = "x,label\n1,4\n2,5\n3,6\n4,N\n";
        for label in [None, Some("label")] {
            let dataset = dataset(mostly_numbers, label);
            assert_eq!(dataset.class_names, ["4", "5", "6", "N"]);
            assert_eq!(dataset.features.dim(), 1);
        }
        let other_name = mostly_numbers.replace("label", "grade");
        assert_eq!(dataset(&other_name, Some("grade")).labels, [0, 1, 2, 3]);
        let long = "1234567890123456789012345678901234567890";
        let long = dataset(&format!("x,label\n1,{long}\n2,7\n"), None);
        assert_eq!(long.class_names.len(), 2);
        let features = file("x,w\n1,2\n3,4\n5,6\n");
        let labels = file("grade\n4\n5\nN\n");
        let apart = Labelled::read(&features, Some(&labels), Choice::default()).expect("reads");
        assert_eq!(apart.labels, ["4", "5", "N"][..]);
    }

    #[test]
    fn text_beside_the_label_may_be_blank_and_comes_with_labels_from_elsewhere_too() {
        let blank = "x,note,label\n1,,a\n2,v,b\n";
        let note = [("note".to_owned(), ["", "v"].iter().collect())];
        assert_eq!(dataset(blank, None).columns, note);
        let features = file("x,note\n1,\n2,v\n");
        let apart = Labelled::read(&features, Some(&file("label\na\nb\n")), Choice::default());
        let apart = apart.expect("reads");
        assert_eq!(apart.columns, note);
        assert_eq!(apart.notes, ["left out: \"note\""]);
        let dataset = Dataset::new(apart).expect("two classes");
        let config = dataset.default_config().with_set("split=column:note");
        let error = Sides::new(&dataset, &config.expect("sets")).expect_err("refused");
        assert!(error.to_string().contains("holds \"\" in row 1"), "{error}");
    }

    #[test]
    fn a_coordinate_named_y_is_no_label() {
        let label = |text: &str| dataset(text, None).notes[0].clone();
        for (text, expected) in [
            ("x,y,class\n1,2,0\n3,2,1\n", "class"),
            ("x,y,Species\n1,2,a\n3,2,b\n", "Species"),
            ("x,y\n0.5,0\n1.5,1\n", "y"),
            ("x,y\n0.5,no\n1.5,yes\n", "y"),
        ] {
            let expected = format!("label = \"{expected}\" (by its name)");
            assert_eq!(label(text), expected, "{text:?}");
        }
        let only_text = "label = \"kind\" (the only text column)";
        assert_eq!(label("x,y,kind\n1,0.5,u\n2,1.5,v\n"), only_text);
        assert_eq!(label("x,target,kind\n1,0.5,u\n2,1.5,v\n"), only_text);
        let pixels = (0..60).map(|i| format!("{},{},{}\n", i % 8, i * i, ["u", "v"][i % 2]));
        let pixels: String = pixels.collect();
        assert_eq!(label(&format!("x,y,kind\n{pixels}")), only_text);
    }

    #[test]
    fn features_are_chosen_by_name_where_names_are_known() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let features = |text: &str, names: &[String], dim| {
            let file = file(text);
            let rows = TableReader::read(&file, Choice::default())
                .and_then(|table| table.into_features(names, dim, &[], &Columns::default()));
            rows.map(|rows| rows.values)
                .map_err(|error| error.to_string())
        };
        let table = "c,b,note,a\n3,2,u,1\n6,5,v,4\n";
        let chosen = features(table, &names(&["a", "b"]), Some(2));
        assert_eq!(chosen, Ok(vec![1.0, 2.0, 4.0, 5.0]));
        assert_eq!(
            features(table, &names(&["a", "d"]), Some(2)),
            Err(
                "data.csv: there is no column \"d\", which the head was trained on: the columns are \"c\", \"b\", \
                 \"note\", \"a\""
                    .to_owned()
            )
        );
        assert_eq!(
            features(table, &names(&["note"]), Some(1)),
            Err("data.csv, line 2: column \"note\" holds \"u\", which is not a number".to_owned())
        );
        let labelled = "x,y,class\n0.5,1,0\n1.5,2,1\n";
        let counted = features(labelled, &[], Some(2));
        assert_eq!(counted, Ok(vec![0.5, 1.0, 1.5, 2.0]));
    }

    #[test]
    fn row_numbers_are_no_features_and_a_byte_order_mark_is_no_column_name() {
        let numbered = dataset("\u{feff}id,x,label\r\n0,1,a\r\n1,2,b", None);
        assert_eq!((numbered.features.dim(), numbered.notes.len()), (1, 2));
        assert_eq!(numbered.notes[1], "left out: \"id\"");
        // By a name that ends so and by its values: whole numbers, each once.
        for (names, left_out) in [
            ("customer_id,x,label", true),
            ("userId,x,label", true),
            ("type_id,x,label", false),
            ("covid,x,label", false),
        ] {
            let last = if names.starts_with("type") { "7" } else { "9" };
            let table = dataset(&format!("{names}\n7,1,a\n8,2,b\n{last},3,a\n"), None);
            assert_eq!(table.features.dim() == 1, left_out, "{names}");
        }
    }

    #[test]
    fn bad_files_are_refused_with_line_and_column() {
        for (text, message) in [
            ("", "data.csv: the file is empty"),
            (
                "x,label\n",
                "data.csv: a header and no rows: nothing to train on",
            ),
            (
                "x,label\n1,a\n2\n",
                "data.csv, line 3: 1 value, expected 2 as in the first line",
            ),
            (
                "x,label\n1,a\noops,b\n3,b\n",
                "data.csv, line 3: column \"x\" holds \"oops\", which is not a number",
            ),
            (
                "x,label\noops,a\n2,b\n3,b\n",
                "data.csv, line 2: column \"x\" holds \"oops\", which is not a number",
            ),
            (
                "x,label\n1,a\nNaN,b\n",
                "data.csv, line 3: column \"x\" holds \"NaN\", a missing value: fill or drop such rows; pandas drops them: \
                 `import pandas as pd; pd.read_csv(\"data.csv\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x;empty;label\n1;;a\nNA;;b\n",
                "data.csv, line 3: column \"x\" holds \"NA\", a missing value: fill or drop such rows; pandas drops them: \
                 `import pandas as pd; pd.read_csv(\"data.csv\", sep=\";\").dropna(axis=1, \
                 how=\"all\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x,label\n1,a\n-inf,b\n",
                "data.csv, line 3: column \"x\" holds \"-inf\", which is not finite: fill or drop such rows; pandas drops \
                 them: `import pandas as pd; pd.read_csv(\"data.csv\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x,label\n1,a\n1e39,b\n",
                "data.csv, line 3: column \"x\" holds \"1e39\", too large for 32-bit floats (3.4e38 at most): scale the column",
            ),
            (
                "x,label\n1,a\n1e400,b\n",
                "data.csv, line 3: column \"x\" holds \"1e400\", too large for 32-bit floats (3.4e38 at most): scale the column",
            ),
            (
                "x,label\n1,a\n,b\n",
                "data.csv, line 3: column \"x\" has an empty cell: fill or drop such rows; pandas drops them: `import pandas as pd; \
                 pd.read_csv(\"data.csv\").dropna().to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x\tw\tlabel\n1\t2.5\ta\n\"1,5\"\t3\tb\n",
                "data.csv, line 3: column \"x\" holds \"1,5\": write numbers with a decimal point; pandas does: `import pandas as pd; \
                 pd.read_csv(\"data.csv\", sep=\"\\t\", decimal=\",\").to_csv(\"data_clean.csv\", index=False)`",
            ),
            (
                "x;z;label\n1;1,5;a\n2;12.34,5;b\n3;2;b\n",
                "data.csv, line 3: column \"z\" holds \"12.34,5\", which is not a number",
            ),
            (
                "x,label\n1,a\n2,\n",
                "data.csv, line 3: column \"label\" has an empty cell: every row needs a label: drop the rows without one",
            ),
            (
                "x,label\n1,a\n2,NA\n",
                "data.csv, line 3: column \"label\" holds \"NA\", a missing value: every row needs a label: drop the rows \
                 without one, or, where NA is the name of a class, give it another name, such as \"NA_\"",
            ),
            (
                "x,w\n1.5,2.5\n3,4\n",
                "data.csv: no label column can be told from the others: choose one of \"x\", \"w\"",
            ),
            (
                "label,w\na,u\nb,v\n",
                "data.csv: no numeric column beside the label \"label\": there are no features; where they are in another file, give both at once",
            ),
            (
                "x,label\n1,a\n2,a\n",
                "data.csv: every row has the label \"a\": metric learning needs two classes at least",
            ),
        ] {
            assert_eq!(refusal(text, None), message, "{text:?}");
        }
        assert_eq!(
            refusal("x,label\n1,a\n2,b\n", Some("kind")),
            "data.csv: there is no column \"kind\": the columns are \"x\", \"label\""
        );
        let other = NamedFile {
            name: "cat.doc".to_owned(),
            bytes: vec![0x89],
        };
        assert_eq!(
            TableReader::read(&other, Choice::default())
                .expect_err("refused")
                .to_string(),
            "cat.doc: only CSV, JSON Lines, Parquet, NPY, NPZ, safetensors and AnnData files are read: save the data as one of these"
        );
    }

    #[test]
    fn a_file_gives_the_same_table_in_parts_of_any_size() {
        let mut text = "\u{feff}late;\"x\";kind;n\r\n\r\n".to_owned();
        for row in 0..3000 {
            let late = if row < 2000 { "" } else { "word" };
            let kind = ["é", "\"a\r\nb\"", " c "][row % 3];
            text += &format!("{late};{},25;{kind};{}\r\n", row % 7, row % 5);
        }
        // Two columns of text: the label has to be chosen.
        let guessed = TableReader::read(&file(&text), Choice::default()).expect("reads");
        assert_eq!(guessed.header(), ["late", "x", "kind", "n"]);
        assert!(Labelled::of_table(guessed, None, Choice::default()).is_err());
        let whole = TableReader::read(
            &file(&text),
            Choice {
                labels: Some("kind"),
                ..Choice::default()
            },
        )
        .expect("reads");
        let rows = Labelled::of_table(whole, None, Choice::default()).expect("reads");
        assert_eq!(
            (rows.dim, &rows.values[..4]),
            (2, &[0.25, 0.0, 1.25, 1.0][..])
        );
        assert_eq!(
            rows.labels.iter().take(3).collect::<Vec<_>>(),
            ["é", "a\r\nb", "c"]
        );
        assert_eq!(
            (&rows.columns[0].1[1999], &rows.columns[0].1[2000]),
            ("", "word")
        );
        for part in [1, 2, 3, 64, 4096] {
            let mut reader = TableReader::new(
                "x.csv",
                text.len() as u64,
                Choice {
                    labels: Some("kind"),
                    ..Choice::default()
                },
            )
            .expect("a table");
            let mut parts = text.as_bytes().chunks(part);
            parts
                .try_for_each(|part| reader.push(part))
                .expect("is sound");
            let table = reader.finish().expect("ends");
            let again = Labelled::of_table(table, None, Choice::default()).expect("reads");
            assert_eq!(
                (&again.values, &again.labels),
                (&rows.values, &rows.labels),
                "{part}"
            );
            assert_eq!(
                (again.columns, again.notes),
                (rows.columns.clone(), rows.notes.clone())
            );
        }
    }

    #[test]
    fn cells_without_a_number_are_dealt_with_as_chosen() {
        let text = "a,b,label\n1,,u\n2,5,\nx,7,v\n4,inf,u\n5,6,v\n";
        let read = |missing| {
            let choice = Choice {
                missing: Some(missing),
                ..Choice::default()
            };
            Labelled::read(&file(text), None, choice).map_err(|error| error.to_string())
        };
        let message = "data.csv, line 2: column \"b\" has an empty cell, one of 3 such cells: choose what becomes of such cells";
        let labelled = text.replace("2,5,\n", "2,5,w\n");
        let choice = Choice {
            missing: Some(Missing::Refuse),
            ..Choice::default()
        };
        let refused = Labelled::read(&file(&labelled), None, choice).expect_err("refused");
        assert_eq!(refused.to_string(), message);
        let rows = read(Missing::DropRows).expect("reads");
        assert_eq!((rows.values, rows.dim), (vec![5.0, 6.0], 2));
        assert_eq!(rows.labels, ["v"][..]);
        let unlabelled = read(Missing::Median).expect_err("refused");
        assert!(
            unlabelled.ends_with("drop the rows without one (--missing drop-rows does)"),
            "{unlabelled}"
        );
        let choice = Choice {
            missing: Some(Missing::Median),
            ..Choice::default()
        };
        let filled = Labelled::read(&file(&labelled), None, choice).expect("reads");
        assert_eq!(
            filled.values,
            [1.0, 6.0, 2.0, 5.0, 3.0, 7.0, 4.0, 6.0, 5.0, 6.0]
        );
        assert_eq!(filled.labels, ["u", "w", "v", "u", "v"][..]);
        assert!(
            filled.notes[1].starts_with("filled 3 cells"),
            "{:?}",
            filled.notes
        );
    }

    #[test]
    fn integers_that_are_the_label_come_back_as_they_were_written() {
        let rows = dataset("x,group\n0.5,007\n2,12\n2.5,12\n1,007\n", None);
        assert_eq!(rows.class_names, ["007", "12"]);
        let mixed = refusal("x,group\n0.5,007\n2,12\n2.5,12\n1,7\n", None);
        assert!(mixed.contains("no label column can be told"), "{mixed}");
        let measured = dataset("target,group\n0.5,1\n2,2\n2.5,2\n1,1\n", None);
        assert_eq!(measured.label_column.as_deref(), Some("group"));
    }
}
