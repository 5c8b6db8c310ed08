"""PyTorch Metric Learning's classes on Nearfar's engine: one changed import, the same constructors and results.

Every class here is a subclass of PML's. Settings that the engine knows are served by it, inside a budget: no matrix of all pairs, no
list of all triplets. Others go to PML itself, which a warning says once for each class; :func:`served` counts both.

``budget``, ``engine`` and ``adapter`` of :func:`nearfar.configure` hold for all of them. Tensors on a GPU go to PML while its own way
fits the budget, since that is faster there; past it they are copied to the host.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners, reducers
from pytorch_metric_learning.utils import accuracy_calculator

from . import functions
from ._nearfar import BudgetError, DeviceError
from .arrays import choice
from .memory import MemoryLoss

__all__ = [
    "AccuracyCalculator",
    "ArcFaceLoss",
    "BatchEasyHardMiner",
    "BatchHardMiner",
    "CircleLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CrossBatchMemory",
    "DistanceWeightedMiner",
    "GeneralizedLiftedStructureLoss",
    "KnnFunc",
    "LazyTuple",
    "LiftedStructureLoss",
    "MarginLoss",
    "MultiSimilarityLoss",
    "MultiSimilarityMiner",
    "NCALoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "PairMarginMiner",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "SoftTripleLoss",
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "TripletMarginLoss",
    "TripletMarginMiner",
    "served",
]

_served: Counter[tuple[str, str]] = Counter()
_said: set[str] = set()


def served() -> dict[str, dict[str, int]]:
    """Calls by class: how many the ``engine`` served, and how many ``pml`` did."""
    found: dict[str, dict[str, int]] = {}
    for (name, by), count in sorted(_served.items()):
        found.setdefault(name, {"engine": 0, "pml": 0})[by] = count
    return found


def _to_pml(name: str, why: str) -> None:
    """Notes that PML does the work, and says so once for each class."""
    _served[name, "pml"] += 1
    if name not in _said:
        _said.add(name)
        warnings.warn(f"{name}: PML does the work itself, outside of the budget: {why}", stacklevel=3)


def _distance(distance: Any) -> str | None:
    """PML's distance as the engine names it; ``None`` if it has none such."""
    if not distance.normalize_embeddings or distance.p != 2:
        return None
    if type(distance) in (distances.CosineSimilarity, distances.DotProductSimilarity) and distance.power == 1:
        return "cosine"
    if type(distance) is distances.LpDistance:
        return {1: "l2", 2: "l2-squared"}.get(distance.power)
    return None


def _pml_fits(embeddings: torch.Tensor, references: int) -> bool:
    """PML's matrices for these pairs are within the budget, and on a device where it is faster."""
    if embeddings.device.type == "cpu":
        return False
    budget = choice(None, None, None)[2]
    return 64 * len(embeddings) * references < budget


# ---- Miners ---------------------------------------------------------------------------------------------------------


