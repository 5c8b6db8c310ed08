//! [`Cause`]: the tensors that run out of memory in metric learning.

/// A tensor, or a way of holding tensors, that runs out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Cause {
    /// All triplets: anchors x references x references.
    Triplets,
    /// Positive pairs x negative pairs, joined on their anchor.
    Joined,
    /// Positive pairs x negative pairs of NT-Xent and the lifted structure.
    PairsByPairs,
    /// Positive pairs x references of the angular loss.
    Angles,
    /// Matrices of anchors x references, and the indices of their pairs.
    Pairs,
    /// Kept pairs or triplets x batch, to leave out an anchor's own copy in the memory.
    OwnCopies,
    /// Rows x rows x dimensions.
    Differences,
    /// Batch x batch x batch.
    BatchCube,
    /// Rankings of an `AccuracyCalculator`.
    Ranking,
    /// A matrix of all distances or similarities.
    Distances,
    /// The scratch that faiss takes of a card.
    FaissScratch,
    /// The vectors of a faiss index.
    FaissIndex,
    /// Embeddings of all rows.
    Embeddings,
    /// What `all_gather` makes of a tensor on each card.
    Gathered,
    /// Outputs that `DataParallel` gathers on one card.
    OneCard,
    /// A head with a row for each class, and its logits.
    Head,
    /// Classes x classes of a regularizer.
    ClassPairs,
    /// Moments of the optimizer.
    Moments,
    /// The memory bank itself.
    Bank,
    /// Tuples of a miner that are kept.
    KeptTuples,
    /// Graphs of steps that are over.
    KeptGraph,
    /// The network's activations.
    Activations,
    /// The network in validation, beside what training holds.
    Validation,
    /// Memory that PyTorch holds in pieces.
    Fragments,
    /// Another program on the card.
    OtherProgram,
    /// Memory of the host: data, workers.
    Host,
}

impl Cause {
    /// The name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Triplets => "triplets",
            Self::Joined => "joined-pairs",
            Self::PairsByPairs => "pairs-by-pairs",
            Self::Angles => "angular-pairs",
            Self::Pairs => "pair-matrices",
            Self::OwnCopies => "own-copies",
            Self::BatchCube => "batch-cube",
            Self::Differences => "differences",
            Self::Ranking => "ranking",
            Self::Distances => "distance-matrix",
            Self::FaissScratch => "faiss-scratch",
            Self::FaissIndex => "faiss-index",
            Self::Embeddings => "embeddings",
            Self::Gathered => "all-gather",
            Self::OneCard => "data-parallel",
            Self::Head => "head",
            Self::ClassPairs => "class-pairs",
            Self::Moments => "optimizer-state",
            Self::Bank => "memory-bank",
            Self::KeptTuples => "kept-tuples",
            Self::KeptGraph => "kept-graph",
            Self::Activations => "activations",
            Self::Validation => "validation",
            Self::Fragments => "fragmentation",
            Self::OtherProgram => "other-program",
            Self::Host => "host-memory",
        }
    }
}
