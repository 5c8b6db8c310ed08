"""Nearfar: exact search, retrieval metrics, mining and losses inside a memory budget.

Rows are arrays ``[rows, columns]`` of NumPy or torch. An array in the memory of this process is read where it lies, memory-mapped files
(``numpy.load(..., mmap_mode="r")``) and the path of an NPY file included; a tensor on a GPU is copied to the host first. Every function
takes

``budget``
    The bytes that its buffers may take beside the arrays themselves: a number, or a text such as ``"256MiB"``.
``engine``
    ``"cpu"``, ``"gpu"`` (Vulkan, Metal or DX12), or ``None``: a GPU where there is one that such a driver serves, else the CPU. CUDA is
    not used.
``adapter``
    A part of a GPU's name, where there are several.

Work that does not fit the budget raises :class:`BudgetError` before anything starts, with what would fit.
"""

from ._nearfar import BudgetError, DeviceError, __version__
from .arrays import configure
from .functions import (
    Head,
    Mined,
    compare,
    count_triplets,
    devices,
    evaluate,
    knn,
    linear_map,
    loss,
    mine,
    plan,
    plan_pml,
    rows_to_check,
    threshold,
    train,
)
from .memory import MemoryLoss

__all__ = [
    "BudgetError",
    "DeviceError",
    "Head",
    "MemoryLoss",
    "Mined",
    "__version__",
    "compare",
    "configure",
    "count_triplets",
    "devices",
    "evaluate",
    "knn",
    "linear_map",
    "loss",
    "mine",
    "plan",
    "plan_pml",
    "rows_to_check",
    "threshold",
    "train",
]
