//! The shelf: texts and files that the browser keeps for this page (`IndexedDB`), by number. Knows nothing of runs. The work is done
//! by `web/shelf.js`.

use js_sys::{Array, Object, Reflect};
use leptos::prelude::window;
use wasm_bindgen::prelude::*;
use web_sys::File;

use crate::kept::call;

/// Text and file that are kept under a number.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) text: String,
    pub(crate) file: Option<File>,
}

impl Kept {
    /// Bytes of text and file.
    pub(crate) fn bytes(&self) -> f64 {
        let file = self.file.as_ref().map_or(0.0, |file| file.size());
        self.text.len() as f64 + file
    }
}

/// Reads everything that is kept.
///
/// # Errors
/// An exception if the browser gives the page no storage.
pub(crate) async fn all() -> Result<Vec<Kept>, JsValue> {
    let found: Array = ask("all", &[]).await?.unchecked_into();
    let kept = found.iter().filter_map(|object| {
        let get = |key: &str| Reflect::get(&object, &key.into()).ok();
        Some(Kept {
            text: get("text")?.as_string()?,
            file: get("file").and_then(|file| file.dyn_into().ok()),
        })
    });
    Ok(kept.collect())
}

/// Keeps something under a number, in place of what was there, which stays if there is no room.
///
/// # Errors
/// As [`all`], and if there is no room.
pub(crate) async fn put(number: f64, kept: &Kept) -> Result<JsValue, JsValue> {
    let object = Object::new();
    Reflect::set(&object, &"text".into(), &kept.text.as_str().into())?;
    if let Some(file) = &kept.file {
        Reflect::set(&object, &"file".into(), file)?;
    }
    ask("put", &[&number.into(), &object]).await
}

/// Deletes what is kept under a number.
///
/// # Errors
/// As [`all`].
pub(crate) async fn remove(number: f64) -> Result<JsValue, JsValue> {
    ask("remove", &[&number.into()]).await
}

async fn ask(what: &str, given: &[&JsValue]) -> Result<JsValue, JsValue> {
    call(&window(), "shelf", what, given).await
}
