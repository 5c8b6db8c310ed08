//! Words of each cause: why its tensor is that large, and changes in the person's own code.

/// Words of a cause.
pub(super) struct Words {
    /// The reason.
    pub(super) why: &'static str,
    /// Changes, best first.
    pub(super) there: &'static [&'static str],
}

/// The reason of triplets where torch.nonzero refuses their mask.
pub(super) const WHY_INT_MAX: &str = "PML marks every (label, reference, reference) in one tensor, and torch.nonzero takes no tensor of more than 2^31 - 1 cells; \
     since PML 2.5 it lists the triplets in a loop instead, 24 bytes each, twice.";

/// The reason of triplets that `AngularMiner` lists.
pub(super) const WHY_ANGULAR_MINER: &str = "AngularMiner lists all triplets and copies the three embeddings of each, then their differences.";

pub(super) const TRIPLETS: Words = Words {
    why: "PML lists all triplets before the miner keeps any: a byte for each (label, reference, reference), and 24 bytes of indices a \
          triplet. The references are the whole memory in CrossBatchMemory.",
    there: &[
        "Use BatchHardMiner or BatchEasyHardMiner: one triplet an anchor, no list of all.",
        "Or lower the batch, or rows per class: triplets grow with its cube. TripletMarginLoss(triplets_per_anchor=100) draws some instead.",
    ],
};

pub(super) const JOINED: Words = Words {
    why: "A triplet loss that is given pairs, as CrossBatchMemory does without a miner, sets each positive pair beside each negative pair.",
    there: &[
        "Give CrossBatchMemory a miner of triplets that keeps few: miner=BatchHardMiner().",
        "Or take a loss of pairs, or lower memory_size.",
    ],
};

pub(super) const PAIRS_BY_PAIRS_OF_TRIPLETS: Words = Words {
    why: "The miner's triplets are taken as pairs, one positive and one negative for each triplet, and each is set beside each.",
    there: &[
        "Give this loss a miner of pairs (MultiSimilarityMiner, PairMarginMiner), or none.",
        "Or keep TripletMarginLoss with the miner of triplets.",
    ],
};

pub(super) const PAIRS_BY_PAIRS: Words = Words {
    why: "The loss sets each positive pair beside each negative pair of the batch, also those of other anchors.",
    there: &[
        "Use SupConLoss: the same kind of loss on matrices of batch x references.",
        "Or call the loss on 32 anchors at a time: loss(emb[i:j], labels[i:j], indices_tuple, ref_emb=emb, ref_labels=labels).",
        "Or let a miner keep fewer pairs.",
    ],
};

pub(super) const ANGLES_OF_TRIPLETS: Words = Words {
    why: "AngularLoss compares each pair with each reference, and the miner's tuple has a pair for every triplet, with repeats.",
    there: &[
        "Call AngularLoss without a miner of triplets, on fewer rows of a class.",
        "Or call it on 32 anchors at a time, with ref_emb and ref_labels.",
    ],
};

pub(super) const ANGLES: Words = Words {
    why: "AngularLoss compares each positive pair with each reference, forward and backward.",
    there: &[
        "Call AngularLoss without a miner of triplets, on fewer rows of a class.",
        "Or call it on 32 anchors at a time, with ref_emb and ref_labels.",
    ],
};

pub(super) const PAIRS: Words = Words {
    why: "Every anchor is compared with every reference in one matrix, and all pairs are listed by number, 16 bytes each.",
    there: &[
        "Lower the batch or memory_size: the bytes are their product.",
        "Or call the loss on part of the anchors at a time, with ref_emb and ref_labels, and backward() for each part.",
    ],
};

pub(super) const OWN_COPIES: Words = Words {
    why: "CrossBatchMemory stores the batch before the loss, so every anchor finds its own copy: to leave those out, PML sets each mined \
          pair or triplet beside each row of the batch.",
    there: &[
        "Let the miner keep fewer: MultiSimilarityMiner or BatchHardMiner in CrossBatchMemory.",
        "Or give CrossBatchMemory an enqueue_mask: then nothing is left out, and this tensor is not made.",
        "Or lower the batch: these bytes grow with its square.",
    ],
};

