//! [`Times`]: times of work over many repetitions.

use web_time::{Duration, Instant};

use crate::base::error::Result;

/// Shortest time of a repetition: a browser's clock ticks each 0.1 ms.
pub(super) const SHORTEST: Duration = Duration::from_millis(2);
/// The most times that the work is done in a repetition.
const MOST: u32 = 1 << 20;

/// Times of several repetitions. If the work is too short for the clock, each is the mean of several runs.
#[derive(Clone, Debug)]
pub(super) struct Times {
    ascending: Vec<Duration>,
    each: u32,
    runs: u64,
}

impl Times {
    /// Repeats work that has been done before until a second or fifty repetitions have passed, five at least; once ten seconds have
    /// passed two are enough, and once a minute has passed one is.
    ///
    /// The argument of `work` is the number of runs: so many that a repetition takes `shortest` or more.
    ///
    /// # Errors
    /// Those of the work.
    pub(super) async fn of(
        shortest: Duration,
        mut work: impl AsyncFnMut(u32) -> Result<()>,
    ) -> Result<Self> {
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
            work(each).await?;
            let took = began.elapsed();
            runs += u64::from(each);
            if took < shortest && each < MOST {
                each *= 2;
                // The median is that of repetitions of one length.
                times.clear();
            } else {
                times.push(took / each);
            }
        }
        times.sort_unstable();
        Ok(Self {
            each,
            runs,
            ascending: times,
        })
    }

    /// Number of repetitions that were timed.
    pub(super) fn count(&self) -> usize {
        self.ascending.len()
    }

    /// Number of runs in a repetition.
    pub(super) fn each(&self) -> u32 {
        self.each
    }

    /// Number of runs in all.
    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    /// The time that the fraction `part` of the repetitions took at most, in milliseconds.
    pub(super) fn ms(&self, part: f64) -> f64 {
        let at = ((self.ascending.len() - 1) as f64 * part).round() as usize;
        self.ascending[at].as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_more_often_until_a_repetition_is_long_enough() {
        for shortest_ms in [2, 20] {
            let shortest = Duration::from_millis(shortest_ms);
            let (mut done, mut last) = (0, Duration::ZERO);
            let times = pollster::block_on(Times::of(shortest, async |times| {
                let began = Instant::now();
                done += u64::from(times);
                std::thread::sleep(times * Duration::from_micros(100));
                last = began.elapsed();
                Ok(())
            }))
            .expect("nothing fails");
            assert_eq!(times.runs(), done);
            assert!(last >= shortest, "{last:?}");
            // A sleep is never shorter than it was asked to be.
            let each = u64::from(times.each());
            assert!(each > 1 && each <= 10 * shortest_ms * 2, "{each}");
            assert!(times.ms(0.0) >= 0.1, "{} ms", times.ms(0.0));
        }
    }
}
