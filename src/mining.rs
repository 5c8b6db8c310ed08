//! [`mine`]: the mining phase. Takes rows with labels, gives the counts of every triplet and the loss over all mined
//! ones with its gradient, a block of anchors at a time, in memory that its plan fixes. No triplet is stored.

use std::collections::HashMap;

use web_time::Instant;

use crate::dataset::classes;
use crate::engine::{DeviceVec, Engine, Workspace};
use crate::error::Result;
use crate::evaluation::{EvaluationSpec, Rows};
use crate::forecast::{Forecast, Rate, check_count};
use crate::kernels::ranks::{Block, Inputs, NO_ID, Row, SEGMENT, Scratch};
use crate::kernels::triplet_margin::{
    OWNERS, Rule, TERMS, mine as mine_block, share_with_references,
};
use crate::kernels::{self, stride};
use crate::ledger::Purpose;
use crate::losses::Loss;
use crate::miners::{Miner, MiningCounts};
use crate::pace::Pace;
use crate::plan::{MemoryPlan, Room};
use crate::unit_rows::{Intake, UnitRows};

/// What a block of anchors may take beside the references, which stay where they are.
const SCRATCH_BYTES: u64 = 64 << 20;
/// The most anchors of a block.
const BLOCK_ROWS: u64 = 512;
const ADVICE: &str = "raise the budget, or use fewer references or dimensions";

/// The sizes of a mining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MiningSpec {
    /// How many anchors.
    pub anchors: usize,
    /// How many references: where positives and negatives come from.
    pub references: usize,
    /// Columns of both.
    pub dim: usize,
    /// References of the largest class.
    pub positives: usize,
    /// Whether the anchors are the references, each leaving itself out.
    pub own: bool,
    /// Whether the gradient is asked for: anchors that are the references get one as references too.
    pub gradient: bool,
}

/// What a mining found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mined {
    /// Triplets by kind; `active` is 0 where no loss was asked for.
    pub mining: MiningCounts,
    /// The mean over the active triplets; 0 without any.
    pub loss: f64,
    /// `d loss / d embedding` of the anchors as they came, `[anchors, dim]`; empty where it was not asked for.
    pub gradient: Vec<f32>,
}

/// What is asked for beside the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted<'a> {
    /// Nothing.
    Counts,
    /// The loss.
    Loss(&'a Loss),
    /// The loss and its gradient.
    Gradient(&'a Loss),
}

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows: usize,
    thresholds: u64,
}

impl MiningSpec {
    /// The spec for references with these labels, met by anchors apart from them, for counts alone.
    pub fn of_names(labels: &[String], dim: usize, anchors: usize) -> Self {
        let EvaluationSpec { positives, .. } = EvaluationSpec::of_names(labels, dim, anchors);
        Self {
            anchors,
            references: labels.len(),
            dim,
            positives,
            own: false,
            gradient: false,
        }
    }

