"""The memory that lives in the engine: beside PML in 64 bits over many steps, changed from outside, copied, masked, and closed."""

import copy
import json
import multiprocessing
import pickle
import threading
import warnings

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses, miners

import nearfar
from nearfar import pml

warnings.simplefilter("ignore")

COLUMNS = 10
ENGINES = ["cpu", *(["gpu"] if len(nearfar.devices()) > 1 else [])]


def batches(count, rows=12, seed=0):
    """Batches whose classes come and go: large numbers, and negative ones."""
    draw = np.random.default_rng(seed)
    for step in range(count):
        labels = draw.integers(step // 3, step // 3 + 4, rows) * 2**33 - 5
        centers = np.random.default_rng(1).normal(size=(count + 4, COLUMNS))
        values = centers[(labels + 5) // 2**33] + draw.normal(size=(rows, COLUMNS))
        yield torch.from_numpy(values.astype(np.float32) * 2), torch.from_numpy(labels)


def both(size, miner=True):
    ours = pml.CrossBatchMemory(
        pml.TripletMarginLoss(0.15), COLUMNS, size, pml.TripletMarginMiner(0.3, "semihard") if miner else None
    )
    theirs = losses.CrossBatchMemory(
        losses.TripletMarginLoss(0.15), COLUMNS, size, miners.TripletMarginMiner(0.3, "semihard") if miner else None
    )
    return ours, theirs


def step(memory, rows, labels, double=False, **more):
    rows = (rows.double() if double else rows.clone()).requires_grad_()
    value = memory(rows, labels, **more)
    (gradient,) = torch.autograd.grad(value, rows) if value.requires_grad else (torch.zeros_like(rows),)
    return value.item(), gradient.double()


def same(memories, rows, labels, **more):
    ours, theirs = memories
    value, gradient = step(ours, rows, labels, **more)
    expected, of_pml = step(theirs, rows, labels, double=True, **more)
    assert value == pytest.approx(expected, abs=1e-5)
    assert (gradient - of_pml).norm() <= 1e-4 * of_pml.norm() + 1e-7
    return value


def brought(monkeypatch):
    """Counts rows that are brought to memories outside of their steps."""
    rows = []
    enqueue = nearfar.MemoryLoss.enqueue
    monkeypatch.setattr(nearfar.MemoryLoss, "enqueue", lambda self, e, l: (rows.append(len(e)), enqueue(self, e, l))[1])
    return rows


@pytest.mark.parametrize("miner", [False, True])
def test_a_memory_that_is_followed_step_by_step_is_pmls(monkeypatch, miner):
    rows = brought(monkeypatch)
    memories = both(70, miner)
    losses_found = [same(memories, *batch) for batch in batches(25)]
    assert sum(value > 0.01 for value in losses_found) > 15
    assert rows == []
    assert torch.allclose(memories[0].embedding_memory.double(), memories[1].embedding_memory, atol=1e-6)


def test_rows_that_were_changed_from_outside_are_brought_anew(monkeypatch):
    rows = brought(monkeypatch)
    memories = both(40)
    stream = batches(40)
    for batch in [next(stream) for _ in range(5)]:
        same(memories, *batch)
    for memory in memories:
        memory.embedding_memory[3:9] *= -1
    same(memories, *next(stream))
    assert sum(rows) == 28
    for memory in memories:
        memory.add_to_memory(*(value.to(memory.embedding_memory) if value.is_floating_point() else value for value in next(iter(batches(1, seed=3)))), 12)
    same(memories, *next(stream))
    state = memories[0].state_dict()
    for memory in memories:
        memory.label_memory[:] = memory.label_memory.flip(0)
    same(memories, *next(stream))
    for memory in memories:
        memory.load_state_dict(state)
    same(memories, *next(stream))
    for memory in memories:
        memory.reset_queue()
    same(memories, *next(stream))
    for memory in memories:
        memory.loss.margin = 0.4
        memory.miner.margin = 0.5
    same(memories, *next(stream))
    # A larger batch takes other buffers, once.
    same(memories, *next(iter(batches(1, 30))))
    before = len(rows)
    same(memories, *next(stream))
    assert len(rows) == before
    copies = [copy.deepcopy(memory) for memory in memories]
    later = next(stream)
    assert same(memories, *later) == pytest.approx(same(copies, *later), abs=1e-6)
    again = pickle.loads(pickle.dumps(copies[0]))
    more = next(stream)
    assert step(again, *more)[0] == pytest.approx(same(copies, *more), abs=1e-6)


@pytest.mark.parametrize("chosen", [slice(None, None, 3), slice(0), slice(None)])
def test_a_mask_stores_some_rows_and_compares_the_others(chosen):
    memories = both(30)
    for batch in [*batches(3)]:
        same(memories, *batch)
    for rows, labels in batches(6, seed=2):
        mask = torch.zeros(len(rows), dtype=torch.bool)
        mask[chosen] = True
        if mask.all():
            # PML has no loss of no rows.
            value, _ = step(memories[0], rows, labels, enqueue_mask=mask)
            assert value == 0
        else:
            same(memories, rows, labels, enqueue_mask=mask)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("loss", ["nt-xent", "triplet-margin"])
def test_a_step_is_the_loss_with_the_rows_that_are_stored(engine, loss):
    memory = nearfar.MemoryLoss(COLUMNS, 50, batch_size=12, loss=loss, engine=engine)
    known, classes = np.zeros((0, COLUMNS), np.float32), np.zeros(0, np.int64)
    for rows, labels in batches(9):
        found = memory(rows, labels)
        known, classes = np.concatenate([known, rows])[-50:], np.concatenate([classes, labels])[-50:]
        copies = np.arange(len(known) - 12, len(known))
        expected = nearfar.loss(rows, labels, known, classes, loss=loss, copies=copies, engine=engine)
        assert found.loss == pytest.approx(expected.loss, abs=1e-6)
        assert np.allclose(found.gradient, expected.gradient, rtol=1e-4, atol=1e-6)
        assert found.counts == expected.counts
        alone = memory.loss(rows, labels, gradient=False)
        assert alone.gradient is None
        assert alone.loss == pytest.approx(nearfar.loss(rows, labels, known, classes, loss=loss, engine=engine).loss, abs=1e-6)
    assert len(memory) == 50
    about = memory.about["memory"]
    planned = nearfar.MemoryLoss.plan(COLUMNS, 50, batch_size=12, loss=loss)["total_bytes"]
    assert about["live_bytes"] == planned if engine == "cpu" else about["live_bytes"] >= planned
    mask = np.arange(12) < 4
    found = memory(rows, labels, enqueue_mask=mask)
    assert (found.gradient[mask] == 0).all() and found.counts["anchors"] == 8


def test_a_state_goes_on_to_the_same_bits():
    made = [nearfar.MemoryLoss(COLUMNS, 31, batch_size=12, miner="distance-weighted", engine="cpu") for _ in range(2)]
    stream = batches(12)
    for batch in [next(stream) for _ in range(6)]:
        made[0](*batch)
    state = made[0].state_dict()
    assert np.allclose(np.linalg.norm(state["rows"], axis=1), 1, atol=1e-6)
    made[1].load_state_dict(state)
    for batch in stream:
        first, second = (memory(*batch) for memory in made)
        assert first.loss == second.loss
        assert np.array_equal(first.gradient, second.gradient)
    with pytest.raises(ValueError, match="none of a memory of 31 slots"):
        made[1].load_state_dict({**state, "next": 40})
    made[1].reset()
    assert len(made[1]) == 0


def test_what_it_refuses():
    with pytest.raises(nearfar.BudgetError, match="raise the budget"):
        nearfar.MemoryLoss(128, 65_536, batch_size=64, budget="1MiB")
    with pytest.raises(ValueError, match="proxies"):
        nearfar.MemoryLoss(8, 10, batch_size=4, loss="arc-face")
    with pytest.raises(ValueError, match="batch_size is 0"):
        nearfar.MemoryLoss(8, 10, batch_size=0)
    memory = nearfar.MemoryLoss(3, 10, batch_size=4, engine="cpu")
    with pytest.raises(ValueError, match="5 rows, and the memory has 4 rows a batch"):
        memory(np.ones((5, 3)), np.arange(5))
    with pytest.raises(ValueError, match="rows have 2 columns"):
        memory(np.ones((4, 2)), np.arange(4))
    with pytest.raises(ValueError, match="a memory takes integers"):
        memory(np.ones((4, 3)), ["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="not finite"):
        memory(np.full((4, 3), np.nan), np.arange(4))
    assert len(memory) == 0
    core = nearfar._nearfar
    with pytest.raises(RuntimeError, match="planted"):
        core.panic_for_a_test((None, None, 1 << 20))
    with pytest.raises(nearfar.DeviceError, match="make a new one"):
        memory(np.ones((4, 3)), np.arange(4))


def test_a_memory_of_pml_is_made_anew_after_a_fault():
    memories = both(40)
    stream = batches(6)
    for batch in [next(stream) for _ in range(3)]:
        same(memories, *batch)
    with pytest.raises(RuntimeError, match="planted"):
        nearfar._nearfar.panic_for_a_test((None, None, 1 << 20))
    with pytest.raises(nearfar.DeviceError):
        step(memories[0], *next(stream))
    memories[1](*next(iter(batches(1, seed=7))))
    memories[0].load_state_dict(memories[1].state_dict())
    memories[0].queue_idx, memories[0].has_been_filled = memories[1].queue_idx, memories[1].has_been_filled
    same(memories, *next(stream))


def test_threads_have_memories_side_by_side():
    found = {}

    def work(seed):
        memory = nearfar.MemoryLoss(COLUMNS, 60, batch_size=12, engine="cpu")
        found[seed] = [memory(*batch).loss for batch in batches(10, seed=seed)]

    threads = [threading.Thread(target=work, args=(seed % 4,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        kept = found[seed]
        work(seed)
        assert found[seed] == kept


def _forked(memory, queue):
    try:
        memory(np.ones((4, 3)), np.arange(4))
    except RuntimeError as error:
        queue.put(str(error))
    del memory


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_a_sentence():
    memory = nearfar.MemoryLoss(3, 10, batch_size=4, engine="cpu")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_forked, args=(memory, queue))
    child.start()
    assert "spawn" in queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0


def test_memories_that_are_dropped_give_their_bytes_back():
    def held():
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) << 10

    def made():
        memory = nearfar.MemoryLoss(128, 20_000, batch_size=32, engine="cpu")
        memory(np.random.default_rng(0).normal(size=(32, 128)), np.arange(32))

    made()
    nearfar.devices()
    before = held()
    for _ in range(20):
        made()
    nearfar.devices()
    assert held() - before < 24 << 20
    assert json.dumps(nearfar.MemoryLoss.plan(128, 20_000, batch_size=32))
