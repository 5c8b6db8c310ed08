//! Ranks of each row's positives among all references: the counts from which all retrieval metrics follow.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::stored::Stored;
use super::tile::{self, Shape};
use super::{
    Kernel, MOST_ROUNDS, MOST_STEPS, READ, READ_WRITE, groups_for, index, vec4s, wgsl::wgsl,
};
use crate::cpu;
pub use crate::cpu::SEGMENT;
pub use crate::cpu::ranks::{Block, LabelBits, NO_ID, Row};
use crate::engine::gpu::{Binding, GpuCommands};
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "ranks.wgsl", "tile.wgsl");
const SOURCE_F16: &[&str] = wgsl!("stored_f16.wgsl", "ranks.wgsl", "tile.wgsl");

/// One workgroup a row.
pub static CLEAR: Kernel = Kernel {
    name: "ranks.clear",
    source: SOURCE,
    entry: "clear",
    bindings: &[READ, READ, READ, READ, READ_WRITE, READ_WRITE],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup per `SHARING` rows and span of the references.
pub static FIND: Kernel = Kernel {
    name: "ranks.find",
    entry: "find",
    ..CLEAR
};

/// [`FIND`] over rows in half precision.
pub static FIND_F16: Kernel = Kernel {
    name: "ranks.find_f16",
    source: SOURCE_F16,
    ..FIND
};

/// One workgroup per row and `RUN` thresholds.
pub static ORDER: Kernel = Kernel {
    name: "ranks.order",
    entry: "order",
    workgroup_bytes: 4 * 8 * SEGMENT as u32,
    ..CLEAR
};

/// [`ORDER`] with [`FEW`] invocations, for as many thresholds of a row.
pub static ORDER_FEW: Kernel = Kernel {
    name: "ranks.order_few",
    workgroup_size: FEW as u32,
    workgroup_bytes: 4 * 8 * FEW as u32,
    ..ORDER
};

/// One invocation per pair of thresholds.
pub static EXCHANGE_FAR: Kernel = Kernel {
    name: "ranks.exchange_far",
    entry: "exchange_far",
    ..CLEAR
};

/// One invocation per four counts.
pub static PACK: Kernel = Kernel {
    name: "ranks.pack",
    entry: "pack",
    bindings: &[READ_WRITE, READ_WRITE],
    ..CLEAR
};

/// The most references whose counts all fit [`pack`].
pub const MOST_PACKED: usize = 0xffff;

/// One workgroup per row and `RUN` thresholds.
pub static MERGE: Kernel = Kernel {
    name: "ranks.merge",
    entry: "merge",
    ..CLEAR
};

/// Thresholds that one workgroup sorts; the shader's `RUN`.
const RUN: usize = 4 * SEGMENT;

/// Rows that look at the same tags together in [`FIND`]; the shader's `SHARING`.
const SHARING: usize = 8;

/// References among which one workgroup finds the positives of a row alone.
const FOUND_ALONE: usize = 4096;

/// The most thresholds of a row for which a small workgroup is enough: most of a large one would wait, and an adapter that starts
/// every invocation by itself starts fewer.
pub const FEW: usize = 64;

/// One workgroup a row.
pub static SORT_THRESHOLDS: Kernel = Kernel {
    name: "ranks.sort_thresholds",
    entry: "sort_thresholds",
    workgroup_bytes: ORDER.workgroup_bytes,
    ..CLEAR
};

/// [`SORT_THRESHOLDS`] with [`FEW`] invocations, for as many thresholds of a row.
pub static SORT_THRESHOLDS_FEW: Kernel = Kernel {
    name: "ranks.sort_thresholds_few",
    workgroup_size: FEW as u32,
    workgroup_bytes: ORDER_FEW.workgroup_bytes,
    any_size: true,
    ..SORT_THRESHOLDS
};

/// [`SORT_THRESHOLDS`] over rows in half precision.
pub static SORT_THRESHOLDS_F16: Kernel = Kernel {
    name: "ranks.sort_thresholds_f16",
    source: SOURCE_F16,
    ..SORT_THRESHOLDS
};

/// [`SORT_THRESHOLDS_FEW`] over rows in half precision.
pub static SORT_THRESHOLDS_FEW_F16: Kernel = Kernel {
    name: "ranks.sort_thresholds_few_f16",
    source: SOURCE_F16,
    ..SORT_THRESHOLDS_FEW
};

/// Work is cut as in [`Shape::Strip`].
pub static STRIP: Kernel = Kernel {
    name: "ranks.strip",
    entry: "strip",
    bindings: &[READ, READ, READ, READ, READ, READ_WRITE],
    ..CLEAR
};

/// Work is cut as in [`Shape::Tile`].
pub static TILE: Kernel = Kernel {
    name: "ranks.tile",
    entry: "tile",
    workgroup_bytes: tile::WORKGROUP_BYTES,
    ..STRIP
};

/// Work is cut as in [`Shape::Quads`].
pub static QUADS: Kernel = Kernel {
    name: "ranks.quads",
    entry: "quads",
    workgroup_size: tile::QUADS_SIZE,
    workgroup_bytes: tile::QUADS_BYTES,
    ..STRIP
};

/// Inputs of the pass.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Unit rows `[_, stride]`.
    pub anchors: &'a DeviceVec<f32>,
    /// Unit rows `[references, stride]`.
    pub references: Stored<'a>,
    /// Label, id, number of positives and place of each anchor.
    pub batch: &'a DeviceVec<Row>,
    /// `[label, id]` of each reference.
    pub tags: &'a DeviceVec<[u32; 2]>,
}

