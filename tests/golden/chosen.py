"""Writes chosen.json: what pytorch-metric-learning's losses make of triplets that are chosen one by one, and their gradient.

Two miners choose: `facenet-semihard`, which PML has not, takes of every positive the nearest negative that is farther, or else
the farthest of all; `distance-weighted` draws by the weights of PML's DistanceWeightedMiner, with Nearfar's random numbers.
Their triplets go to PML's losses as `indices_tuple`, in float64: to losses of pairs and of triplets, against the rows
themselves or against constants, and as weights of the rows to losses that look at all rows. Every set is decided: no margin is
met closer than 1e-5, and no draw is that close to another. tests/library/pml_losses.rs and tests/library/pml_proxies.rs repeat them.

A triplet that comes again counts again, but for losses that PML builds on masks.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python chosen.py
"""
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

torch.set_default_dtype(torch.float64)
SETS, PROXY_SETS = 12, 6
DISTANCES = dict(cosine=distances.CosineSimilarity, l2=distances.LpDistance)
LOSSES = {
    "triplet-margin": (losses.TripletMarginLoss, dict(margin=[0.2, 0.1, 0.5], smooth_loss=[False, True])),
    "contrastive": (losses.ContrastiveLoss, dict(pos_margin=[1.0, 0.8, 0.3], neg_margin=[0.0, 0.5, 0.9])),
    "margin": (losses.MarginLoss, dict(margin=[0.2, 0.1, 0.4], beta=[0.5, 1.2, 0.8])),
    "multi-similarity": (losses.MultiSimilarityLoss, dict(alpha=[2.0, 1.0], beta=[50.0, 5.0], base=[0.5, 0.0])),
    "nt-xent": (losses.NTXentLoss, dict(temperature=[0.07, 0.5])),
    "sup-con": (losses.SupConLoss, dict(temperature=[0.1, 0.5])),
    "circle": (losses.CircleLoss, dict(m=[0.4, 0.25], gamma=[80.0, 10.0])),
    "lifted-structure": (losses.LiftedStructureLoss, dict(pos_margin=[1.0, 0.5], neg_margin=[0.0, 0.5])),
    "generalized-lifted-structure": (
        losses.GeneralizedLiftedStructureLoss,
        dict(pos_margin=[1.0, 0.5], neg_margin=[0.0, 0.5]),
    ),
}
PROXY_LOSSES = {
    "proxy-anchor": (losses.ProxyAnchorLoss, "proxies", dict(margin=[0.1], alpha=[32.0, 8.0])),
    "proxy-nca": (losses.ProxyNCALoss, "proxies", dict(softmax_scale=[1.0, 8.0])),
    "arc-face": (losses.ArcFaceLoss, "W", dict(margin=[28.6], scale=[64.0, 16.0])),
}

drawn_by = {}
lmu.get_random_triplet_indices = lambda y, ref_labels=None, weights=None: drawn_by.update(weights=weights) or (y[:0],) * 3


def pcg4d(v):
    """Jarzynski and Olano, "Hash Functions for GPU Rendering" (2020)."""
    wrap = lambda x: x & 0xFFFFFFFF
    mix = [(0, 1, 3), (1, 2, 0), (2, 0, 1), (3, 1, 2)]
    v = [wrap(x * 1664525 + 1013904223) for x in v]
    for to, a, b in mix:
        v[to] = wrap(v[to] + v[a] * v[b])
    v = [x ^ x >> 16 for x in v]
    for to, a, b in mix:
        v[to] = wrap(v[to] + v[a] * v[b])
    return [(x >> 8) / 2**24 for x in v]


