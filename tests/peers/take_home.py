"""Takes home what Nearfar trains, and compares what other programs make of it with what Nearfar says.

Round trip: heads of several shapes, with and without scaling, are trained, and rows go through `nearfar embed`, onnxruntime (one row
and all at once), torch with the safetensors, the lines of the model card, and sentence_transformers: within 1e-5 everywhere. --plant puts faults into each of
these and fails unless every one is rejected. The folder, its archive and every piece that `export` makes of either have the same
bytes.

Gaps: of a file with empty cells the head keeps the medians, and onnxruntime and the card's lines fill them as `nearfar embed` does.

Script: `nearfar_train.py` of a run, plain and under torchrun with two processes (gloo, on the CPU).
- Without a step, precision@1 of the test rows is that of Nearfar's report: same rows, sides, scaling and scores.
- Plain and in two processes the weights after ten steps are equal within 1e-4.
- From new weights, over the seeds, the mean of precision@1 is within the larger of both standard deviations, or 0.01, of
  Nearfar's; of two processes too.
Exits with 1 where something differs.

usage: pip install -r take_home.txt
       python take_home.py target/release/nearfar [--plant] [--seeds 3] [--steps 150]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

TOLERANCE, SPREAD = 1e-5, 0.01
HEADS = {
    "one hidden layer": [],
    "two hidden layers": ["hidden_layers=[32,16]", "embedding_size=7"],
    "six hidden layers": ["hidden_layers=[32,24,16,24,16,12]", "embedding_size=7"],
    "linear": ["hidden_layers=[]"],
    "GELU": ["hidden_layers=[32,16]", "layers.activation=gelu"],
    "layer norm": ["hidden_layers=[32,16]", "layers.norm=layer-norm"],
    "layer norm, GELU, scaled": ["hidden_layers=[32,24]", "layers.norm=layer-norm", "layers.activation=gelu", "standardize=true"],
    "batch norm": ["hidden_layers=[32,16]", "layers.norm=batch-norm"],
    "batch norm, GELU, scaled": ["hidden_layers=[32,24]", "layers.norm=batch-norm", "layers.activation=gelu", "standardize=true"],
    "scaled": ["standardize=true"],
    "skip": ["hidden_layers=[32,16]", "layers.skip=true"],
    "skip, GELU, scaled": ["hidden_layers=[32]", "layers.skip=true", "layers.activation=gelu", "standardize=true"],
    "skip from the linear map, batch norm, scaled": ["hidden_layers=[32,24]", "layers.skip=true", "layers.norm=batch-norm", "initial_weights=lda",
                                                     "standardize=true"],
    "skip, layer norm": ["hidden_layers=[32]", "layers.skip=true", "layers.norm=layer-norm"],
    "by distance": ["distance=l2"],
}
SCRIPTS = {
    "triplets, four of a class": ["m_per_class=4", "memory_size=0"],
    "triplets, memory, centred": ["memory_size=64", "center_gradient=true", "batch_size=16"],
    "multi-similarity, memory": ["loss=multi-similarity", "miner=multi-similarity"],
    "margin, its boundary learned": ["loss=margin", "loss.learn_beta=true", "miner=none", "memory_size=0", "m_per_class=4"],
    "triplets, dropout": ["dropout=0.2", "m_per_class=4", "memory_size=0"],
    "triplets, layer norm": ["layers.norm=layer-norm", "m_per_class=4", "memory_size=0"],
    "triplets, a skip, scaled": ["layers.skip=true", "standardize=true", "m_per_class=4", "memory_size=0"],
    "triplets, GELU": ["layers.activation=gelu", "m_per_class=4", "memory_size=0"],
    "proxy-anchor, scaled": ["loss=proxy-anchor", "standardize=true"],
    "proxy-anchor, AdamW, one cycle, clipped": ["loss=proxy-anchor", "optimizer=adamw", "schedule=one-cycle", "clip_grad_norm=5"],
    "triplets, SGD, cosine": ["m_per_class=4", "memory_size=0", "optimizer=sgd", "optimizer.lr=0.1", "optimizer.momentum=0.9",
                              "optimizer.nesterov=true", "optimizer.weight_decay=0.0001", "schedule=cosine-annealing"],
    "margin, Adam, warm-up, its boundary learned": ["loss=margin", "loss.learn_beta=true", "miner=none", "memory_size=0", "m_per_class=4",
                                                    "optimizer.weight_decay=0.001", "schedule=linear", "schedule.total_iters=20"],
    "triplets, AdamW, steps": ["m_per_class=4", "memory_size=0", "optimizer=adamw", "schedule=step", "schedule.step_size=50",
                               "schedule.gamma=0.5"],
    "triplets, memory, three sizes": ["matryoshka.dims=[32,16,8]", "memory_size=64", "batch_size=16"],
    "multi-similarity, two sizes, weighed": ["loss=multi-similarity", "miner=multi-similarity", "matryoshka.dims=[32,8]",
                                             "matryoshka.weights=[1,0.5]", "m_per_class=4", "memory_size=0"],
    "soft-triple, weighed": ["loss=soft-triple", "miner=multi-similarity", "miner_weights=true"],
    # Batches that draw a row twice are compared by cosine: at distance 0 torch's distances are as rough as 3e-4.
    "contrastive, equal classes": ["loss=contrastive", "loss.pos_margin=1", "loss.neg_margin=0.5", "miner=none", "memory_size=256",
                                   "sampler=class-balanced"],
    "lifted structure by distance": ["loss=lifted-structure", "distance=l2", "miner=pair-margin", "m_per_class=4", "memory_size=0"],
}


def nearfar(asked, *words):
    done = subprocess.run([asked.nearfar, *map(str, words)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(f"{words}: {done.stderr}")


def train(asked, out, data, sets, seed=0, more=()):
    words = ["train", "--engine", "cpu", "--json", "--data", data, "--out", out, "--seed", seed, *more]
    return json.loads(nearfar(asked, *words, *[word for set in sets for word in ("--set", set)]))


def table(folder):
    """A CSV whose columns have different sizes, and names and labels that are markup, formulas and words of other programs."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 6
    x = (rng.normal(size=(6, 5))[y] + 0.4 * rng.normal(size=(240, 5))) * [1, 10, 100, 1e3, 0.1] + [0, 5, 0, -300, 7]
    labels = ["=1+1", "<b>bold</b>", "-x", "'''", "a,b", "naïve"]
    lines = ['"<i>",=b,"c,d",@e,f,kind'] + [",".join(f"{v:.7g}" for v in row) + ',"' + labels[c] + '"' for row, c in zip(x, y)]
    path = folder / "odd <name>.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, x.astype("f4")


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


