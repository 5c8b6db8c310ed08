//! The command line for a person and for a program: output on each stream, exit codes, files, and every refusal.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{args, command, folder, json, on_cpu, refusal, words};

#[track_caller]
fn holds_nothing_half_written(folder: &Path) {
    let names = std::fs::read_dir(folder).expect("is there");
    for name in names.map(|entry| entry.expect("is read").file_name()) {
        assert!(!name.display().to_string().contains("partial"), "{name:?}");
    }
}

const SMALL: [&str; 12] = [
    "--set",
    "steps=25",
    "--set",
    "batch_size=12",
    "--set",
    "memory_size=24",
    "--set",
    "hidden_layers=[16]",
    "--set",
    "loss.name=triplet-margin",
    "--set",
    "miner.name=triplet-margin",
];

fn train(arguments: &[&str]) -> Value {
    json(&[&["train"], arguments, &SMALL].concat())
}

#[test]
fn train_prints_the_keys_that_programs_rely_on() {
    let report = train(&["--data", "sample:digits", "--seed", "5"]);
    for pointer in [
        "/engine",
        "/adapter",
        "/elapsed_ms",
        "/memory/live_bytes",
        "/memory/peak_bytes",
        "/memory/budget_bytes",
        "/memory/by_purpose/memory_bank",
        "/memory/by_purpose/activations",
        "/steps",
        "/history/0/step",
        "/history/0/loss",
        "/history/0/mining/anchors",
        "/history/0/mining/valid",
        "/history/0/mining/easy",
        "/history/0/mining/semihard",
        "/history/0/mining/hard",
        "/history/0/mining/mined",
        "/history/0/mining/active",
        "/history/0/memory_bytes",
        "/history/0/pml_bytes",
        "/evaluations/0/step",
        "/evaluations/0/train/precision_at_1",
        "/evaluations/0/validation/queries",
        "/final/train/lone_queries",
        "/final/validation/mean_average_precision_at_r",
        "/final/test/r_precision",
        "/final/test/mean_average_precision",
        "/final/test/mean_reciprocal_rank",
        "/final/test/standard_error",
        "/baseline/raw/test/precision_at_1",
        "/baseline/linear/validation/standard_error",
        "/baseline/linear/test/precision_at_1",
        "/verdict",
        "/warnings",
        "/config/miner/type_of_triplets",
    ] {
        assert!(
            report
                .pointer(pointer)
                .is_some_and(|value| !value.is_null()),
            "{pointer}"
        );
    }
    assert_eq!(report["history"].as_array().expect("a list").len(), 25);
    assert_eq!(report["config"]["seed"], 5);
    let steps: Vec<_> = report["evaluations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| e["step"].clone())
        .collect();
    assert_eq!(steps, [0, 20, 25]);
    let mining = &report["history"][24]["mining"];
    let count = |kind: &str| mining[kind].as_u64().expect("a count");
    assert_eq!(
        count("easy") + count("semihard") + count("hard"),
        count("valid")
    );
}

#[test]
fn a_head_fills_cells_without_a_number_as_it_was_trained() {
    let out = folder("filled");
    let path = |name: &str| out.join(name).display().to_string();
    let cells = |row: usize, hole: &str| {
        let class = row % 3;
        let width = (10 * class + row % 5) as f32 * 0.5;
        let first = match row {
            7 | 20 => hole.to_owned(),
            _ => width.to_string(),
        };
        let depth = 3.0 - class as f32 + (row % 4) as f32 * 0.125;
        format!("{first},{},{depth}", width + row as f32 * 0.01)
    };
    let table = |hole: &str, label: bool| {
        let names = ["width", "height", "depth"].join(",");
        let mut text = match label {
            true => format!("{names},kind\n"),
            false => format!("{names}\n"),
        };
        for row in 0..60 {
            text += &cells(row, hole);
            text += &match label {
                true => format!(",k{}\n", row % 3),
                false => "\n".to_owned(),
            };
        }
        text
    };
    let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("is written");
    write("train.csv", &table("", true));
    train(&args(
        "--data {} --missing median --out {}",
        &[&path("train.csv"), &path("run")],
    ));
    let (run, embedded) = (path("run"), path("embedded.npy"));
    let embed = |data: &str| {
        let data = path(data);
        let embed = [
            "embed", "--model", &run, "--data", &data, "--out", &embedded,
        ];
        json(&embed);
        std::fs::read(&embedded).expect("is written")
    };
    // Of 58 numbers, the mean of the middle two.
    let mut known: Vec<f32> = (0..60)
        .filter(|row| ![7, 20].contains(row))
        .map(|row| (10 * (row % 3) + row % 5) as f32 * 0.5)
        .collect();
    known.sort_by(f32::total_cmp);
    let median = (known[28] + known[29]) / 2.0;
    write("whole.csv", &table(&median.to_string(), false));
    let whole = embed("whole.csv");
    for hole in ["", "NA", "inf"] {
        write("holes.csv", &table(hole, false));
        assert!(embed("holes.csv") == whole, "{hole}");
    }
    // The same in an NPY file, of which other rows are read: its own median differs.
    let values = |hole: f32| -> Vec<f32> {
        let text = table(&hole.to_string(), false);
        let cells = text.lines().skip(1).flat_map(|line| line.split(','));
        cells.map(|cell| cell.parse().expect("a number")).collect()
    };
    for (hole, name) in [(f32::NAN, "holes.npy"), (median, "whole.npy")] {
        let some = &values(hole)[..3 * 22];
        std::fs::write(path(name), nearfar::write_matrix(some, 3)).expect("is written");
    }
    assert!(embed("holes.npy") == embed("whole.npy"));
    // A column without missing cells in training.
    write("other.csv", "width,height,depth\n1,,2\n");
    let other = path("other.csv");
    let said = refusal(&[
        "embed", "--model", &run, "--data", &other, "--out", &embedded,
    ]);
    assert!(said.contains("line 2: column \"height\""), "{said}");
}

#[test]
fn what_train_writes_embed_and_evaluate_read() {
    let out = folder("head");
    let path = |name: &str| out.join(name).display().to_string();
    let report = train(&["--data", "trees.csv", "--out", &out.display().to_string()]);
    for file in [
        "config.json",
        "history.json",
        "head.safetensors",
        "test_embeddings.npy",
        "test_labels.csv",
    ] {
        assert!(out.join(file).exists(), "{file}");
    }
    let evaluated = json(&args(
        "evaluate --embeddings {} --labels {}",
        &[&path("test_embeddings.npy"), &path("test_labels.csv")],
    ));
    let metrics = [
        "precision_at_1",
        "r_precision",
        "mean_average_precision_at_r",
        "queries",
    ];
    for metric in metrics {
        assert_eq!(
            evaluated[metric], report["final"]["test"][metric],
            "{metric}"
        );
    }
    // The same rows through the head, from a table and from the open NPY file, give the same embeddings.
    let model = out.display().to_string();
    for data in ["features.npy", "trees.csv"] {
        let embedded = json(&args(
            "embed --model {} --data {} --out {}",
            &[&model, data, &path("all.npy")],
        ));
        assert_eq!(embedded["rows"], 60);
        let bytes = std::fs::read(path("all.npy")).expect("is written");
        assert_eq!(bytes.len(), 128 + 60 * 64 * 4);
        let row: Vec<f32> = bytes[128..]
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .take(64)
            .collect();
        let length: f32 = row.iter().map(|v| v * v).sum();
        assert!((length - 1.0).abs() < 1e-5, "unit rows: {length}");
    }
    holds_nothing_half_written(&out);
    // A saved configuration repeats the run.
    let again = train(&["--data", "trees.csv", "--config", &path("config.json")]);
    assert_eq!(again["history"], report["history"]);
    let wrong = refusal(&args(
        "embed --model {} --data sample:digits --out {}",
        &[&model, &path("x.npy")],
    ));
    assert_eq!(wrong, "sample:digits: 64 features, the head takes 5");
    assert!(!out.join("x.npy").exists());
    holds_nothing_half_written(&out);
}

#[test]
fn features_and_labels_come_in_the_forms_that_people_have() {
    let by_text = train(&["--data", "features.npy", "--labels", "labels_text.npy"]);
    let same = |report: &Value| assert_eq!(report["history"], by_text["history"]);
    same(&train(&words(
        "--data features_f64_fortran.npy --labels labels_int64.npy",
    )));
    same(&train(&words(
        "--data features.npy --labels trees.csv:species",
    )));
    let table = train(&["--data", "trees.csv"]);
    assert_eq!(table["data"]["dim"], 5);
    let notes = table["data"]["notes"].to_string();
    assert!(
        notes.contains("label = \\\"species\\\" (by its name)")
            && notes.contains("left out: \\\"id\\\""),
        "{notes}"
    );
    let half = train(&["--data", "features_f16.npy", "--labels", "labels_int64.npy"]);
    assert_eq!(half["data"]["rows"], 60);
    let parts = train(&words(
        "--data trees_parts.csv --labels species --set split=column:part",
    ));
    assert_eq!(
        [
            &parts["data"]["train"],
            &parts["data"]["validation"],
            &parts["data"]["test"]
        ],
        [40, 10, 10]
    );
    let parts = train(&words(
        "--data trees_parts.csv --labels labels_text.npy --set split=column:part",
    ));
    assert_eq!(parts["data"]["test"], 10);
    let apart = train(&words(
        "--data trees.csv --test-data features.npy --test-labels labels_text.npy",
    ));
    assert_eq!(
        [
            &apart["data"]["train"],
            &apart["data"]["validation"],
            &apart["data"]["test"]
        ],
        [48, 12, 60]
    );
}

#[test]
fn a_test_file_is_never_trained_on() {
    let out = folder("apart");
    let path = |name: &str| out.join(name).display().to_string();
    let apart = [
        "--data",
        "trees.csv",
        "--test-data",
        "features.npy",
        "--test-labels",
        "labels_text.npy",
    ];
    let sides = |report: &Value| {
        ["train", "validation", "test"].map(|side| report["data"][side].as_u64().expect("a count"))
    };
    // Saved settings name a split, with or without a test file at that time.
    let whole = ["--data", "trees.csv", "--out", &path("whole")];
    train(&[&whole[..], &["--set", "split=random"]].concat());
    for saved in ["whole", "apart"] {
        let config = out.join(saved).join("config.json").display().to_string();
        let config = ["--config", &config, "--out", &path("apart")];
        let report = train(&[&apart[..], &config].concat());
        assert_eq!(sides(&report), [48, 12, 60], "{saved}");
        assert_eq!(report["config"]["split"], "column:side");
    }
    let again = ["--set", "split=column:side"];
    assert_eq!(sides(&train(&[&apart[..], &again].concat())), [48, 12, 60]);
    let typed = [&["train"], &apart[..], &["--set", "split=by-class"]].concat();
    assert_eq!(
        refusal(&typed),
        "split: the rows of --test-data are the test side: leave out split or --test-data"
    );
}

/// The rows of an NPY file of float32 as written here.
fn matrix(path: &str) -> Vec<u8> {
    std::fs::read(path).expect("is written")[128..].to_vec()
}

#[test]
fn features_go_by_the_names_that_the_head_was_trained_on() {
    let out = folder("names");
    let path = |name: &str| out.join(name).display().to_string();
    train(&["--data", "trees.csv", "--out", &path("head")]);
    let (head, target) = (path("head"), path("rows.npy"));
    let embed = |data: &str| {
        ["embed", "--model", &head, "--data", data, "--out", &target].map(str::to_owned)
    };
    let rows = |data: &str| {
        let arguments = embed(data);
        json(&arguments.each_ref().map(String::as_str));
        matrix(&target)
    };
    let table =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/trees.csv"));
    let table = table.expect("is there");
    // Columns in reverse, with one more in front.
    let turned: String = table
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').rev().collect();
            format!("{},{}\n", cells[0].replace('e', "f"), cells.join(","))
        })
        .collect();
    let (turned_path, renamed_path) = (path("turned.csv"), path("renamed.csv"));
    std::fs::write(&turned_path, turned).expect("is written");
    std::fs::write(&renamed_path, table.replacen(",b,", ",B,", 1)).expect("is written");
    assert_eq!(rows(&turned_path), rows("trees.csv"));
    let refused = embed(&renamed_path);
    let refused = refusal(&refused.each_ref().map(String::as_str));
    assert!(
        refused.contains("renamed.csv: there is no column \"b\", which the head was trained on"),
        "{refused}"
    );
    let joined = ["train", "--data", "trees.csv", "--test-data", &renamed_path];
    let refused = refusal(&joined);
    assert!(
        refused.contains("renamed.csv: there is no ") && refused.contains("\"b\""),
        "{refused}"
    );
}

