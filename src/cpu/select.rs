//! Selection of the references of a row that a miner keeps: some of its positives, and some of its negatives.

use super::SEGMENT;
use super::draw::Drawing;
use super::parallel::{map, rows_of_a_part};
use super::ranks::{Block, Row};
use super::similarities::NONE;
use super::triplet_margin::Total;
use crate::Distance;

/// Rule that keeps some references of one side of an anchor: of its positives, or of its negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Keep {
    /// All of them.
    All = 0,
    /// The farthest positive, the nearest negative; of equal ones the first.
    Hard = 1,
    /// The farthest positive that is nearer than the kept negative; the nearest negative that is farther than the kept positive.
    Semihard = 2,
    /// The nearest positive, the farthest negative.
    Easy = 3,
    /// Positives that, less epsilon, are farther than the nearest negative; negatives that, with epsilon, are nearer than
    /// the farthest positive.
    Close = 4,
}

/// Rule and range for one side of an anchor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// Rule for those in range.
    pub keep: Keep,
    /// Least and largest value that is in range, both inclusive.
    pub range: [f32; 2],
}

/// Rule that forms triplets of the kept positives and negatives of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Choice {
    /// All triplets, or all in the miner's band.
    #[default]
    Every,
    /// One negative for every positive: the nearest that is strictly farther than the positive, or else the farthest of all; of
    /// equals the first.
    OneNegative,
    /// Triplets drawn at random.
    Drawn(Drawing),
}

/// A miner's rule for a row: the positives and the negatives that it keeps, and the triplets of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// Distance in which the kept values are left: that of the loss.
    pub shown: Distance,
    /// Distance in which the values come, and in which the rule compares them.
    pub distance: Distance,
    /// References of the row's label, the row itself left out.
    pub positives: Side,
    /// References of other labels.
    pub negatives: Side,
    /// Tolerance of [`Keep::Close`].
    pub epsilon: f32,
    /// The triplets that are formed of them, for a loss that looks at triplets or counts them.
    pub choice: Choice,
}

impl Side {
    /// Keeps every reference of the side, whatever its value.
    pub const ALL: Self = Self {
        keep: Keep::All,
        range: [f32::MIN, f32::MAX],
    };

    fn holds(&self, value: f32) -> bool {
        self.range[0] <= value && value <= self.range[1]
    }

    /// Tells if at most one is kept.
    pub fn is_one(&self) -> bool {
        match self.keep {
            Keep::Hard | Keep::Semihard | Keep::Easy => true,
            Keep::All | Keep::Close => false,
        }
    }
}

impl Selection {
    /// Every positive and every negative.
    pub fn all(distance: Distance) -> Self {
        Self {
            shown: distance,
            distance,
            positives: Side::ALL,
            negatives: Side::ALL,
            epsilon: 0.0,
            choice: Choice::Every,
        }
    }
}

/// Unit in which the valid are counted, before a miner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counted {
    /// Nothing: they were counted already.
    Nothing = 0,
    /// Triplets of an anchor, a positive and a negative.
    Triplets = 1,
    /// Pairs of an anchor and a positive, or of an anchor and a negative.
    Pairs = 2,
}

impl Counted {
    fn of(self, positives: u64, negatives: u64) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Triplets => positives * negatives,
            Self::Pairs => positives + negatives,
        }
    }
}

/// The largest value so far, and its first place.
#[derive(Clone, Copy)]
struct Best {
    value: f32,
    place: Option<usize>,
}

impl Best {
    const NONE: Self = Self {
        value: f32::MIN,
        place: None,
    };

    fn offer(&mut self, place: usize, value: f32) {
        if self.place.is_none() || value > self.value {
            *self = Self {
                value,
                place: Some(place),
            };
        }
    }
}

/// Places and bounds that decide which references of a row are kept.
struct Chosen {
    /// The one positive and the one negative, of a side that keeps one.
    places: [Option<usize>; 2],
    /// The nearest negative and the farthest positive.
    nearest_negative: f32,
    farthest_positive: f32,
}