class LazyTuple(Sequence[torch.Tensor]):
    """What a miner keeps, as PML's tuple of index tensors, which are made only if somebody looks at them.

    Three tensors (anchors, positives, negatives), or four of a miner of pairs. A loss of this module that gets the tuple of its own
    embeddings never makes them. ``counts`` has the numbers. Looking at more than the budget holds raises :class:`BudgetError`.
    """

    def __init__(
        self,
        miner: Any,
        settings: dict[str, Any],
        distance: str,
        rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None],
    ) -> None:
        self._miner = miner
        self.settings = settings
        self.distance = distance
        self._rows = rows
        self._version = rows[0]._version
        self._counts: dict[str, Any] | None = None
        self._made: tuple[torch.Tensor, ...] | None = None

    def is_of(self, embeddings: torch.Tensor, labels: torch.Tensor, ref_emb: Any, ref_labels: Any) -> bool:
        """Tells if it was mined from these rows, unchanged since."""
        own, own_labels, ref, known = self._rows
        return (
            own.data_ptr() == embeddings.data_ptr()
            and own.shape == embeddings.shape
            and own.stride() == embeddings.stride()
            and self._version == embeddings._version
            and torch.equal(own_labels, labels)
            and (ref is None) == (ref_emb is None)
            and (ref is None or ref is ref_emb)
        )

    def _unchanged(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        if self._rows[0]._version != self._version:
            raise RuntimeError(
                "the embeddings were changed in place since they were mined: look at the tuple before, or give the miner a clone"
            )
        return self._rows

    @property
    def counts(self) -> dict[str, Any]:
        """Triplets or pairs by kind, and how many the miner keeps (``mined``), as :func:`nearfar.count_triplets` gives them."""
        if self._counts is None:
            own, labels, ref, known = self._unchanged()
            self._counts = functions.count_triplets(
                own, labels, ref, known, miner=self.settings, distance=self.distance
            )
        return self._counts

    @property
    def num_triplets(self) -> int:
        """Triplets that are kept; 0 of a miner of pairs."""
        return 0 if len(self) == 4 else int(self.counts["mined"])

    def windows(self, size: int = 1 << 20) -> Iterator[tuple[torch.Tensor, ...]]:
        """The tuple in windows of at most ``size`` triplets."""
        own, labels, ref, known = self._unchanged()
        device = own.device
        for part in functions.mine(own, labels, ref, known, miner=self.settings, distance=self.distance, window=size):
            arrays = part if isinstance(part, tuple) else tuple(np.ascontiguousarray(part.T))
            if len(arrays) > len(self):
                arrays = _one_of_each(*arrays)
            yield tuple(torch.from_numpy(array).to(device) for array in arrays)

    def _tensors(self) -> tuple[torch.Tensor, ...]:
        if self._made is None:
            budget = choice(None, None, None)[2]
            if len(self) == 3:
                asked = 24 * self.num_triplets
                if asked > budget:
                    raise BudgetError(
                        f"the index tensors of {self.num_triplets} triplets take {asked} bytes, the budget is {budget}: give the tuple to a "
                        "loss of nearfar.pml, which needs none, take its windows(), or raise the budget by nearfar.configure"
                    )
            parts = list(self.windows())
            empty = torch.empty(0, dtype=torch.long, device=self._rows[0].device)
            self._made = tuple(
                torch.cat([part[i] for part in parts]) if parts else empty for i in range(len(self))
            )
        return self._made

    def __len__(self) -> int:
        return 4 if self.settings["name"] in functions.PAIR_MINERS - {"batch-hard"} else 3

    def __getitem__(self, i: Any) -> Any:
        return self._tensors()[i]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._tensors())


def _one_of_each(a1: Any, p: Any, a2: Any, n: Any) -> tuple[Any, ...]:
    """Triplets of anchors with one positive and one negative each; those that lack one are left out."""
    anchors, positives, negatives = np.intersect1d(a1, a2, assume_unique=True, return_indices=True)
    return anchors, p[positives], n[negatives]


class _EngineMiner:
    """A miner that gives a :class:`LazyTuple` where the engine knows its settings."""

    #: Name of the miner, and its arguments: PML's attribute of each.
    _engine_name = ""
    _arguments: tuple[str, ...] = ()
    #: A row's own copy in a memory counts as PML has it.
    _of_memory = True

    def _settings(self) -> dict[str, Any]:
        return {"name": self._engine_name, **{name: getattr(self, name) for name in self._arguments}}

    def _engine_distance(self) -> str | None:
        return _distance(self.distance)  # type: ignore[attr-defined]

    def _why_not(self) -> str | None:
        if self._engine_distance() not in ("cosine", "l2"):
            return "its distance is none of unit rows, by cosine similarity or L2"
        return None

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, ref_emb: Any = None, ref_labels: Any = None) -> Any:
        name = type(self).__name__
        why = self._why_not()
        if why is None and embeddings.dtype == torch.float64:
            why = "rows are of 64 bits, the engine computes in 32"
        if why is None and _pml_fits(embeddings, len(embeddings if ref_emb is None else ref_emb)):
            why = "rows are on a GPU, and its way fits the budget"
        if why is not None:
            _to_pml(name, why)
            return super().forward(embeddings, labels, ref_emb, ref_labels)  # type: ignore[misc]
        self.reset_stats()  # type: ignore[attr-defined]
        _served[name, "engine"] += 1
        distance = self._engine_distance()
        assert distance is not None
        rows = (
            embeddings.detach(),
            labels.to(embeddings.device),
            None if ref_emb is None else ref_emb.detach(),
            ref_labels,
        )
        found = LazyTuple(self, self._settings(), distance, rows)
        self._last = found
        return found

    @property
    def num_triplets(self) -> int:
        """Triplets of the last call."""
        last = self.__dict__.get("_last")
        return last.num_triplets if last is not None else int(self.__dict__.get("_num_triplets", 0))

    @num_triplets.setter
    def num_triplets(self, value: int) -> None:
        self.__dict__["_num_triplets"] = value
        self.__dict__["_last"] = None


class TripletMarginMiner(_EngineMiner, miners.TripletMarginMiner):  # type: ignore[misc]
    _engine_name = "triplet-margin"
    _arguments = ("margin", "type_of_triplets")


