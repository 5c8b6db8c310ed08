//! One function for each parser of bytes that come from anywhere: `fuzz_targets/` drives them, and `tests/malformed.rs` replays
//! `corpus/` with them. Each holds what it reads against what the parser promises, and panics where it is broken.

#[path = "../tests/malformed/checked.rs"]
pub(crate) mod checked;

use std::io::Cursor;

use checked::{sentence, words};
use nearfar::{
    Checkpoint, Choice, Dataset, Distance, Head, Labelled, Link, Missing, NamedFile, Results,
    SavedArchive, TrainConfig, link as link_of, write_matrix,
};
use xxhash_rust::xxh3::xxh3_64;

/// What a parser is driven with.
pub(crate) type Parser = fn(&[u8]);

/// All of them, with the names of their targets and of their folders in `corpus/`.
pub(crate) const PARSERS: [(&str, Parser); 15] = [
    ("archive", archive),
    ("checkpoint", checkpoint),
    ("csv", csv),
    ("gz", gz),
    ("hdf5", hdf5),
    ("head", head),
    ("history", history),
    ("json_lines", json_lines),
    ("labels", labels),
    ("link", link),
    ("npy", npy),
    ("npz", npz),
    ("parquet", parquet),
    ("safetensors", safetensors),
    ("settings", settings),
];

/// Comma- and tab-separated tables.
fn csv(bytes: &[u8]) {
    rows("x.csv", bytes);
}

/// JSON Lines.
fn json_lines(bytes: &[u8]) {
    rows("x.jsonl", bytes);
}

/// An NPY file as features, and as labels.
fn npy(bytes: &[u8]) {
    rows("x.npy", bytes);
}

/// An NPZ archive.
fn npz(bytes: &[u8]) {
    rows("x.npz", bytes);
}

/// A safetensors file of features and labels.
fn safetensors(bytes: &[u8]) {
    rows("x.safetensors", bytes);
}

/// HDF5, AnnData among it.
fn hdf5(bytes: &[u8]) {
    rows("x.h5", bytes);
}

/// Parquet.
fn parquet(bytes: &[u8]) {
    rows("x.parquet", bytes);
}

/// A table that gzip packed.
fn gz(bytes: &[u8]) {
    rows("x.csv.gz", bytes);
}

/// Reads features and labels in every way, whatever becomes of cells without a number.
fn rows(name: &str, bytes: &[u8]) {
    checked::read(name, bytes).ok();
    let Ok(file) = named(name, bytes).unpacked() else {
        return;
    };
    for (_, missing, _) in Missing::ALL {
        let choice = Choice {
            missing: Some(missing),
            ..Choice::default()
        };
        match Labelled::read(&file, None, choice) {
            Ok(rows) => checked::sound(&rows),
            Err(error) => sentence(&error, name),
        }
    }
}

/// The labels of four rows; the first byte tells the format.
fn labels(bytes: &[u8]) {
    let Some((format, bytes)) = bytes.split_first() else {
        return;
    };
    let endings = ["csv", "npy", "npz", "jsonl", "safetensors"];
    let name = format!("y.{}", endings[usize::from(*format) % endings.len()]);
    let data = named("x.npy", &write_matrix(&[1.0, 2.0, f32::NAN, 4.0], 1));
    for missing in [None, Some(Missing::DropRows), Some(Missing::Median)] {
        let choice = Choice {
            missing,
            ..Choice::default()
        };
        match Labelled::read(&data, Some(&named(&name, bytes)), choice) {
            Ok(rows) => checked::sound(&rows),
            // Either file may be what is wrong.
            Err(error) => sentence(&error, ""),
        }
    }
}

/// A head, as `embed --model` reads it.
fn head(bytes: &[u8]) {
    match Head::from_safetensors(&named("head.safetensors", bytes)) {
        Ok(head) => {
            let again = head.to_safetensors(Distance::Cosine);
            let again = Head::from_safetensors(&named("head.safetensors", &again));
            assert_eq!(again.expect("what was written is read"), head);
        }
        Err(error) => sentence(&error, "head.safetensors"),
    }
}

/// The archive of a run's folder, as `embed --model` and `export` read it.
fn archive(bytes: &[u8]) {
    let opened = SavedArchive::open("run.zip".to_owned(), Cursor::new(bytes));
    let saved = match opened {
        Ok(saved) => saved,
        Err(error) => return sentence(&error, "run.zip"),
    };
    if let Ok(Some(bytes)) = saved.read("head.safetensors") {
        head(&bytes);
    }
    if let Err(error) = Results::read("run.zip", |name| saved.read(name)) {
        sentence(&error, "");
    }
}

/// What a run's folder says of the run.
fn history(bytes: &[u8]) {
    let head = include_bytes!("corpus/head/small");
    let read = |name: &str| {
        Ok(match name {
            "history.json" => Some(bytes.to_vec()),
            "head.safetensors" => Some(head.to_vec()),
            _ => None,
        })
    };
    if let Err(error) = Results::read("run", read) {
        sentence(&error, "run/");
    }
}

/// A checkpoint: as it is, and with the checksum that it should have.
fn checkpoint(bytes: &[u8]) {
    let body = &bytes[..bytes.len().saturating_sub(8)];
    let summed = [body, &xxh3_64(body).to_le_bytes()].concat();
    for bytes in [bytes, &summed] {
        match Checkpoint::read(bytes) {
            Ok(checkpoint) => checkpoint.config().check().expect("was checked"),
            Err(error) => sentence(&error, ""),
        }
    }
}

/// A file of settings; its lines with a `=` are settings of the command line as well.
fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let defaults = TrainConfig::default();
    let sets = text.lines().filter(|line| line.contains('='));
    let sets = sets.map(|line| defaults.with_set(line));
    for config in sets.chain([defaults.with_json(&text)]) {
        match config.and_then(|config| config.check().map(|()| config)) {
            Ok(config) => {
                let again = defaults.with_json(&config.to_value().to_string());
                assert_eq!(again.expect("what was written is read"), config);
            }
            Err(error) => sentence(&error, ""),
        }
    }
}

/// The page's link: what stands behind `?`, and behind `#`.
fn link(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (query, settings) = text.split_once('#').unwrap_or(("", &text));
    let asked = Link::read(query, settings);
    asked.problems.iter().for_each(|problem| words(problem, ""));
    let Some(data) = asked.data else {
        return;
    };
    if data.contains('x')
        && let Err(error) = Dataset::sample(data.trim_start_matches("sample:"), 0)
    {
        sentence(&error, "");
    }
    let defaults = Dataset::default_config_of(&data);
    let (config, problems) = defaults.with_sets(&asked.sets);
    for problem in &problems {
        sentence(problem, "");
    }
    let again = Link::read("", &link_of(&data, &config, &defaults));
    assert_eq!(again.data, Some(data));
    let (again, problems) = defaults.with_sets(&again.sets);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(again, config);
}

fn named(name: &str, bytes: &[u8]) -> NamedFile {
    NamedFile {
        name: name.to_owned(),
        bytes: bytes.to_vec(),
    }
}
