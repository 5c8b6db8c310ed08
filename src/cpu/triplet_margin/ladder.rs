//! [`Ladder`]: the triplets of a negative, by its place among the sorted thresholds of an anchor.

use pulp::Simd;

use super::rule::{Kind, Rule};
use crate::{Distance, SEGMENT};

/// Thresholds of a row that form counted triplets with a negative: as ends and ranges of the sorted thresholds.
pub(super) struct Meeting {
    /// End of the thresholds with `tm <= 0`, within the margin.
    pub(super) hard: usize,
    /// End of the thresholds with `tm <= miner_margin`.
    pub(super) within: usize,
    /// Thresholds whose triplets the miner keeps.
    pub(super) mined: std::ops::Range<usize>,
    /// Thresholds whose triplets are mined and active.
    pub(super) active: std::ops::Range<usize>,
}

/// A bound of `v_ap - v_an`.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Most(f32),
    Less(f32),
}

impl Bound {
    fn holds(self, tm: f32) -> bool {
        match self {
            Self::Most(most) => tm <= most,
            Self::Less(than) => tm < than,
        }
    }
}

/// Sorted thresholds of a row, with an index: for each of many equal steps of values, the number of thresholds before it.
pub(super) struct Ladder<'a> {
    pub(super) thresholds: &'a [[u32; 2]],
    /// Their values, after one of minus infinity and before [`WINDOW`] of infinity.
    padded: Vec<f32>,
    pub(super) distance: Distance,
    lowest: f32,
    steps_per_unit: f32,
    /// The last step.
    last: f32,
    below: Vec<u32>,
}

/// Steps of an index for each threshold, about.
const STEPS_A_THRESHOLD: usize = 2;
/// Thresholds that are compared at once: seldom does one step hold more, with the one before the step.
const WINDOW: usize = 16;
/// The most steps of an index: 16 KiB if each row's index is used for many references, fewer if the indices of all rows exist at
/// once.
pub(super) const STEPS: usize = 4096;
pub(super) const FEW_STEPS: usize = 64;

impl<'a> Ladder<'a> {
    pub(super) fn new(thresholds: &'a [[u32; 2]], distance: Distance, most: usize) -> Self {
        let value = |[bits, _]: &[u32; 2]| distance.value(f32::from_bits(*bits));
        let mut padded = Vec::with_capacity(1 + thresholds.len() + WINDOW);
        padded.push(f32::NEG_INFINITY);
        padded.extend(thresholds.iter().map(value));
        let values = &padded[1..];
        let lowest = values.first().copied().unwrap_or(0.0);
        let highest = values.last().copied().unwrap_or(0.0);
        padded.resize(padded.len() + WINDOW, f32::INFINITY);
        let steps = (STEPS_A_THRESHOLD * thresholds.len()).next_power_of_two();
        let last = (steps.min(most) - 1) as f32;
        let mut ladder = Self {
            thresholds,
            padded,
            distance,
            lowest,
            steps_per_unit: last / (highest - lowest),
            last,
            below: vec![0; steps.min(most)],
        };
        let mut step = 0;
        for (count, threshold) in (0..).zip(thresholds) {
            let own = ladder.step(value(threshold));
            // Every step after the last one's begins here.
            while step < own {
                step += 1;
                ladder.below[step] = count;
            }
        }
        ladder.below[step + 1..].fill(thresholds.len() as u32);
        ladder
    }

    #[inline(always)]
    pub(super) fn step(&self, value: f32) -> usize {
        // Added to this, a number of steps is in the last bits of the sum. NaN, which equal thresholds give, goes to
        // the first.
        const WHOLE: f32 = (1 << 23) as f32;
        let place = ((value - self.lowest) * self.steps_per_unit).max(0.0);
        ((place.min(self.last) + WHOLE).to_bits() & 0xffff) as usize
    }

    /// The step of each value.
    #[inline(always)]
    pub(super) fn find_steps(&self, values: impl Iterator<Item = f32>) -> [u16; SEGMENT] {
        let mut steps = [0; SEGMENT];
        for (step, value) in steps.iter_mut().zip(values) {
            *step = self.step(value) as u16;
        }
        steps
    }

    /// Values of the thresholds.
    #[inline(always)]
    fn values(&self) -> &[f32] {
        &self.padded[1..][..self.thresholds.len()]
    }

