//! Forecasts of memory and time: of a run before it starts, and of scoring a side in full while it goes on.

use std::ops::Range;
use std::rc::Rc;

use super::Trainer;
use super::memory::Fit;
use super::setup::Setup;
use super::sizes::Sizes;
use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, MiningMethod, Rate};
use crate::base::plan::{MemoryPlan, Room};
use crate::data::{Dataset, Labelled, Side, Sides};
use crate::engine::Engine;
use crate::kernels::stored::Precision;
use crate::model::proxies::MOST_PROXIES;
use crate::rules::config::TrainConfig;
use crate::rules::pml_step::PmlStep;
use crate::search::evaluation::{Cut, EvaluationSpec, Evaluator};

/// Rows, columns and classes of the small run that is timed.
const TIMED_ROWS: usize = 1800;
const TIMED_DIM: usize = 64;
const TIMED_CLASSES: usize = 10;
/// Fewest and most advances of the timed run, and milliseconds after which it ends: its first advances are short, as its pace is
/// not known and the memory has to fill.
const ADVANCES: Range<usize> = 3..40;
const ENOUGH_MS: f64 = 160.0;
/// Milliseconds at first that do not count.
const COLD_MS: f64 = 60.0;
/// Speedup of a real run over the timed one, which is small.
const LARGER: f64 = 1.1;

/// Operations that are accounted for a step besides its arithmetic.
const STEP: f64 = 1e7;

/// Operations that are accounted for one halving in the search for the place of a similarity among those of the positives: in a
/// step, and in scoring a side.
const HALVING: f64 = 40.0;
const HALVING_SCORED: f64 = 18.0;

/// Number of halvings until the places of this many references among the positives are found.
fn halvings(references: usize, positives: usize) -> f64 {
    references as f64 * (1.0 + positives as f64).log2()
}

/// The part of a run that is forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The whole run.
    Run,
    /// Steps, and the validation side scored once by the head.
    Training,
    /// The validation side scored by raw features and by the linear map.
    Baselines,
    /// The test side scored once.
    Test,
}

impl Trainer {
    /// Forecasts a run: every buffer of training and evaluation, as [`Trainer::new`] would create them, and the time.
    ///
    /// A pure function; the rate of [`Trainer::measure_rate`] suits it best.
    ///
    /// # Errors
    /// As [`Trainer::new`] in an engine with this room.
    pub fn plan(
        room: &Room,
        dataset: &Dataset,
        config: &TrainConfig,
        rate: &Rate,
    ) -> Result<Forecast> {
        Self::plan_part(room, dataset, config, rate, Part::Run, None)
    }

    /// Bytes that PML would take at the peak of the largest step of such a run, above what is there before: an estimate, with the
    /// memory full, equally many rows of each class, and embeddings in random directions, as before the first step. Compares with
    /// [`crate::StepReport::pml_bytes`] of a step that was taken.
    pub fn plan_pml(dataset: &Dataset, config: &TrainConfig) -> u64 {
        let classes = dataset.class_names.len() as u64;
        let anchors = config.batch_size as u64;
        let alone = config.memory() == 0;
        let references = match alone {
            true => anchors,
            false => config.memory() as u64,
        };
        let per_class = |per_class: usize| classes.saturating_mul(per_class as u64);
        let proxies = config
            .loss
            .proxies()
            .map(|proxies| per_class(proxies.per_class));
        let of_class = references.div_ceil(classes.max(1));
        let of_batch = anchors.div_ceil(classes.max(1));
        let same = match (alone, config.sampler.rows_of_class()) {
            (true, Some(rows)) => (rows as u64).max(of_class),
            _ => of_class,
        };
        let positives = anchors.saturating_mul(same.saturating_sub(u64::from(alone)));
        let others = references.saturating_sub(same);
        let step = PmlStep {
            anchors,
            references,
            proxies: proxies.unwrap_or(0),
            alone,
            positives,
            triplets: positives.saturating_mul(others),
            weighed: of_batch.saturating_mul(same).saturating_mul(others),
        };
        step.peak(config, None)
    }

