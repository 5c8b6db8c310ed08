//! [`Setup`]: a run before it starts: sides, sampler, sizes, and the memory plan that follows from them.

use super::sizes::Sizes;
use crate::base::error::{Error, Result};
use crate::base::forecast::MiningMethod;
use crate::base::order;
use crate::base::rng;
use crate::data::{Dataset, Side, Sides};
use crate::mining::row_work::RowWork;
use crate::rules::config::{Split, TrainConfig};
use crate::search::rows;
use crate::train::batches::Batches;

/// Upper bound of the dispatches of a step outside of mining; there are fewer than this.
pub(super) const STEP_DISPATCHES: u32 = 32;
/// The fewest rows that validation rows are ranked among, if at least as many train.
const ENOUGH_SEARCHED: usize = 4096;
/// Training rows that are scored for comparison if there is no validation side to match.
const PROBE_ROWS: usize = 2000;

/// Common start of [`super::Trainer::new`] and [`super::Trainer::plan`].
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) sides: Sides,
    /// Rows of the validation side that are scored while training.
    pub(super) watched: Vec<u32>,
    /// Training rows that are scored beside them, so that the two scores are comparable.
    pub(super) probe: Vec<u32>,
    /// Training rows that validation rows are ranked among too; empty if there are validation rows enough, or if their classes
    /// never train. A side of a few rows holds too few of a class to be scored within itself.
    pub(super) beside: Vec<u32>,
    /// Group of each row of the data, if a row's own group is left out of its neighbours.
    groups: Option<Vec<u32>>,
    pub(super) sampler: Batches,
    pub(super) sizes: Sizes,
}

impl Setup {
    pub(super) fn new(dataset: &Dataset, config: &TrainConfig) -> Result<Self> {
        config.check()?;
        Self::on(dataset, config, Sides::new(dataset, config)?)
    }

    /// A run on these sides, whatever the settings say of the split.
    pub(super) fn on(dataset: &Dataset, config: &TrainConfig, sides: Sides) -> Result<Self> {
        config.check()?;
        check_rows(config)?;
        if config.early_stop.is_on() && sides.validation.is_empty() {
            return Err(Error::Config(
                "early_stop compares scores of validation rows, and there are none: raise validation_fraction, or set early_stop to none"
                    .to_owned(),
            ));
        }
        let sampler = Batches::new(dataset, &sides.train, config)?;
        let most = match config.evaluate_rows {
            0 => usize::MAX,
            rows => rows,
        };
        let watched = some(dataset, &sides.validation, most, "watched", config);
        let few = match shares_classes(dataset, &sides) {
            true => ENOUGH_SEARCHED.saturating_sub(watched.len()),
            false => 0,
        };
        let beside = match few {
            0 => Vec::new(),
            few => some(dataset, &sides.train, few, "probe", config),
        };
        let probe = match (beside.len(), watched.len()) {
            (0, 0) => some(dataset, &sides.train, PROBE_ROWS, "probe", config),
            (0, rows) => some(dataset, &sides.train, rows, "probe", config),
            _ => beside.clone(),
        };
        let searched = searched_sets(&sides, &watched, &probe, &beside);
        let sizes = Sizes::new(dataset, config, &sides, &searched, &sampler)?;
        Ok(Self {
            sides,
            watched,
            probe,
            beside,
            groups: dataset.groups(config)?,
            sampler,
            sizes,
        })
    }

    /// Sizes of a run with other settings of its steps, on the same sides.
    ///
    /// # Errors
    /// As [`Setup::new`].
    pub(super) fn sizes_with(&self, dataset: &Dataset, config: &TrainConfig) -> Result<Sizes> {
        config.check()?;
        check_rows(config)?;
        let sides = &self.sides;
        let sampler = Batches::new(dataset, &sides.train, config)?;
        let searched = searched_sets(sides, &self.watched, &self.probe, &self.beside);
        Sizes::new(dataset, config, sides, &searched, &sampler)
    }

