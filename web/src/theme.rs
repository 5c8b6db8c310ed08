//! Light or dark theme: the system's, unless the button says otherwise. Colours live in `style.css`; plots read theirs from there.

use std::cell::RefCell;
use std::collections::HashMap;

use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::HtmlElement;

use crate::kept;

const KEY: &str = "nearfar.theme";

thread_local! {
    /// Colours of the current theme, by name. To ask for one makes the browser style what has changed: each is asked for once.
    static COLORS: RefCell<HashMap<String, (u8, u8, u8)>> = RefCell::default();
}

/// Applies the stored choice, and watches the system's.
pub(crate) fn start(changed: RwSignal<u32>) {
    if let Some(theme) = kept::kept(KEY) {
        set(&theme);
    }
    if let Ok(Some(query)) = window().match_media("(prefers-color-scheme: dark)") {
        let on_change = Closure::<dyn Fn()>::new(move || {
            forget();
            changed.update(|n| *n += 1);
        });
        query.set_onchange(Some(on_change.as_ref().unchecked_ref()));
        on_change.forget();
    }
}

/// Themes that a person can choose, and the text of the button for each.
const CHOICES: [(&str, &str); 3] = [("", "◐ Auto"), ("light", "◐ Light"), ("dark", "◐ Dark")];

/// Button that goes on to the next theme: the system's, light, dark.
#[component]
pub(crate) fn Switch(changed: RwSignal<u32>) -> impl IntoView {
    let place = move || {
        changed.track();
        let chosen = chosen().unwrap_or_default();
        let known = CHOICES.iter().position(|(theme, _)| *theme == chosen);
        known.unwrap_or(0)
    };
    let next = move |_| {
        let (theme, _) = CHOICES[(untrack(place) + 1) % CHOICES.len()];
        set(theme);
        kept::keep(KEY, theme);
        changed.update(|n| *n += 1);
    };
    view! {
        <button class="quiet theme" data-testid="theme" title="Colours: as the system says, light, or dark" on:click=next>
            {move || CHOICES[place()].1}
        </button>
    }
}

/// The chosen theme; `None` if the system decides.
fn chosen() -> Option<String> {
    let root = document().document_element();
    root.and_then(|root| root.get_attribute("data-theme"))
}

/// Forgets the colours of the last theme.
fn forget() {
    COLORS.with_borrow_mut(HashMap::clear);
}

fn set(theme: &str) {
    forget();
    if let Some(root) = document().document_element() {
        let done = match theme {
            "" => root.remove_attribute("data-theme"),
            theme => root.set_attribute("data-theme", theme),
        };
        done.ok();
    }
}

/// Tells if the current theme is the dark one.
pub(crate) fn is_dark() -> bool {
    match chosen().as_deref() {
        Some(theme) => theme == "dark",
        None => window()
            .match_media("(prefers-color-scheme: dark)")
            .is_ok_and(|query| query.is_some_and(|query| query.matches())),
    }
}

/// Size of the letters of a plot, in CSS pixels: those of `--small` in `style.css`.
pub(crate) fn letters() -> f64 {
    let root = document().document_element();
    match root.is_some_and(|root| root.class_list().contains("large")) {
        true => 16.0,
        false => 13.0,
    }
}

/// A colour of `style.css` by its name there, for the theme in use.
pub(crate) fn color(name: &str) -> (u8, u8, u8) {
    if let Some(color) = COLORS.with_borrow(|colors| colors.get(name).copied()) {
        return color;
    }
    let resolved = || {
        // Only a property that takes a colour resolves `light-dark()`. On an element that nothing inherits from: on the body
        // the whole page would be styled anew for each colour.
        let probe: HtmlElement = document().create_element("i").ok()?.dyn_into().ok()?;
        let root = document().document_element()?;
        root.append_child(&probe).ok()?;
        let style = probe.style();
        let set = style.set_property("color", &format!("var(--{name})"));
        let text = set.and_then(|()| {
            let computed = window().get_computed_style(&probe)?;
            computed.map_or(Ok(String::new()), |style| style.get_property_value("color"))
        });
        probe.remove();
        let text = text.ok()?;
        let mut channels = text
            .split(|c: char| !c.is_ascii_digit())
            .filter(|digits| !digits.is_empty())
            .map(|digits| digits.parse().unwrap_or(128));
        Some((channels.next()?, channels.next()?, channels.next()?))
    };
    let Some(color) = resolved() else {
        return (128, 128, 128);
    };
    COLORS.with_borrow_mut(|colors| colors.insert(name.to_owned(), color));
    color
}
