"""What the default training does on real labelled tables, beside what people would take instead.

    pip install -r tests/peers/tables.txt && cargo build --release --bin nearfar
    python tests/peers/tables.py --prepare                       # once: collects the tables (tests/peers/table_sources.py)
    python tests/peers/tables.py --half a --set memory_size=0    # --half a to choose settings on, --half b to confirm them
    python tests/peers/tables.py --leaders                       # whether the leader of `nearfar compare` is the best on fresh rows
    python tests/peers/tables.py --plant                         # checks that the comparison can fail

A third of each table is put away, "fresh"; nothing but scores comes from it. On the other two thirds, "given":

raw, centred, scaled  no training: rows as they are, less the mean of the given rows, and through StandardScaler as well
pml         the usual script of pytorch-metric-learning: StandardScaler, two layers (256, 64), semi-hard triplets, 400 steps
lda         scikit-learn's LDA, shrinkage and outputs chosen on a quarter of the given rows, fitted on the others;
lda_distance  the same, its nearest rows by distance
nca         scikit-learn's NCA, at most 1,000 rows and 200 columns
head, linear  what `nearfar train` saves, with its defaults or --set: head.safetensors and linear.safetensors

Scores are precision@1 and MAP@R among the fresh rows themselves by cosine similarity, in f64. All options but --nearfar and
--set give the same peers again, so these are kept in peers.json in the data folder.
"""
import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

PEERS_VERSION = 1  # counts up when a peer is changed, so that none kept from before is taken
QUERIES = 1500  # fresh rows that are looked up among all others; the same for every peer
PEERS = ["raw", "centred", "scaled", "pml", "lda", "lda_distance", "nca"]
SHRINKAGES = [0.1, 0.3, 0.5, 0.7, 0.9, "auto"]


# Tables

def table_names(data):
    return sorted(path.parent.name for path in data.glob("*/rows.npy"))


