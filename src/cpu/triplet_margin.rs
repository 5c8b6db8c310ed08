//! Every triplet of a batch, counted and differentiated without being stored.

mod anchor;
mod ladder;
mod rule;

pub use rule::{Kind, Rule, STATUS, TERMS, Total};
pub(crate) use rule::{add_total, read_total};

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::pair_counts::PairCounts;
use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Computed, Panel, Row, Slices, farther, for_segments};
use super::tile::{PANEL, lanes, similarities};
use super::{SEGMENT, add_scaled, wide};
use crate::Distance;
use anchor::{AddRows, Anchor, KINDS, MeetAll, add_counts};
use ladder::{FEW_STEPS, Ladder, STEPS};

/// Counts triplets into the report and computes `active * d loss / d anchor`.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn mine(
    block: &Block,
    rule: &Rule,
    capacity: usize,
    inputs: Slices<'_>,
    thresholds: &mut [[u32; 2]],
    gap_counts: &mut [u32],
    parts: &mut [f32],
    gradient: &mut [f32],
    pairs: Option<usize>,
    report: &mut [u32],
) {
    let (stride, count) = (block.stride, block.rows * block.stride);
    gradient[..count].fill(0.0);
    let mut besides = vec![beside(rule, 0.0); block.rows];
    let mut whole = Panel::whole(block, inputs, thresholds, gap_counts);
    let units = whole.anchors.chunks_exact(stride);
    let outputs = parts[..count]
        .chunks_exact_mut(stride)
        .zip(gradient[..count].chunks_exact_mut(stride))
        .zip(&mut besides);
    let rows = whole.rows_mut().zip(units).zip(outputs);
    let mut rows: Vec<_> = rows
        .map(|((ranked, unit), outputs)| Own::of(ranked, unit, outputs))
        .collect();
    let computed = match pairs {
        Some(_) => Computed::All,
        None => Computed::WithBoth,
    };
    let tags = &inputs.tags[..block.references];
    rows.retain(|own| computed.holds(&own.row, tags));
    let rows_met = Block {
        rows: rows.len(),
        ..*block
    };
    let most = rows_of_a_part(rows.len(), rows_met.operations(), PANEL);
    let totals = map(rows.chunks_mut(most).collect(), |rows| {
        let mut counted = pairs.map(|_| PairCounts::NONE);
        let totals = mine_panel(block, rule, capacity, inputs, rows, &mut counted);
        (totals, counted)
    });
    for (totals, counted) in totals {
        if let (Some(first), Some(counted)) = (pairs, counted) {
            counted.add_to(&mut report[first..]);
        }
        for (kind, total) in KINDS.into_iter().zip(totals) {
            kind.add(report, total);
        }
    }
    for (term, beside) in report[TERMS + block.first_row..].iter_mut().zip(besides) {
        *term = beside.to_bits();
    }
}

/// A row's term beside its product with the gradient, from the sum of its weights.
fn beside(rule: &Rule, weights: f32) -> f32 {
    match rule.distance {
        Distance::Cosine => 0.0,
        Distance::L2 => -2.0 * weights,
    }
}

/// A row of the block, with what is read and written of it.
struct Own<'a> {
    row: Row,
    unit: &'a [f32],
    thresholds: &'a [[u32; 2]],
    gap_counts: &'a mut [u32],
    /// Its sum over a segment.
    part: &'a mut [f32],
    gradient: &'a mut [f32],
    beside: &'a mut f32,
}

/// A row's sum over a segment, its gradient, and its term beside the product of both.
type Outputs<'a> = ((&'a mut [f32], &'a mut [f32]), &'a mut f32);

impl<'a> Own<'a> {
    fn of(
        (row, thresholds, gap_counts): (Row, &'a mut [[u32; 2]], &'a mut [u32]),
        unit: &'a [f32],
        ((part, gradient), beside): Outputs<'a>,
    ) -> Self {
        Self {
            row,
            unit,
            thresholds,
            gap_counts,
            part,
            gradient,
            beside,
        }
    }

