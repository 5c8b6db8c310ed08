//! `sample:cells`: 3,990 cells of the human and the mouse pancreas (Baron et al. 2016), 50 principal components of their gene
//! expression, 11 cell types; `cells.py` made `cells.npz`, `cells.md` says where they come from. Cells of the two species lie
//! apart, so that a head has something to undo.

use crate::base::error::Result;
use crate::data::{Dataset, Labelled, NamedFile};
use crate::rules::config::{Split, TrainConfig};

pub(super) const NAME: &str = "sample:cells";

/// Name of the file; natively its content is in the program, and a page fetches it.
pub(super) const FILE: &str = "cells.npz";

/// The sample's file with this content.
pub(super) fn file(bytes: Vec<u8>) -> NamedFile {
    NamedFile {
        name: FILE.to_owned(),
        bytes,
    }
}

/// The sample from the rows of its file.
///
/// # Errors
/// [`crate::Error::Data`] for rows of another file.
pub(super) fn of(rows: Labelled) -> Result<Dataset> {
    let cells = Dataset::new(rows)?;
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

/// The settings to start from: a stratified split, so that each cell type has the same fraction in the test; the smallest has ten
/// cells.
pub(super) fn config() -> TrainConfig {
    TrainConfig {
        split: Split::Stratified,
        test_fraction: 0.5,
        validation_fraction: 0.1,
        ..TrainConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_cells_of_eleven_types() {
        let cells = Dataset::sample("cells", 0).expect("is there");
        assert_eq!((cells.rows(), cells.features.dim()), (3990, 50));
        assert_eq!(cells.class_names.len(), 11);
        assert_eq!(cells.class_sizes().iter().min(), Some(&10));
    }
}
