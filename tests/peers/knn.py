"""Searches the same rows with Nearfar, faiss, PML's CustomKNN and torch, and prints time, memory and exactness of each.

Every search runs in a process of its own. This one imports nothing large: a child's ru_maxrss begins at its parent's.

usage: python knn.py [--nearfar BINARY] [--engine cpu|gpu] [--runs 3] [--sizes 1000x10000x64x10[:grouped] ..] [--json]
       python knn.py --plant         whether the comparison with f64 rejects wrong neighbours
"""
import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Queries, references, dimensions, k. 3,000 is past the 2,048 of faiss on a GPU, the last past the references.
SIZES = ["1000x10000x64x10", "10000x10000x128x10", "20000x20000x128x10", "30000x30000x128x10", "1000x100000x128x10"]
SIZES += ["1x100000x128x10", "1000x10000x64x3000", "1000x10000x128x10:grouped", "1000x10000x512x10:grouped"]
SIZES += ["1000x10000x2048x10:grouped", "10x100x8x200"]
PEERS = {"faiss": "faiss IndexFlatIP", "pml": "PML CustomKNN", "torch": "torch mm + topk"}
CHUNK = 1024
# 4 units in the last place of a similarity near 1: what f32 cannot tell apart may stand in any order.
CLUSTER = 4 * 2.0**-24
RSS_BYTES = 1 if sys.platform == "darwin" else 1024


