//! [`ArrayWriter`] and [`ArrayReader`]: the arrays of a checkpoint by name, as a safetensors file.

use std::collections::BTreeMap;

use bytemuck::Pod;
use safetensors::{Dtype, SafeTensors};

use super::damaged;
use crate::base::error::Result;
use crate::base::memory::{reserve, zeros};
use crate::base::quote::said;
use crate::engine::gpu::STAGING_BYTES;
use crate::engine::pace::{Fetch, Slices};
use crate::engine::tensor_file::header;
use crate::engine::{DeviceVec, Engine};

// Arrays are written as they lie in memory.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "safetensors is little-endian"
);

/// Type of an array's elements.
pub(crate) trait Element: Send + Pod {
    const DTYPE: Dtype;

    /// Tells if a run can have reached this value.
    fn is_sound(&self) -> bool {
        true
    }
}

impl Element for u8 {
    const DTYPE: Dtype = Dtype::U8;
}

impl Element for u32 {
    const DTYPE: Dtype = Dtype::U32;
}

impl Element for u64 {
    const DTYPE: Dtype = Dtype::U64;
}

impl Element for f64 {
    const DTYPE: Dtype = Dtype::F64;
}

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;

    fn is_sound(&self) -> bool {
        self.is_finite()
    }
}

/// Receiver of the bytes of a file.
pub(crate) type Put<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Collects arrays.
#[derive(Debug, Default)]
pub(crate) struct ArrayWriter {
    arrays: Vec<(&'static str, Dtype, usize, Content)>,
    /// Places of the arrays whose bytes are on their way.
    fetched: Vec<(usize, Fetch<u8>)>,
}

/// The bytes of an array.
#[derive(Debug)]
enum Content {
    /// Bytes that are held.
    Held(Vec<u8>),
    /// Number of bytes that are made as they are written.
    Later(usize),
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Later(bytes) => *bytes,
        }
    }
}

impl ArrayWriter {
    /// Adds an array.
    ///
    /// # Errors
    /// [`crate::Error::NoMemory`].
    pub(crate) fn array<T: Element>(&mut self, name: &'static str, values: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let mut own = Vec::new();
        reserve(&mut own, bytes.len() as u64, "the checkpoint")?;
        own.extend_from_slice(bytes);
        self.arrays
            .push((name, T::DTYPE, values.len(), Content::Held(own)));
        Ok(())
    }

    /// Adds an array of `count` values that are made as they are written.
    pub(crate) fn later<T: Element>(&mut self, name: &'static str, count: usize) {
        let content = Content::Later(count * size_of::<T>());
        self.arrays.push((name, T::DTYPE, count, content));
    }

    /// Adds the first `count` elements of a vector: vectors that fit the engine's fixed buffer together are waited for together, a
    /// larger one is read a window at a time.
    ///
    /// # Errors
    /// As [`Engine::read`], and [`crate::Error::NoMemory`].
    pub(crate) async fn vector<T: Element>(
        &mut self,
        name: &'static str,
        slices: &mut Slices<'_>,
        vector: &DeviceVec<T>,
        count: usize,
    ) -> Result<()> {
        if (count * size_of::<T>()) as u64 > STAGING_BYTES {
            self.collect(slices).await?;
            let values = slices.engine().view(vector, 0, count as u64).await?;
            return self.array(name, &values);
        }
        let fetch = slices.fetch(vector, 0, count as u64).await?;
        self.fetched.push((self.arrays.len(), fetch.into_bytes()));
        let nothing_yet = Content::Held(Vec::new());
        self.arrays.push((name, T::DTYPE, count, nothing_yet));
        Ok(())
    }

    /// Waits for the vectors that were added.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn collect(&mut self, slices: &mut Slices<'_>) -> Result<()> {
        slices.collect().await?;
        for (place, fetch) in self.fetched.drain(..) {
            self.arrays[place].3 = Content::Held(slices.take(fetch));
        }
        Ok(())
    }

    /// The header of the safetensors file, and the number of bytes that follow it.
    pub(crate) fn header(&self) -> (Vec<u8>, usize) {
        let parts = self.arrays.iter().map(|(name, dtype, count, content)| {
            let (name, bytes) = ((*name).to_owned(), content.len());
            (name, *dtype, vec![*count], bytes)
        });
        let header = header(&parts.collect::<Vec<_>>(), &BTreeMap::new());
        let bytes = self.arrays.iter().map(|(_, _, _, content)| content.len());
        (header, bytes.sum())
    }

    /// Writes the bytes after the header; `later` writes an array that was added by [`ArrayWriter::later`].
    ///
    /// # Errors
    /// Those of `put`.
    pub(crate) fn write(
        &self,
        put: &mut Put<'_>,
        later: impl Fn(&str, &mut Put<'_>) -> Result<()>,
    ) -> Result<()> {
        self.arrays
            .iter()
            .try_for_each(|(name, _, _, content)| match content {
                Content::Held(bytes) => put(bytes),
                Content::Later(_) => later(name, put),
            })
    }
}

