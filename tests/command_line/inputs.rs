//! Input from outside: bad and odd files, random damage, and settings. Each is read correctly or refused with one plain sentence;
//! nothing ends the program and nothing is misread.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use nearfar::{
    Choice, Dataset, Distance, Head, Labelled, NamedFile, NpzWriter, RowSource, TrainConfig,
};
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::program::{self, Folder, args, on_cpu};

/// Rows and columns of the small files, and classes of their labels.
const ROWS: usize = 12;
const COLUMNS: usize = 3;
const CLASSES: usize = 4;

/// Words that no message of the program has: those of its language and of its libraries.
const NOT_WORDS: [&str; 16] = [
    "panicked",
    "unwrap",
    "usize",
    "u64",
    "u32",
    "f64",
    "variant",
    "invalid type",
    "unknown field",
    "Some(",
    "Err(",
    "Error",
    "overflow",
    "assertion",
    "os error",
    "\n",
];

#[track_caller]
fn assert_plain(message: &str) {
    // As whole words: damaged text may read `dropousize`.
    let is_part = |c: char| c.is_alphanumeric();
    for word in NOT_WORDS {
        let mut found = message.match_indices(word).filter(|(at, word)| {
            let before = message[..*at].chars().next_back().is_some_and(is_part);
            let after = message[at + word.len()..]
                .chars()
                .next()
                .is_some_and(is_part);
            !(word.chars().all(is_part) && (before || after))
        });
        assert_eq!(found.next(), None, "{word:?} in {message}");
    }
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!((10..900).contains(&message.len()), "{message}");
}

fn value(row: usize, column: usize) -> f32 {
    ((row * 7 + column * 5) % 11) as f32 / 4.0 - 1.25
}

fn values() -> Vec<f32> {
    let places = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
    places.map(|(row, column)| value(row, column)).collect()
}

fn labels() -> Vec<String> {
    (0..ROWS).map(|row| format!("c{}", row % CLASSES)).collect()
}

/// NPY file with these header fields.
fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_of(
        &format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"),
        data,
    )
}

fn npy_of(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn matrix() -> Vec<u8> {
    let shape = format!("({ROWS}, {COLUMNS})");
    npy("<f4", "False", &shape, &floats(&values()))
}

/// Labels as NumPy saves text.
fn text_labels(labels: &[String]) -> Vec<u8> {
    let units = labels.iter().flat_map(|label| {
        let mut units: Vec<u32> = label.chars().map(u32::from).collect();
        units.resize(4, 0);
        units
    });
    let data: Vec<u8> = units.flat_map(u32::to_le_bytes).collect();
    npy("<U4", "False", &format!("({},)", labels.len()), &data)
}

/// An archive of these members, stored or deflated.
fn npz(members: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).expect("memory takes it");
        zip.write_all(content).expect("memory takes it");
    }
    zip.finish().expect("memory takes it").into_inner()
}

/// The table of the values and labels.
fn table(delimiter: &str, end: &str) -> String {
    let names = (0..COLUMNS).map(|column| format!("f{column}"));
    let header: Vec<String> = names.chain(["label".to_owned()]).collect();
    let rows = labels().into_iter().enumerate().map(|(row, label)| {
        let cells = (0..COLUMNS).map(|column| value(row, column).to_string());
        cells.chain([label]).collect::<Vec<_>>().join(delimiter)
    });
    let lines: Vec<String> = std::iter::once(header.join(delimiter))
        .chain(rows)
        .collect();
    lines.join(end) + end
}

fn file(name: &str, bytes: impl Into<Vec<u8>>) -> NamedFile {
    NamedFile {
        name: name.to_owned(),
        bytes: bytes.into(),
    }
}

/// Reads a file as training does, with the labels of another one if it has none; checks that refusals are plain.
fn read(file: &NamedFile, labels: Option<&NamedFile>) -> Result<Labelled, String> {
    let rows = Labelled::read(file, labels, Choice::default());
    let rows = rows.map_err(|error| {
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string()
    });
    match &rows {
        Ok(rows) => {
            assert!(rows.dim > 0 && rows.values.len() == rows.dim * rows.labels.len());
            assert!(rows.values.iter().all(|value| value.is_finite()));
            assert!(rows.labels.iter().all(|label| !label.is_empty()));
            rows.notes
                .iter()
                .for_each(|note| assert!(!note.contains('\n'), "{note}"));
        }
        Err(message) => assert_plain(message),
    }
    rows
}

/// Checks that a file reads as the values and labels.
#[track_caller]
fn assert_reads(name: &str, bytes: impl Into<Vec<u8>>) -> Labelled {
    let bytes = bytes.into();
    let own = file(name, bytes);
    let apart = file("labels.npy", text_labels(&labels()));
    let rows = read(&own, name.ends_with("npy").then_some(&apart));
    let rows = rows.unwrap_or_else(|message| panic!("{name}: {message}"));
    assert_eq!(rows.values, values(), "{name}");
    assert_eq!(rows.labels, labels()[..], "{name}");
    rows
}

/// Checks that a file is refused, with a sentence that contains `part`.
#[track_caller]
fn assert_refused(name: &str, bytes: impl Into<Vec<u8>>, part: &str) {
    let own = file(name, bytes);
    let apart = file("labels.npy", text_labels(&labels()));
    let rows = read(&own, name.ends_with("npy").then_some(&apart));
    let message = rows.and_then(|rows| Dataset::new(rows).map_err(|error| error.to_string()));
    let message = message.expect_err(part);
    assert!(
        message.starts_with(name) && message.contains(part),
        "{message}"
    );
}