class BatchHardMiner(_EngineMiner, miners.BatchHardMiner):  # type: ignore[misc]
    _engine_name = "batch-hard"


class BatchEasyHardMiner(_EngineMiner, miners.BatchEasyHardMiner):  # type: ignore[misc]
    _engine_name = "batch-easy-hard"
    _arguments = ("pos_strategy", "neg_strategy", "allowed_pos_range", "allowed_neg_range")
    _of_memory = False


class MultiSimilarityMiner(_EngineMiner, miners.MultiSimilarityMiner):  # type: ignore[misc]
    _engine_name = "multi-similarity"
    _arguments = ("epsilon",)


class PairMarginMiner(_EngineMiner, miners.PairMarginMiner):  # type: ignore[misc]
    _engine_name = "pair-margin"
    _arguments = ("pos_margin", "neg_margin")


class DistanceWeightedMiner(_EngineMiner, miners.DistanceWeightedMiner):  # type: ignore[misc]
    """Draws as PML's does, by other random numbers: those of torch's generator seed the engine's."""

    _engine_name = "distance-weighted"
    _arguments = ("cutoff", "nonzero_loss_cutoff")
    _of_memory = False

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "seed": int(torch.randint(1 << 31, ()))}


# ---- Losses ---------------------------------------------------------------------------------------------------------


class _Loss(torch.autograd.Function):
    """Loss of rows and, of proxies, with both gradients; computed at once."""

    @staticmethod
    def forward(ctx: Any, embeddings: torch.Tensor, proxies: torch.Tensor | None, ask: Any) -> torch.Tensor:
        found = ask(embeddings.detach(), None if proxies is None else proxies.detach())
        ctx.save_for_backward(
            torch.from_numpy(found.gradient), *([] if proxies is None else [torch.from_numpy(found.reference_gradient)])
        )
        ctx.like = [(value.device, value.dtype) for value in (embeddings, proxies) if value is not None]
        return torch.tensor(found.loss, device=embeddings.device, dtype=torch.float32)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> Any:
        gradients = [
            gradient.to(device=device, dtype=dtype) * slope.to(device=device, dtype=dtype)
            for gradient, (device, dtype) in zip(ctx.saved_tensors, ctx.like, strict=True)
        ]
        return (*gradients, *([None] * (3 - len(gradients))))




