"""Trains the same head with every loss of Nearfar and of pytorch-metric-learning (PML), and compares what comes out.

Both get the same rows and split, widths, first weights, batch size, steps, Adam and arguments of the loss (as Nearfar reports
them), no memory, and their own random batches and first proxies. Rows: scikit-learn's digits and the pancreas cells of
`sample:cells`, half of them the test, and such as `sample:mirrored` has, the last 150 classes the test, in batches with four of
a class. The same code scores the embedded
test rows of both, and is held against Nearfar's report: mean +- standard deviation over seeds; errors are of the paired
difference. A loss reaches PML's where neither mean is lower by more than PML's standard deviation, or 0.005 where that is
larger. With few seeds some do not by chance: those are run again with other seeds. Exits with 1 where one does not then.

--recipes compares what `nearfar recipes` lists instead, each recipe with the data's steps and, unless it says otherwise, batch
size and learning rate. Seconds are of the whole run of Nearfar's, peak memory its ledger's. PML has no head that starts from LDA;
with --alone it has no column filled at all.

--speed times training instead: steps a second of Nearfar's CPU engine, and of torch with PML on one or two threads, whichever
is faster, one after the other: Nearfar's the difference of two runs in steps over that in time, 4 s or more, torch's up to 100
steps or 5 s after the first. Memories are full, nothing is evaluated. torch may take 8 GiB, and 60 s for its first step.

usage: pip install torch==2.15.0 pytorch-metric-learning==2.9.0 numpy==2.4.6 scikit-learn==1.9.1
       python losses.py target/release/nearfar [--seeds 5] [--losses a,b] [--data digits,mirrored,cells] [--proxy-lr 0.05]
                        [--recipes [--alone] | --speed [--memories 0,1024,16384]]
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

# Nearfar's name, PML's class, from the files of the losses; and those that learn proxies.
RULES = Path(__file__).parents[2] / "src/rules/losses"
NAMES = re.findall(r'\(\s*"([a-z-]+)",\s*"', (RULES / "mod.rs").read_text())
TEXTS = {name: (RULES / f"{name.replace('-', '_')}.rs").read_text() for name in NAMES}
LOSSES = {name: re.search(r'PML: &str = "(\w+)"', text)[1] for name, text in TEXTS.items()}
PROXIES = [name for name, text in TEXTS.items() if "ProxyTerms {" in text]
MINERS = {"triplet-margin": "TripletMarginMiner", "multi-similarity": "MultiSimilarityMiner"}
HIDDEN, EMBEDDING = 256, 64
# Nearfar's defaults for its samples of these names, but for the classes in a batch.
RECIPES = {
    "digits": {"batch_size": 32, "optimizer.lr": 0.001, "steps": 400, "m_per_class": 0},
    "cells": {"batch_size": 32, "optimizer.lr": 0.001, "steps": 400, "m_per_class": 0},
    "mirrored": {"batch_size": 64, "optimizer.lr": 0.002, "steps": 600, "m_per_class": 4},
}
LEAST, STEPS, SECONDS, LONG, FIRST, BYTES = 0.005, 100, 5, 4, 60, 8 << 30


def rows_of(name):
    """Features, labels from 0, and which rows are the test."""
    rng = np.random.default_rng(0)
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        return (x / 16).astype("f4"), y, rng.permutation(len(y)) >= len(y) // 2
    if name == "cells":
        cells = np.load(Path(__file__).parents[2] / "src/data/samples/cells.npz")
        y = np.unique(cells["cell_type"], return_inverse=True)[1]
        # Every other cell of each type, in random order.
        order = rng.permutation(len(y))
        order = order[np.argsort(y[order], kind="stable")]
        test = np.zeros(len(y), bool)
        test[order[::2]] = True
        return cells["x"].astype("f4"), y, test
    y = np.repeat(np.arange(650), 10)
    own = rng.normal(size=(650, 12))[y] + 0.25 * rng.normal(size=(len(y), 12))
    own[:, 4:] *= rng.choice([-1, 1], size=(len(y), 8))
    x = np.hstack([own, rng.normal(size=(len(y), 8)), 0.2 * rng.normal(size=(len(y), 4))])
    return (x @ np.linalg.qr(rng.normal(size=(24, 24)))[0]).astype("f4"), y, y >= 500


def write(path, x, y, test):
    lines = [[f"f{i}" for i in range(x.shape[1])] + ["label", "split"]]
    lines += [[f"{v:.9g}" for v in row] + [f"c{c:03}", "test" if t else "train"] for row, c, t in zip(x, y, test)]
    path.write_text("".join(",".join(line) + "\n" for line in lines))


def score(embedded, labels):
    """Precision@1 and MAP@R of rows against each other, by cosine similarity; each has another of its class."""
    unit = embedded / np.linalg.norm(embedded.astype("f8"), axis=1, keepdims=True)
    s = unit @ unit.T
    np.fill_diagonal(s, -np.inf)
    right = labels[np.argsort(-s, axis=1, kind="stable")] == labels[:, None]
    r, ranks = right.sum(1) - 1, np.arange(1, len(labels) + 1)
    at_r = (right * right.cumsum(1) / ranks * (ranks <= r[:, None])).sum(1) / r
    return right[:, 0].mean(), at_r.mean()


def nearfar(asked, folder, data, loss, seed, miner="none", out=None, recipe=None, **more):
    """The report of a run; `more` is over the recipe."""
    sets = {"split": "column:split", "standardize": "false", "validation_fraction": 0, "evaluate_every": 1_000_000}
    if recipe:
        sets |= {key: value for key, value in RECIPES[data].items() if key != "m_per_class" and key not in recipe["sets"]} | more
    else:
        sets |= {"hidden_layers": f"[{HIDDEN}]", "embedding_size": EMBEDDING, "memory_size": 0} | RECIPES[data] | more
        sets |= {"loss.name": loss, "miner.name": miner} | ({"loss.proxy_lr": asked.proxy_lr} if loss in PROXIES else {})
    command = [asked.nearfar, "train", "--engine", "cpu", "--json", "--seed", seed]
    command += ["--data", folder / f"{data}.csv", "--labels", "label"] + (["--out", out] if out else [])
    command += ["--recipe", recipe["name"]] if recipe else []
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else sys.exit(done.stderr)


def first_weights(asked, folder, data, loss, seed, recipe=None):
    """What a run of Nearfar starts from: the head after a step too small to change it."""
    nearfar(asked, folder, data, loss, seed, out=folder / "first", recipe=recipe, **{"steps": 1, "optimizer.lr": 1e-12})
    file = (folder / "first/head.safetensors").read_bytes()
    begin = 8 + int.from_bytes(file[:8], "little")
    tensors = {name: of for name, of in json.loads(file[8:begin]).items() if name != "__metadata__"}
    array = lambda of: np.frombuffer(file[begin:][slice(*of["data_offsets"])], "f4").reshape(of["shape"])
    return {name: torch.tensor(array(of)) for name, of in tensors.items()}


def torch_run(x, y, config, memory=0):
    """The torch side of a config that Nearfar reported: the model, and a function that takes one step. `memory`: rows of it that are
    full before the first."""
    torch.manual_seed(config["seed"])
    # PML's sampler draws from NumPy.
    np.random.seed(config["seed"])
    x, y, linear = torch.tensor(x), torch.tensor(y), torch.nn.Linear
    widths, embedding = [x.shape[1], *config["hidden_layers"]], config["embedding_size"]
    hidden = [layer for pair in zip(widths, widths[1:]) for layer in (linear(*pair), torch.nn.ReLU())]
    model = torch.nn.Sequential(*hidden, linear(widths[-1], embedding))
    compare = {"cosine": distances.CosineSimilarity, "l2": distances.LpDistance}
    arguments = dict(config["loss"])
    name, proxy_lr = arguments.pop("name"), arguments.pop("proxy_lr", None)
    arguments.pop("beta_lr", None)
    arguments |= {"num_classes": int(y.max()) + 1, "embedding_size": embedding} if proxy_lr else {}
    arguments |= {"distance": compare[config["distance"]]()} if name != "normalized-softmax" else {}
    loss = getattr(losses, LOSSES[name])(**arguments)
    groups = [{"params": model.parameters(), "lr": config["optimizer"]["lr"]}]
    groups += [{"params": loss.parameters(), "lr": proxy_lr}] * bool(proxy_lr)
    adam, chosen = torch.optim.Adam(groups), dict(config["miner"])
    mine = getattr(miners, MINERS.get(chosen.pop("name"), ""), None)
    miner = mine and mine(**chosen, distance=compare[config["miner_distance"] or config["distance"]]())
    if config["memory_size"] and not proxy_lr:
        loss, miner = losses.CrossBatchMemory(loss, embedding, config["memory_size"], miner), None
    if memory:
        known = torch.randint(len(y), (memory,))
        loss.add_to_memory(model(x[known]).detach(), y[known], memory)
    batch, order, m = config["batch_size"], [], config["sampler"].get("m")
    sampler = m and samplers.MPerClassSampler(y.numpy(), m, batch, length_before_new_iter=len(y))

    def step():
        if not order:
            epoch = torch.tensor(list(sampler)) if m else torch.randperm(len(y))
            order.extend(epoch[: len(y) // batch * batch].split(batch))
        embedded = model(x[rows := order.pop()])
        value = loss(embedded, y[rows], miner(embedded, y[rows])) if miner else loss(embedded, y[rows])
        adam.zero_grad()
        value.backward()
        adam.step()

    return model, step


def trained(x, y, config, weights, test):
    """Test rows embedded by torch's head, after the steps of a config."""
    model, step = torch_run(x, y, config)
    model.load_state_dict(weights)
    for _ in range(config["steps"]):
        step()
    return model(torch.tensor(test)).detach().numpy()


