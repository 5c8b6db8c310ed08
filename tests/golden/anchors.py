"""Writes anchors.json: what pytorch-metric-learning's miners keep of a batch, and the slope of its losses at each pair.

24 rows, of which every batch takes 8: a batch by itself, or the third of three with a CrossBatchMemory of 20 slots, whose
queue has begun anew by then. Each miner with each of some losses, in float64. The triplets or pairs are those that the loss is
given; the slopes are dL/d(similarity), `[anchors, references]`, read off the matrix that the loss compares by (of distances D:
dL/dD over -D). The set is decided: no margin is met closer than 1e-5. tests/library/anchor.rs repeats them.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python anchors.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners

torch.set_default_dtype(torch.float64)
ROWS, DIM, BATCH, SLOTS = 24, 5, 8, 20
DISTANCES = dict(cosine=distances.CosineSimilarity, l2=distances.LpDistance)
# Nearfar's settings, and PML's miner.
MINERS = {
    "miner=triplet-margin miner.margin=0.2 miner.type_of_triplets=all": lambda d: miners.TripletMarginMiner(0.2, "all", distance=d),
    "miner=triplet-margin miner.margin=0.2 miner.type_of_triplets=semihard": lambda d: miners.TripletMarginMiner(0.2, "semihard", distance=d),
    "miner=triplet-margin miner.margin=0.2 miner.type_of_triplets=hard": lambda d: miners.TripletMarginMiner(0.2, "hard", distance=d),
    "miner=triplet-margin miner.margin=0.2 miner.type_of_triplets=easy": lambda d: miners.TripletMarginMiner(0.2, "easy", distance=d),
    "miner=batch-hard": lambda d: miners.BatchHardMiner(distance=d),
    "miner=batch-easy-hard miner.pos_strategy=hard miner.neg_strategy=semihard": lambda d: miners.BatchEasyHardMiner("hard", "semihard", distance=d),
    "miner=multi-similarity miner.epsilon=0.1": lambda d: miners.MultiSimilarityMiner(0.1, distance=d),
    "miner=pair-margin miner.pos_margin=0.8 miner.neg_margin=0.2": lambda d: miners.PairMarginMiner(0.8, 0.2, distance=d),
    "miner=none": None,
}
LOSSES = {
    "loss=triplet-margin loss.margin=0.3": lambda d: losses.TripletMarginLoss(0.3, distance=d),
    "loss=triplet-margin loss.margin=0.1 loss.smooth_loss=true": lambda d: losses.TripletMarginLoss(0.1, smooth_loss=True, distance=d),
    "loss=contrastive loss.pos_margin=0.9 loss.neg_margin=0.3": lambda d: losses.ContrastiveLoss(0.9, 0.3, distance=d),
    "loss=margin loss.margin=0.2 loss.beta=0.6": lambda d: losses.MarginLoss(0.2, beta=0.6, distance=d),
    "loss=multi-similarity": lambda d: losses.MultiSimilarityLoss(distance=d),
    "loss=nt-xent loss.temperature=0.2": lambda d: losses.NTXentLoss(0.2, distance=d),
    "loss=sup-con loss.temperature=0.2": lambda d: losses.SupConLoss(0.2, distance=d),
    "loss=circle": lambda d: losses.CircleLoss(distance=d),
    "loss=lifted-structure loss.pos_margin=0.9 loss.neg_margin=0.3": lambda d: losses.LiftedStructureLoss(0.3, 0.9, distance=d),
    "loss=generalized-lifted-structure loss.pos_margin=0.9 loss.neg_margin=0.3": lambda d: losses.GeneralizedLiftedStructureLoss(0.3, 0.9, distance=d),
    "loss=nca loss.softmax_scale=1": lambda d: losses.NCALoss(distance=d),
}


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def decided(rows):
    """Whether no margin is met closely by a similarity or a distance, nor by the gap of two of them."""
    s = unit(rows) @ unit(rows).T
    for values in (s, np.sqrt(np.maximum(2 - 2 * s, 0))):
        for i, row in enumerate(values):
            row = np.delete(row, i)
            gaps = np.abs(row[:, None] - row[None, :])[np.triu_indices(len(row), 1)]
            close = [np.abs(row[:, None] - [0.3, 0.9, 0.8, 0.2, 0.4, 0.6]).min(), gaps.min()]
            close += [np.abs(gaps - margin).min() for margin in (0.1, 0.2, 0.3)]
            if min(close) < 1e-5:
                return False
    return True


def keeping(compare, kept):
    """Keeps the matrices that a distance gives, for their gradients."""
    forward = compare.forward

    def keep(*arguments):
        mat = forward(*arguments)
        if mat.requires_grad:
            mat.retain_grad()
        kept.append(mat)
        return mat

    compare.forward = keep
    return compare


def case(miner, loss, distance, memory):
    mats, given = [], []
    cost = LOSSES[loss](keeping(DISTANCES[distance](), mats))
    choose = MINERS[miner] and MINERS[miner](DISTANCES[distance]())
    x = torch.tensor(unit(rows))
    y = torch.as_tensor(labels)
    forward = cost.forward

    def note(embeddings, own, indices=None, ref_emb=None, ref_labels=None):
        given.append(indices)
        return forward(embeddings, own, indices, ref_emb, ref_labels)

    cost.forward = note
    if memory:
        queue = losses.CrossBatchMemory(cost, DIM, SLOTS, choose)
        for first in range(0, ROWS, BATCH):
            batch = slice(first, first + BATCH)
            value = queue(x[batch].clone().requires_grad_(), y[batch])
    else:
        batch = x[-BATCH:].clone().requires_grad_()
        value = cost(batch, y[-BATCH:], choose(batch, y[-BATCH:]) if choose else None)
    # Where the miner keeps nothing, PML compares nothing.
    if not mats:
        return None
    value.backward()
    mat, indices = mats[-1], given[-1]
    slopes = torch.zeros_like(mat) if mat.grad is None else mat.grad
    if distance == "l2":
        slopes = torch.where(mat > 1e-6, -slopes / mat, 0.0)
    # Of no miner nothing is listed: every triplet or pair is there.
    kept = [] if choose is None else [[int(i) for i in part] for part in indices]
    return dict(
        sets=f"distance={distance} {miner} {loss} memory_size={SLOTS if memory else 0}",
        kept=kept,
        slopes=[float(f"{v:.7g}") for v in slopes.detach().flatten()],
    )


rng = np.random.default_rng(39)
while True:
    labels = np.concatenate([rng.permutation([0, 0, 0, 1, 1, 1, 2, 2]) for _ in range(ROWS // BATCH)])
    rows = np.round(rng.normal(size=(3, DIM))[labels] + 0.9 * rng.normal(size=(ROWS, DIM)), 2)
    if decided(rows):
        break
cases = []
for number, (miner, loss) in enumerate((m, l) for m in MINERS for l in LOSSES):
    for memory in (False, True):
        # NCA takes no miner. These two compare a batch with itself alone in PML, and similarities alone.
        if "nca" in loss and (miner != "miner=none" or memory) or "lifted-structure" in loss and memory and "general" not in loss:
            continue
        distance = "cosine" if "circle" in loss or (number + memory) % 3 else "l2"
        cases.append(case(miner, loss, distance, memory))
cases = [case for case in cases if case]
out = dict(dim=DIM, batch=BATCH, labels=labels.tolist(), rows=rows.flatten().tolist())
text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
out = json.dumps(out, separators=(",", ":"))
Path(__file__).with_suffix(".json").write_text(f'{out[:-1]},"cases":[\n{text}\n]}}\n')
