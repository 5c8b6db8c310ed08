//! Memory of a GPU that `nvidia-smi` tells, here a program that plays it: in `devices`, and in the warning of a budget.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use serde_json::Value;

use crate::program::{Folder, command};

/// A folder with a program that plays `nvidia-smi`.
fn playing(name: &str, script: &str) -> Folder {
    let folder = Folder::new(&format!("device_memory/{name}"));
    let path = folder.write("nvidia-smi", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("is ours");
    folder
}

/// Runs a command that finds the programs of a folder first.
fn beside(folder: &Folder, arguments: &[&str]) -> Output {
    let others = std::env::var("PATH").expect("is set");
    let path = format!("{}:{others}", folder.0.display());
    command(arguments)
        .env("PATH", path)
        .output()
        .expect("starts")
}

fn report(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn what_others_hold_of_a_gpu_is_listed_and_warned_of() {
    let silent = playing("silent", "echo 'NVIDIA-SMI has failed'; exit 9");
    let listed = report(&beside(&silent, &["devices", "--json"]));
    let gpu = &listed["devices"][0];
    assert_eq!(gpu["engine"], "gpu", "a Vulkan driver is installed");
    let adapter = gpu["adapter"].as_str().expect("a name");
    let asked = "[ \"$*\" = '--query-gpu=pci.bus_id,name,memory.total,memory.used --format=csv,noheader,nounits' ] || exit 1";
    let told = playing(
        "told",
        &format!("{asked}\necho '00000000:01:00.0, {adapter}, 2048, 1984'"),
    );
    let listed = report(&beside(&told, &["devices", "--json"]));
    let memory = &listed["devices"][0]["memory"];
    assert_eq!(memory["total_bytes"], 2048u64 << 20);
    assert_eq!(memory["used_by_others_bytes"], 1984u64 << 20);
    let cpu = listed["devices"].as_array().and_then(|all| all.last());
    assert!(cpu.is_some_and(|cpu| cpu["memory"].is_null()));
    let printed = beside(&told, &["devices"]).stdout;
    let printed = String::from_utf8_lossy(&printed);
    assert!(
        printed.contains("\n     2 GiB of memory, 1.9 GiB of it held by other programs\n")
            || printed.contains("\n     2 GiB of memory, 2 GiB of it held by other programs\n"),
        "{printed}"
    );

    let plan = |folder: &Folder, engine: &str, budget: &str| {
        let arguments = [
            "plan",
            "train",
            "--data",
            "trees.csv",
            "--engine",
            engine,
            "--budget",
            budget,
            "--json",
        ];
        let output = beside(folder, &arguments);
        report(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let warning = format!(
        "warning: the budget is 65 MiB, and 64 MiB of the 2 GiB of {adapter} are free, as other programs hold 2 GiB: end some of \
         them, or lower the budget"
    );
    let warned = plan(&told, "gpu", "65MiB");
    assert!(warned.contains(&warning), "{warned}");
    for (folder, engine, budget) in [
        (&told, "gpu", "64MiB"),
        (&told, "cpu", "65MiB"),
        (&silent, "gpu", "65MiB"),
    ] {
        let said = plan(folder, engine, budget);
        assert!(!said.contains("the budget is"), "{engine} {budget}: {said}");
    }
}