def half_of(names, half):
    """Every second table in the order of the names' hashes: the same halves as long as the tables are the same."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return sorted(ordered[{"a": 0, "b": 1}[half]::2]) if half else names


def split_table(data, name, seed):
    """Given rows and labels, fresh rows and labels: a third of each class fresh; saved as files for nearfar."""
    rows, labels = np.load(data / name / "rows.npy"), np.load(data / name / "labels.npy")
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(rows))
    fresh = np.zeros(len(rows), dtype=bool)
    for label in np.unique(labels):
        fresh[order[labels[order] == label][::3]] = True
    parts = order[~fresh[order]], order[fresh[order]]
    folder = data / name / f"seed-{seed}"
    if not (folder / "fresh.npy").exists():
        folder.mkdir(exist_ok=True)
        for part, which in zip(parts, ["given", "fresh"]):
            np.save(folder / f"{which}_labels.npy", labels[part])
            np.save(folder / f"{which}.npy", rows[part])
    given, kept = parts
    return rows[given].astype(np.float64), labels[given], rows[kept].astype(np.float64), labels[kept]


# Scores

def score(z, labels, by_distance=False, queries=QUERIES):
    """Precision@1 and MAP@R of the first `queries` rows among all others; rows without another of their class are left out."""
    z = np.asarray(z, dtype=np.float64)
    if not np.isfinite(z).all():
        return {"p1": float("nan"), "map": float("nan")}
    if not by_distance:
        z = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
    codes = np.unique(labels, return_inverse=True)[1]
    others = np.bincount(codes)[codes] - 1
    first, average = [], []
    for start in range(0, min(queries, len(z)), 256):
        at = np.arange(start, min(start + 256, queries, len(z)))
        similarity = z[at] @ z.T
        if by_distance:
            similarity = 2 * similarity - (z ** 2).sum(axis=1)
        similarity[np.arange(len(at)), at] = -np.inf
        at_most = others[at].max()
        if at_most == 0:
            continue
        nearest = largest_first(similarity, at_most)
        same = codes[nearest] == codes[at][:, None]
        places = np.arange(1, at_most + 1)
        precision = np.cumsum(same, axis=1) / places
        within = places <= others[at][:, None]
        has_other = others[at] > 0
        first.append(same[has_other, 0])
        average.append(((precision * same * within).sum(axis=1) / np.maximum(others[at], 1))[has_other])
    return {"p1": float(np.concatenate(first).mean()), "map": float(np.concatenate(average).mean())}


def largest_first(similarity, count):
    """The columns of the `count` largest of each row, largest first."""
    if count * 4 < similarity.shape[1]:
        part = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        inner = np.argsort(-np.take_along_axis(similarity, part, axis=1), axis=1, kind="stable")
        return np.take_along_axis(part, inner, axis=1)
    return np.argsort(-similarity, axis=1, kind="stable")[:, :count]


# Peers

def run_pml(given, labels, fresh, fresh_labels, seed):
    import torch
    from pytorch_metric_learning import distances, losses, miners
    from sklearn.preprocessing import StandardScaler
    torch.manual_seed(seed)
    scaler = StandardScaler().fit(given)
    x = torch.tensor(scaler.transform(given), dtype=torch.float32)
    y = torch.tensor(np.unique(labels, return_inverse=True)[1])
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    cosine = distances.CosineSimilarity()
    miner = miners.TripletMarginMiner(margin=0.2, distance=cosine, type_of_triplets="semihard")
    loss_of = losses.TripletMarginLoss(margin=0.2, distance=cosine)
    batch, batches = min(64, len(x)), iter(())
    for _ in range(400):
        part = next(batches, None)
        if part is None or len(part) < batch:
            batches = iter(torch.randperm(len(x)).split(batch))
            part = next(batches)
        z = model(x[part])
        loss = loss_of(z, y[part], miner(z, y[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z = model(torch.tensor(scaler.transform(fresh), dtype=torch.float32)).numpy()
    return {"pml": score(z, fresh_labels)}


def run_lda(given, labels, fresh, fresh_labels, seed):
    """Both inputs (as they are, scaled), every shrinkage and number of outputs, cosine or distance: the best on a quarter."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler
    draw = np.random.default_rng(seed)
    quarter = np.zeros(len(given), dtype=bool)
    for label in np.unique(labels):
        quarter[draw.permutation(np.flatnonzero(labels == label))[::4]] = True
    tried, own = {False: [], True: []}, {}
    for scaled in [False, True]:
        center = given[~quarter].mean(axis=0)
        prepare = StandardScaler().fit(given[~quarter]).transform if scaled else (lambda rows: rows - center)
        fit, check, test = prepare(given[~quarter]), prepare(given[quarter]), prepare(fresh)
        if fit.shape[1] > 1100:  # turned into the rows' own span, outside of which the rows to fit have no spread
            _, spread, turn = np.linalg.svd(fit, full_matrices=False)
            turn = turn[spread > 1e-9 * spread[0]].T
            fit, check, test = fit @ turn, check @ turn, test @ turn
        for shrinkage in SHRINKAGES:
            try:
                lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(fit, labels[~quarter])
            except (ValueError, np.linalg.LinAlgError):
                continue
            outputs = min(len(np.unique(labels[~quarter])) - 1, fit.shape[1])
            mean = (fit @ lda.scalings_[:, :outputs]).mean(axis=0)
            to_check, to_test = (rows @ lda.scalings_[:, :outputs] - mean for rows in [check, test])
            own[f"{'scaled' if scaled else 'as is'}, {shrinkage}"] = score(to_test, fresh_labels)
            for cut in sorted({min(cut, outputs) for cut in [8, 16, 32, outputs]}):
                for by_distance in [False, True]:
                    found = score(to_check[:, :cut], labels[quarter], by_distance, 500)["map"]
                    chosen = f"{'scaled' if scaled else 'as is'}, shrinkage {shrinkage}, {cut} outputs"
                    tried[by_distance].append((found, chosen, to_test[:, :cut]))
    results = {}
    for by_distance, name in [(False, "lda"), (True, "lda_distance")]:
        found, chosen, z = max(tried[by_distance], key=lambda row: row[0])
        results[name] = {**score(z, fresh_labels, by_distance), "chosen": chosen, "validation_map": found}
    results["lda"]["own"] = own
    return results


