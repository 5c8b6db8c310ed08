//! How a message is written that goes between the page and a worker, or two workers: in bytes, its fields by their place. Code that
//! reads fields by their names, as JSON's does, is several times as large. Both compile this file.

use js_sys::Uint8Array;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::{JsCast, JsValue};

/// A message as what is posted.
pub(crate) fn written(message: &impl Serialize) -> JsValue {
    let bytes = postcard::to_allocvec(message).expect("messages are plain data");
    Uint8Array::from(&bytes[..]).into()
}

/// The message that was posted.
pub(crate) fn read<T: DeserializeOwned>(posted: &JsValue) -> Option<T> {
    let bytes = posted.dyn_ref::<Uint8Array>()?.to_vec();
    postcard::from_bytes(&bytes).ok()
}
