//! Output of the command line, and refusals to write: files that are complete or not there, memory that the system does not have,
//! figures that work.
#![cfg(unix)]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;

use crate::program::{DATA, Folder, NEARFAR, args, command, ended, json, on_cpu, refusal};

/// A run of few and small steps.
const SMALL: [&str; 8] = [
    "--set",
    "steps=5",
    "--set",
    "batch_size=12",
    "--set",
    "memory_size=24",
    "--set",
    "hidden_layers=[16]",
];

/// Runs a command on the CPU engine under a limit of `ulimit`.
fn limited(limit: &str, arguments: &[&str]) -> Output {
    limited_as_it_is(limit, &[arguments, &["--engine", "cpu"]].concat())
}

fn limited_as_it_is(limit: &str, arguments: &[&str]) -> Output {
    let script = format!("trap '' XFSZ; ulimit {limit} && exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, NEARFAR])
        .args(arguments)
        .current_dir(DATA)
        .output()
        .expect("starts")
}

impl Folder {
    /// Writes `count` rows of `dim` values between -1 and 1.
    fn rows(&self, name: &str, count: usize, dim: usize) -> String {
        let value = |i: usize| (i as f32 * 0.7311).sin();
        let values: Vec<f32> = (0..count * dim).map(value).collect();
        self.write(name, nearfar::write_matrix(&values, dim))
    }

    /// Writes `count` labels of `classes` classes.
    fn labels(&self, name: &str, count: usize, classes: usize) -> String {
        let labels = (0..count).map(|row| format!("c{}\n", row % classes));
        self.write(
            name,
            format!("label\n{}", labels.collect::<String>()).as_bytes(),
        )
    }

    /// Writes a head of layers `(weight, bias, [outputs, inputs])`.
    fn head(&self, name: &str, layers: &[(&[f32], &[f32], [usize; 2])]) -> String {
        let mut tensors = Vec::new();
        for (i, (weight, bias, shape)) in layers.iter().enumerate() {
            tensors.push((format!("{}.weight", 2 * i), shape.to_vec(), *weight));
            tensors.push((format!("{}.bias", 2 * i), vec![bias.len()], *bias));
        }
        let views = tensors.iter().map(|(name, shape, values)| {
            let bytes = bytemuck::cast_slice(values);
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            (name.as_str(), view.expect("shape and bytes agree"))
        });
        let bytes = safetensors::serialize(views, None).expect("names and sizes are sound");
        fs::create_dir_all(self.0.join(name)).expect("is made");
        self.write(&format!("{name}/head.safetensors"), &bytes);
        self.path(name)
    }

    /// Head that is the identity of `dim` dimensions.
    fn identity(&self, dim: usize) -> String {
        let weight: Vec<f32> = (0..dim * dim)
            .map(|i| f32::from(u8::from(i % (dim + 1) == 0)))
            .collect();
        self.head(
            &format!("identity{dim}"),
            &[(&weight, &vec![0.0; dim], [dim, dim])],
        )
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .expect("is there")
            .map(|entry| entry.expect("is read").file_name().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    fn holds_nothing_half_written(&self) {
        let partial = |name: &String| name.contains("partial");
        assert_eq!(self.names().into_iter().find(partial), None);
    }
}

#[test]
fn a_head_that_cannot_be_computed_with_is_refused_by_tensor_and_place() {
    let folder = Folder::new("outputs/bad-heads");
    let rows = folder.rows("rows.npy", 4, 2);
    let one = [1.0f32, 0.0, 0.0, 1.0];
    let second = [1.0f32, 0.0, f32::NAN, 1.0];
    let heads = [
        (
            folder.head(
                "nan",
                &[(&one, &[0.0; 2], [2, 2]), (&second, &[0.0; 2], [2, 2])],
            ),
            "\"2.weight\" holds NaN at [1, 0]",
        ),
        (
            folder.head("inf", &[(&one, &[0.0, f32::INFINITY], [2, 2])]),
            "\"0.bias\" holds inf at [1]",
        ),
        (
            folder.head("huge", &[(&[1.0, 3e19, 0.0, 1.0], &[0.0; 2], [2, 2])]),
            "\"0.weight\" holds 3e19 at [0, 1]",
        ),
        (
            folder.head("none", &[(&[], &[], [0, 2])]),
            "\"0.weight\" has the shape (0, 2)",
        ),
        (
            folder.head("narrow", &[(&[], &[0.0; 2], [2, 0])]),
            "\"0.weight\" has the shape (2, 0)",
        ),
    ];
    for (head, said) in &heads {
        let out = folder.path("out.npy");
        for engine in ["cpu", "gpu"] {
            let output = command(&["embed", "--model", head, "--data", &rows, "--out", &out])
                .args(["--engine", engine])
                .output()
                .expect("starts");
            let (code, sentence) = ended(&output);
            assert_eq!(code, Some(2), "{sentence}");
            assert!(sentence.contains(said), "{sentence}");
            assert!(sentence.starts_with(head), "{sentence}");
        }
        assert!(!Path::new(&out).exists());
    }
}

#[test]
fn an_embedding_without_a_direction_stops_with_its_row_and_is_not_written() {
    let folder = Folder::new("outputs/no-direction");
    let mut values = vec![1.0f32; 2 * 5000];
    (values[2 * 4321], values[2 * 4321 + 1]) = (0.0, 0.0);
    let rows = folder.write("rows.npy", nearfar::write_matrix(&values, 2));
    let out = folder.path("out.npy");
    let steep = [9e18f32, 0.0, 0.0, 9e18];
    let layer = (&steep[..], &[0.0f32; 2][..], [2, 2]);
    let steep = folder.head("steep", &[layer, layer, layer]);
    for (head, said) in [
        (
            folder.identity(2),
            "row 4322: its embedding is zero or too large",
        ),
        (steep, "row 1: its embedding is not finite"),
    ] {
        for engine in ["cpu", "gpu"] {
            let output = command(&["embed", "--model", &head, "--data", &rows, "--out", &out])
                .args(["--engine", engine])
                .output()
                .expect("starts");
            let (code, sentence) = ended(&output);
            assert_eq!(code, Some(1), "{sentence}");
            assert!(sentence.contains(said), "{engine}: {sentence}");
            assert!(!Path::new(&out).exists());
            folder.holds_nothing_half_written();
        }
    }
}

/// Each command that prints a report, on small data.
fn reports(folder: &Folder) -> Vec<Vec<String>> {
    let rows = folder.rows("rows.npy", 60, 4);
    let labels = folder.labels("labels.csv", 60, 5);
    let head = folder.identity(4);
    let labelled = ["--embeddings", &rows, "--labels", &labels];
    let (npy, npz) = (folder.path("out.npy"), folder.path("out.npz"));
    let knn = ["knn", "--queries", &rows, "--k", "3", "--out", &npz];
    [
        &[&["train", "--data", "trees.csv"][..], &SMALL].concat(),
        &["embed", "--model", &head, "--data", &rows, "--out", &npy][..],
        &[&["evaluate"][..], &labelled].concat(),
        &knn,
        &[&["mine"][..], &labelled, &["--out", &npy]].concat(),
        &[
            &["mine", "--miner", "pair-margin"][..],
            &labelled,
            &["--out", &npz],
        ]
        .concat(),
        &[&["mine"][..], &labelled, &["--checksum"]].concat(),
        &[&["loss"][..], &labelled, &["--gradient", &npy]].concat(),
        &[&["plan"][..], &knn].concat(),
    ]
    .into_iter()
    .map(|arguments| arguments.iter().map(|text| (*text).to_owned()).collect())
    .collect()
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_report_that_standard_output_does_not_take_is_an_error() {
    let folder = Folder::new("outputs/full-output");
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it")
    };
    for arguments in reports(&folder) {
        let json = [&borrowed(&arguments)[..], &["--engine", "cpu", "--json"]].concat();
        let output = command(&json).stdout(full()).output().expect("starts");
        let (code, sentence) = ended(&output);
        assert_eq!(code, Some(1), "{json:?}");
        assert!(
            sentence.starts_with("writing the report to standard output: No space"),
            "{sentence}"
        );
        // A reader that has left.
        let mut child = command(&json)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let (code, sentence) = ended(&child.wait_with_output().expect("ends"));
        assert_eq!(code, Some(1), "{json:?}");
        assert!(
            sentence.contains("standard output: Broken pipe"),
            "{sentence}"
        );
        // The same with text output.
        let words = command(&json[..json.len() - 1])
            .stdout(full())
            .output()
            .expect("starts");
        let (code, sentence) = ended(&words);
        assert_eq!(code, Some(1), "{json:?}");
        assert!(
            sentence.starts_with("writing to standard output: No space"),
            "{sentence}"
        );
    }
}

#[test]
fn two_processes_with_one_out_do_not_touch_each_others_files() {
    let folder = Folder::new("outputs/two");
    let rows = folder.rows("rows.npy", 20_000, 8);
    let (head, out) = (folder.identity(8), folder.path("out.npy"));
    let embed = ["embed", "--model", &head, "--data", &rows, "--out", &out];
    json(&embed);
    let whole = fs::read(&out).expect("is written");
    // Another process's file of the old name is left alone.
    let planted = folder.write("out.npy.partial", b"mine");
    for _ in 0..5 {
        let start = || {
            command(&[&embed[..], &["--engine", "cpu"]].concat())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("starts")
        };
        for child in [start(), start(), start()] {
            let output = child.wait_with_output().expect("ends");
            assert!(output.status.success(), "{output:?}");
        }
        assert!(fs::read(&out).expect("is written") == whole);
    }
    assert_eq!(fs::read(planted).expect("is there"), b"mine");
    assert_eq!(
        folder.names(),
        ["identity8", "out.npy", "out.npy.partial", "rows.npy"]
    );
}

#[test]
fn out_follows_links_keeps_permissions_and_leaves_devices_and_folders_alone() {
    let folder = Folder::new("outputs/nodes");
    let (rows, head) = (folder.rows("rows.npy", 50, 4), folder.identity(4));
    let embed =
        |out: &str| ["embed", "--model", &head, "--data", &rows, "--out", out].map(str::to_owned);
    let run = |out: &str| json(&borrowed(&embed(out)));
    let refused = |out: &str| refusal(&borrowed(&embed(out)));
    // A link to a file, and one to a file that is not there yet.
    let target = folder.write("target.npy", b"old");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("are set");
    for (link, to) in [("link.npy", "target.npy"), ("dangling.npy", "new.npy")] {
        symlink(to, folder.path(link)).expect("is made");
        run(&folder.path(link));
        assert!(
            fs::symlink_metadata(folder.path(link))
                .expect("is there")
                .is_symlink()
        );
        assert_eq!(
            fs::read(folder.path(to)).expect("is there").len(),
            128 + 50 * 16
        );
    }
    let mode = fs::metadata(&target)
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // Special files.
    let pipe = folder.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("runs");
    assert!(made.success());
    symlink("/dev/null", folder.path("null.npy")).expect("is made");
    for node in [&pipe, "/dev/null", &folder.path("null.npy")] {
        let sentence = refused(node);
        assert_eq!(
            sentence,
            format!(
                "{node}: cannot be written: it is a device or a pipe, not a file: give the name of a file"
            )
        );
        assert!(!fs::metadata(node).expect("is there").is_file());
    }
    symlink("b.npy", folder.path("a.npy")).expect("is made");
    symlink("a.npy", folder.path("b.npy")).expect("is made");
    assert!(refused(&folder.path("a.npy")).ends_with("its links lead in a circle"));
    assert!(refused(&folder.path("identity4")).contains("it is a folder"));
    folder.holds_nothing_half_written();
}

/// Slow commands without the name of their output, which a test appends.
fn writers(folder: &Folder) -> Vec<Vec<String>> {
    let rows = folder.rows("rows.npy", 3000, 32);
    let labels = folder.labels("labels.csv", 3000, 5);
    let head = folder.identity(32);
    let labelled = ["--embeddings", &rows, "--labels", &labels];
    [
        &[
            "train",
            "--data",
            "trees.csv",
            "--set",
            "steps=10000000",
            "--set",
            "batch_size=12",
            "--out",
        ][..],
        &["embed", "--model", &head, "--data", &rows, "--out"],
        &["knn", "--queries", &rows, "--k", "3", "--out"],
        &[&["mine"][..], &labelled, &["--out"]].concat(),
        &[
            &["mine", "--miner", "pair-margin"][..],
            &labelled,
            &["--out"],
        ]
        .concat(),
        &[&["loss"][..], &labelled, &["--gradient"]].concat(),
    ]
    .into_iter()
    .map(|arguments| arguments.iter().map(|text| (*text).to_owned()).collect())
    .collect()
}

#[test]
fn an_out_that_cannot_be_written_is_refused_before_the_work() {
    let folder = Folder::new("outputs/bad-out");
    let file = folder.write("file", b"");
    for arguments in writers(&folder) {
        let refused = |out: &str| refusal(&[&borrowed(&arguments)[..], &[out]].concat());
        let trains = arguments[0] == "train";
        for (out, said) in [
            ("/proc/nope", "/proc/nope: cannot be written: "),
            (&format!("{file}/out"), "cannot be written: "),
            (&folder.path("missing/out.npy"), "missing: make it first"),
            (&folder.0.display().to_string(), "it is a folder"),
        ] {
            if trains && (said == "it is a folder" || said.starts_with("missing")) {
                continue;
            }
            let sentence = refused(out);
            assert!(sentence.contains(said), "{arguments:?}: {sentence}");
        }
        if trains {
            assert!(refused(&file).ends_with("it is not a folder: give the name of one"));
        }
    }
    folder.holds_nothing_half_written();
}

#[test]
fn an_out_that_is_an_input_is_refused_and_left_as_it_was() {
    let folder = Folder::new("outputs/own-input");
    let (rows, labels) = (
        folder.rows("rows.npy", 60, 4),
        folder.labels("labels.csv", 60, 5),
    );
    let head = folder.identity(4);
    symlink("rows.npy", folder.path("link.npy")).expect("is made");
    fs::hard_link(&rows, folder.path("hard.npy")).expect("is made");
    let before = [&rows, &labels].map(|path| fs::read(path).expect("is there"));
    let (link, hard) = (folder.path("link.npy"), folder.path("hard.npy"));
    let column = format!("{labels}:label");
    let labelled = ["--embeddings", &rows, "--labels", &column];
    let model = folder.path("identity4/head.safetensors");
    for (arguments, out) in [
        (
            &["embed", "--model", &head, "--data", &rows, "--out"][..],
            &link,
        ),
        (
            &["embed", "--model", &head, "--data", &rows, "--out"],
            &model,
        ),
        (&["knn", "--queries", &rows, "--k", "3", "--out"], &hard),
        (
            &[
                "knn",
                "--queries",
                &rows,
                "--references",
                &hard,
                "--k",
                "3",
                "--out",
            ],
            &rows,
        ),
        (&[&["mine"][..], &labelled, &["--out"]].concat(), &labels),
        (
            &[
                &["mine", "--miner", "pair-margin"][..],
                &labelled,
                &["--out"],
            ]
            .concat(),
            &link,
        ),
        (&[&["loss"][..], &labelled, &["--gradient"]].concat(), &rows),
    ] {
        let sentence = refusal(&[arguments, &[out]].concat());
        assert!(sentence.contains("it is the input "), "{sentence}");
    }
    // A folder that holds the input under a name that would be overwritten.
    let data = folder.write("test_embeddings.npy", &before[0]);
    let own = folder.0.display().to_string();
    let sentence = refusal(
        &[
            &["train", "--data", &data, "--labels", &labels, "--out", &own][..],
            &SMALL,
        ]
        .concat(),
    );
    assert!(
        sentence.contains("test_embeddings.npy itself"),
        "{sentence}"
    );
    assert_eq!(
        [&rows, &labels].map(|path| fs::read(path).expect("is there")),
        before
    );
}

fn train_into(out: &str) -> Vec<&str> {
    [&["train", "--data", "trees.csv", "--out", out][..], &SMALL].concat()
}

/// Files of a folder and of its subfolders, by their paths below it.
fn files_below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("is there") {
        let path = entry.expect("is read").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            files.extend(
                files_below(&path)
                    .iter()
                    .map(|file| format!("{name}/{file}")),
            );
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}

#[test]
fn a_run_that_cannot_be_saved_says_what_it_found_and_leaves_the_old_files() {
    let folder = Folder::new("outputs/unsaved");
    let out = folder.path("run");
    json(&train_into(&out));
    let run = Path::new(&out);
    let read = |name: &str| fs::read(run.join(name)).expect("is there");
    let names = files_below(run);
    for name in [
        "config.json",
        "history.json",
        "memory.npz",
        "head.onnx",
        "report.html",
        "nearfar_train.py",
    ] {
        assert!(names.iter().any(|file| file == name), "{name}");
    }
    let all = || names.iter().map(|name| read(name)).collect::<Vec<_>>();
    let before = all();
    // Files of 4 KiB at most: settings fit, a history does not.
    let again = [&train_into(&out)[..], &["--seed", "7", "--json"]].concat();
    let output = limited("-f 4", &again);
    let (code, sentence) = ended(&output);
    assert_eq!(code, Some(1), "{sentence}");
    assert!(
        sentence.starts_with("writing ") && sentence.contains("File too large"),
        "{sentence}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is printed");
    assert!(report["final"]["test"]["precision_at_1"].is_f64());
    assert_eq!(all(), before);
    assert_eq!(files_below(run), names);
    // A run without memory removes the memory file of the run before, and one with fewer layers the modules of the others.
    let fewer = ["--set", "memory_size=0", "--set", "hidden_layers=[]"];
    json(&[&train_into(&out)[..], &fewer].concat());
    assert!(!run.join("memory.npz").exists() && run.join("history.json").exists());
    let modules = run.join("sentence-transformers");
    assert!(modules.join("0_Dense").exists() && modules.join("1_Normalize").exists());
    assert!(!modules.join("1_Dense").exists() && !modules.join("2_Normalize").exists());
}

#[test]
fn a_run_that_stops_as_not_finite_saves_what_it_has() {
    let folder = Folder::new("outputs/not-finite");
    let out = folder.path("run");
    // Large enough to be read, and too large to go through a layer.
    let values: Vec<f32> = (0..240).map(|i| (i as f32 * 0.7311).sin() * 8e18).collect();
    let data = folder.write("rows.npy", nearfar::write_matrix(&values, 4));
    let labels = folder.labels("labels.csv", 60, 5);
    let mut train = vec!["train", "--data", &data, "--labels", &labels, "--out", &out];
    train.extend(["--set", "standardize=false", "--set", "batch_size=12"]);
    train.extend(["--set", "memory_size=24", "--set", "hidden_layers=[]"]);
    let output = on_cpu(&train);
    let (code, sentence) = ended(&output);
    assert_eq!(code, Some(1), "{sentence}");
    assert!(
        sentence.contains("is not finite: lower `optimizer.lr`"),
        "{sentence}"
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains(&format!(
            "saved in {out}: config.json, history.json, and head.safetensors"
        )),
        "{error}"
    );
    let mut names: Vec<_> = fs::read_dir(&out)
        .expect("is there")
        .map(|e| e.expect("is read").file_name())
        .collect();
    names.sort();
    let saved = [
        "config.json",
        "head.onnx",
        "head.safetensors",
        "history.csv",
        "history.json",
        "history.jsonl",
        "linear.safetensors",
        "link.txt",
        "model_card.md",
        "nearfar_train.py",
        "report.html",
        "sentence-transformers",
        "sides.npy",
    ];
    assert_eq!(names, saved);
    let history = fs::read(Path::new(&out).join("history.json")).expect("is there");
    let history: Value = serde_json::from_slice(&history).expect("JSON");
    let steps = history["steps"].as_u64().expect("a count");
    assert!(steps < history["config"]["steps"].as_u64().expect("a count"));
}

/// Tells if a process has a signal in this set of its status: `SigCgt` of caught ones, `SigIgn` of ignored ones.
fn has_signal(process: &str, set: &str, signal: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix(set));
    let bits =
        bits.and_then(|bits| u64::from_str_radix(bits.trim_matches([':', '\t', ' ']), 16).ok());
    bits.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// Starts a command, sends a signal while it works, and returns its output.
fn signalled(signal: u32, arguments: &[&str]) -> Output {
    let mut child = command(&[arguments, &["--engine", "cpu"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let process = child.id().to_string();
    while !has_signal(&process, "SigCgt", signal) {
        let ended = child.try_wait().expect("is a child");
        assert_eq!(ended, None, "{arguments:?} ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &process])
        .status();
    assert!(sent.expect("runs").success());
    child.wait_with_output().expect("ends")
}

#[test]
fn signals_leave_nothing_half_written_and_their_exit_code() {
    let folder = Folder::new("outputs/signals");
    let rows = folder.rows("rows.npy", 1500, 4);
    let labels = folder.labels("labels.csv", 1500, 3);
    let out = folder.path("out.npy");
    let mine = [
        "mine",
        "--embeddings",
        &rows,
        "--labels",
        &labels,
        "--miner",
        "none",
        "--out",
        &out,
    ];
    let run = folder.path("run/of/mine");
    let train = [
        "train",
        "--data",
        "trees.csv",
        "--set",
        "steps=10000000",
        "--set",
        "batch_size=12",
        "--checkpoint-every",
        "0",
        "--out",
        &run,
    ];
    for (signal, code) in [(2, 130), (15, 143), (1, 129)] {
        // The process that starts the tests may have SIGHUP ignored.
        if signal == 1 && has_signal("self", "SigIgn", signal) {
            continue;
        }
        for arguments in [&mine[..], &train] {
            let (ended_with, sentence) = ended(&signalled(signal, arguments));
            assert_eq!(
                (ended_with, sentence.as_str()),
                (Some(code), "stopped"),
                "{arguments:?}"
            );
        }
        assert_eq!(folder.names(), ["labels.csv", "rows.npy"], "{signal}");
    }
}

/// Processor time of a process so far, in ticks.
fn ticks(process: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split(' ').skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[test]
fn a_second_signal_ends_what_does_not_hear_the_first() {
    let folder = Folder::new("outputs/signals-twice");
    let out = folder.path("run");
    let mut arguments = vec!["train", "--data", "trees.csv", "--out", &out];
    arguments.extend(&SMALL[2..]);
    let endless = ["--set", "steps=10000000", "--set", "evaluate_every=1"];
    arguments.extend(
        endless
            .iter()
            .chain(&["--engine", "cpu", "--checkpoint-every", "0"]),
    );
    for (signal, code) in [(2, 130), (15, 143)] {
        // Nobody reads its output, and it waits once the pipe is full.
        let mut child = command(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let process = child.id().to_string();
        let started = Instant::now();
        let mut before = 0;
        while before == 0 || ticks(&process) != before {
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "it never waits"
            );
            before = ticks(&process);
            std::thread::sleep(Duration::from_millis(500));
        }
        let send = || {
            let mut kill = Command::new("kill");
            let sent = kill.args([&format!("-{signal}"), &process]).status();
            assert!(sent.expect("runs").success());
        };
        send();
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(child.try_wait().expect("is a child"), None);
        send();
        let sent = Instant::now();
        let ended = loop {
            if let Some(ended) = child.try_wait().expect("is a child") {
                break ended;
            }
            if sent.elapsed() > Duration::from_secs(10) {
                child.kill().expect("is a child");
                panic!("it goes on");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(ended.code(), Some(code));
        let mut left = fs::read_dir(&out).expect("is there");
        assert!(left.next().is_none());
    }
}

#[test]
fn a_command_in_too_small_an_address_space_ends_with_one_sentence() {
    let folder = Folder::new("outputs/address-space");
    let mut commands = reports(&folder);
    let large = [
        "train",
        "--set",
        "memory_size=1000000",
        "--budget",
        "1GiB",
        "--set",
        "steps=1",
    ];
    commands.push(large.map(str::to_owned).to_vec());
    // From hardly enough to start the program to enough for the small commands; below, the system refuses.
    let mut limits = (8..).map(|mebibytes| mebibytes << 10);
    let least = limits.find(|kibibytes| {
        let limit = format!("-v {kibibytes}");
        limited_as_it_is(&limit, &["--version"]).status.success()
    });
    let least = least.expect("some is enough");
    let mut refused = 0;
    for arguments in commands {
        for more in [
            256,
            1024,
            2048,
            3 << 10,
            4 << 10,
            6 << 10,
            9 << 10,
            16 << 10,
            64 << 10,
        ] {
            let limit = format!("-v {}", least + more);
            let output = limited(&limit, &borrowed(&arguments));
            if output.status.success() {
                continue;
            }
            refused += 1;
            let (code, sentence) = ended(&output);
            assert!(
                matches!(code, Some(1 | 2)),
                "{limit}, {arguments:?}: {sentence}"
            );
        }
        folder.holds_nothing_half_written();
    }
    assert!(refused > 0, "some of them are too small");
    let large = limited("-v 320000", &large);
    let (code, sentence) = ended(&large);
    assert_eq!(code, Some(2));
    assert!(
        sentence.starts_with("\"training\" needs ")
            && sentence.contains("the system gives this process no more"),
        "{sentence}"
    );
}

/// Budget that a refusal advises: the figure after "raise the budget to".
fn advised(sentence: &str) -> String {
    let (_, rest) = sentence.split_once("raise the budget to ").expect(sentence);
    let mut words = rest.split([' ', ',']);
    format!(
        "{}{}",
        words.next().expect("a number"),
        words.next().expect("a unit")
    )
}

#[test]
fn the_budget_that_a_refusal_prints_is_enough() {
    let folder = Folder::new("outputs/figures");
    let mut commands = reports(&folder);
    let wide = folder.rows("wide.npy", 300, 777);
    let labels = folder.labels("wide.csv", 300, 7);
    let labelled = ["--embeddings", &wide, "--labels", &labels];
    let out = folder.path("wide_out.npz");
    for arguments in [
        &["knn", "--queries", &wide, "--k", "200", "--out", &out][..],
        &[&["evaluate"][..], &labelled].concat(),
        &[&["mine"][..], &labelled].concat(),
        &[&["mine", "--miner", "multi-similarity"][..], &labelled].concat(),
        &[
            &["loss", "--gradient", &folder.path("g.npy")][..],
            &labelled,
        ]
        .concat(),
    ] {
        commands.push(arguments.iter().map(|text| (*text).to_owned()).collect());
    }
    for arguments in commands {
        for budget in ["1KiB", "7777", "20KiB"] {
            let with = |budget: &str| {
                let budget = ["--budget", budget].map(str::to_owned);
                on_cpu(&borrowed(&[&arguments[..], &budget].concat()))
            };
            let first = with(budget);
            if first.status.success() {
                continue;
            }
            let (code, sentence) = ended(&first);
            assert_eq!(code, Some(2), "{arguments:?}: {sentence}");
            let (needs, free) = sentence.split_once(", ").expect("two figures");
            let needs = needs.split_once("needs ").expect("a figure").1;
            assert!(!free.starts_with(&format!("{needs} ")), "{sentence}");
            let again = with(&advised(&sentence));
            let said = String::from_utf8_lossy(&again.stderr);
            assert!(again.status.success(), "{arguments:?}: {sentence}: {said}");
        }
    }
}

#[test]
fn plan_refuses_what_the_run_refuses() {
    let folder = Folder::new("outputs/plan");
    let (rows, wide) = (
        folder.rows("rows.npy", 60, 4),
        folder.rows("wide.npy", 60, 5),
    );
    let labels = folder.labels("labels.csv", 60, 5);
    let short = folder.labels("short.csv", 59, 5);
    let head = folder.identity(4);
    let out = folder.path("out");
    let own = ["--embeddings", &rows, "--labels", &short];
    let others = [
        "--embeddings",
        &rows,
        "--labels",
        &labels,
        "--references",
        &wide,
        "--reference-labels",
        &labels,
    ];
    for (arguments, said) in [
        (
            &["embed", "--model", &head, "--data", &wide, "--out", &out][..],
            "5 features, the head takes 4",
        ),
        (
            &[
                "knn",
                "--queries",
                &rows,
                "--references",
                &wide,
                "--k",
                "3",
                "--out",
                &out,
            ],
            "references have 5 dimensions, queries 4",
        ),
        (&[&["evaluate"][..], &own].concat(), "59 labels"),
        (&[&["mine"][..], &own].concat(), "59 labels"),
        (&[&["loss"][..], &own].concat(), "59 labels"),
        (
            &[&["evaluate"][..], &others].concat(),
            "references have 5 dimensions",
        ),
        (
            &[&["mine"][..], &others].concat(),
            "references have 5 dimensions",
        ),
        (
            &[
                "evaluate",
                "--embeddings",
                &rows,
                "--labels",
                &labels,
                "--metrics",
                "recall",
            ],
            "there is no metric \"recall\"",
        ),
    ] {
        let run = refusal(arguments);
        assert!(run.contains(said), "{run}");
        assert_eq!(refusal(&[&["plan"], arguments].concat()), run);
    }
}

#[test]
fn zero_rows_and_rows_far_from_zero_are_said_beside_the_results() {
    let folder = Folder::new("outputs/warned");
    let labels = folder.labels("labels.csv", 60, 5);
    let value = |i: usize| (i as f32 * 0.7311).sin();
    let mut values: Vec<f32> = (0..240).map(value).collect();
    values[28..36].fill(0.0);
    let zeros = folder.write("zeros.npy", nearfar::write_matrix(&values, 4));
    let values: Vec<f32> = (0..240).map(|i| value(i) + 10_000.0).collect();
    let far = folder.write("far.npy", nearfar::write_matrix(&values, 4));
    let values: Vec<f32> = (0..240)
        .map(|i| value(i) * if i < 8 { 1e-13 } else { 1.0 })
        .collect();
    let short = folder.write("short.npy", nearfar::write_matrix(&values, 4));
    let out = folder.path("out.npz");
    for (rows, said) in [
        (
            &short,
            "2 of 60 rows are shorter than 1e-12 (the first is row 0, counted from 0), and their similarities come out too small",
        ),
        (
            &zeros,
            "2 of 60 rows are zero (the first is row 7, counted from 0)",
        ),
        (&far, "subtract the mean of each column"),
    ] {
        let labelled = ["--embeddings", rows, "--labels", &labels];
        for arguments in [
            &["knn", "--queries", rows, "--k", "3", "--out", &out][..],
            &[&["evaluate"][..], &labelled].concat(),
            &[&["mine"][..], &labelled].concat(),
            &[&["loss"][..], &labelled].concat(),
        ] {
            let output = on_cpu(&[arguments, &["--json"]].concat());
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(
                error.contains(&format!("warning: {rows}: ")) && error.contains(said),
                "{arguments:?}: {error}"
            );
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert!(
                report["warnings"][0]
                    .as_str()
                    .is_some_and(|text| text.contains(said))
            );
        }
    }
    let train = ["train", "--data", &zeros, "--labels", &labels];
    let trained = json(&[&train[..], &SMALL].concat());
    assert!(
        trained["warnings"]
            .to_string()
            .contains("2 of 60 rows are zero"),
        "{}",
        trained["warnings"]
    );
    // The distance of a zero row is undefined.
    for command in ["mine", "loss"] {
        let sentence = refusal(&args(
            "{} --embeddings {} --labels {} --distance l2",
            &[command, &zeros, &labels],
        ));
        assert!(
            sentence.contains("row 8 is zero (2 of 60 rows are)")
                && sentence.contains("--distance l2"),
            "{sentence}"
        );
    }
    let plain = folder.rows("plain.npy", 60, 4);
    let evaluated = json(&["evaluate", "--embeddings", &plain, "--labels", &labels]);
    assert_eq!(evaluated["warnings"], serde_json::json!([]));
}

/// Peak memory of a command, in bytes, and its report.
fn resident(arguments: &[&str]) -> (u64, Value) {
    let mut child = command(&[arguments, &["--engine", "cpu", "--json"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut peak = 0;
    while child.try_wait().expect("is asked").is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|text| text.trim().strip_suffix(" kB"));
        let most: Option<u64> = most.and_then(|text| text.parse().ok());
        peak = peak.max(most.unwrap_or(0) << 10);
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut text = String::new();
    child
        .stdout
        .take()
        .expect("is there")
        .read_to_string(&mut text)
        .expect("is read");
    (peak, serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn columns_are_chosen_in_threshold_too_and_references_have_those_of_the_rows() {
    let folder = Folder::new("outputs/chosen");
    let mut rows = String::from("a,b,c,code,label\n");
    let mut others = String::from("extra,c,label,a,b\n");
    for row in 0..80 {
        let value = |at: usize| ((row * 3 + at) as f32 * 0.7311).sin();
        let (a, b, c, class) = (value(0), value(1), value(2), ["x", "y"][row % 2]);
        rows += &format!("{a},{b},{c},{},{class}\n", row % 5);
        others += &format!("{},{c},{class},{a},{b}\n", row * row);
    }
    let rows = folder.write("rows.csv", rows.as_bytes());
    let others = folder.write("others.csv", others.as_bytes());
    let of = |arguments: &[&str]| {
        let report = json(&[arguments, &["--embeddings", &rows]].concat());
        let columns = report["data"][0]["columns"].clone();
        (report["fit"]["area_under_curve"].clone(), columns)
    };
    let (chosen, columns) = of(&["threshold", "--features", "a..c"]);
    let (left, _) = of(&["threshold", "--ignore", "code"]);
    assert_eq!(chosen, left);
    assert_ne!(chosen, of(&["threshold"]).0);
    assert_eq!(columns.as_array().map(Vec::len), Some(5), "{columns}");
    // The other file has the columns in another order, with one more between them.
    let words = ["evaluate", "--embeddings", &rows, "--references", &others];
    let by_stretch = json(&[&words[..], &["--features", "a..c"]].concat());
    let by_names = json(&[&words[..], &["--features", "a,b,c"]].concat());
    let score = "mean_average_precision";
    assert_eq!(by_stretch[score], by_names[score]);
    let refused = on_cpu(&["threshold", "--model", "run", "--features", "a"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn lists_of_pairs_need_not_fit_the_memory() {
    let folder = Folder::new("outputs/pairs");
    let count = 3000;
    let (rows, labels) = (
        folder.rows("rows.npy", count, 8),
        folder.labels("labels.csv", count, count / 2),
    );
    let labelled = [
        "--embeddings",
        &rows,
        "--labels",
        &labels,
        "--budget",
        "4MiB",
    ];
    let pair_margin = [
        "mine",
        "--miner",
        "pair-margin",
        "--set",
        "pos_margin=1",
        "--set",
        "neg_margin=-1",
    ];
    let (counted, _) = resident(&[&pair_margin[..], &labelled].concat());
    let out = folder.path("pairs.npz");
    let (listed, report) = resident(&[&pair_margin[..], &labelled, &["--out", &out]].concat());
    let bytes = fs::metadata(&out).expect("is written").len();
    assert!(bytes > 70_000_000, "{bytes}: {report}");
    assert!(
        listed < counted + (6 << 20),
        "{listed} to list, {counted} to count"
    );
    folder.holds_nothing_half_written();
}

#[test]
fn the_memory_of_a_plan_is_handed_out_when_it_is_promised() {
    let folder = Folder::new("outputs/touched");
    let data = folder.rows("rows.npy", 100, 4);
    let labels = folder.labels("labels.csv", 100, 5);
    let train = [
        "train",
        "--data",
        &data,
        "--labels",
        &labels,
        "--set",
        "steps=1",
        "--set",
        "memory_size=300000",
    ];
    let (peak, report) = resident(&train);
    let planned = report["memory"]["peak_bytes"].as_u64().expect("bytes");
    assert!(
        planned > 70 << 20 && peak > planned,
        "{planned} planned, {peak} resident"
    );
}
