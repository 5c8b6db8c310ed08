//! Roles of a table's columns: row numbers, codes of the label and names of rows are recognized by their values, under any name;
//! measurements stay features. Also lines before the rows, separators, and one class in several spellings.

use nearfar::{
    Choice, Columns, Dataset, Error, Labelled, Marks, Missing, NamedFile, Role, Split, TableReader,
};
use rand::{RngExt as _, SeedableRng as _};

const ROWS: usize = 120;
const CLASSES: [&str; 4] = ["ash", "birch", "cedar", "dogwood"];

/// A table in the making: named columns of cells.
struct Made(Vec<(String, Vec<String>)>);

impl Made {
    /// Noise in three columns, and a label; rows are sorted by it if `is_sorted`.
    fn new(seed: u64, is_sorted: bool) -> Self {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut columns = Vec::new();
        for name in ["width", "height", "mass"] {
            let cells = (0..ROWS).map(|_| format!("{:.2}", rng.random_range(-2.0..2.0_f64)));
            columns.push((name.to_owned(), cells.collect()));
        }
        let class = |row: usize| match is_sorted {
            true => row * CLASSES.len() / ROWS,
            false => row * 7 % 11 % CLASSES.len(),
        };
        let label = (0..ROWS).map(|row| CLASSES[class(row)].to_owned());
        columns.push(("species".to_owned(), label.collect()));
        Self(columns)
    }

    fn labels(&self) -> Vec<usize> {
        let (_, labels) = &self.0[self.0.len() - 1];
        let code = |label: &String| CLASSES.iter().position(|class| class == label);
        labels
            .iter()
            .map(|label| code(label).expect("a class"))
            .collect()
    }

    /// The table with another column in front.
    fn with(mut self, name: &str, cell: impl Fn(usize) -> String) -> Self {
        self.0
            .insert(0, (name.to_owned(), (0..ROWS).map(cell).collect()));
        self
    }

    fn csv(&self, delimiter: &str) -> String {
        let line = |cells: Vec<&str>| cells.join(delimiter) + "\n";
        let names = line(self.0.iter().map(|(name, _)| name.as_str()).collect());
        let rows = (0..ROWS).map(|row| {
            line(
                self.0
                    .iter()
                    .map(|(_, cells)| cells[row].as_str())
                    .collect(),
            )
        });
        names + &rows.collect::<String>()
    }

    fn json_lines(&self) -> String {
        let cell = |cell: &str| match cell.parse::<f64>() {
            Ok(_) => cell.to_owned(),
            Err(_) => format!("\"{cell}\""),
        };
        let row = |row: usize| {
            let cells = self
                .0
                .iter()
                .map(|(name, cells)| format!("\"{name}\": {}", cell(&cells[row])));
            format!("{{{}}}\n", cells.collect::<Vec<_>>().join(", "))
        };
        (0..ROWS).map(row).collect()
    }

    /// The table in each of four formats.
    fn files(&self) -> [NamedFile; 4] {
        [
            file("made.csv", &self.csv(",")),
            file("made.tsv", &self.csv("\t")),
            file("semicolons.csv", &self.csv(";")),
            file("made.jsonl", &self.json_lines()),
        ]
    }
}

fn file(name: &str, text: &str) -> NamedFile {
    NamedFile {
        name: name.to_owned(),
        bytes: text.as_bytes().to_vec(),
    }
}

