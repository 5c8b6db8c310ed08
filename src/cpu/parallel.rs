//! Work in parts that do not touch each other: on all cores natively, one after another in a browser.

/// Does the work of every part; the results are in the order of the parts, however many cores there are.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn map<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Send + Sync) -> Vec<R> {
    use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

    parts.into_par_iter().map(work).collect()
}

/// Does the work of every part; the results are in the order of the parts.
#[cfg(target_arch = "wasm32")]
pub(super) fn map<P, R>(parts: Vec<P>, work: impl Fn(P) -> R) -> Vec<R> {
    parts.into_iter().map(work).collect()
}

/// How many parts can be worked on at once.
pub(super) fn threads() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    return rayon::current_num_threads();
    #[cfg(target_arch = "wasm32")]
    return 1;
}
