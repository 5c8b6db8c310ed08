//! [`MemoryLossSpec`]: sizes of a memory that lives in the engine, and the buffers that follow from them and from what is mined.

use super::sizes::{ADVICE, BLOCK_ROWS, Cut, MiningSpec, SCRATCH_BYTES};
use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, MiningMethod, Rate, check_count};
use crate::base::plan::{MemoryPlan, Room};
use crate::kernels::MOST_STEPS;
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;

/// Positives of the anchors of a block that there is always room for, in memories.
const THRESHOLDS: u64 = 4;

/// Sizes of a [`crate::MemoryLoss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLossSpec {
    /// Slots: the most rows that are stored.
    pub memory_size: usize,
    /// Columns of a row.
    pub dim: usize,
    /// The most rows of a call.
    pub batch_size: usize,
}

impl MemoryLossSpec {
    /// Forecasts the buffers, all of which live as long as the memory, and a step of `batch_size` rows with a full memory: a pure
    /// function, monotone in the room.
    ///
    /// # Errors
    /// [`Error::Config`] for sizes of 0, a loss with proxies, or more slots than miner and loss allow; [`Error::Refused`] and
    /// [`Error::TooLarge`], with the numbers.
    pub fn plan(&self, miner: &Miner, loss: &Loss, room: &Room, rate: &Rate) -> Result<Forecast> {
        let mining = self.mined_by(miner, loss)?;
        let cut = self.cut(&mining, room);
        let memory = mining.buffers(&cut);
        let buffers = |room: &Room| mining.buffers(&self.cut(&mining, room));
        memory.fits_or("memory loss", room, ADVICE, buffers)?;
        let operations = self.batch_size as f64 * mining.operations_of_an_anchor();
        let traffic_bytes = (self.batch_size as u64).saturating_mul(4 * self.dim as u64);
        Ok(Forecast {
            memory,
            block_queries: cut.rows as u64,
            chunk_rows: self.memory_size as u64,
            resident: true,
            passes: 1,
            submits: self.batch_size.div_ceil(cut.rows) as u64,
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: Some(mining.path),
            batch_chunk: None,
            map_bytes: 0,
        })
    }

    /// Sizes of the mining of a step with a full memory, and checks of them.
    pub(super) fn mined_by(&self, miner: &Miner, loss: &Loss) -> Result<MiningSpec> {
        let Self {
            memory_size,
            dim,
            batch_size,
        } = *self;
        for (what, size) in [
            ("memory_size", memory_size),
            ("columns", dim),
            ("batch_size", batch_size),
        ] {
            if size == 0 {
                return Err(Error::Config(format!("{what} is 0: it must be at least 1")));
            }
        }
        check_count("memory_size", memory_size)?;
        check_count("batch_size", batch_size)?;
        miner.check()?;
        loss.check()?;
        if loss.proxies().is_some() {
            return Err(Error::Config(
                "loss: this loss compares rows with proxies, not with a memory: use a loss without proxies".to_owned(),
            ));
        }
        let spec = MiningSpec {
            anchors: batch_size,
            references: memory_size,
            dim,
            // As many classes as a batch has rows, as a guess for the time.
            positives: memory_size.div_ceil(batch_size),
            gradient: true,
            ..MiningSpec::default()
        };
        let spec = spec.mined_by(miner, Some(loss));
        if spec.path == MiningMethod::Rows {
            spec.work.check(dim, memory_size, spec.swap)?;
        }
        Ok(spec)
    }

    /// Blocks of a step: as many rows as fit the room, and places for thresholds by which any labels can be mined, one anchor of a
    /// memory of one class at a time at least.
    pub(super) fn cut(&self, mining: &MiningSpec, room: &Room) -> Cut {
        let slots = self.memory_size as u64;
        let cut = |rows: u64| Cut {
            rows: rows as usize,
            thresholds: match mining.path {
                MiningMethod::Ranks => {
                    let some = slots.saturating_add(rows).saturating_mul(THRESHOLDS);
                    some.min(rows * (slots + 1)).max(slots + 1)
                }
                MiningMethod::Rows if mining.work.draws() => {
                    rows * (slots + 1).min(MOST_STEPS as u64)
                }
                MiningMethod::Rows => 0,
            },
        };
        let fits = |rows: u64| {
            let plan = mining.buffers(&cut(rows));
            let bank = MiningSpec::bank(MemoryPlan::default(), mining).total_bytes();
            let total = plan.total_bytes();
            let largest = plan.buffers().iter().map(|buffer| buffer.bytes).max();
            total <= room.free_bytes
                && total - bank <= SCRATCH_BYTES
                && largest.unwrap_or(0) <= room.max_buffer_bytes
        };
        let most = BLOCK_ROWS.min(self.batch_size as u64);
        let halves =
            std::iter::successors(Some(most), |rows| (*rows > 1).then(|| rows.div_ceil(2)));
        cut(halves.into_iter().find(|rows| fits(*rows)).unwrap_or(1))
    }
}