#[test]
fn arrays_of_every_type_and_order_are_read_to_the_value() {
    let shape = format!("({ROWS}, {COLUMNS})");
    let whole: Vec<f32> = values().iter().map(|value| value * 4.0).collect();
    assert_reads("x.npy", matrix());
    for (descr, bytes) in [
        (
            ">f4",
            values()
                .iter()
                .flat_map(|v| v.to_be_bytes())
                .collect::<Vec<u8>>(),
        ),
        (
            "<f8",
            values()
                .iter()
                .flat_map(|v| f64::from(*v).to_le_bytes())
                .collect(),
        ),
        (
            ">f8",
            values()
                .iter()
                .flat_map(|v| f64::from(*v).to_be_bytes())
                .collect(),
        ),
        ("=f4", floats(&values())),
    ] {
        assert_reads("x.npy", npy(descr, "False", &shape, &bytes));
    }
    for (descr, bytes) in [
        (
            "|i1",
            whole
                .iter()
                .flat_map(|v| (*v as i8).to_le_bytes())
                .collect::<Vec<u8>>(),
        ),
        (
            ">i2",
            whole
                .iter()
                .flat_map(|v| (*v as i16).to_be_bytes())
                .collect(),
        ),
        (
            "<i8",
            whole
                .iter()
                .flat_map(|v| (*v as i64).to_le_bytes())
                .collect(),
        ),
    ] {
        let file = file("x.npy", npy(descr, "False", &shape, &bytes));
        let apart = self::file("y.npy", text_labels(&labels()));
        assert_eq!(read(&file, Some(&apart)).expect("reads").values, whole);
    }
    let turned: Vec<f32> = (0..COLUMNS)
        .flat_map(|column| (0..ROWS).map(move |row| value(row, column)))
        .collect();
    assert_reads("x.npy", npy("<f4", "True", &shape, &floats(&turned)));
    let header = format!(
        "{{\"shape\": ({ROWS}L, {COLUMNS}L), \"fortran_order\": False, \"descr\": \"<f4\"}}"
    );
    assert_reads("x.npy", npy_of(&header, &floats(&values())));
}

#[test]
fn bad_arrays_are_refused_with_what_is_wrong() {
    let good = matrix();
    for length in 0..good.len() {
        assert_refused("x.npy", &good[..length], "");
    }
    for more in [1, 4, 400] {
        let longer = [&good[..], &vec![0; more]].concat();
        assert_refused("x.npy", longer, "needs 144 bytes of data, the file has");
    }
    let data = floats(&values());
    for (shape, part) in [
        ("()", "the shape () needs 4 bytes"),
        ("(0,)", "nothing in it"),
        ("(0, 3)", "nothing in it"),
        ("(12, 0)", "nothing in it"),
        ("(4000000000, 0)", "nothing in it"),
        ("(0, 9223372036854775807)", "nothing in it"),
        ("(12, 3, 1)", "expected (rows, features)"),
        ("(-12, -3)", "damaged"),
        ("(12.0, 3)", "damaged"),
        ("(4294967296, 4294967296)", "larger than any file"),
        ("(18446744073709551616,)", "damaged"),
        ("(12 3)", "damaged"),
        ("[12, 3]", "damaged"),
        ("None", "damaged"),
    ] {
        let bytes = match part {
            "nothing in it" => npy("<f4", "False", shape, &[]),
            _ => npy("<f4", "False", shape, &data),
        };
        assert_refused("x.npy", bytes, part);
    }
    for (descr, part) in [
        ("|O", "a pickle"),
        ("<f16", "not read"),
        ("<c8", "not read"),
        ("|V4", "not read"),
        ("<M8[ns]", "dates (datetime64), which are not read"),
        ("<U9", ""),
        ("f4", "not read"),
        ("<f-4", "damaged"),
        ("", "not read"),
    ] {
        assert_refused("x.npy", npy(descr, "False", "(12, 3)", &data), part);
    }
    for (header, part) in [
        ("", "no 'descr'"),
        ("{}", "no 'descr'"),
        ("{'descr': '<f4', 'shape': (12, 3)}", "no 'fortran_order'"),
        (
            "{'descr': '<f4', 'fortran_order': 1, 'shape': (12, 3)}",
            "damaged",
        ),
        (
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (12,)}",
            "structured",
        ),
    ] {
        assert_refused("x.npy", npy_of(header, &data), part);
    }
    for (version, part) in [(0, "version 0"), (4, "version 4"), (255, "version 255")] {
        let mut bytes = good.clone();
        bytes[6] = version;
        assert_refused("x.npy", bytes, part);
    }
    for (bad, part) in [
        (f32::NAN, "the value is not finite"),
        (f32::INFINITY, "the value is not finite"),
        (1e20, "1e20 is too large to square"),
        (f32::MAX, "too large for 32-bit floats"),
    ] {
        for place in [0, ROWS * COLUMNS / 2, ROWS * COLUMNS - 1] {
            let mut values = values();
            values[place] = bad;
            let (row, column) = (place / COLUMNS + 1, place % COLUMNS + 1);
            let bytes = npy("<f4", "False", "(12, 3)", &floats(&values));
            assert_refused(
                "x.npy",
                bytes,
                &format!("row {row}, column {column}: {part}"),
            );
        }
    }
    let huge: Vec<u8> = values()
        .iter()
        .flat_map(|_| 1e300f64.to_le_bytes())
        .collect();
    let huge = npy("<f8", "False", "(12, 3)", &huge);
    assert_refused(
        "x.npy",
        huge,
        "row 1, column 1: too large for 32-bit floats (3.4e38 at most)",
    );
}

#[test]
fn labels_that_are_none_are_refused_with_their_row() {
    let features = file("x.npy", matrix());
    let refusal =
        |bytes: Vec<u8>| read(&features, Some(&file("y.npy", bytes))).expect_err("refused");
    for missing in ["", "nan", "NaN", "NA", "None", "null"] {
        let mut names = labels();
        names[6] = missing.to_owned();
        let message = refusal(text_labels(&names));
        assert!(
            message.starts_with("y.npy: row 7: the label is "),
            "{message}"
        );
        assert!(message.contains("drop the rows without one"), "{message}");
    }
    // Sodium is a class.
    let sodium: Vec<String> = labels()
        .iter()
        .map(|label| label.replace("c0", "Na"))
        .collect();
    let read_labels = |names: &[String]| read(&features, Some(&file("y.npy", text_labels(names))));
    assert_eq!(read_labels(&sodium).expect("reads").labels, sodium[..]);
    let numbers = |last: f64| {
        let numbers = (0..ROWS).map(|row| if row == 11 { last } else { 1.0 });
        let data: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        refusal(npy("<f8", "False", "(12,)", &data))
    };
    assert!(numbers(f64::NAN).contains("row 12: the label is NaN, a missing value"));
    assert!(numbers(2.5).contains("row 12: the label is 2.5, a measurement and no class"));
    for (shape, part) in [
        ("(11,)", "12 rows of features, 11 labels in y.npy"),
        ("(12, 1, 1)", "expected one a row"),
        ("()", "expected one a row"),
    ] {
        let count = if shape == "(11,)" { 11 } else { 12 };
        let count = if shape == "()" { 1 } else { count };
        let message = refusal(npy("|u1", "False", shape, &vec![1; count]));
        assert!(message.contains(part), "{message}");
    }
    for (cell, part) in [
        ("", "line 5: column \"label\" has an empty cell"),
        (
            "NA",
            "line 5: column \"label\" holds \"NA\", a missing value",
        ),
        ("nan", "such as \"nan_\""),
    ] {
        let lines = table(",", "\r\n");
        let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        lines[4] = lines[4].replace("c3", cell);
        assert_refused("x.csv", lines.join("\r\n"), part);
    }
}