/// Intermediate results of the pass.
#[derive(Debug)]
pub struct Scratch {
    /// Thresholds: `[bits of the similarity, id]` of every positive of the block's rows, the farthest of a row first.
    pub thresholds: DeviceVec<[u32; 2]>,
    /// Counts of negatives, one more for each row than it has positives: between two neighbouring thresholds, below the first and
    /// above the last.
    pub gap_counts: DeviceVec<u32>,
}

/// The uniform of this kernel and of `triplet_margin`.
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
pub(super) struct Params {
    pub(super) stride: u32,
    pub(super) first_row: u32,
    pub(super) rows: u32,
    pub(super) batch: u32,
    pub(super) references: u32,
    pub(super) first_reference: u32,
    pub(super) from_id: u32,
    pub(super) to_id: u32,
    pub(super) segments: u32,
    pub(super) capacity: u32,
    pub(super) report: u32,
    pub(super) pairs: u32,
    pub(super) kind: u32,
    pub(super) miner_margin: f32,
    pub(super) loss_margin: f32,
    pub(super) distance: u32,
    pub(super) groups: u32,
    pub(super) span: u32,
    pub(super) size: u32,
    pub(super) step: u32,
    pub(super) first_part: u32,
    pub(super) end_part: u32,
    pub(super) first_positive: u32,
    pub(super) end_positive: u32,
    pub(super) class_mask: u32,
    pub(super) own_below: u32,
}

impl<'a> Inputs<'a> {
    /// The inputs of the CPU side.
    pub(super) fn slices(&self) -> cpu::ranks::Slices<'a> {
        cpu::ranks::Slices {
            anchors: self.anchors.slice(),
            references: self.references.slices(),
            batch: self.batch.slice(),
            tags: self.tags.slice(),
        }
    }
}

pub(super) fn params(block: &Block) -> Params {
    Params {
        first_row: index(block.first_row),
        rows: index(block.rows),
        batch: index(block.batch),
        references: index(block.references),
        stride: vec4s(block.stride),
        first_reference: index(block.first_reference),
        to_id: NO_ID,
        segments: index(block.references.div_ceil(SEGMENT)),
        class_mask: LabelBits::CLASSES.class_mask,
        own_below: LabelBits::CLASSES.own_below,
        ..Params::default()
    }
}

/// The parameters of a block whose labels have this meaning.
fn params_of(block: &Block, labels: LabelBits) -> Params {
    Params {
        class_mask: labels.class_mask,
        own_below: labels.own_below,
        ..params(block)
    }
}

/// Steps of an invocation that computes one similarity.
pub(super) fn similarity_steps(stride: usize) -> usize {
    let vec4s = stride / 4;
    1 + vec4s + vec4s.div_ceil(8)
}

/// References that one workgroup of [`FIND`] looks through: four for each of its invocations, so that many workgroups share the
/// work, and fewer if rows are so long that these would take too many steps.
fn span(stride: usize) -> usize {
    (MOST_ROUNDS / SHARING / similarity_steps(stride)).clamp(1, 4) * SEGMENT
}

