"""How much of what flows goes from one text of a pair to the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.flow.graph import Traced
from whence.flow.query import Bools
from whence.flow.weights import Floats


@dataclass(frozen=True, eq=False)
class Crossing:
    """The parts of what each layer's edges carry; they add up to 1, or are NaN where nothing flows."""

    within: Floats  # (layers,): between two tokens of one text
    between: Floats  # (layers,): from a token of one text to one of the other
    special: Floats  # (layers,): to or from special tokens, which belong to no text
    chance: float  # of the first two together, what would go between if all tokens of the texts counted the same


def crossing(traced: Traced, segments: NDArray[Any], special: Bools) -> Crossing:
    """Divide what flows along the edges, layer by layer, by the texts that its ends belong to."""
    text = ~np.asarray(special, dtype=bool)
    names = np.asarray(segments)
    counts = [int((text & (names == name)).sum()) for name in np.unique(names[text])]
    if len(counts) < 2:
        raise BadParameter(
            "Nothing can go from one text to the other: the input is a single text. Give a pair (a, b)."
        )
    both = text[:, None] & text
    same = names[:, None] == names
    kinds = np.stack([both & same, both & ~same, ~both])
    parts = np.stack([_sums(traced, layer, kinds) for layer in range(traced.layers)], axis=1)
    whole = parts.sum(axis=0)
    shares = np.divide(parts, whole, out=np.full_like(parts, np.nan), where=whole > 0)
    pairs = sum(counts) ** 2
    chance = (pairs - sum(count**2 for count in counts)) / pairs
    within, between, beside = shares
    return Crossing(within, between, beside, chance)


def _sums(traced: Traced, layer: int, kinds: Bools) -> Floats:
    """Add up one layer's flows by kind of edge."""
    weights = traced.weights.together[layer]
    flows = traced.above[layer][:, None] * weights * traced.below[layer]
    sums: Floats = np.array([flows[kind].sum() for kind in kinds])
    return sums
