"""ALTI (Ferrando et al. 2022): maps of how near each token's vector comes to a layer's result, rolled out."""

from whence.lrp.decompose import compute_token_vectors, find_transformer_block, roll_out
from whence.methods import Scores, method
from whence.tracing.trace import Trace


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
    for attn in trace.layers if layer is None else [trace.layer(layer)]:
        part = find_transformer_block(trace, attn)
        sent = compute_token_vectors(part, attn, trace.real, "mixed")
        whole = part.tape.value(part.first_sum_output).to(sent.dtype)
        near = whole.abs().sum(-1) - (whole - sent).abs().sum(-1)
        # Padding sends a zero vector, so its distance is exactly the norm of the result.
        maps.append(near.clamp(min=0).permute(1, 2, 0))
    scores = roll_out(trace.rows, maps, row_normalise=True)
    return scores, {"sums_to_one": scores.sum(1) - 1}