#[test]
fn rows_that_cannot_be_squared_are_refused_with_their_place() {
    let out = folder("huge");
    let path = |name: &str| out.join(name).display().to_string();
    train(&args(
        "--data features.npy --labels labels_text.npy --out {}",
        &[&path("head")],
    ));
    let mut values = vec![1.0f32; 5 * 5000];
    values[4500 * 5 + 2] = -1e19;
    let rows = nearfar::write_matrix(&values, 5);
    std::fs::write(path("rows.npy"), rows).expect("is written");
    std::fs::write(path("rows.csv"), "a,b,c,d,e\n1,2,3,4,5\n1,2e30,3,4,5\n").expect("is written");
    for (data, place) in [
        ("rows.npy", "row 4501, column 3: -1e19"),
        ("rows.csv", "row 2, column 2: 2e30"),
    ] {
        let message = refusal(&[
            "embed",
            "--model",
            &path("head"),
            "--data",
            &path(data),
            "--out",
            &path("out.npy"),
        ]);
        assert!(
            message.ends_with(&format!(
                "{data}: {place} is too large to square: scale the features"
            )),
            "{message}"
        );
        assert!(!out.join("out.npy").exists());
    }
}

#[test]
fn arrays_that_are_not_there_are_refused_and_those_in_capitals_read() {
    let out = folder("arrays");
    let path = |name: &str| out.join(name).display().to_string();
    train(&args(
        "--data features.npy --labels labels_text.npy --out {}",
        &[&path("head")],
    ));
    let features = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/features.npy");
    std::fs::copy(features, path("FEATURES.NPY")).expect("is copied");
    let embed = |data: &str| {
        let (head, target) = (path("head"), path("out.npy"));
        ["embed", "--model", &head, "--data", data, "--out", &target].map(str::to_owned)
    };
    let capitals = embed(&path("FEATURES.NPY"));
    assert_eq!(json(&capitals.each_ref().map(String::as_str))["rows"], 60);
    let missing = refusal(&embed("missing.npy").each_ref().map(String::as_str));
    assert!(
        missing.starts_with("missing.npy: No such file"),
        "{missing}"
    );
}

