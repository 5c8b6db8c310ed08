//! Triplets that a miner keeps, listed from blocks of similarities. Triplets of a band are counted cell by cell, then written at
//! the offset that the earlier counts add up to; of a miner that chooses one triplet for each pair, a window is a range of pairs.

use std::borrow::Cow;
use std::ops::Range;

use web_time::Instant;

use super::{Cut, LOOK_OPERATIONS, ListingSpec, Outlet, Window, workspace};
use crate::base::error::Result;
use crate::cpu::Distance;
use crate::engine::pace::{Pace, Slices};
use crate::engine::{DeviceVec, Engine};
use crate::kernels::ranks::Block;
use crate::kernels::similarities::similarities;
use crate::kernels::stride;
use crate::kernels::tile::Shape;
use crate::kernels::triplets::{Band, Batch, CELL, Inputs, Row, count, facenet, write};
use crate::mining::triplets::Triplets;
use crate::model::metric::Form;
use crate::model::unit_rows::UnitRows;
use crate::search::rows::Rows;

/// Operations that are accounted for one cell.
const CELL_OPERATIONS: f64 = CELL as f64 * LOOK_OPERATIONS;

/// Rule of the triplets that are kept.
#[derive(Clone, Copy)]
pub(super) enum Keeps {
    Band(Band),
    Facenet,
}

/// The buffers of the phase.
pub(super) struct Mined<'a> {
    engine: &'a Engine,
    all: &'a Triplets<'a>,
    cut: Cut,
    stride: usize,
    distance: Distance,
    references: DeviceVec<f32>,
    members: DeviceVec<u32>,
    labels: DeviceVec<u32>,
    anchors: DeviceVec<f32>,
    similarities: DeviceVec<f32>,
    rows: DeviceVec<Row>,
    counts: DeviceVec<u32>,
    window: Window,
    products: Pace,
    looks: Pace,
}

impl<'a> Mined<'a> {
    pub(super) async fn new(
        engine: &'a Engine,
        spec: &ListingSpec,
        all: &'a Triplets<'a>,
        distance: Distance,
    ) -> Result<Self> {
        let (mut workspace, cut) = workspace(engine, spec).await?;
        Ok(Self {
            engine,
            distance,
            all,
            cut,
            stride: stride(spec.dim),
            references: workspace.take("list.references"),
            members: workspace.take("list.members"),
            labels: workspace.take("list.labels"),
            anchors: workspace.take("list.anchors"),
            similarities: workspace.take("list.similarities"),
            rows: workspace.take("list.rows"),
            counts: workspace.take("list.counts"),
            window: Window::new(&mut workspace),
            products: Pace::of(engine),
            looks: Pace::of(engine),
        })
    }

    /// Brings in the references, with their labels and the members of each class.
    pub(super) async fn load(&mut self, known: Rows<'_>, labels: &[u32]) -> Result<()> {
        let numbers = 0..labels.len() as u32;
        let (engine, to) = (self.engine, &mut self.references);
        stored(known).bring(engine, numbers, to, 0).await?;
        engine.upload(&mut self.labels, 0, labels).await?;
        engine
            .upload(&mut self.members, 0, self.all.members())
            .await
    }

