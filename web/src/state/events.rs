//! Changes of the page's state by each event of the worker.

use std::collections::BTreeMap;

use leptos::prelude::*;
use nearfar::{FullEvaluation, Neighbourhood, Pictures, Working};

use super::{Curves, LabelChoice, Phase, State, threshold};
use crate::offer::Offer;
use crate::protocol::{DataSummary, Event, Part, Running};
use crate::remembered;
use crate::words::{capitalized, grouped, shown_name};

impl State {
    /// Takes in data that was read.
    pub(crate) fn take(&self, data: DataSummary) {
        self.label.set(LabelChoice::of(Some(&data)));
        let before = self.curves.get_untracked();
        let previous = if before.history.is_empty() {
            self.previous.get_untracked()
        } else {
            if untrack(|| self.has_run()) {
                self.tell(format!(
                    "The run on {} was stopped at step {}. What it brought is under Runs.",
                    shown_name(&before.data.name),
                    before.step()
                ));
            }
            Some(before)
        };
        // Faint lines of other data say nothing beside those of this data.
        let previous = previous.filter(|before| before.data.name == data.name);
        self.raw_map.set(None);
        self.colour_by.set(None);
        self.coloured.set(None);
        self.compare.recall(&data);
        self.clear();
        self.previous.set(previous);
        self.aside.set(None);
        self.brought.of_rows.update_value(BTreeMap::clear);
        self.names.of_data(&data);
        self.data.set(Some(data));
        self.stage.set(Phase::Ready);
    }

    /// Applies an event of the worker.
    pub(crate) fn apply(&self, event: Event) {
        match event {
            Event::Working { .. } | Event::FoundName(_) | Event::FoundFiles(_) => {}
            Event::Device(running) => self.take_engine(Ok(running)),
            Event::NoDevice(message) => self.take_engine(Err(message)),
            Event::NoGpu => self.no_gpu.set(true),
            Event::NotStarted(message) | Event::Failed(message) => self.end_run(message),
            Event::Forecast(forecast) => self.forecast.set(Some(forecast)),
            Event::Data(_)
            | Event::SavedRun(_)
            | Event::NotOpened(_)
            | Event::Refused { .. }
            | Event::Map { .. }
            | Event::Kept { .. }
            | Event::Pieces(..)
            | Event::Taken(_)
            | Event::NotTaken(_)
            | Event::RowsToCheck { .. }
            | Event::PlacedByUmap { .. }
            | Event::NotPlaced(_)
            | Event::Coloured { .. } => {
                unreachable!("the session takes what it asked for, and what comes with arrays")
            }
            event @ (Event::ComparisonForecast(..)
            | Event::Comparing(_)
            | Event::Compared { .. }
            | Event::NotCompared(_)) => {
                let broke_off = self
                    .compare
                    .apply(event, self.data.read_untracked().as_ref());
                broke_off.into_iter().for_each(|why| self.say(why));
            }
            event @ (Event::Started { .. }
            | Event::Steps { .. }
            | Event::Evaluated { .. }
            | Event::Finished { .. }
            | Event::Reset) => self.apply_of_run(event),
            Event::Neighbours(found, pictures) => self.take_neighbours(*found, pictures),
            Event::Unseen(row) => self.take_unseen(row),
            Event::CanEvaluateAll(forecast) => self.can_evaluate.set(Some(forecast)),
            Event::Evaluating(part) => self.evaluating.set(Some(part)),
            Event::EvaluatedAll(scored) => self.take_evaluation(scored),
            Event::About { names, cells } => self.names.take(names, cells),
            Event::Sizes(sizes) => self.sizes.set(sizes),
            Event::Anchor(answer) => self.anchor.take(answer),
            Event::Threshold(found) => self.threshold.update(|shown| shown.take(found)),
            Event::CanGoOn(offers, own) => self.take_offers(offers, own),
            Event::NotSaved(why) => self.unsaved.set(why),
            Event::Diagnosed(lines) => self.diagnosed.set(lines),
            Event::Said(text) => self.tell(text),
            Event::Paused => self.stage.set(Phase::Paused),
            Event::Resumed => self.stage.set(Phase::Running),
        }
    }

    /// Takes in the neighbours of the chosen row. An answer to an earlier click comes late, and is dropped.
    fn take_neighbours(&self, found: Neighbourhood, pictures: Option<(Vec<u32>, Pictures)>) {
        if self.chosen.get_untracked() == Some(found.row) {
            self.names.pictures.set(pictures);
            self.neighbours.set(Some(found));
        }
    }

    /// Says that a row may not be looked at yet.
    fn take_unseen(&self, row: u32) {
        if self.chosen.get_untracked() == Some(row) {
            self.chosen.set(None);
            let called = match untrack(|| self.name(row)) {
                Some(name) => format!("\"{name}\", row {row},"),
                None => format!("Row {row}"),
            };
            self.notice.set(Some(format!(
                "{called} is a test row: it can be looked at once the run is over."
            )));
        }
    }