def rows(folder, n, m, d, kind):
    """Writes unit rows: in any direction, or grouped, as a trained model leaves a class, at similarities near 1."""
    import numpy as np

    rng = np.random.default_rng([n, m, d])
    centres = rng.normal(size=(100, d))
    for name, count in (("queries", n), ("references", m)):
        x = rng.normal(size=(count, d))
        if kind == "grouped":
            x = 0.1 * x + centres[rng.integers(100, size=count)]
        np.save(folder / f"{name}.npy", (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("f4"))


def searcher(peer, d):
    """What turns NumPy rows into similarities and ids, and how many threads it runs on."""
    if peer == "faiss":
        import faiss

        def search(queries, references, k):
            index = faiss.IndexFlatIP(d)
            index.add(references)
            return index.search(queries, k)

        return search, faiss.omp_get_max_threads()
    import torch

    if peer == "pml":
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.utils.inference import CustomKNN

        knn = CustomKNN(CosineSimilarity(), batch_size=256)

        def find(queries, references, k):
            return knn(queries, k, references)

    else:

        def find(queries, references, k):
            found = [torch.topk(chunk @ references.T, k) for chunk in queries.split(CHUNK)]
            return [torch.cat(part) for part in zip(*found)]

    def search(queries, references, k):
        return [part.numpy() for part in find(torch.from_numpy(queries), torch.from_numpy(references), k)]

    return search, torch.get_num_threads()


def peer(folder, name, k, runs):
    """One peer's runs, in this process; the first is a warm-up."""
    import numpy as np

    queries, references = (np.load(folder / f"{side}.npy") for side in ("queries", "references"))
    search, threads = searcher(name, queries.shape[1])
    before = peak_rss()
    try:
        found = search(queries, references, k)
        times, cpu = [], time.process_time()
        for _ in range(runs):
            started = time.perf_counter()
            search(queries, references, k)
            times.append(1e3 * (time.perf_counter() - started))
        cpu = 1e3 * (time.process_time() - cpu)
    except Exception as error:
        return {"fails": f"{type(error).__name__}: {error}".splitlines()[0], "threads": threads}
    rss = peak_rss()
    np.savez(folder / "found.npz", similarities=found[0], ids=found[1])
    return {
        "elapsed_ms": statistics.median(times),
        "cores": cpu / sum(times),
        "memory_bytes": rss - before,
        "rss_bytes": rss,
        "threads": threads,
    }


def nearfar(folder, command, runs):
    """Nearfar's runs of a command, each a process; the first is a warm-up. `report` is what the last one said."""
    reports = []
    for _ in range(1 + runs):
        before, started = os.times(), time.perf_counter()
        with open(folder / "said", "w+") as said, open(folder / "errors", "w+") as errors:
            child = subprocess.Popen([str(word) for word in command], stdout=said, stderr=errors)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            wall_ms = 1e3 * (time.perf_counter() - started)
            said.seek(0)
            errors.seek(0)
            if child.returncode:
                return {"fails": f"exit {child.returncode}: {(errors.read().splitlines() or [''])[-1]}"}
            report = json.load(said)
        report["wall_ms"] = wall_ms
        report["cores"] = 1e3 * (usage.ru_utime + usage.ru_stime) / wall_ms
        report["rss_bytes"] = usage.ru_maxrss * RSS_BYTES
        reports.append(report)
    median = lambda name: statistics.median(report[name] for report in reports[1:])
    return {
        "engine": report["engine"],
        "adapter": report["adapter"],
        "elapsed_ms": median("elapsed_ms"),
        "wall_ms": median("wall_ms"),
        "cores": median("cores"),
        "memory_bytes": max(report["rss_bytes"] for report in reports),
        "rss_bytes": max(report["rss_bytes"] for report in reports),
        "ledger_peak_bytes": report["memory"]["peak_bytes"],
        "report": report,
    }


def peak_rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_BYTES


def unit(x):
    import numpy as np

    x = x.astype("f8")
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def compare(queries, references, ids, similarities):
    """How many queries' neighbours are not those of f64, and the largest error of a similarity.

    A reference may stand where another is expected whose similarity f32 cannot tell from its own; none stands twice.
    """
    import numpy as np

    (n, k), m = ids.shape, len(references)
    if k > m or ids.min() < 0 or ids.max() >= m:
        return n, None
    wrong, error = 0, 0.0
    known = unit(references)
    for first in range(0, n, 256):
        at = slice(first, first + 256)
        exact = unit(queries[at]) @ known.T
        expected = -np.sort(np.partition(-exact, k - 1, axis=1)[:, :k], axis=1)
        found = np.take_along_axis(exact, ids[at].astype("i8"), axis=1)
        ordered = np.sort(ids[at], axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        wrong += int((twice | (abs(found - expected) > CLUSTER).any(axis=1)).sum())
        error = max(error, float(abs(found - similarities[at]).max()))
    return wrong, error


def check(folder):
    import numpy as np

    queries, references = (np.load(folder / f"{side}.npy") for side in ("queries", "references"))
    with np.load(folder / "found.npz") as found:
        wrong, error = compare(queries, references, found["ids"], found["similarities"])
    return {"queries_that_differ": wrong, "largest_error": error}


def plant():
    """Plants faults in right neighbours, one query at a time; each must be counted, and the right ones must not."""
    import numpy as np

    rng = np.random.default_rng(0)
    queries, references, k = rng.normal(size=(20, 16)), rng.normal(size=(300, 16)), 12
    exact = unit(queries) @ unit(references).T
    order = np.argsort(-exact, axis=1)
    right = order[:, :k]
    similarities = np.take_along_axis(exact, right, axis=1).astype("f4")
    missed = [] if compare(queries, references, right, similarities)[0] == 0 else ["none planted"]
    for fault in range(20):
        ids, at = right.copy(), fault % (k - 1)
        if fault % 4 == 0:
            ids[fault, [at, at + 1]] = ids[fault, [at + 1, at]]
        elif fault % 4 == 1:
            ids[fault, at:] = order[fault, at + 1 : k + 1]
        elif fault % 4 == 2:
            ids[fault, at + 1] = ids[fault, at]
        else:
            ids[fault] = right[(fault + 1) % 20]
        if compare(queries, references, ids, similarities)[0] != 1:
            missed.append(f"fault {fault}")
    print(f"{20 - len(missed)} of 20 planted faults rejected" + "".join(f"; missed: {name}" for name in missed))
    return 1 if missed else 0


def step(*words, script=__file__):
    """Runs a step of a script in a process of its own: what it says, or how it failed."""
    child = subprocess.run([sys.executable, script, "--step", *map(str, words)], capture_output=True, text=True)
    if child.returncode < 0:
        return {"fails": f"killed by signal {-child.returncode}"}
    if child.returncode:
        sys.exit(child.stderr)
    return json.loads(child.stdout)


def table(report):
    """The report as a table in Markdown."""
    head = ["n x m x d, k", "peer", "time, ms", "process, ms", "cores", "memory, MiB", "whole, MiB", "planned, MiB"]
    head += ["queries that differ", "largest error"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "--:|" * (len(head) - 2)]
    mib = lambda count: f"{count / 2**20:,.0f}"
    for row in report["rows"]:
        n, m, d, k = row["size"]
        cells = [f"{n:,} x {m:,} x {d}, {k:,} {row['kind']}".strip(), row["peer"]]
        if "fails" in row:
            cells += [f"fails: {row['fails']}"] + [""] * (len(head) - 3)
        else:
            cells += [f"{row['elapsed_ms']:,.1f}", f"{row['wall_ms']:,.0f}" if "wall_ms" in row else ""]
            cells += [f"{row['cores']:.1f}"]
            cells += [mib(row["memory_bytes"]), mib(row["rss_bytes"])]
            cells += [mib(row["ledger_peak_bytes"]) if "ledger_peak_bytes" in row else ""]
            error = row["largest_error"]
            cells += [f"{row['queries_that_differ']:,} of {n:,}", "ids of no reference" if error is None else f"{error:.1e}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nearfar", default=root / "target/release/nearfar", type=Path)
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--sizes", default=SIZES, nargs="+", metavar="NxMxDxK[:grouped]")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        name, folder, *rest = asked.step
        steps = {"rows": rows, "peer": peer, "check": check}
        rest = [int(word) if word.isdigit() else word for word in rest]
        print(json.dumps(steps[name](Path(folder), *rest)))
        return 0
    if asked.plant:
        return plant()
    if not asked.nearfar.exists():
        parser.error(f"there is no {asked.nearfar}: cargo build --release --bin nearfar makes it")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    report = {"machine": machine, "runs": asked.runs, "load": [os.getloadavg()[0]], "rows": []}
    for size in asked.sizes:
        numbers, _, kind = size.partition(":")
        n, m, d, k = map(int, numbers.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            step("rows", folder, n, m, d, kind)
            for name in ["nearfar", *PEERS]:
                if name == "nearfar":
                    command = [asked.nearfar, "knn", "-k", k, "--out", folder / "found.npz"]
                    command += ["--queries", folder / "queries.npy", "--references", folder / "references.npy"]
                    row = nearfar(folder, [*command, "--engine", asked.engine, "--json"], asked.runs)
                    row.pop("report", None)
                else:
                    row = step("peer", folder, name, k, asked.runs)
                if "fails" not in row:
                    row |= step("check", folder)
                row |= {"size": [n, m, d, k], "kind": kind, "peer": PEERS.get(name, f"Nearfar, {asked.engine}")}
                report["rows"].append(row)
                print(f"{size}: {row['peer']}", file=sys.stderr)
    threads = {row["peer"]: row["threads"] for row in report["rows"] if "threads" in row}
    report["load"].append(os.getloadavg()[0])
    adapters = {row["adapter"] for row in report["rows"] if "adapter" in row}
    report |= {"threads": threads, "adapters": sorted(adapters)}
    if asked.json:
        print(json.dumps(report))
    else:
        print(table(report))
        print(f"\n{machine}; medians of {asked.runs} runs after a warm-up;")
        print(f"Nearfar's engine: {', '.join(report['adapters'])};")
        print(f"threads: {', '.join(f'{name} {count}' for name, count in threads.items())};")
        print("load of the machine before and after: {:.1f}, {:.1f}.".format(*report["load"]))
        print("Ratios from a processor, a GPU in software included, say nothing about a GPU.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
