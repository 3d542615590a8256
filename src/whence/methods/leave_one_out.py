"""Leave-one-out, or erasure."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whence.capture import Ask
from whence.data import Batch
from whence.data.removal import Removal, removable, resolve
from whence.methods import Scores, method


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers)}


def _without_words(
    ask: Ask, batch: Batch, scores: Tensor, parameters: Mapping[str, Any]
) -> list[Tensor]:
    """Return the fall without each whole word; of a word of one token it is the token's, and known.

    A word that is all there is of a text cannot be deleted: its first token stays.
    """
    how = resolve(parameters["remove"], ask.fillers)
    holes = []
    for item in batch.items:
        free = set(removable(item, ask.anchors))
        own = [[place for place in word.tokens if place in free] for word in item.words]
        sources = range(len(item) - len(item.answer))
        whole = how == "delete"
        holes.append([hole[1:] if whole and {*sources} <= {*hole} else hole for hole in own])
    asked = [[hole for hole in own if len(hole) > 1] for own in holes]
    after = ask.without(asked, how)
    base = ask.base(of="probability")
    found = []
    for row, own in enumerate(holes):
        single = scores[row][batch.own[row]].to(base)
        falls = iter(base[row] - after[row])
        values = [
            next(falls) if len(hole) > 1 else single[hole[0]] if hole else base.new_zeros(())
            for hole in own
        ]
        found.append(torch.stack(values) if values else base.new_zeros(0))
    return found


@method(
    "leave_one_out",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=_settle,
    of="probability",
    calls=lambda tokens, _: tokens,
    words="mean",
    measure_words=_without_words,
    cite="Li, Monroe & Jurafsky 2016, arXiv:1612.08220",
    formula="s_j = p(y | x) - p(y | x without token j)",
    cost="n + 1 forwards for n tokens, and one for each word of several",
    misleads_when="the model never saw text with a hole in it, or two tokens say the same and each can be spared",
)
def leave_one_out(ask: Ask, batch: Batch, *, remove: Removal | None = None) -> Scores:
    """Remove each token in turn and measure the fall of the target's probability.

    Falls do not add up: what a word of several tokens counts for is measured without the whole word.
    A token without which the model is undefined (the end of sequence of a BART or T5 classifier, the token with which
    a decoder starts) cannot be removed; its score is 0.
    """
    how = resolve(remove, ask.fillers)
    places = [removable(item, ask.anchors) for item in batch.items]
    after = ask.without([[(place,) for place in own] for own in places], how)
    base = ask.base(of="probability")
    parts = [base.new_zeros(len(item)) for item in batch.items]
    for row, own in enumerate(places):
        parts[row][own] = base[row] - after[row]
    return batch.spread(parts)
