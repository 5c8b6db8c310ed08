"""sentence-transformers inside a memory budget: an evaluator that ranks every text, and hard negatives for its datasets.

Embeddings of texts lie in a temporary file, from which they stream through the budget: neither all of them nor a matrix of similarities
is ever in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers.base.evaluation.evaluator import BaseEvaluator

from . import functions

__all__ = ["RetrievalEvaluator", "mine_hard_negatives"]

#: Texts that are embedded at once.
_TEXTS = 4096
_METRICS = {"cosine": "cosine", "dot": "dot", "euclidean": "l2"}


def _embedded(encode: Callable[..., Any], texts: Sequence[str], batch_size: int, path: str) -> str:
    """Writes the embeddings of texts as an NPY file, some at a time."""
    file: Any = None
    for first in range(0, len(texts), _TEXTS):
        part = list(texts[first : first + _TEXTS])
        rows = encode(part, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False)
        if file is None:
            file = np.lib.format.open_memmap(path, "w+", np.float32, (len(texts), rows.shape[1]))
        file[first : first + len(part)] = rows
    file.flush()
    return path


class RetrievalEvaluator(BaseEvaluator):  # type: ignore[misc]
    """Scores a model by the ranks of texts with the same label, each text a query among all others: exact, no k.

    ``SentenceTransformerTrainer(..., evaluator=RetrievalEvaluator(texts, labels))`` logs ``precision@1``, ``r_precision``, ``map@r``, the
    primary metric, ``map``, ``mrr`` and ``recall@k``. ``metric`` is the model's own similarity if it is not set; the embeddings' file
    lies in ``folder``, or where temporary files do.
    """

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[Any],
        *,
        name: str = "",
        at: Sequence[int] = (1, 5, 10),
        batch_size: int = 32,
        metric: str | None = None,
        folder: str | None = None,
        budget: int | str | None = None,
        engine: str | None = None,
    ) -> None:
        super().__init__()
        if len(texts) != len(labels):
            raise ValueError(f"{len(texts)} texts and {len(labels)} labels: there must be one a text")
        self.texts, self.labels = texts, np.asarray(labels)
        self.name, self.at, self.batch_size, self.folder = name, list(at), batch_size, folder
        self.metric, self.budget, self.engine = metric, budget, engine
        self.primary_metric = "map@r"

    def __call__(self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """The scores of a model; nothing is written to ``output_path``."""
        metric = self.metric
        if metric is None:
            own = getattr(model.similarity_fn_name, "value", model.similarity_fn_name)
            if own not in _METRICS:
                raise ValueError(f'the model compares by "{own}": set metric to "cosine", "dot" or "l2"')
            metric = _METRICS[own]
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            path = _embedded(model.encode, self.texts, self.batch_size, os.path.join(folder, "texts.npy"))
            found = functions.evaluate(path, self.labels, metric=metric, at=self.at, budget=self.budget, engine=self.engine)
        scores = {
            "precision@1": found["precision_at_1"],
            "r_precision": found["r_precision"],
            "map@r": found["mean_average_precision_at_r"],
            "map": found["mean_average_precision"],
            "mrr": found["mean_reciprocal_rank"],
            **{f"recall@{k}": found["recall_at"][k] for k in self.at},
        }
        named: dict[str, float] = self.prefix_name_to_metrics(scores, self.name)
        self.store_metrics_in_model_card_data(model, named, epoch, steps)
        return named


class _Pairs:
    """Anchors with their positives, each text once."""

    def __init__(self, anchors: list[str], positives: list[str], corpus: Sequence[str] | None) -> None:
        if not anchors:
            raise ValueError("the dataset is empty: give pairs of an anchor and a positive")
        self.corpus = list(dict.fromkeys([*(corpus or ()), *positives]))
        places = {text: place for place, text in enumerate(self.corpus)}
        found: dict[str, dict[int, None]] = {}
        for anchor, positive in zip(anchors, positives, strict=True):
            found.setdefault(anchor, {})[places[positive]] = None
        self.anchors = list(found)
        self.positives = [np.array(list(of)) for of in found.values()]
        counts: dict[str, int] = {}
        for anchor in anchors:
            counts[anchor] = counts.get(anchor, 0) + 1
        self.most = max(counts.values())


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = (rows / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)
    return unit


def mine_hard_negatives(
    dataset: Any,
    model: Any,
    anchor_column_name: str | None = None,
    positive_column_name: str | None = None,
    corpus: Sequence[str] | None = None,
    *,
    range_min: int = 0,
    range_max: int | None = None,
    max_score: float | None = None,
    min_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    num_negatives: int = 3,
    output_format: str = "triplet",
    batch_size: int = 32,
    folder: str | None = None,
    budget: int | str | None = None,
    engine: str | None = None,
) -> Any:
    """Adds the nearest texts that are no positives to pairs of an anchor and a positive, as
    ``sentence_transformers.util.mine_hard_negatives`` does with these arguments: the same negatives, by an exact search.

    ``dataset`` is a ``datasets.Dataset``, or a dict of columns; what comes back is of the same kind. With ``output_format="triplet"`` its
    columns are the anchor, the positive and ``negative``; with ``"n-tuple"`` there are ``negative_1`` to ``negative_n``, and anchors with
    fewer negatives are left out.
    """
    if output_format not in ("triplet", "n-tuple"):
        raise ValueError(f'output_format is "{output_format}": it can be "triplet" or "n-tuple"')
    columns = list(getattr(dataset, "column_names", dataset))
    names = [anchor_column_name or columns[0], positive_column_name or columns[1]]
    pairs = _Pairs(list(dataset[names[0]]), list(dataset[names[1]]), corpus)
    bounded = any(limit is not None for limit in (absolute_margin, relative_margin, max_score))
    if range_max is None:
        range_max = range_min + num_negatives * (10 if bounded else 1) + pairs.most
    if not 0 <= range_min <= range_min + num_negatives <= range_max or num_negatives < 1:
        raise ValueError(
            f"num_negatives is {num_negatives} of the neighbours from range_min, {range_min}, to range_max, {range_max}: there must be as many"
        )
    with tempfile.TemporaryDirectory(dir=folder) as held:
        known = _embedded(model.encode_document, pairs.corpus, batch_size, os.path.join(held, "corpus.npy"))
        asking = _embedded(model.encode_query, pairs.anchors, batch_size, os.path.join(held, "anchors.npy"))
        k = min(range_max + pairs.most, len(pairs.corpus))
        ids, scores = functions.knn(asking, known, k=k, budget=budget, engine=engine)
        if absolute_margin is not None or relative_margin is not None:
            _keep_below(scores, pairs, asking, known, absolute_margin, relative_margin)
    if max_score is not None:
        scores[scores > max_score] = -np.inf
    if min_score is not None:
        scores[scores < min_score] = -np.inf
    rows: list[list[str]] = []
    for place, (near, by) in enumerate(zip(ids, scores, strict=True)):
        near = near[~np.isin(near, pairs.positives[place]) & (by > -np.inf)]
        negatives = [pairs.corpus[text] for text in near[range_min:range_max][:num_negatives]]
        rows += _rows(pairs, place, negatives, num_negatives, output_format)
    negative = ["negative"] if output_format == "triplet" else [f"negative_{n + 1}" for n in range(num_negatives)]
    found = dict(zip([*names, *negative], map(list, zip(*rows, strict=True)) if rows else [[] for _ in (*names, *negative)], strict=True))
    return type(dataset).from_dict(found) if hasattr(type(dataset), "from_dict") else found


def _rows(pairs: _Pairs, place: int, negatives: list[str], wanted: int, output_format: str) -> Iterator[list[str]]:
    for positive in pairs.positives[place]:
        pair = [pairs.anchors[place], pairs.corpus[positive]]
        if output_format == "triplet":
            yield from ([*pair, negative] for negative in negatives)
        elif len(negatives) == wanted:
            yield [*pair, *negatives]


def _keep_below(
    scores: NDArray[np.float32], pairs: _Pairs, asking: str, known: str, absolute: float | None, relative: float | None
) -> None:
    """Drops neighbours whose similarity is within a margin of that of the anchor's farthest positive."""
    anchors, texts = np.load(asking, mmap_mode="r"), np.load(known, mmap_mode="r")
    for place, positives in enumerate(pairs.positives):
        least = float((_unit(texts[positives]) @ _unit(anchors[place])).min())
        limits = [] if absolute is None else [least - absolute]
        limits += [] if relative is None else [least - abs(least) * relative]
        scores[place][scores[place] > min(limits)] = -np.inf
