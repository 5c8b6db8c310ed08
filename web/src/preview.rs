//! The first rows of the data as they were read, and what stands out in them: a look before training.

use leptos::prelude::*;

use crate::protocol::{DataSummary, Preview};
use crate::state::{State, capitalized};

/// What stands out, and the first rows in a table.
#[component]
pub(crate) fn FirstRows(state: State) -> impl IntoView {
    let data = Memo::new(move |_| {
        let data = state.data.get();
        data.map(|data| (findings(&data), data.preview, data.dim))
    });
    view! {
        {move || data.get().map(|(findings, preview, dim)| view! {
            <ul class="findings" data-testid="data-findings">
                {findings.into_iter().map(|finding| view! { <li>{finding}</li> }).collect_view()}
            </ul>
            <details class="preview" data-testid="data-preview">
                <summary>"First rows"</summary>
                {table(preview, dim)}
            </details>
        })}
    }
}

fn findings(data: &DataSummary) -> Vec<String> {
    let sentence = |text: &String| format!("{}.", capitalized(text));
    data.findings.iter().map(sentence).collect()
}

fn table(preview: Preview, dim: usize) -> impl IntoView {
    let more = dim.saturating_sub(preview.names.len());
    let cell = |value: &f32| view! { <td>{number(f64::from(*value))}</td> };
    let rows = preview.rows.iter().map(|(class, values)| {
        view! {
            <tr><th scope="row">{class.clone()}</th>{values.iter().map(cell).collect_view()}</tr>
        }
    });
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="First rows">
            <table>
                <thead>
                    <tr>
                        <th scope="col">"Label"</th>
                        {preview.names.iter().map(|name| view! { <th scope="col">{name.clone()}</th> }).collect_view()}
                    </tr>
                </thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
        <p class="summary">{(more > 0).then(|| format!("and {more} more features"))}</p>
    }
}

/// A value in at most six characters or so.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e5).contains(&size) => {
            let text = format!("{value:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{value:.2e}"),
    }
}
