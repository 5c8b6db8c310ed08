//! Miners against nested loops and lists written by hand, through a head that leaves the features as they are.

use std::rc::Rc;

use crate::common::engines;
use nearfar::{
    Dataset, Engine, Labelled, LayerWeights, MiningCounts, StepReport, TrainConfig, Trainer, Tuples,
};

/// A trainer on rows at these angles, in degrees, of these classes; the embeddings are the points of the circle.
async fn trainer(engine: Engine, angles: &[f64], labels: &[u32], sets: &[&str]) -> Trainer {
    let point = |angle: &f64| {
        [
            angle.to_radians().cos() as f32,
            angle.to_radians().sin() as f32,
        ]
    };
    let dataset = Dataset::new(Labelled {
        name: "circle".to_owned(),
        values: angles.iter().flat_map(point).collect(),
        dim: 2,
        labels: labels.iter().map(u32::to_string).collect(),
        ..Labelled::default()
    });
    let mut config = TrainConfig {
        // The expected values were counted on unscaled rows.
        standardize: nearfar::Standardize::Off,
        test_fraction: 0.0,
        validation_fraction: 0.0,
        hidden_layers: Vec::new(),
        embedding_size: 2,
        batch_size: angles.len(),
        memory_size: 0,
        ..TrainConfig::default()
    };
    for set in sets {
        config = config.with_set(set).expect("sets");
    }
    let dataset = Rc::new(dataset.expect("two classes"));
    Trainer::new(engine, dataset, config).await.expect("fits")
}

/// One step on these rows, with a head that is the identity.
async fn step_on(trainer: &mut Trainer, rows: &[u32]) -> StepReport {
    let identity = LayerWeights {
        index: 0,
        shape: [2, 2],
        weight: vec![1.0, 0.0, 0.0, 1.0],
        bias: vec![0.0; 2],
        ..LayerWeights::default()
    };
    trainer.set_weights(&[identity]).await.expect("takes them");
    trainer.step_on(rows).await.expect("steps")
}

/// One step on all rows.
fn step(engine: Engine, angles: &[f64], labels: &[u32], sets: &[&str]) -> StepReport {
    let rows: Vec<u32> = (0..angles.len() as u32).collect();
    pollster::block_on(async {
        let mut trainer = trainer(engine, angles, labels, sets).await;
        step_on(&mut trainer, &rows).await
    })
}

#[test]
fn triplets_of_five_rows_written_by_hand() {
    // Two of class 0 at 0 and 20 degrees, three of class 1 at 30, 90 and 100.
    let angles = [0.0, 20.0, 30.0, 90.0, 100.0];
    let labels = [0, 0, 1, 1, 1];
    // Anchors of class 0 have one positive and three negatives, those of class 1 two and two: 6 + 12 triplets, by angles.
    // Hard, the negative at least as near: (20, 0, 30) (30, 90, 0) (30, 90, 20) (30, 100, 0) (30, 100, 20).
    // Semihard, nearer by less than 0.2: (0, 20, 30) by 0.074, (90, 30, 20) by 0.158, (100, 30, 20) by 0.168.
    let expected = MiningCounts {
        of: Tuples::Triplets,
        anchors: 5,
        valid: 18,
        easy: 10,
        semihard: 3,
        hard: 5,
        mined: 3,
        active: 3,
    };
    let cos = |degrees: f64| degrees.to_radians().cos();
    let semihard = [
        cos(20.0) - cos(30.0),
        cos(60.0) - cos(70.0),
        cos(70.0) - cos(80.0),
    ];
    let loss = 0.2 - semihard.iter().sum::<f64>() / 3.0;
    for engine in engines() {
        let report = step(engine, &angles, &labels, &[]);
        assert_eq!(report.mining, expected);
        assert!((report.loss - loss).abs() < 1e-6, "{}", report.loss);
    }
}

#[test]
fn every_type_and_margin_counts_as_nested_loops_do() {
    // Angles without two triplets at the same margin.
    let angles: Vec<f64> = (0..16)
        .map(|i| f64::from(i * i * 7 % 101) * 3.3 + f64::from(i) * 0.37)
        .collect();
    let labels: Vec<u32> = (0..16).map(|i| i * 5 % 3).collect();
    let similarity = |a: usize, b: usize| (angles[a] - angles[b]).to_radians().cos();
    for margin in [-0.05, 0.0, 0.1, 0.2, 0.5] {
        for kind in ["all", "easy", "semihard", "hard"] {
            for loss_margin in [0.05, 0.3] {
                let (mut mined, mut active, mut loss) = (0, 0, 0.0);
                for a in 0..16 {
                    for p in (0..16).filter(|p| *p != a && labels[*p] == labels[a]) {
                        for n in (0..16).filter(|n| labels[*n] != labels[a]) {
                            let tm = similarity(a, p) - similarity(a, n);
                            let kept = match kind {
                                "all" => tm <= margin,
                                "easy" => tm > margin,
                                "semihard" => tm <= margin && tm > 0.0,
                                _ => tm <= margin && tm <= 0.0,
                            };
                            mined += u64::from(kept);
                            if kept && loss_margin - tm > 0.0 {
                                active += 1;
                                loss += loss_margin - tm;
                            }
                        }
                    }
                }
                let sets = [
                    format!("miner.margin={margin}"),
                    format!("miner.type_of_triplets={kind}"),
                    format!("loss.margin={loss_margin}"),
                ];
                let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
                for engine in engines() {
                    let report = step(engine, &angles, &labels, &sets);
                    assert_eq!(
                        (report.mining.mined, report.mining.active),
                        (mined, active),
                        "{sets:?}"
                    );
                    let mean = if active == 0 {
                        0.0
                    } else {
                        loss / active as f64
                    };
                    assert!(
                        (report.loss - mean).abs() < 1e-6,
                        "{sets:?}: {}, {mean}",
                        report.loss
                    );
                }
            }
        }
    }
}

