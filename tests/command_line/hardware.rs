//! `tests/hardware/run` on programs that replay recorded answers: its output, and the reasons for which it fails.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hardware/run");
const PASSED: &str = "echo 'test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.01s'";

/// A folder as `make hardware` fills it, with programs that only replay answers.
struct Folder(PathBuf);

impl Folder {
    /// A folder in which everything is right, on a GPU that does not exist.
    fn new(name: &str, software: bool) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join("hardware")
            .join(name);
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(folder.join("tests")).expect("the folder of the tests can be written");
        let new = Self(folder);
        let device = json!({
            "engine": "gpu", "adapter": "Imagined 9000", "backend": "vulkan", "driver": "imagined 1.2",
            "software": software, "max_buffer_bytes": 1u64 << 32, "workgroup_bytes": 49152, "workgroup_size": 1024,
            "features": ["timestamp-query"],
        });
        new.answers("nearfar", &json!({ "devices": [device], "chosen": {} }));
        for test in ["kernels", "library"] {
            new.program(&format!("tests/{test}"), PASSED);
        }
        let registers = json!({ "kernel": "knn.tile", "statistics": { "Register Count": 168.0 } });
        new.program(
            "tests/registers",
            &format!(
                "printf 'test what_the_driver_says ... '; echo '{registers}'; echo 'test result: ok. 1 passed'"
            ),
        );
        let mut report = device;
        report["trusted"] = json!(false);
        report["peak_gflops"] = json!(50_000.0);
        report["lines"] = json!([{
            "name": "knn 1000 x 100000 x 128, k 10", "what": "knn", "queries": 1000, "references": 100_000, "dim": 128, "k": 10,
            "median_ms": 1.5, "p10_ms": 1.4, "p90_ms": 1.75, "device_ms": 1.0, "gflops": 17066.0, "share_of_peak": 0.34,
            "device_share_of_peak": 0.51, "dispatches": 5, "submits": 2, "waits": 1, "uploaded_bytes": 524_288,
            "fetched_bytes": 80_000, "rate": "",
            "kernels": [{ "kernel": "knn.tile", "dispatches": 3, "elapsed_ms": 0.75 }],
        }]);
        new.answers("bench", &report);
        let peer = json!({
            "work": "knn 1000 x 100000 x 128, k 10", "peer": "torch 3", "median_ms": 3.0, "p10_ms": 2.9, "p90_ms": 3.1, "off": 1e-7,
        });
        let missing = json!({ "not_run": "faiss", "why": "it is not installed" });
        let peers = format!(
            "print({:?})\nprint({:?})\n",
            peer.to_string(),
            missing.to_string()
        );
        fs::write(new.0.join("peers.py"), peers).expect("the folder can be written");
        new
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the folder can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn answers(&self, name: &str, answer: &Value) {
        self.program(name, &format!("cat <<'END'\n{answer}\nEND"));
    }

    fn run(&self, others: &[&str]) -> Output {
        Command::new("python3")
            .arg(RUN)
            .arg("--folder")
            .arg(&self.0)
            .arg("--out")
            .arg(&self.0)
            .args(others)
            .output()
            .expect("Python 3 is missing: `make test` installs it")
    }

    /// Report and table of a run.
    fn left(&self) -> (Value, String) {
        let read = |name: &str| fs::read_to_string(self.0.join(name)).expect("it was written");
        let report = serde_json::from_str(&read("hardware.json")).expect("JSON");
        (report, read("hardware.md"))
    }
}

