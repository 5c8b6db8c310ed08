"""nearfar.pml beside PML itself, computed in 64 bits: values, gradients, and how much of it the engine served."""

import random
import warnings

import numpy as np
import pytest
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

import nearfar
from nearfar import pml

warnings.simplefilter("ignore")

CLASSES, COLUMNS = 6, 12

#: Each loss with random arguments by name.
LOSSES = {
    "ContrastiveLoss": lambda r: {"pos_margin": r.uniform(0, 0.3), "neg_margin": r.uniform(0.8, 1.3)},
    "TripletMarginLoss": lambda r: {"margin": r.uniform(0.05, 0.4), "smooth_loss": r.random() < 0.3},
    "MultiSimilarityLoss": lambda r: {"alpha": r.uniform(1, 4), "beta": r.uniform(10, 50), "base": r.uniform(0.3, 0.6)},
    "NTXentLoss": lambda r: {"temperature": r.uniform(0.05, 0.5)},
    "SupConLoss": lambda r: {"temperature": r.uniform(0.05, 0.5)},
    "CircleLoss": lambda r: {"m": r.uniform(0.2, 0.5), "gamma": r.uniform(20, 80)},
    "LiftedStructureLoss": lambda r: {"neg_margin": r.uniform(0.8, 1.2), "pos_margin": r.uniform(0, 0.2)},
    "GeneralizedLiftedStructureLoss": lambda r: {"neg_margin": r.uniform(0.8, 1.2), "pos_margin": r.uniform(0, 0.2)},
    "MarginLoss": lambda r: {"margin": r.uniform(0.1, 0.3), "beta": r.uniform(0.9, 1.3)},
    "NCALoss": lambda r: {"softmax_scale": r.uniform(1, 8)},
    "ProxyAnchorLoss": lambda r: {"margin": r.uniform(0.05, 0.2), "alpha": r.uniform(8, 32)},
    "ProxyNCALoss": lambda r: {"softmax_scale": r.uniform(1, 8)},
    "SoftTripleLoss": lambda r: {"centers_per_class": r.choice([2, 3]), "la": r.uniform(5, 20), "gamma": r.uniform(0.1, 0.3)},
    "NormalizedSoftmaxLoss": lambda r: {"temperature": r.uniform(0.05, 0.3)},
    "ArcFaceLoss": lambda r: {"margin": r.uniform(10, 30), "scale": r.uniform(8, 32)},
    "CosFaceLoss": lambda r: {"margin": r.uniform(0.1, 0.4), "scale": r.uniform(8, 32)},
    "SubCenterArcFaceLoss": lambda r: {"margin": r.uniform(10, 30), "scale": r.uniform(8, 32), "sub_centers": 2},
}
WITH_PROXIES = {
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "SoftTripleLoss",
    "NormalizedSoftmaxLoss",
    "ArcFaceLoss",
    "CosFaceLoss",
    "SubCenterArcFaceLoss",
}
MINERS = {
    "TripletMarginMiner": lambda r: {"margin": r.uniform(0.1, 0.3), "type_of_triplets": r.choice(["all", "hard", "semihard", "easy"])},
    "BatchHardMiner": lambda r: {},
    "BatchEasyHardMiner": lambda r: {"pos_strategy": r.choice(["easy", "hard"]), "neg_strategy": r.choice(["hard", "semihard"])},
    "MultiSimilarityMiner": lambda r: {"epsilon": r.uniform(0.05, 0.3)},
    "PairMarginMiner": lambda r: {"pos_margin": r.uniform(0.2, 0.6), "neg_margin": r.uniform(0.7, 1.1)},
}


def made(seed, rows=24):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    centers = torch.randn(CLASSES, COLUMNS, generator=generator)
    embeddings = centers[labels] + 0.9 * torch.randn(rows, COLUMNS, generator=generator)
    return embeddings * torch.rand(rows, 1, generator=generator).add(0.5), labels


def both(name, arguments):
    if name in WITH_PROXIES:
        arguments = {**arguments, "num_classes": CLASSES, "embedding_size": COLUMNS}
    ours = getattr(pml, name)(**arguments)
    theirs = getattr(losses, name)(**arguments).double()
    with torch.no_grad():
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            other.copy_(own.double())
    return ours, theirs


