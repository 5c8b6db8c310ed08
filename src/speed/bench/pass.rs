//! One mining pass, its kernels alone: counts, loss and gradient over all triplets of a batch and a memory.

use rand::{RngExt as _, SeedableRng as _};

use super::{Line, Measured, RULE, check};
use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::{DeviceVec, Engine};
use crate::kernels::ranks::{Block, Inputs, Row, SEGMENT, Scratch};
use crate::kernels::triplet_margin::{TERMS, Total, mine, part_stride};
use crate::reference;

/// A batch against a memory.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    batch: usize,
    memory: usize,
    classes: u32,
}

impl Pass {
    /// The default demo.
    pub const SMALL: Self = Self {
        batch: 32,
        memory: 1024,
        classes: 450,
    };
    /// A size at which PML's cube of labels x references x references has 2.7e11 cells.
    pub const LARGE: Self = Self {
        batch: 64,
        memory: 65_536,
        classes: 100,
    };
}

/// Rows of +-1/8: exactly unit, similarities exact in f32, so that the reference must be met exactly.
const DIM: usize = 64;

/// The memory of a step, and its batch: the rows that were stored last.
struct Stored {
    bank: Vec<f32>,
    tags: Vec<[u32; 2]>,
    batch: Vec<Row>,
    /// Number of thresholds of all rows of the batch.
    places: u32,
}

impl Stored {
    fn draw(shape: &Pass) -> Self {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let bank: Vec<f32> = (0..shape.memory * DIM)
            .map(|_| if rng.random() { 0.125 } else { -0.125 })
            .collect();
        let tags: Vec<[u32; 2]> = (0..shape.memory as u32)
            .map(|id| [rng.random_range(0..shape.classes), id])
            .collect();
        let mut places = 0;
        let row = |[label, id]: &[u32; 2]| {
            let positives = tags.iter().filter(|tag| tag[0] == *label).count() as u32 - 1;
            let offset = places;
            places += positives + 1;
            Row {
                label: *label,
                id: *id,
                offset,
                positives,
            }
        };
        let batch = tags[shape.memory - shape.batch..].iter().map(row).collect();
        Self {
            bank,
            tags,
            batch,
            places,
        }
    }
}

fn plan(shape: &Pass, places: u32) -> MemoryPlan {
    let (batch, memory) = (shape.batch as u64, shape.memory as u64);
    let parts = memory.div_ceil(SEGMENT as u64) * batch * part_stride(DIM) as u64;
    MemoryPlan::default()
        .with::<f32>(Purpose::MemoryBank, "mine.bank", memory * DIM as u64)
        .with::<[u32; 2]>(Purpose::MemoryBank, "mine.tags", memory)
        .with::<f32>(Purpose::Activations, "mine.anchors", batch * DIM as u64)
        .with::<Row>(Purpose::Ranks, "mine.rows", batch)
        .with::<[u32; 2]>(Purpose::Ranks, "mine.thresholds", u64::from(places))
        .with::<u32>(Purpose::Ranks, "mine.gap_counts", u64::from(places))
        .with::<f32>(Purpose::Similarities, "mine.parts", parts)
        .with::<f32>(Purpose::Gradients, "mine.gradient", batch * DIM as u64)
        .with::<u32>(Purpose::Staging, "mine.report", TERMS as u64 + batch)
}

/// Compares counts and gradient with the f64 reference; returns the number of triplets.
fn check_against_reference(
    engine: &Engine,
    stored: &Stored,
    words: &[u32],
    gradient: &[f32],
) -> Result<u64> {
    let as_f64 = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
    let first = stored.tags.len() - stored.batch.len();
    let expected = reference::triplet_margin(
        &as_f64(&stored.bank[first * DIM..]),
        &stored.tags[first..],
        &as_f64(&stored.bank),
        &stored.tags,
        DIM,
        &RULE,
    );
    let totals = [Total::Valid, Total::Mined, Total::Active].map(|total| total.read(words));
    let counts = [expected.valid, expected.mined, expected.active];
    check(engine, "a count of triplets", totals == counts)?;
    let active = expected.active as f32;
    let close = |(g, e): (&f32, &f64)| (f64::from(g / active) - e).abs() < 1e-6;
    let all_close = gradient.iter().zip(&expected.anchor_gradient).all(close);
    check(engine, "the gradient", all_close)?;
    Ok(expected.valid)
}

