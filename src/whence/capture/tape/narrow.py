"""Steps of a tape for a few tokens instead of all of them.

Between the attention of a Transformer's last layer and the end of that layer every token is for itself, and the
prediction reads one or a few of them. Whether that is so of a model is not known but tried: who narrows compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from whence.capture.tape.tape import Step

_SHAPES = {"view", "reshape", "expand", "unflatten", "flatten"}


def narrowed(steps: Sequence[Step], tokens: int, kept: int) -> list[Step]:
    """Return the same steps for `kept` tokens in each input: shapes that are spelt out change with them."""
    return [_narrowed(step, tokens, kept) for step in steps]


def narrow_values(values: Mapping[int, Tensor], places: Tensor, tokens: int) -> dict[int, Tensor]:
    """Keep some tokens, (batch, kept), of every value that has them: (batch, tokens, ...)."""
    return {number: chosen(value, places, tokens) for number, value in values.items()}


def chosen(value: Tensor, places: Tensor, tokens: int) -> Tensor:
    """Return the rows of a value at some places, if it has a row for each token."""
    if value.dim() < 2 or value.shape[1] != tokens or value.shape[0] != len(places):
        return value
    at = places.reshape(*places.shape, *[1] * (value.dim() - 2))
    return value.gather(1, at.expand(-1, -1, *value.shape[2:]))


def _narrowed(step: Step, tokens: int, kept: int) -> Step:
    if getattr(step.func, "__name__", "") not in _SHAPES:
        return step
    return replace(
        step, args=_renamed(step.args, tokens, kept), kwargs=_renamed(step.kwargs, tokens, kept)
    )


def _renamed(tree: Any, tokens: int, kept: int) -> Any:
    if isinstance(tree, tuple | list):
        return tuple(_renamed(one, tokens, kept) for one in tree)
    if isinstance(tree, dict):
        return {key: _renamed(one, tokens, kept) for key, one in tree.items()}
    is_length = isinstance(tree, int) and not isinstance(tree, bool) and tree == tokens
    return kept if is_length else tree