class _EngineLoss:
    """A loss that the engine computes where it knows its settings."""

    _engine_name = ""
    #: Arguments by the engine's names, and PML's attributes of them.
    _arguments: dict[str, str] = {}
    #: Distances that the engine computes it by.
    _distances: tuple[str, ...] = ("cosine", "l2")
    #: A row's own copy in a memory counts as PML has it.
    _of_memory = True

    def _settings(self) -> dict[str, Any]:
        arguments = {name: _number(getattr(self, attribute)) for name, attribute in self._arguments.items()}
        return {"name": self._engine_name, **arguments}

    def _engine_distance(self) -> str | None:
        return _distance(self.distance)  # type: ignore[attr-defined]

    def _proxies(self) -> torch.Tensor | None:
        """Proxies ``[classes x per class, columns]``, class by class."""
        return None

    def _proxy_labels(self) -> np.ndarray[Any, Any] | None:
        return None

    def _why_not(self) -> str | None:
        """Why the engine does not compute this loss, whatever the rows."""
        if self._engine_distance() not in self._distances:
            return "the engine does not compute it by this distance"
        reducer = self.reducer  # type: ignore[attr-defined]
        parts = list(reducer.reducers.values()) if type(reducer) is reducers.MultipleReducers else [reducer]
        if {type(part) for part in parts} != {type(self.get_default_reducer())}:  # type: ignore[attr-defined]
            return "its reducer is not the default one"
        if self.embedding_regularizer is not None or getattr(self, "weight_regularizer", None) is not None:  # type: ignore[attr-defined]
            return "it has a regularizer"
        return None

    def _why_not_for(self, embeddings: torch.Tensor, labels: Any, indices_tuple: Any, ref_emb: Any, ref_labels: Any) -> str | None:
        if labels is None or labels.ndim != 1:
            return "labels are not one a row"
        if embeddings.dtype == torch.float64:
            return "rows are of 64 bits, the engine computes in 32"
        if ref_emb is not None and ref_emb.requires_grad:
            return "references need a gradient"
        if ref_emb is not None and self._proxies() is not None:
            return "a loss with proxies takes no references"
        if indices_tuple is not None:
            if not isinstance(indices_tuple, LazyTuple):
                return "the tuple is of a miner that is none of nearfar.pml"
            if not indices_tuple.is_of(embeddings, labels, ref_emb, ref_labels):
                return "the tuple is of other rows"
            return self._why_not_mined(indices_tuple.settings["name"], indices_tuple.distance)
        if _pml_fits(embeddings, len(embeddings if ref_emb is None else ref_emb)):
            return "rows are on a GPU, and its way fits the budget"
        return None

    def _why_not_mined(self, miner: str, distance: str | None) -> str | None:
        """Why the engine does not compute this loss of what this miner keeps."""
        if miner not in functions.PAIR_MINERS and distance != self._engine_distance():
            return "its miner of triplets compares rows by another distance"
        return None

    def forward(
        self,
        embeddings: torch.Tensor,
        labels: Any = None,
        indices_tuple: Any = None,
        ref_emb: Any = None,
        ref_labels: Any = None,
    ) -> torch.Tensor:
        if labels is not None:
            labels = labels.to(embeddings.device)
        why = self._why_not() or self._why_not_for(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        if why is not None:
            _to_pml(type(self).__name__, why)
            # PML joins the tensors of some tuples, which takes a tuple of Python's.
            given = tuple(indices_tuple) if isinstance(indices_tuple, LazyTuple) else indices_tuple
            return super().forward(embeddings, labels, given, ref_emb, ref_labels)  # type: ignore[misc,no-any-return]
        self.reset_stats()  # type: ignore[attr-defined]
        return self._served(embeddings, labels, indices_tuple, ref_emb, ref_labels)

    def _served(
        self,
        embeddings: torch.Tensor,
        labels: torch.Tensor,
        mined: LazyTuple | None,
        ref_emb: Any,
        ref_labels: Any,
        memory: Any = None,
    ) -> torch.Tensor:
        _served[type(self).__name__, "engine"] += 1
        distance = self._engine_distance()
        proxy_labels = self._proxy_labels()

        def ask(rows: torch.Tensor, proxies: torch.Tensor | None) -> functions.Mined:
            if memory is not None:
                found: functions.Mined = memory(rows)
                if mined is not None and found.counts["of"] == "triplets":
                    mined._counts = found.counts
                return found
            known, known_labels = (ref_emb, ref_labels) if proxies is None else (proxies, proxy_labels)
            turned = self._engine_name == "proxy-anchor"
            sides = (known, known_labels, rows, labels) if turned else (rows, labels, known, known_labels)
            found = functions.loss(
                *sides,
                loss=self._settings(),
                miner=None if mined is None else mined.settings,
                distance=distance,
                miner_distance=None if mined is None else mined.distance,
            )
            if turned:
                found.gradient, found.reference_gradient = found.reference_gradient, found.gradient
            if mined is not None and found.counts["of"] == "triplets":
                mined._counts = found.counts
            return found

        result: torch.Tensor = _Loss.apply(embeddings, self._proxies(), ask)
        return result


def _number(value: Any) -> Any:
    """A number of Python's, of a parameter or a NumPy scalar too."""
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 else value
    return value.item() if isinstance(value, np.generic) else value


class ContrastiveLoss(_EngineLoss, losses.ContrastiveLoss):  # type: ignore[misc]
    _engine_name = "contrastive"
    _arguments = {"pos_margin": "pos_margin", "neg_margin": "neg_margin"}


class TripletMarginLoss(_EngineLoss, losses.TripletMarginLoss):  # type: ignore[misc]
    _engine_name = "triplet-margin"
    _arguments = {"margin": "margin", "swap": "swap", "smooth_loss": "smooth_loss"}

    def _why_not(self) -> str | None:
        if self.triplets_per_anchor != "all":
            return "it draws triplets_per_anchor by torch's random numbers"
        return super()._why_not()


class MultiSimilarityLoss(_EngineLoss, losses.MultiSimilarityLoss):  # type: ignore[misc]
    _engine_name = "multi-similarity"
    _arguments = {"alpha": "alpha", "beta": "beta", "base": "base"}


class NTXentLoss(_EngineLoss, losses.NTXentLoss):  # type: ignore[misc]
    _engine_name = "nt-xent"
    _arguments = {"temperature": "temperature"}


class SupConLoss(_EngineLoss, losses.SupConLoss):  # type: ignore[misc]
    _engine_name = "sup-con"
    _arguments = {"temperature": "temperature"}


class CircleLoss(_EngineLoss, losses.CircleLoss):  # type: ignore[misc]
    _engine_name = "circle"
    _arguments = {"m": "m", "gamma": "gamma"}
    _distances = ("cosine",)


class LiftedStructureLoss(_EngineLoss, losses.LiftedStructureLoss):  # type: ignore[misc]
    _engine_name = "lifted-structure"
    _arguments = {"neg_margin": "neg_margin", "pos_margin": "pos_margin"}
    _of_memory = False


class GeneralizedLiftedStructureLoss(_EngineLoss, losses.GeneralizedLiftedStructureLoss):  # type: ignore[misc]
    _engine_name = "generalized-lifted-structure"
    _arguments = {"neg_margin": "neg_margin", "pos_margin": "pos_margin"}


class MarginLoss(_EngineLoss, losses.MarginLoss):  # type: ignore[misc]
    _engine_name = "margin"
    _arguments = {"margin": "margin", "nu": "nu", "beta": "beta"}

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "learn_beta": False}

    def _why_not(self) -> str | None:
        if self.learn_beta or self.beta.numel() != 1:
            return "its beta is learned"
        if self.triplets_per_anchor != "all":
            return "it draws triplets_per_anchor by torch's random numbers"
        if self.nu != 0:
            return "it has a regularizer"
        return super()._why_not()


