//! Messages on sound files that cannot be read, and on files with too little: the right cause, and the remedy.

use std::path::Path;
use std::sync::Arc;

use hdf5_pure::{AttrValue, FileBuilder};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::program::{folder, on_cpu};

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("is written");
    path.display().to_string()
}

/// Exit code, and standard output and error together.
fn nearfar(arguments: &[&str]) -> (Option<i32>, String) {
    let output = on_cpu(arguments);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code(), said)
}

/// Checks that the command refuses, with all of these parts in its message.
#[track_caller]
fn refuses(arguments: &[&str], parts: &[&str]) {
    let (code, said) = nearfar(arguments);
    assert_eq!(code, Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} in {said}");
    }
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn matrix(rows: &[[f32; 2]]) -> Vec<u8> {
    let data: Vec<u8> = rows
        .iter()
        .flatten()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    npy("<f4", &format!("({}, 2)", rows.len()), &data)
}

#[test]
fn of_fewer_pairs_than_a_thousand_those_that_were_counted_are_said() {
    let folder = folder("words/pairs");
    // Two classes of five rows, far apart: 20 pairs of a class, and 25 of two.
    let rows: Vec<[f32; 2]> = (0..10)
        .map(|row| match row % 2 {
            0 => [1.0, 0.01 * row as f32],
            _ => [0.01 * row as f32, 1.0],
        })
        .collect();
    let labels: Vec<u8> = (0..10_i64)
        .flat_map(|row| (row % 2).to_le_bytes())
        .collect();
    let x = write(&folder, "x.npy", matrix(&rows));
    let y = write(&folder, "y.npy", npy("<i8", "(10,)", &labels));
    let asked = ["threshold", "--embeddings", &x, "--labels", &y];
    let (code, said) = nearfar(&[&asked[..], &["--false-match-rate", "0.1"]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("pairs of the same class none is missed"),
        "{said}"
    );
    assert!(!said.contains("1,000,000,000"), "{said}");
    assert!(
        said.contains("of the 20 pairs of the same class none is missed"),
        "{said}"
    );
    assert!(
        said.contains("of the 25 pairs of different classes 2 are let in"),
        "{said}"
    );
}

#[test]
fn dates_and_durations_are_called_so() {
    let folder = folder("words/dates");
    let x = write(&folder, "x.npy", matrix(&[[1.0, 2.0], [3.0, 4.0]]));
    for (descr, what) in [
        ("<M8[ns]", "dates (datetime64)"),
        ("<m8[s]", "durations (timedelta64)"),
    ] {
        let y = write(&folder, "y.npy", npy(descr, "(2,)", &[0; 16]));
        refuses(
            &["train", "--data", &x, "--labels", &y],
            &[what, "y.astype(str)"],
        );
    }
}

#[test]
fn a_row_without_another_is_said_to_be_alone() {
    let folder = folder("words/alone");
    let x = write(&folder, "one.npy", matrix(&[[1.0, 2.0]]));
    let out = folder.join("k.npz").display().to_string();
    refuses(
        &["knn", "--queries", &x, "--k", "1", "--out", &out],
        &[
            "there is one row, and no other row for it to find",
            "--references",
        ],
    );
}

#[test]
fn a_key_of_json_lines_that_is_not_read_is_named_with_what_it_holds() {
    let folder = folder("words/keys");
    let object = "{\"label\": \"ash\", \"vector\": {\"0\": 0.3, \"1\": -0.5}}\n\
                  {\"label\": \"birch\", \"vector\": {\"0\": 6.5, \"1\": 2.4}}\n";
    let file = write(&folder, "object.jsonl", object);
    refuses(
        &["train", "--data", &file],
        &[
            "\"vector\" holds an object",
            "a list of as many numbers in each row",
        ],
    );
    let (_, said) = nearfar(&["train", "--data", &file]);
    assert!(!said.contains("commas"), "{said}");
    let list = "{\"label\": [\"ash\"], \"vector\": [0.3, 1]}\n{\"label\": [\"birch\"], \"vector\": [0.5, 2]}\n";
    let file = write(&folder, "list.jsonl", list);
    for more in [&[][..], &["--labels", "label"]] {
        refuses(
            &[&["train", "--data", &file], more].concat(),
            &[
                "\"label\" holds a list of text, and a label is one text",
                ".str[0]",
            ],
        );
    }
}

#[test]
fn the_nan_of_python_is_no_json_and_null_is_an_empty_cell() {
    let folder = folder("words/nan");
    let text = |cell: &str| {
        let row = |i: usize| {
            let value = if i == 3 {
                cell.to_owned()
            } else {
                format!("{i}.5")
            };
            format!(
                "{{\"label\": \"c{}\", \"vector\": [{value}, {}]}}\n",
                i % 2,
                i * i
            )
        };
        (0..40).map(row).collect::<String>()
    };
    let file = write(&folder, "nan.jsonl", text("NaN"));
    refuses(
        &["train", "--data", &file],
        &["line 4: NaN (character ", "is no JSON", "write null"],
    );
    // With the advice the file reads.
    let file = write(&folder, "null.jsonl", text("null"));
    let steps = ["--missing", "median", "--set", "steps=1"];
    let (code, said) = nearfar(&[&["train", "--data", &file], &steps[..]].concat());
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_missing_label_of_anndata_names_the_option_that_leaves_it_out() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/unnamed.h5ad");
    refuses(
        &["train", "--data", file],
        &[
            "the label is empty",
            "drop the rows without one (--missing drop-rows does)",
        ],
    );
}

/// A Parquet file with a list of one name as `label` and a list of two numbers as `embedding` in each row.
fn lists() -> Vec<u8> {
    let schema = "message rows {
        required group label (LIST) { repeated group list { required binary element (STRING); } }
        required group embedding (LIST) { repeated group list { required float element; } }
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).expect("begins");
    let mut group = writer.next_row_group().expect("a group");
    let mut column = group.next_column().expect("is there").expect("a column");
    let names =
        ["ash", "birch", "ash", "birch"].map(|name| ByteArray::from(name.as_bytes().to_vec()));
    let written = column.typed::<ByteArrayType>();
    written
        .write_batch(&names, Some(&[1; 4]), Some(&[0; 4]))
        .expect("writes");
    column.close().expect("ends");
    let mut column = group.next_column().expect("is there").expect("a column");
    let numbers = [0.5, 1.0, 2.0, 3.0, 4.0, 5.5, 6.0, 7.0];
    let written = column.typed::<FloatType>();
    let repeated = [0, 1, 0, 1, 0, 1, 0, 1];
    written
        .write_batch(&numbers, Some(&[1; 8]), Some(&repeated))
        .expect("writes");
    column.close().expect("ends");
    group.close().expect("ends");
    writer.into_inner().expect("ends")
}

