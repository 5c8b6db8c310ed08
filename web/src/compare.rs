//! *Compare*: several settings over several seeds, one run after the other, and the leaderboard that comes of it.

mod ask;
mod leaderboard;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use leptos::prelude::*;
use nearfar::{CompareConfig, CompareForecast, CompareReport, CompareRow, Preset, Recipe};

use crate::asked::CODE;
use crate::forecast::time;
use crate::kept;
use crate::knobs;
use crate::protocol::{Command, CompareState, DataSummary, Event};
use crate::session::{ONLY_IMAGINED, Session};
use crate::state::{State, View};

use ask::Ask;
use leaderboard::Leaderboard;

/// Choices of the first menu: recipes, or values of a setting.
const RECIPES: &str = "recipes";
const ALL_RECIPES: &str = "all-recipes";
const VALUES: &str = "values";

/// Storage key of the last comparison.
const KEPT: &str = "nearfar.comparison";

/// Hash of all that the page knows of the data, to tell it from other data. The data cannot be read from it.
fn fingerprint(data: &DataSummary) -> u64 {
    let mut hasher = DefaultHasher::new();
    postcard::to_allocvec(data)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

/// The signals of the board.
#[derive(Clone, Copy)]
pub(crate) struct Compare {
    /// Choice of the first menu, by its name.
    what: RwSignal<String>,
    /// Path of the setting whose values are compared.
    key: RwSignal<&'static str>,
    /// Values of that setting, separated by commas.
    values: RwSignal<String>,
    seeds: RwSignal<u64>,
    /// Forecast of the comparison, or why it would be refused.
    forecast: RwSignal<Option<Result<CompareForecast, String>>>,
    /// Progress of the comparison, while it goes on.
    pub(crate) now: RwSignal<Option<CompareState>>,
    /// The last leaderboard.
    report: RwSignal<Option<CompareReport>>,
}

impl Compare {
    pub(crate) fn new() -> Self {
        Self {
            what: RwSignal::new(RECIPES.to_owned()),
            key: RwSignal::new("memory_size"),
            values: RwSignal::new(String::new()),
            seeds: RwSignal::new(CompareConfig::default().seeds),
            forecast: RwSignal::new(None),
            now: RwSignal::new(None),
            report: RwSignal::new(None),
        }
    }

    /// Applies an event about a comparison on this data; returns why it broke off, if it did.
    pub(crate) fn apply(&self, event: Event, data: Option<&DataSummary>) -> Option<String> {
        match event {
            Event::ComparisonForecast(forecast) => self.forecast.set(Some(forecast)),
            Event::Comparing(now) => self.now.set(Some(now)),
            Event::Compared { report, over } => {
                if over {
                    self.now.set(None);
                    keep(data, &report);
                }
                self.report.set(Some(*report));
            }
            Event::NotCompared(why) => {
                self.now.set(None);
                return Some(why);
            }
            _ => {}
        }
        None
    }

    /// Shows the kept comparison if it was of this data, so that it outlives a reload.
    pub(crate) fn recall(&self, data: &DataSummary) {
        self.clear();
        self.report.set(kept(data));
    }

    /// Clears the progress, the leaderboard and the forecast of other data.
    pub(crate) fn clear(&self) {
        self.now.set(None);
        self.report.set(None);
        self.forecast.set(None);
    }
}

/// Has the browser keep a comparison, as text with one character per byte.
fn keep(data: Option<&DataSummary>, report: &CompareReport) {
    let bytes = data.map(|data| postcard::to_allocvec(&(CODE, fingerprint(data), report)));
    if let Some(Ok(bytes)) = bytes {
        let text: String = bytes.into_iter().map(char::from).collect();
        kept::keep(KEPT, &text);
    }
}

/// The kept comparison, if this code wrote it and it is of this data.
fn kept(data: &DataSummary) -> Option<CompareReport> {
    let text = kept::kept(KEPT)?;
    let bytes: Vec<u8> = text.chars().map(|byte| byte as u8).collect();
    let ((code, of), rest) = postcard::take_from_bytes::<(&[u8], u64)>(&bytes).ok()?;
    if code != CODE || of != fingerprint(data) {
        return None;
    }
    postcard::from_bytes(rest).ok()
}

impl Session {
    /// Asks for the comparison's forecast, if *Compare* is shown and a comparison could start.
    pub(crate) fn ask_comparison_forecast(&self) {
        let state = self.state;
        if state.view.get() == View::Compare && state.device.read().is_some() && state.can_start() {
            let asked = Box::new(asked(state));
            self.send(&Command::PlanComparison { asked }, &[]);
        }
    }

    /// Starts the comparison, or stops it.
    pub(crate) fn compare(&self) {
        let state = self.state;
        if state.compare.now.read_untracked().is_some() {
            self.send(&Command::StopComparing, &[]);
        } else if untrack(|| state.is_imagined()) {
            state.say(ONLY_IMAGINED.to_owned());
        } else if untrack(|| state.can_start()) {
            state.begin_comparison();
            let asked = Box::new(untrack(|| asked(state)));
            self.send(&Command::Compare { asked }, &[]);
        }
    }

    /// Makes the settings of a row those of the next run; its seeds and budget stay.
    fn use_settings(&self, row: &CompareRow) {
        let state = self.state;
        let Some(suited) = state
            .data
            .with_untracked(|data| data.as_ref().map(|data| data.default_config.clone()))
        else {
            return;
        };
        let (mut config, problems) = suited.with_sets(&row.settings);
        if let Some(problem) = problems.first() {
            return state.say_of_setting(problem.to_string());
        }
        state.config.with_untracked(|own| {
            (config.seed, config.data_seed, config.budget_bytes) =
                (own.seed, own.data_seed, own.budget_bytes);
        });
        state.config.set(config);
        state.view.set(View::Run);
        state.notice.set(Some(format!(
            "The settings of {} are in place: press Run.",
            knobs::entry(&row.name)
        )));
    }
}

/// The comparison that the menus ask for; all other settings are those on the page.
fn asked(state: State) -> CompareConfig {
    let Compare {
        what,
        key,
        values,
        seeds,
        ..
    } = state.compare;
    let mut asked = CompareConfig {
        seeds: seeds.get(),
        ..CompareConfig::default()
    };
    match what.get().as_str() {
        RECIPES => {}
        ALL_RECIPES => {
            asked.recipes = Recipe::ALL
                .iter()
                .map(|recipe| recipe.name.to_owned())
                .collect();
        }
        VALUES => asked.grids = vec![format!("{}={}", key.get(), values.get())],
        name => asked.preset = Preset::named(name).ok(),
    }
    let suited = state
        .data
        .with(|data| data.as_ref().map(|data| data.default_config.clone()));
    match suited {
        Some(suited) => asked.with_settings(&state.config.get(), &suited),
        None => asked,
    }
}

/// The board: the menus, the progress and the leaderboard.
#[component]
pub(crate) fn Board(state: State, session: Session) -> impl IntoView {
    let now = state.compare.now;
    Effect::new(move || session.ask_comparison_forecast());
    view! {
        <section class="board" data-testid="compare" aria-label="Compare" hidden=move || state.view.get() != View::Compare>
            <Ask state session/>
            <div class="progress" hidden=move || now.read().is_none()>
                <progress
                    aria-label="Steps taken" max=move || now.get().map_or(1, |now| now.steps[1]).to_string()
                    prop:value=move || now.get().map_or(0, |now| now.steps[0]) as f64
                ></progress>
                <p class="muted" data-testid="compare-progress">{move || now.get().map(said)}</p>
            </div>
            <Leaderboard state session/>
        </section>
    }
}

/// Progress of a comparison in words.
fn said(now: CompareState) -> String {
    let [done, all] = now.runs;
    format!("{done} of {all} runs done, {} left", time(now.left_ms))
}
