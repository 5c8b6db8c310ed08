"""Search, retrieval metrics, thresholds and losses over rows that lie in shards on the ranks of ``torch.distributed``: exact, as of one
process.

Every rank calls the function with its own shard, of any size, and gets the same result (:func:`evaluate`, :func:`threshold`), or that
of its own rows (:func:`knn`, :func:`loss`). No rank holds more than its shard, the labels and ids of all rows, a block of rows, and its
budget.

What crosses the network: labels of all rows (8 bytes a row, text as it is), their ids if they have some (8 bytes), and rows of 32-bit
floats as they are compared. A rank receives the rows of the others once where they fit its budget beside its work, else once for each
block of its queries; of :func:`evaluate` then come about 100 bytes a query.

Ranks talk through a gloo group of their own, whatever backend the program uses, in numbers only. Work that one rank refuses, all
refuse. A rank that does not answer within ``timeout`` seconds ends the work on the others with a sentence.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from . import _nearfar, functions
from ._shards import Ranks, Read, Shards, name_classes, serve
from .arrays import Numbers, choice, filled, to_array
from .functions import Mined, Settings

__all__ = ["CrossBatchMemory", "evaluate", "knn", "loss", "threshold"]

Engine = tuple[str | None, str | None, int]
_said = False


def _say(ranks: Ranks, rows: int, asked: Engine) -> None:
    """One line at the first call: which rank runs on what, and how much it holds."""
    global _said
    if _said:
        return
    _said = True
    kind = {None: 0, "cpu": 1, "gpu": 2}[asked[0]]
    state = ranks.state([kind, rows, asked[2]])
    if ranks.rank == 0:
        names = ["a GPU or the CPU", "the CPU", "a GPU"]
        parts = [f"rank {rank} on {names[kind]} with {rows:,} rows and {budget >> 20} MiB" for rank, (kind, rows, budget) in enumerate(state.tolist())]
        print("nearfar: " + "; ".join(parts), file=sys.stderr)


def _engine(budget: int | str | None, engine: str | None, adapter: str | None) -> Engine:
    """The engine of this rank: with a GPU, that of LOCAL_RANK where the machine has several."""
    asked = choice(budget, engine, adapter)
    if asked[0] not in (None, "cpu", "gpu"):
        raise ValueError(f'engine is "{asked[0]}": it can be "cpu", "gpu" or None, a GPU where there is one')
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
    ranks = Ranks(group, timeout)
    ks = sorted({int(k) for k in at})
    ranks.alike(work="evaluate", metric=metric, at=ks, nearest=nearest)
    shards = Shards(ranks, embeddings, ids, labels)
    names = name_classes(shards)

    def check() -> Engine:
        asked = _engine(budget, engine, adapter)
        largest = int(np.bincount(shards.labels).max(initial=1))
        classes = max(1, shards.rows // largest)
        _nearfar.plan("evaluate", asked[2], max(1, len(shards.places)), shards.rows, shards.own.columns, classes, 1, metric, "{}")
        return asked

    asked = ranks.agreed(check)
    _say(ranks, shards.own.rows, asked)
    queries, own = shards.queries(), Numbers(shards.labels[shards.places])
    known, places = Numbers(shards.labels), Numbers(shards.places)

    def work(rows: Read) -> tuple[bytes, int]:
        if not len(shards.places):
            return b"", 0
        return _nearfar.rank_queries(
            asked, (queries.described, own.described), (rows, known.described), metric, ks, nearest, places.described
        )

    lines, lone = serve(ranks, (shards,), work)
    width = 7 + len(ks)
    own_lines = np.frombuffer(lines, np.float64).reshape(-1, width).copy()
    own_lines[:, 0] = shards.places[own_lines[:, 0].astype(np.int64)]
    everyone = np.concatenate(ranks.gather(own_lines.reshape(-1)))
    all_lone = int(ranks.state([lone])[:, 0].sum())
    found = functions.named(json.loads(_nearfar.total_of_ranked(ks, everyone.tobytes(), all_lone)), names)
    if nearest:
        for scores in [found, found["over_classes"], *found["classes"]]:
            scores["mean_average_precision"] = scores["mean_reciprocal_rank"] = None
    return functions.Result(found, repeats=shards.repeats)


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
    ranks = Ranks(group, timeout)
    ranks.alike(work="knn", metric=metric, k=k)
    shards = Shards(ranks, embeddings, ids, None)

    def check() -> Engine:
        asked = _engine(budget, engine, adapter)
        if not 0 < k < shards.rows:
            raise ValueError(f"k is {k}: there are {shards.rows - 1} rows other than the query, so 1 to {shards.rows - 1} can be asked for")
        _nearfar.plan("knn", asked[2], max(1, len(shards.places)), shards.rows, shards.own.columns, 1, k, metric, "{}")
        return asked

    asked = ranks.agreed(check)
    _say(ranks, shards.own.rows, asked)
    queries, places = shards.queries(), Numbers(shards.places)
    found = np.empty((len(shards.places), k), np.uint32)
    by = np.empty((len(shards.places), k), np.float32)

    def work(rows: Read) -> None:
        if len(shards.places):
            _nearfar.knn(asked, rows, queries.described, k, metric, places.described, filled(found), filled(by))

    serve(ranks, (shards,), work)
    ids_of = np.full((shards.own.rows, k), -1, np.int64)
    values = np.full((shards.own.rows, k), np.nan, np.float32)
    ids_of[shards.here] = shards.ids[found]
    values[shards.here] = -by if metric == "l2" else by
    return ids_of, values


def threshold(
    embeddings: Any,
    labels: Any,
    test_embeddings: Any = None,
    test_labels: Any = None,
    *,
    ids: Any = None,
    test_ids: Any = None,
    group: Any = None,
    false_match_rate: float | None = None,
    queries: int = 10_000,
    seed: int = 0,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
    timeout: float = 60,
) -> dict[str, Any]:
    """Finds the similarity from which on two rows count as one class, over the rows of all ranks, as :func:`nearfar.threshold` does in
    one process: the same numbers. Every rank gets the same dict, with the ``repeats`` among the ids of both sides.

    The first rank counts the pairs, within its budget; the others bring it their rows, a block at a time, once for each block of
    ``queries``.
    """
    ranks = Ranks(group, timeout)
    tested = test_embeddings is not None
    ranks.alike(work="threshold", tested=tested, false_match_rate=false_match_rate, queries=queries, seed=seed)
    sides = [Shards(ranks, embeddings, ids, labels)]
    if tested:
        sides.append(Shards(ranks, test_embeddings, test_ids, test_labels, "test_embeddings"))
    name_classes(*sides)
    asked = ranks.agreed(lambda: _engine(budget, engine, adapter))
    _say(ranks, sum(side.own.rows for side in sides), asked)
    numbers = [Numbers(side.labels) for side in sides]

    def work(fit: Read, test: Read | None = None) -> str:
        if ranks.rank:
            return ""
        known = None if test is None else (test, numbers[1].described)
        return _nearfar.threshold(asked, (fit, numbers[0].described), known, false_match_rate, queries, seed)

    found: dict[str, Any] = json.loads(ranks.texts(serve(ranks, tuple(sides), work))[0])
    return functions.Result(found, repeats=sum(side.repeats for side in sides))


#: Miners whose triplets the loss of a rank's own rows adds up to that of all: each anchor's alone decide.
_MINERS = ("none", "triplet-margin")


def _named(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    name = given.get("name")
    return None if name is None else str(name)


def loss(
    embeddings: Any,
    labels: Any,
    references: Any,
    reference_labels: Any,
    *,
    loss: Settings = "triplet-margin",
    miner: Settings = None,
    distance: str | None = None,
    copies: Any = None,
    gradient: bool = True,
    group: Any = None,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
    timeout: float = 60,
) -> Mined:
    """Computes the loss over the triplets of the rows of all ranks, each with all references of all ranks, as :func:`nearfar.loss` does
    in one process: the mean over the active ones of all, and its gradient with respect to this rank's rows.

    A rank mines for its own rows; the references, which are constants, come to it from the others. Its budget holds all of them while
    it does, its shard alone afterwards. The loss is ``triplet-margin``, the miner ``none`` or ``triplet-margin``: of other losses the
    rows' parts do not add up.

    ``copies``
        For each row the place, in this rank's shard of references, of the one that is a copy of it, or -1: it is no positive of the row.
    """
    ranks = Ranks(group, timeout)
    settings = functions._settings(miner, loss, distance)
    ranks.alike(work="loss", settings=settings, gradient=gradient)
    known = Shards(ranks, references, None, reference_labels, "references")
    shards = Shards(ranks, embeddings, None, labels)
    name_classes(shards, known)

    def check() -> tuple[Engine, Numbers | None]:
        if _named(loss) != "triplet-margin":
            raise ValueError(f'loss is "{_named(loss)}": over ranks it can be "triplet-margin"; gather the references for another one')
        if (_named(miner) or "none") not in _MINERS:
            raise ValueError(f'miner is "{_named(miner)}": over ranks it can be None or "triplet-margin"')
        if shards.own.columns != known.own.columns:
            raise ValueError(f"embeddings have {shards.own.columns} columns, references {known.own.columns}")
        asked = _engine(budget, engine, adapter)
        if copies is None:
            return asked, None
        places = to_array(copies).astype(np.int64)
        if places.shape != (shards.own.rows,) or not ((places >= -1) & (places < known.own.rows)).all():
            raise ValueError(f"copies: there must be one a row, from -1 to {known.own.rows - 1}, a place in the shard of references")
        return asked, Numbers(np.where(places < 0, 0xFFFFFFFF, places + known.start))

    asked, same = ranks.agreed(check)
    _say(ranks, known.own.rows, asked)
    own, others = Numbers(shards.labels[shards.places]), Numbers(known.labels)
    slope = np.zeros((shards.own.rows, shards.own.columns), np.float32) if gradient else None

    def work(rows: Read) -> dict[str, Any]:
        if not shards.own.rows:
            return {"mining": {}, "loss": 0.0}
        wanted = functions._Filled(loss=True, gradient=None if slope is None else filled(slope))
        described = (shards.own.described, own.described)
        copied = None if same is None else same.described
        report, _ = _nearfar.mine(asked, described, (rows, others.described), copied, settings, wanted)
        found: dict[str, Any] = json.loads(report)
        return found

    return _of_all(ranks, serve(ranks, (known,), work), slope)


def _of_all(ranks: Ranks, found: dict[str, Any], slope: NDArray[np.float32] | None) -> Mined:
    """The counts and the loss of all ranks. A rank's are means over its own active triplets."""
    kinds = ["anchors", "valid", "easy", "semihard", "hard", "mined", "active"]
    mining = found["mining"]
    counts = ranks.state([int(mining.get(kind, 0)) for kind in kinds])
    own, active = int(mining.get("active", 0)), int(counts[:, -1].sum())
    sums = np.concatenate(ranks.gather(np.array([found["loss"] * own])))
    if slope is not None:
        slope *= own / max(active, 1)
    totals = {"of": "triplets", **dict(zip(kinds, counts.sum(axis=0).tolist(), strict=True))}
    about = functions._about(found) if "engine" in found else {}
    return Mined(totals, float(sums.sum()) / max(active, 1), slope, None, about)


