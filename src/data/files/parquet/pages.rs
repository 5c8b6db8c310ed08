//! [`Pages`] of a column, fetched, checked and unpacked for the crate that decodes their levels and values. The crate reserves
//! memory for what a page claims, so claims that are too large for the page's bytes are refused here.

use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;

use super::source::Source;
use super::thrift::{Met, Walk, unsigned};

/// Bytes that are fetched at once, at least.
const WINDOW_BYTES: u64 = 64 << 10;
/// Bytes of the longest header of a page: one may hold the least and the largest text.
const MAX_HEADER_BYTES: u64 = 16 << 20;
/// Bytes that a page may unpack to for any size of its own, and for each of its bytes if that is more.
const FREE_BYTES: u64 = 8 << 20;
const MAX_RATIO: u64 = 1024;
/// Largest window of Zstandard data: how many bytes back it may refer.
const MAX_ZSTD_WINDOW: u64 = 16 << 20;
/// Values of a page that memory is reserved for, for any size of the page, and for each of its bytes if that is more.
const FREE_VALUES: u64 = 1 << 20;
const VALUES_A_BYTE: u64 = 64;

/// Compression of the pages of a column, of those that are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packing {
    Plain,
    Snappy,
    Gzip,
    Zstd,
}

impl Packing {
    /// # Errors
    /// The name of a compression that is not read.
    pub(super) fn of(compression: Compression) -> Result<Self, &'static str> {
        match compression {
            Compression::UNCOMPRESSED => Ok(Self::Plain),
            Compression::SNAPPY => Ok(Self::Snappy),
            Compression::GZIP(_) => Ok(Self::Gzip),
            Compression::ZSTD(_) => Ok(Self::Zstd),
            Compression::LZ4 | Compression::LZ4_RAW => Err("LZ4"),
            Compression::BROTLI(_) => Err("Brotli"),
            Compression::LZO => Err("LZO"),
        }
    }

    /// Unpacks to exactly `bytes` bytes; another size is an error.
    fn unpack(self, packed: &[u8], bytes: usize) -> Result<Vec<u8>> {
        let failed = |error: &dyn std::fmt::Display| damaged(&error.to_string());
        let mut unpacked = Vec::new();
        let read = |packed: &mut dyn std::io::Read, unpacked: &mut Vec<u8>| {
            unpacked.reserve_exact(bytes);
            let read = packed.take(bytes as u64 + 1).read_to_end(unpacked);
            read.map(drop).map_err(|error| failed(&error))
        };
        match self {
            Self::Plain => unpacked.extend_from_slice(packed),
            Self::Snappy => {
                let claimed = snap::raw::decompress_len(packed);
                if claimed.map_err(|error| failed(&error))? == bytes {
                    let mut decoder = snap::raw::Decoder::new();
                    let done = decoder.decompress_vec(packed);
                    unpacked = done.map_err(|error| failed(&error))?;
                }
            }
            Self::Gzip => {
                read(
                    &mut flate2::read::MultiGzDecoder::new(packed),
                    &mut unpacked,
                )?;
            }
            Self::Zstd => {
                let most = MAX_ZSTD_WINDOW;
                let frame =
                    ruzstd::decoding::StreamingDecoder::new_with_max_window_size(packed, most);
                read(&mut frame.map_err(|error| failed(&error))?, &mut unpacked)?;
            }
        }
        match unpacked.len() == bytes {
            true => Ok(unpacked),
            false => Err(damaged("a page unpacks to another size than it claims")),
        }
    }
}

/// Error about a damaged page.
fn damaged(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

/// The fields of a page's header that are used.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    kind: i64,
    bytes: u64,
    packed: u64,
    values: u64,
    nulls: u64,
    rows: u64,
    encoding: i64,
    definition_encoding: i64,
    repetition_encoding: i64,
    definition_bytes: u64,
    repetition_bytes: u64,
    is_packed: bool,
}

/// The kinds of pages.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;

impl Header {
    /// The header at the start of `bytes`, and its length; none if it does not end within them.
    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut header = Self {
            is_packed: true,
            ..Self::default()
        };
        let length = Walk::over(bytes, |path, met| {
            let Met::Number(number) = met else {
                return;
            };
            // A negative size is more than any file holds.
            let size = number as u64;
            match path {
                [1] => header.kind = number,
                [2] => header.bytes = size,
                [3] => header.packed = size,
                [5 | 7 | 8, 1] => header.values = size,
                [5 | 7, 2] | [8, 4] => header.encoding = number,
                [5, 3] => header.definition_encoding = number,
                [5, 4] => header.repetition_encoding = number,
                [8, 2] => header.nulls = size,
                [8, 3] => header.rows = size,
                [8, 5] => header.definition_bytes = size,
                [8, 6] => header.repetition_bytes = size,
                [8, 7] => header.is_packed = number == 1,
                _ => {}
            }
        })?;
        Some((header, length))
    }
}

