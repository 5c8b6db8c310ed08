//! The k nearest references of every query, exactly, without a matrix of similarities.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::tile::{self, Shape};
use super::{Kernel, READ, READ_WRITE, index, vec4s, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::knn::{MOST_KEPT, NOTHING, QueryBound, Search, VISIT};
use crate::engine::device::DeviceInfo;
use crate::engine::gpu::{Binding, GpuCommands};
use crate::engine::{Commands, DeviceVec};

const SOURCE: &[&str] = wgsl!("stored_f32.wgsl", "knn.wgsl", "tile.wgsl");

/// One workgroup a query.
pub static CLEAR: Kernel = Kernel {
    name: "knn.clear",
    source: SOURCE,
    entry: "clear",
    bindings: &[READ, READ, READ, READ_WRITE, READ_WRITE, READ_WRITE],
    workgroup_size: tile::WORKGROUP_SIZE,
    workgroup_bytes: 0,
    any_size: false,
};

/// One workgroup a query.
pub static KEEP: Kernel = Kernel {
    name: "knn.keep",
    entry: "keep",
    workgroup_bytes: 4 + 8 * (MOST_KEPT + VISIT) as u32,
    ..CLEAR
};

/// One invocation a query, for a small k: for software adapters, which pay dearly for barriers.
pub static KEEP_SERIAL: Kernel = Kernel {
    name: "knn.keep_serial",
    entry: "keep_serial",
    ..CLEAR
};

/// One workgroup per [`VISIT`] references, for all queries of a search with few.
pub static FEW: Kernel = Kernel {
    name: "knn.few",
    entry: "few",
    bindings: STRIP.bindings,
    workgroup_bytes: KEEP.workgroup_bytes + 4 * 64 + 4,
    ..CLEAR
};

/// The most queries that [`FEW`] serves: up to about this many, reading the references from memory takes longest.
pub const FEW_QUERIES: usize = 8;
/// The most neighbours of each query that [`FEW`] finds: more would leave room for few references at a time.
const MOST_OF_FEW: usize = 32;

/// The most neighbours that [`KEEP_SERIAL`] inserts one by one: at worst it takes [`VISIT`] times as many steps, and llvmpipe was
/// seen to end an invocation of some 65,000 steps without an error.
const MOST_SERIAL: usize = 32;

/// Work is cut as in [`Shape::Strip`].
pub static STRIP: Kernel = Kernel {
    name: "knn.strip",
    entry: "strip",
    bindings: &[READ, READ, READ, READ, READ_WRITE, READ_WRITE],
    ..CLEAR
};

/// Work is cut as in [`Shape::Tile`].
pub static TILE: Kernel = Kernel {
    name: "knn.tile",
    entry: "tile",
    workgroup_bytes: tile::WORKGROUP_BYTES,
    ..STRIP
};

/// Work is cut as in [`Shape::Quads`].
pub static QUADS: Kernel = Kernel {
    name: "knn.quads",
    entry: "quads",
    workgroup_size: tile::QUADS_SIZE,
    workgroup_bytes: tile::QUADS_BYTES,
    ..STRIP
};

/// First neighbour of a query of which one look found more survivors than there is room for: nearer than every reference, so that
/// it stays. Such queries have to be searched again.
const LOST: [u32; 2] = [3.0f32.to_bits(), 0];

/// Number of visits that may be looked at together after `done` of them, so that survivors have room.
///
/// Visits are even samples of the chunk. Of `m` references after `n`, the number of those nearer than the k-th nearest of the `n`
/// is `m / n` times a gamma variable of shape k, whose standard deviation is √k: with room for k + 8 √k + 8 times `m / n`, one
/// query in 10^9 finds too many, unless the order of the references is a trap.
///
/// A search in one pass keeps `k` references of every visit at most, which always have room.
pub fn visits_together(search: &Search, shape: Shape, done: usize) -> usize {
    let k = search.k;
    if is_one_pass(search, shape) {
        return VISIT / k;
    }
    (done * VISIT / (k + 8 * k.isqrt() + 8)).max(1)
}

/// The shape that suits a device and a search.
pub fn shape_for(info: &DeviceInfo, search: &Search) -> Shape {
    // Software adapters gain nothing by one pass, and lose by barriers and by references that lie far apart.
    match is_of_few(search) {
        true => info.shape.unwrap_or(Shape::of_device(info)),
        false => Shape::of(info, search.rows),
    }
}

/// Tells if there are few enough queries, and neighbours of each, for one pass.
fn is_of_few(search: &Search) -> bool {
    search.rows <= FEW_QUERIES && search.k <= MOST_OF_FEW
}

/// Tells if [`FEW`] serves these queries.
fn is_one_pass(search: &Search, shape: Shape) -> bool {
    shape != Shape::Strip && is_of_few(search)
}

/// Tells if a query of these lost neighbours, from the neighbours that were kept of each.
pub fn is_lost(kept: &[[u32; 2]], k: usize) -> bool {
    kept.chunks_exact(k).any(|kept| kept[0] == LOST)
}

/// Inputs of a search.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Unit rows of the block's queries `[_, stride]`.
    pub queries: &'a DeviceVec<f32>,
    /// Unit rows of the chunk `[references, stride]`.
    pub references: &'a DeviceVec<f32>,
    /// Bounds of each query.
    pub asked: &'a DeviceVec<QueryBound>,
}

