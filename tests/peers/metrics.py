"""Compares `nearfar evaluate` with PML's AccuracyCalculator: on Nearfar's own neighbours, end to end, where PML is wrong.

Exits with 1 when a comparison fails.

usage: python metrics.py [--nearfar BINARY] [--engine cpu|gpu]
       python metrics.py --plant         whether planted faults are rejected, each of them
       python metrics.py --time          how long either takes for 10,000 x 128 of 100 classes, and in what memory
"""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN, FaissKNN

METRICS = ("precision_at_1", "r_precision", "mean_average_precision_at_r", "mean_average_precision", "mean_reciprocal_rank")
# What max_bin_count cuts short: the others look at the nearest R alone, and R is at most max_bin_count.
CUT_SHORT = METRICS[3:]
WAYS = {"whole": {}, "avg_of_avgs": {"avg_of_avgs": True}, "per class": {"return_per_class": True}}
SAME_NEIGHBOURS, END_TO_END = 1e-6, 1e-5
# Timed, after a warm-up; of what takes half a minute, one.
RUNS = 5


class Case:
    """Rows with labels, against themselves or against references, and what Nearfar says of them."""

    def __init__(self, name, queries, query_labels, references=None, reference_labels=None, ties=False):
        self.name, self.ties = name, ties
        self.queries, self.query_labels = queries.astype("f4"), query_labels
        self.own = references is None
        self.references = self.queries if self.own else references.astype("f4")
        self.reference_labels = query_labels if self.own else reference_labels

    def ask(self, nearfar, *options):
        """What `nearfar evaluate` says, and the ids of `nearfar knn` with all others as neighbours."""
        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name in ("queries", "query_labels", "references", "reference_labels"):
                paths[name] = f"{folder}/{name}.npy"
                np.save(paths[name], getattr(self, name))
            sides = ["--embeddings", paths["queries"], "--labels", paths["query_labels"]]
            known = [] if self.own else ["--references", paths["references"]]
            labels = [] if self.own else ["--reference-labels", paths["reference_labels"]]
            said = nearfar("evaluate", *sides, *known, *labels, "--json", *options)
            k, out = len(self.references) - self.own, f"{folder}/found.npz"
            nearfar("knn", "--queries", paths["queries"], *known, "-k", k, "--out", out)
            with np.load(out) as found:
                return json.loads(said), found["ids"].astype("i8")

    def pml(self, knn_func, labels=None, **options):
        """What PML says of the same rows; `labels` for the queries, instead of the right ones."""
        options = {"include": METRICS, "device": torch.device("cpu")} | options
        calculator = AccuracyCalculator(knn_func=knn_func, **options)
        sides = [self.queries, self.query_labels if labels is None else labels]
        if not self.own:
            sides += [self.references, self.reference_labels]
        return calculator.get_accuracy(*map(torch.as_tensor, sides))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def clustered(rng, sizes, dim, spread=1.0):
    """Rows around a centre for each class, of lengths from 0.1 to 10, shuffled."""
    centres = np.random.default_rng(dim).normal(size=(len(sizes), dim))
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = 0.6 * centres[labels] + spread * rng.normal(size=(len(labels), dim))
    return unit(x) * 10 ** rng.uniform(-1, 1, size=(len(labels), 1)), labels


def tied(rng, sizes):
    """Rows of +-1/8 that are equal often, so that most similarities tie exactly."""
    x = np.full((sum(sizes), 64), 0.125)
    for row in x:
        row[rng.integers(0, 12, size=rng.integers(0, 6))] = -0.125
    return x, rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def cases():
    """Small ones, where a fault at any place shows in a class's mean, and a larger one; some rows are alone in each."""
    rng = np.random.default_rng(0)
    sizes, fewer = [40, 25, 25, 12, 7, 3, 2, 1, 1], [6, 5, 5, 4, 3, 3, 2, 2, 2]
    known, labels = clustered(rng, sizes, 6)
    # The last class has no reference.
    some = labels < len(sizes) - 1
    yield Case("against themselves", *clustered(rng, sizes, 6))
    yield Case("against others", *clustered(rng, fewer, 6), known[some], labels[some])
    yield Case("themselves, full of ties", *tied(rng, sizes), ties=True)
    yield Case("others, full of ties", *tied(rng, fewer), *tied(rng, sizes[:-1]), ties=True)
    many = [200, 90] + [25] * 40 + [4] * 50 + [1] * 10
    yield Case("1,500 against themselves", *clustered(rng, many, 32, spread=1.5))
    yield Case("500 against 1,500 others", *clustered(rng, [97] * 2 + [3] * 102, 32), *clustered(rng, many[:-8], 32))


