"""Partial LRP (Voita et al. 2019): positive relevance of one layer's attention, by default the last."""

from whence.kernels.contract import contract
from whence.lrp import NOTICE, Rules
from whence.lrp.node import StabiliserName
from whence.lrp.propagate import compute_relevance
from whence.methods import OwnScore, Scores, method, with_own_score
from whence.tracing.trace import Trace


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
    own: OwnScore = "keep",
    stabiliser: StabiliserName = "paper",
) -> Scores:
    """Read the positive relevance of one layer's attention, averaged over its heads."""
    relevance = compute_relevance(trace, rules, stabiliser)
    attn = trace.read_layer(layer)
    scores = contract(attn, trace.rows, "positive_relevance", quotient=relevance.quotient(attn))
    # A row that pools the tokens belongs to no token, so it has no entry for its own token.
    own = "keep" if trace.pooled else own
    return with_own_score(scores, trace.rows, trace.real, own), relevance.conservation()
