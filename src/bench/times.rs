//! [`Times`]: how long some work takes, again and again.

use web_time::{Duration, Instant};

use crate::error::Result;

/// A repetition lasts at least so long: a browser's clock ticks each 0.1 ms.
const SHORTEST: Duration = Duration::from_millis(2);
/// How often the work is done in a repetition at most.
const MOST: u32 = 1 << 20;

/// Times of several repetitions. Of work that is too short for the clock each is the mean of several times.
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
        let (mut each, mut runs) = (1, 0);
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
            for _ in 0..each {
                work().await?;
            }
            let took = began.elapsed();
            runs += u64::from(each);
            if took < SHORTEST && each < MOST {
                each *= 2;
            } else {
                times.push(took / each);
            }
        }
        times.sort_unstable();
        Ok(Self {
            runs,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shorter_than_the_clock_ticks_is_repeated_until_it_is_not() {
        let mut done = 0;
        let times = pollster::block_on(Times::warm(async || {
            done += 1;
            Ok(())
        }))
        .expect("nothing fails");
        assert_eq!(times.runs(), done);
        assert!(
            done > 50 * times.count() as u64,
            "{done} of {}",
            times.count()
        );
    }
}