pub(super) const BATCH_CUBE: Words = Words {
    why: "The loss takes the margin of every (anchor, positive, negative) of the batch, and masks those that are none.",
    there: &[
        "Use a hard miner (BatchHardTripletLoss), which takes batch x batch.",
        "Or update sentence-transformers: since September 2026 it leaves the cube out. Or lower the batch.",
    ],
};

pub(super) const DIFFERENCES: Words = Words {
    why: "The distance is taken from the difference of every two rows, which has all their dimensions.",
    there: &[
        "Use torch.cdist(a, b), or (a*a).sum(1)[:, None] + (b*b).sum(1) - 2 * a @ b.T: rows x rows, without the dimensions.",
        "Or lower the batch.",
    ],
};

pub(super) const RANKING: Words = Words {
    // After the number of neighbours.
    why: "12 bytes each, and up to 63 while the metrics are taken (masks, cumulative sums, float64).",
    there: &[
        "AccuracyCalculator(k=\"max_bin_count\") gives the same MAP@R, R-precision and precision@1; k=1 is enough for precision@1 alone.",
        "Name what you need in include=(..): k-means for NMI and AMI is then left out.",
        "device=torch.device(\"cpu\") moves it off the card, not below these bytes.",
    ],
};

/// Changes where `CustomKNN` makes the matrix.
pub(super) const THERE_CUSTOM_KNN: &[&str] =
    &["CustomKNN(distance, batch_size=256) compares 256 queries at a time, with the same result."];

pub(super) const DISTANCES: Words = Words {
    why: "All queries are compared with all references at once, and the whole matrix is kept.",
    there: &[
        "Compare 1,024 queries at a time and keep topk(k) of each block: for i in range(0, n, 1024): (q[i:i+1024] @ r.T).topk(k).",
        "Metrics of the first k need no full order: topk in place of argsort. util.semantic_search does so in sentence-transformers.",
    ],
};

pub(super) const FAISS_SCRATCH: Words = Words {
    why: "faiss reserves its scratch with cudaMalloc, beside PyTorch: what PyTorch holds of the card, also what it caches, is not free for it.",
    there: &[
        "Call torch.cuda.empty_cache() before the search, and del what training no longer needs.",
        "Or res.setTempMemory(64 << 20), or res.noTempMemory(), of one StandardGpuResources that is made once and kept.",
        "Or search on the CPU: AccuracyCalculator(knn_func=FaissKNN(gpus=None)) with embeddings.cpu(); or CustomKNN(distance, batch_size=256).",
    ],
};

pub(super) const FAISS_INDEX: Words = Words {
    why: "A flat index holds all vectors in one buffer on the card; where it grows, the old buffer and a larger one stand there together.",
    there: &[
        "Add all vectors at once, or reserveMemory, so that the buffer does not grow by copies.",
        "Or keep it in half precision (useFloat16), in shards over the cards, as IVF,PQ, or on the CPU.",
    ],
};

pub(super) const EMBEDDINGS: Words = Words {
    why: "The embeddings of all rows are kept at once, and each torch.cat, normalize or cast makes another copy of them.",
    there: &[
        "Move each batch to the host at once: out.append(model(x).detach().cpu()) under torch.no_grad().",
        "Or write into one tensor that is made before: out = torch.empty(n, dim).",
    ],
};

pub(super) const GATHERED: Words = Words {
    why: "all_gather gives every card the rows of all cards, and torch.cat makes a second copy.",
    there: &[
        "Gather in training only; in validation let each card score its part of the queries, or gather on the CPU (gloo) batch by batch.",
        "With DistributedLossWrapper(loss, efficient=True) each card compares only its own rows with all.",
    ],
};

