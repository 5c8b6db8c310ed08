"""Times a training step of the digits recipe with Nearfar, with torch and sorted mining, and with PML.

The recipe: 64-128-32, batch 64, cross-batch memory of 1,024 rows, semi-hard triplets, margin 0.2, Adam 1e-3. A step's time is
the difference of a long and a short run over their difference in steps: nothing that happens once counts.

usage: python training.py [--nearfar BINARY] [--engine cpu|gpu] [--runs 3]
"""
import argparse
import functools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import knn
from knn import nearfar

step = functools.partial(knn.step, script=__file__)

WIDTHS = [64, 128, 32]
BATCH = 64
MEMORY = 1024
MARGIN = 0.2
# Both fill the memory before their last steps.
SHORT = 20
STEPS = {"nearfar": 3000, "sorted": 600, "pml": 40}
NAMES = {"nearfar": "Nearfar, {}", "sorted": "torch, sorted mining", "pml": "torch, PML's XBM and miner"}


def sorted_loss(unit, labels, memory, known, own):
    """The mean over active semi-hard triplets: each positive's negatives are one stretch of the sorted ones."""
    import torch

    similarities = unit @ memory.T
    s = similarities.detach()
    same = labels[:, None] == known
    positive = same.clone()
    positive[torch.arange(len(labels)), own] = False
    s_an, order = s.masked_fill(same, torch.inf).sort()
    low, high = torch.searchsorted(s_an, s - MARGIN, right=True), torch.searchsorted(s_an, s)
    count = (high - low) * positive
    steps = torch.zeros(len(s), len(known) + 1)
    steps.scatter_add_(1, low, positive.float())
    steps.scatter_add_(1, high, -positive.float())
    weights = torch.zeros_like(s).scatter_(1, order, steps.cumsum(1)[:, :-1]) - count
    active = count.sum()
    return (weights * similarities).sum() / active + MARGIN, active


def of_torch(name, steps):
    """Runs the recipe on rows like those of the digits; its last loss."""
    import torch

    torch.manual_seed(0)
    features = torch.randint(17, (901, WIDTHS[0])).float() / 16
    labels = torch.randint(5, (len(features),))
    layers = [torch.nn.Linear(WIDTHS[0], WIDTHS[1]), torch.nn.ReLU(), torch.nn.Linear(WIDTHS[1], WIDTHS[2])]
    model = torch.nn.Sequential(*layers)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    if name == "pml":
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.losses import CrossBatchMemory, TripletMarginLoss
        from pytorch_metric_learning.miners import TripletMarginMiner

        cosine = {"distance": CosineSimilarity()}
        miner = TripletMarginMiner(MARGIN, "semihard", **cosine)
        xbm = CrossBatchMemory(TripletMarginLoss(MARGIN, **cosine), WIDTHS[2], MEMORY, miner)
    memory, known, stored = torch.zeros(MEMORY, WIDTHS[2]), torch.zeros(MEMORY, dtype=torch.long), 0
    for i in range(steps):
        if i % (len(features) // BATCH) == 0:
            batches = torch.randperm(len(features)).split(BATCH)
        batch = batches[i % (len(features) // BATCH)]
        rows, y = model(features[batch]), labels[batch]
        if name == "pml":
            loss = xbm(rows, y)
        else:
            unit = torch.nn.functional.normalize(rows)
            own = torch.arange(stored, stored + BATCH) % MEMORY
            memory[own], known[own] = unit.detach(), y
            stored += BATCH
            size = min(stored, MEMORY)
            loss, active = sorted_loss(unit, y, memory[:size], known[:size], own)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


def agree():
    """How far the sorted loss and its gradient are from PML's on one batch."""
    import torch
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import CrossBatchMemory, TripletMarginLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    torch.manual_seed(1)
    cosine = {"distance": CosineSimilarity()}
    xbm = CrossBatchMemory(TripletMarginLoss(MARGIN, **cosine), 8, 96, TripletMarginMiner(MARGIN, "semihard", **cosine))
    before, labels = torch.randn(96, 8), torch.randint(4, (96,))
    xbm.add_to_memory(before, labels, 96)
    losses, gradients = [], []
    for of in ("pml", "sorted"):
        rows, y = torch.randn(32, 8, generator=torch.Generator().manual_seed(2)).requires_grad_(), labels[:32]
        if of == "pml":
            loss = xbm(rows, y)
        else:
            unit, own = torch.nn.functional.normalize(rows), torch.arange(32)
            memory = torch.nn.functional.normalize(torch.cat([rows.detach(), before[32:]]))
            loss, _ = sorted_loss(unit, y, memory, labels, own)
        loss.backward()
        losses.append(loss.item())
        gradients.append(rows.grad)
    off = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    return {"loss": abs(losses[0] - losses[1]), "gradient": off.item()}


def peer(folder, name):
    """Milliseconds of a step, in this process."""
    of_torch(name, 20)
    times = []
    for steps in (SHORT, STEPS[name]):
        started = time.perf_counter()
        of_torch(name, steps)
        times.append(1e3 * (time.perf_counter() - started))
    return (times[1] - times[0]) / (STEPS[name] - SHORT)


def of_nearfar(folder, asked):
    elapsed = []
    for steps in (SHORT, STEPS["nearfar"]):
        command = [asked.nearfar, "train", "--data", "sample:digits", "--engine", asked.engine, "--json"]
        sets = {"split": "by-class", "hidden_layers": "[128]", "embedding_size": 32, "batch_size": BATCH}
        sets |= {"memory_size": MEMORY, "steps": steps, "evaluate_every": 100_000, "validation_fraction": 0}
        command += [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        row = nearfar(folder, command, asked.runs)
        if "fails" in row:
            sys.exit(row["fails"])
        elapsed.append(row["elapsed_ms"])
    return (elapsed[1] - elapsed[0]) / (STEPS["nearfar"] - SHORT)


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nearfar", default=root / "target/release/nearfar", type=Path)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        name, folder, *rest = asked.step
        steps = {"peer": peer, "agree": lambda _: agree()}
        print(json.dumps(steps[name](Path(folder), *rest)))
        return 0
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        off = step("agree", folder)
        times = {"nearfar": of_nearfar(folder, asked)}
        for name in ("sorted", "pml"):
            times[name] = statistics.median(step("peer", folder, name) for _ in range(1 if name == "pml" else asked.runs))
    print("| peer | ms a step | times Nearfar's |\n|---|--:|--:|")
    for name, ms in times.items():
        print(f"| {NAMES[name].format(asked.engine)} | {ms:.3g} | {ms / times['nearfar']:.1f} |")
    print(f"\n{platform.system()} {platform.machine()}, {os.cpu_count()} cores; medians of {asked.runs} runs, of PML one;")
    print(f"torch's sorted loss is off PML's by {off['loss']:.0e}, its gradient by {off['gradient']:.0e} of its length;")
    print(f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}.")
    return 1 if off["loss"] > 1e-5 or off["gradient"] > 1e-4 else 0


if __name__ == "__main__":
    sys.exit(main())
