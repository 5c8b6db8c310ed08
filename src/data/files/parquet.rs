//! Parquet: columns of typed values in groups of rows, as pandas, polars and Spark write them. Takes an open file, gives the
//! rows of a [`Table`]: numbers are features, text may be the label, a list of numbers is a vector of features.
//!
//! A file is read as needed, a page of each column at a time. Sizes that it claims are checked before room is made for them.

mod columns;
mod pages;
mod reading;
mod shards;
mod source;
mod thrift;

use std::sync::Arc;

use parquet::column::reader::get_column_reader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};

use super::guarded::guarded;
use super::table::{Builder, Cell, MOST_COLUMNS};
use super::{NamedFile, Table, foreign, vectors};
use crate::base::error::{Error, Result};
use crate::base::ledger::Bytes;
use crate::base::quote::{cut, listed, quoted};
use crate::base::working::Working;
use crate::data::Choice;
use columns::{Column, Columns, DECIMALS};
use pages::{Packing, Pages};
use reading::{Problem, Reading};
#[cfg(not(target_arch = "wasm32"))]
pub(super) use shards::shards;
use source::Source;
use thrift::{Met, Walk};

/// Bytes that a file begins and ends with.
const MAGIC: &[u8] = b"PAR1";
/// Advice on decimal numbers.
const AS_FLOATS: &str = "which are read once pandas' `.astype(float)` made them floats";
const ENCRYPTED: &[u8] = b"PARE";
/// Bytes of the footer's length and the mark, at the end of a file.
const END_BYTES: usize = 8;
/// Nested groups of columns at most.
const MAX_DEPTH: usize = 64;
/// Bytes that the rows of a file may take in memory for any size of the file, and for each of its bytes if that is more.
const FREE_BYTES: u64 = 64 << 20;
const MAX_RATIO: u64 = 1024;
/// Bytes that are reserved at once by the claims of a file alone, and for each of its bytes if that is more.
const ROOM_BYTES: u64 = 16 << 20;
const ROOM_RATIO: u64 = 64;
/// Cells that are read at once, and rows.
const WINDOW_CELLS: usize = 1 << 18;
const WINDOW_ROWS: usize = 1024;
/// Rows that tell the length of the lists in a column.
const LOOKED_AT: usize = 16;

/// An open Parquet file, read as needed.
#[derive(Debug)]
pub struct ParquetFile {
    name: String,
    source: Arc<Source>,
    about: ParquetMetaData,
    /// Name of the whole table and the other files, if a table is in several files.
    shards: Option<(String, Vec<Self>)>,
}

/// Source of a cell of a row: a column that is read, or a number of the list of features.
#[derive(Clone, Copy, Debug)]
enum Place {
    Cell(usize),
    Number(usize, usize),
    /// A number of the vector that was parsed from a text.
    Parsed(usize),
}

/// Columns of the table that is made of those of a file.
struct Laid {
    names: Vec<String>,
    /// Source of each.
    places: Vec<Place>,
    /// Those that are text, whatever they hold.
    are_text: Vec<usize>,
    /// The column of texts that hold the vector.
    written: Option<usize>,
}

impl ParquetFile {
    /// Opens a file whose content is in memory.
    ///
    /// # Errors
    /// [`Error::Data`] when it is no Parquet file, is cut short or damaged.
    pub fn of(file: NamedFile) -> Result<Self> {
        Self::opened(file.name, Source::Memory(file.bytes.into()))
    }

    /// Opens a file on the disk, of which only the needed parts are read; a pipe is read whole.
    ///
    /// # Errors
    /// [`Error::Data`] when it is not there, is no Parquet file, is cut short or damaged.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<Self> {
        use super::disk::{self, Opened};