impl Chosen {
    /// Sides that keep every value in range.
    const ANY: Self = Self {
        places: [None; 2],
        nearest_negative: f32::MIN,
        farthest_positive: f32::MAX,
    };
}

/// A row's references as `(place, value, is_positive)`; the row itself left out.
fn members<'a>(
    row: &Row,
    tags: &'a [[u32; 2]],
    values: &'a [f32],
) -> impl Iterator<Item = (usize, f32, bool)> + Clone + use<'a> {
    let row = *row;
    let all = tags.iter().zip(values).enumerate();
    all.filter(move |(_, ([label, id], _))| *label != row.label || *id != row.id)
        .map(move |(place, ([label, _], value))| (place, *value, *label == row.label))
}

fn choose(
    selection: &Selection,
    members: impl Iterator<Item = (usize, f32, bool)> + Clone,
) -> Chosen {
    if [selection.positives.keep, selection.negatives.keep] == [Keep::All; 2] {
        return Chosen::ANY;
    }
    // The farthest are offered with the sign turned: the largest is then the farthest.
    let [mut far_p, mut near_p, mut far_n, mut near_n] = [Best::NONE; 4];
    for (place, value, positive) in members.clone() {
        if positive && selection.positives.holds(value) {
            far_p.offer(place, -value);
            near_p.offer(place, value);
        } else if !positive && selection.negatives.holds(value) {
            far_n.offer(place, -value);
            near_n.offer(place, value);
        }
    }
    let (nearest_negative, farthest_positive) = (near_n.value, -far_p.value);
    let easy = |side: Side| side.keep == Keep::Easy;
    let (easy_p, easy_n) = (easy(selection.positives), easy(selection.negatives));
    let mut positive = if easy_p { near_p } else { far_p };
    let mut negative = if easy_n { far_n } else { near_n };
    if selection.negatives.keep == Keep::Semihard {
        let bound = match selection.positives.keep {
            Keep::Easy => positive.value,
            _ => -positive.value,
        };
        negative = Best::NONE;
        for (place, value, is_positive) in members {
            if !is_positive && selection.negatives.holds(value) && value < bound {
                negative.offer(place, value);
            }
        }
    } else if selection.positives.keep == Keep::Semihard {
        let bound = match selection.negatives.keep {
            Keep::Easy => -negative.value,
            _ => negative.value,
        };
        positive = Best::NONE;
        for (place, value, is_positive) in members {
            if is_positive && selection.positives.holds(value) && value > bound {
                positive.offer(place, -value);
            }
        }
    }
    let mut places = [positive.place, negative.place];
    // One positive and one negative: if either is missing, the row has neither.
    if selection.positives.is_one() && selection.negatives.is_one() && places.contains(&None) {
        places = [None; 2];
    }
    Chosen {
        places,
        nearest_negative,
        farthest_positive,
    }
}

/// Tells if a reference is kept.
fn keeps(
    selection: &Selection,
    chosen: &Chosen,
    (place, value, positive): (usize, f32, bool),
) -> bool {
    let (side, one) = if positive {
        (&selection.positives, chosen.places[0])
    } else {
        (&selection.negatives, chosen.places[1])
    };
    match side.keep {
        Keep::All => side.holds(value),
        Keep::Hard | Keep::Semihard | Keep::Easy => one == Some(place),
        Keep::Close if positive => value - selection.epsilon < chosen.nearest_negative,
        Keep::Close => value + selection.epsilon > chosen.farthest_positive,
    }
}

/// Outputs of the pass for each row, as `kernels::select::Kept`.
pub struct Kept<'a> {
    /// `[rows, width]`: before, every similarity (or minus the distance); after, only those of kept references.
    pub values: &'a mut [f32],
    /// `[rows, width]`: numbers of kept references, positives from the front and negatives from the back.
    pub places: &'a mut [u32],
    /// `[rows]`: number of kept positives, and of kept negatives.
    pub counts: &'a mut [[u32; 2]],
    /// `[rows, width]`: zeros.
    pub weights: &'a mut [f32],
}

