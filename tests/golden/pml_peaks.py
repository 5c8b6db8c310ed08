"""Writes pml_peaks.json: the most memory that a step of pytorch-metric-learning takes above what is there before it.

Each case names settings as `--set` takes them and the number of classes; its peak is the growth of the resident set over one step,
forward and backward, after a small one, of rows in random directions, equally many of each class, beside a memory that is full. Each is a process of its
own. tests/library/pml_peaks.rs compares the plan with it.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 && python pml_peaks.py, on Linux; 3 GB of memory
"""
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

WIDE = dict(batch_size=512, memory_size=16384, classes=128)
FEW = dict(batch_size=1024, memory_size=4096, classes=16)
OWN = dict(batch_size=3000, memory_size=0, classes=100)
SMALL = dict(batch_size=64, memory_size=1024, classes=32)
SMALL_OWN = dict(batch_size=256, memory_size=0, classes=16)
CUBE = dict(batch_size=64, memory_size=4096, classes=64)
LISTED = dict(batch_size=64, memory_size=8192, classes=128)
BATCH = dict(batch_size=512, memory_size=0, classes=32)
SEMIHARD = {"miner.name": "triplet-margin"}
NONE = {"miner.name": "none"}


def case(loss, shape, miner=None, **more):
    return {"loss.name": loss, **(miner or NONE), **more, **shape}


