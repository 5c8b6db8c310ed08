"""Trains the same head with every loss of Nearfar and of pytorch-metric-learning (PML), and compares what comes out.

Both sides get the same rows and split, widths, first weights, batch size, steps, Adam and arguments of the loss (as Nearfar's
report says them), no memory, and their own random batches and proxies. Proxies start as each library starts them. Two sets of
rows: scikit-learn's digits, half of them the test, and rows made as those of `sample:mirrored` are, whose last 150 classes are
the test, in batches with four rows of a class. The same code scores the embedded test rows of both, and is held against
Nearfar's own report: precision@1 and MAP@R, mean +- standard deviation over seeds. A loss reaches PML's where neither mean is
lower than PML's by more than PML's standard deviation, or 0.005 where that is larger. Exits with 1 where one does not; a few
seeds come near that by chance, so run such a loss again with more.

--speed instead times training: steps a second of Nearfar's CPU engine and of torch with PML on two threads, one process at a
time. Nearfar's are the difference of two runs in steps over that in time; torch's are up to 100 steps or 20 s after the first.
Evaluations do not count, and memories are full, in both. A process of torch's may take 8 GiB, and 60 s for its first step.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 scikit-learn==1.9.1
       python losses.py target/release/nearfar [--seeds 5] [--losses a,b] [--data digits,mirrored] [--proxy-lr 0.05] [--speed]
"""
import argparse
import json
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, losses, miners, samplers
from sklearn.datasets import load_digits

# Nearfar's name, PML's class.
LOSSES = """
    triplet-margin:TripletMarginLoss contrastive:ContrastiveLoss margin:MarginLoss multi-similarity:MultiSimilarityLoss
    nt-xent:NTXentLoss sup-con:SupConLoss circle:CircleLoss generalized-lifted-structure:GeneralizedLiftedStructureLoss
    nca:NCALoss proxy-nca:ProxyNCALoss proxy-anchor:ProxyAnchorLoss normalized-softmax:NormalizedSoftmaxLoss
    cos-face:CosFaceLoss arc-face:ArcFaceLoss sub-center-arc-face:SubCenterArcFaceLoss soft-triple:SoftTripleLoss
"""
LOSSES = dict(word.split(":") for word in LOSSES.split())
# Losses that also run with the miner of their name.
MINERS = {"triplet-margin": "TripletMarginMiner", "multi-similarity": "MultiSimilarityMiner"}
HIDDEN, EMBEDDING = 256, 64
# What suits each set of rows: Nearfar's defaults for its samples of these names.
RECIPES = {
    "digits": {"batch_size": 32, "optimizer.lr": 0.001, "steps": 400, "m_per_class": 0},
    "mirrored": {"batch_size": 64, "optimizer.lr": 0.002, "steps": 600, "m_per_class": 4},
}
MEMORIES = [0, 1024, 16384]
LEAST = 0.005
STEPS, SECONDS, FIRST, BYTES = 100, 20, 60, 8 << 30


def rows_of(name):
    """Features, labels and which rows are the test; the test rows' labels come after the others where classes differ."""
    rng = np.random.default_rng(0)
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        test = rng.permutation(len(y)) >= len(y) // 2
        return (x / 16).astype("f4"), y, test
    y = np.repeat(np.arange(650), 10)
    signal_ = rng.normal(size=(650, 12))[y] + 0.25 * rng.normal(size=(len(y), 12))
    signal_[:, 4:] *= rng.choice([-1, 1], size=(len(y), 8))
    x = np.hstack([signal_, rng.normal(size=(len(y), 8)), 0.2 * rng.normal(size=(len(y), 4))])
    rotation = np.linalg.qr(rng.normal(size=(24, 24)))[0]
    return (x @ rotation).astype("f4"), y, y >= 500


def write(path, x, y, test):
    lines = [",".join([*(f"f{i}" for i in range(x.shape[1])), "label", "split"])]
    lines += [",".join([*(f"{v:.9g}" for v in r), f"c{c:03}", "test" if t else "train"]) for r, c, t in zip(x, y, test)]
    path.write_text("\n".join(lines) + "\n")


def score(embedded, labels):
    """Precision@1 and MAP@R of rows against each other, by cosine similarity; each has another of its class."""
    unit = embedded / np.linalg.norm(embedded.astype("f8"), axis=1, keepdims=True)
    s = unit @ unit.T
    np.fill_diagonal(s, -np.inf)
    right = labels[np.argsort(-s, axis=1, kind="stable")] == labels[:, None]
    r = right.sum(1) - 1
    ranks = np.arange(1, len(labels) + 1)
    at_r = (right * right.cumsum(1) / ranks * (ranks <= r[:, None])).sum(1) / r
    return right[:, 0].mean(), at_r.mean()


