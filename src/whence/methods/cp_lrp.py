"""CP-LRP (Ali et al. 2022): relevance propagated to embeddings, attention weights and gates held constant."""

from whence.lrp import NOTICE
from whence.lrp.propagate import compute_relevance
from whence.methods import Scores, method
from whence.tracing.trace import Trace


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
    relevance = compute_relevance(trace, "cp_lrp", "signed")
    scores = relevance.of_tokens()
    return scores, {"conservation": scores.sum(1) - relevance.seeded, **relevance.conservation()}
