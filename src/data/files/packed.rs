//! Files packed by gzip: inflated as they are read, and never to more than measured data does.

use std::io::{BufRead as _, BufReader, Cursor, Read, Seek, SeekFrom};

use super::NamedFile;
use super::format::GZ;
use super::named_file::damaged_data;
use crate::base::error::{Error, Result};
use crate::base::ledger::Bytes;

/// Bytes that gzip's files begin with.
pub(super) const GZIP: &[u8] = b"\x1f\x8b";

/// Bytes that a file may inflate to for any size of its own.
pub(super) const MAX_FREE_BYTES: u64 = 256 << 20;

/// Bytes that a packed byte may inflate to if that is more: deflate reaches 1,032 with zeros, and rarely 100 with measured data.
pub(super) const MAX_RATIO: u64 = 256;

/// Bytes that are inflated at once.
const PART_BYTES: u64 = 1 << 20;

/// Bytes that a packed byte may claim to inflate to: room for those is made at once, before they are inflated.
const LIKELY_RATIO: u64 = 16;

/// Inflates `bytes` bytes of gzip data, and passes the content to `take` part by part.
///
/// # Errors
/// [`Error::Data`] when they are damaged or inflate to more than measured data does; what `take` says.
pub(super) fn inflate(
    name: &str,
    packed: impl Read,
    bytes: u64,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let refuse = |problem: String| Err(Error::Data(format!("{name}: {problem}")));
    let damaged = |error| damaged_data(name, &error);
    let mut packed = BufReader::new(packed);
    if !packed.fill_buf().map_err(damaged)?.starts_with(GZIP) {
        return refuse("not a compressed file: name it without .gz".to_owned());
    }
    let mut inflated = flate2::bufread::MultiGzDecoder::new(packed);
    let (mut part, mut held) = (vec![0; PART_BYTES as usize], 0);
    loop {
        if held > MAX_FREE_BYTES && held / MAX_RATIO > bytes {
            return refuse(format!(
                "{} compressed inflate to more than {}, as no measured data does: if it is meant, unpack it first",
                Bytes(bytes),
                Bytes(held)
            ));
        }
        let count = inflated.read(&mut part).map_err(damaged)?;
        if count == 0 {
            return Ok(());
        }
        take(&part[..count])?;
        held += count as u64;
    }
}

/// Inflated length of a packed file of `bytes` bytes, as its last four bytes claim; none if the claim is unlikely.
///
/// # Errors
/// [`Error::Data`] when they cannot be read.
pub(super) fn claimed_bytes(
    name: &str,
    packed: &mut (impl Read + Seek),
    bytes: u64,
) -> Result<Option<u64>> {
    let mut end = [0; 4];
    let mut read = || {
        packed.seek(SeekFrom::Start(bytes.saturating_sub(end.len() as u64)))?;
        packed.take(4).read_exact(&mut end)?;
        packed.rewind()
    };
    read().map_err(|error| damaged_data(name, &error))?;
    let claimed = u64::from(u32::from_le_bytes(end));
    Ok(Some(claimed).filter(|claimed| claimed / LIKELY_RATIO <= bytes))
}

impl NamedFile {
    /// Tells if a file of this name is packed.
    pub(super) fn is_packed(name: &str) -> bool {
        name.to_ascii_lowercase().ends_with(GZ)
    }

    /// Inflates `bytes` bytes of gzip data.
    ///
    /// # Errors
    /// As [`NamedFile::unpacked`].
    pub(super) fn inflated(name: String, mut packed: impl Read + Seek, bytes: u64) -> Result<Self> {
        let room = match claimed_bytes(&name, &mut packed, bytes)? {
            Some(claimed) => claimed,
            // Counted first: a vector that grows is copied, and then its content is in memory twice.
            None => {
                let mut count = 0;
                inflate(&name, &mut packed, bytes, |part| {
                    count += part.len() as u64;
                    Ok(())
                })?;
                packed
                    .rewind()
                    .map_err(|error| damaged_data(&name, &error))?;
                count
            }
        };
        let mut content = Vec::new();
        content.try_reserve_exact(room as usize).ok();
        inflate(&name, packed, bytes, |part| {
            if content.try_reserve(part.len()).is_err() {
                return Err(Error::Data(format!(
                    "{name}: what it inflates to is larger than fits the memory here"
                )));
            }
            content.extend_from_slice(part);
            Ok(())
        })?;
        let bytes = content;
        Ok(Self { name, bytes })
    }

    /// The file itself; if its name ends in `.gz`, its content inflated.
    ///
    /// # Errors
    /// [`Error::Data`] when that is damaged, would inflate to more than measured data does, or to more than the memory here.
    pub fn unpacked(self) -> Result<Self> {
        if !Self::is_packed(&self.name) {
            return Ok(self);
        }
        let Self { name, bytes } = self;
        let packed = bytes.len() as u64;
        Self::inflated(name, Cursor::new(bytes), packed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(name: &str, content: &[u8]) -> NamedFile {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gz.write_all(content).expect("is written");
        NamedFile {
            name: name.to_owned(),
            bytes: gz.finish().expect("ends"),
        }
    }

    #[test]
    fn what_is_compressed_comes_out_whole_or_is_refused() {
        let content = b"x,label\n1,a\n2,b\n";
        let whole = packed("x.csv.gz", content);
        let twice = NamedFile {
            bytes: [&whole.bytes[..], &whole.bytes].concat(),
            ..whole.clone()
        };
        let read = |file: &NamedFile| file.clone().unpacked().map(|file| file.bytes);
        assert_eq!(read(&whole).expect("inflates"), content);
        assert_eq!(read(&twice).expect("inflates"), content.repeat(2));
        for length in 0..whole.bytes.len() {
            let cut = NamedFile {
                bytes: whole.bytes[..length].to_vec(),
                ..whole.clone()
            };
            let error = read(&cut).expect_err("cut").to_string();
            assert!(error.starts_with("x.csv.gz: "), "{error}");
        }
        // The last eight bytes are a checksum and the length; before them a bit may be without a meaning.
        let sums = whole.bytes.len() - 8;
        for at in 10..whole.bytes.len() {
            let mut damaged = whole.clone();
            damaged.bytes[at] ^= 0x10;
            match read(&damaged) {
                Ok(inflated) => assert!(at < sums && inflated == content, "{at}"),
                Err(error) => assert!(error.to_string().starts_with("x.csv.gz: "), "{error}"),
            }
        }
        let plain = NamedFile {
            name: "x.csv.gz".to_owned(),
            bytes: content.to_vec(),
        };
        assert_eq!(
            read(&plain).expect_err("refused").to_string(),
            "x.csv.gz: not a compressed file: name it without .gz"
        );
    }

    #[test]
    fn a_bomb_is_refused_before_it_fills_the_memory() {
        let zeros = vec![0; (MAX_FREE_BYTES + 4 * PART_BYTES) as usize];
        let error = packed("x.npy.gz", &zeros).unpacked().expect_err("refused");
        let message = error.to_string();
        assert!(message.contains("as no measured data does"), "{message}");
    }
}