class _Softmax(_EngineLoss):
    """A softmax over minus the squared distances of unit rows is one over twice their cosine similarities."""

    def _settings(self) -> dict[str, Any]:
        twice = 2 if _distance(self.distance) == "l2-squared" else 1  # type: ignore[attr-defined]
        return {**super()._settings(), "softmax_scale": twice * self.softmax_scale}  # type: ignore[attr-defined]

    def _engine_distance(self) -> str | None:
        distance = super()._engine_distance()
        return "cosine" if distance == "l2-squared" else distance


class NCALoss(_Softmax, losses.NCALoss):  # type: ignore[misc]
    _engine_name = "nca"
    _of_memory = False

    def _why_not_mined(self, miner: str, distance: str | None) -> str | None:
        return "a miner weighs its rows"


class _ProxyLoss(_EngineLoss):
    def _why_not_mined(self, miner: str, distance: str | None) -> str | None:
        return "a miner weighs its rows"

    def _classes(self) -> int:
        proxies = self._proxies()
        assert proxies is not None
        return len(proxies) // self._per_class()

    def _per_class(self) -> int:
        return 1

    def _proxy_labels(self) -> np.ndarray[Any, Any]:
        return np.repeat(np.arange(self._classes()), self._per_class())


class ProxyAnchorLoss(_ProxyLoss, losses.ProxyAnchorLoss):  # type: ignore[misc]
    _engine_name = "proxy-anchor"
    _arguments = {"margin": "margin", "alpha": "alpha"}
    _distances = ("cosine",)

    def _proxies(self) -> torch.Tensor:
        return self.proxies  # type: ignore[no-any-return]


class ProxyNCALoss(_Softmax, _ProxyLoss, losses.ProxyNCALoss):  # type: ignore[misc]
    _engine_name = "proxy-nca"

    def _proxies(self) -> torch.Tensor:
        return self.proxies  # type: ignore[no-any-return]


class SoftTripleLoss(_ProxyLoss, losses.SoftTripleLoss):  # type: ignore[misc]
    _engine_name = "soft-triple"
    _arguments = {"margin": "margin", "la": "la", "centers_per_class": "centers_per_class"}
    _distances = ("cosine",)

    def _settings(self) -> dict[str, Any]:
        # PML keeps its inverse.
        return {**super()._settings(), "gamma": 1 / self.gamma}

    def _per_class(self) -> int:
        return int(self.centers_per_class)

    def _proxies(self) -> torch.Tensor:
        return self.fc.t()  # type: ignore[no-any-return]


class NormalizedSoftmaxLoss(_ProxyLoss, losses.NormalizedSoftmaxLoss):  # type: ignore[misc]
    _engine_name = "normalized-softmax"
    _arguments = {"temperature": "temperature"}
    _distances = ("cosine",)

    def _proxies(self) -> torch.Tensor:
        return self.W.t()  # type: ignore[no-any-return]


class CosFaceLoss(_ProxyLoss, losses.CosFaceLoss):  # type: ignore[misc]
    _engine_name = "cos-face"
    _arguments = {"margin": "margin", "scale": "scale"}
    _distances = ("cosine",)

    def _proxies(self) -> torch.Tensor:
        return self.W.t()  # type: ignore[no-any-return]


