"""Adam as the recipe says, and its state as named tensors."""

from typing import Any

import torch
from torch import Tensor

from whence.training.recipe import Recipe


def optimiser_of(model: Any, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam, or AdamW, over all weights that are trained; attention may decay by itself."""
    attention = _attention(model) if recipe.attention_weight_decay is not None else set()
    weights = [w for w in model.parameters() if w.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [w for w in weights if id(w) not in attention]},
        {
            "params": [w for w in weights if id(w) in attention],
            "weight_decay": recipe.attention_weight_decay,
        },
    ]
    kind = torch.optim.AdamW if recipe.decoupled else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        amsgrad=recipe.amsgrad,
        fused=True,  # one pass over the memory instead of a dozen: most of a model of words is its table
    )


def _attention(model: Any) -> set[int]:
    """The weights of a model's one attention. Transformers, with one in every layer, have none of this name."""
    module = getattr(model, "attention", None)
    return {id(w) for w in module.parameters()} if isinstance(module, torch.nn.Module) else set()


def tensors_of(optimiser: torch.optim.Optimizer, model: Any) -> dict[str, Tensor]:
    """Name the optimiser's state by the weights it belongs to."""
    return {
        f"{name}/{kind}": value
        for name, weight in model.named_parameters()
        for kind, value in optimiser.state.get(weight, {}).items()
    }


def restore(optimiser: torch.optim.Optimizer, model: Any, tensors: dict[str, Tensor]) -> None:
    """Put a state back that `tensors_of` named."""
    weights = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        optimiser.state[weights[name]][kind] = value
