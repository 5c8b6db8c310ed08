//! Malformed files, cut, flipped, inflated or made to mislead: each is refused with a sentence, and takes little memory.
//!
//! They are made here from the corpus, by a seed, and none is kept.
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be installed with it"
)]

mod common;
#[path = "../fuzz/parsers.rs"]
mod parsers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nearfar::{Choice, Labelled};
use parsers::checked;
use rand::{Rng as _, RngExt as _};

struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get() + layout.size() as i64;
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as i64);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory that reading may take beside the file and the rows that are read.
const BESIDE: i64 = 64 << 20;
/// The fewest malformed files of each format.
const AT_LEAST: usize = 600;

/// Peak of the bytes in use of this thread beyond those in use before, and the result of the work.
fn peak_of<T>(work: impl FnOnce() -> T) -> (i64, T) {
    let before = LIVE.get();
    PEAK.set(before);
    let done = work();
    (PEAK.get() - before, done)
}

/// The corpus: names and contents of files with one of these endings.
fn corpus(endings: &[&str]) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("is there")
        .map(|entry| entry.expect("is listed").path())
        .filter(|path| {
            endings
                .iter()
                .any(|ending| path.to_string_lossy().ends_with(ending))
        })
        .map(|path| {
            let name = path.file_name().expect("is a file").to_string_lossy();
            (name.into_owned(), std::fs::read(&path).expect("is read"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{endings:?}");
    files
}

/// Reads malformed files, and counts those that are refused.
#[derive(Default)]
struct Tally {
    refused: usize,
    read: usize,
    /// Number of times that each sentence came, numbers and names aside.
    sentences: HashMap<String, usize>,
    /// Violations of what every reader must keep.
    faults: Vec<String>,
}

impl Tally {
    fn take(&mut self, name: &str, bytes: &[u8], what: &str) -> Result<(), String> {
        let caught = std::panic::AssertUnwindSafe(|| peak_of(|| checked::read(name, bytes)));
        let (peak, read) = std::panic::catch_unwind(caught).unwrap_or_else(|_| {
            panic!(
                "{name}, {what}: {} bytes bring the reader down",
                bytes.len()
            )
        });
        match &read {
            Err(sentence) => {
                self.refused += 1;
                let kind = sentence.replace(|c: char| c.is_ascii_digit(), "");
                *self.sentences.entry(kind).or_default() += 1;
                let most = bytes.len() as i64 + BESIDE;
                if peak > most {
                    self.faults
                        .push(format!("{name}, {what}: {peak} bytes for {sentence}"));
                }
            }
            Ok(()) => self.read += 1,
        }
        read
    }

    /// Tests prefixes of a file; of a long one some of them, with all short ones and those near the end.
    fn cuts(&mut self, name: &str, bytes: &[u8], most: usize) {
        let step = (bytes.len() / most).max(1);
        let near_an_end = |length: &usize| *length < 64 || length + 16 > bytes.len();
        for length in (0..bytes.len()).filter(|length| length % step == 0 || near_an_end(length)) {
            self.take(name, &bytes[..length], &format!("cut at {length}"))
                .ok();
        }
    }

    /// Random changes of bytes and words of a file.
    fn flips(&mut self, name: &str, bytes: &[u8], count: usize) {
        let mut rng = common::rng(bytes.len() as u64);
        for flip in 0..count {
            let mut bytes = bytes.to_vec();
            for _ in 0..rng.random_range(1..=4) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..4) {
                    0 => bytes[at] ^= 1 << rng.random_range(0..8),
                    1 => bytes[at] = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4)],
                    2 => bytes[at] = rng.next_u32() as u8,
                    _ => {
                        // Many formats align numbers of eight bytes to multiples of eight.
                        let at = at / 8 * 8;
                        let word = [1 << 32, u64::MAX, 1 << 63, 0, 1 << 20, rng.next_u64()];
                        let word = word[rng.random_range(0..word.len())].to_le_bytes();
                        let count = word.len().min(bytes.len() - at);
                        bytes[at..at + count].copy_from_slice(&word[..count]);
                    }
                }
            }
            self.take(name, &bytes, &format!("flip {flip}")).ok();
        }
    }

    fn end(self, format: &str) {
        let Self {
            refused,
            read,
            sentences,
            faults,
        } = self;
        println!(
            "{format}: {refused} refused in {} ways, {read} read",
            sentences.len()
        );
        assert!(
            faults.is_empty(),
            "{}: {:#?}",
            faults.len(),
            &faults[..faults.len().min(20)]
        );
        assert!(refused >= AT_LEAST, "{format}: {refused} files are refused");
    }
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(content).expect("is written");
    gz.finish().expect("ends")
}

