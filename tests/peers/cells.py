"""Takes an .h5ad of cells there and back: anndata writes it, Nearfar trains on it and adds the embeddings, scanpy reads the copy.

The cells are generated: 100,000 with 50 components in obsm/X_pca, 30 cell types in obs, and a sparse X that is not to be touched. Held:
- `nearfar train` on the file as it is takes the components and the cell types by itself;
- the copy that `nearfar embed --out copy.h5ad` writes holds obsm["X_nearfar"], the very floats of `nearfar embed --out x.npy`, one
  unit row a cell; X, obs, var and X_pca are what the file held;
- scanpy finds neighbours by them.
Two faults are planted in what scanpy read, two rows that change places and one value of X: both must be rejected.
Exits with 1 where something differs.

usage: pip install scanpy==1.12.4
       python cells.py target/release/nearfar [--cells 100000]
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scanpy
import scipy.sparse


def write(path, cells):
    random, types = np.random.default_rng(0), 30
    kind = random.integers(0, types, cells)
    components = random.normal(size=(types, 50))[kind] + 1.2 * random.normal(size=(cells, 50))
    counts = scipy.sparse.random(cells, 200, 0.02, format="csr", dtype="f4", random_state=1)
    obs = pd.DataFrame({"cell_type": pd.Categorical([f"type{k:02d}" for k in kind])}, index=[f"cell{i}" for i in range(cells)])
    anndata.AnnData(counts, obs=obs, obsm={"X_pca": components.astype("f4")}).write_h5ad(path)


def nearfar(asked, *words):
    begun = time.monotonic()
    done = subprocess.run([asked.nearfar, *map(str, words), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    print(f"nearfar {words[0]}: {time.monotonic() - begun:.1f} s", flush=True)
    return json.loads(done.stdout)


def differs(held, copy, expected):
    """What is not as it should be."""
    found = copy.obsm["X_nearfar"]
    checks = {
        "obs": held.obs.equals(copy.obs),
        "X": (held.X != copy.X).nnz == 0,
        "X_pca": np.array_equal(held.obsm["X_pca"], copy.obsm["X_pca"]),
        "X_nearfar": found.dtype == np.float32 and np.array_equal(found, expected),
        "var, obsm": held.var.equals(copy.var) and set(copy.obsm) == {"X_pca", "X_nearfar"},
        "lengths": bool(np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)),
    }
    return [name for name, holds in checks.items() if not holds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nearfar")
    parser.add_argument("--cells", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, run, copy, alone = (Path(folder) / name for name in ("cells.h5ad", "run", "copy.h5ad", "x.npy"))
        write(data, asked.cells)
        report = nearfar(asked, "train", "--data", data, "--out", run, "--engine", "cpu")
        taken = {"rows": report["data"]["rows"], "dim": report["data"]["dim"], "classes": report["data"]["classes"]}
        wrong = [] if taken == {"rows": asked.cells, "dim": 50, "classes": 30} else [f"taken: {taken}"]
        for out in (copy, alone):
            nearfar(asked, "embed", "--model", run, "--data", data, "--out", out, "--engine", "cpu")
        held, read, expected = scanpy.read_h5ad(data), scanpy.read_h5ad(copy), np.load(alone)
        wrong += differs(held, read, expected)
        some = read[:5000].copy()
        scanpy.pp.neighbors(some, use_rep="X_nearfar", n_neighbors=15)
        if some.obsp["connectivities"].nnz == 0:
            wrong.append("no neighbours")
        read.obsm["X_nearfar"][[0, 1]] = read.obsm["X_nearfar"][[1, 0]]
        read.X.data[0] += 1
        if not {"X", "X_nearfar"} <= set(differs(held, read, expected)):
            wrong.append("a planted fault was not seen")
        print(f"precision@1 of the test cells: {report['final']['test']['precision_at_1']:.3f}")
    print("\n".join(wrong) or "all as it should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
