//! GELU, and the gradient through it.

use super::exp::exp;
use super::parallel::{map, rows_of_a_part};
use super::stored::Rows;
use super::wide;

/// Operations of one value, about.
const OPERATIONS: usize = 48;
/// Values that are brought to floats at once, whole vec4s.
const AT_ONCE: usize = 1024;

/// `y = x P(x)`, with the distribution `P` of the standard normal.
pub fn forward(x: Rows<'_>, y: &mut [f32]) {
    each(x, y, |x, _| gelu(x));
}

/// `x P(x)`.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
    x * below(x, bell(x))
}

/// Turns `gradient`, that of `y`, into that of `x`: times `P(x) + x p(x)`, with the density `p`.
pub fn backward(x: Rows<'_>, gradient: &mut [f32]) {
    each(x, gradient, |x, dy| dy * slope(x));
}

/// `d (x P(x)) / dx`.
#[inline(always)]
pub(super) fn slope(x: f32) -> f32 {
    let bell = bell(x);
    below(x, bell) + x * (0.398_942_3 * bell)
}

/// `exp(-x^2 / 2)`; far out, where it is 0, at the same place.
#[inline(always)]
fn bell(x: f32) -> f32 {
    let near = if x.abs() < 16.0 { x } else { 16.0 };
    exp(-0.5 * near * near)
}

/// `P(x)` of `x` and `bell(x)`, within 2e-7: a polynomial of Abramowitz and Stegun (7.1.26).
#[inline(always)]
fn below(x: f32, bell: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.231_641_89 * x.abs());
    let sum = 1.421_413_8 + t * (-1.453_152_1 + t * 1.061_405_4);
    let tail = 0.5 * bell * t * (0.254_829_6 + t * (-0.284_496_72 + t * sum));
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Sets each value of `y` to `of` the value of `x` there and itself.
fn each(x: Rows<'_>, y: &mut [f32], of: impl Fn(f32, f32) -> f32 + Copy + Send + Sync) {
    let count = y.len();
    let most = rows_of_a_part(count, OPERATIONS * count, count.max(1)).next_multiple_of(4);
    let parts = y.chunks_mut(most).enumerate().collect();
    map(parts, |(part, y): (usize, &mut [f32])| {
        let mut buffer = Vec::new();
        wide(
            #[inline(always)]
            || {
                let firsts = (part * most..).step_by(AT_ONCE);
                for (y, first) in y.chunks_mut(AT_ONCE).zip(firsts) {
                    let x = x.some(first, y.len(), &mut buffer);
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = of(*x, *y);
                    }
                }
            },
        );
    });
}