class ArcFaceLoss(_ProxyLoss, losses.ArcFaceLoss):  # type: ignore[misc]
    _engine_name = "arc-face"
    _arguments = {"scale": "scale"}
    _distances = ("cosine",)

    def _settings(self) -> dict[str, Any]:
        # PML keeps it in radians.
        return {**super()._settings(), "margin": float(np.degrees(self.margin))}

    def _proxies(self) -> torch.Tensor:
        return self.W.t()  # type: ignore[no-any-return]


class SubCenterArcFaceLoss(ArcFaceLoss, losses.SubCenterArcFaceLoss):  # type: ignore[misc]
    _engine_name = "sub-center-arc-face"
    _arguments = {"scale": "scale", "sub_centers": "sub_centers"}

    def _per_class(self) -> int:
        return int(self.sub_centers)


class _Mirror:
    """The engine's memory of a :class:`CrossBatchMemory`: what it holds, and of which state of PML's buffers it is a copy."""

    def __init__(self) -> None:
        self.core: MemoryLoss | None = None
        self.made_by: Any = None
        self.settings: Any = None
        self.of: Any = None

    # A copy of the module has buffers of its own, which its own mirror follows.
    def __deepcopy__(self, memo: Any) -> _Mirror:
        return _Mirror()

    def __reduce__(self) -> Any:
        return (_Mirror, ())

    def follow(
        self, of: CrossBatchMemory, settings: dict[str, Any], batch: int, stored: int, before: int
    ) -> MemoryLoss:
        """The engine's memory with all rows of PML's buffers but the last ``stored``, which came to the slot ``before``, by these settings."""
        made_by = (of.embedding_size, of.memory_size, choice(None, None, None))
        core = self.core
        if core is None or self.made_by != made_by or core.batch_size < batch or not self._set(core, settings):
            # Before the new one is made: both would take the budget twice.
            self.core = self.of = core = None
            core = MemoryLoss(of.embedding_size, of.memory_size, batch_size=batch, **settings)
            self.core, self.made_by, self.settings, self.of = core, made_by, settings, None
        if self.of is None or not self._is_of(of, stored, before):
            self.of = None
            core.reset()
            oldest = of.queue_idx if of.has_been_filled else 0
            rows = _count(of)
            end = oldest + rows - stored
            for part in (slice(oldest, min(end, rows)), slice(0, max(0, end - rows))):
                if part.stop > part.start:
                    core.enqueue(of.embedding_memory[part], of.label_memory[part])
        return core

    def _set(self, core: MemoryLoss, settings: dict[str, Any]) -> bool:
        """Takes these settings, if the buffers suit them."""
        if settings == self.settings:
            return True
        self.settings = settings
        return core._core.set(functions._settings(*(settings[key] for key in ("miner", "loss", "distance", "miner_distance"))))

    def _is_of(self, of: CrossBatchMemory, stored: int, before: int) -> bool:
        """Tells if nobody but this mirror's class has changed the buffers since it followed them."""
        rows, labels, versions, next_slot, count = self.of
        found: bool = (
            # PML takes a memory to be full once no row at all is added.
            _count(of) == min(of.memory_size, count + stored)
            and rows is of.embedding_memory
            and labels is of.label_memory
            # One change more: the last ``add_to_memory``.
            and versions == (rows._version - 1, labels._version - 1)
            and next_slot == before
        )
        return found

    def followed(self, of: CrossBatchMemory) -> None:
        """Notes that the engine has all rows now."""
        versions = (of.embedding_memory._version, of.label_memory._version)
        self.of = (of.embedding_memory, of.label_memory, versions, of.queue_idx, _count(of))


def _count(memory: CrossBatchMemory) -> int:
    """Stored rows."""
    return memory.memory_size if memory.has_been_filled else memory.queue_idx