#[test]
fn a_label_of_blanks_is_none_in_every_format() {
    for blank in ["", " ", "\t", "\u{a0}", " NA "] {
        let labels = |row: usize| {
            if row == 4 {
                blank.to_owned()
            } else {
                format!("c{}", row % 2)
            }
        };
        let labels: Vec<String> = (0..ROWS).map(labels).collect();
        let array = text_labels(&labels);
        let archive = npz(
            &[("x.npy", &matrix()), ("y.npy", &array)],
            zip::CompressionMethod::Stored,
        );
        assert_refused("x.npz", archive, "row 5: the label is ");
        let cell = |row: usize| format!("{{\"v\": [{row}, 1], \"label\": {:?}}}\n", labels[row]);
        let lines: String = (0..ROWS).map(cell).collect();
        assert_refused(
            "x.jsonl",
            lines.replace("\\u{a0}", "\u{a0}"),
            "line 5: column \"label\" ",
        );
        let cell = |row: usize| format!("{row},1,\"{}\"\n", labels[row]);
        let lines: String = (0..ROWS).map(cell).collect();
        assert_refused(
            "x.csv",
            format!("a,b,label\n{lines}"),
            "line 6: column \"label\" ",
        );
    }
}

#[test]
fn tables_are_read_whatever_separates_and_ends_their_cells() {
    for delimiter in [",", ";", "\t"] {
        for end in ["\n", "\r\n", "\r"] {
            assert_reads("x.csv", table(delimiter, end));
            assert_reads("x.csv", format!("\u{feff}{}", table(delimiter, end)));
            assert_reads("x.csv", format!("{end}{end}{}", table(delimiter, end)));
            assert_reads("x.tsv", table("\t", end));
            assert_reads("x.txt", table(delimiter, end).trim_end());
            assert_reads("X.CSV", table(delimiter, &format!("{end}{end}")));
        }
    }
    let quoted: Vec<String> = table(",", "\n")
        .lines()
        .map(|line| {
            line.split(',')
                .map(|cell| format!("\"{cell}\""))
                .collect::<Vec<_>>()
                .join(" ,")
        })
        .collect();
    assert_reads("x.csv", quoted.join("\n"));
    let trailing = assert_reads("x.csv", table(",", ",\n"));
    assert_eq!(trailing.notes[1], "left out: \"\"");
    let several = table(",", "\n").replace("c1", "\"c\n1\"");
    let several = read(&file("x.csv", several), None).expect("reads");
    assert_eq!(&several.labels[1], "c\n1");
    assert_eq!(
        several.notes[1],
        "3 cells in quotes run over several lines, from line 3 on"
    );
}

