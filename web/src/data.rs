//! The data: a sample or dropped files, a summary of what was read, and the choice of the label column.

use leptos::html::{Input, Select};
use leptos::prelude::*;
use nearfar::{DataReport, Format, IMAGINED, Missing};
use wasm_bindgen::JsCast as _;
use web_sys::{DataTransfer, DragEvent, File, FileList, HtmlInputElement};

use crate::controls::hold;
use crate::doctor::Doctor;
use crate::preview::FirstRows;
use crate::protocol::DataSummary;
use crate::session::Session;
use crate::source::SAVED;
use crate::state::State;
use crate::terms::{self, About, Term};
use crate::words::{LISTED, capitalized, grouped, sample_text};

/// Controls to choose the data, and a summary of it.
#[component]
pub(crate) fn Data(state: State, session: Session) -> impl IntoView {
    let sample = move || sample(state.data.read().as_ref());
    let other = move || match *state.data.read() {
        Some(_) => "your files",
        None => "choose ..",
    };
    let select = NodeRef::<Select>::new();
    hold(select, sample, state);
    let dropping = move || state.brought.held_over.get();
    // Changes with the run, not with its steps.
    let run = Memo::new(move |_| state.curves.read().data.clone());
    view! {
        <section class="data" class:fixed=!state.lesson.with_value(|lesson| lesson.shows("data")) aria-label="Data">
            <div class="titled">
                <label for="dataset-select">"Data"</label>
                <About
                    of="Data" text="The table that the network learns from and is judged on: a sample, or a file of your own, which stays on this computer. Choose \"No data yet\" to see what memory and time some size of data would take."
                />
            </div>
            <select
                id="dataset-select" data-testid="dataset-select" node_ref=select
                on:change=move |event| session.choose_sample(event_target_value(&event))
            >
                <option value="" disabled=true hidden=move || !sample().is_empty()>{other}</option>
                {LISTED.map(|name| view! { <option value=name>{sample_text(name)}</option> })}
                <option value=IMAGINED>"No data yet: plan memory and time"</option>
            </select>
            <label class="file" class:over=dropping>
                "Drop a table here, or choose one: a row for each item, a column with its label."
                <input
                    type="file" multiple=true accept=accepted() data-testid="dataset-file" on:change=move |event| take_files(&event, session)
                />
            </label>
            <p class="summary">
                <Term term=terms::FILES/> " "
                <button class="link" data-testid="only-pictures" on:click=move |_| state.brought.pictures.set(Some(String::new()))>"Only pictures?"</button>
            </p>
            // `reopen.js` shows it if files can be opened again.
            <button id="reopen" class="link" hidden=true></button>
            <p class="summary" data-testid="dataset-summary">
                {move || state.data.read().as_ref().map(summary)}
            </p>
            <Imagined state session/>
            <LabelColumn state session/>
            <MissingCells state session/>
            <NamedBy state session/>
            <FirstRows state session/>
            <p class="summary">{move || split(&run.read(), state.curves.read_untracked().config.test_queries)}</p>
            <p class="summary" data-testid="data-decided">
                {move || decided(&run.read(), state.data.read().as_ref())}
                <ScaleSwitch state run/>
            </p>
        </section>
    }
}

/// Opens the files that were chosen.
fn take_files(event: &web_sys::Event, session: Session) {
    let input = event.target();
    if let Some(input) = input.and_then(|input| input.dyn_into::<HtmlInputElement>().ok()) {
        session.choose_files(files(input.files()));
        // Lets the same files be chosen again, after they were mended.
        input.set_value("");
    }
}

/// Name of the sample that the data is; empty if it is none.
fn sample(data: Option<&DataSummary>) -> String {
    match data.and_then(|data| data.name.strip_prefix("sample:")) {
        Some(name) if !LISTED.contains(&name) => IMAGINED.to_owned(),
        name => name.unwrap_or_default().to_owned(),
    }
}

