"""Writes the files of this folder with the programs that people write theirs with, and `expected.json`: what those programs
read back from them.

    pip install numpy==2.4.6 pandas==3.1.1 scikit-learn==1.9.1 safetensors==0.8.0 torch==2.15.0
    python tests/corpus/make.py

Each case of `expected.json`: its files (features, then labels where they are in another one), the label column or array and
the array of features where the case names them, the values as float32, row after row, and the label of each row.
"""
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch
from sklearn.datasets import load_digits, load_iris

HERE = Path(__file__).parent
ROWS = 12
NAMES = ["width", "height", "depth"]
CASES = []


def case(files, values, labels, label=None, features=None):
    """`values` and `labels` are what the writer's own reader gives."""
    values = np.asarray(values)
    labels = [item.decode() if isinstance(item, bytes) else str(item) for item in np.asarray(labels).ravel().tolist()]
    assert len(values) == len(labels)
    with np.errstate(over="ignore"):
        rows = values.astype(np.float32).reshape(len(values), -1)
    files = [files] if isinstance(files, str) else files
    CASES.append(
        {
            "files": files,
            **({"label": label} if label else {}),
            **({"features": features} if features else {}),
            "values": [[float(value) for value in row] for row in rows],
            "labels": labels,
        }
    )


def numbers(dtype):
    """Twelve rows of three numbers that suit the type, its least and largest among them, where those can be squared."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return (np.sin(np.arange(ROWS * 3)) * 7).astype(dtype).reshape(ROWS, 3)
    if kind == "b":
        return (np.arange(ROWS * 3) % 5 < 2).reshape(ROWS, 3)
    about = np.iinfo(dtype)
    values = [about.min, min(about.max, 2**62), *[i * 11 % 100 for i in range(ROWS * 3 - 2)]]
    return np.array(values, dtype=dtype).reshape(ROWS, 3)


INTEGERS = np.arange(ROWS) % 3 - 1
WORDS = np.array(["oak", "fir", "château"])[np.arange(ROWS) % 3]


def numpy_files():
    np.save(HERE / "y.npy", INTEGERS)
    types = ["<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1"]
    types += [code.replace("<", ">") for code in types if code[0] == "<"]
    for code in types:
        name = f"{'big_' * (code[0] == '>')}{code[1:]}.npy"
        np.save(HERE / name, numbers(np.dtype(code)))
        case([name, "y.npy"], np.load(HERE / name), np.load(HERE / "y.npy"))
    for code in ("<f4", ">f8", "<i8"):
        name = f"fortran_{'big_' * (code[0] == '>')}{code[1:]}.npy"
        np.save(HERE / name, np.asfortranarray(numbers(np.dtype(code))))
        case([name, "y.npy"], np.load(HERE / name), np.load(HERE / "y.npy"))
    for version in ((2, 0), (3, 0)):
        name = f"version_{version[0]}.npy"
        with open(HERE / name, "wb") as file:
            np.lib.format.write_array(file, numbers("<f4"), version=version)
        case([name, "y.npy"], np.load(HERE / name), np.load(HERE / "y.npy"))
    np.save(HERE / "line.npy", numbers("<f4")[:, 0])
    case(["line.npy", "y.npy"], np.load(HERE / "line.npy"), np.load(HERE / "y.npy"))
    for name, labels in {
        "labels_words.npy": WORDS,
        "labels_bytes.npy": np.array([b"oak", b"fir", b"elm"])[np.arange(ROWS) % 3],
        "labels_column.npy": INTEGERS.reshape(-1, 1).astype(">i2"),
        "labels_bool.npy": INTEGERS > 0,
    }.items():
        np.save(HERE / name, labels)
        read = np.load(HERE / name)
        read = read.astype(int) if read.dtype == bool else read
        case(["f4.npy", name], np.load(HERE / "f4.npy"), read)


def numpy_archives():
    x, data = numbers("<f8"), {}
    data["plain.npz"] = {"X": x, "y": INTEGERS}
    data["words.npz"] = {"features": x.astype("<f2"), "targets": WORDS}
    data["nested.npz"] = {"train/x": np.asfortranarray(x), "train/y": INTEGERS.astype("u1"), "note": np.array("by hand")}
    data["columns.npz"] = {"x": x, "labels": INTEGERS.reshape(-1, 1)}
    for name, arrays in data.items():
        for save, start in ((np.savez, ""), (np.savez_compressed, "packed_")):
            save(HERE / (start + name), **arrays)
            with np.load(HERE / (start + name)) as read:
                rows, labels = list(arrays)[:2]
                case(start + name, read[rows], read[labels])
    np.savez(HERE / "several.npz", raw=x, scaled=x / 2, y=INTEGERS, z=INTEGERS * 2)
    with np.load(HERE / "several.npz") as read:
        case("several.npz", read["scaled"], read["z"], label="z", features="scaled")
    digits = load_digits(n_class=3)
    np.savez_compressed(HERE / "sklearn_digits.npz", data=digits.data[:60], target=digits.target[:60])
    with np.load(HERE / "sklearn_digits.npz") as read:
        case("sklearn_digits.npz", read["data"], read["target"])


def packed():
    for name in ("f4.npy", "comma.csv"):
        content = (HERE / name).read_bytes()
        (HERE / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    case(["f4.npy.gz", "y.npy"], np.load(gzip.open(HERE / "f4.npy.gz")), np.load(HERE / "y.npy"))
    read = pd.read_csv(HERE / "comma.csv.gz")
    case("comma.csv.gz", read[NAMES], read["label"], label="label")


def tensors():
    x = numbers("<f4")
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        name = f"torch_{str(kind).split('.')[1]}.safetensors"
        save_torch({"X": torch.tensor(x).to(kind), "y": torch.tensor(INTEGERS)}, HERE / name, metadata={"format": "pt"})
        read = load_torch(HERE / name)
        case(name, read["X"].to(torch.float32).numpy(), read["y"].numpy())
    save_file({"embeddings": numbers("|i1"), "labels": INTEGERS.astype("u1")}, HERE / "numpy_int8.safetensors")
    case("numpy_int8.safetensors", numbers("|i1"), INTEGERS.astype("u1"))
    save_file({"a": x, "b": -x, "y": INTEGERS}, HERE / "several.safetensors")
    case("several.safetensors", -x, INTEGERS, features="b")
    save_file({"X": x}, HERE / "alone.safetensors")
    case(["alone.safetensors", "y.npy"], x, INTEGERS)


def tables():
    frame = pd.DataFrame(numbers("<f8").round(4), columns=NAMES)
    frame["label"] = WORDS

    def write(name, read_with=None, label="label", values=NAMES, frame=frame, **arguments):
        frame.to_csv(HERE / name, **{"index": False, **arguments})
        read = pd.read_csv(HERE / name, **(read_with or {}))
        case(name, read[values], read[label], label=label)

    write("comma.csv")
    write("indexed.csv", index=True)
    write("semicolon.csv", {"sep": ";"}, sep=";")
    write("decimal_comma.csv", {"sep": ";", "decimal": ","}, sep=";", decimal=",")
    write("tab.tsv", {"sep": "\t"}, sep="\t")
    write("tab.txt", {"sep": "\t"}, sep="\t")
    write("quoted.csv", quoting=1)
    write("bom.csv", {"encoding": "utf-8-sig"}, encoding="utf-8-sig")
    write("crlf.csv", lineterminator="\r\n")
    write("scientific.csv", float_format="%.5e")
    write("packed_by_pandas.csv.gz", compression={"method": "gzip", "mtime": 0})
    write("label_first.csv", frame=frame[["label", *NAMES]])
    write("integers.csv", frame=frame.assign(label=INTEGERS))
    write("leading_zeros.csv", {"dtype": {"label": str}}, frame=frame.assign(label=[f"00{i % 3}" for i in range(ROWS)]))
    write("by_another_name.csv", label="cell type", frame=frame.rename(columns={"label": "cell type"}))
    odd = np.array(["oak, red", 'the "old" one', "two\nlines"])[np.arange(ROWS) % 3]
    write("odd_labels.csv", frame=frame.assign(label=odd))
    write("odd_names.csv", values=["x, y", "größe", "a\tb"], frame=frame.set_axis(["x, y", "größe", "a\tb", "label"], axis=1))
    write("with_text.csv", frame=frame.assign(side=np.where(np.arange(ROWS) % 2, "train", "test")))
    write("categories.csv", frame=frame.assign(label=pd.Categorical(WORDS)))
    iris = load_iris(as_frame=True)
    few = iris.frame.assign(target=iris.target_names[iris.target]).iloc[::10]
    write("sklearn_iris.csv", label="target", values=list(iris.data.columns), frame=few)
    frame[NAMES].to_csv(HERE / "values_alone.csv", index=False)
    frame[["label"]].to_csv(HERE / "labels_alone.csv", index=False)
    case(["values_alone.csv", "labels_alone.csv"], pd.read_csv(HERE / "values_alone.csv"), pd.read_csv(HERE / "labels_alone.csv"))
    case(["f4.npy", "comma.csv"], np.load(HERE / "f4.npy"), pd.read_csv(HERE / "comma.csv")["label"], label="label")
    case(["f4.npy", "labels_alone.csv"], np.load(HERE / "f4.npy"), pd.read_csv(HERE / "labels_alone.csv"))
    # As R's write.csv and write.csv2 have them: row names under an empty name, text in quotes.
    for name, sep, decimal in (("r.csv", ",", "."), ("r2.csv", ";", ",")):
        lines = [sep.join(['""', *[f'"{column}"' for column in frame.columns]])]
        for i, row in enumerate(frame.itertuples(index=False)):
            cells = [f"{value:.4g}".replace(".", decimal) for value in row[:3]]
            lines.append(sep.join([f'"{i + 1}"', *cells, f'"{row[3]}"']))
        (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        read = pd.read_csv(HERE / name, sep=sep, decimal=decimal)
        case(name, read[NAMES], read["label"], label="label")
    np.savetxt(HERE / "savetxt.csv", np.column_stack([numbers("<f4"), INTEGERS + 1]), delimiter=",", fmt="%.6g", header="a,b,c,label", comments="")
    read = np.loadtxt(HERE / "savetxt.csv", delimiter=",", skiprows=1)
    case("savetxt.csv", read[:, :3], read[:, 3].astype(int), label="label")


def main():
    numpy_files()
    numpy_archives()
    tensors()
    tables()
    packed()
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in CASES)
    (HERE / "expected.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    print(len(CASES), "cases,", len(list(HERE.iterdir())) - 2, "files")


main()
