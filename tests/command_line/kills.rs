//! `nearfar train` killed at random, again and again, and continued: no file is ever torn, only steps after the last checkpoint are
//! lost, and the head is that of a run without a stop, byte for byte.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nearfar::Checkpoint;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::program::{self, NEARFAR};

const CHECKPOINTS: [&str; 2] = ["checkpoint-1.bin", "checkpoint-2.bin"];
const ASIDE: &str = "checkpoint.partial";
/// Files that do not depend on the number of stops. The history is left out: it has the time.
const RESULTS: [&str; 6] = [
    "config.json",
    "head.safetensors",
    "linear.safetensors",
    "memory.npz",
    "test_embeddings.npy",
    "test_labels.csv",
];

/// A run of about a second.
const RUN: [&str; 10] = [
    "--data",
    "sample:digits",
    "--set",
    "steps=1200",
    "--set",
    "hidden_layers=[64]",
    "--set",
    "memory_size=256",
    "--set",
    "evaluate_queries=200",
];

fn folder(name: &str) -> PathBuf {
    program::folder(&format!("kills/{name}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(NEARFAR);
    command
        .arg("train")
        .args(arguments)
        .args(["--engine", "cpu"]);
    command
}

fn spawn(arguments: &[&str]) -> Child {
    let mut command = command(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("starts")
}

fn said(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!error.contains("panicked"), "{error}");
    error
}

/// Runs to the end, and returns the output.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = command(arguments).output().expect("starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    said
}

/// Sentence of a refusal.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = command(arguments).output().expect("starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty());
    said
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.expect("runs").success());
}

/// Step of each checkpoint in a folder; checks that each is whole.
fn steps(folder: &Path) -> Vec<u64> {
    let files = CHECKPOINTS.iter().map(|name| folder.join(name));
    let step = |path: PathBuf| {
        let bytes = fs::read(&path).ok()?;
        let checkpoint = Checkpoint::read(&bytes);
        Some(
            checkpoint
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
                .step(),
        )
    };
    files.filter_map(step).collect()
}

fn newest(folder: &Path) -> Option<u64> {
    steps(folder).into_iter().max()
}

/// The result files that a folder has.
fn results(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let read = |name: &'static str| Some((name, fs::read(folder.join(name)).ok()?));
    RESULTS.into_iter().filter_map(read).collect()
}

/// The result files of a run without a stop.
fn never_stopped(name: &str, run: &[&str]) -> Vec<(&'static str, Vec<u8>)> {
    let out = folder(name);
    done(&[run, &["--out", text(&out)]].concat());
    assert_eq!(
        newest(&out),
        None,
        "a run that is done leaves no checkpoint"
    );
    let results = results(&out);
    assert_eq!(results.len(), RESULTS.len());
    results
}

/// Starts a run, or continues that of the folder.
fn start_or_go_on(folder: &Path, run: &[&str], every: &str) -> Child {
    let every = ["--checkpoint-every", every];
    match newest(folder) {
        Some(_) => spawn(&[&["--resume", text(folder)], &every[..]].concat()),
        None => spawn(&[run, &["--out", text(folder)], &every].concat()),
    }
}

