//! What the integration tests share: both engines, data that is exact in f32, and a comparison that says where it failed.
#![allow(dead_code, reason = "each test binary uses its part")]

use nearfar::kernels::stored::{Precision, StoredRows};
use nearfar::{
    DeviceVec, Engine, EngineChoice, EngineKind, MemoryPlan, Purpose, RowSource, Rows, TileShape,
    reference,
};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
pub(crate) use rand_pcg::Pcg64Mcg as Rng;

/// Both engines, a GPU with all of wgpu's checks: a kernel is right when it is right on each. No adapter is a failure, never a skip.
pub(crate) fn engines() -> [Engine; 2] {
    [EngineKind::Gpu, EngineKind::Cpu].map(|kind| open(kind, 256 << 20))
}

/// Opens an engine or says what is missing.
pub(crate) fn open(kind: EngineKind, budget_bytes: u64) -> Engine {
    let choice = EngineChoice {
        kind: Some(kind),
        guards_loops: true,
        ..EngineChoice::default()
    };
    opened(&choice, budget_bytes)
}

/// Opens a GPU that cuts all of its work in this shape, or says what is missing.
pub(crate) fn gpu_in(shape: TileShape, budget_bytes: u64) -> Engine {
    let choice = EngineChoice {
        kind: Some(EngineKind::Gpu),
        shape: Some(shape),
        ..EngineChoice::default()
    };
    opened(&choice, budget_bytes)
}

fn opened(choice: &EngineChoice, budget_bytes: u64) -> Engine {
    pollster::block_on(Engine::open(choice, budget_bytes))
        .unwrap_or_else(|error| panic!("{error} (`make test` installs what is missing)"))
}

/// A vector on the engine with the given elements, and `spare` poisoned ones after them.
pub(crate) fn vector<T: bytemuck::Pod>(
    engine: &Engine,
    elements: &[T],
    spare: usize,
) -> DeviceVec<T> {
    let plan = MemoryPlan::default().with::<T>(
        Purpose::Activations,
        "vector",
        (elements.len() + spare) as u64,
    );
    pollster::block_on(async {
        let workspace = engine
            .workspace("test", &plan, "make the test smaller")
            .await;
        let mut vector = workspace.expect("fits").take::<T>("vector");
        let bytes = vector.len() as usize * size_of::<T>();
        let poison: Vec<T> = vec![0xa5u8; bytes]
            .chunks_exact(size_of::<T>())
            .map(bytemuck::pod_read_unaligned)
            .collect();
        engine
            .upload(&mut vector, 0, &poison)
            .await
            .expect("uploads");
        engine
            .upload(&mut vector, 0, elements)
            .await
            .expect("uploads");
        vector
    })
}

/// Rows on the engine in this precision, rounded by the `half` crate.
pub(crate) fn stored(engine: &Engine, rows: &[f32], precision: Precision) -> StoredRows {
    let half = |value: f32| u32::from(half::f16::from_f32(value).to_bits());
    match precision {
        Precision::F32 => StoredRows::F32(vector(engine, rows, 0)),
        Precision::F16 => {
            let pairs = rows.chunks_exact(2);
            let words: Vec<u32> = pairs.map(|two| half(two[0]) | half(two[1]) << 16).collect();
            StoredRows::F16(vector(engine, &words, 0))
        }
    }
}

/// An output of `count` elements, poisoned: what a kernel leaves out shows.
pub(crate) fn output<T: bytemuck::Pod>(engine: &Engine, count: usize) -> DeviceVec<T> {
    vector(engine, &[], count)
}

/// The first `count` elements.
pub(crate) fn read<T: bytemuck::Pod>(
    engine: &Engine,
    vector: &DeviceVec<T>,
    count: usize,
) -> Vec<T> {
    pollster::block_on(engine.read(vector, 0, count as u64)).expect("reads")
}

pub(crate) fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// Values between -1 and 1, rows of `columns` padded with zeros to whole vec4s.
pub(crate) fn random_rows(rng: &mut Rng, rows: usize, columns: usize) -> Vec<f32> {
    padded_rows(rows, columns, |_| rng.random_range(-1.0..1.0))
}

/// Rows of +-1/8 in 64 dimensions: exactly unit, and every similarity a multiple of 1/32 that f32 holds exactly.
pub(crate) fn exact_unit_rows(rng: &mut Rng, rows: usize) -> Vec<f32> {
    padded_rows(
        rows,
        64,
        |_| if rng.random_bool(0.5) { 0.125 } else { -0.125 },
    )
}

/// Like [`exact_unit_rows`], but flips few signs of one row: many rows are equal, and similarities tie often.
pub(crate) fn tied_unit_rows(rng: &mut Rng, rows: usize) -> Vec<f32> {
    let mut values = vec![0.125; rows * 64];
    for row in values.chunks_mut(64) {
        for _ in 0..rng.random_range(0..6) {
            row[rng.random_range(0..12)] = -0.125;
        }
    }
    values
}

fn padded_rows(rows: usize, columns: usize, mut value: impl FnMut(usize) -> f32) -> Vec<f32> {
    let stride = nearfar::kernels::stride(columns);
    let mut values = vec![0.0; rows * stride];
    for row in values.chunks_mut(stride) {
        for (column, v) in row[..columns].iter_mut().enumerate() {
            *v = value(column);
        }
    }
    values
}

pub(crate) fn labels(rng: &mut Rng, rows: usize, classes: u32) -> Vec<u32> {
    (0..rows).map(|_| rng.next_u32() % classes).collect()
}

pub(crate) fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Fails at the first value that is off by more than `tolerance`, absolute and relative to 1.
#[track_caller]
pub(crate) fn assert_close(what: &str, actual: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}: length");
    for (i, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let off = (f64::from(*actual) - expected).abs();
        assert!(
            off <= tolerance * expected.abs().max(1.0),
            "{what}[{i}]: {actual}, expected {expected}"
        );
    }
}

/// Rows with their labels.
pub(crate) struct Set(RowSource, Vec<String>);

impl Set {
    pub(crate) fn new<T: ToString>(
        rows: &[f64],
        labels: impl Iterator<Item = T>,
        dim: usize,
    ) -> Self {
        let values = rows.iter().map(|value| *value as f32).collect();
        let labels = labels.map(|label| label.to_string()).collect();
        Self(RowSource::Memory { values, dim }, labels)
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows {
            rows: &self.0,
            labels: &self.1,
        }
    }
}

/// The length of a vector.
pub(crate) fn norm(values: &[f64]) -> f64 {
    reference::dot(values, values).sqrt()
}
