//! [`Cause`]: the tensors that run out of memory in metric learning, and the signs of each in a traceback, a message or prose.

use super::facts::Facts;
use super::frames::Frame;
use super::number::{close, joined};

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

/// A sign of a cause.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sign {
    pub(super) cause: Cause,
    /// 0 to 100: 50 for a setting that may, 90 for the place where it failed.
    pub(super) weight: u32,
    /// The sign in words.
    pub(super) seen: String,
}

use Cause::*;

/// Files and functions (or parts of their names) where a tensor is made, the more special before the more general.
const PLACES: &[(&str, &str, Cause)] = &[
    ("loss_and_miner_utils", "get_all_triplets", Triplets),
    ("loss_and_miner_utils", "convert_to_triplets", Joined),
    ("loss_and_miner_utils", "self_comparisons", OwnCopies),
    ("loss_and_miner_utils", "pairs", Pairs),
    ("loss_and_miner_utils", "get_matches_and_diffs", Pairs),
    ("loss_and_miner_utils", "get_random_triplet", Pairs),
    ("ntxent_loss", "", PairsByPairs),
    ("lifted_structure_loss", "", PairsByPairs),
    ("angular_loss", "", Angles),
    ("angular_miner", "", Triplets),
    ("triplet_margin_miner", "", Triplets),
    ("triplet_margin_loss", "", Triplets),
    ("margin_loss", "compute_loss", Triplets),
    ("snr_distance", "", Differences),
    ("signal_to_noise", "", Differences),
    ("face_regularizer", "", ClassPairs),
    ("regularizer", "", ClassPairs),
    ("arcface", "", Head),
    ("cosface", "", Head),
    ("large_margin_softmax", "", Head),
    ("normalized_softmax", "", Head),
    ("proxy_", "", Head),
    ("soft_triple", "", Head),
    ("sphereface", "", Head),
    ("partial_fc", "", Head),
    ("accuracy_calculator", "cluster", FaissScratch),
    ("inference.py", "FaissKMeans", FaissScratch),
    ("inference.py", "try_gpu", FaissScratch),
    ("inference.py", "add_to_index", FaissScratch),
    ("inference.py", "convert_to_gpu_index", FaissScratch),
    ("inference.py", "get_matching_pairs", Distances),
    ("accuracy_calculator", "", Ranking),
    ("inference.py", "return_results", Ranking),
    ("inference.py", "mask_reshape", Ranking),
    ("base_tester", "get_all_embeddings", Embeddings),
    ("base_tester", "compute_all_embeddings", Embeddings),
    ("cross_batch_memory", "reset_queue", Bank),
    ("cross_batch_memory", "__init__", Bank),
    ("cross_batch_memory", "add_to_memory", Bank),
    ("contrastive_loss", "", Pairs),
    ("supcon_loss", "", Pairs),
    ("multi_similarity", "", Pairs),
    ("circle_loss", "", Pairs),
    ("generic_pair_loss", "", Pairs),
    ("batch_easy_hard_miner", "", Pairs),
    ("batch_hard_miner", "", Pairs),
    ("pair_margin_miner", "", Pairs),
    ("distance_weighted_miner", "", Pairs),
    ("nca_loss", "", Pairs),
    ("distributed", "gather", Gathered),
    ("distributed_c10d", "all_gather", Gathered),
    ("", "all_gather", Gathered),
    ("", "gather_features", Gathered),
    ("", "GatherLayer", Gathered),
    ("scatter_gather", "gather", OneCard),
    ("parallel/comm", "gather", OneCard),
    ("parallel/_functions", "", OneCard),
    ("data_parallel", "gather", OneCard),
    ("parallel/replicate", "", OneCard),
    ("optim/", "", Moments),
    ("BatchAllTripletLoss", "", BatchCube),
    ("batch_all_triplet", "", BatchCube),
    ("BatchSemiHardTripletLoss", "", BatchCube),
    ("batch_semi_hard", "", BatchCube),
    ("", "get_triplet_mask", BatchCube),
    ("", "batch_all_triplet_loss", BatchCube),
    ("swigfaiss", "", FaissScratch),
    ("faiss/", "", FaissScratch),
    ("", "re_ranking", Distances),
    ("", "rerank", Distances),
    ("", "jaccard_distance", Distances),
    ("", "cos_sim", Distances),
    ("", "dot_score", Distances),
    ("", "semantic_search", Distances),
    ("", "cosine_similarity", Distances),
    ("", "pairwise_dist", Distances),
    ("", "euclidean_dist", Distances),
    ("", "distmat", Distances),
    ("", "dist_mat", Distances),
    ("", "distance_matrix", Distances),
    ("", "similarity_matrix", Distances),
    ("", "compute_dist", Distances),
    ("", "cdist", Distances),
    ("", "get_clip_metrics", Distances),
    ("", "calc_retrieval", Distances),
    ("lp_distance", "", Distances),
    ("dot_product_similarity", "", Distances),
    ("cosine_similarity", "", Distances),
    ("base_distance", "", Distances),
    ("inference.py", "", Distances),
    ("utils/data/", "", Host),
    ("dataloader", "", Host),
];

