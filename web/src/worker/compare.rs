//! A comparison: planned, started, advanced run by run.

use nearfar::{CompareConfig, CompareProgress, Comparison, Contest, Error, Result};
use web_time::Instant;

use super::Core;
use super::progress::SAY_EVERY;
use crate::protocol::{CompareState, Event, decided};

/// A comparison, and its progress as the page knows it.
pub(super) struct Comparing {
    comparison: Comparison,
    /// Forecast for the whole comparison, in milliseconds.
    predicted_ms: f64,
    /// Time of the last message on its progress.
    said: Instant,
}

impl Comparing {
    fn state(&self) -> CompareState {
        let (runs, steps) = (self.comparison.runs(), self.comparison.steps());
        let done = steps[0] as f64 / steps[1].max(1) as f64;
        // The more is done, the more the measured time counts beside the forecast.
        let measured_ms = self.comparison.elapsed_ms() / done.max(1e-9);
        let whole_ms = (1.0 - done) * self.predicted_ms + done * measured_ms;
        CompareState {
            runs,
            steps,
            left_ms: (1.0 - done) * whole_ms,
        }
    }

    fn report(&self, over: bool) -> Event {
        let report = Box::new(self.comparison.report());
        Event::Compared { report, over }
    }
}

impl Core {
    /// Tells the page the forecasts of a comparison and of a search, if there is data and an engine for them.
    pub(super) async fn plan_comparison(&mut self, asked: &CompareConfig, search: &CompareConfig) {
        if self.timed == 0 {
            self.time(None).await;
        }
        let (Some(data), Some(empty)) = (&self.data, &self.empty) else {
            return;
        };
        let plan = |asked: &CompareConfig| {
            let contest = Contest::new(data, asked)?;
            let room = empty.room(contest.base.budget_bytes);
            contest.plan(&room, data, &empty.rate)
        };
        let by_folds_ms = plan(&decided(asked.clone())).ok();
        let by_folds_ms = by_folds_ms.map(|forecast| [forecast.least_ms, forecast.predicted_ms]);
        let forecast = plan(asked).map_err(|error| error.to_string());
        let seconds = || {
            let contest = Contest::new(data, search).ok()?;
            let room = empty.room(contest.base.budget_bytes);
            let contest = contest.within(&room, data, &empty.rate).ok()?;
            Some([contest.seconds_for(2)?, contest.seconds_for(3)?])
        };
        let event = Event::ComparisonForecast(forecast, by_folds_ms, seconds());
        self.say(&event);
    }

    /// Begins a comparison.
    pub(super) async fn compare(&mut self, asked: &CompareConfig) -> Result<()> {
        self.end_run().await;
        let data = self.seeded(&asked.of_data()?).await?;
        let contest = Contest::new(&data, asked)?;
        let engine = self.open(contest.base.budget_bytes).await?;
        let rate = self.empty.as_ref().map(|empty| empty.rate);
        let (room, rate) = (engine.room(), rate.unwrap_or_default());
        let contest = contest.within(&room, &data, &rate)?;
        let forecast = contest.plan(&room, &data, &rate)?;
        let comparing = Comparing {
            comparison: Comparison::new(engine, data, contest)?,
            predicted_ms: forecast.predicted_ms,
            said: Instant::now(),
        };
        self.say(&Event::Comparing(comparing.state()));
        self.comparing = Some(comparing);
        Ok(())
    }

    /// Does the next slice of the comparison.
    pub(super) async fn compare_on(&mut self) {
        let Some(mut comparing) = self.comparing.take() else {
            return;
        };
        match comparing.comparison.next(u64::MAX).await {
            Ok(progress) => {
                if progress != CompareProgress::Steps {
                    self.say(&comparing.report(progress == CompareProgress::Finished));
                }
                if progress == CompareProgress::Finished {
                    self.idle = Some(comparing.comparison.into_engine());
                    return;
                }
                if comparing.said.elapsed() >= SAY_EVERY {
                    comparing.said = Instant::now();
                    self.say(&Event::Comparing(comparing.state()));
                }
                self.comparing = Some(comparing);
            }
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => self.comparing = Some(comparing),
            Err(error) => {
                // The leaderboard so far stays.
                self.say(&comparing.report(true));
                self.say(&Event::NotCompared(error.to_string()));
            }
        }
    }

    /// Stops the comparison, if one goes on: the leaderboard so far is its last.
    pub(super) fn stop_comparing(&mut self) {
        if let Some(comparing) = self.comparing.take() {
            self.say(&comparing.report(true));
            self.idle = Some(comparing.comparison.into_engine());
        }
    }
}
