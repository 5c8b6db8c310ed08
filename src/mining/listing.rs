//! [`list`]: the listing phase. Takes rows with labels, gives the triplets that a miner keeps, lexicographic as PML gives them, a
//! window at a time through one buffer: in memory that its plan fixes, however many there are.

mod drawn;
mod mined;
mod valid;

use bytemuck::cast_slice;

use crate::base::error::{Error, Result};
use crate::base::forecast::{Forecast, Rate, check_count};
use crate::base::ledger::Purpose;
use crate::base::plan::{MemoryPlan, Room};
use crate::cpu::Distance;
use crate::engine::pace::Slices;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::kernels::triplets::{self as kernel, Band, Batch, Row};
use crate::kernels::{self, similarities, stride};
use crate::mining::triplets::Triplets;
use crate::rules::miners::Miner;
use crate::search::evaluation::EvaluationSpec;
use crate::search::rows::{Rows, numbered};

use mined::{Keeps, Mined};
pub use valid::Windows;

/// Bytes of all buffers of a listing but the resident references.
const SCRATCH_BYTES: u64 = 64 << 20;
/// Bytes of a triplet.
const TRIPLET_BYTES: u64 = 12;
/// The most triplets of a window: their words are numbered in 32 bits.
const MOST_TRIPLETS: u64 = 1 << 28;
/// The most anchors of a block without rows of similarities, and with them.
const BLOCK_ROWS: u64 = 8192;
const SIMILAR_ROWS: u64 = 512;
/// The most cells that are counted at once: their counts are read in one submit and add up in 32 bits.
const MOST_CELLS: u64 = (1 << 18) - 1;
const ADVICE: &str = "raise the budget, or use smaller windows, fewer references or dimensions";

/// The sizes of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingSpec {
    /// Number of anchors.
    pub anchors: usize,
    /// Number of references: the rows that positives and negatives come from.
    pub references: usize,
    /// Columns of both.
    pub dim: usize,
    /// References of the largest class.
    pub positives: usize,
    /// A miner chooses by similarities; otherwise every valid triplet is listed.
    pub mined: bool,
    /// The most bytes of a window: 12 a triplet.
    pub window_bytes: u64,
}

/// Block sizes.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows: usize,
    cells: usize,
    triplets: usize,
}

impl ListingSpec {
    /// The default size of a window: small enough to stay in a processor's cache until it is read.
    pub const WINDOW_BYTES: u64 = 1 << 20;

    /// Sizes for references with these labels and a number of anchors.
    pub fn of_names(labels: &[String], dim: usize, anchors: usize, miner: &Miner) -> Self {
        let EvaluationSpec { positives, .. } = EvaluationSpec::of_names(labels, dim, anchors);
        Self {
            anchors,
            references: labels.len(),
            dim,
            positives,
            mined: *miner != Miner::None,
            window_bytes: Self::WINDOW_BYTES,
        }
    }

