//! Reasons and remedies of each cause: why its tensor is that large, and what to change in the person's own code.

use super::calls::Value;
use super::cause::Cause;
use super::facts::Facts;
use super::number::grouped;
use super::setup::Setup;
use super::words::{self, Words};

/// Why the tensor is that large.
pub(super) fn why(cause: Cause, facts: &Facts, setup: &Setup) -> String {
    match cause {
        Cause::Triplets if facts.says(&["int_max"]) => words::WHY_INT_MAX.to_owned(),
        Cause::Triplets if setup.miner == "AngularMiner" => words::WHY_ANGULAR_MINER.to_owned(),
        Cause::Ranking => why_ranking(facts),
        _ => words_of(cause, setup).why.to_owned(),
    }
}

fn why_ranking(facts: &Facts) -> String {
    let k = facts.argument("AccuracyCalculator", "k", 4);
    let how_many = match k {
        Some(Value::Number(k)) => format!("k={k} neighbours of each query"),
        Some(Value::Text(text)) if text == "max_bin_count" => {
            "as many neighbours of each query as the largest class has rows".to_owned()
        }
        _ => "with k=None every reference is a neighbour of every query".to_owned(),
    };
    format!(
        "AccuracyCalculator ranks {how_many}: {}",
        words::RANKING.why
    )
}

/// Changes in the person's own code, best first.
pub(super) fn there(cause: Cause, facts: &Facts, setup: &Setup) -> Vec<String> {
    let texts = match cause {
        Cause::Triplets if setup.banked => return there_banked(setup),
        Cause::Distances if facts.says(&["customknn"]) => words::THERE_CUSTOM_KNN,
        _ => words_of(cause, setup).there,
    };
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Changes where the triplets are those of a memory.
fn there_banked(setup: &Setup) -> Vec<String> {
    vec![
        format!(
            "Lower memory_size: below {} the cube stays under 2^31 cells at a batch of {}.",
            grouped((i32::MAX as u64 / setup.anchors.max(1)).isqrt()),
            grouped(setup.anchors)
        ),
        "Or use a loss of pairs in CrossBatchMemory (ContrastiveLoss, MultiSimilarityLoss) with a miner that lists no triplets \
         (MultiSimilarityMiner, BatchHardMiner)."
            .to_owned(),
        "Update PML to 2.5 or later, where INT_MAX is no limit; its list of triplets still is.".to_owned(),
    ]
}

fn words_of(cause: Cause, setup: &Setup) -> &'static Words {
    match cause {
        Cause::Triplets => &words::TRIPLETS,
        Cause::Joined => &words::JOINED,
        Cause::PairsByPairs if setup.mines_triplets() => &words::PAIRS_BY_PAIRS_OF_TRIPLETS,
        Cause::PairsByPairs => &words::PAIRS_BY_PAIRS,
        Cause::Angles if setup.mines_triplets() => &words::ANGLES_OF_TRIPLETS,
        Cause::Angles => &words::ANGLES,
        Cause::Pairs => &words::PAIRS,
        Cause::OwnCopies => &words::OWN_COPIES,
        Cause::BatchCube => &words::BATCH_CUBE,
        Cause::Differences => &words::DIFFERENCES,
        Cause::Ranking => &words::RANKING,
        Cause::Distances => &words::DISTANCES,
        Cause::FaissScratch => &words::FAISS_SCRATCH,
        Cause::FaissIndex => &words::FAISS_INDEX,
        Cause::Embeddings => &words::EMBEDDINGS,
        Cause::Gathered => &words::GATHERED,
        Cause::OneCard => &words::ONE_CARD,
        Cause::Head => &words::HEAD,
        Cause::ClassPairs => &words::CLASS_PAIRS,
        Cause::Moments => &words::MOMENTS,
        Cause::Bank => &words::BANK,
        Cause::KeptTuples => &words::KEPT_TUPLES,
        Cause::KeptGraph => &words::KEPT_GRAPH,
        Cause::Activations => &words::ACTIVATIONS,
        Cause::Validation => &words::VALIDATION,
        Cause::Fragments => &words::FRAGMENTS,
        Cause::OtherProgram => &words::OTHER_PROGRAM,
        Cause::Host => &words::HOST,
    }
}
