"""Arrays of NumPy and torch as the engine reads them, and the engine that a call takes."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _nearfar

#: Budget of a call that names none, in bytes.
DEFAULT_BUDGET = 256 << 20

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_defaults: dict[str, Any] = {"budget": DEFAULT_BUDGET, "engine": None, "adapter": None}


def _threads() -> None:
    """Sets the threads that the CPU engine starts: OMP_NUM_THREADS, else the cores that are left to each of the ranks of this machine."""
    if "RAYON_NUM_THREADS" in os.environ:
        return
    threads = os.environ.get("NEARFAR_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS")
    if not threads:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1)
        threads = str(max(1, (os.cpu_count() or 1) // ranks))
    os.environ["RAYON_NUM_THREADS"] = threads


_threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_nearfar.after_fork)


def configure(
    *,
    budget: int | str | None = None,
    engine: str | None = None,
    adapter: str | None = None,
    threads: int | None = None,
) -> None:
    """Sets what calls take that do not say it themselves.

    ``threads`` counts only before the first call: the threads of the CPU engine start once in a process. By default they are
    ``OMP_NUM_THREADS``, else the cores over the ranks of this machine (``LOCAL_WORLD_SIZE``).
    """
    if budget is not None:
        _defaults["budget"] = to_bytes(budget)
    if engine is not None:
        _defaults["engine"] = engine
    if adapter is not None:
        _defaults["adapter"] = adapter
    if threads is not None:
        if threads < 1:
            raise ValueError(f"threads is {threads}: at least 1")
        os.environ["RAYON_NUM_THREADS"] = str(threads)


def to_bytes(budget: int | str) -> int:
    """Bytes of a number or of a text such as ``"256MiB"`` or ``"1.5 GB"``."""
    if not isinstance(budget, str):
        value = int(budget)
    else:
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", budget)
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(f'budget is "{budget}": write bytes, or a text such as "256MiB"')
        value = int(float(match[1]) * unit)
    if value < 0:
        raise ValueError(f"budget is {budget}: it cannot be negative")
    return value


def choice(budget: int | str | None, engine: str | None, adapter: str | None) -> tuple[str | None, str | None, int]:
    """The engine of a call."""
    named = engine if engine is not None else _defaults["engine"]
    part = adapter if adapter is not None else _defaults["adapter"]
    return (named, part, to_bytes(_defaults["budget"] if budget is None else budget))


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


class Rows:
    """Rows ``[rows, columns]``, held for a call. ``described`` says where they lie."""

    def __init__(self, value: Any, name: str) -> None:
        if isinstance(value, (str, os.PathLike)):
            value = np.load(value, mmap_mode="r", allow_pickle=False)
        if _is_tensor(value):
            # Of the CPU's memory no copy is made; of a GPU's one is.
            value = value.detach()
            if value.device.type != "cpu":
                value = value.cpu()
            if value.ndim != 2:
                raise ValueError(f"{name} has {value.ndim} dimensions: rows are an array [rows, columns]")
            kind = str(value.dtype).removeprefix("torch.")
            rows, columns = (int(size) for size in value.shape)
            size = value.element_size()
            strides = [int(step) * size for step in value.stride()]
            address = int(value.data_ptr())
        else:
            value = np.asarray(value)
            if value.ndim != 2:
                raise ValueError(f"{name} has {value.ndim} dimensions: rows are an array [rows, columns]")
            if not value.dtype.isnative or value.dtype.kind not in "fiub":
                value = np.asarray(value, dtype=np.float32)
            kind = value.dtype.name
            rows, columns = value.shape
            strides = list(value.strides)
            address = value.__array_interface__["data"][0]
        if columns == 0:
            raise ValueError(f"{name} has no columns")
        self.held = value
        self.rows = rows
        self.columns = columns
        self.described = (address, kind, rows, columns, strides[0], strides[1])


class Numbers:
    """Numbers of 32 bits without a sign, held for a call."""

    def __init__(self, values: Any) -> None:
        self.held: NDArray[np.uint32] = np.ascontiguousarray(values, dtype=np.uint32)
        self.described = (self.held.__array_interface__["data"][0], self.held.size)


def filled(array: NDArray[Any]) -> tuple[int, int]:
    """Describes an array that a call fills."""
    return (array.__array_interface__["data"][0], array.size)


def to_array(values: Any) -> NDArray[Any]:
    """Labels of any kind as an array of one dimension."""
    if _is_tensor(values):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    return array.reshape(array.shape[0]) if array.ndim == 2 and 1 in array.shape[1:] else array


def numbered(*sides: tuple[Any, int, str] | None) -> tuple[list[Numbers | None], list[str]]:
    """The classes of each side by number, from 0 on without gaps over all sides, and their names in that order.

    A side is its labels, its rows, and what to call it.
    """
    arrays = []
    for side in sides:
        if side is None:
            continue
        labels, rows, name = side
        array = to_array(labels)
        if array.ndim != 1 or len(array) != rows:
            raise ValueError(f"{name}: labels of shape {array.shape} for {rows} rows: there must be one a row")
        arrays.append(array)
    joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    names, codes = np.unique(joined, return_inverse=True)
    parts: list[Numbers | None] = []
    first = 0
    for side in sides:
        if side is None:
            parts.append(None)
            continue
        parts.append(Numbers(codes.reshape(-1)[first : first + side[1]]))
        first += side[1]
    return parts, [str(name) for name in names.tolist()]
