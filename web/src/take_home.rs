//! *Take home*: the dialog that lists the pieces of a run that can be exported, and saves them to the disk.

use js_sys::{Array, Uint8Array};
use leptos::prelude::*;
use nearfar::{Bytes, Piece, RowsOf};
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use wasm_bindgen_futures::spawn_local;
use web_sys::{Blob, CanvasRenderingContext2d, HtmlAnchorElement, HtmlCanvasElement, Url};

use crate::dialog::Dialog;
use crate::kept::call;
use crate::link;
use crate::protocol::{Command, Event};
use crate::session::Session;
use crate::state::{Phase, State, TakeHome};
use crate::theme;

impl TakeHome {
    /// Applies an event about pieces; `parts` are those of the worker's message.
    pub(crate) fn apply(&self, event: Event, parts: &Array) {
        self.making.set(None);
        match event {
            Event::Pieces(sizes, code) => {
                self.sizes.set(sizes);
                self.code.set(code);
            }
            Event::Taken(name) => {
                let bytes = Uint8Array::new(&parts.get(1));
                self.said.set(match save(&name, &bytes) {
                    Ok(()) => format!("{name}: saved, {}.", Bytes(bytes.length().into())),
                    Err(_) => format!("{name}: the browser does not save it."),
                });
            }
            Event::NotTaken(message) => self.said.set(message),
            _ => {}
        }
    }
}

impl State {
    /// Tells if there is a head to take home.
    pub(crate) fn can_take_home(&self) -> bool {
        let phases = [Phase::Running, Phase::Paused, Phase::Finished];
        self.curves.read().step() > 0 && phases.contains(&self.phase.get())
    }
}

impl Session {
    /// Opens the dialog.
    pub(crate) fn take_home(&self) {
        if untrack(|| self.state.can_take_home()) {
            let TakeHome {
                open, said, linear, ..
            } = self.state.take_home;
            said.set(String::new());
            linear.set(false);
            open.set(true);
            self.list_pieces();
        }
    }

    fn list_pieces(&self) {
        let TakeHome { side, linear, .. } = self.state.take_home;
        let (side, linear) = (side.get_untracked(), linear.get_untracked());
        self.send(&Command::ListPieces { side, linear }, &[]);
    }

    fn take(&self, piece: Piece, side: RowsOf) {
        let TakeHome {
            making,
            said,
            linear,
            ..
        } = self.state.take_home;
        if making.get_untracked().is_none() {
            making.set(Some(piece));
            said.set(String::new());
            let linear = linear.get_untracked();
            let command = Command::TakeHome {
                piece,
                side,
                linear,
            };
            self.send(&command, &[]);
        }
    }
}

/// Puts a text where other programs take it from, and says so; `what` names it.
pub(crate) fn copy(text: String, what: &'static str, said: RwSignal<String>) {
    spawn_local(async move {
        let navigator = window().navigator();
        let copied = call(&navigator, "clipboard", "writeText", &[&text.into()]).await;
        said.set(match copied {
            Ok(_) => format!("{what}: copied."),
            Err(_) => {
                format!("{what}: the browser does not let the page copy it. Select it, and copy it yourself.")
            }
        });
    });
}

/// The page's address with the settings of the run, and the button that copies it.
fn address(state: State) -> impl IntoView {
    let link = Memo::new(move |_| {
        let (data, curves) = (state.data.read(), state.curves.read());
        let data = data.as_ref()?;
        Some(link::of(&data.name, &curves.config, &data.default_config))
    });
    let shown = move || link.get().unwrap_or_default();
    let said = state.take_home.said;
    view! {
        <div class="copied">
            <label>"Link to the settings of this run"
                <input type="text" readonly=true data-testid="link" prop:value=shown/>
            </label>
            <button data-testid="copy-link" on:click=move |_| copy(untrack(shown), "Link", said)>"Copy link"</button>
        </div>
    }
}

