"""Occlusion: a window slides over the text (Zeiler & Fergus 2014)."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch

from whence.capture import Ask
from whence.core.params import Range
from whence.data import Batch
from whence.data.removal import Removal, resolve
from whence.methods import Scores, method


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers)}


def _windows(tokens: int, window: int, how: Removal) -> list[range]:
    """Return the places under the window: it is no wider than the text, and does not delete all of it."""
    wide = max(1, min(window, tokens - (how == "delete")))
    return [range(first, first + wide) for first in range(tokens - wide + 1)]


@method(
    "occlusion",
    family="perturbation",
    needs=set(),
    signed=True,
    settle=_settle,
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

    A window that is wider than the text is cut to its width; under remove='delete' one token always stays. A token
    without which the model is undefined cannot be removed; its score is 0. With window=1 this is leave_one_out.
    """
    how = resolve(remove, ask.fillers)
    holes = [
        [
            hole
            for places in _windows(len(item), window, how)
            if (hole := [place for place in places if item.ids[place] not in ask.anchors])
        ]
        for item in batch.items
    ]
    after = ask.without(holes, how)
    base = ask.base("probability")
    scores = torch.zeros(batch.real.shape, dtype=base.dtype, device=base.device)
    counts = torch.zeros_like(scores)
    for row, own in enumerate(holes):
        for hole, fall in zip(own, base[row] - after[row], strict=True):
            scores[row, hole] += fall
            counts[row, hole] += 1
    return scores / counts.clamp(min=1)
