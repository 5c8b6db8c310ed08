//! [`MemoryLoss`]: a cross-batch memory (Wang et al. 2020) for embeddings that come from elsewhere, such as a training loop of another
//! program. Takes batches of rows, gives counts, loss and the gradient with respect to the batch. Rows live on the engine, in buffers
//! that are made once.

use crate::base::error::{Error, Result};
use crate::base::forecast::Rate;
use crate::cpu::Distance;
use crate::data::{RowSource, check_squares};
use crate::engine::Engine;
use crate::kernels;
use crate::kernels::ranks::NO_ID;
use crate::kernels::stride;
use crate::kernels::triplet_margin::TERMS;
use crate::mining::memory_sizes::MemoryLossSpec;
use crate::mining::mining_pass::Rounds;
use crate::mining::phase::{Anchors, Phase};
use crate::mining::ring::Ring;
use crate::mining::sizes::ADVICE;
use crate::mining::{Mined, MiningSpec, Wanted};
use crate::model::metric::Form;
use crate::model::unit_rows::UnitRows;
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;
use crate::rules::mining_rule::MiningRule;

/// Rows that are brought to the memory at once.
const PIECE_ROWS: usize = 4096;
/// Deviation from 1 of the length of a stored row.
const UNIT: f64 = 1e-3;

/// The last rows that were stored, as references for the next batches: PML's `CrossBatchMemory` without its matrices.
///
/// A batch is stored before its loss, and a row's own copy in the memory is no positive of it. Labels are any numbers: a class is known
/// while the memory holds a row of it.
#[derive(Debug)]
pub struct MemoryLoss {
    engine: Engine,
    spec: MemoryLossSpec,
    miner: Miner,
    loss: Loss,
    rule: MiningRule,
    phase: Phase,
    ring: Ring,
    steps: u64,
}

/// The rows of a [`MemoryLoss`], to go on with later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryLossState {
    /// Stored rows by slot, `[labels, dim]`, of unit length.
    pub rows: Vec<f32>,
    /// Label of each.
    pub labels: Vec<i64>,
    /// Slot of the next row.
    pub next: usize,
    /// Losses that were computed: draws of a miner depend on their number.
    pub steps: u64,
}

impl MemoryLoss {
    /// An empty memory, and all buffers of its steps.
    ///
    /// `distances`: those of the miner, and of the loss.
    ///
    /// # Errors
    /// As [`MemoryLossSpec::plan`] and [`Engine::workspace`]; [`Error::Config`] for a loss that does not take what the miner keeps.
    pub async fn new(
        engine: &Engine,
        spec: MemoryLossSpec,
        miner: &Miner,
        loss: &Loss,
        distances: [Distance; 2],
    ) -> Result<Self> {
        loss.check_takes(miner, distances[1])?;
        let room = engine.room();
        let forecast = spec.plan(miner, loss, &room, &Rate::default())?;
        let mining = spec.mined_by(miner, loss)?;
        engine.prepare(kernels::used_on(engine.info())).await?;
        let mut workspace = engine
            .workspace("memory loss", &forecast.memory, ADVICE)
            .await?;
        Ok(Self {
            engine: engine.clone(),
            spec,
            miner: miner.clone(),
            loss: loss.clone(),
            rule: MiningRule::new(miner, distances[0], Some(loss), distances[1]),
            phase: Phase::new(engine, mining, spec.cut(&mining, &room), &mut workspace),
            ring: Ring::new(spec.memory_size),
            steps: 0,
        })
    }

    /// Takes another miner, loss and distances from now on. Returns false, and changes nothing, if they take other buffers.
    ///
    /// # Errors
    /// As [`MemoryLoss::new`], for the settings.
    pub fn set(&mut self, miner: &Miner, loss: &Loss, distances: [Distance; 2]) -> Result<bool> {
        loss.check_takes(miner, distances[1])?;
        let [before, after] = [
            self.spec.mined_by(&self.miner, &self.loss)?,
            self.spec.mined_by(miner, loss)?,
        ];
        let sizes = |spec: &MiningSpec| (spec.path, spec.work, spec.swap);
        if sizes(&before) != sizes(&after) {
            return Ok(false);
        }
        (self.miner, self.loss) = (miner.clone(), loss.clone());
        self.rule = MiningRule::new(miner, distances[0], Some(loss), distances[1]);
        Ok(true)
    }

    /// Sizes.
    pub fn spec(&self) -> &MemoryLossSpec {
        &self.spec
    }

    /// The engine that holds the memory.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Number of stored rows.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Tells if no row is stored.
    pub fn is_empty(&self) -> bool {
        self.ring.len() == 0
    }

    /// Forgets every row.
    pub fn reset(&mut self) {
        self.ring = Ring::new(self.spec.memory_size);
    }

