//! Files that other programs wrote, as `corpus/make.py` had them do: their rows, values and labels are what those programs
//! read back.

use std::path::Path;

use nearfar::{Choice, Format, Labelled, NamedFile};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
struct Case {
    files: Vec<String>,
    label: Option<String>,
    features: Option<String>,
    values: Vec<Vec<f32>>,
    labels: Vec<String>,
}

fn file(name: &str) -> NamedFile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    NamedFile::read(&folder.join(name)).expect("is there")
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
        read.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What is read otherwise than it was written; nothing where all is the same.
    fn difference(&self, read: &Labelled) -> Option<String> {
        let dim = self.values[0].len();
        if read.dim != dim || read.values.len() != dim * self.values.len() {
            return Some(format!("{} values, {} a row", read.values.len(), read.dim));
        }
        // A decimal may be halfway between two floats: read as a float or first as a double, it is one or the other.
        let decimals = Format::of(&self.files[0]) == Some(Format::Table);
        let same = |read: f32, written: f32| {
            read == written || (decimals && (read - written).abs() <= written.abs() * f32::EPSILON)
        };
        let mut pairs = read.values.iter().zip(self.values.iter().flatten());
        if let Some((read, written)) = pairs.find(|(read, written)| !same(**read, **written)) {
            return Some(format!("{read}, written {written}"));
        }
        (read.labels != self.labels[..]).then(|| format!("{:?}", read.labels))
    }
}

#[test]
fn what_other_programs_wrote_is_read_as_they_read_it() {
    let cases = cases();
    assert!(cases.len() >= 76, "{}", cases.len());
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
