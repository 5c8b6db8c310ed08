//! Training steps: everything from gathering a batch to the optimizer.

use std::rc::Rc;

use nearfar::bench::{Line, Times, check};
use nearfar::kernels::triplet_margin::{Kind, Rule};
use nearfar::{Dataset, Distance, Engine, Labelled, Result, TrainConfig, Trainer, reference};
use rand::{RngExt as _, SeedableRng as _};

/// A model, a batch and a memory.
pub(crate) struct Recipe {
    dim: usize,
    hidden: usize,
    embedding: usize,
    batch: usize,
    memory: usize,
}

/// The default demo.
pub(crate) const SMALL: Recipe = Recipe {
    dim: 64,
    hidden: 256,
    embedding: 64,
    batch: 32,
    memory: 1024,
};
/// Images of 28 x 28 pixels and a larger memory.
pub(crate) const LARGE: Recipe = Recipe {
    dim: 784,
    hidden: 256,
    embedding: 128,
    batch: 128,
    memory: 8192,
};

const CLASSES: u32 = 100;

pub(crate) async fn measure(engine: Engine, recipe: &Recipe, peak: f64) -> Result<Line> {
    let Recipe {
        dim,
        hidden,
        embedding,
        batch,
        memory,
    } = *recipe;
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
    let rows = 2 * memory;
    let dataset = Rc::new(Dataset::new(Labelled {
        name: "random".to_owned(),
        values: (0..rows * dim)
            .map(|_| rng.random_range(-1.0..1.0))
            .collect(),
        dim,
        labels: (0..rows)
            .map(|_| rng.random_range(0..CLASSES).to_string())
            .collect(),
        ..Labelled::default()
    })?);
    let config = TrainConfig {
        test_fraction: 0.0,
        validation_fraction: 0.0,
        hidden_layers: vec![hidden],
        embedding_size: embedding,
        batch_size: batch,
        memory_size: memory,
        budget_bytes: engine.ledger().budget_bytes(),
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(engine, Rc::clone(&dataset), config).await?;
    verify(&mut trainer).await?;
    // The memory is full before anything is timed.
    while trainer.step() < (memory / batch) as u64 {
        trainer.advance(u64::MAX).await?;
    }
    let before = trainer.step();
    let times = Times::of(async || {
        let until = trainer.step() + 10;
        while trainer.step() < until {
            trainer.advance(until - trainer.step()).await?;
        }
        Ok(())
    })
    .await?;
    assert!(trainer.step() > before);
    let forward = (dim * hidden + hidden * embedding) as f64;
    let operations = 10.0 * batch as f64 * (6.0 * forward + 2.0 * (memory * embedding) as f64);
    let name = format!("train 10 steps {dim}-{hidden}-{embedding}, {batch} x {memory}");
    let line = Line {
        rate: format!("{:.0} steps/s", 10.0 / times.median_seconds()),
        memory_bytes: trainer.engine().ledger().live_bytes(),
        ..Line::new(name, &times)
    };
    Ok(line.of_arithmetic(operations, Some(peak)))
}

/// Compares the first step's loss with the f64 reference on the same weights and rows.
async fn verify(trainer: &mut Trainer) -> Result<()> {
    let weights = trainer.weights().await?;
    let rows: Vec<u32> = (0..trainer.config().batch_size as u32).collect();
    let report = trainer.step_on(&rows).await?;
    let dataset = trainer.dataset();
    let mut values = Vec::new();
    dataset.features.read(&rows, &mut values).await?;
    let mut layer_in: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
    for (i, layer) in weights.iter().enumerate() {
        let [outputs, inputs] = layer.shape;
        let mut out = Vec::new();
        for row in layer_in.chunks(inputs) {
            for o in 0..outputs {
                let w: Vec<f64> = layer.weight[o * inputs..][..inputs]
                    .iter()
                    .map(|w| f64::from(*w))
                    .collect();
                let y = reference::dot(row, &w) + f64::from(layer.bias[o]);
                out.push(if i + 1 < weights.len() { y.max(0.0) } else { y });
            }
        }
        layer_in = out;
    }
    let dim = trainer.config().embedding_size;
    let unit = reference::normalize(&layer_in, dim);
    let tags: Vec<[u32; 2]> = rows
        .iter()
        .zip(0..)
        .map(|(row, id)| [dataset.labels[*row as usize], id])
        .collect();
    let rule = Rule {
        distance: Distance::Cosine,
        kind: Kind::Semihard,
        miner_margin: 0.2,
        loss_margin: 0.2,
    };
    let expected = reference::triplet_margin(&unit, &tags, &unit, &tags, dim, &rule);
    let off = (report.loss - expected.loss).abs();
    check(trainer.engine(), "the first step's loss", off < 1e-4)?;
    check(
        trainer.engine(),
        "the first step's triplets",
        report.mining.valid == expected.valid,
    )
}
