"""Time and memory, one case a process: `python measure.py metrics [--pml]`, `python measure.py memory 16384 [--pml]`,
`python measure.py step 65536` (a step of the memory beside one of the trainer), `[torchrun --nproc-per-node 2] measure.py batch 64` (rows
of a chunk; 4096 is the whole batch at once), `torchrun .. measure.py ranks`, `measure.py memmap 64` (MiB of budget)."""

import os
import sys
import threading
import time
import warnings

import numpy as np
import torch

warnings.simplefilter("ignore")
pml = "--pml" in sys.argv
if pml:
    from pytorch_metric_learning import losses, miners
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
else:
    from nearfar import pml as losses
    from nearfar import pml as miners
    from nearfar.pml import AccuracyCalculator


def peak():
    """MiB that this process held at most."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def metrics():
    """Five metrics of 10,000 rows of 128 columns in 100 classes, k=None."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(10_000) % 100
    centers = torch.randn(100, 128, generator=generator)
    rows = torch.nn.functional.normalize(centers[labels] + 1.5 * torch.randn(10_000, 128, generator=generator))
    calculator = AccuracyCalculator(exclude=("AMI", "NMI"), device=torch.device("cpu"))
    calculator.get_accuracy(rows[:500], labels[:500])
    before, began = peak(), time.perf_counter()
    calculator.get_accuracy(rows, labels)
    return time.perf_counter() - began, peak() - before


def memory(size):
    """The median of five steps of 64 rows with a full memory of 100 classes."""
    generator = torch.Generator().manual_seed(0)
    miner = miners.TripletMarginMiner(0.2, "semihard")
    loss = losses.CrossBatchMemory(losses.TripletMarginLoss(0.2), 128, size, miner)
    stored = torch.randint(100, (size,), generator=generator)
    loss.add_to_memory(torch.randn(size, 128, generator=generator), stored, size)
    before, steps = peak(), []
    for _ in range(5):
        labels = torch.randint(100, (64,), generator=generator)
        rows = torch.randn(64, 128, generator=generator, requires_grad=True)
        began = time.perf_counter()
        loss(rows, labels).backward()
        steps.append(time.perf_counter() - began)
    return sorted(steps)[2], peak() - before


def batch(chunk):
    """A step of 4,096 images through a small convolutional net, over all ranks."""
    from torch import nn

    from nearfar.torch import CachedLoss

    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 64)
    )
    rank, count = join()
    model = nn.parallel.DistributedDataParallel(net) if count > 1 else net
    torch.manual_seed(2 + rank)
    rows = 4096 // count
    images, labels = torch.randn(rows, 1, 28, 28), torch.randint(100, (rows,))
    loss = losses.SupConLoss()
    step = CachedLoss(model, loss, chunk) if chunk < 4096 else lambda images, labels: loss(model(images), labels)
    CachedLoss(model, loss, 16)(images[:32], labels[:32]).backward()
    net.zero_grad()
    before, began = peak(), time.perf_counter()
    step(images, labels).backward()
    spent = time.perf_counter() - began
    return spent, peak() - before