/// An NPY file with this header.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn npy_files_are_read_or_refused() {
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".npy"]) {
        tally.cuts(&name, &bytes, 60);
        tally.flips(&name, &bytes, 30);
    }
    let sides = [
        "4294967296",
        "18446744073709551615",
        "99999999999999999999",
        "-1",
        "0",
        "1e3",
        "None",
        "12, 3, 1, 1",
    ];
    for (descr, side) in [
        "<f4",
        "|O",
        "<c16",
        "|V8",
        "<U4294967295",
        "<f3",
        ">i9",
        "",
        "<M8[ns]",
    ]
    .iter()
    .flat_map(|descr| sides.iter().map(move |side| (descr, side)))
    {
        for order in ["True", "False", "1"] {
            let header =
                format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({side}, 3), }}");
            let read = tally.take("x.npy", &npy(&header, &[0; 144]), &header);
            assert!(read.is_err(), "{header}");
        }
    }
    let pickle = npy(
        "{'descr': '|O', 'fortran_order': False, 'shape': (12,), }",
        b"\x80\x04\x95cposix\nsystem\n",
    );
    let sentence = tally.take("y.npy", &pickle, "pickle").expect_err("refused");
    assert!(sentence.contains("never loaded"), "{sentence}");
    tally.end("NPY");
}

#[test]
fn npz_files_are_read_or_refused() {
    use zip::CompressionMethod::{Deflated, Stored};

    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".npz"]) {
        tally.cuts(&name, &bytes, 60);
        tally.flips(&name, &bytes, 60);
    }
    let archive = |members: &[(&str, &[u8])], method| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, content) in members {
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            zip.start_file(*name, options).expect("starts");
            zip.write_all(content).expect("is written");
        }
        zip.finish().expect("ends").into_inner()
    };
    let header =
        |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let bomb = npy(&header("(4194304, 20)"), &vec![0; 4 * 4_194_304 * 20]);
    let bytes = archive(&[("x.npy", &bomb)], Deflated);
    assert!(bytes.len() < 1 << 20);
    drop(bomb);
    assert!(tally.take("x.npz", &bytes, "bomb").is_err());
    for method in [Stored, Deflated] {
        for shape in [
            "(4294967296, 3)",
            "(12, 4294967296)",
            "(9223372036854775808,)",
            "()",
        ] {
            let x = npy(&header(shape), &[0; 144]);
            let bytes = archive(&[("X.npy", &x)], method);
            assert!(tally.take("x.npz", &bytes, shape).is_err(), "{shape}");
        }
        for name in [
            "../../x.npy",
            "<img src=x onerror=alert(1)>.npy",
            "\x1b[2Jx.npy",
            "x.txt",
        ] {
            let bytes = archive(&[(name, b"\x93NUMPY")], method);
            assert!(tally.take("x.npz", &bytes, name).is_err(), "{name}");
        }
    }
    tally.end("NPZ");
}

#[test]
fn safetensors_files_are_read_or_refused() {
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".safetensors"]) {
        tally.cuts(&name, &bytes, 120);
        tally.flips(&name, &bytes, 80);
    }
    for header in [
        r#"{"X":{"dtype":"F32","shape":[4294967296,3],"data_offsets":[0,144]}}"#,
        r#"{"X":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
        r#"{"X":{"dtype":"F32","shape":[12,3],"data_offsets":[0,18446744073709551615]}}"#,
        r#"{"X":{"dtype":"F32","shape":[12,3],"data_offsets":[144,0]}}"#,
        r#"{"X":{"dtype":"F32","shape":[12,3],"data_offsets":[0,144]},"y":{"dtype":"U8","shape":[12],"data_offsets":[100,112]}}"#,
        r#"{"X":{"dtype":"<b>","shape":[12,3],"data_offsets":[0,144]}}"#,
        r#"{"\u001b[31m":{"dtype":"F8_E4M3","shape":[12,12],"data_offsets":[0,144]}}"#,
        r#"{"X":[[[[[[[[[[[[]]]]]]]]]]]]}"#,
        "{}",
        "[]",
        "",
    ] {
        for size in [header.len() as u64, u64::MAX, 1 << 32, 0] {
            let bytes = [&size.to_le_bytes()[..], header.as_bytes(), &[0; 144]].concat();
            assert!(
                tally.take("x.safetensors", &bytes, header).is_err(),
                "{header}"
            );
        }
    }
    tally.end("safetensors");
}