def run_nca(given, labels, fresh, fresh_labels, seed):
    from sklearn.neighbors import NeighborhoodComponentsAnalysis
    from sklearn.preprocessing import StandardScaler
    if given.shape[1] > 200:
        return {"nca": {"skipped": f"{given.shape[1]} columns"}}
    part = np.random.default_rng(seed).permutation(len(given))[:1000]
    scaler = StandardScaler().fit(given[part])
    nca = NeighborhoodComponentsAnalysis(n_components=min(32, given.shape[1]), max_iter=30, random_state=seed)
    nca.fit(scaler.transform(given[part]), labels[part])
    center = nca.transform(scaler.transform(given[part])).mean(axis=0)
    return {"nca": score(nca.transform(scaler.transform(fresh)) - center, fresh_labels)}


def run_untrained(given, labels, fresh, fresh_labels, seed):
    spread = given.std(axis=0)
    centred = fresh - given.mean(axis=0)
    scaled = centred / np.where(spread > 1e-9 * np.maximum(1e-30, np.abs(given).max(axis=0)), spread, 1)
    return {name: score(z, fresh_labels) for name, z in [("raw", fresh), ("centred", centred), ("scaled", scaled)]}


class KeptPeers:
    """Results of the peers, kept in a file by table, seed, peer, version and what the table holds."""

    def __init__(self, path, only_kept):
        self.path, self.only_kept = path, only_kept
        self.kept = json.loads(path.read_text()) if path.exists() else {}

    def of(self, name, seed, split):
        content = hashlib.sha256(split[0].tobytes() + "|".join(split[1]).encode()).hexdigest()[:8]
        key = lambda peer: f"{name}/{seed}/{peer}/{PEERS_VERSION}/{content}"
        for run, peers in [(run_untrained, PEERS[:3]), (run_pml, ["pml"]), (run_lda, PEERS[4:6]), (run_nca, ["nca"])]:
            if self.only_kept and run is not run_untrained or all(key(peer) in self.kept for peer in peers):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.monotonic()
                results = run(*split, seed)
            for peer, result in results.items():
                self.kept[key(peer)] = {**result, "seconds": round(time.monotonic() - start, 2)}
            partial = self.path.with_suffix(".part")
            partial.write_text(json.dumps(self.kept, indent=0))
            partial.replace(self.path)
        return {peer: self.kept[key(peer)] for peer in PEERS if key(peer) in self.kept}


# Nearfar

def run_nearfar(options, name, seed, split):
    """Trains on the given rows; scores what is saved; says what was claimed, chosen, warned of, and what does not load."""
    table = options.data / name / f"seed-{seed}"
    folder = options.data / "runs" / f"{name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    common = ["--engine", "cpu"]
    files = ["--data", table / "given.npy", "--labels", table / "given_labels.npy"]
    sets = [part for setting in options.set for part in ("--set", setting)]
    start = time.monotonic()
    done = call(options.nearfar, "train", *files, "--seed", seed, "--out", folder, "--json", *common, *sets)
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    report = json.loads(done.stdout)
    config = report["config"]
    result = {"seconds": round(time.monotonic() - start, 2), "verdict": report["verdict"], "warnings": report["warnings"],
              "notes": report["data"]["notes"], "standardized": report["data"]["standardized"],
              "scaling": report["data"].get("scaling"), "compared": report["compared"],
              "config": {k: config.get(k) for k in ["hidden_layers", "embedding_size", "batch_size", "memory_size", "sampler", "loss", "miner",
                                                "steps", "dropout", "center_gradient", "validation_fraction", "test_fraction"]},
              "sides": {side: report["data"][side] for side in ["train", "validation", "test"]},
              "final": {side: report["final"][side] for side in ["validation", "test"]},
              "linear_outputs": report["baseline"].get("linear_dimensions"), "loads": {}}
    for which, model in [("head", folder), ("head_file", folder / "head.safetensors"), ("linear", folder / "linear.safetensors")]:
        if which == "linear" and not model.exists():
            result["loads"][which] = "none saved"
            continue
        out = folder / f"fresh-{which}.npy"
        done = call(options.nearfar, "embed", "--model", model, "--data", table / "fresh.npy", "--out", out, *common)
        result["loads"][which] = "yes" if done.returncode == 0 else done.stderr.strip()[-300:]
        if done.returncode == 0 and which != "head_file":
            result[which] = score(np.load(out), split[3])
    result["loads"]["onnx"] = compare_onnx(folder, split[2])
    result["loads"]["safetensors"] = read_safetensors(folder)
    result["threshold"] = {rate: find_threshold(options, folder, files, rate) for rate in ["default", "0.01"]}
    return result


