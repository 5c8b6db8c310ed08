//! Work in parts that do not touch each other: on all cores natively, one after another in a browser.

/// What waking a core costs, in floating-point operations.
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

/// How many rows make a part, `most` at most, so that every core has one that is worth its while.
pub(super) fn rows_of_a_part(rows: usize, operations: usize, most: usize) -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    let cores = rayon::current_num_threads();
    #[cfg(target_arch = "wasm32")]
    let cores = 1;
    let parts = cores.min(operations / WORTH_A_CORE).max(1);
    rows.div_ceil(parts).clamp(1, most)
}
