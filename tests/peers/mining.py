"""Mines the same rows with Nearfar, PML and two sorted torch versions, and prints time, memory and equality of each.

Every peer runs in a process of its own, which may take 16 GiB. All are compared with f64.

Lists are written to one window that is used again and summed up there; PML's are summed up after its time is taken. Equal
sums are equal lists, in equal order.

usage: python mining.py [--nearfar BINARY] [--engine cpu|gpu] [--runs 3] [--counts 21x10000x100 ..] [--losses 64x4096x10 ..]
                        [--lists 21x10000x100 ..]
       python mining.py --plant         whether the comparison with f64 rejects wrong counts, losses and gradients
"""
import argparse
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
from knn import nearfar, peak_rss

step = functools.partial(knn.step, script=__file__)

# Anchors, references, classes. The first three are the shapes that PML's own release note names.
COUNTS = ["21x10000x100", "512x2000x100", "1000x1000x100", "64x65536x100"]
LISTS = COUNTS[:3]
LOSSES = ["64x4096x10", "64x4096x100", "64x16384x10", "64x16384x100", "64x65536x10", "64x65536x100"]
DIM = 128
MARGIN = 0.2
LIMIT = 16 * 2**30
# How far f32 may move s_ap - s_an.
NEAR = 1e-6
NAMES = {"nearfar": "Nearfar, {}", "pml": "PML", "pml-loop": "PML, loop", "sorted": "sorted torch"}
NAMES |= {"at-once": "sorted torch, anchors at once"}


