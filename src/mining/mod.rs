//! [`mine`]: the mining phase. Takes rows with labels, gives the counts of every triplet and the loss over all mined ones with its
//! gradient, a block of anchors at a time, in memory that its plan fixes. No triplet is stored.

pub(crate) mod listing;
pub(crate) mod mining_pass;
pub(crate) mod row_pass;
pub(crate) mod row_work;
pub(crate) mod scene;
pub(crate) mod triplets;

mod memory_loss;
mod memory_sizes;
mod pairs;
mod phase;
mod ring;
mod sizes;

use crate::base::error::{Error, Result};
use crate::base::forecast::Rate;
use crate::cpu::Distance;
use crate::data::by_class::class_counts;
use crate::engine::Engine;
use crate::kernels;
use crate::kernels::ranks::NO_ID;
use crate::mining::mining_pass::{MiningPass, Rounds};
use crate::rules::losses::Loss;
use crate::rules::miners::{Miner, MiningCounts};
use crate::rules::mining_rule::MiningRule;
use crate::search::rows::{NumberedRows, Rows, numbered};
use phase::{Anchors, Phase};
use sizes::ADVICE;

pub use memory_loss::{MemoryLoss, MemoryLossState};
pub use memory_sizes::MemoryLossSpec;
pub use pairs::{KeptOfAnchor, Pairs};
pub use sizes::MiningSpec;

/// Result of a mining.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mined {
    /// Number of triplets of each kind; `active` is 0 if no loss was asked for.
    pub mining: MiningCounts,
    /// Mean loss of the active triplets; 0 if there are none.
    pub loss: f64,
    /// dL/d(anchor), `[anchors, dim]`, for the anchors before they are brought to unit length; empty if it was not asked for.
    pub gradient: Vec<f32>,
    /// dL/d(reference), `[references, dim]`, before unit length, of a loss with proxies; empty for other losses.
    pub reference_gradient: Vec<f32>,
    /// Pairs that the miner keeps; empty if they were not asked for.
    pub pairs: Pairs,
}

/// Output of [`mine`] beside the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted<'a> {
    /// Counts alone.
    Counts,
    /// Pairs that the miner keeps. Only miners that give pairs have them, see [`Miner`].
    Pairs,
    /// The loss.
    Loss(&'a Loss),
    /// The loss and its gradient.
    Gradient(&'a Loss),
}

impl<'a> Wanted<'a> {
    /// The loss, if one is asked for.
    fn loss(&self) -> Option<&'a Loss> {
        match self {
            Self::Counts | Self::Pairs => None,
            Self::Loss(loss) | Self::Gradient(loss) => Some(loss),
        }
    }
}

/// What is mined for, and how.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Distance of the miner, and of the loss.
    pub distances: [Distance; 2],
    /// Output beside the counts.
    pub wanted: Wanted<'a>,
    /// For each anchor the reference that is a copy of it, as a memory has one, or `u32::MAX`: it is no positive of the anchor. Of
    /// references that are given.
    pub copies: Option<&'a [u32]>,
}

impl<'a> Asked<'a> {
    /// One distance for miner and loss; no reference is a copy of an anchor.
    pub fn of(distance: Distance, wanted: Wanted<'a>) -> Self {
        Self {
            distances: [distance; 2],
            wanted,
            copies: None,
        }
    }
}

/// Triplet counts of the anchors with `references`, and if wanted loss and gradient. With `None` the anchors are the references
/// themselves, and no anchor is a positive of itself; given references are constants, as those of a memory are.
///
/// For a loss that learns proxies, give the proxies as the references, class by class; for [`crate::ProxyAnchorLoss`] as the
/// anchors. Both sides then have a gradient. No miner chooses.
///
/// `progress` is called with the number of anchors done and the number of all.
///
/// # Errors
/// [`crate::Error::Config`] for a loss that does not take what the miner keeps, and for more references or draws than the miner
/// allows; [`crate::Error::Data`] if dimensions or labels do not match; [`crate::Error::Refused`] and [`crate::Error::TooLarge`] as
/// [`MiningSpec::plan`]; [`crate::Error::Device`]; [`crate::Error::Stopped`].
pub async fn mine(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    distance: Distance,
    wanted: Wanted<'_>,
    progress: impl FnMut(u64, u64),
) -> Result<Mined> {
    let mut pairs = Pairs::default();
    let sink = |kept: KeptOfAnchor<'_>| {
        pairs.add(kept);
        Ok(())
    };
    let mined = mine_into(
        engine,
        anchors,
        references,
        miner,
        &Asked::of(distance, wanted),
        sink,
        progress,
    )
    .await?;
    Ok(Mined { pairs, ..mined })
}

