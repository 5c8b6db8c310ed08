"""Writes digits.npy from the published package: 1,797 rows of 64 pixels (0 to 16) and the digit, one byte each.

usage: pip install scikit-learn==1.9.1 && python digits.py
"""
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
rows = np.column_stack([digits.data, digits.target]).astype(np.uint8)
assert (rows[:, :64] == digits.data).all() and (rows[:, 64] == digits.target).all()
np.save(Path(__file__).with_name("digits.npy"), rows)
