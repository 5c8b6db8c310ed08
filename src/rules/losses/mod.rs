//! [`Loss`]: the number that training minimizes. One formula a file, with PML's arguments.
//!
//! A loss is a file here that lowers its arguments to [`Terms`], a variant of [`Loss`], and, if its formula is new, a case of
//! [`Form`] on each engine: `shaders/row_loss.wgsl` and `cpu/row_loss.rs`.

mod arc_face;
mod circle;
mod contrastive;
mod cos_face;
mod generalized_lifted_structure;
mod lifted_structure;
mod margin;
mod multi_similarity;
mod nca;
mod normalized_softmax;
mod nt_xent;
mod proxy_anchor;
mod proxy_nca;
mod soft_triple;
mod sub_center_arc_face;
mod sup_con;
mod triplet_margin;

use serde::{Deserialize, Serialize};

pub use arc_face::ArcFaceLoss;
pub use circle::CircleLoss;
pub use contrastive::ContrastiveLoss;
pub use cos_face::CosFaceLoss;
pub use generalized_lifted_structure::GeneralizedLiftedStructureLoss;
pub use lifted_structure::LiftedStructureLoss;
pub use margin::MarginLoss;
pub use multi_similarity::MultiSimilarityLoss;
pub use nca::NcaLoss;
pub use normalized_softmax::NormalizedSoftmaxLoss;
pub use nt_xent::NtXentLoss;
pub use proxy_anchor::ProxyAnchorLoss;
pub use proxy_nca::ProxyNcaLoss;
pub use soft_triple::SoftTripleLoss;
pub use sub_center_arc_face::SubCenterArcFaceLoss;
pub use sup_con::SupConLoss;
pub use triplet_margin::TripletMarginLoss;

use crate::base::error::{Error, Result};
use crate::base::forecast::Path;
use crate::cpu::Distance;
use crate::kernels::row_loss::{Centers, Form, Given, RowCost, Times};
use crate::kernels::select::{Choice, Keep, Selection};
use crate::kernels::triplet_margin::{Rule, TERMS};
use crate::kernels::weigh::Weighing;
use crate::rules::miners::{Miner, MiningCounts};

/// A loss and its arguments; names and arguments are PML's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Loss {
    /// See [`TripletMarginLoss`].
    TripletMargin(TripletMarginLoss),
    /// See [`ContrastiveLoss`].
    Contrastive(ContrastiveLoss),
    /// See [`MarginLoss`].
    Margin(MarginLoss),
    /// See [`MultiSimilarityLoss`].
    MultiSimilarity(MultiSimilarityLoss),
    /// See [`NtXentLoss`].
    NtXent(NtXentLoss),
    /// See [`SupConLoss`].
    SupCon(SupConLoss),
    /// See [`CircleLoss`].
    Circle(CircleLoss),
    /// See [`LiftedStructureLoss`].
    LiftedStructure(LiftedStructureLoss),
    /// See [`GeneralizedLiftedStructureLoss`].
    GeneralizedLiftedStructure(GeneralizedLiftedStructureLoss),
    /// See [`NcaLoss`].
    Nca(NcaLoss),
    /// See [`ProxyNcaLoss`].
    ProxyNca(ProxyNcaLoss),
    /// See [`ProxyAnchorLoss`].
    ProxyAnchor(ProxyAnchorLoss),
    /// See [`NormalizedSoftmaxLoss`].
    NormalizedSoftmax(NormalizedSoftmaxLoss),
    /// See [`CosFaceLoss`].
    CosFace(CosFaceLoss),
    /// See [`ArcFaceLoss`].
    ArcFace(ArcFaceLoss),
    /// See [`SubCenterArcFaceLoss`].
    SubCenterArcFace(SubCenterArcFaceLoss),
    /// See [`SoftTripleLoss`].
    SoftTriple(SoftTripleLoss),
}

/// A loss of pairs as the kernels take it: its formula, and factors and margins of positives and of negatives.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    form: Form,
    scales: [f64; 2],
    margins: [f64; 2],
    proxies: Option<ProxyTerms>,
}

/// The proxies of a loss: rows that are learned with the head, some for each class of the training rows, and compared with the rows
/// of a batch as if they were rows of their class. They start in random directions; their length then and the learning rate decide
/// how fast they turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProxyTerms {
    /// Proxies of each class.
    pub(crate) per_class: usize,
    /// Factor of the softmax that weighs the proxies of a class; 0: only the nearest counts.
    pub(crate) gamma: f64,
    /// The proxies are the anchors, and the rows of the batch their positives and negatives.
    pub(crate) are_rows: bool,
    /// Their learning rate.
    pub(crate) lr: f64,
    /// The numbers that they start as.
    pub(crate) start: ProxyStart,
}

