//! [`CertifiedIndex`]: the search that compares in f16 first, and again in f32 what that leaves; same bytes as [`KnnIndex`].

use crate::dataset::RowSource;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Rate};
use crate::kernels::knn::{self, Asked, MOST_KEPT, Search, VISIT};
use crate::kernels::packed::{self, Packed, Rescored};
use crate::kernels::tile::Shape;
use crate::kernels::{self, stride};
use crate::ledger::Purpose;
use crate::memory::zeros;
use crate::pace::Slices;
use crate::plan::{MemoryPlan, Room};
use crate::unit_rows::UnitRows;

use super::{BLOCK_QUERIES, Certificate, Cut, KnnIndex, KnnSpec, Neighbors, SCRATCH_BYTES, Seeker};

const ADVICE: &str = "raise the budget, or search in f32: certified f16 holds all references twice, as f32 and as f16, where f32 \
    lets those that do not fit stream past";

/// Candidates beside the k nearest, at least: what is left of them must be farther than the k-th by what rounding can do.
const SPARE: usize = 22;
/// The most neighbours of a query: their candidates are kept at once.
const MOST_NEIGHBORS: usize = MOST_KEPT - SPARE;
/// Queries, spread evenly, that say whether f16 is worth its while.
const SAMPLE: usize = 256;
/// What packing one number counts for.
const OPERATIONS_PER_VALUE: f64 = 16.0;

/// What became of the queries of a search that compares in f16 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certified {
    /// Queries whose neighbours were certain.
    pub certified: u64,
    /// All queries.
    pub queries: u64,
    /// Whether fewer than half of the first 256 were certain, so that all others were searched in f32 alone. Those 256 are
    /// spread evenly over all.
    pub went_on_in_f32: bool,
}

impl Certified {
    /// The part of the queries whose neighbours were certain.
    pub fn part(&self) -> f64 {
        self.certified as f64 / self.queries.max(1) as f64
    }
}

impl KnnSpec {
    /// Candidates of each query.
    fn candidates(&self) -> usize {
        let others = self.references - usize::from(self.own);
        (self.k + SPARE.max(self.k / 2)).min(others).min(MOST_KEPT)
    }

    /// Forecasts a search by [`CertifiedIndex`]: a pure function. Its time is that of the rounded search; what is not
    /// certified is searched once more.
    ///
    /// # Errors
    /// As [`KnnSpec::plan`], where references do not fit, and [`Error::Config`] for a k above 490.
    pub fn plan_certified(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        self.check()?;
        if self.k > MOST_NEIGHBORS {
            return Err(Error::Config(format!(
                "k is {}: certified f16 finds {MOST_NEIGHBORS} neighbours at most; search in f32",
                self.k
            )));
        }
        let cut = self.cut_certified(room);
        let memory = self.buffers_certified(&cut);
        memory.fits_or("knn", room, ADVICE, |room| {
            self.buffers_certified(&self.cut_certified(room))
        })?;
        let (queries, references) = (self.queries as u64, self.references as u64);
        let operations = 2.0 * queries as f64 * references as f64 * stride(self.dim) as f64;
        let traffic_bytes =
            (4 * self.dim as u64).saturating_mul(references.saturating_add(queries));
        Ok(Forecast {
            memory,
            block_queries: cut.queries as u64,
            chunk_rows: references,
            resident: true,
            passes: 1,
            submits: queries.div_ceil(cut.queries as u64),
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: None,
        })
    }

    /// All references, and the most queries that the room holds beside them.
    fn cut_certified(&self, room: &Room) -> Cut {
        let row_bytes = 4 * stride(self.dim) as u64;
        let of_result = 8 * (self.candidates() + self.k + 1);
        let query_bytes = row_bytes + (size_of::<Asked>() + of_result + 8 * VISIT + 4) as u64;
        // What is left beside the rounding of every buffer.
        let rounding = 12 * 16;
        let held = (self.references as u64).saturating_mul(row_bytes / 2 * 3);
        let free = room.free_bytes.saturating_sub(rounding);
        let rest = free.saturating_sub(held).min(SCRATCH_BYTES - rounding);
        let most_queries = BLOCK_QUERIES
            .min(self.queries as u64)
            .min(room.max_buffer_bytes / (8 * VISIT as u64).max(row_bytes))
            .max(1);
        Cut {
            queries: (rest / query_bytes).clamp(1, most_queries) as usize,
            references: self.references,
        }
    }

