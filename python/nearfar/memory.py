"""A cross-batch memory that lives in the engine."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _nearfar
from .arrays import Rows, choice, filled, to_array
from .functions import Mined, Settings, _settings


class _Labels:
    """A class of each row as a number of 64 bits, held for a call."""

    def __init__(self, labels: Any, rows: int) -> None:
        array = to_array(labels)
        if array.ndim != 1 or len(array) != rows:
            raise ValueError(f"labels of shape {array.shape} for {rows} rows: there must be one a row")
        if array.dtype.kind not in "iub":
            raise ValueError(f"labels of {array.dtype}: a memory takes integers")
        self.held: NDArray[np.int64] = np.ascontiguousarray(array, dtype=np.int64)
        self.described = (self.held.__array_interface__["data"][0], self.held.size)


class MemoryLoss:
    """A loss of batches with the last rows that were stored (cross-batch memory, Wang et al. 2020), in buffers that are made once.

    A call stores its batch, then compares it with all stored rows; a row's own copy among them is no positive of it, as in PML's
    ``CrossBatchMemory``. Only the batch goes to the engine, and only counts, loss and gradient come back::

        memory = nearfar.MemoryLoss(128, 65_536, batch_size=64, loss="nt-xent")
        found = memory(embeddings, labels)      # found.loss, found.gradient, found.counts

    ``embedding_size``, ``memory_size``
        Columns of a row, and the most rows that are stored.
    ``batch_size``
        The most rows of a call.
    ``loss``, ``miner``, ``distance``, ``miner_distance``
        As :func:`nearfar.loss` takes them. A loss with proxies takes no memory.
    ``budget``
        Of this memory alone: it has an engine of its own. :meth:`plan` says how much it takes.

    Labels are integers of up to 64 bits. A class is known while a row of it is stored: they may come and go without end.
    """

    def __init__(
        self,
        embedding_size: int,
        memory_size: int = 1024,
        *,
        batch_size: int,
        loss: Settings = "triplet-margin",
        miner: Settings = None,
        distance: str | None = None,
        miner_distance: str | None = None,
        budget: int | str | None = None,
        engine: str | None = None,
        adapter: str | None = None,
    ) -> None:
        self.embedding_size = embedding_size
        self.memory_size = memory_size
        self.batch_size = batch_size
        settings = _settings(miner, loss, distance, miner_distance)
        asked = choice(budget, engine, adapter)
        self._core = _nearfar.MemoryLoss(asked, settings, memory_size, embedding_size, batch_size)

    @staticmethod
    def plan(
        embedding_size: int,
        memory_size: int = 1024,
        *,
        batch_size: int,
        loss: Settings = "triplet-margin",
        miner: Settings = None,
        budget: int | str | None = None,
    ) -> dict[str, Any]:
        """Forecasts a memory of these sizes: every buffer, their ``total_bytes``, and the time of a step. Makes nothing. Raises
        :class:`BudgetError` where it would be refused."""
        settings = _settings(miner, loss, None)
        within = choice(budget, None, None)[2]
        found: dict[str, Any] = json.loads(
            _nearfar.MemoryLoss.plan(settings, within, memory_size, embedding_size, batch_size)
        )
        return found

    def __call__(self, embeddings: Any, labels: Any, *, enqueue_mask: Any = None, gradient: bool = True) -> Mined:
        """Stores a batch, and gives its loss with all stored rows and the gradient with respect to the batch.

        ``enqueue_mask``
            A boolean a row: those marked are stored, and the others alone are compared, with all stored rows; the gradient of marked rows
            is 0.
        """
        if enqueue_mask is None:
            return self._loss(embeddings, labels, True, gradient)
        mask = to_array(enqueue_mask).astype(bool)
        rows = Rows(embeddings, "embeddings")
        if mask.shape != (rows.rows,):
            raise ValueError(f"enqueue_mask of shape {mask.shape} for {rows.rows} rows: there must be one a row")
        array = to_array(labels)
        self.enqueue(rows.held[mask], array[mask])
        found = self._loss(rows.held[~mask], array[~mask], False, gradient)
        if found.gradient is not None:
            own = np.zeros((rows.rows, rows.columns), np.float32)
            own[~mask] = found.gradient
            found.gradient = own
        return found

    def loss(self, embeddings: Any, labels: Any, *, gradient: bool = True) -> Mined:
        """Loss of a batch with all stored rows, none of which is a copy of one of the batch. Stores nothing."""
        return self._loss(embeddings, labels, False, gradient)

    def _loss(self, embeddings: Any, labels: Any, stores: bool, gradient: bool) -> Mined:
        rows = Rows(embeddings, "embeddings")
        classes = _Labels(labels, rows.rows)
        own = np.empty((rows.rows, rows.columns), np.float32) if gradient else None
        loss, counts = self._core.loss(
            rows.described, classes.described, stores, None if own is None else filled(own)
        )
        return Mined(json.loads(counts), loss, own)

    def enqueue(self, embeddings: Any, labels: Any) -> None:
        """Stores rows of any length, up to ``memory_size`` of them: the oldest make room."""
        rows = Rows(embeddings, "embeddings")
        self._core.enqueue(rows.described, _Labels(labels, rows.rows).described)

    def reset(self) -> None:
        """Forgets every row."""
        self._core.reset()

    def __len__(self) -> int:
        """Stored rows."""
        return self._core.about()[0]

    @property
    def about(self) -> dict[str, Any]:
        """The engine that holds the memory, and the account of its bytes."""
        found: dict[str, Any] = json.loads(self._core.about()[1])
        return found

    def state_dict(self) -> dict[str, Any]:
        """The stored rows by slot, of unit length, their labels, the slot of the next row, and the number of losses so far."""
        rows, labels, following, steps = self._core.state()
        return {
            "rows": np.frombuffer(rows, np.float32).reshape(-1, self.embedding_size).copy(),
            "labels": np.frombuffer(labels, np.int64).copy(),
            "next": following,
            "steps": steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replaces all rows by those of :meth:`state_dict`: the next calls give the bits that they would have given there."""
        rows = Rows(state["rows"], "rows")
        labels = _Labels(state["labels"], rows.rows)
        self._core.restore(rows.described, labels.described, int(state["next"]), int(state["steps"]))
