//! `sample:cells`: 3,990 cells of the human and the mouse pancreas (Baron et al. 2016), 50 principal components of their gene
//! expression, 11 cell types; `cells.py` made `cells.npz`, `cells.md` says where they come from. Cells of the two species lie
//! apart, so that a head has something to undo.

use super::{Choice, Dataset, Labelled, NamedFile};
use crate::config::{Split, TrainConfig};
use crate::error::Result;

pub(super) const NAME: &str = "sample:cells";

/// The file: natively it is in the program, and a page fetches it.
pub(super) const FILE: &str = "cells.npz";

/// The sample from the bytes of its file.
///
/// # Errors
/// [`crate::Error::Data`] for bytes of another file.
pub(super) fn read(bytes: Vec<u8>) -> Result<Dataset> {
    let file = NamedFile {
        name: FILE.to_owned(),
        bytes,
    };
    let cells = Dataset::new(Labelled::read(&file, None, Choice::default())?)?;
    Ok(Dataset {
        name: NAME.to_owned(),
        label_column: None,
        notes: vec![
            "gene expression of human and mouse pancreas cells (Baron et al. 2016), from the Python package \"came\""
                .to_owned(),
        ],
        ..cells
    })
}

/// Each type has the same part of its cells in the test: the smallest has ten.
pub(super) fn config() -> TrainConfig {
    TrainConfig {
        split: Split::Stratified,
        ..TrainConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn the_file_holds_cells_of_eleven_types() {
        let cells = Dataset::sample("cells", 0).expect("is there");
        assert_eq!((cells.rows(), cells.features.dim()), (3990, 50));
        assert_eq!(cells.class_names.len(), 11);
        assert_eq!(cells.class_sizes().iter().min(), Some(&10));
        assert!(matches!(read(b"no NPZ".to_vec()), Err(Error::Data(_))));
    }
}
