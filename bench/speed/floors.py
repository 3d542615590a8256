"""Floor of methods that propagate relevance: the matrix products that any implementation needs.

One forward pass, one gradient, and for every linear layer that ran the matrix products that its rule (z+) is made of:
x⁺w⁺ and x⁻w⁻, then S w⁺ᵀ and S w⁻ᵀ, in the precision that whence takes them in. Nothing that stands between them
counts: no division, no sum, no attention, no norm.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from bench.speed.random_models import build_bare_pass
from torch import Tensor, nn

Given = Mapping[str, Any]  # input_ids and attention_mask, lists or tensors, (batch, tokens)


def build_relevance_floor(model: nn.Module, batch: Any) -> Callable[[], None]:
    """Return one run of the floor, for a batch of whence or a mapping of ids as `explain` takes it."""
    inputs: Given = getattr(batch, "inputs", batch)
    given = {name: _convert_to_lists(inputs[name]) for name in ("input_ids", "attention_mask")}
    passes, products = build_bare_pass(model, given), build_linear_relevance(model, given)

    def run() -> None:
        passes()
        products()

    return run


def build_linear_relevance(model: nn.Module, given: Given) -> Callable[[], None]:
    """Return one run of the products of all linear layers that a forward pass on these inputs goes through."""
    layers = _list_linear_layers(model, given)
    device = next(model.parameters()).device
    draw = torch.Generator(device=device).manual_seed(8)
    # On random numbers, one set for all layers of a shape: zeros would be faster than anything that is real.
    made: dict[tuple[Any, ...], list[tuple[Tensor, Tensor]]] = {}
    for shape in layers:
        if shape not in made:
            made[shape] = _build_operands(*shape, draw)
    pairs = [pair for shape in layers for pair in made[shape]]

    def run() -> None:
        for left, right in pairs:
            if left.is_cuda and left.dtype == torch.bfloat16:
                torch.mm(left, right, out_dtype=torch.float32)
            else:
                torch.mm(left, right)

    return run


def _build_operands(
    rows: int, inputs: int, outputs: int, dtype: torch.dtype, draw: torch.Generator
) -> list[tuple[Tensor, Tensor]]:
    """Return the operands of one layer's products.

    In bfloat16 on a GPU a product of twice the depth stands for two: x⁺w⁺ + x⁻w⁻, or a quotient in two parts.
    Everywhere else it is float32 or wider, and four products.
    """
    device = draw.device

    def draw_tensor(*shape: int) -> Tensor:
        wide = dtype if halved else torch.promote_types(dtype, torch.float32)
        return torch.randn(*shape, generator=draw, device=device, dtype=torch.float32).to(wide)

    halved = device.type == "cuda" and dtype == torch.bfloat16
    depth = 2 if halved else 1
    forth = (draw_tensor(rows, depth * inputs), draw_tensor(depth * inputs, outputs))
    back = (draw_tensor(rows, depth * outputs), draw_tensor(depth * outputs, inputs))
    return [forth, back, back] if halved else [forth, forth, back, back]


def _list_linear_layers(model: nn.Module, given: Given) -> list[tuple[int, int, int, torch.dtype]]:
    """Return rows, inputs, outputs and dtype of every linear layer that runs, in order."""
    found: list[tuple[int, int, int, torch.dtype]] = []

    def note(module: nn.Linear, args: tuple[Tensor, ...]) -> None:
        rows = args[0].numel() // module.in_features
        found.append((rows, module.in_features, module.out_features, args[0].dtype))

    hooks = [
        part.register_forward_pre_hook(note)
        for part in model.modules()
        if isinstance(part, nn.Linear)
    ]
    try:
        device = next(model.parameters()).device
        inputs = {name: torch.as_tensor(one, device=device) for name, one in given.items()}
        with torch.inference_mode():
            model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _convert_to_lists(ids: Any) -> list[list[int]]:
    listed: list[list[int]] = ids.tolist() if isinstance(ids, Tensor) else ids
    return listed