/// Texts in a list of the report.
fn texts(report: &Value, list: &str) -> Vec<String> {
    let all = report[list].as_array().expect("a list");
    all.iter()
        .map(|text| text.as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn a_run_on_a_gpu_is_summed_up_under_its_name() {
    let folder = Folder::new("right", false);
    let output = folder.run(&[]);
    let (report, table) = folder.left();
    assert!(output.status.success(), "{report:#}");
    assert!(
        table.starts_with("# Imagined 9000 (vulkan, imagined 1.2)\n"),
        "{table}"
    );
    for row in [
        "| kernels | 7 | 0 | 1 | ",
        "| knn 1000 x 100000 x 128, k 10 | 1.500 (1.400 to 1.750) | 1.000 | 17,066 | 34 % | 51 % | 5 | 2 | 1 | 512.0 KiB | 78.1 KiB |",
        "| knn 1000 x 100000 x 128, k 10 | knn.tile | 3 | 0.750 | 75 % |",
        "| knn.tile | 168.0 |",
        "| knn 1000 x 100000 x 128, k 10 | torch 3 | 3.000 (2.900 to 3.100) | 1.500 | 1.000 | 2.00 | 1.0e-07 |",
        "- faiss: it is not installed",
    ] {
        assert!(table.contains(row), "{row}\n{table}");
    }
    assert!(!table.contains("processor plays"));
    assert_eq!(texts(&report, "wrong"), [""; 0]);
    // The same table from the report alone.
    let json = folder.0.join("hardware.json");
    let again = folder.run(&["--summary", json.to_str().expect("UTF-8")]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), table);
}

#[test]
fn what_is_wrong_is_red_and_the_rest_is_timed() {
    let folder = Folder::new("test", false);
    let failed = "echo 'test knn::ties_are_broken ... FAILED'\n\
        echo 'test result: FAILED. 6 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s'\nexit 101";
    folder.program("tests/kernels", failed);
    assert_eq!(folder.run(&[]).status.code(), Some(1));
    let (report, table) = folder.left();
    assert_eq!(
        texts(&report, "wrong"),
        ["tests of kernels: knn::ties_are_broken failed"]
    );
    assert!(
        table.contains("**Wrong:**\n- tests of kernels: knn::ties_are_broken failed\n"),
        "{table}"
    );
    assert!(table.contains("## Searches\n"), "{table}");
    assert!(!report["peers"].as_array().expect("a list").is_empty());

    let red = |name: &str, plant: &dyn Fn(&Folder), expected: &str| {
        let folder = Folder::new(name, false);
        plant(&folder);
        assert_eq!(folder.run(&[]).status.code(), Some(1), "{name}");
        let wrong = texts(&folder.left().0, "wrong");
        assert!(
            wrong.iter().any(|wrong| wrong == expected),
            "{name}: {wrong:?}"
        );
    };
    let crash = |folder: &Folder| folder.program("tests/library", "kill -SEGV $$");
    red("crash", &crash, "tests of knn: ended with -11, 0 passed");
    let folder = Folder::new("hangs", false);
    folder.program("tests/kernels", "exec sleep 60");
    assert_eq!(folder.run(&["--minutes", "0.3"]).status.code(), Some(1));
    let (report, table) = folder.left();
    assert_eq!(
        texts(&report, "wrong"),
        ["tests of kernels: took more than 9 s"]
    );
    assert!(table.contains("## Searches\n"), "{table}");
    let nothing = |folder: &Folder| folder.program("tests/library", "true");
    red("nothing", &nothing, "tests of knn: ended with 0, 0 passed");
    let missing =
        |folder: &Folder| fs::remove_file(folder.0.join("tests/library")).expect("is there");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hardware/missing");
    red(
        "missing",
        &missing,
        &format!("tests of mining: {}/tests has no `library`", path.display()),
    );
    let differs = "knn on Imagined 9000 differs from the f64 reference: what is wrong is not timed";
    let check =
        |folder: &Folder| folder.program("bench", &format!("echo 'bench: {differs}' >&2; exit 1"));
    red(
        "check",
        &check,
        &format!("bench of searches: bench: {differs}"),
    );
    let elsewhere = |folder: &Folder| {
        folder.answers(
            "bench",
            &json!({ "adapter": "llvmpipe", "software": true, "lines": [] }),
        );
    };
    red(
        "elsewhere",
        &elsewhere,
        "bench of searches: ran on llvmpipe",
    );
}

#[test]
fn a_processor_that_plays_a_gpu_is_refused_unless_it_is_asked_for() {
    let folder = Folder::new("software", true);
    let refused = folder.run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("the only GPU is played by a processor (Imagined 9000)"),
        "{said}"
    );
    assert!(!folder.0.join("hardware.json").exists());
    assert!(folder.run(&["--software"]).status.success());
    let (_, table) = folder.left();
    assert!(
        table.contains("**A processor plays this GPU: no figure here says anything about one.**"),
        "{table}"
    );
}

#[test]
fn what_the_time_does_not_do_for_is_said() {
    let folder = Folder::new("time", false);
    let output = folder.run(&["--minutes", "0.05"]);
    let (report, _) = folder.left();
    assert_eq!(output.status.code(), Some(1));
    let not_run = texts(&report, "not_run");
    for what in ["tests of kernels", "registers", "bench of mining"] {
        let said = format!("{what}: the 0.05 minutes are over");
        assert!(not_run.contains(&said), "{not_run:?}");
    }
}
