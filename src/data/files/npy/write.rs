//! NPY files as they are written: the start of a file, and types of elements.

use super::{MAGIC, shape_text};

/// Type of the elements of a written array.
pub trait NpyElement: bytemuck::Pod {
    /// NumPy's name of the type, with this machine's byte order.
    const DESCR: &str;
}

macro_rules! elements {
    ($($element:ty: $letters:literal),*) => {$(
        impl NpyElement for $element {
            const DESCR: &str = if cfg!(target_endian = "big") {
                concat!(">", $letters)
            } else {
                concat!("<", $letters)
            };
        }
    )*};
}

elements!(f32: "f4", f64: "f8", u32: "u4", u64: "u8");

/// The NPY file of an f32 matrix `[_, columns]`.
pub fn write_matrix(values: &[f32], columns: usize) -> Vec<u8> {
    let mut bytes = matrix_header(values.len().checked_div(columns).unwrap_or(0), columns);
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// The start of the NPY file of an f32 matrix; the rows follow, little-endian.
pub fn matrix_header(rows: usize, columns: usize) -> Vec<u8> {
    array_header("<f4", &[rows as u64, columns as u64])
}

/// The start of the NPY file of a list of triplets, `[count, 3]` u32; the triplets follow, in this machine's byte order.
#[cfg(not(target_arch = "wasm32"))]
pub fn triplets_header(count: u64) -> Vec<u8> {
    array_header(u32::DESCR, &[count, 3])
}

/// The start of the NPY file of an array, row-major; the elements follow.
pub(crate) fn array_header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let shape = shape_text(shape);
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}").into_bytes();
    // The elements begin at a multiple of 64 bytes, after a newline.
    let length = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    text.resize(length - 1, b' ');
    text.push(b'\n');
    let mut bytes = [MAGIC, &[1, 0], &(length as u16).to_le_bytes()].concat();
    bytes.extend(text);
    bytes
}
