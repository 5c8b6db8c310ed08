//! [`SearchScratch`]: what a search holds beside rows, for searches of stored rows and of embeddings alike.

use crate::base::error::Result;
use crate::base::ledger::Purpose;
use crate::base::plan::MemoryPlan;
use crate::engine::pace::Slices;
use crate::engine::{DeviceVec, Workspace};
use crate::kernels::knn::{self, Inputs, MOST_KEPT, QueryBound, Scratch, Search, VISIT};

/// Scratch of a search: bounds of each query, neighbours kept so far, candidates.
#[derive(Debug)]
pub(crate) struct SearchScratch {
    asked: DeviceVec<QueryBound>,
    pub(super) scratch: Scratch,
    /// One visit of references is searched per dispatch. Set after candidates of a query did not fit.
    pub(super) careful: bool,
}

impl SearchScratch {
    /// Adds the buffers for `queries` queries, `kept` neighbours each, to a plan.
    pub(crate) fn plan(plan: MemoryPlan, queries: u64, kept: u64) -> MemoryPlan {
        plan.with::<QueryBound>(Purpose::Neighbours, "knn.asked", queries)
            .with::<[u32; 2]>(Purpose::Neighbours, "knn.kept", queries * kept)
            .with::<[u32; 2]>(
                Purpose::Similarities,
                "knn.survivors",
                queries * VISIT as u64,
            )
            .with::<u32>(Purpose::Similarities, "knn.counts", queries)
    }

    /// Takes the buffers from the workspace.
    pub(crate) fn new(workspace: &mut Workspace) -> Self {
        Self {
            asked: workspace.take("knn.asked"),
            scratch: Scratch {
                kept: workspace.take("knn.kept"),
                survivors: workspace.take("knn.survivors"),
                counts: workspace.take("knn.counts"),
            },
            careful: false,
        }
    }

    /// Number of queries that search together, and of neighbours that each keeps at once. A GPU keeps [`MOST_KEPT`] of each; the
    /// CPU takes fewer queries, which keep more in the same bytes: each then reads all references only once.
    pub(super) fn together(&self, queries: usize, k: usize) -> (usize, usize) {
        match &self.scratch.kept {
            DeviceVec::Cpu(kept) if k > MOST_KEPT => {
                let kept = kept.as_slice().len();
                ((kept / k).clamp(1, queries), k.min(kept))
            }
            _ => (queries, k.min(MOST_KEPT)),
        }
    }

    /// Uploads each query's bound: only references past it are returned.
    ///
    /// # Errors
    /// As [`Slices::upload`].
    pub(crate) async fn ask(
        &mut self,
        slices: &mut Slices<'_>,
        asked: &[QueryBound],
    ) -> Result<()> {
        slices.upload(&mut self.asked, 0, asked).await
    }

    /// Searches a chunk of references for all queries, a slice of work at a time; if `first`, the neighbours kept before are
    /// cleared.
    ///
    /// # Errors
    /// [`crate::Error::Device`], and [`crate::Error::Stopped`] between slices.
    pub(crate) async fn look(
        &mut self,
        slices: &mut Slices<'_>,
        chunk: &Search,
        queries: &DeviceVec<f32>,
        references: &DeviceVec<f32>,
        first: bool,
    ) -> Result<()> {
        let Self { asked, scratch, .. } = self;
        let inputs = Inputs {
            queries,
            references,
            asked,
        };
        if first {
            knn::clear(slices.commands(), chunk, inputs, scratch);
        }
        let operations = 2.0 * chunk.stride as f64;
        let mut first_row = 0;
        while first_row < chunk.rows {
            let left = chunk.rows - first_row;
            let (rows, _) = slices.pace().pairs(operations, left, chunk.references);
            let search = Search {
                first_row,
                rows,
                ..*chunk
            };
            let shape = knn::shape_for(slices.engine().info(), &search);
            let all = search.visits();
            let of_visit = operations * (rows * chunk.references.div_ceil(all)) as f64;
            let mut done = 0;
            while done < all {
                // On the CPU candidates always fit.
                let most = match (&scratch.kept, self.careful) {
                    (DeviceVec::Cpu(_), _) => all - done,
                    (_, true) => 1,
                    (_, false) => knn::visits_together(&search, shape, done).min(all - done),
                };
                let visits = done..done + slices.pace().units(of_visit, most);
                done = visits.end;
                let count = visits.len() as f64;
                knn::search(slices.commands(), &search, visits, shape, inputs, scratch);
                slices.recorded(of_visit * count).await?;
            }
            first_row += rows;
        }
        Ok(())
    }

    /// Reads the `k` neighbours that are kept of each query, `[bits of the similarity, id]`; `None` if some candidates did not fit:
    /// all references then have to be searched again, which takes one visit per dispatch from now on.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(crate) async fn kept(
        &mut self,
        slices: &mut Slices<'_>,
        queries: usize,
        k: usize,
    ) -> Result<Option<Vec<[u32; 2]>>> {
        let count = (queries * k) as u64;
        let kept = slices.read(&self.scratch.kept, 0, count).await?;
        let lost = knn::is_lost(&kept, k);
        self.careful |= lost;
        Ok((!lost).then_some(kept))
    }
}
