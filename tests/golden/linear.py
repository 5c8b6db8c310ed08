"""Writes linear.json: cosines between rows that a pooled Ledoit-Wolf linear discriminant analysis has mapped.

Each case is a data set (or the name of a sample), the rows to fit to, how many outputs at most, rows to compare, and the
cosine of each two of these, in the order of their pairs. scikit-learn's LinearDiscriminantAnalysis shrinks each class by
itself; here its parts do it once, of all classes together: sklearn.covariance.ledoit_wolf of the residuals within
classes, standardised as its covariances are, and scipy.linalg.eigh, which scales directions to unit variance within
classes. The mean of the rows fitted to is taken off first, so that cosines have an origin. tests/library/linear.rs repeats them.

usage: pip install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 && python linear.py
"""
import json
from pathlib import Path

import numpy as np
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler


def ill_conditioned():
    """Scales from 1e-3 to 1e3 far from zero, near and exact duplicates, constants, classes of one and two rows."""
    rng = np.random.default_rng(0)
    sizes = [1, 2, 3, 9, 14, 31]
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = rng.standard_normal((len(sizes), 6))
    x = centres[labels] + rng.standard_normal((len(labels), 6)) @ rng.standard_normal((6, 6))
    near = x[:, :1] + 1e-3 * rng.standard_normal((len(labels), 1))
    x = np.hstack([x, near, x[:, 1:2], np.full((len(labels), 1), 0.1), (labels == 4)[:, None]])
    scales = np.array([1e-3, 1e3, 1, 30, 1e-2, 5, 1e-3, 1e3, 1, 1])
    offsets = np.array([3, -2, 5, 0, 1, 4, 3, -2, 0, 0])
    return ((x + offsets) * scales).astype("f4"), labels


def many_classes():
    """Fewer rows of a class than features, and a duplicate of one."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(30), 3)
    x = rng.standard_normal((30, 7))[labels] + rng.standard_normal((len(labels), 7)) @ rng.standard_normal((7, 7))
    return np.hstack([x, 100 * x[:, :1]]).astype("f4"), labels


def cosines(x, labels, outputs, train, compared):
    # Exact in f32, summed in f64, as in Rust.
    x, fitted = x.astype("f8"), labels[train]
    means = np.stack([x[train][fitted == label].mean(0) for label in np.unique(fitted)])
    of_rows = means[np.searchsorted(np.unique(fitted), fitted)]
    scaler = StandardScaler()
    shrunk, shrinkage = ledoit_wolf(scaler.fit_transform(x[train] - of_rows))
    within = scaler.scale_[:, None] * shrunk * scaler.scale_
    mean = x[train].mean(0)
    between = np.cov((of_rows - mean).T, bias=True)
    ratios, directions = eigh(between, within)
    order = np.argsort(ratios)[::-1][: min(x.shape[1], len(means) - 1, outputs)]
    z = (x[compared] - mean) @ directions[:, order]
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    print(f"{len(train)} rows, {len(means)} classes, shrinkage {shrinkage:.4f}, ratios {ratios[order]}")
    return (z @ z.T)[np.triu_indices(len(compared), 1)]


digits, classes = load_digits(return_X_y=True)
digits /= 16  # as the sample has them
small, small_classes = ill_conditioned()
few, few_classes = many_classes()
cases = [
    dict(
        name="digits, fitted to the first five classes", sample="digits", x=digits, labels=classes, outputs=64,
        train=np.flatnonzero(classes < 5), compared=np.arange(3, 1797, 61),
    ),
    dict(
        name="ill-conditioned", x=small, labels=small_classes, outputs=5,
        train=np.arange(45), compared=np.arange(20, 60),
    ),
    dict(
        name="thirty classes of three rows, three outputs", x=few, labels=few_classes, outputs=3,
        train=np.arange(75), compared=np.arange(60, 90),
    ),
]
out = []
for case in cases:
    x, labels = case.pop("x"), case.pop("labels")
    found = cosines(x, labels, case["outputs"], case["train"], case["compared"])
    data = {} if "sample" in case else dict(features=x.flatten().tolist(), labels=labels.tolist(), dim=x.shape[1])
    case.update(data, train=case["train"].tolist(), compared=case["compared"].tolist(), cosines=found.tolist())
    out.append(case)
    print(case["name"], len(found), found[:4], found.std())
# Nine digits hold an f32 exactly.
short = json.loads(json.dumps(out), parse_float=lambda text: float("%.9g" % float(text)))
Path(__file__).with_name("linear.json").write_text(json.dumps(short, separators=(",", ":")) + "\n")
