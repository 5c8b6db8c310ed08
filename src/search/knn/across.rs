//! [`search_across`]: the nearest references of other groups than the query's own. Runs one search a group, among the references
//! that are not in it: the device needs no more memory than for a search.

use super::{KnnIndex, Neighbors};
use crate::base::error::{Error, Result};
use crate::base::memory::zeros;
use crate::base::order;
use crate::base::quote::quoted;
use crate::data::RowSource;
use crate::data::groups;
use crate::engine::Engine;

/// Finds the exact `k` nearest references of every query that are of another group, such as a donor or a camera: nearest first,
/// then by number. `queries` and `references` are rows with a group each; without references the queries search each other.
///
/// The references of a search are copied: beside the budget the host holds all rows once more. `progress` receives the number of
/// queries done and the number of all.
///
/// # Errors
/// [`Error::Config`] if a group leaves fewer than `k` references; [`Error::Data`] if a row has no group; as [`KnnIndex::new`] and
/// [`KnnIndex::search`].
pub async fn search_across(
    engine: &Engine,
    queries: (&RowSource, &[String]),
    references: Option<(&RowSource, &[String])>,
    k: usize,
    mut progress: impl FnMut(u64, u64),
) -> Result<Neighbors> {
    let known = references.unwrap_or(queries);
    for (rows, groups) in [queries, known] {
        groups::check(rows.rows(), groups)?;
    }
    let all = queries.0.rows();
    let mut found = Neighbors {
        k,
        ids: zeros(all as u64 * k as u64, "the result")?,
        similarities: zeros(all as u64 * k as u64, "the result")?,
    };
    let mut groups: Vec<&String> = queries.1.iter().collect();
    order::sort_by(&mut groups, |a, b| a.cmp(b));
    groups.dedup();
    let mut done = 0;
    for group in groups {
        let own = |groups: &[String], is_own: bool| -> Vec<u32> {
            let places = (0..).zip(groups);
            let chosen = places.filter(|(_, other)| (*other == group) == is_own);
            chosen.map(|(place, _)| place).collect()
        };
        let (asking, others) = (own(queries.1, true), own(known.1, false));
        if k == 0 || k > others.len() {
            return Err(Error::Config(format!(
                "k is {k}: outside of the group {} there are {1} references, so 1 to {1} can be asked for",
                quoted(group),
                others.len()
            )));
        }
        let rows = [
            taken(queries.0, &asking).await?,
            taken(known.0, &others).await?,
        ];
        let [asked, searched] = &rows;
        let mut index = KnnIndex::new(engine, searched, Some(asked), k).await?;
        let part = index.search(Some(asked), |part, _| progress(done + part, all as u64));
        let part = part.await?;
        for (place, query) in asking.iter().enumerate() {
            let (from, to) = (place * k, *query as usize * k);
            for at in 0..k {
                found.ids[to + at] = others[part.ids[from + at] as usize];
                found.similarities[to + at] = part.similarities[from + at];
            }
        }
        done += asking.len() as u64;
    }
    Ok(found)
}

/// Copy of the rows with these numbers.
async fn taken(rows: &RowSource, numbers: &[u32]) -> Result<RowSource> {
    let mut values = Vec::new();
    rows.read(numbers, &mut values).await?;
    Ok(RowSource::Memory {
        values,
        dim: rows.dim(),
    })
}
