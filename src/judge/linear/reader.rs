//! [`Reader`]: reads the training rows of a linear map, and adds up means and scatters of their classes.

use web_time::Instant;

use super::scatters::{Scatters, add_products};
use crate::base::error::Result;
use crate::base::order;
use crate::base::working::{BREATHE_EVERY, Task};
use crate::data::Dataset;
use crate::engine::Engine;
use crate::model::scaling::Scaling;

/// Rows that are read at once.
const TILE_ROWS: usize = 256;
/// Bytes of the means of classes that are processed together.
const MEANS_BYTES: usize = 16 << 20;
/// Number of times that each row is read.
const PASSES: u64 = 4;

/// Reads rows tile by tile, and yields to other work on the engine between tiles.
pub(super) struct Reader<'a> {
    engine: &'a Engine,
    pub(super) dataset: &'a Dataset,
    scaling: &'a Scaling,
    /// Time of the last yield.
    breathed: Instant,
    /// Task that the engine's listener receives, and rows read.
    task: Task,
    read: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        dataset: &'a Dataset,
        scaling: &'a Scaling,
        rows: usize,
    ) -> Self {
        let task = Task {
            what: "fitting the linear map".to_owned(),
            unit: "rows",
            total: PASSES * rows as u64,
        };
        engine.tell(&task, 0);
        Self {
            engine,
            dataset,
            scaling,
            breathed: Instant::now(),
            task,
            read: 0,
        }
    }

    /// Calls `take` with every row of these classes and the number of its class among them, in dense tiles in the order of the
    /// rows: a file is read in one go.
    pub(super) async fn each(
        &mut self,
        classes: &[&[u32]],
        take: &mut dyn FnMut(&[f32], &[Member]),
    ) -> Result<()> {
        let mut members: Vec<Member> = Vec::new();
        for (class, rows) in classes.iter().enumerate() {
            members.extend(rows.iter().map(|row| Member { row: *row, class }));
        }
        order::sort_by_key(&mut members, |member| member.row);
        let (mut rows, mut tile) = (Vec::new(), Vec::new());
        for members in members.chunks(TILE_ROWS) {
            rows.clear();
            rows.extend(members.iter().map(|member| member.row));
            tile.clear();
            self.dataset.features.read(&rows, &mut tile).await?;
            self.scaling.apply(&mut tile);
            take(&tile, members);
            self.read += members.len() as u64;
            if self.breathed.elapsed() > BREATHE_EVERY {
                self.engine.tell(&self.task, self.read);
                self.engine.breathe().await?;
                self.breathed = Instant::now();
            }
        }
        Ok(())
    }

    /// Calls `take` with the residuals of the rows of some classes from the mean of their class, in tiles, and returns the means,
    /// `[classes, dim]`.
    pub(super) async fn residuals(
        &mut self,
        classes: &[&[u32]],
        take: &mut dyn FnMut(&mut Vec<f64>),
    ) -> Result<Vec<f64>> {
        let dim = self.dataset.features.dim();
        let mut means = vec![0.0; classes.len() * dim];
        self.each(classes, &mut |tile, members| {
            for (row, member) in tile.chunks_exact(dim).zip(members) {
                let mean = &mut means[member.class * dim..][..dim];
                mean.iter_mut()
                    .zip(row)
                    .for_each(|(mean, value)| *mean += f64::from(*value));
            }
        })
        .await?;
        for (mean, class) in means.chunks_exact_mut(dim).zip(classes) {
            mean.iter_mut().for_each(|mean| *mean /= class.len() as f64);
        }
        let mut residuals = Vec::new();
        self.each(classes, &mut |tile, members| {
            residuals.clear();
            for (row, member) in tile.chunks_exact(dim).zip(members) {
                let mean = &means[member.class * dim..][..dim];
                residuals.extend(row.iter().zip(mean).map(|(v, mean)| f64::from(*v) - mean));
            }
            take(&mut residuals);
        })
        .await?;
        Ok(means)
    }

    /// Groups of classes whose means fit in [`MEANS_BYTES`].
    fn groups<'c, 'r>(
        &self,
        classes: &'c [&'r [u32]],
    ) -> impl Iterator<Item = &'c [&'r [u32]]> + use<'c, 'r> {
        let mean_bytes = size_of::<f64>() * self.dataset.features.dim();
        classes.chunks((MEANS_BYTES / mean_bytes).max(1))
    }

    /// Mean and scatters of the rows of these classes.
    pub(super) async fn scatters(&mut self, classes: &[&[u32]]) -> Result<Scatters> {
        let dim = self.dataset.features.dim();
        let mut scatters = Scatters::new(dim, classes.len());
        for classes in self.groups(classes) {
            let within = &mut scatters.within;
            let mut take = |tile: &mut Vec<f64>| add_products(tile, dim, within);
            let means = self.residuals(classes, &mut take).await?;
            for (mean, class) in means.chunks_exact(dim).zip(classes) {
                scatters.join(mean, class.len() as f64);
            }
        }
        scatters.finish();
        Ok(scatters)
    }

    /// Mean over the rows of these classes of the fourth power of a residual's length over the scales.
    pub(super) async fn fourth_power(&mut self, classes: &[&[u32]], scales: &[f64]) -> Result<f64> {
        let (mut sum, mut rows) = (0.0, 0);
        for classes in self.groups(classes) {
            let mut take = |tile: &mut Vec<f64>| {
                for row in tile.chunks_exact(scales.len()) {
                    let values = row.iter().zip(scales);
                    let square: f64 = values.map(|(v, scale)| (v / scale).powi(2)).sum();
                    sum += square * square;
                }
            };
            self.residuals(classes, &mut take).await?;
            rows += classes.iter().map(|class| class.len()).sum::<usize>();
        }
        Ok(sum / rows as f64)
    }
}

/// A row, and the number of its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    row: u32,
    pub(super) class: usize,
}
