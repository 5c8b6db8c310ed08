"""Ranks of gloo beside one process: the same bytes, with repeats, uneven and empty shards, and what happens if a rank refuses or dies."""

import os
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist
from pytorch_metric_learning import losses

import nearfar
import nearfar.distributed

sys.path.insert(0, os.path.dirname(__file__))
import ranks


def made(rows=700, columns=16, classes=9):
    draw = np.random.default_rng(3)
    labels = draw.integers(0, classes, rows)
    labels[-1] = classes  # A class of one row.
    embeddings = draw.normal(size=(rows, columns)).astype(np.float32) * 2 + np.eye(columns, dtype=np.float32)[labels] * 3
    return embeddings, labels


def cut(count, how):
    """Rows of each rank."""
    embeddings, labels = made()
    rows = np.arange(len(labels))
    if how == "uneven":
        places = np.array([len(rows) * rank**2 // count**2 for rank in range(count + 1)])
        return [rows[places[rank] : places[rank + 1]] for rank in range(count)]
    if how == "empty":
        return [rows if rank == count - 1 else rows[:0] for rank in range(count)]
    # As DistributedSampler: every count-th row, the first ones again at the end.
    padded = np.concatenate([rows, rows[: -len(rows) % (count * 7)]])
    return [padded[rank::count] for rank in range(count)]


def scores(rank, count, how, metric, budget):
    embeddings, labels = made()
    own = cut(count, how)[rank]
    given = torch.from_numpy(embeddings[own]) if rank % 2 else embeddings[own]
    found = nearfar.distributed.evaluate(given, labels[own], ids=own, metric=metric, budget=budget, engine="cpu")
    neighbours = nearfar.distributed.knn(given, k=5, ids=own, metric=metric, budget=budget, engine="cpu")
    return found, neighbours


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(("how", "metric", "budget"), [("uneven", "cosine", "64MiB"), ("empty", "dot", "64MiB"), ("repeated", "l2", "64MiB"), ("repeated", "cosine", "150KiB")])
def test_ranks_give_the_bytes_of_one_process(tmp_path, count, how, metric, budget):
    embeddings, labels = made()
    one = nearfar.evaluate(embeddings, labels, metric=metric, engine="cpu")
    ids, values = nearfar.knn(embeddings, k=5, metric=metric, engine="cpu")
    for key in ("engine", "adapter", "elapsed_ms", "memory"):
        del one[key]
    shards = cut(count, how)
    seen = set()
    for rank, (found, (near, by)) in enumerate(ranks.run(scores, count, tmp_path, how, metric, budget)):
        assert found.pop("repeats") == sum(map(len, shards)) - len(labels)
        assert found == one, rank
        first = np.array([row not in seen for row in shards[rank]], bool)
        # A row that comes twice in one shard counts at its first place.
        first &= np.isin(np.arange(len(first)), np.unique(shards[rank], return_index=True)[1])
        seen |= set(shards[rank].tolist())
        assert np.array_equal(near[first], ids[shards[rank][first]])
        assert np.array_equal(by[first], values[shards[rank][first]])
        assert (near[~first] == -1).all()


def words(rank, count):
    embeddings, labels = made()
    own = slice(rank, None, count)
    named = np.array([f"class {label}" for label in labels])
    return nearfar.distributed.evaluate(embeddings[own], named[own], engine="cpu", nearest=True)


def test_labels_may_be_text_and_the_nearest_alone_be_ranked(tmp_path):
    found = ranks.run(words, 2, tmp_path)
    assert found[0] == found[1]
    embeddings, labels = made()
    one = nearfar.evaluate(embeddings, labels, engine="cpu")
    assert found[0]["precision_at_1"] == pytest.approx(one["precision_at_1"], abs=1e-12)
    assert found[0]["mean_average_precision"] is None
    assert found[0]["classes"][0]["class"] == "class 0"


def refusing(rank, count):
    embeddings, labels = made()
    budget = 2000 if rank == 1 else "64MiB"
    return nearfar.distributed.evaluate(embeddings[rank::count], labels[rank::count], budget=budget, engine="cpu")


def test_what_one_rank_refuses_all_refuse(tmp_path):
    found = ranks.run(refusing, 3, tmp_path)
    assert all(isinstance(error, nearfar.BudgetError) for error in found), found
    assert "rank 1 refused" in str(found[0]) and "rank 1 refused" in str(found[2])


def wrong(rank, count):
    embeddings, labels = made()
    if rank == 0:
        embeddings = embeddings.copy()
        embeddings[0] = np.nan
    return nearfar.distributed.evaluate(embeddings[rank::count], labels[rank::count], engine="cpu")


def test_a_row_that_is_not_finite_is_said_on_every_rank(tmp_path):
    found = ranks.run(wrong, 2, tmp_path)
    assert all(isinstance(error, Exception) and "not finite" in str(error) for error in found), found


def dying(rank, count, when):
    embeddings, labels = made()
    if when == "later":
        nearfar.distributed.evaluate(embeddings[rank::count], labels[rank::count], engine="cpu", timeout=10)
    if rank == 1 and when == "within":
        # In the middle of the work: as this rank is asked for its rows.
        nearfar.distributed._Shards.values = lambda *_: os._exit(3)
    elif rank == 1:
        os._exit(3)
    return nearfar.distributed.evaluate(embeddings[rank::count], labels[rank::count], engine="cpu", timeout=10)


@pytest.mark.parametrize("when", ["before", "later", "within"])
def test_a_rank_that_dies_ends_the_work_with_a_sentence(tmp_path, when):
    found = ranks.run(dying, 2, tmp_path, when)
    assert found[1] is None
    assert isinstance(found[0], RuntimeError) and "ended or did not answer" in str(found[0])


def memory(rank, count, rows):
    draw = np.random.default_rng(rank)
    shard = draw.normal(size=(rows // count, 64)).astype(np.float32)
    labels = draw.integers(0, 500, len(shard))
    nearfar.distributed.evaluate(shard[:50], labels[:50], engine="cpu", budget="4MiB", nearest=True)

    def peak():
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) << 10

    before = peak()
    nearfar.distributed.evaluate(shard[:200], labels[:200], engine="cpu", budget="4MiB", nearest=True)
    small = peak() - before
    nearfar.distributed.knn(shard[:400], k=3, engine="cpu", budget="4MiB")
    return small, len(shard)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_rank_holds_its_budget_and_a_block_beside_its_shard(tmp_path):
    for found in ranks.run(memory, 2, tmp_path, 40_000):
        grown, _rows = found
        assert grown < 32 << 20


def cached(rank, count):
    from nearfar.torch import CachedLoss

    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    torch.manual_seed(2)
    inputs, labels = torch.randn(64, 20), torch.randint(4, (64,))
    own = slice(rank * 32, rank * 32 + 32)
    replicated = torch.nn.parallel.DistributedDataParallel(network)
    loss = losses.SupConLoss()
    loss(replicated(inputs[own]), labels[own]).backward()
    whole = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    CachedLoss(replicated, loss, 10)(inputs[own], labels[own]).backward()
    return [
        ((parameter.grad - other).norm() / other.norm()).item() for parameter, other in zip(network.parameters(), whole, strict=True)
    ]


def test_a_cached_loss_exchanges_gradients_as_without_chunks(tmp_path):
    for differences in ranks.run(cached, 2, tmp_path):
        assert max(differences) < 1e-5
