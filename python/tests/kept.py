"""Bytes that autograd keeps for a backward pass: counted, so that no allocator and no clock has a part in it."""

import weakref

import torch


class _Kept:
    def __init__(self, tensor):
        self.tensor = tensor


def most_kept(step):
    """The most bytes of tensors that are kept at once while `step` runs."""
    now = most = 0

    def pack(tensor):
        nonlocal now, most
        kept, size = _Kept(tensor), tensor.nbytes
        now += size
        most = max(most, now)

        def free():
            nonlocal now
            now -= size

        weakref.finalize(kept, free)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        step()
    return most