def gradients(value, *of):
    return torch.autograd.grad(value, of, allow_unused=True)


def close(ours, theirs, within):
    scale = max(theirs.norm().item(), 1e-3)
    assert (ours.double() - theirs).norm().item() <= within * scale


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradients_are_pmls(name):
    # 300 cases in all.
    draw = random.Random(name)
    before = pml.served().get(name, {}).get("pml", 0)
    for case in range(18):
        ours, theirs = both(name, LOSSES[name](draw))
        embeddings, labels = made(draw.randrange(1 << 30))
        single, double = embeddings.requires_grad_(), embeddings.detach().double().requires_grad_()
        given, value = ours(single, labels), theirs(double, labels)
        assert abs(given.item() - value.item()) <= 1e-5 * max(1, abs(value.item())), case
        own = gradients(given, single, *ours.parameters())
        expected = gradients(value, double, *theirs.parameters())
        for gradient, other in zip(own, expected, strict=True):
            assert (gradient is None) == (other is None)
            if gradient is not None:
                close(gradient, other, 1e-4)
    assert pml.served()[name].get("pml", 0) == before, "PML did the work itself"


@pytest.mark.parametrize("miner", MINERS)
@pytest.mark.parametrize("name", [name for name in LOSSES if name not in WITH_PROXIES])
def test_a_loss_of_mined_rows_is_pmls(name, miner):
    draw = random.Random(name + miner)
    for case in range(3):
        ours, theirs = both(name, LOSSES[name](draw))
        arguments = MINERS[miner](draw)
        chooses, chosen = getattr(pml, miner)(**arguments), getattr(miners, miner)(**arguments)
        embeddings, labels = made(draw.randrange(1 << 30))
        single, double = embeddings.requires_grad_(), embeddings.detach().double().requires_grad_()
        given = ours(single, labels, chooses(single, labels))
        value = theirs(double, labels, chosen(double, labels))
        assert abs(given.item() - value.item()) <= 1e-5 * max(1, abs(value.item())), case
        if value.requires_grad:
            close(gradients(given, single)[0], gradients(value, double)[0], 1e-4)


@pytest.mark.parametrize("miner", MINERS)
def test_a_tuple_becomes_pmls_indices_where_somebody_looks(miner):
    draw = random.Random(miner)
    for _ in range(5):
        arguments = MINERS[miner](draw)
        embeddings, labels = made(draw.randrange(1 << 30))
        ours = getattr(pml, miner)(**arguments)(embeddings, labels)
        chosen = getattr(miners, miner)(**arguments)
        theirs = chosen(embeddings.double(), labels)
        assert len(ours) == len(theirs)
        # PML's order is another one for some miners.
        sets = [
            {tuple(row) for row in torch.stack(list(side)).T.tolist()}
            for both in (ours, theirs)
            for side in ([tuple(both)] if len(both) == 3 else [tuple(both)[:2], tuple(both)[2:]])
        ]
        half = len(sets) // 2
        assert sets[:half] == sets[half:]


@pytest.mark.parametrize("miner", [None, *MINERS])
@pytest.mark.parametrize("name", [name for name in LOSSES if name not in WITH_PROXIES])
def test_a_memory_is_pmls(name, miner):
    draw = random.Random(f"{name} {miner}")
    ours, theirs = both(name, LOSSES[name](draw))
    arguments = {} if miner is None else MINERS[miner](draw)
    remember = pml.CrossBatchMemory(ours, COLUMNS, 60, miner and getattr(pml, miner)(**arguments))
    remembered = losses.CrossBatchMemory(theirs, COLUMNS, 60, miner and getattr(miners, miner)(**arguments)).double()
    for step in range(5):
        embeddings, labels = made(draw.randrange(1 << 30))
        single, double = embeddings.requires_grad_(), embeddings.detach().double().requires_grad_()
        given, value = remember(single, labels), remembered(double, labels)
        assert abs(given.item() - value.item()) <= 1e-5 * max(1, abs(value.item())), step
        if value.requires_grad:
            close(gradients(given, single)[0], gradients(value, double)[0], 1e-4)
    assert remember.queue_idx == remembered.queue_idx
    close(remember.embedding_memory, remembered.embedding_memory, 1e-6)


