//! The run: started, advanced slice by slice, and ended.

use nearfar::{Error, Evaluation, Progress, Result, Run, StepReport, TrainConfig};
use web_time::{Duration, Instant};

use super::Core;
use super::progress::milliseconds;
use crate::protocol::Event;
use crate::words::grouped;

/// Time between two messages on the steps of a run. The plots are drawn as often; a message for every step took the page and the
/// browser a third of a core.
const STEPS_EVERY: Duration = Duration::from_millis(100);

/// Steps that the page was not told of yet.
#[derive(Default)]
pub(super) struct Untold {
    reports: Vec<StepReport>,
    took_ms: f64,
    /// Time of the last message.
    said: Option<Instant>,
}

/// Message on an evaluation of a run; the best so far is that of all that it did.
fn evaluated(run: &Run, evaluation: Evaluation) -> Event {
    let best = run.best();
    Event::Evaluated {
        evaluation: Box::new(evaluation),
        baseline: Box::new(run.baseline()),
        best: best.map(|best| best.words()),
        stopped: best.is_some_and(|best| best.stopped_at.is_some()),
    }
}

/// Notice that a new run takes the place of this one, if that has steps.
fn replaced(run: &Run) -> Option<String> {
    if run.step() == 0 {
        return None;
    }
    let begun = match run.is_finished() {
        true => "A new run has begun, as the one before was over. That one",
        false => "A new run has begun. The one before",
    };
    let goes_on = match run.is_finished() && !run.is_settled() {
        true => ": to go on with it, open it there and raise Steps",
        false => "",
    };
    Some(format!(
        "{begun} is kept under Runs, at step {}{goes_on}.",
        grouped(run.step())
    ))
}

