"""Peak bytes of PML for lines of code that `nearfar doctor` reads: the same text is run here, and given to it in `library/doctor.rs`.

    python tests/golden/doctor.py > tests/golden/doctor.json

Needs torch, pytorch-metric-learning, faiss-cpu and Linux: the peak is the growth of the resident set, from the line `# measured` on.
Each case is a process of its own. torch 2.15.0, PML 2.9.0, faiss 1.15.1; 6 GB of memory.
"""

import gc
import json
import subprocess
import sys

HEAD = """\
import torch
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
torch.manual_seed(0)
"""

# A memory that is full, as it is after the first steps.
FULL = """
xbm.embedding_memory = torch.nn.functional.normalize(torch.randn(memory_size, dim), dim=1)
xbm.label_memory = torch.randint(0, num_classes, (memory_size,))
xbm.has_been_filled = True
emb = torch.nn.functional.normalize(torch.randn(batch_size, dim), dim=1).requires_grad_()
labels = torch.randint(0, num_classes, (batch_size,))
# measured
xbm(emb, labels).backward()
"""

# Rows of a batch, equally many of each class.
BATCH = """
emb = torch.nn.functional.normalize(torch.randn(batch_size, dim), dim=1).requires_grad_()
labels = torch.arange(batch_size) % num_classes
# measured
loss_func(emb, labels).backward()
"""

# Rows to score.
ROWS = """
emb = torch.randn(n, dim)
labels = torch.arange(n) % num_classes
# measured
calculator.get_accuracy(emb, labels)
"""

HEADS = """
emb = torch.randn(batch_size, dim).requires_grad_()
labels = torch.randint(0, num_classes, (batch_size,))
# measured
loss_func(emb, labels).backward()
"""


def sizes(**named):
    return "".join(f"{name} = {number}\n" for name, number in named.items())


CASES = {
    "accuracy, k=None": sizes(n=8000, dim=64, num_classes=100) + "calculator = AccuracyCalculator()\n" + ROWS,
    "accuracy, precision at 1": sizes(n=8000, dim=64, num_classes=100)
    + 'calculator = AccuracyCalculator(include=("precision_at_1",), k=None)\n' + ROWS,
    "accuracy, max_bin_count": sizes(n=20000, dim=64, num_classes=20)
    + 'calculator = AccuracyCalculator(k="max_bin_count")\n' + ROWS,
    "accuracy, CustomKNN whole": sizes(n=15000, dim=64, num_classes=20)
    + 'calculator = AccuracyCalculator(include=("precision_at_1",), k=1, knn_func=CustomKNN(CosineSimilarity()))\n' + ROWS,
    "triplet miner in a memory, under INT_MAX": sizes(batch_size=64, dim=64, memory_size=2048, num_classes=10)
    + 'miner = miners.TripletMarginMiner(0.2, type_of_triplets="all", distance=CosineSimilarity())\n'
    + "xbm = losses.CrossBatchMemory(losses.TripletMarginLoss(0.2, distance=CosineSimilarity()), dim, memory_size=memory_size, miner=miner)\n"
    + FULL,
    "triplet miner in a memory, past INT_MAX": sizes(batch_size=64, dim=64, memory_size=8192, num_classes=100)
    + 'miner = miners.TripletMarginMiner(0.2, type_of_triplets="all", distance=CosineSimilarity())\n'
    + "xbm = losses.CrossBatchMemory(losses.TripletMarginLoss(0.2, distance=CosineSimilarity()), dim, memory_size=memory_size, miner=miner)\n"
    + FULL,
    "triplet loss in a memory, no miner": sizes(batch_size=64, dim=64, memory_size=4096, num_classes=100)
    + "xbm = losses.CrossBatchMemory(losses.TripletMarginLoss(0.2), dim, memory_size=memory_size)\n" + FULL,
    "triplet loss of a batch": sizes(batch_size=800, dim=64, num_classes=32) + "loss_func = losses.TripletMarginLoss(0.2)\n" + BATCH,
    "NT-Xent of a batch": sizes(batch_size=200, dim=64, num_classes=10) + "loss_func = losses.NTXentLoss()\n" + BATCH,
    "lifted structure": sizes(batch_size=200, dim=64, num_classes=10) + "loss_func = losses.LiftedStructureLoss()\n" + BATCH,
    "NT-Xent in a memory": sizes(batch_size=64, dim=64, memory_size=1024, num_classes=40)
    + "xbm = losses.CrossBatchMemory(losses.NTXentLoss(), dim, memory_size=memory_size)\n" + FULL,
    "angular": sizes(batch_size=1200, dim=64, num_classes=40) + "loss_func = losses.AngularLoss()\n" + BATCH,
    "contrastive in a memory": sizes(batch_size=512, dim=64, memory_size=65536, num_classes=100)
    + "xbm = losses.CrossBatchMemory(losses.ContrastiveLoss(), dim, memory_size=memory_size)\n" + FULL,
    "supervised contrastive": sizes(batch_size=6000, dim=64, num_classes=100) + "loss_func = losses.SupConLoss()\n" + BATCH,
    "signal to noise": sizes(batch_size=2000, dim=64, num_classes=100)
    + "loss_func = losses.SignalToNoiseRatioContrastiveLoss()\n" + BATCH,
    "ArcFace, many classes": sizes(batch_size=64, dim=512, num_classes=100000)
    + "loss_func = losses.ArcFaceLoss(num_classes, dim)\n" + HEADS,
    "proxy anchor, large batch": sizes(batch_size=256, dim=64, num_classes=100000)
    + "loss_func = losses.ProxyAnchorLoss(num_classes, dim)\n" + HEADS,
}


def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


def measure(name):
    before, after = CASES[name].split("# measured\n")
    names = {}
    exec(HEAD + before, names)
    gc.collect()
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    start = resident("VmRSS")
    exec(after, names)
    return resident("VmHWM") - start


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
        sys.exit()
    measured = []
    for name, text in CASES.items():
        peak = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True).stdout
        measured.append({"name": name, "text": text, "peak_bytes": int(peak)})
        print(name, peak.strip(), file=sys.stderr)
    print(json.dumps(measured, indent=1))
