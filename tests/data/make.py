"""Writes the small files that tests/command_line/cli.rs and tests/browser read, as NumPy and pandas users save them.

usage: pip install numpy==2.4.6 pandas==2.3.3 pyarrow==26.0.1 safetensors==0.8.0 anndata==0.12.19 && python make.py
"""
import io
import warnings
import zipfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
from safetensors.numpy import save_file

here = Path(__file__).parent
rng = np.random.default_rng(0)
species = np.array(["ash", "birch", "château"])[np.arange(60) % 3]
x = (rng.standard_normal((3, 5))[np.arange(60) % 3] * 2 + rng.standard_normal((60, 5))).astype("f4")

np.save(here / "features.npy", x)
np.save(here / "features_f64_fortran.npy", np.asfortranarray(x.astype("f8")))
np.save(here / "features_f16.npy", x.astype("f2"))
np.save(here / "labels_int64.npy", np.arange(60) % 3)
np.save(here / "labels_text.npy", species)
np.save(here / "labels_objects.npy", species.astype(object), allow_pickle=True)
np.save(here / "labels_float.npy", (np.arange(60) % 3).astype("f4"))
np.save(here / "labels_short.npy", np.arange(59) % 3)
np.save(here / "labels_one_class.npy", np.zeros(60, int))
np.save(here / "features_3d.npy", x.reshape(60, 5, 1))
nan = x.copy()
nan[41, 2] = np.nan
np.save(here / "features_nan.npy", nan)
(here / "features_cut.npy").write_bytes((here / "features.npy").read_bytes()[:-7])
huge = (here / "features.npy").read_bytes().replace(b"(60, 5), ", b"(4294967296, 4294967296), ")
(here / "features_huge.npy").write_bytes(huge[:8] + (len(huge) - 10 - 1200).to_bytes(2, "little") + huge[10:])

rows = [f"{i},{s}," + ",".join(f"{v:.5g}" for v in r) for i, (s, r) in enumerate(zip(species, x))]
(here / "trees.csv").write_text("id,species,a,b,c,d,e\n" + "\n".join(rows) + "\n", encoding="utf-8")
parts = np.where(np.arange(60) % 6 == 5, "test", np.where(np.arange(60) % 6 == 4, "validation", "train"))
rows = [f"{r},{p}" for r, p in zip(rows, parts)]
(here / "trees_parts.csv").write_text("id,species,a,b,c,d,e,part\n" + "\n".join(rows) + "\n", encoding="utf-8")

# The rows of trees.csv in every other format that is read.
table = pd.read_csv(here / "trees.csv", dtype={letter: "f4" for letter in "abcde"})
table.to_csv(here / "trees.tsv", sep="\t", index=False)
table.to_json(here / "trees.jsonl", orient="records", lines=True, double_precision=8)
table.to_parquet(here / "trees.parquet")
# In the order of C: safetensors writes what lies there, whatever its order.
cells = np.ascontiguousarray(table[list("abcde")].to_numpy())
np.save(here / "trees.npy", cells)
np.savez(here / "trees.npz", X=cells, species=species)
save_file({"X": cells}, here / "trees.safetensors")
obs = pd.DataFrame({"species": pd.Categorical(species)}, index=[f"tree{i}" for i in range(60)])
anndata.AnnData(cells, obs=obs).write_h5ad(here / "trees.h5ad")

# NPZ: what np.savez writes, what other tools may, and what must be refused.
y = np.arange(60) % 3
np.savez(here / "labelled.npz", X=x, y=species)
np.savez_compressed(here / "labelled_deflated.npz", embeddings=x, labels=y, weights=np.ones(60), names=species[:3])
np.savez(here / "labels_column.npz", **{"train/x": x, "train/y": y[:, None]})
np.savez(here / "sides.npz", x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])
np.savez(here / "two_labels.npz", X=x, fine=y, coarse=y // 2)
np.savez(here / "labels_objects.npz", X=x, y=species.astype(object))
np.savez(here / "no_matrix.npz", images=x.reshape(60, 5, 1), y=y)


def archive(name, members, method=zipfile.ZIP_STORED):
    """A ZIP archive of named NPY files, [(name, bytes)], its dates fixed."""
    with warnings.catch_warnings(), zipfile.ZipFile(here / name, "w", method) as target:
        warnings.simplefilter("ignore")  # A name given twice is meant.
        for member, content in members:
            target.writestr(zipfile.ZipInfo(member), content, method)
    return (here / name).read_bytes()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


zipfile.ZIP64_LIMIT, limit = 10, zipfile.ZIP64_LIMIT  # Everything is "too large" for 32 bits.
archive("zip64.npz", [("X.npy", npy(x)), ("readme.txt", b"hello"), ("y.npy", npy(y))])
zipfile.ZIP64_LIMIT = limit
archive("no_arrays.npz", [("readme.txt", b"hello")])
archive("twice.npz", [("X.npy", npy(x)), ("y.npy", npy(y)), ("y.npy", npy(y[::-1]))])
archive("lzma.npz", [("X.npy", npy(x)), ("y.npy", npy(y))], zipfile.ZIP_LZMA)
whole = archive("cut.npz", [("X.npy", npy(x)), ("y.npy", npy(y))])
(here / "cut.npz").write_bytes(whole[: len(whole) - 300])
# A bit of the data that the checksum does not know.
at = whole.index(x.tobytes()) + 7
(here / "flipped.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
# The flag "encrypted" in each local and central header: Python writes no encrypted archives.
flags = bytearray(whole)
for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
    at = -1
    while (at := whole.find(signature, at + 1)) >= 0:
        flags[at + offset] |= 1
(here / "encrypted.npz").write_bytes(flags)
# Bombs: a member of zeros that holds more than its header says; one whose directory hides that; one that claims
# terabytes in directory and header.
zeros = npy(x) + bytes(3_000_000)
bomb = archive("bomb_header.npz", [("X.npy", zeros), ("y.npy", npy(y))], zipfile.ZIP_DEFLATED)
size = len(zeros).to_bytes(4, "little")
(here / "bomb_hidden.npz").write_bytes(bomb.replace(size, len(npy(x)).to_bytes(4, "little")))
claim = npy(x).replace(b"(60, 5), }" + 9 * b" ", b"(199999999, 5), }  ")
assert len(claim) == len(npy(x)) and claim != npy(x)
bomb = archive("bomb_claim.npz", [("X.npy", claim), ("y.npy", npy(y))], zipfile.ZIP_DEFLATED)
size = (len(claim)).to_bytes(4, "little")
(here / "bomb_claim.npz").write_bytes(bomb.replace(size, (128 + 199999999 * 20).to_bytes(4, "little")))
