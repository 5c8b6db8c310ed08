//! Reference results of the kernels, computed by nested loops in f64: obviously right, and shared by no engine.
//!
//! For tests and for the bench, which checks before it times. Rows here are dense: `[rows, dim]`, no padding.

mod neighbours;
mod pair_loss;
mod proxy_loss;
mod rows;
mod select;
mod triplets;

pub use neighbours::{neighbours, pairs, ranks};
pub use pair_loss::{PairOfAnchor, PairsOfAnchor, pair_loss};
pub use proxy_loss::proxy_loss;
pub use rows::{
    batch_norm, column_moments, dot, gelu, gelu_slope, layer_norm, mlp, normalize, value,
};
pub use select::{draw, select};
pub use triplets::{
    Mining, Weighed, facenet_semihard, one_negative, times, triplet_margin, triplets, weigh,
    weigh_triplets,
};
