//! What a text sets up: a loss, a miner and a memory of PML, with the sizes that follow; and what is assumed where it is silent.

use std::cell::RefCell;

use super::calls::Value;
use super::facts::{Facts, Size, is_head};

/// PML's losses of pairs and of triplets.
const LOSSES: [&str; 16] = [
    "TripletMarginLoss",
    "ContrastiveLoss",
    "NTXentLoss",
    "SupConLoss",
    "MultiSimilarityLoss",
    "CircleLoss",
    "AngularLoss",
    "LiftedStructureLoss",
    "GeneralizedLiftedStructureLoss",
    "MarginLoss",
    "NCALoss",
    "TupletMarginLoss",
    "SignalToNoiseRatioContrastiveLoss",
    "IntraPairVarianceLoss",
    "FastAPLoss",
    "NPairsLoss",
];

const HEADS: [&str; 9] = [
    "ArcFaceLoss",
    "CosFaceLoss",
    "SubCenterArcFaceLoss",
    "LargeMarginSoftmaxLoss",
    "NormalizedSoftmaxLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "SoftTripleLoss",
    "SphereFaceLoss",
];

const MINERS: [&str; 9] = [
    "TripletMarginMiner",
    "AngularMiner",
    "MultiSimilarityMiner",
    "BatchEasyHardMiner",
    "BatchHardMiner",
    "PairMarginMiner",
    "DistanceWeightedMiner",
    "HDCMiner",
    "UniformHistogramMiner",
];

/// Phrases of losses over the rows of all cards.
const GATHERS: [&str; 4] = [
    "distributedlosswrapper",
    "distributedminerwrapper",
    "all_gather",
    "gather_features",
];

/// Sizes of a step of training.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// PML's class, or empty.
    pub(super) loss: String,
    pub(super) miner: String,
    /// The references are a memory.
    pub(super) banked: bool,
    /// The step is big enough to name these: anchors, references, and the positives of each anchor.
    pub(super) anchors: u64,
    pub(super) references: u64,
    pub(super) positives: u64,
    pub(super) dim: u64,
    pub(super) classes: u64,
    assumed: RefCell<Vec<String>>,
}

impl Setup {
    pub(super) fn read(facts: &Facts) -> Self {
        let xbm = facts
            .code
            .call("CrossBatchMemory")
            .or_else(|| facts.code.call("XBM"));
        let banked = xbm.is_some()
            || facts.says(&[
                "crossbatchmemory",
                "cross-batch memory",
                "cross batch memory",
                "xbm",
                "cross_batch_memory.py",
            ]);
        let inner = |name: &str, place: usize| {
            let value: Option<&Value> = xbm.and_then(|call| call.argument(name, place));
            value
                .map(|value| facts.code.class_of(value))
                .unwrap_or_default()
        };
        let mut setup = Self {
            loss: known(&inner("loss", 0), facts, &LOSSES)
                .or_else(|| known("", facts, &HEADS))
                .unwrap_or_default(),
            miner: known(&inner("miner", 3), facts, &MINERS).unwrap_or_default(),
            banked,
            ..Self::default()
        };
        setup.size(facts);
        setup
    }

    fn size(&mut self, facts: &Facts) {
        let rows = |shape: &&Vec<u64>| shape.len() == 2 && shape[0] >= 2 && shape[1] >= 2;
        let shape = facts.shapes.iter().find(rows);
        let cards = facts.size(Size::Cards).filter(|_| facts.says(&GATHERS));
        let assume = |what: &str| self.assumed.borrow_mut().push(what.to_owned());
        let batch = pixels(facts).or(facts.size(Size::Batch));
        let batch = batch.or_else(|| shape.map(|shape| shape[0]));
        let batch = batch.unwrap_or_else(|| {
            assume("batch 32 is assumed: the text does not say");
            32
        });
        let anchors = batch.saturating_mul(cards.unwrap_or(1));
        let dim = facts
            .size(Size::Dim)
            .or_else(|| shape.map(|shape| shape[1]));
        let references = match (self.banked, facts.size(Size::Memory)) {
            (false, _) => anchors,
            (true, Some(memory)) => memory.max(anchors),
            (true, None) => {
                assume("memory_size 1,024 is assumed, PML's default");
                1024.max(anchors)
            }
        };
        let same = self.of_a_class(facts, references);
        let classes = facts.size(Size::Classes);
        (self.anchors, self.references) = (anchors, references);
        self.positives = same.saturating_sub(u64::from(!self.banked)).max(1);
        self.classes = classes.unwrap_or_else(|| references.div_ceil(same)).max(1);
        self.dim = dim.unwrap_or(128);
    }

