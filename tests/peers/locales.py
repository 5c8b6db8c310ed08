"""Writes tables as people of many places and programs save them, and asks whether Nearfar reads the numbers that pandas reads with the
right arguments.

    pip install pandas
    python tests/peers/locales.py target/release/nearfar

Each table has three columns of numbers and a label. It goes through `nearfar knn` once as it is, and once as pandas reads it and
writes it again: neighbours and distances have to be equal, bit for bit. Ambiguous tables have to be refused with both readings, and
read where an option says which. Exits with 1 where one is not.
"""
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, KINDS = 80, ["ash", "birch", "cedar"]
# What parts the cells, thousands and fractions.
STYLES = [
    (",", "", "."), (",", " ", "."), (",", "'", "."), (";", "", ","), (";", ".", ","), (";", "", "."), (";", ",", "."), (";", "'", "."),
    (";", "\u00a0", ","), (";", "\u202f", ","), ("\t", "", "."), ("\t", ",", "."), ("\t", ".", ","), ("\t", "\u2019", "."),
    ("\t", "\u00a0", ","), ("|", "", "."), ("|", "'", "."), ("|", ",", "."), ("|", ".", ","),
]


def number(value, digits, thousands, decimal):
    whole, _, fraction = f"{abs(value):.{digits}f}".partition(".")
    parts = [whole[max(0, end - 3):end] for end in range(len(whole), 0, -3)][::-1]
    return ("-" if value < 0 else "") + thousands.join(parts) + (decimal + fraction if fraction else "")


def lines(style, seed):
    """Header and rows: a price, a count and a small number of each."""
    delimiter, thousands, decimal = style
    rng = np.random.default_rng(seed)
    yield delimiter.join(["price", "count", "ratio", "kind"])
    for row in range(ROWS):
        # Every column weighs in a row's direction; some rows have millions.
        price = rng.uniform(-4000, 9000) * (1000 if row % 10 == 0 else 1)
        cells = [number(price, 2, thousands, decimal), number(rng.integers(3, 9000), 0, thousands, decimal),
                 number(rng.uniform(-300, 300), 3, thousands, decimal), KINDS[row % 3]]
        yield delimiter.join(cells)


def tables():
    """Name, bytes, pandas' arguments and Nearfar's options of each."""
    for at, style in enumerate(STYLES):
        delimiter, thousands, decimal = style
        name = "table.tsv" if delimiter == "\t" else "table.csv"
        arguments = {"sep": delimiter, "decimal": decimal, "thousands": thousands or None}
        # Blanks that may break part thousands only where that is said.
        options = ["--thousands", " "] if thousands == " " else []
        text = list(lines(style, at))
        yield f"{style}", name, "\n".join(text), arguments, options
        kind = at % 6
        if kind == 0:
            changed, more = ["sep=" + delimiter, *text], {"skiprows": 1}
        elif kind == 1:
            changed, more = ["# measured in June", "# by hand", *text], {"skiprows": 2}
        elif kind == 2:
            changed, more = ["\ufeff" + text[0], *text[1:]], {}
        elif kind == 3:
            changed, more = [line + delimiter for line in text], {"usecols": range(4)}
        elif kind == 4:
            changed, more = [text[0], *(f"{row + 1}{delimiter}{line}" for row, line in enumerate(text[1:]))], {"index_col": 0}
        else:
            changed, more = [delimiter.join(f'"{cell}"' for cell in line.split(delimiter)) for line in text], {}
        yield f"{style}, changed {kind}", name, "\r\n".join(changed), arguments | more, options
    # Commas within quotes part thousands in a file of commas, which no option needs.
    quoted = [",".join(f'"{cell}"' for cell in line.split("|")) for line in lines(("|", ",", "."), 90)]
    yield "quoted thousands", "table.csv", "\n".join(quoted), {"thousands": ","}, []
    for options, arguments in [(["--thousands", ","], {"thousands": ","}), (["--decimal", ","], {"decimal": ","})]:
        rng = np.random.default_rng(7)
        rows = [f"{number(rng.integers(1000, 9000), 0, ',', '.')}\t{rng.integers(3, 900)}\t{row % 7}\t{KINDS[row % 3]}" for row in range(ROWS)]
        yield f"two readings {options}", "table.tsv", "price\tcount\tratio\tkind\n" + "\n".join(rows), {"sep": "\t"} | arguments, options


def searched(nearfar, file, options, out):
    words = [nearfar, "knn", "--engine", "cpu", "--queries", file, "-k", "5", "--out", out, *options]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    with np.load(out) as found:
        return found["ids"], found["similarities"]


def main():
    nearfar, wrong, count = sys.argv[1], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for what, name, text, arguments, options in tables():
            count += 1
            file = folder / name
            file.write_bytes(text.encode())
            # The faster engine of pandas takes marks of one byte alone.
            engine = "c" if (arguments.get("thousands") or "").isascii() else "python"
            read = pd.read_csv(file, engine=engine, **arguments)
            assert list(read.columns) == ["price", "count", "ratio", "kind"] and len(read) == ROWS, what
            assert read[["price", "count", "ratio"]].dtypes.map(pd.api.types.is_numeric_dtype).all(), (what, read.dtypes)
            read.to_csv(folder / "plain.csv", index=False)
            plain = searched(nearfar, folder / "plain.csv", [], folder / "plain.npz")
            own = searched(nearfar, file, options, folder / "own.npz")
            if isinstance(own, str) or isinstance(plain, str) or not all(map(np.array_equal, own, plain)):
                wrong += 1
                print(f"{what}: {own if isinstance(own, str) else 'other numbers'}")
            if what.startswith("two readings"):
                refused = searched(nearfar, file, [], folder / "own.npz")
                if not (isinstance(refused, str) and "between thousands" in refused and "--decimal ," in refused):
                    wrong += 1
                    print(f"{what}: not refused: {refused}")
    print(f"{count} tables, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
