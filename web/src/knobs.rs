//! The knobs: which settings the page shows, what they are called in PML, and what they do.
//!
//! Miners and what they keep are listed by the core. A setting that the chosen miner does not have is not shown.

use nearfar::{Distance, Miner, Strategy, TypeOfTriplets};

/// How a setting is entered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    /// A number; the step of its arrows.
    Number(&'static str),
    /// One of several, by value and text.
    Choice(&'static [(&'static str, &'static str)]),
    /// Widths with commas.
    Widths,
    /// Bytes, shown in MiB.
    Mebibytes,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Knob {
    /// Its path in the settings.
    pub(crate) key: &'static str,
    /// What the page calls it.
    pub(crate) label: &'static str,
    /// Its name in pytorch-metric-learning or torch.
    pub(crate) pml: &'static str,
    /// What it does, in a sentence or two.
    pub(crate) help: &'static str,
    /// How it is entered.
    pub(crate) entry: Entry,
}

/// A setting that is on or off.
const OFF_ON: [(&str, &str); 2] = [("false", "off"), ("true", "on")];

/// Settings that show by themselves: what a newcomer would turn.
pub(crate) const MAIN: [Knob; 13] = [
    Knob {
        key: "memory_size",
        label: "Memory rows",
        pml: "CrossBatchMemory(memory_size)",
        help: "How many of the last embedded rows a batch is compared with. 0 is none: the batch is compared with itself.",
        entry: Entry::Number("64"),
    },
    Knob {
        key: "batch_size",
        label: "Batch rows",
        pml: "DataLoader(batch_size)",
        help: "Rows of one step: the anchors of its triplets.",
        entry: Entry::Number("8"),
    },
    Knob {
        key: "miner.name",
        label: "Miner",
        pml: "CrossBatchMemory(miner)",
        help: "Chooses the triplets that the loss sees.",
        entry: Entry::Choice(&Miner::ALL),
    },
    Knob {
        key: "miner.type_of_triplets",
        label: "Triplets",
        pml: "TripletMarginMiner(type_of_triplets)",
        help: "Which triplets, by how much nearer the positive is than the negative. Semihard: nearer, but by less than the margin. Hard: not nearer.",
        entry: Entry::Choice(&TypeOfTriplets::ALL),
    },
    Knob {
        key: "miner.margin",
        label: "Miner margin",
        pml: "TripletMarginMiner(margin)",
        help: "The upper end of the miner's band, a difference of cosines or distances; inclusive.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.pos_strategy",
        label: "Positive",
        pml: "BatchEasyHardMiner(pos_strategy)",
        help: "Which positive of each anchor. Easy: the nearest. Hard: the farthest. Semihard: the farthest that is nearer than the negative.",
        entry: Entry::Choice(&Strategy::ALL),
    },
    Knob {
        key: "miner.neg_strategy",
        label: "Negative",
        pml: "BatchEasyHardMiner(neg_strategy)",
        help: "Which negative of each anchor. Easy: the farthest. Hard: the nearest. Semihard: the nearest that is farther than the positive.",
        entry: Entry::Choice(&Strategy::ALL),
    },
    Knob {
        key: "miner.epsilon",
        label: "Epsilon",
        pml: "MultiSimilarityMiner(epsilon)",
        help: "Positives and negatives count that come this close to passing each other, a difference of cosines.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.pos_margin",
        label: "Positive margin",
        pml: "PairMarginMiner(pos_margin)",
        help: "Positives with a similarity below it count. PML's own default, 0.2, is meant for distances.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.neg_margin",
        label: "Negative margin",
        pml: "PairMarginMiner(neg_margin)",
        help: "Negatives with a similarity above it count. PML's own default, 0.8, is meant for distances.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "loss.margin",
        label: "Loss margin",
        pml: "TripletMarginLoss(margin)",
        help: "A positive has to be nearer than a negative by this much; a triplet short of it has a loss. PML's own default is 0.05.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "optimizer.lr",
        label: "Learning rate",
        pml: "torch.optim.Adam(lr)",
        help: "How far the weights move in a step.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "steps",
        label: "Steps",
        pml: "a loop of your own",
        help: "Batches until the test side is scored, once.",
        entry: Entry::Number("20"),
    },
];

/// The rest.
pub(crate) const MORE: [Knob; 12] = [
    Knob {
        key: "loss.swap",
        label: "Swap",
        pml: "TripletMarginLoss(swap)",
        help: "A positive that is nearer to the negative than the anchor is stands in for it.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "loss.smooth_loss",
        label: "Smooth loss",
        pml: "TripletMarginLoss(smooth_loss)",
        help: "log(1 + exp(x)) in place of max(0, x): every mined triplet has a loss.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "hidden_layers",
        label: "Hidden layers",
        pml: "the trunk",
        help: "Widths of the layers before the embedding, none to four, with commas. None is a linear head.",
        entry: Entry::Widths,
    },
    Knob {
        key: "embedding_size",
        label: "Embedding size",
        pml: "CrossBatchMemory(embedding_size)",
        help: "Dimensions of an embedding. With 2 the map shows the exact circle.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "distance",
        label: "Distance",
        pml: "CosineSimilarity, LpDistance",
        help: "What margins are differences of: cosines, or distances of rows over their length. L2 is PML's default for triplets.",
        entry: Entry::Choice(&Distance::ALL),
    },
    Knob {
        key: "m_per_class",
        label: "Rows per class",
        pml: "MPerClassSampler(m)",
        help: "Rows of each class in a batch; 0 draws plain shuffled batches.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "memory_start_step",
        label: "Memory from step",
        pml: "not in PML",
        help: "Until this step nothing is stored, and the loss sees the batch alone.",
        entry: Entry::Number("10"),
    },
    Knob {
        key: "split",
        label: "Split",
        pml: "your own split",
        help: "By class keeps whole classes for validation and test: they are never trained on. Random keeps rows.",
        entry: Entry::Choice(&[
            ("random", "random rows"),
            ("by-class", "by class"),
            ("by-class-shuffled", "by class, shuffled"),
        ]),
    },
    Knob {
        key: "test_fraction",
        label: "Test part",
        pml: "your own split",
        help: "The part of rows or classes that is scored once, at the end.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "evaluate_every",
        label: "Score every",
        pml: "a tester's interval",
        help: "Steps from one scoring of the validation side to the next.",
        entry: Entry::Number("5"),
    },
    Knob {
        key: "seed",
        label: "Seed",
        pml: "torch.manual_seed",
        help: "Seeds the sample, the split, the weights, the batches and the queries: the same seed gives the same run.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "budget_bytes",
        label: "Budget, MiB",
        pml: "not in PML",
        help: "The run stays within this much device memory; what cannot fit is refused before it starts, with the numbers.",
        entry: Entry::Mebibytes,
    },
];
