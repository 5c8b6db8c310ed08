"""Times a training step with Nearfar, with torch and sorted mining, and with PML.

The digits: 64-128-32, batch 64, cross-batch memory of 1,024 rows. With --large 100,000 rows of 50 numbers in 30 classes: 50-128-32,
batch 512, memory of 65,536 rows, Nearfar within 256 MiB; then every embedding is scored, by PML's AccuracyCalculator as well. Both:
semi-hard triplets, margin 0.2, Adam 1e-3. A step's time is the difference of a long and a short run over their difference in steps:
nothing that happens once counts. A peer may take 16 GiB.

usage: python training.py [--large] [--nearfar BINARY] [--engine cpu|gpu] [--runs 3]
"""
import argparse
import dataclasses
import functools
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import knn
import numpy as np
from knn import nearfar

step = functools.partial(knn.step, script=__file__)

MARGIN = 0.2
PEER_BYTES = 16 * 2**30
SCORES = ("precision_at_1", "r_precision", "mean_average_precision_at_r")


@dataclasses.dataclass
class Case:
    """Rows, a recipe, and the steps of the short and of the long runs: the memory is full before those that count. torch and PML begin
    with a full one where it is `filled`, and take two short steps: filling takes them an hour."""

    rows: int
    classes: int
    widths: list
    batch: int
    memory: int
    short: int
    steps: dict
    budget: str
    filled: bool = False

    def data(self):
        """Rows and their classes, as arrays."""
        rng = np.random.default_rng(0)
        labels = rng.integers(self.classes, size=self.rows)
        centres = rng.normal(size=(self.classes, self.widths[0]))
        return (0.5 * centres[labels] + rng.normal(size=(self.rows, self.widths[0]))).astype(np.float32), labels


CASES = {
    "digits": Case(901, 5, [64, 128, 32], 64, 1024, 20, {"nearfar": 3000, "sorted": 600, "pml": 40}, "256MiB"),
    "large": Case(100_000, 30, [50, 128, 32], 512, 65_536, 130, {"nearfar": 180, "sorted": 8, "pml": 3}, "256MiB", True),
}
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


