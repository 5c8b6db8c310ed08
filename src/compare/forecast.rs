//! [`CompareForecast`]: runs, steps, time and memory of a comparison, before anything is computed.

use serde::{Deserialize, Serialize};

use super::contest::{Contest, Entry, of_entry};
use super::rungs::{self, Rung};
use super::{at_random, with_steps};
use crate::base::error::Result;
use crate::base::forecast::Rate;
use crate::base::order;
use crate::base::plan::Room;
use crate::data::Dataset;
use crate::rules::config::TrainConfig;
use crate::train::trainer::{Part, Trainer};

/// Forecast of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareForecast {
    /// Number of runs, those of the rungs included; an upper bound in a race.
    pub runs: u64,
    /// Steps of all runs; an upper bound if entries are halved and differ in steps, and in a race.
    pub steps: u64,
    /// Predicted time, in milliseconds; an upper bound if entries are halved, and in a race.
    pub predicted_ms: f64,
    /// Predicted time of a race that is decided by its first fold, in milliseconds; without folds that of the whole.
    pub least_ms: f64,
    /// Device memory of the largest entry, in bytes: they run one after the other.
    pub peak_bytes: u64,
    /// Name of the largest entry.
    pub largest: String,
}

impl Contest {
    /// Forecasts the comparison: a pure function; the rate of [`Trainer::measure_rate`] suits it best.
    ///
    /// # Errors
    /// [`crate::Error::Config`] with the name of an entry that does not fit the room, or does not suit the data.
    pub fn plan(&self, room: &Room, dataset: &Dataset, rate: &Rate) -> Result<CompareForecast> {
        // Folds are of equal size: one tells the cost of each.
        let folds = self.fold_sides(dataset)?;
        let (sides, times) = (folds.first(), folds.len().max(1));
        let plan = |config: &TrainConfig, part| {
            let sides = sides.filter(|_| part != Part::Test);
            Trainer::plan_part(room, dataset, config, rate, part, sides)
        };
        let base = at_random(&self.base);
        let baselines = plan(&base, Part::Baselines)?;
        let (mut peak_bytes, mut largest) = (baselines.memory.total_bytes(), "raw features");
        let mut tested_ms = plan(&base, Part::Test)?.predicted_ms;
        // Cost of each entry, by rung.
        let mut costs = vec![Vec::new(); self.rungs.len()];
        for Entry { name, config } in &self.entries {
            for (rung, costs) in self.rungs.iter().zip(&mut costs) {
                let steps = rungs::steps(config.steps, rung.share);
                let config = with_steps(config, steps);
                let run = plan(&config, Part::Training).map_err(of_entry(name))?;
                costs.push((run.predicted_ms, steps));
                if run.memory.total_bytes() > peak_bytes {
                    (peak_bytes, largest) = (run.memory.total_bytes(), name);
                }
            }
            tested_ms = tested_ms.max(plan(config, Part::Test)?.predicted_ms);
        }
        let mut forecast = CompareForecast {
            runs: 0,
            steps: 0,
            predicted_ms: times as f64 * baselines.predicted_ms + tested_ms,
            least_ms: baselines.predicted_ms + tested_ms,
            peak_bytes,
            largest: largest.to_owned(),
        };
        for (at, (rung, mut costs)) in self.rungs.iter().zip(costs).enumerate() {
            let Rung { entries, seeds, .. } = *rung;
            let is_last = at + 1 == self.rungs.len();
            let passes = seeds * if is_last { times } else { 1 };
            // The entries that will go on are unknown: the slowest are assumed.
            order::sort_by(&mut costs, |a, b| b.0.total_cmp(&a.0));
            costs.truncate(entries);
            let pass_ms: f64 = costs.iter().map(|(ms, _)| ms).sum();
            let mut tested_ms = 0.0;
            if is_last && !folds.is_empty() {
                // The best trains once more, to be tested.
                tested_ms = costs.iter().map(|(ms, _)| *ms).fold(0.0, f64::max);
            }
            forecast.predicted_ms += passes as f64 * pass_ms + tested_ms;
            forecast.least_ms += seeds as f64 * pass_ms + tested_ms;
            order::sort_by_key(&mut costs, |(_, steps)| std::cmp::Reverse(*steps));
            forecast.steps += passes as u64 * costs.iter().map(|(_, steps)| steps).sum::<u64>();
            forecast.runs += (passes * entries) as u64;
        }
        if let Some(search) = &self.search {
            forecast.predicted_ms = forecast.predicted_ms.min(search.limit_ms);
        }
        Ok(forecast)
    }
}