ACTIVATIONS = dict(relu=torch.nn.functional.relu, gelu=torch.nn.functional.gelu)


def through_torch(run, x, activated=True):
    tensors = load_file(run / "head.safetensors")
    with safe_open(run / "head.safetensors", "pt") as file:
        activation = ACTIVATIONS[file.metadata().get("activation", "relu")]
    rows = torch.from_numpy(x)
    skip = tensors.pop("skip.weight", None)
    last = max(int(name.split(".")[0]) for name in tensors)
    linear = sorted(int(name.split(".")[0]) for name, tensor in tensors.items() if tensor.ndim == 2)
    for index in linear:
        rows = torch.nn.functional.linear(rows, tensors[f"{index}.weight"], tensors[f"{index}.bias"])
        norm = {name: tensors.get(f"{index + 1}.{name}") for name in ("weight", "bias", "running_mean", "running_var")}
        if norm["running_mean"] is not None:
            rows = torch.nn.functional.batch_norm(rows, **norm)
        elif index < last and norm["weight"] is not None:
            rows = torch.nn.functional.layer_norm(rows, rows.shape[1:], norm["weight"], norm["bias"])
        if index < last and activated:
            rows = activation(rows)
    if skip is not None:
        rows = rows + torch.from_numpy(x) @ skip.T
    return rows.numpy()