impl Core {
    pub(super) fn is_running(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| !run.is_finished() && run.step() < self.until)
    }

    pub(super) async fn begin(&mut self, config: TrainConfig, steps: Option<u64>) -> Result<()> {
        if let Some(run) = self.lengthened(&config)? {
            let done = grouped(run.step());
            self.slots.begin(false);
            self.kept = (0, false);
            self.show(run, steps);
            let text =
                format!("Nothing but the steps has changed: the run goes on after step {done}.");
            self.say(&Event::Said(text));
            return Ok(());
        }
        // A step reads as one more of the run on the page, and this is the first of another.
        let before = steps.and_then(|_| self.run.as_ref().and_then(replaced));
        self.end_run().await;
        config.check()?;
        let data = self.seeded(&config).await?;
        let engine = self.open(config.budget_bytes).await?;
        let mut run = Run::new(engine, data, config).await?.watched();
        run.see_survey(&self.survey);
        self.slots.begin(false);
        self.kept = (0, false);
        self.show(run, steps);
        before
            .into_iter()
            .for_each(|text| self.say(&Event::Said(text)));
        Ok(())
    }

    /// Takes the run that is over, if these settings differ from its own by more steps alone.
    pub(super) fn lengthened(&mut self, config: &TrainConfig) -> Result<Option<Run>> {
        let is_same = |run: &mut Run| {
            let now = run.trainer().config();
            let before = TrainConfig {
                steps: now.steps,
                ..config.clone()
            };
            let is_longer = config.steps > now.steps;
            *now == before && is_longer && run.is_finished() && !run.is_settled()
        };
        let run = self.run.take_if(is_same);
        run.map(|mut run| run.train_to(config.steps).map(|()| run))
            .transpose()
    }

    /// Shows the page a run with its history so far, and goes on with it.
    pub(super) fn show(&mut self, mut run: Run, steps: Option<u64>) {
        let report = run.report();
        let step_bytes = self.step_bytes(&report.config);
        self.say(&Event::Started {
            config: Box::new(report.config),
            data: run.data(),
            running: self.running(run.engine()),
            warnings: run.warnings().to_vec(),
            memory: run.memory(),
            step_bytes,
        });
        if !report.history.is_empty() {
            self.say(&Event::Steps {
                reports: report.history,
                took_ms: 0.0,
                pairs: None,
                age: run.trainer().memory_age(),
                warnings: run.warnings().to_vec(),
                memory: run.memory(),
            });
        }
        for evaluation in report.evaluations {
            self.owes_map = true;
            self.say(&evaluated(&run, evaluation));
        }
        self.say_can_evaluate(&run);
        self.run = Some(run);
        self.go_on(steps);
    }

    pub(super) fn go_on(&mut self, steps: Option<u64>) {
        let Some(run) = self.run.as_ref().filter(|run| !run.is_finished()) else {
            return;
        };
        let step = run.step();
        // At the last step the test side is still to be scored.
        self.until = steps.map_or(u64::MAX, |steps| step + steps);
        self.say(&Event::Resumed);
    }

    /// Does the next slice of the run.
    pub(super) async fn slice(&mut self) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let advanced = self.advance(&mut run).await;
        let paused = !run.is_finished() && run.step() >= self.until;
        if paused || advanced.is_err() {
            self.tell_steps(&mut run);
        }
        match advanced {
            Ok(()) => {
                let is_over = run.is_finished();
                self.run = Some(run);
                if paused {
                    self.say(&Event::Paused);
                }
                if !is_over && self.slots.is_due() {
                    self.save().await;
                }
            }
            // The command that stopped this work says what comes next.
            Err(Error::Stopped) => self.run = Some(run),
            Err(error @ Error::Device(_)) if self.is_saved() => {
                drop(run);
                self.go_on_without(&error).await;
            }
            Err(error) => self.fail(&error),
        }
    }

    pub(super) async fn advance(&mut self, run: &mut Run) -> Result<()> {
        let began = Instant::now();
        match run.next(self.until - run.step()).await? {
            Progress::Steps(reports) => {
                self.untold.reports.extend(reports);
                self.untold.took_ms += milliseconds(began);
                let said = self.untold.said;
                if said.is_none_or(|said| said.elapsed() >= STEPS_EVERY) {
                    self.tell_steps(run);
                }
            }
            Progress::Evaluated(evaluation) => {
                self.tell_steps(run);
                self.say(&evaluated(run, evaluation));
                self.owes_map = true;
            }
            Progress::Finished => {
                self.tell_steps(run);
                let elapsed_ms = run.elapsed_ms();
                self.learn(run.trainer().config(), elapsed_ms);
                self.owes_map = true;
            }
        }
        Ok(())
    }

    /// Tells the page of the steps that it was not told of yet.
    fn tell_steps(&mut self, run: &mut Run) {
        let Untold {
            reports, took_ms, ..
        } = std::mem::take(&mut self.untold);
        self.untold.said = Some(Instant::now());
        if reports.is_empty() {
            return;
        }
        let trainer = run.trainer();
        self.say(&Event::Steps {
            reports,
            took_ms,
            pairs: trainer.pairs().cloned(),
            age: trainer.memory_age(),
            warnings: run.warnings().to_vec(),
            memory: run.memory(),
        });
    }

    /// Tells the page of every step that the run has taken, before a command is obeyed.
    pub(super) fn tell_of_the_run(&mut self) {
        if let Some(mut run) = self.run.take() {
            self.tell_steps(&mut run);
            self.run = Some(run);
        }
    }

    pub(super) fn say_end(&self, run: &Run) {
        self.say(&Event::Finished {
            scores: Box::new(run.final_scores().unwrap_or_default()),
            baseline: Box::new(run.baseline()),
            verdict: run.verdict().unwrap_or_default(),
            compared: run.compared().to_vec(),
            kept_step: run.kept_step(),
            warnings: run.warnings().to_vec(),
            elapsed_ms: run.elapsed_ms(),
            rate: self
                .empty
                .as_ref()
                .map(|empty| empty.rate.operations_per_ms),
        });
        self.say_can_evaluate(run);
    }

    /// Tells the page what ended the run. The engine is gone with the run: the next run opens another.
    pub(super) fn fail(&self, error: &Error) {
        self.say(&Event::Failed(match error {
            Error::Device(_) => format!("{error}. Press Run to start again."),
            _ => error.to_string(),
        }));
    }

    /// Ends the run and frees its memory; keeps its engine if its device is still there.
    pub(super) async fn end_run(&mut self) {
        self.stop_comparing();
        // What was saved of the run is still offered.
        self.keep(0).await;
        (self.evaluating, self.owes_map, self.placing) = (false, false, None);
        let (run, aside) = (self.run.take(), self.aside.take());
        if let Some(run) = run.or(aside) {
            let engine = run.into_engine();
            self.idle = engine.settle().await.ok().map(|()| engine);
        }
    }
}
