"""Writes linear.json: cosines between rows that scikit-learn's linear discriminant analysis has transformed.

Each case is a data set (or the name of a sample), the rows to fit to, rows to compare, and the cosine of each two of
these, in the order of their pairs. `transform` of the eigen solver does not centre: here the mean of the rows fitted to
is taken off first, as the svd solver does, so that cosines have an origin. tests/linear.rs repeats them.

usage: pip install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 && python linear.py
"""
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis


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


def cosines(x, labels, train, compared):
    # Exact in f32, summed in f64, as in Rust.
    x = x.astype("f8")
    fitted = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(x[train], labels[train])
    z = fitted.transform(x[compared]) - fitted.transform(x[train].mean(0)[None])
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    return (z @ z.T)[np.triu_indices(len(compared), 1)]


digits, classes = load_digits(return_X_y=True)
digits /= 16  # as the sample has them
small, small_classes = ill_conditioned()
cases = [
    dict(
        name="digits, fitted to the first five classes", sample="digits", x=digits, labels=classes,
        train=np.flatnonzero(classes < 5), compared=np.arange(3, 1797, 61),
    ),
    dict(
        name="ill-conditioned", x=small, labels=small_classes,
        train=np.arange(45), compared=np.arange(20, 60),
    ),
]
out = []
for case in cases:
    x, labels = case.pop("x"), case.pop("labels")
    found = cosines(x, labels, case["train"], case["compared"])
    data = {} if "sample" in case else dict(features=x.flatten().tolist(), labels=labels.tolist(), dim=x.shape[1])
    case.update(data, train=case["train"].tolist(), compared=case["compared"].tolist(), cosines=found.tolist())
    out.append(case)
    print(case["name"], np.bincount(labels[case["train"]]), len(found), found[:4], found.std())
# Nine digits hold an f32 exactly.
short = json.loads(json.dumps(out), parse_float=lambda text: float("%.9g" % float(text)))
Path(__file__).with_name("linear.json").write_text(json.dumps(short, separators=(",", ":")) + "\n")