#[test]
fn a_table_without_a_header_loses_no_row() {
    let text = table(",", "\n");
    let body = text.split_once('\n').expect("a header").1;
    let rows = assert_reads("iris.data.csv", body);
    assert!(rows.feature_names.is_empty());
    assert_eq!(
        rows.notes,
        [
            "label = \"column 4\" (the only text column)",
            "no header: the first line is read as a row, the columns are called \"column 1\", \"column 2\", ..",
        ]
    );
    // Numbers alone, the label included.
    let numbers = body.replace(",c", ",");
    let choice = Choice {
        labels: Some("column 4"),
        ..Choice::default()
    };
    let rows = Labelled::read(&file("x.csv", &numbers[..]), None, choice).expect("reads");
    assert_eq!((rows.values, rows.labels.len()), (values(), ROWS));
    // A first row whose class has no other row cannot be told from a header: a note says so.
    let lone = read(&file("x.csv", body.replacen("c0", "lone", 1)), None).expect("reads");
    let note = "the header calls a column \"-1.25\": where the first line is a row, write a header above it";
    assert_eq!(
        (lone.labels.len(), lone.notes[1].as_str()),
        (ROWS - 1, note)
    );
    // The names that pandas gives to columns without one, and wavelengths.
    for header in ["0,1,2,3", "0,1,2,label", ",0,1,2"] {
        let text = format!("{header}\n{numbers}");
        let choice = Choice {
            labels: header.rsplit(',').next(),
            ..Choice::default()
        };
        let rows = Labelled::read(&file("x.csv", text), None, choice).expect("reads");
        assert_eq!(rows.labels.len(), ROWS, "{header}");
    }
    let spectrum = |first: usize, step: usize| {
        let cells: Vec<String> = (0..20)
            .map(|i| (first + i * step % 37).to_string())
            .collect();
        cells.join(",")
    };
    let spectra = format!(
        "{}\n{}\n{}\n",
        spectrum(400, 1),
        spectrum(3, 5),
        spectrum(2, 7)
    );
    let y = file("y.csv", "kind\nu\nv\n");
    let rows = Labelled::read(&file("x.csv", spectra), Some(&y), Choice::default());
    assert_eq!(rows.expect("reads").feature_names[19], "419");
    // A class named like the column is rare, and the rows decide.
    let x = file("x.npy", matrix());
    let apart = |y: String| {
        let rows = read(&x, Some(&file("y.csv", y)));
        rows.map(|rows| rows.labels.iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let lines = labels().join("\n");
    assert_eq!(apart(lines.clone()), Ok(labels()));
    assert_eq!(apart(format!("c0\n{lines}")), Ok(labels()));
    let digits = (0..ROWS)
        .map(|row| (row % 3).to_string())
        .collect::<Vec<_>>();
    assert_eq!(apart(digits.join("\n")), Ok(digits.clone()));
    assert_eq!(apart(format!("0\n{}", digits.join("\n"))), Ok(digits));
    let message = apart(lines.replacen("c0", "single", 1)).expect_err("refused");
    assert!(
        message.contains("where its first line is a label, write a line above it"),
        "{message}"
    );
}

#[test]
fn a_label_that_stands_among_the_features_is_none_of_them() {
    let text = table(",", "\n");
    let with_code = |name: &str, code: &dyn Fn(usize) -> String| {
        let lines = text.lines().enumerate().map(|(line, text)| match line {
            0 => format!("{name},{text}\n"),
            _ => format!("{},{text}\n", code(line - 1)),
        });
        lines.collect::<String>()
    };
    let code = |row: usize| (row % CLASSES).to_string();
    let chosen = |text: String, labels: Option<&NamedFile>, column: &'static str| {
        let choice = Choice {
            labels: Some(column),
            ..Choice::default()
        };
        Labelled::read(&file("x.csv", text), labels, choice).expect("reads")
    };
    // The label as numbers beside the label as text.
    let twice = chosen(with_code("target", &code), None, "label");
    assert_eq!(twice.values, values());
    assert_eq!(
        twice.notes[1],
        "left out: \"target\" (says what the labels say)"
    );
    let other = chosen(
        with_code("digit", &|row| (row % 5).to_string()),
        None,
        "label",
    );
    assert_eq!(other.dim, COLUMNS + 1);
    // The same column in a file of labels, and labels without a name.
    let numbers: Vec<u8> = (0..ROWS).map(|row| (row % CLASSES) as u8).collect();
    let names: String = numbers.iter().map(|number| format!("{number}\n")).collect();
    let y = file("y.csv", format!("grade\n{names}"));
    let apart = chosen(with_code("grade", &code), Some(&y), "grade");
    assert_eq!((apart.values, &apart.labels[5]), (values(), "1"));
    let y = file("y.npy", npy("|u1", "False", "(12,)", &numbers));
    let nameless = read(&file("x.csv", with_code("grade", &code)), Some(&y)).expect("reads");
    assert_eq!(nameless.values, values());
    // A column of that name with other values stays a feature.
    let y = file("y.csv", format!("f0\n{names}"));
    let kept = chosen(text.clone(), Some(&y), "f0");
    assert_eq!(kept.values, values());
    let note = kept.notes.last().expect("a note");
    assert_eq!(
        note,
        "kept \"f0\" as a feature: its values are not the labels of y.csv"
    );
}

#[test]
fn bad_tables_are_refused_with_the_line() {
    let good = table(",", "\n");
    let lines: Vec<&str> = good.lines().collect();
    let with = |line: usize, text: &str| {
        let mut lines = lines.clone();
        lines[line] = text;
        lines.join("\n") + "\n"
    };
    for (text, part) in [
        (String::new(), "the file is empty"),
        ("\n \n".to_owned(), "the file is empty"),
        ("\u{feff}\r\n".to_owned(), "the file is empty"),
        (lines[0].to_owned(), "a header and no rows"),
        (
            with(4, "1,2,3"),
            "line 5: 3 values, expected 4 as in the first line",
        ),
        (with(4, "1,2,3,c0,9"), "line 5: 5 values, expected 4"),
        (
            with(4, "1,x,3,c0"),
            "line 5: column \"f1\" holds \"x\", which is not a number",
        ),
        (
            with(4, "1,,3,c0"),
            "line 5: column \"f1\" has an empty cell: fill or drop such rows; pandas drops them",
        ),
        (
            with(4, "1,NA,3,c0"),
            "line 5: column \"f1\" holds \"NA\", a missing value",
        ),
        (
            with(4, "1,inf,3,c0"),
            "line 5: column \"f1\" holds \"inf\", which is not finite",
        ),
        (
            with(4, "1,1e300,3,c0"),
            "holds \"1e300\", too large for 32-bit floats",
        ),
        (
            with(4, "1,1e19,3e38,c0"),
            "row 4, column 3: 3e38 is too large to square",
        ),
        (
            with(4, "1,\"1,5\",3,c0"),
            "holds \"1,5\": write numbers with a decimal point; pandas does",
        ),
        (with(4, "1,0x10,3,c0"), "which is not a number"),
        (with(4, "1,1_000,3,c0"), "which is not a number"),
        (
            with(4, "1,2,3,\"c0"),
            "line 5: the quote that opens here is never closed",
        ),
        (
            with(0, "\"f0,f1,f2,label"),
            "line 1: the quote that opens here is never closed",
        ),
        (
            with(12, "1,2,3,\"c3"),
            "line 13: the quote that opens here is never closed",
        ),
        (
            with(4, "1,2,3,\"c\"0"),
            "line 5: the quote that opens a cell here is closed and more text",
        ),
        (with(0, "f0|f1|f2|label"), "expected 1 as in the first line"),
        (
            lines[..9].join("\n").replace(',', "/"),
            "separate the cells by commas, semicolons or tabs",
        ),
        (
            "label\na\n\nb\n".to_owned(),
            "line 3: an empty line in a file of one column",
        ),
        ("a,b,label\nx,y,z\nu,v,w\n".to_owned(), "no numeric column"),
        (
            "f0,f1\n1.5,2.5\n3.5,4.5\n".to_owned(),
            "no label column can be told from the others",
        ),
        (
            good.replace("c1", "c0")
                .replace("c2", "c0")
                .replace("c3", "c0"),
            "every row has the label",
        ),
    ] {
        assert_refused("x.csv", text, part);
    }
    let long = "z".repeat(5000) + "\x1b[31m";
    for text in [
        with(4, &format!("1,{long},3,c0")),
        with(0, &format!("f0,f1,{long},label")),
    ] {
        if let Err(message) = read(&file("x.csv", text), None) {
            assert!(message.len() < 200, "{message}");
        }
    }
    // A column of nothing is left out, wherever it stands.
    let empty: Vec<String> = good.lines().map(|line| format!("{line},")).collect();
    let empty = empty.join("\n").replacen("label,", "label,note", 1);
    let rows = assert_reads("x.csv", empty);
    assert_eq!(rows.notes[1], "left out: \"note\" (empty)");
    for (bytes, part) in [
        (
            good.replace("c1", "\u{e9}")
                .chars()
                .map(|c| c as u8)
                .collect::<Vec<u8>>(),
            "line 3: not UTF-8",
        ),
        (
            good.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "text in UTF-16, not in UTF-8",
        ),
        (matrix(), "an NPY file: name it x.npy"),
        (npz(&[], zip::CompressionMethod::Stored), "a ZIP archive"),
        (b"<html><body>404</body></html>".to_vec(), "a web page"),
        (b"{\"a\": 1}\n".to_vec(), "JSON, not a table"),
        (b"\x1f\x8b\x08\0\0\0".to_vec(), "a compressed file"),
        (b"PAR1\x15\x04".to_vec(), "a Parquet file"),
    ] {
        assert_refused("x.csv", bytes, part);
    }
    let message = file("x.csv.gz", good.clone()).unpacked();
    assert_eq!(
        message.expect_err("refused").to_string(),
        "x.csv.gz: not a compressed file: name it without .gz"
    );
    for name in [
        "x.feather",
        "x.loom",
        "x.json",
        "x.pkl",
        "x.xlsx",
        "x.rds",
        "x.mat",
        "x.pt",
    ] {
        assert_refused(name, good.clone(), "save");
    }
    for name in ["x.dat", "x", ".csv.", "x.doc"] {
        assert_refused(
            name,
            good.clone(),
            "only CSV, JSON Lines, Parquet, NPY, NPZ, safetensors and AnnData files are read",
        );
    }
}

#[test]
fn archives_are_read_or_refused_whatever_is_in_them() {
    use zip::CompressionMethod::{Deflated, Stored};

    let (x, y) = (matrix(), text_labels(&labels()));
    let both: [(&str, &[u8]); 2] = [("X.npy", &x), ("y.npy", &y)];
    for method in [Stored, Deflated] {
        let good = npz(&both, method);
        assert_reads("x.npz", &good[..]);
        assert_reads("x.npz", npz(&[("a.txt", b"hi"), both[0], both[1]], method));
        assert_reads(
            "x.npz",
            npz(&[("../x.npy", &x), ("é\u{1b}.npy", &y)], method),
        );
        for length in (0..good.len()).step_by(7) {
            assert_refused("x.npz", &good[..length], "");
        }
        for (members, part) in [
            (&both[..1], "an array for the labels, (12,), is missing"),
            (
                &both[1..],
                "an array of numbers for the features, (rows, features), is missing",
            ),
            (
                &[("a.npy", &x[..]), both[0], both[1]][..],
                "several arrays can be the features",
            ),
            (&[("X.npy", &x[..40]), both[1]][..], "cut short"),
            (&[("X.npy", &b"hello"[..]), both[1]][..], "not an NPY file"),
            (&[("inner.npz", &good[..])][..], "without NPY members"),
            (&[][..], "without NPY members"),
        ] {
            assert_refused("x.npz", npz(members, method), part);
        }
        let mut short = labels();
        short.truncate(11);
        let short = text_labels(&short);
        let archive = file("x.npz", npz(&[both[0], ("y.npy", &short)], method));
        let choice = Choice {
            labels: Some("y"),
            ..Choice::default()
        };
        let refused = Labelled::read(&archive, None, choice).expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "x.npz: 12 rows of features, 11 labels: they must be as many"
        );
    }
}

