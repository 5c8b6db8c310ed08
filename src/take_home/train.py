"""Trains an embedding head with PyTorch and PyTorch Metric Learning (PML): the recipe of a run of Nearfar, on the same rows.

    pip install torch pytorch-metric-learning numpy safetensors
    python nearfar_train.py --data FILE [--labels FILE[:COLUMN]]
    torchrun --nproc-per-node 2 nearfar_train.py --data FILE ..

Under torchrun a batch is divided among the processes, on any number of machines: PML's distributed wrappers gather the embeddings
of all of them, so that losses and miners see the whole batch. It starts from the trained weights in head.safetensors, with --fresh
from new ones. sides.npy beside it says which rows train and which are tested. The end is one line of JSON: precision@1 and MAP@R of
the test rows, each against all others, or those of other groups; --out saves the head, which `nearfar embed --model` takes.
"""
import argparse
import csv
import gzip
import io
import json
import os
import sys
import unicodedata
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from pytorch_metric_learning import distances, losses, miners, samplers
from pytorch_metric_learning.utils import distributed as pml_dist
from safetensors import safe_open
from safetensors.torch import save_file

try:
    from nearfar import distributed as shards
except ImportError:
    shards = None

# What the run had.
DATA, LABELS = @DATA@, @LABELS@
# The column that says which rows belong together: a row's own group is left out of its neighbours. None where each is its own.
GROUP = @GROUP@
HIDDEN, EMBEDDING, DROPOUT = @HIDDEN@, @EMBEDDING@, @DROPOUT@
# The norm of each hidden layer, before its activation.
NORM = @NORM@
SKIP = @SKIP@
# Sizes that embeddings are truncated to, each with the weight of its loss; the loss is the sum of all (Matryoshka).
SIZES = @SIZES@
@EARLY_STOP@SEED, STEPS, BATCH = @SEED@, @STEPS@, @BATCH@
# The learning rates of the head and, with what differs there, of the loss's own parameters; the most that all gradients together may measure.
LR, LOSS_GROUP, CLIP = @LR@, @LOSS_GROUP@, @CLIP@
# Rows of the memory, the first step that uses it, and whether its values are rounded to half precision.
MEMORY, MEMORY_START, MEMORY_IS_HALF = @MEMORY@, @MEMORY_START@, @MEMORY_IS_HALF@
# Features are centred, as the training rows have them, and divided by their own standard deviation ("columns"), or all by the root of
# their mean variance ("common"), or taken as they come (None).
SCALING = @SCALING@
# Whether scaled features are rounded to half precision.
FEATURES_ARE_HALF = @FEATURES_ARE_HALF@
# Whether training rounds hidden activations to half precision, as the run stored them; the gradient passes the rounding as it is.
ACTIVATIONS_ARE_HALF = @ACTIVATIONS_ARE_HALF@
# Whether the mean gradient of a batch is taken off that of each row while there is a memory. PML has no such option.
CENTER_GRADIENT = @CENTER_GRADIENT@
FROM_LDA = @FROM_LDA@
# What becomes of cells without a number: drop-rows, drop-columns (they are not among the features of the head), median or refuse.
MISSING = @MISSING@
# The marks in the numbers of a table: before the fraction, and between thousands. None is a point, and nothing.
DECIMAL, THOUSANDS = @DECIMAL@, @THOUSANDS@
# The column of the data and of a file of labels that says which row is which. None where both are in the same order.
ON = @ON@
# The rows of the data that were left out, as they have no class or no number: from, and up to.
LEFT_OUT = @LEFT_OUT@
HERE = Path(__file__).resolve().parent
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class HalfMemory(losses.CrossBatchMemory):
    # PML holds its memory in the precision of the embeddings: it takes as much room, with the values that half precision holds.
    def add_to_memory(self, embeddings, labels, batch_size):
        super().add_to_memory(embeddings.half().to(embeddings.dtype), labels, batch_size)


def make_loss(classes):
@LOSS_NOTE@    return @LOSS@


def make_miner():
@MINER_NOTE@    return @MINER@


def make_optimizer(groups):
    return @OPTIMIZER@


def make_schedule(optimizer, steps):
    return @SCHEDULE@


def batches(labels, outer):
    """Row numbers of batch after batch, without end; the same in every process."""
@SAMPLER_NOTE@@SAMPLER@


