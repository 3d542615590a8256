"""Relevance through an attention, by tiles and by the fused kernels, against the slow twin."""

import pytest
import torch

from tests.reference.test_kernel_twins import DEVICE, IMPLEMENTATIONS
from tests.reference.twins_share import shared
from whence.kernels.contract import use_implementation
from whence.kernels.maps import VisibleKeys
from whence.kernels.share import select_stabiliser_size, share_relevance
from whence.kernels.tiled import use_tile_size
from whence.tracing.attention_layer import ComputedAttention

_REAL = torch.tensor([[True] * 9, [True] * 6 + [False] * 3])
MASKS = {
    "none": VisibleKeys(),
    "causal": VisibleKeys(right=0),
    "padded": VisibleKeys(keys=_REAL.to(DEVICE)),
    "causal padded": VisibleKeys(right=0, keys=_REAL.to(DEVICE)),
    "window": VisibleKeys(left=2, right=1),
    "written out": VisibleKeys(dense=torch.ones(9, 9).tril(2).bool()[None, None].to(DEVICE)),
}
# Said by numpy to Triton's interpreter, where a query sees no key of a tile.
pytestmark = pytest.mark.filterwarnings("ignore:(divide by zero|invalid value|overflow)")

# What an error is measured against is the sum of all terms taken as positive. A term is a product of an exponential,
# of sums of up to 5 products and of quotients of such: some tens of roundings. bfloat16 rounds S, A and the quotient
# themselves, to 8 bits each; float16 goes through TF32, with 11 bits.
TOLERANCE = {
    torch.float64: 1e-13,
    torch.float32: 3e-6,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def layer_of(mask, heads, key_heads, dtype):
    """Return a layer, and a quotient for its output; scores keep away from zero, where a quotient is all rounding."""
    draw = torch.Generator().manual_seed(heads)

    def drawn(*shape):
        return (torch.rand(*shape, generator=draw) + 0.25).to(dtype).to(DEVICE)

    q, k, v = drawn(2, heads, 9, 6), drawn(2, key_heads, 9, 6), drawn(2, key_heads, 9, 5)
    wide = torch.promote_types(dtype, torch.float32)
    quotient = torch.randn(2, heads, 9, 5, generator=draw).to(wide).to(DEVICE)
    return ComputedAttention(q=q, k=k, v=v, visible=MASKS[mask]), quotient


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("signed", "masked"), [(True, True), (False, True), (False, False)])
def test_relevance_is_shared_as_the_formulas_say(implementation, mask, dtype, signed, masked):
    if implementation == "fused" and DEVICE == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter multiplies the bits of bfloat16, not its numbers")
    layer, quotient = layer_of(mask, 4, 2 if mask != "window" else 4, dtype)
    eps = select_stabiliser_size(signed, quotient)
    expected, sizes, before, after = shared(layer, quotient, signed=signed, masked=masked, eps=eps)
    with use_implementation(implementation), use_tile_size(1 if mask == "causal" else 1 << 20):
        found = share_relevance(layer, quotient, signed=signed, masked=masked)
    for got, want, most in zip(found[:3], expected, sizes, strict=True):
        error = (got.double() - want).abs() / most.clamp(min=1e-12)
        assert got.isfinite().all() and error.max() <= TOLERANCE[dtype]
    if found.before is not None and found.after is not None:
        # A sum over all of a map, whose terms have both signs: against what they are taken as positive.
        most = sizes[2].sum((1, 2, 3)) * 10
        for got, want in ((found.before, before), (found.after, after)):
            error = (
                got.double().cpu() - torch.tensor(want, dtype=torch.float64)
            ).abs() / most.cpu()
            assert error.max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_queries_that_carry_nothing_change_nothing(implementation):
    layer, quotient = layer_of("causal", 4, 2, torch.float32)
    quotient[:, :, :-1] = 0
    with use_implementation(implementation):
        found = share_relevance(layer, quotient, signed=False, masked=True)
    assert (found.q[:, :, :-1] == 0).all() and (found.q[:, :, -1] != 0).all()
    # Everything that arrives is there again: half at the values, a quarter at queries and at keys.
    whole = (quotient * _output(layer)).sum((1, 2, 3))
    for got, part in zip(found[:3], (0.25, 0.25, 0.5), strict=True):
        assert torch.allclose(got.sum((1, 2, 3)), whole * part, rtol=1e-4)


def _output(layer):
    weights = layer.weights()
    return weights @ layer.v.repeat_interleave(2, 1)
