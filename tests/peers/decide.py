"""How often a race by folds (`compare --folds 5 --race --seeds 2`, Decide on the page) decides where a difference is real, and where there is none.

    python tests/peers/decide.py target/debug/nearfar [tables]

Tables of 2,000 rows x 256 in 70 classes: a class is a direction of eight numbers with a random sign, so no linear map finds it, and eight
larger numbers say nothing. Three questions, of as many tables each:

- real: heads with 12, 16, 20 and 64 hidden outputs. Decided if 12, 16 and 20 are excluded and 64 is not; 64 beside a linear head is left open.
- equal: four heads that differ by an epsilon of Adam of no effect but chance. Wrong if one is clearly worse than another.
- shuffled: the four usual recipes on labels that say nothing. Wrong if any row is clearly worse than another.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS, COLUMNS, CLASSES, SIGNAL = 2000, 256, 70, 8


def table(seed, shuffled):
    random = np.random.default_rng(seed)
    labels = np.arange(ROWS) % CLASSES
    directions = random.normal(size=(CLASSES, SIGNAL))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    signs = random.choice([-1, 1], size=(ROWS, 1))
    signal = directions[labels] * signs + 0.15 * random.normal(size=(ROWS, SIGNAL))
    hidden = np.hstack([signal, 0.4 * random.normal(size=(ROWS, SIGNAL))])
    spread, _ = np.linalg.qr(random.normal(size=(COLUMNS, 2 * SIGNAL)))
    rows = 4 * hidden @ spread.T + 0.05 * random.normal(size=(ROWS, COLUMNS))
    return rows.astype(np.float32), random.permutation(labels) if shuffled else labels


def compared(program, folder, seed, shuffled, grid):
    rows, labels = table(seed, shuffled)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", labels)
    command = [program, "compare", "--json", "--engine", "cpu", "--data", folder / "rows.npy", "--labels", folder / "labels.npy"]
    command += ["--set", "split=random", "--folds", "5", "--race", "--seeds", "2", "--seed", str(seed)]
    if grid:
        command += ["--grid", grid]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def main():
    program, tables = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    worse = {f"hidden_layers=[{width}]" for width in (12, 16, 20)}
    questions = {
        "real": "hidden_layers=[12],[16],[20],[64]",
        "equal": "optimizer.eps=1e-8,1.1e-8,1.2e-8,1.3e-8",
        "shuffled": None,
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, grid in questions.items():
            reports = [compared(program, Path(folder), seed, name == "shuffled", grid) for seed in range(tables)]
            seconds = sum(report["elapsed_ms"] for report in reports) / 1e3 / tables
            folds = sum(report["folds_scored"] for report in reports) / tables
            told = 0
            for report in reports:
                clear = {row["name"] for row in report["rows"] if row["standing"] == "clear"}
                if name == "real":
                    told += worse <= clear and "hidden_layers=[64]" not in clear
                else:
                    told += any(name == "shuffled" or "eps" in row for row in clear)
            what = "decided" if name == "real" else "something was called clear"
            print(f"{name}: {what} in {told} of {tables}, after {folds:.1f} folds and {seconds:.0f} s on the average", flush=True)


main()
