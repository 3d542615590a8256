"""Transformer attribution (Chefer, Gur & Wolf 2021, CVPR): relevance times gradient, rolled out."""

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from whence.capture import AttentionLayer, Trace, contract, contract_normalised
from whence.data.vision.picture import FILLS
from whence.lrp import NOTICE, Rules, Stabiliser, relevance
from whence.methods import Own, Scores, method, with_own

_KIND: Literal["positive_gradient_x_relevance"] = "positive_gradient_x_relevance"


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    asked = parameters["row_normalise"]
    pictures = any(fill in fillers for fill in FILLS)
    return {**parameters, "row_normalise": not pictures if asked is None else asked}


@method(
    "transformer_attribution",
    family="relevance",
    needs={"attention", "attention_grad", "relevance"},
    signed=False,
    unit="relative",
    settle=_settle,
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
    own: Own = "keep",
    stabiliser: Stabiliser = "paper",
) -> Scores:
    """Roll out the relevance of attention, weighted by its positive gradient.

    The authors' BERT normalises rows and their ViT does not, and so it is here by default for texts and pictures.
    `stabiliser`: the "paper"'s 1e-9, or "signed", which cannot blow up and loses nothing in copies.
    """
    normalise = not trace.batch.pictures if row_normalise is None else row_normalise
    # Of a contrast, both classes have relevance, and the gradient says which of them it speaks for.
    found = relevance(trace, rules, stabiliser, unsigned=True)

    def step(layer: AttentionLayer, row: Tensor) -> Tensor:
        quotient = found.quotient(layer)
        if normalise:
            return contract_normalised(layer, row, _KIND, quotient=quotient)
        return row + contract(layer, row, _KIND, quotient=quotient)

    row = trace.descend(start_layer, trace.rows, step)
    return with_own(row, trace.rows, trace.real, own), found.conservation()
