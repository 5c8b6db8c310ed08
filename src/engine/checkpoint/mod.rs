//! The file of a checkpoint: a mark, a version, the run's state in JSON, its arrays, and a checksum of all of it.
//!
//! Does not depend on the contents: [`write()`] takes two sections, [`read()`] returns them. A file to read may come from anywhere:
//! every length is checked against the bytes that are there before memory is reserved for it.
//!
//! ```text
//! 8 bytes   the mark, "nearfar" and a byte that no text has
//! u32       the version of the format, 1
//! u64       bytes of the JSON, and the JSON
//! u64       bytes of the arrays, and the arrays: a safetensors file
//! u64       XXH3 of everything before
//! ```
//!
//! Numbers are little-endian. A new field of the JSON that has a default keeps the version; any other change is a new version, and
//! `tests/data/checkpoint_v1.bin` must still be read or refused by its number.

mod arrays;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub(crate) use arrays::{ArrayReader, ArrayWriter, Put};

use crate::base::error::{Error, Result};

const MARK: [u8; 8] = *b"nearfar\x1a";
const VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 8;

/// The refusal of bytes that are no whole checkpoint.
pub(crate) fn damaged(why: impl std::fmt::Display) -> Error {
    Error::Data(format!(
        "the checkpoint is damaged: {why}: use another one, or start the run again"
    ))
}

/// Tells if bytes begin as a checkpoint does, or are the start of one that was cut.
pub(crate) fn begins(file: &[u8]) -> bool {
    file.starts_with(&MARK) || MARK.starts_with(file)
}

/// Writes a file of two sections, the second of `bytes` bytes, which `arrays` writes: no part of it is held in memory.
///
/// # Errors
/// Those of `put`, and of `arrays`.
pub(crate) fn write(
    json: &str,
    bytes: usize,
    arrays: impl FnOnce(&mut Put<'_>) -> Result<()>,
    put: &mut Put<'_>,
) -> Result<()> {
    let mut sum = Xxh3::new();
    let mut summed = |part: &[u8]| {
        sum.update(part);
        put(part)
    };
    summed(&MARK)?;
    summed(&VERSION.to_le_bytes())?;
    summed(&(json.len() as u64).to_le_bytes())?;
    summed(json.as_bytes())?;
    summed(&(bytes as u64).to_le_bytes())?;
    arrays(&mut summed)?;
    put(&sum.digest().to_le_bytes())
}

/// Bytes of a file with these sections.
pub(crate) fn len(json: &str, bytes: usize) -> usize {
    MARK.len() + size_of_val(&VERSION) + 8 + json.len() + 8 + bytes + CHECKSUM_BYTES
}

/// The two sections of a file.
///
/// # Errors
/// [`Error::Data`] for another kind of file, an unknown version, and a file that is cut or changed.
pub(crate) fn read(file: &[u8]) -> Result<(&str, &[u8])> {
    let Some(rest) = file.strip_prefix(&MARK) else {
        return Err(match file.is_empty() || MARK.starts_with(file) {
            true => damaged("it is cut off"),
            false => Error::Data(
                "this is no checkpoint: give a file that a training run of Nearfar saved"
                    .to_owned(),
            ),
        });
    };
    let cut = || damaged("it is cut off");
    let (version, rest) = rest.split_first_chunk().ok_or_else(cut)?;
    // Before the checksum: a version to come may keep it elsewhere.
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(Error::Data(format!(
            "the checkpoint has version {version} of the format, and this Nearfar reads version {VERSION}: use the Nearfar that \
             saved it"
        )));
    }
    let (_, sum) = file.split_last_chunk().ok_or_else(cut)?;
    let whole = &file[..file.len() - CHECKSUM_BYTES];
    if xxh3_64(whole) != u64::from_le_bytes(*sum) {
        return Err(damaged("its checksum is not that of its content"));
    }
    let rest = rest
        .get(..rest.len().saturating_sub(CHECKSUM_BYTES))
        .ok_or_else(cut)?;
    let (json, rest) = section(rest).ok_or_else(cut)?;
    let (arrays, rest) = section(rest).ok_or_else(cut)?;
    if !rest.is_empty() {
        return Err(damaged("it is longer than it says"));
    }
    let json = std::str::from_utf8(json).map_err(|_| damaged("its settings are not text"))?;
    Ok((json, arrays))
}

/// The first section, and the bytes after it.
fn section(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(json: &str, arrays: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut put = |part: &[u8]| {
            file.extend_from_slice(part);
            Ok(())
        };
        // In two parts.
        let (first, second) = arrays.split_at(arrays.len() / 2);
        let parts = |put: &mut Put<'_>| put(first).and_then(|()| put(second));
        super::write(json, arrays.len(), parts, &mut put).expect("is written");
        assert_eq!(file.len(), len(json, arrays.len()));
        file
    }

    fn refusal(file: &[u8]) -> String {
        read(file).expect_err("refused").to_string()
    }

    /// A file with its checksum made right.
    fn summed(mut file: Vec<u8>) -> Vec<u8> {
        file.truncate(file.len() - CHECKSUM_BYTES);
        file.extend(xxh3_64(&file).to_le_bytes());
        file
    }

    #[test]
    fn two_sections_come_back() {
        let file = write("{}", &[1, 2, 3]);
        assert_eq!(read(&file).expect("is read"), ("{}", &[1u8, 2, 3][..]));
    }

    #[test]
    fn a_file_that_is_cut_or_changed_anywhere_is_refused() {
        let file = write("{\"a\": 1}", &[7; 40]);
        for end in 0..file.len() {
            assert!(refusal(&file[..end]).starts_with("the checkpoint is damaged"));
        }
        for bit in 0..8 * file.len() {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_err(), "bit {bit}");
        }
        assert!(refusal(&[&file[..], &[0]].concat()).contains("its checksum"));
        assert!(refusal(b"PK\x03\x04 and more").starts_with("this is no checkpoint"));
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let mut file = write("{}", &[]);
        file[8..12].copy_from_slice(&2u32.to_le_bytes());
        let refused = refusal(&file);
        assert!(
            refused.contains("version 2 of the format") && refused.contains("reads version 1"),
            "{refused}"
        );
    }

    #[test]
    fn lengths_that_no_file_has_are_refused_though_the_checksum_is_right() {
        let file = write("{}", &[5; 9]);
        for length in [0, 3, 11, 1 << 31, 1 << 32, 1 << 53, u64::MAX] {
            for at in [12, 22] {
                let mut file = file.clone();
                file[at..at + 8].copy_from_slice(&u64::to_le_bytes(length));
                let refused = refusal(&summed(file));
                assert!(
                    refused.starts_with("the checkpoint is damaged"),
                    "{length} at {at}: {refused}"
                );
            }
        }
    }
}
