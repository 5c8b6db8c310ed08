"""sentence-transformers, torchmetrics, AnnData and notebooks, beside what those packages compute themselves."""

import os
import random
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest
import torch

import nearfar

sys.path.insert(0, os.path.dirname(__file__))
import ranks
from optional import needs


def rows(count=400, columns=12, classes=7):
    draw = np.random.default_rng(11)
    labels = draw.integers(0, classes, count)
    return draw.normal(size=(count, columns)).astype(np.float32) + 2 * np.eye(columns, dtype=np.float32)[labels], labels


# ---- sentence-transformers


@pytest.fixture(scope="module")
def model():
    """A small one with random weights: nothing is downloaded."""
    needs("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({f"w{place}": place for place in range(300)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=24)], device="cpu")


def texts(count, seed):
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(300)}" for _ in range(6)) for _ in range(count)]


def test_texts_are_scored_as_their_embeddings_at_once(model, monkeypatch, tmp_path):
    from nearfar import sentence_transformers

    monkeypatch.setattr(sentence_transformers, "_TEXTS", 64)
    given, labels = texts(300, 1), [f"class {n % 9}" for n in range(300)]
    evaluator = sentence_transformers.RetrievalEvaluator(given, labels, name="dev", folder=tmp_path, budget="1MiB", engine="cpu")
    scores = evaluator(model)
    one = nearfar.evaluate(model.encode(given), labels, engine="cpu")
    assert evaluator.primary_metric == "dev_map@r"
    assert scores["dev_map@r"] == pytest.approx(one["mean_average_precision_at_r"], abs=1e-6)
    assert scores["dev_precision@1"] == pytest.approx(one["precision_at_1"], abs=1e-6)
    assert scores["dev_recall@5"] == pytest.approx(one["recall_at"][5], abs=1e-6)
    assert not list(tmp_path.iterdir()), "the embeddings are gone"
    with pytest.raises(ValueError, match="one a text"):
        sentence_transformers.RetrievalEvaluator(given, labels[1:])


@pytest.mark.parametrize("output_format", ["triplet", "n-tuple"])
@pytest.mark.parametrize(
    "how",
    [{}, {"range_min": 4, "num_negatives": 2}, {"absolute_margin": 0.05}, {"relative_margin": 0.1, "range_max": 60}, {"max_score": 0.5, "min_score": 0.2}],
    ids=str,
)
def test_hard_negatives_are_those_of_sentence_transformers(model, output_format, how):
    datasets = needs("datasets")
    from sentence_transformers.util import mine_hard_negatives

    from nearfar import sentence_transformers

    anchors = texts(80, 2)
    # Some anchors have several positives, some pairs come twice.
    questions = anchors + anchors[:20] + anchors[:5]
    answers = [" ".join(own.split()[:2] + other.split()[2:]) for own, other in zip(questions, texts(80, 3) + texts(20, 4), strict=False)]
    pairs = datasets.Dataset.from_dict({"question": questions, "answer": answers + answers[:5]})
    asked = {"corpus": texts(300, 5), "output_format": output_format, **how}
    ours = sentence_transformers.mine_hard_negatives(pairs, model, budget="1MiB", engine="cpu", **asked)
    theirs = mine_hard_negatives(pairs, model, verbose=False, **asked)
    assert ours.column_names == theirs.column_names
    assert len(ours) > 20
    assert ours.to_list() == theirs.to_list()


def test_a_dict_of_columns_gives_a_dict(model):
    from nearfar import sentence_transformers

    pairs = {"anchor": texts(30, 6), "positive": texts(30, 7)}
    found = sentence_transformers.mine_hard_negatives(pairs, model, num_negatives=2, engine="cpu")
    assert list(found) == ["anchor", "positive", "negative"] and len(found["negative"]) == 60
    assert not set(zip(found["anchor"], found["negative"], strict=True)) & set(zip(*pairs.values(), strict=True))
    with pytest.raises(ValueError, match="num_negatives"):
        sentence_transformers.mine_hard_negatives(pairs, model, num_negatives=0)


# ---- torchmetrics


