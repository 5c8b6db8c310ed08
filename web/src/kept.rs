//! Texts that the browser keeps for this page alone: other folders of the same host share its storage, so each key has the folder's
//! path in it.

use js_sys::{Array, Function, Promise, Reflect};
use leptos::prelude::window;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// Has the browser keep a text.
pub(crate) fn keep(key: &str, text: &str) {
    if let Ok(Some(storage)) = window().local_storage() {
        storage.set_item(&named(key), text).ok();
    }
}

/// The kept text, or else the one that an earlier version of the page kept for all folders of the host.
pub(crate) fn kept(key: &str) -> Option<String> {
    let storage = window().local_storage().ok()??;
    let found = storage.get_item(&named(key)).ok()?;
    found.or_else(|| storage.get_item(key).ok()?)
}

fn named(key: &str) -> String {
    let path = window().location().pathname().unwrap_or_default();
    let (folder, _) = path.rsplit_once('/').unwrap_or_default();
    [key, " ", folder, "/"].concat()
}

/// Calls a function of the page's scripts, `group.name`, and waits for its result.
///
/// # Errors
/// The exception that was thrown.
pub(crate) async fn call(
    scope: &JsValue,
    group: &str,
    name: &str,
    given: &[&JsValue],
) -> Result<JsValue, JsValue> {
    let group = Reflect::get(scope, &group.into())?;
    let function: Function = Reflect::get(&group, &name.into())?.dyn_into()?;
    let given: Array = given.iter().copied().collect();
    JsFuture::from(Promise::resolve(&function.apply(&group, &given)?)).await
}

/// Message of a browser's error.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn why(error: JsValue) -> String {
    let get = |key: &str| Reflect::get(&error, &key.into()).ok()?.as_string();
    if get("name").as_deref() == Some("QuotaExceededError") {
        return "the browser's storage for this page is full".to_owned();
    }
    let message = get("message").filter(|message| !message.is_empty());
    message.unwrap_or_else(|| "the browser gives this page no storage".to_owned())
}
