"""Writes proxies.json: what pytorch-metric-learning's losses with learned proxies make of small sets of rows, with gradients.

For every loss 24 sets of rows with arguments of their own, in float64: 16 without a miner and 8 with one, whose finds weigh
the rows. The proxies stand class by class and within a class centre by centre, whatever order PML keeps them in. Every set is
decided: no angle is within 1e-3 of where ArcFace bends, no two nearest centres of a class within 1e-4 of each other, no cosine
of a row with a proxy beyond 0.999 and no margin of a miner closer than 1e-5.

The weights are those that the loss takes. ProxyNCALoss counts only how often a row is an anchor; the others count every place
of a row in what the miner found. A miner that finds nothing, as that of one set of each loss, weighs every row 1.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python proxies.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

torch.set_default_dtype(torch.float64)
SETS, PLAIN, NOTHING = 24, 16, 20
DISTANCES = dict(cosine=distances.CosineSimilarity, l2=distances.LpDistance)
ANGLES = dict(margin=[28.6, 10.0, 57.3], scale=[64.0, 16.0, 30.0])
# What makes the loss, its parameter, and its arguments.
LOSSES = {
    "proxy-anchor": (losses.ProxyAnchorLoss, "proxies", dict(margin=[0.1, 0.0, 0.3], alpha=[32.0, 8.0, 64.0])),
    "proxy-nca": (losses.ProxyNCALoss, "proxies", dict(softmax_scale=[1.0, 8.0, 30.0])),
    "normalized-softmax": (losses.NormalizedSoftmaxLoss, "W", dict(temperature=[0.05, 0.5, 0.02])),
    "arc-face": (losses.ArcFaceLoss, "W", ANGLES),
    "cos-face": (losses.CosFaceLoss, "W", dict(margin=[0.35, 0.1], scale=[64.0, 16.0])),
    "sub-center-arc-face": (losses.SubCenterArcFaceLoss, "W", dict(ANGLES, sub_centers=[3, 2, 1])),
    "soft-triple": (
        losses.SoftTripleLoss,
        "fc",
        dict(centers_per_class=[10, 3, 1], la=[20.0, 5.0], gamma=[0.1, 0.5], margin=[0.01, 0.1]),
    ),
}
MINERS = {
    "triplet-margin": lambda distance: miners.TripletMarginMiner(0.2, "semihard", distance=distance),
    "multi-similarity": lambda distance: miners.MultiSimilarityMiner(0.1, distance=distance),
    "batch-hard": lambda distance: miners.BatchHardMiner(distance=distance),
    "pair-margin": lambda distance: miners.PairMarginMiner(0.8, 0.2, distance=distance),
}


def text(rows):
    return [round(float(v), 4) for v in rows.ravel()]


def digits(rows):
    return [float(f"{v:.9g}") for v in rows.flatten()]


def mined_apart(values):
    """Whether no miner meets its margin closely, and no two values of a row are a miner's margin apart or equal."""
    others = values[~np.eye(len(values), dtype=bool)]
    if np.abs(others[:, None] - [0.8, 0.2, 0.0]).min() < 1e-5:
        return False
    for i, row in enumerate(values):
        row = np.delete(row, i)
        gaps = np.abs(row[:, None] - row[None, :])[np.triu_indices(len(row), 1)]
        if min(gaps.min(), np.abs(gaps - 0.2).min(), np.abs(gaps - 0.1).min()) < 1e-5:
            return False
    return True


def decided(name, chosen, cosines, labels):
    """Whether no cosine of rows with the centres of classes, [row, class, centre], is near an end, a tie or a bend."""
    if np.abs(cosines).max() > 0.999:
        return False
    nearest = np.sort(cosines, axis=2)[:, :, ::-1]
    if name == "sub-center-arc-face" and nearest.shape[2] > 1 and (nearest[:, :, 0] - nearest[:, :, 1]).min() < 1e-4:
        return False
    if "arc-face" in name:
        angles = np.arccos(nearest[np.arange(len(labels)), labels, 0])
        return np.abs(angles - (np.pi - np.radians(chosen["margin"]))).min() > 1e-3
    return True


def sizes(rng, number, centres):
    """How many rows, classes and numbers in a row: few enough that the file stays small."""
    dim = int(rng.integers(3, 7, 2).min()) if centres < 10 else 3
    while True:
        classes, count = int(rng.integers(2, 9)), int(rng.integers(4, 13)) if number else 6
        if dim * (count + classes * centres) <= max(36 if number % 3 else 48, dim * min(4 + 3 * centres, 26)):
            return classes, dim, count


def case(rng, name, number):
    make, parameter, arguments = LOSSES[name]
    distance = "l2" if name == "proxy-nca" and number % 3 == 0 else "cosine"
    miner = list(MINERS)[number % len(MINERS)] if number >= PLAIN else "none"
    chosen = {key: values[rng.integers(len(values))] for key, values in arguments.items()}
    centres = chosen.get("sub_centers", chosen.get("centers_per_class", 1))
    while True:
        classes, dim, count = sizes(rng, number, centres)
        labels = rng.integers(0, classes, count)
        if number == 0:
            # All rows of one class but one.
            labels = np.array([1] * 2 + [0] + [1] * 3)
        # Rows of a class lie near each other and anywhere about its proxies.
        around = rng.normal(size=(classes, dim))
        rows = np.round(around[labels] + rng.normal(size=(count, dim)), 4)
        proxies = np.round(rng.normal(size=(classes * centres, dim)), 4)
        unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
        cosines = (unit(rows) @ unit(proxies).T).reshape(count, classes, centres)
        s = unit(rows) @ unit(rows).T
        values = s if distance == "cosine" else np.sqrt(np.maximum(2 - 2 * s, 0))
        if not decided(name, chosen, cosines, labels) or miner != "none" and not mined_apart(values):
            continue
        x = torch.tensor(rows, requires_grad=True)
        y = torch.as_tensor(labels)
        compare = DISTANCES[distance]()
        own = {} if name == "normalized-softmax" else dict(distance=compare)
        loss = make(num_classes=classes, embedding_size=dim, **chosen, **own)
        learned = getattr(loss, parameter)
        turned = parameter != "proxies"
        with torch.no_grad():
            learned.copy_(torch.tensor(proxies.T if turned else proxies))
        mined = None
        if miner != "none":
            mined = MINERS[miner](compare)(x, y)
            weights = lmu.convert_to_weights(mined, y, x.dtype, using_ref=name == "proxy-nca").tolist()
            # One set of each loss is of a miner that finds nothing; in the others rows differ in weight.
            if (len(set(weights)) == 1) != (number == NOTHING) or (sum(map(len, mined)) == 0) != (number == NOTHING):
                continue
        value = loss(x, y, mined)
        value.backward()
        gradient = learned.grad.T if turned else learned.grad
        assert all(torch.isfinite(g).all() for g in (value, x.grad, gradient))
        return dict(
            loss=dict(name=name, **chosen),
            distance=distance,
            miner=miner,
            weights=digits(np.array(weights)) if mined else None,
            classes=classes,
            dim=dim,
            labels=labels.tolist(),
            rows=text(rows),
            proxies=text(proxies),
            value=float(value.detach()),
            gradient=digits(x.grad),
            proxy_gradient=digits(gradient),
        )


rng = np.random.default_rng(21)
cases = [case(rng, name, number) for name in LOSSES for number in range(SETS)]
out = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
Path(__file__).with_suffix(".json").write_text(f"[\n{out}\n]\n")