def test_a_metric_scores_all_that_it_was_given():
    needs("torchmetrics")
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from torchmetrics import MetricCollection

    from nearfar.torchmetrics import RetrievalMetrics

    embeddings, labels = (torch.from_numpy(array) for array in rows())
    metrics = MetricCollection([RetrievalMetrics(metric="l2", prefix="val_", engine="cpu")])
    for part in torch.arange(len(labels)).split(64):
        metrics(embeddings[part].requires_grad_(), labels[part])
    found = metrics.compute()
    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    theirs = AccuracyCalculator(include=names, device=torch.device("cpu")).get_accuracy(embeddings.detach(), labels)
    for ours, name in zip(("precision_at_1", "r_precision", "map_at_r"), names, strict=True):
        assert found[f"val_{ours}"].item() == pytest.approx(theirs[name], abs=1e-5)
    metrics.reset()
    metrics.update(embeddings[:50], labels[:50])
    assert metrics.compute()["val_map_at_r"] != found["val_map_at_r"]
    with pytest.raises(ValueError, match="ids"):
        metrics.update(embeddings[:50], labels[:50], torch.arange(50))


def synchronized(rank, count):
    from nearfar.torchmetrics import RetrievalMetrics

    embeddings, labels = (torch.from_numpy(array) for array in rows())
    # The last rows come twice, here and on the other rank.
    ids = torch.arange(len(labels) + 6).clamp(max=len(labels) - 1)[rank::count]
    metric = RetrievalMetrics(engine="cpu")
    for part in ids.split(50):
        metric.update(embeddings[part], labels[part], part)
    return {name: score.item() for name, score in metric.compute().items()}, sum(map(len, metric.embeddings))


def test_a_metric_of_ranks_counts_every_row_once_and_gathers_none(tmp_path):
    needs("torchmetrics")
    from nearfar.torchmetrics import RetrievalMetrics

    embeddings, labels = (torch.from_numpy(array) for array in rows())
    metric = RetrievalMetrics(engine="cpu")
    metric.update(embeddings, labels)
    one = {name: score.item() for name, score in metric.compute().items()}
    for found, held in ranks.run(synchronized, 2, tmp_path):
        assert found == one
        assert held == 203
    again = RetrievalMetrics(engine="cpu")
    ids = torch.arange(len(labels) + 6).clamp(max=len(labels) - 1)
    again.update(embeddings[ids], labels[ids], ids)
    assert {name: score.item() for name, score in again.compute().items()} == one


# ---- AnnData


def test_cells_are_embedded_in_place(tmp_path):
    anndata = needs("anndata")
    from scipy.sparse import csr_matrix

    from nearfar.anndata import fit_anndata

    values, labels = rows()
    names = np.array([f"type {label}" for label in labels], object)
    names[::10] = None
    cells = anndata.AnnData(csr_matrix(values))
    cells.obs["type"] = names
    cells.obsm["X_pca"] = values
    head = fit_anndata(cells, "type", use_rep="X_pca", config={"steps": 30}, engine="cpu")
    made = cells.obsm["X_nearfar"]
    assert made.shape == (400, head(values[:1]).shape[1])
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert np.array_equal(made[::10], head(values[::10], engine="cpu"))
    cells.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert np.array_equal(read.obsm["X_nearfar"], made)
    assert read.uns["X_nearfar"]["verdict"] == head.report["verdict"]
    # Sparse rows are the same as dense ones.
    fit_anndata(cells, "type", key_added="X_again", config={"steps": 30}, engine="cpu")
    assert np.array_equal(cells.obsm["X_again"], made)
    with pytest.raises(nearfar.BudgetError, match="X is sparse, and 19200 bytes"):
        fit_anndata(cells, "type", budget="18KB")
    with pytest.raises(ValueError, match="obs has type"):
        fit_anndata(cells, "kind")
    with pytest.raises(ValueError, match="obsm has X_again, X_nearfar, X_pca"):
        fit_anndata(cells, "type", use_rep="X_umap")


