//! Offer of a run that was saved: after a reload, or if the worker ended, the newest is offered ([`GoOn`]), the others are listed
//! under Runs.

use leptos::prelude::*;
use nearfar::Origin;
use wasm_bindgen::JsCast as _;
use web_sys::HtmlElement;

use crate::offer::Offer;
use crate::protocol::Command;
use crate::request::{Reading, Source};
use crate::session::Session;
use crate::state::{Phase, State};
use crate::words::{grouped, shown_name};

impl Session {
    /// Tells if the page has the data of the offered run, read as it was then.
    fn has_data_of(&self, offer: &Offer) -> bool {
        self.has_file_of(offer, true)
    }

    /// Tells if the page's data has the name of the offered run's, and was read as that was (if `likewise`) or otherwise.
    fn has_file_of(&self, offer: &Offer, likewise: bool) -> bool {
        let Origin {
            data,
            labels,
            missing,
            ..
        } = &offer.origin;
        self.state.data.read().as_ref().is_some_and(|here| {
            // A run that was saved by an earlier version does not know the column of a file of labels.
            let of_labels = labels.is_none() || here.label_column == *labels;
            let same = of_labels && here.missing == *missing;
            here.name == *data && same == likewise && (!same || here.rows == offer.rows)
        })
    }

    /// Source of the offered run's data, if no choice of the person is needed: a sample, or the page's files read otherwise.
    fn source_of(&self, offer: &Offer) -> Option<Source> {
        if let Some(sample) = offer.sample() {
            return Some(Source::Sample(sample.to_owned()));
        }
        let (files, _) = self
            .held_files()
            .filter(|_| self.has_file_of(offer, false))?;
        Some(Source::Files(files, Reading::of(offer)))
    }

    /// Tells if the offered run can be resumed at once.
    fn can_go_on(&self, offer: &Offer) -> bool {
        self.has_data_of(offer) || self.source_of(offer).is_some()
    }

    /// Resumes the offered run.
    pub(crate) fn go_on(&self) {
        let Some(offer) = self.state.offer.get_untracked() else {
            return;
        };
        let here = untrack(|| self.has_data_of(&offer));
        if here && !untrack(|| self.state.is_dead()) {
            self.go_on_here(&offer);
        } else if here {
            self.go_on_next.set_value(true);
            self.ask_again();
        } else if let Some(source) = untrack(|| self.source_of(&offer)) {
            self.go_on_next.set_value(true);
            self.ask(source, Some(Vec::new()));
        }
    }

    /// Tells if the offered run waits for a file that the person has to choose again.
    pub(crate) fn waits_for_file(&self) -> bool {
        let offer = self.state.offer.get_untracked();
        offer.is_some_and(|offer| !untrack(|| self.can_go_on(&offer)))
    }

    /// Data came: resumes the offered run if that was asked for, or if the data is the file that was `waited` for.
    pub(crate) fn go_on_with_data(&self, waited: bool) {
        let asked = self.go_on_next.try_update_value(std::mem::take) == Some(true);
        let Some(offer) = self.state.offer.get_untracked() else {
            return;
        };
        if asked || waited && untrack(|| self.has_data_of(&offer)) {
            self.go_on_here(&offer);
        }
    }

    fn go_on_here(&self, offer: &Offer) {
        self.state.forgive();
        self.state.notice.set(None);
        self.state.aside.set(None);
        self.state.config.set(offer.config.clone());
        self.state.stage.set(Phase::Starting);
        let opened = self.state.runs.opening();
        self.send(&Command::GoOn(offer.run), opened.as_slice());
    }

    /// The choices by which files of these names are read, if the offered run waits for one of them.
    pub(crate) fn reading_waited_for(&self, names: &[String]) -> Option<Reading> {
        let offer = self.state.offer.get_untracked()?;
        let waits = names.contains(&offer.origin.data);
        waits.then(|| Reading::of(&offer))
    }
}

/// Offers to resume a saved run, while no run is under way.
#[component]
pub(crate) fn GoOn(state: State, session: Session) -> impl IntoView {
    let offered = Memo::new(move |_| {
        let free = match state.phase.get() {
            Phase::Ready | Phase::Dead => true,
            // The results on the page stay until the kept run is there.
            Phase::Finished | Phase::Paused => state.runs.is_opening(),
            _ => false,
        };
        state.offer.get().filter(|_| free)
    });
    let forget = move |_| {
        let run = state.offer.get_untracked().map_or(0, |offer| offer.run);
        // A kept run stays on the shelf. A saved run is offered until the worker says that it is gone.
        state.runs.leave();
        if run == 0 || state.is_dead() {
            state.offer.set(None);
        } else {
            session.send(&Command::Forget(run), &[]);
        }
    };
    move || {
        offered.get().map(|offer| {
            let name = shown_name(&offer.origin.data);
            let (step, steps) = (grouped(offer.step), grouped(offer.config.steps));
            let is_over = offer.is_over || offer.step == offer.config.steps;
            let button = session.can_go_on(&offer);
            let text = match (button, is_over) {
                (true, true) => format!("Show the run of {steps} steps on {name}?"),
                (true, false) => format!("Go on from step {step} of {steps} of {name}?"),
                (false, _) => {
                    let rows = grouped(offer.rows as u64);
                    let then = match is_over {
                        true => "to see it again",
                        false => "and it goes on",
                    };
                    format!("A run on {name} ({rows} rows) is kept, at step {step} of {steps}. Its rows are not: choose that file again {then}.")
                }
            };
            let go_on = if is_over { "Show it" } else { "Go on" };
            let choose = format!("Choose {name} ..");
            view! {
                <p class="notice" data-testid="saved-run">
                    <span>{text}</span>
                    <button data-testid="go-on" hidden=!button on:click=move |_| session.go_on()>{go_on}</button>
                    <button class="primary" data-testid="choose-its-file" hidden=button on:click=|_| choose_file()>{choose}</button>
                    <button class="quiet" data-testid="forget" on:click=forget>"Forget it"</button>
                </p>
            }
        })
    }
}

/// Shows the browser's dialog of files.
fn choose_file() {
    let input = document().query_selector("[data-testid=dataset-file]");
    if let Ok(Some(input)) = input {
        input.unchecked_into::<HtmlElement>().click();
    }
}

/// Saves the run whenever the page is hidden: the page may never be seen again.
pub(crate) fn save_when_hidden(state: State, session: Session) {
    window_event_listener_untyped("visibilitychange", move |_| {
        if document().hidden() && untrack(|| state.has_run()) {
            session.send(&Command::Save, &[]);
        }
    });
}
