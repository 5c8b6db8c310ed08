//! Triplets drawn at random, some of each anchor: `DistanceWeightedMiner`.

use bytemuck::{Pod, Zeroable};

use super::ranks::{Inputs, SEGMENT};
use super::select::Kept;
use super::similarities::width;
use super::{Kernel, READ, READ_WRITE, index, wgsl::wgsl};
use crate::cpu;
pub use crate::cpu::draw::{Drawing, Draws};
use crate::engine::{Commands, DeviceVec};
use crate::kernels::ranks::Block;

/// One workgroup a row.
pub static DRAW: Kernel = Kernel {
    name: "draw.draw",
    source: wgsl!("draw.wgsl"),
    entry: "draw",
    bindings: &[READ, READ, READ, READ, READ, READ_WRITE, READ_WRITE],
    workgroup_size: SEGMENT as u32,
    workgroup_bytes: 4 * SEGMENT as u32 + 4 * SEGMENT as u32 / 16 + 4,
    any_size: false,
};

/// One workgroup a row.
pub static COUNT: Kernel = Kernel {
    name: "draw.count",
    entry: "count",
    bindings: &[READ, READ_WRITE],
    workgroup_bytes: 0,
    ..DRAW
};

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Params {
    rows: u32,
    batch: u32,
    references: u32,
    width: u32,
    places: u32,
    anchor: u32,
    distance: u32,
    least: f32,
    seeds: [u32; 2],
    factors: [f32; 2],
    most: f32,
    unused: u32,
}

/// Draws triplets from the kept positives and negatives, which must be all of them: for each row as many as its class has
/// references, the row's own copy counted; none for a row without a positive, or without a negative that has a weight.
///
/// Draws of equal key, anchor and number are the same on every call. `kept.weights` must be zero, and is zero again afterwards.
///
/// # Shapes
/// `drawn`: `[rows, draws.places]`: number of triplets, then the places of positive and negative of each
pub fn draw(
    commands: &mut Commands,
    block: &Block,
    draws: &Draws,
    inputs: Inputs<'_>,
    kept: &mut Kept,
    drawn: &mut DeviceVec<[u32; 2]>,
) {
    let width = width(block.references);
    match commands {
        Commands::Gpu(gpu) => {
            let [least, most] = draws.squares();
            let params = Params {
                batch: index(block.batch),
                anchor: index(draws.anchor),
                distance: draws.distance as u32,
                least,
                seeds: draws.seeds(),
                factors: draws.factors(),
                most,
                ..params(block, draws)
            };
            let buffers = [
                inputs.batch.binding(),
                inputs.tags.binding(),
                kept.values.binding(),
                kept.places.binding(),
                kept.counts.binding(),
                kept.weights.binding(),
                drawn.binding(),
            ];
            gpu.dispatch(&DRAW, &params, &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let inputs = cpu::draw::Slices {
                batch: inputs.batch.slice(),
                tags: inputs.tags.slice(),
                values: kept.values.slice(),
                places: kept.places.slice(),
                counts: kept.counts.slice(),
            };
            let (sums, drawn) = (kept.weights.slice_mut(), drawn.slice_mut());
            cpu::draw::draw(block, width, draws, inputs, sums, drawn);
        }
    }
}

/// Counts the drawn triplets with each reference.
///
/// # Shapes
/// `times`: `[rows, width]`
pub fn count(
    commands: &mut Commands,
    block: &Block,
    draws: &Draws,
    drawn: &DeviceVec<[u32; 2]>,
    times: &mut DeviceVec<u32>,
) {
    match commands {
        Commands::Gpu(gpu) => {
            let buffers = [drawn.binding(), times.binding()];
            gpu.dispatch(&COUNT, &params(block, draws), &buffers, block.rows as u64);
        }
        Commands::Cpu(calls) => {
            *calls += 1;
            let (width, drawn) = (width(block.references), drawn.slice());
            cpu::draw::count(block, width, draws.places, drawn, times.slice_mut());
        }
    }
}

fn params(block: &Block, draws: &Draws) -> Params {
    Params {
        rows: index(block.rows),
        references: index(block.references),
        width: index(width(block.references)),
        places: index(draws.places),
        ..Params::default()
    }
}
