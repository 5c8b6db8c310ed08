//! Training steps: everything from gathering a batch to the optimizer.

use std::rc::Rc;

use nearfar::bench::{Line, Measured, RULE, check};
use nearfar::reference::{self, PairOfAnchor, PairsOfAnchor};
use nearfar::{
    Dataset, Distance, Engine, Error, Labelled, Loss, Miner, Result, Standardize, TrainConfig,
    Trainer,
};
use rand::{RngExt as _, SeedableRng as _};

/// A model, a batch and a memory, and a loss by its name.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    loss: &'static str,
    dim: usize,
    hidden: usize,
    embedding: usize,
    batch: usize,
    memory: usize,
}

/// The default demo.
pub(crate) const SMALL: Workload = Workload {
    loss: "triplet-margin",
    dim: 64,
    hidden: 256,
    embedding: 64,
    batch: 32,
    memory: 1024,
};
/// Images of 28 x 28 pixels and a larger memory.
pub(crate) const LARGE: Workload = Workload {
    loss: "triplet-margin",
    dim: 784,
    hidden: 256,
    embedding: 128,
    batch: 128,
    memory: 8192,
};

const CLASSES: u32 = 100;

/// The default demo's model with each of these losses and memories; a loss with proxies, which uses no memory, once. Without lists
/// all losses, and memories from none to 65,536 rows.
///
/// # Errors
/// [`Error::Config`] for an unknown name, or a memory that is no number.
pub(crate) fn workloads(losses: Option<&str>, memories: Option<&str>) -> Result<Vec<Workload>> {
    let all = || Loss::ALL.iter().map(|(name, _)| *name);
    let losses: Vec<&'static str> = match losses {
        None => all().collect(),
        Some(list) => list
            .split(',')
            .map(|asked| {
                all().find(|name| *name == asked).ok_or_else(|| {
                    let names: Vec<&str> = all().collect();
                    Error::Config(format!(
                        "there is no loss \"{asked}\": there are {}",
                        names.join(", ")
                    ))
                })
            })
            .collect::<Result<_>>()?,
    };
    let memories: Vec<usize> = memories
        .unwrap_or("0,1024,16384,65536")
        .split(',')
        .map(|rows| {
            rows.parse().map_err(|_| {
                Error::Config(format!(
                    "memory is \"{rows}\": whole numbers with commas are expected"
                ))
            })
        })
        .collect::<Result<_>>()?;
    let of = |loss: &'static str| {
        let meets = TrainConfig::default()
            .with_set(&format!("loss.name={loss}"))
            .is_ok_and(|config| config.memory() > 0);
        let memories = if meets { &memories[..] } else { &[0] };
        memories.iter().map(move |&memory| Workload {
            loss,
            memory,
            ..SMALL
        })
    };
    Ok(losses.into_iter().flat_map(of).collect())
}

impl Workload {
    /// Random rows to train on, twice as many as the memory holds or more.
    fn dataset(&self) -> Result<Dataset> {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let rows = 2 * self.memory.max(1024);
        Dataset::new(Labelled {
            name: "random".to_owned(),
            values: (0..rows * self.dim)
                .map(|_| rng.random_range(-1.0..1.0))
                .collect(),
            dim: self.dim,
            labels: (0..rows)
                .map(|_| rng.random_range(0..CLASSES).to_string())
                .collect(),
            ..Labelled::default()
        })
    }

    fn config(&self, budget_bytes: u64) -> Result<TrainConfig> {
        let config = TrainConfig {
            test_fraction: 0.0,
            validation_fraction: 0.0,
            hidden_layers: vec![self.hidden],
            embedding_size: self.embedding,
            batch_size: self.batch,
            memory_size: self.memory,
            budget_bytes,
            // The rows are compared as they are with the f64 reference.
            standardize: Standardize::Off,
            ..TrainConfig::default()
        };
        let mut config = config.with_set(&format!("loss.name={}", self.loss))?;
        if config.loss.triplet_margin().is_none() {
            config.miner = Miner::None;
        }
        Ok(config)
    }
}