    /// The row as an anchor none of whose triplets is counted yet, and its term.
    fn anchor(&mut self, rule: &Rule) -> (Anchor<'_>, &mut f32) {
        let anchor = Anchor {
            label: self.row.label,
            ladder: Ladder::new(self.thresholds, rule.distance, STEPS),
            gap_counts: self.gap_counts,
            part: self.part,
            gradient: self.gradient,
            factors: [0.0; SEGMENT],
            weights: 0.0,
            totals: [0; KINDS.len()],
        };
        (anchor, self.beside)
    }
}

/// Counts the triplets of a panel's rows, and their pairs if `counted`.
fn mine_panel(
    block: &Block,
    rule: &Rule,
    capacity: usize,
    inputs: Slices<'_>,
    own: &mut [Own<'_>],
    counted: &mut Option<PairCounts>,
) -> [u64; KINDS.len()] {
    let units = own.iter().map(|own| own.unit).collect::<Vec<_>>().concat();
    let rows: Vec<_> = own.iter().map(|own| own.row).collect();
    let (mut anchors, besides): (Vec<_>, Vec<_>) =
        own.iter_mut().map(|own| own.anchor(rule)).unzip();
    for_segments(block, inputs, &units, |first, references, s| {
        let tags = &inputs.tags[first..];
        if let Some(counted) = counted {
            for (s, tag) in s.iter().zip(tags) {
                for (s, row) in s.iter().zip(&rows) {
                    counted.count(row, *tag, *s);
                }
            }
        }
        Arch::new().dispatch(MeetAll {
            anchors: &mut anchors,
            rule,
            s,
            tags,
        });
        Arch::new().dispatch(AddRows {
            anchors: &mut anchors,
            rows: references,
        });
        for anchor in &mut anchors {
            add_scaled(anchor.gradient, 1.0, anchor.part);
        }
    });
    let (mut totals, mut buffer) = ([0; KINDS.len()], Vec::new());
    for (anchor, term) in anchors.iter_mut().zip(besides) {
        wide(
            #[inline(always)]
            || anchor.pull(inputs.references, capacity, &mut buffer),
        );
        add_counts(&mut totals, anchor.totals);
        *term = beside(rule, anchor.weights as f32);
    }
    totals
}

/// Counts the active triplets of one negative; compiled for the instruction set of the processor.
struct Meet<'a> {
    ladder: &'a Ladder<'a>,
    rule: &'a Rule,
    v_an: f32,
    steps: [usize; 2],
}

impl WithSimd for Meet<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let met = self.ladder.meet(simd, self.rule, self.v_an, self.steps);
        met.active.len()
    }
}

/// Place of the threshold with this id, which must be one of them: the place of its similarity, or the nearest to it with the id,
/// since a similarity that is computed again may differ in its last bits.
fn place_of(thresholds: &[[u32; 2]], [s, id]: [u32; 2]) -> usize {
    let near = farther(thresholds, [s, id]).min(thresholds.len() - 1);
    let has_id = |place: &usize| {
        thresholds
            .get(*place)
            .is_some_and(|threshold| threshold[1] == id)
    };
    (0..thresholds.len())
        .flat_map(|away| [near + away, near.wrapping_sub(away)])
        .find(has_id)
        .unwrap_or(near)
}

/// The places whose rows are anchors of triplets.
fn in_triplets(rows: &[Row], tags: &[[u32; 2]], places: Range<usize>) -> Vec<usize> {
    let holds = |place: &usize| Computed::WithBoth.holds(&rows[*place], tags);
    places.filter(holds).collect()
}

