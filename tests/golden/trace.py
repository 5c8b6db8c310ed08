"""Writes trace.json: ten training steps as torch and pytorch-metric-learning take them, on given weights and batches.

Each case is a small model with its data, its first weights, the rows of every batch, and after every step the loss and
the triplets that were mined; at the end the weights. tests/library/trace.rs repeats them.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python trace.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

STEPS, ROWS, FEATURES, CLASSES = 10, 24, 7, 4
CASES = [
    dict(name="memory that goes round, semihard", hidden=[9], embedding=5, batch=6, memory=15, type="semihard", seed=1),
    dict(name="memory, all", hidden=[8], embedding=6, batch=6, memory=18, type="all", seed=2),
    dict(name="memory, hard", hidden=[8], embedding=6, batch=6, memory=18, type="hard", seed=3),
    dict(name="memory, easy, loss margin above the miner's", hidden=[8], embedding=6, batch=6, memory=18, type="easy", seed=4, miner_margin=0.1, loss_margin=0.4),
    dict(name="memory, no miner", hidden=[8], embedding=6, batch=6, memory=18, type=None, seed=5),
    dict(name="memory as large as the batch", hidden=[8], embedding=6, batch=8, memory=8, type="semihard", seed=6),
    dict(name="no memory, semihard", hidden=[9], embedding=5, batch=10, memory=0, type="semihard", seed=7),
    dict(name="no memory, all", hidden=[9], embedding=5, batch=10, memory=0, type="all", seed=8),
    dict(name="linear head, weight decay", hidden=[], embedding=4, batch=6, memory=12, type="semihard", seed=9, weight_decay=0.01),
    dict(name="four hidden layers", hidden=[10, 9, 8, 7], embedding=3, batch=6, memory=12, type="all", seed=10),
    dict(name="memory, batch-hard", hidden=[8], embedding=6, batch=6, memory=18, type=None, seed=11, miner="batch-hard"),
    dict(name="no memory, batch-hard, smooth", hidden=[9], embedding=5, batch=10, memory=0, type=None, seed=12, miner="batch-hard", smooth=True),
    dict(name="memory, batch-easy-hard", hidden=[8], embedding=6, batch=6, memory=18, type=None, seed=13, miner="batch-easy-hard", arguments=dict(pos_strategy="hard", neg_strategy="semihard")),
    dict(name="no memory, batch-easy-hard", hidden=[9], embedding=5, batch=10, memory=0, type=None, seed=14, miner="batch-easy-hard", arguments=dict(pos_strategy="easy", neg_strategy="semihard")),
    dict(name="memory that goes round, multi-similarity", hidden=[8], embedding=6, batch=6, memory=15, type=None, seed=15, miner="multi-similarity", arguments=dict(epsilon=0.1)),
    dict(name="no memory, pair-margin, swap", hidden=[9], embedding=5, batch=10, memory=0, type=None, seed=16, miner="pair-margin", arguments=dict(pos_margin=0.8, neg_margin=0.2), swap=True),
    dict(name="memory, semihard, smooth", hidden=[8], embedding=6, batch=6, memory=18, type="semihard", seed=17, smooth=True),
    dict(name="no memory, semihard, swap and smooth", hidden=[9], embedding=5, batch=10, memory=0, type="semihard", seed=18, swap=True, smooth=True),
    dict(name="memory, multi-similarity, l2", hidden=[8], embedding=6, batch=6, memory=18, type=None, seed=19, miner="multi-similarity", arguments=dict(epsilon=0.1), distance="l2"),
    dict(name="no memory, batch-easy-hard, l2, swap", hidden=[9], embedding=5, batch=10, memory=0, type=None, seed=20, miner="batch-easy-hard", arguments=dict(pos_strategy="hard", neg_strategy="hard"), distance="l2", swap=True),
    dict(name="memory in half precision that goes round, semihard", hidden=[9], embedding=5, batch=6, memory=15, type="semihard", seed=22, half=True),
    dict(name="memory in half precision, batch-hard", hidden=[8], embedding=6, batch=6, memory=18, type=None, seed=43, miner="batch-hard", half=True),
]
MINERS = {
    "batch-hard": miners.BatchHardMiner, "batch-easy-hard": miners.BatchEasyHardMiner,
    "multi-similarity": miners.MultiSimilarityMiner, "pair-margin": miners.PairMarginMiner,
}


class HalfMemory(losses.CrossBatchMemory):
    # Unit rows with the values that half precision holds. PML compares rows over their length: seeds keep triplets clear of the margins.
    def add_to_memory(self, embeddings, labels, batch_size):
        unit = torch.nn.functional.normalize(embeddings)
        super().add_to_memory(unit.half().float(), labels, batch_size)


def run(case):
    rng = np.random.default_rng(case["seed"])
    centres = rng.standard_normal((CLASSES, FEATURES))
    labels = np.arange(ROWS) % CLASSES
    features = (centres[labels] + 0.8 * rng.standard_normal((ROWS, FEATURES))).astype("f4")
    torch.manual_seed(case["seed"])
    widths = [FEATURES, *case["hidden"], case["embedding"]]
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += ([torch.nn.ReLU()] if i else []) + [torch.nn.Linear(a, b)]
    net = torch.nn.Sequential(*layers)
    weights = lambda: [
        dict(index=2 * i, shape=list(m.weight.shape), weight=m.weight.detach().flatten().tolist(), bias=m.bias.detach().tolist())
        for i, m in enumerate(m for m in net if isinstance(m, torch.nn.Linear))
    ]
    out = dict(case, features=features.flatten().tolist(), labels=labels.tolist(), start=weights())
    miner_margin, loss_margin = case.get("miner_margin", 0.2), case.get("loss_margin", 0.2)
    distance = distances.LpDistance if case.get("distance") == "l2" else distances.CosineSimilarity
    miner = case["type"] and miners.TripletMarginMiner(miner_margin, case["type"], distance=distance())
    if "miner" in case:
        miner = MINERS[case["miner"]](**case.get("arguments", {}), distance=distance())
    loss = losses.TripletMarginLoss(loss_margin, case.get("swap", False), case.get("smooth", False), distance=distance())
    if case["memory"]:
        memory = HalfMemory if case.get("half") else losses.CrossBatchMemory
        loss = memory(loss, case["embedding"], case["memory"], miner)
    adam = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=case.get("weight_decay", 0))
    out["steps"] = []
    for _ in range(STEPS):
        # With replacement between batches: rows come back while their old copies are still stored.
        rows = rng.choice(ROWS, case["batch"], replace=False)
        embedded, y = net(torch.tensor(features[rows])), torch.tensor(labels[rows])
        seen = {}

        def watch(inner):
            compute = inner.compute_loss

            def compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels):
                mined = lmu.convert_to_triplets(indices_tuple, labels, ref_labels, "all")
                seen["mined"] = len(mined[0]) if miner else None
                return compute(embeddings, labels, indices_tuple, ref_emb, ref_labels)

            return compute_loss

        inner = loss.loss if case["memory"] else loss
        original, inner.compute_loss = inner.compute_loss, watch(inner)
        if case["memory"]:
            value = loss(embedded, y)
        else:
            value = loss(embedded, y, miner(embedded, y))
        inner.compute_loss = original
        adam.zero_grad()
        value.backward()
        adam.step()
        out["steps"].append(dict(rows=rows.tolist(), loss=value.item(), mined=seen["mined"]))
    out["end"] = weights()
    return out


traces = [run(case) for case in CASES]
# Nine digits hold an f32 exactly.
short = json.loads(json.dumps(traces), parse_float=lambda text: float("%.9g" % float(text)))
Path(__file__).with_name("trace.json").write_text(json.dumps(short, separators=(",", ":")) + "\n")
for trace in traces:
    print(trace["name"], [round(s["loss"], 4) for s in trace["steps"]], [s["mined"] for s in trace["steps"]])