/// An encoding by its number in a file.
fn encoding(number: i64) -> Result<Encoding> {
    Ok(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        // A text that shares a prefix with the text before it may be of any length.
        7 => return Err(unread("DELTA_BYTE_ARRAY")),
        4 => return Err(unread("BIT_PACKED")),
        other => return Err(damaged(&format!("the encoding {other}"))),
    })
}

/// The encoding of levels; if there are none, a file may name any.
fn of_levels(number: i64, are_there: bool) -> Result<Encoding> {
    match are_there {
        true => encoding(number),
        false => Ok(Encoding::RLE),
    }
}

fn unread(encoding: &str) -> ParquetError {
    ParquetError::NYI(format!("values in the encoding {encoding}"))
}

/// The pages of a column, one after the other.
pub(super) struct Pages {
    source: Arc<Source>,
    packing: Packing,
    /// Bytes of a value of a fixed length.
    width: u64,
    has_definitions: bool,
    has_repetitions: bool,
    has_dictionary: bool,
    /// The part of the column that is left: bytes of the file, and values.
    at: u64,
    end: u64,
    values: u64,
    /// Bytes that were fetched, from `at` on.
    window: Bytes,
    /// The header of the page at `at`, and its length, if it was read already.
    next: Option<(Header, usize)>,
}

impl Pages {
    /// # Errors
    /// An error if the file does not hold the bytes of the column.
    pub(super) fn new(
        source: &Arc<Source>,
        chunk: &ColumnChunkMetaData,
        packing: Packing,
    ) -> Result<Self> {
        let data = chunk.data_page_offset();
        // Some writers give an offset although there is no dictionary.
        let dictionary = chunk.dictionary_page_offset();
        let start = dictionary
            .filter(|at| (4..data).contains(at))
            .unwrap_or(data);
        let at = u64::try_from(start).ok();
        let bytes = u64::try_from(chunk.compressed_size()).ok();
        let end = at.zip(bytes).and_then(|(at, bytes)| at.checked_add(bytes));
        let within = at.zip(end).filter(|(_, end)| *end <= source.len());
        let values = u64::try_from(chunk.num_values()).ok();
        let ((at, end), values) = within
            .zip(values)
            .ok_or_else(|| damaged("a column is said to be where the file is not"))?;
        let about = chunk.column_descr();
        let width = match about.physical_type() {
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(about.type_length()).unwrap_or(0),
            Type::BOOLEAN => 0,
        };
        Ok(Self {
            source: source.clone(),
            packing,
            width,
            has_definitions: about.max_def_level() > 0,
            has_repetitions: about.max_rep_level() > 0,
            has_dictionary: false,
            at,
            end,
            values,
            window: Bytes::new(),
            next: None,
        })
    }

    /// Fetches so that the window holds `bytes` bytes, or all that are left.
    fn fill(&mut self, bytes: u64) -> Result<()> {
        let left = self.end - self.at;
        if (self.window.len() as u64) < bytes {
            let bytes = bytes.max(WINDOW_BYTES).min(left);
            let read = self.source.read(self.at, bytes as usize);
            self.window = read.ok_or_else(|| damaged("the file cannot be read any more"))?;
        }
        Ok(())
    }

    fn step(&mut self, bytes: usize) {
        self.window = self.window.slice(bytes..);
        self.at += bytes as u64;
    }

    /// The header of the next page; none at the end.
    fn peek(&mut self) -> Result<Option<Header>> {
        if let Some((header, _)) = self.next {
            return Ok(Some(header));
        }
        if self.values == 0 || self.at == self.end {
            return Ok(None);
        }
        let mut bytes = WINDOW_BYTES.min(self.end - self.at);
        loop {
            self.fill(bytes)?;
            if let Some((header, length)) = Header::read(&self.window) {
                self.next = Some((header, length));
                return Ok(Some(header));
            }
            if bytes == self.end - self.at || bytes >= MAX_HEADER_BYTES {
                return Err(damaged("a page has no header"));
            }
            bytes = (4 * bytes).min(self.end - self.at);
        }
    }

    /// The next page; none at the end.
    fn page(&mut self) -> Result<Option<Page>> {
        loop {
            let Some(header) = self.peek()? else {
                return Ok(None);
            };
            let length = self.next.take().map_or(0, |(_, length)| length);
            if header.packed > self.end - self.at - length as u64 {
                return Err(damaged("a page ends behind its column"));
            }
            self.fill(length as u64 + header.packed)?;
            self.step(length);
            let packed = self.window.slice(..header.packed as usize);
            self.step(packed.len());
            if let DATA | DICTIONARY | DATA_V2 = header.kind {
                return self.unpacked(&header, packed).map(Some);
            }
            // An index, which is not used.
        }
    }

