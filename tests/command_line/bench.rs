//! Counts and times of `bench`: on the device and by the wall clock, with and without the checks of its shaders.

use std::process::Command;

use crate::common::{engines, open, output, read};
use nearfar::bench::{Shape, Work, measure};
use nearfar::kernels::peaks::{FILL, MULTIPLY_ADD, fill, multiply_add};
use nearfar::{EngineKind, KnnIndex, RowSource};
use serde_json::Value;

/// JSON output of `bench`.
fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(arguments)
        .arg("--json")
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Tells if the GPU has timestamps, which the tests of the timer need.
fn has_timestamps(features: &[String]) -> bool {
    features.iter().any(|feature| feature == "timestamp-query")
}

#[test]
fn a_timer_counts_every_dispatch_by_its_kernel_and_changes_no_result() {
    pollster::block_on(async {
        for engine in engines() {
            let mut written = output::<f32>(&engine, 4096);
            let timed = has_timestamps(&engine.info().features);
            assert_eq!(engine.start_timer(), timed);
            for _ in 0..3 {
                let mut commands = engine.commands();
                multiply_add(&mut commands, 4096, 0.5, &mut written);
                fill(&mut commands, 2048, 3.0, &mut written);
                fill(&mut commands, 1024, 4.0, &mut written);
                engine.submit(commands);
            }
            let found = engine.stop_timer().await.expect("reads");
            assert_eq!(found.is_some(), timed, "{}", engine.info().adapter);
            if let Some(found) = found {
                let count = |name| found.kernels.iter().find(|kernel| kernel.kernel == name);
                let counts =
                    [FILL.name, MULTIPLY_ADD.name].map(|name| count(name).map(|k| k.dispatches));
                assert_eq!(counts, [Some(6), Some(3)]);
                assert_eq!((found.kernels.len(), found.untimed), (2, 0));
                let together: f64 = found.kernels.iter().map(|kernel| kernel.elapsed_ms).sum();
                assert!(found.kernels.iter().all(|kernel| kernel.elapsed_ms >= 0.0));
                // Its dispatches depend on each other: none begins before the one before is done.
                assert!(
                    0.0 < together && together <= 1.001 * found.elapsed_ms,
                    "{found:?}"
                );
            }
            let values = read(&engine, &written, 4096);
            assert!(values[..1024].iter().all(|value| *value == 4.0));
            assert!(values[1024..2048].iter().all(|value| *value == 3.0));
            assert!(
                values[2048..]
                    .iter()
                    .all(|value| value.is_finite() && *value != 3.0)
            );
            // Switched off, the timer counts nothing more.
            assert_eq!(engine.stop_timer().await.expect("reads"), None);
            engine.settle().await.expect("settles");
            let kept = engine.ledger().by_label();
            assert!(
                !kept.keys().any(|label| label.contains("timestamps")),
                "{kept:?}"
            );
        }
    });
}

#[test]
fn a_timer_that_nobody_waits_for_says_what_it_missed() {
    let engine = open(EngineKind::Gpu, 64 << 20);
    if !has_timestamps(&engine.info().features) {
        return;
    }
    let mut written = output::<f32>(&engine, 4);
    // Timestamps of a submit take 256 bytes at least, and 256 KiB are kept.
    for (waits, missed) in [(false, 276), (true, 0)] {
        pollster::block_on(async {
            assert!(engine.start_timer());
            for submit in 0..1300 {
                let mut commands = engine.commands();
                fill(&mut commands, 4, 3.0, &mut written);
                engine.submit(commands);
                if waits && submit % 100 == 0 {
                    engine.settle().await.expect("settles");
                }
            }
            let found = engine.stop_timer().await.expect("reads").expect("timed");
            assert_eq!(found.untimed, missed);
            assert_eq!(found.kernels[0].dispatches, 1300 - missed);
        });
    }
}

#[test]
fn bytes_that_go_to_the_device_and_come_back_are_counted() {
    for engine in engines() {
        let gpu = u64::from(engine.info().engine == "gpu");
        let mut vector = output::<f32>(&engine, 4096);
        let [sent, read_back] = engine.moved_bytes();
        pollster::block_on(async {
            engine
                .upload(&mut vector, 0, &[1.0; 1000])
                .await
                .expect("uploads");
            let mut commands = engine.commands();
            fill(&mut commands, 16, 3.0, &mut vector);
            fill(&mut commands, 16, 4.0, &mut vector);
            engine.submit(commands);
            engine.read(&vector, 0, 500).await.expect("reads");
        });
        let [sent_then, read_then] = engine.moved_bytes();
        // A dispatch brings its block of parameters.
        let expected = [gpu * (4000 + 2 * 256), gpu * 2000];
        assert_eq!([sent_then - sent, read_then - read_back], expected);
    }
}

