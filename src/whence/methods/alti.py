"""ALTI: aggregation of layer-wise token-to-token interactions (Ferrando, Gállego & Costa-jussà 2022)."""

from whence.capture import Trace
from whence.lrp import block, rolled_out, vectors
from whence.methods import Scores, method


@method(
    "alti",
    family="attention",
    needs={"attention", "steps"},
    signed=False,
    unit="share",
    cite="Ferrando, Gállego & Costa-jussà 2022 (EMNLP), arXiv:2203.04212",
    formula="s = e_i C_{L-1} ··· C_0,  C_l[i,j] ∝ max(0, ‖y_i‖₁ - ‖y_i - T_i(x_j)‖₁),  T_i(x_j): what j sends to "
    "i, y_i: what arrives",
    cost="1 forward, 1 decomposition of every layer",
    misleads_when="feed-forward parts move information that it does not follow; it knows no class",
)
def alti(trace: Trace, *, layer: int | None = None) -> Scores:
    """Multiply the layers' maps of how close each sent vector comes to the result (or read one layer's)."""
    maps = []
    for one in trace.layers if layer is None else [trace.layer(layer)]:
        part = block(trace, one)
        sent = vectors(part, one, trace.real, "mixed")
        whole = part.tape.value(part.mixed_normed).to(sent.dtype)
        near = whole.abs().sum(-1) - (whole - sent).abs().sum(-1)
        # Padding sends nothing: it is exactly as far away as the result is long.
        maps.append(near.clamp(min=0).permute(1, 2, 0))
    scores = rolled_out(trace.rows, maps, row_normalise=True)
    return scores, {"sums_to_one": scores.sum(1) - 1}
