//! [`KnnIndex`]: the search phase. Takes rows, gives the exact k nearest references of every query, in memory that its plan fixes: references and queries that do not fit are streamed.

#[cfg(not(target_arch = "wasm32"))]
mod across;
mod distance;
mod scratch;

use std::collections::VecDeque;
use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::memory::zeros;
use crate::base::plan::{MemoryPlan, Room};
use crate::data::RowSource;
use crate::engine::pace::{Fetch, Pace, Slices};
use crate::engine::{DeviceVec, Engine};
use crate::kernels::knn::{self, MOST_KEPT, QueryBound, Search, VISIT};
use crate::kernels::stored::Precision;
use crate::kernels::{self, stride};
use crate::model::metric::Metric;
use crate::model::unit_rows::UnitRows;

#[cfg(not(target_arch = "wasm32"))]
pub use across::search_across;
pub(crate) use scratch::SearchScratch;

/// Bytes of all buffers of a search, streamed chunks included, but without resident references.
const SCRATCH_BYTES: u64 = 64 << 20;
/// The most queries of a block.
const BLOCK_QUERIES: u64 = 4096;
/// Blocks of queries in flight before the neighbours of the first are read: they share the same buffers in turn.
const BLOCKS_UNDER_WAY: usize = 4;
/// The fewest references of a streamed chunk.
const FEWEST_REFERENCES: u64 = 256;
const ADVICE: &str = "raise the budget, or use fewer dimensions";

/// The sizes of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnnSpec {
    /// Number of queries.
    pub queries: usize,
    /// Number of references.
    pub references: usize,
    /// Columns of both on the engine: one more than they have for [`Metric::L2`].
    pub dim: usize,
    /// Neighbours of each query.
    pub k: usize,
    /// The queries are the references themselves; a query is then no neighbour of itself.
    pub own: bool,
}

/// The nearest references of every query, nearest first: by descending similarity, then by ascending id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbors {
    /// Neighbours of each query.
    pub k: usize,
    /// Numbers of the references, `[queries, k]`.
    pub ids: Vec<u32>,
    /// Cosine similarities, `[queries, k]`; inner products or minus the distances where rows were compared by these.
    pub similarities: Vec<f32>,
}

impl Neighbors {
    /// Stores `kept` neighbours of every query from `first` on, as the neighbours from place `window` on.
    fn note(&mut self, first: usize, window: usize, kept: usize, entries: &[[u32; 2]]) {
        for (query, entries) in (first..).zip(entries.chunks_exact(kept)) {
            for (place, [similarity, id]) in (query * self.k + window..).zip(entries) {
                self.ids[place] = *id;
                self.similarities[place] = f32::from_bits(*similarity);
            }
        }
    }
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    queries: usize,
    references: usize,
}

impl KnnSpec {
    /// A search for `k` neighbours of these queries, or of the references themselves if `None`.
    pub fn of(references: &RowSource, queries: Option<&RowSource>, k: usize) -> Self {
        Self::by(references, queries, k, Metric::Cosine)
    }

    /// A search as [`KnnSpec::of`], by this metric.
    pub fn by(
        references: &RowSource,
        queries: Option<&RowSource>,
        k: usize,
        metric: Metric,
    ) -> Self {
        Self {
            queries: queries.unwrap_or(references).rows(),
            references: references.rows(),
            dim: metric.columns(references.dim()),
            k,
            own: queries.is_none(),
        }
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// [`Error::Config`] for a k that is 0 or more than there are references; [`Error::Data`] for more rows than ids.
    pub fn check(&self) -> Result<()> {
        check_count("references", self.references)?;
        check_count("queries", self.queries)?;
        let others = self.references - usize::from(self.own && self.references > 0);
        if self.own && self.references == 1 {
            return Err(Error::Config(
                "there is one row, and no other row for it to find: give the rows to search as references (--references)"
                    .to_owned(),
            ));
        }
        if self.k == 0 || self.k > others {
            let itself = if self.own {
                " other than the query"
            } else {
                ""
            };
            return Err(Error::Config(format!(
                "k is {}: there are {others} references{itself}, so 1 to {others} can be asked for",
                self.k
            )));
        }
        Ok(())
    }

    /// Forecasts a search: a pure function, monotone in the room.
    ///
    /// # Errors
    /// As [`KnnSpec::check`]; [`Error::Refused`] and [`Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        self.check()?;
        let cut = self.cut(room);
        let memory = self.buffers(&cut);
        memory.fits_or("knn", room, ADVICE, |room| self.buffers(&self.cut(room)))?;
        let resident = cut.references >= self.references;
        let (blocks, windows) = (
            self.queries.div_ceil(cut.queries) as u64,
            self.k.div_ceil(MOST_KEPT) as u64,
        );
        let passes = if resident { 1 } else { blocks * windows };
        let (queries, references) = (self.queries as u64, self.references as u64);
        let operations =
            2.0 * (queries * windows) as f64 * references as f64 * stride(self.dim) as f64;
        let row_bytes = 4 * self.dim as u64;
        let traffic_bytes =
            row_bytes.saturating_mul(passes.saturating_mul(references).saturating_add(queries));
        let chunks = self.references.div_ceil(cut.references) as u64;
        Ok(Forecast {
            memory,
            block_queries: cut.queries as u64,
            chunk_rows: cut.references as u64,
            resident,
            passes,
            submits: (blocks * windows).saturating_mul(chunks),
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: None,
            batch_chunk: None,
            map_bytes: 0,
        })
    }

