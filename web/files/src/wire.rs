//! Encoding of messages between the page and a worker, or between two workers: bytes, with fields in order. Code that reads fields
//! by their names, as JSON's does, is several times as large. Both crates compile this file.

use js_sys::Uint8Array;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::{JsCast, JsValue};

/// Encodes a message for posting; `mark` ends it.
pub(crate) fn written(message: &impl Serialize, mark: &[u8]) -> JsValue {
    let mut bytes = postcard::to_allocvec(message).expect("messages are plain data");
    bytes.extend(mark);
    Uint8Array::from(&bytes[..]).into()
}

/// Decodes a posted message; `None` if it is malformed or ends in another mark.
pub(crate) fn read<T: DeserializeOwned>(posted: &JsValue, mark: &[u8]) -> Option<T> {
    let bytes = posted.dyn_ref::<Uint8Array>()?.to_vec();
    postcard::from_bytes(bytes.strip_suffix(mark)?).ok()
}
