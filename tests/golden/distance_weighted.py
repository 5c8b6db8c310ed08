"""Writes distance_weighted.json: the weights with which pytorch-metric-learning's DistanceWeightedMiner draws negatives.

Rows are those of f32, computed with in f64. tests/library/triplets.rs weighs the same.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python distance_weighted.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning.miners import DistanceWeightedMiner
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

drawn = {}
lmu.get_random_triplet_indices = lambda labels, ref_labels=None, weights=None: drawn.update(weights=weights) or (labels[:0],) * 3


def rows(rng, count, dim, spread):
    x = spread * rng.normal(size=(count, dim)) + np.eye(dim)[0]
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("f4")


def case(rng, name, dim, anchors, references=None, spread=1.0, **arguments):
    count = lambda labels: None if labels is None else rows(rng, len(labels), dim, spread)
    x, known = count(anchors), count(references)
    tensor = lambda values, dtype: None if values is None else torch.as_tensor(np.asarray(values), dtype=dtype)
    miner = DistanceWeightedMiner(**arguments)
    y, ref = tensor(anchors, torch.long), tensor(references, torch.long)
    miner(tensor(x, torch.float64), y, tensor(known, torch.float64), ref)
    weights = drawn["weights"].nan_to_num(0.0)
    flat = lambda values: None if values is None else [float(v) for v in values.ravel()]
    return dict(
        name=name,
        dim=dim,
        arguments=arguments,
        labels=anchors,
        rows=flat(x),
        reference_labels=references,
        references=flat(known),
        weights=[float("%.9g" % v) for v in weights.flatten().tolist()],
    )


rng = np.random.default_rng(1)
draw = lambda count, classes: rng.integers(0, classes, count).tolist()
cases = [
    case(rng, "against each other", 6, draw(16, 3)),
    case(rng, "close together", 8, draw(12, 4), spread=0.3),
    case(rng, "against others", 16, draw(6, 5), draw(20, 4)),
    case(rng, "three dimensions, other cutoffs", 3, draw(14, 3), cutoff=0.2, nonzero_loss_cutoff=1.9),
    case(rng, "nothing near enough", 12, draw(8, 2), nonzero_loss_cutoff=0.6),
]
Path(__file__).with_suffix(".json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
for c in cases:
    print(c["name"], np.count_nonzero(c["weights"]), len(c["weights"]), max(c["weights"]))