    /// Neighbours that are kept at once.
    fn kept(&self) -> usize {
        self.k.min(MOST_KEPT)
    }

    /// The largest blocks that fit the room: all references at once if they fit beside blocks of a useful size.
    fn cut(&self, room: &Room) -> Cut {
        let row_bytes = 4 * stride(self.dim) as u64;
        let references = self.references as u64;
        let query_bytes =
            row_bytes + (size_of::<QueryBound>() + 8 * self.kept() + 8 * VISIT + 4) as u64;
        // Bytes that remain beside the rounding of every buffer.
        let rounding = 8 * 16;
        let scratch = SCRATCH_BYTES - rounding;
        let free = room.free_bytes.saturating_sub(rounding);
        let most_queries = BLOCK_QUERIES
            .min(self.queries as u64)
            .min(room.max_buffer_bytes / (8 * VISIT as u64).max(row_bytes))
            .max(1);
        let rest = free
            .saturating_sub(references.saturating_mul(row_bytes))
            .min(scratch);
        let queries = (rest / query_bytes).min(most_queries);
        if queries >= most_queries.min(256)
            && references.saturating_mul(row_bytes) <= room.max_buffer_bytes
        {
            return Cut {
                queries: queries as usize,
                references: self.references,
            };
        }
        let free = free.min(scratch);
        // A quarter for streamed references, and never so little that only a few go at a time.
        let fewest = FEWEST_REFERENCES.min(references).max(1);
        let blocks = (free / 4 * 3).min(free.saturating_sub(fewest * row_bytes));
        let queries = (blocks / query_bytes).clamp(1, most_queries);
        let rest = free.saturating_sub(queries * query_bytes) / row_bytes.max(1);
        let most = (room.max_buffer_bytes / row_bytes.max(1))
            .min(references)
            .max(1);
        Cut {
            queries: queries as usize,
            references: rest.min(most).max(fewest) as usize,
        }
    }

    fn buffers(&self, cut: &Cut) -> MemoryPlan {
        let stride = stride(self.dim) as u64;
        let (queries, kept) = (cut.queries as u64, self.kept() as u64);
        let references = cut.references as u64;
        let plan = MemoryPlan::default()
            .with::<f32>(Purpose::Neighbours, "knn.references", references * stride)
            .with::<f32>(Purpose::Neighbours, "knn.queries", queries * stride);
        SearchScratch::plan(plan, queries, kept)
    }
}

/// References on an engine, resident or streamed, ready to be searched.
#[derive(Debug)]
pub struct KnnIndex<'a> {
    engine: &'a Engine,
    rows: &'a RowSource,
    metric: Metric,
    /// Place of each query among the references, if they are some of them.
    places: Option<&'a [u32]>,
    spec: KnnSpec,
    cut: Cut,
    loaded: bool,
    references: DeviceVec<f32>,
    queries: DeviceVec<f32>,
    seeker: SearchScratch,
    pace: Pace,
}

impl<'a> KnnIndex<'a> {
    /// Prepares searches for `k` neighbours of `queries`, or of the references themselves if `None`.
    ///
    /// # Errors
    /// As [`KnnSpec::plan`]; [`Error::Device`].
    pub async fn new(
        engine: &'a Engine,
        references: &'a RowSource,
        queries: Option<&RowSource>,
        k: usize,
    ) -> Result<Self> {
        Self::by(engine, references, queries, k, Metric::Cosine).await
    }