def leader(options, name, seed, split):
    """What `nearfar compare` says of each head, beside the precision@1 of that head on fresh rows: (name, standing, on fresh rows), best first."""
    table = options.data / name / f"seed-{seed}"
    folder = options.data / "runs" / f"{name}-{seed}-compared"
    files = ["--data", table / "given.npy", "--labels", table / "given_labels.npy", "--engine", "cpu", "--json", "--seed", seed]
    done = call(options.nearfar, "compare", *files)
    if done.returncode:
        return done.stderr.strip()[-300:]
    found = []
    for row in json.loads(done.stdout)["rows"]:
        if row["kind"] != "head" or row["precision_at_1"] is None:
            continue
        sets = [part for setting in row["settings"] for part in ("--set", setting)]
        done = call(options.nearfar, "train", *files, *sets, "--out", folder)
        embedded = folder / "fresh.npy"
        if done.returncode == 0:
            done = call(options.nearfar, "embed", "--model", folder, "--data", table / "fresh.npy", "--out", embedded, "--engine", "cpu")
        if done.returncode:
            return f"{row['name']}: {done.stderr.strip()[-300:]}"
        found.append((row["name"], row["standing"], score(np.load(embedded), split[3])["p1"]))
    return found


def leaders(options):
    """How far the leader is behind the head that is best on fresh rows, by table."""
    behind, clear, false = [], 0, []
    for name in options.names:
        for seed in options.seeds:
            found = leader(options, name, seed, split_table(options.data, name, seed))
            if isinstance(found, str):
                print(f"{name:<20} {seed} failed: {found}")
                continue
            best = max(fresh for *_, fresh in found)
            behind.append(best - found[0][2])
            clear += sum(standing == "clear" for _, standing, _ in found)
            false += [f"{name}/{seed} {entry}" for entry, standing, fresh in found if standing == "clear" and fresh > found[0][2]]
            print(f"{name:<20} {seed} {behind[-1]:.3f} behind: " + ", ".join(f"{entry} {fresh:.3f} {standing}" for entry, standing, fresh in found), flush=True)
    print(f"\nthe leader is behind the best head on fresh rows, mean and error: {mean_and_error(behind)}; at worst {max(behind):.3f}; best itself {behind.count(0)} of {len(behind)}")
    print(f"called clearly behind the leader: {clear}, of which better on fresh rows: {len(false)}", *false)
    return 0


def call(nearfar, *arguments):
    return subprocess.run([str(nearfar), *map(str, arguments)], capture_output=True, text=True)


def compare_onnx(folder, fresh):
    """Whether head.onnx gives what `nearfar embed` gives, to 1e-3."""
    try:
        import onnxruntime
    except ImportError:
        return "onnxruntime is not installed"
    try:
        session = onnxruntime.InferenceSession(str(folder / "head.onnx"), providers=["CPUExecutionProvider"])
        z = session.run(None, {session.get_inputs()[0].name: fresh[:64].astype(np.float32)})[0]
    except Exception as error:
        return str(error)[:300]
    largest = float(np.abs(z - np.load(folder / "fresh-head.npy")[:64]).max())
    return "yes" if largest < 1e-3 else f"differs from embed by {largest:.2g}"


def read_safetensors(folder):
    from safetensors.numpy import load_file
    try:
        weights = [array for file in folder.glob("*.safetensors") for array in load_file(file).values()]
    except Exception as error:
        return str(error)[:300]
    largest = max(float(np.abs(array).max()) for array in weights)
    return "yes" if largest < 1e6 else f"a weight of {largest:.2g}"


def find_threshold(options, folder, files, rate):
    asked = [] if rate == "default" else ["--false-match-rate", rate]
    done = call(options.nearfar, "threshold", "--model", folder, *files, *asked, "--engine", "cpu", "--json")
    if done.returncode:
        return {"refused": done.stderr.strip()[-300:]}
    report = json.loads(done.stdout)
    counted = {side: {key: report[side][key] for key in ["false_match_rate", "false_non_match_rate", "different_pairs"]} for side in ["fit", "test"]}
    return {"rate": report["rate"], "threshold": report["threshold"], **counted, "interval": report["test"]["false_match_interval"]}


