//! [`Ladder`]: the place of a similarity among the sorted thresholds of a row.

use crate::tile::{number_in, similarity};

/// Steps of a ladder for each threshold, about: seldom does one step hold two.
const STEPS_A_THRESHOLD: usize = 8;
const MOST_STEPS: usize = 4096;
/// The thresholds of a row, as [`super::order`] leaves them, and the number of them before each of many equal steps of similarities, from
/// which the place of a similarity among them is found at once.
pub(super) struct Ladder<'a> {
    pub(super) thresholds: &'a [[u32; 2]],
    /// Their heights, and one that nothing reaches.
    pub(super) heights: Vec<u32>,
    /// The smallest similarity.
    from: f32,
    /// Steps in a unit of similarity.
    scale: f32,
    /// The last step.
    last: f32,
    before: Vec<u32>,
}

impl<'a> Ladder<'a> {
    pub(super) fn new(thresholds: &'a [[u32; 2]]) -> Self {
        let mut heights = Vec::with_capacity(thresholds.len() + 1);
        heights.extend(thresholds.iter().map(|[_, height]| *height));
        heights.push(u32::MAX);
        let value = |threshold: &[u32; 2]| similarity(number_in(threshold));
        let from = thresholds.first().map_or(0.0, value);
        let width = thresholds.last().map_or(0.0, |to| value(to) - from);
        let steps = Self::steps(thresholds.len());
        let scale = match width > 0.0 {
            true => (steps - 1) as f32 / width,
            false => 0.0,
        };
        let mut ladder = Self {
            thresholds,
            heights,
            from,
            scale,
            last: (steps - 1) as f32,
            before: vec![0; steps],
        };
        let mut step = 0;
        for (place, threshold) in (0..).zip(thresholds) {
            let own = ladder.step(value(threshold)) as usize;
            // Every step after the last one's begins here.
            while step < own {
                step += 1;
                ladder.before[step] = place;
            }
        }
        ladder.before[step + 1..].fill(thresholds.len() as u32);
        ladder
    }

    fn steps(thresholds: usize) -> usize {
        let steps = (STEPS_A_THRESHOLD * thresholds).next_power_of_two();
        steps.min(MOST_STEPS)
    }

    /// Bytes of the ladder of so many thresholds.
    pub(super) fn bytes(thresholds: usize) -> usize {
        4 * (thresholds + 1 + Self::steps(thresholds))
    }

    /// The step of a similarity: never a later one for a smaller similarity, however it is rounded.
    pub(super) fn step(&self, s: f32) -> u16 {
        let mut step = [0];
        self.find_steps(&[s], &mut step);
        step[0]
    }

    /// The step of each similarity.
    #[inline(always)]
    pub(super) fn find_steps(&self, s: &[f32], steps: &mut [u16]) {
        // Added to this, a number of steps is the last bits of the sum.
        const WHOLE: f32 = (1 << 23) as f32;
        let (from, scale, last) = (self.from, self.scale, self.last);
        for (step, s) in steps.iter_mut().zip(s) {
            let place = ((s - from) * scale).max(0.0).min(last);
            *step = (place + WHOLE).to_bits() as u16;
        }
    }

    /// Number of thresholds that are farther than a reference with this step, height and id.
    #[inline(always)]
    pub(super) fn farther(&self, step: usize, height: u32, id: u32) -> usize {
        let first = self.before[step] as usize;
        let farther = first + usize::from(height > self.heights[first]);
        if height < self.heights[farther] {
            farther
        } else {
            self.farther_of_several(step, height, id)
        }
    }

    /// [`Ladder::farther`] by search, if the step holds several thresholds, or one that is as near as the reference.
    #[cold]
    fn farther_of_several(&self, step: usize, height: u32, id: u32) -> usize {
        let first = self.before[step] as usize;
        let end = match self.before.get(step + 1) {
            Some(end) => *end as usize,
            None => self.thresholds.len(),
        };
        let number = u64::from(height) << 32 | u64::from(!id);
        first + self.thresholds[first..end].partition_point(|t| number_in(t) < number)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;
    use crate::tile::{height, nearness};

    #[test]
    fn a_ladder_finds_what_a_search_of_all_thresholds_finds() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        for (count, from, to, steps) in [
            (1, -1.0, 1.0, 1 << 20),
            (31, -1.0, 1.0, 1 << 20),
            (32, 0.2, 0.2, 1),
            (500, -1.0, 1.0, 40),
            (3000, 0.999_999, 1.0, 8),
            (5000, -0.1, 0.7, 1 << 20),
        ] {
            let mut draw = |from: f32, to: f32| {
                let step = rng.random_range(0..=steps) as f32 / steps as f32;
                [(from + (to - from) * step).to_bits(), rng.random::<u32>()]
            };
            let mut numbers: Vec<u64> = (0..count).map(|_| nearness(draw(from, to))).collect();
            // One far from the others: nearly all stand in one stretch then.
            numbers.extend((count == 5000).then(|| nearness([(-1.0f32).to_bits(), 0])));
            numbers.sort_unstable();
            let thresholds: Vec<[u32; 2]> = numbers
                .iter()
                .map(|number| [*number as u32, (*number >> 32) as u32])
                .collect();
            let ladder = Ladder::new(&thresholds);
            for (from, to) in [(from, to), (-1.0, 1.0)].repeat(2000) {
                let entry = draw(from, to);
                let number = nearness(entry);
                let s = f32::from_bits(entry[0]);
                let farther = numbers.partition_point(|threshold| *threshold < number);
                let step = usize::from(ladder.step(s));
                assert_eq!(ladder.farther(step, height(s), entry[1]), farther);
            }
        }
    }
}