/// Parts of a line of code under a frame.
const LINES: &[(&str, Cause)] = &[
    ("cdist(", Distances),
    ("cos_sim(", Distances),
    ("cosine_similarity(", Distances),
    ("pairwise_distances(", Distances),
    ("argsort(", Distances),
    ("all_gather", Gathered),
    ("index.search(", FaissScratch),
    ("index.add(", FaissIndex),
    ("index_cpu_to", FaissScratch),
    ("bruteforceknn", FaissScratch),
    ("optimizer.step(", Moments),
    ("unsqueeze(2) - ", BatchCube),
    ("unsqueeze(1) - ", Differences),
    ("[:, none] - ", Differences),
    ("[:, none, :] - ", Differences),
    ("torch.cat(", Embeddings),
    ("torch.stack(", Embeddings),
    (" @ ", Distances),
    (".mm(", Distances),
    ("matmul(", Distances),
    ("f.linear(", Distances),
    (".t())", Distances),
];

/// Files of a person's own loss.
const OWN_LOSS: &[&str] = &["loss", "criterion", "contrast", "infonce", "info_nce"];

/// Words for networks.
const NETWORK_WORDS: &[&str] = &[
    "bert",
    "roberta",
    "resnet",
    "resnet18",
    "resnet50",
    "resnet101",
    "vit",
    "transformer",
    "transformers",
    "efficientnet",
    "densenet",
    "inception",
    "backbone",
    "convnext",
    "swin",
    "dinov2",
    "mpnet",
    "e5",
    "lora",
    "sentencetransformer",
];

/// Files of networks.
const NETWORKS: &[&str] = &[
    "nn/modules/conv",
    "nn/modules/linear",
    "nn/modules/batchnorm",
    "nn/modules/activation",
    "nn/modules/normalization",
    "nn/modules/pooling",
    "nn/modules/dropout",
    "torchvision/models",
    "transformers/models",
    "transformers/activations",
    "timm/",
    "resnet",
    "densenet",
    "efficientnet",
    "inception",
    "vit",
    "bert",
    "encoder",
    "backbone",
    "nn/functional",
];

/// Names of functions and files that validate.
const VALIDATION: &[&str] = &["valid", "eval", "test", "tester", "predict", "infer"];