def recipes(asked, folder, data):
    """The table of the recipes, and those that do not reach PML's."""
    torch.set_num_threads(2)
    (x, y, test), short = rows_of(data), []
    said = subprocess.run([asked.nearfar, "recipes"], capture_output=True, text=True, check=True).stdout.split("\n\n")
    head = "recipe | ours, precision@1 | PML | ours, MAP@R | PML | seconds | peak memory"
    print(f"\n{data}:\n\n| {head} |\n|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for name, sets in [(lines[0], lines[2]) for lines in (text.strip().split("\n") for text in said) if len(lines) > 2]:
        recipe, scores, rest = {"name": name, "sets": sets}, np.full((2, asked.seeds, 2), np.nan), []
        for i in range(asked.seeds):
            report = nearfar(asked, folder, data, None, i, out=folder / "out", recipe=recipe)
            labels = np.array((folder / "out/test_labels.csv").read_text().split()[1:])
            scores[0, i] = score(np.load(folder / "out/test_embeddings.npy"), labels)
            rest.append((report["elapsed_ms"] / 1e3, report["memory"]["peak_bytes"] / 2**20))
            if report["config"]["initial_weights"] == "random" and not asked.alone:
                weights = first_weights(asked, folder, data, None, i, recipe)
                scores[1, i] = score(trained(x[~test], y[~test], report["config"], weights, x[test]), y[test])
        means, spreads = scores.mean(1), scores.std(1, ddof=1)
        cells = [name]
        for metric in (0, 1):
            both = [f"{means[side, metric]:.3f} +- {spreads[side, metric]:.3f}" for side in (0, 1)]
            cells += [both[0], "" if np.isnan(means[1, metric]) else both[1]]
        seconds, mebibytes = np.median(rest, axis=0)
        print(f"| {' | '.join(cells)} | {seconds:.2g} | {mebibytes:.1f} MiB |", flush=True)
        if (means[0] < means[1] - np.maximum(spreads[1], LEAST)).any():
            short.append(f"{data}: recipe {name}")
    return short


def quality(asked, folder, data):
    """The table of a set of rows, and the losses that do not reach PML's."""
    torch.set_num_threads(1)
    (x, y, test), short, apart = rows_of(data), [], 0
    head = "loss | ours, precision@1 | PML | standard errors apart | ours, MAP@R | PML | standard errors apart | reaches PML's"
    print(f"\n{data}:\n\n| {head} |\n|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    cases = [(loss, miner) for loss in asked.losses for miner in ["none"] + [loss] * (loss in MINERS)]
    for loss, miner, first in [(*case, first) for case in cases for first in (0, asked.seeds)]:
        name = f"{data}: {loss}" + f", miner {miner}" * (miner != "none")
        if first and name not in short:
            continue
        scores, out = np.empty((2, asked.seeds, 2)), folder / "out"
        for i in range(asked.seeds):
            report = nearfar(asked, folder, data, loss, first + i, miner, out)
            labels = np.array((out / "test_labels.csv").read_text().split()[1:])
            scores[0, i] = score(np.load(out / "test_embeddings.npy"), labels)
            said = [report["final"]["test"][key] for key in ("precision_at_1", "mean_average_precision_at_r")]
            apart = max(apart, abs(said - scores[0, i]).max())
            weights = first_weights(asked, folder, data, loss, first + i)
            scores[1, i] = score(trained(x[~test], y[~test], report["config"], weights, x[test]), y[test])
        means, spreads = scores.mean(1), scores.std(1, ddof=1)
        errors = (scores[0] - scores[1]).std(0, ddof=1) / asked.seeds**0.5
        cells = [name.split(": ")[1] + ", other seeds" * bool(first)]
        for metric in (0, 1):
            cells += [f"{means[side, metric]:.3f} +- {spreads[side, metric]:.3f}" for side in (0, 1)]
            cells.append(f"{(means[0] - means[1])[metric] / max(errors[metric], 1e-9):+.1f}")
        reaches = (means[0] >= means[1] - np.maximum(spreads[1], LEAST)).all()
        short = [other for other in short if other != name] + [name] * (not reaches)
        print(f"| {' | '.join(cells)} | {'yes' if reaches else '**no**'} |", flush=True)
    print(f"\nNearfar's own report is at most {apart:.0e} from these scores of its test rows.")
    return short + [f"{data}: what Nearfar reports is not its score"] * int(apart > 1e-3)


def timed(data, config, threads):
    """One process of torch's: says its steps and seconds."""
    torch.set_num_threads(int(threads))
    config, (x, y, test) = json.loads(config), rows_of(data)
    _, step = torch_run(x[~test], y[~test], config, config["memory_size"])
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    signal.alarm(FIRST)
    step()
    signal.alarm(0)
    count, started = 0, time.perf_counter()
    while count < STEPS and time.perf_counter() < started + SECONDS:
        step()
        count += 1
    print(count, time.perf_counter() - started)


def of_torch(data, config, threads):
    """Steps a second, and what the cell says."""
    command = [sys.executable, __file__, data, json.dumps(config), str(threads)]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode == -signal.SIGALRM:
        return 0, f"no step in {FIRST} s"
    if child.returncode:
        more = re.search(r"tried to allocate (\d+) bytes", child.stderr) or sys.exit(child.stderr)
        return 0, f"out of its 8 GiB, asks for {int(more[1]) / 2**30:.1f} more"
    count, seconds = map(float, child.stdout.split())
    all_ = STEPS * seconds / count
    return count / seconds, f"{count / seconds:.3g}" + (f" ({STEPS} steps would take {all_:.0f} s)" if all_ > 60 else "")


def speed(asked, folder, data):
    print(f"\n{data}, batch {RECIPES[data]['batch_size']}, steps a second:\n")
    print("| loss | memory | ours | torch, PML | ours / PML |\n|---|--:|--:|--:|--:|", flush=True)
    for loss in asked.losses:
        for memory in asked.memories[: 1 if loss in PROXIES else None]:
            least, more, seconds = memory // RECIPES[data]["batch_size"] + 20, 50, 0
            while seconds < LONG:
                more *= 2
                runs = [nearfar(asked, folder, data, loss, 0, memory_size=memory, steps=least + n) for n in (0, more)]
                seconds = (runs[1]["elapsed_ms"] - runs[0]["elapsed_ms"]) / 1e3
            rate, said = max(of_torch(data, runs[0]["config"], threads) for threads in (1, 2))
            own, ratio = more / seconds, f"{more / seconds / rate:.3g}" if rate else ""
            print(f"| {loss} | {memory:,} | {own:.3g} | {said} | {ratio} |", flush=True)
    return []


def main():
    if sys.argv[1:] and sys.argv[1] in RECIPES:
        return timed(*sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nearfar", type=lambda text: Path(text).resolve())
    parser.add_argument("--seeds", default=5, type=int)
    for name, every in (("--losses", LOSSES), ("--data", RECIPES)):
        parser.add_argument(name, default=list(every), type=lambda text: text.split(","))
    parser.add_argument("--proxy-lr", default=0.05, type=float)
    parser.add_argument("--recipes", action="store_true")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--speed", action="store_true")
    whole = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--memories", default=[0, 1024, 16384], type=whole)
    asked = parser.parse_args()
    before, short = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for data in asked.data:
            write(Path(folder) / f"{data}.csv", *rows_of(data))
            table = recipes if asked.recipes else speed if asked.speed else quality
            short += table(asked, Path(folder), data)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    print(f"\n{machine}; load before and after: {before:.1f}, {os.getloadavg()[0]:.1f}.")
    print("".join(f"does not reach PML's: {name}\n" for name in short), end="")
    return len(short) > 0


if __name__ == "__main__":
    sys.exit(main())