#[test]
fn an_archive_that_inflates_a_thousandfold_is_refused_before_it_does() {
    // Noise, said to inflate to 300 MiB, which a thousandth of that could.
    let rows = 75 << 20;
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let mut noise = vec![0; 310 << 10];
    rng.fill_bytes(&mut noise);
    let x = npy("<f4", "False", &format!("({}, 4)", rows / 4), &noise);
    let claimed = (x.len() - noise.len() + 4 * rows) as u32;
    let held = (x.len() as u32).to_le_bytes();
    let mut bytes = npz(&[("X.npy", &x)], zip::CompressionMethod::Deflated);
    let places: Vec<usize> = (0..bytes.len() - 4)
        .filter(|at| bytes[*at..at + 4] == held)
        .collect();
    assert_eq!(
        places.len(),
        2,
        "the size stands before the member and in the directory"
    );
    for place in places {
        bytes[place..place + 4].copy_from_slice(&claimed.to_le_bytes());
    }
    let refused = RowSource::from_arrays(&file("x.npz", bytes), None).expect_err("refused");
    let refused = refused.to_string();
    assert_plain(&refused);
    assert!(
        refused.starts_with("x.npz:X: 31") && refused.contains("would inflate to 300"),
        "{refused}"
    );
}

/// Copy of a file with some bytes changed, inserted, removed or repeated, mostly near the start.
fn mutant(whole: &[u8], rng: &mut rand_pcg::Pcg64Mcg) -> Vec<u8> {
    const PIECES: [&[u8]; 18] = [
        b"\"",
        b",",
        b"\n",
        b"\r",
        b"\0",
        b"9",
        b"-",
        b"e",
        b"\xff",
        b"'",
        b"(",
        b")",
        b" ",
        b";",
        b"999999999",
        b"inf",
        b"nan",
        b"\xff\xff\xff\xff",
    ];
    let mut bytes = whole.to_vec();
    for _ in 0..[1, 1, 1, 2, 3, 8][rng.random_range(0..6)] {
        if bytes.is_empty() {
            break;
        }
        let near = rng.random_bool(0.6);
        let end = if near {
            bytes.len().min(160)
        } else {
            bytes.len()
        };
        let at = rng.random_range(0..end);
        let until = (at + rng.random_range(1..20)).min(bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random(),
            2 => bytes.insert(at, rng.random()),
            3 => drop(bytes.drain(at..until)),
            4 => {
                let again = bytes[at..until].to_vec();
                bytes.splice(at..at, again);
            }
            _ => {
                let piece = PIECES[rng.random_range(0..PIECES.len())];
                bytes.splice(at..at + 1, piece.iter().copied());
            }
        }
    }
    bytes
}

