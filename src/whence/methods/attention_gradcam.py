"""Grad-CAM on the last attention map: heads weighted by mean gradient, as in Chefer, Gur & Wolf 2021."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from whence.data.images import IMAGE_FILLS
from whence.kernels.maps import get_output_grad
from whence.kernels.tiled import iterate_row_tiles
from whence.methods import OwnScore, Scores, method, with_own_score
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.trace import Trace

Weights = Literal["map", "row"]


def _resolve_parameters(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    pictures = any(fill in fillers for fill in IMAGE_FILLS)
    return {**parameters, "weights": parameters["weights"] or ("row" if pictures else "map")}


@method(
    "attention_gradcam",
    family="attention x gradient",
    needs={"attention", "attention_grad"},
    signed=False,
    unit="relative",
    settle=_resolve_parameters,
    presets={
        "chefer_bert": {"weights": "map", "normalise": True, "own": "zero"},
        "chefer_vit": {"weights": "row", "normalise": True, "own": "zero"},
        "attcat": {"weights": "map", "normalise": True, "own": "zero"},
    },
    cite="Chefer, Gur & Wolf 2021 (CVPR), arXiv:2012.09838; after Selvaraju et al. 2017, arXiv:1610.02391",
    formula="s_j = max(0, mean_h w_h A_{L-1}[h,i,j]),  w_h the mean of dy / dA_{L-1}[h] over the map, or over row i",
    cost="1 forward, 1 backward",
    misleads_when="a head's one mean weight hides that its gradient differs from token to token; often all zero",
)
def attention_gradcam(
    trace: Trace, *, weights: Weights | None = None, normalise: bool = False, own: OwnScore = "keep"
) -> Scores:
    """Weigh the last layer's heads by their mean gradient and keep what is positive.

    `weights`: the mean over the whole "map", as in the authors' BERT, or over the "row" that is read without its own
    place, as in their ViT; by default the map of a text, the row of a picture. `normalise` maps the smallest and the
    largest value (of the map, or of the row without its own place) to 0 and 1; where both are the same, every
    score is 0.
    """
    weights = weights or ("row" if trace.batch.has_images else "map")
    scores = trace.at(-1, lambda layer: _compute_cam(trace, layer, weights, normalise))
    # A row that pools the tokens belongs to no token, so it has no entry for its own token.
    own = "keep" if trace.pooled else own
    return with_own_score(scores, trace.rows, trace.real, own)


def _compute_cam(trace: Trace, layer: AttentionLayer, weights: Weights, normalise: bool) -> Tensor:
    """Return the read row of the weighted map, (batch, keys); a few rows of the map are made at a time."""
    rows, weight = trace.rows, _compute_head_weights(trace, layer, weights) / layer.heads
    scores = torch.zeros_like(trace.real, dtype=rows.dtype)
    low, high = rows.new_full((len(rows), 1), torch.inf), rows.new_full((len(rows), 1), -torch.inf)
    for part in iterate_row_tiles(layer, rows):
        if not normalise and not rows[:, part].any():
            continue
        cam = torch.einsum("bh,bhqk->bqk", weight, layer.weights(part).to(rows.dtype)).relu()
        scores += torch.einsum("bq,bqk->bk", rows[:, part], cam)
        if normalise:
            out = _build_position_mask(trace, weights, part) == 0
            low = low.minimum(cam.masked_fill(out, torch.inf).amin((1, 2))[:, None])
            high = high.maximum(cam.masked_fill(out, -torch.inf).amax((1, 2))[:, None])
    if not normalise:
        return scores
    return torch.where(high > low, (scores - low) / (high - low), torch.zeros_like(scores))


def _compute_head_weights(trace: Trace, layer: AttentionLayer, weights: Weights) -> Tensor:
    """Return the mean gradient of each head's map over the positions that count, (batch, heads).

    The gradient of a map is dO Vᵀ, so that its sum over queries and keys is a product of two sums.
    """
    rows, real = trace.rows, trace.real.to(trace.rows.dtype)
    grad, v = get_output_grad(layer).to(rows.dtype), layer.v.to(rows.dtype)
    queries = torch.ones_like(rows) if trace.pooled else real if weights == "map" else rows
    received = torch.einsum("bk,bhkd->bhd", real, v).repeat_interleave(
        layer.heads // v.shape[1], dim=1
    )
    total = (torch.einsum("bq,bhqd->bhd", queries, grad) * received).sum(-1)
    count = queries.sum(1) * real.sum(1)
    if weights == "row" and not trace.pooled:
        several = real.sum(1) > 1  # a row of one token has no place but its own
        values = v.repeat_interleave(layer.heads // v.shape[1], dim=1)
        itself = torch.einsum("bq,bhqd,bhqd->bh", rows, grad, values)
        total = torch.where(several[:, None], total - itself, total)
        count = torch.where(several, count - rows.sum(1), count)
    return total / count[:, None]


def _build_position_mask(trace: Trace, weights: Weights, part: slice) -> Tensor:
    """Return the positions of some rows that count in mean, minimum and maximum, (batch, rows, keys).

    Padding never counts. In a row, its own place does not either, unless there is no other.
    """
    real = trace.real.to(trace.rows.dtype)
    if trace.pooled:
        return real[:, None, :]
    if weights == "map":
        return real[:, part, None] * real[:, None, :]
    places = trace.rows[:, part, None] * real[:, None, :]
    numbers = torch.arange(real.shape[1], device=real.device)
    own = numbers[part, None] == numbers
    return torch.where(own & (real.sum(1) > 1)[:, None, None], torch.zeros_like(places), places)