/// Distribution from which PML draws the first proxies of a loss, `[count, dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyStart {
    /// Normal numbers.
    Normal,
    /// Normal numbers of variance 2 / count: `kaiming_normal_` with `mode="fan_out"`.
    KaimingNormal,
    /// Uniform numbers within 1 / sqrt(count) of zero: `kaiming_uniform_` with `a=math.sqrt(5)`.
    KaimingUniform,
}

/// Learning rate of proxies by default. With a tenth of it `arc-face` learns the default sample much worse.
const PROXY_LR: f64 = 0.5;
/// Learning rate by default of several proxies of a class: with 0.5 `sub-center-arc-face` learns the default sample much worse.
const PROXY_LR_OF_SEVERAL: f64 = 0.05;

/// A similarity or a distance as a value: larger is nearer.
fn side(distance: Distance, margin: f64) -> f64 {
    match distance {
        Distance::Cosine => margin,
        Distance::L2 => -margin,
    }
}

impl Loss {
    /// The names in settings, each with its name in lists.
    pub const ALL: [(&str, &str); 17] = [
        ("triplet-margin", "triplet margin"),
        ("contrastive", "contrastive"),
        ("margin", "margin"),
        ("multi-similarity", "multi-similarity"),
        ("nt-xent", "NT-Xent (InfoNCE)"),
        ("sup-con", "supervised contrastive"),
        ("circle", "circle"),
        ("lifted-structure", "lifted structure"),
        (
            "generalized-lifted-structure",
            "generalized lifted structure",
        ),
        ("nca", "NCA"),
        ("proxy-nca", "proxy NCA"),
        ("proxy-anchor", "proxy anchor"),
        ("normalized-softmax", "normalized softmax"),
        ("cos-face", "CosFace"),
        ("arc-face", "ArcFace"),
        ("sub-center-arc-face", "sub-center ArcFace"),
        ("soft-triple", "SoftTriple"),
    ];

    /// Its terms, if it is a loss of pairs.
    fn terms(&self, distance: Distance) -> Option<Terms> {
        match self {
            Self::TripletMargin(_) => None,
            Self::Contrastive(loss) => Some(loss.terms(distance)),
            Self::Margin(loss) => Some(loss.terms(distance)),
            Self::MultiSimilarity(loss) => Some(loss.terms(distance)),
            Self::NtXent(loss) => Some(loss.terms()),
            Self::SupCon(loss) => Some(loss.terms()),
            Self::Circle(loss) => Some(loss.terms()),
            Self::LiftedStructure(loss) => Some(loss.terms(distance)),
            Self::GeneralizedLiftedStructure(loss) => Some(loss.terms(distance)),
            Self::Nca(loss) => Some(loss.terms()),
            Self::ProxyNca(loss) => Some(loss.terms()),
            Self::ProxyAnchor(loss) => Some(loss.terms()),
            Self::NormalizedSoftmax(loss) => Some(loss.terms()),
            Self::CosFace(loss) => Some(loss.terms()),
            Self::ArcFace(loss) => Some(loss.terms()),
            Self::SubCenterArcFace(loss) => Some(loss.terms()),
            Self::SoftTriple(loss) => Some(loss.terms()),
        }
    }

    /// Tells if a miner chooses its triplets or pairs: NCA and losses with proxies look at every row.
    pub fn is_mined(&self) -> bool {
        !matches!(self, Self::Nca(_)) && self.proxies().is_none()
    }

    /// Its proxies, if it learns some: then it compares with no memory.
    pub(crate) fn proxies(&self) -> Option<ProxyTerms> {
        self.terms(Distance::default())?.proxies
    }

    /// Tells if it compares rows with proxies of the classes, which are learned with the head.
    pub fn learns_proxies(&self) -> bool {
        self.proxies().is_some()
    }

    /// The learning rate of its boundary, if it learns that.
    pub(crate) fn boundary_lr(&self) -> Option<f64> {
        match self {
            Self::Margin(loss) => loss.learn_beta.then_some(loss.beta_lr),
            _ => None,
        }
    }

