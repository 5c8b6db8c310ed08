//! JSON Lines: reads an object a line, part by part, into the rows of a [`Table`]. A list of numbers is a vector of features, and
//! other values may be the label; without a list, numbers are features as in any table.

use std::collections::HashMap;
use std::fmt::{Formatter, Result as Formatted};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use super::lines::Lines;
use super::table::{Builder, Cell, MOST_COLUMNS};
use super::{Table, foreign, vectors};
use crate::base::error::{Error, Result};
use crate::base::quote::{listed, quoted};
use crate::data::{Choice, Columns};

/// Words for a list of numbers that is not the features.
const OTHER_LIST: &str = "another list of numbers";
/// Bytes of a line at most.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Keys that a note lists as left out, at most.
const MOST_OTHERS: usize = 100;

/// Takes the bytes of a file of JSON lines, and gives its table.
#[derive(Debug)]
pub(super) struct JsonLinesReader {
    name: String,
    chosen: Option<String>,
    columns: Columns,
    /// The key of the vector, if one was chosen.
    vector: Option<String>,
    /// Bytes of the file.
    total: u64,
    /// Bytes of the line under way.
    line: Vec<u8>,
    /// Number of complete lines.
    ended: usize,
    lines: Lines,
    /// Content of each key of the first line.
    keys: HashMap<String, Holds>,
    builder: Option<Builder>,
    /// Keys that the first line does not have.
    others: Vec<String>,
}

/// Content of a key's values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    /// The text of a column.
    Text(usize),
    /// `dim` numbers, from the column `first` on.
    Vector { first: usize, dim: usize },
    /// No column, with its content in words: an object, a list of text, a second vector.
    Nothing(&'static str),
}

