//! Reads exported files as their readers do, before a run is called done: no file is written that would be refused.

use safetensors::SafeTensors;
use serde::de::IgnoredAny;

use super::{CHECKPOINT, Head, TakenFile, onnx, results};
use crate::base::error::{Error, Result};
use crate::data::NamedFile;
use crate::engine::checkpoint;

/// Reads one file back, by the reader for its name.
///
/// # Errors
/// [`Error::Data`] with the file's name and its reader's message.
pub(super) fn check(file: &TakenFile) -> Result<()> {
    let bytes = &file.bytes;
    let problem = match file.path.rsplit('/').next().unwrap_or_default() {
        results::HEAD | results::LINEAR => {
            let named = NamedFile {
                name: file.path.clone(),
                bytes: bytes.clone(),
            };
            Head::from_safetensors(&named).err().map(|e| e.to_string())
        }
        CHECKPOINT => checkpoint::read(bytes).err().map(|e| e.to_string()),
        name => match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "safetensors" => SafeTensors::deserialize(bytes).err().map(|e| e.to_string()),
            "json" => serde_json::from_slice::<IgnoredAny>(bytes)
                .err()
                .map(|e| e.to_string()),
            "onnx" => onnx::problem(bytes),
            _ => None,
        },
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error::Data(format!(
            "{} was made and does not read back, so it is not written: {problem}",
            file.path
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Distance;
    use crate::model::layer_weights::LayerWeights;

    #[test]
    fn a_head_that_embed_would_refuse_is_not_written() {
        let file = |weight: f32| {
            let head = Head {
                layers: vec![LayerWeights {
                    index: 0,
                    shape: [2, 1],
                    weight: vec![weight, 1.0],
                    bias: vec![0.0; 2],
                    ..LayerWeights::default()
                }],
                features: Vec::new(),
                filled: Vec::new(),
            };
            TakenFile::new(results::HEAD, head.to_safetensors(Distance::Cosine))
        };
        check(&file(1.0)).expect("reads back");
        let refused = check(&file(1e32))
            .expect_err("embed refuses it")
            .to_string();
        assert!(
            refused.contains("head.safetensors was made and does not read back"),
            "{refused}"
        );
        let mut cut = file(1.0);
        cut.bytes.truncate(40);
        assert!(check(&cut).is_err());
        assert!(check(&TakenFile::new("config.json", b"{\"steps\": }".to_vec())).is_err());
        assert!(check(&TakenFile::new(CHECKPOINT, b"none".to_vec())).is_err());
    }
}