/// Phrases of prose and code, with a weight for each.
const PHRASES: &[(&[&str], Cause, u32)] = &[
    (&["get_all_triplets_indices"], Triplets, 91),
    (&["more than int_max"], Triplets, 86),
    (
        &[
            "temporarymemorybuffer",
            "stackdevicememory",
            "increase temp memory",
            "temporary memory",
        ],
        FaissScratch,
        95,
    ),
    (
        &[
            "type flatdata",
            "type ivflists",
            "type quantizer",
            "type other dev",
        ],
        FaissIndex,
        95,
    ),
    (
        &["ntxent_loss.py", "neg_pairs - max_val", "n_per_p"],
        PairsByPairs,
        88,
    ),
    (&["self_comparisons"], OwnCopies, 85),
    (&["ap_matmul_embeddings", "angular_loss.py"], Angles, 88),
    (&["convert_to_triplets"], Joined, 80),
    (&["accuracy_calculator.py", "get_accuracy"], Ranking, 62),
    (&["regularfaceregularizer"], ClassPairs, 62),
    (
        &[
            "re-ranking",
            "re_ranking",
            "reranking",
            "k_reciprocal",
            "jaccard",
        ],
        Distances,
        60,
    ),
    (
        &[
            "similarity matrix",
            "distance matrix",
            "distmat",
            "dist_mat",
            "pairwise_distances",
            "cosine_similarity(",
            "cos_sim(",
            "cdist(",
        ],
        Distances,
        60,
    ),
    (
        &[
            "recall@", "recall @", "gallery", "rank-n", "rank-1", "cmc", "map@",
        ],
        Distances,
        44,
    ),
    (&["cubic"], BatchCube, 60),
    (
        &[
            "batchalltripletloss",
            "batchsemihardtripletloss",
            "batch_all_triplet",
        ],
        BatchCube,
        75,
    ),
    (&["all_gather"], Gathered, 64),
    (&["exp_avg", "_multi_tensor_adam"], Moments, 80),
    (&["optimizer state", "adam state", "moments"], Moments, 60),
    (
        &["get_all_embeddings", "all_image_features", "all_embeddings"],
        Embeddings,
        45,
    ),
    (
        &[
            "append(indices_tuple",
            "append(miner",
            "append(hard_pairs",
            "append(triplets",
            "all_triplets.append",
            "mined.append",
            "tuples.append",
            "append(mined",
            "extend(zip(a",
        ],
        KeptTuples,
        78,
    ),
    (
        &[
            "total_loss += loss\n",
            "running_loss += loss\n",
            "epoch_loss += loss\n",
            "losses.append(loss)",
            "retain_graph=true",
            "loss_sum += loss\n",
        ],
        KeptGraph,
        74,
    ),
    (
        &[
            "slowly increas",
            "gradually increas",
            "keeps increasing",
            "keeps growing",
            "memory leak",
            "increases every",
            "increases with every",
            "grows every",
            "grows with each",
            "increases after each",
            "memory grows",
            "growing memory",
            "increase over time",
            "grows over time",
            "steadily",
            "creeps up",
        ],
        KeptGraph,
        66,
    ),
    (
        &[
            "dataloader worker",
            "shared memory",
            "bus error",
            "num_workers",
        ],
        Host,
        42,
    ),
    (&["dataloader worker (pid"], Host, 80),
    (
        &[
            "during validation",
            "in validation",
            "validation step",
            "validation loop",
            "at validation",
            "validation_step",
            "during eval",
            "during the eval",
            "at evaluation",
        ],
        Validation,
        35,
    ),
];

/// Signs of a text, strongest first.
pub(super) fn signs(facts: &Facts) -> Vec<Sign> {
    let mut signs = Vec::new();
    signs.extend(by_place(facts));
    for (phrases, cause, weight) in PHRASES {
        if let Some(phrase) = phrases.iter().find(|phrase| facts.lower.contains(**phrase)) {
            let seen = format!("the text has `{}`", phrase.trim());
            signs.push(Sign {
                cause: *cause,
                weight: *weight,
                seen,
            });
        }
    }
    if facts.frames.is_empty()
        && let Some((part, cause)) = LINES.iter().find(|(part, _)| facts.lower.contains(part))
    {
        let seen = format!("the text has `{}`", part.trim());
        signs.push(Sign {
            cause: *cause,
            weight: 46,
            seen,
        });
    }
    signs.extend(by_name(facts));
    signs.extend(of_shapes(facts));
    signs.extend(of_faiss(facts));
    signs.extend(of_the_card(facts));
    signs.extend(of_a_loop(facts));
    signs.extend(of_one_card(facts));
    signs
}

/// Names of functions and files in prose; at last the network, if nothing else is named.
fn by_name(facts: &Facts) -> Vec<Sign> {
    let named = PLACES.iter().find_map(|(file, function, cause)| {
        let parts = [function, file]
            .into_iter()
            .filter(|part| part.len() > 7 && part.contains('_'));
        let part = parts
            .into_iter()
            .find(|part| facts.lower.contains(&part.to_lowercase()))?;
        let seen = format!("the text has `{part}`");
        Some(Sign {
            cause: *cause,
            weight: 59,
            seen,
        })
    });
    let network = NETWORK_WORDS
        .iter()
        .find(|word| facts.words.contains(**word));
    let network = network.filter(|_| facts.message.is_there).map(|word| {
        let seen = format!("the text names a network ({word}) and no other tensor");
        Sign {
            cause: Activations,
            weight: 34,
            seen,
        }
    });
    named.into_iter().chain(network).collect()
}

