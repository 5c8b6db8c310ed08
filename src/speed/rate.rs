//! [`measure_rate`]: speed of an engine, roughly, for forecasts. Changes no result.

use crate::base::error::{Error, Result};
use crate::base::forecast::Rate;
use crate::data::RowSource;
use crate::engine::Engine;
use crate::search::knn::KnnIndex;

const QUERIES: usize = 128;
const REFERENCES: usize = 4096;
const DIM: usize = 64;

/// Times a small search and the transfer of its rows to the device: some tens of milliseconds, and a few megabytes.
///
/// If even that does not fit the engine's budget, the rate of a slow device is assumed.
///
/// # Errors
/// [`Error::Device`] and [`Error::Stopped`].
pub async fn measure_rate(engine: &Engine) -> Result<Rate> {
    let rows = |count: usize| RowSource::Memory {
        // Any rows will do that are not all the same.
        values: (0..count * DIM)
            .map(|i| (i * 7919 % 1009) as f32 - 504.0)
            .collect(),
        dim: DIM,
    };
    let (references, queries) = (rows(REFERENCES), rows(QUERIES));
    let mut index = match KnnIndex::new(engine, &references, Some(&queries), 10).await {
        Ok(index) => index,
        Err(Error::Refused { .. } | Error::TooLarge { .. }) => return Ok(Rate::default()),
        Err(error) => return Err(error),
    };
    let mut seconds = [0.0; 2];
    for seconds in &mut seconds {
        let clock = engine.clock();
        index.search(Some(&queries), |_, _| {}).await?;
        *seconds = engine.worked(clock).as_secs_f64();
    }
    // The first search also uploads the references.
    let [with_upload, without] = seconds.map(|seconds| 1e3 * seconds.max(1e-6));
    let operations = 2.0 * (QUERIES * REFERENCES * DIM) as f64;
    let bytes = (4 * REFERENCES * DIM) as f64;
    Ok(Rate {
        operations_per_ms: operations / without,
        bytes_per_ms: bytes / (with_upload - without).max(0.1 * without),
    })
}