/// Inputs for the sizes of imagined data. All three are read anew whenever one is changed: what stands in them is what is planned,
/// however fast a person types.
#[component]
fn Imagined(state: State, session: Session) -> impl IntoView {
    let sizes = Memo::new(move |_| {
        let data = state.data.read();
        let data = data.as_ref().filter(|data| data.imagined);
        data.map(|data| [data.rows, data.dim, data.classes])
    });
    let inputs = [(); 3].map(|()| NodeRef::<Input>::new());
    let typing = StoredValue::new([false; 3]);
    fill(state, sizes, inputs, typing);
    let enter = move || {
        let mut sizes = [0_usize; 3];
        for (size, input) in sizes.iter_mut().zip(inputs) {
            let text = input
                .get_untracked()
                .map_or_else(String::new, |it| it.value());
            let Ok(entered) = text.trim().parse() else {
                return state.say(format!(
                    "\"{text}\" is no number of rows, features or classes"
                ));
            };
            *size = entered;
        }
        let [rows, dim, classes] = sizes;
        session.choose_sample(format!("{rows}x{dim}x{classes}"));
    };
    let size = move |at: usize, name: &'static str| {
        let set = move |is: bool| typing.update_value(|typing| typing[at] = is);
        view! {
            <div class="knob">
                <label for=format!("imagined-{at}")>{name}</label>
                <input
                    id=format!("imagined-{at}") type="number" min="1" node_ref=inputs[at]
                    on:input=move |_| set(true)
                    on:change=move |_| {
                        set(false);
                        enter();
                    }
                    on:blur=move |_| set(false)
                />
            </div>
        }
    };
    view! {
        <div class="controls" hidden=move || sizes.read().is_none()>
            {size(0, "Rows")} {size(1, "Features")} {size(2, "Classes")}
            <p class="summary">"What a run on such data would take stands above the map, for any settings below. The page's link carries it."</p>
            <Doctor state session/>
        </div>
    }
}

/// Puts the sizes that are planned into their inputs, unless others are asked for already, or an input is being typed into.
fn fill(
    state: State,
    sizes: Memo<Option<[usize; 3]>>,
    inputs: [NodeRef<Input>; 3],
    typing: StoredValue<[bool; 3]>,
) {
    let shown = StoredValue::new(None);
    Effect::new(move || {
        let (sizes, reading) = (sizes.get(), state.reading.get());
        let all = inputs.map(|input| input.get());
        let [Some(rows), Some(dim), Some(classes)] = all else {
            return;
        };
        if reading == 0 && sizes != shown.get_value() {
            shown.set_value(sizes);
            let texts = sizes.into_iter().flatten().map(|size| size.to_string());
            let fields = [rows, dim, classes].into_iter().zip(typing.get_value());
            for ((input, typing), text) in fields.zip(texts) {
                if !typing {
                    input.set_value(&text);
                }
            }
        }
    });
}

/// Button that makes the next run scale the columns if this run does not, and leave them if it does.
#[component]
fn ScaleSwitch(state: State, run: Memo<DataReport>) -> impl IntoView {
    let set = move || format!("standardize={}", !run.read().standardized);
    let text = move || match run.read().standardized {
        true => "Do not scale",
        false => "Scale them",
    };
    let mended = move || state.config.read().with_set(&set()).ok();
    let holds = Memo::new(move |_| mended().is_none_or(|config| config == *state.config.read()));
    let turn = move |_| {
        if let Some(config) = untrack(mended) {
            state.config.set(config);
        }
    };
    view! {
        <span hidden=move || run.read().rows == 0>
            <button class="link" data-testid="scale-switch" hidden=move || holds.get() on:click=turn>{text}</button>
            <span hidden=move || !holds.get()>"Set for the next run."</span>
        </span>
    }
}

