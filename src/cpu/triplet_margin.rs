//! Every triplet of a batch, counted and differentiated without being stored.

mod anchor;
mod ladder;
mod rule;

pub use rule::{Kind, Rule, STATUS, TERMS, Total};
pub(crate) use rule::{add_total, read_total};

use pulp::{Arch, Simd, WithSimd};

use super::pair_counts::PairCounts;
use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Panel, Row, Slices, farther, for_segments};
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
    let panels = Panel::all(block, inputs, thresholds, gap_counts);
    let most = panels.first().map_or(1, |panel| panel.rows.len());
    let parts = parts[..block.rows * block.stride].chunks_mut(most * block.stride);
    let mut beside = vec![0.0; block.rows];
    let gradient = gradient[..block.rows * block.stride].chunks_mut(most * block.stride);
    let outputs = parts.zip(gradient).zip(beside.chunks_mut(most));
    let panels = panels.into_iter().zip(outputs).collect();
    let totals = map(panels, |(panel, ((parts, gradient), beside))| {
        let mut counted = pairs.map(|_| PairCounts::NONE);
        let outputs = [parts, gradient, beside];
        let totals = mine_panel(block, rule, capacity, inputs, panel, &mut counted, outputs);
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
    for (term, beside) in report[TERMS + block.first_row..].iter_mut().zip(beside) {
        *term = beside.to_bits();
    }
}

/// Counts the triplets of a panel's rows, and their pairs if `counted`. `outputs`: sums over a segment, the gradient, and each row's
/// term beside its product with the gradient.
fn mine_panel(
    block: &Block,
    rule: &Rule,
    capacity: usize,
    inputs: Slices<'_>,
    mut panel: Panel<'_>,
    counted: &mut Option<PairCounts>,
    [parts, gradient, beside]: [&mut [f32]; 3],
) -> [u64; KINDS.len()] {
    let (anchors, own) = (panel.anchors, panel.rows);
    let mut rows = anchors_of(&mut panel, rule, block.stride, [parts, gradient]);
    for anchor in &mut rows {
        anchor.gradient.fill(0.0);
    }
    for_segments(block, inputs, anchors, |first, references, s| {
        let tags = &inputs.tags[first..];
        if let Some(counted) = counted {
            for (s, tag) in s.iter().zip(tags) {
                for (s, row) in s.iter().zip(own) {
                    counted.count(row, *tag, *s);
                }
            }
        }
        Arch::new().dispatch(MeetAll {
            anchors: &mut rows,
            rule,
            s,
            tags,
        });
        Arch::new().dispatch(AddRows {
            anchors: &mut rows,
            rows: references,
        });
        for anchor in &mut rows {
            add_scaled(anchor.gradient, 1.0, anchor.part);
        }
    });
    let (mut totals, mut buffer) = ([0; KINDS.len()], Vec::new());
    for (anchor, beside) in rows.iter_mut().zip(beside) {
        wide(
            #[inline(always)]
            || anchor.pull(inputs.references, capacity, &mut buffer),
        );
        add_counts(&mut totals, anchor.totals);
        *beside = match rule.distance {
            Distance::Cosine => 0.0,
            Distance::L2 => -2.0 * anchor.weights as f32,
        };
    }
    totals
}

/// The rows of a panel, none of whose triplets is counted yet.
fn anchors_of<'a>(
    panel: &'a mut Panel<'_>,
    rule: &Rule,
    stride: usize,
    [parts, gradient]: [&'a mut [f32]; 2],
) -> Vec<Anchor<'a>> {
    panel
        .rows_mut()
        .zip(parts.chunks_exact_mut(stride))
        .zip(gradient.chunks_exact_mut(stride))
        .map(|(((row, thresholds, gap_counts), part), gradient)| Anchor {
            label: row.label,
            ladder: Ladder::new(thresholds, rule.distance, STEPS),
            gap_counts,
            part,
            gradient,
            factors: [0.0; SEGMENT],
            weights: 0.0,
            totals: [0; KINDS.len()],
        })
        .collect()
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
        let mut part = vec![0.0; stride];
        let mut s = [[0.0; PANEL]; SEGMENT];
        for start in (0..rows.len()).step_by(SEGMENT) {
            let places: Vec<usize> = (start..rows.len().min(start + SEGMENT)).collect();
            similarities(&own, anchors, &places, &mut s);
            let lanes = tags.iter().zip(gradient.chunks_exact_mut(stride));
            for (lane, ([label, id], gradient)) in lanes.enumerate() {
                part.fill(0.0);
                for (place, s) in places.iter().zip(&s) {
                    let (row, s) = (rows[*place], s[lane]);
                    let ladder = &ladders[*place];
                    if ladder.thresholds.is_empty() || *id == row.id {
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