    /// Hands on all windows.
    pub(super) async fn list<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        keeps: Keeps,
        anchors: Rows<'_>,
        outlet: &mut Outlet<F>,
    ) -> Result<(u64, u32)> {
        let mut done = 0;
        while done < anchors.labels.len() {
            let (block, pairs) = self.next_block(anchors, done).await?;
            match keeps {
                Keeps::Band(band) => self.band(band, block.len(), pairs, outlet).await?,
                Keeps::Facenet => self.facenet(block.len(), pairs, outlet).await?,
            }
            done = block.end;
        }
        self.end().await
    }

    /// Computes the similarities of as many anchors from `first` on as make a slice; returns the range of these anchors and their
    /// number of pairs.
    pub(super) async fn next_block(
        &mut self,
        anchors: Rows<'_>,
        first: usize,
    ) -> Result<(Range<usize>, usize)> {
        let operations = 2.0 * self.all.references() as f64 * self.stride as f64;
        let most = self.products.units(operations, self.cut.rows);
        let block = first..anchors.labels.len().min(first + most);
        let started = Instant::now();
        let pairs = self.similarities(anchors, block.clone()).await?;
        self.engine.settle().await?;
        let operations = operations * block.len() as f64;
        self.products.record(operations, started.elapsed());
        self.engine.breathe().await?;
        Ok((block, pairs))
    }

    /// All valid triplets.
    pub(super) fn all(&self) -> &'a Triplets<'a> {
        self.all
    }

    /// The most triplets of a window.
    pub(super) fn room(&self) -> usize {
        self.cut.triplets
    }

    /// See [`Engine::breathe`].
    pub(super) async fn breathe(&self) -> Result<()> {
        self.engine.breathe().await
    }

    /// `count` similarities of the block, from `first` on.
    pub(super) async fn view_similarities(&self, first: u64, count: u64) -> Result<Cow<'_, [f32]>> {
        self.engine.view(&self.similarities, first, count).await
    }

    /// Hands on triplets that were made on the host, and empties their list.
    pub(super) async fn hand_on_host<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        triplets: &mut Vec<[u32; 3]>,
        outlet: &mut Outlet<F>,
    ) -> Result<()> {
        if triplets.is_empty() {
            return Ok(());
        }
        let to = &mut self.window.triplets;
        self.engine.upload(to, 0, triplets.as_flattened()).await?;
        let mut slices = Slices::new(self.engine, &mut self.looks);
        self.window
            .hand_on(&mut slices, triplets.len(), outlet)
            .await?;
        slices.submit();
        triplets.clear();
        Ok(())
    }

    /// Number of triplets that were handed on, and the checksum if one was asked for.
    pub(super) async fn end(&self) -> Result<(u64, u32)> {
        self.window.end(self.engine).await
    }

    /// Computes the similarities of a block of anchors, and returns their number of pairs.
    async fn similarities(&mut self, anchors: Rows<'_>, block: Range<usize>) -> Result<usize> {
        let mut pairs = 0;
        let row = |anchor| {
            let row = self.all.row(anchor);
            let offset = pairs;
            if (row.members as usize) < self.all.references() {
                pairs += row.positives();
            }
            Row { offset, ..row }
        };
        let rows: Vec<Row> = block.clone().map(row).collect();
        let numbers = block.start as u32..block.end as u32;
        stored(anchors)
            .bring(self.engine, numbers, &mut self.anchors, 0)
            .await?;
        let block = Block {
            first_row: 0,
            rows: rows.len(),
            batch: 0,
            first_reference: 0,
            references: self.all.references(),
            stride: self.stride,
        };
        let mut commands = self.engine.commands();
        commands.upload(&mut self.rows, 0, &rows);
        similarities(
            &mut commands,
            &block,
            Shape::of(self.engine.info(), rows.len()),
            self.distance,
            &self.anchors,
            (&self.references).into(),
            &mut self.similarities,
        );
        self.engine.submit(commands);
        Ok(pairs as usize)
    }

    /// Hands on the triplets in a band of `pairs` pairs, a batch at a time.
    async fn band<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        band: Band,
        rows: usize,
        pairs: usize,
        outlet: &mut Outlet<F>,
    ) -> Result<()> {
        let references = self.all.references();
        let of_a_pair = Batch::cells_of_a_pair(references).max(1);
        let at_once = self.cut.cells / of_a_pair;
        for first_pair in (0..pairs).step_by(at_once) {
            let batch = Batch {
                rows,
                references,
                first_pair,
                band,
            };
            let cells = at_once.min(pairs - first_pair) * of_a_pair;
            self.batch(&batch, cells, outlet).await?;
        }
        Ok(())
    }

    /// Hands on one triplet for each of `pairs` pairs.
    async fn facenet<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        rows: usize,
        pairs: usize,
        outlet: &mut Outlet<F>,
    ) -> Result<()> {
        let inputs = Inputs {
            rows: &self.rows,
            members: &self.members,
            labels: &self.labels,
            similarities: &self.similarities,
        };
        let references = self.all.references();
        let operations = references as f64 * LOOK_OPERATIONS;
        for first in (0..pairs).step_by(self.cut.triplets) {
            let last = pairs.min(first + self.cut.triplets);
            let mut slices = Slices::new(self.engine, &mut self.looks);
            let mut done = first;
            while done < last {
                let part = done..done + slices.pace().units(operations, last - done);
                done = part.end;
                let (count, place) = (part.len() as f64, part.start - first);
                let (commands, to) = (slices.commands(), &mut self.window.triplets);
                facenet(
                    commands,
                    rows,
                    references,
                    part,
                    place,
                    inputs,
                    &self.counts,
                    to,
                );
                slices.recorded(count * operations).await?;
            }
            self.window
                .hand_on(&mut slices, last - first, outlet)
                .await?;
            slices.submit();
        }
        Ok(())
    }

    /// Counts the triplets that a batch keeps, and hands them on in windows.
    async fn batch<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        batch: &Batch,
        cells: usize,
        outlet: &mut Outlet<F>,
    ) -> Result<()> {
        let inputs = Inputs {
            rows: &self.rows,
            members: &self.members,
            labels: &self.labels,
            similarities: &self.similarities,
        };
        let engine = self.engine;
        let (counts, window) = (&mut self.counts, &mut self.window);
        let mut slices = Slices::new(engine, &mut self.looks);
        let mut done = 0;
        while done < cells {
            let part = done..done + slices.pace().units(CELL_OPERATIONS, cells - done);
            done = part.end;
            let operations = part.len() as f64 * CELL_OPERATIONS;
            count(slices.commands(), batch, part, inputs, counts);
            slices.recorded(operations).await?;
        }
        slices.submit();
        let mut offsets = engine.read(counts, 0, cells as u64).await?;
        let mut total = 0;
        for offset in &mut offsets {
            total += std::mem::replace(offset, total);
        }
        offsets.push(total);
        engine.upload(counts, 0, &offsets).await?;
        let mut start = 0;
        while start < total {
            let end = total.min(start.saturating_add(self.cut.triplets as u32));
            let last = offsets.partition_point(|offset| *offset < end);
            let mut first = offsets.partition_point(|offset| *offset <= start) - 1;
            while first < last {
                let part = first..first + slices.pace().units(CELL_OPERATIONS, last - first);
                first = part.end;
                let operations = part.len() as f64 * CELL_OPERATIONS;
                let commands = slices.commands();
                let to = &mut window.triplets;
                write(commands, batch, part, start..end, inputs, counts, to);
                slices.recorded(operations).await?;
            }
            let listed = (end - start) as usize;
            window.hand_on(&mut slices, listed, outlet).await?;
            start = end;
        }
        slices.submit();
        Ok(())
    }
}

fn stored(rows: Rows<'_>) -> UnitRows<'_> {
    UnitRows::Stored {
        rows: rows.rows,
        chosen: None,
        form: Form::Unit,
    }
}