/// Menu of the label column, if there is a choice.
#[component]
fn LabelColumn(state: State, session: Session) -> impl IntoView {
    // The label column; empty if it is not among the choices.
    let current = move || {
        let choice = state.label.read();
        let current = choice.current.clone();
        let current = current.filter(|current| choice.columns.contains(current));
        current.unwrap_or_default()
    };
    let options = move || {
        let columns = state.label.get().columns.into_iter();
        columns
            .map(|column| view! { <option value=column.clone()>{column.clone()}</option> })
            .collect_view()
    };
    let name = move || match &state.label.read().of {
        Some(files) => format!("Label column of {files}"),
        None => "Label column".to_owned(),
    };
    let select = NodeRef::<Select>::new();
    hold(select, current, state);
    view! {
        <div class="knob" hidden=move || state.label.read().columns.is_empty()>
            <div class="titled">
                <label for="label-column">{name}</label>
                <About
                    of="a label column" text="The column that says which rows belong together: rows with the same label should end up side by side. It was guessed by its name and what is in it."
                />
            </div>
            <select
                id="label-column" data-testid="label-column" node_ref=select
                on:change=move |event| session.choose_label(event_target_value(&event))
            >
                <option value="" disabled=true hidden=move || !current().is_empty()>"choose .."</option>
                {options}
            </select>
        </div>
    }
}

/// Menu of the treatment of cells without a number, if the files have such.
#[component]
fn MissingCells(state: State, session: Session) -> impl IntoView {
    let current = move || state.label.read().missing;
    let named = move || {
        let mut all = Missing::ALL.iter();
        let known = all.find(|(_, missing, _)| Some(*missing) == current());
        known
            .map(|(name, ..)| (*name).to_owned())
            .unwrap_or_default()
    };
    let select = NodeRef::<Select>::new();
    hold(select, named, state);
    view! {
        <div class="knob above" hidden=move || current().is_none()>
            <div class="titled">
                <label for="missing-cells">"Cells without a number"</label>
                <About
                    of="done with cells without a number" text="What becomes of cells that are empty, not finite or no number: a network can take none of them. The median of a column is a fair guess; rows or columns that lack much are better left out."
                />
            </div>
            <select
                id="missing-cells" data-testid="missing-cells" node_ref=select
                on:change=move |event| {
                    if let Ok(missing) = Missing::named(&event_target_value(&event)) {
                        session.choose_missing(missing);
                    }
                }
            >
                {Missing::ALL.map(|(name, _, what)| view! { <option value=name>{what}</option> })}
            </select>
        </div>
    }
}

/// Menu of the column that names the rows, if there is one.
#[component]
fn NamedBy(state: State, session: Session) -> impl IntoView {
    let naming = Memo::new(move |_| {
        let data = state.data.read();
        data.as_ref()
            .map_or_else(Vec::new, |data| data.naming.clone())
    });
    let options = move || {
        let columns = naming.get().into_iter();
        columns
            .map(|column| view! { <option value=column.clone()>{column.clone()}</option> })
            .collect_view()
    };
    let by = move || state.names.by.get().unwrap_or_default();
    let select = NodeRef::<Select>::new();
    hold(select, by, state);
    view! {
        <div class="knob above" hidden=move || naming.read().is_empty()>
            <div class="titled">
                <label for="named-by">"Rows are called by"</label>
                <About
                    of="the column that names the rows" text="The column whose cells name the rows on the map, in lists and in the files that are saved. Unasked it is the one that has another text in every row."
                />
            </div>
            <select id="named-by" data-testid="named-by" node_ref=select on:change=move |event| session.name_by(event_target_value(&event))>
                <option value="" disabled=true hidden=true>"their numbers"</option>
                {options}
            </select>
        </div>
    }
}

/// Opens files that are dropped anywhere on the page, also over a dialog: the browser would leave the page for them.
pub(crate) fn take_drops(session: Session) {
    let dropping = session.state.brought.held_over;
    window_event_listener(leptos::ev::dragover, move |event: DragEvent| {
        event.prevent_default();
        dropping.set(true);
    });
    window_event_listener(leptos::ev::dragleave, move |event: DragEvent| {
        // With a related target, the drag only went from one part of the page to another.
        if event.related_target().is_none() {
            dropping.set(false);
        }
    });
    window_event_listener(leptos::ev::drop, move |event: DragEvent| {
        event.prevent_default();
        dropping.set(false);
        let Some(dropped) = event.data_transfer() else {
            return;
        };
        let files = files(dropped.files());
        if let Some(folder) = folder(&dropped) {
            session.state.error.set(None);
            session.state.say(format!(
                "{folder} is a folder, and folders cannot be read: drop the files in it. Of pictures make vectors first, as \
                 \"Only pictures?\" says"
            ));
        } else if !files.is_empty() {
            session.choose_files(files);
        }
    });
}