fn read(file: &NamedFile) -> Labelled {
    Labelled::read(file, None, Choice::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_numbers_the_rows_or_tells_the_label_is_left_out_and_named() {
    type Cell = Box<dyn Fn(usize) -> String>;
    let labels = Made::new(0, true).labels();
    let mut leaks: Vec<(&str, Vec<Cell>, &str)> = Vec::new();
    // Row numbers of any start and step, rising or falling, whole or not; and in any order.
    for (name, first, step) in [
        ("rownames", 1.0, 1.0),
        ("No", 0.0, 1.0),
        ("image", 100_000_001.0, 1.0),
        ("track", 16_777_216.0, 3.0),
        ("seq", 500.0, -2.0),
        ("timestamp", 1_700_000_000.0, 3600.0),
        ("t", 0.0, 0.04),
        ("Unnamed: 0.1", -7.0, 1.0),
        ("ns", 1.7e18, 1e9),
    ] {
        let cell = move |row: usize| format!("{}", first + step * row as f64);
        leaks.push((name, vec![Box::new(cell)], "numbers the rows"));
    }
    for (name, scale, first) in [
        ("order", 1, 1),
        ("case_number", 13, 40_000),
        ("uid", 1, 9_007_199_254_740_993),
    ] {
        let cell = move |row: usize| (first + scale * (row * 37 % ROWS)).to_string();
        leaks.push((name, vec![Box::new(cell)], "numbers the rows"));
    }
    // Codes: one value for each label, whatever it is.
    for (name, codes) in [
        ("class_index", ["0", "1", "2", "3"]),
        ("code", ["17", "3", "-4", "8"]),
        ("mean_height", ["0.25", "0.5", "1.75", "-3"]),
        ("y", ["1", "2", "3", "4"]),
        ("label_id", ["10", "20", "30", "40"]),
    ] {
        let labels = labels.clone();
        let cell = move |row: usize| codes[labels[row]].to_owned();
        leaks.push((name, vec![Box::new(cell)], "says what the labels say"));
    }
    // A mark for each label, or for each but the first.
    for (skipped, yes, no) in [
        (0, "1", "0"),
        (1, "1", "0"),
        (0, "-1", "1"),
        (0, "0.5", "0"),
    ] {
        let cells = (skipped..CLASSES.len()).map(|class| {
            let labels = labels.clone();
            let cell = move |row: usize| if labels[row] == class { yes } else { no }.to_owned();
            Box::new(cell) as Cell
        });
        leaks.push(("is", cells.collect(), "says what the labels say"));
    }
    for (name, cells, why) in &leaks {
        let mut made = Made::new(1, true);
        for (at, cell) in cells.iter().enumerate() {
            let name = if cells.len() == 1 {
                (*name).to_owned()
            } else {
                format!("{name}_{at}")
            };
            made = made.with(&name, cell);
        }
        for file in made.files() {
            let rows = read(&file);
            assert_eq!(
                rows.feature_names,
                ["width", "height", "mass"],
                "{name} in {}",
                file.name
            );
            let said = rows
                .notes
                .iter()
                .find(|note| note.starts_with("left out: "));
            let said = said.unwrap_or_else(|| panic!("{name} in {}: {:?}", file.name, rows.notes));
            assert!(
                said.contains(why) || *name == "Unnamed: 0.1",
                "{name}: {said}"
            );
        }
        // A user who wants it as a feature can choose it.
        if let [_] = cells[..] {
            let columns = Columns {
                features: vec![(*name).to_owned(), "mass".to_owned()],
                ..Columns::default()
            };
            let choice = Choice {
                columns: Some(&columns),
                ..Choice::default()
            };
            let rows = Labelled::read(&made.files()[0], None, choice).expect("reads");
            assert_eq!(rows.feature_names, [*name, "mass"]);
        }
    }
}

#[test]
fn codes_with_empty_cells_or_wrong_ones_in_rows_that_are_left_out_are_codes() {
    let label = |made: &Made, row: usize| made.labels()[row];
    for (empty_code, wrong_where_left_out) in [(true, false), (false, true)] {
        let made = Made::new(3, true);
        let cell = |row: usize| match row % 17 {
            3 if empty_code => String::new(),
            3 if wrong_where_left_out => "9".to_owned(),
            _ => (10 * label(&made, row)).to_string(),
        };
        let with_code = Made::new(3, true)
            .with("code", cell)
            .with("gap", |row: usize| match row % 17 {
                3 if wrong_where_left_out => String::new(),
                _ => format!("{}.5", row * 7919 % 101),
            });
        let choice = Choice {
            missing: Some(Missing::DropRows),
            ..Choice::default()
        };
        let rows = Labelled::read(&with_code.files()[0], None, choice).expect("reads");
        assert_eq!(rows.feature_names, ["gap", "width", "height", "mass"]);
        // A column without empty cells is an ordinary feature if rows contradict it.
        if wrong_where_left_out {
            let choice = Choice {
                missing: Some(Missing::Median),
                ..Choice::default()
            };
            let rows = Labelled::read(&with_code.files()[0], None, choice).expect("reads");
            assert!(rows.feature_names.contains(&"code".to_owned()));
        }
    }
}

#[test]
fn codes_of_a_label_are_no_features_of_rows_without_labels_either() {
    let made = Made::new(5, true);
    let labels = made.labels();
    let made = made.with("code", |row: usize| (3 + labels[row]).to_string());
    for file in made.files() {
        let table = TableReader::read(&file, Choice::default()).expect("reads");
        let rows = table.into_features(&[], None, &[], &Columns::default());
        let rows = rows.expect("has features");
        assert_eq!(
            rows.feature_names,
            ["width", "height", "mass"],
            "{}",
            file.name
        );
        assert!(
            rows.notes
                .iter()
                .any(|note| note.contains("\"code\" (says what the labels say)"))
        );
    }
}

/// Note of a read table on likely leaks.
fn likely(rows: &Labelled) -> Option<&String> {
    rows.notes
        .iter()
        .find(|note| note.starts_with("likely leak: "))
}

#[test]
fn what_may_be_a_leak_stays_and_is_named_with_the_score_without_it() {
    type Cell = Box<dyn Fn(usize) -> String>;
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(9);
    let labels = Made::new(0, true).labels();
    let mut later = 0.0;
    let times: Vec<f64> = (0..ROWS)
        .map(|_| {
            later += rng.random_range(0.2..5.0);
            later
        })
        .collect();
    let jitter: Vec<f64> = (0..ROWS).map(|_| rng.random_range(0.0..0.2)).collect();
    let of = |cell: fn(usize, usize) -> f64| -> Cell {
        let labels = labels.clone();
        Box::new(move |row| cell(labels[row], row).to_string())
    };
    let leaks: Vec<(&str, Cell)> = vec![
        // A coarser kind, a mark of some classes, finer kinds, a time that follows the classes, a measure made of the label.
        ("genus", of(|class, _| (class / 2) as f64)),
        ("is_tree", of(|class, _| f64::from(u8::from(class == 2)))),
        ("subspecies", of(|class, row| (10 * class + row % 3) as f64)),
        ("time", Box::new(move |row| format!("{:.3}", times[row]))),
        (
            "score",
            Box::new({
                let labels = labels.clone();
                move |row| format!("{:.3}", labels[row] as f64 + jitter[row])
            }),
        ),
    ];
    for (name, cell) in &leaks {
        for file in Made::new(1, true).with(name, cell).files() {
            let rows = read(&file);
            assert!(
                rows.feature_names.iter().any(|feature| feature == name),
                "{name} stays"
            );
            let said = likely(&rows)
                .unwrap_or_else(|| panic!("{name} in {}: {:?}", file.name, rows.notes));
            assert!(
                said.starts_with(&format!("likely leak: \"{name}\". With it ")),
                "{said}"
            );
        }
    }
    // Measurements that predict a class well, each or nearly one alone, are no leak; nor are the elements of a list.
    let measured = |strength: f64, seed| {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut made = Made::new(seed, true);
        for (_, cells) in &mut made.0[..3] {
            for (cell, class) in cells.iter_mut().zip(&labels) {
                let noise = (0..4).map(|_| rng.random_range(-1.0..1.0_f64)).sum::<f64>();
                *cell = format!("{:.3}", strength * *class as f64 + noise);
            }
        }
        made
    };
    for seed in 0..20 {
        for strength in [0.0, 1.0, 2.5, 20.0] {
            let rows = read(&measured(strength, seed).files()[0]);
            assert_eq!(likely(&rows), None, "{strength}, {seed}");
        }
    }
}

#[test]
fn a_column_of_groups_whose_rows_are_alike_is_proposed_and_others_are_not() {
    let donors = |alike: bool, seed| {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut made = Made::new(seed, false);
        let shifts: Vec<f64> = (0..8).map(|_| rng.random_range(-9.0..9.0)).collect();
        let donor = |row: usize| row * 5 % 8;
        for (_, cells) in &mut made.0[..3] {
            for (row, cell) in cells.iter_mut().enumerate() {
                let value: f64 = cell.parse().expect("a number");
                let shift = if alike { shifts[donor(row)] } else { 0.0 };
                *cell = format!("{:.3}", value + shift);
            }
        }
        made.with("who", |row| format!("donor {}", donor(row)))
    };
    for seed in 0..10 {
        for (alike, file) in [true, false]
            .into_iter()
            .flat_map(|a| donors(a, seed).files().map(|f| (a, f)))
        {
            let choice = Choice {
                labels: Some("species"),
                ..Choice::default()
            };
            let rows = Labelled::read(&file, None, choice).expect("reads");
            let said = rows
                .notes
                .iter()
                .any(|note| note.starts_with("\"who\" may say which rows belong together"));
            assert_eq!(said, alike, "{seed}, {}: {:?}", file.name, rows.notes);
        }
    }
    // A column that settings name is no label, and not proposed again.
    let columns = Columns {
        apart: vec!["who".to_owned()],
        ..Columns::default()
    };
    let choice = Choice {
        columns: Some(&columns),
        ..Choice::default()
    };
    let mut made = donors(true, 1);
    for (name, _) in &mut made.0 {
        if name == "species" {
            *name = "kind".to_owned();
        }
    }
    let rows = Labelled::read(&made.files()[0], None, choice).expect("reads");
    assert_eq!(rows.label_column.as_deref(), Some("kind"));
    assert!(
        !rows
            .notes
            .iter()
            .any(|note| note.contains("belong together")),
        "{:?}",
        rows.notes
    );
}

#[test]
fn every_column_has_a_role_and_a_reason_and_many_alike_are_one_line() {
    let made = Made::new(1, true)
        .with("n", |row| row.to_string())
        .with("walk", |row| format!("walk {row}"));
    for file in made.files() {
        let rows = read(&file);
        let lines = rows.table.iter().map(|line| {
            let column = &line.column;
            (column.name.as_str(), column.role, column.reason.as_str())
        });
        let lines: Vec<_> = lines.collect();
        assert_eq!(
            lines,
            [
                ("walk", Role::Id, "another text in nearly every row"),
                ("n", Role::Id, "numbers the rows"),
                ("width", Role::Feature, "numbers"),
                ("height", Role::Feature, "numbers"),
                ("mass", Role::Feature, "numbers"),
                ("species", Role::Label, "by its name"),
            ],
            "{}",
            file.name
        );
        assert_eq!(rows.table[1].first, ["0", "1", "2"]);
        assert_eq!(rows.table[5].first, ["ash", "ash", "ash"]);
    }
    // Without a header the first line is the first row.
    let (_, headless) = made
        .csv(",")
        .split_once('\n')
        .map(|(_, rows)| ((), rows.to_owned()))
        .expect("a header");
    let rows = read(&file("made.csv", &headless));
    assert_eq!(rows.table[1].first, ["0", "1", "2"]);
    // Forty features are two lines: the stretch, as --features takes it, and the label.
    let mut wide = Made::new(2, false);
    let cells = wide.0[0].1.clone();
    wide.0
        .splice(..3, (0..40).map(|at| (format!("x{at}"), cells.clone())));
    let rows = read(&wide.files()[0]);
    assert_eq!(rows.table.len(), 2);
    assert_eq!(rows.table[0].column.name, "x0..x39");
    assert_eq!(rows.table[0].column.reason, "40 columns: numbers");
}

#[test]
fn row_numbers_are_left_out_of_a_table_without_a_header_too() {
    let table = Made::new(2, true)
        .with("n", |row| (row + 1).to_string())
        .csv(",");
    let (_, rows) = table.split_once('\n').expect("a header");
    let rows = read(&file("made.csv", rows));
    assert_eq!((rows.dim, rows.values.len()), (3, 3 * ROWS));
}

#[test]
fn measurements_stay_features() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let labels = Made::new(0, true).labels();
    let mut drawn =
        |cell: &dyn Fn(f64) -> f64| -> Vec<f64> { (0..ROWS).map(|_| cell(rng.random())).collect() };
    let normal = drawn(&|u| (8.0 * (u - 0.5)).tanh());
    let counts = drawn(&|u| (40.0 * u).floor());
    let wide_counts = drawn(&|u| (1e6 * u).floor());
    let yes_or_no = drawn(&|u| (2.0 * u).floor());
    let mut rising = normal.clone();
    rising.sort_by(f64::total_cmp);
    let by_class: Vec<f64> = labels
        .iter()
        .zip(&normal)
        .map(|(label, noise)| *label as f64 * 5.0 + noise)
        .collect();
    // Tells one class from all others, as milk does mammals.
    let milk: Vec<f64> = labels.iter().map(|label| f64::from(*label == 2)).collect();
    let coarser: Vec<f64> = labels.iter().map(|label| (*label / 2) as f64).collect();
    let shared: Vec<f64> = (0..ROWS).map(|row| (row / 2) as f64).collect();
    for (name, values) in [
        ("normal", normal),
        ("count", counts),
        ("population", wide_counts),
        ("has_fur", yes_or_no),
        ("rising", rising),
        ("petal", by_class),
        ("milk", milk),
        ("coarser", coarser),
        ("visit", shared),
    ] {
        for is_sorted in [true, false] {
            let made = Made::new(3, is_sorted).with(name, |row| values[row].to_string());
            for file in made.files() {
                let names = read(&file).feature_names;
                assert_eq!(names, [name, "width", "height", "mass"], "{}", file.name);
            }
        }
    }
    // Ranks of several measurements are those, and no row numbers.
    let rank = |times: usize| move |row: usize| (row * times % ROWS).to_string();
    let ranked = Made::new(4, true).with("a", rank(37)).with("b", rank(53));
    assert_eq!(read(&ranked.files()[0]).feature_names.len(), 5);
}

#[test]
fn the_numbers_of_a_vector_are_one_feature() {
    let row = |row: usize| {
        format!(
            "{{\"label\": \"{}\", \"vector\": [{row}, {}, 0.5]}}\n",
            CLASSES[row % 4],
            row % 4
        )
    };
    let rows = read(&file("made.jsonl", &(0..ROWS).map(row).collect::<String>()));
    assert_eq!(rows.dim, 3, "{:?}", rows.notes);
}

#[test]
fn a_name_of_every_row_is_no_label() {
    let path = |row: usize| format!("img/{row:04}.jpg");
    let with_label = Made::new(6, false).with("path", path);
    for file in with_label.files() {
        let rows = read(&file);
        assert_eq!(rows.label_column.as_deref(), Some("species"));
    }
    let mut group = Made::new(6, false).with("path", path);
    group.0.last_mut().expect("a label").0 = "group".to_owned();
    for file in group.files() {
        let rows = read(&file);
        assert_eq!(rows.label_column.as_deref(), Some("group"), "{}", file.name);
        let said = "label = \"group\" (the only text column that repeats)";
        assert!(
            rows.notes.iter().any(|note| note == said),
            "{:?}",
            rows.notes
        );
    }
    group.0.pop();
    for file in group.files() {
        let refused = Labelled::read(&file, None, Choice::default()).expect_err("refused");
        let said = "no column can be the label: \"path\" holds another text in nearly every row";
        assert!(refused.to_string().contains(said), "{refused}");
        let choice = Choice {
            labels: Some("path"),
            ..Choice::default()
        };
        let chosen = Labelled::read(&file, None, choice).expect("reads");
        let refused = Dataset::new(chosen).expect_err("refused").to_string();
        assert!(
            refused.contains("each of the 120 rows has a label of its own"),
            "{refused}"
        );
    }
}

#[test]
fn one_class_has_one_name_in_and_between_files() {
    let spellings = [["0", "0.0"], ["1", "1.000e+00"], ["2", "2.0"], ["3", "+3"]];
    let label = |row: usize| spellings[row % 4][row / 4 % 2].to_owned();
    let mut made = Made::new(7, false);
    made.0.pop();
    let features = file("x.csv", &made.csv(","));
    let text: String = (0..ROWS).map(|row| label(row) + "\n").collect();
    for (name, text) in [
        ("y.txt", text.clone()),
        ("y.csv", format!("class\n{text}")),
        ("y.tsv", format!("class\n{text}")),
    ] {
        let rows =
            Labelled::read(&features, Some(&file(name, &text)), Choice::default()).expect("reads");
        let dataset = Dataset::new(rows).expect("classes");
        assert_eq!(dataset.class_names, ["0", "1", "2", "3"], "{name}");
        let said = "one class, several spellings: \"0\" (written \"0";
        assert!(
            dataset.notes.iter().any(|note| note.starts_with(said)),
            "{:?}",
            dataset.notes
        );
    }
    let alike: String = (0..ROWS).map(|row| ["ash\n", "ASH\n"][row % 2]).collect();
    let rows =
        Labelled::read(&features, Some(&file("y.txt", &alike)), Choice::default()).expect("reads");
    let said = rows
        .notes
        .iter()
        .filter(|note| note.contains("stay apart: \"ASH\" and \"ash\""));
    assert_eq!(said.count(), 1, "{:?}", rows.notes);
    for made in [
        made_of(|row| ["e\u{301}tude", "\u{e9}tude", "sonata"][row % 3].to_owned()),
        made_of(|row| ["\u{e9}tude", "\u{e9}tude ", "sonata"][row % 3].to_owned()),
    ] {
        for file in made.files() {
            let dataset = Dataset::new(read(&file)).expect("classes");
            assert_eq!(
                dataset.class_names,
                ["sonata", "\u{e9}tude"],
                "{}",
                file.name
            );
        }
    }
}

fn made_of(label: impl Fn(usize) -> String) -> Made {
    let mut made = Made::new(8, false);
    made.0.pop();
    made.0
        .push(("species".to_owned(), (0..ROWS).map(label).collect()));
    made
}

#[test]
fn what_stands_before_the_rows_and_parts_the_cells_changes_no_value() {
    let made = Made::new(9, false);
    let expected = read(&file("plain.csv", &made.csv(",")));
    let r_names = |delimiter: &str| {
        let table = made.csv(delimiter);
        let (header, rows) = table.split_once('\n').expect("a header");
        let rows = rows
            .lines()
            .enumerate()
            .map(|(row, line)| format!("\"{}\"{delimiter}{line}\n", row + 1));
        format!("{header}\n{}", rows.collect::<String>())
    };
    let header_comma = made.csv(",").replacen('\n', ",\n", 1);
    let all_commas = made.csv(",").replace('\n', ",\n");
    for (name, text) in [
        ("tabs.csv", made.csv("\t")),
        ("tabs.txt", made.csv("\t")),
        ("bars.csv", made.csv("|")),
        ("sep.csv", format!("sep=;\n{}", made.csv(";"))),
        ("sep_tab.csv", format!("\"sep=\t\"\r\n{}", made.csv("\t"))),
        (
            "comments.csv",
            format!("# by hand, in May\n#\n# cm\n{}", made.csv(",")),
        ),
        ("title.csv", format!("Trees of May\n\n{}", made.csv(","))),
        ("r.csv", r_names(",")),
        ("r.txt", r_names("\t")),
        ("header_comma.csv", header_comma),
        ("all_commas.csv", all_commas),
    ] {
        let rows = read(&file(name, &text));
        assert_eq!(rows.feature_names, expected.feature_names, "{name}");
        assert!(
            rows.values == expected.values && rows.labels == expected.labels,
            "{name}"
        );
    }
    // The line in an error is the line of the file.
    let bad = format!(
        "# by hand\n\n{}",
        made.csv(",").replacen("ash\n", "ash,1\n", 1)
    );
    let refused =
        Labelled::read(&file("bad.csv", &bad), None, Choice::default()).expect_err("refused");
    let line = 1 + bad
        .lines()
        .position(|line| line.ends_with("ash,1"))
        .expect("is there");
    assert!(
        refused
            .to_string()
            .starts_with(&format!("bad.csv, line {line}: 5 values")),
        "{refused}"
    );
    // Commas in the cells of one column.
    let cells: Texts = Texts::new();
    let rows =
        Labelled::read(&cells.features, Some(&cells.labels), Choice::default()).expect("reads");
    assert_eq!(Dataset::new(rows).expect("classes").class_names.len(), 3);
}

/// Labels with commas in a file of one column.
struct Texts {
    features: NamedFile,
    labels: NamedFile,
}

impl Texts {
    fn new() -> Self {
        let mut made = Made::new(10, false);
        made.0.pop();
        let names = [
            "T cell, alpha-beta",
            "T cell, CD4-positive, alpha-beta",
            "B cell",
        ];
        let labels: String = (0..ROWS)
            .map(|row| format!("{}\n", names[row % 3]))
            .collect();
        Self {
            features: file("x.csv", &made.csv(",")),
            labels: file("labels.txt", &labels),
        }
    }
}

#[test]
fn pairs_are_held_out_by_class() {
    let pairs = made_of(|row| format!("id{}", row / 2));
    let dataset = Dataset::new(read(&pairs.files()[0])).expect("classes");
    assert_eq!(dataset.default_config().split, Split::ByClassShuffled);
    assert!(
        dataset
            .notes
            .iter()
            .any(|note| note.contains("split=by-class-shuffled")),
        "{:?}",
        dataset.notes
    );
    let many = Dataset::new(read(&Made::new(11, false).files()[0])).expect("classes");
    assert_eq!(many.default_config().split, Split::Random);
}

#[test]
fn columns_beside_the_labels_of_a_file_split_and_draw() {
    let mut made = Made::new(11, false);
    let (_, labels) = made.0.pop().expect("a label");
    let features = file("x.csv", &made.csv(","));
    let lines = labels.iter().enumerate().map(|(row, label)| {
        let side = ["train", "train", "val", "test"][row % 4];
        let kind = u8::from(["ash", "birch"].contains(&label.as_str()));
        format!("{row},{label},{side},{kind}\n")
    });
    let text = format!("path,label,split,kind\n{}", lines.collect::<String>());
    let rows = Labelled::read(&features, Some(&file("rows.csv", &text)), Choice::default());
    let dataset = Dataset::new(rows.expect("reads")).expect("classes");
    let names: Vec<&str> = dataset.columns.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["split", "kind"]);
    let config = dataset.default_config();
    assert_eq!(config.split, Split::Column("split".to_owned()));
    let sides = nearfar::Sides::new(&dataset, &config).expect("splits");
    assert_eq!(sides.test, (3..ROWS as u32).step_by(4).collect::<Vec<_>>());
    // In the table itself such a column is a feature, until a setting names it.
    let coarse = |row: usize| u8::from(row * 7 % 11 % 4 < 2).to_string();
    let whole = file(
        "whole.csv",
        &Made::new(11, false).with("kind", coarse).csv(","),
    );
    let config = nearfar::TrainConfig::default()
        .with_set("sampler=hierarchical")
        .and_then(|config| config.with_set("sampler.outer_label=kind"))
        .expect("settings");
    let columns = Columns {
        apart: config.columns(),
        ..Columns::default()
    };
    for (columns, features, kept) in [(None, 4, 0), (Some(&columns), 3, 1)] {
        let choice = Choice {
            columns,
            ..Choice::default()
        };
        let rows = Labelled::read(&whole, None, choice).expect("reads");
        assert_eq!((rows.dim, rows.columns.len()), (features, kept));
    }
}