def of_torch(name, case, steps):
    """Runs the recipe; returns the last loss, the unit embeddings of all rows, and their classes."""
    import torch

    torch.manual_seed(0)
    features, labels = (torch.from_numpy(array) for array in case.data())
    [dim, hidden, size], batch_size = case.widths, case.batch
    model = torch.nn.Sequential(torch.nn.Linear(dim, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, size))
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    if name == "pml":
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.losses import CrossBatchMemory, TripletMarginLoss
        from pytorch_metric_learning.miners import TripletMarginMiner

        cosine = {"distance": CosineSimilarity()}
        miner = TripletMarginMiner(MARGIN, "semihard", **cosine)
        xbm = CrossBatchMemory(TripletMarginLoss(MARGIN, **cosine), size, case.memory, miner)
    memory, known, stored = torch.zeros(case.memory, size), torch.zeros(case.memory, dtype=torch.long), 0
    if case.filled:
        first = torch.arange(case.memory)
        memory, known, stored = torch.nn.functional.normalize(model(features[first])).detach(), labels[first], case.memory
        if name == "pml":
            xbm.add_to_memory(memory, known, case.memory)
    for i in range(steps):
        if i % (len(features) // batch_size) == 0:
            batches = torch.randperm(len(features)).split(batch_size)
        batch = batches[i % (len(features) // batch_size)]
        rows, y = model(features[batch]), labels[batch]
        if name == "pml":
            loss = xbm(rows, y)
        else:
            unit = torch.nn.functional.normalize(rows)
            own = torch.arange(stored, stored + batch_size) % case.memory
            memory[own], known[own] = unit.detach(), y
            stored += batch_size
            filled = min(stored, case.memory)
            loss, active = sorted_loss(unit, y, memory[:filled], known[:filled], own)
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


def within(most):
    """Has this process fail, not the machine, where it asks for more bytes."""
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * knn.RSS_BYTES


def failure(error):
    return {"fails": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}


def peer(_, name, which):
    """Milliseconds of a step in this process, and its bytes."""
    case = CASES[which]
    within(PEER_BYTES)
    times = []
    short = 2 if case.filled else case.short
    try:
        of_torch(name, case, 2)
        before = peak()
        for steps in (short, case.steps[name]):
            started = time.perf_counter()
            of_torch(name, case, steps)
            times.append(1e3 * (time.perf_counter() - started))
    except (MemoryError, RuntimeError) as error:
        return failure(error)
    return {"ms": (times[1] - times[0]) / (case.steps[name] - short), "bytes": peak(), "more": peak() - before}


def calculator(folder):
    """Milliseconds of PML's AccuracyCalculator over all rows, with its own settings, its bytes and its scores."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    within(PEER_BYTES)
    data = np.load(folder / "data.npz")
    started = time.perf_counter()
    try:
        scores = AccuracyCalculator(include=SCORES, device=torch.device("cpu")).get_accuracy(data["X"], data["y"])
    except (MemoryError, RuntimeError) as error:
        return failure(error)
    return {"ms": 1e3 * (time.perf_counter() - started), "bytes": peak(), **scores}


def of_nearfar(folder, asked, which):
    case, rows = CASES[which], []
    data = ["--data", "sample:digits"] if which == "digits" else ["--data", f"{folder / 'data.npz'}:X", "--labels", "y"]
    split = {"split": "by-class"} if which == "digits" else {"split": "random", "test_fraction": 0.1}
    for steps in (case.short, case.steps["nearfar"]):
        command = [asked.nearfar, "train", *data, "--engine", asked.engine, "--budget", case.budget, "--json"]
        sets = {**split, "hidden_layers": f"[{case.widths[1]}]", "embedding_size": case.widths[2], "batch_size": case.batch}
        sets |= {"memory_size": case.memory, "steps": steps, "evaluate_every": 100_000, "validation_fraction": 0}
        command += [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        row = nearfar(folder, command, asked.runs)
        if "fails" in row:
            sys.exit(row["fails"])
        rows.append(row)
    ms = (rows[1]["elapsed_ms"] - rows[0]["elapsed_ms"]) / (case.steps["nearfar"] - case.short)
    return {"ms": ms, "bytes": rows[1]["rss_bytes"], "ledger": rows[1]["ledger_peak_bytes"]}


def score(folder, asked, budget):
    """Nearfar's scores of all rows beside PML's."""
    command = [asked.nearfar, "evaluate", "--embeddings", f"{folder / 'data.npz'}:X", "--labels", "y", "--budget", budget]
    command += ["--metrics", ",".join(SCORES), "--engine", asked.engine, "--json"]
    own = nearfar(folder, command, asked.runs)
    if "fails" in own:
        sys.exit(own["fails"])
    scores = {name: own["report"][name] for name in SCORES}
    return {"nearfar": {"ms": own["elapsed_ms"], "bytes": own["rss_bytes"], "ledger": own["ledger_peak_bytes"], **scores}, "pml": step("calculator", folder)}


def line(name, row, own):
    """A row of a table."""
    if "fails" in row:
        return f"| {name} | {row['fails']} | | | |"
    planned = f"{row['ledger'] / 2**20:,.0f}" if "ledger" in row else ""
    return f"| {name} | {row['ms']:,.3g} | {row['ms'] / own['ms']:.1f} | {row['bytes'] / 2**20:,.0f} | {planned} |"


HEAD = "| {} | ms | times Nearfar's | whole process, MiB | held on the engine, MiB |\n|---|--:|--:|--:|--:|"


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nearfar", default=root / "target/release/nearfar", type=Path)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        name, folder, *rest = asked.step
        steps = {"peer": peer, "calculator": calculator, "agree": lambda _: agree()}
        print(json.dumps(steps[name](Path(folder), *rest)))
        return 0
    before = os.getloadavg()[0]
    which = "large" if asked.large else "digits"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        features, labels = CASES[which].data()
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        np.savez(folder / "data.npz", X=unit, y=labels)
        off = step("agree", folder)
        rows = {"nearfar": of_nearfar(folder, asked, which)}
        for name in ("sorted", "pml"):
            rows[name] = step("peer", folder, name, which)
        scores = score(folder, asked, CASES[which].budget) if asked.large else {}
    print(HEAD.format("a step"))
    for name, row in rows.items():
        print(line(NAMES[name].format(asked.engine), row, rows["nearfar"]))
    if scores:
        print("\n" + HEAD.format("all rows scored"))
        for name, row in scores.items():
            print(line({"nearfar": "Nearfar", "pml": "PML's AccuracyCalculator"}[name], row, scores["nearfar"]))
            print(*[f"{name} {row[name]:.6f}" for name in SCORES if name in row])
    print(f"\n{platform.system()} {platform.machine()}, {os.cpu_count()} cores; Nearfar's medians of {asked.runs} runs;")
    print(f"torch's sorted loss is off PML's by {off['loss']:.0e}, its gradient by {off['gradient']:.0e} of its length;")
    print(f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}.")
    return 1 if off["loss"] > 1e-5 or off["gradient"] > 1e-4 else 0


if __name__ == "__main__":
    sys.exit(main())
