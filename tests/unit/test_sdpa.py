"""Attention computed from visible keys: without a mask, with a small mask, or in blocks, results are equal."""

import pytest
import torch

from tests.unit.test_masks import Largest
from whence.kernels.maps import VisibleKeys
from whence.tracing import sdpa
from whence.tracing.attention_layer import ComputedAttention

QUERIES, HEADS, KEY_HEADS, WIDTH = 37, 4, 2, 5
REAL = torch.arange(QUERIES) < torch.tensor([[QUERIES], [11]])
PARTS = torch.arange(QUERIES) // 6


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


VISIBLE = {
    "everything": {},
    "causal": {"right": 0},
    "causal, padding at the end": {"right": 0, "keys": REAL, "trailing": True},
    "causal, padding at the start": {"right": 0, "keys": REAL.flip(1)},
    "padding": {"keys": REAL},
    "one-sided window": {"left": 3, "right": 0},
    "one-sided window, padding at the start": {"left": 3, "right": 0, "keys": REAL.flip(1)},
    "two-sided window": {"left": 4, "right": 4},
    "two-sided window, padding at the end": {"left": 4, "right": 4, "keys": REAL},
    "to the left without end": {"right": 2},
    "to the right without end": {"left": 2},
    "rule": {"rule": lambda rows: (PARTS[rows][:, None] == PARTS)[None, None]},
    "rule, causal, padding": {
        "right": 0, "keys": REAL, "rule": lambda rows: (PARTS[rows][:, None] == PARTS)[None, None],
    },
    "written": {"dense": REAL[:, None, None].expand(2, 1, QUERIES, QUERIES)},
    "numbers": {"dense": draw(2, 1, QUERIES, QUERIES, seed=5)},
}  # fmt: skip
EXTRAS = {
    "plain": {},
    "scaled": {"scale": 0.9},
    "bias": {"bias": draw(1, HEADS, QUERIES, QUERIES, seed=6)},
    "capped": {"softcap": 0.7},
    "sink": {"sink": draw(HEADS, seed=7)},
}


def layer_of(seen, extra, key_heads=KEY_HEADS):
    q = draw(2, HEADS, QUERIES, WIDTH, seed=1).requires_grad_()
    k, v = (draw(2, key_heads, QUERIES, WIDTH, seed=n).requires_grad_() for n in (2, 3))
    return ComputedAttention(q=q, k=k, v=v, visible=VisibleKeys(**VISIBLE[seen]), **EXTRAS[extra])