    /// As [`KnnIndex::new`], for neighbours by this metric.
    ///
    /// # Errors
    /// As [`KnnIndex::new`].
    pub async fn by(
        engine: &'a Engine,
        references: &'a RowSource,
        queries: Option<&RowSource>,
        k: usize,
        metric: Metric,
    ) -> Result<Self> {
        let spec = KnnSpec::by(references, queries, k, metric);
        let room = engine.room();
        let forecast = spec.plan(&room, &Rate::default())?;
        let files = ["gather", "knn", "normalize"];
        engine
            .prepare(kernels::used_of(engine.info(), &files, [Precision::F32; 2]))
            .await?;
        let mut workspace = engine.workspace("knn", &forecast.memory, ADVICE).await?;
        Ok(Self {
            engine,
            rows: references,
            metric,
            places: None,
            spec,
            cut: spec.cut(&room),
            loaded: false,
            references: workspace.take("knn.references"),
            queries: workspace.take("knn.queries"),
            seeker: SearchScratch::new(&mut workspace),
            pace: Pace::of(engine),
        })
    }

    /// The same index for queries that are references of these places: none is a neighbour of itself.
    ///
    /// # Errors
    /// [`Error::Config`] if that leaves fewer than `k` references; [`Error::Data`] if there are other than one place a query.
    pub fn with_places(self, places: &'a [u32]) -> Result<Self> {
        let queries = self.spec.queries;
        if places.len() != queries {
            return Err(Error::Data(format!(
                "{} places of {queries} queries: there must be one a query",
                places.len()
            )));
        }
        let own = true;
        KnnSpec { own, ..self.spec }.check()?;
        let places = Some(places);
        Ok(Self { places, ..self })
    }

