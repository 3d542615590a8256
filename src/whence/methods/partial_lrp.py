"""Partial LRP: the relevance of the last layer's attention (Voita et al. 2019)."""

from whence.capture import Trace, contract
from whence.lrp import NOTICE, Rules, Stabiliser, relevance
from whence.methods import Own, Scores, method, with_own


@method(
    "partial_lrp",
    family="relevance",
    needs={"attention", "relevance"},
    signed=False,
    unit="relative",
    presets={
        "chefer": {"own": "zero"},
        "attcat": {"rules": "ours", "own": "zero"},
    },
    notice=NOTICE,
    cite="Voita et al. 2019, arXiv:1905.09418; as in Chefer, Gur & Wolf 2021 (CVPR), arXiv:2012.09838",
    formula="s_j = mean_h max(0, R_l[h, i, j]),  R_l the relevance of the attention of layer l (the last)",
    cost="1 forward, 1 relevance pass",
    misleads_when="lower layers have mixed the tokens: what it finds is a place in the last layer, not a word",
)
def partial_lrp(
    trace: Trace,
    *,
    layer: int = -1,
    rules: Rules = "original",
    own: Own = "keep",
    stabiliser: Stabiliser = "paper",
) -> Scores:
    """Read the positive relevance of one layer's attention, averaged over its heads."""
    found = relevance(trace, rules, stabiliser)
    one = trace.read_layer(layer)
    scores = contract(one, trace.rows, "positive_relevance", quotient=found.quotient(one))
    # A row that pools the tokens is no token's, and has no entry of its own.
    own = "keep" if trace.pooled else own
    return with_own(scores, trace.rows, trace.real, own), found.conservation()
