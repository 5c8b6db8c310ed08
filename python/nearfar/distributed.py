"""Search and retrieval metrics over embeddings that lie in shards on the ranks of ``torch.distributed``: exact, as of one process.

Every rank calls the function with its own shard, and gets the same result (:func:`evaluate`), or that of its own queries
(:func:`knn`). No rank holds more than its shard, the labels and ids of all rows, a block of rows, and its budget.

What crosses the network: the labels and ids of all rows once (16 bytes a row), and rows of 32-bit floats as they are compared. A rank
receives the rows of the others once where they fit its budget beside its work, else once for each block of its queries; of
:func:`evaluate` then come about 100 bytes a query.

Ranks talk through a gloo group of their own, whatever backend the program uses, in numbers only. Work that one rank refuses, all
refuse, before anything starts. A rank that does not answer within ``timeout`` seconds ends the work on the others with a sentence.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from . import _nearfar, functions
from .arrays import Numbers, Rows, choice, filled, to_array

__all__ = ["evaluate", "knn"]

T = TypeVar("T")

#: Seconds for which a rank waits for its own engine before it looks what the others ask for.
_LOOK = 0.01
_groups: dict[tuple[Any, float], Any] = {}
_said = False


class _Lost(RuntimeError):
    """A rank does not answer."""


class _Ranks:
    """The ranks of a group, talking through gloo."""

    def __init__(self, group: Any, timeout: float) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError("torch.distributed is not initialized: call torch.distributed.init_process_group first")
        self.timeout = timeout
        self.rank = dist.get_rank(group)
        key = (group, timeout)
        if key not in _groups:
            members = None if group is None else dist.get_process_group_ranks(group)
            within = timedelta(seconds=timeout)
            _groups[key] = self._talk(lambda: dist.new_group(members, backend="gloo", timeout=within))
        self.group = _groups[key]
        self.rank = dist.get_rank(self.group)
        self.count = dist.get_world_size(self.group)

    def _talk(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (RuntimeError, ValueError) as error:
            raise _Lost(
                f"rank {self.rank} waits for another rank, which ended or did not answer within {self.timeout:g} s: {error}"
            ) from None

    def gather(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Arrays of one dimension of all ranks, of any lengths and one type."""
        values = np.ascontiguousarray(values)
        counts = self._gather_equal(np.array([values.size], np.int64))
        most = max(1, max(int(count[0]) for count in counts))
        padded = np.zeros(most * values.itemsize, np.uint8)
        padded[: values.nbytes] = values.reshape(-1).view(np.uint8)
        parts = self._gather_equal(padded)
        return [part.view(values.dtype)[: int(count[0])] for part, count in zip(parts, counts, strict=True)]

    def _gather_equal(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        own = torch.from_numpy(values)
        parts = [torch.empty_like(own) for _ in range(self.count)]
        self._talk(lambda: dist.all_gather(parts, own, group=self.group))
        return [part.numpy() for part in parts]

    def state(self, values: list[int]) -> NDArray[np.int64]:
        """A few numbers of every rank, ``[ranks, numbers]``."""
        return np.stack(self._gather_equal(np.array(values, np.int64)))

    def send(self, values: NDArray[Any], to: int) -> None:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        self._talk(lambda: dist.send(tensor, self._global(to), group=self.group))

    def receive(self, values: NDArray[Any], by: int) -> None:
        tensor = torch.from_numpy(values)
        self._talk(lambda: dist.recv(tensor, self._global(by), group=self.group))

    def _global(self, rank: int) -> int:
        return dist.get_global_rank(self.group, rank)

    def agree(self, error: BaseException | None) -> None:
        """Raises on every rank what one of them refuses."""
        sentence = "" if error is None else f"{type(error).__name__}: {error}"
        sentences = self.gather(np.frombuffer(sentence.encode(), np.uint8))
        refused = [(rank, bytes(said).decode()) for rank, said in enumerate(sentences) if said.size]
        if not refused:
            return
        if error is not None:
            raise error
        rank, said = refused[0]
        kind, _, words = said.partition(": ")
        kinds = {"BudgetError": _nearfar.BudgetError, "DeviceError": _nearfar.DeviceError, "MemoryError": MemoryError}
        raise kinds.get(kind, ValueError)(f"rank {rank} refused the work: {words}")


class _Shards:
    """Rows of all ranks in one order: by their ids, or rank by rank. Each id counts once, at the first rank that brings it."""

    def __init__(self, ranks: _Ranks, embeddings: Any, ids: Any, labels: Any) -> None:
        self.ranks = ranks
        rows, error = None, None
        try:
            rows = Rows(embeddings, "embeddings")
            own_labels = None if labels is None else to_array(labels)
            if own_labels is not None and own_labels.shape != (rows.rows,):
                raise ValueError(f"labels of shape {own_labels.shape} for {rows.rows} rows: there must be one a row")
            own_ids = None if ids is None else to_array(ids).astype(np.int64)
            if own_ids is not None and own_ids.shape != (rows.rows,):
                raise ValueError(f"ids of shape {own_ids.shape} for {rows.rows} rows: there must be one a row")
            if own_labels is not None and own_labels.dtype.kind not in "iuUS":
                raise ValueError(f"labels of {own_labels.dtype}: give integers or text")
        except (ValueError, TypeError) as refused:
            error = refused
        ranks.agree(error)
        assert rows is not None
        self.own = rows
        columns = ranks.state([rows.columns, 0 if ids is None else 1])
        if len({int(width) for width, _ in columns}) > 1 or len({int(given) for _, given in columns}) > 1:
            raise ValueError(f"ranks differ: columns {columns[:, 0].tolist()}, with ids {columns[:, 1].astype(bool).tolist()}")
        counts = ranks.state([rows.rows])[:, 0]
        starts = np.concatenate([[0], np.cumsum(counts)])
        numbers = np.arange(rows.rows) + starts[ranks.rank] if own_ids is None else own_ids
        all_ids = np.concatenate(ranks.gather(numbers.astype(np.int64)))
        # Of rows with one id the first rank's counts.
        names, first = np.unique(all_ids, return_index=True)
        self.ids = names
        self.repeats = len(all_ids) - len(names)
        self.owner = np.searchsorted(starts, first, side="right") - 1
        self.place = first - starts[self.owner]
        self.rows = len(names)
        mine = self.owner == ranks.rank
        #: Places of this rank's rows among all, and their rows in its shard.
        self.places = np.flatnonzero(mine)
        self.here = self.place[mine]
        self.names: list[str] = []
        self.labels = np.zeros(0, np.uint32)
        if own_labels is not None:
            self._label(own_labels, first)

    def _label(self, own: NDArray[Any], first: NDArray[np.intp]) -> None:
        """The class of every row by number, in the order of the names."""
        ranks = self.ranks
        if own.dtype.kind in "iu":
            everyone: NDArray[Any] = np.concatenate(ranks.gather(own.astype(np.int64)))
        else:
            width = int(ranks.state([own.astype(np.str_).dtype.itemsize])[:, 0].max())
            text = own.astype(f"U{max(1, width // 4)}")
            everyone = np.concatenate(ranks.gather(text))
        names, codes = np.unique(everyone[first], return_inverse=True)
        self.names = [str(name) for name in names.tolist()]
        self.labels = codes.reshape(-1).astype(np.uint32)

    def queries(self) -> Any:
        """Rows of this rank that count."""
        if len(self.here) == self.own.rows:
            return self.own
        held = self.own.held
        return Rows(held[torch.from_numpy(self.here)] if isinstance(held, torch.Tensor) else held[self.here], "embeddings")

    def values(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Values of rows of this rank, by their places among all."""
        held = self.own.held
        rows = self.place[places]
        if isinstance(held, torch.Tensor):
            return held[torch.from_numpy(rows)].to(torch.float32).numpy()
        return np.ascontiguousarray(held[rows], dtype=np.float32)

    def serve(self, work: Callable[[tuple[int, int, Callable[[bytes], bytes]]], T]) -> T:
        """Does ``work``, which reads rows of all ranks, on a thread of its own, and brings it those of the others meanwhile.

        Ranks go in rounds: in each, every rank says if it needs rows, still computes, or is done; those who need some get them.
        """
        asked: queue.Queue[NDArray[np.int64]] = queue.Queue()
        given: queue.Queue[NDArray[np.float32] | None] = queue.Queue()
        outcome: list[Any] = []

        def fetch(numbers: bytes) -> bytes:
            wanted = np.frombuffer(numbers, np.uint32).astype(np.int64)
            if (self.owner[wanted] == self.ranks.rank).all():
                return self.values(wanted).tobytes()
            asked.put(wanted)
            rows = given.get()
            if rows is None:
                raise _Lost("a rank was lost")
            return rows.tobytes()

        def compute() -> None:
            try:
                outcome.append(work((self.rows, self.own.columns, fetch)))
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=compute, daemon=True)
        thread.start()
        try:
            self._rounds(thread, asked, given)
        except BaseException:
            given.put(None)
            thread.join(5)
            raise
        thread.join()
        failed = outcome[0] if isinstance(outcome[0], BaseException) else None
        self.ranks.agree(failed if isinstance(failed, Exception) else None)
        if failed is not None:
            raise failed
        result: T = outcome[0]
        return result

    def _rounds(self, thread: threading.Thread, asked: Any, given: Any) -> None:
        ranks = self.ranks
        wanted: NDArray[np.int64] | None = None
        while True:
            if wanted is None and thread.is_alive():
                try:
                    wanted = asked.get(timeout=_LOOK)
                except queue.Empty:
                    pass
            done = wanted is None and not thread.is_alive() and asked.empty()
            state = ranks.state([0 if wanted is None else len(wanted), int(done)])
            if state[:, 1].all():
                return
            for asking in np.flatnonzero(state[:, 0]):
                own = self._exchange(int(asking), int(state[asking, 0]), wanted)
                if own is not None:
                    given.put(own)
                    wanted = None

    def _exchange(self, asking: int, count: int, wanted: NDArray[np.int64] | None) -> NDArray[np.float32] | None:
        """Brings the rows that a rank asks for to it; returns them there."""
        ranks = self.ranks
        if ranks.rank == asking:
            assert wanted is not None
            owners = self.owner[wanted]
            rows = np.empty((count, self.own.columns), np.float32)
            for owner in range(ranks.count):
                of_owner = np.flatnonzero(owners == owner)
                if owner == asking:
                    rows[of_owner] = self.values(wanted[of_owner])
                    continue
                ranks.send(np.array([len(of_owner)], np.int64), owner)
                if len(of_owner):
                    ranks.send(wanted[of_owner], owner)
                    part = np.empty((len(of_owner), self.own.columns), np.float32)
                    ranks.receive(part, owner)
                    rows[of_owner] = part
            return rows
        size = np.empty(1, np.int64)
        ranks.receive(size, asking)
        if size[0]:
            places = np.empty(int(size[0]), np.int64)
            ranks.receive(places, asking)
            ranks.send(self.values(places), asking)
        return None


def _say(ranks: _Ranks, shards: _Shards, asked: tuple[str | None, str | None, int]) -> None:
    """One line at the first call: which rank runs on what, and how much it holds."""
    global _said
    if _said:
        return
    _said = True
    kind = {None: 0, "cpu": 1, "gpu": 2}[asked[0]]
    state = ranks.state([kind, shards.own.rows, asked[2]])
    if ranks.rank == 0:
        names = ["a GPU or the CPU", "the CPU", "a GPU"]
        parts = [f"rank {rank} on {names[kind]} with {rows:,} rows and {budget >> 20} MiB" for rank, (kind, rows, budget) in enumerate(state.tolist())]
        print("nearfar: " + "; ".join(parts), file=sys.stderr)


def _engine(budget: int | str | None, engine: str | None, adapter: str | None) -> tuple[str | None, str | None, int]:
    """The engine of this rank: with a GPU, that of LOCAL_RANK where the machine has several."""
    asked = choice(budget, engine, adapter)
    if asked[0] == "gpu" and asked[1] is None and "LOCAL_RANK" in os.environ:
        names = [device["adapter"] for device in functions.devices() if device["engine"] == "gpu" and not device["software"]]
        if len(set(names)) > 1:
            return ("gpu", names[int(os.environ["LOCAL_RANK"]) % len(names)], asked[2])
    return asked


def evaluate(
    embeddings: Any,
    labels: Any,
    *,
    ids: Any = None,
    group: Any = None,
    metric: str = "cosine",
    at: list[int] | tuple[int, ...] = (1, 5, 10),
    nearest: bool = False,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
    timeout: float = 60,
) -> dict[str, Any]:
    """Scores all rows of all ranks against each other, as :func:`nearfar.evaluate` does in one process: the same numbers, to the bit on
    processors of the same kind. Every rank gives its shard, of any size, and gets the same dict.

    ``ids`` are the rows' numbers in the dataset: rows that ``DistributedSampler`` repeats to make shards even are counted once (a repeated
    row would be its own nearest neighbour), and ``repeats`` says how many there were. Rows with ids are in the order of these, others
    rank by rank.
    """
    ranks = _Ranks(group, timeout)
    shards = _Shards(ranks, embeddings, ids, labels)
    asked = _engine(budget, engine, adapter)
    _say(ranks, shards, asked)
    ks = sorted({int(k) for k in at})
    refused: Exception | None = None
    try:
        largest = int(np.bincount(shards.labels).max(initial=1))
        classes = max(1, shards.rows // largest)
        _nearfar.plan("evaluate", asked[2], max(1, len(shards.places)), shards.rows, shards.own.columns, classes, 1, metric, "{}")
    except Exception as error:
        refused = error
    ranks.agree(refused)
    queries, own = shards.queries(), Numbers(shards.labels[shards.places])
    known, places = Numbers(shards.labels), Numbers(shards.places)

    def work(rows: tuple[int, int, Callable[[bytes], bytes]]) -> tuple[bytes, int]:
        if not len(shards.places):
            return b"", 0
        return _nearfar.rank_queries(
            asked, (queries.described, own.described), (rows, known.described), metric, ks, nearest, places.described
        )

    lines, lone = shards.serve(work)
    width = 7 + len(ks)
    own_lines = np.frombuffer(lines, np.float64).reshape(-1, width).copy()
    own_lines[:, 0] = shards.places[own_lines[:, 0].astype(np.int64)]
    everyone = np.concatenate(ranks.gather(own_lines.reshape(-1)))
    all_lone = int(ranks.state([lone])[:, 0].sum())


    found = functions.named(json.loads(_nearfar.total_of_ranked(ks, everyone.tobytes(), all_lone)), shards.names)
    if nearest:
        for scores in [found, found["over_classes"], *found["classes"]]:
            scores["mean_average_precision"] = scores["mean_reciprocal_rank"] = None
    return {**found, "repeats": shards.repeats}


def knn(
    embeddings: Any,
    *,
    k: int,
    ids: Any = None,
    group: Any = None,
    metric: str = "cosine",
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
    timeout: float = 60,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Finds the exact k nearest rows, of all ranks, of each row of this rank's shard.

    Returns the ids of the neighbours ``[rows, k]``, their places in the shards one after the other where no ``ids`` were given, and the
    values, as :func:`nearfar.knn`. A row that another rank brought before has -1 and NaN.
    """
    ranks = _Ranks(group, timeout)
    shards = _Shards(ranks, embeddings, ids, None)
    asked = _engine(budget, engine, adapter)
    _say(ranks, shards, asked)
    refused: Exception | None = None
    try:
        if not 0 < k < shards.rows:
            raise ValueError(f"k is {k}: there are {shards.rows - 1} rows other than the query, so 1 to {shards.rows - 1} can be asked for")
        _nearfar.plan("knn", asked[2], max(1, len(shards.places)), shards.rows, shards.own.columns, 1, k, metric, "{}")
    except Exception as error:
        refused = error
    ranks.agree(refused)
    queries, places = shards.queries(), Numbers(shards.places)
    found = np.empty((len(shards.places), k), np.uint32)
    by = np.empty((len(shards.places), k), np.float32)

    def work(rows: tuple[int, int, Callable[[bytes], bytes]]) -> None:
        if len(shards.places):
            _nearfar.knn(asked, rows, queries.described, k, metric, places.described, filled(found), filled(by))

    shards.serve(work)
    ids_of = np.full((shards.own.rows, k), -1, np.int64)
    values = np.full((shards.own.rows, k), np.nan, np.float32)
    ids_of[shards.here] = shards.ids[found]
    values[shards.here] = -by if metric == "l2" else by
    return ids_of, values
