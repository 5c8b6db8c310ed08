//! Files from other programs, which `corpus/make.py` made: their rows, values and labels are equal to those that these programs
//! read back.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use nearfar::{
    Choice, Format, Hdf5File, Labelled, Missing, NamedFile, ParquetFile, Result, Working,
};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
struct Case {
    files: Vec<String>,
    label: Option<String>,
    features: Option<String>,
    values: Vec<Vec<f32>>,
    labels: Vec<String>,
}

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    folder.join(name)
}

fn file(name: &str) -> NamedFile {
    NamedFile::read(&path(name)).expect("is there")
}

/// Reads a file of HDF5 or Parquet in place; checks that progress is reported until all is read.
fn read_open(name: &str, labels: Option<&NamedFile>, choice: Choice<'_>) -> Result<Labelled> {
    let heard = RefCell::new(Vec::new());
    let say = |working: Working| heard.borrow_mut().push((working.done, working.total));
    let read = match Format::of(name) {
        Some(Format::Parquet) => ParquetFile::open(&path(name))?.labelled(labels, choice, say),
        _ => Hdf5File::open(&path(name))?.labelled(labels, choice, say),
    }?;
    let heard = heard.into_inner();
    assert!(heard.is_sorted(), "{name}: {heard:?}");
    assert!(
        heard.last().is_some_and(|(done, total)| done == total),
        "{name}: {heard:?}"
    );
    Ok(read)
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&file("expected.json").bytes).expect("as it was written")
}

impl Case {
    fn read(&self) -> Labelled {
        let data = file(&self.files[0]);
        let labels = self.files.get(1).map(|name| file(name));
        let choice = Choice {
            features: self.features.as_deref(),
            labels: self.label.as_deref(),
            ..Choice::default()
        };
        let read = Labelled::read(&data, labels.as_ref(), choice);
        let read = read.unwrap_or_else(|error| panic!("{error}"));
        let is_open = matches!(
            Format::of(&self.files[0]),
            Some(Format::Hdf5 | Format::Parquet)
        );
        if is_open && !self.files[0].ends_with(".gz") {
            let open = read_open(&self.files[0], labels.as_ref(), choice);
            assert_eq!(open.expect("is read as from memory"), read);
        }
        read
    }

    /// Difference between the values read and the values written; `None` if there is none.
    fn difference(&self, read: &Labelled) -> Option<String> {
        let dim = self.values[0].len();
        if read.dim != dim || read.values.len() != dim * self.values.len() {
            return Some(format!("{} values, {} a row", read.values.len(), read.dim));
        }
        // A decimal may be halfway between two floats: read as a float or first as a double, the results differ.
        let decimals = Format::of(&self.files[0]) == Some(Format::Table);
        let same = |read: f32, written: f32| {
            read == written || (decimals && (read - written).abs() <= written.abs() * f32::EPSILON)
        };
        let mut pairs = read.values.iter().zip(self.values.iter().flatten());
        if let Some((read, written)) = pairs.find(|(read, written)| !same(**read, **written)) {
            return Some(format!("{read}, written {written}"));
        }
        // Numbers have one spelling: 1.0 is the class 1.
        let number = |label: &str| label.parse::<f64>().ok();
        let same = |(read, written): (&str, &String)| {
            read == written || number(read).is_some_and(|read| Some(read) == number(written))
        };
        let (labels, count) = (&read.labels, self.labels.len());
        let all = labels.len() == count && labels.iter().zip(&self.labels).all(same);
        (!all).then(|| format!("{:?}", read.labels))
    }
}

#[test]
fn what_other_programs_wrote_is_read_as_they_read_it() {
    let cases = cases();
    assert!(cases.len() >= 161, "{}", cases.len());
    for case in cases {
        assert_eq!(case.difference(&case.read()), None, "{:?}", case.files);
    }
}

#[test]
fn another_value_label_or_order_is_told_from_what_was_written() {
    for case in cases() {
        let read = case.read();
        let mut faults = vec![read.clone(); 4];
        faults[0].values[7] = f32::from_bits(faults[0].values[7].to_bits() ^ 64);
        let moved = read.labels.iter().skip(1).chain(read.labels.iter().take(1));
        faults[1].labels = moved.collect();
        faults[2].values.rotate_left(read.dim);
        faults[3].values.truncate(read.values.len() - read.dim);
        for (fault, faulty) in faults.iter().enumerate() {
            assert!(
                case.difference(faulty).is_some(),
                "{fault}, {:?}",
                case.files
            );
        }
    }
}

