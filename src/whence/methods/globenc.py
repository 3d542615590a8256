"""GlobEnc (Modarressi et al. 2022): norms through both halves of the encoder layer, rolled out."""

from whence.lrp.decompose import compute_token_vectors, find_transformer_block, roll_out
from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "globenc",
    family="attention",
    needs={"attention", "steps"},
    signed=False,
    unit="share",
    unit_when=lambda parameters: "share" if parameters["row_normalise"] else "relative",
    presets={"globenc": {"row_normalise": False}},  # the authors' code
    cite="Modarressi et al. 2022 (NAACL), arXiv:2205.03286",
    formula="s = e_i N_{L-1} ··· N_0,  N_l[i,j] = ‖ g₂(g₁(Σ_h A_l[h,i,j] f_h(x_j) + [i=j] x_i)) ‖₂, rows normalised",
    cost="1 forward, 1 decomposition of every layer",
    misleads_when="norms know no direction: what cancels out counts, and it knows no class",
)
def globenc(trace: Trace, *, layer: int | None = None, row_normalise: bool = True) -> Scores:
    """Multiply the layers' maps of norms, both skip connections and norms included (or read one layer's).

    Without `row_normalise`, as the authors do it, scores grow with every layer.
    """
    maps = []
    for attn in trace.layers if layer is None else [trace.layer(layer)]:
        size = compute_token_vectors(
            find_transformer_block(trace, attn), attn, trace.real, "block"
        ).norm(dim=-1)
        maps.append(size.permute(1, 2, 0))
    return roll_out(trace.rows, maps, row_normalise=row_normalise)
