//! The CPU side of every kernel: plain Rust on slices, one file per shader.

pub(crate) mod drift;
mod exp;
pub(crate) mod gather;
pub mod gemm;
pub mod hardest;
pub(crate) mod knn;
pub mod normalize;
pub mod optimizer;
mod parallel;
pub(crate) mod peaks;
pub(crate) mod pull;
pub mod ranks;
pub mod row_loss;
pub(crate) mod row_weights;
pub mod select;
pub mod similarities;
pub(crate) mod tile;
pub mod triplet_margin;
pub mod triplets;
mod vec;
pub mod weigh;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use parallel::start_threads;
pub use vec::CpuVec;

/// Sums over rows or references go in segments of this many, ascending, as in the shaders.
pub const SEGMENT: usize = 256;

/// `sum += factor * row`.
pub(crate) fn add_scaled(sum: &mut [f32], factor: f32, row: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += factor * value;
    }
}
