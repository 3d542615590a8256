"""Leave-one-out, or erasure."""

from collections.abc import Mapping
from typing import Any

from whence.capture import Ask
from whence.data import Batch
from whence.data.removal import Removal, removable, resolve
from whence.methods import Scores, method


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers)}


@method(
    "leave_one_out",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=_settle,
    calls=lambda tokens, _: tokens,
    cite="Li, Monroe & Jurafsky 2016, arXiv:1612.08220",
    formula="s_j = p(y | x) - p(y | x without token j)",
    cost="n + 1 forwards for n tokens",
    misleads_when="the model never saw text with a hole in it, or two tokens say the same and each can be spared",
)
def leave_one_out(ask: Ask, batch: Batch, *, remove: Removal | None = None) -> Scores:
    """Remove each token in turn and measure the fall of the target's probability.

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