def own_way(said, way):
    """Nearfar's numbers the way PML returns them: by metric, one or one a class."""
    if way == "per class":
        classes = sorted(said["classes"], key=lambda row: int(row["class"]))
        return {name: [row[name] for row in classes] for name in METRICS}
    where = said if way == "whole" else said["over_classes"]
    return {name: where[name] for name in METRICS}


def cut_short(case, ids, way):
    """MAP and MRR of the nearest max_bin_count alone, written out from Nearfar's neighbours."""
    counts = {label: int((case.reference_labels == label).sum()) - case.own for label in np.unique(case.query_labels)}
    most = max(counts.values())
    by_class = {}
    for label, row in zip(case.query_labels, ids):
        if counts[label] < 1:
            continue
        ranks = 1 + np.flatnonzero(case.reference_labels[row[:most]] == label)
        average = sum((hit + 1) / rank for hit, rank in enumerate(ranks)) / counts[label]
        by_class.setdefault(int(label), []).append((average, 1 / ranks[0] if len(ranks) else 0.0))
    means = np.array([np.mean(by_class[label], axis=0) for label in sorted(by_class)])
    if way == "per class":
        return dict(zip(CUT_SHORT, means.T.tolist()))
    if way == "avg_of_avgs":
        return dict(zip(CUT_SHORT, means.mean(axis=0).tolist()))
    return dict(zip(CUT_SHORT, np.mean(sum(by_class.values(), []), axis=0).tolist()))


def off(actual, expected):
    """The largest difference over the metrics; infinite where they are not as many."""
    worst = 0.0
    for name, value in expected.items():
        a, b = np.atleast_1d(actual[name]), np.atleast_1d(value)
        worst = max(worst, float(abs(a - b).max()) if a.shape == b.shape else np.inf)
    return worst


def same_neighbours(case, said, ids, labels=None):
    """PML on Nearfar's neighbours, every k and every mean: the differences, by what was compared."""
    given = lambda _queries, k, _references, _own: (None, torch.from_numpy(ids[:, :k]))
    for k in (None, "max_bin_count"):
        for way, options in WAYS.items():
            found = case.pml(given, labels, k=k, **options)
            expected = own_way(said, way)
            if k == "max_bin_count":
                expected |= cut_short(case, ids, way)
            yield f"k={k}, {way}", off(found, expected)


def whole_lists(case, ids):
    """Whether every query has every reference but itself, once."""
    others = [set(range(len(case.references))) - ({row} if case.own else set()) for row in range(len(ids))]
    return all(len(row) == len(all_) and set(row.tolist()) == all_ for row, all_ in zip(ids, others))


class Report:
    """Prints each comparison and counts those that fail."""

    failures = 0

    def __call__(self, passed, what, found):
        self.failures += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {what}: {found}")


def compare(report, nearfar):
    for case in cases():
        said, ids = case.ask(nearfar)
        report(whole_lists(case, ids), case.name, "each query's neighbours are all others, once")
        lone = int(sum((case.reference_labels == label).sum() <= case.own for label in case.query_labels))
        scored = len(case.query_labels) - lone
        counted = (said["queries"], said["lone_queries"])
        report(counted == (scored, lone), case.name, f"{counted[0]} queries scored, {counted[1]} lone")
        for what, worst in same_neighbours(case, said, ids):
            report(worst <= SAME_NEIGHBOURS, f"{case.name}, {what}", f"off by {worst:.1e} at most")
        if case.ties:
            continue
        for batch_size in (None, 256):
            what = f"{case.name}, CustomKNN batch_size={batch_size}"
            for way, options in WAYS.items():
                found = case.pml(CustomKNN(CosineSimilarity(), batch_size=batch_size), **options)
                expected = own_way(said, way)
                if way == "whole":
                    queries = scored * abs(found.pop("precision_at_1") - expected.pop("precision_at_1"))
                    passed = queries <= 1 + 1e-6
                    report(passed, f"{what}, precision@1", f"off by {queries:.0f} queries")
                worst = off(found, {name: expected[name] for name in found})
                report(worst <= END_TO_END, f"{what}, {way}", f"off by {worst:.1e} at most")


