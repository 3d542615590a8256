"""Which edges are wanted."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter

Bools = NDArray[np.bool_]
SegmentPair = Literal["A>A", "A>B", "B>A", "B>B"]
PAIRS: tuple[SegmentPair, ...] = get_args(SegmentPair)


@dataclass(frozen=True)
class Query:
    """Which edges are wanted; all that is given must hold. Layers and heads count from 0.

    Where a weight sees all heads of a layer together, a head that is asked for stands for its layer.
    """

    layers: tuple[int, int] | None = None  # first and last
    heads: tuple[tuple[int, int], ...] = ()  # (layer, head), any of them
    tokens: tuple[int, ...] = ()  # an edge touches any of them
    segments: tuple[SegmentPair, ...] = ()  # from a token of A to one of B, say
    least: float = 0.0  # the smallest weight of an edge, as the model has it
    specials: bool = True  # whether edges that end on special tokens are among them

    def check(self, layers: int, heads: int, tokens: int) -> None:
        """Refuse what this input and model do not have."""
        first, last = self.layers or (0, layers - 1)
        if not 0 <= first <= last < layers:
            raise BadParameter(
                f"There are no layers {first} to {last}: the model has {layers}, counted from 0."
            )
        for layer, head in self.heads:
            if not (0 <= layer < layers and 0 <= head < heads):
                raise BadParameter(
                    f"There is no head {layer}.{head}: the model has {layers} layers of {heads} heads, counted from "
                    "0."
                )
        for token in self.tokens:
            if not 0 <= token < tokens:
                raise BadParameter(
                    f"There is no token {token}: the input has {tokens}, counted from 0."
                )
        for pair in self.segments:
            if pair not in PAIRS:
                raise BadParameter(
                    f"There are no segments {pair!r}. There are: {', '.join(PAIRS)}."
                )
        if not self.least >= 0:
            raise BadParameter(f"The smallest weight of an edge is 0 or more, not {self.least!r}.")

    def wanted_heads(self, layer: int, heads: int, per_head: bool) -> NDArray[np.int64]:
        """Return the heads of a layer that are wanted, in order; 0 stands for all where they are together."""
        first, last = self.layers or (layer, layer)
        everyone = np.arange(heads if per_head else 1)
        if not first <= layer <= last:
            return everyone[:0]
        if not self.heads:
            return everyone
        own = sorted({head for number, head in self.heads if number == layer})
        return np.asarray(own, dtype=np.int64) if per_head else everyone[: len(own)]

    def wanted_pairs(self, special: Bools, segments: NDArray[Any]) -> Bools | None:
        """Return which tokens may attend to which, (tokens, tokens), or None where all may."""
        if self.specials and not self.tokens and not self.segments:
            return None
        wanted = np.ones((len(special), len(special)), dtype=bool)
        if not self.specials:
            wanted &= ~np.asarray(special, dtype=bool)
        if self.tokens:
            touched = np.zeros(len(special), dtype=bool)
            touched[list(self.tokens)] = True
            wanted &= touched[:, None] | touched
        if self.segments:
            names = np.where(np.asarray(segments) == 0, "A", "B")
            between = np.zeros_like(wanted)
            for pair in self.segments:
                between |= (names == pair[0])[:, None] & (names == pair[2])
            wanted &= between
        return wanted
