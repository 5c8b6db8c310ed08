"""Writes threshold.json: what scikit-learn's roc_curve, det_curve and roc_auc_score say of the pairs of random rows.

A case has rows to fit on and rows to test on: of the same classes, or of others. tests/library/threshold.rs counts the same pairs.

usage: pip install scikit-learn==1.9.1 numpy==2.4.6 && python threshold.py
"""
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import det_curve, roc_auc_score, roc_curve

RATES = (0.2, 0.05, 0.01)


def rows(rng, centres, sizes):
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = (centres[labels] + 0.8 * rng.normal(size=(len(labels), centres.shape[1]))).astype(np.float32)
    return x, labels


def pairs(x, labels):
    x = x.astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    i, j = np.triu_indices(len(x), 1)
    return labels[i] == labels[j], (x[i] * x[j]).sum(1)


def side(x, labels):
    same, similarity = pairs(x, labels)
    false_match, false_non_match, thresholds = det_curve(same, similarity)
    # The last may be infinity.
    at = np.linspace(0, len(thresholds) - 2, 40).astype(int)
    gap = np.abs(false_match - false_non_match)
    fpr, tpr, roc = roc_curve(same, similarity, drop_intermediate=False)
    # The lowest similarity of a pair whose rate is kept; inf, the first, lets nothing in.
    lowest = {str(rate): float(roc[max(1, np.flatnonzero(fpr <= rate)[-1])]) for rate in RATES}
    return dict(
        rows=[float(v) for v in x.ravel()],
        labels=labels.tolist(),
        thresholds=thresholds[at].tolist(),
        false_match_rate=false_match[at].tolist(),
        false_non_match_rate=false_non_match[at].tolist(),
        equal_error_rate=float((false_match + false_non_match)[gap.argmin()] / 2),
        largest_gap=float(gap.min()),
        area_under_curve=float(roc_auc_score(same, similarity)),
        lowest_with_rate=lowest,
    )


rng = np.random.default_rng(0)
centres = rng.normal(size=(16, 5))
cases = [
    dict(name="classes of the fit", dim=5, fit=side(*rows(rng, centres[:8], [12, 9, 8, 8, 5, 4, 2, 1])), test=side(*rows(rng, centres[:8], [6, 9, 8, 7, 7, 3, 3, 2]))),
    dict(name="new classes", dim=5, fit=side(*rows(rng, centres[:8], [9] * 8)), test=side(*rows(rng, centres[8:], [7] * 8))),
]
# Names, not numbers: the classes of the second test are others.
cases[1]["test"]["labels"] = [label + 8 for label in cases[1]["test"]["labels"]]
Path(__file__).with_suffix(".json").write_text(json.dumps(cases) + "\n")
