//! *Compare*: several settings over several seeds, one run after the other, and the leaderboard that comes of it.

mod ask;
mod leaderboard;

use leptos::prelude::*;
use nearfar::{CompareConfig, CompareRow, Preset, Recipe};

use crate::knobs;
use crate::protocol::{Command, CompareState, decided};
use crate::session::{ONLY_IMAGINED, Session};
use crate::state::{ALL_RECIPES, Compare, RECIPES, State, VALUES, Varied, View};
use crate::terms::About;
use crate::words::time;

use ask::Ask;
use leaderboard::Leaderboard;

/// Seconds of a search before they are estimated, and the most that it takes unasked.
const SECONDS: u64 = 30;
const MOST_UNASKED: u64 = 300;

impl Session {
    /// Asks for the comparison's forecast, if *Compare* is shown and a comparison could start.
    pub(crate) fn ask_comparison_forecast(&self) {
        let state = self.state;
        if state.view.get() == View::Compare && state.device.read().is_some() && state.can_start() {
            let (asked, search) = (Box::new(asked(state)), Box::new(search(state, 0)));
            self.send(&Command::PlanComparison { asked, search }, &[]);
        }
    }

    /// Starts the comparison, or stops it.
    pub(crate) fn compare(&self) {
        let state = self.state;
        if state.compare.now.read_untracked().is_some() {
            self.send(&Command::StopComparing, &[]);
        } else {
            self.begin(|| asked(state));
        }
    }

    /// Starts the comparison by folds, which decides what the validation rows leave open.
    pub(crate) fn compare_by_folds(&self) {
        let state = self.state;
        self.begin(|| decided(asked(state)));
    }

    /// Searches for the recipe that does best within the budget and so many seconds.
    pub(crate) fn fit(&self, seconds: u64) {
        let state = self.state;
        self.begin(|| {
            state.view.set(View::Compare);
            search(state, seconds)
        });
    }

    fn begin(&self, asked: impl FnOnce() -> CompareConfig) {
        let state = self.state;
        if untrack(|| state.is_imagined()) {
            state.say(ONLY_IMAGINED.to_owned());
        } else if untrack(|| state.can_start()) {
            state.begin_comparison();
            let asked = Box::new(untrack(asked));
            self.send(&Command::Compare { asked }, &[]);
        }
    }

    /// Trains a row as it was compared, with the first seed, and shows that run; seeds and budget on the page stay.
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
        let (name, begins) = (knobs::entry(&row.name), untrack(|| state.can_start()));
        if begins {
            self.run();
        }
        // The run has cleared the notices before it.
        state.notice.set(Some(match begins {
            true => format!("{name} is trained as it was compared, with the first seed."),
            false => format!("The settings of {name} are in place: press Run."),
        }));
    }
}

/// The comparison that the menus ask for; all other settings are those on the page.
fn asked(state: State) -> CompareConfig {
    let Compare {
        what,
        varied,
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
        VALUES => {
            let used = varied.iter().filter(|varied| !varied.key.get().is_empty());
            let grid = |varied: &Varied| format!("{}={}", varied.key.get(), varied.values.get());
            asked.grids = used.map(grid).collect();
        }
        name => asked.preset = Preset::named(name).ok(),
    }
    over_the_page(state, asked)
}

/// The search of so many seconds for the recipe that does best.
fn search(state: State, seconds: u64) -> CompareConfig {
    let search = CompareConfig {
        seconds: Some(seconds),
        ..CompareConfig::default()
    };
    over_the_page(state, search)
}

/// The request with the settings of the page that it does not set itself.
fn over_the_page(state: State, asked: CompareConfig) -> CompareConfig {
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
            <Search state session/>
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

/// Button of a search for the recipe that does best within the budget and some seconds.
#[component]
fn Search(state: State, session: Session) -> impl IntoView {
    let Compare {
        now,
        search_seconds: needed,
        ..
    } = state.compare;
    let own = RwSignal::new(None);
    // Unasked as many as three seeds take.
    let seconds = Memo::new(move |_| {
        let three = needed.get().map(|[_, three]| three.next_multiple_of(5));
        own.get()
            .unwrap_or(three.map_or(SECONDS, |three| three.clamp(10, MOST_UNASKED)))
    });
    // Taken at once, so that an estimate that comes changes nothing under the hand.
    let type_in = move |event| {
        if let Ok(seconds) = event_target_value(&event).parse() {
            own.set(Some(seconds));
        }
    };
    let set = move |event| own.set(event_target_value(&event).parse().ok());
    let said = move || {
        let [two, _] = needed.get()?;
        let seeds = seeds_within(seconds.get(), needed.get()?);
        Some(match seeds {
            1 => format!(
                "In this time the last recipes are trained with one seed each: they are ranked, and no difference is told from chance. \
                 With two seeds it takes {}.",
                time(1e3 * two as f64)
            ),
            seeds => format!(
                "In this time the last recipes are trained with {seeds} seeds each, which tells luck from merit."
            ),
        })
    };
    view! {
        <div class="asked" hidden=move || now.read().is_some()>
            <button data-testid="fit" on:click=move |_| session.fit(seconds.get_untracked())>"Find the best recipe"</button>
            <label>
                "Seconds "
                <input
                    type="number" min="1" max="3600" data-testid="fit-seconds"
                    prop:value=move || seconds.get().to_string() on:input=type_in on:change=set
                />
            </label>
            <About
                of="the search" text="Trains every recipe for so many seconds in all, each made to fit the budget beforehand. The third that does best on the validation rows goes on, until four or fewer are left. The test rows are not looked at. Use takes the winner's settings."
            />
            <span class="muted" data-testid="fit-forecast" role="status">{said}</span>
        </div>
    }
}

/// Seeds of the last recipes of a search of these seconds, where two seeds and three need so many.
fn seeds_within(seconds: u64, needed: [u64; 2]) -> usize {
    1 + needed.iter().filter(|needed| **needed <= seconds).count()
}

/// Progress of a comparison in words.
fn said(now: CompareState) -> String {
    let [done, all] = now.runs;
    format!("{done} of {all} runs done, {} left", time(now.left_ms))
}
