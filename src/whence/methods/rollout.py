"""Attention rollout (Abnar & Zuidema 2020): product of the layers' attention maps, skip connections mixed in."""

from typing import Annotated

import torch
from torch import Tensor

from whence.core.params import Range
from whence.kernels.contract import contract
from whence.methods import OwnScore, Query, Scores, method, query_rows, with_own_score
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.structure import EncoderDecoder
from whence.tracing.trace import Trace

_ABNAR = {"start_layer": 0, "residual": 0.5, "query": "read", "every_layer": False, "own": "keep"}


@method(
    "rollout",
    family="attention",
    needs={"attention"},
    signed=False,
    unit="share",
    presets={
        "abnar": _ABNAR,
        "abnar_sst": {**_ABNAR, "query": "max"},
        "chefer_bert": {**_ABNAR, "own": "zero"},
        "chefer_vit": {**_ABNAR, "start_layer": 1, "own": "zero"},
        "attcat": {**_ABNAR, "own": "zero"},
        "attcat_squad": {**_ABNAR, "residual": 0, "query": "mean", "every_layer": True},
    },
    cite="Abnar & Zuidema 2020, arXiv:2005.00928",
    formula="s = e_i M_{L-1} ··· M_start,  M_l = (1-r) mean_h A_l + r I",
    cost="1 forward",
    misleads_when="values, heads and MLPs move information that the weights do not show; it knows no class",
)
def rollout(
    trace: Trace,
    *,
    start_layer: int = 0,
    residual: Annotated[float, Range(0, 1)] = 0.5,
    query: Query = "read",
    every_layer: bool = False,
    own: OwnScore = "keep",
) -> Scores:
    """Multiply the layers' attention maps, each mixed with the skip connection.

    With `every_layer` it is the mean of the rollouts that end at each layer. `query` may read another row than the
    prediction does. In an encoder-decoder cross attention is one more map with a skip connection beside it: a token
    of the decoder keeps its `residual` and takes the rest from the source. There `start_layer` counts on both sides.
    """
    rows = query_rows(trace, query)
    if trace.sides is None:
        rolled = _roll_out(trace, start_layer, rows, residual, every_layer)
    else:
        sides = trace.sides.from_layer(start_layer)
        rolled = [_roll_out_encoder_decoder(sides, row, residual, every_layer) for row in rows]
    scores = torch.stack(rolled).amax(0)
    # The maximum over several rows has no fixed sum.
    axioms = {} if query == "max" else {"sums_to_one": scores.sum(1) - 1}
    return with_own_score(scores, torch.stack(rows).sum(0), trace.real, own), axioms


def _roll_out(
    trace: Trace, start_layer: int, rows: list[Tensor], residual: float, every_layer: bool
) -> list[Tensor]:
    def step(layer: AttentionLayer, above: tuple[int, list[Tensor]]) -> tuple[int, list[Tensor]]:
        count, rolled = above
        if every_layer and count:  # one more rollout, which starts at this layer
            rolled = [row + start for row, start in zip(rolled, rows, strict=True)]
        below = [(1 - residual) * contract(layer, row) + residual * row for row in rolled]
        return count + 1, below

    count, rolled = trace.descend(start_layer, (0, rows), step)
    return [row / count for row in rolled] if every_layer else rolled


def _roll_out_encoder_decoder(
    sides: EncoderDecoder, start: Tensor, residual: float, every_layer: bool
) -> Tensor:
    """Roll out attention through the decoder, and each layer's share for the source through the encoder."""
    source, row = sides.split(start)
    above = row
    for layer in reversed(sides.decoder):
        source = source + (1 - residual) * contract(layer.cross, row)
        row = (1 - residual) * residual * contract(layer.own, row) + residual**2 * row
        if every_layer and layer is not sides.decoder[0]:
            row = row + above  # one more rollout, which ends below this layer
    if every_layer:
        source, row = source / len(sides.decoder), row / len(sides.decoder)
    for below in reversed(sides.encoder):
        source = (1 - residual) * contract(below, source) + residual * source
    return torch.cat([source, row], dim=1)
