//! HDF5: datasets in a tree, and AnnData, the tree in which scanpy keeps single cells. Takes an open file, lists its arrays and
//! hands out their elements.
//!
//! A file is read as needed, a window of rows at a time. The size that a dataset claims is checked first: against the length of the
//! file if its elements are stored as they are, else against the compression that measured data can reach.

mod anndata;
mod source;
#[cfg(not(target_arch = "wasm32"))]
mod written;

use std::io::{Error as IoError, Read};

use hdf5_pure::{
    AttrValue, ChunkCacheConfig, Dataset, Datatype, DatatypeByteOrder, File, FileAccessProperties,
    FloatingPointLayout, FormatError, Group, Layout, MetadataCacheConfig,
};

use super::array::{Array, full_name};
use super::guarded::guarded;
use super::named_file::damaged_data;
use super::npy::{self, Header, Kind, Matrix, shape_text};
use super::{NamedFile, foreign};
use crate::base::error::{Error, Result};
use crate::base::ledger::Bytes;
use crate::base::memory::reserve;
use crate::base::quote::cut;
use crate::base::working::Working;
use crate::data::{Missing, Texts};

pub(super) use anndata::by_name;
#[cfg(not(target_arch = "wasm32"))]
pub use written::add_embeddings;

/// Bytes of a window: the rows that are unpacked at once.
const WINDOW_BYTES: u64 = 4 << 20;
/// The largest chunk that is unpacked; h5py makes them of 1 MiB at most.
const MAX_CHUNK_BYTES: u64 = 16 << 20;
/// The longest text that is a label.
const MAX_TEXT_BYTES: u64 = 4096;
/// Texts that are read at once.
const TEXTS: u64 = 4096;
/// Bytes that a dataset may unpack to for any size of its file, and for each byte of the file if that is more.
const MAX_FREE_BYTES: u64 = 64 << 20;
const MAX_RATIO: u64 = 1024;
/// Bytes of the largest dense matrix that a sparse one is expanded to.
const MAX_DENSE_BYTES: u64 = if cfg!(target_arch = "wasm32") {
    1 << 30
} else {
    4 << 30
};
/// Arrays of a file that are listed at most, and groups within groups.
const MAX_ARRAYS: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// An open HDF5 file, read as needed.
#[derive(Debug)]
pub struct Hdf5File {
    name: String,
    file: File,
}

impl Hdf5File {
    /// Opens a file whose content is in memory.
    ///
    /// # Errors
    /// [`Error::Data`] when it is no HDF5 file, is cut short or damaged.
    pub fn of(file: NamedFile) -> Result<Self> {
        if file.bytes.is_empty() {
            return Err(Error::Data(format!("{}: the file is empty", file.name)));
        }
        let NamedFile { name, bytes } = file;
        let refusal = foreign::refusal(&name, &bytes);
        Self::opened(name, refusal, || {
            File::from_bytes_with_options(bytes, access())
        })
    }

    fn opened(
        name: String,
        refusal: Option<Error>,
        open: impl FnOnce() -> Result<File, hdf5_pure::Error>,
    ) -> Result<Self> {
        let file = guarded(&name, || {
            open().map_err(|error| match error {
                hdf5_pure::Error::Format(FormatError::SignatureNotFound) => {
                    refusal.unwrap_or_else(|| {
                        Error::Data(format!(
                            "{name}: not an HDF5 file, as h5py and anndata write them"
                        ))
                    })
                }
                error => Error::Data(format!("{name}: {}", damaged(&error))),
            })
        })?;
        Ok(Self { name, file })
    }

    /// Name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lists the arrays.
    pub(super) fn list(&self) -> Result<(Tree, Vec<Array>)> {
        let mut tree = Tree {
            file_bytes: self.file.file_size(),
            nodes: Vec::new(),
            cells: None,
        };
        let arrays = guarded(&self.name, || {
            let arrays = tree.list(&self.name, &self.file.root());
            arrays.map_err(|error| Error::Data(format!("{}: {}", self.name, damaged(&error))))
        })?;
        if arrays.is_empty() {
            return Err(Error::Data(format!(
                "{}: there is no array in it",
                self.name
            )));
        }
        Ok((tree, arrays))
    }
}

