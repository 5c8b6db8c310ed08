//! The knobs: the settings that the page shows, with their names in PML and a help on each.
//!
//! Miners, what they keep, losses, samplers, optimizers and schedules are listed by the core. A setting that the chosen one of them
//! does not have is not shown.

mod learning;

use nearfar::kernels::stored::Precision;
use nearfar::{Activation, Distance, Loss, Miner, Recipe, Sampler, Strategy, TypeOfTriplets};

pub(crate) use learning::LEARNING;

/// Control of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    /// A number, with the step of its arrow keys.
    Number(&'static str),
    /// A number of any size, with some values for it: ascending, each several times the one before. The arrow keys go from one to
    /// the next.
    Scale(&'static [&'static str]),
    /// One of several values, each with its text.
    Choice(&'static [(&'static str, &'static str)]),
    /// Widths of layers, separated by commas.
    Widths,
    /// Numbers, separated by commas.
    Numbers,
    /// Bytes, shown in MiB.
    Mebibytes,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Knob {
    /// Path in the settings.
    pub(crate) key: &'static str,
    /// Name on the page.
    pub(crate) label: &'static str,
    /// Name in pytorch-metric-learning, torch or scikit-learn; empty if it has none.
    pub(crate) pml: &'static str,
    /// Help on what the setting does, in a sentence or two.
    pub(crate) help: &'static str,
    /// Control by which it is entered.
    pub(crate) entry: Entry,
}

/// Choices of a setting that is on or off.
const OFF_ON: [(&str, &str); 2] = [("false", "off"), ("true", "on")];

/// Knobs that are always in sight: what a newcomer would turn.
pub(crate) const MAIN: [Knob; 17] = [
    Knob {
        key: "memory_size",
        label: "Memory rows",
        pml: "CrossBatchMemory(memory_size)",
        help: "Compare each batch with the last N rows that were embedded, not just with itself (cross-batch memory). 0 is no memory. Worth it where classes are many and small: of 650 classes 1024 rows raised precision@1 from 0.41 to 0.74 with batches of 32, from 0.75 to 0.98 with 128, for 0.3 MiB; 16384 rows brought 0.03 more at most, for 4 to 6 MiB. Of ten classes they changed nothing. With several rows of a class in a batch, centre the gradient too.",
        entry: Entry::Scale(&["0", "64", "256", "1024", "4096", "16384", "65536"]),
    },
    Knob {
        key: "batch_size",
        label: "Batch rows",
        pml: "DataLoader(batch_size)",
        help: "Rows of one step. Each is an anchor once: the row that the others are compared with. With many small classes a larger batch has more pairs: of 650 classes 128 rows instead of 32 raised precision@1 from 0.41 to 0.75 without a memory, from 0.74 to 0.98 with 1024 rows; 512 reached 0.97 without one. Of ten classes 32 rows did as well. A step of twice the rows takes about twice the time.",
        entry: Entry::Scale(&["8", "16", "32", "64", "128", "256", "512"]),
    },
    Knob {
        key: "miner.name",
        label: "Miner",
        pml: "CrossBatchMemory(miner)",
        help: "Picks the triplets that are worth learning from. The loss sees only those.",
        entry: Entry::Choice(&Miner::ALL),
    },
    Knob {
        key: "miner.type_of_triplets",
        label: "Triplets",
        pml: "TripletMarginMiner(type_of_triplets)",
        help: "Which triplets are kept. Semi-hard: the positive is nearer than the negative, but by less than the margin. Hard: the negative is at least as near. Easy: the margin is met already.",
        entry: Entry::Choice(&TypeOfTriplets::ALL),
    },
    Knob {
        key: "miner.margin",
        label: "Miner margin",
        pml: "TripletMarginMiner(margin)",
        help: "Where semi-hard ends: a positive that is nearer than the negative by more than this makes an easy triplet. A difference of cosine similarities, or of distances with L2.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.pos_strategy",
        label: "Positive",
        pml: "BatchEasyHardMiner(pos_strategy)",
        help: "Which positive is taken for each anchor. Easy: the nearest. Hard: the farthest. Semi-hard: the farthest that is nearer than the negative.",
        entry: Entry::Choice(&Strategy::ALL),
    },
    Knob {
        key: "miner.neg_strategy",
        label: "Negative",
        pml: "BatchEasyHardMiner(neg_strategy)",
        help: "Which negative is taken for each anchor. Easy: the farthest. Hard: the nearest. Semi-hard: the nearest that is farther than the positive.",
        entry: Entry::Choice(&Strategy::ALL),
    },
    Knob {
        key: "miner.epsilon",
        label: "Epsilon",
        pml: "MultiSimilarityMiner(epsilon)",
        help: "Keeps pairs whose similarity is within this of the hardest pair of the other kind. A difference of cosine similarities.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.pos_margin",
        label: "Positive margin",
        pml: "PairMarginMiner(pos_margin)",
        help: "Keeps positives whose similarity is below this. PML's own default, 0.2, is meant for distances.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.neg_margin",
        label: "Negative margin",
        pml: "PairMarginMiner(neg_margin)",
        help: "Keeps negatives whose similarity is above this. PML's own default, 0.8, is meant for distances.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "miner.cutoff",
        label: "Least distance",
        pml: "DistanceWeightedMiner(cutoff)",
        help: "Negatives that are nearer count as this far when they are drawn: the far ones weigh little, the nearest would weigh most. A distance of unit rows, at most 2.",
        entry: Entry::Number("0.1"),
    },
    Knob {
        key: "miner.nonzero_loss_cutoff",
        label: "Farthest negative",
        pml: "DistanceWeightedMiner(nonzero_loss_cutoff)",
        help: "Negatives at this distance or farther are never drawn. Rows that have nothing to do with each other are 1.41 apart.",
        entry: Entry::Number("0.1"),
    },
    Knob {
        key: "standardize",
        label: "Scale columns",
        pml: "sklearn.preprocessing.StandardScaler",
        help: "Centres each column and divides it by its spread, so that one in large units does not drown the others. Auto does it where the columns need it, and says so.",
        entry: Entry::Choice(&[("auto", "auto"), ("true", "on"), ("false", "off")]),
    },
    Knob {
        key: "loss.name",
        label: "Loss",
        pml: "TripletMarginLoss, ContrastiveLoss, ..",
        help: "The number that training makes small. Triplet margin compares a positive with a negative; the losses with proxies, from proxy NCA on, compare each row with learned proxies of the classes and use neither miner nor memory; the others look at pairs, or at all pairs of an anchor at once.",
        entry: Entry::Choice(&Loss::ALL),
    },
    Knob {
        key: "loss.margin",
        label: "Loss margin",
        pml: "TripletMarginLoss(margin), ArcFaceLoss(margin), ..",
        help: "By how much a positive should be nearer than a negative, a pair on its side of the boundary, or a row nearer to its own proxy than to others; in degrees with ArcFace. What falls short of it adds to the loss. PML's own default for triplets is 0.05.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "optimizer.lr",
        label: "Learning rate",
        pml: "torch.optim.Adam(lr), AdamW(lr), SGD(lr)",
        help: "How far the weights move in one step. Too high, and training jumps about; too low, and it crawls.",
        entry: Entry::Scale(&["0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1"]),
    },
    Knob {
        key: "steps",
        label: "Steps",
        pml: "",
        help: "Batches to train on. After the last one the test rows are scored, once.",
        entry: Entry::Scale(&["50", "100", "200", "400", "800", "1600", "3200"]),
    },
];

/// All other knobs but those of [`LEARNING`]. Both fold away.
pub(crate) const MORE: [Knob; 50] = [
    Knob {
        key: "loss.pos_margin",
        label: "Loss: positives",
        pml: "ContrastiveLoss(pos_margin)",
        help: "The similarity that a positive should reach. With L2, the distance that it may have.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "loss.neg_margin",
        label: "Loss: negatives",
        pml: "ContrastiveLoss(neg_margin)",
        help: "The similarity that a negative may have. With L2, the distance that it should reach.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "loss.alpha",
        label: "Loss: alpha",
        pml: "MultiSimilarityLoss(alpha), ProxyAnchorLoss(alpha)",
        help: "Weight in the exponent, of the positives alone in multi-similarity. The larger it is, the more the worst pair counts alone.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "loss.beta",
        label: "Loss: beta",
        pml: "MultiSimilarityLoss(beta), MarginLoss(beta)",
        help: "Multi-similarity: weight of the negatives in the exponent; the larger it is, the more the nearest negative counts alone. Margin: the boundary between positives and negatives.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.learn_beta",
        label: "Learn beta",
        pml: "MarginLoss(learn_beta)",
        help: "Learns the boundary between positives and negatives with the head. It starts at beta.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "loss.beta_lr",
        label: "Beta rate",
        pml: "torch.optim, a group for the loss",
        help: "Learning rate of the boundary, where it is learned.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.nu",
        label: "Nu",
        pml: "MarginLoss(nu)",
        help: "Weight of the boundary itself in the loss, where it is learned: above 0 it is pulled down.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.base",
        label: "Loss: base",
        pml: "MultiSimilarityLoss(base)",
        help: "A similarity between those of positives and those of negatives. With L2, a distance.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "loss.temperature",
        label: "Temperature",
        pml: "NTXentLoss(temperature), SupConLoss(temperature), ..",
        help: "Similarities are divided by it. The smaller it is, the more the nearest pairs count alone.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.m",
        label: "Loss: m",
        pml: "CircleLoss(m)",
        help: "How much is forgiven: a positive may lie this far below a similarity of 1, a negative this far above 0.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "loss.gamma",
        label: "Loss: gamma",
        pml: "CircleLoss(gamma), SoftTripleLoss(gamma)",
        help: "Circle: scale of the exponents; the larger it is, the more the worst pairs count alone. SoftTriple: the smaller it is, the more the nearest proxy of a class counts alone.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.scale",
        label: "Loss: scale",
        pml: "ArcFaceLoss(scale), CosFaceLoss(scale)",
        help: "Similarities are multiplied by it. The larger it is, the more the nearest proxies count alone.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.softmax_scale",
        label: "Loss: scale",
        pml: "NCALoss(softmax_scale), ProxyNCALoss(softmax_scale)",
        help: "Similarities are multiplied by it. The larger it is, the more the nearest rows or proxies count alone.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.la",
        label: "Loss: scale",
        pml: "SoftTripleLoss(la)",
        help: "Similarities with the classes are multiplied by it. The larger it is, the more the nearest classes count alone.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.sub_centers",
        label: "Proxies per class",
        pml: "SubCenterArcFaceLoss(sub_centers)",
        help: "Proxies of each class. A row is compared with the nearest of them.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "loss.centers_per_class",
        label: "Proxies per class",
        pml: "SoftTripleLoss(centers_per_class)",
        help: "Proxies of each class. The nearer one is to a row, the more it counts.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "loss.proxy_lr",
        label: "Proxy rate",
        pml: "torch.optim, a group for the loss",
        help: "Learning rate of the proxies. They start in random directions and have to move further than the weights.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "loss.swap",
        label: "Swap",
        pml: "TripletMarginLoss(swap)",
        help: "Where the positive is nearer to the negative than the anchor is, it takes the anchor's place.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "loss.smooth_loss",
        label: "Smooth loss",
        pml: "TripletMarginLoss(smooth_loss)",
        help: "Uses log(1 + exp(x)) in place of max(0, x), so that every mined triplet adds to the loss, if only a little.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "hidden_layers",
        label: "Hidden layers",
        pml: "",
        help: "Widths of the layers before the embedding: up to six numbers with commas. With none the head is a linear map.",
        entry: Entry::Widths,
    },
    Knob {
        key: "layers.norm",
        label: "Norm",
        pml: "torch.nn.LayerNorm, BatchNorm1d",
        help: "Brings the outputs of each hidden layer to mean 0 and standard deviation 1 before the activation: within each row, or within each batch. A batch norm goes by running means in scores and saved heads.",
        entry: Entry::Choice(&[
            ("none", "none"),
            ("layer-norm", "layer norm"),
            ("batch-norm", "batch norm"),
        ]),
    },
    Knob {
        key: "layers.activation",
        label: "Activation",
        pml: "torch.nn.ReLU, torch.nn.GELU",
        help: "The function after each hidden layer. ReLU cuts off what is below 0, GELU bends it smoothly.",
        entry: Entry::Choice(&Activation::ALL),
    },
    Knob {
        key: "layers.skip",
        label: "Skip",
        pml: "torch.nn.Linear(bias=False)",
        help: "Adds a linear map of the row to the output, beside hidden layers. First weights can then be those of the linear map (LDA).",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "dropout",
        label: "Dropout",
        pml: "torch.nn.Dropout(p)",
        help: "The chance of an output of a hidden layer to be left out in a step, so that a head with few rows does not learn them by heart. 0 leaves none out; scores and saved heads always use all.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "initial_weights",
        label: "First weights",
        pml: "",
        help: "Where the weights start. A head without hidden layers, or with a skip, can start from the linear map (LDA) that it is compared with.",
        entry: Entry::Choice(&[("random", "random"), ("lda", "linear map")]),
    },
    Knob {
        key: "embedding_size",
        label: "Embedding size",
        pml: "CrossBatchMemory(embedding_size)",
        help: "How many numbers an embedding has. With 2 the map shows it exactly, as a circle.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "matryoshka.dims",
        label: "Matryoshka sizes",
        pml: "sentence_transformers MatryoshkaLoss(matryoshka_dims)",
        help: "Trains the first numbers of an embedding as embeddings of their own: sizes with commas, the embedding size the first of them. Empty for whole embeddings alone.",
        entry: Entry::Widths,
    },
    Knob {
        key: "distance",
        label: "Distance",
        pml: "CosineSimilarity, LpDistance",
        help: "What margins are differences of: cosine similarities, or distances (L2) between embeddings of length 1. PML's default for triplets is L2.",
        entry: Entry::Choice(&Distance::ALL),
    },
    Knob {
        key: "sampler.name",
        label: "Sampler",
        pml: "MPerClassSampler, HierarchicalSampler",
        help: "How the rows of a batch are chosen. Shuffled: every row once an epoch. M rows per class: each row has a positive in its batch. Equally often: small classes count as much as large ones. Super-classes: the classes of a batch are alike.",
        entry: Entry::Choice(&Sampler::ALL),
    },
    Knob {
        key: "sampler.m",
        label: "Rows per class",
        pml: "MPerClassSampler(m)",
        help: "Rows of each class in a batch. Has to divide the rows of the batch.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "sampler.outer_label",
        label: "Super-class",
        pml: "HierarchicalSampler(outer_label)",
        help: "The text column of your table that says the super-class of each row, as a genus does of a species.",
        entry: Entry::Choice(&[("", "choose a column")]),
    },
    Knob {
        key: "sampler.samples_per_class",
        label: "Samples per class",
        pml: "HierarchicalSampler(samples_per_class)",
        help: "Rows of each class in a batch. Has to divide each super-class's share of the batch.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "sampler.super_classes_per_batch",
        label: "Super-classes per batch",
        pml: "HierarchicalSampler(super_classes_per_batch)",
        help: "How many super-classes a batch has. Each gives the same share of its rows.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "sampler.batches_per_super_tuple",
        label: "Batches per tuple",
        pml: "HierarchicalSampler(batches_per_super_tuple)",
        help: "How many batches of an epoch have the same super-classes.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "miner_weights",
        label: "Miner weighs rows",
        pml: "loss_func(embeddings, labels, indices_tuple)",
        help: "For NCA and losses with proxies, which look at every row: each row counts as often as the miner finds it in the batch. Off, the miner has no part in them.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "miner_distance",
        label: "Miner's distance",
        pml: "MultiSimilarityMiner(distance)",
        help: "The distance that the miner compares rows by, where it differs from the loss's. Only for miners that keep pairs. PML's miners use cosine, its triplet loss L2.",
        entry: Entry::Choice(&[
            ("null", "as the loss"),
            ("cosine", "cosine similarity"),
            ("l2", "L2 distance"),
        ]),
    },
    Knob {
        key: "memory_start_step",
        label: "Memory from step",
        pml: "",
        help: "Leaves the memory off until this step: the first embeddings soon go stale. 0 uses it from the start.",
        entry: Entry::Number("10"),
    },
    Knob {
        key: "memory_precision",
        label: "Memory's numbers",
        pml: "",
        help: "The precision in which the memory holds its rows. f16 halves its bytes, and rounds each number by at most 1/2048 of it; everything else is computed in f32.",
        entry: Entry::Choice(&Precision::ALL),
    },
    Knob {
        key: "center_gradient",
        label: "Centre the gradient",
        pml: "",
        help: "Subtracts the mean gradient of a batch from that of each row while a memory is in use. The mean moves all embeddings the same way, away from the stored ones, and separates no classes. Needed where a memory and several rows of a class in a batch come together.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "feature_precision",
        label: "Features' numbers",
        pml: "",
        help: "The precision in which the run holds the features, once scaled. f16 halves their bytes, and rounds each number by at most 1/2048 of it; scores of the raw rows are those of the rounded numbers. Numbers above 65504 are refused.",
        entry: Entry::Choice(&Precision::ALL),
    },
    Knob {
        key: "activation_precision",
        label: "Activations' numbers",
        pml: "",
        help: "The precision in which a step keeps the outputs of the hidden layers for its backward pass. f16 halves their bytes, and rounds each number by at most 1/2048 of it; sums, gradients and scores stay f32. A head without hidden layers keeps none.",
        entry: Entry::Choice(&Precision::ALL),
    },
    Knob {
        key: "split",
        label: "Split",
        pml: "",
        help: "Which rows are kept apart. Whole classes: the score is on classes that were never trained on. Random rows: rows of any class. The same part of each class: large and small classes are divided alike. Whole groups: all rows of a donor, say, are on one side.",
        entry: Entry::Choice(&[
            ("random", "random rows"),
            ("stratified", "the same part of each class"),
            ("by-class", "whole classes"),
            ("by-class-shuffled", "whole classes, in random order"),
            ("by-group", "whole groups"),
        ]),
    },
    Knob {
        key: "group",
        label: "Group",
        pml: "",
        help: "The column that says which rows belong together: of one donor, subject, camera or document. Rows of a group are then on one side of the split, and a row is searched among those of other groups: the score is that of new donors.",
        entry: Entry::Choice(&[("null", "none")]),
    },
    Knob {
        key: "test_fraction",
        label: "Test part",
        pml: "",
        help: "The part of the rows, or of the classes, that is kept for the test and scored once, at the end.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "evaluate_every",
        label: "Score every",
        pml: "",
        help: "Steps between two scores on the validation rows.",
        entry: Entry::Number("5"),
    },
    Knob {
        key: "early_stop.metric",
        label: "Keep the best by",
        pml: "",
        help: "The head is that of the step with the best such score on the validation rows. None: that of the last step, unless an earlier one did clearly better.",
        entry: Entry::Choice(&[
            ("none", "none"),
            ("precision_at_1", "precision@1"),
            ("r_precision", "R-precision"),
            ("mean_average_precision_at_r", "MAP@R"),
            ("mean_average_precision", "MAP"),
            ("mean_reciprocal_rank", "MRR"),
        ]),
    },
    Knob {
        key: "early_stop.patience",
        label: "Patience",
        pml: "",
        help: "Ends the run after this many scores in a row without a better one, where the best is kept. 0 never does.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "test_queries",
        label: "Test queries",
        pml: "",
        help: "How many test rows are scored at the end, drawn by the seed, each against all the others. 0 scores every row: exact, and slow where there are many.",
        entry: Entry::Number("1000"),
    },
    Knob {
        key: "seed",
        label: "Seed",
        pml: "torch.manual_seed",
        help: "Decides every random choice: the sample, the split, the first weights, the batches. The same seed gives the same run.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "budget_bytes",
        label: "Budget, MiB",
        pml: "",
        help: "The most device memory that a run may hold, in MiB. A run that needs more is refused before it starts, with the numbers.",
        entry: Entry::Mebibytes,
    },
];

/// All knobs.
pub(crate) fn all() -> impl Iterator<Item = &'static Knob> {
    MAIN.iter().chain(&MORE).chain(&LEARNING)
}

