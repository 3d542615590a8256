"""Decomposition of a value into parts by token: parts add up, and biases and products are shared as stated."""

import pytest
import torch
from torch.nn import functional as F

from tests.tapes import Do, record
from whence.lrp.decompose import decompose, roll_out, split_by_token


def parts_of(fn, x, bias="absdot", real=None):
    """Decompose fn(x) by the tokens of x, (batch, tokens, features); return parts and value."""
    tape, outlet, output = record(Do(fn), x)
    real = torch.ones(x.shape[:2], dtype=torch.bool) if real is None else real
    parts = decompose(tape, {0: split_by_token(tape.value(0))}, outlet, real=real, bias=bias)
    return parts, output.detach()


MATRIX = torch.tensor([[0.5, -1.0, 0.3], [0.2, 0.4, -0.6], [1.0, 0.1, 0.2]], dtype=torch.float64)
SHIFT = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)


def mix_tokens(x):
    """Tokens mixed by constants, as attention does."""
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]).double()
    return weights @ x


WHOLE = {
    "linear": lambda x: F.linear(mix_tokens(x), MATRIX, SHIFT),
    "activation": lambda x: F.gelu(F.linear(mix_tokens(x), MATRIX, SHIFT)),
    "norm": lambda x: F.layer_norm(mix_tokens(x) + x, (3,), SHIFT, SHIFT),
    "gate": lambda x: F.silu(mix_tokens(x)) * F.linear(x, MATRIX, SHIFT),
    "square": lambda x: mix_tokens(x) * mix_tokens(x),
    "root": lambda x: mix_tokens(x) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "constant": lambda x: mix_tokens(x) + SHIFT,
    "joined": lambda x: torch.cat([mix_tokens(x), SHIFT.expand(2, 1, 3)], dim=1),
    "softmax": lambda x: (x @ x.mT).softmax(-1) @ x,
}


@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize("bias", ["absdot", "abssim", "norm", "equal"])
def test_decompose_gives_parts_that_add_up_to_the_value(what, bias):
    torch.manual_seed(0)
    parts, value = parts_of(WHOLE[what], torch.randn(2, 3, 3, dtype=torch.float64), bias)
    torch.testing.assert_close(parts.sum(0), value)


def test_decompose_without_bias_lacks_the_bias_in_the_sum():
    torch.manual_seed(0)
    parts, value = parts_of(WHOLE["linear"], torch.randn(2, 3, 3, dtype=torch.float64), "none")
    torch.testing.assert_close(parts.sum(0), value - SHIFT)


def test_decompose_with_absdot_shares_a_bias_by_its_dot_product_with_the_parts():
    torch.manual_seed(0)
    x = torch.randn(1, 3, 3, dtype=torch.float64)
    parts, _ = parts_of(WHOLE["linear"], x)
    said, _ = parts_of(WHOLE["linear"], x, "none")
    weight = (said * SHIFT).sum(-1, keepdim=True).abs()
    torch.testing.assert_close(parts, said + SHIFT * weight / weight.sum(0, keepdim=True))


def test_decompose_gives_each_factor_of_a_product_half():
    torch.manual_seed(0)
    x = torch.randn(1, 3, 3, dtype=torch.float64)
    parts, _ = parts_of(lambda x: mix_tokens(x) * (x * 2), x, "none")
    one, other = parts_of(mix_tokens, x, "none"), parts_of(lambda x: x * 2, x, "none")
    wanted = (one[0] * other[1] + one[1] * other[0]) / 2
    torch.testing.assert_close(parts, wanted)


def test_decompose_of_zero_parts_shares_a_bias_equally_among_real_tokens():
    x = torch.zeros(1, 3, 3, dtype=torch.float64)
    real = torch.tensor([[True, True, False]])
    parts, value = parts_of(lambda x: F.gelu(F.linear(x, MATRIX, SHIFT)), x, real=real)
    torch.testing.assert_close(parts.sum(0), value)
    assert not parts[2].any()
    torch.testing.assert_close(parts[0], parts[1])


def test_decompose_shares_an_orthogonal_bias_by_the_size_of_the_parts():
    x = torch.zeros(1, 3, 3, dtype=torch.float64)
    x[0, 0, 0], x[0, 1, 0] = 1, 3
    shift = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    average = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    parts, _ = parts_of(lambda x: average @ x + shift, x)
    torch.testing.assert_close(parts[:, 0, 0, 1], torch.tensor([0.25, 0.75, 0.0]).double())


def test_roll_out_leaves_a_row_of_zeros_in_place():
    rows = torch.tensor([[0.5, 0.5]])
    (scores,) = roll_out(rows, [torch.tensor([[[0.0, 0.0], [1.0, 3.0]]])], row_normalise=True)
    torch.testing.assert_close(scores, torch.tensor([0.5 + 0.125, 0.375]))