    /// Groups of these rows, if a row's own group is left out of its neighbours.
    pub(super) fn groups_of(&self, rows: &[u32]) -> Option<Vec<u32>> {
        let groups = self.groups.as_ref()?;
        Some(rows.iter().map(|row| groups[*row as usize]).collect())
    }

    /// Rows that the rows of a side, or some of them, are ranked among, ascending, and the places there of `queries` of them, a
    /// seeded choice; 0 is all. Validation rows are ranked among training rows too if they are few, and as many training rows are
    /// scored among the same rows; test rows are ranked among each other alone.
    pub(super) fn searched(
        &self,
        side: Side,
        rows: &[u32],
        queries: usize,
        seed: u64,
    ) -> (Vec<u32>, Vec<u32>) {
        let others: &[u32] = match side {
            Side::Validation => &self.beside,
            Side::Train if !self.beside.is_empty() => &self.watched,
            Side::Train | Side::Test => &[],
        };
        let all = merged(rows, others);
        // As many of both sides.
        let queries = match (side, queries) {
            (Side::Train, 0) if !others.is_empty() => others.len(),
            (Side::Train, most) if !others.is_empty() => most.min(others.len()),
            _ => queries,
        };
        let chosen = rows::choose(rows.len(), queries, seed);
        let place = |row: &u32| all.partition_point(|other| other < row) as u32;
        let places = chosen.iter().map(|chosen| place(&rows[*chosen as usize]));
        let places = places.collect();
        (all, places)
    }
}

/// Rows that are ranked among each other: of the training side, of the validation side and of the test side.
fn searched_sets(sides: &Sides, watched: &[u32], probe: &[u32], beside: &[u32]) -> [Vec<u32>; 3] {
    [
        merged(probe, watched),
        merged(&sides.validation, beside),
        sides.test.clone(),
    ]
}

/// Union of both lists, ascending, without doubles.
fn merged(rows: &[u32], others: &[u32]) -> Vec<u32> {
    let mut all = [rows, others].concat();
    order::sort_numbers(&mut all);
    all.dedup();
    all
}

/// Tells if most validation rows are of classes that train.
fn shares_classes(dataset: &Dataset, sides: &Sides) -> bool {
    let mut trains = vec![false; dataset.class_names.len()];
    for label in dataset.labels_of(&sides.train) {
        trains[label as usize] = true;
    }
    let validation = dataset.labels_of(&sides.validation);
    let known = validation.iter().filter(|label| trains[**label as usize]);
    2 * known.count() > validation.len()
}

/// Checks that miner and loss can take as many references as there are.
fn check_rows(config: &TrainConfig) -> Result<()> {
    let rule = config.rule();
    let references = config.memory().max(config.batch_size);
    match rule.path() {
        MiningMethod::Ranks => Ok(()),
        MiningMethod::Rows => {
            RowWork::of(&rule).check(config.embedding_size, references, rule.swap())
        }
    }
}

