//! Runs from an attacker: checkpoints, histories and archives with wrong numbers, words and sizes, and right checksums. Each is
//! refused in a sentence, or is the same run; none hangs, fills the memory, controls the terminal or touches other files.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;
use zip::write::SimpleFileOptions;

use crate::program::{NEARFAR, folder};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/trees.csv");
/// Memory that a command may take beside the sizes that the file claims.
const BESIDE: u64 = 64 << 20;
/// Time after which a command is taken to hang.
const HANGS: Duration = Duration::from_secs(60);
/// The longest line of output.
const LONGEST: usize = 1200;

/// Result of a command.
struct Ended {
    code: Option<i32>,
    said: String,
    /// Peak memory in bytes.
    peak: u64,
}

/// Runs a command to its end.
#[track_caller]
fn run(place: &Path, arguments: &[&str]) -> Ended {
    let out = fs::File::create(place.join("said")).expect("is made");
    let mut child = Command::new(NEARFAR)
        .args(arguments)
        .args(["--engine", "cpu"])
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("is open"))
        .stderr(out)
        .spawn()
        .expect("starts");
    let (started, mut peak) = (Instant::now(), 0);
    let status = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        // Until it has its own name, the memory is that of this process, from which it was started.
        let own = |status: &String| status.starts_with("Name:\tnearfar\n");
        let status = status.ok().filter(own).unwrap_or_default();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(most.unwrap_or(0) << 10);
        if let Some(status) = child.try_wait().expect("is asked") {
            break status;
        }
        if started.elapsed() > HANGS {
            child.kill().expect("ends");
            panic!("{arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = fs::read(place.join("said")).expect("is there");
    Ended {
        code: status.code(),
        said: String::from_utf8_lossy(&said).into_owned(),
        peak,
    }
}

/// Checks that a command ended well or in a sentence, in lines that a person can read.
#[track_caller]
fn decent(what: &str, ended: &Ended, claims: u64, plain: u64) {
    let Ended { code, said, peak } = ended;
    assert!(matches!(code, Some(0 | 2)), "{what}: {code:?} {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    let steers = |c: char| c.is_control() && c != '\n';
    assert!(!said.contains(steers), "{what}: {said:?}");
    let longest = said.lines().map(str::len).max().unwrap_or(0);
    assert!(longest <= LONGEST, "{what}: a line of {longest}: {said}");
    if *code == Some(2) {
        assert_eq!(said.matches("nearfar: ").count(), 1, "{what}: {said}");
    }
    assert!(
        *peak <= plain + claims + BESIDE,
        "{what}: {peak} bytes, {plain} as it should be, {claims} claimed"
    );
}

/// A finished run of a few steps, in a folder; returns the bytes of its checkpoint.
fn saved(place: &Path) -> Vec<u8> {
    let sets = [
        "steps=12",
        "evaluate_every=4",
        "hidden_layers=[8]",
        "embedding_size=4",
        "memory_size=64",
        "batch_size=16",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let train = ["train", "--data", DATA, "--out", "run"];
    let ended = run(place, &[&train[..], &sets].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    fs::read(place.join("run/checkpoint.bin")).expect("is saved")
}

/// Place of the JSON in a checkpoint.
fn settings(bytes: &[u8]) -> std::ops::Range<usize> {
    let length = u64::from_le_bytes(bytes[12..20].try_into().expect("eight bytes"));
    20..20 + length as usize
}

/// The checkpoint with its checksum recomputed.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// The checkpoint with other settings.
fn with_settings(bytes: &[u8], json: &str) -> Vec<u8> {
    let place = settings(bytes);
    let length = (json.len() as u64).to_le_bytes();
    summed([&bytes[..12], &length, json.as_bytes(), &bytes[place.end..]].concat())
}

/// Paths of all values that contain no others: `/run/elapsed_ms`.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(parts) if !parts.is_empty() => {
            parts
                .iter()
                .for_each(|(name, part)| leaves(part, &format!("{path}/{name}"), found));
        }
        Value::Array(parts) if !parts.is_empty() => {
            parts
                .iter()
                .enumerate()
                .for_each(|(at, part)| leaves(part, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Values that are wrong in most places.
fn hostile(kind: usize) -> Value {
    match kind {
        0 => json!(1.7e308),
        1 => json!(-1.0),
        2 => json!(u64::MAX),
        3 => json!("\u{1b}]0;mine\u{7}\u{1b}[31m\n\u{202e}"),
        4 => json!("long ".repeat(20_000)),
        5 => json!(vec![1; 100_000]),
        6 => json!(""),
        _ => Value::Null,
    }
}

/// `count` changes of a JSON text by a seed, each with its name: a leaf with another value.
fn changed(text: &str, count: usize, seed: u64) -> Vec<(String, String)> {
    let whole: Value = serde_json::from_str(text).expect("JSON");
    let mut places = Vec::new();
    leaves(&whole, "", &mut places);
    let mut chance = Pcg64Mcg::seed_from_u64(seed);
    let one = |at: usize| {
        let (kind, place) = (at % 8, &places[chance.random_range(0..places.len())]);
        let mut other = whole.clone();
        *other.pointer_mut(place).expect("is there") = hostile(kind);
        (format!("{place}, {kind}"), other.to_string())
    };
    (0..count).map(one).collect()
}

/// The checkpoint with an array of which every value is this.
fn with_array(bytes: &[u8], name: &str, value: [u8; 8]) -> Vec<u8> {
    let header = settings(bytes).end + 8;
    let length = u64::from_le_bytes(bytes[header..header + 8].try_into().expect("eight bytes"));
    let first = header + 8 + length as usize;
    let arrays: Value = serde_json::from_slice(&bytes[header + 8..first]).expect("JSON");
    let end =
        |at: usize| first + arrays[name]["data_offsets"][at].as_u64().expect("a place") as usize;
    let mut other = bytes.to_vec();
    other[end(0)..end(1)]
        .chunks_exact_mut(8)
        .for_each(|of| of.copy_from_slice(&value));
    summed(other)
}

#[test]
fn checkpoints_of_others_are_refused_in_a_sentence_or_are_the_same_run() {
    let place = folder("hostile/checkpoints");
    let bytes = saved(&place);
    let text = String::from_utf8(bytes[settings(&bytes)].to_vec()).expect("text");
    let mut files: Vec<(String, Vec<u8>)> = changed(&text, 32, 1)
        .into_iter()
        .map(|(what, json)| (what, with_settings(&bytes, &json)))
        .collect();
    for (what, value) in [
        ("losses of 1.7e308", 1.7e308f64.to_le_bytes()),
        ("losses without number", f64::NAN.to_le_bytes()),
        ("losses without end", f64::INFINITY.to_le_bytes()),
    ] {
        files.push((what.to_owned(), with_array(&bytes, "history.loss", value)));
    }
    let of_counts = with_array(&bytes, "history.counts", u64::MAX.to_le_bytes());
    files.push(("counts of 2^64-1".to_owned(), of_counts));
    let evaluations =
        json!(serde_json::from_str::<Value>(&text).expect("JSON")["run"]["evaluations"]);
    let many = json!(vec![evaluations[0].clone(); 100_000]).to_string();
    for (what, with) in [("no evaluations", "[]"), ("100,000 evaluations", &many)] {
        let mut json: Value = serde_json::from_str(&text).expect("JSON");
        json["run"]["evaluations"] = serde_json::from_str(with).expect("JSON");
        files.push((what.to_owned(), with_settings(&bytes, &json.to_string())));
    }
    let resume = |file: &str| {
        run(
            &place,
            &[
                "train", "--resume", file, "--data", DATA, "--set", "steps=14", "--out", "on",
            ],
        )
    };
    fs::write(place.join("plain.bin"), &bytes).expect("is written");
    let plain = resume("plain.bin");
    assert_eq!(plain.code, Some(0), "{}", plain.said);
    let mut refused = 0;
    for (what, bytes) in &files {
        fs::write(place.join("other.bin"), bytes).expect("is written");
        let ended = resume("other.bin");
        decent(what, &ended, bytes.len() as u64, plain.peak);
        refused += usize::from(ended.code == Some(2));
    }
    assert!(
        files.len() >= 38 && refused >= 20,
        "{refused} of {}",
        files.len()
    );
    // The output of a run that never ends.
    for what in [
        "losses without number",
        "losses without end",
        "counts of 2^64-1",
        "no evaluations",
        "100,000 evaluations",
    ] {
        let (_, bytes) = files
            .iter()
            .find(|(name, _)| name == what)
            .expect("is there");
        fs::write(place.join("other.bin"), bytes).expect("is written");
        let said = resume("other.bin").said;
        assert!(
            said.contains("the checkpoint is damaged: "),
            "{what}: {said}"
        );
    }
}

#[test]
fn histories_of_others_make_files_or_a_sentence() {
    let place = folder("hostile/histories");
    saved(&place);
    let history = place.join("run/history.json");
    let text = fs::read_to_string(&history).expect("is saved");
    let mut refused = 0;
    let formats = ["report", "charts", "card", "history-csv", "torchrun", "zip"];
    let plain = run(
        &place,
        &["export", "run", "--format", "report", "--out", "plain.html"],
    );
    assert_eq!(plain.code, Some(0), "{}", plain.said);
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let chosen = [
        ("/history/0/loss", json!(1.7e308)),
        ("/evaluations/0/validation/precision_at_1", json!(1e308)),
        ("/history/3/step", json!(u64::MAX)),
        ("/elapsed_ms", json!(1e308)),
    ];
    let changes = chosen.into_iter().map(|(path, value)| {
        let mut other = whole.clone();
        *other.pointer_mut(path).expect("is there") = value;
        (path.to_owned(), other.to_string())
    });
    let changes: Vec<(String, String)> = changes.chain(changed(&text, 42, 2)).collect();
    for (at, (what, json)) in changes.iter().enumerate() {
        fs::write(&history, json).expect("is written");
        let ended = run(
            &place,
            &["export", "run", "--format", formats[at % 6], "--out", "out"],
        );
        decent(what, &ended, json.len() as u64, plain.peak);
        refused += usize::from(ended.code == Some(2));
        fs::remove_dir_all(place.join("out")).ok();
        fs::remove_file(place.join("out")).ok();
    }
    assert!(refused >= 10, "{refused} of {}", changes.len());
}

/// Packs files, compressed if that makes them smaller.
fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default())
            .expect("begins");
        zip.write_all(bytes).expect("is written");
    }
    zip.finish().expect("is whole").into_inner()
}

#[test]
fn archives_of_others_take_no_more_memory_than_they_claim_and_their_folder_may_be_packed_too() {
    let place = folder("hostile/archives");
    saved(&place);
    let read = |name: &str| fs::read(place.join("run").join(name)).expect("is saved");
    let (head, history, checkpoint) = (
        read("head.safetensors"),
        read("history.json"),
        read("checkpoint.bin"),
    );
    let blanks = vec![b' '; 300 << 20];
    let zeros = vec![0; 300 << 20];
    let card = ["export", "a.zip", "--format", "card", "--out", "card.md"];
    let resume = [
        "train", "--resume", "a.zip", "--data", DATA, "--set", "steps=14", "--out", "on",
    ];
    // As it was packed, from the folder above it, and from the folder itself by "zip -r ../a.zip .".
    for folder in ["", "run/", "./"] {
        let name = |file: &str| format!("{folder}{file}");
        let files = [
            (name("head.safetensors"), &head),
            (name("history.json"), &history),
            (name("checkpoint.bin"), &checkpoint),
        ];
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(name, bytes)| (name.as_str(), &bytes[..]))
            .collect();
        fs::write(place.join("a.zip"), packed(&files)).expect("is written");
        for command in [&card[..], &resume] {
            let ended = run(&place, command);
            assert_eq!(ended.code, Some(0), "{folder}: {}", ended.said);
        }
    }
    for (what, files, command) in [
        (
            "a history of blanks",
            vec![("head.safetensors", &head[..]), ("history.json", &blanks)],
            &card[..],
        ),
        (
            "a head of zeros",
            vec![("head.safetensors", &zeros[..]), ("history.json", &history)],
            &card,
        ),
        (
            "a memory of zeros",
            vec![
                ("head.safetensors", &head[..]),
                ("history.json", &history),
                ("memory.npz", &zeros),
            ],
            &card,
        ),
        (
            "a checkpoint of zeros",
            vec![("head.safetensors", &head[..]), ("checkpoint.bin", &zeros)],
            &resume,
        ),
    ] {
        let archive = packed(&files);
        assert!(archive.len() < 1 << 20);
        fs::write(place.join("a.zip"), &archive).expect("is written");
        let ended = run(&place, command);
        decent(what, &ended, archive.len() as u64, 0);
        assert_eq!(ended.code, Some(2), "{what}: {}", ended.said);
    }
}

#[test]
fn a_folder_that_holds_files_of_somebody_is_left_alone() {
    let place = folder("hostile/own");
    let train = |out: &str| {
        run(
            &place,
            &[
                "train",
                "--data",
                DATA,
                "--set",
                "steps=4",
                "--set",
                "memory_size=0",
                "--out",
                out,
            ],
        )
    };
    for name in [
        "memory.npz",
        "checkpoint-2.bin",
        "report.html",
        "history.json",
        "sentence-transformers/modules.json",
    ] {
        let own = place.join("mine");
        let file = own.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("is made");
        fs::write(&file, "my notes").expect("is written");
        let ended = train("mine");
        assert_eq!(ended.code, Some(2), "{name}: {}", ended.said);
        let sentence = format!("mine: it holds {name} and is not the folder of a run");
        assert!(ended.said.contains(&sentence), "{}", ended.said);
        assert_eq!(fs::read_to_string(&file).expect("is there"), "my notes");
        fs::remove_dir_all(own).expect("is gone");
    }
    // A run replaces a run; other files in the folder stay.
    assert_eq!(train("run").code, Some(0));
    fs::write(place.join("run/notes.txt"), "my notes").expect("is written");
    let again = train("run");
    assert_eq!(again.code, Some(0), "{}", again.said);
    assert!(place.join("run/notes.txt").exists());
    // Its own checkpoint names, with other content.
    fs::write(place.join("run/checkpoint-2.bin"), "mine").expect("is written");
    let ended = train("run");
    assert!(
        ended.said.contains("it holds checkpoint-2.bin and"),
        "{}",
        ended.said
    );
}

#[test]
fn no_link_of_a_folder_leads_out_of_it() {
    let place = folder("hostile/links");
    saved(&place);
    fs::write(place.join("rc"), "export A=1").expect("is written");
    fs::create_dir(place.join("elsewhere")).expect("is made");
    for name in ["report.html", "checkpoint-1.bin"] {
        fs::remove_file(place.join("run").join(name)).ok();
        symlink("../rc", place.join("run").join(name)).expect("is made");
    }
    let resume = || {
        run(
            &place,
            &[
                "train",
                "--resume",
                "run/checkpoint.bin",
                "--data",
                DATA,
                "--set",
                "steps=25",
                "--out",
                "run",
            ],
        )
    };
    fs::remove_file(place.join("run/checkpoint-1.bin")).expect("is gone");
    let ended = resume();
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert_eq!(
        fs::read_to_string(place.join("rc")).expect("is there"),
        "export A=1"
    );
    let report = fs::symlink_metadata(place.join("run/report.html")).expect("is there");
    assert!(report.is_file(), "the link is replaced");
    // A folder of the folder.
    fs::remove_dir_all(place.join("run/sentence-transformers")).expect("is gone");
    symlink("../elsewhere", place.join("run/sentence-transformers")).expect("is made");
    let ended = run(
        &place,
        &["train", "--data", DATA, "--set", "steps=4", "--out", "run"],
    );
    assert_eq!(ended.code, Some(2), "{}", ended.said);
    assert!(
        ended
            .said
            .contains("it is a link out of the folder: remove it"),
        "{}",
        ended.said
    );
    assert_eq!(
        fs::read_dir(place.join("elsewhere"))
            .expect("is there")
            .count(),
        0
    );
}

#[test]
fn two_processes_do_not_write_one_folder() {
    let place = folder("hostile/two");
    let train = [
        "train",
        "--data",
        "sample:digits",
        "--set",
        "steps=1000000",
        "--checkpoint-every",
        "0.1",
        "--out",
        "run",
        "--engine",
        "cpu",
    ];
    let mut first = Command::new(NEARFAR)
        .args(train)
        .current_dir(&place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let begun = Instant::now();
    while !place.join("run/checkpoint-1.bin").exists() {
        assert!(begun.elapsed() < HANGS, "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = run(&place, &train[..train.len() - 2]);
    assert_eq!(second.code, Some(2), "{}", second.said);
    assert!(
        second
            .said
            .contains("run: cannot be written: another nearfar writes there"),
        "{}",
        second.said
    );
    first.kill().expect("ends");
    first.wait().expect("ends");
    // A killed process keeps no lock.
    let third = run(&place, &["train", "--resume", "run", "--set", "steps=1"]);
    assert!(!third.said.contains("another nearfar"), "{}", third.said);
}

#[test]
fn a_checkpoint_opens_no_pipe_by_itself() {
    let place = folder("hostile/pipe");
    let bytes = saved(&place);
    let pipe = place.join("pipe.csv");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("runs");
    assert!(made.success());
    let text = String::from_utf8(bytes[settings(&bytes)].to_vec()).expect("text");
    let mut json: Value = serde_json::from_str(&text).expect("JSON");
    json["origin"]["data"] = json!(pipe);
    fs::write(
        place.join("other.bin"),
        with_settings(&bytes, &json.to_string()),
    )
    .expect("is written");
    let ended = run(
        &place,
        &["train", "--resume", "other.bin", "--set", "steps=14"],
    );
    assert_eq!(ended.code, Some(2), "{}", ended.said);
    assert!(
        ended
            .said
            .contains("a pipe or a device, which the checkpoint names"),
        "{}",
        ended.said
    );
}

#[test]
fn a_long_history_of_an_earlier_version_takes_no_memory_by_the_step() {
    let place = folder("hostile/long");
    let bytes = saved(&place);
    let steps: u64 =
        std::env::var("NEARFAR_STEPS").map_or(200_000, |steps| steps.parse().expect("a number"));
    let settings = settings(&bytes);
    let mut said: Value = serde_json::from_slice(&bytes[settings.clone()]).expect("JSON");
    said["trainer"]["step"] = json!(steps);
    said["config"]["steps"] = json!(steps);
    said["run"]["head"] = Value::Null;
    // The arrays with as many steps.
    let header = settings.end + 8;
    let length = u64::from_le_bytes(bytes[header..header + 8].try_into().expect("eight bytes"));
    let arrays =
        safetensors::SafeTensors::deserialize(&bytes[header..bytes.len() - 8]).expect("reads");
    let losses: Vec<u8> = vec![0.5f64; steps as usize]
        .iter()
        .flat_map(|loss| loss.to_le_bytes())
        .collect();
    let counts: Vec<u8> = (1..=steps)
        .flat_map(|step| [step, 0, 16, 9, 3, 3, 3, 3, 2, 4096, 4096])
        .flat_map(u64::to_le_bytes)
        .collect();
    assert!(length > 0 && counts.len() == steps as usize * 88);
    let all: Vec<(String, safetensors::Dtype, Vec<usize>, &[u8])> = arrays
        .iter()
        .map(|(name, view)| match name {
            "history.loss" => (
                name.to_owned(),
                view.dtype(),
                vec![steps as usize],
                &losses[..],
            ),
            "history.counts" => (
                name.to_owned(),
                view.dtype(),
                vec![11 * steps as usize],
                &counts[..],
            ),
            _ => (
                name.to_owned(),
                view.dtype(),
                view.shape().to_vec(),
                view.data(),
            ),
        })
        .collect();
    let views = all.iter().map(|(name, dtype, shape, data)| {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), data);
        (name.as_str(), view.expect("is sound"))
    });
    let arrays = safetensors::serialize(views, None).expect("is written");
    let json = said.to_string();
    let mut long = bytes[..12].to_vec();
    for section in [json.as_bytes(), &arrays] {
        long.extend((section.len() as u64).to_le_bytes());
        long.extend(section);
    }
    let long = summed([&long[..], &[0; 8]].concat());
    fs::write(place.join("long.bin"), &long).expect("is written");
    let ten_more = format!("steps={}", steps + 10);
    let ended = run(
        &place,
        &[
            "train", "--resume", "long.bin", "--data", DATA, "--set", &ten_more, "--out", "on",
        ],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    // The file is held whole while it is read: 19 MB.
    assert!(
        ended.peak < long.len() as u64 + BESIDE,
        "{} for a file of {}",
        ended.peak,
        long.len()
    );
    let mut history = String::new();
    let file = fs::File::open(place.join("on/history.json"));
    file.expect("is saved")
        .read_to_string(&mut history)
        .expect("is read");
    let history: Value = serde_json::from_str(&history).expect("JSON");
    let kept = history["history"].as_array().expect("a list");
    assert!(
        kept.len() <= 16_385 && history["history_one_in"].as_u64() >= Some(16),
        "{}",
        kept.len()
    );
    assert_eq!(kept.last().expect("some")["step"], json!(steps + 10));
    // All results together are smaller than a tenth of what every step took.
    let bytes = |name: &str| {
        fs::metadata(place.join("on").join(name))
            .expect("is saved")
            .len()
    };
    assert!(
        bytes("checkpoint.bin") < 2 << 20,
        "{}",
        bytes("checkpoint.bin")
    );
}
