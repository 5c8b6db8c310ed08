"""Writes vector_sizes.json: what NumPy says of rows that are cut and stored in fewer bits. tests/library/vector_sizes.rs measures the same.

usage: pip install numpy==2.4.6 && python vector_sizes.py
"""
import json
from pathlib import Path

import numpy as np


def stored(rows, form):
    """Rows of length 1 as they are read back."""
    if form == "f32":
        return rows
    unit = (rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
    if form == "f16":
        return unit.astype(np.float16)
    if form == "int8":
        return np.rint(unit * (np.float32(127) / np.abs(unit).max())).astype(np.int8)
    return np.where(unit > 0, 1, -1)


def score(rows, labels):
    """Precision@1 and MAP@R by a stable sort of all similarities, in f64."""
    rows = rows.astype(np.float64)
    dots = rows @ rows.T
    lengths = np.linalg.norm(rows, axis=1)
    # Rounded, so that rows that tie do.
    similarities = np.round(dots / np.outer(lengths, lengths), 12)
    np.fill_diagonal(similarities, -np.inf)
    first, precisions = [], []
    for query, row in enumerate(similarities):
        order = np.argsort(-row, kind="stable")[:-1]
        right = labels[order] == labels[query]
        r = int(right.sum())
        first.append(right[0])
        hits = right[:r]
        precisions.append((np.cumsum(hits) / np.arange(1, r + 1) * hits).sum() / r)
    return float(np.mean(first)), float(np.mean(precisions))


rng = np.random.default_rng(7)
labels = rng.permutation(np.repeat(np.arange(12), 20))
centres = rng.normal(size=(12, 40)) * np.linspace(1.6, 0.3, 40)
rows = (centres[labels] + rng.normal(size=(240, 40))).astype(np.float32)
sizes = []
for dim in (40, 20, 10):
    for form in ("f32", "f16", "int8", "bit"):
        precision, average = score(stored(rows[:, :dim], form), labels)
        sizes.append(dict(dim=dim, format=form, precision_at_1=precision, mean_average_precision_at_r=average))
text = json.dumps(dict(dim=40, rows=[float(v) for v in rows.ravel()], labels=labels.tolist(), sizes=sizes))
Path(__file__).with_suffix(".json").write_text(text + "\n")
