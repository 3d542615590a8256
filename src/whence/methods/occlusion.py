"""Occlusion (Zeiler & Fergus 2014): mean fall of the probability under a window sliding over text or image."""

from typing import Annotated

import torch

from whence.core.params import Range
from whence.data.batches import Batch
from whence.data.removal import Removal, list_removable_tokens, resolve_removal
from whence.data.tokens import EncodedInput
from whence.methods import Scores, method, settle_removal
from whence.tracing.ask import ModelQuery


def _list_token_windows(tokens: int, window: int, how: Removal) -> list[range]:
    """Return the positions under each window; no window is wider than the text or deletes all of it."""
    wide = max(1, min(window, tokens - (how == "delete")))
    return [range(first, first + wide) for first in range(tokens - wide + 1)]


def _list_windows(item: EncodedInput, window: int, how: Removal) -> list[list[int]]:
    """Return the positions under the window at each of its stops."""
    if item.picture is not None:
        return _list_square_windows(item.picture.grid, window)
    sources, answer = len(item) - len(item.answer), len(item.answer)
    sequences = [(0, sources), *([(sources, answer)] if answer else [])]  # a decoder's are another
    return [
        [first + place for place in places]
        for first, tokens in sequences
        for places in _list_token_windows(tokens, window, how)
    ]


def _list_square_windows(grid: tuple[int, int], window: int) -> list[list[int]]:
    """Return the patches under each stop of a square window, which is no wider than the image."""
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
    settle=settle_removal,
    of="probability",
    words="mean",
    calls=lambda tokens, given: len(_list_token_windows(tokens, given["window"], given["remove"])),
    cite="Zeiler & Fergus 2014, arXiv:1311.2901; averaged over windows as in Captum",
    formula="s_j = mean over the windows W that hold j of p(y | x) - p(y | x without W)",
    cost="n - window + 2 forwards for n tokens",
    misleads_when="the model never saw text with a hole in it, or the evidence is wider than the window; neighbours "
    "of what counts get a share of its score",
)
def occlusion(
    ask: ModelQuery,
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
    how = resolve_removal(remove, ask.fillers)
    movable = [frozenset(list_removable_tokens(item, ask.anchors)) for item in batch.items]
    masked = [
        [
            span
            for places in _list_windows(item, window, how)
            if (span := [place for place in places if place in free])
        ]
        for item, free in zip(batch.items, movable, strict=True)
    ]
    after = ask.without(masked, how)
    base = ask.base("probability")
    scores = [base.new_zeros(len(item)) for item in batch.items]
    counts = [torch.zeros_like(own) for own in scores]
    for row, own in enumerate(masked):
        for span, fall in zip(own, base[row] - after[row], strict=True):
            scores[row][span] += fall
            counts[row][span] += 1
    means = [total / often.clamp(min=1) for total, often in zip(scores, counts, strict=True)]
    return batch.pad_values(means)