    /// Forecasts a listing: a pure function, monotone in the room. The predicted time is an upper bound: every class counts as the
    /// largest.
    ///
    /// # Errors
    /// [`Error::Config`] for a window that no triplet fits; [`Error::Refused`] and [`Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        check_count("references", self.references)?;
        check_count("anchors", self.anchors)?;
        if self.window_bytes < TRIPLET_BYTES {
            return Err(Error::Config(format!(
                "a window of {} bytes: it must hold one triplet, {TRIPLET_BYTES} bytes",
                self.window_bytes
            )));
        }
        let cut = self.cut(room);
        let memory = self.buffers(&cut);
        memory.fits_or("listing", room, ADVICE, |room| {
            self.buffers(&self.cut(room))
        })?;
        let (anchors, references) = (self.anchors as f64, self.references as f64);
        let looks = anchors * self.positives as f64 * references * LOOK_OPERATIONS;
        let products = 2.0 * anchors * references * stride(self.dim) as f64;
        let operations = if self.mined { products + looks } else { looks };
        let rows = if self.mined {
            self.references + self.anchors
        } else {
            0
        };
        let traffic_bytes = (rows as u64).saturating_mul(4 * self.dim as u64);
        Ok(Forecast {
            memory,
            block_queries: cut.rows as u64,
            chunk_rows: self.references as u64,
            resident: true,
            passes: 1,
            submits: self.anchors.div_ceil(cut.rows) as u64,
            traffic_bytes,
            operations,
            predicted_ms: rate.ms(operations, traffic_bytes),
            path: None,
            batch_chunk: None,
            map_bytes: 0,
        })
    }

    /// As many anchors at once as fit the room, one at least.
    fn cut(&self, room: &Room) -> Cut {
        let most = if self.mined { SIMILAR_ROWS } else { BLOCK_ROWS };
        let most = most.min(self.anchors as u64).max(1);
        let of_a_pair = Batch::cells_of_a_pair(self.references).max(1) as u64;
        let positives = self.positives.max(1) as u64;
        let cells = most.saturating_mul(positives).saturating_mul(of_a_pair);
        // A sixteenth of the room for counts: their number only decides how often the device is asked.
        let cells = cells
            .min(MOST_CELLS)
            .min(room.free_bytes / 64)
            .max(of_a_pair);
        let triplets = (self.window_bytes / TRIPLET_BYTES).clamp(1, MOST_TRIPLETS);
        let cut = |rows: u64| Cut {
            rows: rows as usize,
            cells: cells as usize,
            triplets: triplets as usize,
        };
        let fixed = self.buffers(&cut(1)).total_bytes();
        // Rounding to 16-byte units can hide up to that much of each buffer's growth.
        let row_bytes = (self.buffers(&cut(2)).total_bytes() - fixed).saturating_add(3 * 16);
        let bank = self.bank(MemoryPlan::default()).total_bytes();
        let scratch = SCRATCH_BYTES.saturating_sub(fixed.saturating_sub(bank));
        let free = room.free_bytes.saturating_sub(fixed).min(scratch);
        let largest = 4 * similarities::width(self.references).max(stride(self.dim)) as u64;
        let rows = (1 + free / row_bytes)
            .min(room.max_buffer_bytes / largest.max(1))
            .min(u64::from(u32::MAX) / positives)
            .min(most);
        cut(rows.max(1))
    }

    /// Buffers of the references, which are not scratch.
    fn bank(&self, plan: MemoryPlan) -> MemoryPlan {
        let references = self.references as u64;
        let plan = plan.with::<u32>(Purpose::MemoryBank, "list.members", references);
        if !self.mined {
            return plan;
        }
        let floats = references.saturating_mul(stride(self.dim) as u64);
        plan.with::<f32>(Purpose::MemoryBank, "list.references", floats)
            .with::<u32>(Purpose::MemoryBank, "list.labels", references)
    }

    fn buffers(&self, cut: &Cut) -> MemoryPlan {
        let rows = cut.rows as u64;
        let width = similarities::width(self.references) as u64;
        let plan = self
            .bank(MemoryPlan::default())
            .with::<Row>(Purpose::Triplets, "list.rows", rows)
            .with::<u32>(Purpose::Triplets, "list.window", 3 * cut.triplets as u64)
            .with::<u32>(Purpose::Triplets, "list.total", 1);
        if !self.mined {
            return plan;
        }
        let anchors = rows * stride(self.dim) as u64;
        plan.with::<f32>(Purpose::Activations, "list.anchors", anchors)
            .with::<f32>(Purpose::Similarities, "list.similarities", rows * width)
            .with::<u32>(Purpose::Triplets, "list.counts", cut.cells as u64 + 1)
    }
}

/// Operations that are accounted for writing a triplet.
const OPERATIONS: f64 = 32.0;
/// Operations that are accounted for one comparison with a reference.
const LOOK_OPERATIONS: f64 = 4.0;

/// Lists the triplets `[anchor, positive, negative]` that the miner keeps, of the anchors with `references`, or with each other if
/// `None`. Returns their number.
///
/// Their order is lexicographic; triplets that are drawn come by anchor, in the order of the draws. `sink` is called with one
/// window after the other, none of them empty; an error that it returns ends the listing.
///
/// # Errors
/// [`Error::Data`] if dimensions or labels do not match, or a miner cannot take so many references; errors of [`ListingSpec::plan`]
/// and of `sink`; [`Error::Device`]; [`Error::Stopped`].
pub async fn list(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    distance: Distance,
    window_bytes: u64,
    sink: impl FnMut(&[[u32; 3]]) -> Result<()>,
) -> Result<u64> {
    let outlet = Outlet::Sink(sink);
    let (listed, _) = run(
        engine,
        anchors,
        references,
        miner,
        distance,
        window_bytes,
        outlet,
    )
    .await?;
    Ok(listed)
}