    fn buffers_certified(&self, cut: &Cut) -> MemoryPlan {
        let stride = stride(self.dim) as u64;
        let (queries, references) = (cut.queries as u64, cut.references as u64);
        let plan = MemoryPlan::default()
            .with::<f32>(Purpose::Neighbours, "knn.references", references * stride)
            .with::<u32>(Purpose::Neighbours, "knn.packed", references * stride / 2)
            .with::<u32>(Purpose::Neighbours, "knn.measured", 2)
            .with::<f32>(Purpose::Neighbours, "knn.queries", queries * stride)
            .with::<[u32; 2]>(Purpose::Neighbours, "knn.found", queries * self.k as u64)
            .with::<[u32; 2]>(Purpose::Neighbours, "knn.judged", queries);
        Seeker::plan(plan, queries, self.candidates() as u64)
    }
}

/// References on an engine, as f32 and as f16, ready to be searched.
///
/// A search compares each query with the references rounded to f16, at half the bytes, keeps `k` and a few more candidates, and
/// compares those again in f32. A [`Certificate`] then tells of which queries the `k` nearest are those of the f32 search for
/// certain. The other queries are searched in f32. Ids, order and similarities are those of [`KnnIndex`], bit for bit.
///
/// Rows of classes that a training brought close together are closer than f16 tells apart: nothing is certain there. So 256 queries
/// go first, and where fewer than half of them are certain all others are searched in f32 at once.
#[derive(Debug)]
pub struct CertifiedIndex<'a> {
    /// The same references in f32, and the buffers that both steps use.
    index: KnnIndex<'a>,
    packed: Packed,
    rescored: Rescored,
    certificate: Option<Certificate>,
}

/// A search under way.
struct Finding<'a> {
    asking: &'a RowSource,
    found: Neighbors,
    done: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Finding<'_> {
    fn note(&mut self, query: u32, entries: &[[u32; 2]]) {
        let first = query as usize * self.found.k;
        for (place, [similarity, id]) in (first..).zip(entries) {
            self.found.ids[place] = *id;
            self.found.similarities[place] = f32::from_bits(*similarity);
        }
        self.done += 1;
    }

    fn tell(&mut self) {
        (self.progress)(self.done, self.asking.rows() as u64);
    }
}

impl<'a> CertifiedIndex<'a> {
    /// Prepares searches for `k` neighbours of `queries` rows at most, or of the references themselves where that is `None`.
    ///
    /// # Errors
    /// As [`KnnSpec::plan_certified`]; [`Error::Device`].
    pub async fn new(
        engine: &'a Engine,
        references: &'a RowSource,
        queries: Option<&RowSource>,
        k: usize,
    ) -> Result<Self> {
        let spec = KnnSpec::of(references, queries, k);
        let room = engine.room();
        let forecast = spec.plan_certified(&room, &Rate::default())?;
        let info = engine.info();
        let used = kernels::used_on(info).chain(packed::used_on(info));
        engine.prepare(used).await?;
        let mut workspace: Workspace = engine.workspace("knn", &forecast.memory, ADVICE).await?;
        Ok(Self {
            packed: Packed {
                halves: workspace.take("knn.packed"),
                measured: workspace.take("knn.measured"),
            },
            rescored: Rescored {
                found: workspace.take("knn.found"),
                judged: workspace.take("knn.judged"),
            },
            certificate: None,
            index: KnnIndex::in_workspace(
                engine,
                references,
                spec,
                spec.cut_certified(&room),
                &mut workspace,
            ),
        })
    }