/// As [`mine`], with all that [`Asked`] can say. With [`Wanted::Pairs`] the kept pairs go to
/// `sink`, anchor by anchor, and none are stored.
///
/// # Errors
/// As [`mine`], and errors of `sink`.
pub async fn mine_into(
    engine: &Engine,
    anchors: Rows<'_>,
    references: Option<Rows<'_>>,
    miner: &Miner,
    asked: &Asked<'_>,
    sink: impl FnMut(KeptOfAnchor<'_>) -> Result<()>,
    progress: impl FnMut(u64, u64),
) -> Result<Mined> {
    let known = references.unwrap_or(anchors);
    anchors.check_against(known)?;
    let (_, [own, labels]) = numbered(anchors.labels, known.labels);
    let side = |rows, labels| NumberedRows { rows, labels };
    let references = references.map(|references| side(references.rows, &labels));
    let anchors = side(anchors.rows, &own);
    mine_numbered(engine, anchors, references, miner, asked, sink, progress).await
}

/// As [`mine_into`], of rows whose classes are numbers.
///
/// # Errors
/// As [`mine_into`].
pub async fn mine_numbered(
    engine: &Engine,
    anchors: NumberedRows<'_>,
    references: Option<NumberedRows<'_>>,
    miner: &Miner,
    asked: &Asked<'_>,
    mut sink: impl FnMut(KeptOfAnchor<'_>) -> Result<()>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Mined> {
    let Asked {
        distances: [chosen_by, distance],
        wanted,
        copies,
    } = *asked;
    let loss = wanted.loss();
    if let Some(loss) = loss {
        loss.check()?;
        loss.check_takes(miner, distance)?;
        check_proxies(loss, references)?;
    }
    let known = references.unwrap_or(anchors);
    anchors.check_against(known)?;
    let (dim, own) = (known.rows.dim(), anchors.labels);
    let ids = own_ids(references.is_none(), copies, own, known.labels)?;
    let counts = class_counts(known.labels);
    let rule = MiningRule::new(miner, chosen_by, loss, distance);
    let spec = MiningSpec {
        own: references.is_none(),
        gradient: matches!(wanted, Wanted::Gradient(_)),
        ..MiningSpec::of(known.labels, dim, own.len()).mined_by(miner, loss)
    };
    let room = engine.room();
    let forecast = spec.plan(&room, &Rate::default())?;
    engine.prepare(kernels::used_on(engine.info())).await?;
    let mut workspace = engine.workspace("mining", &forecast.memory, ADVICE).await?;
    let mut phase = Phase::new(engine, spec, spec.cut(&room), &mut workspace);
    phase.load(known.rows, known.labels).await?;
    let by_value = matches!(miner, Miner::MultiSimilarity(_)).then_some(chosen_by);
    let gives_pairs = wanted == Wanted::Pairs && miner.gives_pairs();
    let (mut rounds, mut progressed) = (Rounds::new(&rule, spec.anchors), 0);
    let of_anchors = Anchors {
        rows: anchors.rows,
        classes: own,
        ids: &ids,
        counts: &counts,
    };
    while let Some((first, rows)) = phase
        .next_block(&rounds, of_anchors, &rule, &wanted)
        .await?
    {
        if gives_pairs && let MiningPass::Rows(pass) = &phase.pass {
            let references = spec.references;
            pairs::read(engine, pass, first, &rows, references, by_value, &mut sink).await?;
        }
        rounds.done(rows.len());
        progressed += rows.len();
        let done = progressed / rule.rounds().len();
        progress(done as u64, spec.anchors as u64);
        engine.breathe().await?;
    }
    let counts = rule.counts(miner, &phase.counts, spec.anchors);
    phase
        .mined(&rule, counts, loss, anchors.rows, known.rows)
        .await
}

/// Id of each anchor among the references, which are numbered by their places; [`NO_ID`] for one that is none of them.
fn own_ids(
    own: bool,
    copies: Option<&[u32]>,
    classes: &[u32],
    references: &[u32],
) -> Result<Vec<u32>> {
    let count = classes.len();
    let Some(copies) = copies else {
        return Ok(match own {
            true => (0..count as u32).collect(),
            false => vec![NO_ID; count],
        });
    };
    if own || copies.len() != count {
        return Err(Error::Data(format!(
            "{} copies for {count} anchors: there must be one an anchor, among references of their own",
            copies.len()
        )));
    }
    let anchors = copies.iter().zip(classes);
    for (anchor, (copy, class)) in anchors.enumerate() {
        if *copy != NO_ID && references.get(*copy as usize) != Some(class) {
            return Err(Error::Data(format!(
                "reference {copy} cannot be a copy of anchor {anchor}: it has another label, or is none of {} references",
                references.len()
            )));
        }
    }
    Ok(copies.to_vec())
}

/// Checks that a loss that learns proxies is given some, class by class.
fn check_proxies(loss: &Loss, references: Option<NumberedRows<'_>>) -> Result<()> {
    let Some(proxies) = loss.proxies() else {
        return Ok(());
    };
    let Some(references) = references else {
        return Err(Error::Config(
            "loss: this loss compares rows with proxies, which a run of `train` learns: give those as references, or use a loss \
             without proxies"
                .to_owned(),
        ));
    };
    let of_a_class = |labels: &[u32]| {
        labels.len() == proxies.per_class && labels.iter().all(|label| *label == labels[0])
    };
    if proxies.are_rows || references.labels.chunks(proxies.per_class).all(of_a_class) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "loss: this loss has {} proxies for each class: give as many references of each, one class after the other",
        proxies.per_class
    )))
}
