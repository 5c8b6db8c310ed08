//! The hardest triplets of a step, by a click on the mining plot or by its button; and how old the memory's rows are.

use leptos::prelude::*;
use nearfar::{HardTriplet, HardestTriplets};

use crate::state::State;

/// Lists that are kept at most.
const MOST: usize = 512;

/// The lists of a run: every one at first, every second and so on as they become too many, and always the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Vec<HardestTriplets>);

impl Kept {
    pub(crate) fn push(&mut self, list: HardestTriplets) {
        self.0.push(list);
        if self.0.len() > MOST {
            let mut kept = false;
            self.0.retain(|_| {
                kept = !kept;
                kept
            });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The list of the step nearest to this one, the last without one.
    pub(crate) fn nearest(&self, step: Option<u64>) -> Option<&HardestTriplets> {
        let Some(step) = step else {
            return self.0.last();
        };
        self.0.iter().min_by_key(|list| list.step.abs_diff(step))
    }
}

/// A list, and the step that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    asked: Option<u64>,
    list: HardestTriplets,
}

/// Shows the list of the step nearest to this one, the last without one.
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
        None => "Click the plot of triplets at a step, or press its button: here come the anchors whose nearest \
                 negative is nearest compared with their farthest positive."
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
        let age = state.curves.read().age?;
        Some(format!(
            "Memory rows: {:.1} steps old, {} at most.",
            age.mean, age.oldest
        ))
    };
    view! {
        <section class="hardest" data-testid="hardest-triplets" aria-label="Hardest triplets">
            <h2>"Hardest triplets"</h2>
            <p role="status">{said}</p>
            <table hidden=none>
                <thead>
                    <tr><th>"anchor"</th> <th>"farthest positive"</th> <th>"nearest negative"</th></tr>
                </thead>
                <tbody>{lines}</tbody>
            </table>
            <p
                data-testid="memory-age" title="How many steps ago they were embedded, on average; the head has moved on since"
                hidden=move || age().is_none()>{age}</p>
        </section>
    }
}

/// Which step it is of, in a sentence.
fn sentence(asked: Option<u64>, list: &HardestTriplets) -> String {
    let step = list.step;
    match asked {
        _ if list.triplets.is_empty() => {
            format!("Step {step} had no triplet: no anchor had both a positive and a negative.")
        }
        Some(asked) if asked != step => {
            format!("Rows of step {step}, the nearest to step {asked} that is kept:")
        }
        _ => format!("Rows of step {step}:"),
    }
}

/// A triplet in the table. As everywhere that a person reads, the first row is row 1.
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
            <td>{anchor + 1} <small title=class.clone()>"class "{class.clone()}</small></td>
            <td>{positive + 1} <small>{format!("{s_ap:.3}")}</small></td>
            <td>
                {negative + 1}
                <small title=negative_class.clone()>{format!("{s_an:.3}, class ")}{negative_class.clone()}</small>
            </td>
        </tr>
    }
}