def ranks(rows=20_000):
    """Five metrics of these rows of 128 columns, cut among the ranks: the best of five, and the processor time of the best one."""
    import nearfar
    import nearfar.distributed

    rank, count = join()
    labels = torch.arange(rows) % 200
    embeddings = torch.randn(200, 128, generator=torch.Generator().manual_seed(0))[labels]
    embeddings += 1.5 * torch.randn(rows, 128, generator=torch.Generator().manual_seed(1))
    own = slice(rank * rows // count, (rank + 1) * rows // count)
    before, times = 0, []
    for _ in range(6):
        began, busy = time.perf_counter(), time.process_time()
        if count > 1:
            nearfar.distributed.evaluate(embeddings[own], labels[own], engine="cpu")
        else:
            nearfar.evaluate(embeddings, labels, engine="cpu")
        times.append((time.perf_counter() - began, time.process_time() - busy))
        before = before or peak()
    print(f"nearfar: {min(busy for _, busy in times[1:]):.3f} s of a processor")
    return min(times[1:])[0], peak() - before


def memmap(budget):
    """The ten nearest of 1,000 queries among the 2,097,152 rows of 128 columns of a file of 1 GiB, in a budget of so many MiB; memory
    without the file's own pages, which the system takes back as it likes."""
    import tempfile

    import nearfar

    draw = np.random.default_rng(0)
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(32):
            file.write(draw.normal(size=(1 << 16, 128)).astype(np.float32).tobytes())
        file.flush()
        rows = np.memmap(file.name, np.float32, mode="r").reshape(-1, 128)
        queries = rows[::2048][:1000].copy()
        nearfar.knn(queries[:10], queries, k=1, budget=f"{budget}MiB", engine="cpu")
        before, began = anonymous(), time.perf_counter()
        most, seen = [before], threading.Event()

        def watch():
            while not seen.wait(0.01):
                most.append(anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        ids, _ = nearfar.knn(queries, rows, k=10, budget=f"{budget}MiB", engine="cpu")
        spent = time.perf_counter() - began
        seen.set()
        watcher.join()
        assert (ids[:, 0] == 2048 * np.arange(1000)).all()
        return spent, max(most) - before


def anonymous():
    """MiB that this process holds beside files."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("RssAnon")).split()[1]) / 1024


def join():
    """This rank, and how many there are."""
    if "RANK" not in os.environ:
        return 0, 1
    import torch.distributed as dist

    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def median(times):
    return sorted(times)[len(times) // 2]


def step(size):
    """Steps of 64 rows of 128 columns with a full memory of 100 classes: the trainer's with a linear head, then calls of MemoryLoss with
    that head's embeddings; and the smallest call that there is."""
    import nearfar

    draw = np.random.default_rng(0)
    features = draw.normal(size=(20_000, 128)).astype(np.float32)
    classes = np.arange(len(features)) % 100
    for loss, miner in [("triplet-margin", "triplet-margin"), ("contrastive", "none"), ("nt-xent", "none")]:
        heard = []
        config = {
            "hidden_layers": [], "embedding_size": 128, "batch_size": 64, "memory_size": size, "memory_start_step": 0,
            "initial_weights": "random", "steps": size // 64 + 100, "evaluate_every": 10**6, "evaluate_queries": 50,
            "test_queries": 50, "loss": {"name": loss}, "miner": {"name": miner},
        }  # fmt: skip
        head = nearfar.train(
            features, classes, config, engine="cpu", progress=lambda at: heard.append((at.get("step"), time.perf_counter()))
        )
        # Rows as the trainer's memory has them: its time depends on them.
        embeddings = head(features, engine="cpu")
        memory = nearfar.MemoryLoss(128, size, batch_size=64, loss=loss, miner=miner, engine="cpu")
        calls = []
        while len(memory) < size:
            rows = draw.integers(len(features), size=min(size - len(memory), 4096))
            memory.enqueue(embeddings[rows], classes[rows])
        for _ in range(40):
            chosen = draw.integers(len(features), size=64)
            rows, labels = embeddings[chosen], classes[chosen]
            began = time.perf_counter()
            memory(rows, labels)
            calls.append(time.perf_counter() - began)
        # Once the memory is full, from one report to the next.
        full = [(number, at) for number, at in heard if number and number > size // 64]
        steps = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(full, full[1:], strict=False) if b[0] > a[0]]
        own, trainers = median(calls), median(steps)
        print(
            f"{loss}, miner {miner}, memory {size}: MemoryLoss {1e3 * own:.2f} ms, the trainer {1e3 * trainers:.2f} ms, ratio {own / trainers:.2f}"
        )
    small = nearfar.MemoryLoss(4, 8, batch_size=2, engine="cpu")
    rows, labels, calls = draw.normal(size=(2, 4)).astype(np.float32), np.array([0, 1]), []
    for _ in range(2000):
        began = time.perf_counter()
        small(rows, labels)
        calls.append(time.perf_counter() - began)
    print(f"the smallest call: {1e6 * median(calls):.0f} us")


case, *words = [word for word in sys.argv[1:] if word != "--pml"]
if case == "step":
    step(int(*words))
    sys.exit()
seconds, more = {"metrics": metrics, "memory": memory, "batch": batch, "ranks": ranks, "memmap": memmap}[case](*map(int, words))
print(f"{'PML' if pml else 'nearfar'}: {seconds:.3f} s, {more:.0f} MiB more")
