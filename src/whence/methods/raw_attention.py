"""Raw attention: one layer's weights in the row that the prediction reads, averaged over heads."""

import torch

from whence.methods import OwnScore, Query, Scores, method, query_rows, with_own_score
from whence.tracing.trace import Trace


@method(
    "raw_attention",
    family="attention",
    needs={"attention"},
    signed=False,
    unit="share",
    presets={
        "abnar": {"layer": -1, "query": "read", "own": "keep"},
        "abnar_sst": {"layer": -1, "query": "max", "own": "keep"},
        "chefer_bert": {"layer": -1, "query": "read", "own": "zero"},
        "chefer_vit": {"layer": -1, "query": "read", "own": "zero"},
        "attcat": {"layer": -1, "query": "read", "own": "zero"},
        "attcat_squad": {"layer": None, "query": "last", "own": "keep"},
    },
    cite="Bahdanau, Cho & Bengio 2015, arXiv:1409.0473; tested by Jain & Wallace 2019, arXiv:1902.10186",
    formula="s_j = mean_h A_l[h, i, j],  i the row that the prediction reads",
    cost="1 forward",
    misleads_when="weights fall on tokens whose value vectors say nothing, or lower layers have mixed the tokens",
)
def raw_attention(
    trace: Trace, *, layer: int | None = -1, query: Query = "read", own: OwnScore = "keep"
) -> Scores:
    """Read the attention weights of one layer, averaged over its heads.

    Without a `layer` it is the mean of all. `query` may read another row than the prediction does. Of an
    encoder-decoder it is the decoder's layer: a source token has its cross attention, a token of the decoder its self
    attention, each as it is.
    """
    rows = query_rows(trace, query)
    scores = torch.stack(trace.read(rows, layer)).mean(0).amax(0)
    # The maximum over several rows has no fixed sum. In a decoder each of two maps adds up to one.
    maps = 1 if trace.sides is None else 2
    axioms = {} if query == "max" else {"sums_to_one": scores.sum(1) - maps}
    # A row that pools the tokens belongs to no token, so it has no entry for its own token.
    own = "keep" if trace.pooled else own
    return with_own_score(scores, torch.stack(rows).sum(0), trace.real, own), axioms
