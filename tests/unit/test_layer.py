"""The contraction equals the product with the map written out, for every kind of mask and head layout."""

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.capture import layer as module
from whence.capture.layer import Computed, Stored, contract, contract_normalised


def example(seed, *, batch, heads, groups, n, width, mask, softcap, bias, sink):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    masks = {
        "none": (None, False),
        "causal": (None, True),
        "boolean": (torch.rand(batch, 1, n, n, generator=g) > 0.3, False),
        "additive": (normal(batch, 1, n, n), False),
        "row": (torch.rand(batch, 1, 1, n, generator=g) > 0.3, False),
    }
    chosen, causal = masks[mask]
    if chosen is not None and chosen.dtype == torch.bool:
        chosen[..., 0] = True  # a row that may attend to nothing has no softmax
    return Computed(
        q=normal(batch, heads, n, width),
        k=normal(batch, heads // groups, n, width),
        v=normal(batch, heads // groups, n, width),
        out_grad=normal(batch, heads, n, width),
        mask=chosen,
        causal=causal,
        bias=normal(1, heads, n, n) if bias else None,
        scale=0.4,
        softcap=softcap,
        sink=normal(heads) if sink else None,
    )


def written_out(layer):
    """Return A and dL/dA by loops over batch and heads."""
    batch, heads, n, _ = layer.q.shape
    groups = heads // layer.k.shape[1]
    maps = torch.zeros(batch, heads, n, n, dtype=torch.float64)
    grads = torch.zeros_like(maps)
    for b in range(batch):
        for h in range(heads):
            scores = layer.scale * layer.q[b, h] @ layer.k[b, h // groups].T
            if layer.softcap:
                scores = layer.softcap * torch.tanh(scores / layer.softcap)
            if layer.mask is not None:
                m = layer.mask.expand(batch, 1, n, n)[b, 0]
                scores = scores.masked_fill(~m, -1e30) if m.dtype == torch.bool else scores + m
            if layer.causal:
                scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -1e30)
            if layer.bias is not None:
                scores = scores + layer.bias[0, h]
            e = scores.exp()
            total = e.sum(-1, keepdim=True)
            if layer.sink is not None:
                total = total + layer.sink[h].exp()
            maps[b, h] = e / total
            grads[b, h] = layer.out_grad[b, h] @ layer.v[b, h // groups].T
    return maps, grads


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    batch=st.integers(1, 3),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    n=st.integers(1, 9),
    mask=st.sampled_from(["none", "causal", "boolean", "additive", "row"]),
    softcap=st.sampled_from([None, 2.0]),
    bias=st.booleans(),
    sink=st.booleans(),
    tile=st.sampled_from([1, 500, 1 << 24]),
)
def test_contraction(seed, batch, key_heads, groups, n, mask, softcap, bias, sink, tile):
    layer = example(
        seed, batch=batch, heads=key_heads * groups, groups=groups, n=n, width=4,
        mask=mask, softcap=softcap, bias=bias, sink=sink,
    )  # fmt: skip
    maps, grads = written_out(layer)
    torch.testing.assert_close(layer.map(), maps)
    torch.testing.assert_close(layer.map_grad(), grads)
    row = torch.randn(batch, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    row[:, n // 2] = 0  # a row without weight costs nothing and changes nothing
    # A quotient as wide as the output; the relevance of the map is A ∘ (S Vᵀ) / 2.
    quotient = torch.randn_like(layer.out_grad)
    values = layer.v.repeat_interleave(groups, dim=1)
    relevance = maps * (quotient @ values.mT) / 2
    torch.testing.assert_close(layer.weights_relevance(quotient), relevance)
    wanted = {
        "attention": maps,
        "gradient_x_attention": maps * grads,
        "positive_gradient_x_attention": (maps * grads).clamp(min=0),
        "positive_relevance": relevance.clamp(min=0),
        "positive_gradient_x_relevance": (grads * relevance).clamp(min=0),
    }
    assert set(wanted) == set(get_args(module.Combination))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.TILE_BYTES, "cpu", tile)
        for combination, written in wanted.items():
            found = contract(layer, row, combination, quotient=quotient)
            torch.testing.assert_close(found, torch.einsum("bq,bqk->bk", row, written.mean(1)))
            if combination.startswith("positive"):
                mixed = torch.eye(n, dtype=torch.float64) + written.mean(1)
                mixed = mixed / mixed.sum(-1, keepdim=True)
                found = contract_normalised(layer, row, combination, quotient=quotient)
                torch.testing.assert_close(found, torch.einsum("bq,bqk->bk", row, mixed))


def test_no_map_is_ever_whole(monkeypatch):
    """With small tiles, no tensor of tokens x tokens exists while a row is contracted."""
    layer = example(
        0,
        batch=1,
        heads=2,
        groups=1,
        n=64,
        width=4,
        mask="causal",
        softcap=None,
        bias=False,
        sink=False,
    )
    monkeypatch.setitem(module.TILE_BYTES, "cpu", 2 * 64 * 8 * 4)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.numel())
            return out

    with Watch():
        contract(layer, torch.ones(1, 64, dtype=torch.float64))
    assert largest <= 2 * 4 * 64


def test_stored_maps_are_contracted_the_same_way():
    computed = example(
        3,
        batch=2,
        heads=3,
        groups=1,
        n=5,
        width=4,
        mask="none",
        softcap=None,
        bias=False,
        sink=False,
    )
    stored = Stored(probabilities=computed.map(), v=computed.v)
    stored.take_grad(computed.out_grad.reshape(6, 5, 4))
    row = torch.ones(2, 5, dtype=torch.float64)
    for combination in ("attention", "gradient_x_attention", "positive_gradient_x_attention"):
        torch.testing.assert_close(
            contract(stored, row, combination), contract(computed, row, combination)
        )
