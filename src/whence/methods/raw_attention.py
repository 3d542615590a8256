"""Raw attention: the weights themselves, of one layer."""

from whence.capture import Trace, contract
from whence.methods import Scores, method


@method(
    "raw_attention",
    family="attention",
    needs={"attention"},
    signed=False,
    cite="Bahdanau, Cho & Bengio 2015, arXiv:1409.0473; tested by Jain & Wallace 2019, arXiv:1902.10186",
    formula="s_j = mean_h A_l[h, i, j],  i the row that the prediction reads",
    cost="1 forward",
    misleads_when="weights fall on tokens whose value vectors say nothing, or lower layers have mixed the tokens",
)
def raw_attention(trace: Trace, *, layer: int = -1) -> Scores:
    """Read the attention weights of one layer, averaged over its heads."""
    scores = contract(trace.layer(layer), trace.rows)
    return scores, {"sums_to_one": scores.sum(1) - 1}