def is_visible(visible, b, i, j):
    return (
        (visible.left is None or j >= i - visible.left)
        and (visible.right is None or j <= i + visible.right)
        and (visible.keys is None or bool(visible.keys[b, j]))
        and (visible.rule is None or i // 6 == j // 6)
        and (visible.dense is None or bool(visible.dense[b, 0, i, j] != 0))
    )


def compute_reference_attention(layer):
    """Make the map, with a mask of one answer after another."""
    visible, places = layer.visible, range(QUERIES)
    seen = torch.tensor(
        [[[is_visible(visible, b, i, j) for j in places] for i in places] for b in range(2)]
    )
    k, v = (one.repeat_interleave(HEADS // one.shape[1], 1) for one in (layer.k, layer.v))
    scores = layer.q @ k.transpose(-1, -2) * (layer.scale or WIDTH**-0.5)
    if layer.softcap is not None:
        scores = torch.tanh(scores / layer.softcap) * layer.softcap
    if visible.dense is not None and visible.dense.dtype != torch.bool:
        scores = scores + visible.dense
    if layer.bias is not None:
        scores = scores + layer.bias
    powers = scores.exp() * seen[:, None]
    rest = 0 if layer.sink is None else layer.sink.exp()[:, None, None]
    return powers / (powers.sum(-1, keepdim=True) + rest).clamp(min=1e-300) @ v


def find_compared_queries(layer):
    """Queries that see something, and whose answer somebody may read, (batch, 1, queries, 1)."""
    seen = layer.visible.build_mask(torch.arange(QUERIES), QUERIES)
    some = torch.ones(2, QUERIES, dtype=torch.bool)
    if seen is not None:
        some = some & seen.any(-1).any(1)
    if layer.visible.trailing:
        some = some & REAL
    return some[:, None, :, None]


def in_small_blocks(monkeypatch):
    """Let every attention be computed five rows at a time, and fewer in the end."""
    sizes = {
        "_MAX_BYTES": -1, "_MAX_NARROW_BYTES": -1, "_BLOCK_BYTES": {}, "_DEFAULT_BLOCK_BYTES": 1, "_MIN_BLOCK_ROWS": 5,
    }  # fmt: skip
    for name, size in sizes.items():
        monkeypatch.setattr(sdpa, name, size)


def compute_with_gradients(layer, weight):
    out = sdpa.attend(layer.q, layer.k, layer.v, layer)
    return out, torch.autograd.grad((out * weight).sum(), (layer.q, layer.k, layer.v))


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("seen", VISIBLE)
def test_attend_and_gradients_equal_written_out_attention(seen, extra, blocks, monkeypatch):
    if blocks:
        in_small_blocks(monkeypatch)
    layer = layer_of(seen, extra)
    where = find_compared_queries(layer)
    weight = draw(2, HEADS, QUERIES, WIDTH, seed=4) * where
    wanted = compute_reference_attention(layer)
    slopes = torch.autograd.grad((wanted * weight).sum(), (layer.q, layer.k, layer.v))
    out, grads = compute_with_gradients(layer, weight)
    # Sums of 37 terms of the order of 1, in float64.
    torch.testing.assert_close(out * where, wanted * where, rtol=0, atol=1e-13)
    for grad, slope in zip(grads, slopes, strict=True):
        torch.testing.assert_close(grad, slope, rtol=0, atol=1e-12)
    with torch.no_grad():
        bare = sdpa.attend(layer.q, layer.k, layer.v, layer)
    torch.testing.assert_close(bare * where, wanted * where, rtol=0, atol=1e-13)
    assert out.isfinite().all()


def test_attend_of_a_query_without_visible_keys_is_finite():
    layer = layer_of("one-sided window, padding at the start", "plain")
    assert not find_compared_queries(layer).all()
    out, grads = compute_with_gradients(layer, torch.ones(()))
    assert out.isfinite().all()
    assert all(grad.isfinite().all() for grad in grads)


def test_attend_in_blocks_gives_the_gradient_of_values_alone(monkeypatch):
    in_small_blocks(monkeypatch)
    layer = layer_of("one-sided window", "plain")
    q, k = layer.q.detach(), layer.k.detach()
    out = sdpa.attend(q, k, layer.v, layer)
    (grad,) = torch.autograd.grad(out.sum(), layer.v)
    # Every weight of a query goes to some value: what all queries give is one for each of them, head and feature.
    assert grad.sum().item() == pytest.approx(2 * HEADS * QUERIES * WIDTH, rel=1e-13)


def test_build_dense_mask_of_the_same_layer_is_reused():
    layer = layer_of("one-sided window", "plain")
    sdpa.attend(layer.q, layer.k, layer.v, layer)
    first = sdpa._build_dense_mask(layer)
    assert sdpa._build_dense_mask(layer) is first


@pytest.mark.parametrize(
    "visible",
    [
        VisibleKeys(right=0),
        VisibleKeys(left=200, right=0),
        VisibleKeys(left=60, right=60),
        VisibleKeys(right=0, keys=(torch.arange(4096) >= torch.tensor([[0], [900]]))),
        VisibleKeys(left=200, right=0, keys=(torch.arange(4096) < torch.tensor([[4096], [900]]))),
        VisibleKeys(keys=(torch.arange(4096) < torch.tensor([[4096], [900]]))),
        VisibleKeys(right=0, rule=lambda rows: (rows[:, None] // 99 == torch.arange(4096) // 99)[None, None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("extra", [{}, {"sink": torch.zeros(1)}])
def test_attend_at_4096_tokens_allocates_no_queries_x_keys_tensor(visible, extra):
    q = torch.randn(2, 1, 4096, 8, requires_grad=True)
    k = torch.randn(2, 1, 4096, 8, requires_grad=True)
    layer = ComputedAttention(q=q, k=k, v=k, visible=visible, **extra)
    with Largest() as largest:
        out = sdpa.attend(q, k, k, layer)
        torch.autograd.grad(out.sum(), (q, k))
    assert largest.elements <= 4096 * 4096 / 8
