//! [`Windows`]: any window of the list of every valid triplet, written from the classes alone.

use std::borrow::Cow;
use std::ops::Range;

use super::{Cut, ListingSpec, OPERATIONS, Outlet, Window, workspace};
use crate::base::error::{Error, Result};
use crate::engine::pace::{Pace, Slices};
use crate::engine::{DeviceVec, Engine};
use crate::kernels::triplets::{Row, valid};
use crate::mining::triplets::Triplets;
use bytemuck::cast_slice;

/// Any window `[t0, t1)` of the list of all valid triplets, written to one buffer on the engine.
pub struct Windows<'a> {
    engine: &'a Engine,
    all: &'a Triplets<'a>,
    cut: Cut,
    members: DeviceVec<u32>,
    rows: DeviceVec<Row>,
    window: Window,
    pace: Pace,
}

impl<'a> Windows<'a> {
    /// Creates the buffers; the window has at most `window_bytes`.
    ///
    /// # Errors
    /// Errors of [`ListingSpec::plan`]; [`Error::Device`].
    pub async fn new(engine: &'a Engine, all: &'a Triplets<'a>, window_bytes: u64) -> Result<Self> {
        let spec = ListingSpec {
            anchors: all.anchors(),
            references: all.references(),
            dim: 0,
            positives: 0,
            mined: false,
            window_bytes,
        };
        let (mut workspace, cut) = workspace(engine, &spec).await?;
        let mut windows = Self {
            engine,
            all,
            cut,
            members: workspace.take("list.members"),
            rows: workspace.take("list.rows"),
            window: Window::new(&mut workspace),
            pace: Pace::of(engine),
        };
        engine
            .upload(&mut windows.members, 0, all.members())
            .await?;
        Ok(windows)
    }

    /// The most triplets of a window.
    pub fn room(&self) -> u64 {
        self.cut.triplets as u64
    }

    /// The triplets with these numbers.
    ///
    /// # Errors
    /// [`Error::Config`] for a window that ends after the last triplet or is larger than [`Windows::room`];
    /// [`Error::Device`]; [`Error::Stopped`].
    pub async fn read(&mut self, window: Range<u64>) -> Result<Cow<'_, [[u32; 3]]>> {
        let (count, most) = (self.all.len(), self.room());
        let Range { start, end } = window;
        if start > end || end > count {
            return Err(Error::Config(format!(
                "the window {start}..{end} of a list of {count} triplets: it must end at {count} or before"
            )));
        }
        if end - start > most {
            return Err(Error::Config(format!(
                "the window {start}..{end} has {} triplets: the buffer holds {most}",
                end - start
            )));
        }
        let mut pace = self.pace;
        let mut slices = Slices::new(self.engine, &mut pace);
        self.write(&mut slices, window).await?;
        slices.submit();
        self.pace = pace;
        let words = 3 * (end - start);
        Ok(
            match self.engine.view(&self.window.triplets, 0, words).await? {
                Cow::Borrowed(words) => Cow::Borrowed(cast_slice(words)),
                Cow::Owned(words) => Cow::Owned(cast_slice(&words).to_vec()),
            },
        )
    }

    /// Hands on all windows; nobody waits for those that stay on the device.
    pub(super) async fn list<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        outlet: &mut Outlet<F>,
    ) -> Result<(u64, u32)> {
        let mut pace = self.pace;
        let mut slices = Slices::new(self.engine, &mut pace);
        let mut start = 0;
        while start < self.all.len() {
            let end = self.all.len().min(start + self.room());
            self.write(&mut slices, start..end).await?;
            let count = (end - start) as usize;
            self.window.hand_on(&mut slices, count, outlet).await?;
            start = end;
        }
        slices.submit();
        self.window.end(self.engine).await
    }

    /// Writes a window, in slices of as many anchors as fit the buffer.
    async fn write(&mut self, slices: &mut Slices<'_>, window: Range<u64>) -> Result<()> {
        let mut t = window.start;
        while t < window.end {
            let most = slices.pace().units(OPERATIONS, self.cut.triplets) as u64;
            let part = t..window.end.min(t + most);
            let (mut rows, begin, end) = self.all.rows(part, self.cut.rows);
            let place = (t - window.start) as usize;
            for row in &mut rows {
                row.offset += place as u32;
            }
            slices.upload(&mut self.rows, 0, &rows).await?;
            valid(
                slices.commands(),
                self.all.references(),
                begin,
                place..place + (end - t) as usize,
                rows.len(),
                &self.rows,
                &self.members,
                &mut self.window.triplets,
            );
            slices.recorded((end - t) as f64 * OPERATIONS).await?;
            t = end;
        }
        Ok(())
    }
}