    /// Slope of the loss by its boundary as a value, apart from its pairs.
    pub(crate) fn boundary_pull(&self, distance: Distance) -> f64 {
        match self {
            Self::Margin(loss) => loss.pull(distance),
            _ => 0.0,
        }
    }

    /// Its boundary after it has moved by `moved` as a value; `None` for a loss without one.
    pub(crate) fn boundary(&self, moved: f64, distance: Distance) -> Option<f64> {
        match self {
            Self::Margin(loss) => Some(loss.beta + side(distance, moved)),
            _ => None,
        }
    }

    /// Tells if it is a loss of pairs: of an anchor with a positive, and of an anchor with a negative.
    pub fn is_of_pairs(&self) -> bool {
        !matches!(self, Self::TripletMargin(_))
    }

    /// Tells if it is defined for cosine similarities alone.
    fn is_of_cosine(&self) -> bool {
        match self {
            Self::Circle(_) => true,
            Self::ProxyNca(_) => false,
            loss => loss.proxies().is_some(),
        }
    }

    /// The triplet margin loss, if it is that.
    pub fn triplet_margin(&self) -> Option<&TripletMarginLoss> {
        match self {
            Self::TripletMargin(loss) => Some(loss),
            _ => None,
        }
    }

    /// Its margins that are distances or similarities, each with its default by `distance`. By distance that is PML's default; by
    /// similarity PML leaves some of them as they are for distances, which leaves nothing to learn.
    fn margins_mut(&mut self, distance: Distance) -> Vec<(&mut f64, f64)> {
        let (of_sides, of_triplets, beta) = match distance {
            Distance::Cosine => ([1.0, 0.0], 0.2, 0.5),
            Distance::L2 => ([0.0, 1.0], 0.05, 1.2),
        };
        match self {
            Self::TripletMargin(loss) => vec![(&mut loss.margin, of_triplets)],
            Self::Margin(loss) => vec![(&mut loss.beta, beta)],
            Self::Contrastive(ContrastiveLoss {
                pos_margin,
                neg_margin,
            })
            | Self::LiftedStructure(LiftedStructureLoss {
                pos_margin,
                neg_margin,
            })
            | Self::GeneralizedLiftedStructure(GeneralizedLiftedStructureLoss {
                pos_margin,
                neg_margin,
            }) => vec![(pos_margin, of_sides[0]), (neg_margin, of_sides[1])],
            _ => Vec::new(),
        }
    }

    /// The loss after a change of the distance from `from` to `to`: margins at the default of the one go to that of the other.
    #[must_use]
    pub(crate) fn following(mut self, from: Distance, to: Distance) -> Self {
        let stood: Vec<bool> = self
            .margins_mut(from)
            .iter()
            .map(|(margin, default)| **margin == *default)
            .collect();
        for ((margin, default), stood) in self.margins_mut(to).into_iter().zip(stood) {
            if stood {
                *margin = default;
            }
        }
        self
    }

