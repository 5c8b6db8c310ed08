//! The kernels: one public function per meaning, with its GPU side in `shaders/` and its CPU side in `cpu/`.
//!
//! A function takes [`Commands`](crate::Commands), inputs as `&DeviceVec`, outputs and scratch as `&mut DeviceVec`; it
//! creates no buffer. The three files of a kernel, and its test in `tests/kernels/`, share a stem. Matrices are
//! row-major; their rows are padded with zeros to [`stride`] floats.

pub mod cast;
pub mod draw;
pub mod drift;
pub mod dropout;
pub mod embed;
pub mod gather;
pub mod gelu;
pub mod gemm;
pub mod knn;
pub mod norm;
pub mod normalize;
pub mod optimizer;
pub mod pair_counts;
pub mod pair_gradient;
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
mod wgsl;

use crate::cpu::{Precision, SEGMENT};
use crate::engine::device::{DeviceInfo, TileShape};
pub use crate::engine::gpu::{Access, Dispatch, Kernel};
use crate::engine::gpu::{GpuCommands, NARROW};

/// Short names, so that the bindings of a kernel stand in one line: read, and read or written.
const READ: Access = Access::Read;
const READ_WRITE: Access = Access::ReadWrite;

/// End of the names of kernels over rows in half precision.
const OF_F16: &str = "_f16";

/// Every kernel there is.
pub static ALL: &[&Kernel] = &[
    &cast::TO_HALF_F16,
    &gather::GATHER,
    &gather::GATHER_F16,
    &gather::SCATTER,
    &gelu::FORWARD,
    &gelu::BACKWARD,
    &gelu::FORWARD_F16,
    &gelu::BACKWARD_F16,
    &gemm::FORWARD,
    &gemm::FORWARD_TILE,
    &gemm::WEIGHT_GRADIENT,
    &gemm::WEIGHT_GRADIENT_TILE,
    &gemm::BACKWARD,
    &gemm::BACKWARD_TILE,
    &gemm::FORWARD_F16,
    &gemm::FORWARD_TILE_F16,
    &gemm::BACKWARD_F16,
    &gemm::BACKWARD_TILE_F16,
    &embed::EMBED_AND_STORE,
    &embed::EMBED_AND_STORE_TILE,
    &embed::EMBED_AND_STORE_F16,
    &embed::EMBED_AND_STORE_TILE_F16,
    &knn::CLEAR,
    &knn::STRIP,
    &knn::TILE,
    &knn::QUADS,
    &knn::FEW,
    &knn::KEEP,
    &knn::KEEP_SERIAL,
    &norm::LAYER_NORM,
    &norm::LAYER_PARAMETERS,
    &norm::LAYER_INPUTS,
    &norm::BATCH_MOMENTS,
    &norm::BATCH_NORM,
    &norm::BATCH_PARAMETERS,
    &norm::BATCH_INPUTS,
    &norm::LAYER_NORM_F16,
    &norm::LAYER_PARAMETERS_F16,
    &norm::LAYER_INPUTS_F16,
    &norm::BATCH_MOMENTS_F16,
    &norm::BATCH_NORM_F16,
    &norm::BATCH_PARAMETERS_F16,
    &norm::BATCH_INPUTS_F16,
    &norm::FOLLOW,
    &normalize::NORMALIZE,
    &normalize::IN_PLACE,
    &normalize::STORE,
    &normalize::STORE_F16,
    &normalize::MEASURE,
    &normalize::BACKWARD,
    &drift::MEAN,
    &drift::MEASURE,
    &dropout::DROP,
    &draw::DRAW,
    &draw::COUNT,
    &optimizer::ADAM,
    &optimizer::CLIP,
    &optimizer::MOMENTUM,
    &optimizer::SEGMENTS,
    &optimizer::SGD,
    &optimizer::SQUARES,
    &pair_counts::COUNT,
    &peaks::MULTIPLY_ADD,
    &peaks::FILL,
    &peaks::COPY,
    &pair_gradient::ANCHORS,
    &pair_gradient::ANCHORS_APART,
    &pair_gradient::ANCHORS_F16,
    &pair_gradient::ANCHORS_APART_F16,
    &pair_gradient::REFERENCES,
    &ranks::CLEAR,
    &ranks::FIND,
    &ranks::FIND_F16,
    &ranks::ORDER,
    &ranks::ORDER_FEW,
    &ranks::EXCHANGE_FAR,
    &ranks::MERGE,
    &ranks::PACK,
    &ranks::SORT_THRESHOLDS,
    &ranks::SORT_THRESHOLDS_FEW,
    &ranks::SORT_THRESHOLDS_F16,
    &ranks::SORT_THRESHOLDS_FEW_F16,
    &ranks::STRIP,
    &ranks::TILE,
    &ranks::QUADS,
    &row_loss::POOL,
    &row_loss::COUNT,
    &row_loss::REDUCE,
    &row_loss::REDUCE_FEW,
    &row_loss::SETTLE,
    &row_loss::SLOPES,
    &row_loss::LEARN,
    &row_weights::FIND,
    &row_weights::SCALE,
    &select::KEEP,
    &similarities::STRIP,
    &similarities::TILE,
    &similarities::STRIP_F16,
    &similarities::TILE_F16,
    &similarities::QUADS,
    &similarities::QUADS_F16,
    &triplet_margin::MINE,
    &triplet_margin::FINISH,
    &triplet_margin::FINISH_FEW,
    &triplet_margin::MINE_F16,
    &triplet_margin::FINISH_F16,
    &triplet_margin::FINISH_FEW_F16,
    &triplet_margin::MINE_ROWS,
    &triplet_margin::MINE_ROWS_F16,
    &triplet_margin::SHARE_WITH_REFERENCES,
    &triplets::VALID,
    &triplets::COUNT,
    &triplets::WRITE,
    &triplets::FACENET,
    &triplets::CHECKSUM,
    &triplet_loss::CHOOSE,
    &triplet_loss::COUNT,
    &triplet_loss::SLOPES,
    &triplet_loss::SLOPES_F16,
    &triplet_loss::DRAWN,
    &triplet_loss::SETTLE,
    &triplet_loss::TOTAL,
    &triplet_loss::SWAPPED,
    &truncate::TRUNCATE,
    &truncate::TRUNCATE_F16,
    &truncate::WIDEN,
];

