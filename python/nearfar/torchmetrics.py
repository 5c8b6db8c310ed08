"""Retrieval metrics as a metric of torchmetrics, and so of Lightning: exact over all rows, inside a memory budget, on any ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torchmetrics import Metric

from . import distributed, functions

__all__ = ["RetrievalMetrics"]

_NAMES = {
    "precision_at_1": "precision_at_1",
    "r_precision": "r_precision",
    "map_at_r": "mean_average_precision_at_r",
    "map": "mean_average_precision",
    "mrr": "mean_reciprocal_rank",
}


class RetrievalMetrics(Metric):  # type: ignore[misc]
    """Scores embeddings by the ranks of their class, each row a query among all others that were seen since ``reset``.

    ``compute`` gives a dict of scalars, for Lightning's ``log_dict``: ``precision_at_1``, ``r_precision``, ``map_at_r``, ``map``, ``mrr``
    and ``recall_at_k``, with ``prefix`` before each. Under ``torch.distributed`` every rank keeps the rows that it saw, on the host, and
    ranks score them together by :func:`nearfar.distributed.evaluate`; no rank gathers those of all. Give ``ids``, the rows' numbers in the
    data set, so that rows that ``DistributedSampler`` repeats count once.

    Calling the metric adds rows, as ``update`` does, and returns nothing: the ranks within one batch say little.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True

    embeddings: list[torch.Tensor]
    labels: list[torch.Tensor]
    ids: list[torch.Tensor]

    def __init__(
        self,
        *,
        metric: str = "cosine",
        at: tuple[int, ...] = (1, 5, 10),
        prefix: str = "",
        budget: int | str | None = None,
        engine: str | None = None,
        timeout: float = 60,
        **more: Any,
    ) -> None:
        # The states are not to be gathered: compute has its own way over ranks.
        super().__init__(**{"sync_on_compute": False, **more})
        self.metric, self.at, self.prefix = metric, at, prefix
        self.budget, self.engine, self.timeout = budget, engine, timeout
        for state in ("embeddings", "labels", "ids"):
            self.add_state(state, [], dist_reduce_fx=None)

    def forward(self, *given: Any, **named: Any) -> None:
        """Adds rows."""
        self.update(*given, **named)

    def update(self, embeddings: torch.Tensor, labels: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Adds rows ``[rows, columns]`` with the class of each, and their numbers in the data set."""
        if len(embeddings) != len(labels) or (ids is not None and len(ids) != len(labels)):
            raise ValueError(f"{len(embeddings)} embeddings, {len(labels)} labels: there must be one a row, and an id, if any")
        if (ids is None) != (not self.ids) and self.labels:
            raise ValueError("some rows have ids and some have none: give them with every update, or with none")
        self.embeddings.append(embeddings.detach().cpu())
        self.labels.append(labels.detach().cpu())
        if ids is not None:
            self.ids.append(ids.detach().cpu())

    def compute(self) -> dict[str, torch.Tensor]:
        """The scores of all rows, of all ranks."""
        rows, labels = torch.cat(self.embeddings), torch.cat(self.labels)
        asked: dict[str, Any] = {"metric": self.metric, "at": self.at, "budget": self.budget, "engine": self.engine}
        ids = torch.cat(self.ids) if self.ids else None
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            found = distributed.evaluate(rows, labels, ids=ids, timeout=self.timeout, **asked)
        else:
            if ids is not None:
                kept = _first(ids)
                rows, labels = rows[kept], labels[kept]
            found = functions.evaluate(rows, labels, **asked)
        scores = {ours: found[theirs] for ours, theirs in _NAMES.items()}
        scores |= {f"recall_at_{k}": found["recall_at"][k] for k in self.at}
        return {self.prefix + name: torch.tensor(score, dtype=torch.float64).float() for name, score in scores.items()}


def _first(ids: torch.Tensor) -> torch.Tensor:
    """The first row of each id, by id."""
    order = torch.argsort(ids, stable=True)
    ordered = ids[order]
    return order[torch.cat([torch.ones(1, dtype=torch.bool), ordered[1:] != ordered[:-1]])]
