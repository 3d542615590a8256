"""LRP rule z+ of linear layers in three products equals four; relevance of moved values; values the tape drops."""

import pytest
import torch
from torch import nn

from tests.tapes import Do, propagate_to_input, record
from whence.kernels import share
from whence.lrp.tables import CHEFER


def z_plus_in_four_products(relevance, x, weight, eps=1e-9):
    """z+ as it is written, in float64; weights are inputs x outputs."""
    x, weight, relevance = x.double(), weight.double(), relevance.double()
    x_up, x_down, w_up, w_down = x.clamp(min=0), x.clamp(max=0), weight.clamp(min=0), weight.clamp(max=0)  # fmt: skip
    total = x_up @ w_up + x_down @ w_down
    quotient = torch.where(total == 0, 0.0, relevance / (total + eps))
    return x_up * (quotient @ w_up.T) + x_down * (quotient @ w_down.T)


# float64: each sum has some 30 terms, so some tens of roundings of 1e-16. float32: likewise of 6e-8, made larger by
# sums of which a small part agrees: a hundredth, at the worst of these.
@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 2e-4)])
@pytest.mark.parametrize("bias", [True, False])
def test_z_plus_in_three_products_equals_z_plus_in_four(dtype, most, bias):
    torch.manual_seed(3)
    layer = nn.Linear(24, 17, bias=bias).to(dtype)
    x, seed = torch.randn(3, 5, 24, dtype=dtype), torch.randn(3, 5, 17, dtype=dtype)
    found, _ = propagate_to_input(layer, x, CHEFER, "paper", seed)
    expected = z_plus_in_four_products(seed, x, layer.weight.detach().T)
    assert (found.double() - expected).norm() / expected.norm() < most


def test_z_plus_of_an_output_without_positive_products_gives_zero_relevance():
    # Every product x·w is negative: x > 0, w < 0. In float32 their sum and its mirror leave rounding, not zero.
    torch.manual_seed(0)
    layer = nn.Linear(301, 1)
    with torch.no_grad():
        layer.weight.copy_(-layer.weight.abs() - 0.1)
    for stabiliser in ("paper", "signed"):
        found, _ = propagate_to_input(layer, torch.rand(4, 301) + 0.1, CHEFER, stabiliser)
        assert (found == 0).all()


def test_z_plus_of_rows_without_relevance_is_zero_and_leaves_other_rows_right():
    torch.manual_seed(1)
    layer, x, seed = (
        nn.Linear(6, 4).double(),
        torch.randn(2, 7, 6).double(),
        torch.zeros(2, 7, 4).double(),
    )
    nothing, _ = propagate_to_input(layer, x, CHEFER, "paper", seed)
    assert (nothing == 0).all()
    seed[1, 3] = torch.randn(4).double()
    found, _ = propagate_to_input(layer, x, CHEFER, "paper", seed)
    expected = z_plus_in_four_products(seed, x, layer.weight.detach().T)
    assert torch.allclose(found, expected, rtol=1e-12, atol=0)
    assert (found[0] == 0).all() and (found[1, 3] != 0).any()


def test_z_plus_of_bfloat16_values_is_exact_to_sixteen_bits():
    """bfloat16 values are exact in both products. A quotient in two parts of 8 bits each is off by 2^-17 at most."""
    torch.manual_seed(2)
    x, weight = torch.randn(2, 9, 32).bfloat16(), torch.randn(32, 20).bfloat16()
    relevance = torch.randn(2, 9, 20)
    found = share.compute_z_plus(relevance, x, weight, signed=False)
    expected = z_plus_in_four_products(relevance, x, weight)
    assert found.dtype == torch.float32
    assert (found.double() - expected).norm() / expected.norm() < 2**-16
    rounded = z_plus_in_four_products(
        relevance, x, weight, eps=2**-9
    )  # this is what can be told apart
    assert (rounded - expected).norm() / expected.norm() > 2**-16


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.view(2, 12), lambda x: x.transpose(1, 2), lambda x: x.transpose(-1, 0),
        lambda x: x.permute(2, 0, 1), lambda x: x.permute((1, -1, 0)), lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x[:, 1:], lambda x: x[..., 0], lambda x: x[:, None, -1], lambda x: x[0].t(),
        lambda x: x.float().double(), lambda x: x.expand(2, 3, 4), lambda x: x.flatten(1).reshape(4, -1),
        lambda x: torch.cat([x[..., 2:], torch.ones(2, 3, 1).double(), -x[..., :2]], dim=-1),
        lambda x: x[:, torch.tensor([2, 0])], lambda x: x[x.detach() > 0],
    ],
)  # fmt: skip
def test_relevance_of_moved_values_equals_the_gradient_in_size(move):
    """Relevance of what is only moved goes the way of the gradient."""
    torch.manual_seed(4)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    output = move(leaf * 1.0)
    seed = torch.randn_like(output)
    (expected,) = torch.autograd.grad(output, leaf, seed)
    found, _ = propagate_to_input(Do(lambda x: move(x * 1.0)), x, CHEFER, "signed", seed)
    # Signs stand beside: the one negative part is handed on as it is, where a gradient would turn its sign.
    assert torch.allclose(found.abs(), expected.abs(), rtol=1e-10)


def test_tape_of_a_written_out_norm_drops_intermediate_values_and_can_recompute():
    """What it made on its way is made again for who asks, to the last bit."""

    class Norm(nn.Module):
        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    x = torch.randn(2, 4, dtype=torch.float64)
    tape, outlet, output = record(nn.Sequential(Norm()), x)
    assert torch.equal(tape.value(outlet), output.detach())
    squares, means = tape.steps[0].outputs[0], tape.steps[1].outputs[0]
    assert len(tape._dropped) == len(tape.steps) - 1
    assert torch.equal(tape.value(squares), x.pow(2))
    assert torch.equal(tape.value(means), x.pow(2).mean(-1, keepdim=True))