/// Tells if one workgroup a row finds and sorts all its positives.
fn is_one_workgroup(block: &Block, positives: usize) -> bool {
    block.references <= FOUND_ALONE && positives <= RUN
}

/// A dispatch of [`order`], with the number of workgroups of a row.
struct Stage {
    kernel: &'static Kernel,
    groups: usize,
    /// Length of the runs that it makes, and distance of the places that it compares, both powers of two; 0 for the kernels that
    /// need neither.
    size: usize,
    step: usize,
}

/// The dispatches that sort so many thresholds of a row: runs first, then longer and longer runs of those.
fn stages(positives: usize) -> Vec<Stage> {
    let runs = positives.div_ceil(RUN).max(1);
    let of_runs = |kernel| Stage {
        kernel,
        groups: runs,
        size: 0,
        step: 0,
    };
    let few = positives <= FEW;
    let mut stages = vec![of_runs(if few { &ORDER_FEW } else { &ORDER })];
    let mut size = 2 * RUN;
    while size < 2 * runs.next_power_of_two() * RUN {
        let groups = positives.next_multiple_of(size).div_ceil(2 * SEGMENT);
        let mut step = size / 4;
        stages.push(Stage {
            kernel: &EXCHANGE_FAR,
            groups,
            size,
            step: 0,
        });
        while step >= RUN {
            stages.push(Stage {
                kernel: &EXCHANGE_FAR,
                groups,
                size,
                step,
            });
            step /= 2;
        }
        stages.push(of_runs(&MERGE));
        size *= 2;
    }
    stages
}

/// Finds and sorts the positives of every row of the block: [`clear`], [`find`] and [`order`] with one set of parameters, in one
/// dispatch if a workgroup can do all of a row.
pub(super) fn sort_thresholds(
    gpu: &mut GpuCommands,
    block: &Block,
    positives: usize,
    params: &Params,
    references: Stored<'_>,
    buffers: &[Binding<'_>; 6],
) {
    if is_one_workgroup(block, positives) {
        let few = match gpu.shape() {
            Shape::Strip => FOUND_ALONE / FEW * similarity_steps(block.stride) <= MOST_STEPS,
            // Invocations are many, and each has to look at few references.
            Shape::Tile | Shape::Quads => block.references <= SEGMENT,
        };
        let kernel = if few && positives <= FEW {
            references.choose(&SORT_THRESHOLDS_FEW, &SORT_THRESHOLDS_FEW_F16)
        } else {
            references.choose(&SORT_THRESHOLDS, &SORT_THRESHOLDS_F16)
        };
        gpu.dispatch(kernel, params, buffers, block.rows as u64);
    } else {
        gpu.dispatch(&CLEAR, params, buffers, block.rows as u64);
        dispatch_find(gpu, block, params, references, buffers);
        dispatch_order(gpu, block, positives, params, buffers);
    }
}

/// Dispatches of [`sort_thresholds`].
pub(super) fn sorting_dispatches(block: &Block, positives: usize) -> usize {
    match is_one_workgroup(block, positives) {
        true => 1,
        false => 2 + stages(positives).len(),
    }
}

fn dispatch_find(
    gpu: &mut GpuCommands,
    block: &Block,
    params: &Params,
    references: Stored<'_>,
    buffers: &[Binding<'_>; 6],
) {
    let span = span(block.stride);
    let groups = block.references.div_ceil(span);
    let params = Params {
        groups: index(groups),
        span: index(span),
        ..*params
    };
    let all = block.rows.div_ceil(SHARING) * groups;
    let find = references.choose(&FIND, &FIND_F16);
    gpu.dispatch(find, &params, buffers, all as u64);
}

fn dispatch_order(
    gpu: &mut GpuCommands,
    block: &Block,
    positives: usize,
    params: &Params,
    buffers: &[Binding<'_>; 6],
) {
    for stage in stages(positives) {
        let params = Params {
            groups: index(stage.groups),
            size: index(stage.size),
            step: index(stage.step),
            ..*params
        };
        let groups = (block.rows * stage.groups) as u64;
        gpu.dispatch(stage.kernel, &params, buffers, groups);
    }
}

/// The buffers of every kernel of the pass, in binding order.
pub(super) fn buffers<'a>(inputs: Inputs<'a>, scratch: &'a Scratch) -> [Binding<'a>; 6] {
    [
        inputs.anchors.binding(),
        inputs.references.binding(),
        inputs.batch.binding(),
        inputs.tags.binding(),
        scratch.thresholds.binding(),
        scratch.gap_counts.binding(),
    ]
}

/// Sets the counts of every row of the block to zero, before the first [`find`].
pub fn clear(commands: &mut Commands, block: &Block, inputs: Inputs<'_>, scratch: &mut Scratch) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = buffers(inputs, scratch);
            gpu.dispatch(&CLEAR, &params(block), &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::ranks::clear(block, inputs.slices(), scratch.gap_counts.slice_mut());
        }
    }
}

/// Collects the thresholds of every row of the block: its positives among these references that have an id in `ids`. `labels` is
/// the meaning of the labels of rows and references.
///
/// May be called for one part of the references after the other; a row's `positives` is then the sum over all parts.
pub fn find(
    commands: &mut Commands,
    block: &Block,
    ids: Range<u32>,
    labels: LabelBits,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                from_id: ids.start,
                to_id: ids.end,
                ..params_of(block, labels)
            };
            let buffers = buffers(inputs, scratch);
            dispatch_find(gpu, block, &params, inputs.references, &buffers);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch {
                thresholds,
                gap_counts,
            } = scratch;
            let (thresholds, gap_counts) = (thresholds.slice_mut(), gap_counts.slice_mut());
            cpu::ranks::find(block, ids, labels, inputs.slices(), thresholds, gap_counts);
        }
    }
}

