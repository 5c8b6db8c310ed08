//! A table in several Parquet files, given as a folder or a pattern of names, is read as the same table in one file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfar::{Choice, Error, Labelled};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Writes rows of one or two numbers, a vector of three numbers and a label; with `swapped` the columns are in another order.
fn write(path: &Path, rows: std::ops::Range<usize>, swapped: bool) {
    let columns = [
        "required float width;",
        "required group embedding (LIST) { repeated group list { required float element; } }",
        "required binary species (STRING);",
    ];
    let order = if swapped { [2, 0, 1] } else { [0, 1, 2] };
    let schema = format!(
        "message rows {{ {} }}",
        order.map(|at| columns[at]).join(" ")
    );
    let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).expect("begins");
    let mut group = writer.next_row_group().expect("a group");
    let number = |row: usize, at: usize| ((row * 7 + at * 3) % 23) as f32 * 0.25;
    for at in order {
        let mut column = group.next_column().expect("is there").expect("a column");
        match at {
            0 => {
                let values: Vec<f32> = rows.clone().map(|row| number(row, 9)).collect();
                column
                    .typed::<FloatType>()
                    .write_batch(&values, None, None)
                    .map(drop)
            }
            1 => {
                let values: Vec<f32> = rows
                    .clone()
                    .flat_map(|row| (0..3).map(move |at| number(row, at)))
                    .collect();
                let begins: Vec<i16> = rows.clone().flat_map(|_| [0, 1, 1]).collect();
                let there = vec![1; values.len()];
                column
                    .typed::<FloatType>()
                    .write_batch(&values, Some(&there), Some(&begins))
                    .map(drop)
            }
            _ => {
                let name = |row: usize| {
                    ByteArray::from(["ash", "birch", "cedar"][row % 3].as_bytes().to_vec())
                };
                let values: Vec<ByteArray> = rows.clone().map(name).collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&values, None, None)
                    .map(drop)
            }
        }
        .expect("writes");
        column.close().expect("ends");
    }
    group.close().expect("ends");
    fs::write(path, writer.into_inner().expect("ends")).expect("is written");
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("shards")
        .join(name);
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).expect("is made");
    path
}

fn read(path: &Path) -> Result<Labelled, Error> {
    Labelled::open(path, None, Choice::default(), |_| {})
}

#[test]
fn a_folder_and_a_pattern_of_parquet_files_are_one_table() {
    let place = folder("alike");
    let whole = place.join("whole.parquet");
    write(&whole, 0..120, false);
    let whole = read(&whole).expect("is read");
    let parts = place.join("parts");
    fs::create_dir(&parts).expect("is made");
    // Twelve parts, whose names sort as text in another order than by number, one with other places of its columns, one without rows.
    for part in 0..12 {
        write(
            &parts.join(format!("part-{part}.parquet")),
            part * 10..(part + 1) * 10,
            part == 4,
        );
    }
    write(&parts.join("part-12.parquet"), 0..0, false);
    // Other files in such a folder.
    for other in [
        "_SUCCESS",
        ".part-0.parquet.crc",
        "notes.txt",
        ".hidden.parquet",
    ] {
        fs::write(parts.join(other), "something else").expect("is written");
    }
    for path in [
        parts.clone(),
        parts.join("part-*.parquet"),
        parts.join("*.parquet"),
    ] {
        let found = read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!((&found.values, found.dim), (&whole.values, 3));
        assert_eq!(found.labels, whole.labels);
        assert_eq!(found.feature_names, whole.feature_names);
        assert!(found.name.ends_with(".parquet"), "{}", found.name);
    }
    let some = read(&parts.join("part-1*.parquet")).expect("is read");
    assert_eq!(some.labels.len(), 30, "parts 1, 10, 11 and 12");
}

#[test]
fn files_that_are_no_parts_of_one_table_are_refused_with_what_differs() {
    let place = folder("unlike");
    write(&place.join("a.parquet"), 0..30, false);
    let other = |schema: &str| {
        let schema = Arc::new(
            parse_message_type(&format!("message rows {{ {schema} }}")).expect("a schema"),
        );
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).expect("begins");
        fs::write(place.join("b.parquet"), writer.into_inner().expect("ends")).expect("is written");
        read(&place).expect_err("refused").to_string()
    };
    let list =
        "required group embedding (LIST) { repeated group list { required float element; } }";
    for (schema, difference) in [
        (
            format!("required float width; {list}"),
            "column \"species\" is missing, and is in",
        ),
        (
            format!(
                "required float width; required float depth; {list} required binary species (STRING);"
            ),
            "column \"depth\" is not in",
        ),
        (
            format!("required float width; {list} required float species;"),
            "column \"species\" is of another kind than in",
        ),
    ] {
        let sentence = other(&schema);
        assert!(
            sentence.contains("b.parquet: ") && sentence.contains(difference),
            "{sentence}"
        );
    }
    // A folder without such files is handled as before.
    let none = folder("none");
    assert!(
        read(&none)
            .expect_err("refused")
            .to_string()
            .contains("a folder, expected a file")
    );
}