    /// References of one class.
    fn of_a_class(&self, facts: &Facts, references: u64) -> u64 {
        let assume = |what: &str| self.assumed.borrow_mut().push(what.to_owned());
        let (per_class, classes) = (facts.size(Size::PerClass), facts.size(Size::Classes));
        let same = match (self.banked, per_class, classes) {
            (false, Some(of_class), _) => of_class,
            (true, _, Some(classes)) => references.div_ceil(classes),
            (false, None, Some(classes)) if classes <= references / 2 => {
                references.div_ceil(classes)
            }
            (true, _, None) => {
                assume("100 classes of one size are assumed: the text does not say");
                references.div_ceil(100)
            }
            (false, None, _) => {
                assume("4 rows of a class in a batch are assumed: the text does not say");
                4
            }
        };
        same.clamp(1, references.max(1))
    }

    /// Triplets of a batch.
    pub(super) fn triplets(&self) -> u64 {
        self.anchors
            .saturating_mul(self.positives)
            .saturating_mul(self.negatives_of_one())
    }

    /// Positive pairs, and negative pairs.
    pub(super) fn pairs(&self) -> [u64; 2] {
        [
            self.anchors.saturating_mul(self.positives),
            self.anchors.saturating_mul(self.negatives_of_one()),
        ]
    }

    fn negatives_of_one(&self) -> u64 {
        let same = self.positives + u64::from(!self.banked);
        self.references.saturating_sub(same)
    }

    /// Triplets that a miner keeps, of embeddings in no order: a share of all.
    pub(super) fn mined(&self, facts: &Facts) -> u64 {
        let kind = facts.argument("TripletMarginMiner", "type_of_triplets", 1);
        let (percent, kind) = match kind.map(Value::name) {
            Some("semihard") => (40, "semihard"),
            Some("hard") => (50, "hard"),
            Some("easy") => (15, "easy"),
            _ => (90, "all"),
        };
        if self.miner == "TripletMarginMiner" {
            let text = format!(
                "{percent} % of the triplets are assumed to be kept (type_of_triplets \"{kind}\"), as of untrained embeddings"
            );
            self.assume(text);
            return self.triplets() / 100 * percent;
        }
        self.triplets()
    }

    pub(super) fn assume(&self, what: String) {
        let mut assumed = self.assumed.borrow_mut();
        if !assumed.contains(&what) {
            assumed.push(what);
        }
    }

    pub(super) fn assumed(&self) -> Vec<String> {
        self.assumed.borrow().clone()
    }

    /// Tells if the text names a loss or a miner.
    pub(super) fn is_there(&self) -> bool {
        self.banked || !self.loss.is_empty() || !self.miner.is_empty()
    }

    /// Code of the text makes the loss, the miner or the memory.
    pub(super) fn is_called(&self, facts: &Facts) -> bool {
        let names = [
            &self.loss[..],
            &self.miner,
            "CrossBatchMemory",
            "AccuracyCalculator",
            "CustomKNN",
        ];
        let calls = facts.code.calls.iter();
        calls
            .filter(|call| !call.name.is_empty())
            .any(|call| names.contains(&&call.name[..]))
    }

    /// The miner gives triplets.
    pub(super) fn mines_triplets(&self) -> bool {
        [
            "TripletMarginMiner",
            "AngularMiner",
            "DistanceWeightedMiner",
        ]
        .contains(&self.miner.as_str())
    }

    /// The loss is one of triplets.
    pub(super) fn loses_triplets(&self) -> bool {
        ["TripletMarginLoss", "MarginLoss"].contains(&self.loss.as_str())
    }

    pub(super) fn has_head(&self) -> bool {
        is_head(&self.loss)
    }
}

/// Pixels of a batch, where each has a row: `[b, dim, h, w]` with labels of `[b, h, w]`.
fn pixels(facts: &Facts) -> Option<u64> {
    facts.shapes.iter().find_map(|shape| match shape[..] {
        [b, _, h, w] if facts.shapes.contains(&vec![b, h, w]) => {
            Some(b.saturating_mul(h).saturating_mul(w))
        }
        _ => None,
    })
}

/// The class that is meant: `given`, or the last one that the code calls, or that the text names.
fn known(given: &str, facts: &Facts, classes: &[&str]) -> Option<String> {
    if classes.contains(&given) {
        return Some(given.to_owned());
    }
    let called = facts.code.calls.iter().rev().map(|call| call.name.as_str());
    let called = called.into_iter().find(|name| classes.contains(name));
    let spoken = || {
        classes
            .iter()
            .find(|class| facts.words.contains(&class.to_lowercase()))
            .copied()
    };
    let framed = || {
        classes.iter().find(|class| {
            let file = snake(class);
            facts.lower.contains(&format!("{file}.py"))
        })
    };
    called
        .or_else(spoken)
        .or_else(|| framed().copied())
        .map(str::to_owned)
}

/// PML's file of a class: `NTXentLoss` is in `ntxent_loss`, `TripletMarginMiner` in `triplet_margin_miner`.
fn snake(class: &str) -> String {
    let mut name = String::new();
    let chars: Vec<char> = class.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let after_lower = at > 0 && chars[at - 1].is_lowercase();
        if c.is_uppercase() && after_lower {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}
