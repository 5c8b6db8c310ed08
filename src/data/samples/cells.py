"""Writes cells.npz from a published package: 3,990 pancreas cells as 50 principal components of gene expression, and their types.

Human and mouse cells of Baron et al. 2016, as the package `came` ships them: types with ten cells or more; counts over the
cell's sum times 10,000, log(1 + x); of the genes that both species have one to one, the 2,000 that vary most; PCA. Half floats.

usage: pip download --no-deps came==0.1.13
       pip install h5py==3.16.0 scipy==1.17.1 pandas==3.1.1 numpy==2.4.6 scikit-learn==1.9.1
       python cells.py came-0.1.13-py3-none-any.whl
"""
import io
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.decomposition import PCA

COMPONENTS, GENES, FEWEST = 50, 2000, 10
data = zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(sys.argv[1]).read("came/sample_data.zip")))


def read(name):
    """The stored bytes of a file, in whatever folder of the archive."""
    return io.BytesIO(data.read(next(path for path in data.namelist() if path.endswith(name))))


def cells(species):
    """Counts [cells, genes], types, and the names of the genes."""
    file = h5py.File(read(f"raw-Baron_{species}.h5ad"))
    x, types = file["X"], file["obs"]["__categories"]["cell_type1"][:].astype(str)
    counts = sp.csr_matrix((x["data"][:], x["indices"][:], x["indptr"][:]), shape=x.attrs["shape"])
    genes = file["var"][file["var"].attrs.get("_index", "index")][:].astype(str)
    return counts.toarray().astype("f4"), types[file["obs"]["cell_type1"][:]], genes


pairs = pd.read_csv(read("gene_matches_1v1_human2mouse.csv")).iloc[:, :2].to_numpy()
(human, human_types, human_genes), (mouse, mouse_types, mouse_genes) = cells("human"), cells("mouse")
at = [{gene: i for i, gene in enumerate(genes)} for genes in (human_genes, mouse_genes)]
both = np.array([(at[0][a], at[1][b]) for a, b in pairs if a in at[0] and b in at[1]])
counts = np.vstack([human[:, both[:, 0]], mouse[:, both[:, 1]]])
types = np.concatenate([human_types, mouse_types])
names, sizes = np.unique(types, return_counts=True)
kept = np.isin(types, names[sizes >= FEWEST])
counts, types = counts[kept], types[kept]
logs = np.log1p(counts / counts.sum(1, keepdims=True) * 1e4)
varied = np.argsort(-logs.var(0))[:GENES]
components = PCA(COMPONENTS, random_state=0).fit_transform(logs[:, varied])
print(components.shape, dict(zip(*np.unique(types, return_counts=True))))
np.savez_compressed(Path(__file__).with_suffix(".npz"), x=components.astype("f2"), cell_type=types)