/// Lines of code that use the run, of one program at a time, with the button that copies them and the one that saves what they read.
fn code(session: Session) -> impl IntoView {
    let TakeHome {
        code,
        program,
        making,
        said,
        linear,
        ..
    } = session.state.take_home;
    let shown = Memo::new(move |_| {
        let (code, program) = (code.read(), program.read());
        let chosen = code.iter().find(|(name, ..)| *name == *program);
        chosen.or(code.first()).cloned()
    });
    let name = move || shown.get().map(|(name, ..)| name).unwrap_or_default();
    let choices = move || {
        let names = code.get().into_iter().map(|(name, ..)| name);
        let choice = |choice: String| {
            let (own, text) = (choice.clone(), choice.clone());
            let pressed = move || (name() == own).to_string();
            view! { <button aria-pressed=pressed on:click=move |_| program.set(choice.clone())>{text}</button> }
        };
        names.map(choice).collect_view()
    };
    let lines = move || shown.get().map(|(.., lines)| lines).unwrap_or_default();
    let reads = move || {
        let (_, piece, _) = shown.get()?;
        Some(match (piece, linear.get()) {
            (Piece::Safetensors, false) => "Save head.safetensors",
            (Piece::Safetensors, true) => "Save linear.safetensors",
            (Piece::Onnx, false) => "Save head.onnx",
            (Piece::Onnx, true) => "Save linear.onnx",
            (Piece::H5ad, false) => "Save all_embeddings.h5ad",
            (Piece::H5ad, true) => "Save linear_all_embeddings.h5ad",
            (_, false) => "Save all_embeddings.csv",
            (_, true) => "Save linear_all_embeddings.csv",
        })
    };
    let save = move |_| {
        if let Some((_, piece, _)) = shown.get_untracked() {
            session.take(piece, RowsOf::All);
        }
    };
    view! {
        <section class="code" aria-label="Use it in code" hidden=move || code.read().is_empty()>
            <div class="copied">
                <h3>"Use it in code"</h3>
                <span class="either" data-testid="code-program">{choices}</span>
            </div>
            <pre data-testid="code" tabindex="0">{lines}</pre>
            <div class="buttons">
                <button class="primary" data-testid="copy-code" on:click=move |_| copy(untrack(lines), "Code", said)>"Copy"</button>
                <button data-testid="save-code-file" aria-disabled=move || making.read().is_some().to_string() on:click=save>{reads}</button>
                <span class="muted">"The lines read this file, from the folder in which they run."</span>
            </div>
        </section>
    }
}

/// The choice between the head and the linear map that it is compared with, which the verdict may advise to take.
fn network(session: Session) -> impl IntoView {
    let take_home = session.state.take_home;
    let choice = move |text: &'static str, id: &'static str, of_linear: bool| {
        let pressed = move || (take_home.linear.get() == of_linear).to_string();
        let choose = move |_| {
            take_home.linear.set(of_linear);
            session.list_pieces();
        };
        view! { <button data-testid=id aria-pressed=pressed on:click=choose>{text}</button> }
    };
    view! {
        <div class="copied" hidden=move || !take_home.has_linear()>
            <h3>"Network"</h3>
            <span class="either">{choice("The head", "take-head", false)} {choice("The linear map", "take-linear", true)}</span>
            <span class="muted">"Code, its files and embeddings below are of this one."</span>
        </div>
    }
}

/// The dialog.
#[component]
pub(crate) fn Pieces(state: State, session: Session) -> impl IntoView {
    let TakeHome {
        open, side, said, ..
    } = state.take_home;
    let choose = move |event| {
        if let Ok(chosen) = event_target_value(&event).parse() {
            side.set(chosen);
            session.list_pieces();
        }
    };
    let sides = RowsOf::ALL.map(|rows| {
        view! { <option value=rows.name() selected=move || side.get() == rows>{format!("{} rows", rows.words())}</option> }
    });
    let (of_rows, whole): (Vec<_>, Vec<_>) =
        Piece::ALL.into_iter().partition(|piece| piece.is_of_rows());
    let line = |piece| line(session, piece);
    let whole = whole.into_iter().map(line).collect_view();
    let of_rows = of_rows.into_iter().map(line).collect_view();
    // The charts in sight when the dialog is opened.
    let charts = Memo::new(move |_| match open.get() {
        true => in_sight(),
        false => Vec::new(),
    });
    let picture = NodeRef::<leptos::html::Select>::new();
    let save_picture = move |_| {
        let chosen = picture.get_untracked().map(|select| select.value());
        if chosen.and_then(|testid| save_png(&testid, said)).is_none() {
            said.set("The browser does not save it.".to_owned());
        }
    };
    view! {
        <Dialog label="Take home" open close=Callback::new(move |()| open.set(false))>
            <h2>"Take home"</h2>
            {address(state)}
            {network(session)}
            {code(session)}
            <ul class="pieces">{whole}</ul>
            <label>"Rows: " <select data-testid="take-home-side" on:change=choose>{sides}</select></label>
            <ul class="pieces">{of_rows}</ul>
            <label>"A chart as it stands on the page (PNG): "
                <select data-testid="picture" node_ref=picture>
                    {move || charts.get().into_iter().map(|(testid, name)| view! { <option value=testid>{name}</option> }).collect_view()}
                </select>
            </label>
            <button data-testid="export-png" on:click=save_picture>"Save the picture"</button>
            <div class="foot">
                <p data-testid="taken" role="status">{said}</p>
                <button on:click=move |_| open.set(false)>"Close"</button>
            </div>
        </Dialog>
    }
}

