//! Neighbours of each of many rows, most of them right, for a layout; and how a layout goes by them.

use super::knn::Neighbors;
use crate::base::error::Result;
use crate::base::rng;
use crate::cpu::near::Near;
pub(crate) use crate::cpu::{layout, parallel};
use crate::engine::Engine;
use crate::model::embeddings::Embeddings;
use rand::RngExt as _;

/// Most rows of which every two are compared to find the nearest, as in umap-learn.
pub(crate) const EXACT: usize = 4096;

/// Finds most of the `k` nearest rows of each of these unit rows; `heard` receives the rows done, and all.
///
/// # Errors
/// [`crate::Error::Stopped`] between the steps.
pub(crate) async fn near(
    engine: &Engine,
    rows: Embeddings,
    k: usize,
    seed: u64,
    heard: impl Fn(u64, u64),
) -> Result<Neighbors> {
    let Embeddings { values, dim } = rows;
    let count = (values.len() / dim) as u64;
    let mut near = Near::new(values, dim, k, rng::stream(seed, "near").random());
    loop {
        engine.breathe().await?;
        let done = near.advance();
        heard(done * count / Near::STEPS, count);
        if done == Near::STEPS {
            let (ids, similarities) = near.into_lists();
            return Ok(Neighbors {
                k,
                ids,
                similarities,
            });
        }
    }
}
