"""Linear layers in fewer products than their rule is written in; moves and values that need not be kept."""

import pytest
import torch
from torch import nn

from tests.tapes import Do, carried_to_input, record
from whence.kernels import products
from whence.lrp import CHEFER


def four_products(relevance, x, weight, eps=1e-9):
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
def test_three_products_are_as_good_as_four(dtype, most, bias):
    torch.manual_seed(3)
    layer = nn.Linear(24, 17, bias=bias).to(dtype)
    x, seed = torch.randn(3, 5, 24, dtype=dtype), torch.randn(3, 5, 17, dtype=dtype)
    found, _ = carried_to_input(layer, x, CHEFER, "paper", seed)
    expected = four_products(seed, x, layer.weight.detach().T)
    assert (found.double() - expected).norm() / expected.norm() < most


def test_what_nothing_agrees_with_hands_nothing_on():
    # Every product x·w is negative: x > 0, w < 0. In float32 their sum and its mirror leave rounding, not zero.
    torch.manual_seed(0)
    layer = nn.Linear(301, 1)
    with torch.no_grad():
        layer.weight.copy_(-layer.weight.abs() - 0.1)
    for stabiliser in ("paper", "signed"):
        found, _ = carried_to_input(layer, torch.rand(4, 301) + 0.1, CHEFER, stabiliser)
        assert (found == 0).all()


def test_rows_that_carry_nothing_get_nothing_and_change_nothing():
    torch.manual_seed(1)
    layer, x, seed = (
        nn.Linear(6, 4).double(),
        torch.randn(2, 7, 6).double(),
        torch.zeros(2, 7, 4).double(),
    )
    nothing, _ = carried_to_input(layer, x, CHEFER, "paper", seed)
    assert (nothing == 0).all()
    seed[1, 3] = torch.randn(4).double()
    found, _ = carried_to_input(layer, x, CHEFER, "paper", seed)
    expected = four_products(seed, x, layer.weight.detach().T)
    assert torch.allclose(found, expected, rtol=1e-12, atol=0)
    assert (found[0] == 0).all() and (found[1, 3] != 0).any()


def test_halves_lose_no_digits_that_count():
    """bfloat16 values are exact in both products. A quotient in two parts of 8 bits each is off by 2^-17 at most."""
    torch.manual_seed(2)
    x, weight = torch.randn(2, 9, 32).bfloat16(), torch.randn(32, 20).bfloat16()
    relevance = torch.randn(2, 9, 20)
    found = products.agreeing(relevance, x, weight, signed=False)
    expected = four_products(relevance, x, weight)
    assert found.dtype == torch.float32
    assert (found.double() - expected).norm() / expected.norm() < 2**-16
    rounded = four_products(relevance, x, weight, eps=2**-9)  # this is what can be told apart
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
def test_what_is_moved_goes_back_to_where_it_came_from(move):
    """Relevance of what is only moved goes the way of the gradient."""
    torch.manual_seed(4)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    output = move(leaf * 1.0)
    seed = torch.randn_like(output)
    (expected,) = torch.autograd.grad(output, leaf, seed)
    found, _ = carried_to_input(Do(lambda x: move(x * 1.0)), x, CHEFER, "signed", seed)
    # Signs stand beside: the one negative part is handed on as it is, where a gradient would turn its sign.
    assert torch.allclose(found.abs(), expected.abs(), rtol=1e-10)


def test_a_norm_that_is_written_out_keeps_only_its_result():
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
