//! Forecast of a run's memory and time before it starts, or why it cannot start.

use leptos::prelude::*;
use nearfar::{Bytes, STREAM_FROM_BYTES, TrainConfig};

use crate::knobs::said;
use crate::plots::Purposes;
use crate::protocol;
use crate::state::{Phase, State};
use crate::words::{grouped, time};

/// Bytes above which the page says how much PML would hold.
const MUCH: u64 = 1 << 30;

/// Bytes of a table from which on the page says where it is held.
const LARGE: u64 = 64 << 20;

/// Forecast of the next run: shown while no run is under way, unless the last one had the same settings.
#[component]
pub(crate) fn RunForecast(state: State) -> impl IntoView {
    let shown = move || {
        // A run without memory, which leaves the settings as they are, is followed by none.
        let config = state.config.read();
        let ran = TrainConfig {
            memory_size: config.memory_size,
            ..state.curves.read().config.clone()
        };
        let told = state.phase.get() == Phase::Finished && ran == *config;
        let can_start = state.can_start() || (state.is_imagined() && state.reading.get() > 0);
        can_start && !told && state.forecast.read().is_some()
    };
    let refused = move || matches!(*state.forecast.read(), Some(Err(_)));
    let is_old = move || is_old(state);
    let said = move || match &*state.forecast.read() {
        _ if is_old() => "The new sizes are being counted ..".to_owned(),
        Some(Ok(forecast)) => {
            // Beside a run on the page, the forecast is of the next one.
            let which = if state.has_run() { "The next" } else { "This" };
            sentence(which, forecast)
        }
        Some(Err(refusal)) => format!("This run cannot start: {}.", refusal.message),
        None => String::new(),
    };
    let bytes = move || planned(state, |forecast| forecast.peak_bytes.to_string());
    let pml = move || planned(state, |forecast| forecast.pml_bytes);
    let pml_bytes = move || pml().to_string();
    let beside_pml = move || planned(state, beside_pml);
    let table = move || planned(state, |forecast| table(forecast, state.is_imagined()));
    let chunk = move || planned(state, |forecast| forecast.chunk.clone());
    let is_large = move || {
        planned(state, |forecast| {
            forecast.table_bytes + forecast.text_bytes >= LARGE
        })
    };
    // If PML would hold little, too, nothing is said.
    let tells_pml = move || pml() > MUCH || (state.is_imagined() && pml() > 0);
    let parts = Signal::derive(move || planned(state, |forecast| forecast.by_purpose.clone()));
    view! {
        <div class="forecast" class:old=is_old hidden=move || !shown()>
            <p data-testid="forecast" data-bytes=bytes role="status" class:refused=refused>{said}</p>
            {move || fits(state)}
            <p class="muted" data-testid="forecast-pml" data-bytes=pml_bytes hidden=move || !tells_pml()>
                {beside_pml}
            </p>
            <p class="muted" data-testid="forecast-chunk" hidden=move || chunk().is_empty()>{chunk}</p>
            <p class="muted" data-testid="forecast-table" hidden=move || !is_large()>{table}</p>
            <Purposes testid="forecast-by-purpose" parts/>
        </div>
    }
}

/// Of a run that is refused, a button for each setting with whose largest value that fits it would start.
fn fits(state: State) -> Option<impl IntoView> {
    let forecast = state.forecast.read();
    let refusal = forecast.as_ref()?.as_ref().err()?;
    let button = |(key, value): &(String, u64)| {
        let (set, said) = (format!("{key}={value}"), said(key, &grouped(*value)));
        let take = move |_| {
            if let Ok(config) = state.config.get_untracked().with_set(&set) {
                state.config.set(config);
            }
        };
        view! { <button data-testid="fits" data-key=key.clone() on:click=take>{format!("Set {said}")}</button> }
    };
    let buttons: Vec<_> = refusal.fits.iter().map(button).collect();
    (!buttons.is_empty()).then(|| view! { <p class="fits">{buttons}</p> })
}

/// Tells if the forecast is of other sizes of imagined data than are asked for by now.
fn is_old(state: State) -> bool {
    let counted = planned(state, |forecast| Some(forecast.table_bytes));
    let data = state.data.read();
    let imagined = data.as_ref().filter(|data| data.imagined);
    imagined.is_some_and(|data| {
        let asked = 4 * data.rows as u64 * data.dim as u64;
        state.reading.get() > 0 || counted.is_some_and(|counted| counted != asked)
    })
}

/// A value of the forecast; the default without one.
fn planned<T: Default>(state: State, value: impl Fn(&protocol::RunForecast) -> T) -> T {
    let forecast = state.forecast.read();
    let forecast = forecast.as_ref().and_then(|it| it.as_ref().ok());
    forecast.map_or_else(T::default, value)
}

/// Bytes of a step, here and in PML.
fn beside_pml(forecast: &protocol::RunForecast) -> String {
    format!(
        "The triplets or pairs of one step take {} of it at most; PyTorch Metric Learning would hold about {} for them.",
        Bytes(forecast.step_bytes),
        Bytes(forecast.pml_bytes)
    )
}

/// Bytes of the table itself, and where they are held.
fn table(forecast: &protocol::RunForecast, is_imagined: bool) -> String {
    let text = match forecast.text_bytes {
        0 => String::new(),
        bytes => format!(
            " Names of its rows and other text take {} besides.",
            Bytes(bytes)
        ),
    };
    numbers(forecast, is_imagined) + &text
}

fn numbers(forecast: &protocol::RunForecast, is_imagined: bool) -> String {
    let bytes = Bytes(forecast.table_bytes);
    // A smaller file is held whole, in any format.
    let may_stay = is_imagined && forecast.table_bytes >= STREAM_FROM_BYTES;
    match (forecast.table_in_file, may_stay) {
        (true, _) => {
            format!("The table itself, {bytes}, stays in its file and is read piece by piece.")
        }
        (false, true) => format!(
            "The table itself takes {bytes}. An NPY file stays where it is and is read piece by piece; any other file is held in this \
             tab, which has 4 GiB at most."
        ),
        (false, false) => format!("The table itself takes {bytes} of this tab's memory besides."),
    }
}

fn sentence(which: &str, forecast: &protocol::RunForecast) -> String {
    format!(
        "{which} run will take {} and {} of device memory, of the {} that you allow.",
        time(forecast.predicted_ms),
        Bytes(forecast.peak_bytes),
        Bytes(forecast.budget_bytes)
    )
}