    /// The `k` nearest references of every query, or of every reference where `queries` is `None`; and how many queries were
    /// certified.
    ///
    /// `progress` is called with the number of queries done and the number of all.
    ///
    /// # Errors
    /// As [`KnnIndex::search`].
    ///
    /// # Panics
    /// When the index was made for the other kind of queries.
    pub async fn search(
        &mut self,
        queries: Option<&RowSource>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(Neighbors, Certified)> {
        let asking = self.index.asking(queries)?;
        let (rows, k) = (asking.rows(), self.index.spec.k);
        let mut finding = Finding {
            asking,
            found: Neighbors {
                k,
                ids: zeros(rows as u64 * k as u64, "the result")?,
                similarities: zeros(rows as u64 * k as u64, "the result")?,
            },
            done: 0,
            progress: &mut progress,
        };
        let (engine, mut pace) = (self.index.engine, self.index.pace);
        let mut slices = Slices::new(engine, &mut pace);
        self.pack(&mut slices).await?;

        let sampled = SAMPLE.min(rows);
        let sample = (0..sampled as u64).map(|i| (i * rows as u64 / sampled as u64) as u32);
        let sample: Vec<u32> = sample.collect();
        let mut rest = (0..rows as u32).filter(|query| sample.binary_search(query).is_err());
        let mut uncertain = self.look(&mut slices, &sample, &mut finding).await?;
        let went_on_in_f32 = uncertain.len() > sampled / 2;
        if !went_on_in_f32 {
            let rest: Vec<u32> = rest.by_ref().collect();
            uncertain.extend(self.look(&mut slices, &rest, &mut finding).await?);
        }
        let certified = finding.done;
        uncertain.extend(rest);
        self.search_in_f32(&mut slices, &uncertain, &mut finding)
            .await?;
        self.index.pace = pace;
        let certified = Certified {
            certified,
            queries: rows as u64,
            went_on_in_f32,
        };
        Ok((finding.found, certified))
    }

    /// Brings the references in and packs them, unless they are there.
    async fn pack(&mut self, slices: &mut Slices<'_>) -> Result<()> {
        if self.certificate.is_some() {
            return Ok(());
        }
        let (count, stride) = (self.index.spec.references, stride(self.index.spec.dim));
        self.index.load(slices, 0..count).await?;
        let operations = OPERATIONS_PER_VALUE * stride as f64;
        let mut first = 0;
        while first < count {
            let rows = slices.pace().units(operations, count - first);
            let (references, packed) = (&self.index.references, &mut self.packed);
            packed::pack(slices.commands(), first, rows, stride, references, packed);
            slices.recorded(operations * rows as f64).await?;
            first += rows;
        }
        let measured = slices.read(&self.packed.measured, 0, 2).await?;
        self.certificate = Some(Certificate::new([measured[0], measured[1]], stride));
        Ok(())
    }

    /// Searches these queries in f16 first, and notes the neighbours of those that are certain. Gives the others.
    async fn look(
        &mut self,
        slices: &mut Slices<'_>,
        queries: &[u32],
        finding: &mut Finding<'_>,
    ) -> Result<Vec<u32>> {
        let certificate = self.certificate.expect("references were packed before");
        let (k, all) = (self.index.spec.k, self.index.spec.candidates());
        let others = self.index.spec.references - usize::from(self.index.spec.own);
        let mut uncertain = Vec::new();
        for block in queries.chunks(self.index.cut.queries) {
            let count = block.len();
            self.ask(slices, block, finding.asking).await?;
            let whole = self.whole(count, all);
            self.look_at_all(slices, &whole).await?;
            let KnnIndex {
                queries,
                references,
                seeker,
                ..
            } = &mut self.index;
            let inputs = knn::Inputs {
                queries,
                references,
                asked: &seeker.asked,
            };
            let shape = Shape::of(slices.engine().info(), count);
            let (scratch, rescored) = (&mut seeker.scratch, &mut self.rescored);
            packed::rescore(
                slices.commands(),
                &whole,
                k,
                shape,
                inputs,
                scratch,
                rescored,
            );
            slices
                .recorded(2.0 * (whole.stride * count * all) as f64)
                .await?;
            let found = slices
                .fetch(&self.rescored.found, 0, (count * k) as u64)
                .await?;
            let judged = slices.fetch(&self.rescored.judged, 0, count as u64).await?;
            slices.collect().await?;
            let (found, judged) = (slices.take(found), slices.take(judged));
            let found = found.chunks_exact(k);
            for ((query, entries), judged) in block.iter().zip(found).zip(judged) {
                let [farthest, squares] = judged.map(f32::from_bits);
                let kth = f32::from_bits(entries[k - 1][0]);
                // Where all others are candidates none is left that could be nearer. So few are one visit: none is lost.
                if all == others || certificate.holds(farthest, squares, kth) {
                    finding.note(*query, entries);
                } else {
                    uncertain.push(*query);
                }
            }
            finding.tell();
        }
        Ok(uncertain)
    }

    /// So many queries of a block and all references.
    fn whole(&self, rows: usize, k: usize) -> Search {
        Search {
            first_row: 0,
            rows,
            references: self.index.spec.references,
            first_id: 0,
            stride: stride(self.index.spec.dim),
            k,
        }
    }

    /// Makes these rows the queries of a block.
    async fn ask(
        &mut self,
        slices: &mut Slices<'_>,
        block: &[u32],
        asking: &RowSource,
    ) -> Result<()> {
        let mut stored = UnitRows::Stored {
            rows: asking,
            chosen: None,
        };
        let (numbers, to) = (block.iter().copied(), &mut self.index.queries);
        stored.bring_among(slices, numbers, to, 0).await?;
        let own = |number| match self.index.spec.own {
            true => number,
            false => u32::MAX,
        };
        let asked: Vec<Asked> = block.iter().map(|n| Asked::first(own(*n))).collect();
        self.index.seeker.ask(slices, &asked).await
    }

    /// Lets the queries of a block look at all rounded references, a slice of work at a time.
    async fn look_at_all(&mut self, slices: &mut Slices<'_>, whole: &Search) -> Result<()> {
        let KnnIndex {
            queries,
            references,
            seeker: Seeker { asked, scratch, .. },
            ..
        } = &mut self.index;
        let inputs = knn::Inputs {
            queries,
            references,
            asked,
        };
        knn::clear(slices.commands(), whole, inputs, scratch);
        let inputs = packed::Inputs {
            queries,
            packed: &self.packed,
            asked,
        };
        let operations = 2.0 * whole.stride as f64;
        let mut first_row = 0;
        while first_row < whole.rows {
            let left = whole.rows - first_row;
            let (rows, _) = slices.pace().pairs(operations, left, whole.references);
            let search = Search {
                first_row,
                rows,
                ..*whole
            };
            let shape = Shape::of(slices.engine().info(), rows);
            let all = search.visits();
            let of_visit = operations * (rows * whole.references.div_ceil(all)) as f64;
            let mut done = 0;
            while done < all {
                let most = match &scratch.kept {
                    // On the CPU survivors always have room.
                    DeviceVec::Cpu(_) => all - done,
                    DeviceVec::Gpu(_) => packed::visits_together(&search, done).min(all - done),
                };
                let visits = done..done + slices.pace().units(of_visit, most);
                done = visits.end;
                let count = visits.len() as f64;
                packed::search(slices.commands(), &search, visits, shape, inputs, scratch);
                slices.recorded(of_visit * count).await?;
            }
            first_row += rows;
        }
        Ok(())
    }

    /// Searches these queries in f32.
    async fn search_in_f32(
        &mut self,
        slices: &mut Slices<'_>,
        queries: &[u32],
        finding: &mut Finding<'_>,
    ) -> Result<()> {
        let k = self.index.spec.k;
        for block in queries.chunks(self.index.cut.queries) {
            self.ask(slices, block, finding.asking).await?;
            let entries = loop {
                self.index.pass(slices, block.len(), k).await?;
                let kept = self.index.seeker.kept(slices, block.len(), k).await?;
                if let Some(entries) = kept {
                    break entries;
                }
            };
            for (query, entries) in block.iter().zip(entries.chunks_exact(k)) {
                finding.note(*query, entries);
            }
            finding.tell();
        }
        Ok(())
    }
}
