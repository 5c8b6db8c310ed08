//! The linear baseline gives the cosines of a pooled Ledoit-Wolf LDA from parts of scikit-learn and scipy, which
//! `tests/golden/linear.py` recorded, through the kernels of a head on both engines; with a constant it ranks as distances do; and
//! a run reports it or the reason why there is none.

use std::rc::Rc;

use crate::common::{engines, open};
use nearfar::{
    Dataset, Embedder, Engine, EngineKind, Labelled, LayerWeights, LinearFit, LinearMap,
    LinearOutputs, Run, RunReport, Scaling, Trainer, Unfit,
};
use serde::Deserialize;

/// Weights, rows and sums are f32; the fit is f64.
const TOLERANCE: f64 = 1e-5;

#[derive(Deserialize)]
struct Case {
    name: String,
    sample: Option<String>,
    #[serde(default)]
    features: Vec<f32>,
    #[serde(default)]
    labels: Vec<u32>,
    #[serde(default)]
    dim: usize,
    outputs: usize,
    train: Vec<u32>,
    compared: Vec<u32>,
    cosines: Vec<f64>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../golden/linear.json")).expect("the script wrote it")
}

fn dataset(values: &[f32], dim: usize, labels: &[u32]) -> Dataset {
    Dataset::new(Labelled {
        name: "rows".to_owned(),
        values: values.to_vec(),
        dim,
        labels: labels.iter().map(u32::to_string).collect(),
        ..Labelled::default()
    })
    .expect("two classes")
}

impl Case {
    fn dataset(&self) -> Dataset {
        match &self.sample {
            Some(sample) => Dataset::sample(sample, 0).expect("is there"),
            None => dataset(&self.features, self.dim, &self.labels),
        }
    }

