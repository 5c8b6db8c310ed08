//! The hardest triplets of a step, shown by a click on the mining plot or by its button; and the age of the memory's rows.

use leptos::prelude::*;
use nearfar::{HardTriplet, HardestTriplets};

use crate::state::State;
use crate::state::hardest::Shown;
use crate::terms::{self, Term};

/// Shows the list of the step nearest to `asked`; the last list if that is `None`.
pub(crate) fn show(state: State, asked: Option<u64>) {
    let shown = state.curves.with_untracked(|curves| {
        let list = curves.hardest.nearest(asked)?.clone();
        Some(Shown { asked, list })
    });
    if shown.is_some() {
        state.hardest.set(shown);
    }
}

/// The panel beside the plots.
#[component]
pub(crate) fn Hardest(state: State) -> impl IntoView {
    let none = move || state.hardest.read().is_none();
    let said = move || {
        match &*state.hardest.read() {
        None => "Click a step in the plot of triplets, or press its button: the rows that were hardest to place are \
                 listed here."
            .to_owned(),
        Some(Shown { asked, list }) => sentence(*asked, list),
    }
    };
    let lines = move || {
        let shown = state.hardest.read();
        let triplets = shown.as_ref().map_or(&[][..], |shown| &shown.list.triplets);
        triplets.iter().map(line).collect_view()
    };
    let age = move || {
        let curves = state.curves.read();
        let age = curves.age.filter(|_| curves.config.memory() > 0)?;
        Some(format!(
            " are {:.1} steps old on average, {} at most.",
            age.mean, age.oldest
        ))
    };
    view! {
        <section class="hardest" data-testid="hardest-triplets" aria-label="Hardest triplets">
            <h2>"Hardest triplets"</h2>
            <p role="status">{said}</p>
            <table hidden=none>
                <thead>
                    <tr>
                        <th><Term term=terms::ANCHOR/></th>
                        <th>"farthest " <Term term=terms::POSITIVE/></th>
                        <th>"nearest " <Term term=terms::NEGATIVE/></th>
                    </tr>
                </thead>
                <tbody>{lines}</tbody>
            </table>
            <p data-testid="memory-age" hidden=move || age().is_none()><Term term=terms::MEMORY_AGE/> {age}</p>
        </section>
    }
}

/// Sentence on the step of the list.
fn sentence(asked: Option<u64>, list: &HardestTriplets) -> String {
    let step = list.step;
    match asked {
        _ if list.triplets.is_empty() => {
            format!(
                "Step {step} had no triplet: no row had one of its own class and one of another to compare with."
            )
        }
        Some(asked) if asked != step => {
            format!(
                "Step {step}, the nearest to step {asked} that is kept. Rows, with their similarity to the anchor:"
            )
        }
        _ => format!("Step {step}. Rows, with their similarity to the anchor:"),
    }
}

/// Table row of a triplet. Rows are counted from 0, as in the files that are saved.
fn line(triplet: &HardTriplet) -> impl IntoView + use<> {
    let HardTriplet {
        anchor,
        positive,
        negative,
        class,
        negative_class,
        s_ap,
        s_an,
    } = triplet.clone();
    view! {
        <tr>
            <td>{anchor} <small title=class.clone()>"class "{class.clone()}</small></td>
            <td>{positive} <small>{format!("{s_ap:.3}")}</small></td>
            <td>
                {negative}
                <small title=negative_class.clone()>{format!("{s_an:.3}, class ")}{negative_class.clone()}</small>
            </td>
        </tr>
    }
}
