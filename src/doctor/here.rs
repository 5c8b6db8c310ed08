//! [`Here`]: the same work in Nearfar: its command, and its plan.

use serde::Serialize;

use super::calls::Value;
use super::cause::Cause;
use super::facts::{Facts, Size};
use super::number::grouped;
use super::row_tensors::Scored;
use super::setup::Setup;
use crate::base::error::Result;
use crate::base::forecast::{Forecast, Rate};
use crate::base::plan::Room;
use crate::data::Dataset;
use crate::mining::MiningSpec;
use crate::rules::config::TrainConfig;
use crate::rules::losses::Loss;
use crate::rules::miners::Miner;
use crate::search::evaluation::EvaluationSpec;
use crate::search::knn::KnnSpec;
use crate::train::trainer::Trainer;

/// The same work in Nearfar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Here {
    /// The command.
    pub command: String,
    /// Bytes of its plan, everything included.
    pub plan_bytes: u64,
    /// Budget that the plan is made for.
    pub budget_bytes: u64,
    /// The sizes that the plan is for.
    pub sizes: String,
}

/// Sizes of the work.
enum Work {
    Mining(MiningSpec),
    Evaluation(EvaluationSpec),
    Search(KnnSpec),
    Training(Box<TrainConfig>, String),
}

impl Work {
    /// More rows than can be numbered, or more columns than a matrix has here.
    fn is_beyond(&self) -> bool {
        let (rows, dim) = match self {
            Self::Mining(spec) => (spec.anchors.max(spec.references), spec.dim),
            Self::Evaluation(spec) => (spec.queries.max(spec.references), spec.dim),
            Self::Search(spec) => (spec.queries.max(spec.references), spec.dim),
            Self::Training(..) => (0, 0),
        };
        rows > MOST_ROWS || dim > MOST_COLUMNS
    }

    /// Bytes of the plan in the first of these rooms that it fits, and the place of that room.
    fn plan(&self, rooms: &[Room]) -> Option<(usize, u64)> {
        let rate = Rate::default();
        let first = |plan: &dyn Fn(&Room) -> Result<Forecast>| {
            rooms.iter().enumerate().find_map(|(at, room)| {
                let forecast = plan(room).ok()?;
                Some((at, forecast.memory.total_bytes()))
            })
        };
        match self {
            Self::Mining(spec) => first(&|room| spec.plan(room, &rate)),
            Self::Evaluation(spec) => first(&|room| spec.plan(room, &rate)),
            Self::Search(spec) => first(&|room| spec.plan(room, &rate)),
            Self::Training(config, data) => {
                let dataset = Dataset::sample(data, 0).ok()?;
                let (at, plan) = Trainer::first_fit(rooms, &dataset, config)?;
                Some((at, plan.total_bytes()))
            }
        }
    }
}

/// The most rows and columns that are planned for.
const MOST_ROWS: usize = 1 << 30;
const MOST_COLUMNS: usize = 1 << 16;

