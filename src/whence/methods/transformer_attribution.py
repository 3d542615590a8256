"""Transformer attribution (Chefer, Gur & Wolf 2021, CVPR): relevance times gradient, rolled out."""

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from whence.data.images import IMAGE_FILLS
from whence.kernels.contract import contract, contract_normalised
from whence.lrp import NOTICE, Rules
from whence.lrp.node import StabiliserName
from whence.lrp.propagate import compute_relevance
from whence.methods import OwnScore, Scores, method, with_own_score
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.trace import Trace

_KIND: Literal["positive_gradient_x_relevance"] = "positive_gradient_x_relevance"


def _resolve_parameters(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    normalise = parameters["row_normalise"]
    pictures = any(fill in fillers for fill in IMAGE_FILLS)
    return {**parameters, "row_normalise": not pictures if normalise is None else normalise}


@method(
    "transformer_attribution",
    family="relevance",
    needs={"attention", "attention_grad", "relevance"},
    signed=False,
    unit="relative",
    settle=_resolve_parameters,
    presets={
        "chefer_bert": {"start_layer": -1, "own": "min"},  # the ERASER pipeline's default
        "chefer_bert_notebook": {"start_layer": 0, "own": "min"},
        "chefer_vit": {"start_layer": 1, "row_normalise": False},
        "chefer_vit_notebook": {"start_layer": 0, "row_normalise": False},
        "attcat": {"start_layer": 0, "own": "zero"},  # "TransAtt" there
    },
    notice=NOTICE,
    cite="Chefer, Gur & Wolf 2021 (CVPR), arXiv:2012.09838",
    formula="s = e_i M_{L-1} ··· M_start,  M_l = I + mean_h max(0, dy/dA_l ∘ R_l), rows normalised",
    cost="1 forward, 1 backward, 1 relevance pass",
    misleads_when="evidence against the target is cut off at zero, and the row that is read keeps most for itself",
)
def transformer_attribution(
    trace: Trace,
    *,
    start_layer: int = 0,
    row_normalise: bool | None = None,
    rules: Rules = "ours",
    own: OwnScore = "keep",
    stabiliser: StabiliserName = "paper",
) -> Scores:
    """Roll out the relevance of attention, weighted by its positive gradient.

    The authors' BERT normalises rows and their ViT does not, and so it is here by default for texts and pictures.
    `stabiliser`: the "paper"'s 1e-9, or "signed", which cannot blow up and loses nothing in copies.
    """
    normalise = not trace.batch.has_images if row_normalise is None else row_normalise
    # In a contrast both classes have relevance; the sign of the gradient tells which one it is for.
    relevance = compute_relevance(trace, rules, stabiliser, unsigned=True)

    def step(layer: AttentionLayer, row: Tensor) -> Tensor:
        quotient = relevance.quotient(layer)
        if normalise:
            return contract_normalised(layer, row, _KIND, quotient=quotient)
        return row + contract(layer, row, _KIND, quotient=quotient)

    row = trace.descend(start_layer, trace.rows, step)
    return with_own_score(row, trace.rows, trace.real, own), relevance.conservation()