#[test]
fn memory_as_large_as_the_batch_equals_the_plain_loss() {
    let angles: Vec<f64> = (0..12).map(|i| f64::from(i * i * 13 % 97) * 3.7).collect();
    let labels: Vec<u32> = (0..12).map(|i| i % 4).collect();
    for (plain, with_memory) in engines().into_iter().zip(engines()) {
        let plain = step(plain, &angles, &labels, &[]);
        let with_memory = step(with_memory, &angles, &labels, &["memory_size=12"]);
        assert_eq!(plain.mining, with_memory.mining);
        assert!((plain.loss - with_memory.loss).abs() < 1e-6);
    }
}

#[test]
fn no_triplets_when_all_labels_differ() {
    let labels: Vec<u32> = (0..6).collect();
    for engine in engines() {
        let report = step(engine, &[0.0, 10.0, 50.0, 90.0, 200.0, 300.0], &labels, &[]);
        assert_eq!((report.mining.valid, report.loss), (0, 0.0));
    }
}

/// Pairs of the anchors, which were stored last, in each bin of similarity, by loops: `[positives, negatives]`.
fn by_loops(angles: &[f64], labels: &[u32], memory: &[u32], anchors: usize) -> [Vec<u64>; 2] {
    let similarity = |a: u32, b: u32| (angles[a as usize] - angles[b as usize]).to_radians().cos();
    let label = |row: u32| labels[row as usize];
    let mut pairs = [vec![0; 64], vec![0; 64]];
    for a in memory.len() - anchors..memory.len() {
        for (_, row) in memory.iter().enumerate().filter(|(id, _)| *id != a) {
            let s = similarity(memory[a], *row);
            let of = usize::from(label(*row) != label(memory[a]));
            pairs[of][((s + 1.0) * 32.0).min(63.0) as usize] += 1;
        }
    }
    pairs
}

#[test]
fn pairs_and_ages_are_those_of_the_memory_as_rows_come_and_go() {
    // Angles without a similarity at a bound of a bin.
    let angles: Vec<f64> = (0..12)
        .map(|i| f64::from(i * i * 7 % 101) * 3.3 + f64::from(i) * 0.37)
        .collect();
    let labels: Vec<u32> = (0..12).map(|i| i * 5 % 3).collect();
    // Row 7 comes back while its older copy is still there.
    let batches = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 7, 10, 11], [1, 9, 3, 0]];
    let ages = [(0, 0.0), (1, 0.5), (2, 8.0 / 10.0), (2, 8.0 / 10.0)];
    for engine in engines() {
        pollster::block_on(async {
            let sets = ["batch_size=4", "memory_size=10"];
            let mut trainer = trainer(engine, &angles, &labels, &sets).await;
            let mut memory = Vec::new();
            for (batch, (oldest, mean)) in batches.iter().zip(ages) {
                step_on(&mut trainer, batch).await;
                memory.extend(batch);
                memory.drain(..memory.len().saturating_sub(10));
                let [positives, negatives] = by_loops(&angles, &labels, &memory, 4);
                let pairs = trainer.pairs().expect("a step");
                assert_eq!(pairs.step, trainer.step());
                assert_eq!(
                    (&pairs.positives, &pairs.negatives),
                    (&positives, &negatives)
                );
                let age = trainer.memory_age();
                assert_eq!((age.oldest, age.mean), (oldest, mean));
            }
        });
    }
}

#[test]
fn of_a_slice_the_last_step_is_told_of() {
    let angles: Vec<f64> = (0..12).map(|i| f64::from(i * i * 13 % 97) * 3.7).collect();
    let labels: Vec<u32> = (0..12).map(|i| i % 4).collect();
    for engine in engines() {
        pollster::block_on(async {
            let sets = ["batch_size=4", "memory_size=8"];
            let mut trainer = trainer(engine, &angles, &labels, &sets).await;
            while trainer.step() < 12 {
                let last = trainer.advance(12 - trainer.step()).await.expect("steps");
                let step = last.last().expect("one at least").step;
                let pairs = trainer.pairs().expect("counted");
                let count = pairs.positives.iter().chain(&pairs.negatives).sum::<u64>();
                // Every anchor with all but its own copy: those of this step alone.
                assert_eq!((pairs.step, count), (step, 4 * (4 * step).min(8) - 4));
            }
        });
    }
}