    /// Memory of a run in the first of these rooms that it fits, and the place of that room; the rows are dealt to sides once for
    /// all rooms. None if it fits none, or if the settings do not suit the data.
    pub(crate) fn first_fit(
        rooms: &[Room],
        dataset: &Dataset,
        config: &TrainConfig,
    ) -> Option<(usize, MemoryPlan)> {
        let setup = Setup::new(dataset, config).ok()?;
        rooms.iter().enumerate().find_map(|(at, room)| {
            let fit = setup.sizes.fit_in(room, dataset).ok()?;
            Some((at, fit.plan))
        })
    }

    /// Tells if the loss takes so many classes: it may learn proxies of each.
    pub(crate) fn takes_classes(config: &TrainConfig, classes: usize) -> bool {
        let proxies = config.loss.proxies();
        proxies.is_none_or(|proxies| proxies.per_class.saturating_mul(classes) <= MOST_PROXIES)
    }

    /// Forecasts a part of a run, on these sides if there are any, whatever the settings say of the split; the memory is that of the
    /// whole run.
    ///
    /// # Errors
    /// As [`Trainer::plan`].
    pub(crate) fn plan_part(
        room: &Room,
        dataset: &Dataset,
        config: &TrainConfig,
        rate: &Rate,
        part: Part,
        sides: Option<&Sides>,
    ) -> Result<Forecast> {
        let setup = match sides {
            Some(sides) => Setup::on(dataset, config, sides.clone())?,
            None => Setup::new(dataset, config)?,
        };
        let Fit {
            sizes,
            plan,
            cut,
            linear,
            ..
        } = setup.fit(room, dataset, config)?;
        let every = config.evaluate_every;
        let steps = match part {
            Part::Run | Part::Training => config.steps,
            Part::Baselines | Part::Test => 0,
        };
        let alone = match config.memory() {
            0 => steps,
            _ => steps.min(config.memory_start_step),
        };
        let classes = dataset.class_names.len().max(1);
        let of_step = |alone: bool| (sizes.usual_operations(alone), sizes.seeking(alone, classes));
        let (mut operations, mut sought) = (0.0, 0.0);
        for (count, alone) in [(alone, true), (steps - alone, false)] {
            if count > 0 {
                let of_step = of_step(alone);
                operations += count as f64 * (STEP + of_step.0);
                sought += count as f64 * of_step.1;
            }
        }
        let mut submits = steps.div_ceil(sizes.steps_per_upload as u64);
        let (mut passes, mut traffic_bytes) = (0u64, 0u64);
        let (watched, judged) = (config.evaluate_queries, config.test_queries);
        let (validation, test) = (&setup.sides.validation, &setup.sides.test);
        let evaluations = steps.div_ceil(every);
        // Once more by features in single precision.
        let unrounded = u64::from(sizes.features == Precision::F16);
        let scored = match part {
            // The head at each evaluation, and the two baselines once.
            Part::Run => vec![
                (Side::Train, &setup.probe, watched, evaluations + 1),
                (Side::Validation, &setup.watched, watched, evaluations + 3),
                (Side::Test, test, judged, 3 + unrounded),
            ],
            Part::Training => vec![(Side::Validation, validation, judged, 1)],
            Part::Baselines => vec![(Side::Validation, validation, judged, 2)],
            Part::Test => vec![(Side::Test, test, judged, 1)],
        };
        for (side, rows, most, times) in scored {
            let (rows, queries) = setup.searched(side, rows, most, config.data_seed());
            let queries = queries.len();
            let one = sizes.scoring(&dataset.labels_of(&rows), queries, &cut, rate);
            operations += one.operations * times as f64;
            let looks = times as f64 * queries as f64;
            sought += looks * HALVING_SCORED * halvings(rows.len(), rows.len() / classes);
            submits = submits.saturating_add(one.submits.saturating_mul(times));
            passes = passes.saturating_add(one.passes.saturating_mul(times));
            traffic_bytes = traffic_bytes.saturating_add(one.traffic_bytes.saturating_mul(times));
        }
        if linear.is_ok() && matches!(part, Part::Run | Part::Baselines) {
            let dim = dataset.features.dim() as f64;
            operations += 2.0 * setup.sides.train.len() as f64 * dim * dim;
        }
        Ok(Forecast {
            passes,
            submits,
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations + sought, traffic_bytes),
            path: Some(sizes.path),
            batch_chunk: sizes.batch_chunk(config.memory() == 0),
            ..sizes.evaluation.forecast(&cut, plan, rate)
        })
    }

    /// Forecasts [`Trainer::score_fully`]: its memory is what the run already holds for evaluations.
    pub fn plan_score(&self, side: Side, rate: &Rate) -> Forecast {
        let (sizes, cut) = (&self.setup.sizes, self.evaluator.cut());
        let (rows, queries) = self.all_and_queries(side, 0);
        let labels = self.dataset.labels_of(&rows);
        Forecast {
            memory: Evaluator::plan(MemoryPlan::default(), &sizes.evaluation, cut),
            ..sizes.scoring(&labels, queries.len(), cut, rate)
        }
    }

    /// Times a few steps of a small run, for forecasts: some tenths of a second, and a few megabytes that are freed afterwards. On
    /// the CPU, 20 runs of many settings took between 0.6 and 1.5 times as long as forecast; on two threads down to 0.4 times.
    ///
    /// If not even that fits the engine's budget, the rate of a slow device is assumed.
    ///
    /// # Errors
    /// [`Error::Device`], which costs the engine.
    pub async fn measure_rate(engine: Engine) -> Result<(Engine, Rate)> {
        // Any rows that differ from each other will do.
        let value = |i: usize| (i * 7919 % 1009) as f32 / 1009.0;
        let dataset = Dataset::new(Labelled {
            values: (0..TIMED_ROWS * TIMED_DIM).map(value).collect(),
            dim: TIMED_DIM,
            labels: (0..TIMED_ROWS)
                .map(|row| (row % TIMED_CLASSES).to_string())
                .collect(),
            ..Labelled::default()
        })?;
        let config = TrainConfig::default();
        let slow = Rate::default();
        match Self::plan(&engine.room(), &dataset, &config, &slow) {
            Err(Error::Refused { .. } | Error::TooLarge { .. }) => return Ok((engine, slow)),
            planned => drop(planned?),
        }
        let mut trainer = Self::new(engine, Rc::new(dataset), config).await?;
        let (mut done, mut warm_ms, mut spent_ms) = (0.0, 0.0, 0.0);
        for advance in 0..ADVANCES.end {
            if advance >= ADVANCES.start && spent_ms > ENOUGH_MS {
                break;
            }
            // A browser still compiles in the first of them.
            if spent_ms < COLD_MS {
                (done, warm_ms) = (0.0, 0.0);
            }
            let (clock, before) = (trainer.engine.clock(), trainer.memory.len());
            let steps = trainer.advance(u64::MAX).await?.len() as f64;
            let elapsed_ms = trainer.engine.worked(clock).as_secs_f64() * 1e3;
            spent_ms += elapsed_ms;
            warm_ms += elapsed_ms;
            let sizes = &trainer.setup.sizes;
            let mined =
                sizes.mining_operations(false, sizes.anchors) + sizes.seeking(false, TIMED_CLASSES);
            // Mean part of the references that are stored while the memory fills.
            let held =
                (before + trainer.memory.len()) as f64 / (2 * sizes.references(false)) as f64;
            done += steps * (STEP + sizes.head_operations() + held * mined);
        }
        let engine = trainer.into_engine();
        engine.settle().await?;
        let rate = Rate {
            operations_per_ms: LARGER * done / warm_ms.max(1e-3),
            ..slow
        };
        Ok((engine, rate))
    }
}

impl Sizes {
    /// Operations that are accounted for finding the places of a step's references, with this many classes; 0 if none are sought.
    fn seeking(&self, alone: bool, classes: usize) -> f64 {
        let references = self.references(alone);
        match self.path {
            MiningMethod::Ranks => {
                self.anchors as f64 * HALVING * halvings(references, references / classes)
            }
            MiningMethod::Rows => 0.0,
        }
    }

    /// Forecast of scoring rows with these labels: the forward pass of the rows, and the comparison of each query with all of them.
    pub(super) fn scoring(
        &self,
        labels: &[u32],
        queries: usize,
        cut: &Cut,
        rate: &Rate,
    ) -> Forecast {
        let spec = EvaluationSpec::of(labels, self.evaluation.dim, queries);
        let one = spec.forecast(cut, MemoryPlan::default(), rate);
        let embedded = one.passes as f64 * labels.len() as f64 + queries as f64;
        let operations = one.operations + embedded * self.forward_operations();
        Forecast {
            operations,
            predicted_ms: rate.ms(operations, one.traffic_bytes),
            ..one
        }
    }
}