/// Line of a piece: its name, its size, and the button that saves it; before the first of a kind, a heading.
fn line(session: Session, piece: Piece) -> impl IntoView {
    let TakeHome {
        sizes,
        making,
        side,
        linear,
        ..
    } = session.state.take_home;
    // Of the linear map it is the first of its files already.
    let is_twice = move || piece == Piece::Linear && linear.get();
    let said = move |text: &str| match linear.get() && piece.is_of_network() {
        true => text.replacen("The head", "The linear map", 1),
        false => text.to_owned(),
    };
    let words = move || said(piece.words());
    let size = Memo::new(move |_| {
        let sizes = sizes.read();
        sizes
            .iter()
            .find(|(other, _)| *other == piece)
            .map(|(_, size)| *size)
    });
    let text = move || match (making.get() == Some(piece), size.get()) {
        (true, _) => "Making it ..".to_owned(),
        // Of rows that are no cells there is no such file: the line is hidden.
        (_, None | Some(None)) if piece == Piece::H5ad => String::new(),
        (_, Some(Some(bytes))) => Bytes(bytes).to_string(),
        (_, Some(None)) => "none".to_owned(),
        (_, None) => "..".to_owned(),
    };
    let off = move || size.get().flatten().is_none() || making.read().is_some();
    let save = move |_| {
        if !untrack(off) {
            session.take(piece, side.get_untracked());
        }
    };
    let heading = move || piece.heading().map(said);
    view! {
        <li class="heading" hidden=piece.heading().is_none()>{heading}</li>
        <li hidden=is_twice>
            <span>{words}</span>
            <small>{text}</small>
            <button
                data-testid=format!("export-{}", piece.name()) class:primary={piece == Piece::Zip}
                aria-label=move || format!("Save: {}", words()) aria-disabled=move || off().to_string() on:click=save
            >"Save"</button>
        </li>
    }
}

/// Hands a text to the browser as a file.
pub(crate) fn save_text(name: &str, text: &str) {
    save(name, &Uint8Array::from(text.as_bytes())).ok();
}

/// Hands bytes to the browser as a file.
fn save(name: &str, bytes: &Uint8Array) -> Result<(), JsValue> {
    save_blob(name, &Blob::new_with_u8_array_sequence(&Array::of1(bytes))?)
}

/// The charts that are in sight: the `data-testid` of their canvas, and their title.
fn in_sight() -> Vec<(String, String)> {
    let Ok(canvases) = document().query_selector_all("figure canvas") else {
        return Vec::new();
    };
    let canvases = (0..canvases.length()).filter_map(|place| canvases.get(place));
    let named = canvases.filter_map(|canvas| {
        let canvas: HtmlCanvasElement = canvas.dyn_into().ok()?;
        canvas.offset_parent()?;
        let title = canvas
            .closest("figure")
            .ok()??
            .query_selector("h2")
            .ok()??;
        Some((canvas.get_attribute("data-testid")?, title.text_content()?))
    });
    named.collect()
}

/// Saves a chart as a PNG file, on the background colour of a card, and says so.
fn save_png(testid: &str, said: RwSignal<String>) -> Option<()> {
    let chart = document().query_selector(&format!("canvas[data-testid={testid}]"));
    let chart: HtmlCanvasElement = chart.ok()??.dyn_into().ok()?;
    let copy: HtmlCanvasElement = document().create_element("canvas").ok()?.dyn_into().ok()?;
    let (width, height) = (chart.width(), chart.height());
    copy.set_width(width);
    copy.set_height(height);
    let context: CanvasRenderingContext2d = copy.get_context("2d").ok()??.dyn_into().ok()?;
    let (r, g, b) = theme::color("card");
    context.set_fill_style_str(&format!("rgb({r} {g} {b})"));
    context.fill_rect(0.0, 0.0, width.into(), height.into());
    context
        .draw_image_with_html_canvas_element(&chart, 0.0, 0.0)
        .ok()?;
    let name = format!("{}.png", testid.trim_start_matches("chart-"));
    let made = Closure::once_into_js(move |blob: Blob| {
        if save_blob(&name, &blob).is_ok() {
            said.set(format!("{name}: saved, {}.", Bytes(blob.size() as u64)));
        }
    });
    copy.to_blob(made.unchecked_ref()).ok()
}

fn save_blob(name: &str, blob: &Blob) -> Result<(), JsValue> {
    let url = Url::create_object_url_with_blob(blob)?;
    let link: HtmlAnchorElement = document().create_element("a")?.dyn_into()?;
    link.set_href(&url);
    link.set_download(name);
    link.click();
    // The browser reads the blob after this turn of its event loop.
    let release = move || drop(Url::revoke_object_url(&url));
    set_timeout(release, std::time::Duration::from_secs(60));
    Ok(())
}
