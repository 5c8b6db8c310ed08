//! The CPU side of every kernel: plain Rust on slices, one file per shader.

mod activation;
pub mod cast;
mod distance;
pub mod draw;
pub mod drift;
pub mod dropout;
pub mod embed;
mod exp;
pub mod gather;
pub mod gelu;
pub mod gemm;
#[cfg(all(target_arch = "wasm32", feature = "threads"))]
pub mod helpers;
pub mod knn;
pub mod layout;
pub mod near;
pub mod norm;
pub mod normalize;
pub mod optimizer;
pub mod pair_counts;
pub mod pair_gradient;
pub mod parallel;
pub mod peaks;
pub mod ranks;
pub mod row_loss;
pub mod row_weights;
pub mod select;
pub mod similarities;
pub mod stored;
pub mod tile;
pub mod triplet_loss;
pub mod triplet_margin;
pub mod triplets;
pub mod truncate;

pub use activation::{Activation, Norm};
pub use distance::Distance;
pub use stored::Precision;

use pulp::{Arch, Simd, WithSimd};

/// Sums over rows or references go in segments of this many, ascending, as in the shaders.
pub const SEGMENT: usize = 256;

/// `sum += factor * row`.
#[inline(always)]
pub fn add_scaled(sum: &mut [f32], factor: f32, row: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

/// Does the work, compiled for the instruction set of the processor: mark it `#[inline(always)]`.
///
/// pulp takes a closure as one that is called once, and its caller is not always inlined: the work is then compiled for any
/// processor.
fn wide<R>(work: impl FnMut() -> R) -> R {
    struct Wide<F>(F);

    impl<R, F: FnMut() -> R> WithSimd for Wide<F> {
        type Output = R;

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _simd: S) -> R {
            (self.0)()
        }
    }

    Arch::new().dispatch(Wide(work))
}