fn mutants(whole: &[u8], count: usize, mut look: impl FnMut(Vec<u8>)) {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(whole.len() as u64);
    (0..count).for_each(|_| look(mutant(whole, &mut rng)));
}

#[test]
fn damaged_arrays_give_their_numbers_or_a_sentence() {
    let (good, apart) = (matrix(), file("y.npy", text_labels(&labels())));
    let start = good.len() - 4 * ROWS * COLUMNS;
    mutants(&good, 3000, |bytes| {
        let header_holds = bytes.get(..start) == Some(&good[..start]);
        let tail = bytes.get(start..).unwrap_or_default().to_vec();
        let Ok(rows) = read(&file("x.npy", bytes), Some(&apart)) else {
            return;
        };
        if header_holds {
            assert_eq!(floats(&rows.values), tail, "the bits of the file");
        }
    });
    let features = file("x.npy", good);
    mutants(&text_labels(&labels()), 2000, |bytes| {
        let Ok(rows) = read(&features, Some(&file("y.npy", bytes))) else {
            return;
        };
        assert_eq!((rows.values, rows.labels.len()), (values(), ROWS));
    });
}

#[test]
fn damaged_archives_give_what_was_saved_or_a_sentence() {
    let (x, y) = (matrix(), text_labels(&labels()));
    for method in [
        zip::CompressionMethod::Stored,
        zip::CompressionMethod::Deflated,
    ] {
        mutants(
            &npz(&[("X.npy", &x), ("y.npy", &y)], method),
            2000,
            |bytes| {
                if let Ok(rows) = read(&file("x.npz", bytes), None) {
                    assert_eq!(rows.values, values());
                    assert_eq!(rows.labels, labels()[..]);
                }
            },
        );
    }
}

/// Cells of a table without quotes, read in the plainest way.
fn cells(text: &str) -> Vec<Vec<String>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text
        .split(['\r', '\n'])
        .filter(|line| !line.is_empty())
        .collect();
    let first = lines.first().copied().unwrap_or_default();
    let count = |delimiter: &char| first.matches(*delimiter).count();
    let delimiters = [';', '\t', ','];
    let delimiter = delimiters.into_iter().max_by_key(count).expect("three");
    let cells = |line: &&str| {
        line.split(delimiter)
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    lines.iter().map(cells).collect()
}

#[test]
fn damaged_tables_give_their_cells_or_a_sentence() {
    let mut read_count = 0;
    for (name, text) in [
        ("x.csv", table(",", "\n")),
        ("x.csv", table(";", "\r\n")),
        ("x.tsv", table("\t", "\r")),
    ] {
        mutants(text.as_bytes(), 2000, |bytes| {
            let text = String::from_utf8(bytes.clone());
            let Ok(rows) = read(&file(name, bytes), None) else {
                return;
            };
            let Some(text) = text.ok().filter(|text| !text.contains('"')) else {
                return;
            };
            let cells = cells(&text);
            let (header, body) = match rows.feature_names.is_empty() {
                true => (Vec::new(), &cells[..]),
                false => (cells[0].clone(), &cells[1..]),
            };
            assert_eq!(
                rows.labels.len(),
                body.len(),
                "every line is a row: {text:?}"
            );
            let once = |name: &String| header.iter().filter(|cell| *cell == name).count() == 1;
            for (place, name) in rows
                .feature_names
                .iter()
                .enumerate()
                .filter(|(_, name)| once(name))
            {
                let column = header
                    .iter()
                    .position(|cell| cell == name)
                    .expect("is there");
                for (row, cells) in body.iter().enumerate() {
                    // If semicolons separate the cells, a comma is a decimal point.
                    let cell = cells[column].replacen(',', ".", usize::from(text.contains(';')));
                    let value: f32 = cell.parse().expect("a number");
                    assert_eq!(rows.values[row * rows.dim + place], value, "{text:?}");
                }
            }
            let column = rows.label_column.as_ref().filter(|name| once(name));
            if let Some(column) =
                column.and_then(|name| header.iter().position(|cell| cell == name))
            {
                for (label, cells) in rows.labels.iter().zip(body) {
                    // Numbers have one spelling.
                    let cell = &cells[column];
                    let number = cell.parse::<f64>().ok();
                    let same = number.is_some_and(|number| label.parse() == Ok(number));
                    assert!(label == cell || same, "{label} of {cell}");
                }
            }
            read_count += 1;
        });
    }
    assert!(read_count > 500, "{read_count} of them are still tables");
}

#[test]
fn damaged_settings_are_in_range_or_named() {
    let defaults = TrainConfig::default();
    let json = serde_json::to_string(&defaults).expect("plain data");
    let check = |config: nearfar::Result<TrainConfig>| {
        if let Err(error) = config.and_then(|config| config.check()) {
            assert_eq!(error.exit_code(), 2);
            assert_plain(&error.to_string());
        }
    };
    mutants(json.as_bytes(), 3000, |bytes| {
        check(defaults.with_json(&String::from_utf8_lossy(&bytes)));
    });
    for set in [
        "hidden_layers=[abc]",
        "batch_size=abc",
        "steps=1e12",
        "miner.margin=0.2",
        "loss.name=triplet-margin",
        "optimizer.lr=1e-3",
        "split=column:part",
        "seed=18446744073709551615",
    ] {
        mutants(set.as_bytes(), 300, |bytes| {
            check(defaults.with_set(&String::from_utf8_lossy(&bytes)));
        });
    }
}

#[test]
fn damaged_heads_are_read_or_refused() {
    let layer = |index: usize, outputs: usize, inputs: usize| nearfar::LayerWeights {
        index,
        shape: [outputs, inputs],
        weight: (0..outputs * inputs)
            .map(|i| i as f32 / 8.0 - 1.0)
            .collect(),
        bias: vec![0.5; outputs],
        ..nearfar::LayerWeights::default()
    };
    let names = ["f0", "f1", "f2"].map(str::to_owned);
    let head = Head {
        layers: vec![layer(0, 4, 3), layer(2, 2, 4)],
        features: names.into(),
        filled: vec![(2, 0.25)],
    };
    let good = head.to_safetensors(Distance::Cosine);
    let read = Head::from_safetensors(&file("head.safetensors", &good[..])).expect("reads");
    assert_eq!(read, head);
    mutants(&good, 2000, |bytes| {
        let Err(error) = Head::from_safetensors(&file("head.safetensors", bytes)) else {
            return;
        };
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().starts_with("head.safetensors: "),
            "{error}"
        );
    });
}

