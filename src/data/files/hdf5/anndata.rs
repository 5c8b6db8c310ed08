//! AnnData: tells the matrices of cells and the columns about cells among a file's groups, as `anndata` of any version since 0.7
//! writes them.
//! 0.7 writes them.

use hdf5_pure::{Dataset, Group};

use super::super::array::{Array, full_name};
use super::super::foreign;
use super::super::npy::{Header, Kind};
use super::super::table::LABEL_NAMES;
use super::tree::{Node, Tree};
use crate::data::Texts;

/// Columns of `X` above which its components are taken instead, as scanpy's `neighbors` does.
const WIDE: u64 = 50;
/// Components, the surest first.
const COMPONENTS: [&str; 2] = ["obsm/X_pca", "obsm/X_scVI"];
/// Bytes of all text columns beside the label at most.
const MAX_COLUMN_BYTES: usize = 32 << 20;
/// Bytes of a text besides its letters.
const TEXT_BYTES: usize = size_of::<String>() + 16;

/// Name of the cells' names, as `anndata` calls them.
const OBS_NAMES: &str = "obs_names";

/// Columns of text by name.
type Columns = Vec<(String, Texts)>;

impl Tree {
    /// The matrices and columns of AnnData; none if the file is no AnnData.
    pub(super) fn list_cells(
        &mut self,
        file: &str,
        root: &Group,
    ) -> Result<Option<Vec<Array>>, hdf5_pure::Error> {
        let attributes = root.attrs()?;
        let kind = attributes
            .get("encoding-type")
            .and_then(|kind| kind.as_str());
        let ends = file
            .to_ascii_lowercase()
            .trim_end_matches(".gz")
            .ends_with(".h5ad");
        if kind != Some("anndata") && !ends {
            return Ok(None);
        }
        let mut arrays = Vec::new();
        for (name, dataset) in root.iter_datasets()? {
            if name == "obs" || name == "X" {
                let array = self.plain(file, name, dataset);
                arrays.push(array);
            }
        }
        for (name, group) in root.iter_groups()? {
            match &name[..] {
                "X" => {
                    self.add_sparse(file, &group, "X", &mut arrays);
                }
                "obsm" | "layers" => self.add_matrices(file, &group, &name, &mut arrays)?,
                "obs" => self.add_columns(file, &group, &mut arrays)?,
                _ => {}
            }
        }
        // The matrices first: their rows are the cells.
        arrays.sort_by_key(|array| order(&array.name));
        let matrix = arrays.iter().find(|array| array.shape.len() == 2);
        self.cells = Some(matrix.map_or(0, |array| array.shape[0]));
        Ok(Some(arrays))
    }

    fn add_matrices(
        &mut self,
        file: &str,
        group: &Group,
        path: &str,
        arrays: &mut Vec<Array>,
    ) -> Result<(), hdf5_pure::Error> {
        for (name, dataset) in group.iter_datasets()? {
            let array = self.plain(file, format!("{path}/{name}"), dataset);
            arrays.push(array);
        }
        for (name, child) in group.iter_groups()? {
            let full = format!("{path}/{name}");
            let attributes = child.attrs()?;
            let kind = attributes.get("encoding-type");
            if kind.and_then(|kind| kind.as_str()) == Some("dataframe") {
                let problem = format!(
                    "a data frame, which is not read: save it as an array, `adata.{path}[\"{0}\"] = \
                     adata.{path}[\"{0}\"].to_numpy()`",
                    foreign::in_python(&name)
                );
                let array = self.array(file, full, Vec::new(), Err(problem), Node::Unread);
                arrays.push(array);
            } else {
                self.add_sparse(file, &child, &full, arrays);
            }
        }
        Ok(())
    }

    /// Adds the columns about the cells, except the cells' names.
    fn add_columns(
        &mut self,
        file: &str,
        obs: &Group,
        arrays: &mut Vec<Array>,
    ) -> Result<(), hdf5_pure::Error> {
        let attributes = obs.attrs()?;
        let index = attributes.get("_index").and_then(|name| name.as_str());
        let index = index.unwrap_or("_index").to_owned();
        // Before 0.8 the names of categories were in a group of their own.
        let old = obs.group("__categories").ok();
        for (name, dataset) in obs.iter_datasets()? {
            if name == index || name == "_index" {
                self.names = Some(dataset);
                continue;
            }
            let names = old.as_ref().and_then(|old| old.dataset(&name).ok());
            let array = match names {
                Some(names) => self.categories(file, &name, Ok((dataset, names))),
                None => self.plain(file, format!("obs/{name}"), dataset),
            };
            arrays.push(array);
        }
        for (name, group) in obs.iter_groups()? {
            let parts = |one: &str, other: &str| Ok((group.dataset(one)?, group.dataset(other)?));
            if name == index || name == "__categories" {
                continue;
            } else if group.dataset("codes").is_ok() {
                let array = self.categories(file, &name, parts("codes", "categories"));
                arrays.push(array);
            } else if group.dataset("mask").is_ok() {
                let array = self.masked(file, &name, parts("values", "mask"));
                arrays.push(array);
            }
        }
        Ok(())
    }