    /// The `k` nearest references of every query, or of every reference if `queries` is `None`.
    ///
    /// `progress` is called with the number of queries done and the number of all.
    ///
    /// # Errors
    /// [`Error::Data`] if dimensions differ or a row cannot be read; [`Error::Device`]; [`Error::Stopped`].
    ///
    /// # Panics
    /// If the index was made for the other kind of queries.
    pub async fn search(
        &mut self,
        queries: Option<&RowSource>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Neighbors> {
        self.search_all(queries, &mut progress).await
    }

    /// Body of [`KnnIndex::search`]: compiled once for all `progress` closures.
    async fn search_all(
        &mut self,
        queries: Option<&RowSource>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Neighbors> {
        let asking = self.asking(queries)?;
        let (rows, k) = (asking.rows(), self.spec.k);
        let mut found = Neighbors {
            k,
            ids: zeros(rows as u64 * k as u64, "the result")?,
            similarities: zeros(rows as u64 * k as u64, "the result")?,
        };
        let (engine, mut pace) = (self.engine, self.pace);
        let mut slices = Slices::new(engine, &mut pace);
        let (together, most_kept) = self.seeker.together(self.cut.queries, k);
        let (mut under_way, mut lost) = (VecDeque::new(), Vec::new());
        for first in (0..rows).step_by(together) {
            let block = first..rows.min(first + together);
            if k > most_kept {
                self.search_block(&mut slices, asking, block.clone(), &mut found)
                    .await?;
                progress(block.end as u64, rows as u64);
                continue;
            }
            let kept = self.begin(&mut slices, asking, block.clone()).await?;
            under_way.push_back((block, kept));
            if under_way.len() == BLOCKS_UNDER_WAY || first + together >= rows {
                slices.collect().await?;
            }
            while let Some((block, kept)) =
                under_way.pop_front_if(|(_, kept)| slices.is_there(kept))
            {
                let entries = slices.take(kept);
                if knn::is_lost(&entries, k) {
                    self.seeker.careful = true;
                    lost.push(block);
                    continue;
                }
                found.note(block.start, 0, k, &entries);
                progress(block.end as u64, rows as u64);
            }
        }
        for block in lost {
            self.search_block(&mut slices, asking, block, &mut found)
                .await?;
        }
        self.pace = pace;
        if self.metric == Metric::L2 {
            distance::measure(asking, self.rows, &mut found).await?;
        }
        Ok(found)
    }

    /// The rows that are the queries.
    fn asking<'q>(&self, queries: Option<&'q RowSource>) -> Result<&'q RowSource>
    where
        'a: 'q,
    {
        assert_eq!(
            queries.is_none(),
            self.spec.own,
            "an index is made for its queries"
        );
        let asking = queries.unwrap_or(self.rows);
        if asking.dim() != self.rows.dim() {
            return Err(Error::Data(format!(
                "references have {} dimensions, queries {}: they must be as many",
                self.rows.dim(),
                asking.dim()
            )));
        }
        Ok(asking)
    }

    /// Searches all references for a block of queries, and starts to read their neighbours back.
    async fn begin(
        &mut self,
        slices: &mut Slices<'_>,
        asking: &RowSource,
        block: Range<usize>,
    ) -> Result<Fetch<[u32; 2]>> {
        let asked = self.asked(block.clone());
        self.fetch(slices, asking, block).await?;
        self.seeker.ask(slices, &asked).await?;
        self.pass(slices, asked.len(), self.spec.k).await?;
        let count = (asked.len() * self.spec.k) as u64;
        slices.fetch(&self.seeker.scratch.kept, 0, count).await
    }

    /// First bounds of the queries of a block: nothing but a query itself is excluded.
    fn asked(&self, block: Range<usize>) -> Vec<QueryBound> {
        let own = |number: u32| match self.places {
            Some(places) => places[number as usize],
            None if self.spec.own => number,
            None => u32::MAX,
        };
        let numbers = block.start as u32..block.end as u32;
        numbers
            .map(|number| QueryBound::first(own(number)))
            .collect()
    }

    /// Finds the neighbours of a block of queries, one window of neighbours after the other.
    async fn search_block(
        &mut self,
        slices: &mut Slices<'_>,
        asking: &RowSource,
        block: Range<usize>,
        found: &mut Neighbors,
    ) -> Result<()> {
        let k = self.spec.k;
        let (_, most_kept) = self.seeker.together(self.cut.queries, k);
        let mut asked = self.asked(block.clone());
        self.fetch(slices, asking, block.clone()).await?;
        for window in (0..k).step_by(most_kept) {
            let kept = most_kept.min(k - window);
            self.seeker.ask(slices, &asked).await?;
            let entries = loop {
                self.pass(slices, asked.len(), kept).await?;
                let found = self.seeker.kept(slices, asked.len(), kept).await?;
                if let Some(entries) = found {
                    break entries;
                }
            };
            for (asked, entries) in asked.iter_mut().zip(entries.chunks_exact(kept)) {
                *asked = QueryBound::after(asked.id, entries[kept - 1]);
            }
            found.note(block.start, window, kept, &entries);
        }
        Ok(())
    }

    /// Makes these rows the queries of a block: rows that are resident references are copied on the engine.
    async fn fetch(
        &mut self,
        slices: &mut Slices<'_>,
        asking: &RowSource,
        block: Range<usize>,
    ) -> Result<()> {
        let alike = self.metric.of_queries() == self.metric.of_references();
        if self.spec.own && alike && self.cut.references >= self.spec.references {
            self.load(slices, 0..self.spec.references).await?;
            let stride = stride(self.spec.dim);
            let (first, count) = (block.start * stride, block.len() * stride);
            let (from, to) = (&self.references, &mut self.queries);
            slices
                .commands()
                .copy(from, first as u64, count as u64, to, 0);
            return Ok(());
        }
        let mut stored = UnitRows::Stored {
            rows: asking,
            chosen: None,
            form: self.metric.of_queries(),
        };
        let (numbers, to) = (block.start as u32..block.end as u32, &mut self.queries);
        stored.bring_among(slices, numbers, to, 0).await
    }

    /// Brings in a chunk of references, unless all are resident.
    async fn load(&mut self, slices: &mut Slices<'_>, chunk: Range<usize>) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        let mut stored = UnitRows::Stored {
            rows: self.rows,
            chosen: None,
            form: self.metric.of_references(),
        };
        let (numbers, to) = (chunk.start as u32..chunk.end as u32, &mut self.references);
        stored.bring_among(slices, numbers, to, 0).await?;
        self.loaded = chunk.len() == self.spec.references;
        Ok(())
    }

    /// Searches all references for the queries of a block.
    async fn pass(&mut self, slices: &mut Slices<'_>, rows: usize, k: usize) -> Result<()> {
        let whole = Search {
            first_row: 0,
            rows,
            references: 0,
            first_id: 0,
            stride: stride(self.spec.dim),
            k,
        };
        for first in (0..self.spec.references).step_by(self.cut.references) {
            let chunk = first..self.spec.references.min(first + self.cut.references);
            self.load(slices, chunk.clone()).await?;
            let search = Search {
                references: chunk.len(),
                first_id: first as u32,
                ..whole
            };
            self.seeker
                .look(slices, &search, &self.queries, &self.references, first == 0)
                .await?;
        }
        Ok(())
    }
}
