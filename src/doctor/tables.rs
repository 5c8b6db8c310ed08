//! Signs of each cause in a traceback, a message, code or prose.

use super::cause::Cause::{self, *};

/// Files and functions (or parts of their names) where a tensor is made, the more special before the more general.
pub(super) const PLACES: &[(&str, &str, Cause)] = &[
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
pub(super) const LINES: &[(&str, Cause)] = &[
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
pub(super) const OWN_LOSS: &str = "loss criterion contrast infonce info_nce";

/// Words for networks.
pub(super) const NETWORK_WORDS: &str = "bert roberta resnet resnet18 resnet50 resnet101 vit transformer transformers efficientnet densenet \
     inception backbone convnext swin dinov2 mpnet e5 lora sentencetransformer";

/// Files of networks.
pub(super) const NETWORKS: &str = "nn/modules/conv nn/modules/linear nn/modules/batchnorm nn/modules/activation \
     nn/modules/normalization nn/modules/pooling nn/modules/dropout torchvision/models \
     transformers/models transformers/activations timm/ resnet densenet efficientnet inception vit bert \
     encoder backbone nn/functional";

/// Names of functions and files that validate.
pub(super) const VALIDATION: &str = "valid eval test tester predict infer";

/// Phrases of prose and code, `|` between them, with a weight for each.
pub(super) const PHRASES: &[(&str, Cause, u32)] = &[
    ("get_all_triplets_indices", Triplets, 91),
    ("more than int_max", Triplets, 86),
    (
        "temporarymemorybuffer|stackdevicememory|increase temp memory|temporary memory",
        FaissScratch,
        95,
    ),
    (
        "type flatdata|type ivflists|type quantizer|type other dev",
        FaissIndex,
        95,
    ),
    (
        "ntxent_loss.py|neg_pairs - max_val|n_per_p",
        PairsByPairs,
        88,
    ),
    ("self_comparisons", OwnCopies, 85),
    ("ap_matmul_embeddings|angular_loss.py", Angles, 88),
    ("convert_to_triplets", Joined, 80),
    ("accuracy_calculator.py|get_accuracy", Ranking, 62),
    ("regularfaceregularizer", ClassPairs, 62),
    (
        "re-ranking|re_ranking|reranking|k_reciprocal|jaccard",
        Distances,
        60,
    ),
    (
        "similarity matrix|distance matrix|distmat|dist_mat|pairwise_distances|cosine_similarity(|\
         cos_sim(|cdist(",
        Distances,
        60,
    ),
    (
        "recall@|recall @|gallery|rank-n|rank-1|cmc|map@",
        Distances,
        44,
    ),
    ("cubic", BatchCube, 60),
    (
        "batchalltripletloss|batchsemihardtripletloss|batch_all_triplet",
        BatchCube,
        75,
    ),
    ("all_gather", Gathered, 64),
    ("exp_avg|_multi_tensor_adam", Moments, 80),
    ("optimizer state|adam state|moments", Moments, 60),
    (
        "get_all_embeddings|all_image_features|all_embeddings",
        Embeddings,
        45,
    ),
    (
        "append(indices_tuple|append(miner|append(hard_pairs|append(triplets|all_triplets.append|\
         mined.append|tuples.append|append(mined|extend(zip(a",
        KeptTuples,
        78,
    ),
    (
        "total_loss += loss\n|running_loss += loss\n|epoch_loss += loss\n|losses.append(loss)|\
         retain_graph=true|loss_sum += loss\n",
        KeptGraph,
        74,
    ),
    (
        "slowly increas|gradually increas|keeps increasing|keeps growing|memory leak|increases every|\
         increases with every|grows every|grows with each|increases after each|memory grows|\
         growing memory|increase over time|grows over time|steadily|creeps up",
        KeptGraph,
        66,
    ),
    (
        "dataloader worker|shared memory|bus error|num_workers",
        Host,
        42,
    ),
    ("dataloader worker (pid", Host, 80),
    (
        "during validation|in validation|validation step|validation loop|at validation|validation_step|\
         during eval|during the eval|at evaluation",
        Validation,
        35,
    ),
];
