"""The functions of the package. Each waits without Python's lock; Ctrl-C stops it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _nearfar, notebook
from .arrays import Numbers, Rows, choice, filled, numbered

#: Settings of a miner or a loss: its name, or a dict with ``name`` and PML's arguments.
Settings = str | dict[str, Any] | None


def _settings(
    miner: Settings, loss: Settings, distance: str | None, miner_distance: str | None = None
) -> str:
    """Settings as the engine reads them."""
    asked: dict[str, Any] = {}
    for key, value in [("miner", miner), ("loss", loss)]:
        if value is not None:
            asked[key] = {"name": value} if isinstance(value, str) else value
    asked.setdefault("miner", {"name": "none"})
    if distance is not None:
        asked["distance"] = distance
    if miner_distance is not None:
        asked["miner_distance"] = miner_distance
    return json.dumps(asked)


class Result(dict[str, Any]):
    """A dict that a notebook shows with its charts."""

    def _repr_html_(self) -> str:
        return notebook.of_threshold(self) if "curve" in self else notebook.of_scores(self)


def devices() -> list[dict[str, Any]]:
    """Devices of this machine, best first, and the CPU engine last."""
    found: list[dict[str, Any]] = json.loads(_nearfar.devices(choice(None, "cpu", None)))
    return found


def knn(
    queries: Any,
    references: Any = None,
    *,
    k: int,
    metric: str = "cosine",
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Finds the exact k nearest references of every query; without references every row's nearest other rows.

    Returns ids ``[queries, k]`` and values ``[queries, k]``, nearest first, of equal ones the smaller id first: cosine similarities,
    inner products for ``metric="dot"``, distances for ``"l2"``.

    References that do not fit the budget stream through it.
    """
    asking = Rows(queries, "queries")
    known = asking if references is None else Rows(references, "references")
    ids = np.empty((asking.rows, k), np.uint32)
    values = np.empty((asking.rows, k), np.float32)
    _nearfar.knn(
        choice(budget, engine, adapter),
        known.described,
        None if references is None else asking.described,
        k,
        metric,
        None,
        filled(ids),
        filled(values),
    )
    if metric == "l2":
        # They come as minus the distance, larger for nearer.
        np.negative(values, out=values)
    return ids.astype(np.int64), values