    /// Its numeric arguments, each with its range: `(name, value, least, most)`, both inclusive.
    fn ranges(&self) -> Vec<(&'static str, f64, f64, f64)> {
        let margin = |name, value| (name, value, -4.0, 4.0);
        let scale = |name, value| (name, value, 1e-3, 1e4);
        let lr = |value| ("proxy_lr", value, 0.0, 10.0);
        let angle = |value| ("margin", value, 0.0, 90.0);
        let count = |name, value: usize| (name, value as f64, 1.0, 1024.0);
        match self {
            Self::TripletMargin(loss) => vec![margin("margin", loss.margin)],
            Self::Contrastive(ContrastiveLoss {
                pos_margin,
                neg_margin,
            })
            | Self::LiftedStructure(LiftedStructureLoss {
                pos_margin,
                neg_margin,
            })
            | Self::GeneralizedLiftedStructure(GeneralizedLiftedStructureLoss {
                pos_margin,
                neg_margin,
            }) => vec![
                margin("pos_margin", *pos_margin),
                margin("neg_margin", *neg_margin),
            ],
            Self::Margin(loss) => vec![
                margin("margin", loss.margin),
                margin("beta", loss.beta),
                ("beta_lr", loss.beta_lr, 0.0, 10.0),
                ("nu", loss.nu, -1e4, 1e4),
            ],
            Self::MultiSimilarity(loss) => vec![
                scale("alpha", loss.alpha),
                scale("beta", loss.beta),
                margin("base", loss.base),
            ],
            Self::NtXent(NtXentLoss { temperature }) | Self::SupCon(SupConLoss { temperature }) => {
                vec![("temperature", *temperature, 1e-3, 1e3)]
            }
            Self::Circle(loss) => vec![("m", loss.m, -1.0, 1.0), scale("gamma", loss.gamma)],
            Self::Nca(loss) => vec![scale("softmax_scale", loss.softmax_scale)],
            Self::ProxyNca(loss) => vec![
                scale("softmax_scale", loss.softmax_scale),
                lr(loss.proxy_lr),
            ],
            Self::ProxyAnchor(loss) => vec![
                margin("margin", loss.margin),
                scale("alpha", loss.alpha),
                lr(loss.proxy_lr),
            ],
            Self::NormalizedSoftmax(loss) => vec![
                ("temperature", loss.temperature, 1e-3, 1e3),
                lr(loss.proxy_lr),
            ],
            Self::CosFace(loss) => vec![
                margin("margin", loss.margin),
                scale("scale", loss.scale),
                lr(loss.proxy_lr),
            ],
            Self::ArcFace(loss) => vec![
                angle(loss.margin),
                scale("scale", loss.scale),
                lr(loss.proxy_lr),
            ],
            Self::SubCenterArcFace(loss) => vec![
                angle(loss.margin),
                scale("scale", loss.scale),
                count("sub_centers", loss.sub_centers),
                lr(loss.proxy_lr),
            ],
            Self::SoftTriple(loss) => vec![
                count("centers_per_class", loss.centers_per_class),
                scale("la", loss.la),
                ("gamma", loss.gamma, 1e-3, 1e3),
                margin("margin", loss.margin),
                lr(loss.proxy_lr),
            ],
        }
    }

    /// Checks every argument against its range.
    ///
    /// # Errors
    /// [`Error::Config`] for the first that is out of it, with the range.
    pub(crate) fn check(&self) -> Result<()> {
        let ranges = self.ranges();
        let out = ranges
            .into_iter()
            .find(|(_, value, least, most)| !(*least..=*most).contains(value));
        match out {
            None => Ok(()),
            Some((name, value, least, most)) => Err(Error::Config(format!(
                "loss.{name} is {value}: it must be between {least} and {most}"
            ))),
        }
    }

    /// Checks that the loss can be computed from the miner's triplets or pairs, and by this distance.
    ///
    /// # Errors
    /// [`Error::Config`] for `swap` with triplets that are chosen one by one, and for a loss of cosine similarities by distance.
    pub(crate) fn check_takes(&self, miner: &Miner, distance: Distance) -> Result<()> {
        match (miner, self) {
            (Miner::DistanceWeighted(_), Self::TripletMargin(loss)) if loss.swap => {
                Err(Error::Config(
                    "loss.swap is true: `distance-weighted` draws each negative by its distance from the anchor, so leave swap \
                     out or use another miner"
                        .to_owned(),
                ))
            }
            (Miner::FacenetSemihard(_), Self::TripletMargin(loss)) if loss.swap => {
                Err(Error::Config(
                    "loss.swap is true: `facenet-semihard` chooses each positive's one negative by the anchor alone, so \
                     leave swap out or use another miner"
                        .to_owned(),
                ))
            }
            (_, loss) if loss.is_of_cosine() && distance != Distance::Cosine => {
                Err(Error::Config(
                    "distance is l2: this loss is made for cosine similarities, so set distance to cosine".to_owned(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The loss of a step, from its report.
    pub(crate) fn read(&self, report: &[u32], counts: &MiningCounts, path: Path) -> f64 {
        match self {
            Self::TripletMargin(loss) => loss.read(report, counts, path),
            // Each row's term is its part of the mean.
            _ => sum_of_terms(report, counts.anchors as usize),
        }
    }
}

/// The sum of the terms of `rows` rows in a report.
fn sum_of_terms(report: &[u32], rows: usize) -> f64 {
    let terms = &report[TERMS..TERMS + rows];
    terms
        .iter()
        .map(|bits| f64::from(f32::from_bits(*bits)))
        .sum()
}

impl Default for Loss {
    fn default() -> Self {
        Self::TripletMargin(TripletMarginLoss::default())
    }
}

/// Arguments of the kernels for a miner and a loss, on one of the two paths.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum MiningRule {
    /// Arguments on [`Path::Ranks`].
    Ranks(Rule),
    /// Arguments on [`Path::Rows`].
    Rows(RowRule),
}

/// A pass over all blocks of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Mines the blocks: loss and gradient at once.
    Mine,
    /// Reduces the blocks' rows.
    Reduce,
    /// Computes the loss of positive pairs, which needs both of their rows reduced.
    Settle,
    /// Computes the slopes of pairs, which need the rows of the whole batch reduced.
    Slopes,
}

impl Round {
    /// Tells if it brings loss and gradient.
    pub(crate) fn is_last(self) -> bool {
        matches!(self, Self::Mine | Self::Slopes)
    }
}

/// Rule for the positives and negatives that are kept of a row, and their loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowRule {
    pub(crate) selection: Selection,
    pub(crate) cost: Cost,
    pub(crate) operands: Operands,
    /// Rule of the miner for the weights of the batch's rows, if they have weights.
    pub(crate) rows_mined: Option<RowsMined>,
}

/// Rule of a miner that weighs each row of the batch, in a loss that looks at all rows, by the number of times that it keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowsMined {
    pub(crate) selection: Selection,
    /// The loss, with [`Times::Mined`] if the miner keeps triplets.
    pub(crate) cost: RowCost,
    /// A row counts as an anchor alone.
    pub(crate) anchors_only: bool,
}

/// Anchors and references that a loss compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    /// The batch with itself, or with the memory.
    Rows,
    /// The batch with proxies.
    RowsWithProxies,
    /// Proxies with the batch.
    ProxiesWithRows,
}

/// Loss of the kept references of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    /// Triplet by triplet.
    Triplets(Weighing),
    /// All pairs of the row at once.
    Pairs(RowCost),
}