#[derive(Deserialize)]
struct Refused {
    file: String,
    said: String,
}

#[test]
fn what_is_whole_and_not_read_is_refused_with_the_reason() {
    let refused: Vec<Refused> =
        serde_json::from_slice(&file("refused.json").bytes).expect("as it was written");
    assert!(!refused.is_empty());
    for Refused { file: name, said } in refused {
        let whole = Labelled::read(&file(&name), None, Choice::default());
        let open = read_open(&name, None, Choice::default());
        for read in [whole, open] {
            let sentence = read.expect_err(&name).to_string();
            assert!(
                sentence.contains(&name) && sentence.contains(&said),
                "{sentence}"
            );
        }
    }
}

fn cells(name: &str, choice: Choice<'_>) -> Labelled {
    read_open(name, None, choice).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn cells_are_read_by_their_components_and_their_columns_by_name() {
    let read = cells("components.h5ad", Choice::default());
    assert_eq!(
        read.notes,
        [
            "features = \"obsm/X_pca\" (12, 3)",
            "label = \"obs/cell_type\" (12,)",
            "left out: \"X\" (12, 5), \"obsm/X_umap\" (12, 2)"
        ]
    );
    assert_eq!(read.label_column.as_deref(), Some("cell_type"));
    for (features, dim) in [("X", 5), ("X_umap", 2), ("obsm/X_umap", 2)] {
        let choice = Choice {
            features: Some(features),
            ..Choice::default()
        };
        assert_eq!(cells("components.h5ad", choice).dim, dim, "{features}");
    }
    for labels in ["donor", "obs/donor"] {
        let choice = Choice {
            labels: Some(labels),
            ..Choice::default()
        };
        let read = cells("two_columns.h5ad", choice);
        assert_eq!(read.label_column.as_deref(), Some("donor"));
        // The other text file splits rows.
        let [(name, values)] = &read.columns[..] else {
            panic!("{:?}", read.columns)
        };
        assert_eq!((&name[..], &values[0][..]), ("batch", "β cell"));
    }
    let file = Hdf5File::open(&path("two_columns.h5ad")).expect("opens");
    assert_eq!(file.label_choices(), ["batch", "donor"]);
}

#[test]
fn cells_of_parquet_without_a_number_are_dealt_with_as_chosen() {
    let read = |name: &str, missing| {
        let choice = Choice {
            missing: Some(missing),
            ..Choice::default()
        };
        read_open(name, None, choice).unwrap_or_else(|error| panic!("{error}"))
    };
    assert_eq!(read("hole.parquet", Missing::DropRows).labels.len(), 11);
    assert_eq!(read("hole.parquet", Missing::DropColumns).dim, 2);
    assert_eq!(read("hole.parquet", Missing::Median).values[6], 3.0);
    assert_eq!(read("unnamed.parquet", Missing::DropRows).labels.len(), 11);
    // A missing list counts as missing numbers.
    let read = read("no_list.parquet", Missing::DropRows);
    assert_eq!((read.labels.len(), read.dim), (11, 3));
}

#[test]
fn columns_of_parquet_that_are_not_read_are_named() {
    let read = cells("other_types.parquet", Choice::default());
    assert_eq!(
        read.notes,
        [
            "label = \"label\" (by its name)",
            "left out, no number or text: \"at\", \"raw\", \"part\"",
            "left out, decimal numbers, which are read once pandas' `.astype(float)` made them floats: \"price\""
        ]
    );
    let read = cells("named_index.parquet", Choice::default());
    assert_eq!(read.notes[1], "left out, the index: \"sample\"");
    let read = cells("vectors.parquet", Choice::default());
    assert_eq!(read.feature_names[2], "embedding[2]");
    assert_eq!(read.notes[1], "left out: \"id\", \"text\"");
    let file = ParquetFile::open(&path("vectors.parquet")).expect("opens");
    assert_eq!(file.label_choices(), ["id", "label", "text"]);
}