        let name = disk::shown(path);
        match disk::open(path)? {
            pipe @ Opened::Pipe(_) => Self::of(NamedFile::whole(name, pipe)?),
            Opened::Disk(file, bytes) => Self::of_disk(name, file, bytes),
        }
    }

    /// Takes a file that is open, of so many bytes.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn of_disk(name: String, file: std::fs::File, bytes: u64) -> Result<Self> {
        Self::opened(name, Source::Disk(file, bytes))
    }

    /// Opens a file that a browser was given; only a worker can, as it reads a file synchronously.
    ///
    /// # Errors
    /// [`Error::Data`] when it cannot be read, is no Parquet file, is cut short or damaged.
    #[cfg(target_arch = "wasm32")]
    pub fn of_blob(name: String, blob: web_sys::Blob) -> Result<Self> {
        let blob = super::blob_now::BlobNow::new(&name, blob)?;
        Self::opened(name, Source::Blob(blob))
    }

    fn opened(name: String, source: Source) -> Result<Self> {
        let about = guarded(&name, || about(&name, &source))?;
        Ok(Self {
            name,
            source: Arc::new(source),
            about,
            shards: None,
        })
    }

    /// Takes several files as one table of this name, their rows in this order. None if there are no files.
    pub fn of_shards(name: String, files: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut files = files.into_iter();
        let first = files.next()?;
        Some(Self {
            shards: Some((name, files.collect())),
            ..first
        })
    }

    /// Name of the file, or of the table in several files.
    pub fn name(&self) -> &str {
        self.shards.as_ref().map_or(&self.name, |(name, _)| name)
    }

    /// The groups of rows that hold any.
    fn groups(&self) -> Vec<&RowGroupMetaData> {
        let groups = self.about.row_groups().iter();
        groups.filter(|group| group.num_rows() != 0).collect()
    }

    /// The names that [`Choice::labels`] can take: all columns except lists.
    pub fn label_choices(&self) -> Vec<String> {
        let columns = Columns::of(self.about.file_metadata()).read.into_iter();
        let columns = columns.filter(|column| column.element.is_none());
        columns.map(|column| column.name).collect()
    }

    /// Reads the table; `choice` says which column is the label, and which list the features. `say` hears how many rows are read.
    ///
    /// # Errors
    /// [`Error::Data`] with the file, the place and what to do.
    pub fn table(&self, choice: Choice<'_>, say: &dyn Fn(Working)) -> Result<Table> {
        guarded(&self.name, || self.read(choice, say))
    }

    fn read(&self, choice: Choice<'_>, say: &dyn Fn(Working)) -> Result<Table> {
        let Columns {
            mut read,
            mut others,
            index,
        } = Columns::of(self.about.file_metadata());
        let others_of = self.shards.as_ref().map_or(&[][..], |(_, files)| files);
        let vector = match self.groups().first() {
            Some(first) => self.list(first, &read, choice)?,
            None => None,
        };
        let dim = vector.map_or(0, |(_, dim)| dim);
        let vector = vector.map(|(leaf, _)| leaf);
        let is_left = |column: &Column| column.element.is_some() && Some(column.leaf) != vector;
        let lists = read.extract_if(.., |column| is_left(column));
        let lists: Vec<String> = lists.map(|column| column.name).collect();
        let Laid {
            names,
            places,
            are_text,
            written,
        } = Laid::of(&read, vector, dim);
        let shards = std::iter::once(self).chain(others_of);
        let (mut rows, mut bytes) = (0u64, 0u64);
        for shard in shards.clone() {
            rows = rows.saturating_add(shard.check_size(&shard.groups(), names.len(), &others)?);
            bytes = bytes.saturating_add(shard.source.len());
        }
        let mut builder = Builder::new(self.name(), names, choice.labels).with(&choice.columns());
        builder.are_text(&are_text);
        if vector.is_some() {
            builder.has_vector();
        }
        let room = ROOM_BYTES.max(bytes.saturating_mul(ROOM_RATIO));
        builder.expect(rows.min(room / (4 * places.len() as u64)));
        for shard in shards {
            let own = match std::ptr::eq(shard, self) {
                true => None,
                false => Some(shards::alike(self, &read, shard)?),
            };
            for group in shard.groups() {
                let columns = own.as_deref().unwrap_or(&read);
                let vector = (dim, written);
                shard.read_group(group, columns, vector, &places, &mut builder, &|done| {
                    say(Working {
                        what: format!("reading {}", self.name()),
                        unit: "rows".to_owned(),
                        done: done as u64,
                        total: rows,
                    });
                })?;
            }
        }
        let mut table = builder.finish(None, None, false)?;
        let taken = read.iter().find(|column| Some(column.leaf) == vector);
        let note = taken
            .and_then(|taken| vectors::note(self.name(), &taken.name, choice.features, &lists));
        note.into_iter().for_each(|note| table.note(note));
        note_left(&mut table, &index, &others);
        others.extend(
            lists
                .into_iter()
                .map(|name| (name, "another list of numbers")),
        );
        table.leave_unread(others);
        Ok(table)
    }

    /// The leaf of the column whose lists, or whose texts with lists, are the features, and the length of those in the first rows;
    /// none if there is no such column.
    fn list(
        &self,
        group: &RowGroupMetaData,
        columns: &[Column],
        choice: Choice<'_>,
    ) -> Result<Option<(usize, usize)>> {
        let (mut lists, mut leaves) = (Vec::new(), Vec::new());
        let header: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let is_out = |at: usize| {
            choice
                .columns
                .is_some_and(|chosen| chosen.rules_out(&header, at))
        };
        for (at, column) in columns.iter().enumerate() {
            if column.element.is_some() || !column.is_text || is_out(at) {
                continue;
            }
            let mut reading = self.reading(group, column, 0)?;
            let next = reading.next(1);
            next.map_err(|problem| self.problem(column, 0, 0, problem))?;
            if let Cell::Text(text) = reading.cell(0)
                && let Some(values) = vectors::of_text(text)
            {
                lists.push((column.name.as_str(), values.len()));
                leaves.push(column.leaf);
            }
        }
        for column in columns.iter().filter(|column| column.element.is_some()) {
            let mut reading = self.reading(group, column, 0)?;
            let length = reading.longest(LOOKED_AT);
            let length = length.map_err(|problem| self.problem(column, 0, 0, problem))?;
            if length > 0 {
                lists.push((column.name.as_str(), length));
                leaves.push(column.leaf);
            }
        }
        let chosen = vectors::choose(&self.name, &lists, choice.features)?;
        Ok(chosen.map(|at| (leaves[at], lists[at].1)))
    }

    /// Number of rows; refused if the claimed rows are more than the file can hold.
    fn check_size(
        &self,
        groups: &[&RowGroupMetaData],
        columns: usize,
        others: &[(String, &'static str)],
    ) -> Result<u64> {
        let refuse = |problem: String| Err(Error::Data(format!("{}: {problem}", self.name)));
        if columns == 0 {
            let is_decimal = others.iter().any(|(_, what)| *what == DECIMALS);
            let how = match is_decimal {
                true => format!(": it has {DECIMALS}, {AS_FLOATS}"),
                false => String::new(),
            };
            return refuse(format!(
                "no column of numbers or text, and no list of numbers{how}"
            ));
        }
        if columns > MOST_COLUMNS {
            return refuse("more than 262,144 columns".to_owned());
        }
        let rows = groups.iter().try_fold(0_u64, |rows, group| {
            rows.checked_add(u64::try_from(group.num_rows()).ok()?)
        });
        let bytes = rows.and_then(|rows| rows.checked_mul(4 * columns as u64));
        let most = FREE_BYTES.max(self.source.len().saturating_mul(MAX_RATIO));
        match (rows, bytes) {
            (Some(rows), Some(bytes)) if bytes <= most => Ok(rows),
            (Some(rows), _) => refuse(format!(
                "{rows} rows of {columns} columns are more than {} hold: the file is damaged",
                Bytes(self.source.len())
            )),
            (None, _) => refuse("a row group of no number of rows: the file is damaged".to_owned()),
        }
    }

    /// Pushes the rows of a group to `builder`; `dim` is the length of the vector, `written` the column of texts that hold it, if
    /// any.
    fn read_group(
        &self,
        group: &RowGroupMetaData,
        columns: &[Column],
        (dim, written): (usize, Option<usize>),
        places: &[Place],
        builder: &mut Builder,
        say: &dyn Fn(usize),
    ) -> Result<()> {
        let readings = columns.iter();
        let readings: Result<Vec<Reading<'_>>> = readings
            .map(|column| self.reading(group, column, dim))
            .collect();
        let mut readings = readings?;
        let window = (WINDOW_CELLS / places.len()).clamp(1, WINDOW_ROWS);
        let mut left = usize::try_from(group.num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(window);
            for reading in &mut readings {
                let next = reading.next(rows);
                next.map_err(|problem| {
                    self.problem(reading.column(), builder.rows(), dim, problem)
                })?;
            }
            for row in 0..rows {
                let values = match written {
                    Some(at) => self.parsed(&readings[at], row, dim, builder.rows())?,
                    None => Vec::new(),
                };
                builder.push(|at| match places[at] {
                    Place::Parsed(part) => Cell::Number(values[part]),
                    Place::Cell(column) => readings[column].cell(row),
                    Place::Number(column, at) => Cell::Number(readings[column].number(row, at)),
                })?;
            }
            left -= rows;
            say(builder.rows());
        }
        Ok(())
    }

    /// The vector in the text of a row; `number` is the row's number in the file, from 0.
    fn parsed(
        &self,
        reading: &Reading<'_>,
        row: usize,
        dim: usize,
        number: usize,
    ) -> Result<Vec<f32>> {
        let text = match reading.cell(row) {
            Cell::Text(text) if !text.is_empty() => text,
            _ => return Ok(vec![f32::NAN; dim]),
        };
        let values = vectors::of_text(text).filter(|values| values.len() == dim);
        values.ok_or_else(|| {
            let (name, problem) = (
                quoted(&reading.column().name),
                vectors::problem(text, dim, "row"),
            );
            Error::Data(format!(
                "{}, row {}: column {name} {problem}",
                self.name,
                number + 1
            ))
        })
    }

    /// Opens a column of a group.
    fn reading<'a>(
        &self,
        group: &RowGroupMetaData,
        column: &'a Column,
        dim: usize,
    ) -> Result<Reading<'a>> {
        let chunk = group.columns().get(column.leaf);
        let chunk = chunk.ok_or_else(|| {
            let why = "a row group has fewer columns than the file";
            self.problem(column, 0, dim, ParquetError::General(why.to_owned()).into())
        })?;
        let packing = Packing::of(chunk.compression()).map_err(|packing| {
            Error::Data(format!(
                "{}: compressed with {packing}, which is not read: {}",
                self.name,
                foreign::as_snappy(&self.name)
            ))
        })?;
        let pages = Pages::new(&self.source, chunk, packing);
        let pages = pages.map_err(|error| self.problem(column, 0, dim, error.into()))?;
        let reader = get_column_reader(chunk.column_descr_ptr(), Box::new(pages));
        Ok(Reading::new(column, reader, dim))
    }

    /// Error for a column that cannot be read further; `first` is the first of the rows that were asked for.
    fn problem(&self, column: &Column, first: usize, dim: usize, problem: Problem) -> Error {
        let (file, name) = (&self.name, quoted(&column.name));
        Error::Data(match problem {
            Problem::Reader(ParquetError::NYI(what)) => format!(
                "{file}: column {name} holds what is not read ({}): {}",
                cut(&what),
                foreign::as_snappy(file)
            ),
            Problem::Reader(error) => format!("{file}: column {name}: {}", damaged(&error)),
            Problem::Ends => format!(
                "{file}: column {name} ends before row {}: the file is damaged",
                first + 1
            ),
            Problem::NotText(row) => format!(
                "{file}, row {}: column {name} holds a text that is not UTF-8",
                first + row + 1
            ),
            Problem::Length(row, length) => format!(
                "{file}, row {}: {name} holds {length} numbers, expected {dim} as in the first row",
                first + row + 1
            ),
        })
    }
}