/// Number of triplets that [`list`] would give, and a checksum of them and their order. No triplet leaves the device: this measures
/// the speed of listing.
///
/// # Errors
/// As [`list`].
pub async fn checksum(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    distance: Distance,
    window_bytes: u64,
) -> Result<(u64, u32)> {
    let outlet: Outlet<NoSink> = Outlet::Checksum;
    run(
        engine,
        anchors,
        references,
        miner,
        distance,
        window_bytes,
        outlet,
    )
    .await
}

async fn run<F: FnMut(&[[u32; 3]]) -> Result<()>>(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    distance: Distance,
    window_bytes: u64,
    mut outlet: Outlet<F>,
) -> Result<(u64, u32)> {
    if miner.gives_pairs() {
        return Err(Error::Config(
            "a miner that keeps positives and negatives of each anchor gives pairs, no list of triplets"
                .to_owned(),
        ));
    }
    let known = references.unwrap_or(anchors);
    anchors.check_against(known)?;
    let (_, [own, labels]) = numbered(anchors.labels, known.labels);
    let triplets = match references {
        None => Triplets::own(&labels)?,
        Some(_) => Triplets::apart(&own, &labels)?,
    };
    let spec = ListingSpec {
        window_bytes,
        ..ListingSpec::of_names(known.labels, known.rows.dim(), own.len(), miner)
    };
    if *miner == Miner::None {
        let mut windows = Windows::new(engine, &triplets, window_bytes).await?;
        return windows.list(&mut outlet).await;
    }
    if let Miner::FacenetSemihard(_) = miner
        && labels.len() > kernel::FACENET_MOST
    {
        return Err(Error::Data(format!(
            "{} references: facenet-semihard looks at {} at most",
            labels.len(),
            kernel::FACENET_MOST
        )));
    }
    // Draws weigh by the cosine distance, whatever distance margins are differences of.
    let distance = match miner {
        Miner::DistanceWeighted(_) => Distance::Cosine,
        _ => distance,
    };
    let mut mined = Mined::new(engine, &spec, &triplets, distance).await?;
    mined.load(known, &labels).await?;
    let keeps = match miner {
        Miner::DistanceWeighted(miner) => {
            return mined
                .draw(miner, spec.dim, anchors, &labels, &mut outlet)
                .await;
        }
        Miner::FacenetSemihard(_) => Keeps::Facenet,
        _ => {
            let (kind, margin) = miner.band();
            Keeps::Band(Band::of(kind, margin))
        }
    };
    mined.list(keeps, anchors, &mut outlet).await
}

/// Sink type of a list that stays on the device.
type NoSink = fn(&[[u32; 3]]) -> Result<()>;

/// Receiver of the windows.
enum Outlet<F> {
    Sink(F),
    Checksum,
}

/// The buffer that every window of triplets is written to.
struct Window {
    triplets: DeviceVec<u32>,
    total: DeviceVec<u32>,
    listed: u64,
}

impl Window {
    fn new(workspace: &mut Workspace) -> Self {
        Self {
            triplets: workspace.take("list.window"),
            total: workspace.take("list.total"),
            listed: 0,
        }
    }

    /// Hands on the first `count` triplets, after the work of the slices.
    async fn hand_on<F: FnMut(&[[u32; 3]]) -> Result<()>>(
        &mut self,
        slices: &mut Slices<'_>,
        count: usize,
        outlet: &mut Outlet<F>,
    ) -> Result<()> {
        let (first, engine) = (self.listed, slices.engine());
        self.listed += count as u64;
        let Outlet::Sink(sink) = outlet else {
            slices.reserve(1).await?;
            let (triplets, total) = (&self.triplets, &mut self.total);
            kernel::checksum(slices.commands(), first, count, triplets, total);
            return slices.recorded(count as f64 * OPERATIONS).await;
        };
        slices.submit();
        let words = engine.view(&self.triplets, 0, 3 * count as u64).await?;
        sink(cast_slice(&words))?;
        engine.breathe().await
    }

    /// Number of triplets that were handed on, and the checksum if one was asked for.
    async fn end(&self, engine: &Engine) -> Result<(u64, u32)> {
        let total = engine.read(&self.total, 0, 1).await?;
        Ok((self.listed, total[0]))
    }
}

/// Creates the buffers of a listing.
async fn workspace(engine: &Engine, spec: &ListingSpec) -> Result<(Workspace, Cut)> {
    let room = engine.room();
    let forecast = spec.plan(&room, &Rate::default())?;
    engine.prepare(kernels::used_on(engine.info())).await?;
    let workspace = engine
        .workspace("listing", &forecast.memory, ADVICE)
        .await?;
    Ok((workspace, spec.cut(&room)))
}
