//! [`Tree`]: the arrays of a file, found in its groups, with the place of their elements; what they claim is checked.

use hdf5_pure::{
    AttrValue, Dataset, Datatype, DatatypeByteOrder, FloatingPointLayout, Group, Layout,
};

use super::{MAX_CHUNK_BYTES, MAX_FREE_BYTES, MAX_RATIO, damaged};
use crate::base::ledger::Bytes;
use crate::data::files::array::{Array, full_name};
use crate::data::files::npy::{Header, Kind, shape_text};

/// Arrays of a file that are listed at most, and groups within groups.
const MAX_ARRAYS: usize = 10_000;

const MAX_DEPTH: usize = 16;

/// The arrays of an open file, and the place of their elements.
#[derive(Debug, Default)]
pub(in super::super) struct Tree {
    pub(super) file_bytes: u64,
    pub(super) nodes: Vec<Node>,
    /// Number of cells, if the file is AnnData.
    pub(super) cells: Option<u64>,
    /// The cells' names, if the file is AnnData.
    pub(super) names: Option<Dataset>,
}

/// Place of an array's elements.
#[derive(Debug)]
pub(super) enum Node {
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
pub(super) struct Sparse {
    pub(super) data: Dataset,
    pub(super) indices: Dataset,
    /// Index of the first value of each row, or column, and of the end.
    pub(super) starts: Dataset,
    pub(super) by_rows: bool,
    pub(super) rows: u64,
    pub(super) columns: u64,
}

impl Tree {
    pub(super) fn new(file_bytes: u64) -> Self {
        Self {
            file_bytes,
            ..Self::default()
        }
    }

    pub(super) fn list(
        &mut self,
        file: &str,
        root: &Group,
    ) -> Result<Vec<Array>, hdf5_pure::Error> {
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
    pub(super) fn plain(&mut self, file: &str, name: String, dataset: Dataset) -> Array {
        let shape = dataset.shape().unwrap_or_default();
        let header = self.header(&dataset, &shape);
        self.array(file, name, shape, header, Node::Plain(dataset))
    }

    pub(super) fn array(
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
    pub(super) fn add_sparse(
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
    pub(super) fn header(&self, dataset: &Dataset, shape: &[u64]) -> Result<Header, String> {
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
        } if *byte_order != DatatypeByteOrder::Vax => match float_kind(*size, layout) {
            Some(kind) => of(kind, *size, *byte_order),
            None => Err(format!(
                "floats of {size} bytes are not read in this layout: save them as float32"
            )),
        },
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

/// Kind of floats of so many bytes in this layout; none if they are not read.
fn float_kind(size: u32, layout: &FloatingPointLayout) -> Option<Kind> {
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
        .find(|(bytes, known, _)| *bytes == size && known == layout);
    found.map(|(_, _, kind)| *kind)
}
