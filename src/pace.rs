//! [`Pace`]: how much work makes a slice of about 50 ms, learnt from the slices before.
//!
//! Watchdogs end long submits, and stopping must work: work is cut by predicted time. The pace changes when results
//! come, never what they are.

use web_time::Duration;

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
        let units = TARGET_MS * self.per_ms / operations_per_unit.max(1.0);
        (units as usize).clamp(1, most.max(1))
    }

    /// Takes note of a slice: faster is believed by a factor of two at a time, slower at once.
    pub(crate) fn record(&mut self, operations: f64, elapsed: Duration) {
        let measured = operations / (elapsed.as_secs_f64() * 1e3).max(1e-3);
        self.per_ms = measured.min(2.0 * self.per_ms).max(1.0);
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