class CrossBatchMemory(losses.CrossBatchMemory):  # type: ignore[misc]
    """PML's memory, whose rows the engine keeps, too: a step brings it the batch alone, and makes no matrix of rows x memory x memory.

    ``embedding_memory`` and ``label_memory`` are PML's buffers. Whoever writes to them, loads a state or adds rows is followed: the engine
    then gets all rows anew.
    """

    embedding_memory: torch.Tensor
    label_memory: torch.Tensor
    queue_idx: int
    has_been_filled: bool
    embedding_size: int
    memory_size: int

    def _why_not(self, embeddings: torch.Tensor, labels: torch.Tensor, indices_tuple: Any, enqueue_mask: Any) -> str | None:
        loss, miner = self.loss, self.miner
        if indices_tuple is not None:
            return "it is given a tuple beside its own"
        if not isinstance(loss, _EngineLoss):
            return "its loss is none of nearfar.pml"
        if miner is not None and not isinstance(miner, _EngineMiner):
            return "its miner is none of nearfar.pml"
        if loss._proxies() is not None:
            return "a loss with proxies takes no references"
        if type(self).add_to_memory is not losses.CrossBatchMemory.add_to_memory:
            return "its add_to_memory is not PML's"
        if labels.is_floating_point():
            return "labels are no integers"
        if enqueue_mask is not None and int(enqueue_mask.sum()) > self.memory_size:
            return "more rows are stored at once than it has slots"
        if enqueue_mask is None and not (loss._of_memory and (miner is None or miner._of_memory)):
            return "PML counts a row's own copy in the memory here, Nearfar does not"
        why = loss._why_not()
        if why is None and miner is not None:
            why = miner._why_not() or loss._why_not_mined(miner._engine_name, miner._engine_distance())
        return why or loss._why_not_for(embeddings, labels, None, self.embedding_memory, self.label_memory)

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor, indices_tuple: Any = None, enqueue_mask: Any = None) -> Any:
        why = self._why_not(embeddings, labels, indices_tuple, enqueue_mask)
        if why is not None:
            _to_pml(type(self).__name__, why)
            return super().forward(embeddings, labels, indices_tuple, enqueue_mask)
        if enqueue_mask is None:
            assert len(embeddings) <= len(self.embedding_memory)
        else:
            assert len(enqueue_mask) == len(embeddings)
        self.reset_stats()
        labels = labels.to(embeddings.device)
        self.embedding_memory = self.embedding_memory.to(embeddings)
        self.label_memory = self.label_memory.to(labels)
        stored, stored_labels = (
            (embeddings, labels) if enqueue_mask is None else (embeddings[enqueue_mask], labels[enqueue_mask])
        )
        if enqueue_mask is not None:
            embeddings, labels = embeddings[~enqueue_mask], labels[~enqueue_mask]
        before = self.queue_idx
        self.add_to_memory(stored, stored_labels, len(stored))
        full = slice(None) if self.has_been_filled else slice(self.queue_idx)
        known, known_labels = self.embedding_memory[full], self.label_memory[full]
        mined = None
        if self.miner is not None:
            mined = self.miner(embeddings, labels, known, known_labels)
            if not isinstance(mined, LazyTuple):
                raise RuntimeError("a miner of nearfar.pml gave no tuple of its own")
        _served[type(self).__name__, "engine"] += 1
        return self.loss._served(
            embeddings,
            labels,
            mined,
            known,
            known_labels,
            lambda rows: self._by_engine(rows, labels, mined, stored.detach(), stored_labels, before, enqueue_mask is None),
        )

    def _by_engine(
        self,
        rows: torch.Tensor,
        labels: torch.Tensor,
        mined: LazyTuple | None,
        stored: torch.Tensor,
        stored_labels: torch.Tensor,
        before: int,
        own: bool,
    ) -> functions.Mined:
        """Brings the rows of this step to the engine; the loss of the others with all that it holds."""
        mirror: _Mirror = self.__dict__.setdefault("_mirror", _Mirror())
        settings = {
            "loss": self.loss._settings(),
            "miner": None if mined is None else mined.settings,
            "distance": self.loss._engine_distance(),
            "miner_distance": None if mined is None else mined.distance,
        }
        try:
            core = mirror.follow(self, settings, len(rows), len(stored), before)
            # Whatever goes wrong below, the next step brings all rows anew.
            mirror.of = None
            if own:
                found = core(rows, labels)
            else:
                if len(stored):
                    core.enqueue(stored, stored_labels)
                found = core.loss(rows, labels)
        except DeviceError:
            mirror.core = None
            raise
        mirror.followed(self)
        return found


# ---- Search and metrics ---------------------------------------------------------------------------------------------


