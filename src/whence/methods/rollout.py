"""Attention rollout (Abnar & Zuidema 2020)."""

from typing import Annotated

from whence.capture import Trace, contract
from whence.core.params import Range
from whence.methods import Scores, method


@method(
    "rollout",
    family="attention",
    needs={"attention"},
    signed=False,
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
) -> Scores:
    """Multiply the layers' attention maps, each mixed with the skip connection."""
    row = trace.rows
    for layer in reversed(trace.from_layer(start_layer)):
        row = (1 - residual) * contract(layer, row) + residual * row
    return row, {"sums_to_one": row.sum(1) - 1}
