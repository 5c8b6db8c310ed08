//! Scaling of features: its effect on the head, the baselines and the saved head.

use std::rc::Rc;

use crate::common::{engines, open};
use nearfar::{
    Dataset, Embedder, EngineKind, Labelled, Run, RunReport, Scaling, TrainConfig, Trainer,
};

/// 240 rows of 6 classes: two columns separate them, two columns of noise are 10,000 times as large, and one column is constant.
fn table() -> Vec<f32> {
    let noise = crate::common::random_rows(&mut crate::common::rng(7), 240, 4);
    let row = |(i, noise): (usize, &[f32])| {
        let class = (i % 6) as f32;
        [
            1.7 + 0.3 * (class % 3.0) + 0.02 * noise[0],
            -0.4 + 0.3 * (class / 3.0).floor() + 0.02 * noise[1],
            7e4 + 1e4 * noise[2],
            3e4 + 1e4 * noise[3],
            5.0,
        ]
    };
    noise.chunks_exact(4).enumerate().flat_map(row).collect()
}

fn dataset(values: Vec<f32>) -> Dataset {
    Dataset::new(Labelled {
        name: "table".to_owned(),
        dim: 5,
        labels: (0..values.len() / 5).map(|i| (i % 6).to_string()).collect(),
        values,
        ..Labelled::default()
    })
    .expect("has classes")
}

fn config(dataset: &Dataset, standardize: &str) -> TrainConfig {
    let sets = [
        standardize,
        "steps=100",
        "evaluate_every=50",
        "loss.name=triplet-margin",
        "miner.name=triplet-margin",
        "test_fraction=0.5",
        "validation_fraction=0.1",
        "batch_size=16",
        "memory_size=64",
        "hidden_layers=[8]",
        "embedding_size=4",
    ];
    sets.iter().fold(dataset.default_config(), |config, set| {
        config.with_set(set).expect("sets")
    })
}

fn run(kind: EngineKind, budget: u64, values: Vec<f32>, standardize: &str) -> RunReport {
    let dataset = dataset(values);
    let config = config(&dataset, standardize);
    pollster::block_on(async {
        let engine = open(kind, budget);
        let mut run = Run::new(engine, Rc::new(dataset), config)
            .await
            .expect("fits");
        while !run.is_finished() {
            run.next(u64::MAX).await.expect("goes on");
        }
        run.report()
    })
}

#[test]
fn head_and_baselines_see_the_same_scaled_features() {
    for kind in [EngineKind::Gpu, EngineKind::Cpu] {
        let scaled = run(kind, 64 << 20, table(), "standardize=true");
        assert!(scaled.data.standardized);
        // The same features scaled by hand beforehand, and then left unscaled.
        let by_hand = pollster::block_on(async {
            let dataset = Rc::new(dataset(table()));
            let config = config(&dataset, "standardize=true");
            let trainer = Trainer::new(open(kind, 64 << 20), dataset, config).await;
            let mut values = table();
            trainer.expect("fits").scaling().0.apply(&mut values);
            values
        });
        let plain = run(kind, 64 << 20, by_hand, "standardize=false");
        assert!(!plain.data.standardized);
        assert_eq!(scaled.history, plain.history, "{kind:?}");
        assert_eq!(scaled.evaluations, plain.evaluations, "{kind:?}");
        assert_eq!(scaled.baseline, plain.baseline, "{kind:?}");
        assert_eq!(scaled.r#final, plain.r#final, "{kind:?}");
        assert_eq!(scaled.verdict, plain.verdict, "{kind:?}");
    }
}

#[test]
fn columns_of_different_units_are_scaled_by_themselves_and_that_helps() {
    let auto = run(EngineKind::Cpu, 64 << 20, table(), "standardize=auto");
    let off = run(EngineKind::Cpu, 64 << 20, table(), "standardize=false");
    let precision = |report: &RunReport| {
        let test = report.r#final.and_then(|scores| scores.test);
        let raw = report.baseline.raw.test;
        [test, raw].map(|metrics| metrics.expect("a test side").precision_at_1)
    };
    let ([head, raw], [head_off, raw_off]) = (precision(&auto), precision(&off));
    assert!(head > head_off + 0.3, "{head}, {head_off}");
    assert!(raw > raw_off + 0.1, "{raw}, {raw_off}");
    let said = auto.data.notes.join(" ");
    assert!(
        said.contains("every feature scaled to mean 0 and spread 1")
            && said.contains("columns differ in size")
            && said.contains("one column is constant"),
        "{said}"
    );
    assert!(off.data.notes.iter().all(|note| !note.contains("scale")));
}

#[test]
fn a_saved_head_takes_rows_as_they_are_in_the_file() {
    for engine in engines() {
        let kind = engine.info().engine.clone();
        pollster::block_on(async {
            let dataset = Rc::new(dataset(table()));
            let config = config(&dataset, "standardize=auto");
            let mut trainer = Trainer::new(engine, Rc::clone(&dataset), config)
                .await
                .expect("fits");
            while trainer.step() < 100 {
                trainer.advance(100 - trainer.step()).await.expect("steps");
            }
            let rows: Vec<u32> = (0..240).collect();
            let within = trainer.embed(&rows).await.expect("embeds");
            let head = trainer.head().await.expect("reads");
            let cpu = open(EngineKind::Cpu, 64 << 20);
            let mut embedder = Embedder::new(cpu, &head).await.expect("fits");
            let outside = embedder.embed(&table()).await.expect("embeds");
            let off = within.values.iter().zip(&outside.values);
            let off = off.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{kind}: off by {off}");
            // Without the folding they are other rows altogether.
            let weights = trainer.weights().await.expect("reads");
            let cpu = open(EngineKind::Cpu, 64 << 20);
            let mut unfolded = Embedder::new(cpu, &weights).await.expect("fits");
            let wrong = unfolded.embed(&table()).await.expect("embeds");
            let off = within.values.iter().zip(&wrong.values);
            assert!(off.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) > 0.1);
        });
    }
}

