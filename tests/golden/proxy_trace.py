"""Writes proxy_trace.json: ten training steps as torch and pytorch-metric-learning take them, with losses that learn proxies
and with losses of pairs, some of whose rows a miner weighs, and some of which learn their boundary.

All traces share the features and labels. Each is a small model with its first weights and proxies, the rows of every batch,
and after every step the loss and how many pairs were given to it; at the end the weights and proxies. Adam has one rate for
the model and another for the proxies or the boundary. The proxies stand class by class and within a class centre by centre, whatever order
PML keeps them in. All in float64.

Prints how near any step comes to a margin, to where ArcFace bends or to where ReLU does, all of them 1e-5 or more, and how far
the same steps in float32 end from these.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python proxy_trace.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu
from torch.optim import lr_scheduler

STEPS, ROWS, FEATURES, HIDDEN, EMBEDDING, BATCH, CLASSES = 10, 80, 20, 16, 8, 16, 5
RATE = 0.01
CASES = [
    dict(name="arc-face", loss=dict(name="arc-face", margin=28.6, scale=64.0), proxy_rate=0.05, seed=1),
    dict(name="proxy-anchor", loss=dict(name="proxy-anchor", margin=0.1, alpha=32.0), proxy_rate=0.1, seed=2),
    dict(name="soft-triple", loss=dict(name="soft-triple", centers_per_class=3, la=20.0, gamma=0.1, margin=0.01), proxy_rate=0.03, seed=23),
    dict(name="contrastive", loss=dict(name="contrastive", pos_margin=1.0, neg_margin=0.0), seed=4),
    dict(name="sup-con", loss=dict(name="sup-con", temperature=0.1), seed=15),
    dict(name="multi-similarity, mined", loss=dict(name="multi-similarity", alpha=2.0, beta=50.0, base=0.5), miner=dict(name="multi-similarity", epsilon=0.1), seed=16),
    dict(name="arc-face, weighed", loss=dict(name="arc-face", margin=28.6, scale=64.0), proxy_rate=0.05, miner=dict(name="multi-similarity", epsilon=0.1), seed=31),
    dict(name="proxy-anchor, weighed", loss=dict(name="proxy-anchor", margin=0.1, alpha=32.0), proxy_rate=0.1, miner=dict(name="multi-similarity", epsilon=0.1), seed=32),
    dict(name="nca, weighed", loss=dict(name="nca", softmax_scale=4.0), miner=dict(name="multi-similarity", epsilon=0.1), seed=33),
    dict(name="margin, boundary learned", loss=dict(name="margin", margin=0.2, beta=0.4, learn_beta=True), beta_rate=0.02, seed=35),
    dict(name="margin, memory, boundary learned", loss=dict(name="margin", margin=0.1, beta=0.3, learn_beta=True), beta_rate=0.03, memory=48, seed=36),
    dict(name="margin, boundary learned and pulled", loss=dict(name="margin", margin=0.2, beta=0.4, learn_beta=True, nu=0.3), beta_rate=0.02, seed=37),
    dict(name="margin, by distance, boundary learned and pulled", loss=dict(name="margin", margin=0.2, beta=1.2, learn_beta=True, nu=0.3), distance="l2", beta_rate=0.02, seed=38),
    dict(name="sup-con, memory", loss=dict(name="sup-con", temperature=0.1), memory=48, seed=7),
    dict(name="contrastive, memory that goes round", loss=dict(name="contrastive", pos_margin=1.0, neg_margin=0.0), memory=40, seed=18),
    dict(name="sup-con, six hidden layers", loss=dict(name="sup-con", temperature=0.1), hidden=[16, 12, 9, 14, 12, 10], seed=57),
]
# What makes the loss, and its parameter.
LOSSES = {
    "arc-face": (losses.ArcFaceLoss, "W"),
    "proxy-anchor": (losses.ProxyAnchorLoss, "proxies"),
    "soft-triple": (losses.SoftTripleLoss, "fc"),
    "contrastive": (losses.ContrastiveLoss, None),
    "sup-con": (losses.SupConLoss, None),
    "multi-similarity": (losses.MultiSimilarityLoss, None),
    "nca": (losses.NCALoss, None),
    "margin": (losses.MarginLoss, None),
}
DISTANCES = dict(cosine=distances.CosineSimilarity, l2=distances.LpDistance)


ACTIVATIONS = dict(relu=torch.nn.ReLU, gelu=torch.nn.GELU)
NORMS = {"layer-norm": torch.nn.LayerNorm, "batch-norm": torch.nn.BatchNorm1d}
OPTIMIZERS = dict(adam=torch.optim.Adam, adamw=torch.optim.AdamW, sgd=torch.optim.SGD)
# Those that end with the run get its steps, as torch names them.
SCHEDULES = {
    "constant": lambda optimizer, case: None,
    "cosine-annealing": lambda optimizer, case: lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS, **of(case)),
    "one-cycle": lambda optimizer, case: lr_scheduler.OneCycleLR(optimizer, [g["lr"] for g in optimizer.param_groups], total_steps=STEPS, **of(case)),
    "linear": lambda optimizer, case: lr_scheduler.LinearLR(optimizer, **of(case)),
    "step": lambda optimizer, case: lr_scheduler.StepLR(optimizer, **of(case)),
}


def of(part):
    """The arguments of a part of the settings."""
    return {key: value for key, value in part.items() if key != "name"}


def text(rows):
    return [round(float(v), 4) for v in rows.flatten()]


def digits(rows):
    return [float(f"{v:.9g}") for v in rows.flatten()]


def of_the_miner(case, embedded, labels):
    """How near it comes to its epsilon."""
    s = distances.CosineSimilarity()(embedded)
    a, p, b, n = lmu.get_all_pairs_indices(labels)
    low = torch.full((len(s),), 2.0, dtype=s.dtype).scatter_reduce(0, a, s[a, p], "amin")
    high = torch.full((len(s),), -2.0, dtype=s.dtype).scatter_reduce(0, b, s[b, n], "amax")
    epsilon = case["miner"]["epsilon"]
    return min((s[a, p] - epsilon - high[a]).abs().min(), (s[b, n] + epsilon - low[b]).abs().min())


def nearest(case, loss, embedded, pairs, known, labels):
    """How near the rows of a batch come to where the loss or the miner decides otherwise."""
    name = case["loss"]["name"]
    if "miner" in case:
        return of_the_miner(case, embedded, labels)
    if name == "arc-face":
        angles = loss.get_cosine(embedded)[range(len(labels)), labels].acos()
        return (angles - (np.pi - loss.margin)).abs().min()
    if LOSSES[name][1]:
        return torch.tensor(np.inf)
    s = distances.CosineSimilarity()(embedded, known)
    a, p, b, n = pairs
    if name == "contrastive":
        return min((s[a, p] - loss.pos_margin).abs().min(), (s[b, n] - loss.neg_margin).abs().min())
    if name == "margin":
        beta, margin = loss.beta.detach(), loss.margin
        if "distance" in case:
            s, beta = -distances.LpDistance()(embedded, known), -beta
        return min((beta - s[a, p] + margin).abs().min(), (s[b, n] - beta + margin).abs().min())
    # A row's loss is 0 only where its one positive is all it sees.
    own = loss.compute_loss(embedded, labels, pairs, known, None)["loss"]["losses"]
    return own[a.unique()].min()


class WithSkip(torch.nn.Sequential):
    """Layers, and after them a linear map of the input, which is added to their output."""

    def forward(self, rows):
        *layers, skip = self
        return torch.nn.Sequential(*layers)(rows) + skip(rows)


def run(case, dtype, features, labels):
    torch.set_default_dtype(dtype)
    rng = np.random.default_rng(case["seed"])
    torch.manual_seed(case["seed"])
    widths = [FEATURES, *case.get("hidden", [HIDDEN]), EMBEDDING]
    layers = [torch.nn.Linear(*pair) for pair in zip(widths, widths[1:])]
    parts = case.get("layers", {})
    activation = ACTIVATIONS[parts.get("activation", "relu")]
    normalizers = [NORMS[parts["norm"]](width) if parts.get("norm") else None for width in widths[1:-1]]
    hidden = [[layer, *filter(None, [norm]), activation()] for layer, norm in zip(layers, normalizers)]
    net = torch.nn.Sequential(*[module for modules in hidden for module in modules], layers[-1])
    if parts.get("skip"):
        net = WithSkip(*net)
        net.add_module("skip", torch.nn.Linear(FEATURES, EMBEDDING, bias=False))
    with torch.no_grad():
        for parameter in net.parameters():
            bound = parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 0.2
            parameter.copy_(torch.tensor(np.round(rng.uniform(-bound, bound, parameter.shape), 4)))
        for norm in filter(None, normalizers):
            norm.weight += 1
    norm_of = lambda norm, shown: {} if norm is None else dict(
        norm={name: shown(value.detach()) for name, value in norm.state_dict().items() if value.ndim}
    )
    weights = lambda shown: [
        dict(index=list(net).index(m), shape=list(m.weight.shape), weight=shown(m.weight.detach()), bias=shown(m.bias.detach()), **norm_of(norm, shown))
        for m, norm in zip(layers, [*normalizers, None])
    ]
    skip = lambda shown: dict(skip=shown(net.skip.weight.detach())) if parts.get("skip") else {}
    kind, parameter = LOSSES[case["loss"]["name"]]
    arguments = {key: value for key, value in case["loss"].items() if key != "name"}
    if parameter:
        arguments.update(num_classes=CLASSES, embedding_size=EMBEDDING)
    inner = loss = kind(**arguments, distance=DISTANCES[case.get("distance", "cosine")]())
    groups = [dict(params=net.parameters(), lr=case.get("rate", RATE))]
    learned = getattr(inner, parameter) if parameter else None
    proxies = lambda shown: None if learned is None else shown((learned if parameter == "proxies" else learned.T).detach())
    if parameter:
        first = np.round(rng.normal(size=(CLASSES * case["loss"].get("centers_per_class", 1), EMBEDDING)), 4)
        with torch.no_grad():
            learned.copy_(torch.tensor(first if parameter == "proxies" else first.T))
        groups.append(dict(params=[learned], lr=case["proxy_rate"]))
    if "beta_rate" in case:
        groups.append(dict(params=[inner.beta], lr=case["beta_rate"]))
    miner = "miner" in case and miners.MultiSimilarityMiner(case["miner"]["epsilon"])
    if "memory" in case:
        loss = losses.CrossBatchMemory(loss, EMBEDDING, case["memory"])
    if "beta_rate" in case:
        groups[-1]["weight_decay"] = 0.0
    optimizer = OPTIMIZERS[case["optimizer"]["name"]](groups, **of(case["optimizer"])) if "optimizer" in case else torch.optim.Adam(groups)
    schedule = SCHEDULES[case["schedule"]["name"]](optimizer, case["schedule"]) if "schedule" in case else None
    out = dict(
        name=case["name"],
        loss=case["loss"],
        miner=case.get("miner"),
        distance=case.get("distance", "cosine"),
        hidden=case.get("hidden", [HIDDEN]),
        embedding=EMBEDDING,
        batch=BATCH,
        memory=case.get("memory", 0),
        rate=case.get("rate", RATE),
        proxy_rate=case.get("proxy_rate"),
        beta_rate=case.get("beta_rate"),
        weighed="weighed" in case["name"],
        start=[*weights(text)[:-1], weights(text)[-1] | skip(text)],
        proxies_start=proxies(text),
        steps=[],
    )
    out.update({key: case[key] for key in ("optimizer", "schedule", "clip_grad_norm", "layers") if key in case})
    near, norms = [], []
    compute = inner.compute_loss
    for _ in range(STEPS):
        rows = rng.choice(ROWS, BATCH, replace=False)
        x, y = torch.tensor(features[rows], dtype=dtype), torch.tensor(labels[rows])
        embedded = net(x)
        pairs = None

        def watch(embeddings, labels, indices_tuple, ref_emb, ref_labels):
            nonlocal pairs
            pairs = lmu.convert_to_pairs(indices_tuple, labels, ref_labels)
            inner.compute_loss = compute
            with torch.no_grad():
                near.append(nearest(case, inner, embeddings, pairs, ref_emb, labels).item())
            return compute(embeddings, labels, indices_tuple, ref_emb, ref_labels)

        inner.compute_loss = watch
        value = loss(embedded, y, miner(embedded, y)) if miner else loss(embedded, y)
        bends = [i for i, module in enumerate(net) if isinstance(module, torch.nn.ReLU)]
        # Not of a copy of batch norm, whose running means every pass moves.
        through, at_bends = x, []
        for i, module in enumerate(layer for name, layer in net.named_children() if name != "skip"):
            if i in bends:
                at_bends.append(through.abs().min().item())
            if isinstance(module, torch.nn.BatchNorm1d):
                through = torch.nn.functional.batch_norm(through, None, None, module.weight, module.bias, training=True)
            else:
                through = module(through)
        near.append(min(at_bends, default=np.inf))
        optimizer.zero_grad()
        value.backward()
        if "clip_grad_norm" in case:
            learned_too = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            norms.append(torch.nn.utils.clip_grad_norm_(learned_too, case["clip_grad_norm"]).item())
        optimizer.step()
        if schedule and len(out["steps"]) < STEPS - 1:
            schedule.step()
        mined = None if parameter or case["loss"]["name"] in ("nca", "margin") else len(pairs[0]) + len(pairs[2])
        out["steps"].append(dict(rows=rows.tolist(), loss=value.item(), mined=mined))
    out["end"] = [*weights(digits)[:-1], weights(digits)[-1] | skip(digits)]
    out["proxies_end"] = proxies(digits)
    out["beta_end"] = inner.beta.item() if "beta_rate" in case else None
    if norms:
        print(f"    {case['name']}: gradients measure {min(norms):.3g} to {max(norms):.3g}, clipped at {case['clip_grad_norm']}")
    return out, min(near[::2]), min(near[1::2])


def apart(one, other):
    """The largest difference of any two numbers that stand at the same place."""
    if isinstance(one, (dict, list)):
        keys = one if isinstance(one, dict) else range(len(one))
        return max((apart(one[key], other[key]) for key in keys), default=0.0)
    return abs(one - other) if isinstance(one, (int, float)) else 0.0


def write(cases, path):
    """Runs all cases, checks that none is near a decision, and writes them."""
    rng = np.random.default_rng(23)
    labels = np.arange(ROWS) % CLASSES
    features = np.round(rng.normal(size=(CLASSES, FEATURES))[labels] + 0.8 * rng.normal(size=(ROWS, FEATURES)), 4)
    traces = []
    for case in cases:
        trace, decision, relu = run(case, torch.float64, features, labels)
        single, _, _ = run(case, torch.float32, features, labels)
        lost = max(apart(single[key], trace[key]) for key in ("steps", "end", "proxies_end", "beta_end"))
        print(trace["name"], [round(s["loss"], 4) for s in trace["steps"]], [s["mined"] for s in trace["steps"]])
        print(f"    margin {decision:.2g}, ReLU {relu:.2g}, float32 {lost:.2g}")
        assert min(decision, relu) >= 1e-5
        traces.append(trace)
    out = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in traces)
    shared = f'"features":{json.dumps(text(features), separators=(",", ":"))},\n"labels":{json.dumps(labels.tolist(), separators=(",", ":"))}'
    path.write_text(f'{{{shared},\n"traces":[\n{out}\n]}}\n')


if __name__ == "__main__":
    write(CASES, Path(__file__).with_suffix(".json"))
