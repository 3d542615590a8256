"""Grad-CAM on the last attention map, as in the code of Chefer, Gur & Wolf 2021."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from whence.capture import Trace
from whence.data.picture import FILLS
from whence.methods import Own, Scores, method, with_own

Weights = Literal["map", "row"]


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    pictures = any(fill in fillers for fill in FILLS)
    return {**parameters, "weights": parameters["weights"] or ("row" if pictures else "map")}


@method(
    "attention_gradcam",
    family="attention x gradient",
    needs={"attention", "attention_grad"},
    signed=False,
    settle=_settle,
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
    trace: Trace, *, weights: Weights | None = None, normalise: bool = False, own: Own = "keep"
) -> Scores:
    """Weigh the last layer's heads by their mean gradient and keep what is positive.

    `weights`: the mean over the whole "map", as in the authors' BERT, or over the "row" that is read without its own
    place, as in their ViT; by default the map of a text, the row of a picture. `normalise` maps the smallest and the
    largest value (of the map, or of the row without its own place) to 0 and 1; where both are the same, every
    score is 0.
    """
    with torch.no_grad():
        attention = trace.read_layer(-1).map().to(trace.rows.dtype)
        grad = trace.read_layer(-1).map_grad().to(trace.rows.dtype)
    weights = weights or ("row" if trace.batch.pictures else "map")
    rows, places = trace.rows, _counted(trace, weights)
    share = places / places.sum((1, 2), keepdim=True)
    weight = torch.einsum("bhqk,bqk->bh", grad, share)
    cam = torch.einsum("bh,bhqk->bqk", weight, attention).div(attention.shape[1]).relu()
    scores = torch.einsum("bq,bqk->bk", rows, cam)
    if normalise:
        low = cam.masked_fill(places == 0, torch.inf).amin((1, 2))[:, None]
        high = cam.masked_fill(places == 0, -torch.inf).amax((1, 2))[:, None]
        scores = torch.where(high > low, (scores - low) / (high - low), torch.zeros_like(scores))
    # A row that pools the tokens is no token's, and has no entry of its own.
    own = "keep" if trace.pooled else own
    return with_own(scores, rows, trace.real, own)


def _counted(trace: Trace, weights: Weights) -> Tensor:
    """Return the places of the map that count in means, smallest and largest: (batch, queries, keys), 0 or more.

    Padding never counts. In a row, its own place does not either, unless there is no other.
    """
    real = trace.real.to(trace.rows.dtype)
    if trace.pooled:
        return real[:, None, :]
    if weights == "map":
        return real[:, :, None] * real[:, None, :]
    places = trace.rows[:, :, None] * real[:, None, :]
    others = places - torch.diag_embed(trace.rows)
    return torch.where(others.sum((1, 2), keepdim=True) > 0, others, places)
