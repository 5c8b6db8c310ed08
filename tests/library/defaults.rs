//! First runs on tables as people bring them: with any unit, with constant columns, far from zero, or from sentence models, the
//! settings that suit the data learn, raise no warning that they caused, and write files that load.

use std::rc::Rc;

use crate::common::{Rng, open};
use nearfar::{
    Dataset, Embedder, EngineKind, Labelled, LayerWeights, Metrics, Run, RunReport, ScalingKind,
    Shape, Survey,
};

/// Rows about the centres of classes, `[rows, dim]`; every second column separates the classes.
struct Made {
    values: Vec<f32>,
    dim: usize,
    classes: usize,
}

impl Made {
    fn new(rng: &mut Rng, rows: usize, dim: usize, classes: usize, noise: f32) -> Self {
        let mut centres = crate::common::random_rows(rng, classes, dim);
        centres
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|value| *value = 0.0);
        let mut values = crate::common::random_rows(rng, rows, dim);
        for (row, values) in values.chunks_exact_mut(dim).enumerate() {
            let centre = &centres[row % classes * dim..][..dim];
            values
                .iter_mut()
                .zip(centre)
                .for_each(|(value, centre)| *value = centre + noise * *value);
        }
        Self {
            values,
            dim,
            classes,
        }
    }

    /// The table with `change(row, column, value)` in place of each value.
    fn map(&self, change: impl Fn(usize, usize, f32) -> f32) -> Self {
        let values = self.values.iter().enumerate();
        let values = values.map(|(at, value)| change(at / self.dim, at % self.dim, *value));
        Self {
            values: values.collect(),
            ..*self
        }
    }

    fn dataset(&self) -> Dataset {
        let rows = self.values.len() / self.dim;
        Dataset::new(Labelled {
            name: "made.csv".to_owned(),
            values: self.values.clone(),
            dim: self.dim,
            labels: (0..rows)
                .map(|row| format!("class {}", row % self.classes))
                .collect(),
            ..Labelled::default()
        })
        .expect("has classes")
    }
}

/// A run with these settings over those that suit the data, and its head and linear map.
struct Ran {
    report: RunReport,
    head: Vec<LayerWeights>,
    linear: Option<LayerWeights>,
}

impl Ran {
    fn test(&self) -> Metrics {
        let scores = self.report.r#final.expect("is over");
        scores.test.expect("has test rows")
    }

    fn raw(&self) -> Metrics {
        self.report.baseline.raw.test.expect("has test rows")
    }
}

fn run(made: &Made, sets: &[&str]) -> Ran {
    let dataset = made.dataset();
    let config = sets.iter().fold(dataset.default_config(), |config, set| {
        config.with_set(set).expect("sets")
    });
    pollster::block_on(async {
        let survey = Survey::of(&dataset.features, |_| ()).await.expect("reads");
        let engine = open(EngineKind::Cpu, 256 << 20);
        let mut run = Run::new(engine, Rc::new(dataset), config)
            .await
            .expect("fits");
        run.see_survey(&survey);
        while !run.is_finished() {
            run.next(u64::MAX).await.expect("goes on");
        }
        Ran {
            report: run.report(),
            head: run.trainer().head().await.expect("reads"),
            linear: run.trainer().linear_head(),
        }
    })
}

fn assert_alike(a: Metrics, b: Metrics, what: &str) {
    for (a, b) in [
        (a.precision_at_1, b.precision_at_1),
        (a.mean_average_precision_at_r, b.mean_average_precision_at_r),
    ] {
        assert!((a - b).abs() <= 0.02, "{what}: {a} and {b}");
    }
}

#[test]
fn the_unit_of_a_table_changes_no_score() {
    // Some lie far from zero, as reflectances do.
    for (offset, seed) in [(0.0, 1), (0.7, 2)] {
        let table = Made::new(&mut crate::common::rng(seed), 800, 8, 5, 0.35);
        let table = table.map(|_, _, value| value + offset);
        let ones = run(&table, &[]);
        assert_eq!(ones.report.data.scaling, ScalingKind::Common);
        assert!(ones.test().precision_at_1 > 0.8, "{:?}", ones.test());
        for unit in [1e-6, 1e-3, 1e6] {
            let other = run(&table.map(|_, _, value| value * unit), &[]);
            let what = format!("offset {offset}, unit {unit}");
            assert_alike(other.test(), ones.test(), &what);
            assert_alike(other.raw(), ones.raw(), &what);
            // None of it is of the unit; a few hundred rows may be learned by heart.
            let mut warnings = other.report.warnings.iter();
            assert!(
                warnings
                    .all(|warning| warning.starts_with("Validation precision@1 was best at step")),
                "{what}"
            );
        }
    }
}

#[test]
fn the_units_of_single_columns_change_no_score_where_they_differ() {
    let table = Made::new(&mut crate::common::rng(3), 800, 8, 5, 0.35);
    let units = [1e-3, 1.0, 70.0, 1e4, 0.2, 900.0, 1e-2, 5.0f32];
    let mixed = run(&table.map(|_, column, value| value * units[column]), &[]);
    assert_eq!(mixed.report.data.scaling, ScalingKind::Columns);
    let others = [1e6, 1e-6, 1e3, 1e-3, 1.0, 1e5, 1e-5, 1e2f32];
    let other = table.map(|_, column, value| value * units[column] * others[column]);
    let other = run(&other, &[]);
    assert_alike(other.test(), mixed.test(), "other units");
    assert!(mixed.test().precision_at_1 > 0.8);
}