def through_card(run, x, program="PyTorch"):
    """What the lines for a program in the model card make of rows."""
    text = (run / "model_card.md").read_text()
    code = text.split(f"## In {program}\n\n```python\n")[1].split("```")[0]
    lines = code.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("rows = "))
    lines[at] = "rows = given.copy()" if program == "ONNX Runtime" else "rows = given.clone()"
    names = {"given": x if program == "ONNX Runtime" else torch.from_numpy(x)}
    before = os.getcwd()
    os.chdir(run)
    try:
        exec("\n".join(lines), names)
    finally:
        os.chdir(before)
    return np.asarray(names["embeddings"])


def through_onnx(path, x):
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    whole = session.run(["embeddings"], {"features": x})[0]
    one = np.concatenate([session.run(None, {"features": row[None]})[0] for row in x[:5]])
    assert abs(one - whole[:5]).max() < TOLERANCE, "one row at a time is another result"
    return whole


def through_sentence_transformers(path, x):
    model = SentenceTransformer(str(path), device="cpu")
    with torch.no_grad():
        return model({"sentence_embedding": torch.from_numpy(x)})["sentence_embedding"].numpy()


def differs(ours, theirs):
    return ours.shape != theirs.shape or not abs(ours.astype("f8") - theirs).max() <= TOLERANCE


def planted(run, x, folder):
    """Faults of exports, by what is wrong."""
    broken = onnx.load(run / "head.onnx")
    weights = onnx.numpy_helper.to_array(broken.graph.initializer[0])
    yield "unit length is forgotten", through_torch(run, x)
    if len(load_file(run / "head.safetensors")) > 2:
        yield "the activation is forgotten", unit(through_torch(run, x, activated=False))
    yield "two rows are swapped", unit(through_torch(run, x))[[1, 0, *range(2, len(x))]]
    yield "a column is another", unit(through_torch(run, x[:, [1, 0, *range(2, x.shape[1])]]))
    yield "rows are scaled twice", unit(through_torch(run, (x - x.mean(0)) / np.where(x.std(0) == 0, 1, x.std(0))))
    changed = weights.copy()
    changed.flat[abs(changed).argmax()] *= 1.01
    broken.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(changed, broken.graph.initializer[0].name))
    onnx.save(broken, folder / "broken.onnx")
    yield "one weight is off by a hundredth", through_onnx(folder / "broken.onnx", x)


