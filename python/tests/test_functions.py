"""The functions beside NumPy and scikit-learn, and what they refuse."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import nearfar

ENGINES = ["cpu", *(["gpu"] if len(nearfar.devices()) > 1 else [])]


def rows(count, columns=19, seed=0):
    return (np.random.default_rng(seed).normal(size=(count, columns)) * 3 + 1).astype(np.float32)


def values(queries, references, metric):
    q, r = queries.astype(np.float64), references.astype(np.float64)
    if metric == "cosine":
        q, r = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (q, r))
    if metric == "l2":
        return -np.sqrt(np.maximum(((q[:, None] - r[None]) ** 2).sum(-1), 0))
    return q @ r.T


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("budget", ["8MiB", "64MiB"])
@pytest.mark.parametrize("own", [False, True])
def test_neighbours_are_exact(engine, metric, budget, own):
    references = rows(700)
    queries = references if own else rows(90, seed=1)
    found, by = nearfar.knn(queries, None if own else references, k=8, metric=metric, engine=engine, budget=budget)
    all_values = values(queries, references, metric)
    if own:
        np.fill_diagonal(all_values, -np.inf)
    expected = np.argsort(-all_values, axis=1, kind="stable")[:, :8]
    assert (found == expected).mean() > 0.999
    expected_values = np.take_along_axis(all_values, found, 1)
    assert np.allclose(-by if metric == "l2" else by, expected_values, rtol=1e-5, atol=1e-5)
    assert found.dtype == np.int64


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("own", [False, True])
def test_metrics_are_those_of_a_sort(engine, metric, own):
    references, labels = rows(300), np.arange(300) % 7
    queries, asked = (references, labels) if own else (rows(40, seed=1), np.arange(40) % 8)
    found = nearfar.evaluate(
        queries,
        asked,
        None if own else references,
        None if own else labels,
        metric=metric,
        engine=engine,
        budget="16MiB",
    )
    order = values(queries, references, metric)
    if own:
        np.fill_diagonal(order, -np.inf)
    hits = labels[np.argsort(-order, axis=1, kind="stable")][:, : 300 - own] == asked[:, None]
    hits = hits[hits.any(axis=1)]
    places = np.arange(1, hits.shape[1] + 1)
    relevant = hits.sum(axis=1)
    within = hits & (places <= relevant[:, None])
    precision = np.cumsum(hits, axis=1) / places
    assert found["queries"] == len(hits)
    assert found["lone_queries"] == (0 if own else 5)
    assert found["precision_at_1"] == pytest.approx(hits[:, 0].mean(), abs=1e-5)
    assert found["r_precision"] == pytest.approx((within.sum(axis=1) / relevant).mean(), abs=1e-5)
    assert found["mean_average_precision_at_r"] == pytest.approx(((precision * within).sum(axis=1) / relevant).mean(), abs=1e-5)
    assert found["mean_average_precision"] == pytest.approx(((precision * hits).sum(axis=1) / relevant).mean(), abs=1e-5)
    assert found["mean_reciprocal_rank"] == pytest.approx((1 / (hits.argmax(axis=1) + 1)).mean(), abs=1e-5)
    assert found["recall_at"][5] == pytest.approx(hits[:, :5].any(axis=1).mean(), abs=1e-5)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_a_budget_changes_no_bit(metric):
    references, labels = rows(900), np.arange(900) % 9
    found = [
        (nearfar.knn(references, k=6, metric=metric, engine="cpu", budget=budget), nearfar.evaluate(references, labels, metric=metric, engine="cpu", budget=budget))
        for budget in ("200KiB", "64MiB")
    ]
    (small_ids, small), few = found[0]
    (ids, by), many = found[1]
    assert np.array_equal(small_ids, ids) and np.array_equal(small, by)
    assert few["memory"]["peak_bytes"] <= 200 << 10 < many["memory"]["peak_bytes"]
    for report in (few, many):
        del report["memory"], report["elapsed_ms"]
    assert few == many


@pytest.mark.parametrize("kind", ["float64", "float16", "int8", "uint8", "int32", "int64", "bool"])
def test_values_of_any_type_are_cast_as_they_are_read(kind):
    given = (rows(80) * 10).astype(kind)
    expected = nearfar.knn(given.astype(np.float32), k=3, engine="cpu")
    assert np.array_equal(nearfar.knn(given, k=3, engine="cpu")[0], expected[0])


def test_arrays_are_read_where_they_lie(tmp_path):
    given = rows(120)
    expected = nearfar.knn(given, k=3, engine="cpu")[0]
    wide = np.repeat(given, 2, axis=0)
    np.save(tmp_path / "rows.npy", given)
    for same in (
        wide[::2],
        given[::-1][::-1],
        np.asfortranarray(given),
        torch.from_numpy(given),
        torch.from_numpy(np.ascontiguousarray(given.T)).T,
        torch.from_numpy(given).requires_grad_(),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        tmp_path / "rows.npy",
        given.astype(">f4"),
        given.tolist(),
    ):
        assert np.array_equal(nearfar.knn(same, k=3, engine="cpu")[0], expected)
    halves = torch.from_numpy(given).bfloat16()
    assert np.array_equal(nearfar.knn(halves, k=3, engine="cpu")[0], nearfar.knn(halves.float(), k=3, engine="cpu")[0])


def test_a_file_larger_than_the_budget_streams(tmp_path):
    given = rows(40_000, 32)
    np.save(tmp_path / "rows.npy", given)
    ids, _ = nearfar.knn(given[:20], tmp_path / "rows.npy", k=4, engine="cpu", budget="1MiB")
    assert np.array_equal(ids[:, 0], np.arange(20))


def test_triplets_are_listed_in_windows():
    embeddings, labels = rows(30), np.arange(30) % 3
    windows = list(nearfar.mine(embeddings, labels, miner={"name": "triplet-margin", "margin": 0.2, "type_of_triplets": "all"}, window=50, engine="cpu"))
    kept = np.concatenate(windows)
    assert all(len(window) <= 50 for window in windows)
    s = values(embeddings, embeddings, "cosine")
    expected = [
        (a, p, n)
        for a in range(30)
        for p in range(30)
        for n in range(30)
        if a != p and labels[a] == labels[p] != labels[n] and s[a, p] - s[a, n] <= 0.2
    ]
    assert kept.tolist() == [list(triplet) for triplet in expected]
    counts = nearfar.count_triplets(embeddings, labels, miner={"name": "triplet-margin", "margin": 0.2, "type_of_triplets": "all"}, engine="cpu")
    assert counts["mined"] == len(expected)
    a1, p, a2, n = next(nearfar.mine(embeddings, labels, miner="multi-similarity", engine="cpu"))
    assert (labels[a1] == labels[p]).all() and (labels[a2] != labels[n]).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_windows_of_many_triplets_are_held_two_at_a_time_and_other_calls_come_between():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # 48 million triplets: 573 MB of indices in 32 bits.
    embeddings, labels = rows(600, 8), np.arange(600) % 3
    windows = nearfar.mine(embeddings, labels, miner=None, window=100_000, engine="cpu")
    seen = len(next(windows))
    before = resident()
    for number, window in enumerate(windows):
        seen += len(window)
        if number % 100 == 0:
            assert nearfar.knn(embeddings, k=2, engine="cpu")[0].shape == (600, 2)
        assert resident() - before < 64 << 20
    assert seen == 600 * 199 * 400
    # One that nobody takes to its end stops its thread.
    threads = len(os.listdir("/proc/self/task"))
    some = nearfar.mine(embeddings, labels, miner=None, window=1000, engine="cpu")
    next(some)
    some.close()
    assert len(os.listdir("/proc/self/task")) == threads
    with pytest.raises(ValueError, match="easyhard"):
        next(nearfar.mine(embeddings, labels, miner={"name": "triplet-margin", "type_of_triplets": "easyhard"}, engine="cpu"))


def test_a_copy_in_the_memory_is_no_positive():
    embeddings, labels = rows(24), np.arange(24) % 4
    apart = nearfar.loss(embeddings, labels, embeddings, labels, loss="nt-xent", copies=np.arange(24), engine="cpu")
    own = nearfar.loss(embeddings, labels, loss="nt-xent", engine="cpu")
    assert apart.loss == pytest.approx(own.loss, rel=1e-6)
    with_copies = nearfar.loss(embeddings, labels, embeddings, labels, loss="nt-xent", engine="cpu")
    assert abs(with_copies.loss - own.loss) > 0.01
    none = nearfar.loss(embeddings, labels, embeddings, labels, loss="nt-xent", copies=[-1] * 24, engine="cpu")
    assert none.loss == with_copies.loss
    with pytest.raises(ValueError, match="cannot be a copy"):
        nearfar.loss(embeddings, labels, embeddings, labels, copies=(np.arange(24) + 1) % 24, engine="cpu")


def test_a_head_is_trained_saved_and_used(tmp_path):
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    heard = []
    head = nearfar.train(features, labels, {"steps": 100, "evaluate_every": 50}, progress=heard.append, engine="cpu")
    assert head.report["final"]["test"]["precision_at_1"] > 0.9
    assert head.report["verdict"] and any("loss" in about for about in heard)
    head.save(tmp_path / "head.safetensors")
    again = nearfar.Head.load(tmp_path / "head.safetensors")
    embeddings = again(features, engine="cpu")
    assert np.array_equal(embeddings, head(features, engine="cpu"))
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def test_scikit_learns_own_checks_of_an_estimator():
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    from nearfar.sklearn import NearfarEmbedder

    features, labels = load_digits(return_X_y=True)
    embedder = NearfarEmbedder({"steps": 80}, engine="cpu")
    pipeline = make_pipeline(embedder, KNeighborsClassifier(3)).fit(features[:1000], labels[:1000])
    assert pipeline.score(features[1000:], labels[1000:]) > 0.85
    assert embedder.score(features[1000:], labels[1000:]) > 0.85
    assert len(embedder.get_feature_names_out()) == embedder.transform(features[:2]).shape[1]


def test_a_threshold_keeps_its_rate():
    embeddings, labels = rows(600) * 0.1 + np.eye(19, dtype=np.float32)[np.arange(600) % 6] * 3, np.arange(600) % 6
    found = nearfar.threshold(embeddings[:300], labels[:300], embeddings[300:], labels[300:], false_match_rate=0.01, engine="cpu")
    s = values(embeddings[:300], embeddings[:300], "cosine")
    apart = labels[:300, None] != labels[None, :300]
    assert (s[apart] >= found["threshold"]).mean() <= 0.01
    assert found["test"]["queries"] == 300


def test_what_does_not_fit_is_refused_beforehand_with_numbers():
    with pytest.raises(nearfar.BudgetError, match="budget") as refused:
        nearfar.knn(rows(1000), k=5, engine="cpu", budget=1000)
    assert isinstance(refused.value, MemoryError)
    with pytest.raises(nearfar.BudgetError, match="it fits with|raise the budget"):
        nearfar.plan("train", queries=10**6, dim=512, classes=10, budget="1MiB")
    planned = nearfar.plan("knn", queries=700, references=900, dim=19, k=8, budget="8MiB")
    assert planned["total_bytes"] <= 8 << 20
    # 64 rows, a memory of 16,384 and few classes: more than 16 GiB.
    assert nearfar.plan_pml(64, 16_384, 64 * 1638 * 14_746) > 16 << 30


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nearfar.knn(rows(10), k=0, engine="cpu"), "k is 0"),
        (lambda: nearfar.knn(rows(10), k=10, engine="cpu"), "k is 10"),
        (lambda: nearfar.knn(rows(10), k=1, metric="hamming", engine="cpu"), "metric"),
        (lambda: nearfar.knn(rows(10), rows(10, 3), k=1, engine="cpu"), "dimensions"),
        (lambda: nearfar.knn(rows(10)[0], k=1, engine="cpu"), "rows, columns"),
        (lambda: nearfar.knn(np.full((4, 3), np.nan), k=1, engine="cpu"), "not finite"),
        (lambda: nearfar.knn(np.full((4, 3), 1e300), k=1, engine="cpu"), "not finite in 32 bits"),
        (lambda: nearfar.evaluate(rows(10), [1, 2], engine="cpu"), "one a row"),
        (lambda: nearfar.evaluate(rows(3), [1, 2, 3], engine="cpu"), "nothing to retrieve"),
        (lambda: nearfar.evaluate(rows(3), [1, 1, 1], rows(4), engine="cpu"), "reference_labels"),
        (lambda: nearfar.loss(rows(4), [1, 1, 2, 2], loss="no-loss", engine="cpu"), "no-loss"),
        (lambda: nearfar.loss(rows(4), [1, 1, 2, 2], loss={"name": "nt-xent", "heat": 1}, engine="cpu"), "heat"),
        (lambda: nearfar.knn(rows(4), k=1, budget="much"), "256MiB"),
        (lambda: nearfar.knn(rows(4), k=1, engine="tpu"), "tpu"),
        (lambda: nearfar.train(rows(20), [1] * 20, engine="cpu"), "two classes"),
    ],
)
def test_what_is_wrong_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_no_such_adapter_is_a_device_error():
    with pytest.raises(nearfar.DeviceError):
        nearfar.knn(rows(4), k=1, engine="gpu", adapter="no such adapter")


def test_a_panic_is_an_exception_and_the_next_call_works():
    from nearfar import _nearfar

    with pytest.raises(RuntimeError, match="a fault that was planted"):
        _nearfar.panic_for_a_test(("cpu", None, 1 << 20))
    assert nearfar.knn(rows(4), k=1, engine="cpu")[0].shape == (4, 1)


def test_ctrl_c_stops_a_search_soon():
    code = (
        "import numpy as np, nearfar, signal, threading, os, time\n"
        "x = np.random.default_rng(0).normal(size=(60000, 256)).astype(np.float32)\n"
        "threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "began = time.time()\n"
        "try:\n"
        "    nearfar.knn(x, k=10, engine='cpu')\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', time.time() - began - 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("stopped"), done
    # Guards against waiting for all of it, 60 times as long; 0.3 s on a quiet machine.
    assert float(done.stdout.split()[1]) < 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_worker_gets_a_sentence():
    code = (
        "import os, numpy as np, nearfar\n"
        "x = np.eye(5, dtype=np.float32)\n"
        "nearfar.knn(x, k=1, engine='cpu')\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        nearfar.knn(x, k=1, engine='cpu')\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "spawn" in done.stdout, done


def test_threads_of_python_share_the_engine():
    given = rows(300)
    expected = nearfar.knn(given, k=3, engine="cpu")[0]
    wrong = []

    def work():
        for _ in range(5):
            if not np.array_equal(nearfar.knn(given, k=3, engine="cpu")[0], expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_calls_leak_nothing():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    given, labels = rows(60), np.arange(60) % 4
    for calls in (1000, 9000):
        for _ in range(calls // 4):
            nearfar.knn(given, k=2, engine="cpu")
            nearfar.evaluate(given, labels, engine="cpu")
            nearfar.loss(given, labels, engine="cpu")
            nearfar.count_triplets(given, labels, engine="cpu")
        gc.collect()
        if calls == 1000:
            before = resident()
    assert resident() - before < 8 << 20
