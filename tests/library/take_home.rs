//! Exported files of a run on the command line: every piece from a folder and from its archive, and the refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nearfar::{Dataset, Piece, folder_names, write_matrix};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("nearfar-take-home-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("is made");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Exit code, and the last line on standard error.
fn nearfar(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))
        .output()
        .expect("starts");
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error.lines().last().unwrap_or_default().to_owned();
    (output.status.code(), last)
}

fn done(arguments: &[&str]) {
    let (code, said) = nearfar(arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
}

fn refused(arguments: &[&str]) -> String {
    let (code, said) = nearfar(arguments);
    assert_eq!(code, Some(2), "{arguments:?}: {said}");
    said
}

const SMALL: [&str; 10] = [
    "--engine",
    "cpu",
    "--set",
    "steps=10",
    "--set",
    "batch_size=12",
    "--set",
    "memory_size=24",
    "--set",
    "hidden_layers=[8]",
];

#[test]
fn every_piece_of_a_folder_is_that_of_its_archive() {
    let folder = Folder::new("pieces");
    let (run, archive) = (folder.path("run"), folder.path("run.zip"));
    done(&[&["train", "--data", "trees.csv", "--out", &run][..], &SMALL].concat());
    done(&["export", &run, "--format", "zip", "--out", &archive]);
    for piece in Piece::ALL {
        let made: Vec<Vec<u8>> = [&run, &archive]
            .into_iter()
            .map(|from| {
                let out = folder.path("piece.zip");
                done(&[
                    "export",
                    from,
                    "--format",
                    piece.name(),
                    "--engine",
                    "cpu",
                    "--out",
                    &out,
                ]);
                fs::read(out).expect("is there")
            })
            .collect();
        assert!(
            made[0] == made[1] && !made[0].is_empty(),
            "{}",
            piece.name()
        );
    }
    // The folder's files are equal to those of its pieces.
    for (piece, name) in [
        ("onnx", "head.onnx"),
        ("report", "report.html"),
        ("history", "history.json"),
        ("link", "link.txt"),
    ] {
        let out = folder.path("piece");
        done(&["export", &run, "--format", piece, "--out", &out]);
        let both = [&out, &format!("{run}/{name}")].map(|path| fs::read(path).expect("is there"));
        assert!(both[0] == both[1], "{name}");
    }
    // A piece of several files is a folder unless an archive is asked for.
    let modules = folder.path("modules");
    done(&[
        "export",
        &run,
        "--format",
        "sentence-transformers",
        "--out",
        &modules,
    ]);
    let module = Path::new(&modules).join("0_Dense/model.safetensors");
    assert!(module.exists() && Path::new(&modules).join("modules.json").exists());
    // Every side, through the head again.
    let count = |side: &str| {
        let out = folder.path("side.csv");
        let data = [
            "--data",
            "trees.csv",
            "--side",
            side,
            "--engine",
            "cpu",
            "--out",
            &out,
        ];
        done(&[&["export", &run, "--format", "csv"][..], &data].concat());
        fs::read_to_string(out).expect("is there").lines().count() - 1
    };
    let [test, train, validation, all] = ["test", "train", "validation", "all"].map(count);
    assert_eq!((test + train + validation, all), (60, 60));
    assert!(test > 0 && train > 0 && validation > 0);
}

#[test]
fn a_folder_of_an_earlier_version_embeds_and_gives_its_head() {
    let folder = Folder::new("earlier");
    let run = folder.path("run");
    done(&[&["train", "--data", "trees.csv", "--out", &run][..], &SMALL].concat());
    let before = [
        "config.json",
        "history.json",
        "head.safetensors",
        "test_embeddings.npy",
        "test_labels.csv",
    ];
    for name in folder_names()
        .iter()
        .filter(|name| !before.contains(&name.as_str()))
    {
        fs::remove_file(Path::new(&run).join(name)).ok();
    }
    // Its history has neither the version nor the column.
    let path = Path::new(&run).join("history.json");
    let mut history: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("is there")).expect("JSON");
    let of = |value: &mut serde_json::Value, key: &str| {
        value
            .as_object_mut()
            .and_then(|of| of.remove(key))
            .expect("was there")
    };
    of(&mut history, "version");
    of(&mut history["data"], "label_column");
    fs::write(&path, history.to_string()).expect("is written");
    let out = folder.path("x.npy");
    done(&[
        "embed",
        "--engine",
        "cpu",
        "--model",
        &run,
        "--data",
        "trees.csv",
        "--out",
        &out,
    ]);
    for piece in [
        "onnx",
        "card",
        "report",
        "npy",
        "zip",
        "sentence-transformers",
    ] {
        done(&[
            "export",
            &run,
            "--format",
            piece,
            "--out",
            &folder.path(&format!("{piece}.zip")),
        ]);
    }
    let out = folder.path("x");
    let export = |piece: &str| refused(&["export", &run, "--format", piece, "--out", &out]);
    assert!(export("torchrun").contains("sides.npy is missing"));
    assert!(export("memory").contains("the run had no memory"));
    assert!(!Path::new(&out).exists());
}

