//! The columns of the data, their roles and their first cells: a look before training, and the place to choose other roles.

use leptos::html::Select;
use leptos::prelude::*;
use nearfar::{Role, TableColumn};

use crate::controls::hold;
use crate::protocol::DataSummary;
use crate::session::Session;
use crate::state::State;
use crate::words::capitalized;

/// Findings in the data, and the table of columns.
#[component]
pub(crate) fn FirstRows(state: State, session: Session) -> impl IntoView {
    let data = Memo::new(move |_| {
        let data = state.data.get();
        data.map(|data| {
            let is_sample = data.name.starts_with("sample:");
            (findings(&data), data.columns, is_sample)
        })
    });
    view! {
        {move || data.get().map(|(findings, columns, is_sample)| view! {
            <ul class="findings" data-testid="data-findings">
                {findings.into_iter().map(|finding| view! { <li>{finding}</li> }).collect_view()}
            </ul>
            <details class="preview" data-testid="data-preview" open=!is_sample>
                <summary>"Columns and first rows"</summary>
                <div class="scroll" tabindex="0" role="region" aria-label="Columns and first rows">
                    <table data-testid="columns">
                        <thead>
                            <tr><th scope="col">"Column"</th><th scope="col">"Taken for"</th></tr>
                        </thead>
                        <tbody>{columns.into_iter().map(|line| view! { <Line state session line/> }).collect_view()}</tbody>
                    </table>
                </div>
            </details>
        })}
    }
}

fn findings(data: &DataSummary) -> Vec<String> {
    let sentence = |text: &String| format!("{}.", capitalized(text));
    data.findings.iter().map(sentence).collect()
}

/// Table row of a column: its name and first cells, a menu of the roles that it can have, and the reason for its role.
#[component]
fn Line(state: State, session: Session, line: TableColumn) -> impl IntoView {
    let (name, cells) = (line.column.name.clone(), line.first.join(", "));
    let known = line.clone();
    let reason = move || known.with(&state.config.read()).reason;
    let taken_for = match line.named {
        true => view! { <RoleMenu state session line/> }.into_any(),
        false => line.column.role.name().into_any(),
    };
    view! {
        <tr>
            <th scope="row">{name}<small>{cells}</small></th>
            <td>{taken_for}<small>{reason}</small></td>
        </tr>
    }
}

#[component]
fn RoleMenu(state: State, session: Session, line: TableColumn) -> impl IntoView {
    let named = line.clone();
    let role = move || named.with(&state.config.read()).role.name().to_owned();
    let select = NodeRef::<Select>::new();
    hold(select, role, state);
    let (many, numbers, own) = (line.many, line.numbers, line.column.role);
    let can_be = move |role: Role| match role {
        Role::Ignored => true,
        Role::Feature => numbers,
        Role::Id => own == Role::Id,
        Role::Label | Role::Group | Role::Split => !many,
    };
    let options = Role::ALL.into_iter().filter(|(role, _)| can_be(*role));
    let options = options.map(|(_, name)| view! { <option value=name>{name}</option> });
    let name = line.column.name.clone();
    view! {
        <select
            data-testid=format!("role-{name}") aria-label=format!("What {name} is taken for") node_ref=select
            on:change=move |event| {
                let chosen = event_target_value(&event);
                if let Some((role, _)) = Role::ALL.into_iter().find(|(_, name)| *name == chosen) {
                    session.choose_role(&line, role);
                }
            }
        >{options.collect_view()}</select>
    }
}
