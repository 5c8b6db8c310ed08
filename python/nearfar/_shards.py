"""Rows in shards on the ranks of ``torch.distributed``: their order, and how a rank that computes reads those of the others.

Ranks talk through a gloo group of their own, whatever backend the program uses, in numbers only.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from . import _nearfar
from .arrays import Rows, to_array

__all__ = ["Lost", "Ranks", "Read", "Shards", "name_classes", "serve"]

T = TypeVar("T")
#: Rows that are read as they are needed: their number, columns, and what reads them.
Read = tuple[int, int, Callable[[bytes], bytes]]

#: Seconds for which a rank waits for its own engine before it looks what the others ask for: the fewest, and the most after rounds in
#: which nobody asked.
_LOOK = (0.005, 0.08)
_groups: dict[tuple[Any, float], Any] = {}


class Lost(RuntimeError):
    """A rank does not answer."""


class Ranks:
    """The ranks of a group, talking through gloo."""

    def __init__(self, group: Any, timeout: float) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError("torch.distributed is not initialized: call torch.distributed.init_process_group first")
        self.timeout = timeout
        self.rank = dist.get_rank(group)
        # Of the default group, the one of this initialization.
        key = (dist.group.WORLD if group is None else group, timeout)
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
            raise Lost(
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

    def texts(self, own: str) -> list[str]:
        """A text of every rank."""
        return [bytes(text).decode() for text in self.gather(np.frombuffer(own.encode(), np.uint8))]

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
        said = self.texts("" if error is None else f"{type(error).__name__}: {error}")
        refused = [(rank, sentence) for rank, sentence in enumerate(said) if sentence]
        if not refused:
            return
        if error is not None:
            raise error
        rank, sentence = refused[0]
        kind, _, words = sentence.partition(": ")
        kinds = {"BudgetError": _nearfar.BudgetError, "DeviceError": _nearfar.DeviceError, "MemoryError": MemoryError}
        raise kinds.get(kind, ValueError)(f"rank {rank} refused the work: {words}")

    def agreed(self, check: Callable[[], T]) -> T:
        """The result of ``check``. Raises on every rank what it refuses on one of them."""
        found: list[T] = []
        refused: Exception | None = None
        try:
            found.append(check())
        except Exception as error:
            refused = error
        self.agree(refused)
        return found[0]

    def alike(self, **settings: Any) -> None:
        """Refuses settings that differ between ranks."""
        said = self.texts(json.dumps(settings, default=str))
        for rank, other in enumerate(said):
            if other != said[0]:
                raise ValueError(f"ranks ask for different work: rank 0 {said[0]}, rank {rank} {other}")


class Shards:
    """Rows of all ranks in one order: by their ids, or rank by rank. Each id counts once, at the first rank that brings it."""

    def __init__(self, ranks: Ranks, embeddings: Any, ids: Any, labels: Any, name: str = "embeddings") -> None:
        self.ranks = ranks
        self.name = name
        self.own, own_ids, own_labels = ranks.agreed(lambda: self._checked(embeddings, ids, labels))
        #: 1: numbers, 2: text, 0: no labels, or none here.
        kind = 0 if own_labels is None or not len(own_labels) else 1 if own_labels.dtype.kind in "iu" else 2
        state = ranks.state([self.own.rows, self.own.columns, int(own_ids is not None), kind])
        counts, columns, with_ids, kinds = state.T
        if len(set(columns.tolist())) > 1 or len(set(with_ids.tolist())) > 1:
            raise ValueError(f"ranks differ: columns {columns.tolist()}, with ids {with_ids.astype(bool).tolist()}")
        if {1, 2} <= set(kinds.tolist()):
            raise ValueError("ranks differ: some have labels that are integers, some have text")
        starts = np.concatenate([[0], np.cumsum(counts)])
        #: The first row of this rank among those of all, where there are no ids.
        self.start = int(starts[ranks.rank])
        if own_ids is None:
            first = self.ids = np.arange(starts[-1])
            self.repeats = 0
        else:
            all_ids = np.concatenate(ranks.gather(own_ids))
            # Of rows with one id the first rank's counts.
            self.ids, first = np.unique(all_ids, return_index=True)
            self.repeats = len(all_ids) - len(self.ids)
        self.owner = np.searchsorted(starts, first, side="right") - 1
        self.place = first - starts[self.owner]
        self.rows = len(self.ids)
        mine = self.owner == ranks.rank
        #: Places of this rank's rows among all, and their rows in its shard.
        self.places = np.flatnonzero(mine)
        self.here = self.place[mine]
        #: The class of every row, and its number once :func:`name_classes` has given it.
        self.classes: NDArray[Any] = np.zeros(0, np.int64)
        self.labels = np.zeros(0, np.uint32)
        if own_labels is not None:
            self.classes = self._everyone(own_labels, int(kinds.max()))[first]

    def _checked(self, embeddings: Any, ids: Any, labels: Any) -> tuple[Rows, NDArray[np.int64] | None, NDArray[Any] | None]:
        rows = Rows(embeddings, self.name)
        own_labels = None if labels is None else to_array(labels)
        if own_labels is not None and own_labels.shape != (rows.rows,):
            raise ValueError(f"{self.name}: labels of shape {own_labels.shape} for {rows.rows} rows: there must be one a row")
        own_ids = None if ids is None else to_array(ids).astype(np.int64)
        if own_ids is not None and own_ids.shape != (rows.rows,):
            raise ValueError(f"{self.name}: ids of shape {own_ids.shape} for {rows.rows} rows: there must be one a row")
        if own_labels is not None and len(own_labels) and own_labels.dtype.kind not in "iuUS":
            raise ValueError(f"{self.name}: labels of {own_labels.dtype}: give integers or text")
        return rows, own_ids, own_labels

    def _everyone(self, own: NDArray[Any], kind: int) -> NDArray[Any]:
        """The class of every row of every rank."""
        if kind < 2:
            return np.concatenate(self.ranks.gather(own.astype(np.int64)))
        text = own.astype(np.str_)
        width = int(self.ranks.state([text.dtype.itemsize])[:, 0].max())
        return np.concatenate(self.ranks.gather(text.astype(f"U{max(1, width // 4)}")))

    def queries(self) -> Rows:
        """Rows of this rank that count."""
        if len(self.here) == self.own.rows:
            return self.own
        held = self.own.held
        return Rows(held[torch.from_numpy(self.here)] if isinstance(held, torch.Tensor) else held[self.here], self.name)

    def values(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Values of rows of this rank, by their places among all."""
        held = self.own.held
        rows = self.place[places]
        if isinstance(held, torch.Tensor):
            return held[torch.from_numpy(rows)].to(torch.float32).numpy()
        return np.ascontiguousarray(held[rows], dtype=np.float32)

    def exchange(self, asking: int, count: int, wanted: NDArray[np.int64] | None) -> NDArray[np.float32] | None:
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