#[test]
fn what_cannot_be_exported_is_refused_with_what_to_do() {
    let folder = Folder::new("refused");
    let (run, out) = (folder.path("run"), folder.path("x"));
    let missing = refused(&["export", &run, "--format", "onnx", "--out", &out]);
    assert!(
        missing.contains(
            "history.json: there is no such file: give a folder that `nearfar train --out` wrote"
        ),
        "{missing}"
    );
    let miner = ["--set", "miner=facenet-semihard"];
    done(
        &[
            &["train", "--data", "trees.csv", "--out", &run][..],
            &SMALL,
            &miner,
        ]
        .concat(),
    );
    assert!(!Path::new(&run).join("nearfar_train.py").exists());
    let script = refused(&["export", &run, "--format", "torchrun", "--out", &out]);
    assert!(
        script.contains("PML has no miner like `facenet-semihard`"),
        "{script}"
    );
    let data = refused(&[
        "export", &run, "--format", "npy", "--side", "train", "--engine", "cpu", "--out", &out,
    ]);
    assert!(data.contains("--data is missing"), "{data}");
    let other = refused(&[
        "export",
        &run,
        "--format",
        "npy",
        "--side",
        "all",
        "--data",
        "sample:digits",
        "--engine",
        "cpu",
        "--out",
        &out,
    ]);
    assert!(other.contains("expected 60 of 5 as the run had"), "{other}");
    let same = format!("{run}/head.safetensors");
    let input = refused(&[
        "embed",
        "--model",
        &same,
        "--data",
        "trees.csv",
        "--engine",
        "cpu",
        "--out",
        &same,
    ]);
    assert!(input.contains("it is the input"), "{input}");
    // Files that are no archives, or archives without a run.
    let archive = folder.path("a.zip");
    for (bytes, part) in [
        (&b"PK\x03\x04 and no more"[..], "nor a ZIP archive"),
        (
            b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "there is no such file",
        ),
    ] {
        fs::write(&archive, bytes).expect("is written");
        for command in [
            &["export", &archive, "--format", "onnx"][..],
            &["embed", "--model", &archive, "--data", "trees.csv"],
        ] {
            let said = refused(&[command, &["--out", &out]].concat());
            assert!(said.contains(part), "{said}");
        }
    }
    assert!(!Path::new(&out).exists());
    // A damaged head within a sound archive.
    let files = [nearfar::TakenFile {
        path: "head.safetensors".to_owned(),
        bytes: b"not a head".to_vec(),
    }];
    fs::write(&archive, nearfar::archive(&files).expect("is made")).expect("is written");
    let said = refused(&[
        "embed",
        "--model",
        &archive,
        "--data",
        "trees.csv",
        "--out",
        &out,
    ]);
    assert!(
        said.contains("a.zip/head.safetensors: not a safetensors file"),
        "{said}"
    );
}

