"""Scores rows that lie on several ranks as one process would: `torchrun --nproc-per-node 2 evaluate_on_ranks.py`."""

import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.utils.data import DistributedSampler

import nearfar.distributed

dist.init_process_group("gloo")
features, labels = load_digits(return_X_y=True)
# Shards as a DataLoader would make them: of even sizes, so that some rows come twice.
rows = list(DistributedSampler(range(len(labels)), shuffle=False))
scores = nearfar.distributed.evaluate(features[rows], labels[rows], ids=rows, budget="64MiB", engine="cpu")
if dist.get_rank() == 0:
    print(f"precision@1 {scores['precision_at_1']:.4f} over {scores['queries']} rows, {scores['repeats']} of them came twice")
# Without this one rank may end while another still talks to it, which gloo may answer by aborting.
dist.barrier()
dist.destroy_process_group()
