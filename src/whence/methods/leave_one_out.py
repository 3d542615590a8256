"""Leave-one-out, or erasure."""

from collections.abc import Mapping
from typing import Any

import torch

from whence.capture import Ask
from whence.data import Batch
from whence.data.removal import Removal, resolve
from whence.methods import Scores, method


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers)}


@method(
    "leave_one_out",
    family="perturbation",
    needs=set(),
    signed=True,
    settle=_settle,
    calls=lambda tokens, _: tokens,
    cite="Li, Monroe & Jurafsky 2016, arXiv:1612.08220",
    formula="s_j = p(y | x) - p(y | x without token j)",
    cost="n + 1 forwards for n tokens",
    misleads_when="the model never saw text with a hole in it, or two tokens say the same and each can be spared",
)
def leave_one_out(ask: Ask, batch: Batch, *, remove: Removal | None = None) -> Scores:
    """Remove each token in turn and measure the fall of the target's probability.

    A token without which the model is undefined (the end of sequence of a BART or T5 classifier) cannot be
    removed; its score is 0.
    """
    how = resolve(remove, ask.fillers)
    places = [
        [place for place, identity in enumerate(item.ids) if identity not in ask.anchors]
        for item in batch.items
    ]
    after = ask.without([[(place,) for place in own] for own in places], how)
    base = ask.base(of="probability")
    scores = torch.zeros(batch.real.shape, dtype=base.dtype, device=base.device)
    for row, own in enumerate(places):
        scores[row, own] = base[row] - after[row]
    return scores