    /// Forecasts a mining: a pure function, monotone in the room.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] and [`crate::Error::TooLarge`], with the numbers.
    pub fn plan(&self, room: &Room, rate: &Rate) -> Result<Forecast> {
        check_count("references", self.references)?;
        check_count("anchors", self.anchors)?;
        let cut = self.cut(room);
        let memory = self.buffers(&cut);
        memory.fits("mining", room, ADVICE)?;
        let operations = self.anchors as f64 * self.operations_of_an_anchor();
        let rows = (self.references + self.anchors) as u64;
        let traffic_bytes = rows.saturating_mul(4 * self.dim as u64);
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
        })
    }

    /// Similarities, and as much again for the gradient.
    fn operations_of_an_anchor(&self) -> f64 {
        4.0 * self.references as f64 * stride(self.dim) as f64
    }

    /// As many anchors at once as the room holds, one at least. Where anchors pull each other, always as many: what they
    /// get as references adds up block by block, and no budget may change a bit of it.
    fn cut(&self, room: &Room) -> Cut {
        let places = self.positives as u64 + 1;
        let cut = |rows: u64| Cut {
            rows: rows as usize,
            thresholds: rows.saturating_mul(places),
        };
        if self.own && self.gradient {
            return cut(OWNERS.min(self.anchors).max(1) as u64);
        }
        let fixed = self.buffers(&cut(1)).total_bytes();
        // Whole 16-byte units hide up to that much of each buffer's growth.
        let row_bytes = (self.buffers(&cut(2)).total_bytes() - fixed).saturating_add(10 * 16);
        let bank = Self::bank(MemoryPlan::default(), self).total_bytes();
        let scratch = SCRATCH_BYTES.saturating_sub(fixed.saturating_sub(bank));
        let free = room.free_bytes.saturating_sub(fixed).min(scratch);
        let segments = (self.references as u64).div_ceil(SEGMENT as u64);
        let parts = segments.saturating_mul(4 * stride(self.dim) as u64);
        let largest = parts.max(places.saturating_mul(8));
        let rows = (1 + free / row_bytes)
            .min(room.max_buffer_bytes / largest.max(1))
            .min(BLOCK_ROWS)
            .min(self.anchors as u64);
        cut(rows.max(1))
    }

    /// The references, which are not scratch.
    fn bank(plan: MemoryPlan, spec: &Self) -> MemoryPlan {
        let (references, stride) = (spec.references as u64, stride(spec.dim) as u64);
        let floats = references.saturating_mul(stride);
        plan.with::<f32>(Purpose::MemoryBank, "mine.references", floats)
            .with::<[u32; 2]>(Purpose::MemoryBank, "mine.tags", references)
    }

    fn buffers(&self, cut: &Cut) -> MemoryPlan {
        let stride = stride(self.dim) as u64;
        let (references, rows) = (self.references as u64, cut.rows as u64);
        let segments = references.div_ceil(SEGMENT as u64);
        let shares = if self.own && self.gradient {
            references.saturating_mul(stride)
        } else {
            0
        };
        let parts = segments.saturating_mul(rows * stride);
        let thresholds = cut.thresholds;
        Self::bank(Intake::plan(MemoryPlan::default(), self.dim), self)
            .with::<f32>(Purpose::Activations, "mine.anchors", rows * stride)
            .with::<Row>(Purpose::Ranks, "mine.rows", rows)
            .with::<[u32; 2]>(Purpose::Ranks, "mine.thresholds", thresholds)
            .with::<u32>(Purpose::Ranks, "mine.books", thresholds)
            .with::<f32>(Purpose::Similarities, "mine.parts", parts)
            .with::<f32>(Purpose::Gradients, "mine.gradient", rows * stride)
            .with::<f32>(Purpose::Gradients, "mine.shares", shares)
            .with::<u32>(Purpose::Staging, "mine.report", TERMS as u64)
    }
}

