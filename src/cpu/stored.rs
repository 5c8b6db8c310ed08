//! [`Precision`] of stored rows, and [`Rows`], which reads rows of either: IEEE half precision (binary16) takes half the bytes.
//!
//! Rounding and its inverse go by integers, as in `shaders/stored_f16.wgsl`, so that both engines store the same bits.

use serde::{Deserialize, Serialize};

use super::tile::dot;

/// Precision of stored rows. What is computed from them is f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits a component, as it was computed.
    #[default]
    F32,
    /// 16 bits a component, rounded to the nearest of IEEE binary16, of two to the even one: an error of 2^-11 of it at most.
    F16,
}

impl Precision {
    /// The names in settings, each with its name in words.
    pub const ALL: [(&str, &str); 2] = [
        ("f32", "f32: 4 bytes a number"),
        ("f16", "f16: 2 bytes a number"),
    ];

    /// The largest component that half precision holds; larger ones round to it, or to infinity.
    pub const LARGEST_F16: f32 = 65504.0;
}

/// Rows of whole vec4s, in the precision in which they are stored.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// A float a component.
    F32(&'a [f32]),
    /// A word two components, the first in its lower half.
    F16(&'a [u32]),
}

/// [`Rows`] that are written.
#[derive(Debug)]
pub enum RowsMut<'a> {
    /// A float a component.
    F32(&'a mut [f32]),
    /// A word two components, the first in its lower half.
    F16(&'a mut [u32]),
}

impl<'a> Rows<'a> {
    /// All rows, which must be floats: so are those that learn.
    pub(super) fn floats(self) -> &'a [f32] {
        match self {
            Self::F32(rows) => rows,
            Self::F16(_) => unreachable!("rows that learn are stored as f32"),
        }
    }

    /// `count` floats from the float `first` on: as they lie, or brought to `buffer`.
    #[inline(always)]
    pub(super) fn some<'b>(self, first: usize, count: usize, buffer: &'b mut Vec<f32>) -> &'b [f32]
    where
        'a: 'b,
    {
        match self {
            Self::F32(rows) => &rows[first..][..count],
            Self::F16(words) => {
                buffer.resize(count, 0.0);
                unpack(&words[first / 2..][..count / 2], buffer);
                buffer
            }
        }
    }

    /// Copies floats from the float `first` on.
    #[inline(always)]
    pub(super) fn copy(self, first: usize, to: &mut [f32]) {
        match self {
            Self::F32(rows) => to.copy_from_slice(&rows[first..][..to.len()]),
            Self::F16(words) => unpack(&words[first / 2..][..to.len() / 2], to),
        }
    }

    /// The rows at these places one after the other in `buffer`, if they are not floats: else all rows, and the places.
    pub(super) fn at<'b>(
        self,
        places: &'b mut Vec<usize>,
        stride: usize,
        buffer: &'b mut Vec<f32>,
    ) -> (&'b [f32], &'b [usize])
    where
        'a: 'b,
    {
        match self {
            Self::F32(rows) => (rows, places),
            Self::F16(words) => {
                buffer.resize(places.len() * stride, 0.0);
                for (place, row) in places.iter().zip(buffer.chunks_exact_mut(stride)) {
                    unpack(&words[place * stride / 2..][..stride / 2], row);
                }
                let count = places.len();
                places.clear();
                places.extend(0..count);
                (buffer, places)
            }
        }
    }

    /// The inner product of the rows at two places.
    pub(super) fn dot(self, a: usize, b: usize, stride: usize) -> f32 {
        /// Floats that are compared at once, a multiple of the partial sums of [`dot`].
        const AT_ONCE: usize = 16;
        match self {
            Self::F32(rows) => dot(&rows[a * stride..][..stride], &rows[b * stride..][..stride]),
            Self::F16(words) => {
                let [a, b] = [a, b].map(|place| &words[place * stride / 2..][..stride / 2]);
                let mut parts = [0.0; AT_ONCE];
                for (a, b) in a.chunks(AT_ONCE / 2).zip(b.chunks(AT_ONCE / 2)) {
                    let mut rows = [[0.0; AT_ONCE]; 2];
                    let count = 2 * a.len();
                    unpack(a, &mut rows[0][..count]);
                    unpack(b, &mut rows[1][..count]);
                    let products = rows[0].iter().zip(&rows[1]);
                    for (part, (a, b)) in parts.iter_mut().zip(products).take(count) {
                        *part += a * b;
                    }
                }
                parts.iter().sum()
            }
        }
    }
}

impl RowsMut<'_> {
    /// Stores a row of whole vec4s that begins at the float `first`.
    pub(super) fn store(&mut self, first: usize, row: &[f32]) {
        match self {
            Self::F32(rows) => rows[first..][..row.len()].copy_from_slice(row),
            Self::F16(words) => pack(row, &mut words[first / 2..][..row.len() / 2]),
        }
    }
}

/// Rounds floats to half precision, two in a word, the first in its lower half.
pub fn pack(values: &[f32], words: &mut [u32]) {
    for (word, pair) in words.iter_mut().zip(values.chunks_exact(2)) {
        *word = half(pair[0]) | half(pair[1]) << 16;
    }
}

/// The floats of words of two halves, exactly. One that is not finite comes back as 65536 or more.
#[inline(always)]
pub fn unpack(words: &[u32], values: &mut [f32]) {
    for (word, pair) in words.iter().zip(values.chunks_exact_mut(2)) {
        pair[0] = float(word & 0xffff);
        pair[1] = float(word >> 16);
    }
}

/// The bits of the nearest half-precision float, of two the even one; infinity from 65520 on.
fn half(value: f32) -> u32 {
    let bits = value.to_bits();
    let size = bits & 0x7fff_ffff;
    let rounded = if size > 0x7f80_0000 {
        0x7e00
    } else if size >= 113 << 23 {
        // Thirteen bits fall away; a carry out of the last component is infinity, as it is of larger ones.
        ((size - (112 << 23) + 0xfff + (size >> 13 & 1)) >> 13).min(0x7c00)
    } else {
        // Below 2^-14 more bits fall away, and from 25 on all of them.
        let away = (126 - (size >> 23)).min(25);
        let whole = size & 0x7f_ffff | 0x80_0000;
        (whole + (1 << (away - 1)) - 1 + (whole >> away & 1)) >> away
    };
    rounded | bits >> 16 & 0x8000
}

/// The float of the bits of a half-precision one.
#[inline(always)]
fn float(half: u32) -> f32 {
    let size = half & 0x7fff;
    // The exponent counts from -112 on; below the least of them halves are multiples of 2^-24.
    let large = f32::from_bits((size << 13) + (112 << 23));
    let small = size as f32 * (1.0 / (1 << 24) as f32);
    let value = if size < 0x400 { small } else { large };
    f32::from_bits(value.to_bits() | (half & 0x8000) << 16)
}
