//! Evaluation: every metric of a thousand queries.

use nearfar::{Engine, Result, RowSource, Rows, evaluate, reference};
use rand::{RngExt as _, SeedableRng as _};

use crate::peaks::Peaks;
use crate::report::{Report, Times, check};

const QUERIES: usize = 1000;
const DIM: usize = 64;
/// Queries whose ranks the reference sorts in full.
const CHECKED: usize = 50;

struct Labelled {
    values: Vec<f32>,
    labels: Vec<String>,
}

impl Labelled {
    fn source(&self) -> RowSource {
        RowSource::Memory {
            values: self.values.clone(),
            dim: DIM,
        }
    }
}

pub(crate) async fn measure(
    engine: &Engine,
    references: usize,
    peaks: &Peaks,
    report: &mut Report,
) -> Result<()> {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(2);
    let mut rows = |count: usize| Labelled {
        values: (0..count * DIM)
            .map(|_| if rng.random() { 0.125 } else { -0.125 })
            .collect(),
        labels: (0..count)
            .map(|_| rng.random_range(0..100u32).to_string())
            .collect(),
    };
    let (known, queries) = (rows(references), rows(QUERIES));
    verify(engine, &queries, &known).await?;
    let (known_rows, query_rows) = (known.source(), queries.source());
    let known = Rows {
        rows: &known_rows,
        labels: &known.labels,
    };
    let queries = Rows {
        rows: &query_rows,
        labels: &queries.labels,
    };
    let once = async || evaluate(engine, queries, Some(known), &[], |_, _| {}).await;
    let times = Times::of(async || once().await.map(drop)).await?;
    let operations = 2.0 * (QUERIES * references * DIM) as f64;
    let seconds = times.median_seconds();
    let name = format!("evaluate {QUERIES} queries x {references} x {DIM}");
    let rate = format!(
        "{:.0} queries/s, {:.1} GFLOP/s of similarities",
        QUERIES as f64 / seconds,
        operations / seconds / 1e9
    );
    let share = operations / seconds / peaks.arithmetic;
    report.add(times.line(name, rate, Some(share), engine.ledger().peak_bytes()));
    Ok(())
}

/// Compares some queries with a full sort.
async fn verify(engine: &Engine, queries: &Labelled, known: &Labelled) -> Result<()> {
    let some = Labelled {
        values: queries.values[..CHECKED * DIM].to_vec(),
        labels: queries.labels[..CHECKED].to_vec(),
    };
    let (known_rows, some_rows) = (known.source(), some.source());
    let asked = Rows {
        rows: &some_rows,
        labels: &some.labels,
    };
    let searched = Rows {
        rows: &known_rows,
        labels: &known.labels,
    };
    let metrics = evaluate(engine, asked, Some(searched), &[], |_, _| {})
        .await?
        .metrics;
    let as_f64 = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
    let tags = |labels: &[String], first: u32| -> Vec<[u32; 2]> {
        labels
            .iter()
            .zip(first..)
            .map(|(label, id)| [label.parse().unwrap_or(0), id])
            .collect()
    };
    let ranks = reference::ranks(
        &as_f64(&some.values),
        &tags(&some.labels, 1 << 30),
        &as_f64(&known.values),
        &tags(&known.labels, 0),
        DIM,
    );
    let first: f64 = ranks
        .iter()
        .map(|ranks| f64::from(u8::from(ranks[0] == 1)))
        .sum();
    let average = |ranks: &Vec<u64>| {
        let hits = (1..)
            .zip(ranks)
            .map(|(hit, rank)| f64::from(hit) / *rank as f64);
        hits.sum::<f64>() / ranks.len() as f64
    };
    let average: f64 = ranks.iter().map(average).sum();
    let queries = ranks.len() as f64;
    check("precision@1", metrics.precision_at_1 == first / queries);
    check(
        "MAP",
        (metrics.mean_average_precision - average / queries).abs() < 1e-12,
    );
    Ok(())
}