#[test]
fn labels_that_were_changed_are_among_the_rows_to_check() {
    let folder = Folder::new("check");
    let digits = Dataset::sample("digits", 0).expect("is there");
    let mut values = Vec::new();
    let numbers: Vec<u32> = (0..digits.rows() as u32).collect();
    pollster::block_on(digits.features.read(&numbers, &mut values)).expect("reads");
    // Every 40th row bears the label of the next digit.
    let is_changed = |row: usize| row % 40 == 7;
    let labels = digits.labels.iter().enumerate();
    let labels: Vec<String> = labels
        .map(|(row, label)| (label + u32::from(is_changed(row))) % 10)
        .map(|label| label.to_string())
        .collect();
    let (x, y) = (folder.path("x.npy"), folder.path("y.csv"));
    fs::write(&x, write_matrix(&values, digits.features.dim())).expect("is written");
    fs::write(&y, format!("digit\n{}\n", labels.join("\n"))).expect("is written");
    let (run, out) = (folder.path("run"), folder.path("check.csv"));
    // Half of the rows are tested, as in the sample.
    let settings = [
        "--engine",
        "cpu",
        "--set",
        "steps=200",
        "--set",
        "test_fraction=0.5",
        "--set",
        "validation_fraction=0.1",
        "--set",
        "loss.name=triplet-margin",
        "--set",
        "miner.name=triplet-margin",
        "--set",
        "hidden_layers=[256]",
        "--set",
        "embedding_size=64",
        "--set",
        "batch_size=32",
        "--set",
        "memory_size=808",
    ];
    done(
        &[
            &["train", "--data", &x, "--labels", &y, "--out", &run][..],
            &settings,
        ]
        .concat(),
    );
    let check = [
        "--format",
        "rows-to-check",
        "--engine",
        "cpu",
        "--out",
        &out,
    ];
    done(&[&["export", &run][..], &check].concat());
    let mut file = csv::Reader::from_path(&out).expect("is there");
    let headers = file.headers().expect("has one").clone();
    assert_eq!(
        headers.iter().take(3).collect::<Vec<_>>(),
        ["row", "label", "likely_label"]
    );
    let found: Vec<(usize, String, String)> = file
        .records()
        .map(|record| {
            let record = record.expect("is whole");
            (
                record[0].parse().expect("a number"),
                record[1].to_owned(),
                record[2].to_owned(),
            )
        })
        .collect();
    // Those that are on the test side; the labels of the others trained the head.
    let sides = fs::read(format!("{run}/sides.npy")).expect("is there");
    let tested = |row: usize| sides[sides.len() - digits.rows() + row] == 2;
    let changed: Vec<usize> = (0..digits.rows())
        .filter(|row| is_changed(*row) && tested(*row))
        .collect();
    let hits = found.iter().filter(|(row, ..)| is_changed(*row)).count();
    println!(
        "{} of {} changed rows are among the {} found",
        hits,
        changed.len(),
        found.len()
    );
    assert!(
        changed.len() >= 8 && 10 * hits >= 8 * changed.len(),
        "{hits} of {changed:?}"
    );
    assert!(10 * hits >= 5 * found.len(), "{found:?}");
    let right = |(row, _, likely): &&(usize, String, String)| {
        is_changed(*row) && *likely == digits.labels[*row].to_string()
    };
    assert!(
        10 * found.iter().filter(right).count() >= 9 * hits,
        "{found:?}"
    );
    for (row, label, _) in &found {
        assert_eq!(*label, labels[*row]);
    }
    // By folds every row is asked of a head that did not train on it, on whatever side it is.
    let by_folds = ["--folds", "5", "--data", &x, "--labels", &y];
    done(&[&["export", &run][..], &check, &by_folds].concat());
    let mut file = csv::Reader::from_path(&out).expect("is there");
    let records = file.records().map(|record| record.expect("is whole"));
    let all: Vec<csv::StringRecord> = records.collect();
    let by_head = all.iter().filter(|record| &record[8] == "true");
    let rows: Vec<usize> = by_head
        .map(|record| record[0].parse().expect("a number"))
        .collect();
    let changed = (0..digits.rows()).filter(|row| is_changed(*row)).count();
    let hits = rows.iter().filter(|row| is_changed(**row)).count();
    println!(
        "by folds {hits} of {changed} changed rows are among the {} found",
        rows.len()
    );
    assert!(4 * hits >= 3 * changed && 10 * hits >= 6 * rows.len());
    let is_of_one = |record: &csv::StringRecord| {
        [3, 9]
            .iter()
            .any(|at| record[*at].parse::<u32>().is_ok_and(|votes| votes >= 8))
    };
    assert!(all.iter().all(is_of_one), "by a head or by the features");
    let said = refused(&[
        "export", &run, "--format", "npy", "--folds", "5", "--out", &out,
    ]);
    assert!(said.contains("--folds checks labels"), "{said}");
}

#[test]
fn copies_of_a_row_that_are_of_one_group_do_not_vouch_for_its_label() {
    let folder = Folder::new("copies");
    let [data, run, out] = ["cells.csv", "run", "check.csv"].map(|name| folder.path(name));
    // Nine cells of each donor are much alike; of three donors all bear a wrong class.
    let is_wrong = |donor: usize| [4, 17, 29].contains(&donor);
    let mut table = "kind,donor,a,b,c,d\n".to_owned();
    for row in 0..360 {
        let (donor, class) = (row / 9, row / 9 % 3);
        let labelled = (class + usize::from(is_wrong(donor))) % 3;
        let at = |axis: usize| {
            let centre = if axis == class { 12.0 } else { 0.0 };
            centre + (7 * donor * (axis + 1) % 11) as f64 / 8.0 + (row % 9) as f64 / 1000.0
        };
        let values = [0, 1, 2, 3].map(|axis| at(axis).to_string()).join(",");
        table += &format!("kind {labelled},donor {donor},{values}\n");
    }
    fs::write(&data, table).expect("is written");
    let on = ["--engine", "cpu", "--out"];
    let group = ["--data", &data, "--labels", "kind", "--group", "donor"];
    let small = [
        "--set",
        "steps=60",
        "--set",
        "hidden_layers=[16]",
        "--set",
        "embedding_size=8",
    ];
    done(&[&["train"][..], &group, &small, &on, &[&run]].concat());
    let check = ["--format", "rows-to-check", "--folds", "5", "--data", &data];
    done(&[&["export", &run][..], &check, &on, &[&out]].concat());
    let mut file = csv::Reader::from_path(&out).expect("is there");
    let records = file.records().map(|record| record.expect("is whole"));
    let by_head = records.filter(|record| &record[8] == "true");
    let rows: Vec<usize> = by_head
        .map(|record| record[0].parse().expect("a number"))
        .collect();
    assert!(
        rows.len() >= 18 && rows.iter().all(|row| is_wrong(row / 9)),
        "{rows:?}"
    );
}