/// Caches of a file: small ones.
fn access() -> FileAccessProperties {
    FileAccessProperties::new()
        .with_chunk_cache(ChunkCacheConfig::new())
        .with_metadata_cache(MetadataCacheConfig::new(1 << 20))
}

/// The arrays of an open file, and the place of their elements.
#[derive(Debug)]
pub(super) struct Tree {
    file_bytes: u64,
    nodes: Vec<Node>,
    /// Number of cells, if the file is AnnData.
    cells: Option<u64>,
}

/// Place of an array's elements.
#[derive(Debug)]
enum Node {
    /// One dataset.
    Plain(Dataset),
    /// The three datasets of a sparse matrix.
    Sparse(Box<Sparse>),
    /// Category codes, and the names of the categories.
    Categories { codes: Dataset, names: Dataset },
    /// Values, with a mask of the missing ones.
    Masked { values: Dataset, mask: Dataset },
    /// None: the array is not read.
    Unread,
}

/// A sparse matrix: the values that are not zero, row by row (CSR) or column by column (CSC).
#[derive(Debug)]
struct Sparse {
    data: Dataset,
    indices: Dataset,
    /// Index of the first value of each row, or column, and of the end.
    starts: Dataset,
    by_rows: bool,
    rows: u64,
    columns: u64,
}

impl Tree {
    fn list(&mut self, file: &str, root: &Group) -> Result<Vec<Array>, hdf5_pure::Error> {
        if let Some(arrays) = self.list_cells(file, root)? {
            return Ok(arrays);
        }
        let mut arrays = Vec::new();
        self.walk(file, root, "", 0, &mut arrays)?;
        Ok(arrays)
    }

