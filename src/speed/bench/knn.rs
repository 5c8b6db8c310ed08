//! Exact nearest neighbours: one search of all queries; the references stay on the device if its budget holds them.

use super::report::Found;
use super::{Line, Measured, Shape, check, rows};
use crate::base::error::Result;
use crate::data::RowSource;
use crate::engine::Engine;
use crate::reference;
use crate::search::knn::{KnnIndex, Neighbors};

/// Queries whose neighbours are checked against a full sort.
const CHECKED: usize = 5;
/// Difference of similarities that f32 cannot resolve near 1.
const TOLERANCE: f64 = 5e-7;

/// Times a search of random rows, and keeps the neighbours of the first `answers` queries.
pub(super) async fn measure(
    engine: &Engine,
    shape: &Shape,
    k: usize,
    answers: usize,
) -> Result<Line> {
    let rows = |stream, count| RowSource::Memory {
        values: rows::uniform(stream, count, shape.dim),
        dim: shape.dim,
    };
    let known = rows(rows::REFERENCES, shape.references);
    let asking = rows(rows::QUERIES, shape.queries);
    let mut index = KnnIndex::new(engine, &known, Some(&asking), k).await?;
    let found = index.search(Some(&asking), |_, _| {}).await?;
    check(engine, "knn", is_right(&found, &known, &asking))?;
    // The search that was checked has warmed up.
    let measured = Measured::warm(engine, async || {
        let found = index.search(Some(&asking), |_, _| {}).await?;
        std::hint::black_box(found);
        Ok(())
    })
    .await?;
    let kept = answers.min(shape.queries) * k;
    Ok(Line {
        found: (kept > 0).then(|| Found {
            ids: found.ids[..kept].to_vec(),
            similarities: found.similarities[..kept].to_vec(),
        }),
        ..Line::new(shape.to_string(), &measured)
    })
}

/// Compares some queries with a full sort: no reference twice, similarities in order, and each that of its reference.
fn is_right(found: &Neighbors, known: &RowSource, asking: &RowSource) -> bool {
    let rows = |rows: &'_ RowSource| -> Vec<f32> {
        rows.in_memory().map(<[f32]>::to_vec).unwrap_or_default()
    };
    let (dim, k) = (known.dim(), found.k);
    let (known, asking) = (rows(known), rows(asking));
    let queries = asking.len() / dim;
    let step = queries.div_ceil(CHECKED);
    (0..queries).step_by(step).all(|query| {
        let own = unit(&asking[query * dim..][..dim]);
        let similarity = |row| reference::dot(&own, &unit(row));
        let similarities: Vec<f64> = known.chunks(dim).map(similarity).collect();
        let mut expected = similarities.clone();
        expected.sort_by(|s, other| other.total_cmp(s));
        let ids = &found.ids[query * k..][..k];
        let mut once = ids.to_vec();
        once.sort_unstable();
        once.dedup();
        let near = |place: usize| {
            let said = f64::from(found.similarities[query * k + place]);
            let own = similarities[ids[place] as usize];
            (said - expected[place]).abs() < TOLERANCE && (own - expected[place]).abs() < TOLERANCE
        };
        once.len() == k && (0..k).all(near)
    })
}

/// A row over its length.
fn unit(row: &[f32]) -> Vec<f64> {
    let row: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
    reference::normalize(&row, row.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comparison_rejects_neighbours_that_are_swapped_repeated_or_left_out() {
        let (dim, k, queries) = (16, 4, 10);
        let source = |stream, count| RowSource::Memory {
            values: rows::uniform(stream, count, dim),
            dim,
        };
        let (known, asking) = (source(rows::REFERENCES, 50), source(rows::QUERIES, queries));
        let units = |rows: &RowSource| {
            let rows = rows.in_memory().expect("in memory").chunks(dim);
            rows.flat_map(unit).collect::<Vec<f64>>()
        };
        let none = vec![u32::MAX; queries];
        let nearest = reference::neighbours(&units(&asking), &none, &units(&known), dim, k + 1);
        let right = Neighbors {
            k,
            ids: nearest
                .iter()
                .flat_map(|n| n[..k].iter().map(|n| n.0))
                .collect(),
            similarities: nearest
                .iter()
                .flat_map(|n| n[..k].iter().map(|n| n.1 as f32))
                .collect(),
        };
        assert!(is_right(&right, &known, &asking));
        let wrong = |fault: &dyn Fn(&mut Neighbors)| {
            let mut wrong = right.clone();
            fault(&mut wrong);
            !is_right(&wrong, &known, &asking)
        };
        // The second query that is looked at.
        let first = 2 * k;
        assert!(wrong(&|n| n.ids.swap(first, first + 1)));
        assert!(wrong(&|n| n.ids[first + 1] = n.ids[first]));
        assert!(wrong(&|n| n.ids[first + k - 1] = nearest[2][k].0));
        assert!(wrong(&|n| n.similarities[first] += 1e-6));
    }
}
