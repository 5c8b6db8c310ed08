//! [`Times`]: how long some work takes, again and again.

use web_time::{Duration, Instant};

use crate::error::Result;

/// Times of several repetitions.
#[derive(Clone, Debug)]
pub struct Times {
    ascending: Vec<Duration>,
    runs: u64,
}

impl Times {
    /// Repeats the work, once to warm up, then as [`Times::warm`].
    ///
    /// # Errors
    /// What the work fails with.
    pub async fn of(mut work: impl AsyncFnMut() -> Result<()>) -> Result<Self> {
        work().await?;
        let mut times = Self::warm(work).await?;
        times.runs += 1;
        Ok(times)
    }

    /// Repeats work that has been done before, until a second or fifty repetitions have passed, five at least; of work
    /// that takes seconds two will do, and of work that takes a minute one.
    ///
    /// # Errors
    /// What the work fails with.
    pub async fn warm(mut work: impl AsyncFnMut() -> Result<()>) -> Result<Self> {
        let mut times = Vec::new();
        let started = Instant::now();
        let least = |elapsed: Duration| match elapsed.as_secs() {
            0..10 => 5,
            10..60 => 2,
            _ => 1,
        };
        while times.len() < least(started.elapsed())
            || (times.len() < 50 && started.elapsed() < Duration::from_secs(1))
        {
            let began = Instant::now();
            work().await?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(Self {
            runs: times.len() as u64,
            ascending: times,
        })
    }

    /// How often the work was timed.
    pub fn count(&self) -> usize {
        self.ascending.len()
    }

    /// How often the work was done, warming up included.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The time in the middle.
    pub fn median_seconds(&self) -> f64 {
        self.ms(0.5) / 1e3
    }

    /// What so large a part took at most, in milliseconds.
    pub(super) fn ms(&self, part: f64) -> f64 {
        let at = ((self.ascending.len() - 1) as f64 * part).round() as usize;
        self.ascending[at].as_secs_f64() * 1e3
    }
}
