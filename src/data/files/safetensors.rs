//! safetensors: named tensors, as Hugging Face's libraries write them. Takes a file, lists its tensors; the byte range of each is
//! checked against shape and type before one is read.

use ::safetensors::Dtype;
use ::safetensors::tensor::{SafeTensorError, SafeTensors};

use super::NamedFile;
use super::array::{Array, full_name};
use super::npy::{Header, Kind};
use crate::base::error::{Error, Result};
use crate::base::quote::cut;

/// Reads the header.
///
/// # Errors
/// [`Error::Data`] for a file that is no safetensors file, is cut short or damaged, or holds no tensor.
pub(super) fn open(file: &NamedFile) -> Result<Vec<Array>> {
    let refuse = |problem: String| Error::Data(format!("{}: {problem}", file.name));
    let failed = |error: SafeTensorError| {
        refuse(match (&file.bytes[..], error) {
            ([], _) => "the file is empty".to_owned(),
            (
                _,
                SafeTensorError::MetadataIncompleteBuffer | SafeTensorError::InvalidHeaderLength,
            ) => "the file is cut short or damaged: copy or save it again".to_owned(),
            (_, error) => format!(
                "not a safetensors file ({}): `safetensors.torch.save_file({{\"X\": x, \"y\": y}}, path)` writes one",
                cut(&error.to_string())
            ),
        })
    };
    let (header, _) = SafeTensors::read_metadata(&file.bytes).map_err(failed)?;
    let tensors = SafeTensors::deserialize(&file.bytes).map_err(failed)?;
    let mut infos: Vec<_> = tensors.iter().collect();
    // In the order of the file.
    infos.sort_unstable_by_key(|(name, tensor)| (tensor.data().as_ptr(), *name));
    let mut place = SIZE_BYTES + header;
    let mut arrays = Vec::new();
    for (name, tensor) in infos {
        let shape: Vec<u64> = tensor.shape().iter().map(|side| *side as u64).collect();
        let header =
            element(tensor.dtype()).map(|(kind, bytes)| Header::plain(kind, bytes, &shape));
        let bytes = tensor.data().len();
        arrays.push(Array {
            name: name.to_owned(),
            place,
            shape,
            packed: bytes as u64,
            bytes: bytes as u64,
            header: header.map_err(|what| {
                let full = full_name(&file.name, name);
                format!("{full}: elements of type {what} are not read: save them as float32")
            }),
        });
        place += bytes;
    }
    if arrays.is_empty() {
        return Err(refuse("there is no tensor in it".to_owned()));
    }
    Ok(arrays)
}

/// Bytes of the header's length at the start of a file.
const SIZE_BYTES: usize = 8;

/// Type of an element and its bytes; or the name of a type that is not read.
fn element(dtype: Dtype) -> Result<(Kind, usize), String> {
    Ok(match dtype {
        Dtype::BOOL | Dtype::U8 => (Kind::Unsigned, 1),
        Dtype::U16 => (Kind::Unsigned, 2),
        Dtype::U32 => (Kind::Unsigned, 4),
        Dtype::U64 => (Kind::Unsigned, 8),
        Dtype::I8 => (Kind::Signed, 1),
        Dtype::I16 => (Kind::Signed, 2),
        Dtype::I32 => (Kind::Signed, 4),
        Dtype::I64 => (Kind::Signed, 8),
        Dtype::F16 => (Kind::Float, 2),
        Dtype::BF16 => (Kind::Brain, 2),
        Dtype::F32 => (Kind::Float, 4),
        Dtype::F64 => (Kind::Float, 8),
        other => return Err(format!("{other:?}")),
    })
}

#[cfg(test)]
mod tests {
    use ::safetensors::serialize;
    use ::safetensors::tensor::TensorView;

    use super::*;
    use crate::data::files::arrays::{Arrays, read_labelled};
    use crate::data::{Choice, Labelled};

    fn file(tensors: &[(&str, Dtype, &[usize], &[u8])]) -> NamedFile {
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            let view = TensorView::new(*dtype, shape.to_vec(), bytes);
            (*name, view.expect("as many bytes"))
        });
        NamedFile {
            name: "x.safetensors".to_owned(),
            bytes: serialize(views, None).expect("is written"),
        }
    }

    fn pair() -> NamedFile {
        // 1, 2, 3, -4 as bfloat16.
        let x = [0x80, 0x3f, 0x00, 0x40, 0x40, 0x40, 0x80, 0xc0];
        file(&[
            ("y", Dtype::I8, &[2], &[7, 0xff]),
            ("X", Dtype::BF16, &[2, 2], &x),
        ])
    }

    fn read(file: &NamedFile) -> Result<Labelled> {
        read_labelled(Arrays::open(file)?, Choice::default(), &|_| ())
    }

    #[test]
    fn tensors_are_read_by_their_shapes() {
        let rows = read(&pair()).expect("reads");
        assert_eq!((rows.values, rows.dim), (vec![1.0, 2.0, 3.0, -4.0], 2));
        assert_eq!(rows.labels, ["7", "-1"][..]);
    }

    #[test]
    fn no_damage_goes_further_than_a_refusal() {
        let whole = pair();
        let damaged = |bytes: Vec<u8>| NamedFile {
            name: "x.safetensors".to_owned(),
            bytes,
        };
        for length in 0..whole.bytes.len() {
            let error = read(&damaged(whole.bytes[..length].to_vec())).expect_err("cut");
            assert!(error.to_string().starts_with("x.safetensors: "), "{error}");
        }
        for at in 0..whole.bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = whole.bytes.clone();
                bytes[at] ^= change;
                if let Err(error) = read(&damaged(bytes)) {
                    assert!(error.to_string().starts_with("x.safetensors"), "{error}");
                }
            }
        }
    }

    #[test]
    fn types_that_are_not_read_are_named() {
        let error = read(&file(&[
            ("X", Dtype::F8_E4M3, &[2, 2], &[0; 4]),
            ("y", Dtype::U8, &[2], &[0, 1]),
        ]));
        assert_eq!(
            error.expect_err("refused").to_string(),
            "x.safetensors:X: elements of type F8_E4M3 are not read: save them as float32"
        );
    }
}
