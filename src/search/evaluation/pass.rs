//! One pass of an evaluation: a block of queries, ranked against all references, which are resident or stream by.

use std::borrow::Cow;
use std::ops::Range;

use super::buffers::Evaluator;
use crate::base::error::Result;
use crate::base::order;
use crate::data::RowSource;
use crate::data::by_class::ByClass;
use crate::engine::pace::Slices;
use crate::kernels::ranks::{self, Block, Inputs, LabelBits, NO_ID, Row, Scratch};
use crate::kernels::tile::Shape;
use crate::kernels::{gather, stride};
use crate::model::metric::Form;
use crate::model::unit_rows::{TILE_ROWS, UnitRows};
use crate::search::rows::Classes;

/// The most dispatches that sort the thresholds of a query.
const MOST_STAGES: u32 = 144;

/// The queries of a score.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queries<'a> {
    /// References, by their place: each is left out of its own ranking.
    Own(&'a [u32]),
    /// Rows that are brought beside the references.
    Apart {
        /// The rows.
        rows: &'a RowSource,
        /// Class of each, among the references' classes or past them.
        classes: Classes<'a>,
        /// Their layout.
        form: Form,
        /// Place of each among the references, if they are some of them: each is left out of its own ranking.
        places: Option<&'a [u32]>,
    },
}

/// The references as the kernels take them.
pub(super) struct Known<'a> {
    pub(super) by_class: ByClass,
    pub(super) keys: Cow<'a, [u32]>,
    pub(super) bits: LabelBits,
}

/// A query of a block, and the range of its positives in the members.
pub(super) struct Job {
    pub(super) query: u32,
    pub(super) class: u32,
    pub(super) row: Row,
    pub(super) members: Range<usize>,
}

/// The kernels of a pass that compare queries with references.
enum Work {
    /// Finds the positives among references with these ids.
    Find(Range<u32>),
    /// Counts up to the largest rank that is needed, beside R.
    Gaps(usize),
}

impl Evaluator {
    /// Brings all references, in the order of their classes, so that the positives of a block are contiguous. They are read in
    /// their own order if there is room to sort a tile of them: a file is then read in one go.
    pub(super) async fn bring_by_class(
        &mut self,
        slices: &mut Slices<'_>,
        by_class: &ByClass,
        references: &mut UnitRows<'_>,
    ) -> Result<()> {
        let (all, at_once) = (references.len(), self.cut.queries);
        if at_once < TILE_ROWS.min(all) {
            let members = by_class.members.iter().copied();
            return references
                .bring_among(slices, members, &mut self.references, 0)
                .await;
        }
        let mut places = vec![0; all];
        for (place, row) in (0..).zip(&by_class.members) {
            places[*row as usize] = place;
        }
        let stride = stride(references.dim());
        for (first, places) in (0..).step_by(at_once).zip(places.chunks(at_once)) {
            let count = places.len();
            let rows = first..first + count as u32;
            references
                .bring_among(slices, rows, &mut self.queries, 0)
                .await?;
            slices.upload(&mut self.numbers, 0, places).await?;
            let (rows, numbers) = (&self.queries, &self.numbers);
            let to = &mut self.references;
            gather::scatter(slices.commands(), rows, numbers, count, stride, to);
        }
        Ok(())
    }

    pub(super) fn holds(&self, references: &UnitRows<'_>) -> bool {
        references.len() <= self.capacity()
    }

    /// Ranks the positives with an id in `ids` of one block of queries, and returns the number of gap counts.
    pub(super) async fn pass(
        &mut self,
        slices: &mut Slices<'_>,
        known: &Known<'_>,
        references: &mut UnitRows<'_>,
        queries: Queries<'_>,
        jobs: &[Job],
        ids: Range<u32>,
    ) -> Result<u64> {
        let resident = self.holds(references);
        // R is unknown here if only some of a query's positives are ranked.
        let depth = match ids == (0..NO_ID) {
            true => self.depth,
            false => usize::MAX,
        };
        let (find, gaps) = (Work::Find(ids), Work::Gaps(depth));
        self.fetch(slices, known, references, queries, jobs).await?;
        let whole = self.begin(slices, jobs, references.dim()).await?;
        // Blocks follow the order of the classes: their positives are one range of the members.
        let (first, last) = (&jobs[0].members, &jobs[jobs.len() - 1].members);
        let positives = first.start..last.end;
        if resident {
            self.compare(slices, &find, known.bits, whole, positives)
                .await?;
        } else {
            for chunk in known.by_class.members[positives].chunks(self.capacity()) {
                // In their own order, as a file has them, which is also the order within a class.
                let mut rows = chunk.to_vec();
                order::sort_numbers(&mut rows);
                let rows = rows.into_iter();
                self.bring(slices, known, references, rows).await?;
                self.compare(slices, &find, known.bits, whole, 0..chunk.len())
                    .await?;
            }
        }
        slices.reserve(MOST_STAGES).await?;
        let most = jobs.iter().map(|job| job.row.positives).max();
        let (inputs, scratch) = self.operands();
        ranks::order(
            slices.commands(),
            &whole,
            most.unwrap_or(0) as usize,
            inputs,
            scratch,
        );
        let all = known.keys.len();
        let at_once = if resident { all } else { self.capacity() };
        for first in (0..all).step_by(at_once) {
            let rows = first as u32..all.min(first + at_once) as u32;
            if !resident {
                self.bring(slices, known, references, rows.clone()).await?;
            }
            self.compare(slices, &gaps, known.bits, whole, 0..rows.len())
                .await?;
        }
        let places = jobs.iter().map(|job| u64::from(job.row.positives) + 1);
        Ok(places.sum())
    }