/// Memory of a pass on the device.
struct Buffers {
    bank: DeviceVec<f32>,
    tags: DeviceVec<[u32; 2]>,
    anchors: DeviceVec<f32>,
    rows: DeviceVec<Row>,
    scratch: Scratch,
    parts: DeviceVec<f32>,
    gradient: DeviceVec<f32>,
    words: DeviceVec<u32>,
}

impl Buffers {
    async fn of(engine: &Engine, shape: &Pass, stored: &Stored) -> Result<Self> {
        let plan = plan(shape, stored.places);
        let mut workspace = engine.workspace("mining", &plan, "raise --budget").await?;
        let mut buffers = Self {
            bank: workspace.take("mine.bank"),
            tags: workspace.take("mine.tags"),
            anchors: workspace.take("mine.anchors"),
            rows: workspace.take("mine.rows"),
            scratch: Scratch {
                thresholds: workspace.take("mine.thresholds"),
                gap_counts: workspace.take("mine.gap_counts"),
            },
            parts: workspace.take("mine.parts"),
            gradient: workspace.take("mine.gradient"),
            words: workspace.take("mine.report"),
        };
        let anchors = &stored.bank[(shape.memory - shape.batch) * DIM..];
        engine.upload(&mut buffers.bank, 0, &stored.bank).await?;
        engine.upload(&mut buffers.tags, 0, &stored.tags).await?;
        engine.upload(&mut buffers.anchors, 0, anchors).await?;
        engine.upload(&mut buffers.rows, 0, &stored.batch).await?;
        Ok(buffers)
    }
}

/// Times the pass, and compares its results with the f64 reference.
///
/// # Errors
/// As [`Engine::workspace`]; [`Error::Device`](crate::Error::Device) if a result is wrong.
pub async fn measure(engine: &Engine, shape: &Pass, peak: f64) -> Result<Line> {
    let Pass {
        batch,
        memory,
        classes,
    } = *shape;
    let stored = Stored::draw(shape);
    let mut on = Buffers::of(engine, shape, &stored).await?;
    let inputs = Inputs {
        anchors: &on.anchors,
        references: (&on.bank).into(),
        batch: &on.rows,
        tags: &on.tags,
    };
    let block = Block {
        first_row: 0,
        rows: batch,
        batch: 0,
        first_reference: 0,
        references: memory,
        stride: DIM,
    };
    let positives = stored.batch.iter().map(|row| row.positives as usize).max();
    let positives = positives.unwrap_or(0);
    let measured = Measured::of(engine, async || {
        let mut commands = engine.commands();
        commands.upload(&mut on.words, 0, &vec![0; TERMS + batch]);
        mine(
            &mut commands,
            &block,
            positives,
            &RULE,
            memory,
            inputs,
            &mut on.scratch,
            &mut on.parts,
            &mut on.gradient,
            0,
            None,
            &mut on.words,
        );
        engine.submit(commands);
        engine.settle().await
    })
    .await?;
    let words = engine.read(&on.words, 0, TERMS as u64).await?;
    let gradient = engine.read(&on.gradient, 0, (batch * DIM) as u64).await?;
    let valid = check_against_reference(engine, &stored, &words, &gradient)?;

    // Similarities, and as much again for the gradient of every negative with a weight.
    let operations = 2.0 * (batch * memory * DIM) as f64;
    let name = format!("mine {batch} x {memory} x {DIM}, {classes} classes");
    let per_second = valid as f64 / measured.median_seconds();
    let line = Line {
        rate: format!("{per_second:.2e} triplets/s counted"),
        memory_bytes: engine.ledger().live_bytes(),
        ..Line::new(name, &measured)
    };
    Ok(line.of_arithmetic(operations, peak))
}