def round_trip(asked, folder):
    """What differs."""
    wrong, (csv, odd) = [], table(folder)
    small = ["steps=30", "batch_size=32", "memory_size=64"]
    for name, sets in HEADS.items():
        for data, x in ((csv, odd), ("sample:digits", None)):
            run, out = folder / "run", folder / "x.npy"
            shutil.rmtree(run, ignore_errors=True)
            train(asked, run, data, small + sets)
            if x is None:
                x = np.load(run / "nearfar_data.npz")["X"]
            nearfar(asked, "embed", "--engine", "cpu", "--model", run, "--data", data, "--out", out)
            ours = np.load(out)
            theirs = {
                "onnxruntime": through_onnx(run / "head.onnx", x),
                "torch": unit(through_torch(run, x)),
                "model card": through_card(run, x),
                "its lines for ONNX Runtime": through_card(run, x, "ONNX Runtime"),
            }
            chain = run / "sentence-transformers"
            if chain.exists() == ("skip" in name and "layer norm" in name):
                wrong.append(f"{name}: the modules of sentence-transformers are {'' if chain.exists() else 'not '}there")
            elif chain.exists():
                theirs["sentence_transformers"] = through_sentence_transformers(chain, x)
            off = {peer: float(abs(ours - rows).max()) for peer, rows in theirs.items()}
            print(f"{name}, {Path(str(data)).name}: largest differences {', '.join(f'{k} {v:.1e}' for k, v in off.items())}")
            wrong += [f"{name}, {data}: {peer}" for peer, rows in theirs.items() if differs(ours, rows)]
            if asked.plant:
                wrong += [f"{name}: not rejected: {what}" for what, rows in planted(run, x, folder) if not differs(ours, rows)]
    wrong += gaps(asked, folder, csv, odd)
    # The archive holds the files of the folder, and gives what the folder gives.
    archive = folder / "run.zip"
    nearfar(asked, "export", run, "--format", "zip", "--out", archive)
    files = {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with zipfile.ZipFile(archive) as opened:
        held = {name: opened.read(name) for name in opened.namelist()}
    wrong += [f"archive: {name}" for name in files.keys() | held.keys() if files.get(name) != held.get(name)]
    nearfar(asked, "embed", "--engine", "cpu", "--model", archive, "--data", "sample:digits", "--out", out)
    wrong += [] if np.array_equal(np.load(out), ours) else ["archive: embed"]
    for piece, name in (("safetensors", "head.safetensors"), ("onnx", "head.onnx"), ("card", "model_card.md"), ("report", "report.html"),
                        ("settings", "config.json"), ("history-csv", "history.csv"), ("history", "history.json"), ("npy", "test_embeddings.npy"),
                        ("labels", "test_labels.csv"), ("memory", "memory.npz")):
        for source in (run, archive):
            nearfar(asked, "export", source, "--format", piece, "--out", folder / "piece")
            wrong += [] if (folder / "piece").read_bytes() == files[name] else [f"{piece} of {source.name}"]
    for side in ("test", "train", "validation", "all"):
        nearfar(asked, "export", run, "--format", "npy", "--side", side, "--data", "sample:digits", "--engine", "cpu", "--out", folder / "side.npy")
        sides = np.load(run / "sides.npy")
        rows = sides == ("train", "validation", "test", None).index(side if side != "all" else None) if side != "all" else sides >= 0
        wrong += [f"side {side}"] if differs(np.load(folder / "side.npy"), ours[rows]) else []
    nearfar(asked, "export", run, "--format", "neighbours", "--engine", "cpu", "--out", folder / "n.npz")
    near, test = np.load(folder / "n.npz"), np.flatnonzero(sides == 2)
    similarities = ours[test].astype("f8") @ ours[test].T.astype("f8")
    np.fill_diagonal(similarities, -2)
    best = np.sort(similarities, 1)[:, ::-1][:, : near["ids"].shape[1]]
    wrong += ["neighbours"] if differs(near["similarities"], best) or not np.array_equal(near["rows"], test) else []
    print(f"archive of {len(held)} files and its pieces: {'as the folder' if not wrong else 'DIFFERS'}")
    return wrong


def gaps(asked, folder, csv, odd):
    """What differs where cells held no number: whoever embeds fills them with the medians that went with the head."""
    text, x = csv.read_text().splitlines(), odd.copy()
    for row, column in ((3, 0), (17, 0), (40, 4)):
        cells = text[row + 1].split(",")
        cells[column], x[row, column] = "", np.nan
        text[row + 1] = ",".join(cells)
    holes, run, out = folder / "holes.csv", folder / "gaps", folder / "x.npy"
    holes.write_text("\n".join(text) + "\n")
    train(asked, run, holes, ["steps=30", "batch_size=32", "memory_size=64", "standardize=true"], more=("--missing", "median"))
    nearfar(asked, "embed", "--engine", "cpu", "--model", run, "--data", holes, "--out", out)
    ours = np.load(out)
    theirs = {"onnxruntime": through_onnx(run / "head.onnx", x), "model card": through_card(run, x)}
    print(f"gaps: largest differences {', '.join(f'{k} {abs(ours - v).max():.1e}' for k, v in theirs.items())}")
    wrong = [f"gaps: {peer}" for peer, rows in theirs.items() if differs(ours, rows)]
    if asked.plant and not differs(ours, through_card(run, np.nan_to_num(x))):
        wrong.append("gaps: not rejected: zeros in place of medians")
    return wrong


def script(run, *words, processes=1):
    command = [sys.executable, "nearfar_train.py"] if processes == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "nearfar_train.py"]
    done = subprocess.run([*command, *map(str, words)], cwd=run, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else sys.exit(f"{run}: {done.stderr[-3000:]}")


def scripts(asked, folder):
    """What differs."""
    wrong, (csv, _) = [], table(folder)
    print("\n| recipe | precision@1: Nearfar | the script | in two processes | after ten steps, one and two apart |\n|---|--:|--:|--:|--:|", flush=True)
    for name, sets in SCRIPTS.items():
        run, scores = folder / "run", np.zeros((3, asked.seeds))
        for seed in range(asked.seeds):
            common = ["standardize=false", f"steps={asked.steps}", "evaluate_every=100000", "hidden_layers=[64]", "embedding_size=32"]
            report = train(asked, run, "sample:digits", common + sets, seed)
            scores[0, seed] = report["final"]["test"]["precision_at_1"]
            same = script(run, "--steps", 0, processes=1 + seed % 2)
            if abs(same["precision_at_1"] - scores[0, seed]) > 1e-3 or same["queries"] != report["final"]["test"]["queries"]:
                wrong.append(f"{name}: without a step {same}, Nearfar {scores[0, seed]}")
            for row, processes in ((1, 1), (2, 2)):
                scores[row, seed] = script(run, "--fresh", processes=processes)["precision_at_1"]
        heads = []
        for processes in (1, 2):
            out = folder / f"{processes}.safetensors"
            script(run, "--steps", 10, "--out", out, processes=processes)
            heads.append(load_file(out))
            nearfar(asked, "embed", "--engine", "cpu", "--model", out, "--data", "sample:digits", "--out", folder / "x.npy")
        apart = max(float((heads[0][key] - heads[1][key]).abs().max()) for key in heads[0])
        means, spreads = scores.mean(1), scores.std(1, ddof=1)
        cells = [f"{mean:.3f} +- {spread:.3f}" for mean, spread in zip(means, spreads)]
        print(f"| {name} | {' | '.join(cells)} | {apart:.0e} |", flush=True)
        near = abs(means - means[0]) <= max(SPREAD, *spreads)
        wrong += [f"{name}: {cells}"] * (not near.all()) + [f"{name}: one and two processes {apart} apart"] * (apart > 1e-4)
    # A table with odd names, scaled, mixed precision: it reads, trains and scores as Nearfar does.
    report = train(asked, run, csv, ["steps=40", "standardize=true", "batch_size=32", "memory_size=64"])
    same = script(run, "--steps", 0, "--data", csv)
    if abs(same["precision_at_1"] - report["final"]["test"]["precision_at_1"]) > 1e-3:
        wrong.append(f"table: {same}, Nearfar {report['final']['test']}")
    mixed = script(run, "--data", csv, "--amp", "--fresh")
    print(f"\na table, scaled: Nearfar {report['final']['test']['precision_at_1']:.3f}, the script {same['precision_at_1']:.3f}, trained anew in "
          f"mixed precision {mixed['precision_at_1']:.3f}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nearfar")
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--only", choices=["round-trip", "scripts"])
    asked = parser.parse_args()
    asked.nearfar = str(Path(asked.nearfar).resolve())
    with tempfile.TemporaryDirectory() as folder:
        wrong = round_trip(asked, Path(folder)) if asked.only != "scripts" else []
        wrong += scripts(asked, Path(folder)) if asked.only != "round-trip" else []
    for what in wrong:
        print(f"DIFFERS: {what}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
