"""Writes the files of this folder with the programs that people write theirs with, and `expected.json`: what those programs
read back from them; `refused.json` has files that are whole and not read, with a part of what is said.

    pip install numpy==2.4.6 pandas==2.3.3 polars==1.36.1 pyarrow==26.0.1 scikit-learn==1.9.1 safetensors==0.8.0 torch==2.15.0 anndata==0.12.19 h5py==3.16.0 hdf5plugin==7.1.0 scipy==1.17.1
    python tests/corpus/make.py

Each case of `expected.json`: its files (features, then labels where they are in another one), the label column or array and
the array of features where the case names them, the values as float32, row after row, and the label of each row.
"""
import gzip
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import anndata as ad
import h5py
import hdf5plugin
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch
from sklearn.datasets import load_digits, load_iris

HERE = Path(__file__).parent
ROWS = 12
NAMES = ["width", "height", "depth"]
CASES = []
REFUSED = []


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


def json_lines():
    """By pandas, and by json as people save what a text model gives them."""
    x = numbers("<f4")
    frame = pd.DataFrame(x, columns=NAMES).assign(label=WORDS)

    def write(name, frame, values=NAMES, label="label", **arguments):
        frame.to_json(HERE / name, orient="records", lines=True, **arguments)
        read = pd.read_json(HERE / name, orient="records", lines=True, dtype=False)
        rows = np.stack(read[values].to_numpy()) if isinstance(values, str) else read[values]
        case(name, rows, read[label], label=label)

    write("columns.jsonl", frame)
    write("ascii.ndjson", frame.assign(label=[f"{word} 🌳" for word in WORDS]), force_ascii=True)
    write("numbered.jsonl", frame.assign(label=INTEGERS))
    write("packed.jsonl.gz", frame, compression={"method": "gzip", "mtime": 0})
    vectors = pd.DataFrame({"id": range(ROWS), "embedding": list(x.tolist()), "label": WORDS, "text": [f"a \"{i}\"\n" for i in range(ROWS)]})
    write("vectors.jsonl", vectors, values="embedding")
    write("class_first.jsonl", vectors[["label", "embedding"]], values="embedding")
    lines = [{"meta": {"source": "web", "tags": ["a", "b"]}, "vector": row, "label": bool(i % 2)} for i, row in enumerate(x.tolist())]
    (HERE / "nested.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    read = [json.loads(line) for line in (HERE / "nested.jsonl").read_text().splitlines()]
    case("nested.jsonl", [row["vector"] for row in read], [json.dumps(row["label"]) for row in read])
    case(["f4.npy", "columns.jsonl"], np.load(HERE / "f4.npy"), WORDS, label="label")
    case(["columns.jsonl", "labels_alone.csv"], x, WORDS)


def columnar():
    """Parquet: by pandas and pyarrow as they do by default and as they can, and by polars."""
    x = numbers("<f4")
    frame = pd.DataFrame(x, columns=NAMES).assign(label=WORDS)
    vectors = pd.DataFrame({"id": range(ROWS), "embedding": list(x), "label": WORDS, "text": [f"a {i}" for i in range(ROWS)]})

    def read_back(name, values=NAMES, label="label", **known):
        read = pd.read_parquet(HERE / name)
        rows = np.stack(read[values].to_numpy()) if isinstance(values, str) else read[values]
        labels = read[label].astype(str).str.lower() if read[label].dtype == bool else read[label]
        case(name, rows, labels, label=label, **known)

    def write(name, frame, values=NAMES, label="label", **arguments):
        frame.to_parquet(HERE / name, **arguments)
        read_back(name, values, label)

    write("pandas.parquet", frame)
    for packing in ("gzip", "zstd", None):
        write(f"{packing or 'not'}_packed.parquet", frame, compression=packing)
    write("float64.pq", frame.astype({name: "f8" for name in NAMES}))
    write("half.parquet", frame.astype({name: "f2" for name in NAMES}))
    write("indexed.parquet", frame.set_index(np.arange(ROWS) * 3 + 7))
    write("named_index.parquet", frame.set_index(pd.Index(np.arange(ROWS) * 3 + 7, name="sample")))
    write("categories.parquet", frame.assign(label=pd.Categorical(WORDS)))
    write("numbered_categories.parquet", frame.assign(kind=pd.Categorical(INTEGERS)).drop(columns="label"), label="kind")
    write("integers.parquet", frame.assign(label=INTEGERS))
    write("truth.parquet", frame.assign(label=INTEGERS > 0))
    write("large_labels.parquet", frame.assign(label=np.array([2**63 + 9, 2**63 + 10, 5], "u8")[np.arange(ROWS) % 3]))
    write("blank_text.parquet", frame.assign(note=["a", None, ""] * 4))
    types = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
    columns = {kind: numbers(kind)[:, 1] for kind in types}
    columns.update({kind: numbers(kind)[:, 0] // 16 for kind in ("i8", "u8")})
    write("types.parquet", pd.DataFrame(columns).assign(label=WORDS), values=types)
    write("nullable.parquet", pd.DataFrame(columns).convert_dtypes().assign(label=pd.array(WORDS, "string")), values=types)
    write("row_groups.parquet", frame, row_group_size=5)
    write("pages.parquet", frame, data_page_version="2.0", data_page_size=1, write_batch_size=2)
    write("small_pages.parquet", frame, data_page_size=1, write_batch_size=2, use_dictionary=False)
    write("pages_gzip.parquet", frame.assign(note=[None, "a"] * 6), data_page_version="2.0", compression="gzip")
    other = {"width": "BYTE_STREAM_SPLIT", "height": "BYTE_STREAM_SPLIT", "depth": "PLAIN", "kind": "DELTA_BINARY_PACKED", "label": "DELTA_LENGTH_BYTE_ARRAY"}
    write("encodings.parquet", frame.assign(kind=INTEGERS * 1000), values=[*NAMES, "kind"], use_dictionary=False, column_encoding=other)
    odd = frame.assign(at=datetime(2020, 1, 1), price=[Decimal(i) / 4 for i in range(ROWS)], raw=[b"a"] * ROWS, part=[{"a": 1, "b": i} for i in range(ROWS)])
    write("other_types.parquet", odd)
    write("vectors.parquet", vectors, values="embedding")
    write("vectors_float64.parquet", vectors.assign(embedding=list(x.astype("f8"))), values="embedding", row_group_size=7, data_page_version="2.0")
    write("vectors_integers.parquet", vectors.assign(embedding=list(numbers("i2"))), values="embedding")
    write("vectors_small_pages.parquet", vectors, values="embedding", data_page_size=1, write_batch_size=2, use_dictionary=False)
    for name, kind in {"fixed": pa.list_(pa.float32(), 3), "large": pa.large_list(pa.float64())}.items():
        table = pa.table({"label": pa.array(WORDS).dictionary_encode(), "vector": pa.array(list(x), kind), "tags": pa.array([["a"]] * ROWS)})
        pq.write_table(table, HERE / f"{name}_lists.parquet")
        read_back(f"{name}_lists.parquet", values="vector")
    required = pa.schema([pa.field("a", pa.float32(), nullable=False), pa.field("b", pa.int64(), nullable=False), pa.field("label", pa.string(), nullable=False)])
    pq.write_table(pa.table([x[:, 0], INTEGERS, WORDS], schema=required), HERE / "required.parquet")
    read_back("required.parquet", values=["a", "b"])
    polar = pl.DataFrame({**{name: x[:, i] for i, name in enumerate(NAMES)}, "label": WORDS})
    polar.with_columns(pl.col("label").cast(pl.Categorical)).write_parquet(HERE / "polars.parquet")
    read_back("polars.parquet")
    pl.DataFrame({"label": WORDS, "vector": x.tolist()}).write_parquet(HERE / "polars_lists.parquet", compression="uncompressed")
    read_back("polars_lists.parquet", values="vector")
    (HERE / "whole.parquet.gz").write_bytes(gzip.compress((HERE / "pandas.parquet").read_bytes(), mtime=0))
    case("whole.parquet.gz", x, WORDS, label="label")
    case(["f4.npy", "pandas.parquet"], np.load(HERE / "f4.npy"), WORDS, label="label")
    case(["pandas.parquet", "labels_alone.csv"], x, WORDS)

    def refuse(name, said, frame, **arguments):
        frame.to_parquet(HERE / name, **arguments)
        REFUSED.append({"file": name, "said": said})

    refuse("brotli.parquet", "compressed with Brotli, which is not read: save it again with pandas", frame, compression="brotli")
    refuse("lz4.parquet", "compressed with LZ4, which is not read: save it again with pandas", frame, compression="lz4")
    deltas = {"label": "DELTA_BYTE_ARRAY"}
    refuse("deltas.parquet", "column \"label\" holds what is not read", frame, use_dictionary=False, column_encoding=deltas)
    refuse("unnamed.parquet", ", row 5: column \"label\" has an empty cell", frame.assign(label=[*WORDS[:4], None, *WORDS[5:]]))
    refuse("hole.parquet", ", row 3: column \"width\" has an empty cell", frame.assign(width=[1, 2, None, *range(9)]))
    refuse("infinite.parquet", ", row 4: column \"width\" holds \"inf\", which is not finite", frame.assign(width=[1, 2, 3, np.inf, *range(8)]))
    refuse("too_large.parquet", "too large for 32-bit floats", frame.assign(width=[1e39, *range(11)]))
    refuse("ragged.parquet", ", row 2: \"embedding\" holds 2 numbers, expected 3", vectors.assign(embedding=[row[: 3 - i % 2] for i, row in enumerate(x)]))
    refuse("no_list.parquet", ", row 2: column \"embedding[0]\" has an empty cell", vectors.assign(embedding=[x[0], None, *x[2:]]))
    refuse("only_times.parquet", "no column of numbers or text", odd[["at", "price", "raw"]])


def hierarchical():
    """HDF5: AnnData by anndata, plain trees by h5py, and by hand what anndata 0.7 wrote."""
    x = numbers("<f4")
    kinds = pd.Categorical(np.array(["β cell", "T cell", "NK"])[np.arange(ROWS) % 3])
    cells = [f"cell{i}" for i in range(ROWS)]
    sparse = np.where(np.arange(ROWS * 5) % 3 == 0, np.arange(ROWS * 5) / 4, 0).astype("<f4").reshape(ROWS, 5)

    def write(name, X, obs, obsm=None, label=None, features=None, **arguments):
        a = ad.AnnData(X, obs=pd.DataFrame(obs, index=cells), obsm=obsm or {})
        a.write_h5ad(HERE / name, **arguments)
        read = ad.read_h5ad(HERE / name)
        # As scanpy's `neighbors`; a sparse X of few columns gives its components here, too.
        by_components = "X_pca" in read.obsm and (read.n_vars > 50 or sp.issparse(read.X))
        place = features or ("obsm/X_pca" if by_components else "X")
        rows = read.obsm[place.split("/")[1]] if "/" in place else read.X
        rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
        case(name, rows, read.obs[label or list(obs)[0]].astype(str), label=label, features=features)

    write("dense.h5ad", x, {"cell_type": kinds})
    write("gzip.h5ad", x, {"leiden": pd.Categorical([str(i % 4) for i in range(ROWS)])}, compression="gzip")
    write("lzf.h5ad", x, {"cell_type": kinds}, compression="lzf")
    write("csr.h5ad", sp.csr_matrix(sparse), {"cell_type": kinds})
    write("csr_gzip.h5ad", sp.csr_matrix(sparse), {"cell_type": kinds}, compression="gzip")
    write("csc.h5ad", sp.csc_matrix(sparse), {"cell_type": kinds})
    write("csr_array.h5ad", sp.csr_array(sparse.astype("<f8")), {"cell_type": kinds})
    write("components.h5ad", sp.csr_matrix(sparse), {"cell_type": kinds}, {"X_pca": x, "X_umap": x[:, :2]})
    write("wide.h5ad", np.tile(x, 17), {"cell_type": kinds}, {"X_pca": x})
    write("fifty.h5ad", np.tile(x, 17)[:, :50], {"cell_type": kinds}, {"X_pca": x})
    write("chosen.h5ad", sp.csr_matrix(sparse), {"cell_type": kinds}, {"X_pca": x, "X_umap": x[:, :2]}, features="obsm/X_umap")
    write("x_of_components.h5ad", x / 2, {"cell_type": kinds}, {"X_umap": x[:, :2]})
    write("integers.h5ad", x, {"n_genes": np.arange(ROWS) * 7, "cluster": np.arange(ROWS) % 3}, label="cluster")
    write("strings.h5ad", x, {"species": pd.array(WORDS, dtype="str"), "score": np.linspace(0, 1, ROWS)})
    write("two_columns.h5ad", x, {"batch": kinds, "donor": pd.Categorical(WORDS)}, label="donor", features="X")
    write("numbered.h5ad", x, {"cell_type": pd.Categorical(np.arange(ROWS) % 3 * 10)})
    write("decimals.h5ad", x, {"cell_type": pd.Categorical(np.arange(ROWS) % 3 / 2)})
    write("nullable.h5ad", x, {"cluster": pd.array([i % 3 for i in range(ROWS)], dtype="Int64")})
    write("boolean.h5ad", x, {"leiden": (np.arange(ROWS) % 3 == 0).astype("u1")})
    write("float64.h5ad", numbers("<f8"), {"cell_type": kinds})
    write("counts.h5ad", numbers("<i4"), {"cell_type": kinds})
    a = ad.AnnData(x, obs=pd.DataFrame({"cell_type": kinds}, index=cells), layers={"scaled": x * 2, "counts": sp.csr_matrix(sparse[:, :3])})
    a.write_h5ad(HERE / "layers.h5ad")
    read = ad.read_h5ad(HERE / "layers.h5ad")
    case("layers.h5ad", read.layers["scaled"], read.obs["cell_type"].astype(str), features="layers/scaled")
    # As anndata 0.7 had it: a column of codes that refers to names in a group of their own.
    with h5py.File(HERE / "before_0.8.h5ad", "w") as file:
        file["X"] = x
        obs = file.create_group("obs")
        about = {"_index": "index", "encoding-type": "dataframe", "encoding-version": "0.1.0", "column-order": ["cell_type"]}
        obs.attrs.update(about)
        obs["index"] = np.array(cells, dtype=object)
        obs["cell_type"] = kinds.codes
        obs["__categories/cell_type"] = np.array(list(kinds.categories), dtype=object)
        obs["cell_type"].attrs["categories"] = obs["__categories/cell_type"].ref
    read = ad.read_h5ad(HERE / "before_0.8.h5ad")
    case("before_0.8.h5ad", read.X, read.obs["cell_type"].astype(str))

    def tree(name, label=None, features=None, rows="X", labels="y", **arrays):
        with h5py.File(HERE / name, "w") as file:
            for path, array in arrays.items():
                data, options = array if isinstance(array, tuple) else (array, {})
                file.create_dataset(path, data=data, **options)
        with h5py.File(HERE / name) as file:
            case(name, file[rows][()], file[labels][()], label=label, features=features)

    for code in ("<f2", ">f2", ">f4", "<f8", ">f8", "|i1", ">i2", "<i8", "|u1", ">u4"):
        tree(f"{'big_' * (code[0] == '>')}{code[1:]}.h5", X=numbers(code), y=INTEGERS)
    text = h5py.string_dtype()
    tree("words.h5", X=x, y=(list(WORDS), {"dtype": text}))
    tree("bytes.h5", X=x, y=np.array([b"oak", b"fir", b"elm"])[np.arange(ROWS) % 3])
    tree("bool.h5", X=x, y=(INTEGERS > 0).astype("u1"))
    chunks = {"chunks": (5, 2), "compression": "gzip", "shuffle": True}
    tree("chunked.h5", X=(x, chunks), y=(INTEGERS, {"chunks": (7,), "compression": "lzf"}))
    tree("checked.h5", X=(x, {"chunks": (4, 3), "fletcher32": True}), y=INTEGERS.astype(">i2"))
    tree("deep.h5", rows="train/x", labels="train/y", **{"train/x": x, "train/y": INTEGERS, "about/note": np.array([1.5])})
    tree("several.h5", rows="scaled", labels="z", features="scaled", label="z", raw=x, scaled=x / 2, y=INTEGERS, z=INTEGERS * 2)
    with h5py.File(HERE / "latest.h5", "w", libver=("v110", "v110")) as file:
        file.create_dataset("X", data=x, chunks=(5, 3), maxshape=(None, 3), compression="gzip")
        file["y"] = INTEGERS
    with h5py.File(HERE / "latest.h5") as file:
        case("latest.h5", file["X"][()], file["y"][()])
    with h5py.File(HERE / "alone.h5", "w") as file:
        file["X"] = x
    case(["alone.h5", "y.npy"], x, INTEGERS)
    case(["f4.npy", "dense.h5ad"], np.load(HERE / "f4.npy"), kinds.astype(str), label="cell_type")
    (HERE / "dense.h5ad.gz").write_bytes(gzip.compress((HERE / "dense.h5ad").read_bytes(), mtime=0))
    read = ad.read_h5ad(HERE / "dense.h5ad")
    case("dense.h5ad.gz", read.X, read.obs["cell_type"].astype(str))


def refused():
    """Files that are whole, and not read: each with a part of what is said."""
    x, kinds = numbers("<f4"), pd.Categorical(WORDS)

    def write(name, said, obs):
        obs = pd.DataFrame(obs, index=[f"cell{i}" for i in range(ROWS)])
        ad.AnnData(x, obs=obs).write_h5ad(HERE / name)
        REFUSED.append({"file": name, "said": said})

    def tree(name, said, make):
        with h5py.File(HERE / name, "w") as file:
            make(file)
        REFUSED.append({"file": name, "said": said})

    write("unnamed.h5ad", ":obs/cell_type: row 5: the label is empty", {"cell_type": pd.Categorical([*WORDS[:4], None, *WORDS[5:]])})
    write("masked.h5ad", ":obs/cluster: row 2: the label is empty", {"cluster": pd.array([1, None, *range(10)], dtype="Int64")})
    write("counted.h5ad", ": no column of obs can be told to be the labels: choose one of \"obs/n_genes\" (12,)", {"n_genes": np.arange(ROWS)})
    write("no_label.h5ad", ": a column of obs for the labels is missing", {"score": np.linspace(0, 1, ROWS)})
    write("two_labels.h5ad", "several arrays can be the labels", {"batch": kinds, "donor": kinds})
    def filtered(filter):
        def make(file):
            file.create_dataset("X", data=x, chunks=(12, 3), **filter)
            file["y"] = INTEGERS

        return make

    def wide(file):
        rows = 60_000
        packed = {"compression": "gzip", "chunks": (10_000,)}
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", [rows, 40_000]
        group["data"], group["indices"] = np.ones(1, "<f4"), np.array([7])
        group.create_dataset("indptr", data=np.array([0] * rows + [1]), **packed)
        file.create_dataset("obs/cell_type", data=np.arange(rows) % 2, **packed)

    def chunk(file):
        file.create_dataset("X", (6_000_000, 3), "<f4", chunks=(6_000_000, 3), compression="gzip")
        file.create_dataset("y", (6_000_000,), "|i1", chunks=(60_000,), compression="gzip")

    def records(file):
        file["X"], file["y"] = x, np.zeros(ROWS, [("a", "<i4"), ("b", "<f4")])

    def virtual(file):
        layout = h5py.VirtualLayout((ROWS, 3), "<f4")
        layout[:] = h5py.VirtualSource("elsewhere.h5", "X", (ROWS, 3))
        file.create_virtual_dataset("X", layout)
        file["y"] = INTEGERS

    def itself(file):
        file["a/b"] = file["/"]

    tree("zstd.h5", "compressed with zstd, which is not read", filtered(hdf5plugin.Zstd()))
    tree("blosc.h5", "compressed with blosc, which is not read", filtered(hdf5plugin.Blosc()))
    tree("wide_sparse.h5ad", ":X: a sparse matrix (60000, 40000) takes 8.9 GiB where every zero is written out", wide)
    tree("chunk.h5", "chunks of (6000000, 3) are not read", chunk)
    tree("records.h5", ":y: a table of records", records)
    tree("virtual.h5", "a virtual dataset", virtual)
    tree("itself.h5", "there is no array in it", itself)
    with h5py.File(HERE / "newer.h5", "w", libver="latest") as file:
        file.create_dataset("X", data=x, chunks=(5, 3), maxshape=(None, 3), compression="gzip")
        file["y"] = INTEGERS
    REFUSED.append({"file": "newer.h5", "said": "written in a form of HDF5 that is not read"})


def main():
    numpy_files()
    numpy_archives()
    tensors()
    tables()
    packed()
    json_lines()
    columnar()
    hierarchical()
    refused()
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in CASES)
    (HERE / "expected.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in REFUSED)
    (HERE / "refused.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    print(len(CASES), "cases,", len(list(HERE.iterdir())) - 3, "files")


main()
