//! `sample:digits`: the 1,797 handwritten digits of the UCI repository, 8 x 8 pixels from 0 to 16, as scikit-learn ships
//! them; `digits.py` made `digits.npy`, `digits.md` says where they come from.

use super::{Dataset, Missing, RowSource};

const PIXELS: usize = 64;
/// The header that NumPy wrote before the rows: 64 pixels and the digit, a byte each.
const HEADER_BYTES: usize = 128;

/// The digits, pixels over 16.
pub(super) fn load() -> Dataset {
    let rows = &include_bytes!("digits.npy")[HEADER_BYTES..];
    let rows = rows.chunks_exact(PIXELS + 1);
    let pixels = rows.clone().flat_map(|row| &row[..PIXELS]);
    Dataset {
        name: "sample:digits".to_owned(),
        features: RowSource::Memory {
            values: pixels.map(|pixel| f32::from(*pixel) / 16.0).collect(),
            dim: PIXELS,
        },
        feature_names: Vec::new(),
        labels: rows.map(|row| u32::from(row[PIXELS])).collect(),
        class_names: (0..10).map(|digit: u32| digit.to_string()).collect(),
        label_column: None,
        columns: Vec::new(),
        missing: Missing::default(),
        joined: false,
        notes: vec!["8 x 8 pixels each, from the UCI repository by way of scikit-learn".to_owned()],
    }
}
