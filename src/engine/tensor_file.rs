//! [`header`]: the header of a safetensors file. The crate `safetensors` reads such files; it would write metadata in another order
//! each time.

use std::collections::BTreeMap;

use safetensors::Dtype;
use serde_json::{Map, Value};

/// The header for tensors whose bytes follow in this order: each with its name, type of elements, shape, and number of bytes.
pub(crate) fn header(
    tensors: &[(String, Dtype, Vec<usize>, usize)],
    metadata: &BTreeMap<&'static str, String>,
) -> Vec<u8> {
    let object = |parts: Vec<(&str, Value)>| {
        let mut object = Map::new();
        for (key, value) in parts {
            object.insert(key.to_owned(), value);
        }
        Value::Object(object)
    };
    let mut all = Vec::new();
    if !metadata.is_empty() {
        let metadata = metadata
            .iter()
            .map(|(key, value)| (*key, (&value[..]).into()));
        all.push(("__metadata__", object(metadata.collect())));
    }
    let mut begin = 0;
    for (name, dtype, shape, bytes) in tensors {
        let end = begin + bytes;
        let tensor = [
            // Its name in such a file is its name in the crate.
            ("dtype", format!("{dtype:?}").into()),
            ("shape", shape.clone().into()),
            ("data_offsets", vec![begin, end].into()),
        ];
        all.push((name, object(tensor.into())));
        begin = end;
    }
    let mut text = serde_json::to_vec(&object(all)).expect("it is plain data");
    // Tensors begin at a multiple of 8 bytes.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.extend(text);
    header
}
