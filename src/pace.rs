//! [`Pace`]: how much work makes a slice of about 50 ms, learnt from the slices before.
//!
//! Watchdogs end long submits, and stopping must work: work is cut by predicted time. The pace changes when results
//! come, never what they are.

use web_time::{Duration, Instant};

use crate::engine::{Commands, Engine};
use crate::error::Result;

/// What a slice of work may take.
const TARGET_MS: f64 = 50.0;
/// Where guessing starts: a slow software adapter.
const FIRST_PER_MS: f64 = 5e5;

/// Floating-point operations per millisecond, as measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_ms: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            per_ms: FIRST_PER_MS,
        }
    }
}

impl Pace {
    /// How many units of work make a slice: at least one, at most `most`.
    pub(crate) fn units(&self, operations_per_unit: f64, most: usize) -> usize {
        let units = self.slice() / operations_per_unit.max(1.0);
        (units as usize).clamp(1, most.max(1))
    }

    /// Floating-point operations of a slice.
    pub(crate) fn slice(&self) -> f64 {
        TARGET_MS * self.per_ms
    }

    /// Cuts pairs of rows and references: how many of each at once.
    pub(crate) fn pairs(&self, operations: f64, rows: usize, references: usize) -> (usize, usize) {
        const FEWEST_ROWS: usize = 8;
        const FEWEST_REFERENCES: usize = 1024;
        let most = rows.saturating_mul(references);
        let pairs = self.units(operations, most);
        if pairs >= rows.saturating_mul(FEWEST_REFERENCES) {
            return (rows, (pairs / rows).min(references).max(1));
        }
        let rows_at_once = (pairs / FEWEST_REFERENCES / FEWEST_ROWS * FEWEST_ROWS).max(FEWEST_ROWS);
        (rows_at_once.min(rows), FEWEST_REFERENCES.min(references))
    }

    /// Takes note of a slice: faster is believed by a factor of two at a time, slower at once.
    pub(crate) fn record(&mut self, operations: f64, elapsed: Duration) {
        let measured = operations / (elapsed.as_secs_f64() * 1e3).max(1e-3);
        self.per_ms = measured.min(2.0 * self.per_ms).max(1.0);
    }
}

/// Dispatches after which a slice ends in any case.
const MOST_DISPATCHES: u32 = 400;

/// Work on its way to an engine, a slice at a time.
pub(crate) struct Slices<'a> {
    engine: &'a Engine,
    pace: &'a mut Pace,
    commands: Option<Commands>,
    operations: f64,
    started: Instant,
}

impl<'a> Slices<'a> {
    pub(crate) fn new(engine: &'a Engine, pace: &'a mut Pace) -> Self {
        Self {
            engine,
            pace,
            commands: None,
            operations: 0.0,
            started: Instant::now(),
        }
    }

    /// The pace, to cut work by.
    pub(crate) fn pace(&self) -> &Pace {
        self.pace
    }

    /// The commands of the slice.
    pub(crate) fn commands(&mut self) -> &mut Commands {
        self.commands.get_or_insert_with(|| {
            self.started = Instant::now();
            self.engine.commands()
        })
    }

    /// Notes work that was recorded; a slice that is full runs, and everybody else has their turn.
    ///
    /// # Errors
    /// As [`Engine::settle`] and [`Engine::breathe`].
    pub(crate) async fn recorded(&mut self, operations: f64) -> Result<()> {
        self.operations += operations;
        let full = self.operations >= self.pace.slice()
            || self
                .commands
                .as_ref()
                .is_some_and(|commands| commands.dispatches() >= MOST_DISPATCHES);
        if full {
            self.submit();
            self.engine.settle().await?;
            self.pace.record(self.operations, self.started.elapsed());
            self.operations = 0.0;
            self.engine.breathe().await?;
        }
        Ok(())
    }

    /// Sends what was recorded, so that what follows outside comes after it.
    pub(crate) fn submit(&mut self) {
        if let Some(commands) = self.commands.take() {
            self.engine.submit(commands);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_by_two_at_most_and_shrink_at_once() {
        let mut pace = Pace::default();
        assert_eq!(pace.units(5e5, 1000), 50);
        pace.record(1e12, Duration::from_millis(1));
        assert_eq!(pace.units(5e5, 1000), 100);
        pace.record(5e5, Duration::from_millis(10));
        assert_eq!(pace.units(5e5, 1000), 5);
        assert_eq!(pace.units(1e30, 1000), 1);
        assert_eq!(pace.units(1.0, 1000), 1000);
    }
}
