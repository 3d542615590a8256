"""Which heads and layers changed most, and which of these differences are more than chance."""

from typing import Any

import numpy as np

from whence.comparison.summary import Facts, Summary, enough

Array = np.ndarray[Any, np.dtype[np.float64]]

LISTED = 10


def ranked(summary: Summary, values: Array, means: list[Facts]) -> list[tuple[int, bool]]:
    """Return the columns of (inputs, columns) by their means, the largest first, ties in their order.

    With each goes whether it cannot be told from the first: the sign-flip test over the same inputs, corrected for
    all columns.
    """
    order = sorted(range(len(means)), key=lambda place: -float(means[place]["mean"]))
    first, rest = order[0], order[1:]
    apart = summary.surely(values[:, [first]] - values[:, rest]) if rest else []
    return [(first, True), *((place, not sure) for place, sure in zip(rest, apart, strict=True))]


def moved(summary: Summary, a: Array, b: Array) -> Facts:
    """Count the columns that are surely higher in the second model, and those that are lower."""
    change = b - a
    sure = np.array(summary.surely(change), dtype=bool)
    up = change.mean(0) > 0
    return {
        "more": np.flatnonzero(sure & up).tolist(),
        "less": np.flatnonzero(sure & ~up).tolist(),
        "of": len(sure),
    }


def most_changed(
    summary: Summary,
    divergence: Array,  # (inputs, layers, heads)
    special: tuple[Array, Array],  # of both models, the same shape
    entropy: tuple[Array, Array],
    heads: list[Facts],
    layers: list[Facts],
) -> Facts:
    """Return the heads and layers that changed most, and how many heads look elsewhere than before."""
    inputs, depth, width = divergence.shape
    flat = divergence.reshape(inputs, -1)
    by_head = ranked(summary, flat, [one["divergence"] for one in heads])
    by_layer = ranked(summary, divergence.mean(2), [one["divergence"] for one in layers])
    return {
        "heads": [{**_place(heads[at]), "equal": equal} for at, equal in by_head[:LISTED]],
        "equal_heads": sum(equal for _, equal in by_head),
        "layers": [{**_place(layers[at]), "equal": equal} for at, equal in by_layer],
        "equal_layers": sum(equal for _, equal in by_layer),
        "special": _named(moved(summary, *(_flat(side) for side in special)), width),
        "entropy": _named(moved(summary, *(_flat(side) for side in entropy)), width),
        "enough": enough(inputs, depth * width),
        "rule": (
            "Ranked by the mean divergence. `equal`: cannot be told from the first; `more` and `less`: heads that "
            "surely moved. A difference counts if the sign-flip test over the same inputs gives p < 0.05 after "
            "Holm's correction for all heads or layers."
        ),
    }


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def _place(one: Facts) -> Facts:
    return {key: one[key] for key in ("layer", "head", "divergence", "decision") if key in one}


def _named(found: Facts, width: int) -> Facts:
    """Put (layer, head) in the place of column numbers."""
    return {
        key: [list(divmod(place, width)) for place in value] if isinstance(value, list) else value
        for key, value in found.items()
    }