    /// Number of thresholds with `v_ap - v_an <= bound`, or `< bound`; `step` is the step of the bound. Rounding is monotone, so
    /// that they are the first ones. In WebAssembly not inlined: it is called in three places.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    fn until<S: Simd>(&self, simd: S, step: usize, v_an: f32, bound: Bound) -> usize {
        let first = self.below[step] as usize;
        // From the threshold before the step on.
        let Some(window) = self.padded[first..].first_chunk::<WINDOW>() else {
            return self.until_of_all(v_an, bound);
        };
        let [v_an_s, one, zero] = [v_an, 1.0, 0.0].map(|value| simd.splat_f32s(value));
        // If a comparison gives a bit for each lane, the bits are counted: sooner than a sum over lanes is there.
        let of_bits = const { size_of::<S::m32s>() == size_of::<u16>() && S::F32_LANES == WINDOW };
        let (mut counts, mut bits) = (zero, 0);
        for v_ap in S::as_simd_f32s(window).0 {
            let tm = simd.sub_f32s(*v_ap, v_an_s);
            let before = match bound {
                Bound::Most(most) => simd.less_than_or_equal_f32s(tm, simd.splat_f32s(most)),
                Bound::Less(than) => simd.less_than_f32s(tm, simd.splat_f32s(than)),
            };
            if of_bits {
                bits = bytemuck::cast::<_, u16>(before).count_ones();
            } else {
                counts = simd.add_f32s(counts, simd.select_f32s(before, one, zero));
            }
        }
        let count = match of_bits {
            true => bits as usize,
            false => simd.reduce_sum_f32s(counts) as usize,
        };
        match count {
            // Seldom: more in one step, or the step was found with rounding of its own.
            0 | WINDOW => self.until_of_all(v_an, bound),
            count => first + count - 1,
        }
    }

    #[cold]
    fn until_of_all(&self, v_an: f32, bound: Bound) -> usize {
        self.values()
            .partition_point(|v_ap| bound.holds(v_ap - v_an))
    }

    /// Finds the thresholds that a negative meets: `steps` are those of `v_an` with the miner's margin, and without.
    #[inline(always)]
    pub(super) fn meet<S: Simd>(
        &self,
        simd: S,
        rule: &Rule,
        v_an: f32,
        steps: [usize; 2],
    ) -> Meeting {
        let tm = |v_ap: &f32| v_ap - v_an;
        // Most negatives are too far even for the farthest positive.
        let (mut within, mut hard) = (0, 0);
        let margin = rule.miner_margin;
        let values = self.values();
        if tm(&values[0]) <= margin {
            within = self.until(simd, steps[0], v_an, Bound::Most(margin));
            hard = self
                .until(simd, steps[1], v_an, Bound::Most(0.0))
                .min(within);
        }
        let all = values.len();
        let mined = match rule.kind {
            Kind::All => 0..within,
            Kind::Easy => within..all,
            Kind::Semihard => hard..within,
            Kind::Hard => 0..hard,
            Kind::Unmined => 0..all,
        };
        // If the last mined threshold has a loss, all have; if the first has none, none has.
        let loses = |v_ap: &f32| tm(v_ap) < rule.loss_margin;
        let end = if mined.is_empty() || loses(&values[mined.end - 1]) {
            mined.end
        } else if loses(&values[mined.start]) {
            {
                let step = self.step(v_an + rule.loss_margin);
                self.until(simd, step, v_an, Bound::Less(rule.loss_margin))
            }
        } else {
            mined.start
        };
        let active = mined.start..end;
        Meeting {
            hard,
            within,
            mined,
            active,
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    /// Finds a bound's place among the thresholds.
    struct Until<'a>(&'a Ladder<'a>, f32, Bound);

    impl WithSimd for Until<'_> {
        type Output = usize;

        fn with_simd<S: Simd>(self, simd: S) -> usize {
            let Self(ladder, v_an, bound) = self;
            let (Bound::Most(value) | Bound::Less(value)) = bound;
            ladder.until(simd, ladder.step(v_an + value), v_an, bound)
        }
    }

    #[test]
    fn a_ladder_finds_what_a_search_of_all_thresholds_finds() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(2);
        for (count, from, to, steps) in [
            (1, -1.0, 1.0, 1 << 20),
            (15, -1.0, 1.0, 1 << 20),
            (16, 0.2, 0.2, 1),
            (500, -1.0, 1.0, 40),
            (3000, 0.999_999, 1.0, 8),
            (20_000, -0.1, 0.7, 1 << 20),
        ] {
            let mut draw = |from: f32, to: f32| {
                from + (to - from) * (rng.random_range(0..=steps) as f32 / steps as f32)
            };
            let mut values: Vec<f32> = (0..count).map(|_| draw(from, to)).collect();
            // One far from the others: nearly all stand in one step then.
            values.extend((count == 20_000).then_some(-1.0));
            values.sort_unstable_by(f32::total_cmp);
            let thresholds: Vec<_> = values.iter().map(|value| [value.to_bits(), 0]).collect();
            let ladder = Ladder::new(&thresholds, Distance::Cosine, STEPS);
            for (from, to) in [(from, to), (-1.0, 1.0)].repeat(1000) {
                let v_an = draw(from, to);
                for bound in [0.0, 0.2]
                    .into_iter()
                    .flat_map(|v| [Bound::Most(v), Bound::Less(v)])
                {
                    let expected = values.partition_point(|v_ap| bound.holds(v_ap - v_an));
                    let found = Arch::new().dispatch(Until(&ladder, v_an, bound));
                    assert_eq!(found, expected, "{count} thresholds, {v_an}, {bound:?}");
                }
            }
        }
    }
}
