"""CAT, class activation tokens (Qiang et al. 2022): hidden state x gradient, summed over the layers."""

from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "cat",
    family="attention x gradient",
    needs={"hidden_grad"},
    signed=True,
    unit="output",
    cite="Qiang et al. 2022, AttCAT (NeurIPS)",
    formula="s_j = Σ_l Σ_d h_l[j,d] · dy / dh_l[j,d],  h_l the input of layer l",
    cost="1 forward, 1 backward",
    misleads_when="deep layers have mixed the tokens: what is found at place j need not come from token j",
)
def cat(trace: Trace, *, layer: int | None = None) -> Scores:
    """Multiply hidden states with their gradients and add up the layers (or read one of them).

    In an encoder-decoder a token goes by the layers of its own side.
    """
    return trace.sum_layers(layer, lambda attn, _: attn.compute_cat())