#[test]
fn rows_without_a_class_are_left_out_and_named() {
    // What the classes are, how a row without one is marked, and whether that is sure.
    for (classes, mark, is_sure) in [
        (["0", "1", "2", "3"], "-1", true),
        (["0.0", "1.0", "2.0", "3.0"], "-1.0", true),
        (CLASSES, "Unknown", true),
        (CLASSES, "unlabelled", true),
        (CLASSES, "UNASSIGNED", true),
        (CLASSES, "noise", false),
        (["0", "1", "0", "1"], "-1", false),
    ] {
        let label = |row: usize| match row % 5 {
            0 => mark.to_owned(),
            _ => classes[row % 4].to_owned(),
        };
        let mut made = Made::new(12, false);
        made.0.pop();
        made.0
            .push(("label".to_owned(), (0..ROWS).map(label).collect()));
        let read = |unlabelled: Option<&str>, missing| {
            let columns = Columns {
                unlabelled: unlabelled.map(|label| vec![label.to_owned()]),
                ..Columns::default()
            };
            let choice = Choice {
                columns: Some(&columns),
                missing,
                ..Choice::default()
            };
            Labelled::read(&file("rows.csv", &made.csv(",")), None, choice).expect("reads")
        };
        let trained = Some(nearfar::Missing::Refuse);
        let (rows, left) = (read(None, trained), ROWS / 5);
        let kept = if is_sure { ROWS - left } else { ROWS };
        assert_eq!(rows.labels.len(), kept, "{mark}");
        assert_eq!(rows.values.len(), kept * rows.dim, "{mark}");
        let said = match is_sure {
            true => "left out 24 of 120 rows, which have no class",
            false => "24 of 120 rows are labelled",
        };
        assert!(
            rows.notes.iter().any(|note| note.starts_with(said)),
            "{mark}: {:?}",
            rows.notes
        );
        // A command that only scores keeps every row, and notes it.
        let scored = read(None, None);
        assert_eq!(scored.labels.len(), ROWS);
        assert!(
            scored
                .notes
                .iter()
                .any(|note| note.contains("--unlabelled="))
        );
        assert_eq!(read(Some("none"), trained).labels.len(), ROWS);
        let noted = read(Some("Unknwon"), trained).notes;
        assert!(
            noted
                .iter()
                .any(|note| note == "no row is labelled \"Unknwon\""),
            "{noted:?}"
        );
        let one = mark.trim_end_matches(".0");
        assert_eq!(read(Some(one), None).labels.len(), ROWS - left);
    }
}