/// The name of the first folder among what was dropped.
fn folder(dropped: &DataTransfer) -> Option<String> {
    let items = dropped.items();
    let entries = (0..items.length())
        .filter_map(|i| items.get(i))
        .filter_map(|item| item.webkit_get_as_entry().ok().flatten());
    entries
        .into_iter()
        .find(|entry| entry.is_directory())
        .map(|entry| entry.name())
}

fn files(list: Option<FileList>) -> Vec<File> {
    let list = list
        .into_iter()
        .flat_map(|list| (0..list.length()).filter_map(move |i| list.get(i)));
    list.collect()
}

/// Endings of the files that can be chosen, as a file input takes them.
fn accepted() -> String {
    let endings = Format::endings().chain(["gz"]);
    let endings = endings.map(|ending| format!(".{ending}"));
    let all: Vec<String> = endings.chain(SAVED.map(str::to_owned)).collect();
    all.join(",")
}

/// Sizes of the splits in words, once a run has begun.
fn split(data: &DataReport, test_queries: usize) -> impl IntoView + use<> {
    let [train, validation, test] =
        [data.train, data.validation, data.test].map(|rows| grouped(rows as u64));
    let asked = (test_queries > 0 && test_queries < data.test).then(|| {
        let asked = grouped(test_queries as u64);
        format!(" {asked} of those are scored, drawn by the seed, each against all of them.")
    });
    let among = terms::among_training(data.validation_among_train);
    (data.train > 0).then(|| {
        view! {
            "This run trains on " {train} " rows. " {validation} " " <Term term=terms::VALIDATION name="validation rows"/>
            " are scored while it goes on" {among.map(|among| format!(" ({among})"))} ", " {test} " " <Term term=terms::TEST name="test rows"/> " once, at the end." {asked}
        }
    })
}

/// Notes on decisions of the run about its data, without those made while reading.
fn decided(run: &DataReport, data: Option<&DataSummary>) -> String {
    let known = data.map_or(&[][..], |data| &data.notes);
    let own = run.notes.iter().filter(|note| !known.contains(note));
    own.map(|note| format!("{}. ", capitalized(note))).collect()
}

/// Summary of the data in a few words.
fn summary(data: &DataSummary) -> impl IntoView + use<> {
    let [smallest, largest] = data.class_sizes;
    let sizes = if smallest == largest {
        format!("{smallest}")
    } else {
        format!("{smallest} to {largest}")
    };
    let mut names = data.first_classes.join(", ");
    if data.classes > data.first_classes.len() {
        names.push_str(" and more");
    }
    let what = if data.name.starts_with("sample:") {
        String::new()
    } else {
        format!("{}: ", data.name)
    };
    // Notes that the table of columns shows are left out.
    let is_table = data.columns.iter().any(|line| line.named);
    let in_table = |note: &&String| {
        is_table && (note.starts_with("label = ") || note.starts_with("left out: \""))
    };
    let notes = data.notes.iter().filter(|note| !in_table(note));
    let notes: String = notes
        .map(|note| format!(" {}.", capitalized(note)))
        .collect();
    let features = if data.dim == 1 { "feature" } else { "features" };
    let rows_each = if largest == 1 {
        " row each: "
    } else {
        " rows each: "
    };
    let [rows, dim, classes] =
        [data.rows, data.dim, data.classes].map(|count| grouped(count as u64));
    view! {
        {what} {rows} " rows of " {dim} " " <Term term=terms::FEATURES name=features/> "; " {classes} " " <Term term=terms::CLASSES/> " of "
        {sizes} {rows_each} {names} "." {notes}
    }
}
