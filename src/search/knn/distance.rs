//! Distances of the neighbours that a search by [`Metric::L2`](crate::Metric::L2) found.

use super::Neighbors;
use crate::base::error::Result;
use crate::base::order;
use crate::data::RowSource;

/// Writes minus the distance of every neighbour in place of the value that it was found by, from the rows themselves in f64: a row has
/// distance 0 to its copy. Neighbours of one query are put in the order of their distances, then of their ids.
pub(super) async fn measure(
    queries: &RowSource,
    references: &RowSource,
    found: &mut Neighbors,
) -> Result<()> {
    let dim = references.dim();
    let (mut query, mut near) = (Vec::new(), Vec::new());
    let k = found.k;
    let all = found
        .ids
        .chunks_exact_mut(k)
        .zip(found.similarities.chunks_exact_mut(k));
    for (number, (ids, values)) in (0..).zip(all) {
        query.clear();
        near.clear();
        queries.read(&[number], &mut query).await?;
        references.read(ids, &mut near).await?;
        let mut measured: Vec<(f64, u32)> = near
            .chunks_exact(dim)
            .map(|row| {
                let differences = row.iter().zip(&query);
                differences
                    .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
                    .sum::<f64>()
            })
            .zip(ids.iter().copied())
            .collect();
        order::sort_by(&mut measured, |a, b| {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        });
        for ((id, value), (square, own)) in ids.iter_mut().zip(&mut *values).zip(measured) {
            (*id, *value) = (own, -(square.sqrt() as f32));
        }
    }
    Ok(())
}
