//! [`CrossBatchMemory`]: the last rows that were embedded, as references for the next batches (Wang et al. 2020).
//!
//! Self-pairs are as in PML: a batch is stored before its loss, so its own copies are among the references; an anchor's own copy
//! is the row with the anchor's id. The rows live on the engine; their labels are known here too, so that the positives of every
//! anchor are known before anything runs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::checkpoint::{ArrayReader, ArrayWriter, damaged};
use crate::engine::pace::Slices;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::kernels::normalize::{Bank, Slots};
use crate::kernels::ranks::Row;
use crate::kernels::stored::{Precision, Stored, StoredRows, unpack};
use crate::kernels::stride;

pub(crate) const ROWS: &str = "memory.rows";
const TAGS: &str = "memory.tags";
/// Names of the memory's arrays in a checkpoint.
const SAVED: [&str; 3] = ["memory.rows", "memory.ids", "memory.data_rows"];
/// Ids past this begin anew; no memory has this many slots.
const LAST_ID: u32 = 1 << 31;

/// Age of the memory's rows: steps since they were embedded, by a head that has changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryAge {
    /// Age of the oldest row in steps; rows of the last step have age 0.
    pub oldest: u64,
    /// Mean age of all rows, in steps.
    pub mean: f64,
}

/// A ring of unit rows with their labels and ever-growing ids.
#[derive(Debug)]
pub(crate) struct CrossBatchMemory {
    pub(crate) bank: Bank,
    capacity: usize,
    labels: Vec<u32>,
    /// Number in the data of each stored row, by slot.
    rows: Vec<u32>,
    /// Rows of the last batch.
    batch: usize,
    cursor: usize,
    next_id: u32,
    class_counts: Vec<u32>,
}

impl CrossBatchMemory {
    pub(crate) fn plan(
        plan: MemoryPlan,
        precision: Precision,
        capacity: usize,
        dim: usize,
    ) -> MemoryPlan {
        let (purpose, capacity) = (Purpose::MemoryBank, capacity as u64);
        let floats = capacity * stride(dim) as u64;
        let plan = match precision {
            Precision::F32 => plan.with::<f32>(purpose, ROWS, floats),
            Precision::F16 => plan.with::<u32>(purpose, ROWS, floats / 2),
        };
        plan.with::<[u32; 2]>(purpose, TAGS, capacity)
    }

    pub(crate) fn new(
        workspace: &mut Workspace,
        precision: Precision,
        capacity: usize,
        classes: usize,
    ) -> Self {
        Self {
            bank: Bank {
                rows: StoredRows::take(workspace, precision, ROWS),
                tags: workspace.take(TAGS),
            },
            capacity,
            labels: Vec::new(),
            rows: Vec::new(),
            batch: 1,
            cursor: 0,
            next_id: 0,
            class_counts: vec![0; classes],
        }
    }

    /// Forgets every row and continues with this many slots, at most as many as were planned. Ids go on growing.
    pub(crate) fn reset(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.next_id = self.next_id.next_multiple_of(capacity as u32);
        self.labels.clear();
        self.rows.clear();
        self.cursor = 0;
        self.class_counts.fill(0);
    }

    /// Forgets every row.
    pub(crate) fn forget(&mut self) {
        self.reset(self.capacity);
    }

    /// Reserves slots for a batch with these labels and numbers in the data, and returns them.
    pub(crate) fn reserve_slots(&mut self, labels: &[u32], rows: &[u32]) -> Slots {
        // A row's slot is `id % capacity`. Ids begin anew long before they run out, far from those still stored.
        if self.next_id > LAST_ID {
            self.next_id = self.cursor as u32;
        }
        let slots = Slots {
            cursor: self.cursor,
            capacity: self.capacity,
            first_id: self.next_id,
        };
        self.batch = labels.len();
        for (label, row) in labels.iter().zip(rows) {
            if self.labels.len() < self.capacity {
                self.labels.push(*label);
                self.rows.push(*row);
            } else {
                self.rows[self.cursor] = *row;
                let old = std::mem::replace(&mut self.labels[self.cursor], *label);
                self.class_counts[old as usize] -= 1;
            }
            self.class_counts[*label as usize] += 1;
            self.cursor = (self.cursor + 1) % self.capacity;
        }
        self.next_id += labels.len() as u32;
        slots
    }

