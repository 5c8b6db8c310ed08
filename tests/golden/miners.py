"""Writes miners.json: what pytorch-metric-learning's miners keep of small sets of rows, and what TripletMarginLoss makes of it.

300 sets of rows, each mined by every miner with arguments of its own, in float64. Half of the sets are rows of +-1 in 4 or
16 dimensions: unit rows and similarities are exact, ties and bounds that are met included. In the other half no decision
comes closer than 1e-5 to its bound. Every third set is compared by distance, the others by similarity.
tests/library/pml_miners.rs repeats them.

Numbers of rows, labels and values of rows are written as one character each, 0 to 61 (values less 30); what is kept is
written anchor by anchor, with dots between, in PML's order. A run is: arguments of the miner, which stand in the order of
MINERS, [margin, swap, smooth_loss] of the loss, what is kept, triplets mined, triplets active, loss, length of the gradient,
a weighed sum of it, and here and there all of it.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python miners.py
"""
import json
from itertools import product
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

torch.set_default_dtype(torch.float64)
CASES = 300
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MARGINS = [0.2, 0.25, 0.1, 0.5, 0.0, -0.125]
LOSS_MARGINS = [0.05, 0.2, 0.25, 0.5]
EPSILONS = [0.1, 0.125, 0.5, 0.0]
PAIR_MARGINS = [(0.2, 0.8), (0.5, 0.25), (0.8, 0.2), (0.75, 0.0), (1.0, -1.0)]
RANGES = [None, None, (0.25, 0.75), (-0.5, 0.5), (0.125, 1.0), (-1.0, 0.3)]
STRATEGIES = [
    pair for pair in product(["easy", "semihard", "hard", "all"], repeat=2)
    if pair not in [("semihard", "semihard"), ("semihard", "all"), ("all", "semihard")]
]
BOUNDS = sorted({b for b in [*MARGINS, *LOSS_MARGINS, *EPSILONS, *sum(PAIR_MARGINS, ()), *sum(filter(None, RANGES), ())]})
MINERS = ["triplet-margin", "none", "batch-hard", "batch-easy-hard", "multi-similarity", "pair-margin"]
DISTANCES = dict(cosine=distances.CosineSimilarity, l2=distances.LpDistance)


def text(numbers, shift=0):
    return "".join(DIGITS[int(number) + shift] for number in numbers)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def decided(rows, known, own, distance):
    """Whether no decision is close."""
    s = unit(rows) @ unit(known).T
    s = s if distance == "cosine" else np.sqrt(np.maximum(2 - 2 * s, 0))
    for i, row in enumerate(s):
        row = np.delete(row, i) if own else row
        gaps = np.abs(row[:, None] - row[None, :])[np.triu_indices(len(row), 1)]
        shifts = [b for b in {*MARGINS, *LOSS_MARGINS, *EPSILONS} if b]
        near = min((np.abs(gaps - abs(b)).min() for b in shifts), default=1) if len(gaps) else 1
        edges = np.abs(row[:, None] - np.array(BOUNDS)).min() if len(row) else 1
        if min(near, gaps.min() if len(gaps) else 1, edges) < 1e-5:
            return False
    return True


def draw(rng, i, distance):
    own, exact = i % 2 == 0, i // 2 % 2 == 0
    n, m = rng.integers(*[(1, 5), (1, 25), (3, 13), (3, 13), (3, 13)][i % 5], 2)
    classes = [1, 2, 2, 3, 5, 30][rng.integers(6)]
    m = n if own else m
    while True:
        if exact:
            dim = [4, 16][rng.integers(2)]
            rows, known = (2 * rng.integers(0, 2, (k, dim)) - 1 for k in (n, m))
        else:
            dim = rng.integers(3, 7)
            rows, known = (rng.integers(-30, 31, (k, dim)) for k in (n, m))
        if exact and m > 2:
            known[-1] = known[0]
        known = rows if own else known
        if exact or (rows.any(1).all() and known.any(1).all() and decided(rows, known, own, distance)):
            break
    labels, known_labels = (rng.integers(0, classes, k) for k in (n, m))
    return own, rows, labels, known, (labels if own else known_labels)


