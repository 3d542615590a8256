"""Dropout as in training, but the same one every time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from whence.capture.found import altering
from whence.core.seed import generator


@contextmanager
def dropped_out(model: nn.Module, seed: int) -> Iterator[int]:
    """Drop features out as in training, the same ones in every forward pass; the model stays in evaluation mode.

    Yields how many modules drop something out: with 0 of them nothing is changed. What is dropped depends on the
    module, the place of the token and the feature, not on the batch. Dropout that is no module of its own (of
    attention weights; all of BART's) stays off.
    """
    with altering(model, f"dropout {seed}") as stack:
        calls: dict[str, int] = {}  # of each module, within one forward pass
        begin = model.register_forward_pre_hook(_own_thread(lambda *_: calls.clear()))
        stack.callback(begin.remove)
        active = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, nn.Dropout) and module.p > 0
        }
        for name, module in active.items():
            hook = module.register_forward_hook(_own_thread(_drop(name, seed, calls)))
            stack.callback(hook.remove)
        yield len(active)


def _drop(
    name: str, seed: int, calls: dict[str, int]
) -> Callable[[nn.Dropout, Any, Tensor], Tensor | None]:
    def drop(module: nn.Dropout, _: Any, output: Tensor) -> Tensor | None:
        # (inputs, heads, places, places) are attention weights, which most models do not show to a module.
        if output.dim() > 3:
            return None
        calls[name] = call = calls.get(name, -1) + 1
        shape = output.shape[1:]
        # Numbers are drawn place by place: what is longer, or padded, begins with the same ones.
        drawn = generator("dropout", seed, name, call).random(prod(shape))
        kept = torch.from_numpy(drawn >= module.p).to(output.device).view(shape)
        # A product, because the methods that follow every operation know what to make of one.
        return output * (kept.to(output.dtype) / (1 - module.p if module.p < 1 else 1))

    return drop


def _own_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Hooks are the model's, and another thread may run it meanwhile."""
    owner = get_ident()
    return lambda *args: hook(*args) if get_ident() == owner else None