    fn categories(
        &mut self,
        file: &str,
        name: &str,
        parts: Result<(Dataset, Dataset), hdf5_pure::Error>,
    ) -> Array {
        let name = format!("obs/{name}");
        let checked = parts
            .map_err(|error| super::damaged(&error))
            .and_then(|(codes, names)| {
                let shape = codes.shape().unwrap_or_default();
                match self.header(&codes, &shape)?.is_number() {
                    true => Ok((shape, codes, names)),
                    false => {
                        Err("the numbers of categories are text: the file is damaged".to_owned())
                    }
                }
            });
        match checked {
            Ok((shape, codes, names)) => {
                let header = Ok(Header::plain(Kind::Text, 4, &shape));
                self.array(file, name, shape, header, Node::Categories { codes, names })
            }
            Err(problem) => self.array(file, name, Vec::new(), Err(problem), Node::Unread),
        }
    }

    fn masked(
        &mut self,
        file: &str,
        name: &str,
        parts: Result<(Dataset, Dataset), hdf5_pure::Error>,
    ) -> Array {
        let name = format!("obs/{name}");
        let checked = parts
            .map_err(|error| super::damaged(&error))
            .and_then(|(values, mask)| {
                let (shape, masks) = (
                    values.shape().unwrap_or_default(),
                    mask.shape().unwrap_or_default(),
                );
                match shape == masks {
                    true => Ok((self.header(&values, &shape)?, shape, values, mask)),
                    false => Err(
                        "as many values as marks of missing ones are expected: the file is damaged"
                            .to_owned(),
                    ),
                }
            });
        match checked {
            Ok((header, shape, values, mask)) => {
                self.array(file, name, shape, Ok(header), Node::Masked { values, mask })
            }
            Err(problem) => self.array(file, name, Vec::new(), Err(problem), Node::Unread),
        }
    }
}

/// Rank of an array in the list: matrices before columns, `X` first.
fn order(name: &str) -> u8 {
    match name {
        "X" => 0,
        _ if name.starts_with("obsm/") => 1,
        _ if name.starts_with("layers/") => 2,
        _ => 3,
    }
}

/// The column of AnnData that is named like a label, the surest name first.
pub(in super::super) fn by_name(arrays: &[Array], found: &[usize]) -> Option<usize> {
    LABEL_NAMES.iter().find_map(|label| {
        let named = |at: &&usize| {
            let name = arrays[**at].name.strip_prefix("obs/");
            name.is_some_and(|name| name.eq_ignore_ascii_case(label))
        };
        found.iter().find(named).copied()
    })
}

impl Tree {
    /// Tells if a file is AnnData, so that its arrays are named as there.
    pub(in super::super) fn is_cells(&self) -> bool {
        self.cells.is_some()
    }

    /// The matrix that is taken of AnnData if none is chosen: `X`, or its components if it is sparse or wide.
    pub(in super::super) fn components(&self, arrays: &[Array]) -> Option<usize> {
        self.cells?;
        let at = |name: &str| arrays.iter().position(|array| array.name == name);
        let x = at("X");
        let is_narrow = |x: &usize| {
            let array = &arrays[*x];
            let sparse = matches!(self.nodes[array.place], Node::Sparse(_) | Node::Unread);
            !sparse && array.shape.get(1).is_none_or(|columns| *columns <= WIDE)
        };
        let components = || COMPONENTS.iter().find_map(|name| at(name));
        x.filter(is_narrow).or_else(components).or(x)
    }

    /// The names of the cells, if they are text of moderate length.
    pub(in super::super) fn cell_names(&self, file: &str) -> Option<(String, Texts)> {
        let (dataset, cells) = (self.names.as_ref()?, self.cells?);
        let is_held = cells as usize * TEXT_BYTES <= MAX_COLUMN_BYTES;
        let read = || self.strings(&full_name(file, OBS_NAMES), dataset);
        let names = is_held.then(|| super::super::guarded::guarded(file, read));
        let names = names?.ok().filter(|names| names.len() as u64 == cells)?;
        Some((OBS_NAMES.to_owned(), names.into_iter().collect()))
    }

    /// The text columns except the label, by name, as many as fit `MAX_COLUMN_BYTES`, and the names of the others.
    pub(in super::super) fn columns(
        &self,
        file: &str,
        arrays: &[Array],
        label: usize,
    ) -> crate::base::error::Result<(Columns, Vec<String>)> {
        let (mut columns, mut left, mut held) = (Vec::new(), Vec::new(), 0);
        for (at, array) in arrays.iter().enumerate() {
            let Some(name) = array.name.strip_prefix("obs/") else {
                continue;
            };
            let is_text = array
                .header
                .as_ref()
                .is_ok_and(|header| !header.is_number());
            if at == label
                || !is_text
                || array.shape.len() != 1
                || Some(array.shape[0]) != self.cells
            {
                continue;
            }
            held += array.shape[0] as usize * TEXT_BYTES;
            if held > MAX_COLUMN_BYTES {
                left.push(name.to_owned());
                continue;
            }
            let full = full_name(file, &array.name);
            let texts = super::super::guarded::guarded(&full, || self.texts(&full, array))?;
            columns.push((name.to_owned(), texts.into_iter().collect()));
        }
        Ok((columns, left))
    }
}