#[test]
fn kills_at_any_time_tear_no_file_and_the_head_is_that_of_a_run_never_stopped() {
    let kills: usize =
        std::env::var("NEARFAR_KILLS").map_or(20, |kills| kills.parse().expect("a number"));
    let expected = never_stopped("straight", &RUN);
    let out = folder("killed");
    let mut chance = Pcg64Mcg::seed_from_u64(7);
    let (mut killed, mut finished, mut while_saving, mut stops) = (0, 0, 0, 0);
    loop {
        // Goes on until a kill came while a checkpoint was written: that takes luck.
        let goes_on = killed < kills || while_saving == 0 && killed < 20 * kills;
        if !goes_on && stops == 0 {
            break;
        }
        let before = newest(&out);
        // Half of the time is spent on saving, or little of it.
        let every = ["0.000001", "0.02"][killed % 2];
        let mut child = start_or_go_on(&out, &RUN, every);
        if goes_on {
            std::thread::sleep(Duration::from_millis(chance.random_range(20..700)));
            child.kill().ok();
        }
        let output = child.wait_with_output().expect("ends");
        let said = said(&output);
        if let Some(step) = before {
            // From the newest checkpoint, unless it was killed before it printed so.
            let from = said
                .lines()
                .find_map(|line| line.strip_prefix("goes on after step "));
            let from = from.map(|rest| rest.split(' ').next().expect("a number").to_owned());
            assert!(
                from.is_none_or(|from| from == step.to_string()),
                "{step}: {said}"
            );
        }
        if output.status.success() {
            assert!(
                results(&out) == expected,
                "after {stops} stops the results are others: {said}"
            );
            assert!(!out.join(ASIDE).exists() && newest(&out).is_none());
            (finished, stops) = (finished + 1, 0);
            fs::remove_dir_all(&out).expect("is there");
            fs::create_dir_all(&out).expect("is made");
        } else {
            assert_eq!(output.status.code(), None, "it was killed: {said}");
            (killed, stops) = (killed + 1, stops + 1);
            while_saving += usize::from(out.join(ASIDE).exists());
            // Nothing that was saved is lost, unless the results are complete, and every file under its own name is whole.
            assert!(
                newest(&out) >= before || results(&out) == expected,
                "{:?} after {before:?}",
                newest(&out)
            );
            for (name, bytes) in results(&out) {
                let whole = expected.iter().find(|(other, _)| *other == name);
                assert!(
                    whole.is_some_and(|(_, whole)| *whole == bytes),
                    "{name} is torn"
                );
            }
        }
    }
    println!(
        "{killed} kills, {while_saving} of them while a checkpoint was written; {finished} runs came to their end"
    );
    assert!(
        finished > 0 && while_saving > 0,
        "{finished} finished, {while_saving} while saving"
    );
}

/// A folder with two checkpoints of a run that was killed.
fn two_checkpoints(name: &str, run: &[&str]) -> PathBuf {
    let out = folder(name);
    let begun = Instant::now();
    let mut child = spawn(
        &[
            run,
            &["--out", text(&out), "--checkpoint-every", "0.000001"],
        ]
        .concat(),
    );
    while steps(&out).len() < 2 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it saves nothing"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("is there");
    child.wait().expect("ends");
    fs::remove_file(out.join(ASIDE)).ok();
    out
}

#[test]
fn of_a_torn_checkpoint_and_a_whole_one_the_whole_one_is_taken() {
    // Little is left to do, and many slices of it.
    let run = [
        &RUN[..],
        &[
            "--set",
            "steps=400",
            "--set",
            "evaluate_every=10",
            "--set",
            "test_queries=100",
        ],
    ]
    .concat();
    let expected = never_stopped("straight-400", &run);
    let out = two_checkpoints("torn", &run);
    let whole = CHECKPOINTS.map(|name| fs::read(out.join(name)).expect("is there"));
    let found = whole
        .each_ref()
        .map(|bytes| Checkpoint::read(bytes).expect("is whole"));
    let steps = found.each_ref().map(Checkpoint::step);
    let newer = usize::from(found[1].elapsed_ms() > found[0].elapsed_ms());
    let put = |file: usize, bytes: &[u8]| {
        fs::write(out.join(CHECKPOINTS[file]), bytes).expect("is written");
    };
    let mut chance = Pcg64Mcg::seed_from_u64(8);
    let cuts = (0..whole[newer].len())
        .step_by(4096)
        .map(|end| whole[newer][..end].to_vec());
    let flips = (0..20).map(|_| {
        let mut flipped = whole[newer].clone();
        let at = chance.random_range(0..flipped.len());
        flipped[at] ^= 1 << chance.random_range(0..8);
        flipped
    });
    for torn in cuts.chain(flips) {
        put(newer, &torn);
        put(1 - newer, &whole[1 - newer]);
        let said = done(&["--resume", text(&out)]);
        let older = out.join(CHECKPOINTS[1 - newer]);
        let from = format!(
            "goes on after step {} of 400, which {} holds",
            steps[1 - newer],
            older.display()
        );
        assert!(said.contains(&from), "{from}: {said}");
        let file = format!("{}: ", out.join(CHECKPOINTS[newer]).display());
        assert!(
            said.contains(&file),
            "what is wrong with the other is said: {said}"
        );
        assert!(results(&out) == expected, "{} bytes", torn.len());
    }
    // Both are damaged: a sentence, and no file is touched.
    let before = results(&out);
    for (file, whole) in whole.iter().enumerate() {
        put(file, &whole[..5000]);
    }
    let said = refused(&["--resume", text(&out)]);
    assert!(said.contains("the checkpoint is damaged"), "{said}");
    assert!(results(&out) == before);
}