/// The knob of a setting.
fn knob(key: &str) -> Option<&'static Knob> {
    all().find(|knob| knob.key == key)
}

/// Name of a setting on the page; its path if it has no knob.
pub(crate) fn label(key: &str) -> &str {
    knob(key).map_or(key, |knob| knob.label)
}

/// Text of a setting's value on the page.
pub(crate) fn value<'a>(key: &str, value: &'a str) -> &'a str {
    let Some(Entry::Choice(choices)) = knob(key).map(|knob| knob.entry) else {
        return value;
    };
    let named = choices.iter().find(|(known, _)| *known == value);
    named.map_or(value, |(_, text)| text)
}

/// Name and value of a setting, as the page writes them.
pub(crate) fn said(key: &str, of: &str) -> String {
    format!("{} {}", label(key), value(key, of))
}

/// The name of an entry of a comparison in the page's words: `memory-triplet, memory_size=0` is "Triplets with a memory, Memory rows 0".
pub(crate) fn entry(name: &str) -> String {
    let parts = name.split(", ").map(|part| match part.split_once('=') {
        Some((key, value)) => said(key, value),
        None => {
            let recipe = Recipe::ALL.iter().find(|recipe| recipe.name == part);
            recipe.map_or(part, |recipe| recipe.title).to_owned()
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}
