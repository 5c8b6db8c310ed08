//! [`Loss`]: the number that training minimizes. One formula a file, with PML's arguments.
//!
//! A loss is a file here that lowers its arguments to [`Terms`], a variant of [`Loss`], and, if its formula is new, a case of
//! [`Form`](crate::kernels::row_loss::Form) on each engine: `shaders/row_loss.wgsl` and `cpu/row_loss/`.

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
mod terms;
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
pub(crate) use terms::{ProxyStart, ProxyTerms};
pub use triplet_margin::TripletMarginLoss;

use terms::{Formula, Terms, side, sum_of_terms};

use crate::base::error::{Error, Result};
use crate::base::forecast::MiningMethod;
use crate::cpu::Distance;
use crate::rules::arguments;
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

    /// The loss of its own file.
    fn own(&self) -> &dyn Formula {
        match self {
            Self::TripletMargin(loss) => loss,
            Self::Contrastive(loss) => loss,
            Self::Margin(loss) => loss,
            Self::MultiSimilarity(loss) => loss,
            Self::NtXent(loss) => loss,
            Self::SupCon(loss) => loss,
            Self::Circle(loss) => loss,
            Self::LiftedStructure(loss) => loss,
            Self::GeneralizedLiftedStructure(loss) => loss,
            Self::Nca(loss) => loss,
            Self::ProxyNca(loss) => loss,
            Self::ProxyAnchor(loss) => loss,
            Self::NormalizedSoftmax(loss) => loss,
            Self::CosFace(loss) => loss,
            Self::ArcFace(loss) => loss,
            Self::SubCenterArcFace(loss) => loss,
            Self::SoftTriple(loss) => loss,
        }
    }

    /// Its terms, if it is a loss of pairs.
    pub(super) fn terms(&self, distance: Distance) -> Option<Terms> {
        self.own().terms(distance)
    }

    /// Its class in PML, if PML has one.
    pub(crate) fn pml(&self) -> Option<&'static str> {
        self.own().pml()
    }

    /// Tells if its class in PML is given a distance.
    pub(crate) fn pml_takes_distance(&self) -> bool {
        self.own().pml_takes_distance()
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

    /// Checks every argument against its range.
    ///
    /// # Errors
    /// [`Error::Config`] for the first that is out of it, with the range.
    pub(crate) fn check(&self) -> Result<()> {
        arguments::check("loss", self.own())
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
    pub(crate) fn read(&self, report: &[u32], counts: &MiningCounts, path: MiningMethod) -> f64 {
        match self {
            Self::TripletMargin(loss) => loss.read(report, counts, path),
            // Each row's term is its part of the mean.
            _ => sum_of_terms(report, counts.anchors as usize),
        }
    }
}

impl Default for Loss {
    fn default() -> Self {
        Self::TripletMargin(TripletMarginLoss::default())
    }
}