#[test]
fn the_linear_baseline_comes_out_as_a_head_for_rows_as_they_are_in_the_file() {
    pollster::block_on(async {
        let dataset = Rc::new(dataset(table()));
        let config = config(&dataset, "standardize=true");
        let engine = open(EngineKind::Cpu, 64 << 20);
        let mut run = Run::new(engine, Rc::clone(&dataset), config)
            .await
            .expect("fits");
        assert_eq!(run.trainer().linear_head(), None, "nothing is fitted yet");
        while !run.is_finished() {
            run.next(u64::MAX).await.expect("goes on");
        }
        let layer = run.trainer().linear_head().expect("fits");
        let scores = run.baseline().linear.and_then(|linear| linear.test);
        let rows = run.trainer().sides().test.clone();
        let values: Vec<f32> = rows
            .iter()
            .flat_map(|row| table()[*row as usize * 5..][..5].to_vec())
            .collect();
        let cpu = open(EngineKind::Cpu, 64 << 20);
        let mut embedder = Embedder::new(cpu, &[layer]).await.expect("fits");
        let unit = embedder.embed(&values).await.expect("embeds");
        let unit: Vec<&[f32]> = unit.rows().collect();
        let right = (0..unit.len()).filter(|i| {
            let similarity =
                |j: &usize| -> f32 { unit[*i].iter().zip(unit[*j]).map(|(a, b)| a * b).sum() };
            let others = (0..unit.len()).filter(|j| j != i);
            let nearest = others.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
            nearest.is_some_and(|nearest| rows[nearest] % 6 == rows[*i] % 6)
        });
        let precision = right.count() as f64 / unit.len() as f64;
        assert!((precision - scores.expect("scored").precision_at_1).abs() < 0.02);
    });
}

#[test]
fn a_linear_head_that_starts_at_the_linear_map_scores_as_it_before_the_first_step() {
    let sets = ["hidden_layers=[]", "initial_weights=lda", "steps=1"];
    // The map has so many of the head's outputs.
    for (sample, outputs, size) in [
        ("many-classes", "16 outputs and a constant", 64),
        ("many-classes", "16 outputs", 16),
        ("digits", "9 outputs", 64),
    ] {
        pollster::block_on(async {
            let dataset = Rc::new(Dataset::sample(sample, 0).expect("is there"));
            let size = format!("embedding_size={size}");
            let sets = sets.iter().copied().chain([size.as_str()]);
            let config = sets.fold(dataset.default_config(), |config, set| {
                config.with_set(set).expect("sets")
            });
            let engine = open(EngineKind::Cpu, 256 << 20);
            let trainer = Trainer::new(engine, dataset, config).await;
            let mut trainer = trainer.expect("fits");
            let start = trainer.evaluate().await.expect("evaluates");
            let linear = trainer.score_linear(nearfar::Side::Validation).await;
            let linear = linear.expect("scores").expect("is there");
            let chosen = trainer.linear_outputs().map(|outputs| outputs.to_string());
            let chosen = chosen.expect("fits");
            assert!(chosen.starts_with(outputs), "{sample}: {chosen}");
            assert_eq!(start.validation.expect("scored"), linear, "{sample}");
        });
    }
    let refused = TrainConfig::default()
        .with_set("initial_weights=lda")
        .expect("has the type")
        .check()
        .expect_err("has a hidden layer");
    assert!(
        refused.to_string().contains("set hidden_layers to []"),
        "{refused}"
    );
}

#[test]
fn the_setting_reads_and_writes_false_true_and_auto() {
    for (text, json) in [("false", "false"), ("true", "true"), ("auto", "\"auto\"")] {
        let config = TrainConfig::default().with_set(&format!("standardize={text}"));
        let config = config.expect("sets");
        let written = serde_json::to_value(&config).expect("plain data");
        assert_eq!(written["standardize"].to_string(), json);
        let json = written.to_string();
        assert_eq!(
            TrainConfig::default().with_json(&json).expect("reads"),
            config
        );
    }
    let refused = TrainConfig::default().with_set("standardize=maybe");
    let refused = refused.expect_err("refused").to_string();
    assert!(refused.contains("must be false, true or auto"), "{refused}");
    assert_eq!(Scaling::none(2).scale, [1.0, 1.0]);
}