/// Standard output and standard error of the command.
#[track_caller]
fn runs(arguments: &[&str]) -> (String, String) {
    let output = on_cpu(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), error)
}

/// The sentence of a refusal, in plain words.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let said = program::refusal(arguments);
    assert_plain(&said);
    said
}

/// The table with the class as a number in the first column, `target`.
fn table_with_target() -> String {
    let text = table(",", "\n");
    let lines = text.lines().enumerate().map(|(line, text)| match line {
        0 => format!("target,{text}\n"),
        _ => format!("{},{text}\n", (line - 1) % CLASSES),
    });
    lines.map(|line| line.replace(",c", ",d")).collect()
}

#[test]
fn the_labels_of_the_data_s_own_table_are_no_feature_of_any_command() {
    let folder = Folder::new("inputs/own");
    let data = folder.write("x.csv", table_with_target().replace(",label", ",note"));
    let labels = folder.write("y.csv", table_with_target());
    let linked = folder.0.join("link.csv");
    std::os::unix::fs::symlink(&data, &linked).expect("is linked");
    let own = "target".to_owned();
    let others = [
        format!("{data}:target"),
        format!("{labels}:target"),
        format!("{}:target", linked.display()),
    ];
    for command in [&["evaluate"][..], &["mine"], &["loss"]] {
        let said = |labels: &str| {
            let rows = ["--embeddings", &data, "--labels", labels];
            runs(&[command, &rows].concat()).0
        };
        let right = said(&own);
        for labels in &others {
            assert_eq!(said(labels), right, "{command:?} {labels}");
        }
    }
    let dim = |labels: &str| {
        let small = [
            "--set",
            "steps=1",
            "--set",
            "batch_size=2",
            "--set",
            "memory_size=0",
            "--json",
        ];
        let report =
            runs(&[&["train", "--data", &data, "--labels", labels], &small[..]].concat()).0;
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        report["data"]["dim"].as_u64()
    };
    for labels in others.iter().chain([&own]) {
        assert_eq!(dim(labels), Some(COLUMNS as u64), "{labels}");
    }
}

#[test]
fn knn_says_which_columns_it_takes_and_leaves_the_label_out() {
    let folder = Folder::new("inputs/knn");
    let out = folder.path("out.npz");
    let search = |queries: &str, references: Option<&str>| {
        let mut arguments = vec!["knn", "--queries", queries, "--k", "2", "--out", &out];
        arguments.extend(
            references
                .iter()
                .flat_map(|references| ["--references", references]),
        );
        let said = runs(&arguments).1;
        (std::fs::read(&out).expect("is written"), said)
    };
    let plain = folder.write("plain.csv", table(",", "\n"));
    let labelled = folder.write("labelled.csv", table_with_target());
    let (right, said) = search(&plain, None);
    let lines = said.lines().map(|line| {
        let mut words = line.split_whitespace();
        (words.next(), words.next())
    });
    let features: Vec<&str> = lines
        .filter(|(_, role)| *role == Some("feature"))
        .filter_map(|(name, _)| name)
        .collect();
    assert_eq!(features, ["f0", "f1", "f2"], "{said}");
    assert!(said.contains("plain.csv: left out: \"label\"\n"), "{said}");
    let (found, said) = search(&labelled, None);
    assert!(found == right, "the target is no feature");
    assert!(said.contains("left out: \"target\", \"label\""), "{said}");
    // Columns go by their names.
    let turned: Vec<String> = table(",", "\n")
        .lines()
        .map(|line| line.split(',').rev().collect::<Vec<_>>().join(","))
        .collect();
    let turned = folder.write("turned.csv", turned.join("\n"));
    assert!(search(&plain, Some(&turned)).0 == search(&plain, Some(&plain)).0);
    let other = folder.write("other.csv", table(",", "\n").replace("f1", "g1"));
    let refused = refusal(&args(
        "knn --queries {} --references {} --k 1 --out {}",
        &[&plain, &other, &out],
    ));
    assert!(
        refused.contains("other.csv: there is no column \"f1\", as there is in "),
        "{refused}"
    );
    let evaluate = |references: &str| {
        runs(&args(
            "evaluate --embeddings {} --references {}",
            &[&plain, references],
        ))
        .0
    };
    assert_eq!(evaluate(&turned), evaluate(&plain));
}

#[test]
fn arrays_of_columns_are_read_by_every_command() {
    let folder = Folder::new("inputs/fortran");
    let rows = folder.write("rows.npy", matrix());
    let turned: Vec<f32> = (0..COLUMNS)
        .flat_map(|column| (0..ROWS).map(move |row| value(row, column)))
        .collect();
    let columns = npy(
        "<f4",
        "True",
        &format!("({ROWS}, {COLUMNS})"),
        &floats(&turned),
    );
    let columns = folder.write("columns.npy", columns);
    let labels = folder.write("y.npy", text_labels(&labels()));
    let head = folder.path("head");
    let small = [
        "--set",
        "steps=1",
        "--set",
        "batch_size=2",
        "--set",
        "memory_size=0",
        "--out",
        &head,
    ];
    runs(&[&["train", "--data", &rows, "--labels", &labels], &small[..]].concat());
    let out = folder.path("out.npz");
    let written = |arguments: &[&str]| {
        runs(arguments);
        std::fs::read(&out).expect("is written")
    };
    for data in [&rows, &columns] {
        let knn = written(&["knn", "--queries", data, "--k", "3", "--out", &out]);
        assert!(
            knn == written(&["knn", "--queries", &rows, "--k", "3", "--out", &out]),
            "knn {data}"
        );
        let embed = written(&["embed", "--model", &head, "--data", data, "--out", &out]);
        assert!(
            embed == written(&["embed", "--model", &head, "--data", &rows, "--out", &out]),
            "embed {data}"
        );
        for command in ["evaluate", "mine"] {
            let said = |data: &str| runs(&[command, "--embeddings", data, "--labels", &labels]).0;
            assert_eq!(said(data), said(&rows), "{command} {data}");
        }
    }
}

