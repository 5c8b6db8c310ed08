//! `nearfar doctor`: a text from a file or from standard input, for a person and for a program.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Folder, command, ended};

const SETUP: &str = "\
loss = losses.CrossBatchMemory(losses.ContrastiveLoss(), 128, memory_size=65536)
batch_size = 512
num_classes = 100
";

#[test]
fn doctor_reads_a_file_and_standard_input() {
    let folder = Folder::new("doctor");
    let file = folder.write("setup.py", SETUP);
    let output = command(&["doctor", &file]).output().expect("starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "Tensor    matrices of batch x references in ContrastiveLoss",
        "Bytes     512 x 65,536 x 4 bytes = 128 MiB",
        "At peak   1 GiB",
        "Change    Lower the batch or memory_size",
        "Nearfar   nearfar loss --embeddings batch.npy",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let mut child = command(&["doctor", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("is piped");
    input.write_all(SETUP.as_bytes()).expect("is read");
    drop(input);
    let output = child.wait_with_output().expect("ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["cause"], "pair-matrices");
    assert_eq!(report["bytes"], 512 * 65_536 * 4);
    assert_eq!(report["assumed"], serde_json::json!([]));
    let plan = report["here"]["plan_bytes"].as_u64().expect("a plan");
    assert!(plan < 512 * 65_536 * 4, "{plan}");
}

#[test]
fn doctor_refuses_what_it_cannot_read() {
    let folder = Folder::new("doctor-empty");
    let file = folder.write("empty.txt", " \n");
    let output = command(&["doctor", &file]).output().expect("starts");
    let (code, sentence) = ended(&output);
    assert_eq!(code, Some(2), "{sentence}");
    assert!(sentence.starts_with("the text is empty: "), "{sentence}");
    let output = command(&["doctor", "missing.txt"])
        .output()
        .expect("starts");
    let (code, sentence) = ended(&output);
    assert_eq!(code, Some(1), "{sentence}");
    assert!(sentence.contains("missing.txt"), "{sentence}");
}
