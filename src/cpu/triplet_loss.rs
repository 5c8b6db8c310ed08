//! Triplet loss over the pairs that the miner kept, one triplet at a time.

use super::parallel::{map, rows_of_a_part};
use super::ranks::Block;
use super::stored::Rows;
use super::tile::dot;
use super::triplet_margin::{Rule, Total};
use super::{SEGMENT, similarities::NONE};

/// Rule that mines triplets of the kept references, and their loss: `TripletMarginLoss` with all its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighing {
    /// The band of triplets that is mined, and the margin of the loss.
    pub rule: Rule,
    /// Compares the negative with the positive in place of the anchor if it is nearer to the positive.
    pub swap: bool,
    /// Every positive forms a triplet with one negative alone: the nearest that is strictly farther than the positive, or else the
    /// farthest of all; of equals the first. Not together with `swap`.
    pub one_negative: bool,
    /// The loss is `log(1 + exp(x))` in place of `max(0, x)`: every mined triplet is active.
    pub smooth: bool,
}

/// A mined triplet with a loss.
struct Cost {
    loss: f32,
    /// `d loss / d (v_an - v_ap)`.
    slope: f32,
    /// Share of the slope that falls to `v_an`; the rest falls to `v_pn`. Each gets half if both are equal, as in torch.
    own: f32,
}

/// Counts of the triplets that are [`COUNTED`].
#[derive(Default)]
struct Counts([u64; 4]);

const COUNTED: [Total; 4] = [Total::Within, Total::Hard, Total::Mined, Total::Active];

impl Counts {
    fn add(&mut self, of_a_triplet: [bool; 4]) {
        for (count, holds) in self.0.iter_mut().zip(of_a_triplet) {
            *count += u64::from(holds);
        }
    }
}

impl Weighing {
    /// Loss and slope of a mined triplet; `None` if it is not active.
    fn cost(&self, v_ap: f32, v_an: f32, v_pn: impl Fn() -> f32) -> Option<Cost> {
        let (mut nearest, mut own) = (v_an, 1.0);
        if self.swap {
            let v_pn = v_pn();
            nearest = v_an.max(v_pn);
            own = match v_an.total_cmp(&v_pn) {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 1.0,
            };
        }
        let tm = v_ap - nearest;
        let x = self.rule.loss_margin - tm;
        if self.smooth {
            return Some(Cost {
                loss: x.max(0.0) + (-x.abs()).exp().ln_1p(),
                slope: 1.0 / (1.0 + (-x).exp()),
                own,
            });
        }
        (tm < self.rule.loss_margin).then_some(Cost {
            loss: x,
            slope: 1.0,
            own,
        })
    }
}

/// Inputs of the pass, as in `kernels::triplet_loss::triplet_loss`.
#[derive(Clone, Copy)]
pub struct Slices<'a> {
    /// Unit rows `[references, stride]`.
    pub references: Rows<'a>,
    /// `[rows, width]`: similarities of kept references, or minus distances.
    pub values: &'a [f32],
    /// `[rows, width]`: numbers of kept references, positives from the front and negatives from the back.
    pub places: &'a [u32],
    /// `[rows]`: number of kept positives, and of kept negatives.
    pub counts: &'a [[u32; 2]],
}

/// Writes `d loss / d similarity` of the block's rows, and each row's sum of losses.
pub fn triplet_loss(
    block: &Block,
    width: usize,
    weighing: &Weighing,
    inputs: Slices<'_>,
    weights: &mut [f32],
    losses: &mut [u32],
    report: &mut [u32],
) {
    let cost = if weighing.swap { block.stride } else { 16 };
    let pairs: u64 = inputs.counts[..block.rows]
        .iter()
        .map(|[p, n]| u64::from(*p) * u64::from(*n))
        .sum();
    let operations = pairs.saturating_mul(2 * cost as u64);
    let most = rows_of_a_part(
        block.rows,
        usize::try_from(operations).unwrap_or(usize::MAX),
        block.rows,
    );
    let panels = (0..block.rows)
        .step_by(most)
        .zip(weights[..block.rows * width].chunks_mut(most * width))
        .zip(losses[..block.rows].chunks_mut(most));
    let counts = map(panels.collect(), |((first, weights), losses)| {
        let mut counts = Counts::default();
        let rows = (first..).zip(weights.chunks_exact_mut(width)).zip(losses);
        for ((row, weights), loss) in rows {
            *loss = weigh_row(block, width, weighing, inputs, row, weights, &mut counts).to_bits();
        }
        counts
    });
    for Counts(counts) in counts {
        for (total, count) in COUNTED.into_iter().zip(counts) {
            total.add(report, count);
        }
    }
}

