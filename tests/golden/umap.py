"""Writes umap.json: what umap-learn makes of the exact neighbours of scikit-learn's digits, and how well its layouts keep them.

Rows are divided by their length; each has its 15 nearest others by cosine distance, k = 15. umap-learn counts the row itself as its
first neighbour: here it stands before the others, so that 15 others add up to log2(15). Recorded are

- a and b of the curve (find_ab_params),
- sigma and rho of every 36th row (smooth_knn_dist),
- whole rows of the graph (fuzzy_simplicial_set), none of which hangs on a tie at the 15th place,
- layouts of the whole chain with umap-learn's defaults, spectral start included, over five seeds: scikit-learn's
  trustworthiness, and the part of the 15 nearest points that have the label of the row,
- points of a small graph after the first epochs (optimize_layout_euclidean), without negative samples, which are drawn. Later
  epochs tell nothing: pulls at full rate overshoot, and ten epochs make units of what was 1e-4.

tests/library/umap.rs repeats them.

usage: pip install numpy==2.4.6 scipy==1.18.1 scikit-learn==1.9.1 numba==0.68.1 umap-learn==0.5.12 && python umap.py
"""
import json
import sys
from pathlib import Path

# This file is no umap to import from.
sys.path.pop(0)

import numpy as np
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors
from umap.layouts import optimize_layout_euclidean
from umap.umap_ import find_ab_params, fuzzy_simplicial_set, make_epochs_per_sample, simplicial_set_embedding, smooth_knn_dist

K = 15
A, B = find_ab_params(1.0, 0.1)


def neighbours(x, k):
    """Numbers and similarities of the k nearest other rows, and what umap-learn takes: the row itself before them."""
    similarities = x @ x.T
    np.fill_diagonal(similarities, -np.inf)
    ids = np.argsort(-similarities, axis=1, kind="stable")[:, :k]
    near = np.take_along_axis(similarities, ids, 1)
    own = np.arange(len(x))[:, None]
    return ids, near, np.hstack([own, ids]), np.hstack([0.0 * own, 1 - near]).astype("f4")


def graph_of(x, k, ids, distances):
    return fuzzy_simplicial_set(x, k, np.random.RandomState(0), "cosine", knn_indices=ids, knn_dists=distances)[0].tocsr()


def settled(x):
    """Rows that are clearly in, or clearly not in, each list of neighbours, and whose own list is clear."""
    similarities = x @ x.T
    np.fill_diagonal(similarities, -np.inf)
    ordered = -np.sort(-similarities, axis=1)
    edge = ordered[:, K - 1 : K + 1].mean(1)
    clear = np.abs(similarities - edge) > 1e-5
    return np.flatnonzero(clear.all(1) & clear.all(0))


def layouts(x, labels, graph):
    found = []
    for seed in range(5):
        points, _ = simplicial_set_embedding(
            x, graph.copy(), 2, 1.0, A, B, 1.0, 5, None, "spectral", np.random.RandomState(seed), "cosine", {}, False, {}, False
        )
        near = NearestNeighbors(n_neighbors=K).fit(points).kneighbors(return_distance=False)
        purity = (labels[near] == labels[:, None]).mean()
        found.append((trustworthiness(x, points, n_neighbors=K, metric="cosine"), purity))
        print("seed", seed, *found[-1])
    return [dict(mean=float(v.mean()), deviation=float(v.std(ddof=1))) for v in np.array(found).T]


def trace():
    """Epochs are numbered from 0, in which no edge has its turn; edges are taken row by row."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(14, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    ids, near, all_ids, distances = neighbours(x, 4)
    graph = graph_of(x, 4, all_ids, distances)
    graph.sort_indices()
    graph.data[graph.data < graph.data.max() / 500] = 0
    # 1 + b - b is rounded to less than 1 for some b: such an edge would miss its turn in epoch 1.
    graph.data[graph.data > 1 - 1e-6] = 1
    graph.eliminate_zeros()
    edges = graph.tocoo()
    start = rng.uniform(-1, 1, size=(14, 2)).astype("f4")
    points = (start / np.abs(start).max() * 10).astype("f4")
    never = 1e-9
    saved = optimize_layout_euclidean(
        points, points, edges.row, edges.col, EPOCHS + [500], 14, make_epochs_per_sample(edges.data, 500), A, B,
        np.zeros(3, "i8"), 1.0, 1.0, never, move_other=True,
    )
    return dict(
        k=4, ids=ids.flatten().tolist(), similarities=near.flatten().tolist(), start=start.tolist(),
        epochs=EPOCHS, points=[points.tolist() for points in saved[: len(EPOCHS)]],
    )


EPOCHS = [1, 2, 3]
x, labels = load_digits(return_X_y=True)
x /= np.linalg.norm(x, axis=1, keepdims=True)
_, _, ids, distances = neighbours(x, K)
sigmas, rhos = smooth_knn_dist(distances, float(K))
graph = graph_of(x, K, ids, distances)
graph.sort_indices()
rows = np.arange(0, len(x), 36)
clear = settled(x)
print(len(clear), "rows without a tie;", graph.nnz, "entries")
trust, purity = layouts(x, labels, graph)
out = dict(
    curve=[float(A), float(B)],
    rows=rows.tolist(),
    sigmas=sigmas[rows].tolist(),
    rhos=rhos[rows].tolist(),
    graph=[
        dict(row=int(row), ids=graph[row].indices.tolist(), strengths=graph[row].data.tolist())
        for row in clear[np.linspace(0, len(clear) - 1, 12).astype(int)]
    ],
    trustworthiness=trust,
    purity=purity,
    trace=trace(),
)
# Nine digits hold an f32 exactly.
short = json.loads(json.dumps(out), parse_float=lambda text: float("%.9g" % float(text)))
Path(__file__).with_suffix(".json").write_text(json.dumps(short, separators=(",", ":")) + "\n")