NO_LABEL = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "NaT"]


def read_table(path):
    """Header and lines of a CSV, TSV, Parquet or file of JSON lines, which may be packed; pyarrow reads Parquet."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind in ("parquet", "pq"):
        from pyarrow.parquet import read_table as read_parquet

        rows = read_parquet(gzip.open(path) if path.suffix == ".gz" else path)
        return of_objects(rows.to_pylist())
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        if kind in ("jsonl", "ndjson"):
            return of_objects(json.loads(line) for line in file if line.strip())
        delimiter = max(",;\t", key=file.readline().count)
        file.seek(0)
        lines = [[cell.strip() for cell in line] for line in csv.reader(file, delimiter=delimiter) if line]
    if delimiter == ";":
        lines[1:] = [[cell.replace(",", ".") for cell in line] for line in lines[1:]]
    return lines[0], lines[1:]


def of_objects(objects):
    """Header and lines of objects, by the first of them."""
    lines = [flat(row) for row in objects]
    return list(lines[0]), [[line.get(name, "") for name in lines[0]] for line in lines]


def json_text(value):
    return value if isinstance(value, str) else json.dumps(value, default=str)


def flat(row):
    """The values of a JSON object by name, those of a list by name and place."""
    lists = {name: value for name, value in row.items() if isinstance(value, list)}
    items = {f"{name}[{at}]": item for name, value in lists.items() for at, item in enumerate(value)}
    return {name: "" if value is None else json_text(value) for name, value in (row | items).items() if name not in lists}


def number(cell):
    """A cell as a number; NaN where it holds none and the run had a use for that."""
    plain = cell.replace(THOUSANDS, "") if THOUSANDS else cell
    plain = plain.replace("\u2212", "-").replace(DECIMAL or ".", ".")
    try:
        value = float(plain)
    except ValueError:
        value = np.nan
    if MISSING == "refuse" and not np.isfinite(value):
        sys.exit(f"a cell holds {cell!r}, expected a number")
    return value if np.isfinite(value) else np.nan


def read_arrays(path):
    """The arrays of an NPY, NPZ or safetensors file by name; the one array of an NPY has none."""
    if path.suffix == ".safetensors":
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    held = np.load(io.BytesIO(gzip.decompress(path.read_bytes())) if path.suffix == ".gz" else path)
    return {None: held} if isinstance(held, np.ndarray) else dict(held)


def key(cell):
    """What says which row a row is, in one spelling: 7, 7.0 and " 7" are one."""
    text = unicodedata.normalize("NFC", str(cell).strip())
    try:
        return float(text)
    except ValueError:
        return text


def places_of(keys, theirs):
    """For each row of the data the place of its labels; None where it has none."""
    places = {key(cell): place for place, cell in enumerate(theirs)}
    return [places.get(key(cell)) for cell in keys]


def is_table(path):
    return path.name.removesuffix(".gz").rpartition(".")[2] not in ("npy", "npz", "safetensors")


def read(path, labels, features, beside):
    """Rows, labels, and the columns `beside` them of a file, or None where there is no such column; `labels` is FILE, FILE:COLUMN or COLUMN."""
    path = Path(path) if Path(path).exists() else HERE / path
    if not path.exists():
        sys.exit(f"{path.name}: there is no such file: give the run's data with --data")
    file, _, column = (labels or "").rpartition(":")
    if labels and Path(labels).exists():
        file, column = labels, None
    elif not Path(file).is_file():
        file, column = "", labels
    column = column or LABELS
    if is_table(path):
        header, lines = read_table(path)
        if features and not set(features) <= set(header):
            # A table without a header.
            header, lines = [f"column {i + 1}" for i in range(len(header))], [header, *lines]
        places = {}
        for place, name in enumerate(header):
            places.setdefault(name, []).append(place)
        cells = {name: [line[place[0]] for line in lines] for name, place in places.items()}
        chosen = [places[name].pop(0) for name in features]
        rows = np.array([[number(line[place]) for place in chosen] for line in lines], "f4")
    else:
        arrays = read_arrays(path)
        rows = next(array for array in arrays.values() if array.ndim == 2 and array.dtype.kind in "fiu").astype("f4")
        cells = {name: array.tolist() for name, array in arrays.items() if array.ndim == 1 and len(array) == len(rows)}
    if file and is_table(Path(file)):
        header, lines = read_table(Path(file))
        if ON:
            order = places_of(cells[ON], [line[header.index(ON)] for line in lines])
            lines = [[""] * len(header) if place is None else lines[place] for place in order]
        names = [line[header.index(column) if column in header else 0] for line in lines]
        cells |= {name: [line[place] for line in lines] for place, name in enumerate(header) if name in beside}
    elif file:
        arrays = read_arrays(Path(file))
        names = arrays.get(column, next(iter(arrays.values()))).ravel().tolist()
        if ON:
            names = ["" if place is None else names[place] for place in places_of(cells[ON], arrays[ON].tolist())]
    else:
        names = cells.get(column)
    if names is None or len(names) != len(rows):
        sys.exit(f"{path.name}: there is no label for each of its {len(rows)} rows: name a column or a file with --labels")
    beside = [cells.get(name) for name in beside]
    left_out = {at for start, end in LEFT_OUT for at in range(start, end)}
    kept = [at for at in range(len(rows)) if at not in left_out]
    if MISSING == "drop-rows":
        kept = [at for at in kept if np.isfinite(rows[at]).all() and names[at] not in NO_LABEL]
    rows, names = rows[kept], [names[at] for at in kept]
    beside = [column and [column[at] for at in kept] for column in beside]
    if MISSING == "median":
        rows = np.where(np.isfinite(rows), rows, np.nanmedian(np.where(np.isfinite(rows), rows, np.nan), axis=0)).astype("f4")
    return rows, [str(name) for name in names], beside


class Rounded(torch.nn.Module):
    # They take as much room, with the values that half precision holds.
    def forward(self, rows):
        return rows + (rows.half().to(rows.dtype) - rows).detach() if self.training else rows


class RoundedLinear(torch.nn.Linear):
    def forward(self, rows):
        return Rounded.forward(self, super().forward(rows))


class WithSkip(torch.nn.Sequential):
    """Layers, and after them a linear map of the input, which is added to their output."""

    def forward(self, rows):
        *layers, skip = self
        return torch.nn.Sequential(*layers)(rows) + skip(rows)


def layers(inputs):
    widths = [inputs, *HIDDEN]
    # One module, so that the names of the weights stay.
    activation = lambda: torch.nn.Sequential(torch.nn.@ACTIVATION@(), torch.nn.Dropout(DROPOUT), *[Rounded()] * ACTIVATIONS_ARE_HALF)
    # What is kept of a layer before a norm or GELU is rounded, too.
    linear = RoundedLinear if ACTIVATIONS_ARE_HALF and (NORM or torch.nn.@ACTIVATION@ is not torch.nn.ReLU) else torch.nn.Linear
    norm = lambda width: [NORM(width)] if NORM else []
    hidden = [layer for pair in zip(widths, widths[1:]) for layer in (linear(*pair), *norm(pair[1]), activation())]
    model = (WithSkip if SKIP else torch.nn.Sequential)(*hidden, torch.nn.Linear(widths[-1], EMBEDDING))
    if SKIP:
        model.add_module("skip", torch.nn.Linear(inputs, EMBEDDING, bias=False))
    return model


def says_nothing(spread, reach):
    """Columns whose spread is nothing in 32 bits, beside how far they reach or beside the other columns."""
    tiny = torch.finfo(torch.float32).eps
    alone = spread <= tiny * reach
    spreads = spread[~alone].sort().values
    if not len(spreads):
        return alone
    middle = spreads[len(spreads) // 2]
    rest = spreads[spreads > tiny * middle]
    alike = len(rest) >= 3 and rest[-1] <= 1e3 * rest[0]
    return alone | (spread <= middle * (tiny if alike else 1e-14))


@torch.no_grad()
def fold(model, shift, scale, back=False):
    """Makes the first layer and the skip follow on rows as they are in the file, or with `back` on scaled ones."""
    shift, scale = shift.to(model[0].weight), scale.to(model[0].weight)
    maps = [(model[0].weight, model[0].bias)]
    if SKIP:
        maps.append((model.skip.weight, model[-2].bias))
    for weight, bias in maps:
        if back:
            bias += weight @ shift
            weight /= torch.where(scale == 0, 1, scale)
        else:
            weight *= scale
            bias -= weight @ shift


@torch.no_grad()
def evaluate(embed, x, labels, groups):
    """precision@1 and MAP@R of rows against those of other groups by cosine similarity. Each process embeds and scores a part of them."""
    count, mine = len(x), torch.arange(RANK, len(x), WORLD)
    parts = [embed(x[mine]).cpu().numpy()]
    have = [shards is not None] * WORLD
    if WORLD > 1:
        dist.all_gather_object(have, shards is not None)
    if WORLD > 1 and all(have) and not GROUP:
        scores = shards.evaluate(parts[0], labels[mine], ids=mine, at=[1], nearest=True)
        return {name: scores[name] for name in ("precision_at_1", "mean_average_precision_at_r", "queries")}
    if WORLD > 1 and RANK == 0:
        why = "nearfar scores no groups over processes" if GROUP else "nearfar is not installed everywhere (pip install nearfar)"
        print(f"every process gathers the {count} embeddings of all: {why}", file=sys.stderr)
    if WORLD > 1:
        own, parts = parts[0], [None] * WORLD
        dist.all_gather_object(parts, own)
    unit = torch.empty(count, EMBEDDING)
    for rank, part in enumerate(parts):
        unit[rank::WORLD] = torch.from_numpy(part)
    unit = F.normalize(unit.double())
    sums = torch.zeros(3, dtype=torch.float64)
    for rows in mine.split(1024):
        similarities = unit[rows] @ unit.T
        own = groups[rows, None] == groups
        order = similarities.masked_fill(own, -torch.inf).argsort(descending=True, stable=True, dim=1)
        right = (labels[order] == labels[rows, None]) & ~own.gather(1, order)
        r = right.sum(1)
        right, r = right[r > 0].double(), r[r > 0]
        ranks = torch.arange(1, count + 1)
        at_r = (right * right.cumsum(1) / ranks * (ranks <= r[:, None])).sum(1) / r
        sums += torch.stack([right[:, 0].sum(), at_r.sum(), torch.tensor(float(len(r)))])
    if WORLD > 1:
        parts = [None] * WORLD
        dist.all_gather_object(parts, sums.numpy())
        sums = torch.from_numpy(np.sum(parts, 0))
    hits, average, queries = sums.tolist()
    return {"precision_at_1": hits / max(queries, 1), "mean_average_precision_at_r": average / max(queries, 1), "queries": int(queries)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=[DATA], help="the file of the run; of two, the second is the test side")
    parser.add_argument("--labels", help="COLUMN, or FILE[:COLUMN]")
    parser.add_argument("--fresh", action="store_true", help="start from new weights")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--amp", action="store_true", help="mixed precision: the head in bfloat16, the loss in float32")
    parser.add_argument("--out", help="where to save the head, as safetensors")
    asked = parser.parse_args()
    if BATCH % WORLD:
        sys.exit(f"a batch of {BATCH} rows cannot be divided among {WORLD} processes: use a number that divides it")
    if WORLD > 1 and NORM is torch.nn.BatchNorm1d and not torch.cuda.is_available():
        sys.exit("batch norm takes the statistics of the whole batch, which torch gathers on CUDA devices alone: leave torchrun out")
    if asked.fresh and FROM_LDA:
        sys.exit("this run started from LDA, which PML has not: leave --fresh out")
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if WORLD > 1:
        dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(asked.seed)
    np.random.seed(asked.seed % 2**32)

    with safe_open(HERE / "head.safetensors", "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
        about = file.metadata()
    read_all = [read(path, asked.labels, json.loads(about.get("features", "[]")), [@OUTER@, GROUP]) for path in asked.data]
    x = torch.from_numpy(np.concatenate([rows for rows, _, _ in read_all]))
    names = [name for _, labels, _ in read_all for name in labels]
    outer = [name for *_, (supers, _) in read_all for name in supers or []]
    groups = [name for *_, (_, groups) in read_all for name in groups or []]
    groups = torch.from_numpy(np.unique(groups, return_inverse=True)[1] if groups else np.arange(len(names)))
    y = torch.from_numpy(np.unique(names, return_inverse=True)[1])
    sides = np.load(HERE / "sides.npy")
    if len(sides) != len(y):
        sys.exit(f"{len(y)} rows, and the run had {len(sides)}: give its data, all files of it")
    train, test = (torch.from_numpy(np.flatnonzero(sides == side)) for side in (0, 2))

    model = layers(x.shape[1])
    if not asked.fresh:
        model.load_state_dict(weights)
    shift, scale = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    if SCALING:
        known = x[train].double()
        least, most = known.amin(0), known.amax(0)
        spread = torch.where(least == most, 0, known.std(0, correction=0))
        none = says_nothing(spread, torch.maximum(least.abs(), most.abs()))
        divisor = spread if SCALING == "columns" else (spread[~none] ** 2).mean().sqrt()
        shift, scale = known.mean(0).float(), torch.where(none, 0, 1 / divisor).float()
        if not asked.fresh:
            fold(model, shift, scale, back=True)
        x = (x - shift) * scale
    if FEATURES_ARE_HALF:
        x = x.half().float()
    model, x, y = model.to(device), x.to(device), y.to(device)
    if WORLD > 1:
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    head = torch.nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model
    # Proxies are of the classes that train.
    classes, known = torch.unique(y[train.to(device)], return_inverse=True)
    plain, miner = make_loss(len(classes)).to(device), make_miner()
    remember = HalfMemory if MEMORY_IS_HALF else losses.CrossBatchMemory
    memories = [remember(plain, size, MEMORY, miner) for size, _ in SIZES] if MEMORY else []
    wrap = pml_dist.DistributedLossWrapper if WORLD > 1 else lambda loss: loss
    alone, beside = wrap(plain), [wrap(memory) for memory in memories]
    mine = miner and (pml_dist.DistributedMinerWrapper(miner) if WORLD > 1 else miner)
    learned = list(plain.parameters())
    rates = [{"params": list(model.parameters()), "lr": LR}] + [{"params": learned, **LOSS_GROUP}] * bool(learned)
    optimizer = make_optimizer(rates)
    schedule = make_schedule(optimizer, max(asked.steps, 1))
    mixed = lambda: torch.autocast(device.type, torch.bfloat16) if asked.amp else nullcontext()

    def embed(rows, through=model):
        with mixed():
            out = through(rows.to(device))
        return F.normalize(out.float())

    def centred(gradient):
        mean = gradient.sum(0)
        if WORLD > 1:
            dist.all_reduce(mean)
        return gradient - mean / BATCH

    draw = batches(known.cpu().numpy(), [outer[i] for i in train] if outer else None)
    for step in range(asked.steps):
        rows = torch.as_tensor(next(draw))[RANK::WORLD]
        labels = known[rows.to(device)]
        embedded = embed(x[train[rows].to(device)], head)
        remembers = MEMORY and step >= MEMORY_START
        if remembers and CENTER_GRADIENT:
            embedded.register_hook(centred)
        value = 0
        for at, (size, weight) in enumerate(SIZES):
            unit = embedded if size == EMBEDDING else F.normalize(embedded[:, :size])
            if remembers:
                value += weight * beside[at](unit, labels)
            else:
                value += weight * alone(unit, labels, mine(unit, labels) if mine else None)
        optimizer.zero_grad()
        value.backward()
        for parameter in learned if WORLD > 1 else []:
            # Every process has the gradient of the whole batch, times their number: the wrapper multiplies by it for the head.
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= WORLD**2
        if CLIP:
            torch.nn.utils.clip_grad_norm_([parameter for rate in rates for parameter in rate["params"]], CLIP)
        optimizer.step()
        if schedule and step + 1 < asked.steps:
            schedule.step()
        if RANK == 0 and (step + 1) % 100 == 0:
            print(f"step {step + 1} of {asked.steps}, loss {value.item() / WORLD:.4f}", file=sys.stderr)

    model.eval()
    scores = evaluate(lambda rows: torch.cat([embed(part) for part in rows.split(4096)]) if len(rows) else torch.empty(0, EMBEDDING), x[test.to(device)], y[test.to(device)].cpu(), groups[test])
    if RANK == 0:
        if asked.out:
            saved = model.cpu()
            fold(saved, shift, scale)
            held = {name: tensor.contiguous() for name, tensor in saved.state_dict().items()}
            save_file({name: tensor for name, tensor in held.items() if tensor.is_floating_point()}, asked.out, about)
        print(json.dumps(scores))
    if WORLD > 1:
        # Together: gloo aborts a process that leaves while another is still at work.
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