    fn unpacked(&mut self, header: &Header, packed: Bytes) -> Result<Page> {
        let most = FREE_BYTES.max(header.packed.saturating_mul(MAX_RATIO));
        if header.bytes > most.min(i32::MAX as u64) {
            return Err(damaged("a page claims more than its bytes unpack to"));
        }
        let is_v2 = header.kind == DATA_V2;
        let levels = match is_v2 {
            true => header.definition_bytes.checked_add(header.repetition_bytes),
            false => Some(0),
        };
        let levels = levels.filter(|levels| *levels <= header.packed.min(header.bytes));
        let levels = levels.ok_or_else(|| damaged("levels end behind their page"))? as usize;
        let buf = match self.packing {
            Packing::Plain => packed,
            _ if !header.is_packed => packed,
            packing => {
                let bytes = header.bytes as usize - levels;
                let mut buf = packed[..levels].to_vec();
                // A page without a value may have nothing to unpack.
                if bytes > 0 {
                    let values = packing.unpack(&packed[levels..], bytes)?;
                    buf = if levels == 0 {
                        values
                    } else {
                        [buf, values].concat()
                    };
                }
                buf.into()
            }
        };
        let encoding = encoding(header.encoding)?;
        if header.kind == DICTIONARY {
            let least = header.values.checked_mul(self.width);
            if self.width == 0 || least.is_none_or(|least| least > buf.len() as u64) {
                return Err(damaged("a dictionary claims more values than it has"));
            }
            self.has_dictionary = true;
            return Ok(Page::DictionaryPage {
                buf,
                num_values: header.values as u32,
                encoding,
                is_sorted: false,
            });
        }
        let left = self.values.checked_sub(header.values);
        let left =
            left.filter(|_| header.values <= i32::MAX as u64 && header.nulls <= header.values);
        self.values = left.ok_or_else(|| damaged("pages claim more values than their column"))?;
        let of_dictionary = matches!(
            encoding,
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
        );
        if of_dictionary && !self.has_dictionary {
            return Err(damaged("a page refers to a dictionary that is not there"));
        }
        self.check_room(header, &buf, encoding, levels)?;
        Ok(match is_v2 {
            true => Page::DataPageV2 {
                buf,
                num_values: header.values as u32,
                encoding,
                num_nulls: header.nulls as u32,
                num_rows: header.rows as u32,
                def_levels_byte_len: header.definition_bytes as u32,
                rep_levels_byte_len: header.repetition_bytes as u32,
                is_compressed: false,
                statistics: None,
            },
            false => Page::DataPage {
                buf,
                num_values: header.values as u32,
                encoding,
                def_level_encoding: of_levels(header.definition_encoding, self.has_definitions)?,
                rep_level_encoding: of_levels(header.repetition_encoding, self.has_repetitions)?,
                statistics: None,
            },
        })
    }

    /// Checks the claims by which alone memory is reserved: levels of lists, and lengths of texts.
    fn check_room(
        &self,
        header: &Header,
        buf: &Bytes,
        encoding: Encoding,
        levels: usize,
    ) -> Result<()> {
        let most = FREE_VALUES.max(VALUES_A_BYTE * buf.len() as u64);
        if self.has_repetitions && header.values > most {
            return Err(damaged("a page claims more values than its bytes hold"));
        }
        if encoding != Encoding::DELTA_LENGTH_BYTE_ARRAY {
            return Ok(());
        }
        let mut at = levels;
        if header.kind == DATA {
            let lists = [self.has_repetitions, self.has_definitions];
            for _ in lists.into_iter().filter(|is_there| *is_there) {
                let length = buf.get(at..).and_then(|rest| rest.first_chunk());
                let length = length.map(|length| u32::from_le_bytes(*length) as usize);
                at = at.saturating_add(length.map_or(0, |length| length.saturating_add(4)));
            }
        }
        // The size of a block, the number of its parts, and the number of lengths.
        let mut lengths = None;
        for _ in 0..3 {
            let number = buf.get(at..).and_then(unsigned);
            let (number, bytes) =
                number.ok_or_else(|| damaged("a page of texts without lengths"))?;
            lengths = Some(number);
            at += bytes;
        }
        match lengths.is_some_and(|lengths| lengths <= header.values && lengths <= most) {
            true => Ok(()),
            false => Err(damaged("a page claims more texts than it holds")),
        }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let header = self.peek()?;
        Ok(header.map(|header| PageMetadata {
            num_rows: (header.kind == DATA_V2).then_some(header.rows as usize),
            num_levels: (header.kind != DICTIONARY).then_some(header.values as usize),
            is_dict: header.kind == DICTIONARY,
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.page().map(drop)
    }
}