/// A size for a plan: too many stay too many where numbers have 32 bits.
fn sized(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Budget that plans begin with.
const BUDGET: u64 = 256 << 20;

/// Budgets that are tried: each twice that before it, up to 64 GiB.
fn rooms() -> [Room; 9] {
    std::array::from_fn(|at| Room {
        free_bytes: BUDGET << at,
        budget_bytes: BUDGET << at,
        max_buffer_bytes: u64::MAX,
    })
}

/// The same work here, if Nearfar does it.
pub(super) fn here(cause: Cause, facts: &Facts, setup: &Setup) -> Option<Here> {
    let (work, command, sizes) = match cause {
        Cause::Triplets
        | Cause::Joined
        | Cause::PairsByPairs
        | Cause::Angles
        | Cause::Pairs
        | Cause::OwnCopies
        | Cause::BatchCube
        | Cause::Differences
        | Cause::KeptTuples => step(setup, facts),
        Cause::Ranking | Cause::Validation | Cause::Embeddings | Cause::Gathered => {
            evaluation(facts)
        }
        Cause::Distances | Cause::FaissScratch | Cause::FaissIndex => {
            match facts.has(&["accuracycalculator", "get_accuracy"]) {
                true => evaluation(facts),
                false => search(facts),
            }
        }
        Cause::Head | Cause::ClassPairs | Cause::Moments | Cause::Bank => training(setup, facts)?,
        _ => return None,
    };
    if work.is_beyond() {
        return None;
    }
    let rooms = rooms();
    let (at, plan_bytes) = work.plan(&rooms)?;
    let budget_bytes = rooms[at].budget_bytes;
    let more = match at {
        0 => String::new(),
        _ => format!(" --budget {}MiB", budget_bytes >> 20),
    };
    Some(Here {
        command: format!("{command}{more}"),
        plan_bytes,
        budget_bytes,
        sizes,
    })
}

/// Nearfar's settings for the loss and the miner of the text.
fn settings(setup: &Setup, facts: &Facts) -> (TrainConfig, String, String) {
    let default = TrainConfig::default();
    let loss = Loss::ALL.iter().map(|(name, _)| *name).find(|name| {
        let config = default.with_set(&format!("loss={name}"));
        config.is_ok_and(|config| config.loss.pml() == Some(setup.loss.as_str()))
    });
    let miner = Miner::ALL.iter().map(|(name, _)| *name).find(|name| {
        let config = default.with_set(&format!("miner={name}"));
        config.is_ok_and(|config| config.miner.pml() == Some(setup.miner.as_str()))
    });
    let loss = loss.unwrap_or("triplet-margin").to_owned();
    let mut miner = miner.unwrap_or("none").to_owned();
    let kind = facts
        .argument("TripletMarginMiner", "type_of_triplets", 1)
        .map(Value::name);
    let kind = kind
        .filter(|kind| miner == "triplet-margin" && ["semihard", "hard", "easy"].contains(kind));
    let mut config = default
        .with_set(&format!("loss={loss}"))
        .unwrap_or_default();
    config = config.with_set(&format!("miner={miner}")).unwrap_or(config);
    if let Some(kind) = kind {
        miner.push_str(&format!(" --set miner.type_of_triplets={kind}"));
    }
    (config, loss, miner)
}

/// A step of mining and loss: its gradient too.
fn step(setup: &Setup, facts: &Facts) -> (Work, String, String) {
    let (config, loss, miner) = settings(setup, facts);
    let spec = MiningSpec {
        anchors: sized(setup.anchors),
        references: sized(setup.references),
        dim: sized(setup.dim),
        positives: sized(setup.positives.saturating_add(u64::from(!setup.banked))),
        own: !setup.banked,
        gradient: true,
        ..MiningSpec::default()
    };
    let spec = spec.mined_by(&config.miner, Some(&config.loss));
    let memory = match setup.banked {
        true => " --references memory.npy --reference-labels memory_labels.npy",
        false => "",
    };
    let command = format!(
        "nearfar loss --embeddings batch.npy --labels batch_labels.npy{memory} --loss {loss} --miner {miner}"
    );
    let sizes = format!(
        "{} anchors, {} references, {} dimensions",
        grouped(setup.anchors),
        grouped(setup.references),
        grouped(setup.dim)
    );
    (Work::Mining(spec), command, sizes)
}

fn evaluation(facts: &Facts) -> (Work, String, String) {
    let scored = Scored::read(facts);
    let asked = || {
        facts
            .message
            .asked
            .map(|asked| (asked / 8).isqrt())
            .filter(|rows| (1000..10_000_000).contains(rows))
    };
    let references = scored.references.or_else(asked).unwrap_or(100_000);
    let queries = scored.queries.or_else(asked).unwrap_or(references);
    let dim = scored.dim.unwrap_or(128);
    let classes = facts.size(Size::Classes).unwrap_or(100).max(1);
    let spec = EvaluationSpec {
        references: sized(references),
        dim: sized(dim),
        queries: sized(queries),
        positives: sized(references.div_ceil(classes)),
    };
    let more = match queries == references {
        true => "",
        false => " --references references.npy --reference-labels reference_labels.npy",
    };
    let command = format!("nearfar evaluate --embeddings embeddings.npy --labels labels.npy{more}");
    (
        Work::Evaluation(spec),
        command,
        sizes_of(queries, references, dim),
    )
}

fn search(facts: &Facts) -> (Work, String, String) {
    let scored = Scored::read(facts);
    let asked = || {
        facts
            .message
            .asked
            .map(|asked| (asked / 4).isqrt())
            .filter(|rows| (1000..10_000_000).contains(rows))
    };
    let references = scored.references.or_else(asked).unwrap_or(100_000).max(2);
    let queries = scored.queries.or_else(asked).unwrap_or(references);
    let dim = scored.dim.unwrap_or(128);
    let own = queries == references;
    let k = facts
        .code
        .names
        .iter()
        .rev()
        .find(|(name, _, _)| name == "k")
        .and_then(|(_, value, _)| value.number());
    let k = k.unwrap_or(10.0).clamp(1.0, (references - 1) as f64) as usize;
    let spec = KnnSpec {
        queries: sized(queries),
        references: sized(references),
        dim: sized(dim),
        k,
        own,
    };
    let more = if own {
        ""
    } else {
        " --references references.npy"
    };
    let command = format!("nearfar knn --queries queries.npy{more} --k {k} --out neighbours.npz");
    (
        Work::Search(spec),
        command,
        sizes_of(queries, references, dim),
    )
}

fn sizes_of(queries: u64, references: u64, dim: u64) -> String {
    format!(
        "{} queries, {} references, {} dimensions",
        grouped(queries),
        grouped(references),
        grouped(dim)
    )
}

/// Training of a head, on embeddings of the person's network.
fn training(setup: &Setup, facts: &Facts) -> Option<(Work, String, String)> {
    let (mut config, loss, _) = settings(setup, facts);
    let classes = facts
        .size(Size::Classes)
        .unwrap_or(1000)
        .clamp(2, 1_000_000);
    let rows = facts
        .size(Size::Rows)
        .unwrap_or(10 * classes)
        .clamp(2 * classes, 10_000_000);
    let dim = setup.dim.clamp(2, 4096);
    let batch = setup.anchors.clamp(2, 4096);
    let memory = if setup.banked { setup.references } else { 0 };
    let sets = [
        format!("batch_size={batch}"),
        format!("memory_size={memory}"),
        format!("embedding_size={dim}"),
    ];
    for set in &sets {
        config = config.with_set(set).ok()?;
    }
    // Of each class there are two rows or more, so that at least half of the classes train.
    if !Trainer::takes_classes(&config, sized(classes / 2)) {
        return None;
    }
    let sets = sets.map(|set| format!("--set {set}")).join(" ");
    let command =
        format!("nearfar train --data embeddings.npy --labels labels.npy --set loss={loss} {sets}");
    let sizes = format!(
        "{} rows of {} dimensions in {} classes",
        grouped(rows),
        grouped(dim),
        grouped(classes)
    );
    let work = Work::Training(Box::new(config), format!("{rows}x{dim}x{classes}"));
    Some((work, command, sizes))
}
