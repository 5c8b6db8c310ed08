"""CachedLoss beside the whole batch: equal gradients, whatever the chunk."""

import pytest
import torch
from kept import most_kept
from pytorch_metric_learning import losses

from nearfar import pml
from nearfar.torch import CachedLoss


def model(dropout=0.0):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(4 * 36, 16),
    )


def batch(rows=96):
    torch.manual_seed(2)
    return torch.randn(rows, 1, 8, 8), torch.randint(5, (rows,))


def gradients(module, loss, scale=1.0):
    module.zero_grad()
    (loss * scale).backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


@pytest.mark.parametrize("chunk", [1, 7, 32, 96, 1000])
@pytest.mark.parametrize(
    "loss",
    [pml.NTXentLoss(0.2), losses.NTXentLoss(0.2), pml.TripletMarginLoss(), pml.ProxyAnchorLoss(5, 16)],
    ids=["nt-xent", "nt-xent of PML", "triplets", "proxies"],
)
def test_gradients_are_those_of_the_whole_batch(chunk, loss):
    network, (inputs, labels) = model(), batch()
    both = torch.nn.ModuleList([network, loss])
    value = loss(network(inputs), labels)
    whole = gradients(both, value, 3.0)
    cached = CachedLoss(network, loss, chunk)(inputs, labels)
    assert cached.item() == pytest.approx(value.item(), rel=1e-5)
    for own, other in zip(gradients(both, cached, 3.0), whole, strict=True):
        assert (own - other).norm() <= 1e-5 * max(other.norm(), 1e-3)


def test_a_large_batch_keeps_a_part_of_its_activations():
    network, (inputs, labels) = model(), batch(4096)
    loss, found = pml.SupConLoss(), []
    whole = most_kept(lambda: found.append(gradients(network, loss(network(inputs), labels))))
    cached = most_kept(lambda: found.append(gradients(network, CachedLoss(network, loss, 256)(inputs, labels))))
    assert whole > 4096 * 144 * 4, "as the activations of a layer"
    assert cached <= whole / 4
    one, other = (torch.cat([part.flatten() for part in parts]) for parts in found)
    assert (other - one).norm() <= 1e-5 * one.norm()


def test_dropout_draws_the_same_masks_again():
    network, (inputs, labels) = model(0.5), batch(64)
    loss = pml.NTXentLoss(0.2)
    torch.manual_seed(7)
    parts = [network(part) for part in inputs.split(16)]
    whole = gradients(network, loss(torch.cat(parts), labels))
    torch.manual_seed(7)
    cached = CachedLoss(network, loss, 16)(inputs, labels)
    after = torch.get_rng_state()
    for own, other in zip(gradients(network, cached), whole, strict=True):
        assert (own - other).norm() <= 1e-5 * other.norm()
    assert torch.equal(torch.get_rng_state(), after), "backward left the generator where it was"


def test_inputs_may_be_a_dict_and_a_step_needs_no_gradient():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def forward(self, inputs):
            return self.inner(inputs["image"])

    network, (inputs, labels) = Named(), batch(40)
    cached = CachedLoss(network, losses.SupConLoss(), 8)
    value = cached({"image": inputs}, labels)
    with torch.no_grad():
        assert cached({"image": inputs}, labels).item() == pytest.approx(value.item(), rel=1e-6)
    with pytest.raises(ValueError, match="no tensor"):
        cached({}, labels)


def test_autocast_is_kept():
    network, (inputs, labels) = model(), batch(48)
    seen = []
    network[4].register_forward_hook(lambda _module, _inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = CachedLoss(network, losses.SupConLoss(), 16)(inputs, labels)
    value.backward()
    assert len(seen) == 6 and set(seen) == {torch.bfloat16}
