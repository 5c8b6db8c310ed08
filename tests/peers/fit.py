"""Searches for settings beside the full grid: on six tables, the winner of `nearfar fit` in a fifth of the grid's time.

    python tests/peers/fit.py target/release/nearfar [--part 0.2] [--steps 400]

The grid trains every recipe for all its steps with one seed (`compare --recipes .. --seeds 1`); the search has that part of the grid's
seconds, in the same budget. Both rank by precision@1 of the same validation rows. *behind* is the grid's score of the search's winner
below that of the grid's best; the standard error is that of the best's precision@1. Fails if a winner is further behind than that.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RECIPES = [
    "batch-triplet", "batch-sup-con", "wide-sup-con", "memory-triplet", "class-sampler-triplet", "multi-similarity", "sup-con",
    "proxy-anchor", "arc-face", "linear-from-lda", "single-cell",
]
BUDGET = "64MiB"


def made(folder):
    """Two tables that no line solves: three classes in shells about each other, and twelve classes of two far blobs each."""
    draw = np.random.default_rng(5)
    tables = {}
    radius = np.repeat([1.0, 2.0, 3.0], 700)
    rows = draw.normal(size=(2100, 8))
    rows *= (radius + draw.normal(0, 0.25, 2100))[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    tables["shells"] = (rows, np.repeat(np.arange(3), 700))
    labels = np.arange(2400) % 12
    centres = draw.normal(size=(24, 16))
    rows = centres[labels + 12 * draw.integers(0, 2, 2400)] + draw.normal(0, 0.9, (2400, 16))
    tables["blobs"] = (rows, labels)
    for name, (rows, labels) in tables.items():
        path = folder / f"{name}.csv"
        header = ",".join([f"x{i}" for i in range(rows.shape[1])] + ["label"])
        text = "\n".join(",".join(f"{x:.5f}" for x in row) + f",c{label}" for row, label in zip(rows, labels))
        path.write_text(header + "\n" + text + "\n")
        yield name, str(path)


def nearfar(program, *arguments):
    began = time.monotonic()
    done = subprocess.run([program, *arguments, "--engine", "cpu", "--budget", BUDGET, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr[-600:]}")
    return json.loads(done.stdout), time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nearfar")
    parser.add_argument("--part", type=float, default=0.2, help="of the grid's seconds that the search has, in whole seconds")
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    samples = [(name, f"sample:{name}") for name in ["mirrored", "many-classes", "digits", "cells"]]
    print("| table | grid's best | its precision@1 | grid, s | search's winner | in the grid | search, s | behind | standard error |")
    print("|---|---|--:|--:|---|--:|--:|--:|--:|")
    failed = []
    for name, data in [*samples, *made(folder)]:
        common = ["--data", data, "--set", f"steps={asked.steps}"]
        grid, took = nearfar(asked.nearfar, "compare", *common, "--recipes", ",".join(RECIPES), "--seeds", "1")
        seconds = max(1, int(asked.part * grid["elapsed_ms"] / 1e3))
        found, _ = nearfar(asked.nearfar, "fit", *common, "--seconds", str(seconds))
        heads = {row["name"]: row["precision_at_1"] for row in grid["rows"] if row["kind"] == "head" and row["precision_at_1"] is not None}
        best = max(heads, key=heads.get)
        behind = heads[best] - heads[found["winner"]]
        error = math.sqrt(heads[best] * (1 - heads[best]) / grid["queries"])
        print(
            f"| {name} | `{best}` | {heads[best]:.3f} | {grid['elapsed_ms'] / 1e3:.1f} | `{found['winner']}` | {heads[found['winner']]:.3f} "
            f"| {found['elapsed_ms'] / 1e3:.1f} | {behind:.3f} | {error:.3f} |",
            flush=True,
        )
        if behind > error:
            failed.append(name)
    if failed:
        sys.exit(f"further behind than a standard error: {', '.join(failed)}")


if __name__ == "__main__":
    main()