/// A choice of `wanted` of these rows, or of a few more if the split holds whole classes out, as classes then stay whole; all of
/// them if they are no more. `choice` names the random stream.
fn some(
    dataset: &Dataset,
    rows: &[u32],
    wanted: usize,
    choice: &str,
    config: &TrainConfig,
) -> Vec<u32> {
    if !matches!(config.split, Split::ByClass | Split::ByClassShuffled) {
        let chosen = rows::choose(rows.len(), wanted, config.data_seed());
        return chosen.iter().map(|place| rows[*place as usize]).collect();
    }
    let mut classes: Vec<Vec<u32>> = vec![Vec::new(); dataset.class_names.len()];
    for row in rows {
        classes[dataset.labels[*row as usize] as usize].push(*row);
    }
    classes.retain(|rows| !rows.is_empty());
    // Neighbouring classes from a random one on, around the end.
    if !classes.is_empty() {
        let start = rng::below(&mut rng::stream(config.data_seed(), choice), classes.len());
        classes.rotate_left(start);
    }
    let mut rows = Vec::new();
    for class in classes {
        if rows.len() < wanted {
            rows.extend(class);
        }
    }
    order::sort_numbers(&mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use super::super::memory::{ADVICE, ADVICE_BEFORE_MEMORY, ADVICE_WITHOUT_MEMORY};
    use super::super::sizes::Blocks;
    use super::*;
    use crate::base::plan::MemoryPlan;
    use crate::engine::gpu::PARAMS_SLOTS;

    fn sizes(sets: &[&str]) -> Sizes {
        let dataset = Dataset::sample("many-classes", 0).expect("is there");
        let config = sets.iter().fold(dataset.default_config(), |config, set| {
            config.with_set(set).expect("sets")
        });
        Setup::new(&dataset, &config).expect("suits the data").sizes
    }

    #[test]
    fn a_submit_carries_a_block_whatever_the_batch_and_the_memory() {
        for sets in [
            &["batch_size=4096", "memory_size=1048576"][..],
            &[
                "batch_size=4500",
                "memory_size=16777216",
                "embedding_size=65536",
            ],
            &[
                "batch_size=32768",
                "m_per_class=128",
                "memory_size=16777216",
            ],
            &["batch_size=976", "memory_size=16777216"],
            &["batch_size=977", "memory_size=16777216"],
            &["batch_size=2", "memory_size=16777216"],
            &["batch_size=4096", "memory_size=0"],
            &[],
        ] {
            let sizes = sizes(sets);
            for blocks in sizes.all_blocks() {
                assert!(
                    blocks.dispatches + STEP_DISPATCHES as usize <= PARAMS_SLOTS as usize,
                    "{sets:?}: {} dispatches of {} rows",
                    blocks.dispatches,
                    blocks.rows
                );
            }
        }
    }

    #[test]
    fn before_the_memory_begins_a_block_is_the_batch_and_then_as_many_rows_as_fit() {
        let mining = |sets: &[&str]| {
            let sizes = sizes(sets);
            let both: Vec<Blocks> = sizes.all_blocks().copied().collect();
            let bytes = sizes
                .plan_mining(MemoryPlan::default(), &both)
                .total_bytes();
            (
                bytes,
                both.iter().map(|blocks| blocks.rows).collect::<Vec<_>>(),
            )
        };
        // Eight rows of the second miner are more than a block otherwise has: three numbers for each row and reference.
        for (miner, most) in [
            ("miner.name=triplet-margin", 28_000_000),
            ("miner.name=batch-hard", 101_000_000),
        ] {
            let sets = ["batch_size=512", "memory_size=1048576", miner];
            let at_once = mining(&sets);
            let later = mining(&[&sets[..], &["memory_start_step=100"]].concat());
            assert!(later.0 < most, "{miner}: {} bytes", later.0);
            // The two counts of each further row.
            assert!(later.0 - at_once.0 < 8 * 512, "{miner}");
            assert_eq!(later.1, [at_once.1[0], 512]);
        }
    }

    #[test]
    fn a_refusal_names_the_setting_that_takes_the_room() {
        let large = ["batch_size=4096", "embedding_size=512"];
        for (sets, advice) in [
            (&["memory_size=0"][..], ADVICE_WITHOUT_MEMORY),
            (&["memory_size=4096"], ADVICE),
            (
                &["memory_size=4096", "memory_start_step=9"],
                ADVICE_BEFORE_MEMORY,
            ),
            (
                &[
                    "memory_size=1048576",
                    "memory_start_step=9",
                    "batch_size=64",
                ],
                ADVICE,
            ),
        ] {
            let sets = [&large[..], sets].concat();
            assert_eq!(sizes(&sets).advice(), advice, "{sets:?}");
        }
    }
}
