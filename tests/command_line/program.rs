//! The program as these tests start it, what it must say when it refuses, and an empty folder for each test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) const NEARFAR: &str = env!("CARGO_BIN_EXE_nearfar");
/// The folder of the files that tests read.
pub(crate) const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

/// An empty folder for one test, by its name: `outputs/npz`.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&path).expect("is made");
    path
}

/// A folder of one test, and paths in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(folder(name))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).expect("is written");
        self.path(name)
    }
}

/// The program among the files that tests read.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(NEARFAR);
    command.args(arguments).current_dir(DATA);
    command
}

/// Runs a command on the CPU engine.
pub(crate) fn on_cpu(arguments: &[&str]) -> Output {
    let command = &mut command(arguments);
    command.args(["--engine", "cpu"]).output().expect("starts")
}

/// The JSON object of a command on the CPU engine.
#[track_caller]
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = on_cpu(&[arguments, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else")
}

/// Exit code of a command and its last sentence: one line that begins with the program's name.
#[track_caller]
pub(crate) fn ended(output: &Output) -> (Option<i32>, String) {
    let error = String::from_utf8_lossy(&output.stderr);
    let sentences: Vec<&str> = error
        .lines()
        .filter_map(|line| line.strip_prefix("nearfar: "))
        .collect();
    assert_eq!(sentences.len(), 1, "{:?}: {error}", output.status);
    assert!(!error.contains("panicked"), "{error}");
    (output.status.code(), sentences[0].to_owned())
}

/// The sentence of a refusal on the CPU engine, the last line of standard error: exit code 2, nothing on standard output.
#[track_caller]
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let output = on_cpu(arguments);
    let (code, sentence) = ended(&output);
    assert_eq!(code, Some(2), "{arguments:?}: {sentence}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.trim_end().ends_with(&sentence), "{error}");
    sentence
}

/// Arguments on a line, with blanks between them.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Arguments on a line, each `{}` one of `values`, which may hold blanks.
pub(crate) fn args<'a>(line: &'a str, values: &[&'a str]) -> Vec<&'a str> {
    let mut values = values.iter();
    let value = |word| match word {
        "{}" => values.next().expect("a value for each place"),
        word => word,
    };
    line.split(' ').map(value).collect()
}
