//! [`MiningRule`]: a miner and a loss as the kernels take them.

use crate::base::forecast::MiningMethod;
use crate::cpu::Distance;
use crate::kernels::row_loss::{Centers, ExtraInput, Form, Multiplicity, RowCost};
use crate::kernels::select::{Choice, Selection, Side};
use crate::kernels::triplet_loss::Weighing;
use crate::kernels::triplet_margin::Rule;
use crate::rules::losses::{ContrastiveLoss, Loss};
use crate::rules::miners::{Miner, MiningCounts};

/// Arguments of the kernels for a miner and a loss, on one of the two paths.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum MiningRule {
    /// Arguments on [`MiningMethod::Ranks`].
    Ranks(Rule),
    /// Arguments on [`MiningMethod::Rows`].
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
    /// The loss, with [`Multiplicity::Mined`] if the miner keeps triplets.
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

impl RowRule {
    /// Tells if pairs are kept as such, and not counted by the triplets that contain them.
    pub(crate) fn selects_pairs(&self) -> bool {
        !matches!(&self.cost, Cost::Pairs(cost) if cost.times == Multiplicity::Mined)
    }
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
                | Miner::DistanceWeighted(_) => Multiplicity::Mined,
                _ => Multiplicity::Once,
            };
            cost.given = ExtraInput::Weights;
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
            cost.given = ExtraInput::Boundary;
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
        if let Some(pairs) = loss.and_then(|loss| of_pairs(miner, loss, rule, selection)) {
            return Self::Rows(pairs);
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

    /// The rule by rows, which looks at every triplet of a row by itself.
    pub(crate) fn by_rows(self) -> Self {
        let Self::Ranks(rule) = self else {
            return self;
        };
        Self::Rows(RowRule {
            selection: Selection::all(rule.distance),
            cost: Cost::Triplets(Weighing {
                rule,
                swap: false,
                one_negative: false,
                smooth: false,
            }),
            operands: Operands::Rows,
            rows_mined: None,
        })
    }

    /// Rule that counts what a miner keeps of a row: the triplets with each reference, or the pairs of a miner of pairs.
    pub(crate) fn counting(miner: &Miner, chosen_by: Distance, distance: Distance) -> RowRule {
        let pairs = Loss::Contrastive(ContrastiveLoss::default());
        match Self::new(miner, chosen_by, Some(&pairs), distance) {
            Self::Rows(rule) => rule,
            Self::Ranks(_) => unreachable!("a loss of pairs is mined by rows"),
        }
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
    pub(crate) fn path(&self) -> MiningMethod {
        match self {
            Self::Ranks(_) => MiningMethod::Ranks,
            Self::Rows(_) => MiningMethod::Rows,
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
            && cost.times != Multiplicity::Mined
        {
            return 0;
        }
        let most = |side: Side, all: u64| if side.is_one() { all.min(1) } else { all };
        if let Choice::Drawn(_) = rule.selection.choice {
            return positives.saturating_add(1);
        }
        let positives = most(rule.selection.positives, positives);
        positives.saturating_mul(most(rule.selection.negatives, negatives))
    }
}

/// The rule of a loss of pairs; `None` for one of triplets. `mined`, `selection`: those of the miner, by the loss's distance.
fn of_pairs(miner: &Miner, loss: &Loss, mined: Rule, selection: Selection) -> Option<RowRule> {
    let terms = loss.terms(mined.distance)?;
    let times = match (miner, terms.form) {
        _ if !loss.is_mined() => Multiplicity::Once,
        (Miner::TripletMargin(_) | Miner::FacenetSemihard(_) | Miner::DistanceWeighted(_), _) => {
            Multiplicity::Mined
        }
        (_, Form::Margin) => Multiplicity::Crossed,
        _ => Multiplicity::Once,
    };
    let centers = terms.proxies.map(|proxies| Centers {
        per_class: proxies.per_class,
        gamma: proxies.gamma as f32,
    });
    Some(RowRule {
        selection: match loss.is_mined() {
            true => selection,
            false => Selection::all(mined.distance),
        },
        cost: Cost::Pairs(RowCost {
            distance: mined.distance,
            form: terms.form,
            scales: terms.scales.map(|scale| scale as f32),
            margins: terms.margins.map(|margin| margin as f32),
            times,
            mined,
            centers: centers.unwrap_or(Centers::ONE),
            given: ExtraInput::Nothing,
        }),
        operands: match terms.proxies {
            None => Operands::Rows,
            Some(proxies) if proxies.are_rows => Operands::ProxiesWithRows,
            Some(_) => Operands::RowsWithProxies,
        },
        rows_mined: None,
    })
}
