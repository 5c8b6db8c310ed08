//! [`BlobNow`]: a browser's file that is read synchronously, which only a worker may do.

use js_sys::Uint8Array;
use send_wrapper::SendWrapper;
use wasm_bindgen::JsValue;
use web_sys::{Blob, FileReaderSync};

use crate::base::error::{Error, Result};

/// A browser's file. Readers require a type that can be sent between threads; a worker has one thread, so it is never sent.
#[derive(Debug)]
pub(super) struct BlobNow {
    held: SendWrapper<(Blob, FileReaderSync)>,
    bytes: u64,
}

impl BlobNow {
    /// # Errors
    /// [`Error::Data`] outside of a worker.
    pub(super) fn new(name: &str, blob: Blob) -> Result<Self> {
        let reader = FileReaderSync::new();
        let reader =
            reader.map_err(|_| Error::Data(format!("{name}: a page's worker reads such files")))?;
        Ok(Self {
            bytes: blob.size() as u64,
            held: SendWrapper::new((blob, reader)),
        })
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Fills `part` with the bytes from `offset` on; returns false if they could not be read.
    pub(super) fn fetch(&self, offset: u64, part: &mut [u8]) -> bool {
        let fetch = || -> Result<Uint8Array, JsValue> {
            let (blob, reader) = &*self.held;
            let end = offset + part.len() as u64;
            let slice = blob.slice_with_f64_and_f64(offset as f64, end as f64)?;
            Ok(Uint8Array::new(
                &reader.read_as_array_buffer(&slice)?.into(),
            ))
        };
        fetch().is_ok_and(|bytes| {
            let is_whole = bytes.length() as usize == part.len();
            if is_whole {
                bytes.copy_to(part);
            }
            is_whole
        })
    }
}