def evaluate(
    embeddings: Any,
    labels: Any,
    references: Any = None,
    reference_labels: Any = None,
    *,
    metric: str = "cosine",
    at: list[int] | tuple[int, ...] = (1, 5, 10),
    nearest: bool = False,
    references_include_queries: bool = False,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> dict[str, Any]:
    """Scores embeddings by the ranks of every row of a query's class among all references: exact, no k.

    Without references every row is a query among all others. Returns ``precision_at_1``, ``r_precision``,
    ``mean_average_precision_at_r``, ``mean_average_precision``, ``mean_reciprocal_rank``, ``recall_at`` and ``precision_at`` by k,
    ``queries``, ``lone_queries`` (no other row has their class: left out), ``over_classes`` (means of the classes' means), and
    ``classes``, each with its own; a notebook shows them with a chart.

    ``nearest``
        The nearest R references alone are looked at, or the largest k: faster on a CPU; ``mean_average_precision`` and
        ``mean_reciprocal_rank`` are then ``None``.
    ``references_include_queries``
        The first references are the queries, as PML's ``ref_includes_query``: none is its own neighbour.
    """
    asking = Rows(embeddings, "embeddings")
    known = None if references is None else Rows(references, "references")
    if known is not None and reference_labels is None:
        raise ValueError("references come with reference_labels")
    (own, others), names = numbered(
        (labels, asking.rows, "embeddings"),
        None if known is None else (reference_labels, known.rows, "references"),
    )
    assert own is not None
    places = Numbers(np.arange(asking.rows)) if references_include_queries and known is not None else None
    found: dict[str, Any] = json.loads(
        _nearfar.evaluate(
            choice(budget, engine, adapter),
            (asking.described, own.described),
            None if known is None or others is None else (known.described, others.described),
            metric,
            [int(k) for k in at],
            nearest,
            None if places is None else places.described,
        )
    )
    return named(found, names)


def named(found: dict[str, Any], names: list[str]) -> Result:
    """Scores with the names of the classes, and every k as a number."""
    for by_k in ("recall_at", "precision_at"):
        found[by_k] = {int(k): value for k, value in found[by_k].items()}
    for of_class in found["classes"]:
        of_class["class"] = names[int(of_class["class"])]
    return Result(found)


@dataclass
class Mined:
    """What :func:`mine` and :func:`loss` give."""

    #: What was counted (``of``: triplets, or pairs), how many are ``valid``, ``mined`` (kept by the miner) and ``active`` (with a loss above
    #: 0), and of triplets how many are ``easy``, ``semihard`` and ``hard``.
    counts: dict[str, Any]
    #: The loss, if one was asked for.
    loss: float | None = None
    #: Its gradient with respect to the embeddings ``[anchors, columns]``, if it was asked for.
    gradient: NDArray[np.float32] | None = None
    #: Its gradient with respect to the references, of a loss with proxies.
    reference_gradient: NDArray[np.float32] | None = None
    #: The engine that did the work, its time, and its memory.
    about: dict[str, Any] = field(default_factory=dict)


class _Sides:
    """Anchors and references with their classes, held for a call."""

    def __init__(self, embeddings: Any, labels: Any, references: Any, reference_labels: Any) -> None:
        self.anchors = Rows(embeddings, "embeddings")
        self.references = None if references is None else Rows(references, "references")
        if self.references is not None and reference_labels is None:
            raise ValueError("references come with reference_labels")
        (own, others), _ = numbered(
            (labels, self.anchors.rows, "embeddings"),
            None if self.references is None else (reference_labels, self.references.rows, "references"),
        )
        assert own is not None
        self.own, self.others = own, others

    @property
    def described(self) -> tuple[_nearfar.Labelled, _nearfar.Labelled | None]:
        anchors = (self.anchors.described, self.own.described)
        if self.references is None or self.others is None:
            return anchors, None
        return anchors, (self.references.described, self.others.described)


@dataclass
class _Filled:
    loss: bool = False
    pairs: bool = False
    gradient: tuple[int, int] | None = None
    reference_gradient: tuple[int, int] | None = None


def _about(report: dict[str, Any]) -> dict[str, Any]:
    return {key: report[key] for key in ("engine", "adapter", "elapsed_ms", "memory")}


def count_triplets(
    embeddings: Any,
    labels: Any,
    references: Any = None,
    reference_labels: Any = None,
    *,
    miner: Settings = None,
    distance: str = "cosine",
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> dict[str, Any]:
    """Counts every triplet by kind, and those that a miner keeps (``mined``); none is stored. ``of`` says if pairs were counted."""
    sides = _Sides(embeddings, labels, references, reference_labels)
    anchors, others = sides.described
    settings = _settings(miner, None, distance)
    report, _ = _nearfar.mine(choice(budget, engine, adapter), anchors, others, None, settings, _Filled())
    counts: dict[str, Any] = json.loads(report)["mining"]
    return counts


def mine(
    embeddings: Any,
    labels: Any,
    references: Any = None,
    reference_labels: Any = None,
    *,
    miner: Settings = "triplet-margin",
    distance: str = "cosine",
    window: int = 1 << 20,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> Iterator[NDArray[np.int64]]:
    """Lists what a miner keeps, as an iterator of windows: triplets ``[n, 3]`` (anchor, positive, negative), ``n`` up to ``window``.

    Two windows are held at most, however many triplets there are; other calls may come between two of them. The listing has an engine, and
    so a budget, of its own.

    A miner of pairs (``multi-similarity``, ``pair-margin``, ``batch-hard``, ``batch-easy-hard``) gives one window of four arrays
    ``(a1, p, a2, n)`` instead, as PML's tuples.
    """
    sides = _Sides(embeddings, labels, references, reference_labels)
    anchors, others = sides.described
    asked = choice(budget, engine, adapter)
    settings = _settings(miner, None, distance)
    name = miner if isinstance(miner, str) else (miner or {}).get("name", "none")
    if name in PAIR_MINERS:
        _, pairs = _nearfar.mine(asked, anchors, others, None, settings, _Filled(pairs=True))
        # One window of all four, as they differ in length.
        yield tuple(np.frombuffer(part, np.uint32).astype(np.int64) for part in pairs)  # type: ignore[misc]
        return
    for part in _nearfar.Listing(asked, anchors, others, settings, 12 * window):
        yield np.frombuffer(part, np.uint32).astype(np.int64).reshape(-1, 3)


#: Miners that give pairs instead of triplets.
PAIR_MINERS = frozenset({"batch-easy-hard", "batch-hard", "multi-similarity", "pair-margin"})


def loss(
    embeddings: Any,
    labels: Any,
    references: Any = None,
    reference_labels: Any = None,
    *,
    loss: Settings = "triplet-margin",
    miner: Settings = None,
    distance: str | None = None,
    miner_distance: str | None = None,
    copies: Any = None,
    gradient: bool = True,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> Mined:
    """Computes a loss of rows with each other, or with references, over all that a miner keeps, and its gradient.

    ``loss`` and ``miner`` are names, or dicts with ``name`` and PML's arguments: ``{"name": "nt-xent", "temperature": 0.1}``. References
    are constants, as those of a cross-batch memory, unless the loss learns proxies: then they are the proxies, class by class.

    ``copies``
        For each row the reference that is a copy of it, or -1: it is no positive of the row.
    """
    sides = _Sides(embeddings, labels, references, reference_labels)
    anchors, others = sides.described
    size = (sides.anchors.rows, sides.anchors.columns)
    own = np.zeros(size, np.float32) if gradient else None
    name = loss if isinstance(loss, str) else (loss or {}).get("name")
    proxies = sides.references if name in PROXY_LOSSES else None
    shared = np.zeros((proxies.rows, proxies.columns), np.float32) if gradient and proxies is not None else None
    same = None if copies is None else Numbers(np.asarray(copies, dtype=np.int64) & 0xFFFFFFFF)
    report, _ = _nearfar.mine(
        choice(budget, engine, adapter),
        anchors,
        others,
        None if same is None else same.described,
        _settings(miner, loss, distance, miner_distance),
        _Filled(
            loss=True,
            gradient=None if own is None else filled(own),
            reference_gradient=None if shared is None else filled(shared),
        ),
    )
    found = json.loads(report)
    return Mined(found["mining"], float(found["loss"]), own, shared, _about(found))


#: Losses that learn proxies.
PROXY_LOSSES = frozenset(
    {
        "arc-face",
        "cos-face",
        "normalized-softmax",
        "proxy-anchor",
        "proxy-nca",
        "soft-triple",
        "sub-center-arc-face",
    }
)


def threshold(
    embeddings: Any,
    labels: Any,
    test_embeddings: Any = None,
    test_labels: Any = None,
    *,
    false_match_rate: float | None = None,
    queries: int = 10_000,
    seed: int = 0,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> dict[str, Any]:
    """Finds the similarity from which on two rows count as one class, at this rate of false matches, and both error rates."""
    sides = _Sides(embeddings, labels, test_embeddings, test_labels)
    fit, test = sides.described
    found: dict[str, Any] = json.loads(
        _nearfar.threshold(choice(budget, engine, adapter), fit, test, false_match_rate, queries, seed)
    )
    return Result(found)


def rows_to_check(
    embeddings: Any,
    labels: Any,
    *,
    k: int = 10,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> dict[str, Any]:
    """Finds rows that may bear a wrong label: at least four fifths of their ``k`` nearest other rows are of one other class.

    Returns ``suspects``, the surest first, each with ``row``, ``class``, the ``likely`` class, ``votes`` for it, neighbours of its ``own``
    class, and the mean ``similarity`` to those of the likely one; and ``confused``, the classes whose rows' nearest row is most often of
    another. Embeddings of rows that a model was trained on say less: it can be taught a wrong label.
    """
    rows = Rows(embeddings, "embeddings")
    if rows.rows < 2:
        raise ValueError(f"embeddings: {rows.rows} rows have no neighbours: there must be two at least")
    if k < 1:
        raise ValueError(f"k is {k}: at least 1")
    (own,), names = numbered((labels, rows.rows, "embeddings"))
    assert own is not None
    found: dict[str, Any] = json.loads(
        _nearfar.rows_to_check(choice(budget, engine, adapter), (rows.described, own.described), min(k, rows.rows - 1))
    )
    for entry in [*found["suspects"], *found["confused"]]:
        for key in ("class", "likely", "taken_for"):
            if key in entry:
                entry[key] = names[int(entry[key])]
    return found


class Head:
    """A trained head: ``head(rows)`` embeds rows. ``report`` says how it came about and what it is worth."""

    def __init__(self, safetensors: bytes, report: dict[str, Any] | None = None) -> None:
        self.safetensors = safetensors
        self.report = report or {}

    def _repr_html_(self) -> str:
        return notebook.of_head(self.report)

    @classmethod
    def load(cls, path: str) -> Head:
        """Reads a head that :meth:`save`, the page or ``nearfar train --out`` wrote."""
        with open(path, "rb") as file:
            return cls(file.read())

    def save(self, path: str) -> None:
        """Writes the head as a safetensors file."""
        with open(path, "wb") as file:
            file.write(self.safetensors)

    def __call__(
        self,
        rows: Any,
        *,
        budget: int | str | None = None,
        engine: str | None = None,
        adapter: str | None = None,
    ) -> NDArray[np.float32]:
        """Embeddings of rows, of unit length, ``[rows, embedding_size]``."""
        given = Rows(rows, "rows")
        asked = choice(budget, engine, adapter)
        dimensions = _nearfar.embed(asked, self.safetensors, given.described, None)
        embeddings = np.empty((given.rows, dimensions), np.float32)
        _nearfar.embed(asked, self.safetensors, given.described, filled(embeddings))
        return embeddings


def train(
    features: Any,
    labels: Any,
    config: dict[str, Any] | None = None,
    *,
    progress: Callable[[dict[str, Any]], None] | None = None,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> Head:
    """Trains a head on labelled rows, and scores it beside the rows as they are and beside a linear map.

    ``config`` has settings by the names of ``nearfar train --set``: ``{"steps": 1000, "miner": {"name": "triplet-margin"}}``; others
    suit the data. The result's ``report`` has ``verdict``, ``final``, ``baseline``, ``history`` and more.
    """
    rows = Rows(features, "features")
    (own,), names = numbered((labels, rows.rows, "features"))
    assert own is not None
    asked = choice(budget, engine, adapter)
    settings = {**(config or {}), "budget_bytes": asked[2]}
    said = None if progress is None else lambda text: progress(json.loads(text))
    report, head = _nearfar.train(asked, (rows.described, own.described), names, json.dumps(settings), said)
    return Head(head, json.loads(report))


def linear_map(
    features: Any,
    labels: Any,
    *,
    outputs: int | None = None,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> Head:
    """Fits linear discriminant analysis to labelled rows, with the shrinkage of Ledoit and Wolf: what a head has to beat.

    Returns a :class:`Head` of one linear layer with at most ``outputs`` outputs, one less than there are classes if not given; of few
    outputs one is constant, so that cosines tell a distance. ``report["outputs"]`` says which. Give it training rows, and score others.
    """
    rows = Rows(features, "features")
    if outputs is not None and outputs < 1:
        raise ValueError(f"outputs is {outputs}: at least 1")
    (own,), names = numbered((labels, rows.rows, "features"))
    assert own is not None
    report, head = _nearfar.linear_map(
        choice(budget, engine, adapter), (rows.described, own.described), names, outputs or 0
    )
    return Head(head, json.loads(report))


def compare(
    features: Any,
    labels: Any,
    *,
    grid: dict[str, list[Any]] | None = None,
    recipes: list[str] | None = None,
    preset: str | None = None,
    config: dict[str, Any] | None = None,
    seeds: int = 3,
    progress: Callable[[dict[str, Any]], None] | None = None,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
) -> dict[str, Any]:
    """Trains several settings with several seeds on the same rows, and ranks them by precision@1 on validation rows, with intervals that say
    which differences are more than chance; raw rows, a linear map and a linear head are always among them.

    ``grid``
        Values to try by setting: ``{"memory_size": [0, 1024], "optimizer.lr": [0.001, 0.01]}``; each is tried with every other.
    ``recipes``, ``preset``
        Names of recipes, as ``nearfar recipes`` lists them; ``"memory"``, ``"losses"`` or ``"samplers"``.
    ``config``
        Settings of all entries: ``{"steps": 1000}``, names of nested ones with dots.

    Returns ``rows``, best first, ``test`` (scores of the best on test rows, taken once) and ``verdict``, as ``nearfar compare --json``.
    """
    rows = Rows(features, "features")
    (own,), names = numbered((labels, rows.rows, "features"))
    assert own is not None
    chosen = choice(budget, engine, adapter)
    settings = {**(config or {}), "budget_bytes": chosen[2]}
    asked: dict[str, Any] = {
        "grids": [f"{key}={','.join(map(_written, values))}" for key, values in (grid or {}).items()],
        "recipes": recipes or [],
        "preset": preset,
        "sets": [f"{key}={_written(value)}" for key, value in settings.items()],
        "seeds": seeds,
    }
    said = None if progress is None else lambda text: progress(json.loads(text))
    found: dict[str, Any] = json.loads(
        _nearfar.compare(chosen, (rows.described, own.described), names, json.dumps(asked), said)
    )
    return found


def _written(value: Any) -> str:
    """A setting's value as the engine reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def plan(
    work: str,
    *,
    queries: int,
    references: int | None = None,
    dim: int,
    classes: int = 10,
    k: int = 10,
    metric: str = "cosine",
    miner: Settings = None,
    loss: Settings = None,
    config: dict[str, Any] | None = None,
    budget: int | str | None = None,
) -> dict[str, Any]:
    """Forecasts ``"knn"``, ``"evaluate"``, ``"mine"`` or ``"train"`` of these sizes within a budget: every buffer, their
    ``total_bytes``, and the time. Runs nothing. Raises :class:`BudgetError` where the work would be refused."""
    asked = choice(budget, None, None)
    settings = json.dumps(config or {}) if work == "train" else _settings(miner, loss, None)
    found: dict[str, Any] = json.loads(
        _nearfar.plan(work, asked[2], queries, references, dim, classes, k, metric, settings)
    )
    return found


def plan_pml(anchors: int, references: int, triplets: int) -> int:
    """Bytes that PML takes to enumerate these triplets at once."""
    return _nearfar.plan_pml(anchors, references, triplets)