/// The innermost frame that makes a tensor.
fn by_place(facts: &Facts) -> Option<Sign> {
    let mut network: Option<&Frame> = None;
    let is_backward = facts
        .frames
        .iter()
        .rev()
        .take(4)
        .any(|frame| frame.file.contains("autograd/"));
    for frame in facts.frames.iter().rev() {
        let (file, function) = (frame.file.to_lowercase(), frame.function.to_lowercase());
        let fits = |part: &str, of: &str| part.is_empty() || of.contains(&part.to_lowercase());
        let place = PLACES
            .iter()
            .find(|(of, name, _)| fits(of, &file) && fits(name, &function));
        // torch itself says what is done; who asks for it stands further out.
        let is_torch = file.contains("site-packages/torch/")
            || file.contains("/torch/nn/")
            || file.contains("torch/tensor");
        let code = frame.code.to_lowercase();
        let line = || {
            LINES
                .iter()
                .find(|(part, _)| code.contains(part))
                .map(|(_, cause)| *cause)
        };
        let found = match place {
            Some((_, _, cause)) => Some((*cause, 93)),
            None if is_torch => None,
            None => line().map(|cause| (cause, 90)).or_else(|| {
                let is_own = OWN_LOSS
                    .iter()
                    .any(|part| frame.name().to_lowercase().contains(part));
                is_own.then_some((Pairs, 86))
            }),
        };
        if let Some((cause, weight)) = found {
            // A network that fails inside of a loop over embeddings is the network.
            if network.is_some() && matches!(cause, Embeddings | Distances | Moments | Ranking) {
                break;
            }
            let seen = format!(
                "the traceback ends in `{}` of {}",
                name(frame),
                frame.name()
            );
            return Some(Sign {
                cause: inside(facts, cause),
                weight,
                seen,
            });
        }
        if network.is_none() && NETWORKS.iter().any(|part| file.contains(part)) && !is_backward {
            network = Some(frame);
        }
    }
    let validates = facts.frames.iter().any(|frame| {
        let function = frame.function.to_lowercase();
        VALIDATION
            .iter()
            .any(|part| function.contains(part) || frame.name().contains(part))
    });
    let frame = network?;
    let cause = if validates { Validation } else { Activations };
    let weight = 84;
    let seen = format!(
        "the traceback ends in `{}` of {}",
        name(frame),
        frame.name()
    );
    Some(Sign {
        cause,
        weight,
        seen,
    })
}

fn name(frame: &Frame) -> &str {
    match frame.function.as_str() {
        "" => "the code",
        function => function,
    }
}

/// A distance of a loss or of a miner is that one's; of a search it is a matrix of its own.
fn inside(facts: &Facts, cause: Cause) -> Cause {
    if cause == Distances {
        let outer = |parts: &[&str]| {
            facts
                .frames
                .iter()
                .any(|frame| parts.iter().any(|part| frame.file.contains(part)))
        };
        if outer(&["signal_to_noise", "snr_distance"]) {
            return Differences;
        }
        if outer(&["metric_learning/losses", "metric_learning/miners"])
            && !outer(&["inference.py", "accuracy_calculator"])
        {
            return Pairs;
        }
    }
    cause
}

/// Shapes: the one that was refused, the one whose bytes were asked for, and large matrices.
fn of_shapes(facts: &Facts) -> Vec<Sign> {
    let mut signs = Vec::new();
    if let Some(shape) = facts.refused_shape() {
        let seen = format!("the message names the shape {}", joined(&shape));
        signs.extend(of_shape(&shape).map(|cause| Sign {
            cause,
            weight: 92,
            seen,
        }));
    }
    for shape in &facts.shapes {
        let cells = shape
            .iter()
            .fold(1u64, |cells, size| cells.saturating_mul(*size));
        let asked = facts.message.asked.filter(|asked| *asked > 1 << 26);
        let is_asked = asked.is_some_and(|asked| {
            [4, 8, 2]
                .iter()
                .any(|each| close(cells.saturating_mul(*each), asked))
        });
        if let Some(cause) = of_shape(shape).filter(|_| is_asked) {
            let seen = format!("{} has the bytes that were asked for", joined(shape));
            signs.push(Sign {
                cause,
                weight: 94,
                seen,
            });
        } else if shape.len() == 2 && shape.iter().all(|size| *size >= 5000) {
            let seen = format!("the text has {}", joined(shape));
            signs.push(Sign {
                cause: Distances,
                weight: 60,
                seen,
            });
        }
    }
    signs
}