    /// Class of this batch that would have the most rows in the memory after the batch is stored, and that number of rows; if
    /// `emptied`, in a memory that was emptied first.
    pub(crate) fn most_after(&self, labels: &[u32], emptied: bool) -> (u32, usize) {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for label in labels {
            *counts.entry(*label).or_default() += 1;
        }
        if !emptied {
            for (label, count) in &mut counts {
                *count += self.class_counts[*label as usize] as usize;
            }
            // The batch takes the slots of the oldest rows.
            let replaced = (self.len() + labels.len()).saturating_sub(self.capacity);
            let oldest = (self.cursor..self.len()).chain(0..self.cursor);
            for slot in oldest.take(replaced) {
                if let Some(count) = counts.get_mut(&self.labels[slot]) {
                    *count -= 1;
                }
            }
        }
        let most = counts
            .into_iter()
            .max_by_key(|(label, count)| (*count, *label));
        most.unwrap_or_default()
    }

    /// Number of stored rows.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Number in the data of the row that is stored with this id.
    pub(crate) fn row(&self, id: u32) -> u32 {
        self.rows[id as usize % self.capacity]
    }

    /// Age of the stored rows; every step brought as many.
    pub(crate) fn age(&self) -> MemoryAge {
        let (rows, batch) = (self.len() as u64, self.batch as u64);
        let oldest = rows.saturating_sub(1) / batch;
        // Whole batches of ages 0, 1, .., and the remaining rows of the oldest batch.
        let whole = batch * (oldest * oldest.saturating_sub(1) / 2);
        let total = whole + (rows - oldest * batch) * oldest;
        MemoryAge {
            oldest,
            mean: total as f64 / rows.max(1) as f64,
        }
    }

    /// Class of each stored row, by slot.
    pub(crate) fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Number in the data of each stored row, by slot.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Age of each stored row in steps, by slot; every step brought as many.
    pub(crate) fn ages(&self) -> Vec<u32> {
        let slots = self.len();
        let newer = |slot: usize| (self.cursor + 2 * slots - 1 - slot) % slots;
        (0..slots)
            .map(|slot| (newer(slot) / self.batch) as u32)
            .collect()
    }

    /// Slot of the next row.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Stored rows of a class.
    pub(crate) fn of_class(&self, label: u32) -> u64 {
        u64::from(self.class_counts[label as usize])
    }

    /// Saves every stored row with its id and its number in the data; waits for these and for the vectors before them, and returns
    /// the next id.
    ///
    /// # Errors
    /// As [`ArrayWriter::vector`].
    pub(crate) async fn save(
        &self,
        slices: &mut Slices<'_>,
        stride: usize,
        arrays: &mut ArrayWriter,
    ) -> Result<u32> {
        let [rows, ids, data_rows] = SAVED;
        let floats = self.len() * stride;
        match &self.bank.rows {
            StoredRows::F32(stored) => arrays.vector(rows, slices, stored, floats).await?,
            StoredRows::F16(stored) => arrays.vector(rows, slices, stored, floats / 2).await?,
        }
        let tags = slices.fetch(&self.bank.tags, 0, self.len() as u64).await?;
        arrays.collect(slices).await?;
        let tags = slices.take(tags);
        let own: Vec<u32> = tags.iter().map(|[_, id]| *id).collect();
        arrays.array(ids, &own)?;
        arrays.array(data_rows, &self.rows)?;
        Ok(self.next_id)
    }

