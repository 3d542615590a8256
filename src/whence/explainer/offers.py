"""What a page must know of a model to ask it something: its task, what it takes, whether it can be looked into."""

from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.errors import WhenceError
from whence.explainer.aims.pairing import why_pairs
from whence.explainer.aims.zero_shot import can_zero_shot
from whence.explainer.inside.inside import PATCHES
from whence.explainer.intake import takes_pairs
from whence.models import Loaded

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer

_PROBE = "whence looks inside"
_TOWERS = (
    "A text and a picture go through a model each, and meet at the end: how information flowed there is not drawn. "
    "The scores show what of the one speaks for the other."
)
_GREY = np.full((32, 32, 3), 128, dtype=np.uint8)


def offers(explainer: "Explainer") -> dict[str, Any]:
    """Return the facts of a model that a list of models says."""
    loaded = explainer.loaded
    return {
        "kind": type(loaded.model).__name__,
        "labels": list(loaded.labels),
        "task": loaded.task,
        "modality": loaded.modality,
        "mask": _mask(loaded) if loaded.task == "mask" else None,
        "zero_shot": can_zero_shot(loaded),
        "method": explainer.default_method(),
        "draws": loaded.sees and loaded.name == "shapes",
        "pairs": loaded.pairs or loaded.task == "answer",
        "takes_pairs": not loaded.sees and takes_pairs(loaded),
        "reads_pairs": why_pairs(loaded) is not None,
        "longest": loaded.max_length,
        **attention(explainer),
    }


def attention(explainer: "Explainer") -> dict[str, Any]:
    """Find out by trying how many layers and heads there are to look at, and if there are none, why."""
    nothing: dict[str, Any] = {"layers": None, "heads": None}
    loaded = explainer.loaded
    if loaded.modality == "both":
        return {**nothing, "attention": _TOWERS}
    two = loaded.pairs or loaded.task == "answer" or why_pairs(loaded) is not None
    # Of a tagger one token is asked about: in these words there is nothing to be found.
    at = 1 if loaded.task == "tags" else None
    text: Any = (_PROBE, _PROBE) if two else _PROBE
    try:
        inside = explainer.inside(_GREY if loaded.sees else text, truncate=True, at=at)
        inside.attention()
        why_not = PATCHES if loaded.sees else None
        return {"layers": inside.layers, "heads": inside.heads, "attention": why_not}
    except WhenceError as error:
        return {**nothing, "attention": str(error)}


def _mask(loaded: Loaded) -> str | None:
    return getattr(loaded.tokenizer, "mask_token", None)
