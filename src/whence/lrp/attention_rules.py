"""LRP rules for attention as one operation (original, Chefer, AttnLRP, CP-LRP), tile by tile, no map stored.

With O = A V and S = R_O / O, the relevance of the map is R_A = A ∘ (S Vᵀ) / 2. It goes through the softmax
as it is, and on to queries and keys through their product.
"""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from whence.core.errors import NotCapturable
from whence.kernels.maps import compute_scale, multiply_by_head
from whence.kernels.share import (
    AttentionShares,
    multiply_tile_transposed,
    share_relevance,
)
from whence.kernels.tiled import iterate_row_tiles
from whence.lrp.node import CarriedValues, RuleNode
from whence.tracing.attention_layer import ComputedAttention, widen
from whence.tracing.recognise import build_sdpa_layer
from whence.tracing.sdpa import attend
from whence.tracing.tape import Slot, TapeStep

_QUERY_KEY_VALUE = ("query", "key", "value")


def build_attention_layer(node: RuleNode) -> ComputedAttention:
    """Return the attention call of a node as a layer."""
    assert isinstance(node.step, TapeStep)
    args, kwargs = node.step.fill_arguments(node.given)
    if node.step.func is attend:
        q, k, v, layer = args
        return replace(cast(ComputedAttention, layer), q=q, k=k, v=v)
    layer = build_sdpa_layer(*args, **kwargs)
    if layer.q.dim() != 4:
        raise NotCapturable(
            f"Attention in {'.'.join(node.step.module)} is {layer.q.dim()}-dimensional; there is a rule only for "
            "(inputs, heads, tokens, features). Use grad_x_input, which follows no operation, or leave_one_out."
        )
    return layer


def widen_layer(layer: ComputedAttention) -> ComputedAttention:
    """Return the layer with q, k and v in float32 at least, the dtype of relevance."""
    return replace(layer, q=widen(layer.q), k=widen(layer.k), v=widen(layer.v))


def _order_by_input(
    node: RuleNode, q: Tensor | None, k: Tensor | None, v: Tensor | None
) -> list[Tensor | None]:
    """Return the parts of queries, keys and values in the order of the node's inputs."""
    result: list[Tensor | None] = [None for _ in node.given]
    for place, (name, part) in enumerate(zip(_QUERY_KEY_VALUE, (q, k, v), strict=True)):
        slot = node.argument(place, name)
        if isinstance(slot, Slot):
            result[slot.index] = part
    return result


def attention_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Original LRP: half to the map and half to the values, then half to queries and half to keys."""
    shares = _share_output_relevance(node, carried)
    return _order_by_input(node, shares.q, shares.k, shares.v)


def attention_normalised_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Chefer et al.: as `attention_rule`, with the sum of scores and mask normalised like any sum.

    Apart from the authors' epsilon, that normalisation is the identity.
    """
    shares = _share_output_relevance(node, carried)
    if shares.before is None or shares.after is None:
        return _order_by_input(node, shares.q, shares.k, shares.v)
    size = shares.after.abs()
    factor = node.divide(node.divide(size, size) * shares.before, shares.after)
    factor = factor[:, None, None, None]
    return _order_by_input(node, shares.q * factor, shares.k * factor, shares.v)


def attention_unmasked_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """Chefer et al. for images: as `attention_rule` without a mask, which the authors' ViT lacks."""
    shares = _share_output_relevance(node, carried, masked=False)
    return _order_by_input(node, shares.q, shares.k, shares.v)


def _share_output_relevance(
    node: RuleNode, carried: CarriedValues, *, masked: bool = True
) -> AttentionShares:
    (relevance,), (output,) = carried, node.made
    assert relevance is not None
    quotient = node.divide(relevance, output)
    return share_relevance(
        build_attention_layer(node), quotient, signed=node.stabiliser.exact, masked=masked
    )


def _is_plain_softmax(layer: ComputedAttention) -> bool:
    """Return whether attention is a plain masked softmax, which PyTorch differentiates without a map."""
    return layer.softcap is None and layer.sink is None and layer.bias is None


def _pull_back(layer: ComputedAttention, quotient: Tensor, *, to_all: bool) -> tuple[Tensor, ...]:
    """Return the gradient of attention for a quotient: at q, k and v, or at v alone."""
    q, k, v = (tensor.detach() for tensor in (layer.q, layer.k, layer.v))
    leaves = [tensor.requires_grad_() for tensor in ((q, k, v) if to_all else (v,))]
    with torch.enable_grad():
        output = attend(q, k, v, layer)
    return torch.autograd.grad(output, leaves, quotient.to(output.dtype))


def attention_gradient_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """AttnLRP: pass quotients through the softmax's own derivative, halved at both products."""
    layer, (quotient,) = widen_layer(build_attention_layer(node)), carried
    assert quotient is not None
    if _is_plain_softmax(layer):
        to_q, to_k, to_v = _pull_back(layer, quotient, to_all=True)
        return _order_by_input(node, to_q / 4, to_k / 4, to_v / 2)
    (output,), q, k, v = node.y, layer.q, layer.k, layer.v
    scale = compute_scale(layer)
    to_q, to_k, to_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for rows in iterate_row_tiles(layer, q):
        attention = layer.weights(rows)
        g = quotient[:, :, rows]
        to_v += multiply_tile_transposed(attention, g, v)
        to_map = multiply_by_head(g, v.mT)
        to_scores = attention * (to_map - (g * output[:, :, rows]).sum(-1, keepdim=True))
        if layer.softcap is not None:  # treated as an activation: the factor is y / x
            scores = multiply_by_head(q[:, :, rows], k.mT) * scale
            capped = layer.softcap * torch.tanh(scores / layer.softcap)
            to_scores = to_scores * torch.where(
                scores == 0, torch.ones_like(scores), capped / scores
            )
        to_q[:, :, rows] = multiply_by_head(to_scores, k)
        to_k += multiply_tile_transposed(to_scores, q[:, :, rows], k)
    return _order_by_input(node, to_q * scale / 4, to_k * scale / 4, to_v / 2)


def attention_values_rule(node: RuleNode, carried: CarriedValues) -> list[Tensor | None]:
    """CP-LRP: treat the map as a constant, and pass all relevance to the values."""
    layer, (quotient,) = widen_layer(build_attention_layer(node)), carried
    assert quotient is not None
    if _is_plain_softmax(layer):
        return _order_by_input(node, None, None, *_pull_back(layer, quotient, to_all=False))
    to_v = torch.zeros_like(layer.v)
    for rows in iterate_row_tiles(layer, layer.q):
        to_v += multiply_tile_transposed(layer.weights(rows), quotient[:, :, rows], layer.v)
    return _order_by_input(node, None, None, to_v)


def repeat_for_query_heads(values: Tensor, heads: int) -> Tensor:
    """Repeat the tensors of key heads, (..., key heads, keys, width), for each query head."""
    return values.repeat_interleave(heads // values.shape[-3], dim=-3)