    /// Replaces the stored rows by saved ones, in a memory of `capacity` slots whose rows came `batch` at a time; `labels` are
    /// those of the data.
    ///
    /// # Errors
    /// [`crate::Error::Data`] if no memory can hold such rows, and as [`ArrayReader::vector`].
    #[expect(
        clippy::too_many_arguments,
        reason = "where it was saved, and what the run knows of it"
    )]
    pub(crate) async fn restore(
        &mut self,
        engine: &Engine,
        stride: usize,
        arrays: &ArrayReader<'_>,
        next_id: u32,
        capacity: usize,
        batch: usize,
        labels: &[u32],
    ) -> Result<()> {
        self.reset(capacity);
        let [rows, ids, data_rows] = SAVED;
        let own: Vec<u32> = arrays.array(data_rows)?;
        let count = own.len();
        if count > capacity {
            return Err(damaged(format_args!(
                "its memory holds {count} rows, and its settings ask for {capacity}"
            )));
        }
        let ids: Vec<u32> = arrays.exactly(ids, count)?;
        // An id names its slot: `next_id` names the cursor, and the id in the slot before the cursor is `next_id - 1`.
        let named = |(slot, id): (usize, &u32)| *id as usize % capacity == slot;
        let cursor = next_id as usize % capacity;
        let last = ids.get((cursor + capacity - 1) % capacity);
        let sound = ids.iter().enumerate().all(named)
            && last.is_none_or(|last| *last == next_id.wrapping_sub(1))
            && own.iter().all(|row| (*row as usize) < labels.len())
            && next_id <= LAST_ID + capacity as u32
            && (count == capacity || cursor == count);
        if !sound {
            return Err(damaged("no memory has such rows"));
        }
        let floats = count * stride;
        match &mut self.bank.rows {
            StoredRows::F32(stored) => arrays.vector(rows, engine, stored, floats).await?,
            StoredRows::F16(stored) => arrays.vector(rows, engine, stored, floats / 2).await?,
        }
        self.labels = own.iter().map(|row| labels[*row as usize]).collect();
        let tags: Vec<[u32; 2]> = self
            .labels
            .iter()
            .copied()
            .zip(ids)
            .map(Into::into)
            .collect();
        engine.upload(&mut self.bank.tags, 0, &tags).await?;
        for label in &self.labels {
            self.class_counts[*label as usize] += 1;
        }
        (self.rows, self.cursor, self.next_id, self.batch) = (own, cursor, next_id, batch);
        Ok(())
    }

    /// References of a step, whose batch was stored: the stored rows. Those of a batch alone learn, and where the memory is in half
    /// precision they are the batch's own rows, `unit`, which lie in the same order.
    pub(crate) fn references<'a>(&'a self, alone: bool, unit: &'a DeviceVec<f32>) -> Stored<'a> {
        match (self.bank.rows.read(), alone) {
            (Stored::F16(_), true) => Stored::F32(unit),
            (stored, _) => stored,
        }
    }

    /// The first `floats` of the stored rows.
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub(crate) async fn read(&self, engine: &Engine, floats: usize) -> Result<Vec<f32>> {
        match &self.bank.rows {
            StoredRows::F32(stored) => engine.read(stored, 0, floats as u64).await,
            StoredRows::F16(stored) => {
                let words = engine.read(stored, 0, floats as u64 / 2).await?;
                let mut rows = vec![0.0; floats];
                unpack(&words, &mut rows);
                Ok(rows)
            }
        }
    }

    /// Rows of the anchors that were just stored at `slots`, as the kernels take them.
    ///
    /// Offsets begin anew every `block_rows` rows.
    pub(crate) fn anchors(&self, labels: &[u32], slots: Slots, block_rows: usize) -> Vec<Row> {
        let mut offset = 0;
        let row = |(i, label): (usize, &u32)| {
            if i % block_rows == 0 {
                offset = 0;
            }
            let positives = self.class_counts[*label as usize] - 1;
            let row = Row {
                label: *label,
                id: slots.first_id + i as u32,
                offset,
                positives,
            };
            offset += positives + 1;
            row
        };
        labels.iter().enumerate().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::device::{EngineChoice, EngineKind};

    fn memory(capacity: usize) -> CrossBatchMemory {
        let choice = EngineChoice {
            kind: Some(EngineKind::Cpu),
            adapter: None,
            ..EngineChoice::default()
        };
        pollster::block_on(async {
            let engine = Engine::open(&choice, 1 << 20).await.expect("opens");
            let precision = Precision::F32;
            let plan = CrossBatchMemory::plan(MemoryPlan::default(), precision, capacity, 4);
            let mut workspace = engine.workspace("test", &plan, "").await.expect("fits");
            CrossBatchMemory::new(&mut workspace, precision, capacity, 10)
        })
    }

    #[test]
    fn the_ring_forgets_the_oldest_and_ids_name_the_slots() {
        let mut memory = memory(5);
        let slots =
            [[1, 2], [3, 1], [1, 4], [5, 6]].map(|labels| memory.reserve_slots(&labels, &labels));
        assert_eq!(slots.map(|s| s.cursor), [0, 2, 4, 1]);
        assert_eq!(slots.map(|s| s.first_id), [0, 2, 4, 6]);
        assert_eq!(memory.labels, [4, 5, 6, 1, 1]);
        assert_eq!([1, 2, 3].map(|label| memory.of_class(label)), [2, 0, 0]);
        for slots in slots {
            assert_eq!(slots.first_id as usize % 5, slots.cursor);
        }
    }

    #[test]
    fn after_a_reset_ids_are_new_and_still_name_the_slots() {
        let mut memory = memory(5);
        memory.reset(2);
        let before = memory.reserve_slots(&[1, 1], &[0, 1]);
        memory.reset(5);
        let after = memory.reserve_slots(&[1, 2], &[0, 1]);
        assert_eq!((after.cursor, after.capacity, memory.len()), (0, 5, 2));
        assert!(
            after.first_id > before.first_id + 1 && after.first_id.is_multiple_of(5),
            "{after:?}"
        );
    }

    #[test]
    fn ids_that_begin_anew_still_name_the_slots() {
        let mut memory = memory(5);
        memory.reset(3);
        memory.reserve_slots(&[1, 1], &[0, 1]);
        memory.next_id = LAST_ID / 3 * 3 + 5;
        let slots = memory.reserve_slots(&[2, 2], &[0, 1]);
        assert_eq!((slots.cursor, slots.first_id), (2, 2));
    }

    #[test]
    fn a_stored_row_is_found_by_its_id_and_has_the_age_of_its_batch() {
        let mut memory = memory(5);
        assert_eq!(memory.age(), MemoryAge::default());
        for step in 0..20 {
            let rows = [10 * step, 10 * step + 1];
            let slots = memory.reserve_slots(&[1, 1], &rows);
            // The last batch is stored under its ids, and so are the batches before it, as far as they are still stored.
            let ids = (0..slots.first_id + 2).rev().take(memory.len());
            let ages: Vec<u64> = ids
                .map(|id| {
                    assert_eq!(memory.row(id), 10 * (id / 2) + id % 2);
                    u64::from(step - id / 2)
                })
                .collect();
            let mean = ages.iter().sum::<u64>() as f64 / ages.len() as f64;
            let oldest = ages.iter().copied().max().unwrap_or(0);
            assert_eq!(memory.age(), MemoryAge { oldest, mean });
        }
        memory.reset(2);
        assert_eq!(memory.age(), MemoryAge::default());
    }

    #[test]
    fn an_anchor_has_every_stored_row_of_its_class_but_its_own_copy_as_positive() {
        let mut memory = memory(8);
        memory.reserve_slots(&[1, 2, 1], &[0, 1, 2]);
        let slots = memory.reserve_slots(&[1, 3, 2], &[3, 4, 5]);
        let rows = memory.anchors(&[1, 3, 2], slots, 2);
        let positives: Vec<_> = rows
            .iter()
            .map(|row| (row.id, row.offset, row.positives))
            .collect();
        assert_eq!(positives, [(3, 0, 2), (4, 3, 0), (5, 0, 1)]);
    }
}
