"""Logsumexp left by the forward pass of attention: equality with scores that are written out."""

import pytest
import torch
from torch.nn import functional as F

from tests import zoo
from tests.unit.test_attention_override import batch_of
from whence.tracing.attention_layer import ComputedAttention, find_logsumexp
from whence.tracing.attention_override import watch_attention

KEYS = 9


def padded(_):
    real = torch.arange(KEYS) < torch.tensor([[KEYS], [6]])
    return real[:, None, None].expand(2, 1, KEYS, KEYS)


def causal(_):
    return torch.ones(KEYS, KEYS, dtype=torch.bool).tril()


def additive(draw):
    return torch.randn(2, 4, KEYS, KEYS, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("key_heads", [4, 2])
@pytest.mark.parametrize("mask", [None, causal, padded, additive])
def test_find_logsumexp_equals_the_logsumexp_of_written_out_scores(dtype, key_heads, mask):
    draw = torch.Generator().manual_seed(3)

    def normal(heads):
        made = torch.randn(2, heads, KEYS, 16, generator=draw, dtype=torch.float64)
        return made.to(dtype).requires_grad_()

    q, k, v = normal(4), normal(key_heads), normal(key_heads)
    given = None if mask is None else mask(draw)
    if given is not None and given.dtype != torch.bool:
        given = given.to(dtype)
    plain = mask is causal
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if plain else given, is_causal=plain, enable_gqa=key_heads != 4
    )
    found = find_logsumexp(ComputedAttention(q=q, k=k, v=v, out=out))
    scores = q.double() @ k.double().repeat_interleave(4 // key_heads, dim=1).mT / 4
    if given is not None and given.dtype == torch.bool:
        scores = scores.masked_fill(~given, -torch.inf)
    elif given is not None:
        scores = scores + given
    expected = scores.logsumexp(-1)
    # A score is a sum of 16 products, of which each is below 16 here: 16 x 16 roundings of what it is added up in.
    allowed = 256 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    if dtype == torch.bfloat16:
        # Kernels of processors without AVX-512 are coarser (6e-5 was seen); a 64th of a rounding of bfloat16 is 1.2e-4.
        allowed = torch.finfo(dtype).eps / 64
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < allowed


def test_find_logsumexp_without_gradient_or_fused_kernel_is_none():
    q = torch.randn(1, 1, 4, 8)
    for attend in (F.scaled_dot_product_attention, lambda q, k, v: (q @ k.mT).softmax(-1) @ v):
        assert find_logsumexp(ComputedAttention(q=q, k=q, v=q, out=attend(q, q, q))) is None
        q.requires_grad_()


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_watched_attention_layers_carry_the_logsumexp_of_their_scores(name):
    model = zoo.make(name)
    batch = batch_of(model)
    with watch_attention(model, 1) as seen:
        model(**batch.inputs)
    for layer in seen:
        scale = layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale
        groups = layer.q.shape[1] // layer.k.shape[1]
        scores = layer.q @ layer.k.repeat_interleave(groups, dim=1).mT * scale
        additive = layer.additive(slice(None))
        expected = (scores if additive is None else scores + additive).logsumexp(-1)
        torch.testing.assert_close(layer.logsumexp, expected.detach().to(layer.logsumexp))
