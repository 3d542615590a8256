"""The arguments of operations, with slots in the place of values, and the forms that an operation has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor


@dataclass(frozen=True)
class Slot:
    """The place of a value in the arguments of a step."""

    index: int


@cache
def slot(index: int) -> Slot:
    """Return the slot of that number; there are few of them, and very many steps."""
    return Slot(index)


# What is asked about a tensor: no value comes out of it.
FACTS = frozenset(
    getattr(Tensor, name).__get__
    for name in ("shape", "dtype", "device", "requires_grad", "is_cuda", "ndim", "layout", "grad_fn", "_version")
) | {
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous, Tensor.is_floating_point,
    Tensor.__len__, torch.is_floating_point,
}  # fmt: skip


def each(result: Any) -> Sequence[Any]:
    """Return what a call gave as a sequence, also where it is one thing."""
    return result if isinstance(result, list | tuple) else (result,)


@cache
def in_place(func: Any) -> bool:
    """Say whether an operation writes into its argument."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name.startswith("__i") and name not in {"__index__", "__invert__", "__int__"}
    return name.endswith("_")


HALF = (torch.float16, torch.bfloat16)
CASTS = {"to", "type", "type_as", "half", "bfloat16"}


@cache
def copying(func: Any) -> Callable[..., Any]:
    """Return the form of an operation that leaves its argument as it is."""
    if not in_place(func):
        return cast(Callable[..., Any], func)
    name = func.__name__
    plain = getattr(Tensor, name.replace("__i", "__") if name.startswith("__") else name[:-1], None)
    return plain or (lambda first, *args, **kwargs: func(first.clone(), *args, **kwargs))


def filled(tree: Any, values: Sequence[Tensor], *, widen: bool) -> Any:
    """Return arguments with values in their slots; constants of half precision as wide as these, if `widen`."""
    if isinstance(tree, Slot):
        return values[tree.index]
    if isinstance(tree, Tensor):
        return tree.to(values[0].dtype) if widen and tree.dtype in HALF else tree
    if isinstance(tree, list | tuple) and type(tree) in (list, tuple):
        return type(tree)(filled(one, values, widen=widen) for one in tree)
    if isinstance(tree, dict):
        return {key: filled(one, values, widen=widen) for key, one in tree.items()}
    return tree