/// Outputs of a search.
#[derive(Debug)]
pub struct Scratch {
    /// `[queries, k]`: the neighbours found so far as `[bits of the similarity, id]`, nearest first; free places hold
    /// [`NOTHING`].
    pub kept: DeviceVec<[u32; 2]>,
    /// `[queries, VISIT]`: the references that passed the last look.
    pub survivors: DeviceVec<[u32; 2]>,
    /// `[queries]`: number of survivors.
    pub counts: DeviceVec<u32>,
}

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    stride: u32,
    first_row: u32,
    rows: u32,
    references: u32,
    k: u32,
    first_id: u32,
    step: u32,
    offset: u32,
    width: u32,
}

fn params(search: &Search) -> Params {
    Params {
        first_row: index(search.first_row),
        rows: index(search.rows),
        stride: vec4s(search.stride),
        k: index(search.k),
        first_id: search.first_id,
        ..Params::default()
    }
}

/// Empties the lists of neighbours before the first visit of a search.
pub fn clear(commands: &mut Commands, search: &Search, inputs: Inputs<'_>, scratch: &mut Scratch) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = buffers(inputs, scratch);
            gpu.dispatch(&CLEAR, &params(search), &buffers, search.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            cpu::knn::clear(search, scratch.kept.slice_mut());
        }
    }
}

/// Compares every query with the references of these visits, in one look, and keeps its nearest.
///
/// Nearer means a larger similarity, then a smaller id. After the visits of all chunks, in any order, `kept` holds the `k`
/// nearest of those that `asked` admits, with the same bits. Survivors of one visit always have room; more together than
/// [`visits_together`] may have more survivors than that, and then [`is_lost`] says so.
pub fn search(
    commands: &mut Commands,
    search: &Search,
    visits: Range<usize>,
    shape: Shape,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = buffers(inputs, scratch);
            let (params, references) = params_of(search, &visits);
            if is_one_pass(search, shape) && visits.len() <= VISIT / search.k {
                let groups = references.div_ceil(VISIT);
                gpu.dispatch(&FEW, &params, &buffers, groups as u64);
            } else {
                let kernel = shape.of_three([&STRIP, &TILE, &QUADS]);
                let groups = shape.groups(search.rows, references);
                gpu.dispatch(kernel, &params, &buffers, groups);
            }
            keep(gpu, search, shape, &params, &buffers);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let Scratch {
                kept, survivors, ..
            } = scratch;
            let (kept, survivors) = (kept.slice_mut(), survivors.slice_mut());
            let Inputs {
                queries,
                references,
                asked,
            } = inputs;
            let (queries, references) = (queries.slice(), references.slice());
            cpu::knn::search(
                search,
                visits,
                queries,
                references,
                asked.slice(),
                kept,
                survivors,
            );
        }
    }
}

/// The parameters of a look at these visits, and the number of references that it sees.
fn params_of(search: &Search, visits: &Range<usize>) -> (Params, usize) {
    let (step, width) = (search.visits(), visits.len());
    let left = (search.references % step).saturating_sub(visits.start);
    let references = search.references / step * width + left.min(width);
    let params = Params {
        references: index(references),
        step: index(step),
        offset: index(visits.start),
        width: index(width),
        ..params(search)
    };
    (params, references)
}

/// Keeps the `k` nearest of the kept neighbours and the survivors.
fn keep(
    gpu: &mut GpuCommands,
    search: &Search,
    shape: Shape,
    params: &Params,
    buffers: &[Binding<'_>],
) {
    if gpu.is_software() && shape == Shape::Strip && search.k <= MOST_SERIAL {
        let groups = search.rows.div_ceil(tile::WORKGROUP_SIZE as usize);
        gpu.dispatch(&KEEP_SERIAL, params, buffers, groups as u64);
    } else {
        gpu.dispatch(&KEEP, params, buffers, search.rows as u64);
    }
}

/// The buffers of every kernel of a search, in binding order.
fn buffers<'a>(inputs: Inputs<'a>, scratch: &'a Scratch) -> [Binding<'a>; 6] {
    [
        inputs.queries.binding(),
        inputs.references.binding(),
        inputs.asked.binding(),
        scratch.kept.binding(),
        scratch.survivors.binding(),
        scratch.counts.binding(),
    ]
}