#[test]
fn ctrl_c_saves_the_run_and_resume_goes_on_with_it() {
    // Long enough to be stopped twice, on a fast machine too.
    let run = [&RUN[..], &["--set", "steps=8000"]].concat();
    let expected = never_stopped("straight-ctrl-c", &run);
    let out = folder("ctrl-c");
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let child = start_or_go_on(&out, &run, "30");
        std::thread::sleep(Duration::from_millis(400));
        send(signal, &child);
        let output = child.wait_with_output().expect("ends");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        let step = newest(&out).expect("it was saved");
        let saved = format!(
            "saved after step {step}: nearfar train --resume {}",
            out.display()
        );
        assert!(said.contains(&saved), "{said}");
        assert!(said.ends_with("nearfar: stopped\n"), "{said}");
    }
    // The same settings, from any source; no others.
    for (sets, why) in [
        (["--seed", "1"], "cannot be used with"),
        (["--budget", "64MiB"], "cannot be used with"),
        (
            ["--set", "batch_size=8"],
            "--set can only give it more steps",
        ),
        (["--set", "steps=1"], "are done, so it must be more"),
    ] {
        let said = refused(&[&["--resume", text(&out)], &sets[..]].concat());
        assert!(said.contains(why), "{said}");
    }
    assert!(newest(&out).is_some());
    let said = done(&["--resume", text(&out)]);
    assert!(said.contains("goes on after step"), "{said}");
    assert!(results(&out) == expected);
    let said = refused(&["--resume", text(&out)]);
    assert!(said.contains("the run is done, 8000 steps"), "{said}");
}

#[test]
fn a_run_that_is_done_goes_on_to_more_steps_from_its_folder_and_from_its_archive() {
    let long = [&RUN[..], &["--set", "evaluate_every=150"]].concat();
    let short: Vec<&str> = long
        .iter()
        .map(|part| match *part {
            "steps=1200" => "steps=300",
            part => part,
        })
        .collect();
    let expected = never_stopped("all-at-once", &long);
    let out = folder("first-part");
    done(&[&short[..], &["--out", text(&out)]].concat());
    let (zip, away) = (out.with_extension("zip"), folder("second-part"));
    let export = ["export", text(&out), "--format", "zip", "--out", text(&zip)];
    let exported = Command::new(NEARFAR).args(export).status();
    assert!(exported.expect("starts").success());

    let more = ["--set", "steps=1200"];
    let first = results(&out);
    let said = done(&[&["--resume", text(&zip), "--out", text(&away)], &more[..]].concat());
    assert!(
        said.contains("goes on after step 300 of 1200, which "),
        "{said}"
    );
    assert!(results(&away) == expected);
    assert!(results(&out) == first, "the first part stays as it is");
    done(&[&["--resume", text(&out)], &more[..]].concat());
    assert!(results(&out) == expected);
    let said = refused(&["--resume", text(&folder("nothing"))]);
    assert!(said.contains("there is no checkpoint of a run"), "{said}");
    let said = refused(&["--resume", text(&out.join("head.onnx"))]);
    assert!(said.contains("this is no checkpoint"), "{said}");
}

/// Writes rows of two classes, `shift` apart.
fn table(path: &Path, shift: f64) {
    let row = |i: usize| {
        let value = |k: usize| ((i * 7 + k * 3) as f64 * 0.7311).sin() + shift * (i % 2) as f64;
        format!(
            "{},{},{},{}\n",
            value(0),
            value(1),
            value(2),
            ["near", "far"][i % 2]
        )
    };
    let rows: String = (0..400).map(row).collect();
    fs::write(path, format!("a,b,c,side\n{rows}")).expect("is written");
}