/// Sorts the thresholds of every row of the block, after the last [`find`]. `positives`: of the row that has the most.
pub fn order(
    commands: &mut Commands,
    block: &Block,
    positives: usize,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = buffers(inputs, scratch);
            dispatch_order(gpu, block, positives, &params(block), &buffers);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch {
                thresholds,
                gap_counts,
            } = scratch;
            let (thresholds, gap_counts) = (thresholds.slice_mut(), gap_counts.slice_mut());
            cpu::ranks::order(block, inputs.slices(), thresholds, gap_counts);
        }
    }
}

/// Counts the negatives between neighbouring thresholds, for every row of the block.
///
/// Nearer means a larger similarity, then a smaller id. May be called for one part of the references after the other: counts
/// add up. After the last, `gap_counts[offset + g]`, for `0 < g <= positives`, is the number of negatives that are nearer than the
/// row's `g` farthest positives and no nearer than the others. The negatives that are farther than every positive are not
/// counted: they are the rest.
pub fn gaps(
    commands: &mut Commands,
    block: &Block,
    shape: Shape,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    let (depth, labels) = (usize::MAX, LabelBits::CLASSES);
    gaps_within(commands, block, depth, labels, shape, inputs, scratch);
}

/// [`gaps`] for labels that may have groups, if no rank above both `depth` and the row's positives is asked for: negatives that
/// come later may be left out.
pub fn gaps_within(
    commands: &mut Commands,
    block: &Block,
    depth: usize,
    labels: LabelBits,
    shape: Shape,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let kernel = shape.of_three([&STRIP, &TILE, &QUADS]);
            let groups = shape.groups(block.rows, block.references);
            let params = params_of(block, labels);
            gpu.dispatch(kernel, &params, &buffers(inputs, scratch), groups);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch {
                thresholds,
                gap_counts,
            } = scratch;
            let (thresholds, gap_counts) = (thresholds.slice_mut(), gap_counts.slice_mut());
            let inputs = inputs.slices();
            cpu::ranks::gaps(block, depth, labels, inputs, thresholds, gap_counts);
        }
    }
}

/// Packs the first `count` gap counts, two in a word and the lower half first, into the thresholds' buffer: half as much to read back.
/// No count may be above [`MOST_PACKED`].
pub fn pack(commands: &mut Commands, count: usize, scratch: &mut Scratch) {
    match commands {
        Commands::Gpu(gpu) => {
            let params = Params {
                size: index(count),
                ..Params::default()
            };
            let buffers = [scratch.gap_counts.binding(), scratch.thresholds.binding()];
            gpu.dispatch(
                &PACK,
                &params,
                &buffers,
                groups_for(&PACK, count.div_ceil(4)),
            );
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch {
                thresholds,
                gap_counts,
            } = scratch;
            cpu::ranks::pack(&gap_counts.slice()[..count], thresholds.slice_mut());
        }
    }
}
