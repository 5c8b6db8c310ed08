"""Writes losses.json: what pytorch-metric-learning's losses of pairs make of small sets of rows, and their gradient.

For every loss 24 sets of rows with arguments of their own, in float64, with a miner or without, against each other or against
rows that are constants, by similarity or by distance where PML allows both. Every set is decided: no margin of loss or miner
is met closer than 1e-5. The pairs that the loss is given, and how often each, stand beside them. tests/library/pml_losses.rs repeats
them.

PML gives 0 to a batch with at most one positive and one negative pair, whatever they cost; such sets are left out.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python losses.py
"""
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

torch.set_default_dtype(torch.float64)
SETS = 24
DISTANCES = dict(cosine=distances.CosineSimilarity, l2=distances.LpDistance)
LOSSES = {
    "contrastive": (losses.ContrastiveLoss, dict(pos_margin=[1.0, 0.8, 0.3], neg_margin=[0.0, 0.5, 0.9])),
    "margin": (losses.MarginLoss, dict(margin=[0.2, 0.1, 0.4], beta=[0.5, 1.2, 0.8])),
    "multi-similarity": (losses.MultiSimilarityLoss, dict(alpha=[2.0, 1.0, 10.0], beta=[50.0, 5.0], base=[0.5, 0.0, 1.0])),
    "nt-xent": (losses.NTXentLoss, dict(temperature=[0.07, 0.5, 0.02])),
    "sup-con": (losses.SupConLoss, dict(temperature=[0.1, 0.5, 0.02])),
    "circle": (losses.CircleLoss, dict(m=[0.4, 0.25], gamma=[80.0, 10.0, 256.0])),
    "generalized-lifted-structure": (
        losses.GeneralizedLiftedStructureLoss,
        dict(pos_margin=[1.0, 0.0, 0.5], neg_margin=[0.0, 1.0, 0.5]),
    ),
}
MINERS = {
    "none": None,
    "triplet-margin": lambda distance: miners.TripletMarginMiner(0.2, "semihard", distance=distance),
    "multi-similarity": lambda distance: miners.MultiSimilarityMiner(0.1, distance=distance),
    "batch-hard": lambda distance: miners.BatchHardMiner(distance=distance),
    "pair-margin": lambda distance: miners.PairMarginMiner(0.8, 0.2, distance=distance),
}


def text(rows):
    return [round(float(v), 4) for v in rows.ravel()]


def times(anchors, others):
    """Every pair that the loss is given, with how often: [anchor, other, times] one after the other."""
    pairs = Counter(zip(anchors.tolist(), others.tolist()))
    return [int(number) for (a, o), count in sorted(pairs.items()) for number in (a, o, count)]


def decided(values, own, arguments):
    """Whether no margin is met closely, and no two values of a row are a miner's margin apart or equal."""
    margins = [v for v in arguments.values()] + [0.8, 0.2, arguments.get("beta", 0) + arguments.get("margin", 0)]
    margins += [arguments.get("beta", 0) - arguments.get("margin", 0)]
    others = values[~np.eye(len(values), dtype=bool)] if own else values
    if np.abs(others[..., None] - margins).min() < 1e-5:
        return False
    for i, row in enumerate(values):
        row = np.delete(row, i) if own else row
        gaps = np.abs(row[:, None] - row[None, :])[np.triu_indices(len(row), 1)]
        if len(gaps) and min(gaps.min(), np.abs(gaps - 0.2).min(), np.abs(gaps - 0.1).min()) < 1e-5:
            return False
    return True


def case(rng, name, number):
    make, arguments = LOSSES[name]
    distance = "cosine" if name == "circle" or number % 3 else "l2"
    miner = list(MINERS)[number % len(MINERS)]
    own = number // 2 % 2 == 0
    while True:
        chosen = {key: values[rng.integers(len(values))] for key, values in arguments.items()}
        classes = [2, 3, 5, 8][rng.integers(4)]
        dim = int(rng.integers(3, 7))
        count, known = (int(n) for n in rng.integers(4, 13, 2))
        if number == 0:
            # A class of one, and one of all others but two.
            labels = np.array([0] + [1] * 7 + [2, 2])
            count = len(labels)
        else:
            labels = rng.integers(0, classes, count)
        # Rows of a class lie near each other, so that every side of a margin is met.
        centres = rng.normal(size=(classes + 3, dim))
        rows = np.round(centres[labels] + rng.normal(size=(count, dim)), 4)
        ref_labels = labels if own else rng.integers(0, classes, known)
        ref = rows if own else np.round(centres[ref_labels] + rng.normal(size=(known, dim)), 4)
        unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
        s = unit(rows) @ unit(ref).T
        values = s if distance == "cosine" else np.sqrt(np.maximum(2 - 2 * s, 0))
        if not decided(values, own, chosen):
            continue
        x = torch.tensor(rows, requires_grad=True)
        y = torch.as_tensor(labels)
        against = {} if own else dict(ref_emb=torch.tensor(ref), ref_labels=torch.as_tensor(ref_labels))
        compare = DISTANCES[distance]()
        mined = None
        if MINERS[miner]:
            mined = MINERS[miner](compare)(x, y, *([] if own else [against["ref_emb"], against["ref_labels"]]))
        pairs = lmu.convert_to_pairs(mined, y, against.get("ref_labels"))
        if all(len(indices) <= 1 for indices in pairs):
            continue
        if name == "margin":
            a, p, n = lmu.convert_to_triplets(mined, y, against.get("ref_labels"), "all")
            pairs = (a, p, a, n)
        loss = make(**chosen, distance=compare)(x, y, mined, **against)
        if loss.requires_grad and float(loss.detach()) != 0:
            loss.backward()
        elif rng.random() < 0.9:
            # A few sets without a loss do.
            continue
        gradient = x.grad if x.grad is not None else torch.zeros_like(x)
        assert torch.isfinite(gradient).all() and torch.isfinite(loss)
        return dict(
            loss=dict(name=name, **chosen),
            miner=miner,
            distance=distance,
            dim=dim,
            labels=labels.tolist(),
            rows=text(rows),
            reference_labels=None if own else ref_labels.tolist(),
            references=None if own else text(ref),
            positives=times(pairs[0], pairs[1]),
            negatives=times(pairs[2], pairs[3]),
            value=float(loss.detach()),
            gradient=[float(f"{v:.9g}") for v in gradient.flatten()],
        )


rng = np.random.default_rng(12)
cases = [case(rng, name, number) for name in LOSSES for number in range(SETS)]
out = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
Path(__file__).with_suffix(".json").write_text(f"[\n{out}\n]\n")
