//! The exponential and the logarithm of many numbers at once: without a branch or a table, so that the compiler gives each SIMD
//! lane one.

use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

/// 1.5 * 2^23: added to a number below 2^22, it rounds that to a whole one, which is then in the lowest bits.
const ROUNDS: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has so few bits that its product with an exponent of f32 is exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Below this `exp` is no normal number, and counts as 0.
const LEAST: f32 = -87.0;
/// Above this `exp` is no finite number.
const MOST: f32 = 88.0;

/// `exp(x)` with a relative error below 2e-7; 0 below -87, and `exp(88)` above 88.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let within = if x < MOST { x } else { MOST };
    let shifted = within * LOG2_E + ROUNDS;
    let whole = shifted - ROUNDS;
    let rest = within - whole * LN_2[0] - whole * LN_2[1];
    // exp(rest) for |rest| <= ln 2 / 2: Taylor's polynomial, whose next term is below 6e-9.
    let mut sum = 1.0 / 5040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * rest + factor;
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x < LEAST { 0.0 } else { sum * power }
}

/// `ln(x)` of a normal positive number, within 2e-7 of the larger of its size and 1.
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    // x = 2^whole * rest, with rest between the roots of 1/2 and of 2.
    let bits = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits());
    let whole = (bits as i32 >> 23) as f32;
    let rest = f32::from_bits(x.to_bits().wrapping_sub(bits & 0xff80_0000));
    // ln(rest) = 2 atanh(f / (2 + f)), f = rest - 1: a series whose next term is below 3e-9 of it.
    let s = (rest - 1.0) / (1.0 + rest);
    let z = s * s;
    let mut sum = 1.0 / 9.0;
    for factor in [1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0] {
        sum = sum * z + factor;
    }
    let series = 2.0 * s + 2.0 * s * z * sum;
    whole * LN_2[0] + (series + whole * LN_2[1])
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_logarithm_of_the_standard_library() {
        let mut worst = 0.0f64;
        let grid = (1..=4_000_000).map(|i| i as f32 / 1e6);
        let powers = (-860..=880).map(|i| (i as f32 / 10.0).exp());
        for x in grid.chain(powers) {
            let expected = f64::from(x).ln();
            let off = (f64::from(ln(x)) - expected).abs() / expected.abs().max(1.0);
            worst = worst.max(off);
        }
        assert!(worst < 2e-7, "off by {worst:e}");
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn equals_the_exponential_of_the_standard_library() {
        let mut worst = 0.0f64;
        for i in -870_000..=880_000 {
            let x = i as f32 / 1e4;
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / expected - 1.0).abs());
        }
        assert!(worst < 2e-7, "off by {worst:e}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!([exp(-87.1), exp(-1e30), exp(f32::MIN)], [0.0; 3]);
        assert_eq!(exp(1e30), exp(88.0));
        for i in -1000..=1000 {
            let x = i as f32 / 10.0;
            let expected = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - expected).abs() < 4e-7 * expected + 2e-38);
        }
    }
}