    /// Begins the pass of these queries: all of them, and no references yet.
    async fn begin(&mut self, slices: &mut Slices<'_>, jobs: &[Job], dim: usize) -> Result<Block> {
        let batch: Vec<Row> = jobs.iter().map(|job| job.row).collect();
        slices.upload(&mut self.batch, 0, &batch).await?;
        let whole = Block {
            first_row: 0,
            rows: batch.len(),
            batch: 0,
            first_reference: 0,
            references: 0,
            stride: stride(dim),
        };
        let (inputs, scratch) = self.operands();
        ranks::clear(slices.commands(), &whole, inputs, scratch);
        Ok(whole)
    }

    /// The vectors of a pass as its kernels take them.
    fn operands(&mut self) -> (Inputs<'_>, &mut Scratch) {
        let inputs = Inputs {
            anchors: &self.queries,
            references: (&self.references).into(),
            batch: &self.batch,
            tags: &self.tags,
        };
        (inputs, &mut self.scratch)
    }

    /// Compares all rows of a block with these references, in slices.
    async fn compare(
        &mut self,
        slices: &mut Slices<'_>,
        work: &Work,
        bits: LabelBits,
        block: Block,
        references: Range<usize>,
    ) -> Result<()> {
        let (inputs, scratch) = self.operands();
        let info = slices.engine().info();
        let operations = 2.0 * block.stride as f64;
        let mut row = 0;
        while row < block.rows {
            let all = references.len();
            let (rows, at_once) = slices.pace().pairs(operations, block.rows - row, all);
            for first in references.clone().step_by(at_once) {
                let count = at_once.min(references.end - first);
                let part = Block {
                    first_row: row,
                    rows,
                    batch: row,
                    first_reference: first,
                    references: count,
                    ..block
                };
                let commands = slices.commands();
                match work {
                    Work::Find(ids) => {
                        ranks::find(commands, &part, ids.clone(), bits, inputs, scratch);
                    }
                    Work::Gaps(depth) => {
                        let shape = Shape::of(info, rows);
                        ranks::gaps_within(commands, &part, *depth, bits, shape, inputs, scratch);
                    }
                }
                slices.recorded(operations * (rows * count) as f64).await?;
            }
            row += rows;
        }
        Ok(())
    }

    /// Brings some references to the front of the buffer, with their keys and ids.
    async fn bring(
        &mut self,
        slices: &mut Slices<'_>,
        known: &Known<'_>,
        references: &mut UnitRows<'_>,
        rows: impl Iterator<Item = u32> + Clone,
    ) -> Result<()> {
        references
            .bring_among(slices, rows.clone(), &mut self.references, 0)
            .await?;
        self.tag(slices, known, rows).await
    }

    /// Uploads key and id of the references that are in the buffer now.
    pub(super) async fn tag(
        &mut self,
        slices: &mut Slices<'_>,
        known: &Known<'_>,
        rows: impl Iterator<Item = u32>,
    ) -> Result<()> {
        let mut rows = rows.peekable();
        let mut at = 0;
        while rows.peek().is_some() {
            let tags: Vec<[u32; 2]> = rows
                .by_ref()
                .take(1 << 16)
                .map(|row| [known.keys[row as usize], row])
                .collect();
            slices.upload(&mut self.tags, at, &tags).await?;
            at += tags.len() as u64;
        }
        Ok(())
    }

    /// Makes the queries of a block the anchors of the pass.
    async fn fetch(
        &mut self,
        slices: &mut Slices<'_>,
        known: &Known<'_>,
        references: &mut UnitRows<'_>,
        queries: Queries<'_>,
        jobs: &[Job],
    ) -> Result<()> {
        let asked = jobs.iter().map(|job| job.query);
        let dim = references.dim();
        match queries {
            Queries::Own(_) if self.holds(references) => {
                let place = |job: &Job| {
                    let class = known.by_class.of(job.class);
                    let within = known.by_class.members[class.clone()]
                        .partition_point(|row| *row < job.query);
                    (class.start + within) as u32
                };
                let places: Vec<u32> = jobs.iter().map(place).collect();
                slices.upload(&mut self.numbers, 0, &places).await?;
                let (from, numbers) = ((&self.references).into(), &self.numbers);
                let (count, stride) = (places.len(), stride(dim));
                gather::gather(
                    slices.commands(),
                    from,
                    numbers,
                    0,
                    count,
                    stride,
                    &mut self.queries,
                );
                Ok(())
            }
            Queries::Own(_) => {
                references
                    .bring_among(slices, asked, &mut self.queries, 0)
                    .await
            }
            Queries::Apart { rows, form, .. } => {
                let chosen = None;
                let mut stored = UnitRows::Stored { rows, chosen, form };
                stored
                    .bring_among(slices, asked, &mut self.queries, 0)
                    .await
            }
        }
    }
}