    /// Stores rows of any length, at most as many as there are slots; the oldest make room.
    ///
    /// # Errors
    /// [`Error::Data`] if labels or columns do not match, for too many rows, and for values that cannot be used: nothing is stored then;
    /// [`Error::Device`].
    pub async fn enqueue(&mut self, rows: &RowSource, labels: &[i64]) -> Result<()> {
        self.check_rows(rows, labels, self.spec.memory_size, "slots")?;
        let numbers: Vec<u32> = (0..labels.len() as u32).collect();
        let mut values = Vec::new();
        for numbers in numbers.chunks(PIECE_ROWS) {
            values.clear();
            self.read(rows, numbers, &mut values).await?;
        }
        for (numbers, labels) in numbers.chunks(PIECE_ROWS).zip(labels.chunks(PIECE_ROWS)) {
            if numbers.len() < rows.rows() {
                values.clear();
                self.read(rows, numbers, &mut values).await?;
            }
            let piece = RowSource::Memory {
                values: std::mem::take(&mut values),
                dim: self.spec.dim,
            };
            self.store(&piece, labels, Form::Unit).await?;
        }
        Ok(())
    }

    /// Stores a batch, then computes its loss with all stored rows but each row's own copy, and with `gradient` dL/d(row).
    ///
    /// # Errors
    /// As [`MemoryLoss::enqueue`] and [`MemoryLoss::loss`]. A batch that cannot be used is not stored.
    pub async fn step(
        &mut self,
        rows: &RowSource,
        labels: &[i64],
        gradient: bool,
    ) -> Result<Mined> {
        let slots = self.spec.memory_size;
        self.check_rows(rows, labels, slots, "slots")?;
        let batch = self.batch(rows, labels).await?;
        let ids = self.ring.next_slots(labels.len()).into_iter().flatten();
        let ids: Vec<u32> = ids.map(|slot| slot as u32).collect();
        self.store(&batch, labels, Form::Unit).await?;
        self.mine(&batch, labels, &ids, gradient).await
    }

    /// Loss of a batch with all stored rows, none of which is a copy of one of its rows. The batch is not stored.
    ///
    /// # Errors
    /// [`Error::Data`] if labels or columns do not match, for more rows than `batch_size`, and for values that cannot be used;
    /// [`Error::Config`] for more draws than the miner allows; [`Error::Device`]; [`Error::Stopped`].
    pub async fn loss(
        &mut self,
        rows: &RowSource,
        labels: &[i64],
        gradient: bool,
    ) -> Result<Mined> {
        let batch = self.batch(rows, labels).await?;
        let ids = vec![NO_ID; labels.len()];
        self.mine(&batch, labels, &ids, gradient).await
    }

