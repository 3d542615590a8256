"""What each edge weight measures, what its skip connection is, and where it misleads: the cards of the help page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """The facts of one edge weight."""

    title: str
    summary: str  # one sentence
    formula: str
    skip: str  # where the share that goes past a layer comes from
    equals: str  # the method that the tokens' shares equal, or that there is none
    cost: str
    cite: str
    misleads_when: str


CARDS: dict[str, Card] = {
    "attention": Card(
        title="Attention",
        summary="An edge weighs what its head attends, and all heads count the same.",
        formula="C[h,i,j] = A[h,i,j] / heads",
        skip="half of what arrives goes past each layer, a convention and not a measurement",
        equals="rollout",
        cost="1 forward",
        cite="Abnar & Zuidema 2020, arXiv:2005.00928",
        misleads_when="a weight says how much is looked at, not how large what is fetched is, nor whether it is "
        "used; it knows no class",
    ),
    "norm": Card(
        title="Norm",
        summary="An edge weighs the length of the vector that its head adds.",
        formula="C[h,i,j] ∝ ‖A[h,i,j] f_h(x_j)‖₂,  f_h: values through the output matrix",
        skip="measured, ‖x_i‖ / (‖x_i‖ + Σ of the norms)",
        equals="none: the methods norm and globenc add the heads' vectors up before they measure them",
        cost="1 forward, 1 decomposition of every layer",
        cite="Kobayashi et al. 2020, arXiv:2004.10102",
        misleads_when="vectors that cancel out count twice instead of not at all; it knows no class",
    ),
    "value_zeroing": Card(
        title="Value zeroing",
        summary="An edge weighs how far the layer's output turns without the token's values, all heads together.",
        formula="C[i,j] ∝ 1 - cos(h_i, h_i if the values of j were zero)",
        skip="none, for the token's own entry is part of the map",
        equals="value_zeroing",
        cost="1 forward, and the upper part of each layer again for each token",
        cite="Mohebbi et al. 2023 (EACL), arXiv:2301.12971",
        misleads_when="a vector turns where nobody looks; what a token keeps without attention is not in it; it "
        "knows no class",
    ),
    "gradient_x_attention": Card(
        title="Gradient x attention",
        summary="An edge weighs attention times the gradient of the target, where that is positive.",
        formula="C[h,i,j] ∝ max(0, A[h,i,j] · dy/dA[h,i,j])",
        skip="1 / (1 + Σ_j of the heads' mean), so that a layer that does little is gone past",
        equals="none: generic_attention does not normalise its rows",
        cost="1 forward, 1 backward",
        cite="Chefer, Gur & Wolf 2021 (ICCV), arXiv:2103.15679",
        misleads_when="evidence against the target is cut off at zero, and a gradient says what a small "
        "change would do",
    ),
    "relevance": Card(
        title="Relevance",
        summary="An edge weighs the relevance of the attention weight times its gradient, where that is positive.",
        formula="C[h,i,j] ∝ max(0, R[h,i,j] · dy/dA[h,i,j])",
        skip="1 / (1 + Σ_j of the heads' mean), so that a layer that does little is gone past",
        equals="transformer_attribution",
        cost="1 forward, 1 backward, 1 relevance pass",
        cite="Chefer, Gur & Wolf 2021 (CVPR), arXiv:2012.09838",
        misleads_when="evidence against the target is cut off at zero, and the row that is read keeps most for "
        "itself",
    ),
}
