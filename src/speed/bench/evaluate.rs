//! Evaluation: every metric of the queries, from labelled rows in memory.

use super::side::Side;
use super::{Line, Measured, Shape, check, rows};
use crate::base::error::Result;
use crate::engine::Engine;
use crate::reference;
use crate::search::evaluation::evaluate;

/// Queries whose metrics are checked against a full sort.
const CHECKED: usize = 50;

/// Times the metrics of random rows of `classes` classes.
pub(super) async fn measure(engine: &Engine, shape: &Shape, classes: usize) -> Result<Line> {
    let side = |stream, count| Side::signs(stream, count, shape.dim, classes);
    let known = side(rows::REFERENCES, shape.references);
    verify(
        engine,
        &side(rows::QUERIES, shape.queries.min(CHECKED)),
        &known,
    )
    .await?;
    let queries = side(rows::QUERIES, shape.queries);
    engine.settle().await?;
    engine.ledger().restart_peak();
    let measured = Measured::of(engine, async || {
        let retrieval =
            evaluate(engine, queries.rows(), Some(known.rows()), &[], |_, _| {}).await?;
        std::hint::black_box(retrieval);
        Ok(())
    })
    .await?;
    let per_second = shape.queries as f64 / measured.median_seconds();
    Ok(Line {
        rate: format!("{per_second:.0} queries/s"),
        ..Line::new(shape.to_string(), &measured)
    })
}

/// Compares some queries with a full sort.
async fn verify(engine: &Engine, queries: &Side, known: &Side) -> Result<()> {
    let actual = evaluate(engine, queries.rows(), Some(known.rows()), &[], |_, _| {}).await?;
    let ranks = reference::ranks(
        &queries.exact(),
        &queries.tags,
        &known.exact(),
        &known.tags,
        known.rows.dim(),
    );
    let scored: Vec<&Vec<u64>> = ranks.iter().filter(|ranks| !ranks.is_empty()).collect();
    let mean = |value: &dyn Fn(&[u64]) -> f64| {
        scored.iter().map(|ranks| value(ranks)).sum::<f64>() / scored.len() as f64
    };
    let first = mean(&|ranks| f64::from(u8::from(ranks[0] == 1)));
    let average = mean(&|ranks| {
        let hits = (1..)
            .zip(ranks)
            .map(|(hit, rank)| f64::from(hit) / *rank as f64);
        hits.sum::<f64>() / ranks.len() as f64
    });
    let metrics = &actual.metrics;
    check(engine, "precision@1", metrics.precision_at_1 == first)?;
    let off = (metrics.mean_average_precision - average).abs();
    check(engine, "MAP", off < 1e-12)
}
