//! Weights of a batch's rows in a loss that looks at all rows: the number of times that the miner keeps each row.

use super::ranks::Block;
use super::row_loss::Slices;
use super::similarities::NONE;

/// Counts each of the block's rows in the kept triplets (`mined`) or pairs: as an anchor, and with `own` also as a reference of the
/// other rows.
pub fn find(
    block: &Block,
    width: usize,
    own: bool,
    mined: bool,
    kept: Slices<'_>,
    found: &mut [u32],
) {
    let found = &mut found[..block.rows];
    for (row, found) in found.iter_mut().enumerate() {
        let [positives, negatives] = kept.sides(width, row);
        *found = match mined {
            true => {
                let times = |place: &u32| kept.times[row * width + *place as usize];
                positives.iter().map(times).sum()
            }
            false => (positives.len() + negatives.len()) as u32,
        };
    }
    if !own {
        return;
    }
    for (row, values) in kept.values.chunks_exact(width).take(block.rows).enumerate() {
        for (place, found) in found.iter_mut().enumerate() {
            if values[place] != NONE {
                *found += if mined {
                    kept.times[row * width + place]
                } else {
                    1
                };
            }
        }
    }
}

/// Writes each count over the largest as a weight; 1 if all are 0.
pub fn scale(found: &[u32], weights: &mut [f32]) {
    let most = found.iter().copied().max().unwrap_or(0);
    for (weight, found) in weights.iter_mut().zip(found) {
        *weight = if most > 0 {
            *found as f32 / most as f32
        } else {
            1.0
        };
    }
}
