"""Large batches through any torch model in the memory of small ones: exact gradients, not those of accumulated small batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

__all__ = ["CachedLoss"]


class _Randomness:
    """State of torch's random generators, to draw the same dropout masks again."""

    def __init__(self, inputs: Any) -> None:
        self.devices = sorted({tensor.get_device() for tensor in _tensors(inputs) if tensor.is_cuda})
        self.host = torch.get_rng_state()
        self.gpus = [torch.cuda.get_rng_state(device) for device in self.devices]

    def replay(self) -> AbstractContextManager[None]:
        """Draws as then; afterwards the generators stand where they stood."""
        return _Replay(self)


class _Replay(AbstractContextManager[None]):
    def __init__(self, state: _Randomness) -> None:
        self.state = state
        self.fork = torch.random.fork_rng(devices=state.devices)

    def __enter__(self) -> None:
        self.fork.__enter__()
        torch.set_rng_state(self.state.host)
        for device, state in zip(self.state.devices, self.state.gpus, strict=True):
            torch.cuda.set_rng_state(state, device)

    def __exit__(self, *error: Any) -> None:
        self.fork.__exit__(*error)


def _tensors(inputs: Any) -> Iterator[torch.Tensor]:
    if isinstance(inputs, torch.Tensor):
        yield inputs
    elif isinstance(inputs, dict):
        for value in inputs.values():
            yield from _tensors(value)
    elif isinstance(inputs, (list, tuple)):
        for value in inputs:
            yield from _tensors(value)


def _part(inputs: Any, rows: slice) -> Any:
    """These rows of a tensor, or of each tensor of a dict, list or tuple."""
    if isinstance(inputs, torch.Tensor):
        return inputs[rows]
    if isinstance(inputs, dict):
        return {key: _part(value, rows) for key, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(_part(value, rows) for value in inputs)
    return inputs


class CachedLoss(torch.nn.Module):
    """The loss of a whole batch, and its exact gradient, with the activations of ``chunk`` rows at a time (GradCache, Gao et al. 2021).

    ``model(inputs)`` gives embeddings, ``loss(embeddings, labels, *more)`` a scalar: any of PML, nearfar.pml or one's own, with
    parameters of its own too::

        cached = CachedLoss(model, loss, chunk=64)
        cached(inputs, labels).backward()
        optimizer.step()

    Every chunk is embedded twice, the second time by ``backward``, with the same dropout masks and under the same autocast. ``inputs`` is a
    tensor, or a dict, list or tuple of tensors with as many rows each. The model may be in ``DistributedDataParallel``: gradients are
    exchanged once, with the last chunk, and are of the mean of the ranks' losses, as without chunks.

    A layer that mixes rows, such as batch norm in training mode, sees one chunk at a time: its gradients are those of ``chunk`` rows.
    """

    def __init__(self, model: torch.nn.Module, loss: Callable[..., torch.Tensor], chunk: int) -> None:
        super().__init__()
        if chunk < 1:
            raise ValueError(f"chunk is {chunk}: at least 1")
        self.model = model
        self.loss = loss
        self.chunk = chunk

    def forward(self, inputs: Any, labels: Any, *more: Any) -> torch.Tensor:
        """The loss of the batch: call ``backward`` on it once, before the next call."""
        first = next(_tensors(inputs), None)
        if first is None:
            raise ValueError("inputs hold no tensor")
        rows = len(first)
        parts = [slice(start, min(start + self.chunk, rows)) for start in range(0, rows, self.chunk)]
        if not torch.is_grad_enabled():
            whole = torch.cat([self.model(_part(inputs, part)) for part in parts])
            return self.loss(whole, labels, *more)
        states, made = [], []
        with torch.no_grad():
            for part in parts:
                states.append(_Randomness(inputs))
                made.append(self.model(_part(inputs, part)))
        embeddings = torch.cat(made).detach().requires_grad_()
        value = self.loss(embeddings, labels, *more)
        anchor = value.detach().requires_grad_()
        device = first.device.type
        cast = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))

        def backward(slope: torch.Tensor) -> None:
            with torch.enable_grad():
                value.backward(slope)  # type: ignore[no-untyped-call]
                gradient = embeddings.grad
                assert gradient is not None
                for number, (part, state) in enumerate(zip(parts, states, strict=True)):
                    alone = getattr(self.model, "no_sync", None)
                    last = number + 1 == len(parts)
                    quiet = nullcontext() if last or alone is None else alone()
                    with quiet, state.replay():
                        with torch.autocast(device, dtype=cast[1], enabled=cast[0]):
                            again = self.model(_part(inputs, part))
                        again.backward(gradient[part].to(again.dtype))

        anchor.register_hook(backward)  # type: ignore[no-untyped-call]
        # A node of its own, so that the hook runs on backward and its result can be scaled before.
        return anchor * 1
