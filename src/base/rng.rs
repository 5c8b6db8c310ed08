//! Seeded random streams that are the same natively and in a browser, bit for bit.
//!
//! Each use of random numbers has a stream of its own, so that one more draw in one changes no other. Transcendental functions come
//! from `libm`, not from the platform.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A seeded stream of random numbers.
pub(crate) type Rng = Pcg64Mcg;

/// The stream of `seed` for one use.
pub(crate) fn stream(seed: u64, name: &str) -> Rng {
    // FNV-1a: names that differ give streams that differ.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Rng::seed_from_u64(seed ^ hash)
}

/// Seed of the numbers that a device draws by itself, for one use in one step of a run: no state goes from step to step.
pub(crate) fn key(seed: u64, name: &str, step: u64) -> [u32; 2] {
    // The step times an odd number of 64 bits: no two steps of seeds that people choose give one seed.
    let seed = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    stream(seed, name).random()
}

/// A number below `count`, which is above 0.
pub(crate) fn below(rng: &mut Rng, count: usize) -> usize {
    rng.random_range(0..count as u32) as usize
}

/// A standard normal number (Box and Muller; the second of each pair is not kept).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    // 1 - u lies in (0, 1].
    (-2.0 * libm::log(1.0 - u)).sqrt() * libm::cos(std::f64::consts::TAU * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_by_name_and_repeat() {
        let draw = |seed, name| stream(seed, name).random::<u64>();
        assert_eq!(draw(1, "batches"), draw(1, "batches"));
        assert_ne!(draw(1, "batches"), draw(1, "weights"));
        assert_ne!(draw(1, "batches"), draw(2, "batches"));
        assert_ne!(key(1, "dropout", 1), key(1, "dropout", 2));
        assert_ne!(key(1, "dropout", 1), key(1, "draws", 1));
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let mut rng = stream(0, "test");
        let draws: Vec<f64> = (0..100_000).map(|_| normal(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        // Five standard errors of each.
        assert!(mean.abs() < 0.016, "{mean}");
        assert!((variance - 1.0).abs() < 0.023, "{variance}");
    }
}
