"""Time and memory beside PML, one case a process: `python measure.py metrics [--pml]`, `python measure.py memory 16384 [--pml]`."""

import sys
import time
import warnings

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


seconds, more = metrics() if sys.argv[1] == "metrics" else memory(int(sys.argv[2]))
print(f"{'PML' if pml else 'nearfar'}: {seconds:.3f} s, {more:.0f} MiB more")
