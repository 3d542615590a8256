"""From the numbers of all inputs to the figures of every head and layer, with intervals."""

from typing import Any

import numpy as np

from whence.comparison.changed import most_changed
from whence.comparison.seen import Seen
from whence.comparison.summary import Facts, Summary
from whence.flow.query import PAIRS

Array = np.ndarray[Any, np.dtype[np.float64]]


def figures(seen: Seen, summary: Summary, coverage: float, specials: bool) -> Facts:
    """Return heads, layers, kinds of tokens, the overlap of the flow, and what changed most."""
    width = seen.shape[1]

    def shared(what: str) -> Facts:
        return summary.mean(np.array([getattr(one, what) for one in seen.overlaps]))

    divergence, decision = (
        np.stack([getattr(one, what) for one in seen.measured])
        for what in ("divergence", "decision")
    )  # (inputs, layers, heads)
    special, entropy = (
        np.stack([getattr(one, what) for one in seen.measured], axis=1)
        for what in ("special", "entropy")
    )  # (2, inputs, layers, heads)
    heads = [
        {
            "layer": place // width,
            "head": place % width,
            "divergence": d,
            "decision": read,
            "special": s,
            "entropy": e,
        }
        for place, (d, read, s, e) in enumerate(
            zip(
                summary.means(_flat(divergence)),
                summary.means(_flat(decision)),
                summary.pairs(*map(_flat, special)),
                summary.pairs(*map(_flat, entropy)),
                strict=True,
            )
        )
    ]
    layers = [
        {
            "layer": layer,
            "divergence": d,
            "decision": read,
            "special": s,
            "strangers": far,
            "overlap": o,
            "chance": c,
        }
        for layer, (d, read, s, far, o, c) in enumerate(
            zip(
                summary.means(divergence.mean(2)),
                summary.means(decision.mean(2)),
                summary.pairs(*(side.mean(2) for side in special)),
                summary.means(np.stack([one.strangers for one in seen.measured])),
                summary.means(np.stack([one.layers for one in seen.overlaps])),
                summary.means(np.stack([one.layers_chance for one in seen.overlaps])),
                strict=True,
            )
        )
    ]
    return {
        "heads": heads,
        "layers": layers,
        "segments": _named(summary, [one.segments for one in seen.measured], PAIRS),
        "specials": _named(summary, [one.kinds for one in seen.measured]),
        "overlap": {
            "coverage": coverage,
            "specials": specials,
            **{what: shared(what) for what in ("jaccard", "chance", "only_a", "only_b")},
            "other": {
                "specials": not specials,
                "jaccard": shared("other_jaccard"),
                "chance": shared("other_chance"),
            },
        },
        "changed": most_changed(
            summary,
            divergence,
            (special[0], special[1]),
            (entropy[0], entropy[1]),
            heads,
            layers,
        ),
    }


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def _named(
    summary: Summary, found: list[dict[str, Array]], order: tuple[str, ...] = ()
) -> list[Facts]:
    """Return a pair of figures for each name; an input that lacks it does not count."""
    known = {name for one in found for name in one}
    names = [name for name in order if name in known] or sorted(known)
    if not names:
        return []
    missing = np.full(2, np.nan)
    both = np.array([[one.get(name, missing) for name in names] for one in found])
    pairs = summary.pairs(both[:, :, 0], both[:, :, 1])
    return [{"name": name, "figures": pair} for name, pair in zip(names, pairs, strict=True)]