def name_classes(*sides: Shards) -> list[str]:
    """Numbers the classes of all sides together, in the order of their names, which it returns."""
    names, codes = np.unique(np.concatenate([side.classes for side in sides]), return_inverse=True)
    first = 0
    for side in sides:
        side.labels = codes.reshape(-1)[first : first + side.rows].astype(np.uint32)
        first += side.rows
    return [str(name) for name in names.tolist()]


class _Server:
    """What the thread that computes asks for, and gets: an answer to each question, in their order."""

    def __init__(self, ranks: Ranks, sides: tuple[Shards, ...]) -> None:
        self.ranks, self.sides = ranks, sides
        #: None is the last one: the work is done.
        self.asked: queue.Queue[tuple[int, NDArray[np.int64]] | None] = queue.Queue()
        self.given: queue.Queue[NDArray[np.float32] | None] = queue.Queue()
        #: Rows that were asked for before they were needed, and are not yet taken.
        self.ahead: tuple[int, NDArray[np.int64]] | None = None

    def rows(self, side: int, wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of all ranks. What follows them is brought while the engine works on these."""
        shards = self.sides[side]
        ahead, self.ahead = self.ahead, None
        rows = None
        if ahead is not None:
            rows = self._answer()
            if ahead[0] != side or not np.array_equal(ahead[1], wanted):
                rows = None
        if (shards.owner[wanted] == self.ranks.rank).all():
            rows = shards.values(wanted)
        if rows is None:
            self.asked.put((side, wanted))
            rows = self._answer()
        first = int(wanted[0]) + len(wanted)
        following = np.arange(first, min(first + len(wanted), shards.rows))
        if wanted[-1] == first - 1 and len(following) and (shards.owner[following] != self.ranks.rank).any():
            self.ahead = (side, following)
            self.asked.put(self.ahead)
        return rows

    def _answer(self) -> NDArray[np.float32]:
        rows = self.given.get()
        if rows is None:
            raise Lost("a rank was lost")
        return rows

    def read(self, side: int) -> Read:
        """Rows of a side, as the engine reads them."""
        shards = self.sides[side]

        def fetch(numbers: bytes) -> bytes:
            return self.rows(side, np.frombuffer(numbers, np.uint32).astype(np.int64)).tobytes()

        return shards.rows, shards.own.columns, fetch

    def rounds(self) -> None:
        """In each round every rank says if it needs rows, still computes, or is done; those who need some get them."""
        ranks = self.ranks
        wanted: tuple[int, NDArray[np.int64]] | None = None
        look, done = _LOOK[0], False
        while True:
            if wanted is None and not done:
                try:
                    wanted = self.asked.get(timeout=look)
                    done = wanted is None
                except queue.Empty:
                    pass
            side, places = (0, None) if wanted is None else wanted
            state = ranks.state([0 if places is None else len(places), side, int(done)])
            if state[:, 2].all():
                return
            look = _LOOK[0] if state[:, 0].any() else min(2 * look, _LOOK[1])
            for asking in np.flatnonzero(state[:, 0]):
                count, of = int(state[asking, 0]), int(state[asking, 1])
                own = self.sides[of].exchange(int(asking), count, places)
                if own is not None:
                    self.given.put(own)
                    wanted = None


def serve(ranks: Ranks, sides: tuple[Shards, ...], work: Callable[..., T]) -> T:
    """Does ``work``, which reads rows of all ranks, a side each argument, on a thread of its own, and brings it those of the others
    meanwhile. Raises on every rank what failed on one."""
    server = _Server(ranks, sides)
    outcome: list[Any] = []

    def compute() -> None:
        try:
            outcome.append(work(*map(server.read, range(len(sides)))))
        except BaseException as error:
            outcome.append(error)
        server.asked.put(None)

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        server.rounds()
    except BaseException:
        server.given.put(None)
        thread.join(5)
        raise
    thread.join()
    failed = outcome[0] if isinstance(outcome[0], BaseException) else None
    ranks.agree(failed if isinstance(failed, Exception) else None)
    if failed is not None:
        raise failed
    result: T = outcome[0]
    return result