@pytest.mark.parametrize("k", [None, "max_bin_count", 7])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("how", [{}, {"avg_of_avgs": True}, {"return_per_class": True}])
def test_the_calculators_metrics_are_pmls(k, apart, how):
    embeddings, labels = made(3, 150)
    references, known = made(4, 220)
    arguments = (embeddings, labels, references, known) if apart else (embeddings, labels)
    exclude = ("AMI", "NMI")
    ours = pml.AccuracyCalculator(exclude=exclude, k=k, **how).get_accuracy(*arguments)
    theirs = AccuracyCalculator(exclude=exclude, k=k, device=torch.device("cpu"), **how).get_accuracy(*arguments)
    assert list(ours) == list(theirs)
    for name in ours:
        assert np.allclose(ours[name], theirs[name], atol=1e-5), name


def test_a_calculator_of_ones_own_still_works():
    class Own(pml.AccuracyCalculator):
        def calculate_nearest_label(self, knn_labels, **kwargs):
            return knn_labels[:, 0].float().mean().item()

        def calculate_precision_at_1(self, **kwargs):
            return -1.0

    embeddings, labels = made(5, 90)
    found = Own(include=("nearest_label", "precision_at_1", "r_precision"), k=5).get_accuracy(embeddings, labels)
    assert found["precision_at_1"] == -1.0
    ids, _ = nearfar.knn(embeddings, k=1, metric="l2")
    assert found["nearest_label"] == pytest.approx(labels[torch.from_numpy(ids[:, 0])].float().mean().item())


def test_all_neighbours_that_the_budget_does_not_hold_are_refused_beforehand():
    class Own(pml.AccuracyCalculator):
        def calculate_all(self, knn_labels, **kwargs):
            return 0.0

    calculator = Own(include=("all",), knn_func=pml.KnnFunc(budget="1MiB"))
    embeddings, labels = made(5, 400)
    with pytest.raises(nearfar.BudgetError, match="give k"):
        calculator.get_accuracy(embeddings, labels)


def test_a_search_is_faisss():
    from pytorch_metric_learning.utils.inference import FaissKNN

    embeddings, _ = made(7, 300)
    queries = embeddings[:40]
    for included in (False, True):
        distances_, ids = pml.KnnFunc()(queries, 6, embeddings, included)
        squares, places = FaissKNN()(queries, 6, embeddings, included)
        assert torch.equal(ids, places)
        assert torch.allclose(distances_, squares, atol=1e-4)


def test_other_settings_go_to_pml_and_are_counted():
    from pytorch_metric_learning.reducers import SumReducer

    embeddings, labels = made(8)
    embeddings.requires_grad_()
    before = pml.served().get("ContrastiveLoss", {}).get("pml", 0)
    ours = pml.ContrastiveLoss(reducer=SumReducer())(embeddings, labels)
    assert ours.item() == pytest.approx(losses.ContrastiveLoss(reducer=SumReducer())(embeddings, labels).item())
    assert pml.served()["ContrastiveLoss"]["pml"] == before + 1
    odd = pml.TripletMarginLoss(distance=distances.LpDistance(p=1))(embeddings, labels)
    assert odd.item() == pytest.approx(losses.TripletMarginLoss(distance=distances.LpDistance(p=1))(embeddings, labels).item())


def test_a_changed_batch_is_no_longer_the_one_that_was_mined():
    embeddings, labels = made(9)
    mined = pml.TripletMarginMiner()(embeddings, labels)
    before = pml.served().get("TripletMarginLoss", {}).get("pml", 0)
    with torch.no_grad():
        embeddings.mul_(-1)
    with pytest.raises(RuntimeError, match="changed"):
        pml.TripletMarginLoss()(embeddings, labels, mined)
    assert pml.served().get("TripletMarginLoss", {}).get("pml", 0) == before + 1


def test_a_thousand_million_triplets_are_never_made():
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(1500, 16, generator=generator, requires_grad=True)
    labels = torch.arange(1500) % 3
    miner = pml.TripletMarginMiner(margin=2.0, type_of_triplets="all")
    mined = miner(embeddings, labels)
    value = pml.TripletMarginLoss()(embeddings, labels, mined)
    value.backward()
    assert miner.num_triplets > 700_000_000
    assert embeddings.grad.norm() > 0
    with pytest.raises(nearfar.BudgetError, match="windows"):
        mined[0]
