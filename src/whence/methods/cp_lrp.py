"""CP-LRP, conservative propagation (Ali et al. 2022)."""

from whence.capture import Trace
from whence.lrp import NOTICE, relevance
from whence.methods import Scores, method


@method(
    "cp_lrp",
    family="relevance",
    needs={"relevance"},
    signed=True,
    unit="output",
    notice=NOTICE,
    cite="Ali et al. 2022 (ICML), arXiv:2202.07304; for gates and activations Achtibat et al. 2024, arXiv:2402.05602",
    formula="s_j = Σ_d R(e_j)[d]: as AttnLRP, but attention weights and gates count as constants",
    cost="1 forward, 1 relevance pass",
    misleads_when="what a token does by steering attention is not counted, only what it says",
)
def cp_lrp(trace: Trace) -> Scores:
    """Propagate the target's value to the embeddings through values only."""
    found = relevance(trace, "cp_lrp", "signed")
    scores = found.of_tokens()
    return scores, {"conservation": scores.sum(1) - found.seeded, **found.conservation()}
