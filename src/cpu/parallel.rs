//! Work in parts that do not touch each other: on all cores natively, one after another in a browser.

#[cfg(not(target_arch = "wasm32"))]
use pulp::{Arch, Simd, WithSimd};

/// Cost of waking a core, in floating-point operations.
const WORTH_A_CORE: usize = 1 << 20;

/// Does the work of every part; the results are in the order of the parts, however many cores there are.
#[cfg(not(target_arch = "wasm32"))]
pub fn map<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Send + Sync) -> Vec<R> {
    use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

    // A pool of one thread is the one that started it: no other would be served.
    if parts.len() == 1 || rayon::current_num_threads() == 1 {
        return parts.into_iter().map(work).collect();
    }
    parts.into_par_iter().map(work).collect()
}

/// Does the work of every part; the results are in the order of the parts.
#[cfg(target_arch = "wasm32")]
pub fn map<P, R>(parts: Vec<P>, work: impl Fn(P) -> R) -> Vec<R> {
    parts.into_iter().map(work).collect()
}

/// Floating-point operations of all cores in a millisecond, as a guess before any was measured: a multiplication and an addition in
/// every lane, a thousand million times a second.
#[cfg(not(target_arch = "wasm32"))]
pub fn operations_per_ms() -> f64 {
    struct Lanes;

    impl WithSimd for Lanes {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            S::F32_LANES
        }
    }

    let lanes = Arch::new().dispatch(Lanes);
    2e6 * (lanes * rayon::current_num_threads()) as f64
}

/// Rows of a part, `most` at most, so that every core has a part, and each is worth waking a core.
pub(super) fn rows_of_a_part(rows: usize, operations: usize, most: usize) -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    let cores = rayon::current_num_threads();
    #[cfg(target_arch = "wasm32")]
    let cores = 1;
    let parts = cores.min(operations / WORTH_A_CORE).max(1);
    rows.div_ceil(parts).clamp(1, most)
}