impl JsonLinesReader {
    /// Begins with a file of this name and so many bytes; `choice` says which key is the label, and which list the features.
    pub(super) fn new(name: &str, total: u64, choice: Choice<'_>) -> Self {
        Self {
            name: name.to_owned(),
            chosen: choice.labels.map(str::to_owned),
            columns: choice.columns(),
            vector: choice.features.map(str::to_owned),
            total,
            line: Vec::new(),
            ended: 0,
            lines: Lines::default(),
            keys: HashMap::new(),
            builder: None,
            others: Vec::new(),
        }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`Error::Data`] with the line that is no object, is too long, or holds another number of numbers than the first.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if self.ended == 0
            && self.line.is_empty()
            && let Some(error) = foreign::refusal(&self.name, bytes)
        {
            return Err(error);
        }
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                let problem = "longer than 16 MiB: each row has a line of its own, so this is another kind of file";
                return Err(self.refusal(problem));
            }
            self.line.extend_from_slice(part);
            if parts.peek().is_some() {
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// Error about the line under way.
    fn refusal(&self, problem: &str) -> Error {
        Error::Data(format!("{}, line {}: {problem}", self.name, self.ended + 1))
    }

    fn end_line(&mut self) -> Result<()> {
        let line = std::mem::take(&mut self.line);
        if !line.iter().all(u8::is_ascii_whitespace) {
            self.take(&line)?;
        }
        self.ended += 1;
        // Its memory serves the next line.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<()> {
        // Counted before they are held: a value takes much more memory than a byte.
        if line.iter().filter(|byte| **byte == b',').count() >= MOST_COLUMNS {
            let problem = "more than 262,144 values: each row has a line of its own, so this is another kind of file";
            return Err(self.refusal(problem));
        }
        let Object(fields) = serde_json::from_slice(line).map_err(|error| {
            let column = error.column();
            if let Some(word) = no_json(&line[column.saturating_sub(1).min(line.len())..]) {
                return self.refusal(&format!(
                    "{word} (character {column}) is no JSON, though Python's json writes it: write null, which is read as an empty cell"
                ));
            }
            let text = error.to_string();
            let what = text.split(" at line").next().unwrap_or_default();
            self.refusal(&format!(
                "no JSON object as in {{\"label\": \"a\", \"vector\": [0.5, 1]}}: {what}, character {}",
                error.column()
            ))
        })?;
        if self.builder.is_none() {
            self.begin(&fields, line.len() as u64 + 1)?;
        }
        let mut cells: Vec<Cell<'_>> = Vec::new();
        let columns = self.builder.as_ref().map_or(0, Builder::columns);
        cells.resize(columns, Cell::Text(""));
        for (name, field) in &fields {
            let Some(holds) = self.keys.get(name) else {
                if self.others.len() < MOST_OTHERS && !self.others.contains(name) {
                    self.others.push(name.clone());
                }
                continue;
            };
            match (*holds, field) {
                (Holds::Text(column), Field::Text(text)) => cells[column] = Cell::Text(text),
                (Holds::Vector { first, dim }, Field::Vector(values)) if values.len() == dim => {
                    for (cell, value) in cells[first..].iter_mut().zip(values) {
                        *cell = Cell::Number(*value);
                    }
                }
                (Holds::Vector { dim, .. }, Field::Vector(values)) => {
                    let (name, len) = (quoted(name), values.len());
                    let problem =
                        format!("{name} holds {len} numbers, expected {dim} as in the first line");
                    return Err(self.refusal(&problem));
                }
                // A missing vector counts as `dim` missing numbers.
                (Holds::Vector { .. }, Field::Text(text)) if text.is_empty() => {}
                (Holds::Vector { first, dim }, Field::Text(text)) => {
                    let values = vectors::of_text(text).filter(|values| values.len() == dim);
                    let Some(values) = values else {
                        let problem = vectors::problem(text, dim, "line");
                        return Err(self.refusal(&format!("{} {problem}", quoted(name))));
                    };
                    for (cell, value) in cells[first..].iter_mut().zip(values) {
                        *cell = Cell::Number(value);
                    }
                }
                (Holds::Vector { .. }, _) => {
                    let problem = format!(
                        "{} is no list of numbers, expected one as in the first line",
                        quoted(name)
                    );
                    return Err(self.refusal(&problem));
                }
                (Holds::Text(_) | Holds::Nothing(_), _) => {}
            }
        }
        let Some(builder) = &mut self.builder else {
            return Ok(());
        };
        // A table's first row follows its header.
        let row = builder.rows() + 1;
        self.lines.begin(row, self.ended + 1);
        builder.push(|at| cells[at])
    }

    /// Makes columns of the fields of the first line.
    fn begin(&mut self, fields: &[(String, Field)], bytes: u64) -> Result<()> {
        let header: Vec<String> = fields.iter().map(|(name, _)| name.clone()).collect();
        let lists = fields.iter().enumerate();
        let lists = lists.filter_map(|(at, (name, field))| match field {
            Field::Vector(values) => Some((name.as_str(), values.len())),
            Field::Text(text) if !self.columns.rules_out(&header, at) => {
                Some((name.as_str(), vectors::of_text(text)?.len()))
            }
            _ => None,
        });
        let lists: Vec<(&str, usize)> = lists.collect();
        let vector = vectors::choose(&self.name, &lists, self.vector.as_deref())?;
        let (vector, dim) = vector.map(|at| lists[at]).unzip();
        let (mut columns, mut has_vector) = (Vec::new(), false);
        for (name, field) in fields {
            let first = columns.len();
            let holds = match field {
                Field::Vector(_) | Field::Text(_) if Some(name.as_str()) == vector => {
                    has_vector = true;
                    let dim = dim.unwrap_or(0);
                    columns.extend((0..dim).map(|at| format!("{name}[{at}]")));
                    Holds::Vector { first, dim }
                }
                Field::Text(_) => {
                    columns.push(name.clone());
                    Holds::Text(first)
                }
                Field::Vector(_) => Holds::Nothing(OTHER_LIST),
                Field::Other(what) => Holds::Nothing(what),
            };
            self.keys.insert(name.clone(), holds);
        }
        let texts = self.keys.values().filter_map(|holds| match holds {
            Holds::Text(column) => Some(*column),
            _ => None,
        });
        let is_text: Vec<usize> = texts.collect();
        let mut builder =
            Builder::new(&self.name, columns, self.chosen.as_deref()).with(&self.columns);
        if has_vector {
            builder.are_text(&is_text);
            builder.has_vector();
        }
        builder.expect(self.total / bytes);
        self.builder = Some(builder);
        Ok(())
    }

    /// The table, once all bytes were pushed.
    ///
    /// # Errors
    /// [`Error::Data`] when the file has no line, or its last is no object.
    pub(super) fn finish(mut self) -> Result<Table> {
        self.end_line()?;
        let Some(builder) = self.builder else {
            return Err(Error::Data(format!("{}: the file is empty", self.name)));
        };
        let mut table = builder.finish(Some(self.lines), None, false)?;
        let is_vector = |(_, holds): &(&String, &Holds)| matches!(holds, Holds::Vector { .. });
        let taken = self.keys.iter().find(is_vector);
        let lists = self
            .keys
            .iter()
            .filter(|(_, holds)| **holds == Holds::Nothing(OTHER_LIST));
        let mut lists: Vec<String> = lists.map(|(name, _)| name.clone()).collect();
        lists.sort_unstable();
        let note = taken.and_then(|(taken, _)| {
            vectors::note(&self.name, taken, self.vector.as_deref(), &lists)
        });
        note.into_iter().for_each(|note| table.note(note));
        let left = self
            .keys
            .into_iter()
            .filter_map(|(name, holds)| match holds {
                Holds::Nothing(what) => Some((name, what)),
                _ => None,
            });
        let mut left: Vec<(String, &'static str)> = left.collect();
        left.sort_unstable();
        let unlike = left.iter().filter(|(_, what)| *what != OTHER_LIST);
        let unlike: Vec<&str> = unlike.map(|(name, _)| name.as_str()).collect();
        if !unlike.is_empty() {
            let names = listed(unlike);
            table.note(format!("left out, no number or text: {names}"));
        }
        table.leave_unread(left);
        if !self.others.is_empty() {
            let others = self.others.iter().map(String::as_str);
            table.note(format!(
                "left out, not in the first line: {}",
                listed(others)
            ));
        }
        Ok(table)
    }
}

/// The word that Python writes for a number and JSON does not have, at the start of these bytes.
fn no_json(bytes: &[u8]) -> Option<&'static str> {
    let words = ["NaN", "-Infinity", "Infinity"];
    let begins = |word: &&str| bytes.starts_with(word.as_bytes());
    words.into_iter().find(begins)
}

