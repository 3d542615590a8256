"""Gradient norm (saliency): length of the target's gradient at each token's embedding."""

import torch
from torch import Tensor

from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "gradient",
    family="gradient",
    needs={"embedding_grad"},
    signed=False,
    unit="relative",
    cite="Simonyan, Vedaldi & Zisserman 2014, arXiv:1312.6034; for text Li et al. 2016, arXiv:1506.01066",
    formula="s_j = ‖ dy / de_j ‖₂,  e_j the embedding of token j",
    cost="1 forward, 1 backward",
    misleads_when="the model is saturated, or listens to a token that says nothing: slope is not contribution",
)
def gradient(trace: Trace) -> Scores:
    """Measure how steeply the target changes with each token's embedding."""
    _, grad = trace.embeddings()
    norm: Tensor = torch.linalg.vector_norm(grad, dim=-1)
    return norm
