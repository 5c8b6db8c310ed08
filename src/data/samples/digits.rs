//! `sample:digits`: the 1,797 handwritten digits of the UCI repository, 8 x 8 pixels from 0 to 16, as scikit-learn ships
//! them; `digits.py` made `digits.npy`, `digits.md` says where they come from.

use crate::base::error::{Error, Result};
use crate::data::{Dataset, RowSource};
use crate::rules::config::TrainConfig;

const PIXELS: usize = 64;
/// Bytes of NumPy's header before the rows; a row is 64 pixels and the digit, a byte each.
const HEADER_BYTES: usize = 128;

/// Name of the file; natively its content is in the program, and a page fetches it.
pub(super) const FILE: &str = "digits.npy";
const ROWS: usize = 1797;

pub(super) const NAME: &str = "sample:digits";

/// The settings to start from: half of the rows are tested, as in the baselines of PML.
pub(super) fn config() -> TrainConfig {
    TrainConfig {
        test_fraction: 0.5,
        validation_fraction: 0.1,
        // Fewer than the training rows, so that no row is in the memory twice.
        memory_size: 512,
        ..TrainConfig::default()
    }
}

/// The digits from the bytes of their file, pixels over 16.
///
/// # Errors
/// [`Error::Data`] for bytes of another file.
pub(super) fn read(bytes: &[u8]) -> Result<Dataset> {
    if bytes.len() != HEADER_BYTES + ROWS * (PIXELS + 1) {
        return Err(Error::Data(format!("{FILE}: not the file of the sample")));
    }
    let rows = bytes[HEADER_BYTES..].chunks_exact(PIXELS + 1);
    let pixels = rows.clone().flat_map(|row| &row[..PIXELS]);
    Ok(Dataset {
        name: NAME.to_owned(),
        features: RowSource::Memory {
            values: pixels.map(|pixel| f32::from(*pixel) / 16.0).collect(),
            dim: PIXELS,
        },
        labels: rows.map(|row| u32::from(row[PIXELS])).collect(),
        class_names: (0..10).map(|digit: u32| digit.to_string()).collect(),
        notes: vec!["8 x 8 pixels each, from the UCI repository by way of scikit-learn".to_owned()],
        ..Dataset::empty()
    })
}
