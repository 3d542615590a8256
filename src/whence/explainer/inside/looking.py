"""Opening the inside of a model: on an input that is asked about, or on one that was explained."""

import torch

from whence.capture import TargetSpec
from whence.core.errors import BadEncoding
from whence.core.types import Target
from whence.data import Encoded
from whence.explainer.aims import Asked, aim
from whence.explainer.inside.inside import Inside
from whence.explainer.sharing import Sharing
from whence.models import Loaded


def look(loaded: Loaded, sharing: Sharing, item: Encoded, asked: Asked) -> Inside:
    """Return the inside of a model on one input.

    A masked language model is looked into as one without a head where there is no mask to fill.
    """
    unmasked = loaded.task == "mask" and loaded.fillers.get("mask") not in item.ids
    if loaded.task == "none" or unmasked:
        return Inside(loaded, sharing, item, TargetSpec("predicted", None, "logit"))
    with torch.inference_mode(False):
        aimed = aim(loaded, [item], asked)
        if len(aimed.items) != 1:
            raise BadEncoding(
                "Two answers of several tokens are two inputs of the model. Look into each: answer='...'."
                if aimed.join is not None
                else f"The model says {len(aimed.items)} things about this text. Say which one to look into: at=..."
            )
        return Inside(loaded, sharing, aimed.items[0], aimed.spec)


def again(loaded: Loaded, sharing: Sharing, item: Encoded, target: Target) -> Inside:
    """Return the inside of a model on an input that was explained, with the target that was."""
    against = None if target.against is None else target.against.index
    return Inside(loaded, sharing, item, TargetSpec(target.index, against, target.of))