def runs(rng, i, distance):
    """Every miner with its settings, and the loss with its own."""
    margin, kind = MARGINS[rng.integers(len(MARGINS))], ["all", "easy", "semihard", "hard"][i % 4]
    yield f"margin={margin} type_of_triplets={kind}", miners.TripletMarginMiner(margin, kind, distance=distance())
    yield "", None
    yield "", miners.BatchHardMiner(distance=distance())
    (p, n), (p_range, n_range) = STRATEGIES[i % len(STRATEGIES)], (RANGES[k] for k in rng.integers(len(RANGES), size=2))
    settings = f"pos_strategy={p} neg_strategy={n}"
    for name, bounds in (("pos", p_range), ("neg", n_range)):
        settings += f" allowed_{name}_range=[{bounds[0]},{bounds[1]}]" if bounds else ""
    yield settings, miners.BatchEasyHardMiner(p, n, p_range, n_range, distance=distance())
    epsilon = EPSILONS[rng.integers(len(EPSILONS))]
    yield f"epsilon={epsilon}", miners.MultiSimilarityMiner(epsilon, distance=distance())
    p, n = PAIR_MARGINS[rng.integers(len(PAIR_MARGINS))]
    yield f"pos_margin={p} neg_margin={n}", miners.PairMarginMiner(p, n, distance=distance())


def per_anchor(anchors, others, values):
    """With `values` they ascend by these; torch sorts equal ones in any order, here they ascend by place."""
    lists = []
    anchors, others = anchors.numpy(), others.numpy()
    assert (np.diff(anchors) >= 0).all()
    for a in range(len(values)):
        own = others[anchors == a]
        assert (np.diff(own if values[a] is None else values[a][own]) >= 0).all()
        lists.append(text(own if values[a] is None else sorted(own, key=lambda i: (values[a][i], i))))
    return ".".join(lists)


def number(value, digits=6):
    return float(f"{value:.{digits}g}")


def run(rng, i, settings, miner, distance, own, rows, labels, known, known_labels):
    margin = LOSS_MARGINS[rng.integers(len(LOSS_MARGINS))]
    # With references PML looks up the similarity of positive and negative in the wrong rows.
    swap, smooth = own and rng.integers(3) == 0, rng.integers(3) == 0
    embeddings = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    y = torch.tensor(labels)
    others = [] if own else [torch.tensor(known, dtype=torch.float64), torch.tensor(known_labels)]
    kept = miner(embeddings, y, *others) if miner else None
    out = [settings, [margin, int(swap), int(smooth)]]
    pairs = None
    if kept is not None and not isinstance(miner, miners.TripletMarginMiner):
        a1, p, a2, n = kept if len(kept) == 4 else (kept[0], kept[1], kept[0], kept[2])
        by_value = isinstance(miner, miners.MultiSimilarityMiner)
        values = distance()(embeddings, *others[:1]).detach().numpy() if by_value else [None] * len(rows)
        pairs = [per_anchor(a1, p, values), per_anchor(a2, n, values)]
    loss_of = losses.TripletMarginLoss(margin, swap=swap, smooth_loss=smooth, distance=distance())
    triplets = lmu.convert_to_triplets(kept, y, others[1] if others else y, "all")
    seen = {}
    reduce = loss_of.reducer.forward

    def watch(loss_dict, *rest):
        values = loss_dict["loss"]["losses"]
        seen["active"] = int((values > 0).sum()) if torch.is_tensor(values) else 0
        return reduce(loss_dict, *rest)

    loss_of.reducer.forward = watch
    loss = loss_of(embeddings, y, kept, *others) if own or kept is not None else loss_of(embeddings, y, None, *others)
    loss.backward()
    gradient = embeddings.grad.numpy().flatten()
    weighed = sum((k % 7 - 3) * g for k, g in enumerate(gradient))
    out += [pairs, len(triplets[0]), seen["active"], number(loss.item(), 8), number(np.linalg.norm(gradient)), number(weighed)]
    return out + ([[number(g) for g in gradient]] if i % 30 == 0 else [])


rng = np.random.default_rng(0)
cases = []
for i in range(CASES):
    name = "l2" if i % 3 == 2 else "cosine"
    own, rows, labels, known, known_labels = draw(rng, i, name)
    case = dict(distance=name, dim=rows.shape[1], rows=text(rows.flatten(), 30), labels=text(labels))
    if not own:
        case.update(known=text(known.flatten(), 30), known_labels=text(known_labels))
    case["runs"] = [
        run(rng, i, s, miner, DISTANCES[name], own, rows, labels, known, known_labels) for s, miner in runs(rng, i, DISTANCES[name])
    ]
    cases.append(case)
path = Path(__file__).with_name("miners.json")
path.write_text("[" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]\n")
print(len(cases), "cases,", path.stat().st_size, "bytes")
for name, of in zip(MINERS, zip(*(case["runs"] for case in cases))):
    print(name, len(of), "mined", sum(r[3] for r in of), "active", sum(r[4] for r in of), "empty", sum(r[3] == 0 for r in of))
