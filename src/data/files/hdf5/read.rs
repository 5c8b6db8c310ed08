//! Elements of the arrays of a file: matrices of numbers, dense or sparse, and one text a row.

use hdf5_pure::{Dataset, Datatype};

use super::tree::{Node, Sparse, Tree};
use super::windows::{Numbers, Rows, WINDOW_BYTES};
use super::{MAX_FREE_BYTES, MAX_RATIO, damaged};
use crate::base::error::{Error, Result};
use crate::base::ledger::Bytes;
use crate::base::memory::reserve;
use crate::base::working::Working;
use crate::data::files::array::Array;
use crate::data::files::guarded::guarded;
use crate::data::files::npy::{Header, Matrix, refuse_missing, shape_text};
use crate::data::{Missing, Texts};

/// The longest text that is a label.
const MAX_TEXT_BYTES: u64 = 4096;

/// Texts that are read at once.
const TEXTS: u64 = 4096;

/// Bytes of the largest dense matrix that a sparse one is expanded to.
const MAX_DENSE_BYTES: u64 = if cfg!(target_arch = "wasm32") {
    1 << 30
} else {
    4 << 30
};

impl Tree {
    /// Reads a matrix of numbers; `say` hears of the progress.
    pub(in super::super) fn read_matrix(
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
    pub(in super::super) fn read_labels(
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
                    rows.try_for_each(|(label, row)| refuse_missing(full, row, label, can_drop))?;
                }
                Ok(labels.into_iter().collect())
            }
        })
    }

    /// Reads one text a row; a missing one is empty.
    pub(super) fn texts(&self, full: &str, array: &Array) -> Result<Vec<String>> {
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
    pub(super) fn strings(&self, full: &str, dataset: &Dataset) -> Result<Vec<String>> {
        let failed = |error: hdf5_pure::Error| Error::Data(format!("{full}: {}", damaged(&error)));
        let shape = dataset.shape().map_err(failed)?;
        let header = self.header(dataset, &shape);
        let header = header.map_err(|problem| Error::Data(format!("{full}: {problem}")))?;
        if header.is_number() {
            return written(full, dataset, &header);
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

/// Numbers of a dataset as text.
fn written(full: &str, dataset: &Dataset, header: &Header) -> Result<Vec<String>> {
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
    Ok(texts)
}

impl Sparse {
    /// Expands the matrix to a dense one.
    fn read(&self, tree: &Tree, full: &str, say: &dyn Fn(Working)) -> Result<Matrix> {
        let mut values = self.zeros(tree, full)?;
        let (rows, columns) = (self.rows as usize, self.columns as usize);
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

    /// The dense matrix, all zeros; refused if it is empty, or larger than measured data becomes.
    fn zeros(&self, tree: &Tree, full: &str) -> Result<Vec<f32>> {
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
        Ok(values)
    }
}
