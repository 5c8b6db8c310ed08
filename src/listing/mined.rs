//! The triplets that a band keeps, listed from blocks of similarities: counted cell by cell, then written where the counts
//! before them end.

use std::ops::Range;

use web_time::Instant;

use super::{Cut, LOOK_OPERATIONS, ListingSpec, Outlet, Window, workspace};
use crate::engine::{DeviceVec, Engine};
use crate::error::Result;
use crate::evaluation::Rows;
use crate::kernels::ranks::Block;
use crate::kernels::similarities::similarities;
use crate::kernels::stride;
use crate::kernels::tile::Shape;
use crate::kernels::triplets::{Band, Batch, CELL, Inputs, Row, count, write};
use crate::pace::{Pace, Slices};
use crate::triplets::Triplets;
use crate::unit_rows::{Intake, UnitRows};

/// Operations that a cell counts as.
const CELL_OPERATIONS: f64 = CELL as f64 * LOOK_OPERATIONS;

/// The buffers of the phase.
pub(super) struct Mined<'a> {
    engine: &'a Engine,
    all: &'a Triplets<'a>,
    band: Band,
    cut: Cut,
    stride: usize,
    intake: Intake,
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
        band: Band,
    ) -> Result<Self> {
        let (mut workspace, cut) = workspace(engine, spec).await?;
        Ok(Self {
            engine,
            all,
            band,
            cut,
            stride: stride(spec.dim),
            intake: Intake::new(&mut workspace),
            references: workspace.take("list.references"),
            members: workspace.take("list.members"),
            labels: workspace.take("list.labels"),
            anchors: workspace.take("list.anchors"),
            similarities: workspace.take("list.similarities"),
            rows: workspace.take("list.rows"),
            counts: workspace.take("list.counts"),
            window: Window::new(&mut workspace),
            products: Pace::default(),
            looks: Pace::default(),
        })
    }

    /// Brings the references in.
    pub(super) async fn load(&mut self, known: Rows<'_>, labels: &[u32]) -> Result<()> {
        let numbers = 0..labels.len() as u32;
        let (engine, to) = (self.engine, &mut self.references);
        stored(known)
            .bring(engine, &mut self.intake, numbers, to, 0)
            .await?;
        engine.upload(&mut self.labels, 0, labels).await?;
        engine
            .upload(&mut self.members, 0, self.all.members())
            .await
    }

    /// Hands on every window there is.
    pub(super) async fn list<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        anchors: Rows<'_>,
        mut outlet: Outlet<F>,
    ) -> Result<(u64, u32)> {
        let total = anchors.labels.len();
        let mut done = 0;
        while done < total {
            let operations = 2.0 * self.all.references() as f64 * self.stride as f64;
            let most = self.products.units(operations, self.cut.rows);
            let block = done..total.min(done + most);
            let started = Instant::now();
            let pairs = self.similarities(anchors, block.clone()).await?;
            self.engine.settle().await?;
            self.products
                .record(operations * block.len() as f64, started.elapsed());
            self.engine.breathe().await?;
            let of_a_pair = Batch::cells_of_a_pair(self.all.references()).max(1);
            let at_once = self.cut.cells / of_a_pair;
            for first_pair in (0..pairs).step_by(at_once) {
                let batch = Batch {
                    rows: block.len(),
                    references: self.all.references(),
                    first_pair,
                    band: self.band,
                };
                let cells = at_once.min(pairs - first_pair) * of_a_pair;
                self.batch(&batch, cells, &mut outlet).await?;
            }
            done = block.end;
        }
        self.window.end(self.engine).await
    }

    /// Computes the similarities of a block of anchors, and gives how many pairs they are in.
    async fn similarities(&mut self, anchors: Rows<'_>, block: Range<usize>) -> Result<usize> {
        let mut pairs = 0;
        let row = |anchor| {
            let row = self.all.row(anchor);
            let offset = pairs;
            pairs += row.positives();
            Row { offset, ..row }
        };
        let rows: Vec<Row> = block.clone().map(row).collect();
        let numbers = block.start as u32..block.end as u32;
        stored(anchors)
            .bring(self.engine, &mut self.intake, numbers, &mut self.anchors, 0)
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
            &self.anchors,
            &self.references,
            &mut self.similarities,
        );
        self.engine.submit(commands);
        Ok(pairs as usize)
    }

    /// Counts what a batch keeps, and hands it on in windows.
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
            slices.submit();
            let listed = (end - start) as usize;
            window.hand_on(engine, listed, outlet).await?;
            start = end;
        }
        Ok(())
    }
}

fn stored(rows: Rows<'_>) -> UnitRows<'_> {
    UnitRows::Stored {
        rows: rows.rows,
        chosen: None,
    }
}
