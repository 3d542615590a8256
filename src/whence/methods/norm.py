"""Norms of the vectors that attention moves in one layer, instead of weights (Kobayashi et al. 2020, 2021)."""

from typing import Literal

import torch

from whence.lrp.decompose import compute_token_vectors, find_transformer_block
from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "norm",
    family="attention",
    needs={"attention", "steps"},
    signed=False,
    unit="relative",
    presets={"kobayashi_2020": {"variant": "2020"}, "kobayashi_2021": {"variant": "2021"}},
    cite="Kobayashi et al. 2020, arXiv:2004.10102; with skip connection and norm: 2021, arXiv:2109.07152",
    formula="s_j = ‖ g(Σ_h A_l[h,i,j] f_h(x_j) + [i=j] x_i) ‖₂,  f_h: values through the output matrix, g: the "
    "layer norm with the deviation it has",
    cost="1 forward, 1 decomposition of one layer",
    misleads_when="lower layers have mixed the tokens, or large vectors cancel out or are never read",
)
def norm(trace: Trace, *, layer: int = -1, variant: Literal["2020", "2021"] = "2021") -> Scores:
    """Measure the vectors that each token sends to the row that is read, in one layer.

    "2020": what attention sends; "2021": with the skip connection and the layer norm after it, if there is one.
    """
    attn = trace.layer(layer)
    sent = compute_token_vectors(
        find_transformer_block(trace, attn),
        attn,
        trace.real,
        "sent" if variant == "2020" else "mixed",
    )
    return torch.einsum("kbi,bi->bk", sent.norm(dim=-1), trace.rows.to(sent.dtype))
