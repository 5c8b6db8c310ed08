"""An embedding of cells by their type, in AnnData as scanpy reads it: `python cells.py`."""

import anndata
import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD

from nearfar.anndata import fit_anndata

# Counts of 300 genes in 1,200 cells of six types; the type of every tenth cell is not known.
draw = np.random.default_rng(0)
types = draw.integers(0, 6, 1200)
rates = np.exp(draw.normal(-1.5, 1, 300) + draw.normal(0, 1.5, (6, 300)) * (draw.random((6, 300)) < 0.15))
counts = draw.poisson(rates[types] * draw.gamma(4, 0.25, (1200, 1)))
names = np.array([f"type {number}" for number in types], object)
names[::10] = None
cells = anndata.AnnData(csr_matrix(counts, dtype=np.float32), obs=pd.DataFrame({"cell_type": pd.Categorical(names)}, index=map(str, range(1200))))
cells.obsm["X_pca"] = TruncatedSVD(30, random_state=0).fit_transform(np.log1p(cells.X))

head = fit_anndata(cells, "cell_type", use_rep="X_pca", config={"steps": 200}, engine="cpu")
scores = cells.uns["X_nearfar"]["scores"]
print(cells.uns["X_nearfar"]["verdict"])
print(f"obsm {cells.obsm['X_nearfar'].shape}: MAP@R {scores['head']['mean_average_precision_at_r']:.3f}, of the rows as they are "
      f"{scores['raw']['mean_average_precision_at_r']:.3f}")
