//! [`Pairs`]: the kept pairs of a row with their values, a segment at a time.

use super::form::RowCost;
use crate::SEGMENT;
use crate::similarities::NONE;

/// A number for each pair of a segment.
pub(super) type Numbers = [f32; SEGMENT];

/// Partial sums, each with a SIMD lane of its own.
const LANES: usize = 16;

/// Pairs of one side of a row, a segment of places at most. A place that does not count has a `times` of 0, whatever its value.
pub(super) struct Pairs {
    pub(super) positive: bool,
    /// Whole vectors of places.
    pub(super) count: usize,
    /// Values: similarities, or minus distances.
    pub(super) v: Numbers,
    /// Number of times that each counts.
    pub(super) times: Numbers,
    /// Addend of each exponent.
    pub(super) added: Numbers,
}

impl Pairs {
    fn new(positive: bool) -> Self {
        Self {
            positive,
            count: 0,
            v: [NONE; SEGMENT],
            times: [0.0; SEGMENT],
            added: [0.0; SEGMENT],
        }
    }

    /// Sets the number of places; those that fill up the last vector do not count.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn fill_up(&mut self, count: usize) {
        self.count = count.next_multiple_of(LANES);
        self.v[count..self.count].fill(NONE);
        self.times[count..self.count].fill(0.0);
    }

    /// Computes a number for each pair from its value.
    #[inline(always)]
    pub(super) fn each(&self, numbers: &mut Numbers, of: impl Fn(f32) -> f32) {
        for (number, v) in numbers[..self.count].iter_mut().zip(&self.v) {
            *number = of(*v);
        }
    }

    /// Computes a number for each pair from its value, its exponent and the number of times that it counts.
    #[inline(always)]
    pub(super) fn each_of(
        &self,
        x: &Numbers,
        numbers: &mut Numbers,
        of: impl Fn(f32, f32, f32) -> f32,
    ) {
        let pairs = self.v.iter().zip(x).zip(&self.times);
        for (number, ((v, x), times)) in numbers[..self.count].iter_mut().zip(pairs) {
            *number = of(*v, *x, *times);
        }
    }

    /// Sums `of(number)` over the pairs, each as often as it counts.
    #[inline(always)]
    pub(super) fn sum(&self, numbers: &Numbers, of: impl Fn(f32) -> f32) -> f64 {
        let mut parts = [0.0; LANES];
        let numbers = numbers[..self.count].chunks_exact(LANES);
        let times = self.times[..self.count].chunks_exact(LANES);
        for (numbers, times) in numbers.zip(times) {
            for ((part, number), times) in parts.iter_mut().zip(numbers).zip(times) {
                *part += times * of(*number);
            }
        }
        parts.into_iter().map(f64::from).sum()
    }

    /// The largest of the numbers of pairs that count.
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    pub(super) fn largest(&self, numbers: &Numbers) -> f32 {
        let mut tops = [f32::MIN; LANES];
        let numbers = numbers[..self.count].chunks_exact(LANES);
        let times = self.times[..self.count].chunks_exact(LANES);
        for (numbers, times) in numbers.zip(times) {
            for ((top, number), times) in tops.iter_mut().zip(numbers).zip(times) {
                let number = if *times > 0.0 { *number } else { f32::MIN };
                *top = if number > *top { number } else { *top };
            }
        }
        tops.into_iter().fold(f32::MIN, f32::max)
    }
}

/// Inputs of a block, as in `kernels::row_loss`.
#[derive(Clone, Copy)]
pub struct Slices<'a> {
    /// `[rows, width]`: similarities of kept references, or minus distances.
    pub values: &'a [f32],
    /// `[rows, width]`: numbers of kept references, positives from the front and negatives from the back.
    pub places: &'a [u32],
    /// `[rows]`: number of kept positives, and of kept negatives.
    pub counts: &'a [[u32; 2]],
    /// Number of times that each pair counts, for [`super::Multiplicity::Mined`].
    pub times: &'a [u32],
    /// Further input of the loss, as [`RowCost::given`] says.
    pub given: &'a [f32],
}

impl<'a> Slices<'a> {
    /// The kept positives of a row and its kept negatives, by place.
    pub(crate) fn sides(&self, width: usize, row: usize) -> [&'a [u32]; 2] {
        let places = &self.places[row * width..][..width];
        let [positives, negatives] = self.counts[row].map(|count| count as usize);
        [&places[..positives], &places[width - negatives..]]
    }

    /// Passes the positives of a row to `with`, a segment at a time, with their places. `one_a_class`: only the first of the
    /// references that stand for a class counts.
    #[inline(always)]
    pub(super) fn positives(
        &self,
        cost: &RowCost,
        width: usize,
        row: usize,
        one_a_class: bool,
        mut with: impl FnMut(&[u32], &Pairs),
    ) {
        let [positives, negatives] = self.sides(width, row);
        let (each, most) = cost.times_of(negatives);
        let values = &self.values[row * width..][..width];
        let mut pairs = Pairs::new(true);
        for places in positives.chunks(SEGMENT) {
            for (i, place) in places.iter().enumerate() {
                let at = *place as usize;
                let times = each.unwrap_or_else(|| self.times[row * width + at] as f32);
                let counts = !one_a_class || cost.centers.leads(at);
                pairs.v[i] = values[at];
                pairs.times[i] = if counts { times.min(most) } else { 0.0 };
                if cost.adds_weights() {
                    pairs.added[i] = self.given[at] - 1.0;
                }
            }
            pairs.fill_up(places.len());
            with(places, &pairs);
        }
    }

    /// Passes the negatives of a row to `with`, a segment of consecutive references at a time, with the place of its first.
    #[inline(always)]
    pub(super) fn negatives(
        &self,
        cost: &RowCost,
        width: usize,
        row: usize,
        one_a_class: bool,
        mut with: impl FnMut(usize, &Pairs),
    ) {
        let [positives, _] = self.sides(width, row);
        let (each, most) = cost.times_of(positives);
        let values = self.values[row * width..][..width].chunks(SEGMENT);
        let mut left = positives;
        let mut pairs = Pairs::new(false);
        for (first, values) in (0..).step_by(SEGMENT).zip(values) {
            match <&Numbers>::try_from(values) {
                Ok(values) => pairs.v = *values,
                Err(_) => pairs.v[..values.len()].copy_from_slice(values),
            }
            if let Some(each) = each {
                for (times, v) in pairs.times.iter_mut().zip(&pairs.v) {
                    *times = if *v == NONE { 0.0 } else { each };
                }
            } else {
                let mined = &self.times[row * width + first..][..values.len()];
                let pairs = pairs.times.iter_mut().zip(&pairs.v).zip(mined);
                for ((times, v), mined) in pairs {
                    *times = if *v == NONE {
                        0.0
                    } else {
                        (*mined as f32).min(most)
                    };
                }
            }
            let here = left.partition_point(|place| (*place as usize) < first + SEGMENT);
            let (positives, later) = left.split_at(here);
            left = later;
            for place in positives {
                pairs.times[*place as usize - first] = 0.0;
            }
            if cost.adds_weights() {
                for (added, weight) in pairs.added.iter_mut().zip(&self.given[first..]) {
                    *added = weight - 1.0;
                }
            }
            if one_a_class && cost.centers.per_class > 1 {
                for (place, times) in (first..).zip(&mut pairs.times) {
                    *times = if cost.centers.leads(place) {
                        *times
                    } else {
                        0.0
                    };
                }
            }
            pairs.fill_up(values.len());
            with(first, &pairs);
        }
    }
}
