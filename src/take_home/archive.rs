//! Files in one ZIP archive, as they are: weights and embeddings do not get smaller, and every archive of the same files has
//! the same bytes.

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::TakenFile;
use crate::error::{Error, Result};

/// The archive of these files.
///
/// # Errors
/// [`Error::Io`] where they are more than an archive takes.
pub fn archive(files: &[TakenFile]) -> Result<Vec<u8>> {
    let failed = |error: zip::result::ZipError| Error::Io {
        what: "writing the ZIP archive".to_owned(),
        source: error.into(),
    };
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let large = file.bytes.len() as u64 >= u64::from(u32::MAX);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(large);
        archive
            .start_file(file.path.as_str(), options)
            .map_err(failed)?;
        let written = archive.write_all(&file.bytes);
        written.map_err(|source| failed(source.into()))?;
    }
    Ok(archive.finish().map_err(failed)?.into_inner())
}
