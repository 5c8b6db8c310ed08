//! Rows to check among all rows, each by a head that did not train on it: a head can be taught a wrong label, and then vouches for it.

use std::rc::Rc;

use crate::base::error::{Error, Result};
use crate::base::memory::reserve;
use crate::base::working::Working;
use crate::data::{Dataset, RowSource, Sides};
use crate::engine::Engine;
use crate::model::scaling::Scaling;
use crate::rules::config::TrainConfig;
use crate::rules::early_stop::EarlyStop;
use crate::search::knn::{KnnIndex, Neighbors};
use crate::search::rows_to_check::RowsToCheck;
use crate::train::trainer::Trainer;

/// Neighbours that are looked at.
const NEIGHBOURS: usize = 10;
/// Most folds.
const MOST_FOLDS: usize = 20;

impl RowsToCheck {
    /// Checks all rows of the data by folds: for each, a head is trained with these settings on the rows of the others, and its rows
    /// look for their neighbours there. Beside it stands what the features say without any head, each row among all others.
    ///
    /// # Errors
    /// As [`Trainer::new`] and [`Trainer::advance`]; [`Error::Config`] for other than 2 to 20 folds, or fewer rows than these need.
    pub async fn by_folds(
        engine: &Engine,
        dataset: &Rc<Dataset>,
        config: &TrainConfig,
        folds: usize,
    ) -> Result<Self> {
        let rows: Vec<u32> = (0..dataset.rows() as u32).collect();
        let least = rows.len() - rows.len().div_ceil(folds.max(1));
        if !(2..=MOST_FOLDS).contains(&folds) || least <= NEIGHBOURS {
            return Err(Error::Config(format!(
                "{folds} folds of {} rows: there must be 2 to {MOST_FOLDS}, and more than {NEIGHBOURS} rows to train on",
                rows.len()
            )));
        }
        let config = TrainConfig {
            early_stop: EarlyStop::default(),
            ..config.clone()
        };
        let count = rows.len() * NEIGHBOURS;
        let mut found = Neighbors {
            k: NEIGHBOURS,
            ids: vec![0; count],
            similarities: vec![0.0; count],
        };
        let sides = Sides::folds(dataset, &rows, None, folds, config.data_seed());
        for (fold, sides) in sides.into_iter().enumerate() {
            let place = format!("checking labels, head {} of {folds}", fold + 1);
            let held = sides.validation.clone();
            let near = of_fold(engine, dataset, &config, sides, place).await?;
            for (row, near) in held.iter().zip(near) {
                let at = *row as usize * NEIGHBOURS;
                for (place, (id, similarity)) in (at..).zip(near) {
                    (found.ids[place], found.similarities[place]) = (id, similarity);
                }
            }
        }
        let raw = of_features(engine, dataset, &config, &rows).await?;
        let names = dataset.labels.iter();
        let labels: Vec<String> = names
            .map(|label| dataset.class_names[*label as usize].clone())
            .collect();
        Ok(Self::beside(&rows, &labels, &found, Some(&raw)))
    }
}

/// Trains a head on one part of the rows; returns for each row of the other part its nearest rows of the first, with similarities.
async fn of_fold(
    engine: &Engine,
    dataset: &Rc<Dataset>,
    config: &TrainConfig,
    sides: Sides,
    what: String,
) -> Result<Vec<Vec<(u32, f32)>>> {
    let Sides {
        train, validation, ..
    } = sides;
    // Not even the choices of the linear map that it may start from see the rows that are held out.
    let of_training = Sides {
        train: train.clone(),
        ..Sides::default()
    };
    let (owned, shared) = (engine.clone(), Rc::clone(dataset));
    let mut trainer = Trainer::on(owned, shared, config.clone(), of_training).await?;
    trainer = trainer.with_first_weights().await?;
    while trainer.step() < config.steps {
        engine.breathe().await?;
        trainer.advance(config.steps - trainer.step()).await?;
        engine.hear(Working {
            what: what.clone(),
            unit: "steps".to_owned(),
            done: trainer.step(),
            total: config.steps,
        });
    }
    let (references, queries) = (
        trainer.embed(&train).await?,
        trainer.embed(&validation).await?,
    );
    drop(trainer);
    engine.settle().await?;
    let [references, queries] = [references, queries].map(|rows| RowSource::Memory {
        values: rows.values,
        dim: rows.dim,
    });
    let mut index = KnnIndex::new(engine, &references, Some(&queries), NEIGHBOURS).await?;
    let near = index.search(Some(&queries), |_, _| {}).await?;
    let similarities = near.similarities.chunks_exact(NEIGHBOURS);
    let lists = near.ids.chunks_exact(NEIGHBOURS).zip(similarities);
    let row = |(id, similarity): (&u32, &f32)| (train[*id as usize], *similarity);
    Ok(lists
        .map(|(ids, similarities)| ids.iter().zip(similarities).map(row).collect())
        .collect())
}