#[test]
fn columns_that_say_nothing_change_no_score_and_are_named_and_all_files_load() {
    let table = Made::new(&mut crate::common::rng(4), 600, 16, 5, 0.35);
    let without = |column: usize| [5, 13, 9].contains(&column);
    let noise = |row: usize, column: usize| ((row * 7919 + column) as f32).sin();
    let nothing = |row: usize, column: usize, value: f32| match column {
        5 => 1e-33 * noise(row, column),
        9 => 1000.0 + 1e-6 * noise(row, column),
        13 => 2e-8 + 2e-9 * noise(row, column),
        _ => value,
    };
    let zeros = |_, column, value| if without(column) { 0.0 } else { value };
    for set in ["standardize=auto", "standardize=true"] {
        let clean = run(&table.map(zeros), &[set]);
        let ran = run(&table.map(nothing), &[set]);
        // A column that is left out counts as zero, and so does its path through the whole network.
        assert_eq!(ran.test(), clean.test(), "{set}");
        let notes = ran.report.data.notes.join(" ");
        for name in ["feature 6", "feature 10", "feature 14"] {
            assert!(notes.contains(name), "{notes}");
        }
        let linear = ran.linear.expect("fits");
        Embedder::check(std::slice::from_ref(&linear)).expect("loads");
        Embedder::check(&ran.head).expect("loads");
        for layer in [&linear, &ran.head[0]] {
            for weights in layer.weight.chunks_exact(16) {
                assert_eq!([weights[5], weights[9], weights[13]], [0.0; 3], "{set}");
            }
        }
    }
}

#[test]
fn the_linear_map_loads_where_features_are_left_as_they_are() {
    let table = Made::new(&mut crate::common::rng(5), 300, 12, 4, 0.35);
    let table = table.map(|row, column, value| match column {
        5 => 1e-33 * (row as f32).sin(),
        _ => value,
    });
    let ran = run(&table, &["standardize=false", "steps=20"]);
    let linear = ran.linear.expect("fits");
    Embedder::check(std::slice::from_ref(&linear)).expect("loads");
    assert!(linear.weight.iter().all(|weight| weight.abs() < 1e3));
}

#[test]
fn rows_as_sentence_models_give_them_are_learned() {
    let made = Made::new(&mut crate::common::rng(6), 900, 96, 10, 1.5);
    // Of unit length, with a part common to all, and some dead numbers.
    let shifted = made.map(|_, column, value| match column {
        31 => 1e-33,
        40 => 2e-8,
        column if column % 5 == 0 => value + 0.2,
        _ => value,
    });
    let mut values = shifted.values.clone();
    for row in values.chunks_exact_mut(96) {
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        row.iter_mut().for_each(|value| *value /= length);
    }
    let rows = Made { values, ..shifted };
    assert_eq!(rows.dataset().shape(), Shape::FewClassesOfManyFeatures);
    for seed in ["seed=0", "seed=1", "seed=2"] {
        let ran = run(&rows, &[seed, "steps=150"]);
        assert_eq!(ran.report.warnings, [""; 0], "{seed}");
        let (head, raw) = (ran.test(), ran.raw());
        assert!(
            head.precision_at_1 >= raw.precision_at_1 - 0.01,
            "{head:?} {raw:?}"
        );
        assert!(
            head.mean_average_precision_at_r > raw.mean_average_precision_at_r + 0.05,
            "{head:?} {raw:?}"
        );
        Embedder::check(&ran.head).expect("loads");
        Embedder::check(&[ran.linear.expect("fits")]).expect("loads");
    }
}

#[test]
fn a_collapse_of_rows_that_were_left_as_they_are_names_its_cause_and_the_remedy_works() {
    let table = Made::new(&mut crate::common::rng(7), 400, 10, 6, 0.3);
    for (change, cause) in [
        (
            Box::new(|value: f32| value + 6.0) as Box<dyn Fn(f32) -> f32>,
            "lie far from zero",
        ),
        (Box::new(|value: f32| value * 1e-5), "the rows are short"),
    ] {
        let table = table.map(|_, _, value| change(value));
        // As the default was before it centred features.
        let triplets = [
            "loss.name=triplet-margin",
            "miner.name=triplet-margin",
            "batch_size=32",
            "memory_size=200",
        ];
        let as_they_are = run(&table, &[&triplets[..], &["standardize=false"]].concat());
        let said = as_they_are.report.warnings.join(" ");
        assert!(said.contains("collapsed") && said.contains(cause), "{said}");
        assert!(said.contains("To mend it: standardize=auto"), "{said}");
        let mended = run(&table, &[&triplets[..], &["standardize=auto"]].concat());
        let said = mended.report.warnings.join(" ");
        assert!(!said.contains("collapsed"), "{cause}: {said}");
        let loss = as_they_are.test().precision_at_1 - mended.test().precision_at_1;
        assert!(loss < 0.03, "{cause}: {loss}");
    }
}

#[test]
fn features_too_small_for_any_weights_are_refused_with_what_to_do() {
    let table = Made::new(&mut crate::common::rng(8), 60, 4, 3, 0.3);
    let dataset = table.map(|_, _, value| value * 1e-20).dataset();
    let config = dataset.default_config();
    let engine = open(EngineKind::Cpu, 64 << 20);
    let refused = pollster::block_on(Run::new(engine, Rc::new(dataset), config));
    let refused = refused.map(drop).expect_err("refused").to_string();
    assert!(refused.contains("multiply the features"), "{refused}");
}
