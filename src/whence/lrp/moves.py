"""Putting back what was moved: shapes, orders, parts and joints, without running the operation again.

Moving is linear and needs no values, so that what comes back depends on shapes alone. What is not said here is pulled
back through the operation's own derivative.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.capture.tape.arguments import Slot
from whence.capture.tape.tape import Step

# Operations that leave numbers in the order in which they are, whatever the shape.
_IN_ORDER = frozenset(
    {
        "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous",
        "clone", "to", "float", "double", "half", "bfloat16", "type", "type_as",
    }
)  # fmt: skip
_SWAPS = frozenset({"transpose", "swapaxes", "swapdims"})
_JOINTS = frozenset({"cat", "concat", "concatenate"})


def put_back(
    step: Step, given: Sequence[Tensor], carried: Sequence[Tensor | None]
) -> list[Tensor | None] | None:
    """Return what each of the inputs gets of what the output carries; None where it is another operation."""
    if len(carried) != 1 or carried[0] is None:
        return None
    name = getattr(step.func, "__name__", "")
    if name in _JOINTS:
        return _taken_apart(step, given, carried[0])
    if len(given) != 1 or not step.args or not isinstance(step.args[0], Slot):
        return None
    back: Callable[[Step, Tensor, Tensor], Tensor | None] | None = (
        _reshaped if name in _IN_ORDER else _swapped if name in _SWAPS else _OTHERS.get(name)
    )
    found = None if back is None else back(step, given[0], carried[0])
    return None if found is None else [found]


def _reshaped(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    seen_as = any(isinstance(one, torch.dtype) for one in step.args[1:])  # a view of other numbers
    if carried.numel() != x.numel() or (seen_as and step.func is Tensor.view):
        return None
    return carried.reshape(x.shape)


def _swapped(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    dims = step.args[1:]
    return carried.transpose(*dims) if len(dims) == 2 else None


def _permuted(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    dims = step.args[1:]
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    if len(dims) != x.dim():
        return None
    order = [dim % x.dim() for dim in dims]
    return carried.permute([order.index(dim) for dim in range(x.dim())])


def _turned(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    return carried.t()


def is_part(step: Step) -> bool:
    """Say whether a step takes a part of a value out of it, each number once at most."""
    if getattr(step.func, "__name__", "") != "__getitem__":
        return False
    index = step.args[1]
    parts = index if isinstance(index, tuple) else (index,)
    return all(one is None or one is ... or type(one) in (int, slice) for one in parts)


def _filled_in(step: Step, x: Tensor, carried: Tensor) -> Tensor | None:
    if not is_part(step):
        return None
    whole = torch.zeros_like(x, dtype=carried.dtype)  # laid out like what it is added to
    whole[step.args[1]] = carried
    return whole


_OTHERS: dict[str, Callable[[Step, Tensor, Tensor], Tensor | None]] = {
    "permute": _permuted,
    "t": _turned,
    "__getitem__": _filled_in,
}


def _taken_apart(
    step: Step, given: Sequence[Tensor], carried: Tensor
) -> list[Tensor | None] | None:
    joined: Any = step.args[0] if step.args else None
    if not isinstance(joined, list | tuple) or step.kwargs.keys() - {"dim"}:
        return None
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    parts = [given[one.index] if isinstance(one, Slot) else one for one in joined]
    if not all(isinstance(one, Tensor) and one.dim() == carried.dim() for one in parts):
        return None
    pieces = torch.split(carried, [one.shape[dim] for one in parts], dim)
    found: list[Tensor | None] = [None for _ in given]
    for place, piece in zip(joined, pieces, strict=True):
        if isinstance(place, Slot):
            found[place.index] = piece
    return found