impl MiningRule {
    /// The rule with rows that are weighed by the number of times that the miner keeps them. `memory`: the batch is compared with
    /// one.
    pub(crate) fn weighing_rows(
        mut self,
        miner: &Miner,
        chosen_by: Distance,
        loss: &Loss,
        memory: bool,
    ) -> Self {
        if let Self::Rows(rule) = &mut self
            && let Cost::Pairs(cost) = &mut rule.cost
        {
            // PML counts the anchor of a triplet once, and that of two pairs twice.
            let times = match miner {
                Miner::TripletMargin(_)
                | Miner::BatchHard(_)
                | Miner::FacenetSemihard(_)
                | Miner::DistanceWeighted(_) => Times::Mined,
                _ => Times::Once,
            };
            cost.given = Given::Weights;
            rule.rows_mined = Some(RowsMined {
                selection: Selection {
                    shown: cost.distance,
                    ..miner.selection(chosen_by)
                },
                cost: RowCost { times, ..*cost },
                // As PML counts if rows are compared with others than themselves.
                anchors_only: matches!(loss, Loss::ProxyNca(_)) || memory,
            });
        }
        self
    }

    /// The rule with a boundary that the loss learns.
    pub(crate) fn learning_boundary(mut self) -> Self {
        if let Self::Rows(rule) = &mut self
            && let Cost::Pairs(cost) = &mut rule.cost
        {
            cost.given = Given::Boundary;
        }
        self
    }

    /// The rule of a miner, which compares rows by `chosen_by`, and of a loss, which compares them by `distance`. Without a loss no
    /// triplet is active.
    pub(crate) fn new(
        miner: &Miner,
        chosen_by: Distance,
        loss: Option<&Loss>,
        distance: Distance,
    ) -> Self {
        let (kind, miner_margin) = miner.band();
        let triplets = loss.and_then(Loss::triplet_margin);
        let rule = Rule {
            distance,
            kind,
            miner_margin,
            loss_margin: triplets.map_or(f32::MIN, |loss| loss.margin as f32),
        };
        let selection = Selection {
            shown: distance,
            ..miner.selection(chosen_by)
        };
        if let Some(terms) = loss.and_then(|loss| loss.terms(distance)) {
            let mined = loss.is_some_and(Loss::is_mined);
            let times = match (miner, terms.form) {
                _ if !mined => Times::Once,
                (
                    Miner::TripletMargin(_)
                    | Miner::FacenetSemihard(_)
                    | Miner::DistanceWeighted(_),
                    _,
                ) => Times::Mined,
                (_, Form::Margin) => Times::Crossed,
                _ => Times::Once,
            };
            let selection = match mined {
                true => selection,
                false => Selection::all(distance),
            };
            let operands = match terms.proxies {
                None => Operands::Rows,
                Some(proxies) if proxies.are_rows => Operands::ProxiesWithRows,
                Some(_) => Operands::RowsWithProxies,
            };
            let centers = terms.proxies.map(|proxies| Centers {
                per_class: proxies.per_class,
                gamma: proxies.gamma as f32,
            });
            let cost = RowCost {
                distance,
                form: terms.form,
                scales: terms.scales.map(|scale| scale as f32),
                margins: terms.margins.map(|margin| margin as f32),
                times,
                mined: rule,
                centers: centers.unwrap_or(Centers::ONE),
                given: Given::Nothing,
            };
            let cost = Cost::Pairs(cost);
            return Self::Rows(RowRule {
                selection,
                cost,
                operands,
                rows_mined: None,
            });
        }
        let (swap, smooth) = triplets.map_or((false, false), |loss| (loss.swap, loss.smooth_loss));
        if miner.is_band() && !swap && !smooth {
            return Self::Ranks(rule);
        }
        let cost = Cost::Triplets(Weighing {
            rule,
            swap,
            one_negative: selection.choice == Choice::OneNegative,
            smooth,
        });
        Self::Rows(RowRule {
            selection,
            cost,
            operands: Operands::Rows,
            rows_mined: None,
        })
    }