def nearfar(binary, folder, data, sets, seed, out=None):
    sets = {"split": "column:split", "standardize": "false", "validation_fraction": 0, "evaluate_every": 1_000_000} | sets
    sets = {"hidden_layers": f"[{HIDDEN}]", "embedding_size": EMBEDDING} | RECIPES[data] | sets
    command = [binary, "train", "--engine", "cpu", "--json", "--seed", seed]
    command += ["--data", folder / f"{data}.csv", "--labels", "label"] + (["--out", out] if out else [])
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def settings(loss, miner, proxy_lr, memory=0):
    sets = {"loss.name": loss, "miner.name": miner, "memory_size": memory}
    proxies = ("proxy", "softmax", "face", "soft-triple")
    return sets | ({"loss.proxy_lr": proxy_lr} if any(part in loss for part in proxies) else {})


def first_weights(asked, folder, data, loss, seed):
    """What a run of Nearfar starts from: the head after a step too small to change it."""
    sets = settings(loss, "none", asked.proxy_lr) | {"steps": 1, "optimizer.lr": 1e-12}
    nearfar(asked.nearfar, folder, data, sets, seed, folder / "first")
    file = (folder / "first/head.safetensors").read_bytes()
    begin = 8 + int.from_bytes(file[:8], "little")
    tensors = {name: of for name, of in json.loads(file[8:begin]).items() if name != "__metadata__"}
    array = lambda of: np.frombuffer(file[begin:][slice(*of["data_offsets"])], "f4").reshape(of["shape"])
    return {name: torch.tensor(array(of)) for name, of in tensors.items()}


