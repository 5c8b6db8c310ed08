//! Every kernel on both engines against `nearfar::reference`; one module per shader.

mod cast;
mod chains;
#[path = "../common/mod.rs"]
mod common;
mod draw;
mod drift;
mod dropout;
mod embed;
mod failures;
mod gather;
mod gelu;
mod gemm;
mod knn;
mod loops;
mod norm;
mod normalize;
mod optimizer;
mod pair_counts;
mod pair_gradient;
mod peaks;
mod ranks;
mod row_loss;
mod row_weights;
mod select;
mod shaders;
mod similarities;
mod stored;
mod tile;
mod triplet_loss;
mod triplet_margin;
mod triplets;
mod truncate;
#[path = "../../build/wgsl.rs"]
mod wgsl;