def by_hand(case):
    """All metrics by a full sort in f64, ties by id."""
    exact = unit(case.queries.astype("f8")) @ unit(case.references.astype("f8")).T
    if case.own:
        np.fill_diagonal(exact, -np.inf)
    sums, scored = np.zeros(len(METRICS)), 0
    for row, label in zip(exact, case.query_labels):
        hits = case.reference_labels[np.argsort(-row, kind="stable")] == label
        ranks = 1 + np.flatnonzero(hits[: len(hits) - case.own])
        if not len(ranks):
            continue
        r, precisions = len(ranks), np.arange(1, len(ranks) + 1) / ranks
        at_r = precisions[ranks <= r]
        sums += [ranks[0] == 1, len(at_r) / r, at_r.sum() / r, precisions.sum() / r, 1 / ranks[0]]
        scored += 1
    return dict(zip(METRICS, sums / scored))


def where_pml_is_wrong(report, nearfar):
    """PML's value beside the right one and Nearfar's, which must be right; PML's must still be wrong."""

    def show(what, case, name, wrong, *options):
        right, said = by_hand(case)[name], case.ask(nearfar, *options)[0][name]
        passed = abs(said - right) <= SAME_NEIGHBOURS and (isinstance(wrong, str) or abs(wrong - right) > 1e-3)
        text = wrong if isinstance(wrong, str) else f"{wrong:.4f}"
        report(passed, what, f"{name} is {right:.4f}; Nearfar {said:.4f}, PML {text}")

    rng = np.random.default_rng(1)
    queries, labels = clustered(rng, [3, 3, 3], 4)
    known, known_labels = clustered(rng, [4, 4, 4], 4)
    few = Case("", unit(queries), labels, unit(known), known_labels)
    found = few.pml(FaissKNN(), k=60)
    show("k past the references, FaissKNN", few, "mean_average_precision", found["mean_average_precision"])
    try:
        few.pml(CustomKNN(CosineSimilarity()), k=60)
        report(False, "k past the references, CustomKNN", "PML answered")
    except RuntimeError as error:
        report(True, "k past the references, CustomKNN", f"PML: RuntimeError: {str(error).splitlines()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", few.queries)
        refusal = nearfar("knn", "--queries", f"{folder}/x.npy", "-k", 60, "--out", f"{folder}/found.npz", fails=2)
    report("so 1 to 8 can be asked for" in refusal, "k past the references, nearfar knn", refusal)

    rows, labels = clustered(rng, [20, 20], 3)
    large = Case("", rows, labels + 2**24)
    found = large.pml(CustomKNN(CosineSimilarity()))
    show("labels 2^24 and 2^24 + 1", large, "precision_at_1", found["precision_at_1"])

    name = "mean_reciprocal_rank"
    try:
        found = large.pml(CustomKNN(CosineSimilarity()), include=(name,))[name]
    except TypeError as error:
        found = f"TypeError: {error}"
    report(isinstance(found, str), "MRR alone", "PML raises a TypeError")
    show("MRR alone", large, name, found, "--metrics", name)