CASES = [
    *(case(loss, shape) for loss in ("contrastive", "multi-similarity", "sup-con", "circle", "generalized-lifted-structure")
      for shape in (WIDE, FEW, OWN)),
    *(case("nca", shape) for shape in (WIDE, OWN)),
    case("contrastive", WIDE, distance="l2"),
    case("multi-similarity", WIDE, distance="l2"),
    *(case(loss, shape) for loss in ("nt-xent", "lifted-structure") for shape in (SMALL, SMALL_OWN)),
    *(case(loss, shape, {"miner.name": miner}) for loss, miner in (
        ("multi-similarity", "multi-similarity"), ("contrastive", "pair-margin"), ("contrastive", "batch-hard"),
        ("contrastive", "batch-easy-hard"), ("circle", "multi-similarity"), ("sup-con", "multi-similarity"))
      for shape in (WIDE, OWN)),
    *(case("triplet-margin", WIDE, {"miner.name": miner}) for miner in ("batch-hard", "batch-easy-hard")),
    *(case("triplet-margin", shape, {"miner.name": "triplet-margin", "miner.type_of_triplets": kind})
      for kind, shapes in (("all", (CUBE, LISTED, BATCH)), ("semihard", (CUBE, LISTED, BATCH)), ("hard", (LISTED,)), ("easy", (LISTED,)))
      for shape in shapes),
    case("triplet-margin", CUBE), case("triplet-margin", BATCH), case("triplet-margin", LISTED, SEMIHARD, distance="l2"),
    case("margin", CUBE), case("margin", LISTED, SEMIHARD),
    case("contrastive", CUBE, SEMIHARD), case("multi-similarity", BATCH, SEMIHARD),
    *(case("triplet-margin", dict(batch_size=256, memory_size=16384, classes=classes), {"miner.name": "distance-weighted"})
      for classes in (128, 1024)),
    *(case(loss, dict(batch_size=batch, memory_size=0, classes=proxies // of_class))
      for loss, of_class in (("proxy-nca", 1), ("proxy-anchor", 1), ("normalized-softmax", 1), ("cos-face", 1), ("arc-face", 1),
                             ("sub-center-arc-face", 3), ("soft-triple", 10))
      for batch, proxies in ((512, 65536), (64, 262144))),
]
DIM = 64


def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


def step(case):
    """The work of one step, after all that is there before."""
    import torch
    from pytorch_metric_learning import distances, losses, miners

    torch.manual_seed(0)
    batch, memory, classes = case["batch_size"], case["memory_size"], case["classes"]
    distance = distances.LpDistance if case.get("distance") == "l2" else distances.CosineSimilarity
    far = case.get("distance") == "l2"
    pairs = dict(pos_margin=0, neg_margin=1) if far else dict(pos_margin=1, neg_margin=0)
    proxies = dict(num_classes=classes, embedding_size=DIM)
    loss = {
        "triplet-margin": lambda: losses.TripletMarginLoss(0.2, distance=distance()),
        "margin": lambda: losses.MarginLoss(beta=1.2 if far else 0.5, distance=distance()),
        "contrastive": lambda: losses.ContrastiveLoss(**pairs, distance=distance()),
        "multi-similarity": lambda: losses.MultiSimilarityLoss(distance=distance()),
        "nt-xent": lambda: losses.NTXentLoss(distance=distance()),
        "sup-con": lambda: losses.SupConLoss(distance=distance()),
        "circle": lambda: losses.CircleLoss(distance=distance()),
        "lifted-structure": lambda: losses.LiftedStructureLoss(**pairs, distance=distance()),
        "generalized-lifted-structure": lambda: losses.GeneralizedLiftedStructureLoss(**pairs, distance=distance()),
        "nca": lambda: losses.NCALoss(distance=distance()),
        "proxy-nca": lambda: losses.ProxyNCALoss(**proxies),
        "proxy-anchor": lambda: losses.ProxyAnchorLoss(**proxies),
        "normalized-softmax": lambda: losses.NormalizedSoftmaxLoss(**proxies),
        "cos-face": lambda: losses.CosFaceLoss(**proxies),
        "arc-face": lambda: losses.ArcFaceLoss(**proxies),
        "sub-center-arc-face": lambda: losses.SubCenterArcFaceLoss(**proxies),
        "soft-triple": lambda: losses.SoftTripleLoss(**proxies),
    }[case["loss.name"]]()
    kind = case.get("miner.type_of_triplets", "semihard")
    miner = {
        "none": lambda: None,
        "triplet-margin": lambda: miners.TripletMarginMiner(0.2, kind, distance=distance()),
        "batch-hard": lambda: miners.BatchHardMiner(distance=distance()),
        "batch-easy-hard": lambda: miners.BatchEasyHardMiner("easy", "semihard", distance=distance()),
        "multi-similarity": lambda: miners.MultiSimilarityMiner(0.1, distance=distance()),
        "pair-margin": lambda: miners.PairMarginMiner(*((0.2, 0.8) if far else (0.8, 0.2)), distance=distance()),
        "distance-weighted": lambda: miners.DistanceWeightedMiner(),
    }[case["miner.name"]]()
    unit = lambda rows: torch.nn.functional.normalize(torch.randn(rows, DIM), dim=1)
    rows, labels = unit(batch).requires_grad_(), torch.arange(batch) % classes
    if memory:
        loss = losses.CrossBatchMemory(loss, DIM, memory, miner)
        loss.embedding_memory, loss.label_memory = unit(memory), torch.arange(memory) % classes
        loss.has_been_filled = True
        return lambda: loss(rows, labels).backward()
    return lambda: loss(rows, labels, miner(rows, labels) if miner else None).backward()


def measure(case):
    # What torch loads and sets up at its first step is no memory of the step.
    memory = 32 if case["memory_size"] else 0
    step(dict(case, batch_size=16, memory_size=memory, classes=4))()
    run = step(case)
    gc.collect()
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    start = resident("VmRSS")
    run()
    return resident("VmHWM") - start


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(measure(CASES[int(sys.argv[2])]))
        sys.exit()
    path = Path(__file__).with_name("pml_peaks.json")
    # Cases that are there stay as they were measured: delete the file to measure all.
    known = {json.dumps(case["settings"]): case["peak_bytes"] for case in json.loads(path.read_text())} if path.exists() else {}
    measured = []
    for number, settings in enumerate(CASES):
        peak = known.get(json.dumps(settings))
        if peak is None:
            one = [sys.executable, __file__, "one", str(number)]
            # Large blocks go back to the system when they are freed: what fragments of the heap keep is no tensor.
            env = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536")
            peak = int(subprocess.run(one, check=True, capture_output=True, text=True, env=env).stdout)
            print(settings, f"{peak:,}", file=sys.stderr, flush=True)
        measured.append(dict(settings=settings, peak_bytes=peak))
    path.write_text("[\n" + ",\n".join(map(json.dumps, measured)) + "\n]\n")