@pytest.mark.parametrize("count", [20, 5000])
def test_anndata_reads_what_a_run_takes_home_of_cells(tmp_path, count):
    anndata = needs("anndata")
    program = Path(__file__).parents[2] / "target/debug/nearfar"
    if not program.exists():
        assert "NEARFAR_TEST_ALL" not in os.environ, f"{program} is missing: cargo build"
        pytest.skip("the command line is not built here: cargo build")
    values, _ = rows(count)
    cells = anndata.AnnData(values)
    cells.obs_names = [f'細胞 "{cell}"' for cell in range(count)]
    types = ['say "T", or B', "β cell", "it's NK", "= 1 + 1"]
    cells.obs["cell type"] = [types[cell % 4] for cell in range(count)]
    cells.obs.loc[cells.obs_names[3], "cell type"] = np.nan
    cells.write_h5ad(tmp_path / "cells.h5ad")

    def nearfar(*words):
        subprocess.run([program, *words, "--engine", "cpu"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    few = [word for set in ("steps=2", "batch_size=8", "memory_size=16", "embedding_size=4") for word in ("--set", set)]
    labels = ["--data", "cells.h5ad", "--labels", "cell type"]
    nearfar("train", *labels, "--missing", "drop-rows", "--out", "run", *few)
    for piece in ("h5ad", "npy"):
        nearfar("export", "run", "--format", piece, "--side", "all", *labels, "--out", f"all_embeddings.{piece}")
    nearfar("export", "run", "--format", "code", "--out", "code.md")
    new = anndata.read_h5ad(tmp_path / "all_embeddings.h5ad")
    there = np.arange(count) != 3
    assert list(new.obs_names) == list(cells.obs_names[there])
    assert list(new.obs["cell type"]) == list(cells.obs["cell type"][there])
    marks = np.load(tmp_path / "run/sides.npy")
    assert list(new.obs["nearfar_split"]) == [("train", "validation", "test")[mark] for mark in marks]
    assert new.obsm["X_nearfar"].dtype == np.float32
    assert np.array_equal(new.obsm["X_nearfar"], np.load(tmp_path / "all_embeddings.npy"))
    # The lines that the page shows, on cells in another order; scanpy is no part of this.
    code = (tmp_path / "code.md").read_text()
    lines = code.split("## In scanpy\n\n```python\n")[1].split("\n```")[0]
    lines = "\n".join(line for line in lines.replace("import scanpy as sc", "import anndata as sc").split("\n") if not line.startswith(("sc.pp.", "sc.tl.", "sc.pl.")))
    cells[::-1].copy().write_h5ad(tmp_path / "cells.h5ad")
    subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, check=True)
    read = anndata.read_h5ad(tmp_path / "cells_nearfar.h5ad")
    assert np.array_equal(read[new.obs_names].obsm["X_nearfar"], new.obsm["X_nearfar"])
    assert read.n_vars == 12


# ---- Notebooks


def charts(result):
    """The root of what a notebook shows, and the points of every line."""
    root = xml.fromstring(result._repr_html_())
    lines = [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in root.iter("{http://www.w3.org/2000/svg}polyline")
    ]
    for points in lines:
        assert len(points) <= 302
        assert all(0 <= x <= 380 and 0 <= y <= 190 for x, y in points), points
        assert [x for x, _ in points] == sorted(x for x, _ in points)
    return root, lines


def test_a_notebook_shows_the_verdict_and_charts():
    values, labels = rows()
    head = nearfar.train(values, labels, {"steps": 700}, engine="cpu")
    root, lines = charts(head)
    assert len(lines) == 3
    words = "".join(root.itertext())
    assert head.report["verdict"] in words
    assert f"{head.report['final']['test']['precision_at_1']:.4f}" in words
    # The last step stands at the right end.
    assert lines[0][-1][0] == lines[0][0][0] + 326
    root, lines = charts(nearfar.evaluate(values, [f"<class> & {label}" for label in labels], at=[1, 2, 10, 20], engine="cpu"))
    assert len(lines) == 2 and len(lines[0]) == 4
    root, lines = charts(nearfar.threshold(values, labels, engine="cpu"))
    assert "means the same class" in "".join(root.itertext())
    # False matches fall, false non-matches rise (y goes down).
    assert lines[1][0][1] < lines[1][-1][1] or lines[0][0][1] < lines[0][-1][1]
    xml.fromstring(nearfar.Head(b"")._repr_html_())
    xml.fromstring(nearfar.evaluate(values, labels, at=[1], engine="cpu")._repr_html_())
