"""Rules for attention as one operation, tile by tile: no map is stored.

With O = A V and S = R_O / O, the relevance of the map is R_A = A ∘ (S Vᵀ) / 2. It goes through the softmax as it is,
and on to queries and keys through the product of theirs.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.capture.attention.layer import Computed, wide
from whence.capture.attention.recognise import computed
from whence.capture.attention.sdpa import attended
from whence.capture.tape.arguments import Slot
from whence.capture.tape.tape import Step
from whence.core.errors import NotCapturable
from whence.kernels import row_tiles
from whence.kernels.share import Shares, against, by_keys, share, to_keys
from whence.lrp.node import Carried, Node

_NAMES = ("query", "key", "value")


def attention_of(node: Node) -> Computed:
    """Return the call as a layer."""
    assert isinstance(node.step, Step)
    if node.step.func is not F.scaled_dot_product_attention:
        layer: Computed = node.argument(3, "layer")
        q, k, v = _inputs(node)
        return replace(layer, q=q, k=k, v=v)
    args, kwargs = node.step.filled(node.given)
    layer = computed(*args, **kwargs)
    if layer.q.dim() != 4:
        raise NotCapturable(
            f"Attention in {'.'.join(node.step.module)} is {layer.q.dim()}-dimensional; there is a rule only for "
            "(inputs, heads, tokens, features). Use grad_x_input, which follows no operation, or leave_one_out."
        )
    return layer


def _inputs(node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, constants among them."""
    given = [node.argument(place, name) for place, name in enumerate(_NAMES)]
    q, k, v = (node.given[one.index] if isinstance(one, Slot) else one for one in given)
    return q, k, v


def widened(layer: Computed) -> Computed:
    """Return a layer as wide as relevance is."""
    return replace(layer, q=wide(layer.q), k=wide(layer.k), v=wide(layer.v))


def _handed(
    node: Node, q: Tensor | None, k: Tensor | None, v: Tensor | None
) -> list[Tensor | None]:
    """Put what queries, keys and values get into the order of the inputs, whichever way they were given."""
    result: list[Tensor | None] = [None for _ in node.given]
    for place, (name, part) in enumerate(zip(_NAMES, (q, k, v), strict=True)):
        slot = node.argument(place, name)
        if isinstance(slot, Slot):
            result[slot.index] = part
    return result


def shared(node: Node, carried: Carried) -> list[Tensor | None]:
    """Original LRP: half to the map and half to the values, then half to queries and half to keys."""
    shares = _shared(node, carried)
    return _handed(node, shares.q, shares.k, shares.v)


def shared_normalised(node: Node, carried: Carried) -> list[Tensor | None]:
    """Chefer et al.: the same, and the addition of the mask normalised like any other sum.

    That is the identity but for the authors' epsilon.
    """
    shares = _shared(node, carried)
    if shares.before is None or shares.after is None:
        return _handed(node, shares.q, shares.k, shares.v)
    size = shares.after.abs()
    factor = node.divide(node.divide(size, size) * shares.before, shares.after)
    factor = factor[:, None, None, None]
    return _handed(node, shares.q * factor, shares.k * factor, shares.v)


def shared_unmasked(node: Node, carried: Carried) -> list[Tensor | None]:
    """Do it as the authors' ViT does, by either set of rules: it has no mask to add."""
    shares = _shared(node, carried, masked=False)
    return _handed(node, shares.q, shares.k, shares.v)


def _shared(node: Node, carried: Carried, *, masked: bool = True) -> Shares:
    (relevance,), (output,) = carried, node.made
    assert relevance is not None
    quotient = node.divide(relevance, output)
    return share(attention_of(node), quotient, signed=node.stabiliser.exact, masked=masked)


def _scale(layer: Computed) -> float:
    return layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale


def _plain(layer: Computed) -> bool:
    """Say whether attention is a softmax of products and a mask, whose derivative PyTorch has without a map."""
    return layer.softcap is None and layer.sink is None and layer.bias is None


def _pulled(layer: Computed, quotient: Tensor, *, to_all: bool) -> tuple[Tensor, ...]:
    """Pull a quotient back through attention: to queries, keys and values, or to the values alone."""
    q, k, v = (one.detach() for one in (layer.q, layer.k, layer.v))
    leaves = [one.requires_grad_() for one in ((q, k, v) if to_all else (v,))]
    with torch.enable_grad():
        output = attended(q, k, v, layer)
    return torch.autograd.grad(output, leaves, quotient.to(output.dtype))


def differentiated(node: Node, carried: Carried) -> list[Tensor | None]:
    """AttnLRP: quotients through the softmax's own derivative, halved at both products."""
    layer, (quotient,) = widened(attention_of(node)), carried
    assert quotient is not None
    if _plain(layer):
        to_q, to_k, to_v = _pulled(layer, quotient, to_all=True)
        return _handed(node, to_q / 4, to_k / 4, to_v / 2)
    (output,), q, k, v = node.y, layer.q, layer.k, layer.v
    scale = _scale(layer)
    to_q, to_k, to_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows in row_tiles(layer, q):
        attention = layer.weights(rows)
        g = quotient[:, :, rows]
        to_v += to_keys(attention, g, v)
        to_map = against(g, v)
        to_scores = attention * (to_map - (g * output[:, :, rows]).sum(-1, keepdim=True))
        if layer.softcap is not None:  # an activation like any other
            scores = against(q[:, :, rows], k) * scale
            capped = layer.softcap * torch.tanh(scores / layer.softcap)
            to_scores = to_scores * torch.where(
                scores == 0, torch.ones_like(scores), capped / scores
            )
        to_q[:, :, rows] = by_keys(to_scores, k)
        to_k += to_keys(to_scores, q[:, :, rows], k)
    return _handed(node, to_q * scale / 4, to_k * scale / 4, to_v / 2)


def only_values(node: Node, carried: Carried) -> list[Tensor | None]:
    """CP-LRP: the map counts as a constant, and all goes to the values."""
    layer, (quotient,) = widened(attention_of(node)), carried
    assert quotient is not None
    if _plain(layer):
        return _handed(node, None, None, *_pulled(layer, quotient, to_all=False))
    to_v = torch.zeros_like(layer.v)
    for rows in row_tiles(layer, layer.q):
        to_v += to_keys(layer.weights(rows), quotient[:, :, rows], layer.v)
    return _handed(node, None, None, to_v)


def per_query_head(values: Tensor, heads: int) -> Tensor:
    """Repeat what keys share, (..., key heads, keys, width), for each of the query heads."""
    return values.repeat_interleave(heads // values.shape[-3], dim=-3)