# What is said

def numbers(result):
    if not result or "p1" not in result:
        return "     -     "
    return f"{result['p1']:.3f}/{result['map']:.3f}"


def warned_of(run):
    """The kinds of warnings of a run, by a word in each."""
    kinds = {"collapse": "collapse", "drift": "drift", "learning rate": "learning rate", "nothing": "nothing (more )?to learn"}
    return sorted({next((kind for kind, word in kinds.items() if re.search(word, text, re.I)), "other") for text in run.get("warnings", [])})


def verdict_kind(run):
    return re.split(r"(?<=[.:;])\s", run.get("verdict", run.get("error", "")))[0][:48]


def print_line(row):
    near = row["nearfar"]
    scores = "  ".join(numbers(row["peers"].get(peer)) for peer in ["raw", "scaled", "pml", "lda", "lda_distance", "nca"])
    broken = [f"{which}: {said}" for which, said in near.get("loads", {}).items() if said not in ("yes", "none saved", "onnxruntime is not installed")]
    print(f"{row['table']:<20} {row['seed']} {row['rows']:>6} x {row['columns']:<5} {row['classes']:>2}  {scores}  {numbers(near.get('head'))}  "
          f"{numbers(near.get('linear'))}  {near.get('seconds', 0):5.1f}s  {verdict_kind(near)}  {' '.join(warned_of(near))} {' '.join(broken)}", flush=True)


def mean_and_error(differences):
    """Over tables: the mean, its standard error, and how many rise or fall by more than 0.01."""
    d = np.array([value for value in differences if np.isfinite(value)])
    if not len(d):
        return "none"
    error = d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else float("nan")
    return f"{d.mean():+.4f} +- {error:.4f} (up {np.sum(d > 0.01)}, down {np.sum(d < -0.01)} of {len(d)})"