def rows(folder, n, m, classes, exact=False):
    """Writes random rows with random labels; with `exact` such as every f32 product has the same sum of."""
    import numpy as np

    rng = np.random.default_rng([n, m, classes])
    for name, count in (("anchors", n), ("references", m)):
        x = rng.normal(size=(count, DIM))
        if exact:
            x = np.sign(x) * (np.arange(DIM) < 64)
        np.save(folder / f"{name}.npy", (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("f4"))
        np.save(folder / f"{name}_labels.npy", rng.integers(classes, size=count))


def load(folder):
    import numpy as np

    names = ["anchors", "references", "anchors_labels", "references_labels"]
    return [np.load(folder / f"{name}.npy") for name in names]


def of_torch(name, what):
    """What mines semi-hard triplets of tensors: a function that gives their count, the loss and the gradient."""
    import torch

    def through(anchors):
        return torch.nn.functional.normalize(anchors.detach().requires_grad_(what == "loss"))

    def pml(anchors, references, labels, known):
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.losses import TripletMarginLoss
        from pytorch_metric_learning.miners import TripletMarginMiner

        miner = TripletMarginMiner(MARGIN, "semihard", distance=CosineSimilarity())
        if what == "counts":
            return len(miner(anchors, labels, references, known)[0]), None, None
        anchors = anchors.detach().requires_grad_()
        mined = miner(anchors, labels, references, known)
        loss = TripletMarginLoss(MARGIN, distance=CosineSimilarity())(anchors, labels, mined, references, known)
        loss.backward()
        return len(mined[0]), loss.item(), anchors.grad

    def by_sorting(anchors, references, labels, known):
        """Each positive's semi-hard negatives are one stretch of the sorted ones."""
        unit, known_unit = (torch.nn.functional.normalize(rows) for rows in (anchors, references))
        similarities = unit @ known_unit.T
        weights = torch.zeros_like(similarities) if what == "loss" else None
        mined, active, total = 0, 0, 0.0
        for i, label in enumerate(labels):
            own = known == label
            s_ap = similarities[i, own]
            s_an, order = similarities[i, ~own].sort()
            low, high = torch.searchsorted(s_an, s_ap - MARGIN), torch.searchsorted(s_an, s_ap)
            mined += (high - low).sum()
            if what == "counts":
                continue
            low = torch.maximum(low, torch.searchsorted(s_an, s_ap - MARGIN, right=True))
            count = high - low
            sums = torch.nn.functional.pad(s_an.double().cumsum(0), (1, 0))
            total += (sums[high] - sums[low] - count * s_ap).sum()
            active += count.sum()
            steps = torch.zeros(len(s_an) + 1)
            steps.index_add_(0, low, torch.ones(len(low)))
            steps.index_add_(0, high, -torch.ones(len(high)))
            row = torch.empty(len(s_an))
            row[order] = steps.cumsum(0)[:-1]
            weights[i, ~own] = row
            weights[i, own] = -count.float()
        if what == "counts":
            return int(mined), None, None
        pull = weights @ known_unit / active
        along = (pull * unit).sum(1, keepdim=True)
        gradient = (pull - unit * along) / anchors.norm(dim=1, keepdim=True)
        return int(mined), float(total / active + MARGIN), gradient

    def at_once(anchors, references, labels, known):
        """The same for all anchors together; of the positives there are as many as the most have, the others count nothing."""
        pad, normalize = torch.nn.functional.pad, torch.nn.functional.normalize
        unit, known_unit = normalize(anchors), normalize(references)
        s, order = (unit @ known_unit.T).sort()
        own = labels[:, None] == known[order]
        of_row = own.sum(1)
        there = torch.arange(int(of_row.max())) < of_row[:, None]
        s_ap = torch.full(there.shape, torch.nan)
        s_ap[there] = s[own]
        before = pad((~own).cumsum(1, dtype=torch.int32), (1, 0))

        def place(values, right=False):
            return torch.where(there, torch.searchsorted(s, values, right=right), 0)

        low, high = place(s_ap - MARGIN), place(s_ap)
        mined = (before.gather(1, high) - before.gather(1, low)).sum()
        if what == "counts":
            return int(mined), None, None
        low = torch.maximum(low, place(s_ap - MARGIN, right=True))
        count = before.gather(1, high) - before.gather(1, low)
        sums = pad((s.double() * ~own).cumsum(1), (1, 0))
        total = (sums.gather(1, high) - sums.gather(1, low) - torch.where(there, count * s_ap, 0)).sum()
        active = count.sum()
        steps = torch.zeros(len(s), s.shape[1] + 1)
        steps.scatter_add_(1, low, there.float())
        steps.scatter_add_(1, high, -there.float())
        sorted_weights = steps.cumsum(1)[:, :-1]
        sorted_weights[own] = -count[there].float()
        weights = torch.empty_like(s).scatter_(1, order, sorted_weights)
        pull = weights @ known_unit / active
        along = (pull * unit).sum(1, keepdim=True)
        gradient = (pull - unit * along) / anchors.norm(dim=1, keepdim=True)
        return int(mined), float(total / active + MARGIN), gradient

    return {"pml": pml, "sorted": by_sorting, "at-once": at_once}[name]


def lister(name, what):
    """What lists triplets with PML: a function that gives three index tensors."""
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.miners import TripletMarginMiner
    from pytorch_metric_learning.utils import loss_and_miner_utils as utils

    if what == "mined":
        return TripletMarginMiner(MARGIN, "semihard", distance=CosineSimilarity())

    def valid(anchors, labels, references, known):
        matches, others = utils.get_matches_and_diffs(labels, known)
        if name == "pml-loop":
            return utils.get_all_triplets_indices_loop_method(labels, matches, others)
        return utils.get_all_triplets_indices_vectorized_method(matches, others)

    return valid


def checksum(triplets):
    """Nearfar's number for a list: it changes with every triplet and with its place."""
    import numpy as np

    total = np.uint32(0)
    for first in range(0, len(triplets[0]), 1 << 20):
        a, p, n = (column[first : first + (1 << 20)].numpy().astype("u4") for column in triplets)
        place = np.arange(first, first + len(a), dtype="u4")
        terms = a * np.uint32(0x9E3779B1) + p * np.uint32(0x85EBCA77) + n * np.uint32(0xC2B2AE3D)
        total += np.sum(terms * (2 * place + 1), dtype="u4")
    return int(total)


def listing(folder, name, what, runs):
    """One peer's lists, in this process; the first is a warm-up."""
    import torch

    anchors, references, labels, known = map(torch.from_numpy, load(folder))
    of = lister(name, what)
    of(anchors[:4], labels[:4], references[:64], known[:64])
    before, times = peak_rss(), []
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    try:
        for _ in range(runs):
            started = time.perf_counter()
            triplets = of(anchors, labels, references, known)
            times.append(1e3 * (time.perf_counter() - started))
    except (RuntimeError, MemoryError) as error:
        return {"fails": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    memory = peak_rss() - before
    found = {"mined": len(triplets[0]), "checksum": checksum(triplets)}
    return {"elapsed_ms": statistics.median(times), "memory_bytes": memory} | found


def peer(folder, name, what, runs):
    """One peer's runs, in this process; the first is a warm-up."""
    import numpy as np
    import torch

    anchors, references, labels, known = map(torch.from_numpy, load(folder))
    mine = of_torch(name, what)
    mine(anchors[:4], references[:64], labels[:4], known[:64])
    before = peak_rss()
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    times = []
    try:
        for _ in range(runs):
            started = time.perf_counter()
            mined, loss, gradient = mine(anchors, references, labels, known)
            times.append(1e3 * (time.perf_counter() - started))
    except (RuntimeError, MemoryError) as error:
        return {"fails": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    if gradient is not None:
        np.save(folder / "gradient.npy", gradient.numpy())
    memory = peak_rss() - before
    return {"elapsed_ms": statistics.median(times), "memory_bytes": memory, "mined": mined, "loss": loss}


def exact(folder, what):
    """The same in f64, and how many triplets lie so near a bound that f32 may tell otherwise."""
    import numpy as np

    anchors, references, labels, known = load(folder)
    anchors, references = anchors.astype("f8"), references.astype("f8")
    lengths = np.linalg.norm(anchors, axis=1, keepdims=True)
    unit = anchors / lengths
    known_unit = references / np.linalg.norm(references, axis=1, keepdims=True)
    mined = near = 0
    total, weights = 0.0, np.zeros((len(anchors), len(references))) if what == "loss" else None
    for i, label in enumerate(labels):
        similarities, own = known_unit @ unit[i], known == label
        s_ap, order = similarities[own], np.argsort(similarities[~own])
        s_an = similarities[~own][order]
        low, high = np.searchsorted(s_an, s_ap - MARGIN), np.searchsorted(s_an, s_ap)
        for bound in (0, MARGIN):
            ends = [np.searchsorted(s_an, s_ap - bound + side) for side in (-NEAR, NEAR)]
            near += int((ends[1] - ends[0]).sum())
        mined += int((high - low).sum())
        if what == "loss":
            sums = np.concatenate([[0], s_an.cumsum()])
            total += (sums[high] - sums[low] - (high - low) * s_ap).sum()
            steps = np.zeros(len(s_an) + 1)
            np.add.at(steps, low, 1)
            np.add.at(steps, high, -1)
            weights[i, np.flatnonzero(~own)[order]] = steps.cumsum()[:-1]
            weights[i, own] = low - high
    found = {"mined": mined, "near": near}
    if what == "loss":
        pull = weights @ known_unit / mined
        gradient = (pull - unit * (pull * unit).sum(1, keepdims=True)) / lengths
        np.save(folder / "exact.npy", gradient)
        found["loss"] = total / mined + MARGIN
    return found


def differs(exact, found, gradient, expected):
    """What of a peer's result is not that of f64."""
    import numpy as np

    wrong = []
    if abs(found["mined"] - exact["mined"]) > exact["near"]:
        wrong.append(f"mined by {found['mined'] - exact['mined']}")
    if "loss" in exact and abs(found["loss"] - exact["loss"]) > 1e-5:
        wrong.append(f"loss by {found['loss'] - exact['loss']:.1e}")
    if gradient is not None:
        error = np.linalg.norm(gradient - expected) / np.linalg.norm(expected)
        if error > 1e-4:
            wrong.append(f"gradient by {error:.1e} of its length")
    return wrong


def check(folder, what, exact, found):
    import numpy as np

    if what == "counts":
        return differs(exact, found, None, None)
    return differs(exact, found, np.load(folder / "gradient.npy"), np.load(folder / "exact.npy"))


def plant():
    """Plants faults in what f64 says; each must be told."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        rows(folder, 20, 300, 5)
        right = exact(folder, "loss")
        gradient = np.load(folder / "exact.npy")
    missed = ["none planted"] if differs(right, right, gradient, gradient) else []
    for fault in range(20):
        found, moved = dict(right), gradient.copy()
        if fault % 4 == 0:
            found["mined"] += right["near"] + 1 + fault
        elif fault % 4 == 1:
            found["loss"] += 1.1e-5 * (-1) ** fault
        elif fault % 4 == 2:
            moved[fault] *= 1.01
        else:
            moved[[fault, fault - 1]] = moved[[fault - 1, fault]]
        if len(differs(right, found, moved, gradient)) != 1:
            missed.append(f"fault {fault}")
    print(f"{20 - len(missed)} of 20 planted faults rejected" + "".join(f"; missed: {name}" for name in missed))
    return 1 if missed else 0


def of_nearfar(folder, asked, what):
    command = [asked.nearfar, "loss" if what == "loss" else "mine", "--engine", asked.engine, "--json"]
    command += ["--embeddings", folder / "anchors.npy", "--labels", folder / "anchors_labels.npy"]
    command += ["--references", folder / "references.npy", "--reference-labels", folder / "references_labels.npy"]
    if what in ("valid", "mined"):
        command += ["--checksum", "--miner", "none"] if what == "valid" else ["--checksum", "--set", f"margin={MARGIN}"]
    elif what == "counts":
        command += ["--set", f"margin={MARGIN}"]
    else:
        command += ["--miner", "triplet-margin", "--set", f"margin={MARGIN}", "--set", f"miner.margin={MARGIN}"]
        command += ["--gradient", folder / "gradient.npy"]
    row = nearfar(folder, command, asked.runs)
    if "report" in row:
        report = row.pop("report")
        if "checksum" in report:
            return row | {"mined": report["triplets"], "checksum": report["checksum"]}
        row |= {"mined": report["mining"]["mined"], "loss": report.get("loss"), "pml_bytes": report["pml_bytes"]}
    return row


def table(rows):
    head = ["anchors x references, classes", "what", "peer", "time, ms", "memory, MiB", "of it planned, MiB", "mined"]
    head += ["differs from f64"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|---|" + "--:|" * 4 + "---|"]
    for row in rows:
        n, m, classes = row["size"]
        cells = [f"{n:,} x {m:,}, {classes}", row["what"], row["peer"]]
        if "fails" in row:
            cells += [f"fails: {row['fails']}"] + [""] * 4
        else:
            planned = row.get("ledger_peak_bytes")
            cells += [f"{row['elapsed_ms']:,.1f}", f"{row['memory_bytes'] / 2**20:,.0f}"]
            cells += [f"{planned / 2**20:,.1f}" if planned else "", f"{row['mined']:,}"]
            cells += ["; ".join(row["wrong"]) or "no"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nearfar", default=root / "target/release/nearfar", type=Path)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--counts", default=COUNTS, nargs="*", metavar="NxMxC")
    parser.add_argument("--lists", default=LISTS, nargs="*", metavar="NxMxC")
    parser.add_argument("--losses", default=LOSSES, nargs="*", metavar="NxMxC")
    parser.add_argument("--peers", default=["sorted", "at-once", "pml"], nargs="*", choices=["sorted", "at-once", "pml"])
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        name, folder, *rest = asked.step
        steps = {"rows": rows, "peer": peer, "exact": exact, "check": check, "listing": listing}
        parsed = [json.loads(word) if word[0] in "{0123456789" else word for word in rest]
        print(json.dumps(steps[name](Path(folder), *parsed)))
        return 0
    if asked.plant:
        return plant()
    if not asked.nearfar.exists():
        parser.error(f"there is no {asked.nearfar}: cargo build --release --bin nearfar makes it")
    before, found = os.getloadavg()[0], []
    for what, sizes in (("counts", asked.counts), ("loss", asked.losses)):
        for size in sizes:
            n, m, classes = map(int, size.split("x"))
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                step("rows", folder, n, m, classes)
                right = step("exact", folder, what)
                for name in ["nearfar", *asked.peers]:
                    if name == "nearfar":
                        row = of_nearfar(folder, asked, what)
                    else:
                        row = step("peer", folder, name, what, 1 if name == "pml" else asked.runs)
                    if "fails" not in row:
                        row["wrong"] = step("check", folder, what, json.dumps(right), json.dumps(row))
                    peer_name = NAMES[name].format(asked.engine)
                    found.append(row | {"size": [n, m, classes], "what": what, "peer": peer_name})
                    print(f"{size} {what}: {peer_name}", file=sys.stderr)
    for size in asked.lists:
        n, m, classes = map(int, size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            step("rows", folder, n, m, classes, True)
            for what, peers in (("valid", ["pml", "pml-loop"]), ("mined", ["pml"])):
                theirs = {name: step("listing", folder, name, what, asked.runs) for name in peers}
                lists = {"nearfar": of_nearfar(folder, asked, what)} | theirs
                sums = {row["checksum"] for row in lists.values() if "fails" not in row}
                for name, row in lists.items():
                    row["wrong"] = [] if len(sums) == 1 else ["lists differ"]
                    peer_name = NAMES[name].format(asked.engine)
                    found.append(row | {"size": [n, m, classes], "what": f"list {what}", "peer": peer_name})
                    print(f"{size} list {what}: {peer_name}", file=sys.stderr)
    print(table(found))
    print(f"\n{platform.system()} {platform.machine()}, {os.cpu_count()} cores; semi-hard, margin {MARGIN}, {DIM} dimensions;")
    print(f"medians of {asked.runs} runs, of PML one;")
    print(f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}.")
    return 1 if any(row.get("wrong") for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
