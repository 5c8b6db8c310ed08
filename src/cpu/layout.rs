//! Layout of tied points on a plane (UMAP): an epoch of pulls and pushes. Takes points and ties, moves the points.

/// The largest step of a point along an axis, before the learning rate.
const CLIP: f32 = 4.0;
/// Keeps two points that nearly meet from leaping apart.
const SOFTENING: f32 = 1e-3;

/// `a` and `b` of the curve `1 / (1 + a d^2b)`, the strength of two points at distance `d`: fitted for points that lie at least 0.1
/// apart (`min_dist`) at a scale of 1 (`spread`).
pub const CURVE: [f32; 2] = [1.576_943_5, 0.895_060_9];

/// The tie of a row to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tie {
    /// Number of the other row.
    pub to: u32,
    /// From 0 to 1.
    pub strength: f32,
}

/// Rows drawn at random, without end (xorshift64*, Vigna 2016): half of a layout's time is spent on them, and a browser multiplies the
/// 128 bits of the other streams piece by piece.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// Draws from a seed.
    pub fn new(seed: u64) -> Self {
        // Any state but 0.
        Self(seed | 1)
    }

    /// A number below `count`, of 32 bits and above 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((drawn * count as u64) >> 32) as usize
    }
}

/// What pulls two tied points together, and what pushes a point away from a random one.
#[derive(Clone, Debug)]
pub struct Forces {
    pull: Force,
    push: Force,
}

impl Forces {
    /// The forces of [`CURVE`], as tables.
    pub fn of_curve() -> Self {
        Self {
            pull: Force::new(attraction),
            push: Force::new(repulsion),
        }
    }
}

/// One epoch of stochastic gradient descent on the cross entropy of strengths (`optimize_layout_euclidean`), at the learning rate
/// `rate`. The ties of a row stand from its start, `[rows + 1]`, to the next one; each that has its turn comes with pushes from
/// `negative_samples` random points.
pub fn epoch(
    points: &mut [[f32; 2]],
    (starts, ties): (&[usize], &[Tie]),
    forces: &Forces,
    draws: &mut Draws,
    negative_samples: u32,
    (epoch, rate): (u64, f32),
) {
    let rows = points.len();
    for row in 0..rows {
        let mut here = points[row];
        for tie in &ties[starts[row]..starts[row + 1]] {
            if !has_turn(tie.strength, epoch) {
                continue;
            }
            let there = &mut points[tie.to as usize];
            let pull = forces.pull.at(squared_distance(here, *there));
            for (here, there) in here.iter_mut().zip(there) {
                let step = rate * clipped(pull * (*here - *there));
                *here += step;
                *there -= step;
            }
            for _ in 0..negative_samples {
                let other = draws.below(rows);
                if other == row {
                    continue;
                }
                let there = points[other];
                let push = forces.push.at(squared_distance(here, there));
                for (here, there) in here.iter_mut().zip(there) {
                    *here += rate * clipped(push * (*here - there));
                }
            }
        }
        points[row] = here;
    }
}

fn clipped(step: f32) -> f32 {
    step.clamp(-CLIP, CLIP)
}

fn squared_distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    let [x, y] = [a[0] - b[0], a[1] - b[1]];
    x * x + y * y
}

/// Tells if `i / strength` epochs were completed just now for an integer `i` (`epochs_per_sample`): the largest strength is 1.
fn has_turn(strength: f32, epoch: u64) -> bool {
    let turns = |epoch: u64| (epoch as f64 * f64::from(strength)) as u32;
    turns(epoch) > turns(epoch.saturating_sub(1))
}

/// Factor of the vector from one point to another, as a table over the square of their distance: exact at 64 squares of each
/// octave, linear between them, with a relative error below 0.0002.
///
/// Each push depends on the point that the last one left: with a power in each, a layout takes six times as long.
#[derive(Clone, Debug)]
struct Force(Vec<f32>);

impl Force {
    /// Octaves of the table, and the index of its first entry among all floats, in steps of a 64th: squares from 2^-40 to 2^20.
    /// Others count as the nearest.
    const OCTAVES: u32 = 60;
    const FIRST: u32 = (127 - 40) << 6;

