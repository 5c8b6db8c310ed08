//! Rows to check: rows that are likely mislabelled, by their neighbours, and classes that are taken for one another. A person accepts
//! the likely label of a row or passes over it, by keys too, and saves the labels that change.

use leptos::prelude::*;
use nearfar::{Confusion, Pictures, Piece, RowsOf, RowsToCheck, Suspect};
use web_sys::KeyboardEvent;

use crate::focus;
use crate::map::Picture;
use crate::protocol::{Command, LISTED};
use crate::session::Session;
use crate::state::{Phase, State};
use crate::words::{grouped, time};

/// Parts of all rows, for each of which a head is trained without it.
const HEADS: f64 = 5.0;

/// The buttons, and the rows that they found.
#[component]
pub(crate) fn Checks(state: State, session: Session) -> impl IntoView {
    let checks = state.checks;
    let off = move || (!state.can_take_home()).to_string();
    let cannot = move || !checks.going.get() && !can_check(state);
    let found = move || {
        let check = checks.found.read();
        check.as_ref().map(|check| found(session, check))
    };
    let text = move || match checks.going.get() {
        true => "Stop checking",
        false => "Check the label of every row",
    };
    let takes = move || match state.curves.read().elapsed_ms {
        ms if ms > 0.0 => time(HEADS * ms),
        _ => "five times as long as the run".to_owned(),
    };
    view! {
        <div class="checks">
            <div class="ask">
                <button data-testid="check-every-row" class:primary=can_check_now(state) aria-disabled=move || cannot().to_string() on:click=move |_| session.check_every_row()>{text}</button>
                <p class="muted">
                    "Each row is judged by a head that did not train on it: five heads are trained anew, each without a fifth of the rows ("
                    {takes} "). Listed are rows with eight or more of their ten nearest rows in one other class, as deep in it as its own rows are; rows of which the features alone say so, too."
                </p>
            </div>
            <div class="ask">
                <button data-testid="find-rows-to-check" aria-disabled=off on:click=move |_| session.find_rows_to_check()>"Find rows to check"</button>
                <p class="muted">
                    "At once, by the head of this run: among the rows on the map alone."
                </p>
            </div>
            <div data-testid="rows-to-check" role="status">{found}</div>
        </div>
    }
}

/// Tells if every row can be checked: a run is over, or waits.
fn can_check(state: State) -> bool {
    state.can_take_home() && [Phase::Paused, Phase::Finished].contains(&state.phase.get())
}

fn can_check_now(state: State) -> impl Fn() -> bool + Copy {
    move || can_check(state) && state.checks.found.read().is_none()
}

impl Session {
    /// Starts or stops checking every row.
    fn check_every_row(&self) {
        let going = self.state.checks.going;
        if going.get_untracked() {
            self.send(&Command::StopChecking, &[]);
        } else if untrack(|| can_check(self.state)) {
            going.set(true);
            self.send(&Command::CheckEveryRow, &[]);
        }
    }

    /// Asks for the rows to check of the side that the map shows.
    fn find_rows_to_check(&self) {
        if untrack(|| self.state.can_take_home()) {
            let side = self.side_on_map();
            self.send(&Command::FindRowsToCheck { side }, &[]);
        }
    }

    /// Takes in the rows to check, and asks for the names of those that are listed.
    pub(crate) fn take_checked(&self, found: Option<RowsToCheck>, pictures: Option<Pictures>) {
        let listed = found.iter().flat_map(|found| &found.suspects).take(LISTED);
        self.ask_names(listed.map(|suspect| suspect.row).collect());
        self.state.checks.take(found, pictures);
    }

    /// Saves all rows to check as a file.
    fn save_rows_to_check(&self) {
        let found = self.state.checks.found.get_untracked();
        let by_folds =
            |found: &RowsToCheck| found.suspects.iter().any(|of| of.by_features.is_some());
        match found.filter(by_folds) {
            Some(found) => self.send(&Command::SaveSuspects(Box::new(found)), &[]),
            None => {
                let command = Command::TakeHome {
                    piece: Piece::RowsToCheck,
                    side: self.side_on_map(),
                    linear: false,
                };
                self.send(&command, &[]);
            }
        }
    }