pub(super) const ONE_CARD: Words = Words {
    why: "DataParallel gathers the outputs of all cards on the first one, where the labels, the loss and the optimizer are too: that card is \
          full while the others wait.",
    there: &[
        "Use DistributedDataParallel, one process a card, and DistributedLossWrapper for the loss.",
        "Or compute the loss inside of the module, and return that alone.",
    ],
};

pub(super) const HEAD: Words = Words {
    why: "The head has a row of weights for each class, with a gradient of the same size, and a logit for every row of the batch and class.",
    there: &[
        "Learn fewer classes at a time (Partial FC draws some of them), or a smaller embedding_size.",
        "Or take a loss without a row for each class: MultiSimilarityLoss or SupConLoss with a miner.",
        "SGD with momentum keeps one copy of the weights less than Adam.",
    ],
};

pub(super) const CLASS_PAIRS: Words = Words {
    why: "The regularizer compares the weights of every two classes.",
    there: &["Leave weight_regularizer out, or regularize a random part of the classes."],
};

pub(super) const MOMENTS: Words = Words {
    why: "Adam keeps two moments for each weight, and makes them at the first optimizer.step(): beside weights and gradient, the head takes \
          four times its size from then on.",
    there: &[
        "Use SGD with momentum for the head: one copy in place of two; or an 8-bit Adam.",
        "Or a smaller head: fewer classes (Partial FC) or a smaller embedding_size.",
    ],
};

pub(super) const BANK: Words = Words {
    why: "The memory keeps a row for each place, full or not.",
    there: &["Lower memory_size, or embedding_size."],
};

pub(super) const KEPT_TUPLES: Words = Words {
    why: "The miner's tuples of all batches are kept on the card, 24 bytes a triplet.",
    there: &[
        "Use each tuple in its step, and keep counts: n += len(a). If you need them, .cpu() and int32 first.",
    ],
};

pub(super) const KEPT_GRAPH: Words = Words {
    why: "A loss or an embedding that is added up or put in a list keeps the graph of its whole step, so memory grows step by step.",
    there: &[
        "Keep numbers: total += loss.item(), and embeddings as emb.detach().cpu().",
        "Put validation under torch.no_grad(). What a memory of your own stores, detach().",
    ],
};

pub(super) const ACTIVATIONS: Words = Words {
    why: "The backward pass needs every layer's output of the batch: it grows with the batch and the size of an item.",
    there: &[
        "Lower the batch; for a loss that needs a large one, embed parts and backpropagate them one by one (GradCache, CachedMultipleNegativesRankingLoss).",
        "Or use mixed precision, gradient checkpointing, or smaller images or texts.",
    ],
};

pub(super) const VALIDATION: Words = Words {
    why: "Validation runs while the weights, gradients, moments and PyTorch's cache of training are there; without torch.no_grad() it also \
          keeps every layer's output.",
    there: &[
        "with torch.no_grad(): and model.eval() around validation, a smaller batch, and embeddings to .cpu() at once.",
        "optimizer.zero_grad(set_to_none=True) and torch.cuda.empty_cache() before it.",
    ],
};

pub(super) const FRAGMENTS: Words = Words {
    why: "PyTorch holds more memory than its tensors take, more than was asked for, but in pieces: sizes that change from batch to batch \
          leave such gaps.",
    there: &[
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (before PyTorch 2.1 max_split_size_mb:128).",
        "Keep sizes the same: drop_last=True, padded lengths; and no empty_cache() in the loop.",
    ],
};

pub(super) const OTHER_PROGRAM: Words = Words {
    why: "What PyTorch holds is a small part of the card; the rest is another program's, or an earlier run's that still lives.",
    there: &[
        "See nvidia-smi for who holds the card, end what is left of earlier runs, or choose another card (CUDA_VISIBLE_DEVICES).",
    ],
};

pub(super) const HOST: Words = Words {
    why: "Each worker of a DataLoader has its own copy of what the dataset touches, and passes batches through shared memory.",
    there: &[
        "Fewer num_workers, no list of tensors in the dataset (numpy.memmap in place of it), and for containers --shm-size=8g.",
    ],
};