def drawn(x, y, ref, ref_y, seed):
    """Draws, or nothing where one is not decided."""
    own = ref is None
    x = x.detach()
    miners.DistanceWeightedMiner()(x, y, ref, ref_y)
    weights = drawn_by["weights"].nan_to_num(0.0).numpy()
    known = y if own else ref_y
    triplets = []
    for a, row in enumerate(weights):
        members = [i for i in range(len(known)) if known[i] == y[a]]
        positives = [i for i in members if not (own and i == a)]
        if not positives or row.sum() == 0:
            continue
        sums = row.cumsum()
        for j in range(len(members)):
            u = pcg4d([seed & 0xFFFFFFFF, seed >> 32, a, j])
            at = u[1] * sums[-1]
            if np.abs(sums - at).min() < 1e-4 * sums[-1]:
                return None
            triplets.append((a, positives[int(u[0] * len(positives))], int(np.searchsorted(sums, at, side="right"))))
    return triplets


def one_negative(values, y, known, own):
    """`values` are nearer where they are larger."""
    triplets = []
    for a, row in enumerate(values):
        negatives = [i for i in range(len(row)) if known[i] != y[a]]
        for p in range(len(row)):
            if known[p] != y[a] or own and p == a or not negatives:
                continue
            farther = [i for i in negatives if row[i] < row[p]]
            n = max(farther, key=lambda i: row[i]) if farther else min(negatives, key=lambda i: row[i])
            triplets.append((a, p, n))
    return triplets


def text(rows):
    return [round(float(v), 4) for v in rows.ravel()]


def digits(values):
    return [float(f"{v:.9g}") for v in values.flatten()]


def times(anchors, others):
    """Every pair that the loss is given, with how often: [anchor, other, times] one after the other."""
    pairs = Counter(zip(anchors.tolist(), others.tolist()))
    return [int(number) for (a, o), count in sorted(pairs.items()) for number in (a, o, count)]


def decided(values, own, arguments):
    """Whether no margin is met closely, and no two values of a row are a margin apart or equal."""
    numbers = [v for v in arguments.values() if not isinstance(v, bool)]
    margins = numbers + [arguments.get("beta", 0) + s * arguments.get("margin", 0) for s in (1, -1)]
    others = values[~np.eye(len(values), dtype=bool)] if own else values
    if np.abs(others[..., None] - margins).min() < 1e-5:
        return False
    for i, row in enumerate(values):
        row = np.delete(row, i) if own else row
        gaps = np.abs(row[:, None] - row[None, :])[np.triu_indices(len(row), 1)]
        if len(gaps) and min(gaps.min(), np.abs(gaps[:, None] - numbers).min()) < 1e-5:
            return False
    return True


def choose(miner, distance, x, y, ref, ref_y, seed):
    """The triplets of a miner as PML takes them; nothing where they are not decided."""
    s = distances.CosineSimilarity()(x.detach(), x.detach() if ref is None else ref).numpy()
    if miner == "distance-weighted":
        triplets = drawn(x, y, ref, ref_y, seed)
    else:
        triplets = one_negative(s, y, y if ref is None else ref_y, ref is None)
    if triplets is None or len(triplets) < 2:
        return None
    return tuple(torch.tensor(column) for column in zip(*triplets))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def case(rng, name, number):
    make, arguments = LOSSES[name]
    distance = "cosine" if name == "circle" or number % 3 else "l2"
    miner = ["distance-weighted", "facenet-semihard"][number % 2]
    # Against others PML looks up a positive's negatives among the wrong rows.
    own = name == "lifted-structure" or number // 2 % 2 == 0
    while True:
        chosen = {key: values[rng.integers(len(values))] for key, values in arguments.items()}
        classes = [2, 3, 5][rng.integers(3)]
        dim = int(rng.integers(3, 7))
        count, known = (int(n) for n in rng.integers(4, 13, 2))
        seed = int(rng.integers(2**53))
        labels = rng.integers(0, classes, count)
        centres = rng.normal(size=(classes, dim))
        rows = np.round(centres[labels] + rng.normal(size=(count, dim)), 4)
        ref_labels = labels if own else rng.integers(0, classes, known)
        ref = rows if own else np.round(centres[ref_labels] + rng.normal(size=(known, dim)), 4)
        s = unit(rows) @ unit(ref).T
        values = s if distance == "cosine" else np.sqrt(np.maximum(2 - 2 * s, 0))
        if not decided(values, own, chosen):
            continue
        x, y = torch.tensor(rows, requires_grad=True), torch.as_tensor(labels)
        against = {} if own else dict(ref_emb=torch.tensor(ref), ref_labels=torch.as_tensor(ref_labels))
        triplets = choose(miner, distance, x, y, against.get("ref_emb"), against.get("ref_labels"), seed)
        if triplets is None:
            continue
        loss = make(**chosen, distance=DISTANCES[distance]())(x, y, triplets, **against)
        if not loss.requires_grad or float(loss.detach()) == 0:
            continue
        loss.backward()
        assert torch.isfinite(x.grad).all() and torch.isfinite(loss)
        a, p, n = triplets
        return dict(
            loss=dict(name=name, **chosen),
            miner=miner,
            seed=seed,
            distance=distance,
            dim=dim,
            labels=labels.tolist(),
            rows=text(rows),
            reference_labels=None if own else ref_labels.tolist(),
            references=None if own else text(ref),
            positives=times(a, p),
            negatives=times(a, n),
            value=float(loss.detach()),
            gradient=digits(x.grad),
        )


