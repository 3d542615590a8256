"""DecompX (Modarressi et al. 2023): every value decomposed by token, through all layers and the head."""

import torch

from whence.lrp.decompose import BiasSharing, decompose, find_first_input, split_by_token
from whence.lrp.propagate import find_output_seeds
from whence.methods import Scores, method
from whence.tracing.trace import Trace


@method(
    "decompx",
    family="relevance",
    needs={"attention", "steps"},
    signed=True,
    unit="output",
    presets={"without_bias": {"bias": "none"}},  # an ablation of the paper
    cite="Modarressi et al. 2023 (ACL), arXiv:2306.02873",
    formula="s_k = y_{c⇐k}: x_{i⇐k} carried through attention, sums, norms, activations (slope f(a)/a) and head; "
    "biases shared by |b·x_{i⇐k}|;  Σ_k s_k = y_c",
    cost="1 forward, 1 decomposition: about n times the forward's work and memory for n tokens",
    misleads_when="attention weights and deviations count as given: what a token does by steering them is not seen",
)
def decompx(trace: Trace, *, bias: BiasSharing = "absdot") -> Scores:
    """Split the target into one part per token, adding up to it.

    `bias`: how what biases add is shared between the tokens; "none" leaves it out. A probability, or that
    of a whole answer, is split by its slope at the logits: those parts do not add up to it, and completeness says
    by how much.
    """
    tape, start = find_first_input(trace)
    starts = {start: split_by_token(tape.value(start))}
    scores = torch.zeros_like(trace.rows)
    for number, slope in find_output_seeds(trace).items():
        parts = decompose(tape, starts, number, real=trace.real, bias=bias)
        parts, slope = parts.flatten(2), slope.flatten(1).to(parts.dtype)
        scores = scores + torch.einsum("kbc,bc->bk", parts, slope)
    return scores, {"completeness": scores.sum(1) - trace.targets.value(trace.logits)}
