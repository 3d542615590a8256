"""Rules for attention as one operation, tile by tile: no map is stored.

With O = A V and S = R_O / O, the relevance of the map is R_A = A ∘ (S Vᵀ) / 2. It goes through the softmax as it is,
and on to queries and keys through the product of theirs.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.capture.layer import Computed, by_head, row_tiles
from whence.capture.recognise import computed
from whence.capture.tape import Slot, Step
from whence.core.errors import NotCapturable
from whence.lrp.node import Carried, Node

_NAMES = ("query", "key", "value")


def attention_of(node: Node) -> Computed:
    """Return the call as a layer."""
    assert isinstance(node.step, Step)
    if node.step.func is not F.scaled_dot_product_attention:
        layer: Computed = node.argument(3, "layer")
        return layer
    args, kwargs = node.step.filled(node.x)
    layer = computed(*args, **kwargs)
    if layer.q.dim() != 4:
        raise NotCapturable(
            f"Attention in {'.'.join(node.step.module)} is {layer.q.dim()}-dimensional; there is a rule only for "
            "(inputs, heads, tokens, features). Use attcat or another gradient method."
        )
    return layer


def _inputs(node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, constants among them, as wide as relevance is."""
    given = [node.argument(place, name) for place, name in enumerate(_NAMES)]
    q, k, v = (node.x[one.index] if isinstance(one, Slot) else one.to(node.x[0]) for one in given)
    return q, k, v


def _handed(
    node: Node, q: Tensor | None, k: Tensor | None, v: Tensor | None
) -> list[Tensor | None]:
    """Put what queries, keys and values get into the order of the inputs, whichever way they were given."""
    result: list[Tensor | None] = [None for _ in node.x]
    for place, (name, share) in enumerate(zip(_NAMES, (q, k, v), strict=True)):
        slot = node.argument(place, name)
        if isinstance(slot, Slot):
            result[slot.index] = share
    return result


def shared(node: Node, carried: Carried) -> list[Tensor | None]:
    """Original LRP: half to the map and half to the values, then half to queries and half to keys."""
    to_q, to_k, to_v, _ = _shared(node, carried)
    return _handed(node, to_q, to_k, to_v)


def shared_normalised(node: Node, carried: Carried) -> list[Tensor | None]:
    """Chefer et al.: the same, and the addition of the mask normalised like any other sum.

    That is the identity but for the authors' epsilon.
    """
    to_q, to_k, to_v, factor = _shared(node, carried)
    return _handed(node, to_q * factor, to_k * factor, to_v)


def shared_unmasked(node: Node, carried: Carried) -> list[Tensor | None]:
    """Do it as the authors' ViT does, by either set of rules: it has no mask to add."""
    to_q, to_k, to_v, _ = _shared(node, carried, masked=False)
    return _handed(node, to_q, to_k, to_v)


def _shared(
    node: Node, carried: Carried, *, masked: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    layer, (relevance,), (output,) = attention_of(node), carried, node.y
    assert relevance is not None
    q, k, v = _inputs(node)
    quotient = node.divide(relevance, output)
    to_q, to_k, to_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    before, after = q.new_zeros(len(q)), q.new_zeros(len(q))
    for rows, attention in _tiles(layer, q):
        s = quotient[:, :, rows]
        to_v += _to_keys(attention, s, v)
        to_map = attention * by_head(s, v, _against) / 2
        scores = by_head(q[:, :, rows], k, _against)
        to_scores = to_map
        if masked:
            to_scores = node.stabiliser.copied(to_map, scores * _scale(layer))
        before += to_map.sum((1, 2, 3))
        after += to_scores.sum((1, 2, 3))
        s = node.divide(to_scores, scores)
        to_q[:, :, rows] = by_head(s, k, torch.matmul)
        to_k += _to_keys(s, q[:, :, rows], k)
    factor = torch.ones_like(after)
    if not node.stabiliser.exact:
        factor = node.divide(node.divide(after.abs(), after.abs()) * before, after)
    return q * to_q / 2, k * to_k / 2, v * to_v / 2, factor[:, None, None, None]


def _scale(layer: Computed) -> float:
    return layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale


def differentiated(node: Node, carried: Carried) -> list[Tensor | None]:
    """AttnLRP: quotients through the softmax's own derivative, halved at both products."""
    layer, (quotient,), (output,) = attention_of(node), carried, node.y
    assert quotient is not None
    q, k, v = _inputs(node)
    scale = _scale(layer)
    to_q, to_k, to_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows, attention in _tiles(layer, q):
        g = quotient[:, :, rows]
        to_v += _to_keys(attention, g, v)
        to_map = by_head(g, v, _against)
        to_scores = attention * (to_map - (g * output[:, :, rows]).sum(-1, keepdim=True))
        if layer.softcap is not None:  # an activation like any other
            scores = by_head(q[:, :, rows], k, _against) * scale
            capped = layer.softcap * torch.tanh(scores / layer.softcap)
            to_scores = to_scores * torch.where(
                scores == 0, torch.ones_like(scores), capped / scores
            )
        to_q[:, :, rows] = by_head(to_scores, k, torch.matmul)
        to_k += _to_keys(to_scores, q[:, :, rows], k)
    return _handed(node, to_q * scale / 4, to_k * scale / 4, to_v / 2)


def only_values(node: Node, carried: Carried) -> list[Tensor | None]:
    """CP-LRP: the map counts as a constant, and all goes to the values."""
    layer, (quotient,) = attention_of(node), carried
    assert quotient is not None
    q, _, v = _inputs(node)
    to_v = torch.zeros_like(v)
    for rows, attention in _tiles(layer, q):
        to_v += _to_keys(attention, quotient[:, :, rows], v)
    return _handed(node, None, None, to_v)


def _tiles(layer: Computed, like: Tensor) -> Iterator[tuple[slice, Tensor]]:
    for rows in row_tiles(layer, like):
        yield rows, layer.weights(rows).to(like.dtype)


def _against(many: Tensor, few: Tensor) -> Tensor:
    return many @ few.transpose(-1, -2)


def per_query_head(values: Tensor, heads: int) -> Tensor:
    """Repeat what keys share, (..., key heads, keys, width), for each of the query heads."""
    return values.repeat_interleave(heads // values.shape[-3], dim=-3)


def _to_keys(tile: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """Multiply a tile, transposed, with its rows; heads that share keys add up."""
    product = tile.transpose(-1, -2) @ rows
    groups = product.shape[1] // like.shape[1]
    if groups == 1:
        return product
    batch, heads, keys, width = product.shape
    return product.reshape(batch, heads // groups, groups, keys, width).sum(2)