def proxy_case(rng, name, number):
    make, parameter, arguments = PROXY_LOSSES[name]
    distance = "l2" if name == "proxy-nca" else "cosine"
    while True:
        chosen = {key: values[rng.integers(len(values))] for key, values in arguments.items()}
        classes, dim, count = 3, 4, int(rng.integers(5, 11))
        labels = rng.integers(0, classes, count)
        rows = np.round(rng.normal(size=(classes, dim))[labels] + rng.normal(size=(count, dim)), 4)
        proxies = np.round(rng.normal(size=(classes, dim)), 4)
        cosines = unit(rows) @ unit(proxies).T
        angles = np.arccos(cosines[np.arange(count), labels])
        bend = np.abs(angles - (np.pi - np.radians(28.6))).min()
        if np.abs(cosines).max() > 0.999 or bend < 1e-3 or not decided(unit(rows) @ unit(rows).T, True, {"none": 9.0}):
            continue
        x, y = torch.tensor(rows, requires_grad=True), torch.as_tensor(labels)
        loss = make(num_classes=classes, embedding_size=dim, distance=DISTANCES[distance](), **chosen)
        learned = getattr(loss, parameter)
        turned = parameter != "proxies"
        with torch.no_grad():
            learned.copy_(torch.tensor(proxies.T if turned else proxies))
        mined = choose("facenet-semihard", distance, x, y, None, None, 0)
        if mined is None:
            continue
        weights = lmu.convert_to_weights(mined, y, x.dtype, using_ref=name == "proxy-nca").tolist()
        if len(set(weights)) == 1:
            continue
        value = loss(x, y, mined)
        value.backward()
        return dict(
            loss=dict(name=name, **chosen),
            distance=distance,
            miner="facenet-semihard",
            weights=digits(np.array(weights)),
            classes=classes,
            dim=dim,
            labels=labels.tolist(),
            rows=text(rows),
            proxies=text(proxies),
            value=float(value.detach()),
            gradient=digits(x.grad),
            proxy_gradient=digits(learned.grad.T if turned else learned.grad),
        )


rng = np.random.default_rng(31)
cases = dict(
    pairs=[case(rng, name, number) for name in LOSSES for number in range(SETS)],
    proxies=[proxy_case(rng, name, number) for name in PROXY_LOSSES for number in range(PROXY_SETS)],
)
parts = [f'"{name}":[\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in own) + "\n]" for name, own in cases.items()]
Path(__file__).with_suffix(".json").write_text("{" + ",\n".join(parts) + "}\n")
