"""Writes matryoshka.json: ten training steps of losses over embeddings truncated to several sizes, as torch and
pytorch-metric-learning take them (Kusupati et al. 2022; the MatryoshkaLoss of sentence-transformers).

Each truncated embedding is brought to unit length anew, mined by itself, and compared with rows of its own memory or with the proxies
truncated alike; the loss is the weighted sum. The traces have the form of proxy_trace.json, with the sizes and weights as in settings.
`mined` counts what the miner keeps of whole embeddings. All in float64; prints how far the same steps in float32 end from these, which
is 1e-4 or more where a step comes near a margin.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python matryoshka.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu

from proxy_trace import BATCH, CLASSES, DISTANCES, EMBEDDING, FEATURES, HIDDEN, LOSSES, RATE, ROWS, STEPS, apart, digits, text

KINDS = LOSSES | {"triplet-margin": (losses.TripletMarginLoss, None)}
MINERS = {"multi-similarity": miners.MultiSimilarityMiner, "triplet-margin": miners.TripletMarginMiner}
SEMIHARD = dict(name="triplet-margin", margin=0.2, type_of_triplets="semihard")
TRIPLETS = dict(name="triplet-margin", margin=0.2, swap=False, smooth_loss=False)
SIZES = dict(dims=[8, 5, 3], weights=[1.0, 0.5, 0.25])
CASES = [
    dict(name="sup-con", loss=dict(name="sup-con", temperature=0.1), matryoshka=dict(dims=[8, 4, 2], weights=[]), seed=301),
    dict(name="sup-con, memory", loss=dict(name="sup-con", temperature=0.1), memory=48, matryoshka=SIZES, seed=302),
    dict(name="contrastive, sizes from below", loss=dict(name="contrastive", pos_margin=1.0, neg_margin=0.0), matryoshka=dict(dims=[3, 8], weights=[2.0, 0.5]), seed=303),
    dict(name="triplets, semi-hard", loss=TRIPLETS, miner=SEMIHARD, matryoshka=SIZES, seed=304),
    dict(name="triplets, semi-hard, memory", loss=TRIPLETS, miner=SEMIHARD, memory=48, matryoshka=SIZES, seed=305),
    dict(name="multi-similarity, mined, memory", loss=dict(name="multi-similarity", alpha=2.0, beta=50.0, base=0.5), miner=dict(name="multi-similarity", epsilon=0.1), memory=48, matryoshka=SIZES, seed=306),
    dict(name="arc-face", loss=dict(name="arc-face", margin=28.6, scale=64.0), proxy_rate=0.05, matryoshka=SIZES, seed=307),
    dict(name="proxy-anchor", loss=dict(name="proxy-anchor", margin=0.1, alpha=32.0), proxy_rate=0.1, matryoshka=SIZES, seed=308),
    dict(name="soft-triple", loss=dict(name="soft-triple", centers_per_class=3, la=20.0, gamma=0.1, margin=0.01), proxy_rate=0.03, matryoshka=SIZES, seed=309),
    dict(name="margin, by distance, boundary learned and pulled", loss=dict(name="margin", margin=0.2, beta=1.2, learn_beta=True, nu=0.3), distance="l2", beta_rate=0.02, matryoshka=SIZES, seed=310),
]


def run(case, dtype, features, labels):
    torch.set_default_dtype(dtype)
    rng = np.random.default_rng(case["seed"])
    net = torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, EMBEDDING))
    with torch.no_grad():
        for parameter in net.parameters():
            bound = parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 0.2
            parameter.copy_(torch.tensor(np.round(rng.uniform(-bound, bound, parameter.shape), 4)))
    weights = lambda shown: [dict(index=i, shape=list(net[i].weight.shape), weight=shown(net[i].weight.detach()), bias=shown(net[i].bias.detach())) for i in (0, 2)]
    kind, parameter = KINDS[case["loss"]["name"]]
    arguments = {key: value for key, value in case["loss"].items() if key != "name"}
    if parameter:
        arguments.update(num_classes=CLASSES, embedding_size=EMBEDDING)
    inner = kind(**arguments, distance=DISTANCES[case.get("distance", "cosine")]())
    groups = [dict(params=net.parameters(), lr=RATE)]
    learned = getattr(inner, parameter) if parameter else None
    proxies = lambda shown: None if learned is None else shown((learned if parameter == "proxies" else learned.T).detach())
    if parameter:
        first = np.round(rng.normal(size=(CLASSES * case["loss"].get("centers_per_class", 1), EMBEDDING)), 4)
        with torch.no_grad():
            learned.copy_(torch.tensor(first if parameter == "proxies" else first.T))
        groups.append(dict(params=[learned], lr=case["proxy_rate"]))
    if "beta_rate" in case:
        groups.append(dict(params=[inner.beta], lr=case["beta_rate"], weight_decay=0.0))
    given = {key: value for key, value in case.get("miner", {}).items() if key != "name"}
    distance = DISTANCES[case.get("distance", "cosine")]()
    miner = MINERS[case["miner"]["name"]](**given, distance=distance) if "miner" in case else None
    sizes, factors = case["matryoshka"]["dims"], case["matryoshka"]["weights"] or [1.0] * len(case["matryoshka"]["dims"])
    memories = {dim: losses.CrossBatchMemory(inner, dim, case["memory"], miner) for dim in sizes} if "memory" in case else {}
    optimizer = torch.optim.Adam(groups)
    out = dict(name=case["name"], loss=case["loss"], miner=case.get("miner"), distance=case.get("distance", "cosine"), hidden=[HIDDEN],
               embedding=EMBEDDING, batch=BATCH, memory=case.get("memory", 0), rate=RATE, proxy_rate=case.get("proxy_rate"),
               beta_rate=case.get("beta_rate"), weighed=False, start=weights(text), proxies_start=proxies(text), steps=[],
               matryoshka=case["matryoshka"])
    for _ in range(STEPS):
        rows = rng.choice(ROWS, BATCH, replace=False)
        y, embedded = torch.tensor(labels[rows]), net(torch.tensor(features[rows], dtype=dtype))
        value, mined = 0, None
        for dim, factor in zip(sizes, factors):
            truncated = torch.nn.functional.normalize(embedded[:, :dim])
            if memories:
                memory = memories[dim]
                found = []
                kept = inner.compute_loss
                inner.compute_loss = lambda e, l, tuples, *references: found.append((tuples, l, references[1])) or kept(e, l, tuples, *references)
                one = memory(truncated, y)
                inner.compute_loss = kept
                tuples, own, theirs = found[0]
            elif parameter:
                part = learned[:, :dim] if parameter == "proxies" else learned[:dim]
                one, tuples = torch.func.functional_call(inner, {parameter: part}, (truncated, y)), None
            else:
                tuples = miner(truncated, y) if miner else lmu.get_all_pairs_indices(y)
                one, own, theirs = inner(truncated, y, tuples), y, y
            value = value + factor * one
            if dim == EMBEDDING and tuples is not None and case["loss"]["name"] != "margin":
                if len(tuples) == 3:
                    mined = len(tuples[0])
                else:
                    mined = len(tuples[0]) + len(tuples[2])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        out["steps"].append(dict(rows=rows.tolist(), loss=value.item(), mined=mined))
    out["end"] = weights(digits)
    out["proxies_end"] = proxies(digits)
    out["beta_end"] = inner.beta.item() if "beta_rate" in case else None
    return out


def main():
    rng = np.random.default_rng(23)
    labels = np.arange(ROWS) % CLASSES
    features = np.round(rng.normal(size=(CLASSES, FEATURES))[labels] + 0.8 * rng.normal(size=(ROWS, FEATURES)), 4)
    traces = []
    for case in CASES:
        trace, single = run(case, torch.float64, features, labels), run(case, torch.float32, features, labels)
        lost = max(apart(single[key], trace[key]) for key in ("steps", "end", "proxies_end", "beta_end"))
        print(trace["name"], [round(step["loss"], 4) for step in trace["steps"]], [step["mined"] for step in trace["steps"]], f"float32 {lost:.2g}")
        assert lost < 2e-5, "a step comes near a margin: take another seed"
        traces.append(trace)
    out = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in traces)
    shared = f'"features":{json.dumps(text(features), separators=(",", ":"))},\n"labels":{json.dumps(labels.tolist(), separators=(",", ":"))}'
    Path(__file__).with_suffix(".json").write_text(f'{{{shared},\n"traces":[\n{out}\n]}}\n')


if __name__ == "__main__":
    main()