    /// Saves the labels that a person changed.
    fn save_changes(&self) {
        let changes = untrack(|| self.state.checks.changes());
        if !changes.is_empty() {
            self.send(&Command::SaveChanges(changes), &[]);
        }
    }

    fn side_on_map(&self) -> RowsOf {
        let side = self
            .state
            .map
            .with_untracked(|map| map.as_ref().and_then(|map| map.side));
        side.map_or(RowsOf::default(), RowsOf::from)
    }

    /// Says of a listed row if it gets its likely label; said again, it is undecided.
    fn decide(&self, row: u32, accept: bool) {
        self.state.checks.decided.update(|decided| {
            if decided.insert(row, accept) == Some(accept) {
                decided.remove(&row);
            }
        });
    }
}

/// What was found in a sentence.
fn said(check: &RowsToCheck) -> String {
    let (rows, suspects) = (grouped(check.rows), check.suspects.len() as u64);
    let what = match suspects {
        0 => return format!("None of {rows} rows stands out."),
        1 => format!("One of {rows} rows looks like another class"),
        more => format!("{} of {rows} rows look like another class", grouped(more)),
    };
    let count = |head: bool, features: bool| {
        let is = |of: &&Suspect| {
            let by_features = of.by_features.is_some_and(|votes| of.is_clear(votes));
            (of.by_head, by_features) == (head, features)
        };
        grouped(check.suspects.iter().filter(is).count() as u64)
    };
    let by = match check.suspects.iter().any(|of| of.by_features.is_some()) {
        false => String::new(),
        true => format!(
            ", {} by head and features, {} by the head only, {} by the features only",
            count(true, true),
            count(true, false),
            count(false, true)
        ),
    };
    format!("{what}{by}: the label may be wrong, or the classes overlap.")
}

fn found(session: Session, check: &RowsToCheck) -> impl IntoView + use<> {
    let checks = session.state.checks;
    let suspects = check.suspects.len();
    let by_folds = check.suspects.iter().any(|of| of.by_features.is_some());
    let listed = check.suspects.iter().take(LISTED);
    let rows: Vec<u32> = listed.clone().map(|suspect| suspect.row).collect();
    let current = RwSignal::new(0);
    let lines = listed
        .enumerate()
        .map(|(at, suspect)| line(session, suspect, at, current))
        .collect_view();
    let more = (suspects > LISTED)
        .then(|| format!("The first {LISTED}, the surest first; the file has all. "));
    let confused = check.confused.iter().take(5).map(confusion).collect_view();
    let (none, never) = (suspects == 0, check.confused.is_empty());
    let count = suspects as u64;
    let state_of = move || {
        let decided = checks.decided.read();
        let accepted = decided.values().filter(|accept| **accept).count() as u64;
        let passed = decided.len() as u64 - accepted;
        format!(
            "{} accepted, {} passed, {} left.",
            grouped(accepted),
            grouped(passed),
            grouped(count - accepted - passed)
        )
    };
    let no_change = move || checks.changes().is_empty().to_string();
    view! {
        <p>{said(check)}</p>
        <p class="muted" hidden=none>
            {more} {by_folds.then_some("The numbers are neighbours of the likely class, of ten. ")} "Keys in the list: " <kbd>"A"</kbd> " accepts the likely label, " <kbd>"P"</kbd> " passes, " <kbd>"↑"</kbd> <kbd>"↓"</kbd>
            " move, " <kbd>"Enter"</kbd> " shows the row among its neighbours."
        </p>
        <table class="suspects" hidden=none data-testid="suspects" on:keydown=move |event| press(session, &event, &rows, current)>
            <thead>
                <tr>
                    <th title="Its name, or its number, counted from 0 as in the files that are saved">"row"</th>
                    <th>"label"</th><th>"likely"</th>
                    <th title="Neighbours of the likely class, of ten: the head's">{if by_folds { "head" } else { "neighbours" }}</th>
                    <th hidden=!by_folds title="The same by the features, without a head">"features"</th>
                    <th><span class="unseen">"accept or pass"</span></th>
                </tr>
            </thead>
            <tbody>{lines}</tbody>
        </table>
        <div class="buttons" hidden=none>
            <span data-testid="checked">{state_of}</span>
            <button data-testid="save-changes" aria-disabled=no_change on:click=move |_| session.save_changes()>"Save the changed labels"</button>
            <button class="quiet" data-testid="save-rows-to-check" on:click=move |_| session.save_rows_to_check()>"Save as CSV"</button>
        </div>
        <table hidden=never data-testid="confused">
            <caption>"Classes taken for another by the nearest row"</caption>
            <tbody>{confused}</tbody>
        </table>
    }
}