    /// The largest difference of any cosine after this layer.
    fn difference(&self, engine: Engine, layer: LayerWeights) -> f64 {
        pollster::block_on(async {
            let mut rows = Vec::new();
            let source = self.dataset().features;
            source.read(&self.compared, &mut rows).await.expect("reads");
            let mut embedder = Embedder::new(engine, &[layer]).await.expect("fits");
            let unit = embedder.embed(&rows).await.expect("embeds");
            let rows: Vec<&[f32]> = unit.rows().collect();
            let pairs = (0..rows.len()).flat_map(|i| (i + 1..rows.len()).map(move |j| (i, j)));
            let cosine = |(i, j): (usize, usize)| -> f64 {
                let values = rows[i].iter().zip(rows[j]);
                values.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            let cosines: Vec<f64> = pairs.map(cosine).collect();
            assert_eq!(cosines.len(), self.cosines.len());
            let off = cosines
                .iter()
                .zip(&self.cosines)
                .map(|(a, b)| (a - b).abs());
            off.fold(0.0, f64::max)
        })
    }
}

fn fit_to(dataset: &Dataset, rows: &[u32], outputs: usize) -> Result<LinearMap, Unfit> {
    let engine = open(EngineKind::Cpu, 1 << 20);
    let scaling = Scaling::none(dataset.features.dim());
    pollster::block_on(LinearMap::fit(&engine, dataset, &scaling, rows, outputs)).expect("reads")
}

fn fit(dataset: &Dataset, rows: &[u32]) -> Result<LinearMap, Unfit> {
    fit_to(dataset, rows, usize::MAX)
}

#[test]
fn rows_have_the_cosines_that_scikit_learns_parts_give_them() {
    for case in cases() {
        let map = fit_to(&case.dataset(), &case.train, case.outputs).expect("fits");
        for engine in engines() {
            let kind = engine.info().engine.clone();
            let off = case.difference(engine, map.layer().clone());
            println!("{}, {kind}: off by {off:.1e}", case.name);
            assert!(off <= TOLERANCE, "{}, {kind}: {off}", case.name);
        }
    }
}

#[test]
fn the_comparison_rejects_another_origin_and_transposed_weights() {
    for case in cases() {
        let dataset = case.dataset();
        let map = fit_to(&dataset, &case.train, case.outputs).expect("fits");
        let right = map.layer();
        let without_mean = LayerWeights {
            bias: vec![0.0; right.bias.len()],
            ..right.clone()
        };
        // The mean of the rows that are compared, not of those that are fitted to.
        let other = fit(&dataset, &case.compared).expect("fits");
        let [outputs, dim] = right.shape;
        let wrong_rows = LayerWeights {
            weight: other.layer().weight[..outputs * dim].to_vec(),
            bias: other.layer().bias[..outputs].to_vec(),
            ..right.clone()
        };
        let transposed = LayerWeights {
            weight: (0..outputs * dim)
                .map(|i| right.weight[i % dim * outputs + i / dim])
                .collect(),
            ..right.clone()
        };
        let fewer = fit_to(&dataset, &case.train, right.shape[0] - 1).expect("fits");
        for (fault, layer) in [
            ("an output less", fewer.layer().clone()),
            ("no mean", without_mean),
            ("other rows", wrong_rows),
            ("transposed", transposed),
        ] {
            let off = case.difference(open(EngineKind::Cpu, 1 << 20), layer);
            println!("{}, {fault}: off by {off:.1e}", case.name);
            assert!(off > 100.0 * TOLERANCE, "{}, {fault}: {off}", case.name);
        }
    }
}

/// Rows of 4 features: noise, with the class added to the first; `with` changes each row.
fn rows(count: usize, classes: u32, with: impl Fn(usize, &mut [f32])) -> Dataset {
    let mut rng = crate::common::rng(0);
    let mut values = crate::common::random_rows(&mut rng, count, 4);
    let labels: Vec<u32> = (0..count as u32).map(|row| row % classes).collect();
    for (row, values) in values.chunks_exact_mut(4).enumerate() {
        values[0] += labels[row] as f32;
        with(row, values);
    }
    dataset(&values, 4, &labels)
}

fn all(dataset: &Dataset) -> Vec<u32> {
    (0..dataset.rows() as u32).collect()
}

#[test]
fn constant_and_duplicate_features_do_no_harm() {
    let plain = rows(60, 3, |_, _| ());
    let constant = rows(60, 3, |_, row| row[2] = 0.1);
    let zero = rows(60, 3, |_, row| row[2..].fill(0.0));
    let duplicate = rows(60, 3, |_, row| row[3] = row[1]);
    let huge = rows(60, 3, |_, row| row[1] *= 1e18);
    let tiny = rows(60, 3, |_, row| row[1] *= 1e-18);
    for dataset in [plain, constant, zero, duplicate, huge, tiny] {
        let map = fit(&dataset, &all(&dataset)).expect("fits");
        assert_eq!(map.layer().shape, [2, 4]);
        assert!(map.layer().weight.iter().all(|weight| weight.is_finite()));
    }
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let of = |dataset: &Dataset| fit(dataset, &all(dataset)).map(drop);
    // Rows of a class are equal: nothing varies within classes.
    let equal = rows(12, 3, |row, values| values.fill((row % 3) as f32));
    assert_eq!(of(&equal), Err(Unfit::Singular));
    let same = rows(12, 3, |_, values| values.fill(7.0));
    assert_eq!(of(&same), Err(Unfit::Singular));
    // Three differences between rows of a class do not span four features: shrinkage helps.
    assert_eq!(of(&rows(6, 3, |_, _| ())), Ok(()));
    // If these differences are all equal, they span one direction alone.
    let alike = rows(6, 3, |row, values| {
        let step = (row / 3) as f32;
        values.copy_from_slice(&[1.0, 2.0, 3.0, 4.0].map(|value| value * step));
        values[0] += (row % 3) as f32;
    });
    assert_eq!(of(&alike), Err(Unfit::Singular));
    let lone = Unfit::TooFewRows {
        rows: 12,
        classes: 12,
    };
    let first: Vec<u32> = (0..12).collect();
    assert_eq!(fit(&rows(13, 12, |_, _| ()), &first).map(drop), Err(lone));
    let one = rows(12, 2, |_, _| ());
    assert_eq!(fit(&one, &[0, 2, 4, 6]).map(drop), Err(Unfit::OneClass));
    assert_eq!(fit(&one, &[]).map(drop), Err(Unfit::OneClass));
    // Smaller than any f32 that has an inverse: the column is left out, and the others are fitted.
    let denormal = rows(12, 3, |_, values| values[1] *= 1e-42);
    assert_eq!(of(&denormal), Ok(()));
    let large = dataset(&vec![0.5; 1030 * 2049], 2049, &[0, 1].repeat(515));
    let too_large = Unfit::TooLarge {
        rows: 1030,
        dim: 2049,
    };
    assert_eq!(of(&large), Err(too_large));
    let equal = dataset(&vec![0.5; 6 * 1025], 1025, &[0, 0, 0, 1, 1, 1]);
    assert_eq!(of(&equal), Err(Unfit::Singular));
}

#[test]
fn a_table_of_more_columns_than_rows_has_the_map_that_its_columns_give() {
    // 40 rows of 30 columns, and the same with 20 more columns: the one is fitted by columns, the other by rows.
    let mut rng = crate::common::rng(9);
    let values = crate::common::random_rows(&mut rng, 40, 32);
    let labels: Vec<u32> = (0..40).map(|row| row % 4).collect();
    let (narrow, wide): (Vec<f32>, Vec<f32>) = values
        .chunks_exact(32)
        .zip(&labels)
        .map(|(row, label)| {
            let mut row = row[..30].to_vec();
            row[0] += *label as f32;
            row[7] -= *label as f32 * 0.5;
            // Constant columns change no cosine.
            let more = [&row[..], &[3.0; 20]].concat();
            (row, more)
        })
        .fold(
            (Vec::new(), Vec::new()),
            |(mut narrow, mut wide), (row, more)| {
                narrow.extend(row);
                wide.extend(more);
                (narrow, wide)
            },
        );
    let (narrow, wide) = (dataset(&narrow, 30, &labels), dataset(&wide, 50, &labels));
    let engine = open(EngineKind::Cpu, 1 << 20);
    let map = |dataset: &Dataset, shrinkage: f64| {
        let scaling = Scaling::none(dataset.features.dim());
        let rows = all(dataset);
        let fit = LinearFit::new(&engine, dataset, &scaling, &rows);
        let fit = pollster::block_on(fit).expect("reads").expect("fits");
        fit.map(shrinkage, 3).expect("fits")
    };
    let cosines = |dataset: &Dataset, layer: &LayerWeights| {
        let mut values = Vec::new();
        pollster::block_on(dataset.features.read(&all(dataset), &mut values)).expect("reads");
        let cpu = open(EngineKind::Cpu, 1 << 20);
        let mut embedder =
            pollster::block_on(Embedder::new(cpu, std::slice::from_ref(layer))).expect("fits");
        let unit = pollster::block_on(embedder.embed(&values)).expect("embeds");
        let rows: Vec<Vec<f32>> = unit.rows().map(<[f32]>::to_vec).collect();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let pairs = rows
            .iter()
            .flat_map(|a| rows.iter().map(move |b| dot(a, b)));
        pairs.collect::<Vec<f32>>()
    };
    // The target is the mean variance of all columns: 30 of 50 vary, so that the shrinkages differ by that.
    let wide_map = map(&wide, 0.5);
    assert!(
        wide_map
            .layer()
            .weight
            .chunks_exact(50)
            .all(|row| row[30..] == [0.0; 20])
    );
    let part = 0.5 * 0.6 / (0.5 + 0.5 * 0.6);
    let narrow_map = map(&narrow, part);
    let off = cosines(&narrow, narrow_map.layer())
        .iter()
        .zip(cosines(&wide, wide_map.layer()))
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(off < 1e-4, "{off}");
    // Another shrinkage gives a detectably different map.
    let other = map(&narrow, 0.9);
    let apart = cosines(&narrow, other.layer())
        .iter()
        .zip(cosines(&wide, wide_map.layer()))
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(apart > 1e-2, "{apart}");
}

#[test]
fn many_noisy_columns_take_another_shrinkage_than_ledoit_and_wolf_estimate() {
    // 20 classes in 16 columns among 240 of noise, as pictures embedded by a network of another task have.
    let mut rng = crate::common::rng(10);
    let centres = crate::common::random_rows(&mut rng, 20, 16);
    let mut values = crate::common::random_rows(&mut rng, 900, 256);
    let labels: Vec<u32> = (0..900).map(|row| row % 20).collect();
    for (row, label) in values.chunks_exact_mut(256).zip(&labels) {
        let centre = &centres[*label as usize * 16..][..16];
        row.iter_mut()
            .zip(centre)
            .for_each(|(value, centre)| *value += 0.9 * centre);
    }
    let dataset = Rc::new(dataset(&values, 256, &labels));
    let mut run = finished(&dataset, &["steps=1"], 256 << 20);
    let outputs = run.trainer().linear_outputs().expect("fits");
    let scaling = Scaling::none(256);
    let rows = run.trainer().sides().train.clone();
    let engine = open(EngineKind::Cpu, 1 << 20);
    let fit = LinearFit::new(&engine, &dataset, &scaling, &rows);
    let estimated = pollster::block_on(fit)
        .expect("reads")
        .expect("fits")
        .ledoit_wolf();
    let chosen = outputs.shrinkage.expect("is said");
    assert!((chosen - estimated).abs() > 0.05, "{chosen} {estimated}");
}

#[test]
fn there_are_no_more_directions_than_features_or_classes_less_one_or_asked_for() {
    for (classes, outputs) in [(2, 1), (3, 2), (5, 4), (9, 4)] {
        let dataset = rows(90, classes, |_, _| ());
        let map = fit(&dataset, &all(&dataset)).expect("fits");
        assert_eq!(map.layer().shape, [outputs, 4]);
        let first = fit_to(&dataset, &all(&dataset), 1).expect("fits");
        assert_eq!(first.layer().shape, [1, 4]);
        assert_eq!(first.layer().weight, map.layer().weight[..4]);
        assert_eq!(first.layer().bias, map.layer().bias[..1]);
    }
}

#[test]
fn one_feature_is_one_direction() {
    let dataset = dataset(&[1.0, 2.0, 5.0, 7.0], 1, &[0, 0, 1, 1]);
    let map = fit(&dataset, &all(&dataset)).expect("fits");
    let LayerWeights { weight, bias, .. } = map.layer();
    // The variance within classes is (1/4 + 1) / 2, the mean 3.75.
    assert!((weight[0].abs() - 0.625f32.sqrt().recip()).abs() < 1e-6);
    assert!((bias[0] / weight[0] + 3.75).abs() < 1e-6);
}

fn run(dataset: Dataset, sets: &[&str], budget: u64) -> RunReport {
    finished(&Rc::new(dataset), sets, budget).report()
}

fn finished(dataset: &Rc<Dataset>, sets: &[&str], budget: u64) -> Run {
    let config = sets.iter().fold(dataset.default_config(), |config, set| {
        config.with_set(set).expect("sets")
    });
    pollster::block_on(async {
        let engine = open(EngineKind::Cpu, budget);
        let mut run = Run::new(engine, Rc::clone(dataset), config)
            .await
            .expect("fits");
        while !run.is_finished() {
            run.next(u64::MAX).await.expect("goes on");
        }
        run
    })
}

const SMALL: [&str; 4] = [
    "steps=2",
    "batch_size=8",
    "memory_size=16",
    "hidden_layers=[8]",
];

#[test]
fn each_cut_is_tried_beside_a_constant_and_without() {
    let tried = |directions, most| -> Vec<String> {
        let cuts = LinearOutputs::worth_trying(directions, most, 0.5);
        assert!(cuts.iter().all(|outputs| outputs.count() <= most));
        let said = |outputs: &LinearOutputs| {
            let said = outputs.to_string();
            let without = said.strip_suffix(", shrinkage 0.50");
            without.expect("says the shrinkage").to_owned()
        };
        cuts.iter().map(said).collect()
    };
    // One direction is a sign without it.
    assert_eq!(tried(1, 64), ["1 output and a constant"]);
    assert_eq!(tried(2, 64), ["2 outputs and a constant", "2 outputs"]);
    // The head's outputs are the limit.
    assert_eq!(tried(2, 2), ["1 output and a constant", "2 outputs"]);
    let of_nine = [
        "8 outputs and a constant",
        "8 outputs",
        "9 outputs and a constant",
        "9 outputs",
    ];
    assert_eq!(tried(9, 64), of_nine);
    assert_eq!(
        tried(16, 16)[2..],
        ["15 outputs and a constant", "16 outputs"]
    );
}

/// 300 rows of this many classes that follow each other along a line, as the species of iris do.
fn in_a_row(classes: u32) -> Rc<Dataset> {
    let spread = |row: usize, values: &mut [f32]| values[0] += 0.9 * (row as u32 % classes) as f32;
    Rc::new(rows(300, classes, spread))
}

/// Part of the rows whose most similar row is of their class; ties with a row of another class count as wrong.
fn precision(rows: &[Vec<f64>], labels: &[u32], similarity: impl Fn(&[f64], &[f64]) -> f64) -> f64 {
    let right = (0..rows.len()).filter(|i| {
        let most = |same: bool| {
            let others = (0..rows.len()).filter(|j| j != i && (labels[*i] == labels[*j]) == same);
            let similar = others.map(|j| similarity(&rows[*i], &rows[j]));
            similar.fold(f64::NEG_INFINITY, f64::max)
        };
        most(true) > most(false)
    });
    right.count() as f64 / rows.len() as f64
}

/// Precision of the linear map on the test rows: as the run reports it; and by distance, by cosine and by cosine without the
/// constant, from its layer.
fn found(dataset: &Rc<Dataset>, sets: &[&str]) -> [f64; 4] {
    let mut run = finished(dataset, &[&SMALL[..], sets].concat(), 64 << 20);
    let baseline = run.baseline();
    assert!(baseline.linear_constant, "{baseline:?}");
    let said = baseline.linear.and_then(|linear| linear.test);
    let layer = run.trainer().linear_head().expect("fits");
    let test = &run.trainer().sides().test.clone();
    let [outputs, dim] = layer.shape;
    assert_eq!(baseline.linear_dimensions, Some(outputs - 1));
    let mut features = Vec::new();
    pollster::block_on(dataset.features.read(test, &mut features)).expect("reads");
    let place = |row: &[f32]| -> Vec<f64> {
        let along = |(weights, bias): (&[f32], &f32)| {
            let products = weights.iter().zip(row);
            products.fold(f64::from(*bias), |sum, (w, v)| {
                sum + f64::from(*w) * f64::from(*v)
            })
        };
        let outputs = layer.weight.chunks_exact(dim).zip(&layer.bias);
        outputs.map(along).collect()
    };
    let with: Vec<Vec<f64>> = features.chunks_exact(dim).map(place).collect();
    let constant = |row: &Vec<f64>| row[outputs - 1].to_bits() == with[0][outputs - 1].to_bits();
    assert!(with.iter().all(constant));
    let without: Vec<Vec<f64>> = with.iter().map(|row| row[..outputs - 1].to_vec()).collect();
    let labels = dataset.labels_of(test);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = |a: &[f64], b: &[f64]| dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt());
    let near = |a: &[f64], b: &[f64]| {
        let steps = a.iter().zip(b);
        -steps.map(|(a, b)| (a - b).powi(2)).sum::<f64>()
    };
    let found = [
        said.expect("scored").precision_at_1,
        precision(&with, &labels, near),
        precision(&with, &labels, cosine),
        precision(&without, &labels, cosine),
    ];
    println!("said, by distance, by cosine, without the constant: {found:.3?}");
    found
}