/// Counts every triplet of the anchors with `references`, or with each other where it is `None`: an anchor is then no
/// positive of itself. References that are given are constants, as a memory is.
///
/// `progress` hears how many anchors of how many are done.
///
/// # Errors
/// [`crate::Error::Data`] when dimensions or labels do not match; [`crate::Error::Refused`] and [`crate::Error::TooLarge`] as
/// [`MiningSpec::plan`]; [`crate::Error::Device`]; [`crate::Error::Stopped`].
pub async fn mine(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    wanted: Wanted<'_>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Mined> {
    let known = references.unwrap_or(anchors);
    anchors.check_against(known)?;
    let dim = known.rows.dim();
    let names = classes(known.labels);
    let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let number = |label: &String| numbers.get(label.as_str()).copied();
    let labels: Vec<u32> = known.labels.iter().filter_map(number).collect();
    let spec = MiningSpec {
        own: references.is_none(),
        gradient: matches!(wanted, Wanted::Gradient(_)),
        ..MiningSpec::of_names(known.labels, dim, anchors.labels.len())
    };
    let room = engine.room();
    let forecast = spec.plan(&room, &Rate::default())?;
    engine.prepare(&kernels::ALL).await?;
    let mut workspace = engine.workspace("mining", &forecast.memory, ADVICE).await?;
    let mut phase = Phase::new(engine, spec, spec.cut(&room), &mut workspace);
    phase.load(known, &labels).await?;
    let loss = match wanted {
        Wanted::Counts => None,
        Wanted::Loss(loss) | Wanted::Gradient(loss) => Some(loss),
    };
    let rule = match loss {
        Some(Loss::TripletMargin(loss)) => loss.rule(miner),
        None => {
            let (kind, miner_margin) = miner.band();
            // Nothing costs, so nothing is differentiated.
            let loss_margin = f32::MIN;
            Rule {
                kind,
                miner_margin,
                loss_margin,
            }
        }
    };
    let mut counts = vec![0u32; names.len()];
    for label in &labels {
        counts[*label as usize] += 1;
    }
    let mut pulls = Pulls::default();
    let mut done = 0;
    while done < spec.anchors {
        let about = |anchor: usize| {
            let label = number(&anchors.labels[anchor]).unwrap_or(names.len() as u32);
            (label, counts.get(label as usize).copied().unwrap_or(0))
        };
        let rows = phase.next_rows(done, about);
        let started = Instant::now();
        phase.block(anchors, done, &rows, &rule).await?;
        if loss.is_some() {
            let count = (rows.len() * stride(dim)) as u64;
            let pulled = engine.read(&phase.gradient, 0, count).await?;
            let unit = engine.read(&phase.anchors, 0, count).await?;
            pulls.add(&unit, &pulled, stride(dim), dim);
        } else {
            engine.settle().await?;
        }
        let operations = rows.len() as f64 * spec.operations_of_an_anchor();
        phase.pace.record(operations, started.elapsed());
        done += rows.len();
        progress(done as u64, spec.anchors as u64);
        engine.breathe().await?;
    }
    let report = engine.read(&phase.report, 0, TERMS as u64).await?;
    let mut mined = Mined {
        mining: MiningCounts::read(&report, spec.anchors),
        ..Mined::default()
    };
    if let Some(Loss::TripletMargin(loss)) = loss {
        mined.loss = loss.mean(pulls.sum, mined.mining.active);
    }
    if spec.gradient {
        if spec.own {
            let shares = engine.read(&phase.shares, 0, phase.shares.len()).await?;
            pulls.add_shares(&shares, stride(dim), dim);
        }
        mined.gradient = pulls
            .through_the_length(anchors, mined.mining.active)
            .await?;
    }
    Ok(mined)
}

/// The buffers of the phase.
struct Phase<'a> {
    engine: &'a Engine,
    spec: MiningSpec,
    cut: Cut,
    intake: Intake,
    references: DeviceVec<f32>,
    tags: DeviceVec<[u32; 2]>,
    anchors: DeviceVec<f32>,
    rows: DeviceVec<Row>,
    scratch: Scratch,
    parts: DeviceVec<f32>,
    gradient: DeviceVec<f32>,
    shares: DeviceVec<f32>,
    report: DeviceVec<u32>,
    pace: Pace,
}

impl<'a> Phase<'a> {
    fn new(engine: &'a Engine, spec: MiningSpec, cut: Cut, workspace: &mut Workspace) -> Self {
        Self {
            engine,
            spec,
            cut,
            intake: Intake::new(workspace),
            references: workspace.take("mine.references"),
            tags: workspace.take("mine.tags"),
            anchors: workspace.take("mine.anchors"),
            rows: workspace.take("mine.rows"),
            scratch: Scratch {
                thresholds: workspace.take("mine.thresholds"),
                books: workspace.take("mine.books"),
            },
            parts: workspace.take("mine.parts"),
            gradient: workspace.take("mine.gradient"),
            shares: workspace.take("mine.shares"),
            report: workspace.take("mine.report"),
            pace: Pace::default(),
        }
    }

    /// Brings the references in; a reference's id is its place.
    async fn load(&mut self, known: Rows<'_>, labels: &[u32]) -> Result<()> {
        let numbers = 0..labels.len() as u32;
        stored(known)
            .bring(
                self.engine,
                &mut self.intake,
                numbers.clone(),
                &mut self.references,
                0,
            )
            .await?;
        let tags: Vec<[u32; 2]> = labels
            .iter()
            .zip(numbers)
            .map(|(label, id)| [*label, id])
            .collect();
        self.engine.upload(&mut self.tags, 0, &tags).await
    }