/// The tensor that has such a shape.
fn of_shape(shape: &[u64]) -> Option<Cause> {
    match *shape {
        [a, b] if a.min(b) >= 1000 && (a == b || b > 8192) => Some(Distances),
        [a, b] if a >= 1000 && b <= 8192 => Some(Embeddings),
        [a, b, c] if a == b && b == c && a >= 32 => Some(BatchCube),
        [a, b, c] if a >= 32 && b >= 32 && c <= 16_384 => Some(Differences),
        [_, _, _, _] => Some(Activations),
        _ => None,
    }
}

/// faiss: the size of its scratch is fixed, all else is the index.
fn of_faiss(facts: &Facts) -> Option<Sign> {
    let is_faiss =
        facts.says(&["faiss"]) && facts.says(&["cudamalloc", "allocmemory", "bad_alloc"]);
    let asked = facts.message.asked?;
    if !is_faiss || facts.says(&["type flatdata", "type ivflists", "temporarymemorybuffer"]) {
        return None;
    }
    let mib = asked >> 20;
    let (cause, seen) = match [256, 512, 1024, 1536].contains(&mib) && asked.is_multiple_of(1 << 20)
    {
        true => (
            FaissScratch,
            format!("{mib} MiB at once is faiss's scratch"),
        ),
        false => (
            FaissIndex,
            "faiss asked for memory that is not its scratch".to_owned(),
        ),
    };
    Some(Sign {
        cause,
        weight: 94,
        seen,
    })
}

/// What the card held.
fn of_the_card(facts: &Facts) -> Vec<Sign> {
    let message = &facts.message;
    let (Some(asked), Some(total)) = (message.asked, message.total) else {
        return Vec::new();
    };
    let mut signs = Vec::new();
    if let Some(unused) = message.unused
        && unused >= asked.saturating_add(asked / 5)
        && unused >= total / 12
        && asked < total / 2
    {
        let seen = "PyTorch holds more unused memory than was asked for".to_owned();
        signs.push(Sign {
            cause: Fragments,
            weight: 96,
            seen,
        });
    }
    if let (Some(free), Some(own)) = (message.free, message.reserved.max(message.process)) {
        let others = total.saturating_sub(free).saturating_sub(own);
        if others > total / 2 && asked < total {
            let seen = "most of the card is held by others than this program".to_owned();
            signs.push(Sign {
                cause: OtherProgram,
                weight: 91,
                seen,
            });
        }
    }
    signs
}

/// Embeddings that a loop keeps: with their graph, if nothing says otherwise.
fn of_a_loop(facts: &Facts) -> Option<Sign> {
    let keeps = [
        ".append(model(",
        ".append(emb",
        ".append(embeddings",
        ".append(output",
        ".append(feat",
        ".append(features",
        ".append(net(",
        ".append(z)",
        ".append(f)",
        ".append(encoder(",
        ".append(trunk(",
    ];
    let networks = [
        "model", "net", "encoder", "trunk", "embedder", "backbone", "forward", "network",
    ];
    let outputs = facts
        .code
        .names
        .iter()
        .filter(|(_, value, _)| networks.contains(&value.name()));
    let mut outputs = outputs.map(|(name, ..)| format!(".append({})", name.to_lowercase()));
    let output = outputs.find(|phrase| facts.lower.contains(phrase.as_str()));
    let keeps = keeps.iter().find(|phrase| facts.lower.contains(**phrase));
    let phrase = output.or_else(|| keeps.map(|phrase| (*phrase).to_owned()))?;
    let is_cut = facts.says(&[
        "no_grad",
        "inference_mode",
        ".detach()",
        ".item()",
        ".cpu()",
    ]);
    let seen = format!("the text has `{phrase}`");
    Some(match is_cut {
        true => Sign {
            cause: Embeddings,
            weight: 52,
            seen,
        },
        false => Sign {
            cause: KeptGraph,
            weight: 76,
            seen: format!("{seen} and no `torch.no_grad()`"),
        },
    })
}

/// `DataParallel`: the first card gathers.
fn of_one_card(facts: &Facts) -> Option<Sign> {
    if !facts.has(&["dataparallel"]) {
        return None;
    }
    let uneven = facts.says(&[
        "only gpu 0",
        "first gpu",
        "gpu 0 ",
        "gpu0",
        "cuda:0",
        "imbalance",
        "unbalance",
        "uneven",
        "other gpus",
        "others are",
        "one gpu",
        "device 0",
        "(gpu 0;",
        "other cards",
        "first card",
    ]);
    let weight = if uneven { 72 } else { 48 };
    Some(Sign {
        cause: OneCard,
        weight,
        seen: "the text has `DataParallel`".to_owned(),
    })
}
