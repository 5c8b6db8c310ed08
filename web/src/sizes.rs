//! How small can the vectors be: scores of the test rows in fewer numbers and fewer bits.

use leptos::prelude::*;
use nearfar::{Bytes, VectorFormat, VectorSize, VectorSizes};

use crate::protocol::Command;
use crate::session::Session;
use crate::state::{Phase, State};
use crate::terms::{self, Term};
use crate::words::{capitalized, grouped};

/// The button, and a table of every size for the head, the linear map and the raw features.
#[component]
pub(crate) fn Sizes(state: State, session: Session) -> impl IntoView {
    let off = move || (!state.can_measure_sizes()).to_string();
    // The head first: it is what one would store.
    let found = move || {
        let sizes = state.sizes.read();
        let tables = sizes.iter().rev().enumerate();
        tables
            .map(|(at, (name, sizes))| table(name, sizes, at == 0))
            .collect_view()
    };
    view! {
        <div class="sizes" hidden=move || state.phase.get() != Phase::Finished>
            <div class="ask">
                <button data-testid="measure-sizes" aria-disabled=off on:click=move |_| session.measure_sizes()>"How small can the vectors be?"</button>
                <p class="muted">
                    "Cuts the vectors of the test rows to their first numbers, stores each number in fewer bits, and scores every size."
                </p>
            </div>
            <div data-testid="sizes" role="status">{found}</div>
        </div>
    }
}

impl State {
    /// Vectors of the run that is over can be scored in every size.
    fn can_measure_sizes(&self) -> bool {
        self.phase.get() == Phase::Finished
    }
}

impl Session {
    /// Asks for the scores of every size.
    fn measure_sizes(&self) {
        if untrack(|| self.state.can_measure_sizes()) {
            self.send(&Command::MeasureSizes, &[]);
        }
    }
}

/// Sizes of the vectors of this name: numbers downwards, formats across.
fn table(name: &str, sizes: &VectorSizes, open: bool) -> impl IntoView + use<> {
    let formats = VectorFormat::ALL.map(|format| view! { <th scope="col">{format.name()}</th> });
    let advised = sizes.advised;
    let lines = sizes.sizes.chunks(formats.len()).enumerate();
    let lines = lines.map(|(line, formats)| {
        let cells = formats.iter().enumerate();
        let cells = cells.map(|(at, size)| cell(size, line * formats.len() + at == advised));
        view! { <tr><th scope="row">{formats[0].dim}</th>{cells.collect_view()}</tr> }
    });
    view! {
        <details open=open>
            <summary>{capitalized(name)}</summary>
            <p>{sizes.sentence()}</p>
            <table>
                <caption>
                    {format!("{} test rows: ", grouped(sizes.rows))} <Term term=terms::PRECISION_AT_1/> ", " <Term term=terms::MAP_AT_R/>
                    ", and the bytes of a million vectors."
                </caption>
                <thead><tr><th scope="col">"numbers"</th>{formats.collect_view()}</tr></thead>
                <tbody>{lines.collect_view()}</tbody>
            </table>
        </details>
    }
}

/// Scores of a size; the one that is advised stands out.
fn cell(size: &VectorSize, advised: bool) -> impl IntoView + use<> {
    let bytes = Bytes(size.bytes_of_a_million()).to_string();
    let groups = format!("{:.3}", size.mean_average_precision_at_r);
    view! {
        <td class:advised=advised aria-label=advised.then_some("the smallest that keeps both scores")>
            <b>{format!("{:.3}", size.precision_at_1)}</b> <small>{groups}</small> <small>{bytes}</small>
        </td>
    }
}
