//! [`Tensor`]: name, shape and bytes of a tensor, with what was assumed of it.

use super::number::joined;

/// A tensor by its shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tensor {
    /// The tensor in words.
    pub(super) name: String,
    /// `512 x 65,536 x 65,536 x 1 byte`; empty if sizes are missing.
    pub(super) shape: String,
    pub(super) bytes: Option<u64>,
    /// Bytes of all that is there at the peak of the call that makes it.
    pub(super) peak: Option<u64>,
    pub(super) assumed: Vec<String>,
}

pub(super) fn product(sizes: &[u64]) -> u64 {
    sizes
        .iter()
        .fold(1, |product, size| product.saturating_mul(*size))
}

impl Tensor {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// With a shape whose elements take `each` bytes.
    pub(super) fn of(mut self, sizes: &[u64], each: u64) -> Self {
        let unit = if each == 1 { "byte" } else { "bytes" };
        self.shape = format!("{} x {each} {unit}", joined(sizes));
        self.bytes = Some(product(sizes).saturating_mul(each));
        self
    }

    pub(super) fn peak(mut self, peak: u64) -> Self {
        self.peak = Some(peak.max(self.bytes.unwrap_or(0)));
        self
    }

    pub(super) fn assuming(mut self, assumed: Vec<String>) -> Self {
        self.assumed.extend(assumed);
        self
    }
}
