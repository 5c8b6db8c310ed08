//! Files of named arrays: NPZ, safetensors and HDF5. Shapes tell the arrays of features and labels, unless they are chosen. Takes a
//! file, gives features and labels; a format lists its arrays and hands out their elements.

use super::array::{Array, full_name};
#[cfg(feature = "hdf5")]
use super::hdf5;
use super::npy::{Header, Matrix, shape_text};
use super::settled::check_counts;
use super::{Format, NamedFile, npz, safetensors, table};
use crate::base::error::{Error, Result};
use crate::base::quote::{LISTED, quoted};
use crate::base::working::Working;
use crate::data::{Choice, Labelled, Labels, Missing, Texts};

/// A file whose arrays are known by name and shape, and not yet read.
#[derive(Debug)]
pub(crate) struct Arrays<'a> {
    name: &'a str,
    held: Held<'a>,
    arrays: Vec<Array>,
}

/// Place of the elements.
#[derive(Debug)]
pub(super) enum Held<'a> {
    /// Members of an archive.
    Npz(npz::Archive<'a>),
    /// Ranges of these bytes.
    Safetensors(&'a [u8]),
    /// Datasets of an open file.
    #[cfg(feature = "hdf5")]
    Hdf5(hdf5::Tree),
}

impl<'a> Arrays<'a> {
    /// Lists the arrays of a file of NPZ or safetensors.
    ///
    /// # Errors
    /// [`Error::Data`] for a file that is not of the format that its ending says, is cut short or damaged, or holds none.
    pub(super) fn open(file: &'a NamedFile) -> Result<Self> {
        let (held, arrays) = match Format::of(&file.name) {
            Some(Format::Safetensors) => (Held::Safetensors(&file.bytes), safetensors::open(file)?),
            #[cfg(not(feature = "hdf5"))]
            Some(Format::Hdf5) => {
                let problem = "HDF5 files are not read by this build (feature \"hdf5\")";
                return Err(Error::Data(format!("{}: {problem}", file.name)));
            }
            _ => {
                let (archive, arrays) = npz::open(file)?;
                (Held::Npz(archive), arrays)
            }
        };
        Ok(Self {
            name: &file.name,
            held,
            arrays,
        })
    }

    /// Lists the arrays of an open HDF5 file.
    ///
    /// # Errors
    /// [`Error::Data`] if the file is damaged, or holds none.
    #[cfg(feature = "hdf5")]
    pub(crate) fn of(file: &'a hdf5::Hdf5File) -> Result<Self> {
        let (tree, arrays) = file.list()?;
        Ok(Self {
            name: file.name(),
            held: Held::Hdf5(tree),
            arrays,
        })
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    #[cfg(feature = "hdf5")]
    fn tree(&self) -> Option<&hdf5::Tree> {
        match &self.held {
            Held::Hdf5(tree) => Some(tree),
            _ => None,
        }
    }

    /// Tells if the file is AnnData, whose arrays have fixed places.
    fn is_cells(&self) -> bool {
        #[cfg(feature = "hdf5")]
        {
            self.tree().is_some_and(hdf5::Tree::is_cells)
        }
        #[cfg(not(feature = "hdf5"))]
        {
            false
        }
    }

    /// Names of the arrays that can be labels, as a choice takes them.
    pub(super) fn label_choices(&self) -> Vec<String> {
        let labels = self.arrays.iter().filter(|array| {
            let is_label = array.header.as_ref().is_ok_and(Header::is_label);
            is_label && (array.shape.len() == 1 || array.is_column())
        });
        labels.map(|array| self.label_name(&array.name)).collect()
    }

    /// The name by which labels are chosen: for AnnData that of the column in obs.
    fn label_name(&self, name: &str) -> String {
        let column = name.strip_prefix("obs/").filter(|_| self.is_cells());
        column.unwrap_or(name).to_owned()
    }

    /// The matrix of features: the chosen one or the only one, with `rows` rows if that is known.
    fn features(&self, chosen: Option<&str>, rows: Option<u64>) -> Result<usize> {
        if let Some(name) = chosen {
            return self.find(name);
        }
        #[cfg(feature = "hdf5")]
        if let Some(matrix) = self.tree().and_then(|tree| tree.components(&self.arrays)) {
            return Ok(matrix);
        }
        let found = self.all(|array| {
            array.shape.len() == 2 && array.header.as_ref().map_or(true, Header::is_number)
        });
        let found = self.prefer(found, |array| {
            rows.is_none_or(|rows| array.shape[0] == rows)
        });
        let found = self.prefer(found, |array| !array.is_column());
        self.only(
            &found,
            "features",
            "an array of numbers for the features, (rows, features),",
        )
    }

    /// The array that holds the labels of `rows` rows: the one that was chosen, or the only one of this length.
    fn labels(&self, chosen: Option<&str>, rows: u64) -> Result<usize> {
        if let Some(name) = chosen {
            return self.find(name);
        }
        let fits = |array: &Array| array.shape[..] == [rows];
        let found = self.all(|array| fits(array) || (array.is_column() && array.shape[0] == rows));
        let found = self.prefer(found, |array| {
            array.header.as_ref().map_or(true, Header::is_label)
        });
        let found = self.prefer(found, fits);
        #[cfg(feature = "hdf5")]
        if self.is_cells() {
            return self.column(&found);
        }
        let found = self.prefer(found, |array| {
            let name = array.name.rsplit('/').next().unwrap_or_default();
            table::is_label_name(name)
        });
        self.only(
            &found,
            "labels",
            &format!("an array for the labels, ({rows},),"),
        )
    }

    /// The label column of AnnData: the one that is named like a label, or the only one of text.
    #[cfg(feature = "hdf5")]
    fn column(&self, found: &[usize]) -> Result<usize> {
        let header = |at: &usize| self.arrays[*at].header.as_ref();
        let is_label = |at: &usize| {
            self.arrays[*at].name.starts_with("obs/") && header(at).is_ok_and(Header::is_label)
        };
        let found: Vec<usize> = found.iter().copied().filter(is_label).collect();
        if let Some(label) = hdf5::by_name(&self.arrays, &found) {
            return Ok(label);
        }
        let is_text = |at: &usize| header(at).is_ok_and(|header| !header.is_number());
        let texts: Vec<usize> = found.iter().copied().filter(is_text).collect();
        if texts.is_empty() && !found.is_empty() {
            return Err(self.refuse(&format!(
                "no column of obs can be told to be the labels: choose one of {}",
                self.list(&found)
            )));
        }
        self.only(&texts, "labels", "a column of obs for the labels")
    }

    fn all(&self, fits: impl Fn(&Array) -> bool) -> Vec<usize> {
        let all = 0..self.arrays.len();
        all.filter(|at| fits(&self.arrays[*at])).collect()
    }

    /// The `better` ones of several arrays; all of them if none is.
    fn prefer(&self, found: Vec<usize>, better: impl Fn(&Array) -> bool) -> Vec<usize> {
        let best: Vec<usize> = found
            .iter()
            .copied()
            .filter(|at| better(&self.arrays[*at]))
            .collect();
        if best.is_empty() { found } else { best }
    }

    fn only(&self, found: &[usize], role: &str, wanted: &str) -> Result<usize> {
        match found {
            [at] => Ok(*at),
            [] => {
                let all: Vec<usize> = (0..self.arrays.len()).collect();
                Err(self.refuse(&format!(
                    "{wanted} is missing: the arrays are {}",
                    self.list(&all)
                )))
            }
            [first, ..] => Err(self.refuse(&format!(
                "several arrays can be the {role}, {}: choose one after a colon, as in {}",
                self.list(found),
                self.full_name(&self.arrays[*first].name)
            ))),
        }
    }

    fn find(&self, name: &str) -> Result<usize> {
        let bare = name.strip_suffix(".npy").unwrap_or(name);
        let named = |name: &str| self.arrays.iter().position(|array| array.name == name);
        let places = ["obs/", "obsm/", "layers/"];
        let placed = || {
            places
                .iter()
                .find_map(|place| named(&format!("{place}{name}")))
        };
        let found = named(name).or_else(|| named(bare));
        let found = found.or_else(|| placed().filter(|_| self.is_cells()));
        found.ok_or_else(|| {
            let all: Vec<usize> = (0..self.arrays.len()).collect();
            self.refuse(&format!(
                "there is no array {}: the arrays are {}",
                quoted(name),
                self.list(&all)
            ))
        })
    }

    /// Lists arrays with their shapes, for a message.
    fn list(&self, arrays: &[usize]) -> String {
        let mut list: Vec<String> = arrays
            .iter()
            .map(|at| &self.arrays[*at])
            .map(|array| format!("{} {}", quoted(&array.name), shape_text(&array.shape)))
            .collect();
        if list.len() > LISTED {
            let more = list.split_off(LISTED).len();
            list.push(format!("and {more} more"));
        }
        list.join(", ")
    }

    /// Reads a matrix of numbers; `say` hears of the progress if it is read part by part.
    fn read_matrix(&mut self, at: usize, say: &dyn Fn(Working)) -> Result<Matrix> {
        #[cfg(feature = "hdf5")]
        if let Held::Hdf5(tree) = &self.held {
            let (header, full) = self.header(at)?;
            header.matrix_shape(&full)?;
            return tree.read_matrix(&full, &self.arrays[at], header, say);
        }
        #[cfg(not(feature = "hdf5"))]
        let _ = say;
        self.read(at, |header, name, items| header.read_matrix(name, items))
    }

    /// Reads the labels of an array; some may be empty if `missing` leaves rows without a label out.
    fn read_labels(&mut self, at: usize, missing: Option<Missing>) -> Result<Texts> {
        #[cfg(feature = "hdf5")]
        if let Held::Hdf5(tree) = &self.held {
            let (header, full) = self.header(at)?;
            return tree.read_labels(&full, &self.arrays[at], header, missing);
        }
        #[cfg(not(feature = "hdf5"))]
        let _ = missing;
        self.read(at, |header, name, items| header.read_labels(name, items))
    }

    fn row_count(&self, at: usize) -> Result<usize> {
        let (header, full) = self.header(at)?;
        Ok(header.matrix_shape(&full)?.0)
    }

    fn label_count(&self, at: usize) -> Result<usize> {
        let (header, full) = self.header(at)?;
        header.label_count(&full)
    }

    /// Type of an array's elements, and the array's name as the command line takes it.
    fn header(&self, at: usize) -> Result<(&Header, String)> {
        let array = &self.arrays[at];
        let header = array.header.as_ref();
        let header = header.map_err(|problem| Error::Data(problem.clone()))?;
        Ok((header, self.full_name(&array.name)))
    }

    /// Passes the elements of an array to `read`.
    fn read<T>(
        &mut self,
        at: usize,
        read: impl FnOnce(&Header, &str, &mut dyn std::io::Read) -> Result<T>,
    ) -> Result<T> {
        let array = &self.arrays[at];
        let full = full_name(self.name, &array.name);
        let header = array.header.as_ref();
        let header = header.map_err(|problem| Error::Data(problem.clone()))?;
        match &mut self.held {
            Held::Npz(archive) => {
                archive.read(&full, array, header, |items| read(header, &full, items))
            }
            Held::Safetensors(bytes) => {
                let mut items = &bytes[array.place..][..array.bytes as usize];
                read(header, &full, &mut items)
            }
            #[cfg(feature = "hdf5")]
            Held::Hdf5(_) => unreachable!("datasets are read by their tree"),
        }
    }

    /// An array's name as the command line takes it.
    pub(super) fn full_name(&self, array: &str) -> String {
        full_name(self.name, array)
    }

    fn refuse(&self, problem: &str) -> Error {
        Error::Data(format!("{}: {problem}", self.name))
    }
}

/// Reads features and labels from one file; `say` hears how much of the features is read.
///
/// # Errors
/// [`Error::Data`] when the file is damaged, and when it does not say by itself which arrays they are.
pub(super) fn read_labelled(
    mut arrays: Arrays<'_>,
    choice: Choice<'_>,
    say: &dyn Fn(Working),
) -> Result<Labelled> {
    let labels = choice.labels.map(|name| arrays.find(name)).transpose()?;
    let rows = labels.and_then(|at| arrays.arrays[at].shape.first().copied());
    let features = arrays.features(choice.features, rows)?;
    let rows = arrays.arrays[features].shape.first().copied().unwrap_or(0);
    let labels = match labels {
        Some(labels) => labels,
        None => arrays.labels(None, rows)?,
    };
    let (rows, count) = (arrays.row_count(features)?, arrays.label_count(labels)?);
    check_counts(arrays.name, rows, arrays.name, count)?;
    let matrix = arrays.read_matrix(features, say)?;
    let names = arrays.read_labels(labels, choice.missing)?;
    #[cfg_attr(
        not(feature = "hdf5"),
        expect(unused_mut, reason = "only AnnData has columns")
    )]
    let (mut columns, mut ids, mut notes) = (
        Vec::new(),
        None,
        notes(&arrays, &[("features", features), ("label", labels)]),
    );
    #[cfg(feature = "hdf5")]
    if let Held::Hdf5(tree) = &arrays.held {
        let (kept, left) = tree.columns(arrays.name, &arrays.arrays, labels)?;
        columns = kept;
        ids = tree.cell_names(arrays.name);
        if !left.is_empty() {
            let left = crate::base::quote::listed(left.iter().map(String::as_str));
            notes.push(format!(
                "columns that take too much memory to split by: {left}"
            ));
        }
    }
    Ok(Labelled {
        name: arrays.name.to_owned(),
        values: matrix.values,
        dim: matrix.columns,
        labels: names,
        label_column: Some(arrays.label_name(&arrays.arrays[labels].name)),
        columns,
        ids,
        notes,
        ..Labelled::default()
    })
}

