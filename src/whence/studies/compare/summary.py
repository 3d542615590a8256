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


"""What two models predict: how often the same, and how often what is right."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.comparison.summary import Facts, Summary
from whence.core.errors import BadExamples
from whence.core.types import Prediction
from whence.data.sets.examples import Example
from whence.data.sets.labels import label_places
from whence.explainer import Explainer

Array = np.ndarray[Any, np.dtype[np.float64]]
Said = Sequence[Prediction | None]


def outcomes(
    models: tuple[Explainer, Explainer],
    said: tuple[Said, Said],
    examples: Sequence[Example],
    summary: Summary,
) -> Facts | None:
    """Compare predictions with each other and with the true labels; None where neither model predicts anything."""
    tasks = [one.loaded.task for one in models]
    if not any(one.loaded.classifies for one in models):
        return None
    same_labels = models[0].labels == models[1].labels and tasks[0] == tasks[1]
    found: Facts = {"agreement": None, "without_agreement": None}
    if same_labels and tasks[0] != "regression":
        found["agreement"] = summary.mean(_same(*said))
    elif same_labels:
        found["without_agreement"] = "The models predict a number: agreement is counted of classes."
    else:
        found["without_agreement"] = _why_no_agreement(models)
    return {**found, **_accuracy(models, said, examples, summary)}


def _why_no_agreement(models: tuple[Explainer, Explainer]) -> str:
    for which, model in zip(("first", "second"), models, strict=True):
        if not model.loaded.classifies:
            return f"The {which} model has no classification head, and predicts nothing."
    return "The models do not have the same labels."


def _same(one: Said, other: Said) -> Array:
    pairs = zip(one, other, strict=True)
    return np.array(
        [float(a is not None and b is not None and a.index == b.index) for a, b in pairs]
    )


def _accuracy(
    models: tuple[Explainer, Explainer],
    said: tuple[Said, Said],
    examples: Sequence[Example],
    summary: Summary,
) -> Facts:
    right: list[Array | None] = []
    why = None
    for explainer, own in zip(models, said, strict=True):
        try:
            right.append(_right(explainer, own, examples))
        except BadExamples as error:
            right.append(None)
            why = str(error)
    one, other = right
    if one is None and other is None:
        return {"accuracy": None, "without_accuracy": why}
    return {
        "accuracy": {
            "a": None if one is None else summary.mean(one),
            "b": None if other is None else summary.mean(other),
            "change": None if one is None or other is None else summary.mean(other - one),
        },
        "without_accuracy": None,
    }


def _right(explainer: Explainer, said: Said, examples: Sequence[Example]) -> Array | None:
    """Return 1 where the prediction is the true label, NaN without one; None where the model has no classes."""
    if explainer.loaded.task != "single_label":
        return None
    labels = [example.label for example in examples]
    if all(one is None for one in labels):
        raise BadExamples("The examples have no labels.")
    places = label_places([one for one in labels if one is not None], explainer.labels)
    return np.array(
        [
            np.nan if true is None or own is None else float(own.index == places[true])
            for own, true in zip(said, labels, strict=True)
        ]
    )


"""From one number for each input to a mean with its interval; NaN stands for what an input could not tell."""

from typing import Any

import numpy as np

from whence.stats import Interval, holm, needed
from whence.stats.together import bootstraps, sign_flips

Array = np.ndarray[Any, np.dtype[np.float64]]
Facts = dict[str, Any]

LEVEL = 0.05
_COLUMNS = 256  # at once, for memory's sake
_NOTHING: Facts = {"mean": None, "low": None, "high": None, "n": 0}


class Summary:
    """Makes intervals and tests of numbers about the same inputs, in one order and with one seed."""

    def __init__(self, order: list[int], seed: int) -> None:
        """`order` makes the same inputs in another order the same data set."""
        self._order = order
        self._key = ("compare", seed)

    def means(self, values: Array) -> list[Facts]:
        """Return the mean and interval of each column of (inputs, columns)."""
        ordered = values[self._order]
        found: list[Facts] = []
        for start in range(0, ordered.shape[1], _COLUMNS):
            some = bootstraps(ordered[:, start : start + _COLUMNS], self._key)
            found += [told(one) for one in some]
        return found

    def mean(self, values: Array) -> Facts:
        """Return the mean and interval of one number for each input."""
        return self.means(values[:, None])[0]

    def pairs(self, a: Array, b: Array) -> list[Facts]:
        """Return each column of both models and of the change from one to the other."""
        sides = [self.means(side) for side in (a, b, b - a)]
        return [
            {"a": one, "b": two, "change": change} for one, two, change in zip(*sides, strict=True)
        ]

    def surely(self, differences: Array) -> list[bool]:
        """Say of each column whether it differs from zero by more than chance, corrected for their number."""
        found = sign_flips(differences[self._order], self._key)
        known = [place for place, p in enumerate(found) if p is not None]
        corrected = holm([p for p in found if p is not None])
        sure = [False] * len(found)
        for place, p in zip(known, corrected, strict=True):
            sure[place] = p < LEVEL
        return sure


def told(interval: Interval | None) -> Facts:
    """Return an interval as plain data."""
    if interval is None:
        return dict(_NOTHING)
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def enough(inputs: int, comparisons: int) -> bool:
    """Say whether so many inputs could show any of so many differences at all."""
    return inputs >= needed(max(1, comparisons), LEVEL)