def by_table(rows, difference):
    """The mean over seeds of a difference, for each table where there is one."""
    found = {}
    for row in rows:
        value = difference(row)
        if value is not None:
            found.setdefault(row["table"], []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def gain(row, one, other, measure):
    a, b = (row["nearfar"].get(n) if n in ("head", "linear") else best_lda(row) if n == "best lda" else row["peers"].get(n) for n in (one, other))
    return a[measure] - b[measure] if a and b and "p1" in a and "p1" in b else None


def best_lda(row):
    both = [row["peers"][name] for name in ("lda", "lda_distance") if name in row["peers"]]
    return max(both, key=lambda result: result["validation_map"]) if both else None


def claims(rows):
    """Differences that a verdict calls clear, and their sign on fresh rows: (agrees, none, opposite) and the opposite ones."""
    counts, opposite = [0, 0, 0], []
    for row in rows:
        scaling = row["nearfar"].get("scaling")
        raw = "centred" if scaling in ("common", "centred") else "scaled" if row["nearfar"].get("standardized") else "raw"
        for claim in row["nearfar"].get("compared", []):
            other = raw if "raw" in claim["with"] else "linear"
            for part, measure in [("nearest", "p1"), ("groups", "map")]:
                if not claim.get(part) or claim[part]["low"] <= 0 <= claim[part]["high"]:
                    continue
                fresh = gain(row, "head", other, measure)
                if fresh is None:
                    continue
                agrees = np.sign(fresh) * np.sign(claim[part]["gain"])
                counts[0 if agrees > 0 else 1 if agrees == 0 else 2] += 1
                if agrees < 0:
                    opposite.append(f"{row['table']}/{row['seed']} {measure} over {other}: said {claim[part]['gain']:+.3f}, is {fresh:+.3f}")
    return counts, opposite


def summarize(rows):
    """The summary as a dict of sentences and numbers; print_summary prints it."""
    done = [row for row in rows if "head" in row["nearfar"]]
    out = {"runs": len(rows), "failed": [f"{r['table']}/{r['seed']}: {r['nearfar'].get('error', r['nearfar'].get('loads'))}" for r in rows if r not in done]}
    pairs = [("head", "pml"), ("head", "raw"), ("head", "scaled"), ("head", "best lda"), ("head", "nca"), ("linear", "best lda"), ("linear", "lda"),
             ("head", "linear"), ("pml", "best lda")]
    for one, other in pairs:
        for measure, words in [("p1", "P@1"), ("map", "MAP@R")]:
            out[f"{one} - {other}, {words}"] = mean_and_error(by_table(done, lambda row: gain(row, one, other, measure)).values())
    for kind in ["collapse", "drift", "learning rate", "nothing", "other"]:
        out[f"runs that warn: {kind}"] = sum(kind in warned_of(row["nearfar"]) for row in done)
    out["runs that warn"] = sum(bool(row["nearfar"]["warnings"]) for row in done)
    texts = [re.sub(r"\d[\d.,]*", "N", text)[:70] for row in done for text in row["nearfar"]["warnings"]]
    out["warnings"] = {text: texts.count(text) for text in sorted(set(texts), key=lambda text: -texts.count(text))}
    out["verdicts: do not ship"] = sum("do not ship" in row["nearfar"]["verdict"].lower() for row in done)
    kinds = [verdict_kind(row["nearfar"]) for row in done]
    out["verdicts"] = {kind: kinds.count(kind) for kind in sorted(set(kinds), key=lambda kind: -kinds.count(kind))}
    counts, opposite = claims(done)
    out["differences called clear: same sign on fresh rows, none, opposite"] = counts
    out["opposite"] = opposite
    out["linear map missing"] = sorted({row["table"] for row in done if row["nearfar"]["loads"].get("linear") != "yes"})
    out["files that do not load"] = sorted({f"{row['table']}/{row['seed']} {which}: {said}" for row in done for which, said in row["nearfar"]["loads"].items()
                                            if said not in ("yes", "none saved", "onnxruntime is not installed")})
    found = [row["nearfar"]["threshold"] for row in done]
    asked = ["refused" if "refused" in one["default"] else one["default"]["rate"] for one in found]
    out["rates that thresholds ask for by themselves"] = {str(rate): asked.count(rate) for rate in sorted(set(asked), key=str)}
    fixed = [one["0.01"] for one in found if "refused" not in one["0.01"]]
    out["thresholds for 0.01: found, with 3,000 pairs and more to fit, the test's interval holds 0.01"] = [
        len(fixed), sum(one["fit"]["different_pairs"] >= 3000 for one in fixed), sum(bool(one["interval"]) and one["interval"][0] <= 0.01 <= one["interval"][1] for one in fixed)]
    out["test P@1 that is reported - fresh"] = mean_and_error([row["nearfar"]["final"]["test"]["precision_at_1"] - row["nearfar"]["head"]["p1"] for row in done])
    out["validation P@1 - fresh"] = mean_and_error([row["nearfar"]["final"]["validation"]["precision_at_1"] - row["nearfar"]["head"]["p1"]
                                                    for row in done if row["nearfar"]["final"]["validation"]])
    out["seconds of training"] = round(sum(row["nearfar"]["seconds"] for row in done), 1)
    below = by_table(done, lambda row: gain(row, "head", "pml", "map"))
    out["MAP@R farthest below pml"] = ", ".join(f"{name} {value:+.3f}" for name, value in sorted(below.items(), key=lambda item: item[1])[:8])
    return out


def print_summary(summary):
    print()
    for key, value in summary.items():
        if isinstance(value, list) and value and isinstance(value[0], str):
            print(f"{key}:", *(f"\n    {entry}" for entry in value))
        else:
            print(f"{key}: {value}")


# Whether the comparison can fail

def plant(options):
    """Plants what must change the scores, and fails unless each changes them as it should."""
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN
    name = "digits" if "digits" in options.names else options.names[0]
    split = split_table(options.data, name, 0)
    given, given_labels, fresh, labels = split
    codes = np.unique(labels, return_inverse=True)[1]
    centred = (fresh - given.mean(axis=0)).astype(np.float32)
    theirs = AccuracyCalculator(include=("precision_at_1", "mean_average_precision_at_r"), k="max_bin_count", knn_func=CustomKNN(CosineSimilarity())
                                ).get_accuracy(centred, codes)
    ours = score(centred, labels, queries=len(fresh))
    shuffled = score(centred, np.random.default_rng(0).permutation(labels))
    with_itself = score(np.concatenate([centred, centred]), np.concatenate([labels, labels]))
    untrained = run_untrained(*split, 0)
    row = lambda head: {"table": name, "seed": 0, "peers": {**untrained, "pml": run}, "nearfar": {"head": head}}
    run = run_pml(*split, 0)["pml"]
    honest, swapped, chance = (gain(row(head), "head", "pml", "map") for head in [run, untrained["raw"], shuffled])
    checks = [
        ("precision@1 as AccuracyCalculator has it", abs(ours["p1"] - theirs["precision_at_1"]) < 1e-6),
        ("MAP@R as AccuracyCalculator has it", abs(ours["map"] - theirs["mean_average_precision_at_r"]) < 1e-5),
        ("rows that find a copy of themselves score otherwise", abs(with_itself["map"] - theirs["mean_average_precision_at_r"]) > 0.01),
        ("shuffled labels score by chance", shuffled["p1"] < 2.5 * np.bincount(codes).max() / len(codes)),
        ("pml as the head: no difference from pml", honest == 0),
        ("raw rows as the head: raw's difference from pml", swapped == untrained["raw"]["map"] - run["map"] and swapped < -0.05),
        ("shuffled labels as the head: far below pml", chance < swapped),
        ("a verdict of the wrong sign is counted as opposite", claims([{**row(run), "nearfar": {"head": run, "linear": untrained["raw"], "compared": [
            {"with": "a linear map", "groups": {"low": -0.9, "high": -0.5, "gain": -0.7}}]}}])[0] == [0, 0, 1]),
    ]
    for words, holds in checks:
        print(f"{'ok  ' if holds else 'FAIL'} {words}")
    failed = sum(not holds for _, holds in checks)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("target/tables"), help="folder of the tables and of what is kept")
    parser.add_argument("--prepare", action="store_true", help="collect the tables from packages first")
    parser.add_argument("--nearfar", type=Path, default=Path("target/release/nearfar"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to nearfar train; may be given again")
    parser.add_argument("--only", nargs="*", default=[], metavar="TABLE")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--half", choices=["a", "b"], help="one half of the tables: a to choose on, b to confirm on")
    parser.add_argument("--kept-peers", action="store_true", help="no peer is run; those kept from before stand beside nearfar")
    parser.add_argument("--peers-only", action="store_true", help="run and keep the peers, not nearfar")
    parser.add_argument("--out", type=Path, help="a JSON file of everything")
    parser.add_argument("--leaders", action="store_true", help="run nearfar compare on each table, and nothing else")
    parser.add_argument("--plant", action="store_true", help="check that the comparison can fail")
    options = parser.parse_args()
    options.data, options.nearfar = options.data.absolute(), options.nearfar.absolute()
    if options.prepare:
        import table_sources
        table_sources.prepare(options.data)
    options.names = half_of(table_names(options.data), options.half)
    options.names = [name for name in options.names if not options.only or name in options.only]
    if not options.names:
        parser.error("no such table; --prepare collects them")
    if options.plant:
        return plant(options)
    if options.leaders:
        return leaders(options)
    kept = KeptPeers(options.data / "peers.json", options.kept_peers)
    print(f"{'table':<20} seed  rows x columns, classes; P@1/MAP@R: raw, scaled, pml, lda, lda by distance, nca, head, linear; seconds; verdict; warnings")
    rows = []
    for name in options.names:
        for seed in options.seeds:
            split = split_table(options.data, name, seed)
            row = {"table": name, "seed": seed, "rows": len(split[0]) + len(split[2]), "columns": split[0].shape[1], "classes": len(np.unique(split[1])),
                   "peers": kept.of(name, seed, split)}
            row["nearfar"] = {} if options.peers_only else run_nearfar(options, name, seed, split)
            rows.append(row)
            print_line(row)
    if options.peers_only:
        return 0
    summary = summarize(rows)
    print_summary(summary)
    if options.out:
        options.out.write_text(json.dumps({"set": options.set, "summary": summary, "runs": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