/// Adds `active * d loss / d reference` if the references are the batch itself.
pub fn share_with_references(
    block: &Block,
    rule: &Rule,
    inputs: Slices<'_>,
    thresholds: &[[u32; 2]],
    gap_counts: &[u32],
    gradient: &mut [f32],
) {
    let stride = block.stride;
    let rows = &inputs.batch[block.batch..][..block.rows];
    let anchors = &inputs.anchors[block.first_row * stride..][..block.rows * stride];
    let most = rows_of_a_part(block.references, block.operations(), PANEL);
    let all_tags = &inputs.tags[..block.references];
    let own_thresholds = |row: &Row| &thresholds[row.offset as usize..][..row.positives as usize];
    let ladders: Vec<_> = rows
        .iter()
        .map(|row| Ladder::new(own_thresholds(row), rule.distance, FEW_STEPS))
        .collect();
    let panels = inputs.references.floats()[..block.references * stride]
        .chunks(most * stride)
        .zip(inputs.tags.chunks(most))
        .zip(gradient.chunks_mut(most * stride));
    map(panels.collect(), |((references, tags), gradient)| {
        let own = lanes(references, stride);
        let (mut part, mut s) = (vec![0.0; stride], [[0.0; PANEL]; SEGMENT]);
        for start in (0..rows.len()).step_by(SEGMENT) {
            let places = in_triplets(rows, all_tags, start..rows.len().min(start + SEGMENT));
            similarities(&own, anchors, &places, &mut s);
            let lanes = tags.iter().zip(gradient.chunks_exact_mut(stride));
            for (lane, ([label, id], gradient)) in lanes.enumerate() {
                part.fill(0.0);
                for (place, s) in places.iter().zip(&s) {
                    let (row, s) = (rows[*place], s[lane]);
                    let ladder = &ladders[*place];
                    if *id == row.id {
                        continue;
                    }
                    let weight = if *label != row.label {
                        let v_an = rule.distance.value(s);
                        let steps =
                            [v_an + rule.miner_margin, v_an].map(|value| ladder.step(value));
                        let active = Arch::new().dispatch(Meet {
                            ladder,
                            rule,
                            v_an,
                            steps,
                        });
                        active as f32 * rule.distance.slope(s)
                    } else {
                        let place = place_of(ladder.thresholds, [s.to_bits(), *id]);
                        let s = f32::from_bits(ladder.thresholds[place][0]);
                        -(gap_counts[row.offset as usize + place] as f32) * rule.distance.slope(s)
                    };
                    add_scaled(&mut part, weight, &anchors[place * stride..][..stride]);
                }
                add_scaled(gradient, 1.0, &part);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::sort_thresholds;
    use crate::stored::Rows;
    use crate::tile::met;

    const ROWS: u32 = 64;
    const REFERENCES: u32 = 512;

    /// References that the panels of 64 rows meet, of which every `step`-th has a positive.
    fn met_of(step: u32, pairs: Option<usize>) -> usize {
        let mut offset = 0;
        let batch: Vec<Row> = (0..ROWS)
            .map(|id| {
                let positives = u32::from(id % step == 0);
                offset += positives + 1;
                Row {
                    label: id,
                    id,
                    offset: offset - positives - 1,
                    positives,
                }
            })
            .collect();
        let label = |id: u32| match id.checked_sub(ROWS) {
            Some(row) if row < ROWS && row % step == 0 => row,
            _ => id,
        };
        let tags: Vec<[u32; 2]> = (0..REFERENCES).map(|id| [label(id), id]).collect();
        let units = [0.5; 4 * REFERENCES as usize];
        let block = Block {
            first_row: 0,
            rows: ROWS as usize,
            batch: 0,
            first_reference: 0,
            references: REFERENCES as usize,
            stride: 4,
        };
        let inputs = Slices {
            anchors: &units,
            references: Rows::F32(&units),
            batch: &batch,
            tags: &tags,
        };
        let rule = Rule {
            distance: Distance::Cosine,
            kind: Kind::All,
            miner_margin: 0.2,
            loss_margin: 0.2,
        };
        let (mut thresholds, mut gap_counts) = ([[0; 2]; 128], [0; 128]);
        sort_thresholds(&block, inputs, &mut thresholds, &mut gap_counts);
        let (mut parts, mut gradient) = ([f32::NAN; 256], [f32::NAN; 256]);
        let mut report = vec![0; 1024];
        let found = met(|| {
            mine(
                &block,
                &rule,
                1 << 20,
                inputs,
                &mut thresholds,
                &mut gap_counts,
                &mut parts,
                &mut gradient,
                pairs,
                &mut report,
            );
        });
        let anchors = u64::from(ROWS.div_ceil(step));
        assert_eq!(
            Total::Valid.read(&report),
            anchors * u64::from(REFERENCES - 2)
        );
        assert_eq!(gradient, [0.0; 256]);
        found
    }

    #[test]
    fn panels_hold_rows_of_triplets_alone_unless_pairs_are_counted() {
        let references = REFERENCES as usize;
        assert_eq!(met_of(1, None), 2 * references);
        assert_eq!(met_of(2, None), references);
        assert_eq!(met_of(40, None), references);
        assert_eq!(met_of(40, Some(TERMS + 64)), 2 * references);
    }
}
