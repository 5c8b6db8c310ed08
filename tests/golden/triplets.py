"""Writes triplets.json: the triplets that pytorch-metric-learning lists and mines, in its order.

Both of its ways to list all of them are asked, and must agree. Rows of the miner's cases have no triplet within 1e-5 of
a bound. tests/library/triplets.rs lists the same.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python triplets.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.miners import TripletMarginMiner
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

DIM, MARGIN = 5, 0.2
TYPES = ["all", "easy", "semihard", "hard"]


def flat(triplets):
    return torch.stack(triplets, 1).flatten().tolist()


def case(rng, name, anchors, references=None):
    y = torch.as_tensor(anchors)
    ref = None if references is None else torch.as_tensor(references)
    matches, diffs = lmu.get_matches_and_diffs(y, ref)
    every = flat(lmu.get_all_triplets_indices_vectorized_method(matches, diffs))
    assert every == flat(lmu.get_all_triplets_indices_loop_method(y, matches, diffs))
    assert every == flat(lmu.get_all_triplets_indices(y, ref))
    while True:
        rows = [None if labels is None else rng.normal(size=(len(labels), DIM)).astype("f4") for labels in (anchors, references)]
        x, known = [None if r is None else torch.as_tensor(r) for r in rows]
        s = CosineSimilarity()(x, known).numpy()
        a, p, n = np.array(every, int).reshape(-1, 3).T
        tm = s[a, p] - s[a, n]
        if min(abs(tm).min(initial=1), abs(tm - MARGIN).min(initial=1)) > 1e-5:
            break
    mined = {t: flat(TripletMarginMiner(MARGIN, t, distance=CosineSimilarity())(x, y, known, ref)) for t in TYPES}
    assert sorted(mined["all"] + mined["easy"]) == sorted(every)
    return dict(
        name=name,
        dim=DIM,
        margin=MARGIN,
        labels=anchors,
        rows=[float(v) for v in rows[0].ravel()],
        reference_labels=references,
        references=None if references is None else [float(v) for v in rows[1].ravel()],
        every=every,
        mined=mined,
    )


rng = np.random.default_rng(0)
draw = lambda count, classes: rng.integers(0, classes, count).tolist()
cases = [
    case(rng, "against each other", draw(14, 3)),
    case(rng, "a class of one and one of most", [0, 1, 1, 1, 1, 2, 2, 1, 1]),
    case(rng, "against others, classes that one side lacks", draw(7, 5), draw(16, 4)),
    case(rng, "all of a class", [3, 3, 3, 3]),
    case(rng, "all of their own", [0, 1, 2, 3, 4]),
]
Path(__file__).with_suffix(".json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
print([(c["name"], len(c["every"]) // 3, {t: len(m) // 3 for t, m in c["mined"].items()}) for c in cases])
