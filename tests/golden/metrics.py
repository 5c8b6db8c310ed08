"""Writes metrics.json: what pytorch-metric-learning's AccuracyCalculator says of random rows, whole and by class.

Rows are unit and no two similarities of a query tie; some labels have one row. tests/library/metrics.rs scores the same rows.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python metrics.py
"""
import json
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

METRICS = ("precision_at_1", "r_precision", "mean_average_precision_at_r", "mean_average_precision", "mean_reciprocal_rank")
SIZES = [40, 25, 25, 12, 7, 3, 2, 1, 1]


def rows(rng, sizes, dim=6):
    centres = rng.normal(size=(len(SIZES), dim))
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = (0.6 * centres[labels] + rng.normal(size=(len(labels), dim))).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True), labels


def score(k, queries, query_labels, references=None, reference_labels=None, **kwargs):
    calculator = AccuracyCalculator(include=METRICS, k=k, knn_func=CustomKNN(CosineSimilarity()), **kwargs)
    tensors = [None if a is None else torch.as_tensor(a) for a in (queries, query_labels, references, reference_labels)]
    return {name: value for name, value in calculator.get_accuracy(*tensors).items()}


def case(name, queries, query_labels, references=None, reference_labels=None):
    sides = (queries, query_labels, references, reference_labels)
    return dict(
        name=name,
        dim=queries.shape[1],
        queries=[float(v) for v in queries.ravel()],
        query_labels=query_labels.tolist(),
        references=None if references is None else [float(v) for v in references.ravel()],
        reference_labels=None if reference_labels is None else reference_labels.tolist(),
        whole=score(None, *sides),
        max_bin_count=score("max_bin_count", *sides),
        over_classes=score(None, *sides, avg_of_avgs=True),
        per_class=score(None, *sides, return_per_class=True),
    )


rng = np.random.default_rng(0)
own = rows(rng, SIZES)
known, asking = rows(rng, SIZES), rows(rng, [6, 5, 5, 4, 3, 3, 2, 2, 2])
cases = [case("against each other", *own), case("against others", *asking, *known)]
text = json.dumps(cases)
Path(__file__).with_suffix(".json").write_text(text + "\n")