    /// The next anchors that go together, from `first` on; `about` gives the label of one and how many references have it.
    fn next_rows(&self, first: usize, about: impl Fn(usize) -> (u32, u32)) -> Vec<Row> {
        let operations = self.spec.operations_of_an_anchor();
        let most = self.pace.units(operations, self.cut.rows);
        let most = most.next_multiple_of(OWNERS).min(self.cut.rows);
        let last = self.spec.anchors.min(first + most);
        let mut offset = 0;
        (first..last)
            .map(|anchor| {
                let (label, same) = about(anchor);
                let own = self.spec.own;
                let row = Row {
                    label,
                    id: if own { anchor as u32 } else { NO_ID },
                    offset,
                    positives: same - u32::from(own),
                };
                offset += row.positives + 1;
                row
            })
            .collect()
    }

    /// Mines a block of anchors, `first` the first of them.
    async fn block(
        &mut self,
        anchors: Rows<'_>,
        first: usize,
        rows: &[Row],
        rule: &Rule,
    ) -> Result<()> {
        let numbers = first as u32..(first + rows.len()) as u32;
        stored(anchors)
            .bring(self.engine, &mut self.intake, numbers, &mut self.anchors, 0)
            .await?;
        let block = Block {
            first_row: 0,
            rows: rows.len(),
            batch: 0,
            first_reference: 0,
            references: self.spec.references,
            stride: stride(self.spec.dim),
        };
        let mut commands = self.engine.commands();
        commands.upload(&mut self.rows, 0, rows);
        let inputs = Inputs {
            anchors: &self.anchors,
            references: &self.references,
            batch: &self.rows,
            tags: &self.tags,
        };
        mine_block(
            &mut commands,
            &block,
            rule,
            self.spec.references,
            inputs,
            &mut self.scratch,
            &mut self.parts,
            &mut self.gradient,
            0,
            None,
            &mut self.report,
        );
        if self.spec.own && self.spec.gradient {
            share_with_references(
                &mut commands,
                &block,
                rule,
                inputs,
                &self.scratch,
                &mut self.parts,
                &mut self.shares,
            );
        }
        self.engine.submit(commands);
        Ok(())
    }
}

/// `active * d loss / d unit row` of every anchor, and what the loss is summed up from.
#[derive(Default)]
struct Pulls {
    /// The sum over active triplets of `s_an - s_ap`: the sum over anchors of `<pull, unit>`.
    sum: f64,
    /// `[anchors, dim]`.
    rows: Vec<f32>,
}

impl Pulls {
    fn add(&mut self, unit: &[f32], pulled: &[f32], stride: usize, dim: usize) {
        for (unit, pull) in unit.chunks_exact(stride).zip(pulled.chunks_exact(stride)) {
            // Row by row: how rows are grouped changes no bit.
            let products = unit.iter().zip(pull);
            self.sum += products
                .map(|(u, g)| f64::from(*u) * f64::from(*g))
                .sum::<f64>();
            self.rows.extend(&pull[..dim]);
        }
    }

    /// Adds what the anchors get as references of each other.
    fn add_shares(&mut self, shares: &[f32], stride: usize, dim: usize) {
        let shares = shares.chunks_exact(stride).flat_map(|row| &row[..dim]);
        for (pull, share) in self.rows.iter_mut().zip(shares) {
            *pull += share;
        }
    }

    /// `d loss / d row` of rows of any length: `(g - u <g, u>) / (active |row|)`, zero where the row is zero.
    async fn through_the_length(mut self, anchors: Rows<'_>, active: u64) -> Result<Vec<f32>> {
        let dim = anchors.rows.dim();
        let mut row = Vec::new();
        for (number, pull) in (0..).zip(self.rows.chunks_exact_mut(dim)) {
            row.clear();
            anchors.rows.read(&[number], &mut row).await?;
            let length = row
                .iter()
                .map(|v| f64::from(*v).powi(2))
                .sum::<f64>()
                .sqrt();
            let divisor = length * active as f64;
            let products = row.iter().zip(&*pull);
            let along = products
                .map(|(v, g)| f64::from(*v) * f64::from(*g))
                .sum::<f64>()
                / length;
            for (pull, value) in pull.iter_mut().zip(&row) {
                let tangent = f64::from(*pull) - f64::from(*value) / length * along;
                *pull = if divisor > 0.0 {
                    (tangent / divisor) as f32
                } else {
                    0.0
                };
            }
        }
        Ok(self.rows)
    }
}

fn stored(rows: Rows<'_>) -> UnitRows<'_> {
    UnitRows::Stored {
        rows: rows.rows,
        chosen: None,
    }
}