impl Laid {
    /// Lays out the columns; the one with the leaf `vector` holds `dim` features a row.
    fn of(read: &[Column], vector: Option<usize>, dim: usize) -> Self {
        let (mut names, mut places, mut are_text) = (Vec::new(), Vec::new(), Vec::new());
        let mut written = None;
        for (at, column) in read.iter().enumerate() {
            if column.element.is_none() && Some(column.leaf) == vector {
                written = Some(at);
                names.extend((0..dim).map(|part| format!("{}[{part}]", column.name)));
                places.extend((0..dim).map(Place::Parsed));
                continue;
            }
            if column.element.is_some() {
                names.extend((0..dim).map(|part| format!("{}[{part}]", column.name)));
                places.extend((0..dim).map(|part| Place::Number(at, part)));
                continue;
            }
            // Beside a vector numbers are no features.
            if column.is_text || vector.is_some() {
                are_text.push(names.len());
            }
            names.push(column.name.clone());
            places.push(Place::Cell(at));
        }
        Self {
            names,
            places,
            are_text,
            written,
        }
    }
}

/// Notes on columns that are left out: those of the `index`, and `others` that are not read.
fn note_left(table: &mut Table, index: &[String], others: &[(String, &'static str)]) {
    if !index.is_empty() {
        let names = listed(index.iter().map(String::as_str));
        table.note(format!("left out, the index: {names}"));
    }
    let (decimals, left): (Vec<_>, Vec<_>) = others.iter().partition(|(_, what)| *what == DECIMALS);
    let named = |columns: &[&(String, &str)]| listed(columns.iter().map(|(name, _)| name.as_str()));
    if !left.is_empty() {
        table.note(format!("left out, no number or text: {}", named(&left)));
    }
    if !decimals.is_empty() {
        table.note(format!(
            "left out, {DECIMALS}, {AS_FLOATS}: {}",
            named(&decimals)
        ));
    }
}

/// Reads the metadata of a file, from its footer.
fn about(name: &str, source: &Source) -> Result<ParquetMetaData> {
    let refuse = |problem: &str| Err(Error::Data(format!("{name}: {problem}")));
    let bytes = source.len();
    if bytes == 0 {
        return refuse("the file is empty");
    }
    let start = source.read(0, 512.min(bytes) as usize).unwrap_or_default();
    if start.starts_with(ENCRYPTED) {
        return refuse("an encrypted Parquet file, which is not read");
    }
    if !start.starts_with(MAGIC) {
        return Err(foreign::refusal(name, &start).unwrap_or_else(|| {
            Error::Data(format!(
                "{name}: not a Parquet file, as pandas and polars write them"
            ))
        }));
    }
    let cut_short = "the file is cut short or damaged: copy or save it again";
    let end = bytes.checked_sub(END_BYTES as u64);
    let end = end.and_then(|at| source.read(at, END_BYTES).zip(Some(at)));
    let Some((end, at)) = end.filter(|(end, _)| end.ends_with(MAGIC)) else {
        return refuse(cut_short);
    };
    let length = end
        .first_chunk()
        .map_or(0, |length| u32::from_le_bytes(*length));
    let start = at.checked_sub(u64::from(length));
    let start = start.filter(|start| *start >= MAGIC.len() as u64);
    let footer = start.and_then(|start| source.read(start, length as usize));
    let Some(footer) = footer.filter(|footer| is_sound(footer)) else {
        return refuse(cut_short);
    };
    ParquetMetaDataReader::decode_metadata(&footer)
        .map_err(|error| Error::Data(format!("{name}: {}", damaged(&error))))
}

/// Tells if the footer is whole, and its columns are a tree: the crate does not check that.
fn is_sound(footer: &[u8]) -> bool {
    let (mut children, mut of_node) = (Vec::new(), 0);
    let walked = Walk::over(footer, |path, met| match (path, met) {
        ([2, 5], Met::Number(number)) => of_node = number,
        ([2], Met::End) => children.push(std::mem::take(&mut of_node)),
        _ => {}
    });
    // Number of nodes still to come in each open group.
    let mut open = vec![1_u64];
    for count in children {
        while open.last() == Some(&0) {
            open.pop();
        }
        let (Some(left), Ok(count)) = (open.last_mut(), u64::try_from(count)) else {
            return false;
        };
        *left -= 1;
        open.push(count);
        if open.len() > MAX_DEPTH {
            return false;
        }
    }
    walked.is_some() && open.iter().all(|left| *left == 0)
}

/// Message about a damaged file.
fn damaged(error: &ParquetError) -> String {
    format!(
        "the file is cut short or damaged ({}): copy or save it again",
        cut(&error.to_string())
    )
}
