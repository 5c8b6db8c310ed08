//! [`Certificate`]: which of the neighbours that were found among rounded references are those of the f32 search, for certain.

/// What one f32 operation may be off by, relative to its result: WGSL lets an adapter round up or down.
const UNIT: f64 = 1.0 / (1u32 << 23) as f64;
/// How far f64 itself is off here, with room to spare: relative, and absolute beside a similarity.
const F64_RELATIVE: f64 = 1e-12;
const F64_ABSOLUTE: f64 = 1e-15;

/// How far the similarity to a rounded reference can be from the one that the f32 search has.
///
/// `r` is a reference as it is stored in f32, `r^` what it was rounded to, `x` a query, which is not rounded. `s` is what the f32
/// search computes of `<x, r>`, and `s^` what the search of rounded references computes of `<x, r^>`.
///
/// - By Cauchy and Schwarz, `|<x, r> - <x, r^>| <= |x| delta`, where `delta` is the largest `|r - r^|` of all references. It is
///   measured on what was stored, so that no assumption is made on how an adapter rounds.
/// - Both sums take a fused or an unfused product and 32 sums for a partial sum, then one more for each partial sum. Each term goes
///   through `t = 33 + stride / 32` roundings at most, each of `u = 2^-23` (half of that where an adapter rounds to the nearest,
///   which WGSL does not ask for). With `gamma = t u / (1 - t u)`, `|s - <x, r>| <= gamma |x| |r|` and
///   `|s^ - <x, r^>| <= gamma |x| |r^|`, where `|r^| <= |r| + delta` (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
///
/// So `|s - s^| <= epsilon = |x| (delta + gamma (2 |r| + delta))`, plus what is lost where an adapter takes numbers below 2^-126 for
/// zero. Lengths and `delta` are sums in f32 themselves, and are raised by what those may be off.
///
/// If the farthest candidate has `s^_(c)`, all that are no candidates have `s^ <= s^_(c)` and so `s <= s^_(c) + epsilon`. Where that
/// is below the k-th largest `s` of the candidates, the `k` nearest are among them, and none of the others ties with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    /// The largest error of a reference, `delta`.
    pub error: f64,
    /// The largest length of a reference.
    pub length: f64,
    /// What a sum may be off by, relative to the product of the lengths.
    pub gamma: f64,
    /// Floats of a row.
    stride: usize,
}

/// `t u / (1 - t u)`.
fn gamma(roundings: usize) -> f64 {
    let off = roundings as f64 * UNIT;
    if off < 1.0 {
        off / (1.0 - off)
    } else {
        f64::INFINITY
    }
}

impl Certificate {
    /// Reads what was measured as references of `stride` floats were packed: `kernels::packed::Packed::measured`.
    pub fn new(measured: [u32; 2], stride: usize) -> Self {
        // 64 invocations sum 4 products for each vec4 of theirs, one sums their parts.
        let off = gamma(1 + 4 * stride.div_ceil(256) + 64);
        let root = |bits: u32| {
            let squares = f64::from(f32::from_bits(bits));
            // Squares below 2^-126 may count as zero.
            let lost = stride as f64 * 2f64.powi(-126);
            ((squares + lost) * (1.0 + off)).sqrt() * (1.0 + F64_RELATIVE)
        };
        Self {
            error: root(measured[0]),
            length: root(measured[1]),
            gamma: gamma(33 + stride.div_ceil(32)),
            stride,
        }
    }

    /// The most that the two similarities of a query and a reference can be apart, from the query's squared length as it was summed
    /// in f32.
    pub fn epsilon(&self, squares: f32) -> f64 {
        let tiny = self.stride as f64 * 2f64.powi(-124);
        let x = ((f64::from(squares) + tiny) * (1.0 + self.gamma)).sqrt();
        let epsilon = x * (self.error + self.gamma * (2.0 * self.length + self.error)) + tiny;
        epsilon * (1.0 + F64_RELATIVE) + F64_ABSOLUTE
    }

    /// Whether a query's `k` nearest are for certain among its candidates, and in their order: `farthest` is the rounded similarity
    /// of its farthest candidate, `kth` the f32 similarity of its k-th nearest one.
    ///
    /// False where any number is not one.
    pub fn holds(&self, farthest: f32, squares: f32, kth: f32) -> bool {
        is_below(farthest, self.epsilon(squares), kth)
    }
}

/// Strictly: one that ties with the k-th may have the smaller id.
fn is_below(farthest: f32, epsilon: f64, kth: f32) -> bool {
    f64::from(farthest) + epsilon < f64::from(kth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ties_with_the_farthest_that_is_possible_is_not_certain() {
        assert!(is_below(0.5, 0.25, 0.75f32.next_up()));
        assert!(!is_below(0.5, 0.25, 0.75));
        assert!(!is_below(0.5, f64::NAN, 0.75));
        assert!(!is_below(f32::NAN, 0.0, 0.75));
        assert!(!is_below(0.5, f64::INFINITY, 0.75));
    }

    #[test]
    fn what_was_measured_is_raised_and_never_lowered() {
        let bits = |value: f64| ((value * value) as f32).to_bits();
        for (error, stride) in [(0.0, 4), (2.5e-4, 128), (1e-3, 2048)] {
            let certificate = Certificate::new([bits(error), bits(1.0)], stride);
            let (least, most) = (error * 0.999_999_9, error * 1.0001 + 1e-17);
            assert!(
                (least..=most).contains(&certificate.error),
                "{certificate:?}"
            );
            assert!((1.0..1.0001).contains(&certificate.length));
            let epsilon = certificate.epsilon(1.0);
            // Two sums of so many roundings.
            let roundings = (33 + stride.div_ceil(32)) as f64;
            let sums = 2.0 * roundings / f64::from(1 << 23);
            assert!(epsilon > error + sums && epsilon < 1.001 * (error + sums) + 1e-8);
        }
        let wrong = Certificate::new([f32::INFINITY.to_bits(), bits(1.0)], 4);
        assert!(!wrong.holds(0.0, 1.0, 1.0));
        let wrong = Certificate::new([f32::NAN.to_bits(), bits(1.0)], 4);
        assert!(!wrong.holds(0.0, 1.0, 1.0));
    }
}