#[test]
fn packed_files_are_read_or_refused() {
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".gz"]) {
        tally.cuts(&name, &bytes, 120);
        tally.flips(&name, &bytes, 80);
        // Sound on the outside.
        for length in 0..100 {
            tally
                .take(
                    &name,
                    &gz(&bytes[..length.min(bytes.len())]),
                    "packed twice",
                )
                .ok();
        }
    }
    for (name, content) in corpus(&["comma.csv", "f4.npy", "plain.npz", "alone.h5"]) {
        for length in (0..content.len()).step_by((content.len() / 60).max(1)) {
            tally
                .take(
                    &format!("{name}.gz"),
                    &gz(&content[..length]),
                    "cut, then packed",
                )
                .ok();
        }
    }
    tally.end(".gz");
}

#[test]
fn tables_and_labels_are_read_or_refused() {
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".csv", ".tsv", ".txt"]) {
        tally.cuts(&name, &bytes, 60);
        tally.flips(&name, &bytes, 60);
    }
    let lines = |label: &str| format!("x,w,label\n1,2,a\n3,4,{label}\n5,6,b\n").into_bytes();
    for label in ["", "NaN", "\"open", "a,b", "\0", "\u{fffe}\n7", "None"] {
        tally.take("x.csv", &lines(label), label).ok();
    }
    for label in [
        "<script>alert(1)</script>",
        "\u{202e}txt",
        "=1+1",
        "\x1b[31mred",
    ] {
        tally
            .take("x.csv", &lines(label), label)
            .expect("a label is any text");
    }
    let text = "größe,label\n1,é\n2,ü\n3,é\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
    for (what, bytes) in [
        ("UTF-16", [b"\xff\xfe", &utf16[..]].concat()),
        ("UTF-16 without a mark", utf16),
        ("Latin-1", latin),
        ("a pickle", b"\x80\x04\x95\x10\0\0\0\0\0\0\0".to_vec()),
        ("ragged", b"x,label\n1,a\n2\n3,b,c\n".to_vec()),
        ("one long line", vec![b','; 1 << 20]),
        ("quotes", vec![b'"'; 1 << 16]),
    ] {
        assert!(tally.take("x.csv", &bytes, what).is_err(), "{what}");
    }
    tally.end("CSV");
}

#[test]
fn json_lines_are_read_or_refused() {
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".jsonl", ".ndjson"]) {
        tally.cuts(&name, &bytes, 150);
        tally.flips(&name, &bytes, 150);
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let wide = format!("{{\"v\": [{}1], \"label\": 1}}\n", "1,".repeat(1 << 20));
    let keys: Vec<String> = (0..50_000)
        .map(|key| format!("\"k{key}\": {key}"))
        .collect();
    for (line, what) in [
        ("[1, 2]".to_owned(), "a list a line"),
        ("{\"v\": [1, 2], \"v\": [1, 2]}".to_owned(), "a key twice"),
        (
            "{\"v\": [1, 1e999], \"label\": 1}".to_owned(),
            "a number that is none",
        ),
        (
            "{\"v\": [NaN], \"label\": 1}".to_owned(),
            "a word of Python",
        ),
        ("{\"v\": \"\\ud800\"}".to_owned(), "half a character"),
        (deep, "lists in lists"),
        ("x".repeat((16 << 20) + 1), "a line without an end"),
        ("\u{feff}".to_owned(), "a mark alone"),
        ("{\"v\": []}".to_owned(), "a list of nothing"),
        ("{}".to_owned(), "an object of nothing"),
        (format!("{{{}}}", keys.join(",")), "columns without a label"),
    ] {
        let bytes = format!("{line}\n{line}\n").into_bytes();
        assert!(tally.take("x.jsonl", &bytes, what).is_err(), "{what}");
    }
    let refused = tally.take("x.jsonl", wide.as_bytes(), "a wide line");
    assert!(refused.is_err_and(|message| message.contains("more than 262,144 values")));
    tally.end("JSON Lines");
}

#[test]
fn hdf5_files_are_read_or_refused() {
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".h5", ".h5ad"]) {
        tally.cuts(&name, &bytes, 40);
        tally.flips(&name, &bytes, 60);
    }
    // Every number of eight bytes in turn: lengths, sides, offsets and addresses among them.
    for (name, bytes) in corpus(&["alone.h5", "chunked.h5", "words.h5", "latest.h5"]) {
        for at in (0..bytes.len() - 7).step_by(8) {
            let old = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("are eight"));
            if old == 0 || old > 1 << 40 {
                continue;
            }
            for new in [
                1 << 32,
                u64::MAX / 2,
                u64::MAX - 1,
                old + (1 << 24),
                bytes.len() as u64 - 8,
            ] {
                let mut bytes = bytes.clone();
                bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
                tally
                    .take(&name, &bytes, &format!("{old} at {at} is {new}"))
                    .ok();
            }
        }
    }
    tally.end("HDF5");
}

