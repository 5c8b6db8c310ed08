//! NPZ files from the writer: equal to NumPy's own, member for member, and in a sound ZIP.

use std::io::{Cursor, Seek, SeekFrom, Write};

use nearfar::{Choice, Error, Labelled, NamedFile, NpzWriter, RowSource};

const ROWS: usize = 37;
const K: usize = 3;

/// The arrays of tests/golden/npz.py.
fn write<W: Write + Seek>(out: W) -> Result<W, Error> {
    let ids: Vec<u32> = (0..ROWS * K)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761))
        .collect();
    let similarities: Vec<f32> = (0..ROWS * K).map(|i| i as f32 / 64.0 - 1.0).collect();
    let mut npz = NpzWriter::new("neighbours.npz", out);
    npz.array("ids", &[ROWS, K], [&ids])?;
    npz.array("similarities", &[ROWS, K], similarities.chunks(7))?;
    npz.array("counts", &[3], [[0], [(1u64 << 53) + 1], [u64::MAX]])?;
    npz.array("empty", &[0, K], [] as [&[f64]; 0])?;
    npz.finish()
}

fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    let bytes = bytes[at..at + length].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The checksum of ZIP, bit by bit.
fn crc32(bytes: &[u8]) -> usize {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let crc = bytes
        .iter()
        .fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step));
    !crc as usize
}

/// Stored members of an archive by its directory, name and content, each checked against its local header and checksum.
fn members(zip: &[u8]) -> Vec<(String, &[u8])> {
    let end = zip.len() - 22;
    assert_eq!(zip[end..end + 4], *b"PK\x05\x06", "no comment follows");
    let mut at = number(zip, end + 16, 4);
    let mut members = Vec::new();
    for _ in 0..number(zip, end + 10, 2) {
        assert_eq!(zip[at..at + 4], *b"PK\x01\x02");
        assert_eq!(number(zip, at + 8, 2) & 1, 0, "not encrypted");
        assert_eq!(number(zip, at + 10, 2), 0, "stored");
        let (crc, packed, size) = (
            number(zip, at + 16, 4),
            number(zip, at + 20, 4),
            number(zip, at + 24, 4),
        );
        assert_eq!(packed, size);
        let local = number(zip, at + 42, 4);
        assert_eq!(zip[local..local + 4], *b"PK\x03\x04");
        let name = |at: usize, length: usize| String::from_utf8_lossy(&zip[at..at + length]);
        let name_length = number(zip, at + 28, 2);
        assert_eq!(
            name(local + 30, number(zip, local + 26, 2)),
            name(at + 46, name_length)
        );
        let data = local + 30 + name_length + number(zip, local + 28, 2);
        let content = &zip[data..data + size];
        assert_eq!(crc32(content), crc);
        members.push((name(at + 46, name_length).into_owned(), content));
        at += 46 + name_length + number(zip, at + 30, 2) + number(zip, at + 32, 2);
    }
    assert_eq!(at, end, "the directory ends where the end begins");
    members
}

#[test]
fn members_are_numpys_byte_for_byte() {
    let written = write(Cursor::new(Vec::new())).expect("memory takes it");
    let written = written.into_inner();
    // `python tests/golden/npz.py FILE` reads it with NumPy.
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/neighbours.npz");
    std::fs::write(path, &written).expect("is written");
    let ours = members(&written);
    let numpys = members(include_bytes!("../golden/neighbours.npz"));
    assert_eq!(ours, numpys);
    let names: Vec<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["ids.npy", "similarities.npy", "counts.npy", "empty.npy"]
    );
    for (name, content) in ours {
        let header = 10 + number(content, 8, 2);
        assert_eq!(header % 64, 0, "{name}: elements begin at a multiple of 64");
        assert_eq!(content[header - 1], b'\n');
    }
}

#[test]
fn what_is_written_is_read() {
    let mut npz = NpzWriter::new("x.npz", Cursor::new(Vec::new()));
    npz.array("X", &[2, 3], [[1.5f32, -2.0, 3.0], [4.0, 5.0, 6.0]])
        .expect("is written");
    npz.array("y", &[2], [[7u64, 1 << 60]]).expect("is written");
    let file = NamedFile {
        name: "x.npz".to_owned(),
        bytes: npz.finish().expect("is ended").into_inner(),
    };
    let rows = Labelled::read(&file, None, Choice::default()).expect("is read");
    assert_eq!((rows.dim, &rows.labels[1]), (3, "1152921504606846976"));
    assert_eq!(rows.values, [1.5, -2.0, 3.0, 4.0, 5.0, 6.0]);
    let (features, notes) = RowSource::from_arrays(&file, None).expect("is read");
    assert_eq!(features.in_memory(), Some(&rows.values[..]));
    assert_eq!(notes, ["features = \"X\" (2, 3)", "left out: \"y\" (2,)"]);
}

#[test]
#[should_panic(expected = "\"ids\" is shorter than [2, 3]")]
fn parts_that_do_not_fill_the_shape_are_a_mistake() {
    let mut npz = NpzWriter::new("x.npz", Cursor::new(Vec::new()));
    npz.array("ids", &[2, 3], [[1u32, 2, 3]]).ok();
}

/// A writer that takes this many bytes, then fails.
struct Full(Cursor<Vec<u8>>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.position() as usize + bytes.len() > self.1 {
            return Err(std::io::Error::other("the disk is full"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn an_output_that_fails_is_one_error_wherever_it_does() {
    let whole = write(Cursor::new(Vec::new())).expect("memory takes it");
    let length = whole.get_ref().len();
    for room in 0..length {
        let error = write(Full(Cursor::new(Vec::new()), room)).err();
        let error = error.expect("there is too little room");
        assert_eq!(
            (error.to_string(), error.exit_code()),
            ("writing neighbours.npz: the disk is full".to_owned(), 1)
        );
    }
    write(Full(Cursor::new(Vec::new()), length)).expect("there is room");
}
