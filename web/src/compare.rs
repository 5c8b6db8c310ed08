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

/// What is compared: a choice of the first menu.
const RECIPES: &str = "recipes";
const ALL_RECIPES: &str = "all-recipes";
const VALUES: &str = "values";

/// Where the browser keeps the last comparison.
const KEPT: &str = "nearfar.comparison";

/// Tells the data of a comparison from other data, by all that the page knows of it. Nothing of the data can be read from it.
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
    /// What is compared, by its name in the menu.
    what: RwSignal<String>,
    /// The setting whose values are.
    key: RwSignal<&'static str>,
    /// Those values, with commas.
    values: RwSignal<String>,
    seeds: RwSignal<u64>,
    /// What it would take, or why it would be refused.
    forecast: RwSignal<Option<Result<CompareForecast, String>>>,
    /// How far it is, while it goes on.
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

    /// Takes in what the worker says of this data; gives why a comparison ended before its time.
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

    /// Shows the last comparison again where it was of this data: after a reload, too.
    pub(crate) fn recall(&self, data: &DataSummary) {
        self.clear();
        self.report.set(kept(data));
    }

    /// Forgets what was found on other data.
    pub(crate) fn clear(&self) {
        self.now.set(None);
        self.report.set(None);
        self.forecast.set(None);
    }
}

/// Has the browser keep a comparison, a character a byte.
fn keep(data: Option<&DataSummary>, report: &CompareReport) {
    let bytes = data.map(|data| postcard::to_allocvec(&(CODE, fingerprint(data), report)));
    if let Some(Ok(bytes)) = bytes {
        let text: String = bytes.into_iter().map(char::from).collect();
        kept::keep(KEPT, &text);
    }
}

/// The comparison that is kept, where this code wrote it of this data.
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
    /// Asks what the comparison would take, whenever it is looked at and one could start.
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

    /// Puts the settings of a row in place, for a run of their own.
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

/// What the menus ask for; everything else is as the settings on the page say.
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

/// The board: what is compared, how far it is, and the table.
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

/// How far it is.
fn said(now: CompareState) -> String {
    let [done, all] = now.runs;
    format!("{done} of {all} runs done, {} left", time(now.left_ms))
}
