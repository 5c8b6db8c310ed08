//! Every kernel on both engines against `nearfar::reference`; one module per shader.

#[path = "../common/mod.rs"]
mod common;
mod gather;
mod gemm;
mod normalize;
mod optimizer;
mod peaks;
mod ranks;
mod shaders;
mod triplet_margin;