#[test]
fn a_line_counts_what_a_search_does() {
    let shape = Shape {
        work: Work::Knn { k: 7 },
        queries: 40,
        references: 3000,
        dim: 12,
    };
    for engine in engines() {
        // Counts that do not depend on the length of a slice.
        engine.hold_pace(1e10);
        let kind = engine.info().engine.clone();
        let rows = |count: usize| RowSource::Memory {
            values: (0..count * 12).map(|i| (i * 31 % 17) as f32).collect(),
            dim: 12,
        };
        let (known, asking) = (rows(3000), rows(40));
        let (line, counts) = pollster::block_on(async {
            let line = measure(&engine, &shape, 0, 1e12).await.expect("measures");
            let index = KnnIndex::new(&engine, &known, Some(&asking), 7).await;
            let mut index = index.expect("fits");
            let count = || {
                let [sent, back] = engine.moved_bytes();
                let (dispatches, submits) = (engine.dispatches(), engine.submits());
                [dispatches, submits, engine.waits(), sent, back]
            };
            let mut counts = Vec::new();
            // The first search brings the references in.
            for _ in 0..2 {
                let before = count();
                let found = index.search(Some(&asking), |_, _| {}).await;
                found.expect("searches");
                counts = count().iter().zip(before).map(|(n, b)| n - b).collect();
            }
            (line, counts)
        });
        let said = [
            line.dispatches,
            line.submits,
            line.waits,
            line.uploaded_bytes,
            line.fetched_bytes,
        ];
        assert_eq!(
            said.map(|count| count.expect("counted")).to_vec(),
            counts,
            "{kind}"
        );
        assert!(counts[0] > 0);
        let timed = has_timestamps(&engine.info().features) && kind == "gpu";
        assert_eq!(line.device_ms.is_some(), timed, "{kind}");
        assert_eq!(line.device_share_of_peak.is_some(), timed, "{kind}");
        let dispatches: u64 = line.kernels.iter().map(|kernel| kernel.dispatches).sum();
        assert_eq!(
            dispatches,
            if timed { counts[0] } else { 0 },
            "{:?}",
            line.kernels
        );
    }
}

#[test]
fn bench_sets_shaders_with_and_without_checks_beside_each_other() {
    let work = [
        "mining",
        "--anchors",
        "16",
        "--references",
        "300",
        "--dim",
        "16",
        "--classes",
        "5",
    ];
    let reports = bench(&[&["--trusted=both"][..], &work].concat());
    let trusted: Vec<&Value> = reports
        .as_array()
        .expect("two")
        .iter()
        .map(|report| &report["trusted"])
        .collect();
    assert_eq!(trusted, [&Value::Bool(false), &Value::Bool(true)]);
    for report in reports.as_array().expect("two") {
        assert_eq!(report["engine"], "gpu");
        let lines = report["lines"].as_array().expect("lines");
        assert_eq!(lines.len(), 4);
        for line in lines {
            let counts = [
                "dispatches",
                "submits",
                "waits",
                "uploaded_bytes",
                "fetched_bytes",
            ];
            assert!(counts.iter().all(|key| line[key].is_u64()), "{line}");
        }
    }
    let refused = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--engine", "cpu", "--trusted=both"])
        .output()
        .expect("starts");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn bench_holds_a_step_of_each_kind_of_loss_to_the_f64_reference() {
    let losses = "triplet-margin,nt-xent,arc-face";
    let asked = [
        "train", "--engine", "cpu", "--losses", losses, "--memory", "0",
    ];
    let report = bench(&asked);
    let lines = report["lines"].as_array().expect("a list");
    let names: Vec<_> = lines
        .iter()
        .filter_map(|line| line["name"].as_str())
        .collect();
    let steps =
        ["64-256-64", "nt-xent", "arc-face"].map(|of| format!("train 10 steps {of}, 32 x 0"));
    assert_eq!(names[names.len() - 3..], steps);
}