/// Leaves the values of kept references alone in the block's similarities, and lists these references.
#[expect(clippy::too_many_arguments, reason = "what a kernel reads and writes")]
pub fn select(
    block: &Block,
    width: usize,
    selection: &Selection,
    batch: &[Row],
    tags: &[[u32; 2]],
    kept: Kept<'_>,
    counted: Counted,
    report: &mut [u32],
) {
    let rows = &batch[block.batch..][..block.rows];
    let tags = &tags[..block.references];
    let most = rows_of_a_part(block.rows, 8 * block.rows * block.references, SEGMENT);
    kept.weights[..block.rows * width].fill(0.0);
    let panels = rows
        .chunks(most)
        .zip(kept.values[..block.rows * width].chunks_mut(most * width))
        .zip(kept.places[..block.rows * width].chunks_mut(most * width))
        .zip(kept.counts[..block.rows].chunks_mut(most));
    let valid = map(
        panels.collect(),
        |(((rows, values), places), counts)| -> u64 {
            let rows = rows
                .iter()
                .zip(values.chunks_exact_mut(width))
                .zip(places.chunks_exact_mut(width).zip(counts));
            rows.map(|((row, values), (places, counts))| {
                let negatives = select_row(selection, row, tags, values, places, counts);
                counted.of(u64::from(row.positives), negatives)
            })
            .sum()
        },
    );
    Total::Valid.add(report, valid.into_iter().sum());
}

/// Selects in one row; returns the number of its negatives before the selection.
fn select_row(
    selection: &Selection,
    row: &Row,
    tags: &[[u32; 2]],
    values: &mut [f32],
    places: &mut [u32],
    counts: &mut [u32; 2],
) -> u64 {
    if [selection.positives, selection.negatives] == [Side::ALL; 2] {
        return select_all(selection, row, tags, values, places, counts);
    }
    let (known, width) = (tags.len(), values.len());
    let chosen = choose(selection, members(row, tags, &values[..known]));
    *counts = [0; 2];
    let mut negatives = 0u64;
    for place in 0..known {
        let [label, id] = tags[place];
        let positive = label == row.label;
        let itself = positive && id == row.id;
        negatives += u64::from(!positive);
        if !itself && keeps(selection, &chosen, (place, values[place], positive)) {
            if positive {
                places[counts[0] as usize] = place as u32;
                counts[0] += 1;
            } else {
                counts[1] += 1;
                places[width - counts[1] as usize] = place as u32;
            }
            values[place] = selection.distance.turned(values[place], selection.shown);
        } else {
            values[place] = NONE;
        }
    }
    values[known..].fill(NONE);
    negatives
}

/// Tags that are looked at together.
const TAGS: usize = 16;

/// [`select_row`] for a rule that keeps every reference: negatives are listed a run at a time.
fn select_all(
    selection: &Selection,
    row: &Row,
    tags: &[[u32; 2]],
    values: &mut [f32],
    places: &mut [u32],
    counts: &mut [u32; 2],
) -> u64 {
    let (known, width) = (tags.len(), values.len());
    if selection.distance != selection.shown {
        for value in &mut values[..known] {
            *value = selection.distance.turned(*value, selection.shown);
        }
    }
    values[known..].fill(NONE);
    let (mut positives, mut negatives, mut next) = (0, 0, 0);
    let mut list_negatives = |places: &mut [u32], from: usize, to: usize| {
        let end = width - negatives;
        negatives += to - from;
        let run = places[end - (to - from)..end].iter_mut().rev();
        for (listed, place) in run.zip(from as u32..) {
            *listed = place;
        }
    };
    for (first, some) in (0..).step_by(TAGS).zip(tags.chunks(TAGS)) {
        if !some
            .iter()
            .fold(false, |met, [label, _]| met | (*label == row.label))
        {
            continue;
        }
        for (place, [label, id]) in (first..).zip(some) {
            if *label != row.label {
                continue;
            }
            list_negatives(places, next, place);
            next = place + 1;
            if *id == row.id {
                values[place] = NONE;
            } else {
                places[positives] = place as u32;
                positives += 1;
            }
        }
    }
    list_negatives(places, next, known);
    *counts = [positives as u32, negatives as u32];
    negatives as u64
}