#[test]
fn a_reader_that_left_early_is_no_error() {
    let out = folder("closed");
    let path = |name: &str| out.join(name).display().to_string();
    train(&["--data", "trees.csv", "--out", &path("head")]);
    let (head, target) = (path("head"), path("rows.npy"));
    let trained = [
        &["train", "--data", "trees.csv", "--engine", "cpu"][..],
        &SMALL,
    ]
    .concat();
    for arguments in [
        &["devices"][..],
        &["evaluate", "--embeddings", "trees.csv", "--engine", "cpu"],
        &[
            "embed",
            "--model",
            &head,
            "--data",
            "trees.csv",
            "--out",
            &target,
            "--engine",
            "cpu",
        ],
        &trained,
    ] {
        let mut child = command(arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        drop((child.stdout.take(), child.stderr.take()));
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn evaluate_compares_with_references_and_picks_metrics() {
    let own = [
        "evaluate",
        "--embeddings",
        "features.npy",
        "--labels",
        "labels_text.npy",
    ];
    let all = json(&own);
    assert_eq!(all["queries"], 60);
    let some = json(&[&own[..], &["--metrics", "precision_at_1,r_precision"]].concat());
    assert_eq!(some["precision_at_1"], all["precision_at_1"]);
    assert!(some.get("queries").is_some());
    for (of, of_all) in [
        (&some, &all),
        (&some["over_classes"], &all["over_classes"]),
        (&some["classes"][0], &all["classes"][0]),
    ] {
        assert_eq!(of["r_precision"], of_all["r_precision"]);
        assert!(of.get("mean_average_precision").is_none());
        assert!(of_all.get("mean_average_precision").is_some());
    }
    let references = ["--references", "trees.csv", "--reference-labels", "species"];
    let against = json(&[&own[..], &references].concat());
    assert_eq!(
        against["precision_at_1"], 1.0,
        "each row finds its like in the table"
    );
    let unknown = refusal(&[&own[..], &["--metrics", "ndcg"]].concat());
    assert!(
        unknown.starts_with("there is no metric \"ndcg\": precision_at_1,"),
        "{unknown}"
    );
}

/// An array of an NPZ.
fn member(path: &Path, array: &str) -> (usize, Vec<f32>) {
    let file = nearfar::NamedFile {
        name: path.display().to_string(),
        bytes: std::fs::read(path).expect("is there"),
    };
    let (rows, _) = nearfar::RowSource::from_arrays(&file, Some(array)).expect("reads");
    (rows.dim(), rows.in_memory().expect("in memory").to_vec())
}

#[test]
fn knn_writes_the_nearest_first_and_leaves_the_query_out() {
    let out = folder("knn").join("own.npz");
    let path = out.to_str().expect("UTF-8");
    let report = json(&args("knn --queries features.npy --k 59 --out {}", &[path]));
    assert_eq!(
        (&report["queries"], &report["references"]),
        (&60.into(), &60.into())
    );
    let ((k, ids), (_, similarities)) = (member(&out, "ids"), member(&out, "similarities"));
    assert_eq!((k, ids.len()), (59, 60 * 59));
    for (query, (ids, similarities)) in ids.chunks(k).zip(similarities.chunks(k)).enumerate() {
        let mut all: Vec<usize> = ids.iter().map(|id| *id as usize).collect();
        all.sort_unstable();
        all.insert(query, query);
        assert_eq!(all, (0..60).collect::<Vec<_>>(), "each of the others once");
        assert!(similarities.is_sorted_by(|a, b| a >= b));
    }
    let against = [
        "knn",
        "--queries",
        "features.npy",
        "--references",
        "trees.csv",
        "--k",
        "1",
    ];
    json(&[&against[..], &["--out", path]].concat());
    let (_, similarities) = member(&out, "similarities");
    assert!(
        similarities.iter().all(|s| *s > 0.999_999),
        "each row finds its like in the table"
    );
}

#[test]
fn margins_of_l2_are_those_of_pml_where_none_is_given_and_the_arguments_are_said() {
    let ask = [
        "loss",
        "--embeddings",
        "features.npy",
        "--labels",
        "labels_text.npy",
    ];
    let report = |more: &[&str]| json(&[&ask[..], more].concat());
    for (loss, given) in [
        (
            "contrastive",
            &["--set", "pos_margin=0", "--set", "neg_margin=1"][..],
        ),
        (
            "lifted-structure",
            &["--set", "pos_margin=0", "--set", "neg_margin=1"],
        ),
        ("margin", &["--set", "beta=1.2"]),
        ("triplet-margin", &["--set", "margin=0.05"]),
    ] {
        let by_distance = ["--loss", loss, "--distance", "l2"];
        let followed = report(&by_distance);
        let given = report(&[&by_distance[..], given].concat());
        assert_eq!(followed["loss"], given["loss"], "{loss}");
        assert_eq!(followed["arguments"], given["arguments"], "{loss}");
        assert_eq!(followed["arguments"]["loss"]["name"], loss);
        assert_ne!(
            report(&["--loss", loss])["arguments"]["loss"],
            followed["arguments"]["loss"]
        );
    }
    let mined = json(&words(
        "mine --embeddings features.npy --labels labels_text.npy --miner multi-similarity --distance l2 --miner-distance cosine",
    ));
    assert_eq!(mined["arguments"]["miner_distance"], "cosine");
    let by_set = json(&words(
        "mine --embeddings features.npy --labels labels_text.npy --miner multi-similarity --distance l2 --set miner_distance=cosine",
    ));
    assert_eq!(by_set["mining"], mined["mining"]);
    let alike = json(&words(
        "mine --embeddings features.npy --labels labels_text.npy --miner multi-similarity --distance l2",
    ));
    assert_ne!(alike["mining"]["mined"], mined["mining"]["mined"]);
}

#[test]
fn a_setting_of_training_alone_is_said_to_be_one() {
    let rows = [
        "--embeddings",
        "features.npy",
        "--labels",
        "labels_text.npy",
    ];
    for (command, part) in [("loss", "loss"), ("mine", "miner")] {
        for set in ["miner_weights=true", "memory_size=64"] {
            let said = refusal(&[&[command], &rows[..], &["--set", set]].concat());
            let key = set.split('=').next().expect("a key");
            let expected = format!("{key} is a setting of `train`, whose batches it is about");
            assert!(
                said.starts_with(&expected) && said.ends_with(&format!("of the {part}")),
                "{said}"
            );
        }
    }
}

#[test]
fn what_knn_cannot_do_is_refused_and_leaves_no_file() {
    let folder = folder("knn-refused");
    let out = folder.join("never.npz");
    let path = out.to_str().expect("UTF-8");
    let say = |more: &[&str]| {
        refusal(&[&["knn", "--queries", "features.npy", "--out", path], more].concat())
    };
    assert!(say(&["--k", "0"]).starts_with("k is 0: there are 59 references other than the query"));
    assert!(say(&["--k", "60"]).starts_with("k is 60"));
    let other = say(&["--k", "1", "--references", "labels_int64.npy"]);
    assert!(
        other.starts_with("references have 1 dimensions, queries 5"),
        "{other}"
    );
    let nan = say(&["--k", "1", "--references", "features_nan.npy"]);
    assert!(nan.contains("the value is not finite"), "{nan}");
    let cut = say(&["--k", "1", "--references", "features_cut.npy"]);
    assert!(cut.contains("features_cut.npy"), "{cut}");
    let small = say(&["--k", "1", "--budget", "1KiB"]);
    assert!(
        small.contains("\"knn\" needs") && small.contains("raise the budget"),
        "{small}"
    );
    assert_eq!(std::fs::read_dir(&folder).expect("is there").count(), 0);
}

#[test]
fn evaluate_says_it_by_class_and_for_every_k() {
    let report = json(&words(
        "evaluate --embeddings features.npy --labels labels_text.npy --at 1,5",
    ));
    assert_eq!(report["recall_at"]["1"], report["precision_at_1"]);
    assert!(report["precision_at"]["5"].is_f64());
    let classes = report["classes"].as_array().expect("a list");
    assert!(classes.len() > 1 && classes[0]["class"].is_string());
    assert!(report["over_classes"]["r_precision"].is_f64());
}

#[test]
fn mine_counts_every_triplet_and_loss_differentiates_it() {
    let rows = ["--embeddings", "trees.csv", "--labels", "trees.csv:species"];
    let mined = json(&[&["mine"], &rows[..], &["--set", "margin=0.1"]].concat());
    let count = |report: &Value, key: &str| report["mining"][key].as_u64().expect("is a count");
    let kinds = ["easy", "semihard", "hard"].map(|kind| count(&mined, kind));
    assert_eq!(kinds.iter().sum::<u64>(), count(&mined, "valid"));
    assert_eq!(count(&mined, "mined"), kinds[1]);
    assert!(mined["mining"]["active"].is_null() && mined["pml_bytes"].is_u64());

    let folder = folder("loss");
    let gradient = folder.join("gradient.npy");
    let gradient = gradient.to_str().expect("UTF-8");
    let options = ["--set", "margin=0.1", "--gradient", gradient];
    let all = json(&[&["loss"], &rows[..], &options].concat());
    assert_eq!(count(&all, "mined"), count(&mined, "valid"));
    assert!(all["loss"].as_f64().expect("is a number") > 0.0);
    let numbers = matrix(gradient);
    assert!(numbers.iter().any(|byte| *byte != 0));
    let band = ["--miner", "triplet-margin", "--set", "miner.margin=0.1"];
    let semihard = json(&[&["loss"], &rows[..], &band].concat());
    assert_eq!(count(&semihard, "mined"), count(&mined, "mined"));

    let refused = |options: &[&str]| refusal(&[&["mine"], &rows[..], options].concat());
    for (options, said) in [
        (["--set", "margin=nan"], "margin"),
        (["--set", "depth=1"], "depth"),
        (["--miner", "batch-tough"], "batch-tough"),
        (["--budget", "1KiB"], "1 KiB"),
    ] {
        let error = refused(&options);
        assert!(error.contains(said), "{options:?}: {error}");
    }
    let plan = json(&[&["plan", "mine"], &rows[..]].concat());
    assert_eq!(plan["fits"], true);
}

/// The triplets in an NPY file, after its header.
fn triplets(path: &str, count: u64) -> Vec<[u32; 3]> {
    let bytes = std::fs::read(path).expect("is there");
    let header = String::from_utf8_lossy(&bytes[..128]);
    assert!(header.contains("'descr': '<u4'"), "{header}");
    assert!(header.contains(&format!("({count}, 3)")), "{header}");
    let words: Vec<u32> = bytes[128..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect();
    assert_eq!(words.len() as u64, 3 * count);
    words.as_chunks::<3>().0.to_vec()
}

#[test]
fn mine_lists_as_many_triplets_as_it_counts() {
    let folder = folder("mine-out");
    let out = folder.join("triplets.npy");
    let path = out.to_str().expect("UTF-8");
    let rows = ["--embeddings", "trees.csv", "--labels", "trees.csv:species"];
    for miner in [&["--set", "margin=0.1"][..], &["--miner", "none"]] {
        let options = [&["--out", path], miner].concat();
        let report = json(&[&["mine"], &rows[..], &options].concat());
        let count = report["triplets"].as_u64().expect("is a count");
        assert_eq!(report["mining"]["mined"].as_u64(), Some(count));
        let listed = triplets(path, count);
        assert!(listed.len() > 10 && listed.is_sorted_by(|a, b| a < b));
    }
    let lists = |miner: &str| {
        let options = ["--miner", miner, "--out", path];
        let report = json(&[&["mine"], &rows[..], &options].concat());
        let count = report["triplets"].as_u64().expect("is a count");
        assert_eq!(report["mining"]["mined"].as_u64(), Some(count));
        assert!(report["mining"]["valid"].as_u64() > Some(count));
        assert!(triplets(path, count).len() > 10);
        count
    };
    let facenet = lists("facenet-semihard");
    for command in ["mine", "loss"] {
        let options = ["--miner", "facenet-semihard"];
        let report = json(&[&[command], &rows[..], &options].concat());
        assert_eq!(report["mining"]["mined"].as_u64(), Some(facenet));
    }
    let swap = ["--miner", "facenet-semihard", "--set", "swap=true"];
    let error = refusal(&[&["loss"], &rows[..], &swap].concat());
    assert!(error.contains("leave swap out"), "{error}");
    let drawn = lists("distance-weighted");
    for command in ["mine", "loss"] {
        let options = ["--miner", "distance-weighted"];
        let report = json(&[&[command], &rows[..], &options].concat());
        assert_eq!(report["mining"]["mined"].as_u64(), Some(drawn));
    }
    let swap = ["--miner", "distance-weighted", "--set", "swap=true"];
    let error = refusal(&[&["loss"], &rows[..], &swap].concat());
    assert!(error.contains("leave swap out"), "{error}");
    let options = ["--out", path, "--budget", "64MiB"];
    let plan = json(&[&["plan", "mine"], &rows[..], &options].concat());
    let buffers = plan["memory"]["buffers"].as_array().expect("a list");
    assert!(
        buffers
            .iter()
            .any(|buffer| buffer["label"] == "list.window")
    );

    std::fs::remove_file(&out).expect("is there");
    let refused = |options: &[&str]| refusal(&[&["mine", "--out", path], options].concat());
    for (options, said) in [
        (&["--set", "margin=inf"][..], "margin"),
        (&["--budget", "1MiB"], "1 MiB budget"),
    ] {
        let error = refused(&[&rows[..], options].concat());
        assert!(error.contains(said), "{options:?}: {error}");
    }
    let short = [
        "--embeddings",
        "features.npy",
        "--labels",
        "labels_short.npy",
    ];
    assert!(refused(&short).contains("labels"));
    let left = std::fs::read_dir(&folder).expect("is there").count();
    assert_eq!(left, 0, "nothing was written");
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_list_and_leaves_no_file() {
    let folder = folder("stopped-mine");
    let [rows, labels] = embeddings(&folder, 20_000);
    let out = folder.join("never.npy");
    let path = out.to_str().expect("UTF-8");
    let files = ["--embeddings", &rows, "--labels", &labels];
    // A band so narrow that the search takes long and the file stays small.
    let options = ["mine", "--set", "margin=1e-6", "--out", path];
    stops_at_once(&[&options, &files[..]].concat());
    let left = std::fs::read_dir(&folder).expect("is there").count();
    assert_eq!(left, 2, "the rows and their labels, and nothing else");
}

#[test]
fn mine_lists_the_pairs_that_a_miner_keeps() {
    let rows = ["--embeddings", "trees.csv", "--labels", "trees.csv:species"];
    let folder = folder("pairs");
    let path = |name: &str| folder.join(name).display().to_string();
    let mine = |miner: &str, out: &str| {
        json(&[&["mine"], &rows[..], &["--miner", miner, "--out", out]].concat())
    };
    let hard = mine("batch-hard", &path("hard.npy"));
    let bytes = std::fs::read(path("hard.npy")).expect("is written");
    let count = hard["mining"]["mined"].as_u64().expect("is a count");
    let header = String::from_utf8_lossy(&bytes[10..128]).into_owned();
    assert!(
        header.contains("<u4") && header.contains(&format!("({count}, 3)")),
        "{header}"
    );
    assert_eq!(bytes.len() as u64, 128 + 12 * count);
    let numbers: Vec<u32> = bytes[128..]
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four")))
        .collect();
    assert!(count > 0 && numbers.chunks(3).is_sorted_by_key(|triplet| triplet[0]));
    mine("multi-similarity", &path("close.npz"));
    let mut archive =
        zip::ZipArchive::new(std::fs::File::open(path("close.npz")).expect("is there"))
            .expect("an archive");
    let mut lengths = ["a1", "p", "a2", "n"].map(|name| {
        let member = archive.by_name(&format!("{name}.npy")).expect("is there");
        member.size()
    });
    assert_eq!((lengths[0], lengths[2]), (lengths[1], lengths[3]));
    lengths.sort_unstable();
    assert!(lengths[0] > 128);

    let refused = |options: &[&str]| refusal(&[&["mine"], &rows[..], options].concat());
    for (options, said) in [
        (
            &[
                "--miner",
                "batch-easy-hard",
                "--set",
                "pos_strategy=semihard",
            ][..],
            "cannot both be semihard",
        ),
        (
            &[
                "--miner",
                "batch-easy-hard",
                "--set",
                "allowed_neg_range=[1,0]",
            ],
            "allowed_neg_range is [1.0, 0.0]",
        ),
        (
            &["--miner", "multi-similarity", "--set", "epsilon=1e400"],
            "epsilon",
        ),
        (
            &["--miner", "pair-margin", "--set", "neg_margin=9"],
            "neg_margin is 9",
        ),
    ] {
        let error = refused(options);
        assert!(error.contains(said), "{options:?}: {error}");
    }
    let plan = json(&[&["plan", "mine"], &rows[..], &["--miner", "pair-margin"]].concat());
    assert_eq!(plan["path"], "rows");
    let plan = json(&[&["plan", "loss"], &rows[..]].concat());
    assert_eq!(plan["path"], "ranks");
}

#[test]
fn plan_says_what_a_command_would_hold_and_runs_nothing() {
    let out = folder("plan").join("never.npz");
    let path = out.to_str().expect("UTF-8");
    let plan = json(&args(
        "plan knn --queries features.npy --k 3 --out {}",
        &[path],
    ));
    assert_eq!(
        (&plan["fits"], &plan["resident"]),
        (&true.into(), &true.into())
    );
    let run = json(&args("knn --queries features.npy --k 3 --out {}", &[path]));
    assert_eq!(
        plan["memory"]["total_bytes"], run["memory"]["peak_bytes"],
        "the plan is what runs"
    );
    let trained = train(&["--data", "trees.csv"]);
    let plan = json(&[&["plan", "train", "--data", "trees.csv"][..], &SMALL].concat());
    assert_eq!(
        plan["memory"]["total_bytes"],
        trained["memory"]["peak_bytes"]
    );
    assert!(plan["predicted_ms"].as_f64().expect("a number") > 0.0);
    let evaluation = [
        "--embeddings",
        "features.npy",
        "--labels",
        "labels_text.npy",
    ];
    let plan = json(&[&["plan", "evaluate"][..], &evaluation].concat());
    let run = json(&[&["evaluate"][..], &evaluation].concat());
    assert_eq!(plan["memory"]["total_bytes"], run["memory"]["peak_bytes"]);
    let large = args(
        "plan train --data sample:many-classes --budget 64MiB --set batch_size=4096 --set memory_size=4096 \
         --set hidden_layers=[2048]",
        &[],
    );
    let plan = json(&large);
    let chunk = &plan["batch_chunk"];
    assert_eq!(
        (&chunk["batch"], &plan["fits"]),
        (&4096.into(), &true.into())
    );
    let rows = chunk["rows"].as_u64().expect("a number");
    assert!(rows.is_multiple_of(256) && chunk["twice"] == 4096 - rows);
    let printed = String::from_utf8(on_cpu(&large).stdout).expect("UTF-8");
    let said = format!("A batch of 4096 goes through the head {rows} rows at a time");
    assert!(printed.contains(&said), "{printed}");
    let refused = refusal(&[&["plan", "evaluate", "--budget", "1KiB"][..], &evaluation].concat());
    assert!(refused.starts_with("\"evaluation\" needs"), "{refused}");
}

#[test]
fn devices_lists_the_cpu_last() {
    let output = command(&["devices", "--json"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let devices = report["devices"].as_array().expect("a list");
    assert_eq!(devices.last().expect("one at least")["engine"], "cpu");
    assert!(
        devices.iter().any(|device| device["engine"] == "gpu"),
        "a Vulkan driver is installed"
    );
    let (best, chosen) = (&devices[0], &report["chosen"]);
    let reason = chosen["reason"].as_str().expect("a text");
    if best["engine"] == "gpu" && best["software"] == false {
        assert_eq!(chosen["adapter"], best["adapter"]);
        assert_eq!(reason, "as there is one");
    } else {
        assert_eq!(chosen["engine"], "cpu");
        let name = best["adapter"].as_str().expect("a name");
        let expected =
            format!("as the only GPU is played by a processor ({name}): --engine gpu uses that");
        assert_eq!(reason, expected);
    }
    assert!(chosen["self_test"]["gflops"].as_f64().expect("a number") > 0.0);
}

#[test]
fn a_run_that_waits_for_each_kernel_gives_the_same_results() {
    let work = ["train", "--data", "trees.csv", "--engine", "gpu", "--json"];
    let run = |more: &[&str]| {
        let output = command(&[&work[..], more, &SMALL].concat()).output();
        let output = output.expect("starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{error}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (report["final"].clone(), report["history"].clone())
    };
    let expected = run(&[]);
    assert!(expected.0.is_object());
    assert_eq!(run(&["--synchronous"]), expected);
}

#[test]
fn progress_goes_to_standard_error_with_rate_and_time_left() {
    let output = on_cpu(&[&["train", "--data", "trees.csv"][..], &SMALL].concat());
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        error.contains("/s, ") && error.contains(" s left, ") && error.contains(" MiB held"),
        "{error}"
    );
    assert!(
        out.contains("precision@1") && !out.contains("left"),
        "{out}"
    );
    assert!(
        out.trim_end()
            .lines()
            .last()
            .is_some_and(|line| line.contains("it never saw")),
        "{out}"
    );
}

#[test]
fn bad_tables_are_refused_with_line_and_column() {
    let out = folder("tables");
    for (name, text, message) in [
        (
            "ragged",
            "x,label\n1,a\n2\n",
            ", line 3: 1 value, expected 2 as in the first line",
        ),
        (
            "word",
            "x,label\n1,a\nfoo,b\n3,c\n",
            ", line 3: column \"x\" holds \"foo\", which is not a number: choose what becomes of such cells: \
             --missing drop-rows leaves out their rows, drop-columns their columns, and median fills them",
        ),
        (
            "inf",
            "x,label\n1,a\n1e39,b\n",
            ", line 3: column \"x\" holds \"1e39\", too large for 32-bit floats (3.4e38 at most): scale the column",
        ),
        (
            "unlabelled",
            "x,w\n1.5,2\n2.5,2.5\n",
            ": no label column can be told from the others: choose one of \"x\", \"w\"",
        ),
        (
            "one_class",
            "x,label\n1,a\n2,a\n",
            ": every row has the label \"a\": metric learning needs two classes at least",
        ),
        ("empty", "", ": the file is empty"),
        (
            "no_header",
            "1,2\n3,4\n",
            ": no label column can be told from the others: choose one of \"column 1\", \"column 2\"",
        ),
    ] {
        let path = out.join(format!("{name}.csv"));
        std::fs::write(&path, text).expect("is written");
        let path = path.display().to_string();
        assert_eq!(
            refusal(&["train", "--data", &path]),
            format!("{path}{message}")
        );
    }
    assert!(refusal(&["train", "--data", "trees.csv", "--labels", "genus"])
        .ends_with("there is no column \"genus\": the columns are \"id\", \"species\", \"a\", \"b\", \"c\", \"d\", \"e\""));
}

#[test]
fn bad_arrays_are_refused_by_what_is_wrong() {
    for (data, labels, message) in [
        (
            "features.npy",
            "labels_objects.npy",
            "labels_objects.npy: an array of Python objects (a pickle), which is never loaded: save it as numbers or text, `np.save(path, y.astype(str))`",
        ),
        (
            "features_cut.npy",
            "labels_text.npy",
            "features_cut.npy: the shape (60, 5) needs 1200 bytes of data, the file has 1193: it is cut short or damaged",
        ),
        (
            "features_huge.npy",
            "labels_text.npy",
            "features_huge.npy: the shape (4294967296, 4294967296) is larger than any file: the header is damaged",
        ),
        (
            "features.npy",
            "labels_short.npy",
            "features.npy: 60 rows of features, 59 labels in labels_short.npy: they must be as many",
        ),
        (
            "features.npy",
            "labels_one_class.npy",
            "features.npy: every row has the label \"0\": metric learning needs two classes at least",
        ),
        (
            "features_nan.npy",
            "labels_text.npy",
            "features_nan.npy: row 42, column 3: the value is not finite: choose what becomes of such cells: \
             --missing drop-rows leaves out their rows, drop-columns their columns, and median fills them",
        ),
        (
            "features_3d.npy",
            "labels_text.npy",
            "features_3d.npy: the shape is (60, 5, 1), expected (rows, features): `x.reshape(len(x), -1)` makes it so",
        ),
        (
            "labels_text.npy",
            "labels_text.npy",
            "labels_text.npy: text, expected numbers as features",
        ),
    ] {
        assert_eq!(
            refusal(&["train", "--data", data, "--labels", labels]),
            message
        );
    }
    let bare = refusal(&["train", "--data", "features.npy"]);
    assert_eq!(
        bare,
        "features.npy: an NPY file holds features or labels, not both: give the two files at once (labels also as a CSV column)"
    );
    let missing = refusal(&["train", "--data", "nothing.csv"]);
    assert!(
        missing.starts_with("nothing.csv: ") && missing.contains("No such file"),
        "{missing}"
    );
    let script = refusal(&["train", "--data", "make.py"]);
    assert_eq!(
        script,
        "make.py: only CSV, JSON Lines, Parquet, NPY, NPZ, safetensors and AnnData files are read: save the data as one of these"
    );
    let sample = refusal(&["train", "--data", "sample:iris"]);
    assert_eq!(
        sample,
        "there is no sample \"iris\": sample:mirrored, sample:many-classes, sample:digits, sample:cells, sample:large"
    );
}

#[test]
fn an_npz_holds_features_labels_or_both() {
    let by_text = train(&["--data", "features.npy", "--labels", "labels_text.npy"]);
    let run = |arguments: &[&str], notes: &[&str]| {
        let report = train(arguments);
        assert_eq!(report["history"], by_text["history"], "{arguments:?}");
        let said = report["data"]["notes"].as_array().expect("a list");
        let (scale, said) = said.split_last().expect("the scale is said last");
        assert_eq!(serde_json::json!(said), serde_json::json!(notes));
        assert!(scale.to_string().contains("columns are alike in size"));
    };
    run(
        &["--data", "labelled.npz"],
        &["features = \"X\" (60, 5)", "label = \"y\" (60,)"],
    );
    run(
        &["--data", "labelled_deflated.npz"],
        &[
            "features = \"embeddings\" (60, 5)",
            "label = \"labels\" (60,)",
            "left out: \"weights\" (60,), \"names\" (3,)",
        ],
    );
    run(
        &["--data", "labels_column.npz"],
        &[
            "features = \"train/x\" (60, 5)",
            "label = \"train/y\" (60, 1)",
        ],
    );
    run(
        &["--data", "zip64.npz"],
        &["features = \"X\" (60, 5)", "label = \"y\" (60,)"],
    );
    let both = ["features = \"X\" (60, 5)", "label = \"fine\" (60,)"];
    let left = "left out: \"coarse\" (60,)";
    for labels in ["fine", "two_labels.npz:fine"] {
        run(
            &["--data", "two_labels.npz", "--labels", labels],
            &[&both[..], &[left]].concat(),
        );
    }
    let apart = ["--data", "two_labels.npz:X", "--labels", "labels_text.npy"];
    let left = "left out: \"fine\" (60,), \"coarse\" (60,)";
    run(&apart, &[both[0], left]);
    run(
        &["--data", "features.npy", "--labels", "two_labels.npz:fine"],
        &[both[1], "left out: \"X\" (60, 5), \"coarse\" (60,)"],
    );
    run(
        &["--data", "features.npy", "--labels", "labelled.npz"],
        &["label = \"y\" (60,)", "left out: \"X\" (60, 5)"],
    );
    // The labels that were chosen tell which of two matrices is meant.
    let sides = train(&words(
        "--data sides.npz --labels y_train --test-data sides.npz:x_test",
    ));
    assert_eq!([&sides["data"]["rows"], &sides["data"]["test"]], [60, 20]);

    let evaluated = json(&["evaluate", "--embeddings", "labelled.npz"]);
    let own = [
        "evaluate",
        "--embeddings",
        "features.npy",
        "--labels",
        "labels_text.npy",
    ];
    assert_eq!(evaluated["r_precision"], json(&own)["r_precision"]);
    let against = json(&[&own[..], &["--references", "labelled.npz"]].concat());
    assert_eq!(against["precision_at_1"], 1.0);

    let out = folder("npz_head");
    let path = |name: &str| out.join(name).display().to_string();
    train(&args(
        "--data labelled.npz --out {}",
        &[&out.display().to_string()],
    ));
    let embed = |data: &str, to: &str| {
        let model = out.display().to_string();
        json(&[
            "embed",
            "--model",
            &model,
            "--data",
            data,
            "--out",
            &path(to),
        ]);
        std::fs::read(path(to)).expect("is written")
    };
    let plain = embed("features.npy", "npy.npy");
    assert!(embed("labelled_deflated.npz", "npz.npy") == plain);
    assert!(embed("labels_column.npz:train/x", "npz.npy") == plain);
}

#[test]
fn bad_archives_are_refused_by_what_is_wrong() {
    let out = folder("archives");
    for (name, bytes, message) in [
        ("empty", &b""[..], "the file is empty"),
        (
            "text",
            b"x,label\n1,a\n",
            "not an NPZ file, the ZIP archive that `np.savez` writes",
        ),
        (
            "start",
            b"PK\x03\x04\x14",
            "the ZIP archive is cut short or damaged: copy or save the file again",
        ),
    ] {
        let path = out.join(format!("{name}.npz"));
        std::fs::write(&path, bytes).expect("is written");
        let path = path.display().to_string();
        assert_eq!(
            refusal(&["train", "--data", &path]),
            format!("{path}: {message}")
        );
    }
    for (data, message) in [
        (
            "cut.npz",
            "cut.npz: the ZIP archive is cut short or damaged: copy or save the file again",
        ),
        (
            "flipped.npz",
            "flipped.npz:X: the data is damaged (Invalid checksum): copy or save the file again",
        ),
        (
            "encrypted.npz",
            "encrypted.npz:X: encrypted: save the file without a password",
        ),
        (
            "lzma.npz",
            "lzma.npz:X: compressed in a way that is not read: `np.savez` or `np.savez_compressed` writes what is",
        ),
        (
            "twice.npz",
            "twice.npz: two members have the same name: save each array under its own",
        ),
        (
            "no_arrays.npz",
            "no_arrays.npz: a ZIP archive without NPY members: `np.savez(path, X=x, y=y)` writes one that has them",
        ),
        (
            "no_matrix.npz",
            "no_matrix.npz: an array of numbers for the features, (rows, features), is missing: the arrays are \"images\" (60, 5, 1), \"y\" (60,)",
        ),
        (
            "no_matrix.npz:images",
            "no_matrix.npz:images: the shape is (60, 5, 1), expected (rows, features): `x.reshape(len(x), -1)` makes it so",
        ),
        (
            "labels_objects.npz",
            "labels_objects.npz:y: an array of Python objects (a pickle), which is never loaded: save it as numbers or text, `np.save(path, y.astype(str))`",
        ),
        (
            "two_labels.npz",
            "two_labels.npz: several arrays can be the labels, \"fine\" (60,), \"coarse\" (60,): choose one after a colon, as in two_labels.npz:fine",
        ),
        (
            "sides.npz",
            "sides.npz: several arrays can be the features, \"x_train\" (40, 5), \"x_test\" (20, 5): choose one after a colon, as in sides.npz:x_train",
        ),
        (
            "labelled.npz:Z",
            "labelled.npz: there is no array \"Z\": the arrays are \"X\" (60, 5), \"y\" (60,)",
        ),
        (
            "labelled.npz:y",
            "labelled.npz:y: text, expected numbers as features",
        ),
        (
            "bomb_header.npz",
            "bomb_header.npz:X: the shape (60, 5) needs 1200 bytes of data, the file has 3001200: it is cut short or damaged",
        ),
        (
            "bomb_hidden.npz",
            "bomb_hidden.npz:X: the data is damaged (File is larger than its declared uncompressed size): copy or save the file again",
        ),
        (
            "bomb_claim.npz",
            "bomb_claim.npz:X: 1239 bytes in the archive are said to be 4000000108: the file is damaged",
        ),
    ] {
        assert_eq!(refusal(&["train", "--data", data]), message);
    }
    for (labels, message) in [
        (
            "z",
            "two_labels.npz: there is no array \"z\": the arrays are \"X\" (60, 5), \"fine\" (60,), \"coarse\" (60,)",
        ),
        (
            "X",
            "two_labels.npz:X: labels have the shape (60, 5), expected one a row",
        ),
        (
            "sides.npz",
            "sides.npz: an array for the labels, (60,), is missing: the arrays are \"x_train\" (40, 5), \"y_train\" (40,), \"x_test\" (20, 5), \"y_test\" (20,)",
        ),
        (
            "sides.npz:y_test",
            "two_labels.npz: 60 rows of features, 20 labels in sides.npz: they must be as many",
        ),
    ] {
        assert_eq!(
            refusal(&["train", "--data", "two_labels.npz", "--labels", labels]),
            message
        );
    }
}

#[test]
fn bad_settings_are_refused_by_name_and_range() {
    for (set, part) in [
        (
            "learning_rate=1",
            "there is no setting `learning_rate`: there are `activation_precision`, `batch_size`, ",
        ),
        (
            "miner.type_of_triplets=hardest",
            "miner.type_of_triplets is \"hardest\": it must be one of `all`, `easy`, `semihard`, `hard`",
        ),
        (
            "batch_size=0",
            "batch_size is 0: it must be between 2 and 32768",
        ),
        (
            "memory_size=8",
            "memory_size is 8: it must be 0, or at least batch_size",
        ),
        (
            "split=column:fold",
            "split: there is no text column \"fold\"; there are: none",
        ),
        (
            "batch_size=64 memory_size=27",
            "memory_size is 27: it must be 0, or at least batch_size",
        ),
        (
            "memory_size=0 batch_size=64",
            "batch_size is 64, and there are 38 training rows: lower it",
        ),
        ("test_fraction=1", "no row is left to train on"),
        (
            "split=by-class validation_fraction=0.5",
            "only rows of the class \"ash\" are left to train on",
        ),
    ] {
        let mut args = vec!["train", "--data", "trees.csv"];
        args.extend(set.split(' ').flat_map(|set| ["--set", set]));
        let message = refusal(&args);
        assert!(message.contains(part), "{set}: {message}");
    }
    let out = folder("settings");
    let path = out.join("run.json");
    std::fs::write(&path, "{\"steps\": 10, \"epochs\": 3}").expect("is written");
    let path = path.display().to_string();
    let message = refusal(&["train", "--config", &path]);
    assert!(
        message.starts_with(&format!("{path}: there is no setting `epochs`")),
        "{message}"
    );
    let small = refusal(&["train", "--budget", "1MiB"]);
    assert!(
        small.starts_with("\"training\" needs ")
            && small.contains("of the 1 MiB budget is free: raise"),
        "{small}"
    );
}

#[test]
fn a_damaged_head_is_refused() {
    let out = folder("damaged");
    std::fs::write(out.join("head.safetensors"), b"not a head").expect("is written");
    let model = out.display().to_string();
    let target = out.join("x.npy").display().to_string();
    let message = refusal(&args(
        "embed --model {} --data features.npy --out {}",
        &[&model, &target],
    ));
    assert!(
        message.contains("head.safetensors: not a safetensors file"),
        "{message}"
    );
    let none = folder("none").display().to_string();
    let message = refusal(&args(
        "embed --model {} --data features.npy --out {}",
        &[&none, &target],
    ));
    assert!(
        message.contains("head.safetensors: No such file"),
        "{message}"
    );
}

/// Random unit rows of 64 and a label each, as two files: `(embeddings, labels)`.
fn embeddings(folder: &Path, rows: usize) -> [String; 2] {
    use rand::{RngExt as _, SeedableRng as _};

    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(rows as u64);
    let values: Vec<f32> = (0..rows * 64)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let labels = (0..rows).map(|_| rng.random_range(0..100).to_string());
    let text = std::iter::once("label".to_owned()).chain(labels);
    let written = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("is written");
        path.to_str().expect("UTF-8").to_owned()
    };
    [
        written("embeddings.npy", &nearfar::write_matrix(&values, 64)),
        written("labels.csv", text.collect::<Vec<_>>().join("\n").as_bytes()),
    ]
}

#[test]
fn evaluate_stays_within_a_budget_that_its_rows_do_not_fit() {
    let folder = folder("evaluate-budget");
    let [embeddings, labels] = embeddings(&folder, 5000);
    let evaluate = ["evaluate", "--embeddings", &embeddings, "--labels", &labels];
    let report = |budget| json(&[&evaluate[..], &["--budget", budget]].concat());
    // 1.3 MB of rows, and as much again in blocks.
    let (small, large) = (report("1MiB"), report("64MiB"));
    for (report, budget) in [(&small, 1u64 << 20), (&large, 64 << 20)] {
        let bytes = |name: &str| report["memory"][name].as_u64().expect("bytes");
        assert_eq!(bytes("budget_bytes"), budget);
        assert!(bytes("peak_bytes") <= budget, "{}", report["memory"]);
    }
    for metric in nearfar::Metrics::NAMES {
        assert!(small[metric].is_f64(), "{metric}");
        assert_eq!(small[metric], large[metric], "{metric}");
    }
}

/// Starts a command, sends Ctrl-C while it works, and checks that it stops with one word; returns the time that this took.
#[cfg(unix)]
fn interrupted(arguments: &[&str]) -> std::time::Duration {
    interrupted_with_output(arguments).0
}

/// Waits until a process handles Ctrl-C: on a busy machine its start takes a while.
#[cfg(unix)]
fn await_handler(process: u32) {
    const SIGINT: u64 = 1 << 1;
    let hears = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_none_or(|mask| {
            u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & SIGINT > 0)
        })
    };
    for _ in 0..600 {
        if hears() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Interrupts a command as [`interrupted`] does, and returns its output too.
#[cfg(unix)]
fn interrupted_with_output(arguments: &[&str]) -> (std::time::Duration, String) {
    use std::time::{Duration, Instant};

    let child = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(arguments)
        .args(["--engine", "cpu"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    await_handler(child.id());
    std::thread::sleep(Duration::from_millis(1500));
    let pressed = Instant::now();
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.expect("runs").success());
    let output = child.wait_with_output().expect("ends");
    let elapsed = pressed.elapsed();
    assert_eq!(output.status.code(), Some(130), "{arguments:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(error.lines().last(), Some("nearfar: stopped"), "{error}");
    (
        elapsed,
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// Checks that one of six interruptions is quick enough: other tests use the processor as well.
#[cfg(unix)]
fn stops_at_once(arguments: &[&str]) {
    let mut took = Vec::new();
    let is_quick = |_| {
        took.push(interrupted(arguments));
        took.last() < Some(&std::time::Duration::from_millis(300))
    };
    assert!((0..6).any(is_quick), "{arguments:?}: {took:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_run_with_one_word_and_leaves_nothing_half_written() {
    let target = folder("stopped").join("run");
    let path = target.to_str().expect("UTF-8");
    let train = ["train", "--set", "steps=1000000", "--out", path];
    let elapsed = interrupted(&[&train[..], &["--checkpoint-every", "0"]].concat());
    assert!(elapsed < std::time::Duration::from_secs(2), "{elapsed:?}");
    assert!(!target.exists());
    // With checkpoints it leaves one, which is complete.
    let elapsed = interrupted(&train);
    assert!(elapsed < std::time::Duration::from_secs(2), "{elapsed:?}");
    let left: Vec<_> = std::fs::read_dir(&target).expect("is there").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let saved = std::fs::read(target.join("checkpoint-1.bin")).expect("is there");
    assert!(nearfar::Checkpoint::read(&saved).expect("is whole").step() > 0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_search_at_once_and_leaves_no_file() {
    let folder = folder("stopped-knn");
    let [rows, _] = embeddings(&folder, 50_000);
    let out = folder.join("never.npz");
    let path = out.to_str().expect("UTF-8");
    stops_at_once(&["knn", "--queries", &rows, "--k", "10", "--out", path]);
    let left = std::fs::read_dir(&folder).expect("is there").count();
    assert_eq!(
        left, 2,
        "the rows and their labels, whole or partial nothing else"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_an_evaluation_at_once() {
    let folder = folder("stopped-evaluate");
    let [rows, labels] = embeddings(&folder, 50_000);
    stops_at_once(&["evaluate", "--embeddings", &rows, "--labels", &labels]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_comparison_and_what_was_done_is_printed() {
    let (elapsed, printed) = interrupted_with_output(&["compare", "--set", "steps=1000000"]);
    assert!(elapsed < std::time::Duration::from_secs(2), "{elapsed:?}");
    assert!(printed.contains("  raw features\n"), "{printed}");
    let verdict = printed.lines().last().unwrap_or_default();
    assert!(
        verdict.starts_with("Stopped: 0 of 15 runs are done. "),
        "{printed}"
    );
}

#[test]
fn compare_prints_the_keys_that_programs_rely_on_and_the_same_scores_twice() {
    let compare = || {
        let grids = [
            "compare",
            "--data",
            "sample:digits",
            "--seeds",
            "2",
            "--grid",
            "memory_size=0,24",
        ];
        json(&[&grids[..], &SMALL[..4], &SMALL[6..]].concat())
    };
    let report = compare();
    let rows = report["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 5);
    let head = rows.iter().find(|row| row["name"] == "memory_size=24");
    let head = head.expect("an entry");
    for (value, pointers) in [
        (
            head,
            &[
                "/kind",
                "/standing",
                "/settings/0",
                "/precision_at_1",
                "/mean_average_precision_at_r",
                "/standard_deviation",
                "/seeds/1/seed",
                "/seeds/1/precision_at_1",
                "/seeds/1/elapsed_ms",
                "/over_raw/low",
                "/over_linear_map/high",
                "/steps",
                "/peak_bytes",
            ][..],
        ),
        (
            &rows[1],
            &["/behind/difference", "/behind/low", "/behind/high"],
        ),
        (
            &report,
            &[
                "/engine",
                "/adapter",
                "/elapsed_ms",
                "/peak_bytes",
                "/budget_bytes",
                "/data",
                "/data_seed",
                "/seeds/1",
                "/queries",
                "/runs/1",
                "/finished",
                "/verdict",
                "/test/name",
                "/test/seed",
                "/test/metrics/precision_at_1",
            ],
        ),
    ] {
        for pointer in pointers {
            let found = value.pointer(pointer).is_some_and(|value| !value.is_null());
            assert!(found, "{pointer}");
        }
    }
    let scores = |report: &Value| -> Vec<Value> {
        let rows = report["rows"].as_array().expect("a list");
        let scores =
            |row: &Value| [&row["name"], &row["precision_at_1"], &row["behind"]].map(Value::clone);
        rows.iter().flat_map(scores).collect()
    };
    assert_eq!(scores(&compare()), scores(&report));
}

#[test]
fn the_settings_that_compare_prints_are_those_that_train_takes_for_the_same_file() {
    let folder = folder("compared-settings");
    let [rows, labels] = embeddings(&folder, 400);
    // With two classes batches are larger than with other data, and a recipe may ask for half of one.
    let of_two: String = (0..400).map(|row| ["a\n", "b\n"][row % 2]).collect();
    std::fs::write(&labels, format!("label\n{of_two}")).expect("is written");
    let files = ["--data", &rows, "--labels", &labels];
    let few = [
        "--seeds",
        "1",
        "--set",
        "steps=2",
        "--set",
        "evaluate_every=2",
    ];
    let report = json(&[&["compare"][..], &files, &few].concat());
    let rows = report["rows"].as_array().expect("a list");
    let heads: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "head").collect();
    assert!(heads.len() > 4, "{heads:?}");
    for head in heads {
        let settings = head["settings"].as_array().expect("a list");
        let settings = settings.iter().map(|set| set.as_str().expect("a text"));
        let sets: Vec<&str> = settings.flat_map(|set| ["--set", set]).collect();
        let trained = json(&[&["train"][..], &files, &few[2..], &sets].concat());
        assert_eq!(trained["steps"], 2, "{head}");
    }
}

#[test]
fn compare_prints_a_table_that_ends_in_a_sentence() {
    let grid = [
        "compare",
        "--data",
        "sample:digits",
        "--grid",
        "memory_size=0,24",
        "--engine",
        "cpu",
    ];
    let output = command(&[&grid[..], &SMALL[..4], &SMALL[6..]].concat())
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("precision@1  spread"), "{printed}");
    assert!(lines[1].contains(" leader "), "{printed}");
    let sentence = "Only the leader is scored on the test rows, once";
    assert!(lines.last().expect("lines").contains(sentence), "{printed}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("3 entries, 9 runs, 225 steps: about "),
        "{said}"
    );
    assert!(
        said.contains("memory_size=24, seed 2, 25 steps: precision@1 "),
        "{said}"
    );
}

#[test]
fn what_compare_cannot_do_is_refused_by_name() {
    for (arguments, message) in [
        (
            &["--recipes", "proxy"][..],
            "there is no recipe \"proxy\": there are batch-triplet, ",
        ),
        (
            &["--grid", "split=random,by-class"],
            "split is the same for all entries",
        ),
        (
            &["--grid", "lr=0.1,0.2"],
            "lr=0.1: there is no setting `lr`",
        ),
        (
            &["--seeds", "0"],
            "seeds is 0: it must be between 1 and 100",
        ),
        (
            &["--set", "validation_fraction=0"],
            "entries are ranked on the validation rows",
        ),
        (
            &["--grid", "memory_size=1024,4194304"],
            "memory_size=4194304: \"training\" needs",
        ),
    ] {
        let refused = refusal(&[&["compare"], arguments].concat());
        assert!(refused.starts_with(message), "{refused}");
    }
}

#[test]
fn embeddings_of_cells_go_into_a_copy_of_their_file() {
    let out = folder("cells");
    let path = |name: &str| out.join(name).display().to_string();
    let corpus = |name: &str| format!("{}/tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let model = out.join("run").display().to_string();
    for name in ["components.h5ad", "before_0.8.h5ad", "dense.h5ad"] {
        let data = corpus(name);
        let before = std::fs::read(&data).expect("is there");
        let sets = [
            "batch_size=4",
            "memory_size=8",
            "steps=2",
            "validation_fraction=0",
        ];
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        let arguments = ["train", "--data", &data, "--out", &model];
        json(&arguments.into_iter().chain(sets).collect::<Vec<_>>());
        let embed = |data: &str, out: &str| {
            json(&["embed", "--model", &model, "--data", data, "--out", out])
        };
        embed(&data, &path("all.npy"));
        embed(&data, &path("copy.h5ad"));
        // New embeddings replace the existing ones.
        embed(&path("copy.h5ad"), &path("again.h5ad"));
        assert_eq!(std::fs::read(&data).expect("is there"), before);
        let expected = std::fs::read(path("all.npy")).expect("is written");
        for copy in ["copy.h5ad", "again.h5ad"] {
            let features = |file: &str, array: &str| {
                let file = nearfar::Hdf5File::open(std::path::Path::new(file)).expect("opens");
                let (rows, _) = file.features(Some(array)).expect(array);
                rows.in_memory().expect("is in memory").to_vec()
            };
            let added = features(&path(copy), "obsm/X_nearfar");
            let added: Vec<u8> = added.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(added, expected[128..], "{name}");
            assert_eq!(features(&path(copy), "X"), features(&data, "X"), "{name}");
        }
    }
    let sentence = |data: &str| {
        refusal(&args(
            "embed --model {} --data {} --out {}",
            &[&model, data, &path("x.h5ad")],
        ))
    };
    let none = sentence(&corpus("f4.npy"));
    assert!(
        none.contains("no AnnData file that is not packed"),
        "{none}"
    );
    let none = sentence(&corpus("alone.h5"));
    assert!(none.contains("no AnnData, which has a place"), "{none}");
    holds_nothing_half_written(&out);
}

#[test]
fn threshold_says_from_which_similarity_on_two_rows_are_of_one_class() {
    let out = folder("threshold");
    let path = |name: &str| out.join(name).display().to_string();
    let run = out.display().to_string();
    train(&["--data", "sample:digits", "--out", &run]);
    let of_run = json(&args(
        "threshold --model {} --false-match-rate 0.05 --out {}",
        &[&run, &path("curve.csv")],
    ));
    let number = |pointer: &str| of_run.pointer(pointer).and_then(Value::as_f64);
    let number = |pointer: &str| number(pointer).unwrap_or_else(|| panic!("{pointer}"));
    assert_eq!(
        (number("/fit/rows"), number("/test/rows"), number("/rate")),
        (90.0, 899.0, 0.05)
    );
    assert!(number("/fit/false_match_rate") <= 0.05 && number("/test/equal_error_rate") < 0.5);
    assert!(number("/test/false_match_interval/0") <= number("/test/false_match_rate"));
    assert_eq!(
        of_run["curve"]["threshold"].as_array().map(Vec::len),
        Some(401)
    );
    assert!(number("/memory/peak_bytes") > 0.0 && number("/elapsed_ms") > 0.0);
    for name in [
        "engine",
        "adapter",
        "sentence",
        "notes",
        "warnings",
        "new_classes",
    ] {
        assert!(!of_run[name].is_null(), "{name}");
    }
    // The curve has a line at the threshold, with the same rates.
    let curve = std::fs::read_to_string(path("curve.csv")).expect("is written");
    let mut lines = curve.lines();
    assert_eq!(
        lines.next(),
        Some(
            "threshold,fit_false_match_rate,fit_false_non_match_rate,test_false_match_rate,test_false_non_match_rate"
        )
    );
    let parsed = lines.map(|line| {
        line.split(',')
            .map(|cell| cell.parse().expect("a number"))
            .collect::<Vec<f64>>()
    });
    let last = parsed
        .take_while(|line| line[0] <= number("/threshold"))
        .last()
        .expect("there are lines");
    assert_eq!(
        last[1..],
        [
            "/fit/false_match_rate",
            "/fit/false_non_match_rate",
            "/test/false_match_rate",
            "/test/false_non_match_rate"
        ]
        .map(number)
    );
    // Embeddings in files are as good: those of the test, fitted and reported on.
    let (embeddings, labels) = (path("test_embeddings.npy"), path("test_labels.csv"));
    let files = [
        "threshold",
        "--embeddings",
        &embeddings,
        "--labels",
        &labels,
    ];
    let test = ["--test-embeddings", &embeddings, "--test-labels", &labels];
    let of_files = json(&[&files[..], &test, &["--false-match-rate", "0.05"]].concat());
    // The saved head takes rows as they are in the file, so that last bits differ.
    let area = |report: &Value, side: &str| report[side]["area_under_curve"].as_f64();
    let areas = area(&of_files, "fit").zip(area(&of_run, "test"));
    assert!(
        areas.is_some_and(|(a, b)| (a - b).abs() < 1e-6),
        "{areas:?}"
    );
    assert_eq!(
        of_files["fit"]["false_matches"],
        of_files["test"]["false_matches"]
    );
    let planned = json(&[&["plan"], &files[..]].concat());
    assert_eq!(planned["fits"], true);
    assert!(
        planned["by_purpose"].is_null() && planned["memory"]["by_purpose"]["similarities"].is_u64(),
        "{planned}"
    );
    let output = on_cpu(&files);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("Similarity 0.") && text.contains("No test rows: "),
        "{text}"
    );

    assert_eq!(
        refusal(&[&files[..], &["--false-match-rate", "2"]].concat()),
        "the false match rate is 2: it must be above 0 and below 1"
    );
    let small = refusal(&[&files[..], &["--budget", "8KiB"]].concat());
    assert!(
        small.starts_with("\"threshold\" needs ")
            && small.contains("of the 8 KiB budget is free: raise the budget to "),
        "{small}"
    );
    let wide = refusal(
        &[
            &files[..],
            &[
                "--test-embeddings",
                "features.npy",
                "--test-labels",
                "labels_int64.npy",
            ],
        ]
        .concat(),
    );
    assert_eq!(
        wide,
        "references have 64 dimensions, embeddings 5: they must be as many"
    );
    std::fs::remove_file(out.join("sides.npy")).expect("is there");
    let message = refusal(&["threshold", "--model", &run]);
    assert!(message.ends_with("sides.npy is missing, which says which rows are on which side: train again, or give --embeddings"), "{message}");
}

#[test]
fn the_columns_of_the_data_are_those_of_the_test_data() {
    let out = folder("second");
    let line = |row: usize, at: usize, odd: bool| {
        let class = ["ash", "elm"][row % 2];
        let value = |part: usize| ((row * 7 + part * 5) % 13 + 20 * (row % 2)) as f64 / 4.0;
        // In the second file the columns are in another order, and its first one has no row numbers.
        match odd {
            false => format!("{at},{:.2},{:.2},{class}\n", value(1), value(2)),
            true => format!(
                "{class},{:.2},{},{:.2}\n",
                value(2),
                [9, 4, 7, 1][row % 4],
                value(1)
            ),
        }
    };
    let table = |rows: std::ops::Range<usize>, odd: bool| {
        let header = if odd {
            "species,b,n,a\n"
        } else {
            "n,a,b,species\n"
        };
        header.to_owned() + &rows.map(|row| line(row, row, odd)).collect::<String>()
    };
    let path = |name: &str| out.join(name).display().to_string();
    let (first, second) = (path("first.csv"), path("second.csv"));
    std::fs::write(&first, table(0..80, false)).expect("is written");
    std::fs::write(&second, table(80..120, true)).expect("is written");
    for chosen in [&[][..], &["--features", "a..b"], &["--ignore", "n"]] {
        let train = [
            "train",
            "--data",
            &first,
            "--test-data",
            &second,
            "--set",
            "steps=2",
        ];
        let report = json(&[&train[..], chosen].concat());
        assert_eq!(
            (&report["data"]["dim"], &report["data"]["test"]),
            (&2.into(), &40.into())
        );
    }
}

#[test]
fn fit_writes_settings_that_train_takes_within_the_budget() {
    let folder = folder("fit");
    let out = folder.join("run.json").display().to_string();
    let data = ["--data", "sample:digits", "--budget", "2MiB"];
    let few = ["--seconds", "20", "--set", "steps=9", "--out", &out];
    let report = json(&[&["fit"][..], &data, &few].concat());
    for pointer in [
        "/config/steps",
        "/winner",
        "/candidates/0/name",
        "/candidates/0/precision_at_1",
        "/largest/0/setting",
        "/largest/0/sets/0",
        "/largest/0/memory_bytes",
        "/cut",
        "/verdict",
        "/seconds",
        "/budget_bytes",
        "/engine",
        "/adapter",
        "/elapsed_ms",
        "/memory/peak_bytes",
    ] {
        assert!(report.pointer(pointer).is_some(), "{pointer}: {report}");
    }
    let candidates = report["candidates"].as_array().expect("a list");
    let fits = candidates
        .iter()
        .filter(|one| one["memory_bytes"].as_u64().is_some());
    assert!(fits.clone().count() >= 5, "{report}");
    assert!(
        fits.into_iter()
            .all(|one| one["memory_bytes"].as_u64() <= Some(2 << 20))
    );
    let written: Value =
        serde_json::from_slice(&std::fs::read(&out).expect("is there")).expect("JSON");
    assert_eq!(written, report["config"]);
    assert_eq!(written["budget_bytes"], 2 << 20);
    let trained = json(&["train", "--data", "sample:digits", "--config", &out]);
    assert_eq!(trained["config"], written);
    // A table that ends in the settings for `train`.
    let shown = on_cpu(&[&["fit"][..], &data, &["--seconds", "0"]].concat());
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("nearfar train --budget 2MiB --seed 0"),
        "{shown}"
    );
    let refused = refusal(&[
        "fit",
        "--data",
        "sample:digits",
        "--budget",
        "50KiB",
        "--seconds",
        "0",
    ]);
    assert!(refused.contains("raise the budget to "), "{refused}");
}