class _Loss(torch.autograd.Function):
    """A loss whose gradient was computed with it."""

    @staticmethod
    def forward(ctx: Any, embeddings: torch.Tensor, value: float, gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient)
        ctx.like = (embeddings.device, embeddings.dtype)
        return torch.tensor(value, device=embeddings.device, dtype=torch.float32)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        device, dtype = ctx.like
        return (gradient.to(device) * slope).to(dtype), None, None


def _part(given: Any) -> Settings:
    """Settings of a loss or a miner: a name, a dict, or an object of :mod:`nearfar.pml`."""
    if given is None or isinstance(given, (str, dict)):
        return given
    if not hasattr(given, "_settings"):
        raise ValueError(f"{type(given).__name__}: give one of nearfar.pml, a name, or a dict with name and PML's arguments")
    why = given._why_not()
    if why is not None:
        raise ValueError(f"{type(given).__name__}: {why}")
    settings: dict[str, Any] = given._settings()
    return settings


class CrossBatchMemory(torch.nn.Module):
    """A cross-batch memory (XBM) of triplets that lies in shards on the ranks: each keeps ``memory_size`` over their number.

    As ``nearfar.pml.CrossBatchMemory`` in one process that sees the batches of all ranks: the loss is that of the whole batch with the
    whole memory, the same on every rank. ``backward`` gives a rank's embeddings their part of its gradient times the number of ranks, so
    that ``DistributedDataParallel``, which takes the mean over ranks, comes to the gradient of the whole batch.

    ``loss`` and ``miner`` are those of :mod:`nearfar.pml`, or settings as :func:`loss` takes them. ``counts`` has the triplets of the
    last call.
    """

    embedding_memory: torch.Tensor
    label_memory: torch.Tensor

    def __init__(
        self,
        loss: Any,
        embedding_size: int,
        memory_size: int = 1024,
        miner: Any = None,
        *,
        distance: str | None = None,
        group: Any = None,
        budget: int | str | None = None,
        engine: str | None = None,
        adapter: str | None = None,
        timeout: float = 60,
    ) -> None:
        super().__init__()
        self.ranks = Ranks(group, timeout)
        if memory_size % self.ranks.count:
            raise ValueError(
                f"memory_size is {memory_size}, which {self.ranks.count} ranks cannot share: give a multiple of {self.ranks.count}"
            )
        rows = memory_size // self.ranks.count
        self.loss, self.miner = _part(loss), _part(miner)
        if distance is None and hasattr(loss, "_engine_distance"):
            distance = loss._engine_distance()
        self.asked: dict[str, Any] = {
            "distance": distance, "group": group, "budget": budget, "engine": engine, "adapter": adapter, "timeout": timeout
        }
        self.register_buffer("embedding_memory", torch.zeros(rows, embedding_size))
        self.register_buffer("label_memory", torch.zeros(rows, dtype=torch.long))
        #: The place of the next row, and the rows that are stored.
        self.queue_idx = 0
        self.stored = 0
        self.counts: dict[str, Any] = {}

    def get_extra_state(self) -> tuple[int, int]:
        """What ``state_dict`` keeps beside the rows of this rank's shard."""
        return self.queue_idx, self.stored

    def set_extra_state(self, state: tuple[int, int]) -> None:
        """Goes on where the state was taken, on the same rank of as many."""
        self.queue_idx, self.stored = state

    def reset_queue(self) -> None:
        """Forgets all rows."""
        self.queue_idx = self.stored = 0

    def add_to_memory(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Stores rows in this rank's shard in place of the oldest, and returns their places there."""
        size = len(self.embedding_memory)
        if len(embeddings) > size:
            raise ValueError(f"{len(embeddings)} rows for a shard of {size}: give a larger memory_size, or smaller batches")
        places = (self.queue_idx + torch.arange(len(embeddings))) % size
        at = places.to(self.embedding_memory.device)
        self.embedding_memory[at] = embeddings.detach().to(self.embedding_memory)
        self.label_memory[at] = labels.detach().to(self.label_memory)
        self.queue_idx = (self.queue_idx + len(embeddings)) % size
        self.stored = min(size, self.stored + len(embeddings))
        return places

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of the batches of all ranks, which call it together."""
        places = self.ranks.agreed(lambda: self.add_to_memory(embeddings, labels))
        known = slice(self.stored)
        found = loss(
            embeddings,
            labels,
            self.embedding_memory[known],
            self.label_memory[known],
            loss=self.loss,
            miner=self.miner,
            copies=places,
            **self.asked,
        )
        self.counts = found.counts
        assert found.gradient is not None
        gradient = torch.from_numpy(found.gradient) * self.ranks.count
        result: torch.Tensor = _Loss.apply(embeddings, found.loss, gradient)
        return result