#[test]
fn few_classes_are_found_as_by_distance() {
    // With validation rows to choose by, and without.
    for validation in ["validation_fraction=0.2", "validation_fraction=0"] {
        // Without the constant a class in the middle of three has no direction, and of two all rows on a side are as near.
        for (classes, most_without) in [(3, 0.85), (2, 0.5)] {
            let sets = ["test_fraction=0.5", validation];
            let [said, distance, cosine, without] = found(&in_a_row(classes), &sets);
            assert!(distance > 0.85, "{distance}");
            assert!((said - distance).abs() < 0.05, "{said}, {distance}");
            assert!((cosine - distance).abs() < 0.05, "{cosine}, {distance}");
            assert!(without < most_without, "{without}, {distance}");
        }
    }
}

#[test]
fn where_no_row_chooses_many_directions_have_no_constant() {
    let sets = ["test_fraction=0.5", "validation_fraction=0"];
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let report = run(dataset, &[&SMALL[..], &sets].concat(), 64 << 20);
    let baseline = report.baseline;
    assert_eq!(baseline.linear_dimensions, Some(9));
    assert!(!baseline.linear_constant);
}

#[test]
fn a_run_scores_the_linear_map_on_the_queries_of_the_raw_features() {
    let dataset = Dataset::sample("digits", 0).expect("is there");
    let sets = [&SMALL[..], &["evaluate_queries=50", "seed=3"]].concat();
    let report = run(dataset, &sets, 256 << 20);
    let linear = report.baseline.linear.expect("fits");
    for (linear, raw) in [
        (linear.validation, report.baseline.raw.validation),
        (linear.test, report.baseline.raw.test),
    ] {
        let (linear, raw) = (linear.expect("scored"), raw.expect("scored"));
        assert_eq!(
            (linear.queries, linear.lone_queries),
            (raw.queries, raw.lone_queries)
        );
    }
    // Of scikit-learn's and scipy's parts, on four other random halves: 0.953 to 0.963 and 0.752 to 0.786.
    let test = linear.test.expect("scored");
    assert!((test.precision_at_1 - 0.96).abs() < 0.02, "{test:?}");
    assert!(
        (test.mean_average_precision_at_r - 0.753).abs() < 0.04,
        "{test:?}"
    );
}