    /// Ends a full evaluation; without scores, as it was stopped, those before stay.
    fn take_evaluation(&self, scored: Option<Box<FullEvaluation>>) {
        self.evaluating.set(None);
        if let Some(scored) = scored {
            self.evaluation.set(Some(*scored));
        }
    }

    /// Shows the progress of long work. After any other event that work is over, or is reported again.
    pub(crate) fn show_work(&self, event: &Event) {
        let (working, part) = match event {
            Event::Working { working, left_ms } => {
                let part = working.done as f64 / working.total.max(1) as f64;
                (said(working, *left_ms), Some(part))
            }
            _ => (String::new(), None),
        };
        if *self.working.read_untracked() != working {
            self.working.set(working);
        }
        self.part.set(part);
    }

    /// Takes in the engine that was opened, or why none could be.
    fn take_engine(&self, opened: Result<Running, String>) {
        self.reading.update(|commands| *commands -= 1);
        match opened {
            Ok(running) => {
                self.no_engine.set(None);
                self.device.set(Some(running));
            }
            Err(message) => self.no_engine.set(Some(message)),
        }
    }

    /// Says why there is no run, or none any more.
    fn end_run(&self, message: String) {
        self.leave_kept_run();
        self.say(message);
        self.can_evaluate.set(None);
        self.evaluating.set(None);
        self.checks.going.set(false);
        self.threshold.set(threshold::Shown::Nothing);
        self.stage.set(Phase::Ready);
    }

    /// Applies an event of a run.
    fn apply_of_run(&self, event: Event) {
        match event {
            Event::Started {
                config,
                data,
                running,
                warnings,
                memory,
                step_bytes,
            } => {
                self.no_gpu.set(false);
                self.device.set(Some(running));
                self.begin_run(Curves {
                    config: *config,
                    data,
                    warnings,
                    purposes: vec![(0, memory.by_purpose.clone())],
                    memory,
                    step_bytes,
                    ..Curves::default()
                });
            }
            event @ (Event::Steps { .. } | Event::Evaluated { .. }) => {
                self.curves.update(|curves| curves.take(event));
            }
            Event::Finished {
                scores,
                baseline,
                verdict,
                compared,
                kept_step,
                warnings,
                elapsed_ms,
                rate,
            } => {
                self.remember(rate);
                self.curves.update(|curves| {
                    (curves.compared, curves.warnings) = (compared, warnings);
                    curves.kept_step = kept_step;
                    curves.scores = Some(*scores);
                    curves.baseline = *baseline;
                    curves.verdict = Some(verdict);
                    curves.elapsed_ms = elapsed_ms;
                });
                self.unsaved.set(None);
                self.stage.set(Phase::Finished);
            }
            Event::Reset => self.reset(),
            _ => unreachable!("only what a run says comes here"),
        }
    }

    /// Makes room for a run: the curves of the one before stay as faint lines.
    fn begin_run(&self, curves: Curves) {
        self.runs.begin();
        let before = self.curves.get_untracked();
        if !before.history.is_empty() {
            self.previous.set(Some(before));
        }
        self.curves.set(curves);
        self.clear_answers();
    }

    /// Has the browser keep the speed of a run on this device.
    fn remember(&self, rate: Option<f64>) {
        if let (Some(running), Some(rate)) = (&*self.device.read_untracked(), rate) {
            remembered::keep_rate(&running.device.adapter, rate);
        }
    }

    /// Takes in the runs that can be resumed.
    fn take_offers(&self, mut offers: Vec<Offer>, own: bool) {
        let asked = self.offer.get_untracked().map(|offer| offer.run);
        let asked = offers.iter().position(|offer| Some(offer.run) == asked);
        if !untrack(|| self.runs.is_opening()) {
            // The offered run stays offered, unless the current run takes its place.
            let at = asked.filter(|_| !own).unwrap_or(0);
            self.offer.set(offers.get(at).cloned());
        }
        if own {
            offers.remove(0);
        }
        self.stopped.set(offers);
    }

    /// Gives up opening a run that was kept: the next run is another one, and never takes its place.
    pub(crate) fn leave_kept_run(&self) {
        if self.runs.leave() {
            self.offer.set(None);
        }
    }
}

/// Progress of long work in words.
fn said(working: &Working, left_ms: f64) -> String {
    let Working {
        what,
        unit,
        done,
        total,
    } = working;
    let (done, total) = (*done, *total);
    let part = Part {
        done,
        total,
        left_ms,
    };
    let left = part.left();
    let (done, total) = (grouped(done), grouped(total));
    let what = capitalized(what);
    format!("{what}: {done} of {total} {unit}{left}")
}