    /// Lists the datasets below a group, in the order of their names.
    fn walk(
        &mut self,
        file: &str,
        group: &Group,
        path: &str,
        depth: usize,
        arrays: &mut Vec<Array>,
    ) -> Result<(), hdf5_pure::Error> {
        for (name, dataset) in group.iter_datasets()? {
            if arrays.len() >= MAX_ARRAYS {
                return Ok(());
            }
            let array = self.plain(file, format!("{path}{name}"), dataset);
            arrays.push(array);
        }
        // A group may hold itself.
        if depth < MAX_DEPTH {
            for (name, child) in group.iter_groups()? {
                let path = format!("{path}{name}/");
                if !self.add_sparse(file, &child, path.trim_end_matches('/'), arrays) {
                    self.walk(file, &child, &path, depth + 1, arrays)?;
                }
                if arrays.len() >= MAX_ARRAYS {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Adds a dataset as an array.
    fn plain(&mut self, file: &str, name: String, dataset: Dataset) -> Array {
        let shape = dataset.shape().unwrap_or_default();
        let header = self.header(&dataset, &shape);
        self.array(file, name, shape, header, Node::Plain(dataset))
    }

    fn array(
        &mut self,
        file: &str,
        name: String,
        shape: Vec<u64>,
        header: Result<Header, String>,
        node: Node,
    ) -> Array {
        let full = full_name(file, &name);
        self.nodes.push(node);
        Array {
            place: self.nodes.len() - 1,
            shape,
            packed: 0,
            bytes: 0,
            header: header.map_err(|problem| format!("{full}: {problem}")),
            name,
        }
    }

    /// Adds a group as an array if it holds a sparse matrix; returns if it does.
    fn add_sparse(
        &mut self,
        file: &str,
        group: &Group,
        name: &str,
        arrays: &mut Vec<Array>,
    ) -> bool {
        let Some(by_rows) = sparse_kind(group) else {
            return false;
        };
        let name = name.to_owned();
        let array = match self.sparse(group, by_rows) {
            Ok(sparse) => {
                let shape = vec![sparse.rows, sparse.columns];
                let header = Ok(Header::plain(Kind::Float, 4, &shape));
                self.array(file, name, shape, header, Node::Sparse(Box::new(sparse)))
            }
            Err(problem) => self.array(file, name, Vec::new(), Err(problem), Node::Unread),
        };
        arrays.push(array);
        true
    }

    /// Opens the parts of a sparse matrix and checks that they fit each other.
    fn sparse(&self, group: &Group, by_rows: bool) -> Result<Sparse, String> {
        let failed = |error: hdf5_pure::Error| damaged(&error);
        let part = |name: &str| -> Result<(Dataset, u64), String> {
            let dataset = group.dataset(name).map_err(failed)?;
            let shape = dataset.shape().map_err(failed)?;
            let header = self.header(&dataset, &shape)?;
            match (&shape[..], header.is_number()) {
                ([length], true) => Ok((dataset, *length)),
                _ => Err(format!(
                    "\"{name}\" is no list of numbers: the file is damaged"
                )),
            }
        };
        let attributes = group.attrs().map_err(failed)?;
        let shape = attributes
            .get("shape")
            .or_else(|| attributes.get("h5sparse_shape"));
        let [rows, columns] = shape.and_then(numbers).unwrap_or_default()[..] else {
            return Err("a sparse matrix without a shape: save it again with anndata".to_owned());
        };
        let ((data, values), (indices, places), (starts, lines)) =
            (part("data")?, part("indices")?, part("indptr")?);
        let expected = if by_rows { rows } else { columns };
        if values != places || Some(lines) != expected.checked_add(1) {
            return Err(format!(
                "a sparse matrix {} with {values} values at {places} places and {lines} starts: the file is damaged",
                shape_text(&[rows, columns])
            ));
        }
        Ok(Sparse {
            data,
            indices,
            starts,
            by_rows,
            rows,
            columns,
        })
    }

    /// Type of a dataset's elements; refused if the file cannot hold as many as the shape claims.
    fn header(&self, dataset: &Dataset, shape: &[u64]) -> Result<Header, String> {
        let failed = |error: hdf5_pure::Error| damaged(&error);
        let unread: Vec<String> = dataset.filters().into_iter().filter_map(unread).collect();
        if let Some(filter) = unread.first() {
            return Err(format!(
                "compressed with {filter}, which is not read: save the file again with compression=\"gzip\""
            ));
        }
        let item = dataset.element_size().map_err(failed)?;
        let bytes = shape
            .iter()
            .try_fold(item, |bytes, side| bytes.checked_mul(*side));
        let claim = || {
            format!(
                "the shape {} is more than the file holds: it is cut short or damaged",
                shape_text(shape)
            )
        };
        let bytes = bytes.ok_or_else(claim)?;
        match dataset.layout().map_err(failed)? {
            Layout::Chunked { chunk_shape, .. } => {
                let chunk = chunk_shape
                    .iter()
                    .try_fold(item, |bytes, side| bytes.checked_mul(*side));
                let chunk = chunk.filter(|bytes| *bytes <= MAX_CHUNK_BYTES);
                chunk.ok_or_else(|| {
                    format!(
                        "chunks of {} are not read: save the file again with chunks of {} at most",
                        shape_text(&chunk_shape),
                        Bytes(MAX_CHUNK_BYTES)
                    )
                })?;
                if bytes > MAX_FREE_BYTES && bytes / MAX_RATIO > self.file_bytes {
                    return Err(claim());
                }
            }
            Layout::Virtual => {
                return Err(
                    "a virtual dataset, whose data is in other files: save a copy of it".to_owned(),
                );
            }
            _ if bytes > self.file_bytes => return Err(claim()),
            _ => {}
        }
        element(&dataset.datatype().map_err(failed)?, shape)
    }

    /// Reads a matrix of numbers; `say` hears of the progress.
    pub(super) fn read_matrix(
        &self,
        full: &str,
        array: &Array,
        header: &Header,
        say: &dyn Fn(Working),
    ) -> Result<Matrix> {
        guarded(full, || self.matrix(full, array, header, say))
    }

    fn matrix(
        &self,
        full: &str,
        array: &Array,
        header: &Header,
        say: &dyn Fn(Working),
    ) -> Result<Matrix> {
        let heard = |dataset| Ok(Rows::new(full, dataset)?.heard("rows", say));
        match &self.nodes[array.place] {
            Node::Plain(dataset) => header.read_matrix(full, heard(dataset)?),
            Node::Sparse(sparse) => sparse.read(self, full, say),
            Node::Masked { values, mask } => {
                let missing = self.missing(full, mask)?;
                let mut matrix = header.read_matrix(full, heard(values)?)?;
                let values = matrix.values.iter_mut().zip(missing);
                let missing = values.filter(|(_, missing)| *missing);
                missing.for_each(|(value, _)| *value = f32::NAN);
                Ok(matrix)
            }
            Node::Categories { .. } | Node::Unread => Err(Error::Data(format!(
                "{full}: text, expected numbers as features"
            ))),
        }
    }

    /// Reads one label a row.
    pub(super) fn read_labels(
        &self,
        full: &str,
        array: &Array,
        header: &Header,
        missing: Option<Missing>,
    ) -> Result<Texts> {
        header.label_count(full)?;
        guarded(full, || match &self.nodes[array.place] {
            Node::Plain(dataset) if header.is_number() => {
                header.read_labels(full, Rows::new(full, dataset)?)
            }
            _ => {
                let labels = self.texts(full, array)?;
                if missing != Some(Missing::DropRows) {
                    let mut rows = labels.iter().zip(1..);
                    let can_drop = missing.is_some();
                    rows.try_for_each(|(label, row)| {
                        npy::refuse_missing(full, row, label, can_drop)
                    })?;
                }
                Ok(labels.into_iter().collect())
            }
        })
    }

    /// Reads one text a row; a missing one is empty.
    fn texts(&self, full: &str, array: &Array) -> Result<Vec<String>> {
        match &self.nodes[array.place] {
            Node::Plain(dataset) => self.strings(full, dataset),
            Node::Categories { codes, names } => {
                let names = self.strings(full, names)?;
                let mut texts = Vec::new();
                self.integers(full, codes, |code| {
                    let name = usize::try_from(code).ok().map(|code| names.get(code));
                    texts.push(match name {
                        None => String::new(),
                        Some(Some(name)) => name.clone(),
                        Some(None) => {
                            return Err(Error::Data(format!(
                                "{full}: row {}: the category {code}, where there are {}: the file is damaged",
                                texts.len() + 1,
                                names.len()
                            )));
                        }
                    });
                    Ok(())
                })?;
                Ok(texts)
            }
            Node::Masked { values, mask } => {
                let missing = self.missing(full, mask)?;
                let mut texts = self.strings(full, values)?;
                let texts_ = texts.iter_mut().zip(missing);
                texts_
                    .filter(|(_, missing)| *missing)
                    .for_each(|(text, _)| text.clear());
                Ok(texts)
            }
            Node::Sparse(_) | Node::Unread => Err(Error::Data(format!(
                "{full}: a matrix, expected one label a row"
            ))),
        }
    }

    /// Reads the elements of a dataset of one dimension as texts.
    fn strings(&self, full: &str, dataset: &Dataset) -> Result<Vec<String>> {
        let failed = |error: hdf5_pure::Error| Error::Data(format!("{full}: {}", damaged(&error)));
        let shape = dataset.shape().map_err(failed)?;
        let header = self.header(dataset, &shape);
        let header = header.map_err(|problem| Error::Data(format!("{full}: {problem}")))?;
        if header.is_number() {
            let mut texts = Vec::new();
            let rows = Rows::new(full, dataset)?;
            header.each_item(full, rows, |item| {
                texts.push(match header.is_label() {
                    true => header.text(full, item)?,
                    // As Python writes it.
                    false => format!("{:?}", header.number(item)),
                });
                Ok(())
            })?;
            return Ok(texts);
        }
        let rows = shape.iter().product::<u64>();
        let item = dataset.element_size().map_err(failed)?;
        let (mut texts, mut held) = (Vec::new(), 0);
        let step = if item > MAX_TEXT_BYTES {
            0
        } else {
            (WINDOW_BYTES / item).clamp(1, TEXTS)
        };
        let too_long = |row: u64| {
            Error::Data(format!(
                "{full}: row {row}: a text of more than {MAX_TEXT_BYTES} bytes is no label"
            ))
        };
        if step == 0 {
            return Err(too_long(1));
        }
        let varies = matches!(
            dataset.datatype().map_err(failed)?,
            Datatype::VariableLength { .. }
        );
        for first in (0..rows).step_by(step as usize) {
            if varies {
                // Each element begins with the length of its text, which is stored elsewhere: several may share one.
                let raw = dataset.read_raw_rows(first, step).map_err(failed)?;
                for (row, item) in raw.chunks_exact(item as usize).enumerate() {
                    let length = item
                        .first_chunk()
                        .map_or(0, |length| u32::from_le_bytes(*length));
                    held += u64::from(length);
                    if u64::from(length) > MAX_TEXT_BYTES {
                        return Err(too_long(first + row as u64 + 1));
                    }
                }
                if held > self.file_bytes {
                    return Err(Error::Data(format!(
                        "{full}: its texts are longer than the file: it is damaged"
                    )));
                }
            }
            texts.extend(dataset.read_string_rows(first, step).map_err(failed)?);
        }
        Ok(texts)
    }

    /// Passes every element of a dataset to `take`, as an integer.
    fn integers(
        &self,
        full: &str,
        dataset: &Dataset,
        mut take: impl FnMut(i64) -> Result<()>,
    ) -> Result<()> {
        let failed = |error: hdf5_pure::Error| Error::Data(format!("{full}: {}", damaged(&error)));
        let shape = dataset.shape().map_err(failed)?;
        let header = self.header(dataset, &shape);
        let header = header.map_err(|problem| Error::Data(format!("{full}: {problem}")))?;
        let rows = Rows::new(full, dataset)?;
        header.each_item(full, rows, |item| take(header.integer(item)))
    }

    /// Reads a mask: true for each missing row.
    fn missing(&self, full: &str, mask: &Dataset) -> Result<Vec<bool>> {
        let mut missing = Vec::new();
        self.integers(full, mask, |item| {
            missing.push(item != 0);
            Ok(())
        })?;
        Ok(missing)
    }
}

impl Sparse {
    /// Expands the matrix to a dense one.
    fn read(&self, tree: &Tree, full: &str, say: &dyn Fn(Working)) -> Result<Matrix> {
        let shape = [self.rows, self.columns];
        let count = self.rows.checked_mul(self.columns);
        let bytes = count.and_then(|count| count.checked_mul(size_of::<f32>() as u64));
        let claimed = bytes.unwrap_or(u64::MAX);
        if claimed > MAX_DENSE_BYTES
            || (claimed > MAX_FREE_BYTES && claimed / MAX_RATIO > tree.file_bytes)
        {
            return Err(Error::Data(format!(
                "{full}: a sparse matrix {} takes {} where every zero is written out, and {} may be: take its \
                 components, which scanpy makes (`sc.pp.pca(a, n_comps=50)`) and keeps in obsm/X_pca",
                shape_text(&shape),
                Bytes(claimed),
                Bytes(
                    MAX_DENSE_BYTES
                        .min(MAX_FREE_BYTES.max(tree.file_bytes.saturating_mul(MAX_RATIO)))
                )
            )));
        }
        let (rows, columns) = (self.rows as usize, self.columns as usize);
        if rows == 0 || columns == 0 {
            return Err(Error::Data(format!(
                "{full}: the shape is {}: there is nothing in it",
                shape_text(&shape)
            )));
        }
        let mut values: Vec<f32> = Vec::new();
        reserve(&mut values, claimed / 4, full)?;
        values.resize(rows * columns, 0.0);
        let damaged = || {
            Error::Data(format!(
                "{full}: the starts or places of a sparse matrix do not fit: the file is damaged"
            ))
        };
        let (mut data, mut places) = (
            Numbers::new(tree, full, &self.data)?,
            Numbers::new(tree, full, &self.indices)?,
        );
        data.rows = data.rows.heard("values", say);
        let (mut line, mut start) = (0, None);
        let across = if self.by_rows { columns } else { rows };
        tree.integers(full, &self.starts, |end| {
            let end = u64::try_from(end).map_err(|_| damaged())?;
            if let Some(start) = start {
                let length = u64::checked_sub(end, start).ok_or_else(damaged)?;
                for _ in 0..length {
                    let place = places
                        .next()?
                        .and_then(|(bits, _)| usize::try_from(bits).ok());
                    let place = place.filter(|place| *place < across).ok_or_else(damaged)?;
                    let (_, value) = data.next()?.ok_or_else(damaged)?;
                    let at = if self.by_rows {
                        line * columns + place
                    } else {
                        place * columns + line
                    };
                    values[at] += value;
                }
                line += 1;
            } else if end != 0 {
                return Err(damaged());
            }
            start = Some(end);
            Ok(())
        })?;
        if places.next()?.is_some() {
            return Err(damaged());
        }
        Ok(Matrix { columns, values })
    }
}

/// Reads the elements of a dataset of numbers, one after the other.
struct Numbers<'a> {
    full: &'a str,
    header: Header,
    rows: Rows<'a>,
    item: Vec<u8>,
}

impl<'a> Numbers<'a> {
    fn new(tree: &Tree, full: &'a str, dataset: &'a Dataset) -> Result<Self> {
        let shape = dataset.shape();
        let shape = shape.map_err(|error| Error::Data(format!("{full}: {}", damaged(&error))))?;
        let header = tree.header(dataset, &shape);
        let header = header.map_err(|problem| Error::Data(format!("{full}: {problem}")))?;
        Ok(Self {
            full,
            item: vec![0; header.item_bytes()],
            header,
            rows: Rows::new(full, dataset)?,
        })
    }

    /// The next element, as an integer and as f32; none at the end.
    fn next(&mut self) -> Result<Option<(i64, f32)>> {
        if self.rows.is_over() {
            return Ok(None);
        }
        let read = self.rows.read_exact(&mut self.item);
        read.map_err(|error| damaged_data(self.full, &error))?;
        let (header, item) = (&self.header, &self.item[..]);
        Ok(Some((header.integer(item), header.number(item))))
    }
}

/// The elements of a dataset in the order of its rows, unpacked a window at a time.
struct Rows<'a> {
    full: &'a str,
    dataset: &'a Dataset,
    row: u64,
    rows: u64,
    /// Rows of a window.
    step: u64,
    window: Vec<u8>,
    at: usize,
    /// Word for its rows, and the listener that hears of the progress.
    heard: Option<(&'static str, &'a dyn Fn(Working))>,
}

impl<'a> Rows<'a> {
    fn new(full: &'a str, dataset: &'a Dataset) -> Result<Self> {
        let failed = |error: hdf5_pure::Error| Error::Data(format!("{full}: {}", damaged(&error)));
        let shape = dataset.shape().map_err(failed)?;
        let rows = shape.first().copied().unwrap_or(1);
        let sides = shape.iter().skip(1).product::<u64>();
        let row_bytes = dataset.element_size().map_err(failed)?;
        let row_bytes = row_bytes.saturating_mul(sides).max(1);
        let mut step = (WINDOW_BYTES / row_bytes).max(1);
        if let Some(chunk) = dataset.chunk_shape().map_err(failed)? {
            // The reader trusts that chunks lie in the dataset.
            for stored in dataset.chunks().map_err(failed)? {
                if stored.offset.len() != shape.len()
                    || stored
                        .offset
                        .iter()
                        .zip(&shape)
                        .any(|(at, side)| at >= side)
                {
                    return Err(Error::Data(format!(
                        "{full}: a chunk lies outside of the shape {}: the file is damaged",
                        shape_text(&shape)
                    )));
                }
            }
            // A chunk is unpacked only once if windows hold whole chunks.
            let chunk = chunk.first().copied().unwrap_or(1).max(1);
            let most = MAX_CHUNK_BYTES / row_bytes / chunk * chunk;
            if most > 0 {
                step = step.next_multiple_of(chunk).min(most);
            }
        }
        Ok(Self {
            full,
            dataset,
            row: 0,
            rows,
            step,
            window: Vec::new(),
            at: 0,
            heard: None,
        })
    }

    /// Tells `say` of each window read.
    fn heard(self, unit: &'static str, say: &'a dyn Fn(Working)) -> Self {
        Self {
            heard: Some((unit, say)),
            ..self
        }
    }

    fn is_over(&self) -> bool {
        self.at == self.window.len() && self.row >= self.rows
    }
}

impl Read for Rows<'_> {
    fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.window.len() && self.row < self.rows {
            let step = self.step.min(self.rows - self.row);
            self.window = Vec::new();
            let window = self.dataset.read_raw_rows(self.row, step);
            self.window = window.map_err(|error| IoError::other(cut(&error.to_string())))?;
            self.row += step;
            self.at = 0;
            if let Some((unit, say)) = self.heard {
                say(Working {
                    what: format!("reading {}", self.full),
                    unit: unit.to_owned(),
                    done: self.row,
                    total: self.rows,
                });
            }
        }
        let left = &self.window[self.at..];
        let count = left.len().min(part.len());
        part[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Storage order if a group holds a sparse matrix: true for row by row (CSR); none for another group.
fn sparse_kind(group: &Group) -> Option<bool> {
    let attributes = group.attrs().ok()?;
    let kind = attributes
        .get("encoding-type")
        .or_else(|| attributes.get("h5sparse_format"))?;
    match kind.as_str()? {
        "csr_matrix" | "csr" => Some(true),
        "csc_matrix" | "csc" => Some(false),
        _ => None,
    }
}

/// The numbers of an attribute; none if it holds others than whole ones from 0 on.
fn numbers(value: &AttrValue) -> Option<Vec<u64>> {
    let of = |values: &[i64]| {
        values
            .iter()
            .map(|value| u64::try_from(*value).ok())
            .collect()
    };
    match value {
        AttrValue::I64Array(values) => of(values),
        AttrValue::I32Array(values) => values
            .iter()
            .map(|value| u64::try_from(*value).ok())
            .collect(),
        AttrValue::U64Array(values) => Some(values.clone()),
        AttrValue::U32Array(values) => Some(values.iter().copied().map(u64::from).collect()),
        _ => None,
    }
}

/// The name of a filter that is not read; none if it is read.
fn unread(filter: u16) -> Option<String> {
    let name = match filter {
        1 | 2 | 3 | 6 | 32000 => return None,
        4 => "szip",
        5 => "nbit",
        307 => "bzip2",
        32001 => "blosc",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32015 => "zstd",
        32026 => "blosc2",
        other => return Some(format!("filter {other}")),
    };
    Some(name.to_owned())
}

/// Type of an element, or the reason why it is not read.
fn element(datatype: &Datatype, shape: &[u64]) -> Result<Header, String> {
    let big = |order: DatatypeByteOrder| order == DatatypeByteOrder::BigEndian;
    let of =
        |kind, size: u32, order| Ok(Header::plain(kind, size as usize, shape).ordered(big(order)));
    match datatype {
        Datatype::FixedPoint {
            size: size @ (1 | 2 | 4 | 8),
            byte_order,
            layout,
        } if layout.bit_offset == 0
            && u32::from(layout.bit_precision) == 8 * size
            && *byte_order != DatatypeByteOrder::Vax =>
        {
            let kind = if layout.signed {
                Kind::Signed
            } else {
                Kind::Unsigned
            };
            of(kind, *size, *byte_order)
        }
        Datatype::FloatingPoint {
            size,
            byte_order,
            layout,
        } if *byte_order != DatatypeByteOrder::Vax => {
            let half = FloatingPointLayout {
                bit_precision: 16,
                exponent_location: 10,
                exponent_size: 5,
                mantissa_size: 10,
                exponent_bias: 15,
                ..FloatingPointLayout::IEEE754_BINARY32
            };
            let brain = FloatingPointLayout {
                bit_precision: 16,
                exponent_location: 7,
                mantissa_size: 7,
                ..FloatingPointLayout::IEEE754_BINARY32
            };
            let known = [
                (2, half, Kind::Float),
                (2, brain, Kind::Brain),
                (4, FloatingPointLayout::IEEE754_BINARY32, Kind::Float),
                (8, FloatingPointLayout::IEEE754_BINARY64, Kind::Float),
            ];
            let found = known
                .iter()
                .find(|(bytes, known, _)| bytes == size && known == layout);
            match found {
                Some((_, _, kind)) => of(*kind, *size, *byte_order),
                None => Err(format!(
                    "floats of {size} bytes are not read in this layout: save them as float32"
                )),
            }
        }
        // NumPy's booleans.
        Datatype::Enumeration { base_type, .. } => element(base_type, shape),
        Datatype::String { .. }
        | Datatype::VariableLength {
            is_string: true, ..
        } => Ok(Header::plain(Kind::Text, 4, shape)),
        Datatype::Compound { .. } => {
            Err("a table of records: save its columns as arrays of their own".to_owned())
        }
        _ => Err("elements of this type are not read: save them as float32".to_owned()),
    }
}

/// Message about a file that cannot be read further.
fn damaged(error: &hdf5_pure::Error) -> String {
    let why = cut(&error.to_string());
    if let hdf5_pure::Error::Format(
        FormatError::InvalidLayoutVersion(_) | FormatError::UnsupportedVersion(_),
    ) = error
    {
        return format!(
            "written in a form of HDF5 that is not read ({why}): save it again, with h5py's libver=(\"v110\", \"v110\")"
        );
    }
    format!("the file is cut short or damaged ({why}): copy or save it again")
}