def plant(report, nearfar):
    """Plants faults in what PML is given, one at a time; each must be rejected."""
    rng = np.random.default_rng(2)
    for case in cases():
        if len(case.references) > 150:
            continue
        said, right = case.ask(nearfar)

        def rejected(ids, labels=None, said=said):
            return any(not worst <= SAME_NEIGHBOURS for _, worst in same_neighbours(case, said, ids, labels))

        report(not rejected(right), case.name, "nothing planted, nothing rejected")
        lone = np.array([(case.reference_labels == label).sum() <= case.own for label in case.query_labels])
        # Next to each other, a neighbour of the query's class and one of another.
        hits = case.reference_labels[right] == case.query_labels[:, None]
        edges = np.argwhere((hits[:, 1:] != hits[:, :-1]) & ~lone[:, None])
        counts = dict.fromkeys(("two neighbours swapped", "one dropped", "a label shifted", "a metric off by 2e-6"), 0)
        for row, at in rng.choice(edges, 20, replace=False):
            ids = right.copy()
            ids[row, [at, at + 1]] = ids[row, [at + 1, at]]
            counts["two neighbours swapped"] += rejected(ids)
            # Those behind it come closer, and the last stands twice.
            ids = right.copy()
            ids[row, at:-1] = right[row, at + 1 :]
            counts["one dropped"] += rejected(ids)
            labels = case.query_labels.copy()
            labels[row] = (labels[row] + 1) % 9
            counts["a label shifted"] += rejected(right, labels)
            name = METRICS[row % 5]
            counts["a metric off by 2e-6"] += rejected(right, said=said | {name: said[name] + 2e-6})
        for fault, count in counts.items():
            report(count == 20, f"{case.name}, {fault}", f"{count} of 20 rejected")


def in_time(nearfar):
    """Times evaluations of the same rows, each against all others; the least hungry first, as a peak only grows."""
    rng = np.random.default_rng(0)
    rows, labels = unit(rng.normal(size=(10_000, 128))).astype("f4"), rng.integers(100, size=10_000)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", rows)
        np.save(f"{folder}/labels.npy", labels)
        words = ["evaluate", "--embeddings", f"{folder}/rows.npy", "--labels", f"{folder}/labels.npy", "--json"]
        found = []
        for name, options in (("Nearfar, all metrics", []), ("Nearfar, three of them", ["--metrics", ",".join(METRICS[:3])])):
            said = [json.loads(nearfar(*words, *options)) for _ in range(1 + RUNS)]
            elapsed = statistics.median(s["elapsed_ms"] for s in said[1:])
            found.append((name, elapsed, said[0]["memory"]["peak_bytes"] / 2**20))
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    rows, labels = torch.from_numpy(rows), torch.from_numpy(labels)
    torch_knn = CustomKNN(CosineSimilarity(), batch_size=256)
    for name, include, k, knn_func, runs in (
        ("PML, three, max_bin_count, its default faiss", METRICS[:3], "max_bin_count", None, RUNS),
        ("PML, all five, max_bin_count, its default faiss", METRICS, "max_bin_count", None, RUNS),
        ("PML, three, max_bin_count, CustomKNN", METRICS[:3], "max_bin_count", torch_knn, RUNS),
        ("PML, all five, k=None, its default faiss", METRICS, None, None, 1),
        ("PML, all five, k=None, CustomKNN", METRICS, None, torch_knn, 1),
    ):
        calculator = AccuracyCalculator(include=include, k=k, knn_func=knn_func, device=torch.device("cpu"))
        before, times = peak(), []
        for _ in range(runs + (runs > 1)):
            started = time.perf_counter()
            calculator.get_accuracy(rows, labels)
            times.append(1e3 * (time.perf_counter() - started))
        found.append((name, statistics.median(times[runs > 1 :]), peak() - before))
    print("| 10,000 x 128, 100 classes | time, ms | memory, MiB |\n|---|--:|--:|")
    for name, elapsed, memory in found:
        print(f"| {name} | {elapsed:,.0f} | {memory:,.0f} |")


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nearfar", default=root / "target/release/nearfar", type=Path)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--time", action="store_true")
    asked = parser.parse_args()
    if not asked.nearfar.exists():
        parser.error(f"there is no {asked.nearfar}: cargo build --release --bin nearfar makes it")

    def nearfar(*words, fails=0):
        command = [str(asked.nearfar), *map(str, words), "--engine", asked.engine]
        child = subprocess.run(command, capture_output=True, text=True)
        if child.returncode != fails:
            sys.exit(f"nearfar {words[0]}: exit {child.returncode}: {child.stderr}")
        return child.stderr.splitlines()[-1] if fails else child.stdout

    report = Report()
    if asked.time:
        in_time(nearfar)
        return 0
    if asked.plant:
        plant(report, nearfar)
    else:
        compare(report, nearfar)
        where_pml_is_wrong(report, nearfar)
    print(f"{report.failures} failed" if report.failures else "all as they should be")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
