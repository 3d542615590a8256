"""Generic attention explainability (Chefer, Gur & Wolf 2021, ICCV), self-attention part."""

from whence.capture import Trace, contract
from whence.methods import Scores, method


@method(
    "generic_attention",
    family="attention x gradient",
    needs={"attention", "attention_grad"},
    signed=False,
    cite="Chefer, Gur & Wolf 2021 (ICCV), arXiv:2103.15679",
    formula="s = e_i (I + E_{L-1}) ··· (I + E_start),  E_l = mean_h max(0, dy/dA_l ∘ A_l)",
    cost="1 forward, 1 backward",
    misleads_when="evidence against the target is cut off at zero, and the row that is read keeps a 1 of its own",
)
def generic_attention(trace: Trace, *, start_layer: int = 0) -> Scores:
    """Roll out attention weighted by its positive gradient, so that it speaks of one class."""
    row = trace.rows
    for layer in reversed(trace.from_layer(start_layer)):
        row = row + contract(layer, row, "positive_gradient_x_attention")
    return row