pub(crate) async fn measure(engine: Engine, recipe: &Workload, peak: f64) -> Result<Line> {
    let Workload {
        loss,
        dim,
        hidden,
        embedding,
        batch,
        memory,
    } = *recipe;
    let config = recipe.config(engine.ledger().budget_bytes())?;
    let mut trainer = Trainer::new(engine, Rc::new(recipe.dataset()?), config).await?;
    verify(&mut trainer).await?;
    // The memory is full before anything is timed.
    while trainer.step() < (memory / batch) as u64 {
        trainer.advance(u64::MAX).await?;
    }
    let engine = trainer.engine().clone();
    let measured = Measured::of(&engine, async || {
        let until = trainer.step() + 10;
        while trainer.step() < until {
            trainer.advance(until - trainer.step()).await?;
        }
        Ok(())
    })
    .await?;
    let forward = (dim * hidden + hidden * embedding) as f64;
    let operations = 10.0 * batch as f64 * (6.0 * forward + 2.0 * (memory * embedding) as f64);
    let name = match loss {
        "triplet-margin" => {
            format!("train 10 steps {dim}-{hidden}-{embedding}, {batch} x {memory}")
        }
        loss => format!("train 10 steps {loss}, {batch} x {memory}"),
    };
    let line = Line {
        rate: format!("{:.0} steps/s", 10.0 / measured.median_seconds()),
        memory_bytes: engine.ledger().live_bytes(),
        ..Line::new(name, &measured)
    };
    Ok(line.of_arithmetic(operations, peak))
}

/// Compares the first step's loss with the f64 reference on the same weights and rows.
async fn verify(trainer: &mut Trainer) -> Result<()> {
    let (weights, proxies) = (trainer.weights().await?, trainer.proxies().await?);
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
    let loss = &trainer.config().loss;
    if loss.triplet_margin().is_none() {
        let expected = match proxies.is_empty() {
            true => of_pairs(loss, &unit, &tags, dim, trainer.config().memory() == 0),
            false => of_proxies(loss, &unit, &tags, &proxies, dim),
        };
        let off = (report.loss - expected).abs();
        let near = off < 1e-4 * expected.max(1.0);
        return check(trainer.engine(), "the first step's loss", near);
    }
    let expected = reference::triplet_margin(&unit, &tags, &unit, &tags, dim, &RULE);
    let off = (report.loss - expected.loss).abs();
    check(trainer.engine(), "the first step's loss", off < 1e-4)?;
    check(
        trainer.engine(),
        "the first step's triplets",
        report.mining.valid == expected.valid,
    )
}

/// The loss of all pairs of a batch.
fn of_pairs(loss: &Loss, unit: &[f64], tags: &[[u32; 2]], dim: usize, own: bool) -> f64 {
    let rows: Vec<&[f64]> = unit.chunks(dim).collect();
    let anchors: Vec<PairsOfAnchor> = (0..rows.len())
        .map(|anchor| {
            let side = |positive: bool| {
                let others = (0..rows.len()).filter(|row| *row != anchor);
                let same = |row: &usize| (tags[*row][0] == tags[anchor][0]) == positive;
                let pairs = others.filter(same).map(|row| {
                    let similarity = reference::dot(rows[anchor], rows[row]);
                    PairOfAnchor {
                        similarity,
                        held: similarity,
                        times: 1.0,
                        other: own.then_some(row),
                    }
                });
                pairs.collect::<Vec<_>>()
            };
            let mut sides = [side(true), side(false)];
            if matches!(loss, Loss::Margin(_)) {
                // Each pair counts in every triplet of its anchor.
                let counts = sides.each_ref().map(|side| side.len() as f64);
                for (side, times) in sides.iter_mut().zip([counts[1], counts[0]]) {
                    side.iter_mut().for_each(|pair| pair.times = times);
                }
            }
            sides
        })
        .collect();
    reference::pair_loss(loss, Distance::Cosine, &anchors)
}

/// The loss of a batch with proxies, class by class.
fn of_proxies(loss: &Loss, unit: &[f64], tags: &[[u32; 2]], proxies: &[f32], dim: usize) -> f64 {
    let proxies: Vec<f64> = proxies.iter().map(|value| f64::from(*value)).collect();
    let proxies = reference::normalize(&proxies, dim);
    let each = proxies.len() / dim / CLASSES as usize;
    let similarities: Vec<Vec<Vec<f64>>> = unit
        .chunks(dim)
        .map(|row| {
            let all: Vec<f64> = proxies
                .chunks(dim)
                .map(|proxy| reference::dot(row, proxy))
                .collect();
            all.chunks(each).map(<[f64]>::to_vec).collect()
        })
        .collect();
    let labels: Vec<usize> = tags.iter().map(|[label, _]| *label as usize).collect();
    reference::proxy_loss(
        loss,
        Distance::Cosine,
        &similarities,
        &similarities,
        &labels,
        &vec![1.0; labels.len()],
    )
}