#[test]
fn where_every_row_is_said_to_have_no_class_nothing_is_left() {
    let columns = Columns {
        unlabelled: Some(CLASSES.map(str::to_owned).to_vec()),
        ..Columns::default()
    };
    let choice = Choice {
        columns: Some(&columns),
        ..Choice::default()
    };
    let made = file("rows.csv", &Made::new(13, false).csv(","));
    let refused = Labelled::read(&made, None, choice).expect_err("refused");
    assert!(
        refused
            .to_string()
            .ends_with("said to mean no class: no row is left"),
        "{refused}"
    );
}

#[test]
fn of_two_lists_of_numbers_one_is_chosen_by_its_name() {
    let line = |row: usize| {
        format!(
            "{{\"label\": \"{}\", \"image\": [{row}, 1], \"text\": [2, {row}]}}\n",
            CLASSES[row % 4]
        )
    };
    let text: String = (0..ROWS).map(line).collect();
    for (wanted, first) in [(None, [3.0, 1.0]), (Some("text"), [2.0, 3.0])] {
        let choice = Choice {
            features: wanted,
            ..Choice::default()
        };
        let rows = Labelled::read(&file("clip.jsonl", &text), None, choice).expect("reads");
        assert_eq!(rows.values[6..8], first);
        let other = if wanted.is_some() { "image" } else { "text" };
        let said = format!("on the command line clip.jsonl:{other} takes that one");
        assert!(
            rows.notes.iter().any(|note| note.ends_with(&said)),
            "{:?}",
            rows.notes
        );
    }
    let choice = Choice {
        features: Some("sound"),
        ..Choice::default()
    };
    let refused = Labelled::read(&file("clip.jsonl", &text), None, choice).expect_err("refused");
    assert_eq!(
        refused.to_string(),
        "clip.jsonl: \"sound\" is no column of lists of numbers; there are: \"image\", \"text\""
    );
}

