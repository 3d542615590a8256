"""Models for comparison of dtypes: random weights with sharper attention, and copies in another dtype or device."""

from copy import deepcopy
from typing import Any

import torch

# Random weights attend to all alike, and then ranks are decided by rounding. Queries and keys that are longer by this
# make scores with a spread of about 1, as in a trained model.
_LONGER = 3.0
_SHARP = ("query", "key", "q_proj", "k_proj")


@torch.no_grad()
def sharpen_attention(model: Any) -> Any:
    """Scale random queries and keys so that some tokens are preferred; round weights to fit every dtype."""
    for name, weight in model.named_parameters():
        if any(part in _SHARP for part in name.split(".")):
            weight.mul_(_LONGER)
        weight.copy_(weight.to(torch.bfloat16).to(weight.dtype))
    return model


def copy_model(model: Any, dtype: torch.dtype, device: torch.device) -> Any:
    """Return a copy with the same weights, in another dtype and on another device."""
    return deepcopy(model).to(device=device, dtype=dtype)
