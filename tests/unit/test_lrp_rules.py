"""LRP rules of sums, activations, norms, attention and convolution equal their formulas, beyond conservation."""

import pytest
import torch
from torch.nn import functional as F

from tests.tapes import Do, propagate_to_input
from whence.lrp.tables import ATTN_LRP, CHEFER, CP_LRP, ORIGINAL_LRP


def test_sum_rule_shares_relevance_by_signed_and_weighted_terms():
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
        found, output = propagate_to_input(Do(fn), x, ORIGINAL_LRP)
        torch.testing.assert_close(found.sum(1), torch.ones_like(output).sum(1))
    # By hand: of x - b/4, x gets x/y and b gets -(b/4)/y.
    found, y = propagate_to_input(Do(sums[0]), x, ORIGINAL_LRP)
    wanted = x / y + (-0.25 * x.flip(-1) / y).flip(-1)
    torch.testing.assert_close(found, wanted)


def test_constant_terms_get_no_relevance_at_any_position():
    x = torch.rand(3, 1, dtype=torch.float64) + 0.5
    many = torch.rand(3, 4, dtype=torch.float64)
    for fn in (lambda x: x + many, lambda x: many + x, lambda x: many - x, lambda x: x / many):
        found, _ = propagate_to_input(Do(fn), x, CHEFER)
        assert torch.equal(found, torch.full_like(x, 4))  # one from each place it was spread to
    # What comes out of a root is a constant too, and comes first here.
    found, _ = propagate_to_input(Do(lambda x: x.rsqrt() + x), x, CHEFER)
    assert torch.equal(found, torch.ones_like(x))


def test_attn_lrp_of_a_reversed_difference_negates_the_quotient():
    found, _ = propagate_to_input(Do(lambda x: 2 - x), torch.rand(2, 3), ATTN_LRP)
    assert torch.equal(found, -torch.ones(2, 3))


def test_rules_with_heads_folded_into_the_batch_treat_samples_separately():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 4, dtype=torch.float64)

    def folded(x):
        heads = x.reshape(-1, 3, 4)
        return (heads - 1.7 * heads.flip(-1)).reshape(len(x), -1)

    together, _ = propagate_to_input(Do(folded), x, CHEFER)
    for row in range(2):
        alone, _ = propagate_to_input(Do(folded), x[row : row + 1], CHEFER)
        torch.testing.assert_close(together[row], alone[0])


def test_attn_lrp_of_gelu_at_zero_passes_no_relevance():
    found, _ = propagate_to_input(Do(F.gelu), torch.tensor([[0.0, 1.0]]), ATTN_LRP)
    assert found[0, 0] == 0
    assert found[0, 1] == pytest.approx(F.gelu(torch.tensor(1.0)).item())


def test_attn_lrp_of_sigmoid_passes_its_derivative():
    x = torch.randn(2, 3, dtype=torch.float64)
    found, y = propagate_to_input(Do(torch.sigmoid), x, ATTN_LRP)
    torch.testing.assert_close(found, y * (1 - y))


def test_rules_of_fused_rms_norm_equal_those_of_rms_norm_written_out():
    torch.manual_seed(0)
    weight = torch.rand(4, dtype=torch.float64)
    x = torch.randn(3, 4, dtype=torch.float64)

    def written_out(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    for table in (CHEFER, ATTN_LRP, CP_LRP):
        seed = torch.rand(3, 4, dtype=torch.float64)
        whole, _ = propagate_to_input(
            Do(lambda x: F.rms_norm(x, (4,), weight, 1e-6)), x, table, seed=seed
        )
        parts, _ = propagate_to_input(Do(written_out), x, table, seed=seed)
        torch.testing.assert_close(whole, parts)


def test_rules_of_fused_attention_scale_its_derivative_by_the_factors():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 9, dtype=torch.float64)

    def attend(x):
        q, k, v = x.chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)

    found, _ = propagate_to_input(Do(attend), x, ATTN_LRP)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(attend(leaf).sum(), leaf)
    shares = torch.cat([torch.full((6,), 1 / 4), torch.full((3,), 1 / 2)]).double()
    torch.testing.assert_close(found, slope * shares)
    only, _ = propagate_to_input(Do(attend), x, CP_LRP)
    torch.testing.assert_close(only, slope * torch.tensor([0.0] * 6 + [1.0] * 3).double())


def test_box_rule_of_a_convolution_equals_the_formula_of_the_paper():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    weight = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    seed = torch.rand(2, 5, 2, 2, dtype=torch.float64)
    found, _ = propagate_to_input(
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
