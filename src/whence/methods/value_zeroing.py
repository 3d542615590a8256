"""Value zeroing (Mohebbi et al. 2023): change of layer outputs without a token's values, rolled out."""

from whence.lrp.decompose import compute_value_zeroing, find_transformer_block, roll_out
from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "value_zeroing",
    family="attention",
    needs={"attention", "steps"},
    signed=False,
    unit="share",
    cite="Mohebbi et al. 2023 (EACL), arXiv:2301.12971",
    formula="s = e_i C_{L-1} ··· C_0,  C_l[i,j] ∝ 1 - cos(h_i, h_i if the values of j were zero),  h: what comes "
    "out of layer l",
    cost="1 forward, and the upper part of each layer again for each token",
    misleads_when="a token whose removal turns a vector where nobody looks counts as much as any; it knows no class",
)
def value_zeroing(trace: Trace, *, layer: int | None = None) -> Scores:
    """Zero each token's values in a layer, see how far its output turns, and multiply the layers' maps.

    `layer` reads the map of one layer alone.
    """
    layers = trace.layers if layer is None else [trace.layer(layer)]
    maps = [
        compute_value_zeroing(find_transformer_block(trace, one), one, trace.real) for one in layers
    ]
    scores = roll_out(trace.rows, maps, row_normalise=True)
    return scores, {"sums_to_one": scores.sum(1) - 1}