/// Runs without a linear map, and returns the warning of it.
fn without_linear(dataset: Dataset, sets: &[&str], budget: u64) -> String {
    let sets = [
        &SMALL[..],
        &["test_fraction=0.5", "validation_fraction=0"],
        sets,
    ]
    .concat();
    let report = run(dataset, &sets, budget);
    assert_eq!(report.baseline.linear, None);
    assert!(!report.verdict.expect("finished").contains("linear map"));
    let mut texts = report.warnings.into_iter();
    let said = texts.find_map(|text| {
        text.strip_prefix(
            "The head is compared with raw features only, not with a linear map (LDA): ",
        )
        .map(str::to_owned)
    });
    assert!(texts.all(|text| !text.contains("linear map")), "said once");
    said.expect("is said")
}

#[test]
fn a_run_without_a_linear_map_says_why_and_goes_on() {
    let random = crate::common::random_rows(&mut crate::common::rng(1), 2100, 2052);
    let large = dataset(&random, 2052, &[0, 1].repeat(1050));
    assert_eq!(
        without_linear(large, &[], 256 << 20),
        "1050 training rows of 2052 features would take too long to fit it."
    );
    // Only the fit itself detects this.
    let equal = rows(24, 3, |row, values| values.fill((row % 3) as f32));
    assert!(without_linear(equal, &[], 64 << 20).starts_with("rows of a class vary in too few"));
}

#[test]
fn where_only_the_training_fits_the_budget_there_is_no_linear_map() {
    let dataset = || rows(24, 3, |_, _| ());
    let sides = ["test_fraction=0.5", "validation_fraction=0"];
    let sets = [&SMALL[..], &sides].concat();
    let config = sets.iter().fold(dataset().default_config(), |config, set| {
        config.with_set(set).expect("sets")
    });
    let plan = |budget| {
        let engine = open(EngineKind::Cpu, budget);
        Trainer::plan(
            &engine.room(),
            &dataset(),
            &config,
            &nearfar::Rate::default(),
        )
    };
    let has_linear =
        |budget| plan(budget).is_ok() && run(dataset(), &sets, budget).baseline.linear.is_some();
    // The least budget that has room for both.
    let (mut none, mut both) = (0, 64 << 20);
    assert!(has_linear(both));
    while both - none > 1 {
        let middle = none.midpoint(both);
        match has_linear(middle) {
            true => both = middle,
            false => none = middle,
        }
    }
    assert!(plan(none).is_ok(), "{none} bytes are enough to train");
    assert_eq!(
        without_linear(dataset(), &[], none),
        "the budget has no room for it beside the training."
    );
}
