"""A head on the cells of an AnnData, as scanpy's tools are called: the embedding of every cell lands in ``obsm``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import functions
from ._nearfar import BudgetError
from .arrays import choice
from .functions import Head

__all__ = ["fit_anndata"]


def _rows(adata: Any, use_rep: str | None, budget: int) -> Any:
    """The cells as dense rows. Sparse counts become dense once, if the budget holds them."""
    if use_rep is not None and use_rep != "X":
        if use_rep not in adata.obsm:
            known = ", ".join(sorted(adata.obsm.keys())) or "nothing"
            raise ValueError(f'use_rep is "{use_rep}": obsm has {known}; leave it out for X')
        return np.asarray(adata.obsm[use_rep])
    if not hasattr(adata.X, "toarray"):
        return np.asarray(adata.X)
    asked = 4 * adata.n_obs * adata.n_vars
    if asked > budget:
        raise BudgetError(
            f"X is sparse, and {asked} bytes as dense rows of {adata.n_vars} columns; the budget is {budget}: raise it, or give use_rep, such "
            'as "X_pca"'
        )
    return adata.X.astype(np.float32).toarray()


def fit_anndata(
    adata: Any,
    label: str,
    *,
    use_rep: str | None = None,
    key_added: str = "X_nearfar",
    config: dict[str, Any] | None = None,
    budget: int | str | None = None,
    engine: str | None = None,
) -> Head:
    """Trains a head that brings cells of one ``obs[label]`` together, and writes the embeddings of all cells to ``obsm[key_added]``.

    ``use_rep`` names the rows in ``obsm`` to start from, such as ``"X_pca"``; X itself if it is not set. Cells without a label are embedded
    and do not train. ``uns[key_added]`` has the verdict, the settings and the scores, and is written with the file; the head comes back.
    """
    if label not in adata.obs:
        raise ValueError(f'label is "{label}": obs has {", ".join(map(str, adata.obs.columns)) or "no columns"}')
    bytes_ = choice(budget, engine, None)[2]
    rows = _rows(adata, use_rep, bytes_)
    classes = adata.obs[label]
    known = classes.notna().to_numpy()
    names = classes.astype(str).to_numpy()
    if not known.all():
        # Of some cells a copy is made, of all none.
        head = functions.train(rows[known], names[known], config, budget=budget, engine=engine)
    else:
        head = functions.train(rows, names, config, budget=budget, engine=engine)
    adata.obsm[key_added] = head(rows, budget=budget, engine=engine)
    scores = {
        side: {name: float(of["test"][name]) for name in ("precision_at_1", "mean_average_precision_at_r")}
        for side, of in [("head", head.report["final"]), ("raw", head.report["baseline"]["raw"])]
    }
    adata.uns[key_added] = {
        "verdict": head.report["verdict"],
        "label": label,
        "use_rep": use_rep or "X",
        "config": json.dumps(head.report["config"]),
        "scores": scores,
    }
    return head
