"""ViT again in plain tensor code, and relevance down to its pixels: one picture, float64.

Softmax is taken in float64 here, as the seam does; the model's own eager attention takes it in float32.
"""

from types import SimpleNamespace
from typing import Any

import torch

from tests.reference.plain import Block, Linear, Norm, Plain, Tensor, gelu
from tests.reference.twins_relevance import back_through_block, divide, joined, through_linear


def plain_vit(model: Any, pixels: Tensor) -> Plain:
    """Take the weights out of a stock ViT, and cut one picture, (channels, height, width), into its tokens."""
    embeddings, heads = model.vit.embeddings, model.config.num_attention_heads
    conv = embeddings.patch_embeddings.projection
    cut = rows(pixels, conv.kernel_size[0])
    patches = cut @ conv.weight.detach().flatten(1).T + conv.bias.detach()
    tokens = torch.cat([embeddings.cls_token.detach()[0], patches])
    blocks = [
        Block(
            norms_first=True,
            heads=heads,
            query=_linear(layer.attention.q_proj),
            key=_linear(layer.attention.k_proj),
            value=_linear(layer.attention.v_proj),
            out=_linear(layer.attention.o_proj),
            norm1=_norm(layer.layernorm_before),
            up=_linear(layer.mlp.fc1),
            down=_linear(layer.mlp.fc2),
            activation=gelu,
            norm2=_norm(layer.layernorm_after),
            mask=None,
        )
        for layer in model.vit.layers
    ]
    return Plain(
        tokens=tokens.requires_grad_(),
        places=embeddings.position_embeddings.detach()[0],
        first_norm=None,
        blocks=blocks,
        last_norm=_norm(model.vit.layernorm),
        row=0,
        pooler=None,
        classifier=_linear(model.classifier),
    )


def rows(pixels: Tensor, side: int) -> Tensor:
    """Cut a picture into patches by loops: (patches, channels x side x side)."""
    _, height, width = pixels.shape
    return torch.stack(
        [
            pixels[:, top : top + side, left : left + side].reshape(-1)
            for top in range(0, height, side)
            for left in range(0, width, side)
        ]
    )


def chefer_vit(
    plain: Plain, at: SimpleNamespace, rules: str, target: int
) -> tuple[list[Tensor], Tensor]:
    """Return the relevance of every layer's attention, and that of the first layer's input."""
    relevance = torch.zeros_like(at.logits)
    relevance[target] = 1
    relevance = through_linear(rules, plain.classifier, at.told, relevance)
    everywhere = torch.zeros_like(at.last)
    everywhere[plain.row] = joined(at.read, relevance)
    maps = []
    for block, layer in zip(reversed(plain.blocks), reversed(at.layers), strict=True):
        everywhere, attention = back_through_block(rules, block, layer, everywhere)
        maps.insert(0, attention)
    return maps, everywhere


def to_pixels(model: Any, pixels: Tensor, relevance: Tensor) -> Tensor:
    """Share the relevance of patches, (patches, features), among their pixels by z^B, as rows of `rows`."""
    conv = model.vit.embeddings.patch_embeddings.projection
    weight = conv.weight.detach().flatten(1)
    x, low, high = rows(pixels, conv.kernel_size[0]), pixels.min(), pixels.max()
    found = torch.zeros_like(x)
    for patch in range(len(x)):
        for feature in range(len(weight)):
            w = weight[feature]
            parts = x[patch] * w - low * w.clamp(min=0) - high * w.clamp(max=0)
            found[patch] += parts * divide(relevance[patch, feature], parts.sum())
    return found


def _linear(module: Any) -> Linear:
    return Linear(module.weight.detach(), module.bias.detach())


def _norm(module: Any) -> Norm:
    return Norm(module.weight.detach(), module.bias.detach(), module.eps)
