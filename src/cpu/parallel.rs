//! Work in parts that do not touch each other: on all cores natively and in a browser's core with threads, one after another in its
//! other core.

#[cfg(not(target_arch = "wasm32"))]
use pulp::{Arch, Simd, WithSimd};

/// Cost of waking a core, in floating-point operations.
const WORTH_A_CORE: usize = 1 << 20;

/// Number of threads that share the work of a kernel, the calling one among them.
pub fn threads() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    return rayon::current_num_threads();
    // Until helpers came, rayon is not asked: it would make a pool of this thread alone, which stays.
    #[cfg(all(target_arch = "wasm32", feature = "threads"))]
    return super::helpers::threads();
    #[cfg(all(target_arch = "wasm32", not(feature = "threads")))]
    1
}

/// Does the work of every part; the results are in the order of the parts, however many cores there are.
#[cfg(any(not(target_arch = "wasm32"), feature = "threads"))]
pub fn map<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Send + Sync) -> Vec<R> {
    use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

    // A pool of one thread is the one that started it: no other would be served.
    if parts.len() == 1 || threads() == 1 {
        return parts.into_iter().map(work).collect();
    }
    parts.into_par_iter().map(work).collect()
}

/// Does the work of every part; the results are in the order of the parts.
#[cfg(all(target_arch = "wasm32", not(feature = "threads")))]
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
    2e6 * (lanes * threads()) as f64
}

/// Rows of a part, `most` at most, so that every core has a part, and each is worth waking a core.
pub(super) fn rows_of_a_part(rows: usize, operations: usize, most: usize) -> usize {
    let parts = threads().min(operations / WORTH_A_CORE).max(1);
    rows.div_ceil(parts).clamp(1, most)
}