/// A number with a mark between thousands.
fn parted(number: usize, mark: &str) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{}{mark}{:03}", number / 1000, number % 1000),
    }
}

#[test]
fn thousands_are_read_where_the_file_tells_and_refused_where_it_does_not() {
    let number = |row: usize| (40 + row * 1022) % 9000;
    // Separators of cells, thousands and fractions; and if a second column shows the decimal mark.
    for (delimiter, mark, decimal, has_fraction, is_told) in [
        (";", ".", ",", false, true),
        (";", ",", ".", false, true),
        (";", ".", ",", true, true),
        ("\t", ",", ".", false, true),
        ("\t", ",", ".", true, true),
        ("\t", ",", "", false, false),
        (";", ",", "", false, false),
    ] {
        let price = |row: usize| match has_fraction {
            true => parted(number(row), mark) + decimal + "50",
            false => parted(number(row), mark),
        };
        let weight = |row: usize| match decimal {
            "" => row.to_string(),
            _ => format!("{}{decimal}{}", row % 7, 1 + row % 9),
        };
        let lines = (0..ROWS).map(|row| {
            let cells = [
                price(row),
                weight(row * 3 % 100),
                CLASSES[row % 4].to_owned(),
            ];
            cells.join(delimiter) + "\n"
        });
        let header = ["price", "weight", "kind"].join(delimiter);
        let text = format!("{header}\n{}", lines.collect::<String>());
        let name = if delimiter == ";" {
            "price.csv"
        } else {
            "price.tsv"
        };
        let read = Labelled::read(&file(name, &text), None, Choice::default());
        match (read, is_told) {
            (Ok(rows), true) => {
                let half = if has_fraction { 0.5 } else { 0.0 };
                for row in 0..ROWS {
                    assert_eq!(
                        rows.values[2 * row],
                        number(row) as f32 + half,
                        "{delimiter}{mark}"
                    );
                }
            }
            (Err(refused), false) => {
                let refused = refused.to_string();
                let said = "holds \"1,062\", which is 1062 where the comma stands between thousands, and 1.062 where it is a decimal comma";
                assert!(refused.contains(said), "{refused}");
            }
            (read, _) => panic!("{delimiter}{mark}{decimal}: {read:?}"),
        }
    }
    let text = "a,label\n\u{2212}2.5,ash\n1.5,birch\n\u{2212}1,ash\n";
    let rows = read(&file("minus.csv", text));
    assert_eq!(rows.values, [-2.5, 1.5, -1.0]);
}