#[test]
#[cfg(unix)]
fn what_ends_is_read_from_a_pipe_and_what_has_no_end_is_refused() {
    let folder = Folder::new("inputs/pipes");
    let pipe = |name: &str, bytes: Vec<u8>| {
        let path = folder.path(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .expect("starts")
                .success()
        );
        let to = path.clone();
        std::thread::spawn(move || std::fs::write(to, bytes).ok());
        path
    };
    let labels = folder.write("y.npy", text_labels(&labels()));
    let from_file = folder.write("x.npy", matrix());
    let evaluate = |data: &str| runs(&["evaluate", "--embeddings", data, "--labels", &labels]).0;
    assert_eq!(evaluate(&pipe("pipe.npy", matrix())), evaluate(&from_file));
    let table = folder.write("x.csv", table(",", "\n"));
    let settings = b"{\"steps\": 2, \"batch_size\": 2, \"memory_size\": 0, \"hidden_layers\": []}";
    let config = pipe("config.json", settings.to_vec());
    let report = runs(&["train", "--data", &table, "--config", &config, "--json"]).0;
    assert!(report.contains("\"steps\":2"), "{report}");
    let wrong = pipe(
        "wrong.json",
        b"{\"seed\": 1, \"batch_size\": \"abc\"}".to_vec(),
    );
    assert_eq!(
        refusal(&["train", "--data", &table, "--config", &wrong]),
        format!("{wrong}: batch_size is \"abc\": it must be a whole number, 0 or more")
    );
    for ending in ["csv", "npy", "npz"] {
        let endless = folder.path(&format!("zero.{ending}"));
        std::os::unix::fs::symlink("/dev/zero", &endless).expect("is linked");
        let refused = refusal(&["evaluate", "--embeddings", &endless, "--labels", &labels]);
        assert_eq!(refused, format!("{endless}: a device, expected a file"));
    }
    let refused = refusal(&[
        "evaluate",
        "--embeddings",
        &folder.path(""),
        "--labels",
        &labels,
    ]);
    assert!(refused.contains("a folder, expected a file"), "{refused}");
}

#[test]
fn every_refusal_of_the_command_line_is_one_sentence_about_the_right_file() {
    let folder = Folder::new("inputs/refusals");
    let (x, y) = (
        folder.write("x.npy", matrix()),
        folder.write("y.npy", text_labels(&labels())),
    );
    let table_ = folder.write("x.csv", table(",", "\n"));
    let missing = folder.path("missing.txt");
    for data in [&x, &table_] {
        for missing in [&missing[..], "missing.txt", "missing.csv:label"] {
            let refused = refusal(&["evaluate", "--embeddings", data, "--labels", missing]);
            let file = missing.trim_end_matches(":label");
            assert_eq!(refused, format!("{file}: No such file or directory"));
        }
    }
    let quote = folder.write("quote.csv", table(",", "\r\n").replacen("c2", "\"c2", 1));
    let empty = folder.write("empty.npy", npy("<f4", "False", "(4000000000, 0)", &[]));
    let odd = folder.write(
        "odd\n\u{1b}[31m.csv",
        "x,label\n1,\u{1b}[31m\n2,\u{1b}[31m\n",
    );
    let word = folder.write(
        "word.csv",
        format!("x,label\n1,a\n2,b\n\u{1b}[2J{},c\n", "z".repeat(3_000_000)),
    );
    for (data, part) in [
        (
            &quote,
            "quote.csv, line 4: the quote that opens here is never closed",
        ),
        (
            &empty,
            "the shape is (4000000000, 0): there is nothing in it",
        ),
        (
            &odd,
            r#"odd\n\u{1b}[31m.csv: every row has the label "\u{1b}[31m""#,
        ),
        (&word, r#"line 4: column "x" holds "\u{1b}[2Jzzzz"#),
    ] {
        let arguments = ["train", "--data", data, "--labels", &y];
        let own = if data == &empty {
            &arguments[..]
        } else {
            &arguments[..3]
        };
        let refused = refusal(own);
        assert!(refused.contains(part), "{refused}");
    }
    for command in ["knn", "embed", "evaluate", "mine", "loss"] {
        let head = folder.path("nowhere");
        let out = folder.path("out.npz");
        let arguments: Vec<&str> = match command {
            "knn" => vec!["knn", "--queries", &empty, "--k", "1", "--out", &out],
            "embed" => vec!["embed", "--model", &head, "--data", &empty, "--out", &out],
            _ => vec![command, "--embeddings", &empty, "--labels", &y],
        };
        let refused = refusal(&arguments);
        let file = if command == "embed" {
            "head.safetensors: No such file"
        } else {
            "nothing in it"
        };
        assert!(refused.contains(file), "{refused}");
        assert!(!Path::new(&out).exists());
    }
    for (set, message) in [
        (
            "hidden_layers=[abc]",
            "hidden_layers is \"[abc]\": it must be a list of whole numbers, such as [256, 64]",
        ),
        (
            "batch_size=abc",
            "batch_size is \"abc\": it must be a whole number, 0 or more",
        ),
        (
            "steps=1e12",
            "steps is 1000000000000: it must be between 1 and 10000000",
        ),
    ] {
        assert_eq!(
            refusal(&["train", "--data", &table_, "--set", set]),
            message
        );
    }
}

#[test]
fn an_archive_of_nearfar_reads_as_it_was_written() {
    let mut npz = NpzWriter::new("x.npz", std::io::Cursor::new(Vec::new()));
    npz.array("X", &[ROWS, COLUMNS], [values()])
        .expect("is written");
    let numbers: Vec<u32> = (0..ROWS as u32).map(|row| row % 3).collect();
    npz.array("y", &[ROWS], [numbers]).expect("is written");
    let bytes = npz.finish().expect("is ended").into_inner();
    let rows = read(&file("x.npz", bytes), None).expect("reads");
    assert_eq!((rows.values, &rows.labels[4]), (values(), "1"));
}
