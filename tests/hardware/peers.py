"""torch, and faiss where it is installed, on the work that `bench` was timed on: the rows of `src/speed/bench/rows.rs`.

`run` starts it with a device of torch, the sizes as JSON and the seconds there are, and reads a JSON object a line. What is not
installed, or has no GPU, is said and left out. TF32 rounds to 10 bits: both ways are timed, and how far each is off is beside them.
"""
import json
import sys
import time

QUERIES, REFERENCES = 1, 2
CHUNK = 1024
MARGIN = 0.2
# Queries whose similarities are compared with f64.
CHECKED = 64
# Seconds of repetitions, and the fewest and most there are.
LONG, FEWEST, MOST = 2.0, 5, 50


def say(**what):
    print(json.dumps(what), flush=True)


def word(torch, stream, index):
    """`rows::word`, on 32 of 64 bits."""
    mask = 0xFFFFFFFF
    x = (stream * 0x9E3779B9 + index) & mask
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & mask
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & mask
    return x ^ (x >> 16)


def uniform(torch, stream, rows, dim, device):
    """`rows::uniform`, made unit."""
    index = torch.arange(rows * dim, device=device)
    values = (word(torch, stream, index) >> 8).to(torch.float32) / 2**23 - 1
    return torch.nn.functional.normalize(values.view(rows, dim))


def labels(torch, stream, rows, classes, device):
    """`rows::labels`."""
    return word(torch, (~stream ^ (1 << 31)) & 0xFFFFFFFF, torch.arange(rows, device=device)) % classes


def knn(torch, queries, references, k):
    found = [torch.topk(chunk @ references.T, k) for chunk in queries.split(CHUNK)]
    return [torch.cat(part).cpu() for part in zip(*found)]


def loss(torch, anchors, references, own, known):
    """Loss and gradient to unit rows over all semi-hard triplets, each positive's negatives a stretch of the sorted ones."""
    similarities = anchors @ references.T
    positive = own[:, None] == known[None, :]
    # Positives sort behind every negative.
    s_an, order = similarities.masked_fill(positive, 3.0).sort(dim=1)
    sums = torch.nn.functional.pad(s_an.double().cumsum(1), (1, 0))
    s_ap = similarities.masked_fill(~positive, -3.0)
    # Where there is no positive the stretch is empty.
    s_ap, place = s_ap.topk(int(positive.sum(1).max()), dim=1)
    there = s_ap > -2.0
    low = torch.searchsorted(s_an, s_ap - MARGIN, right=True)
    high = torch.searchsorted(s_an, s_ap)
    count = torch.where(there, (high - low).clamp_min(0), 0)
    active = count.sum()
    stretch = sums.gather(1, high.clamp_min(0)) - sums.gather(1, torch.minimum(low, high))
    total = (torch.where(there, stretch, 0.0) - count * s_ap).sum()
    steps = torch.zeros(len(anchors), len(references) + 1, device=anchors.device, dtype=anchors.dtype)
    one = (there & (high > low)).to(anchors.dtype)
    steps.scatter_add_(1, low, one).scatter_add_(1, high, -one)
    weights = torch.empty_like(similarities).scatter_(1, order, steps.cumsum(1)[:, :-1])
    weights.scatter_add_(1, place, -count.to(anchors.dtype))
    gradient = weights @ references / active
    return float(total / active + MARGIN), gradient.cpu()


def timed(work, wait, until):
    """Milliseconds of each repetition, after one to warm up."""
    work(), wait()
    times = []
    while (len(times) < FEWEST or sum(times) < 1e3 * LONG) and len(times) < MOST and time.monotonic() < until:
        started = time.perf_counter()
        work(), wait()
        times.append(1e3 * (time.perf_counter() - started))
    if not times:
        raise TimeoutError("no time is left")
    times.sort()
    at = lambda part: times[round((len(times) - 1) * part)]
    return {"median_ms": at(0.5), "p10_ms": at(0.1), "p90_ms": at(0.9), "repetitions": len(times)}


def off(torch, found, queries, references, k):
    """How far the similarities of some queries are from those of f64, place by place."""
    few = queries[:CHECKED].double().cpu() @ references.double().cpu().T
    return float((torch.topk(few, k).values - found[0][:CHECKED].double()).abs().max())


def main():
    where, works, seconds = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])
    until = time.monotonic() + seconds
    try:
        import torch
    except ImportError as error:
        return say(not_run="torch and faiss", why=f"torch is not installed for {sys.executable} ({error})")
    if where == "cuda" and not torch.cuda.is_available():
        return say(not_run="torch and faiss", why=f"torch {torch.__version__} finds no GPU that it can use")
    try:
        import faiss
        import numpy
    except ImportError as error:
        faiss = None
        say(not_run="faiss", why=f"it is not installed ({error})")
    if faiss and where == "cuda" and not hasattr(faiss, "StandardGpuResources"):
        faiss = None
        say(not_run="faiss", why="it is installed without a GPU side")
    wait = torch.cuda.synchronize if where == "cuda" else lambda: None
    for work in works:
        if time.monotonic() > until:
            say(not_run=f"torch and faiss on {work['name']}", why="the time is over")
            continue
        dim = work["dim"]
        anchors = uniform(torch, QUERIES, work["queries"], dim, where)
        references = uniform(torch, REFERENCES, work["references"], dim, where)
        sides = [False, True] if where == "cuda" else [False]
        for tf32 in sides:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            peer = f"torch {torch.__version__}" + (", TF32" if tf32 else "")
            try:
                if work["what"] == "knn":
                    search = lambda: knn(torch, anchors, references, work["k"])
                    times = timed(search, wait, until)
                    found = {"off": off(torch, search(), anchors, references, work["k"])}
                else:
                    own = labels(torch, QUERIES, work["queries"], work["classes"], where)
                    known = labels(torch, REFERENCES, work["references"], work["classes"], where)
                    step = lambda: loss(torch, anchors, references, own, known)
                    times = timed(step, wait, until)
                    torch.backends.cuda.matmul.allow_tf32 = False
                    exact = loss(torch, anchors.double(), references.double(), own, known)
                    found = {"off": abs(step()[0] - exact[0]), "loss": exact[0]}
            except Exception as error:
                times, found = {}, {"fails": f"{type(error).__name__}: {error}".splitlines()[0]}
            say(work=work["name"], peer=peer, **times, **found)
        if faiss and work["what"] == "knn":
            say(work=work["name"], peer=f"faiss {faiss.__version__}", **of_faiss(faiss, torch, anchors, references, work["k"], where, wait, until))
    return None


def of_faiss(faiss, torch, queries, references, k, where, wait, until):
    try:
        index = faiss.IndexFlatIP(queries.shape[1])
        resources = faiss.StandardGpuResources() if where == "cuda" else None
        if resources:
            index = faiss.index_cpu_to_gpu(resources, 0, index)
        index.add(references.cpu().numpy())
        asking = queries.cpu().numpy()
        times = timed(lambda: index.search(asking, k), wait, until)
        found = [torch.from_numpy(part) for part in index.search(asking, k)]
        return times | {"off": off(torch, found, queries, references, k)}
    except Exception as error:
        return {"fails": f"{type(error).__name__}: {error}".splitlines()[0]}


if __name__ == "__main__":
    main()