/// Reads arrays.
#[derive(Debug)]
pub(crate) struct ArrayReader<'a>(SafeTensors<'a>);

impl<'a> ArrayReader<'a> {
    /// Opens a safetensors file.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for anything else.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let arrays = SafeTensors::deserialize(bytes);
        arrays
            .map(Self)
            .map_err(|error| damaged(format_args!("its arrays do not read ({})", said(error))))
    }

    /// The bytes of the array of this name.
    fn bytes<T: Element>(&self, name: &str) -> Result<&'a [u8]> {
        let Ok(array) = self.0.tensor(name) else {
            return Err(damaged(format_args!("it has no array \"{name}\"")));
        };
        if array.dtype() != T::DTYPE {
            let (found, wanted) = (array.dtype(), T::DTYPE);
            return Err(damaged(format_args!(
                "its array \"{name}\" is of {found:?}, expected {wanted:?}"
            )));
        }
        Ok(array.data())
    }

    /// The array of this name, with all its elements.
    ///
    /// # Errors
    /// [`crate::Error::Data`] if there is none of such elements, or one of them is not finite; [`crate::Error::NoMemory`].
    pub(crate) fn array<T: Element>(&self, name: &str) -> Result<Vec<T>> {
        let bytes = self.bytes::<T>(name)?;
        let mut values = zeros::<T>((bytes.len() / size_of::<T>()) as u64, "the checkpoint")?;
        bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
        match values.iter().position(|value| !value.is_sound()) {
            None => Ok(values),
            Some(at) => Err(damaged(format_args!(
                "value {at} of its array \"{name}\" is not finite"
            ))),
        }
    }

    /// The elements of the array of this name one by one, not checked and not copied.
    ///
    /// # Errors
    /// [`crate::Error::Data`] if there is none of such elements.
    pub(crate) fn each<T: Element>(
        &self,
        name: &str,
    ) -> Result<impl ExactSizeIterator<Item = T> + 'a> {
        let elements = self.bytes::<T>(name)?.chunks_exact(size_of::<T>());
        Ok(elements.map(bytemuck::pod_read_unaligned))
    }

    /// The array of this name, which must have `count` elements.
    ///
    /// # Errors
    /// As [`ArrayReader::array`], and [`crate::Error::Data`] for more or fewer elements.
    pub(crate) fn exactly<T: Element>(&self, name: &str, count: usize) -> Result<Vec<T>> {
        let values = self.array(name)?;
        if values.len() != count {
            let found = values.len();
            return Err(damaged(format_args!(
                "its array \"{name}\" has {found} values, and its settings ask for {count}"
            )));
        }
        Ok(values)
    }

    /// Writes the array of this name to the first `count` elements of a vector.
    ///
    /// # Errors
    /// As [`ArrayReader::exactly`] and [`Engine::upload`].
    pub(crate) async fn vector<T: Element>(
        &self,
        name: &str,
        engine: &Engine,
        vector: &mut DeviceVec<T>,
        count: usize,
    ) -> Result<()> {
        engine.upload(vector, 0, &self.exactly(name, count)?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    #[test]
    fn arrays_come_back_by_name_and_only_as_what_they_are() {
        let mut writer = ArrayWriter::default();
        writer.array("a", &[1.5f32, -0.0]).expect("is taken");
        writer.array("b", &[7u32]).expect("is taken");
        writer.array::<u8>("none", &[]).expect("is taken");
        writer.array("nan", &[0.0, f32::NAN]).expect("is taken");
        writer.later::<u8>("later", 3);
        let (mut bytes, more) = writer.header();
        let begins = bytes.len();
        let made = |name: &str, put: &mut Put<'_>| {
            assert_eq!(name, "later");
            put(&[4, 5, 6])
        };
        let mut put = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        writer.write(&mut put, made).expect("is written");
        assert_eq!(bytes.len(), begins + more);
        let reader = ArrayReader::new(&bytes).expect("is read");
        let floats: Vec<f32> = reader.exactly("a", 2).expect("is there");
        assert_eq!(
            floats.into_iter().map(f32::to_bits).collect::<Vec<_>>(),
            [1.5f32, -0.0].map(f32::to_bits)
        );
        assert_eq!(reader.array::<u32>("b").expect("is there"), [7]);
        assert_eq!(reader.array::<u8>("later").expect("is there"), [4, 5, 6]);
        assert!(
            reader
                .exactly::<u8>("none", 0)
                .expect("is there")
                .is_empty()
        );
        let refused = |error: Error| error.to_string();
        let of = |name| {
            reader
                .array::<f32>(name)
                .map_err(refused)
                .expect_err("refused")
        };
        assert!(of("c").contains("no array \"c\""));
        assert!(of("b").contains("is of U32, expected F32"));
        assert!(of("nan").contains("value 1 of its array \"nan\" is not finite"));
        let short = reader.exactly::<f32>("a", 3).map_err(refused);
        assert!(
            short
                .expect_err("refused")
                .contains("has 2 values, and its settings ask for 3")
        );
    }
}