    /// Rule of the miner for the weights of rows, if they have weights.
    pub(crate) fn weighs_rows(&self) -> Option<&RowsMined> {
        match self {
            Self::Ranks(_) => None,
            Self::Rows(rule) => rule.rows_mined.as_ref(),
        }
    }

    /// Anchors and references that are compared.
    pub(crate) fn operands(&self) -> Operands {
        match self {
            Self::Ranks(_) => Operands::Rows,
            Self::Rows(rule) => rule.operands,
        }
    }

    /// The path on which triplets are mined.
    pub(crate) fn path(&self) -> Path {
        match self {
            Self::Ranks(_) => Path::Ranks,
            Self::Rows(_) => Path::Rows,
        }
    }

    /// The rounds of a step, in their order.
    pub(crate) fn rounds(&self) -> &'static [Round] {
        match self.pairs() {
            None => &[Round::Mine],
            Some(cost) if cost.form == Form::Lifted => {
                &[Round::Reduce, Round::Settle, Round::Slopes]
            }
            Some(_) => &[Round::Reduce, Round::Slopes],
        }
    }

    /// Reads the counts of a step off its report.
    pub(crate) fn counts(&self, miner: &Miner, report: &[u32], anchors: usize) -> MiningCounts {
        match self.pairs() {
            None => miner.counts(report, anchors),
            Some(_) => {
                let mut counts = MiningCounts::of_pairs(report, anchors);
                if self.operands() != Operands::Rows {
                    // Every pair of a row and a proxy is kept.
                    counts.valid = counts.mined;
                }
                counts
            }
        }
    }

    /// Tells if the whole batch must be one block if the anchors are each other's references: so in `LiftedStructure`.
    pub(crate) fn looks_at_all(&self) -> bool {
        self.pairs().is_some_and(|cost| cost.form == Form::Lifted)
    }

    /// Tells if `swap` asks for similarities between positives and negatives.
    pub(crate) fn swap(&self) -> bool {
        matches!(self, Self::Rows(RowRule { cost: Cost::Triplets(weighing), .. }) if weighing.swap)
    }

    /// The loss, if it is one of pairs.
    pub(crate) fn pairs(&self) -> Option<&RowCost> {
        match self {
            Self::Rows(RowRule {
                cost: Cost::Pairs(cost),
                ..
            }) => Some(cost),
            _ => None,
        }
    }

    /// The most triplets of an anchor that are looked at one by one; 0 if none is.
    pub(crate) fn looked_at(&self, positives: u64, negatives: u64) -> u64 {
        let Self::Rows(rule) = self else {
            return 0;
        };
        if let Cost::Pairs(cost) = rule.cost
            && cost.times != Times::Mined
        {
            return 0;
        }
        let most = |keep: Keep, all: u64| match keep {
            Keep::All | Keep::Close => all,
            Keep::Hard | Keep::Semihard | Keep::Easy => all.min(1),
        };
        if let Choice::Drawn(_) = rule.selection.choice {
            return positives.saturating_add(1);
        }
        let positives = most(rule.selection.positives.keep, positives);
        positives.saturating_mul(most(rule.selection.negatives.keep, negatives))
    }
}