#[test]
fn parquet_files_are_read_or_refused() {
    silence_guarded_panics();
    let mut tally = Tally::default();
    for (name, bytes) in corpus(&[".parquet", ".pq"]) {
        tally.cuts(&name, &bytes, 25);
        tally.flips(&name, &bytes, 60);
    }
    // Every byte in turn of pages and of the file's metadata: kinds, lengths, counts and offsets among them.
    for (name, bytes) in corpus(&[
        "required.parquet",
        "polars_lists.parquet",
        "encodings.parquet",
    ]) {
        for at in 4..bytes.len() - 4 {
            for new in [
                0,
                0x7f,
                0x80,
                0xff,
                bytes[at] ^ 1,
                bytes[at].wrapping_add(1),
            ] {
                let mut bytes = bytes.clone();
                bytes[at] = new;
                tally.take(&name, &bytes, &format!("{new} at {at}")).ok();
            }
            // A number of many bytes: far more than the file holds.
            for long in [
                &[0xff, 0xff, 0xff, 0xff, 0x0f][..],
                &[0xfe, 0xff, 0xff, 0xff, 0x0f],
            ] {
                let mut bytes = bytes.clone();
                bytes.splice(at..=at, long.iter().copied());
                grow_footer(&mut bytes, at, long.len() as u32 - 1);
                tally.take(&name, &bytes, &format!("long at {at}")).ok();
            }
        }
    }
    for (bytes, what) in [
        (b"PAR1".to_vec(), "a mark alone"),
        (b"PAR1PAR1".to_vec(), "two marks"),
        (b"PAR1\0\0\0\0PAR1".to_vec(), "nothing"),
        (footer(&[0]), "a structure of nothing"),
        (footer(&[0x1c; 100_000]), "structures in structures"),
        (footer(&[0x19; 100_000]), "lists in lists"),
        (footer(&nested(50_000)), "groups in groups"),
        (footer(&nested(100)), "as many groups as no table has"),
        (footer(&children(i32::MAX)), "a group of more than there is"),
        (footer(&children(-1)), "a group of less than nothing"),
    ] {
        assert!(tally.take("x.parquet", &bytes, what).is_err(), "{what}");
    }
    tally.end("Parquet");
}

/// Silences panics that are guarded: the message of the hook takes memory.
fn silence_guarded_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !nearfar::is_guarded() {
                hook(panic);
            }
        }));
    });
}

/// Increases the length of a Parquet file's metadata after one of its bytes was replaced by more.
fn grow_footer(bytes: &mut [u8], at: usize, more: u32) {
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().expect("are four"));
    if at < end && at + length as usize >= end - more as usize {
        bytes[end..end + 4].copy_from_slice(&(length + more).to_le_bytes());
    }
}

/// A Parquet file with this metadata.
fn footer(about: &[u8]) -> Vec<u8> {
    let length = (about.len() as u32).to_le_bytes();
    [b"PAR1", about, &length, b"PAR1"].concat()
}

/// A schema of `groups` groups, each in the one before.
fn nested(groups: usize) -> Vec<u8> {
    let group = [0x35, 0, 0x18, 1, b'g', 0x15, 2, 0];
    let leaf = [0x15, 2, 0x25, 0, 0x18, 1, b'x', 0];
    let size = groups + 1;
    let size = [
        0xfc,
        (size & 127 | 128) as u8,
        (size >> 7 & 127 | 128) as u8,
        (size >> 14) as u8,
    ];
    [
        &[0x15, 2, 0x19][..],
        &size,
        &group.repeat(groups),
        &leaf,
        &[0],
    ]
    .concat()
}

/// A schema of a group that claims `count` columns.
fn children(count: i32) -> Vec<u8> {
    let mut count = (count << 1 ^ count >> 31) as u32;
    let mut bytes = vec![0x15, 2, 0x19, 0x1c, 0x48, 1, b'g', 0x15];
    while count > 127 {
        bytes.push(count as u8 | 128);
        count >>= 7;
    }
    bytes.extend([count as u8, 0, 0]);
    bytes
}

#[test]
fn what_fuzzing_began_with_and_found_is_read_or_refused() {
    silence_guarded_panics();
    for (name, parse) in parsers::PARSERS {
        let folder = format!("fuzz/corpus/{name}");
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder);
        let files = std::fs::read_dir(files).expect(&folder);
        let files: Vec<PathBuf> = files.map(|entry| entry.expect(&folder).path()).collect();
        assert!(!files.is_empty(), "{folder}");
        for path in files {
            let bytes = std::fs::read(&path).expect("is read");
            let (peak, ()) = peak_of(|| parse(&bytes));
            assert!(
                peak <= bytes.len() as i64 + BESIDE,
                "{}: {peak}",
                path.display()
            );
        }
    }
}