/// Does what a key in the list of suspects asks for.
fn press(session: Session, event: &KeyboardEvent, rows: &[u32], current: RwSignal<usize>) {
    if event.ctrl_key() || event.meta_key() || event.alt_key() {
        return;
    }
    let at = current.get_untracked();
    let next = match event.key().as_str() {
        "ArrowUp" => at.saturating_sub(1),
        "ArrowDown" => at + 1,
        key @ ("a" | "A" | "p" | "P") => {
            session.decide(rows[at], key.eq_ignore_ascii_case("a"));
            at + 1
        }
        _ => return,
    };
    event.prevent_default();
    let next = next.min(rows.len().saturating_sub(1));
    current.set(next);
    focus::on(&format!("[data-suspect=\"{next}\"]"));
}

/// Table row of a suspect; its button shows it among its neighbours.
fn line(
    session: Session,
    suspect: &Suspect,
    at: usize,
    current: RwSignal<usize>,
) -> impl IntoView + use<> {
    let (state, row) = (session.state, suspect.row);
    let name = move || state.called(row);
    let label = move || format!("Show row {} on the map", name());
    let decided = move || state.checks.decided.read().get(&row).copied();
    let of = suspect.neighbours;
    let by_folds = suspect.by_features.is_some();
    // Beside those of the features there is room for the number alone.
    let votes = move |votes: u32| match by_folds {
        true => votes.to_string(),
        false => format!("{votes} of {of}"),
    };
    let choice = move |accept: bool, text: &'static str| {
        let (verb, pressed) = (text, move || (decided() == Some(accept)).to_string());
        let key = if accept { "a" } else { "p" };
        view! {
            <button
                class="quiet" tabindex="-1" aria-keyshortcuts=key aria-label=move || format!("{verb}: row {}", name()) aria-pressed=pressed
                on:click=move |_| session.decide(row, accept)
            >{text}</button>
        }
    };
    view! {
        <tr class:accepted=move || decided() == Some(true) class:passed=move || decided() == Some(false)>
            <td>
                <button
                    class="link" data-suspect=at.to_string() tabindex=move || if current.get() == at { "0" } else { "-1" } aria-label=label
                    title=format!("Row {row}") on:click=move |_| session.choose_row(Some(row)) on:focus=move |_| current.set(at)
                ><Picture state row/>{name}</button>
            </td>
            <td class="label">{suspect.class.clone()}</td>
            <td class="likely">{suspect.likely.clone()}</td>
            <td class:muted={!suspect.by_head}>{votes(suspect.votes)}</td>
            {suspect.by_features.map(|count| view! { <td class:muted={!suspect.is_clear(count)}>{votes(count)}</td> })}
            <td class="decide">{choice(true, "Accept")}{choice(false, "Pass")}</td>
        </tr>
    }
}

fn confusion(confusion: &Confusion) -> impl IntoView + use<> {
    let Confusion {
        class,
        taken_for,
        rows,
        of,
    } = confusion.clone();
    view! { <tr><td>{class}" for "{taken_for}</td><td>{format!("{} of {} rows", grouped(rows), grouped(of))}</td></tr> }
}
