//! The hardest triplet of each row of a batch: its farthest positive and its nearest negative.

use bytemuck::{Pod, Zeroable};

use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, NO_ID, Slices, for_segments};
use super::tile::PANEL;

/// References among which one workgroup looks.
pub const CHUNK: usize = 4096;

/// Hardest positive and negative of a row, each as `[bits of the similarity, id]`; [`NO_ID`] if there is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Hardest {
    /// The farthest positive.
    pub positive: [u32; 2],
    /// The nearest negative.
    pub negative: [u32; 2],
}

impl Hardest {
    /// Neither a positive nor a negative.
    pub const NONE: Self = Self {
        positive: [0, NO_ID],
        negative: [0, NO_ID],
    };

    /// The harder positive and the harder negative of both: the hardest among the references of both.
    #[must_use]
    pub fn harder(self, other: Self) -> Self {
        Self {
            positive: smaller(self.positive, other.positive, 1.0),
            negative: smaller(self.negative, other.negative, -1.0),
        }
    }
}

/// The entry of the smaller `sign * similarity`, of equals that of the smaller id.
fn smaller(a: [u32; 2], b: [u32; 2], sign: f32) -> [u32; 2] {
    let s = |[bits, _]: [u32; 2]| sign * f32::from_bits(bits);
    match (a[1], b[1]) {
        (NO_ID, _) => b,
        (_, NO_ID) => a,
        _ if s(b) < s(a) || (s(b) == s(a) && b[1] < a[1]) => b,
        _ => a,
    }
}

/// Picks the hardest triplet of every row of the block among each chunk of the references.
pub fn pick(block: &Block, inputs: Slices<'_>, found: &mut [Hardest]) {
    let most = rows_of_a_part(block.rows, block.operations(), PANEL);
    let chunks = found
        .chunks_mut(block.rows)
        .zip((0..block.references).step_by(CHUNK));
    for (found, first_reference) in chunks {
        let chunk = Block {
            first_reference,
            references: CHUNK.min(block.references - first_reference),
            ..*block
        };
        let anchors =
            &inputs.anchors[block.first_row * block.stride..][..block.rows * block.stride];
        let rows = &inputs.batch[block.batch..][..block.rows];
        let panels = anchors
            .chunks(most * block.stride)
            .zip(rows.chunks(most))
            .zip(found.chunks_mut(most));
        map(panels.collect(), |((anchors, rows), found)| {
            found.fill(Hardest::NONE);
            for_segments(&chunk, inputs, anchors, |first, _, s| {
                for (s, [label, id]) in s.iter().zip(&inputs.tags[first..]) {
                    for ((s, row), found) in s.iter().zip(rows).zip(&mut *found) {
                        let candidate = [s.to_bits(), *id];
                        if *label != row.label {
                            found.negative = smaller(found.negative, candidate, -1.0);
                        } else if *id != row.id {
                            found.positive = smaller(found.positive, candidate, 1.0);
                        }
                    }
                }
            });
        });
    }
}