    fn new(exact: fn(f32) -> f32) -> Self {
        let places = Self::FIRST..=Self::FIRST + 64 * Self::OCTAVES;
        let squares = places.map(|place| f32::from_bits(place << 17));
        Self(squares.map(exact).collect())
    }

    fn at(&self, squared: f32) -> f32 {
        let bits = squared.to_bits().max(Self::FIRST << 17) - (Self::FIRST << 17);
        let place = ((bits >> 17) as usize).min(self.0.len() - 2);
        let part = (bits & 0x1_ffff) as f32 / (1 << 17) as f32;
        let (low, high) = (self.0[place], self.0[place + 1]);
        low + part * (high - low)
    }
}

/// Factor that pulls two tied points together: below 0.
fn attraction(squared: f32) -> f32 {
    let [a, b] = CURVE;
    let power = libm::powf(squared, b - 1.0);
    -2.0 * a * b * power / (1.0 + a * power * squared)
}

/// Factor that pushes a point away from a random one: above 0.
fn repulsion(squared: f32) -> f32 {
    let [a, b] = CURVE;
    2.0 * b / ((SOFTENING + squared) * (1.0 + a * libm::powf(squared, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_have_their_turns_when_umap_learn_samples_them() {
        let mut draws = Draws::new(5);
        let drawn = (0..2000).map(|_| draws.below(1 << 24) as f32 / (1 << 24) as f32);
        for strength in drawn.chain([1.0, 0.5, 0.002, 1e-9, 0.0]) {
            let every = 1.0 / f64::from(strength);
            let mut next = every;
            for epoch in 0..500 {
                let expected = next <= epoch as f64;
                assert_eq!(has_turn(strength, epoch), expected, "{strength}, {epoch}");
                next += if expected { every } else { 0.0 };
            }
        }
    }

    #[test]
    fn every_row_is_drawn_about_as_often() {
        let mut counts = [0u32; 7];
        let mut draws = Draws::new(1);
        (0..70_000).for_each(|_| counts[draws.below(7)] += 1);
        // Five standard errors.
        assert!(
            counts.iter().all(|count| count.abs_diff(10_000) < 470),
            "{counts:?}"
        );
    }

    #[test]
    fn forces_are_the_slopes_of_the_cross_entropy() {
        let [a, b] = CURVE.map(f64::from);
        let strength = |d: f64| 1.0 / (1.0 + a * d.powf(2.0 * b));
        let slope =
            |loss: &dyn Fn(f64) -> f64, d: f64| (loss(d * 1.0001) - loss(d / 1.0001)) / (d * 2e-4);
        for i in -40..=70 {
            let d = 1.1f64.powi(i);
            let squared = (d * d) as f32;
            let pull = -slope(&|d| -strength(d).ln(), d) / d;
            let push = -slope(&|d| -(1.0 - strength(d)).ln(), d) / d;
            // Softened for points that nearly meet.
            let push = push * d * d / (d * d + f64::from(SOFTENING));
            for (force, expected) in [(attraction as fn(f32) -> f32, pull), (repulsion, push)] {
                let at = f64::from(Force::new(force).at(squared));
                assert!(
                    (at / expected - 1.0).abs() < 1e-3,
                    "{d}: {at}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn forces_between_places_are_off_by_less_than_two_ten_thousandths() {
        for force in [attraction as fn(f32) -> f32, repulsion] {
            let table = Force::new(force);
            for i in 0..20_000 {
                let squared = libm::exp2f(-40.0 + i as f32 * 0.003);
                assert!(
                    (table.at(squared) / force(squared) - 1.0).abs() < 2e-4,
                    "{squared}"
                );
            }
            assert_eq!(table.at(0.0), force(libm::exp2f(-40.0)));
            assert!(table.at(f32::INFINITY).is_finite());
        }
    }

    #[test]
    fn no_step_is_longer_than_4() {
        // Points 0.02 apart would leap 26 apart.
        assert_eq!(clipped(repulsion(4e-4) * 0.02), 4.0);
        assert_eq!(clipped(repulsion(4e-4) * -0.02), -4.0);
    }
}