    /// The rows that are stored.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn state(&self) -> Result<MemoryLossState> {
        let (stride, dim) = (stride(self.spec.dim), self.spec.dim);
        let floats = (self.len() * stride) as u64;
        let stored = self.engine.view(&self.phase.references, 0, floats).await?;
        let rows = stored.chunks_exact(stride).flat_map(|row| &row[..dim]);
        Ok(MemoryLossState {
            rows: rows.copied().collect(),
            labels: self.ring.labels().to_vec(),
            next: self.ring.cursor(),
            steps: self.steps,
        })
    }

    /// Replaces all rows by those of a state; the next steps give the bits that they would have given there.
    ///
    /// # Errors
    /// [`Error::Data`] if no memory of these sizes has such a state; [`Error::Device`].
    pub async fn restore(&mut self, state: MemoryLossState) -> Result<()> {
        let MemoryLossState {
            rows,
            labels,
            next,
            steps,
        } = state;
        let (slots, dim, stored) = (self.spec.memory_size, self.spec.dim, labels.len());
        let next_is_right = if stored < slots {
            next == stored
        } else {
            next < slots
        };
        if stored > slots || rows.len() != stored * dim || !next_is_right {
            return Err(Error::Data(format!(
                "a state of {stored} labels, {} values and next slot {next} is none of a memory of {slots} slots of {dim} columns",
                rows.len()
            )));
        }
        for (row, values) in rows.chunks_exact(dim).enumerate() {
            let squares = values.iter().map(|value| f64::from(*value).powi(2));
            let length = squares.sum::<f64>().sqrt();
            if length != 0.0 && ((length - 1.0).abs() > UNIT || length.is_nan()) {
                return Err(Error::Data(format!(
                    "row {row} of the state has length {length:.3}: a state has rows of unit length, rows of any length are enqueued"
                )));
            }
        }
        self.reset();
        let rows = RowSource::Memory { values: rows, dim };
        self.store(&rows, &labels, Form::Stored).await?;
        self.ring = Ring::of(slots, &labels, next);
        self.steps = steps;
        Ok(())
    }

    /// Checks that rows and labels match each other and the memory, and that they are no more than `most`.
    fn check_rows(&self, rows: &RowSource, labels: &[i64], most: usize, of: &str) -> Result<()> {
        let (count, columns, dim) = (rows.rows(), rows.dim(), self.spec.dim);
        let error = if count != labels.len() {
            format!(
                "{} labels for {count} rows: there must be one a row",
                labels.len()
            )
        } else if columns != dim {
            format!("rows have {columns} columns, the memory's have {dim}: they must be as many")
        } else if count > most {
            format!(
                "{count} rows, and the memory has {most} {of}: bring fewer rows at once, or make a larger memory"
            )
        } else {
            return Ok(());
        };
        Err(Error::Data(error))
    }

    /// Reads rows that can be used.
    async fn read(&self, rows: &RowSource, numbers: &[u32], values: &mut Vec<f32>) -> Result<()> {
        rows.read(numbers, values).await?;
        let dim = self.spec.dim;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (row, column) = (numbers[at / dim], at % dim);
            return Err(Error::Data(format!(
                "row {row}, column {column}: {} is not finite: leave the row out",
                values[at]
            )));
        }
        check_squares(numbers, values, dim)
    }

    /// A batch of a step, checked.
    async fn batch(&self, rows: &RowSource, labels: &[i64]) -> Result<RowSource> {
        let most = self.spec.batch_size;
        self.check_rows(rows, labels, most, "rows a batch (batch_size)")?;
        let numbers: Vec<u32> = (0..labels.len() as u32).collect();
        let mut values = Vec::with_capacity(labels.len() * self.spec.dim);
        self.read(rows, &numbers, &mut values).await?;
        let dim = self.spec.dim;
        Ok(RowSource::Memory { values, dim })
    }

    /// Stores rows that were checked.
    async fn store(&mut self, rows: &RowSource, labels: &[i64], form: Form) -> Result<()> {
        let stretches = self.ring.next_slots(labels.len());
        self.ring.add(labels);
        let mut first = 0;
        for slots in stretches {
            let numbers = first as u32..(first + slots.len()) as u32;
            let tags: Vec<[u32; 2]> = slots
                .clone()
                .zip(&labels[first..])
                .map(|(slot, label)| [self.ring.number(*label), slot as u32])
                .collect();
            first += slots.len();
            let (references, at) = (&mut self.phase.references, slots.start);
            let mut rows = UnitRows::Stored {
                rows,
                chosen: None,
                form,
            };
            rows.bring(&self.engine, numbers, references, at).await?;
            let target = &mut self.phase.tags;
            self.engine.upload(target, at as u64, &tags).await?;
        }
        Ok(())
    }

    /// Loss of a batch with the stored rows; `ids` are the slots of its own copies.
    async fn mine(
        &mut self,
        rows: &RowSource,
        labels: &[i64],
        ids: &[u32],
        gradient: bool,
    ) -> Result<Mined> {
        let (anchors, stored) = (labels.len(), self.ring.len());
        let classes = labels.iter().map(|label| self.ring.number(*label));
        let classes: Vec<u32> = classes.collect();
        if anchors == 0 || stored == 0 {
            return Ok(Mined {
                mining: self.rule.counts(&self.miner, &[0; TERMS], anchors),
                gradient: vec![0.0; if gradient { anchors * self.spec.dim } else { 0 }],
                ..Mined::default()
            });
        }
        let Self {
            engine,
            rule,
            phase,
            ring,
            loss,
            ..
        } = self;
        let of_class = |class: &u32| ring.counts().get(*class as usize).copied().unwrap_or(0);
        let positives = classes.iter().map(of_class).max().unwrap_or(0) as usize;
        phase.spec.work.check_draws(positives)?;
        phase.spec.gradient = gradient;
        phase.spec.looked_at = rule.looked_at(positives as u64, stored as u64);
        phase.key = [self.steps as u32, (self.steps >> 32) as u32];
        phase.begin(anchors, stored).await?;
        let batch = Anchors {
            rows,
            classes: &classes,
            ids,
            counts: ring.counts(),
        };
        let wanted = match gradient {
            true => Wanted::Gradient(loss),
            false => Wanted::Loss(loss),
        };
        let mut rounds = Rounds::new(rule, anchors);
        while let Some((_, block)) = phase.next_block(&rounds, batch, rule, &wanted).await? {
            rounds.done(block.len());
            engine.breathe().await?;
        }
        self.steps += 1;
        let counts = rule.counts(&self.miner, &phase.counts, anchors);
        phase.mined(rule, counts, Some(loss), rows, rows).await
    }
}