/// Weighs one row; returns its sum of losses.
fn weigh_row(
    block: &Block,
    width: usize,
    weighing: &Weighing,
    inputs: Slices<'_>,
    row: usize,
    weights: &mut [f32],
    counts: &mut Counts,
) -> f32 {
    let values = &inputs.values[row * width..][..width];
    let places = &inputs.places[row * width..][..width];
    let [positives, negatives] = inputs.counts[row].map(|count| count as usize);
    let (positives, negatives) = (&places[..positives], &places[width - negatives..]);
    let v_pn = |p: u32, n: u32| {
        let s = inputs.references.dot(p as usize, n as usize, block.stride);
        weighing.rule.distance.value(s)
    };
    if weighing.one_negative {
        // A positive's weight is the number of its negative until it is weighed itself.
        for p in positives {
            let v_ans = negatives.iter().rev().map(|n| values[*n as usize]);
            weights[*p as usize] = choose(values[*p as usize], v_ans) as f32;
        }
    }
    let mut sum = Segments::default();
    for (number, n) in (1..).zip(negatives.iter().rev()) {
        let v_an = values[*n as usize];
        let (mut weight, mut loss) = (Segments::default(), Segments::default());
        for p in positives {
            let v_ap = values[*p as usize];
            let (mined, within, hard) =
                if weighing.one_negative && weights[*p as usize] as usize != number {
                    (false, false, false)
                } else {
                    weighing.rule.mined(v_ap - v_an)
                };
            let cost = mined.then(|| weighing.cost(v_ap, v_an, || v_pn(*p, *n)));
            let cost = cost.flatten();
            counts.add([within, hard, mined, cost.is_some()]);
            let (pull, term) = cost.map_or((0.0, 0.0), |cost| (cost.slope * cost.own, cost.loss));
            weight.add(pull);
            loss.add(term);
        }
        weights[*n as usize] = weight.sum() * weighing.rule.distance.slope_at(v_an);
        sum.add(loss.sum());
    }
    for p in positives {
        let v_ap = values[*p as usize];
        let mut weight = Segments::default();
        let met = if weighing.one_negative && !negatives.is_empty() {
            let at = negatives.len() - weights[*p as usize] as usize;
            &negatives[at..=at]
        } else {
            negatives
        };
        for n in met.iter().rev() {
            let v_an = values[*n as usize];
            let mined = weighing.rule.mined(v_ap - v_an).0;
            let cost = mined.then(|| weighing.cost(v_ap, v_an, || v_pn(*p, *n)));
            weight.add(cost.flatten().map_or(0.0, |cost| cost.slope));
        }
        weights[*p as usize] = -weight.sum() * weighing.rule.distance.slope_at(v_ap);
    }
    sum.sum()
}

/// Counts the triplets with each reference, if every positive forms a triplet with one negative.
///
/// # Shapes
/// `times`: `[rows, width]`
pub fn count(block: &Block, width: usize, inputs: Slices<'_>, times: &mut [u32]) {
    let most = rows_of_a_part(block.rows, 8 * block.rows * block.references, block.rows);
    let panels = (0..block.rows)
        .step_by(most)
        .zip(times[..block.rows * width].chunks_mut(most * width));
    map(panels.collect(), |(first, times)| {
        for (row, times) in (first..).zip(times.chunks_exact_mut(width)) {
            let values = &inputs.values[row * width..][..width];
            let places = &inputs.places[row * width..][..width];
            let [positives, negatives] = inputs.counts[row].map(|count| count as usize);
            let (positives, negatives) = (&places[..positives], &places[width - negatives..]);
            times.fill(0);
            for p in positives {
                let v_ans = negatives.iter().rev().map(|n| values[*n as usize]);
                let number = choose(values[*p as usize], v_ans);
                if number > 0 {
                    times[*p as usize] += 1;
                    times[negatives[negatives.len() - number] as usize] += 1;
                }
            }
        }
    });
}

