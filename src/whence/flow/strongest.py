"""The largest of very many numbers that belong to edges, a layer at a time."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.flow.weights import Floats

Ints = NDArray[np.int64]
Found = tuple[Ints, Ints, Ints, Ints, Floats]  # layer, head, source, to, value


@dataclass(frozen=True, eq=False)
class Block:
    """Numbers of some edges of one layer, and which heads, sources and tokens attended to they belong to."""

    layer: int
    heads: Ints
    sources: Ints
    to: Ints
    values: Floats  # (heads, sources, to), nowhere negative


def strongest(blocks: Iterable[Block], most: int) -> tuple[Found, int, float]:
    """Return the `most` largest values and where they belong, how many are not zero, and the sum of all.

    Equal values go by layer, head, source and to: blocks come in the order of their layers, and all in them
    ascends. What does not exceed the `most`-th largest of the layers before needs no sorting.
    """
    kept, count, total, bar = _none(), 0, 0.0, 0.0
    for block in blocks:
        flat = block.values.reshape(-1)
        count += int(np.count_nonzero(flat))
        total += float(flat.sum())
        chosen = _largest(flat, most, bar)
        head, source, to = np.unravel_index(chosen, block.values.shape)
        layer = np.full(len(chosen), block.layer, dtype=np.int64)
        new = (layer, block.heads[head], block.sources[source], block.to[to], flat[chosen])
        kept = _first(kept, new, most)
        if len(kept[-1]) == most:
            bar = float(kept[-1][-1])
    return kept, count, total


def _largest(values: Floats, most: int, bar: float) -> Ints:
    """Return the places of the `most` largest values above the bar, the first of equal ones; in their order."""
    places = np.flatnonzero(values > bar)
    if len(places) <= most:
        return places
    own = values[places]
    least = np.partition(own, -most)[-most]
    chosen = own > least
    equal = np.flatnonzero(own == least)
    chosen[equal[: most - np.count_nonzero(chosen)]] = True
    found: Ints = places[chosen]
    return found


def _first(kept: Found, new: Found, most: int) -> Found:
    """Put what was kept and what is new in order, the largest first, and keep `most`.

    The sort is stable, and both come in the order of their keys where values are equal.
    """
    layer, head, source, to, value = (np.concatenate(pair) for pair in zip(kept, new, strict=True))
    order = np.argsort(-value, kind="stable")[:most]
    return layer[order], head[order], source[order], to[order], value[order]


def _none() -> Found:
    places = np.zeros(0, dtype=np.int64)
    return places, places, places, places, np.zeros(0)