/// The nearest rows of every row by its features, scaled as a head would see them.
async fn of_features(
    engine: &Engine,
    dataset: &Dataset,
    config: &TrainConfig,
    rows: &[u32],
) -> Result<Neighbors> {
    engine.settle().await?;
    let decided = Scaling::decide(engine, dataset, rows, config.standardize, true).await?;
    let (mut values, dim) = (Vec::new(), dataset.features.dim());
    reserve(&mut values, (rows.len() * dim) as u64, "the features")?;
    dataset.features.read(rows, &mut values).await?;
    decided.scaling.apply(&mut values);
    let features = RowSource::Memory { values, dim };
    let mut index = KnnIndex::new(engine, &features, None, NEIGHBOURS).await?;
    index.search(None, |_, _| {}).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng;
    use crate::data::Labelled;
    use crate::engine::device::{EngineChoice, EngineKind};

    use rand::RngExt as _;

    /// Clouds that overlap, of uneven sizes, with a fiftieth of the labels changed; and which.
    fn clouds() -> (Dataset, Vec<u32>) {
        let mut rng = rng::stream(5, "clouds");
        let sizes = [300, 200, 120, 60, 40];
        let centres: Vec<[f64; 8]> = sizes
            .map(|_| [0.0; 8].map(|_| 1.5 * rng::normal(&mut rng)))
            .into();
        let (mut values, mut labels, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for (class, size) in sizes.into_iter().enumerate() {
            for _ in 0..size {
                let row = centres[class].map(|centre| (centre + rng::normal(&mut rng)) as f32);
                values.extend(row);
                let is_changed = rng.random_range(0..50) == 0;
                if is_changed {
                    changed.push(labels.len() as u32);
                }
                labels.push((class + usize::from(is_changed)) % sizes.len());
            }
        }
        let dataset = Dataset::new(Labelled {
            values,
            dim: 8,
            labels: labels.iter().map(usize::to_string).collect(),
            ..Labelled::default()
        });
        (dataset.expect("classes"), changed)
    }

    #[test]
    fn labels_that_were_changed_are_found_on_every_side_by_heads_that_did_not_learn_them() {
        let (dataset, changed) = clouds();
        let dataset = Rc::new(dataset);
        let choice = EngineChoice {
            kind: Some(EngineKind::Cpu),
            ..EngineChoice::default()
        };
        let engine = pollster::block_on(Engine::open(&choice, 64 << 20)).expect("opens");
        let sets = [
            "steps=100",
            "batch_size=32",
            "memory_size=0",
            "hidden_layers=[32]",
        ];
        let config = dataset
            .default_config()
            .with_all(sets.map(str::to_owned).iter())
            .expect("sets");
        let by_folds =
            |folds| pollster::block_on(RowsToCheck::by_folds(&engine, &dataset, &config, folds));
        let check = by_folds(5).expect("checks");
        assert_eq!(check.rows, 720);
        let by_head = check.suspects.iter().filter(|of| of.is_clear(of.votes));
        let rows: Vec<u32> = by_head.map(|of| of.row).collect();
        let right = rows.iter().filter(|row| changed.contains(row)).count();
        println!(
            "{right} of {} changed labels in {} rows",
            changed.len(),
            rows.len()
        );
        assert!(4 * right >= 3 * changed.len() && 10 * right >= 6 * rows.len());
        assert!(check.suspects.iter().all(|of| of.by_features.is_some()));
        let again = by_folds(5).expect("checks");
        assert_eq!(check, again, "the same every time");
        let refused = by_folds(1).expect_err("one is none").to_string();
        assert!(refused.contains("1 folds of 720 rows"), "{refused}");
    }
}
