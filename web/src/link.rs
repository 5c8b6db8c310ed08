//! The page's address, read as a [`Link`] and kept in step with the settings.

use leptos::prelude::*;
use nearfar::{Link, TrainConfig, link_pairs};
use wasm_bindgen::JsValue;

/// Reads the address of the page.
pub(crate) fn read() -> Link {
    let location = window().location();
    let settings = location.hash().unwrap_or_default();
    Link::read(&location.search().unwrap_or_default(), &settings)
}

/// The pairs of the page's query, in order.
pub(crate) fn query() -> Vec<(String, String)> {
    link_pairs(&window().location().search().unwrap_or_default())
}

/// The page's address with these settings; `defaults` are those that suit the data.
pub(crate) fn of(data: &str, config: &TrainConfig, defaults: &TrainConfig) -> String {
    let location = window().location();
    let origin = location.origin().unwrap_or_default();
    let [path, query] = [location.pathname(), location.search()].map(Result::unwrap_or_default);
    [
        &origin,
        &path,
        &query,
        "#",
        &nearfar::link(data, config, defaults),
    ]
    .concat()
}

/// Keeps the address in step with the data and the settings, without a new entry in the history.
pub(crate) fn write(data: &str, config: &TrainConfig, defaults: &TrainConfig) {
    if let Ok(history) = window().history() {
        let url = of(data, config, defaults);
        history
            .replace_state_with_url(&JsValue::NULL, "", Some(&url))
            .ok();
    }
}
