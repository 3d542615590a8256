"""Occlusion: a window slides over the text, or the picture (Zeiler & Fergus 2014)."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch

from whence.capture import Ask
from whence.core.params import Range
from whence.data import Batch, Encoded
from whence.data.removal import Removal, removable, resolve
from whence.methods import Scores, method


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers)}


def _windows(tokens: int, window: int, how: Removal) -> list[range]:
    """Return the places under the window: it is no wider than the text, and does not delete all of it."""
    wide = max(1, min(window, tokens - (how == "delete")))
    return [range(first, first + wide) for first in range(tokens - wide + 1)]


def _slid(item: Encoded, window: int, how: Removal) -> list[list[int]]:
    """Return the places under the window, wherever it stops."""
    if item.picture is not None:
        return _squares(item.picture.grid, window)
    return [
        [first + place for place in places]
        for first, tokens in _texts(item)
        for places in _windows(tokens, window, how)
    ]


def _texts(item: Encoded) -> list[tuple[int, int]]:
    """Return first place and length of what a window slides over: a source, and a decoder's tokens, one by one."""
    sources = len(item) - len(item.answer)
    return [(0, sources), (sources, len(item.answer))] if item.answer else [(0, sources)]


def _squares(grid: tuple[int, int], window: int) -> list[list[int]]:
    """Return the patches under a square window that slides over a picture: it is no wider than the picture."""
    down, across = (max(1, min(window, side)) for side in grid)
    return [
        [(top + y) * grid[1] + left + x for y in range(down) for x in range(across)]
        for top in range(grid[0] - down + 1)
        for left in range(grid[1] - across + 1)
    ]


@method(
    "occlusion",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=_settle,
    of="probability",
    words="mean",
    calls=lambda tokens, given: len(_windows(tokens, given["window"], given["remove"])),
    cite="Zeiler & Fergus 2014, arXiv:1311.2901; averaged over windows as in Captum",
    formula="s_j = mean over the windows W that hold j of p(y | x) - p(y | x without W)",
    cost="n - window + 2 forwards for n tokens",
    misleads_when="the model never saw text with a hole in it, or the evidence is wider than the window; neighbours "
    "of what counts get a share of its score",
)
def occlusion(
    ask: Ask,
    batch: Batch,
    *,
    window: Annotated[int, Range(min=1)] = 3,
    remove: Removal | None = None,
) -> Scores:
    """Remove neighbouring tokens together and give each the mean fall of the target's probability.

    Over a picture a square of window x window patches slides. Falls do not add up: the score of a word of several
    tokens is the mean of theirs.
    A window that is wider than the text is cut to its width; under remove='delete' one token always stays. A token
    without which the model is undefined cannot be removed; its score is 0. With window=1 this is leave_one_out.
    """
    how = resolve(remove, ask.fillers)
    movable = [frozenset(removable(item, ask.anchors)) for item in batch.items]
    holes = [
        [
            hole
            for places in _slid(item, window, how)
            if (hole := [place for place in places if place in free])
        ]
        for item, free in zip(batch.items, movable, strict=True)
    ]
    after = ask.without(holes, how)
    base = ask.base("probability")
    scores = [base.new_zeros(len(item)) for item in batch.items]
    counts = [torch.zeros_like(own) for own in scores]
    for row, own in enumerate(holes):
        for hole, fall in zip(own, base[row] - after[row], strict=True):
            scores[row][hole] += fall
            counts[row][hole] += 1
    means = [total / often.clamp(min=1) for total, often in zip(scores, counts, strict=True)]
    return batch.spread(means)