/// The kernels that a device uses: a software adapter takes [`tile::Shape::Strip`] for all work, and compiles slowly. No device
/// takes [`tile::Shape::Quads`] unless it was found to be faster.
fn usable_on(info: &DeviceInfo) -> impl Iterator<Item = &'static Kernel> + use<> {
    let of_hardware = [
        knn::TILE.name,
        ranks::TILE.name,
        similarities::TILE.name,
        gemm::FORWARD_TILE.name,
        gemm::WEIGHT_GRADIENT_TILE.name,
        gemm::BACKWARD_TILE.name,
        embed::EMBED_AND_STORE_TILE.name,
        triplet_margin::MINE_ROWS.name,
    ];
    let quads = [knn::QUADS.name, ranks::QUADS.name, similarities::QUADS.name];
    let software = info.software;
    let in_quads = [info.shape, info.tuned].contains(&Some(TileShape::Quads));
    let is_used = move |kernel: &&Kernel| {
        let name = kernel.name.strip_suffix(OF_F16).unwrap_or(kernel.name);
        !(software && of_hardware.contains(&name)) && (in_quads || !quads.contains(&name))
    };
    ALL.iter().copied().filter(is_used)
}

/// The same, without those over rows in half precision, which a run has if it asks for them.
pub fn used_on(info: &DeviceInfo) -> impl Iterator<Item = &'static Kernel> + use<> {
    usable_on(info).filter(|kernel| !kernel.name.ends_with(OF_F16))
}

/// Files of the kernels that read or write hidden activations; those of other files read rows that were stored.
const OF_ACTIVATIONS: [&str; 5] = ["cast", "embed", "gelu", "gemm", "norm"];

/// The kernels of [`used_on`] in these files of `shaders/`, which a piece of work compiles before it starts, and those over rows and
/// over activations of these precisions. Others are compiled with their first dispatch.
pub fn used_of(
    info: &DeviceInfo,
    files: &[&str],
    [rows, activations]: [Precision; 2],
) -> impl Iterator<Item = &'static Kernel> {
    usable_on(info).filter(move |kernel| {
        let file = kernel.name.split('.').next().unwrap_or_default();
        let precision = match OF_ACTIVATIONS.contains(&file) {
            true => activations,
            false => rows,
        };
        let is_precise = precision == Precision::F16 || !kernel.name.ends_with(OF_F16);
        is_precise && files.contains(&file)
    })
}

/// Steps that an invocation takes in one dispatch, all its loops together, about: software adapters end them at 65,536 without an
/// error.
pub(crate) const MOST_STEPS: usize = 16_384;

/// Steps that an invocation takes after each other in one window on hardware, where a card of thousands of lanes waits for the last
/// of them.
const FEW_STEPS: usize = 768;

/// Number of references that an invocation looks at in one dispatch, in so many steps each: whole segments, `most` at most. On
/// hardware windows are short, but `windows` at most, so that a submit has room for all. No bit may depend on them.
fn window_in(
    shape: TileShape,
    references: usize,
    steps: usize,
    windows: usize,
    most: usize,
) -> usize {
    let short = (FEW_STEPS / steps / SEGMENT).max(1) * SEGMENT;
    let least = references.div_ceil(windows).next_multiple_of(SEGMENT);
    match shape {
        TileShape::Strip => most,
        TileShape::Tile | TileShape::Quads => short.max(least).min(most),
    }
}

/// Shape of workgroups whose invocations share so many items, of so many steps each: workgroups are large if few invocations would
/// take too many steps.
fn workgroups_for(gpu: &GpuCommands, items: usize, steps: usize) -> tile::Shape {
    if items.div_ceil(NARROW as usize) * steps <= MOST_STEPS {
        gpu.shape()
    } else {
        tile::Shape::Tile
    }
}

/// The most rounds of a loop for which invocations of a workgroup wait.
pub(crate) const MOST_ROUNDS: usize = 1024;

/// Floats from one row of a matrix to the next: `columns` rounded up to whole vec4s.
pub fn stride(columns: usize) -> usize {
    columns.next_multiple_of(4)
}

/// vec4s in `floats` floats.
fn vec4s(floats: usize) -> u32 {
    debug_assert!(floats.is_multiple_of(4), "rows are whole vec4s");
    index(floats / 4)
}

/// A host size as the shaders index it.
fn index(size: usize) -> u32 {
    u32::try_from(size).expect("the plan keeps every index of a kernel within 32 bits")
}

/// Workgroups for one invocation each of `items`.
fn groups_for(kernel: &Kernel, items: usize) -> u64 {
    (items as u64).div_ceil(u64::from(kernel.workgroup_size))
}
