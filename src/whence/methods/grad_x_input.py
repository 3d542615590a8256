"""Gradient x input: each token's embedding times the target's gradient, summed over features."""

from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "grad_x_input",
    family="gradient",
    needs={"embedding_grad"},
    signed=True,
    unit="output",
    cite="Denil, Demiraj & de Freitas 2014, arXiv:1412.6815; Shrikumar et al. 2017, arXiv:1605.01713",
    formula="s_j = Σ_d e_{j,d} · dy / de_{j,d}",
    cost="1 forward, 1 backward",
    misleads_when="the model is far from linear between an embedding and zero, which is not a word",
)
def grad_x_input(trace: Trace) -> Scores:
    """Multiply each embedding with its gradient: a first-order guess at its contribution."""
    embedding, grad = trace.embeddings()
    return (embedding * grad).sum(-1)
