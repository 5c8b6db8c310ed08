"""Ranks of gloo beside one process: the same bytes, with repeats, uneven and empty shards, and what happens if a rank refuses or dies."""

import os
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist

import nearfar
import nearfar.distributed
from nearfar import pml
from nearfar.torch import CachedLoss

sys.path.insert(0, os.path.dirname(__file__))
import ranks
from kept import most_kept


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
    padded = np.concatenate([rows, rows[: 3 * count + -len(rows) % count]])
    return [padded[rank::count] for rank in range(count)]


CASES = [("uneven", "cosine", "64MiB"), ("empty", "dot", "64MiB"), ("repeated", "l2", "64MiB"), ("repeated", "cosine", "150KiB")]


def scores(rank, count):
    embeddings, labels = made()
    found = []
    for how, metric, budget in CASES:
        own = cut(count, how)[rank]
        given = torch.from_numpy(embeddings[own]) if rank % 2 else embeddings[own]
        asked = {"ids": own, "metric": metric, "budget": budget, "engine": "cpu"}
        found.append((nearfar.distributed.evaluate(given, labels[own], **asked), nearfar.distributed.knn(given, k=5, **asked)))
    return found


@pytest.fixture(scope="module", params=[2, 4])
def scored(request, tmp_path_factory):
    return ranks.run(scores, request.param, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_ranks_give_the_bytes_of_one_process(scored, case):
    how, metric, _ = case
    embeddings, labels = made()
    one = nearfar.evaluate(embeddings, labels, metric=metric, engine="cpu")
    ids, values = nearfar.knn(embeddings, k=5, metric=metric, engine="cpu")
    for key in ("engine", "adapter", "elapsed_ms", "memory"):
        del one[key]
    shards = cut(len(scored), how)
    repeats = sum(map(len, shards)) - len(labels)
    assert (repeats > 0) == (how == "repeated")
    seen = set()
    for rank, cases in enumerate(scored):
        found, (near, by) = cases[CASES.index(case)]
        assert {**one, "repeats": repeats} == found, rank
        first = np.array([row not in seen for row in shards[rank]], bool)
        # A row that comes twice in one shard counts at its first place.
        first &= np.isin(np.arange(len(first)), np.unique(shards[rank], return_index=True)[1])
        seen |= set(shards[rank].tolist())
        assert np.array_equal(near[first], ids[shards[rank][first]])
        assert np.array_equal(by[first], values[shards[rank][first]])
        assert (near[~first] == -1).all()


def words(rank, count, again):
    embeddings, labels = made()
    own = slice(rank, None, count)
    named = np.array([f"class {label}" for label in labels])
    found = []
    for turn in range(2):
        found.append(nearfar.distributed.evaluate(embeddings[own], named[own], engine="cpu", nearest=True))
        # Ranks may leave their group and meet in another one; a file of torch's serves one meeting.
        dist.destroy_process_group()
        dist.init_process_group("gloo", init_method=f"file://{again}{turn}", rank=rank, world_size=count)
    assert found[0] == found[1]
    return found[0]


def test_labels_may_be_text_and_the_nearest_alone_be_ranked(tmp_path):
    found = ranks.run(words, 2, tmp_path, tmp_path / "again")
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
        nearfar.distributed.Shards.values = lambda *_: os._exit(3)
    elif rank == 1:
        os._exit(3)
    if when == "within":
        return nearfar.distributed.threshold(embeddings[rank::count], labels[rank::count], engine="cpu", timeout=10)
    return nearfar.distributed.evaluate(embeddings[rank::count], labels[rank::count], engine="cpu", timeout=10)


@pytest.mark.parametrize("when", ["before", "later", "within"])
def test_a_rank_that_dies_ends_the_work_with_a_sentence(tmp_path, when):
    found = ranks.run(dying, 2, tmp_path, when)
    assert found[1] is None
    assert isinstance(found[0], RuntimeError) and "ended or did not answer" in str(found[0])


BATCH, STORED, STEPS = 24, 96, 6


def apart():
    """Rows to test a threshold on, of other classes."""
    embeddings, labels = made(500)
    return embeddings[::-1] + np.float32(0.25), labels[::-1] + 100


def network():
    torch.manual_seed(4)
    return torch.nn.Linear(16, 8)


def steps():
    """Batches of rows with labels."""
    embeddings, labels = made()
    draw = np.random.default_rng(8)
    for _ in range(STEPS):
        rows = draw.permutation(len(labels))[:BATCH]
        yield torch.from_numpy(embeddings[rows]), torch.from_numpy(labels[rows])


def drawn(own):
    """A batch out of a shard, and the places of its rows there; every third one has no copy."""
    copies = np.arange(len(own))[5:65:2]
    return own[copies], np.where(copies % 3, copies, -1)


def together(rank, count):
    """A threshold of each kind of shards, losses of given shards, and steps of a memory."""
    embeddings, labels = made()
    others, known = apart()
    rates = []
    for how in ("uneven", "empty", "repeated"):
        own = cut(count, how)[rank]
        test = np.arange(len(known))[rank::count]
        given = (torch.from_numpy(embeddings[own]), labels[own], others[test], known[test])
        rates.append(nearfar.distributed.threshold(*given, ids=own, test_ids=test, queries=200, engine="cpu", budget="64KiB"))
    losses_ = []
    for how in ("uneven", "empty"):
        own = cut(count, how)[rank]
        batch, copies = drawn(own)
        given = (embeddings[batch], labels[batch], embeddings[own], labels[own])
        losses_.append(nearfar.distributed.loss(*given, miner="triplet-margin", copies=copies, engine="cpu"))
    module = torch.nn.parallel.DistributedDataParallel(network())
    memory = nearfar.distributed.CrossBatchMemory(
        pml.TripletMarginLoss(0.2), 8, STORED, pml.TripletMarginMiner(0.3, "semihard"), engine="cpu"
    )
    learned = []
    for rows, classes in steps():
        # A memory holds the last rows of each rank: as those of one process where ranks bring as many.
        own = slice(rank * BATCH // count, (rank + 1) * BATCH // count)
        module.zero_grad()
        value = memory(module(rows[own]), classes[own])
        value.backward()
        learned.append((value.item(), memory.counts["active"], [parameter.grad.numpy() for parameter in module.parameters()]))
    return rates, losses_, learned


@pytest.fixture(scope="module", params=[2, 4])
def found_together(request, tmp_path_factory):
    return ranks.run(together, request.param, tmp_path_factory.mktemp("ranks"))


def test_a_threshold_of_shards_has_the_bytes_of_one_process(found_together):
    one = nearfar.threshold(*made(), *apart(), queries=200, engine="cpu")
    assert one["new_classes"]
    changing = ("elapsed_ms", "memory", "repeats")
    for rates, _, _ in found_together:
        for found in rates:
            assert {key: value for key, value in found.items() if key not in changing} == {
                key: value for key, value in one.items() if key not in changing
            }
            assert found["memory"]["peak_bytes"] <= 64 << 10
        assert [found["repeats"] > 0 for found in rates] == [False, False, True]


def test_a_loss_with_references_in_shards_is_that_of_one_process(found_together):
    embeddings, labels = made()
    for which, how in enumerate(("uneven", "empty")):
        shards = cut(len(found_together), how)
        batches, places = zip(*map(drawn, shards), strict=True)
        starts = np.cumsum([0, *map(len, shards)])
        copies = [np.where(own < 0, -1, own + start) for own, start in zip(places, starts, strict=False)]
        rows, known, copies = map(np.concatenate, (batches, shards, copies))
        assert (copies < 0).any() and (copies > 0).any()
        given = (embeddings[rows], labels[rows], embeddings[known], labels[known])
        one = nearfar.loss(*given, miner="triplet-margin", copies=copies, engine="cpu")
        for rank, (_, losses_, _) in enumerate(found_together):
            found = losses_[which]
            assert found.counts == one.counts
            assert found.loss == pytest.approx(one.loss, rel=1e-12)
            own = one.gradient[np.isin(rows, batches[rank])]
            assert found.gradient.shape == own.shape
            assert np.allclose(found.gradient, own, rtol=1e-6, atol=1e-9 * np.abs(one.gradient).max())


def test_steps_with_a_memory_in_shards_are_those_of_one_process(found_together):
    module = network()
    memory = pml.CrossBatchMemory(pml.TripletMarginLoss(0.2), 8, STORED, pml.TripletMarginMiner(0.3, "semihard"))
    for step, (rows, classes) in enumerate(steps()):
        module.zero_grad()
        value = memory(module(rows), classes)
        value.backward()
        for _, _, learned in found_together:
            loss, active, slopes = learned[step]
            assert active > 0
            assert loss == pytest.approx(value.item(), rel=1e-5), step
            for own, parameter in zip(slopes, module.parameters(), strict=True):
                other = parameter.grad.numpy()
                assert np.linalg.norm(own - other) <= 1e-5 * np.linalg.norm(other), step


def refusals(rank, count):
    embeddings, labels = made(120)
    own = slice(rank, None, count)
    rows = (embeddings[own], labels[own])
    small = 2000 if rank else "64MiB"
    found = []
    for ask in (
        lambda: nearfar.distributed.loss(*rows, *rows, budget=small, engine="cpu"),
        lambda: nearfar.distributed.loss(*rows, *rows, loss="nt-xent" if rank else "triplet-margin"),
        lambda: nearfar.distributed.loss(*rows, *rows, loss="nt-xent"),
        lambda: nearfar.distributed.loss(*rows, *rows, copies=np.full(len(rows[1]), 60)),
        lambda: nearfar.distributed.threshold(*rows, budget=2000 if rank == 0 else None, engine="cpu"),
        lambda: nearfar.distributed.threshold(rows[0], np.zeros(len(rows[1]), int), engine="cpu"),
        lambda: nearfar.distributed.evaluate(*rows, budget="much" if rank else None),
        lambda: nearfar.distributed.evaluate(rows[0], rows[1] if rank else rows[1].astype(str)),
        lambda: nearfar.distributed.knn(rows[0], k=3 + rank),
        lambda: nearfar.distributed.CrossBatchMemory("triplet-margin", 16, 33),
    ):
        try:
            found.append(ask())
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


def test_every_rank_says_what_one_refuses(tmp_path):
    found = ranks.run(refusals, 2, tmp_path)
    expected = [
        ("BudgetError", "1.9 KiB budget"),
        ("ValueError", "ranks ask for different work"),
        ("ValueError", 'over ranks it can be "triplet-margin"'),
        ("ValueError", "from -1 to 59"),
        ("BudgetError", "1.9 KiB budget"),
        ("ValueError", "different"),
        ("ValueError", "much"),
        ("ValueError", "some have text"),
        ("ValueError", "ranks ask for different work"),
        ("ValueError", "give a multiple of 2"),
    ]
    for each in found:
        for (kind, words), (expected_kind, part) in zip(each, expected, strict=True):
            assert kind == expected_kind and part in words, words


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
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 8))
    torch.manual_seed(2)
    inputs, labels = torch.randn(4096, 1, 8, 8), torch.randint(20, (4096,))
    own = slice(rank * 2048, rank * 2048 + 2048)
    replicated = torch.nn.parallel.DistributedDataParallel(network)
    loss, found = pml.SupConLoss(), []

    def step(value):
        network.zero_grad()
        value().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in network.parameters()]))

    whole = most_kept(lambda: step(lambda: loss(replicated(inputs[own]), labels[own])))
    parts = most_kept(lambda: step(lambda: CachedLoss(replicated, loss, 150)(inputs[own], labels[own])))
    one, other = found
    return ((other - one).norm() / one.norm()).item(), parts / whole


def test_a_cached_loss_exchanges_gradients_as_without_chunks(tmp_path):
    for difference, kept in ranks.run(cached, 2, tmp_path):
        assert difference < 1e-5
        assert kept <= 1 / 4
