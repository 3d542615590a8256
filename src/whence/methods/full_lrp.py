"""Full LRP: relevance propagated through every operation to the first layer's input, or an image's pixels."""

import torch

from whence.lrp import NOTICE, Rules
from whence.lrp.node import StabiliserName
from whence.lrp.propagate import compute_relevance
from whence.methods import OwnScore, Scores, method, with_own_score
from whence.tracing.trace import Trace


@method(
    "full_lrp",
    family="relevance",
    needs={"attention", "relevance"},
    signed=True,
    unit="output",
    presets={"chefer": {"own": "zero"}, "chefer_vit": {"positions": True}},
    notice=NOTICE,
    unsure_in_half=True,
    cite="Bach et al. 2015, doi:10.1371/journal.pone.0130140; as in Chefer, Gur & Wolf 2021, arXiv:2012.09838",
    formula="s_j = Σ_d R(h_0)[j, d],  h_0 the input of the first layer, R propagated rule by rule from the logit",
    cost="1 forward, 1 relevance pass",
    misleads_when="rules 'original' double relevance at every linear layer, and where two terms cancel it blows up: "
    "compute in float64, look at the conservation residuals",
)
def full_lrp(
    trace: Trace,
    *,
    rules: Rules = "original",
    own: OwnScore = "keep",
    stabiliser: StabiliserName = "paper",
    positions: bool = False,
) -> Scores:
    """Propagate relevance from the target to the input of the first layer.

    `rules`: "original" is the baseline of the authors' tables, "ours" their own rules, which conserve relevance.
    An encoder-decoder has two first layers. In a picture it goes on to the pixels: a patch gets what arrives at its
    own. The authors' ViT lets `positions` take a share on the way, which no patch gets then.
    """
    relevance = compute_relevance(trace, rules, stabiliser, positions=positions)
    if trace.batch.has_images:
        trace.fine["full_lrp"] = relevance.of_pixels()
        return relevance.of_tokens(), relevance.conservation()
    scores = torch.cat([relevance.of_layer_input(stack.layers[0]) for stack in trace.stacks], dim=1)
    # With an encoder and a decoder no single layer carries all relevance; but all of it arrives at the inputs.
    axioms = relevance.conservation() or {"conservation": scores.sum(1) - relevance.seeded}
    return with_own_score(scores, trace.rows, trace.real, own), axioms
