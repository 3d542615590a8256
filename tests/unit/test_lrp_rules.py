"""Rules by hand: each against its formula, in the cases where a wrong one would still conserve."""

import pytest
import torch
from torch.nn import functional as F

from tests.tapes import Do, carried_to_input
from whence.lrp import ATTN_LRP, CHEFER, CP_LRP, ORIGINAL_LRP


def test_terms_keep_their_signs_and_weights():
    """Without normalisation, shares add up only if every term is taken as it stands in the sum."""
    x = torch.rand(3, 4, dtype=torch.float64) + 0.5
    sums = [
        lambda x: x - x.flip(-1) * 0.25,
        lambda x: torch.sub(x, x.flip(-1), alpha=0.25),
        lambda x: torch.add(x, x.flip(-1), alpha=-0.25),
        lambda x: torch.subtract(x, x.flip(-1) * 0.25),
        lambda x: x + x.mean(-1, keepdim=True),
        lambda x: x.mean(-1, keepdim=True) - 2 * x,
    ]
    for fn in sums:
        found, output = carried_to_input(Do(fn), x, ORIGINAL_LRP)
        torch.testing.assert_close(found.sum(1), torch.ones_like(output).sum(1))
    # By hand: of x - b/4, x gets x/y and b gets -(b/4)/y.
    found, y = carried_to_input(Do(sums[0]), x, ORIGINAL_LRP)
    wanted = x / y + (-0.25 * x.flip(-1) / y).flip(-1)
    torch.testing.assert_close(found, wanted)


def test_a_constant_term_gets_nothing_wherever_it_stands():
    x = torch.rand(3, 1, dtype=torch.float64) + 0.5
    many = torch.rand(3, 4, dtype=torch.float64)
    for fn in (lambda x: x + many, lambda x: many + x, lambda x: many - x, lambda x: x / many):
        found, _ = carried_to_input(Do(fn), x, CHEFER)
        assert torch.equal(found, torch.full_like(x, 4))  # one from each place it was spread to
    # What comes out of a root is a constant too, and comes first here.
    found, _ = carried_to_input(Do(lambda x: x.rsqrt() + x), x, CHEFER)
    assert torch.equal(found, torch.ones_like(x))


def test_a_reversed_difference_turns_the_quotient_round():
    found, _ = carried_to_input(Do(lambda x: 2 - x), torch.rand(2, 3), ATTN_LRP)
    assert torch.equal(found, -torch.ones(2, 3))


def test_samples_are_told_apart_where_heads_are_folded_into_the_batch():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 4, dtype=torch.float64)

    def folded(x):
        heads = x.reshape(-1, 3, 4)
        return (heads - 1.7 * heads.flip(-1)).reshape(len(x), -1)

    together, _ = carried_to_input(Do(folded), x, CHEFER)
    for row in range(2):
        alone, _ = carried_to_input(Do(folded), x[row : row + 1], CHEFER)
        torch.testing.assert_close(together[row], alone[0])


def test_an_activation_at_zero_hands_on_nothing():
    found, _ = carried_to_input(Do(F.gelu), torch.tensor([[0.0, 1.0]]), ATTN_LRP)
    assert found[0, 0] == 0
    assert found[0, 1] == pytest.approx(F.gelu(torch.tensor(1.0)).item())


def test_a_sigmoid_does_not_start_at_zero_and_hands_on_its_slope():
    x = torch.randn(2, 3, dtype=torch.float64)
    found, y = carried_to_input(Do(torch.sigmoid), x, ATTN_LRP)
    torch.testing.assert_close(found, y * (1 - y))


def test_a_root_mean_square_norm_is_the_same_in_one_piece_or_written_out():
    torch.manual_seed(0)
    weight = torch.rand(4, dtype=torch.float64)
    x = torch.randn(3, 4, dtype=torch.float64)

    def written_out(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    for table in (CHEFER, ATTN_LRP, CP_LRP):
        seed = torch.rand(3, 4, dtype=torch.float64)
        whole, _ = carried_to_input(
            Do(lambda x: F.rms_norm(x, (4,), weight, 1e-6)), x, table, seed=seed
        )
        parts, _ = carried_to_input(Do(written_out), x, table, seed=seed)
        torch.testing.assert_close(whole, parts)


def test_attention_in_one_piece_is_its_derivative_over_the_number_of_factors():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 9, dtype=torch.float64)

    def attend(x):
        q, k, v = x.chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)

    found, _ = carried_to_input(Do(attend), x, ATTN_LRP)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(attend(leaf).sum(), leaf)
    shares = torch.cat([torch.full((6,), 1 / 4), torch.full((3,), 1 / 2)]).double()
    torch.testing.assert_close(found, slope * shares)
    only, _ = carried_to_input(Do(attend), x, CP_LRP)
    torch.testing.assert_close(only, slope * torch.tensor([0.0] * 6 + [1.0] * 3).double())


def test_the_box_rule_is_that_of_the_paper():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    weight = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    seed = torch.rand(2, 5, 2, 2, dtype=torch.float64)
    found, _ = carried_to_input(
        Do(lambda x: F.conv2d(x, weight, stride=2)), x, CHEFER, "paper", seed
    )
    low = x.amin((1, 2, 3), keepdim=True).expand_as(x)
    high = x.amax((1, 2, 3), keepdim=True).expand_as(x)
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    bottom = (
        F.conv2d(x, weight, stride=2) - F.conv2d(low, up, stride=2) - F.conv2d(high, down, stride=2)
    )
    s = seed / (bottom + 1e-9)

    def back(w):
        return F.conv_transpose2d(s, w, stride=2)

    torch.testing.assert_close(found, x * back(weight) - low * back(up) - high * back(down))
    torch.testing.assert_close(found.sum((1, 2, 3)), seed.sum((1, 2, 3)))