/// The fields of a line, in their order.
struct Object(Vec<(String, Field)>);

/// A value of a line.
enum Field {
    /// Text, or a number or truth value as text; empty for null.
    Text(String),
    /// A list of numbers; NaN for a missing one.
    Vector(Vec<f32>),
    /// Another value, described in words.
    Other(&'static str),
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, text: &mut Formatter<'_>) -> Formatted {
                text.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields: Vec<(String, Field)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    fields.push((name, Field::of(value)));
                }
                let mut names: Vec<&String> = fields.iter().map(|(name, _)| name).collect();
                names.sort_unstable();
                match names.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => Err(A::Error::custom(format!(
                        "{} stands twice",
                        quoted(pair[0])
                    ))),
                    None => Ok(Object(fields)),
                }
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl Field {
    fn of(value: Value) -> Self {
        let number = |value: &Value| match value {
            Value::Null => Some(f32::NAN),
            value => value.as_f64().map(|value| value as f32),
        };
        match value {
            Value::Null => Self::Text(String::new()),
            Value::String(text) => Self::Text(text),
            Value::Bool(_) | Value::Number(_) => Self::Text(value.to_string()),
            Value::Array(values) if !values.is_empty() => {
                let is_text = values
                    .iter()
                    .all(|value| value.is_string() || value.is_null());
                let numbers: Option<Vec<f32>> = values.iter().map(number).collect();
                match numbers {
                    Some(numbers) => Self::Vector(numbers),
                    None if is_text => Self::Other("a list of text"),
                    None => Self::Other("a list of other things than numbers"),
                }
            }
            Value::Array(_) => Self::Other("an empty list"),
            Value::Object(_) => Self::Other("an object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choice, Labelled};

    fn read(text: &str) -> Result<Labelled, String> {
        let parts = [1, 7, text.len().max(1)].map(|part| {
            let mut reader = JsonLinesReader::new("x.jsonl", text.len() as u64, Choice::default());
            let mut parts = text.as_bytes().chunks(part);
            let table = parts.try_for_each(|part| reader.push(part));
            let table = table.and_then(|()| reader.finish());
            let rows = table.and_then(|table| Labelled::of_table(table, None, Choice::default()));
            rows.map_err(|error| error.to_string())
        });
        assert!(parts.iter().all(|rows| *rows == parts[0]), "{parts:?}");
        let [rows, ..] = parts;
        rows
    }

    #[test]
    fn a_list_of_numbers_is_the_features_and_what_stands_beside_may_be_the_label() {
        let text = "{\"id\": 7, \"text\": \"a, b\", \"vector\": [1, 2.5], \"Species\": \"cat\", \"tags\": [\"x\"]}\n\n\
                    {\"Species\": \"dog\", \"text\": null, \"vector\": [-3e2, 4], \"id\": 8, \"late\": 1}\r\n";
        let rows = read(text).expect("reads");
        assert_eq!((rows.values, rows.dim), (vec![1.0, 2.5, -300.0, 4.0], 2));
        assert_eq!(rows.feature_names, ["vector[0]", "vector[1]"]);
        assert_eq!(rows.labels, ["cat", "dog"][..]);
        let names: Vec<&str> = rows.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["id", "text"]);
        assert_eq!(
            rows.notes,
            [
                "label = \"Species\" (by its name)",
                "left out, no number or text: \"tags\"",
                "left out, not in the first line: \"late\"",
                "left out: \"id\", \"text\""
            ]
        );
    }

    #[test]
    fn without_a_list_numbers_are_features() {
        let rows =
            read("{\"a\": 1, \"b\": 0.5, \"kind\": \"u\"}\n{\"b\": 2, \"a\": 3, \"kind\": \"v\"}");
        let rows = rows.expect("reads");
        assert_eq!((rows.values, rows.dim), (vec![1.0, 0.5, 3.0, 2.0], 2));
        assert_eq!(rows.labels, ["u", "v"][..]);
    }

    #[test]
    fn what_python_writes_for_no_number_is_called_no_json() {
        for word in ["NaN", "Infinity", "-Infinity"] {
            let text = format!("{{\"v\": [1, 2]}}\n{{\"v\": [1, {word}]}}\n");
            let message = read(&text).expect_err("refused");
            let said = format!(
                "x.jsonl, line 2: {} (character ",
                word.trim_start_matches('-')
            );
            assert!(message.starts_with(&said), "{message}");
            assert!(
                message.ends_with("write null, which is read as an empty cell"),
                "{message}"
            );
        }
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        for (text, message) in [
            ("", "x.jsonl: the file is empty"),
            (
                "{\"v\": [1, 2], \"label\": 1}\n\n{\"v\": [1], \"label\": 2}\n",
                "x.jsonl, line 3: \"v\" holds 1 numbers, expected 2 as in the first line",
            ),
            (
                "{\"v\": [1, 2], \"label\": 1}\n{\"v\": [1, null], \"label\": 2}\n",
                "x.jsonl, line 2: column \"v[1]\" has an empty cell: fill or drop such rows first",
            ),
            (
                "{\"v\": [1, 2], \"label\": 1}\n{\"v\": \"1 2\", \"label\": 2}\n",
                "x.jsonl, line 2: \"v\" holds \"1 2\", expected 2 numbers as in the first line; where it is no vector, leave the column \
                 out (on the command line --ignore)",
            ),
            (
                "{\"v\": [1, 2], \"label\": 1}\n{\"v\": {}, \"label\": 2}\n",
                "x.jsonl, line 2: \"v\" is no list of numbers, expected one as in the first line",
            ),
            (
                "{\"v\": [1, 2], \"label\": 1}\n\n{\"v\": [1, 3]}\n",
                "x.jsonl, line 3: column \"label\" has an empty cell: every row needs a label: drop the rows without one",
            ),
        ] {
            assert_eq!(read(text).expect_err("refused"), message);
        }
        for text in ["[1, 2]\n", "{\"v\": 1", "{\"a\": 1, \"a\": 2}\n"] {
            let message = read(text).expect_err("refused");
            assert!(
                message.starts_with("x.jsonl, line 1: no JSON object as in"),
                "{message}"
            );
        }
    }
}