#[test]
fn columns_of_parquet_that_are_not_read_are_said_with_what_they_hold() {
    let folder = folder("words/parquet");
    let file = write(&folder, "train-00000-of-00002.parquet", lists());
    refuses(
        &["train", "--data", &file],
        &[
            "\"label\" holds a list of text, and a label is one text",
            ".str[0]",
        ],
    );
}

#[test]
fn decimal_numbers_are_no_text_and_no_other_thing() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/corpus/only_times.parquet"
    );
    refuses(
        &["train", "--data", file],
        &["decimal numbers", ".astype(float)"],
    );
}

#[test]
fn a_data_frame_among_the_matrices_of_anndata_is_called_so() {
    let mut file = FileBuilder::new();
    let kind = |kind: &str| AttrValue::VarLenString(kind.to_owned());
    file.set_attr("encoding-type", kind("anndata"));
    file.create_dataset("X")
        .with_f32_data(&[1.0, 2.0, 3.0, 4.0])
        .with_shape(&[2, 2]);
    let mut obsm = file.create_group("obsm");
    let mut frame = obsm.create_group("protein_expression");
    frame.set_attr("encoding-type", kind("dataframe"));
    frame.create_dataset("CD3").with_f32_data(&[1.0, 2.0]);
    obsm.add_group(frame.finish());
    file.add_group(obsm.finish());
    let folder = folder("words/frame");
    let file = write(&folder, "cells.h5ad", file.finish().expect("is written"));
    let chosen = format!("{file}:obsm/protein_expression");
    let out = folder.join("k.npz").display().to_string();
    refuses(
        &["knn", "--queries", &chosen, "--k", "1", "--out", &out],
        &[
            "a data frame, which is not read",
            "adata.obsm[\"protein_expression\"].to_numpy()",
        ],
    );
}

#[test]
fn files_of_other_endings_are_told_with_what_to_do() {
    let folder = folder("words/endings");
    for (name, parts) in [
        (
            "adult.data",
            ["ending does not say what is in it", "adult.csv"],
        ),
        ("iris.arff", ["an ARFF file of Weka", "arff.loadarff("]),
        ("a1a.libsvm", ["a file of LIBSVM", "load_svmlight_file("]),
        ("head.pt", ["a file of torch", "isinstance(t, dict)"]),
    ] {
        let file = write(&folder, name, "1,2,a\n3,4,b\n");
        refuses(&["train", "--data", &file], &parts);
    }
}

#[test]
fn classes_of_one_row_are_not_mended_by_a_larger_test_side() {
    let folder = folder("words/single");
    // One class has two rows, which train.
    let row = |i: usize| format!("{},{},c{}\n", i % 7, (i * i) % 11, i.min(58));
    let text: String = ["a,b,label\n".to_owned()]
        .into_iter()
        .chain((0..60).map(row))
        .collect();
    let file = write(&folder, "single.csv", text);
    let steps = [
        "--labels",
        "label",
        "--set",
        "steps=1",
        "--set",
        "split=random",
    ];
    let (_, said) = nearfar(&[&["train", "--data", &file], &steps[..]].concat());
    assert!(said.contains("bring more rows of a class"), "{said}");
}
