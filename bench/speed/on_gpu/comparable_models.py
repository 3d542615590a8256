"""The same weights in another dtype, on another device."""

from copy import deepcopy
from typing import Any

import torch

# Random weights attend to all alike, and then ranks are decided by rounding. Queries and keys that are longer by this
# make scores with a spread of about 1, as in a trained model.
_LONGER = 3.0
_SHARP = ("query", "key", "q_proj", "k_proj")


@torch.no_grad()
def sharpened(model: Any) -> Any:
    """Let a model of random weights prefer some tokens; all weights are rounded so that every dtype can hold them."""
    for name, weight in model.named_parameters():
        if any(part in _SHARP for part in name.split(".")):
            weight.mul_(_LONGER)
        weight.copy_(weight.to(torch.bfloat16).to(weight.dtype))
    return model


def moved(model: Any, dtype: torch.dtype, device: torch.device) -> Any:
    """Return a copy with the same weights."""
    return deepcopy(model).to(device=device, dtype=dtype)