#[test]
fn a_file_on_the_disk_is_held_once_at_most_and_text_a_part_at_a_time() {
    const LARGE: usize = 100 << 20;
    let folder = std::env::temp_dir().join(format!("nearfar-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("is made");
    // Few rows of long cells, so that the text is what is large.
    let digits = "1".repeat(1 << 10);
    let row = |label: &str| [&vec![format!("0.{digits}"); 16].join(",")[..], label].join(",");
    let lines = [row("a"), row("b")].join("\n") + "\n";
    let header = format!("{}label\n", "x,".repeat(16));
    let csv = header + &lines.repeat(LARGE / lines.len());
    let object = |label: &str| format!("{{\"v\": [0.{digits}, 1], \"label\": \"{label}\"}}\n");
    let objects = [object("a"), object("b")].concat();
    let objects = objects.repeat(LARGE / objects.len());
    let columns = 25 << 10;
    let turned = npy(
        &format!("{{'descr': '<f4', 'fortran_order': True, 'shape': (1024, {columns}), }}"),
        &vec![0; 4 * 1024 * columns],
    );
    let zeros = vec![0; LARGE];
    let (_, h5) = corpus(&["alone.h5"]).remove(0);
    let parquet = [b"PAR1", &zeros[..], b"\0\0\0\0PAR1"].concat();
    let labels: Vec<u8> = (0..1024)
        .flat_map(|row: i64| (row % 2).to_le_bytes())
        .collect();
    let labels = npy(
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1024,), }",
        &labels,
    );
    std::fs::write(folder.join("y.npy"), labels).expect("is written");
    let whole = LARGE as i64;
    for (name, bytes, labels, held, rows) in [
        ("x.csv", csv.as_bytes().to_vec(), None, 0, true),
        (
            "ragged.csv",
            [csv.as_bytes(), b"1,a\n"].concat(),
            None,
            0,
            false,
        ),
        ("x.csv.gz", gz(csv.as_bytes()), None, 0, true),
        ("x.jsonl", objects.as_bytes().to_vec(), None, 0, true),
        ("x.jsonl.gz", gz(objects.as_bytes()), None, 0, true),
        ("x.npy", turned, Some("y.npy"), 0, true),
        ("x.h5", [&h5[..], &zeros].concat(), None, 0, false),
        (
            "x.h5.gz",
            gz(&[&h5[..], &zeros].concat()),
            None,
            whole,
            false,
        ),
        ("x.parquet.gz", gz(&parquet), None, whole, false),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("is written");
        let labels = labels.map(|name| folder.join(name));
        let (peak, read) = peak_of(|| {
            let choice = Choice::default();
            Labelled::open(&path, labels.as_deref(), choice, |_| ())
        });
        std::fs::remove_file(&path).expect("is removed");
        assert_eq!(read.is_ok(), rows, "{name}: {:?}", read.err());
        let data = read.map_or(0, |rows| 4 * rows.values.len() + 4 * rows.labels.len());
        let most = held + data as i64 + BESIDE;
        println!("{name}: {} MiB of {}", peak >> 20, most >> 20);
        assert!(peak <= most, "{name}: {peak}, expected {most} at most");
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn the_command_line_says_the_sentence_and_gives_2() {
    let folder = std::env::temp_dir().join(format!("nearfar-malformed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("is made");
    for (name, bytes) in corpus(&[
        "f4.npy",
        "plain.npz",
        "alone.safetensors",
        "comma.csv.gz",
        "chunked.h5",
        "csr.h5ad",
        "pandas.parquet",
    ]) {
        for length in [0, 9, bytes.len() / 3, bytes.len() / 2] {
            let path = folder.join(&name);
            std::fs::write(&path, &bytes[..length]).expect("is written");
            let said = std::process::Command::new(env!("CARGO_BIN_EXE_nearfar"))
                .args(["train", "--data", &name])
                .current_dir(&folder)
                .output()
                .expect("runs");
            let sentence = String::from_utf8_lossy(&said.stderr);
            assert_eq!(said.status.code(), Some(2), "{name}, {length}: {sentence}");
            assert_eq!(
                sentence.trim_end().lines().count(),
                1,
                "{name}, {length}: {sentence}"
            );
            assert!(sentence.contains(&name), "{name}, {length}: {sentence}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}
