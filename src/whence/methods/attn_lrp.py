"""AttnLRP (Achtibat et al. 2024): the target's value propagated back to the embeddings by the table `attn_lrp`."""

from whence.lrp import NOTICE
from whence.lrp.propagate import compute_relevance
from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "attn_lrp",
    family="relevance",
    needs={"relevance"},
    signed=True,
    unit="output",
    notice=NOTICE,
    cite="Achtibat et al. 2024 (ICML), arXiv:2402.05602",
    formula="s_j = Σ_d R(e_j)[d]: ε-rule in linear layers, softmax by its Taylor term, products in equal parts, "
    "norms and activations passed through",
    cost="1 forward, 1 relevance pass",
    misleads_when="biases and position embeddings take a share of the logit that no token gets: see conservation",
)
def attn_lrp(trace: Trace) -> Scores:
    """Propagate the target's value to the embeddings, through the attention's softmax as well."""
    relevance = compute_relevance(trace, "attn_lrp", "signed")
    scores = relevance.of_tokens()
    return scores, {"conservation": scores.sum(1) - relevance.seeded, **relevance.conservation()}
