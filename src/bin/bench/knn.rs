//! Exact nearest neighbours: one search of all queries.

use nearfar::{Engine, KnnIndex, KnnSpec, Neighbors, Rate, Result, RowSource, reference};
use rand::{RngExt as _, SeedableRng as _};

use crate::peaks::Peaks;
use crate::report::{Report, Times, check};

/// The sizes of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) queries: usize,
    pub(crate) references: usize,
    pub(crate) dim: usize,
    pub(crate) k: usize,
}

pub(crate) const SMALL: Shape = Shape {
    queries: 1000,
    references: 10_000,
    dim: 64,
    k: 10,
};

pub(crate) const LARGE: Shape = Shape {
    queries: 1000,
    references: 100_000,
    dim: 128,
    k: 10,
};

/// Queries whose neighbours the reference sorts out of all.
const CHECKED: usize = 5;
/// What f32 cannot tell apart near 1.
const TOLERANCE: f64 = 5e-7;

pub(crate) async fn measure(
    engine: &Engine,
    shape: &Shape,
    peaks: &Peaks,
    report: &mut Report,
) -> Result<()> {
    let Shape {
        queries,
        references,
        dim,
        k,
    } = *shape;
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(4);
    let mut rows = |count: usize| RowSource::Memory {
        values: (0..count * dim)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect(),
        dim,
    };
    let (known, asking) = (rows(references), rows(queries));
    let spec = KnnSpec {
        queries,
        references,
        dim,
        k,
        own: false,
    };
    let forecast = spec.plan(&engine.room(), &Rate::default())?;
    let mut index = KnnIndex::new(engine, &known, Some(&asking), k).await?;
    let found = index.search(Some(&asking), |_, _| {}).await?;
    verify(&found, &known, &asking, shape);
    let before = engine.submits();
    let times = Times::of(async || {
        let found = index.search(Some(&asking), |_, _| {}).await?;
        std::hint::black_box(found);
        Ok(())
    })
    .await?;
    let submits = (engine.submits() - before) / (times.count() as u64 + 1);
    let seconds = times.median_seconds();
    let operations = 2.0 * (queries * references * dim) as f64;
    let resident = if forecast.resident {
        (references * nearfar::kernels::stride(dim) * 4) as u64
    } else {
        0
    };
    let scratch = forecast.memory.total_bytes() - resident;
    let rate = format!(
        "{:.1} GFLOP/s, {} of scratch, {submits} submits",
        operations / seconds / 1e9,
        nearfar::Bytes(scratch)
    );
    let name = format!("knn {queries} x {references} x {dim}, k {k}");
    let share = operations / seconds / peaks.arithmetic;
    report.add(times.line(name, rate, Some(share), engine.ledger().peak_bytes()));
    Ok(())
}

/// Compares some queries with a full sort: similarities in order, and each that of the reference it names.
fn verify(found: &Neighbors, known: &RowSource, asking: &RowSource, shape: &Shape) {
    let unit = |rows: &RowSource, count: usize| {
        let values = rows.in_memory().unwrap_or_default();
        let some: Vec<f64> = values[..count * shape.dim]
            .iter()
            .map(|value| f64::from(*value))
            .collect();
        reference::normalize(&some, shape.dim)
    };
    let (known, asking) = (unit(known, shape.references), unit(asking, CHECKED));
    let none = [u32::MAX; CHECKED];
    let expected = reference::neighbours(&asking, &none, &known, shape.dim, shape.k);
    for (query, expected) in expected.iter().enumerate() {
        let row = &asking[query * shape.dim..][..shape.dim];
        for (place, (_, s)) in expected.iter().enumerate() {
            let at = query * shape.k + place;
            let id = found.ids[at] as usize;
            let own = reference::dot(row, &known[id * shape.dim..][..shape.dim]);
            let similarity = f64::from(found.similarities[at]);
            check(
                "knn",
                (similarity - s).abs() < TOLERANCE && (own - s).abs() < TOLERANCE,
            );
        }
    }
}
