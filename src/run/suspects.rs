//! Rows to check among all rows, each by a head that did not train on it: a head can be taught a wrong label, and then vouches for it.

use std::rc::Rc;

use crate::base::error::{Error, Result};
use crate::base::memory::reserve;
use crate::base::working::Working;
use crate::data::{Dataset, RowSource, Sides};
use crate::engine::Engine;
use crate::model::embeddings::Embeddings;
use crate::model::scaling::Scaling;
use crate::rules::config::TrainConfig;
use crate::rules::early_stop::EarlyStop;
use crate::search::knn::{KnnIndex, Neighbors};
use crate::search::rows_to_check::{Beside, RowsToCheck};
use crate::train::trainer::Trainer;

/// Neighbours that are looked at.
const NEIGHBOURS: usize = 10;
/// Most folds.
const MOST_FOLDS: usize = 20;

impl RowsToCheck {
    /// Checks all rows of the data by folds: for each, a head is trained with these settings on the rows of the others, and its rows
    /// look for their neighbours there. Rows of one group are in one fold, of which there are then as many as groups at most. Beside
    /// it stands what the features say without any head, each row among all others.
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
        let sides = dealt(dataset, &rows, config, folds)?;
        let folds = sides.len();
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
        let mut margins = vec![0.0; rows.len()];
        for (fold, sides) in sides.into_iter().enumerate() {
            let place = format!("checking labels, head {} of {folds}", fold + 1);
            let held = sides.validation.clone();
            let (near, off) = of_fold(engine, dataset, &config, sides, place).await?;
            for (row, off) in held.iter().zip(off) {
                margins[*row as usize] = off;
            }
            for (row, near) in held.iter().zip(near) {
                let at = *row as usize * NEIGHBOURS;
                for (place, (id, similarity)) in (at..).zip(near) {
                    (found.ids[place], found.similarities[place]) = (id, similarity);
                }
            }
        }
        let beside = Beside {
            by_features: of_features(engine, dataset, &config, &rows).await?,
            margins,
        };
        let names = dataset.labels.iter();
        let labels: Vec<String> = names
            .map(|label| dataset.class_names[*label as usize].clone())
            .collect();
        Ok(Self::beside(&rows, &labels, &found, Some(&beside)))
    }
}

/// The sides of each fold.
fn dealt(
    dataset: &Dataset,
    rows: &[u32],
    config: &TrainConfig,
    folds: usize,
) -> Result<Vec<Sides>> {
    let groups = dataset.groups(config)?;
    let count = groups.iter().flatten().max().map(|last| *last as usize + 1);
    let folds = folds.min(count.unwrap_or(folds));
    let sides = match (2..=MOST_FOLDS).contains(&folds) {
        true => Sides::folds(dataset, rows, groups.as_deref(), folds, config.data_seed()),
        false => Vec::new(),
    };
    let fewest = sides.iter().map(|sides| sides.train.len()).min();
    if fewest.is_none_or(|fewest| fewest <= NEIGHBOURS) {
        return Err(Error::Config(format!(
            "{folds} folds of {} rows: there must be 2 to {MOST_FOLDS}, and more than {NEIGHBOURS} rows to train on",
            rows.len()
        )));
    }
    Ok(sides)
}

/// Trains a head on one part of the rows; returns for each row of the other part its nearest rows of the first, with similarities, and by
/// how much nearer it lies to the mean of another class than to that of its own.
async fn of_fold(
    engine: &Engine,
    dataset: &Rc<Dataset>,
    config: &TrainConfig,
    sides: Sides,
    what: String,
) -> Result<(Vec<Vec<(u32, f32)>>, Vec<f32>)> {
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
    let labels = [&train, &validation].map(|rows| dataset.labels_of(rows));
    let margins = margins(&references, &queries, &labels, dataset.class_names.len());
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
    let lists = lists.map(|(ids, similarities)| ids.iter().zip(similarities).map(row).collect());
    Ok((lists.collect(), margins))
}

/// By how much nearer each query lies, in cosine, to the mean of the references of another class than to that of its own.
fn margins(
    references: &Embeddings,
    queries: &Embeddings,
    [known, asked]: &[Vec<u32>; 2],
    classes: usize,
) -> Vec<f32> {
    let dim = references.dim;
    let mut means = vec![0.0; classes * dim];
    for (row, class) in references.rows().zip(known) {
        let mean = &mut means[*class as usize * dim..][..dim];
        mean.iter_mut()
            .zip(row)
            .for_each(|(sum, value)| *sum += value);
    }
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for mean in means.chunks_exact_mut(dim) {
        let length = dot(mean, mean).sqrt();
        mean.iter_mut()
            .for_each(|value| *value /= length.max(f32::MIN_POSITIVE));
    }
    let of_query = |(row, class): (&[f32], &u32)| {
        let cosines = means.chunks_exact(dim).map(|mean| dot(mean, row));
        let others = cosines.enumerate().filter(|(at, _)| *at != *class as usize);
        let nearest = others.fold(-1.0, |most: f32, (_, cosine)| most.max(cosine));
        nearest - dot(&means[*class as usize * dim..][..dim], row)
    };
    queries.rows().zip(asked).map(of_query).collect()
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