class KnnFunc:
    """Exact search for :class:`AccuracyCalculator` and PML's ``InferenceModel``, as ``FaissKNN`` is called, inside the budget.

    ``metric`` is ``"l2"`` (squared distances come back, as from faiss), ``"cosine"`` or ``"dot"``.
    """

    def __init__(self, metric: str = "l2", budget: int | str | None = None, engine: str | None = None) -> None:
        self.metric, self.budget, self.engine = metric, budget, engine

    def __call__(
        self, query: torch.Tensor, k: int, reference: torch.Tensor | None = None, ref_includes_query: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        known = query if reference is None else reference
        own = ref_includes_query and len(known) == len(query)
        more = ref_includes_query and not own
        ids, values = functions.knn(
            query,
            None if own else known,
            k=k + int(more),
            metric=self.metric,
            budget=self.budget,
            engine=self.engine,
        )
        if more:
            # Without the query itself, or without the last if that was not among them.
            itself = ids == np.arange(len(ids))[:, None]
            itself[~itself.any(axis=1), -1] = True
            ids, values = ids[~itself].reshape(-1, k), values[~itself].reshape(-1, k)
        if self.metric == "l2":
            values = values**2
        return torch.from_numpy(values).to(query.device), torch.from_numpy(ids).to(query.device)


#: Metrics that follow from the ranks of a query's class, and whether those of the nearest R are enough.
_RANKED = {
    "precision_at_1": True,
    "r_precision": True,
    "mean_average_precision_at_r": True,
    "mean_average_precision": False,
    "mean_reciprocal_rank": False,
}


class AccuracyCalculator(accuracy_calculator.AccuracyCalculator):  # type: ignore[misc]
    """PML's calculator, whose metrics of ranks are exact at ``k=None`` without a matrix of all neighbours.

    Metrics of other ``calculate_*`` methods, of a ``label_comparison_fn``, and AMI and NMI are PML's, over a search inside the budget.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Without a device given, the host's: what is computed there need not be copied to a GPU and back.
        kwargs.setdefault("device", torch.device("cpu"))
        kwargs.setdefault("knn_func", KnnFunc())
        super().__init__(*args, **kwargs)

    def _ranked(self, labels: torch.Tensor) -> list[str]:
        """The metrics of this call that follow from ranks alone."""
        if not isinstance(self.knn_func, KnnFunc) or labels.ndim != 1:
            return []
        if self.label_comparison_fn is not accuracy_calculator.EQUALITY:
            return []
        base = accuracy_calculator.AccuracyCalculator
        return [
            name
            for name, of_the_nearest in _RANKED.items()
            if name in self.curr_function_dict
            and getattr(type(self), f"calculate_{name}") is getattr(base, f"calculate_{name}")
            and (self.k is None or (self.k == "max_bin_count" and of_the_nearest))
        ]

    def get_accuracy(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: Any = (),
        exclude: Any = (),
    ) -> dict[str, Any]:
        self.curr_function_dict = self.get_function_dict(include, exclude)
        asked = list(self.curr_function_dict)
        labels = torch.as_tensor(np.asarray(query_labels) if not torch.is_tensor(query_labels) else query_labels)
        ranked = self._ranked(labels)
        found = {}
        if ranked:
            _served[type(self).__name__, "engine"] += 1
            found = self._by_ranks(ranked, query, query_labels, reference, reference_labels, ref_includes_query)
        rest = tuple(name for name in asked if name not in ranked)
        if rest:
            _to_pml(type(self).__name__, f"{', '.join(rest)} with k={self.k}")
            self._check_room(rest, query, reference)
            found |= super().get_accuracy(
                query, query_labels, reference, reference_labels, ref_includes_query, include=rest
            )
        return {name: found[name] for name in asked}

    def _check_room(self, rest: tuple[str, ...], query: Any, reference: Any) -> None:
        """Refuses neighbours of every reference that the budget does not hold."""
        if self.k is not None or not any(name not in ("AMI", "NMI") for name in rest):
            return
        if not isinstance(self.knn_func, KnnFunc):
            return
        count = len(query if reference is None else reference)
        asked, budget = 12 * len(query) * count, choice(self.knn_func.budget, None, None)[2]
        if asked > budget:
            raise BudgetError(
                f"{', '.join(rest)}: k=None asks for all {count} neighbours of {len(query)} queries, {asked} bytes, the budget is {budget}: "
                "give k, or k='max_bin_count'"
            )

    def _by_ranks(
        self, ranked: list[str], query: Any, query_labels: Any, reference: Any, reference_labels: Any, included: bool
    ) -> dict[str, Any]:
        knn = self.knn_func
        try:
            scores = functions.evaluate(
                query,
                query_labels,
                reference,
                reference_labels,
                metric=knn.metric,
                at=[1],
                nearest=all(_RANKED[name] for name in ranked),
                references_include_queries=included and reference is not None,
                budget=knn.budget,
                engine=knn.engine,
            )
        except ValueError as error:
            if "nothing to retrieve" not in str(error):
                raise
            classes = len(np.unique(np.asarray(query_labels)))
            nothing = [float("nan")] * classes if self.return_per_class else float("nan")
            return dict.fromkeys(ranked, nothing)
        if self.return_per_class:
            return {name: [of_class[name] for of_class in scores["classes"]] for name in ranked}
        means = scores["over_classes"] if self.avg_of_avgs else scores
        return {name: means[name] for name in ranked}