/// Writes `d loss / d similarity` of the block's rows, and each row's sum of losses, over the triplets of a list.
///
/// # Shapes
/// `list`: `[rows, places]`: number of triplets, then the places of positive and negative of each · `values`, `weights`:
/// `[rows, width]`, weights zero before
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn drawn_loss(
    block: &Block,
    width: usize,
    places: usize,
    weighing: &Weighing,
    list: &[[u32; 2]],
    values: &[f32],
    weights: &mut [f32],
    losses: &mut [u32],
    report: &mut [u32],
) {
    let rows = list.chunks_exact(places).zip(values.chunks_exact(width));
    let written = weights.chunks_exact_mut(width).zip(losses);
    let mut counts = Counts::default();
    let distance = weighing.rule.distance;
    for ((list, values), (weights, loss)) in rows.zip(written).take(block.rows) {
        let mut sum = Segments::default();
        for [p, n] in &list[1..][..list[0][0] as usize] {
            let [p, n] = [p, n].map(|place| *place as usize);
            let (v_ap, v_an) = (values[p], values[n]);
            let (mined, within, hard) = weighing.rule.mined(v_ap - v_an);
            let cost = mined.then(|| weighing.cost(v_ap, v_an, || v_an)).flatten();
            counts.add([within, hard, mined, cost.is_some()]);
            let (slope, term) = cost.map_or((0.0, 0.0), |cost| (cost.slope, cost.loss));
            weights[p] -= slope * distance.slope_at(v_ap);
            weights[n] += slope * distance.slope_at(v_an);
            sum.add(term);
        }
        *loss = sum.sum().to_bits();
    }
    for (total, count) in COUNTED.into_iter().zip(counts.0) {
        total.add(report, count);
    }
}

/// Number of the one negative of a positive's triplet, from 1 on; 0 without a negative.
fn choose(v_ap: f32, v_ans: impl Iterator<Item = f32>) -> usize {
    let (mut chosen, mut v_chosen) = (0, f32::MAX);
    for (number, v_an) in (1..).zip(v_ans) {
        let better = if v_an < v_ap {
            v_chosen >= v_ap || v_an > v_chosen
        } else {
            v_an < v_chosen
        };
        if better {
            (chosen, v_chosen) = (number, v_an);
        }
    }
    chosen
}

/// A sum of partial sums of [`SEGMENT`] terms each.
#[derive(Default)]
struct Segments {
    total: f32,
    part: f32,
    terms: usize,
}

impl Segments {
    fn add(&mut self, term: f32) {
        self.part += term;
        self.terms += 1;
        if self.terms == SEGMENT {
            *self = Self {
                total: self.total + self.part,
                ..Self::default()
            };
        }
    }

    fn sum(&self) -> f32 {
        self.total + self.part
    }
}

/// Writes `d loss / d similarity` of the references from `first` on, `rows` of them, to all references: the share of the slopes
/// that `swap` takes from the anchor. `values` are those of the block that was weighed.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn swapped_loss(
    block: &Block,
    width: usize,
    weighing: &Weighing,
    first: usize,
    rows: usize,
    tags: &[[u32; 2]],
    labels: &[u32],
    references: &[f32],
    values: &[f32],
    weights: &mut [f32],
) {
    let reference = |place: usize| &references[place * block.stride..][..block.stride];
    let operations = rows
        .saturating_mul(block.references)
        .saturating_mul(block.stride + 16 * block.rows);
    let most = rows_of_a_part(rows, operations, rows);
    let panels = (0..rows)
        .step_by(most)
        .zip(weights[..rows * width].chunks_mut(most * width));
    map(panels.collect(), |(start, weights)| {
        for (p, weights) in (first + start..).zip(weights.chunks_exact_mut(width)) {
            weights.fill(0.0);
            for n in (0..block.references).filter(|n| tags[*n][0] != tags[p][0]) {
                let v_pn = weighing
                    .rule
                    .distance
                    .value(dot(reference(p), reference(n)));
                let mut weight = Segments::default();
                for (label, values) in labels.iter().zip(values.chunks_exact(width)) {
                    let (v_ap, v_an) = (values[p], values[n]);
                    let kept = *label == tags[p][0] && v_ap != NONE && v_an != NONE;
                    let mined = kept && weighing.rule.mined(v_ap - v_an).0;
                    let cost = mined.then(|| weighing.cost(v_ap, v_an, || v_pn)).flatten();
                    weight.add(cost.map_or(0.0, |cost| cost.slope * (1.0 - cost.own)));
                }
                weights[n] = weight.sum() * weighing.rule.distance.slope_at(v_pn);
            }
        }
    });
}
