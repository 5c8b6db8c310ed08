"""Writes neighbours.npz, arrays as NumPy itself stores them, or reads files that hold the same arrays.

tests/library/npz.rs writes these arrays and compares its members with NumPy's, byte for byte.

usage: pip install numpy==2.4.6 && python npz.py            writes neighbours.npz
       python npz.py FILE.npz ...                           reads what others wrote, and says whether it is the same
"""
import sys
from pathlib import Path

import numpy as np

ROWS, K = 37, 3
EXPECTED = {
    "ids": (np.arange(ROWS * K, dtype="u8") * 2654435761 % 2**32).astype("u4").reshape(ROWS, K),
    "similarities": (np.arange(ROWS * K, dtype="f4") / 64 - 1).reshape(ROWS, K),
    "counts": np.array([0, 2**53 + 1, 2**64 - 1], "u8"),
    "empty": np.zeros((0, K), "f8"),
}

if len(sys.argv) == 1:
    np.savez(Path(__file__).parent / "neighbours.npz", **EXPECTED)
for path in sys.argv[1:]:
    with np.load(path) as found:
        assert list(found) == list(EXPECTED), list(found)
        for name, array in EXPECTED.items():
            assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
    print(f"{path}: numpy {np.__version__} reads the same {len(EXPECTED)} arrays")