#[test]
fn the_lines_of_code_name_the_files_and_the_sizes_of_the_run() {
    let folder = Folder::new("code");
    let (run, out) = (folder.path("run"), folder.path("code.md"));
    let code = |data: &str, more: &[&str]| {
        done(&[&["train", "--data", data, "--out", &run][..], &SMALL, more].concat());
        done(&["export", &run, "--format", "code", "--out", &out]);
        let text = fs::read_to_string(&out).expect("is there");
        let card = fs::read_to_string(format!("{run}/model_card.md")).expect("is there");
        assert!(card.contains(&text), "the card has the same lines");
        text
    };
    let text = code("trees.h5ad", &["--set", "standardize=true"]);
    for lines in [
        "head = torch.nn.Sequential(\n    torch.nn.Linear(5, 8), torch.nn.ReLU(),\n    torch.nn.Linear(8, 64),\n)\n",
        "# yours: float32, the columns in the order of the file; the head scales them itself\nrows = torch.rand(5, 5)\n",
        "InferenceSession(\"head.onnx\")",
        "# 64 numbers a row, of length 1",
        "adata = sc.read_h5ad(\"trees.h5ad\")\nnew = sc.read_h5ad(\"all_embeddings.h5ad\")\n\
         if not adata.obs_names.equals(new.obs_names):\n    new = new[adata.obs_names]\nadata.obsm[\"X_nearfar\"] = new.obsm[\"X_nearfar\"]\n",
        "adata.write_h5ad(\"trees_nearfar.h5ad\")",
    ] {
        assert!(text.contains(lines), "{lines}: {text}");
    }
    let text = code("trees.csv", &["--set", "standardize=false"]);
    assert!(
        text.contains("the columns in the order of the file\nrows = torch.rand(5, 5)\n"),
        "{text}"
    );
    assert!(text.contains("table = pd.read_csv(\"all_embeddings.csv\")\n"));
    let text = code("sample:digits", &[]);
    assert!(
        text.contains(
            "# yours: float32; the sample's are load_digits().data / 16 of scikit-learn\n"
        )
    );
}

#[test]
fn the_linear_map_is_taken_home_as_the_head_is() {
    let folder = Folder::new("linear");
    let run = folder.path("run");
    done(&[&["train", "--data", "trees.csv", "--out", &run][..], &SMALL].concat());
    let export = |format: &str, out: &str| {
        let of = ["export", &run, "--linear", "--format", format, "--out", out];
        let rows = ["--data", "trees.csv", "--side", "all", "--engine", "cpu"];
        done(&[&of[..], &rows].concat());
        fs::read(out).expect("is there")
    };
    // Its own file, and the rows that it embeds.
    let weights = export("safetensors", &folder.path("weights"));
    assert!(weights == fs::read(format!("{run}/linear.safetensors")).expect("is there"));
    let (model, embedded) = (format!("{run}/linear.safetensors"), folder.path("x.npy"));
    let by = ["embed", "--model", &model, "--data", "trees.csv"];
    done(&[&by[..], &["--engine", "cpu", "--out", &embedded]].concat());
    assert!(export("npy", &folder.path("rows.npy")) == fs::read(&embedded).expect("is there"));
    let text = String::from_utf8(export("code", &folder.path("code.md"))).expect("is text");
    for lines in [
        "linear = torch.nn.Sequential(\n    torch.nn.Linear(5, 2),\n)\nlinear.load_state_dict(load_file(\"linear.safetensors\"))\n",
        "normalize(linear(rows))",
        "InferenceSession(\"linear.onnx\")",
        "# 2 numbers a row, of length 1",
        "pd.read_csv(\"linear_all_embeddings.csv\")",
        "`nearfar export RUN --format csv --side all --linear`",
    ] {
        assert!(text.contains(lines), "{lines}: {text}");
    }
    let onnx = export("onnx", &folder.path("linear.onnx"));
    assert!(onnx != fs::read(format!("{run}/head.onnx")).expect("is there"));
    let said = refused(&[
        "export", &run, "--linear", "--format", "report", "--out", &embedded,
    ]);
    assert!(
        said.contains("--format report is made of the whole run"),
        "{said}"
    );
}