def torch_run(x, y, config, memory=0):
    """The torch side of a config that Nearfar reported: the model, and a function that takes one step."""
    torch.manual_seed(config["seed"])
    x, y = torch.tensor(x), torch.tensor(y)
    layers = [torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, EMBEDDING)]
    model = torch.nn.Sequential(*layers)
    name, proxy_lr = config["loss"]["name"], config["loss"].get("proxy_lr")
    arguments = {key: value for key, value in config["loss"].items() if key not in ("name", "proxy_lr")}
    if proxy_lr:
        arguments |= {"num_classes": int(y.max()) + 1, "embedding_size": EMBEDDING}
    if name != "normalized-softmax":
        arguments["distance"] = distances.CosineSimilarity()
    loss = getattr(losses, LOSSES[name])(**arguments)
    groups = [{"params": model.parameters(), "lr": config["optimizer"]["lr"]}]
    if proxy_lr:
        groups.append({"params": loss.parameters(), "lr": proxy_lr})
    adam = torch.optim.Adam(groups)
    chosen = {key: value for key, value in config["miner"].items() if key != "name"}
    mine = config["miner"]["name"] != "none"
    miner = mine and getattr(miners, MINERS[config["miner"]["name"]])(**chosen, distance=distances.CosineSimilarity())
    if memory:
        loss = losses.CrossBatchMemory(loss, EMBEDDING, memory)
        known = torch.randint(len(y), (memory,))
        with torch.no_grad():
            loss.add_to_memory(model(x[known]), y[known], memory)
    batch, m = config["batch_size"], config["m_per_class"]

    def batches():
        while True:
            if m:
                sampler = samplers.MPerClassSampler(y.numpy(), m, batch, length_before_new_iter=batch)
                yield torch.tensor(list(sampler))
            else:
                yield from torch.randperm(len(y))[: len(y) // batch * batch].split(batch)

    order = batches()

    def step():
        rows = next(order)
        embedded = model(x[rows])
        value = loss(embedded, y[rows], miner(embedded, y[rows])) if mine else loss(embedded, y[rows])
        adam.zero_grad()
        value.backward()
        adam.step()

    return model, step


def quality(asked, folder, data):
    """The table of a set of rows, and the losses that do not reach PML's."""
    torch.set_num_threads(1)
    x, y, test = rows_of(data)
    short, apart = [], 0.0
    head = "| loss | ours, precision@1 | PML | apart, standard errors | ours, MAP@R | PML | apart, standard errors | reaches PML's |"
    print(f"\n{data}:\n\n{head}\n|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    for loss in asked.losses:
        for miner in ["none"] + [loss] * (loss in MINERS):
            scores = np.empty((2, asked.seeds, 2))
            for seed in range(asked.seeds):
                out = folder / f"{data}-{loss}-{miner}-{seed}"
                report = nearfar(asked.nearfar, folder, data, settings(loss, miner, asked.proxy_lr), seed, out)
                labels = np.array((out / "test_labels.csv").read_text().split()[1:])
                scores[0, seed] = score(np.load(out / "test_embeddings.npy"), labels)
                said = report["final"]["test"]
                said = np.array([said["precision_at_1"], said["mean_average_precision_at_r"]])
                apart = max(apart, abs(said - scores[0, seed]).max())
                model, step = torch_run(x[~test], y[~test], report["config"])
                model.load_state_dict(first_weights(asked, folder, data, loss, seed))
                for _ in range(report["config"]["steps"]):
                    step()
                with torch.no_grad():
                    scores[1, seed] = score(model(torch.tensor(x[test])).numpy(), y[test])
            means, spreads = scores.mean(1), scores.std(1, ddof=1)
            errors = np.maximum((scores[0] - scores[1]).std(0, ddof=1) / asked.seeds**0.5, 1e-9)
            name = loss + (f", miner {miner}" if miner != "none" else "")
            cells = []
            for metric in range(2):
                cells += [f"{means[side, metric]:.3f} +- {spreads[side, metric]:.3f}" for side in range(2)]
                cells.append(f"{(means[0] - means[1])[metric] / errors[metric]:+.1f}")
            reaches = (means[0] >= means[1] - np.maximum(spreads[1], LEAST)).all()
            short += [] if reaches else [f"{data}: {name}"]
            print(f"| {name} | {' | '.join(cells)} | {'yes' if reaches else '**no**'} |", flush=True)
    print(f"\nNearfar's own report is at most {apart:.0e} from these scores of its test rows.")
    if apart > 1e-3:
        short.append(f"{data}: Nearfar's report differs from the score here")
    return short


def timed(data, config):
    """One process of torch's: steps and seconds, said after every step."""
    torch.set_num_threads(2)
    config = json.loads(config)
    x, y, test = rows_of(data)
    _, step = torch_run(x[~test], y[~test], config, config["memory_size"])
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    signal.alarm(FIRST)
    step()
    signal.alarm(0)
    started = time.perf_counter()
    for count in range(1, STEPS + 1):
        step()
        seconds = time.perf_counter() - started
        print(count, seconds, flush=True)
        if seconds > SECONDS:
            break


def of_torch(data, config):
    """Steps a second, and what the cell says."""
    command = [sys.executable, __file__, "--timed", data, json.dumps(config)]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode == -signal.SIGALRM:
        return None, f"no step in {FIRST} s"
    if child.returncode:
        asked = re.search(r"tried to allocate (\d+) bytes", child.stderr)
        if asked or "MemoryError" in child.stderr or "bad_alloc" in child.stderr:
            return None, "out of its 8 GiB" + (f", asks for {int(asked[1]) / 2**30:.1f} more" if asked else "")
        sys.exit(child.stderr)
    count, seconds = map(float, child.stdout.splitlines()[-1].split())
    rate = count / seconds
    return rate, f"{rate:.3g}" + (f" ({STEPS} steps would take {STEPS / rate:.0f} s)" if STEPS / rate > 60 else "")


def speed(asked, folder, data):
    print(f"\n{data}, batch {RECIPES[data]['batch_size']}, steps a second:\n")
    print("| loss | memory | ours | torch, PML | ours / PML |\n|---|--:|--:|--:|--:|", flush=True)
    for loss in asked.losses:
        for memory in MEMORIES:
            sets = settings(loss, "none", asked.proxy_lr, memory)
            if memory and "loss.proxy_lr" in sets:
                continue
            least, more, seconds = memory // RECIPES[data]["batch_size"] + 20, 50, 0
            while seconds < 1:
                more *= 2
                runs = [nearfar(asked.nearfar, folder, data, sets | {"steps": least + n}, 0) for n in (0, more)]
                seconds = (runs[1]["elapsed_ms"] - runs[0]["elapsed_ms"]) / 1e3
            rate, said = of_torch(data, runs[0]["config"])
            ratio = f"{more / seconds / rate:.3g}" if rate else ""
            print(f"| {loss} | {memory:,} | {more / seconds:.3g} | {said} | {ratio} |", flush=True)
    return []


def main():
    if sys.argv[1:2] == ["--timed"]:
        return timed(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nearfar", type=Path)
    parser.add_argument("--seeds", default=5, type=int)
    parser.add_argument("--losses", default=list(LOSSES), type=lambda text: text.split(","))
    parser.add_argument("--data", default=list(RECIPES), type=lambda text: text.split(","))
    parser.add_argument("--proxy-lr", default=0.05, type=float)
    parser.add_argument("--speed", action="store_true")
    asked = parser.parse_args()
    if asked.seeds < 2:
        parser.error("--seeds is 2 or more: a spread is of two at least")
    before, short = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for data in asked.data:
            write(Path(folder) / f"{data}.csv", *rows_of(data))
            short += (speed if asked.speed else quality)(asked, Path(folder), data)
    print(f"\n{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Nearfar's CPU engine;", end=" ")
    print(f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}.")
    print("".join(f"does not reach PML's: {name}\n" for name in short), end="")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