/// Reads only features, with the keys of the rows if a key array is chosen, and notes on what was taken; `say` hears how much is
/// read.
///
/// # Errors
/// As [`read_labelled`].
pub(crate) fn read_features(
    mut arrays: Arrays<'_>,
    choice: Choice<'_>,
    say: &dyn Fn(Working),
) -> Result<(Matrix, Option<Texts>, Vec<String>)> {
    let features = arrays.features(choice.features, None)?;
    let keys = choice.on().map(|on| arrays.find(on)).transpose()?;
    let keys = keys.map(|at| arrays.read_labels(at, choice.missing));
    let matrix = arrays.read_matrix(features, say)?;
    Ok((
        matrix,
        keys.transpose()?,
        notes(&arrays, &[("features", features)]),
    ))
}

/// Reads only the labels of `rows` rows, with notes on what was taken; `check` gets their number before they are read.
///
/// # Errors
/// As [`read_labelled`].
pub(super) fn read_labels(
    mut arrays: Arrays<'_>,
    choice: Choice<'_>,
    rows: usize,
    check: impl FnOnce(usize) -> Result<()>,
) -> Result<Labels> {
    let on = choice.on().map(|on| Ok((on, arrays.find(on)?)));
    let on = on.transpose()?;
    // Labels that are joined by keys may outnumber the rows.
    let rows = on.map_or(rows as u64, |(_, at)| {
        arrays.arrays[at].shape.first().copied().unwrap_or(0)
    });
    let at = arrays.labels(choice.labels, rows)?;
    check(arrays.label_count(at)?)?;
    let keys = on.map(|(on, at)| Ok((on.to_owned(), arrays.read_labels(at, None)?)));
    Ok(Labels {
        on: None,
        labels: arrays.read_labels(at, None)?,
        column: Some(arrays.label_name(&arrays.arrays[at].name)),
        columns: keys.transpose()?.into_iter().collect(),
        notes: notes(&arrays, &[("label", at)]),
    })
}

/// Notes on the arrays that were taken from a file, and on those left out.
fn notes(arrays: &Arrays<'_>, taken: &[(&str, usize)]) -> Vec<String> {
    let mut notes: Vec<String> = taken
        .iter()
        .map(|(role, at)| format!("{role} = {}", arrays.list(&[*at])))
        .collect();
    let left: Vec<usize> = (0..arrays.arrays.len())
        .filter(|at| taken.iter().all(|(_, taken)| taken != at))
        .collect();
    if !left.is_empty() {
        notes.push(format!("left out: {}", arrays.list(&left)));
    }
    notes
}