#[test]
fn marks_in_numbers_are_those_that_were_chosen() {
    let number = |row: usize| (40 + row * 1022) % 9000;
    let table = |mark: &str, decimal: &str, delimiter: &str| {
        let rows = (0..ROWS).map(|row| {
            let price = parted(number(row), mark) + if decimal.is_empty() { "" } else { decimal };
            let price = if decimal.is_empty() {
                price
            } else {
                price + "5"
            };
            format!("{price}{delimiter}{}\n", CLASSES[row % 4])
        });
        file(
            "price.tsv",
            &format!("price{delimiter}kind\n{}", rows.collect::<String>()),
        )
    };
    let read = |file: &NamedFile, decimal, thousands| {
        let columns = Columns {
            marks: Marks { decimal, thousands },
            ..Columns::default()
        };
        let choice = Choice {
            columns: Some(&columns),
            ..Choice::default()
        };
        Labelled::read(file, None, choice)
    };
    let thousand = |row: usize| number(row) as f32;
    // What stands between thousands and before the fraction, what is chosen, and what a cell then is.
    let fraction = |row: usize| number(row) as f32 / if number(row) < 1000 { 1.0 } else { 1000.0 };
    type Cell<'a> = &'a dyn Fn(usize) -> f32;
    let half = |row: usize| number(row) as f32 + 0.5;
    for (mark, decimal, chosen, cell) in [
        (",", "", (None, Some(',')), &thousand as Cell<'_>),
        (",", "", (Some('.'), None), &thousand),
        (",", "", (Some(','), None), &fraction),
        (".", "", (None, Some('.')), &thousand),
        (".", "", (Some(','), None), &thousand),
        (".", "", (None, None), &fraction),
        (" ", "", (None, Some(' ')), &thousand),
        (" ", ",", (None, Some(' ')), &half),
        (" ", ".", (Some('.'), Some(' ')), &half),
        ("'", ".", (None, None), &half),
        ("\u{2019}", ".", (None, None), &half),
        ("\u{a0}", ",", (None, None), &half),
        ("\u{202f}", ",", (None, None), &half),
    ] {
        let rows = read(&table(mark, decimal, "\t"), chosen.0, chosen.1);
        let rows = rows.unwrap_or_else(|error| panic!("{mark}{decimal} {chosen:?}: {error}"));
        for row in 0..ROWS {
            assert_eq!(
                rows.values[row],
                cell(row),
                "{mark}{decimal} {chosen:?}, row {row}"
            );
        }
    }
    let refused = read(&table(",", "", "\t"), None, None).expect_err("two readings");
    assert!(matches!(refused, Error::TwoReadings(_)), "{refused}");
    for (decimal, thousands, said) in [
        (
            Some(';'),
            None,
            "decimal is \";\", expected a point or a comma",
        ),
        (
            None,
            Some('x'),
            "thousands is \"x\", expected a point, a comma, a blank or an apostrophe",
        ),
        (
            Some(','),
            Some(','),
            "thousands is \",\", expected another mark than before the fraction",
        ),
    ] {
        let refused = Marks { decimal, thousands }.check().expect_err("refused");
        assert_eq!(refused.to_string(), said);
    }
}

#[test]
fn labels_in_another_order_are_joined_by_a_column_of_both_files() {
    let made = Made::new(21, false);
    let expected = read(&file("x.csv", &made.csv(",")));
    let (_, labels) = &made.0[made.0.len() - 1];
    let turned = |row: usize| row * 77 % ROWS;
    type Key<'a> = &'a dyn Fn(usize) -> String;
    let (text, number): (Key<'_>, Key<'_>) = (&|row| format!("cell-{row}"), &|row| {
        (3 * row + 7).to_string()
    });
    let long = |row: usize| (1_u64 << 40 | row as u64).to_string();
    for (what, key, on) in [
        ("text", text, None),
        ("text", text, Some("sample")),
        ("numbers", number, None),
        ("numbers", number, Some("sample")),
        ("long numbers", &long, Some("sample")),
    ] {
        let mut features = Made::new(21, false);
        features.0.pop();
        let features = features.with("sample", key);
        let columns = Columns {
            on: on.map(str::to_owned),
            ..Columns::default()
        };
        let choice = Choice {
            columns: Some(&columns),
            ..Choice::default()
        };
        // All rows in another order, and more of them.
        for more in [0, 5] {
            let lines =
                (0..ROWS).map(|row| format!("{},{}\n", key(turned(row)), labels[turned(row)]));
            let others = (0..more).map(|row| format!("{},ash\n", key(ROWS + row)));
            let lines: String = lines.chain(others).collect();
            let labels = file("y.csv", &format!("sample,species\n{lines}"));
            for features in features.files() {
                let rows = Labelled::read(&features, Some(&labels), choice);
                let rows =
                    rows.unwrap_or_else(|error| panic!("{what} {on:?} {}: {error}", features.name));
                assert_eq!(
                    rows.labels, expected.labels,
                    "{what} {on:?} {}",
                    features.name
                );
                assert_eq!(rows.values, expected.values);
                assert_eq!(rows.on.as_deref(), Some("sample"));
                let said = "labels are joined by \"sample\", which both files have";
                assert!(
                    rows.notes.iter().any(|note| note.starts_with(said)),
                    "{:?}",
                    rows.notes
                );
                let line = rows.table.iter().find(|line| line.column.name == "sample");
                assert_eq!(line.expect("a line").column.role, Role::Id);
            }
        }
        // A row without a label: dropped if that is chosen.
        let lines = (1..ROWS).map(|row| format!("{},{}\n", key(row), labels[row]));
        let labels = file(
            "y.csv",
            &format!("sample,species\n{}", lines.collect::<String>()),
        );
        let features = &features.files()[0];
        let refused = Labelled::read(features, Some(&labels), choice).expect_err("refused");
        let said = match on {
            Some(_) => {
                "made.csv: 1 of 120 rows have no label in y.csv, the first of them with \"sample\""
            }
            None => "made.csv: 120 rows of features, 119 labels in y.csv",
        };
        assert!(refused.to_string().starts_with(said), "{refused}");
        let dropping = Choice {
            missing: Some(Missing::DropRows),
            ..choice
        };
        if on.is_some() {
            let rows = Labelled::read(features, Some(&labels), dropping).expect("dropped");
            assert_eq!(rows.labels.len(), ROWS - 1);
            assert_eq!(rows.values, expected.values[3..]);
        }
    }
    // In the same order nothing is joined.
    let mut features = Made::new(21, false);
    features.0.pop();
    let features = file("x.csv", &features.with("sample", text).csv(","));
    let lines = (0..ROWS).map(|row| format!("{},{}\n", text(row), labels[row]));
    let labels = file(
        "y.csv",
        &format!("sample,species\n{}", lines.collect::<String>()),
    );
    let rows = Labelled::read(&features, Some(&labels), Choice::default()).expect("reads");
    assert_eq!((rows.on, &rows.labels), (None, &expected.labels));
}

#[test]
fn a_vector_as_text_in_a_cell_is_read_as_a_list_is() {
    // As pandas writes lists, and as NumPy prints rows, over two lines too.
    let written: [fn(usize) -> String; 6] = [
        |row| format!("\"({row}.5, -1e-3, 2)\""),
        |row| format!("{row}.5 -1e-3 2"),
        |row| format!("\"[{row}.5, -1e-3, 2]\""),
        |row| format!("[{row}.5 -1e-3   2. ]"),
        |row| format!("\"[ {row}.5 -1e-3\n  2. ]\""),
        |row| format!("\"[{row}.5,-0.001,2]\""),
    ];
    for cell in written {
        let line = |row: usize| format!("{row},{},{},\"[1, 2]\"\n", CLASSES[row % 4], cell(row));
        let text = format!(
            "n,label,embedding,box\n{}",
            (0..ROWS).map(line).collect::<String>()
        );
        let rows = read(&file("rows.csv", &text));
        assert_eq!(
            rows.feature_names,
            ["embedding[0]", "embedding[1]", "embedding[2]"]
        );
        assert_eq!(rows.values[3..6], [1.5, -1e-3, 2.0]);
        assert_eq!(rows.labels[3], *"dogwood");
        let choice = Choice {
            features: Some("box"),
            ..Choice::default()
        };
        let chosen = Labelled::read(&file("rows.csv", &text), None, choice).expect("reads");
        assert_eq!((chosen.dim, chosen.values[0]), (2, 1.0));
        let beside = rows.table.iter().find(|line| line.column.name == "n");
        let beside = beside.map(|line| &line.column.reason[..]);
        assert_eq!(beside, Some("numbers beside the list of features"));
    }
    // Numbers with a unit are text, and a note has the reason.
    for cell in ["12 %", "12%", "$1,200.50", "(1,200)", "3.5 €"] {
        let mut text = String::from("a,rate,label\n");
        for row in 0..20 {
            text += &format!("{}.5,\"{cell}\",{}\n", row * 37 % 19, CLASSES[row % 4]);
        }
        let rows = read(&file("rows.csv", &text));
        let reason = &rows.table[1].column.reason;
        assert_eq!(
            reason, "numbers with a unit: write them without it",
            "{cell}"
        );
    }
    // In JSON Lines as a string, and never of a column that is left out.
    let line = |row: usize| {
        format!(
            "{{\"label\": \"{}\", \"v\": \"({row}.5, -1e-3, 2)\", \"x\": {}.25}}\n",
            CLASSES[row % 4],
            row * 7919 % 101
        )
    };
    let text: String = (0..ROWS).map(line).collect();
    let rows = read(&file("rows.jsonl", &text));
    assert_eq!((rows.dim, &rows.values[3..6]), (3, &[1.5, -1e-3, 2.0][..]));
    let columns = Columns {
        ignore: vec!["v".to_owned()],
        ..Columns::default()
    };
    let choice = Choice {
        columns: Some(&columns),
        ..Choice::default()
    };
    let rows = Labelled::read(&file("rows.jsonl", &text), None, choice).expect("reads");
    assert_eq!(rows.feature_names, ["x"]);
    for (cell, said) in [
        (
            "\"[1, 2]\"",
            "line 3: column \"embedding\" holds 2 numbers, expected 3 as in the first row",
        ),
        (
            "[1 ... 3]",
            "line 3: column \"embedding\" holds a list that was cut short",
        ),
        (
            "x",
            "line 3: column \"embedding\" holds \"x\", expected 3 numbers as in the first row",
        ),
    ] {
        let text = format!("label,embedding\nash,[1 2 3]\nelm,{cell}\n");
        let refused = Labelled::read(&file("rows.csv", &text), None, Choice::default());
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

/// A table whose `mass` is below a thousand in its first rows, and above later: with points or commas between thousands.
fn late_thousands(decimal: &str, thousands: &str) -> String {
    let mass = |row: usize| match row {
        150 => format!("95{thousands}612"),
        _ => (300 + row).to_string(),
    };
    let line = |row: usize| format!("{};{decimal};{}\n", mass(row), ["ash", "elm"][row % 2]);
    let lines: String = (0..200).map(line).collect();
    format!("mass;width;species\n{lines}")
}

#[test]
fn thousands_that_come_after_the_first_rows_are_thousands() {
    for (decimal, thousands) in [("0,5", "."), ("0.5", ",")] {
        let table = late_thousands(decimal, thousands);
        let rows = read(&file("a.csv", &table));
        let mass = rows
            .feature_names
            .iter()
            .position(|name| name == "mass")
            .expect("is there");
        assert_eq!(rows.values[150 * rows.dim + mass], 95_612.0, "{thousands}");
        assert_eq!(rows.marks.thousands, thousands.chars().next());
    }
    // Nothing in the file decides which it is.
    let table = late_thousands("5", ",");
    let refused =
        Labelled::read(&file("a.csv", &table), None, Choice::default()).expect_err("refused");
    assert!(matches!(refused, Error::TwoReadings(_)), "{refused}");
}

#[test]
fn rows_that_are_left_out_keep_the_numbers_of_the_others() {
    let line = |row: usize| match row % 5 {
        0 => format!("{row},,ash\n"),
        1 => format!("{row},{},Unknown\n", row * 7 % 13),
        _ => format!("{row},{},{}\n", row * 7 % 13, ["ash", "elm"][row % 2]),
    };
    let table = format!("a,b,species\n{}", (0..100).map(line).collect::<String>());
    let choice = Choice {
        missing: Some(Missing::DropRows),
        ..Choice::default()
    };
    let rows = Labelled::read(&file("a.csv", &table), None, choice).expect("is read");
    let dataset = Dataset::new(rows).expect("has classes");
    let kept: Vec<u32> = (0..100).filter(|row| row % 5 > 1).collect();
    let numbers: Vec<u32> = (0..dataset.rows() as u32)
        .map(|row| dataset.left_out.in_file(row))
        .collect();
    assert_eq!(numbers, kept);
}