#[test]
fn a_run_finds_its_data_from_any_folder_and_refuses_other_data() {
    let place = folder("data");
    let (data, moved, out) = (
        place.join("rows.csv"),
        place.join("moved.csv"),
        place.join("run"),
    );
    table(&data, 0.5);
    let run = [
        "--data",
        "rows.csv",
        "--labels",
        "side",
        "--set",
        "steps=4000",
        "--out",
        "run",
    ];
    let mut child = command(&run)
        .current_dir(&place)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(300));
    send("-INT", &child);
    child.wait().expect("ends");
    let kept = CHECKPOINTS.map(|name| fs::read(out.join(name)).ok());
    let put_back = || {
        for (name, bytes) in CHECKPOINTS.iter().zip(&kept) {
            match bytes {
                Some(bytes) => fs::write(out.join(name), bytes).expect("is written"),
                None => drop(fs::remove_file(out.join(name))),
            }
        }
    };
    // From another folder: the checkpoint has the path of its file.
    done(&["--resume", text(&out)]);
    let expected = fs::read(out.join("head.safetensors")).expect("is there");
    // An export does not reveal the folder of the data.
    let left = fs::read(out.join("checkpoint.bin")).expect("is there");
    let place = text(data.parent().expect("a folder")).as_bytes();
    assert!(left.windows(8).any(|part| part == b"rows.csv"));
    assert!(left.windows(place.len()).all(|part| part != place));
    put_back();
    fs::rename(&data, &moved).expect("is there");
    let said = refused_or_failed(&["--resume", text(&out)]);
    assert!(said.contains("rows.csv"), "{said}");
    table(&data, 0.6);
    let said = refused(&["--resume", text(&out)]);
    assert!(said.contains("is not what the run began with"), "{said}");
    assert_eq!(said.matches("fingerprint ").count(), 2, "{said}");
    done(&["--resume", text(&out), "--data", text(&moved)]);
    assert!(fs::read(out.join("head.safetensors")).expect("is there") == expected);
}

#[track_caller]
fn refused_or_failed(arguments: &[&str]) -> String {
    let output = command(arguments).output().expect("starts");
    assert!(
        matches!(output.status.code(), Some(1 | 2)),
        "{}",
        said(&output)
    );
    said(&output)
}

#[test]
fn where_nothing_can_be_saved_the_run_goes_on_and_says_so_once() {
    let out = folder("full");
    // The head takes 256 KiB, and a checkpoint four times that: more than a file may here.
    let limited = "trap '' XFSZ; ulimit -f 1200 && exec \"$0\" \"$@\"";
    let run = [
        "--data",
        "sample:digits",
        "--set",
        "hidden_layers=[512]",
        "--set",
        "steps=60",
        "--set",
        "memory_size=64",
    ];
    let output = Command::new("sh")
        .args([
            "-c",
            limited,
            NEARFAR,
            "train",
            "--engine",
            "cpu",
            "--checkpoint-every",
            "0.000001",
            "--out",
            text(&out),
        ])
        .args(run)
        .output()
        .expect("starts");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(
        said.matches("the run goes on and is not saved").count(),
        1,
        "{said}"
    );
    assert!(said.contains("checkpoint-1.bin"), "{said}");
    assert_eq!(results(&out).len(), RESULTS.len(), "{said}");
    assert!(!out.join(ASIDE).exists() && newest(&out).is_none());
}

#[test]
fn a_new_run_takes_the_place_of_one_that_was_stopped_and_says_so() {
    let out = two_checkpoints("replaced", &RUN);
    let old = newest(&out).expect("is there");
    let run = [
        "--data",
        "sample:digits",
        "--set",
        "steps=20",
        "--out",
        text(&out),
    ];
    let said = done(&[&run[..], &["--checkpoint-every", "0.000001"]].concat());
    let holds = format!("holds a run that was stopped, saved at step {old}");
    assert!(said.contains(&holds) && said.contains("--resume"), "{said}");
    assert_eq!(newest(&out), None);
    // An interval of 0 means never.
    let child = spawn(&[&RUN[..], &["--out", text(&out), "--checkpoint-every", "0"]].concat());
    std::thread::sleep(Duration::from_millis(400));
    send("-INT", &child);
    let said = said_of(child);
    assert!(!said.contains("saved after"), "{said}");
    assert_eq!(newest(&out), None);
    for wrong in ["-1", "often", "inf"] {
        refused(&[&run[..], &[&format!("--checkpoint-every={wrong}")]].concat());
    }
}

fn said_of(child: Child) -> String {
    said(&child.wait_with_output().expect("ends"))
}
