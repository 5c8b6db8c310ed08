//! Reads files whose readers are large: Parquet, AnnData and other HDF5. Its wasm is fetched with the first such file, by the page's
//! worker, which starts a worker of its own with it, asks once and ends it: its memory is given back, and where a file
//! brings it down, nothing else falls.
//!
//! Asked with `[(label column, what becomes of cells without a number) as JSON, file, labels?]`, it answers `[(label columns, Labelled or an error) as JSON, values]`.
#![cfg(target_arch = "wasm32")]

use js_sys::{Array, Float32Array, Uint8Array};
use nearfar::{Choice, Error, Format, Hdf5File, Labelled, NamedFile, ParquetFile, Result};
use wasm_bindgen::prelude::*;
use web_sys::{DedicatedWorkerGlobalScope, File, FileReaderSync, MessageEvent};

fn main() {
    let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
    let asked = scope.clone();
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        let Ok(parts) = event.data().dyn_into::<Array>() else {
            return;
        };
        let json = parts.get(0).as_string().unwrap_or_default();
        let (label, missing) = serde_json::from_str(&json).unwrap_or((None::<String>, None));
        let choice = Choice {
            labels: label.as_deref(),
            missing,
            ..Choice::default()
        };
        let mut files = parts.iter().filter_map(|part| part.dyn_into::<File>().ok());
        if let Some(data) = files.next() {
            answer(&asked, read(&data, files.next().as_ref(), choice));
        }
    });
    scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
}

/// The names that the labels could have, and what was read.
fn read(data: &File, labels: Option<&File>, choice: Choice<'_>) -> (Vec<String>, Result<Labelled>) {
    let mut columns = Vec::new();
    let mut read = || {
        let labels = labels.map(whole).transpose()?;
        if let Some(labels) = &labels {
            columns = Labelled::label_choices(labels);
        }
        let (name, blob) = (data.name(), data.clone().into());
        let format = Format::of(&name).filter(|_| !name.to_lowercase().ends_with(".gz"));
        let (own, read) = match format {
            Some(Format::Hdf5) => {
                let data = Hdf5File::of_blob(name, blob)?;
                let own = || data.label_choices();
                (
                    labels.is_none().then(own),
                    data.labelled(labels.as_ref(), choice),
                )
            }
            Some(Format::Parquet) => {
                let data = ParquetFile::of_blob(name, blob)?;
                let own = || data.label_choices();
                (
                    labels.is_none().then(own),
                    data.labelled(labels.as_ref(), choice),
                )
            }
            _ => {
                let data = whole(data)?;
                let own = || Labelled::label_choices(&data);
                (
                    labels.is_none().then(own),
                    Labelled::read(&data, labels.as_ref(), choice),
                )
            }
        };
        if let Some(own) = own {
            columns = own;
        }
        read
    };
    let read = read();
    (columns, read)
}

/// A file with its content.
fn whole(file: &File) -> Result<NamedFile> {
    let name = file.name();
    let reader = FileReaderSync::new();
    let content = reader.and_then(|reader| reader.read_as_array_buffer(file));
    let content = content.map_err(|_| {
        Error::Data(format!(
            "{name}: the file cannot be read any more: choose it again"
        ))
    })?;
    let bytes = Uint8Array::new(&content.into()).to_vec();
    NamedFile { name, bytes }.unpacked()
}

fn answer(scope: &DedicatedWorkerGlobalScope, (columns, read): (Vec<String>, Result<Labelled>)) {
    let refused = |error: Error| (error.to_string(), matches!(error, Error::Cells(_)));
    let mut read = read.map_err(refused);
    let values = read.as_mut().map(|read| std::mem::take(&mut read.values));
    let values = Float32Array::from(&values.unwrap_or_default()[..]).buffer();
    let json = serde_json::to_string(&(columns, read)).expect("rows are plain data");
    let handed_over = Array::of1(&values.into());
    let message = Array::of1(&json.into()).concat(&handed_over);
    scope
        .post_message_with_transfer(&message, &handed_over)
        .ok();
}
