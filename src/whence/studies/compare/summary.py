"""Statistics of a comparison: means with intervals, the most changed heads and layers, predictions.

NaN stands for an input without a value. Heads and layers are ranked by mean divergence; a difference
counts if the sign-flip test over the same inputs gives p < 0.05 after Holm's correction for all heads or
layers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.core.types import Prediction
from whence.data.dataset import find_label_indices
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.flow.graph import SEGMENT_PAIRS
from whence.stats.intervals import (
    Interval,
    adjust_holm,
    bootstrap_columns,
    count_needed_examples,
    sign_flip_columns,
)
from whence.studies.compare.pair_measures import DatasetMeasures

Array = np.ndarray[Any, np.dtype[np.float64]]
JsonDict = dict[str, Any]

SIGNIFICANCE_LEVEL = 0.05
_COLUMN_CHUNK = 256  # columns at once, to limit memory
_EMPTY_INTERVAL: JsonDict = {"mean": None, "low": None, "high": None, "n": 0}


class InputStatistics:
    """Intervals and tests over the same inputs, in a fixed order and with one seed."""

    def __init__(self, order: list[int], seed: int) -> None:
        """`order` is independent of the given order of the inputs, so that the bootstrap is, too."""
        self._order = order
        self._key = ("compare", seed)

    def means(self, values: Array) -> list[JsonDict]:
        """Return the mean and interval of each column of (inputs, columns)."""
        ordered = values[self._order]
        intervals: list[JsonDict] = []
        for start in range(0, ordered.shape[1], _COLUMN_CHUNK):
            some = bootstrap_columns(ordered[:, start : start + _COLUMN_CHUNK], self._key)
            intervals += [to_interval_dict(interval) for interval in some]
        return intervals

    def mean(self, values: Array) -> JsonDict:
        """Return the mean and interval of one value per input."""
        return self.means(values[:, None])[0]

    def pairs(self, a: Array, b: Array) -> list[JsonDict]:
        """Return means and intervals of both models and of the change, for each column."""
        sides = [self.means(side) for side in (a, b, b - a)]
        return [
            {"a": first, "b": second, "change": change}
            for first, second, change in zip(*sides, strict=True)
        ]

    def find_significant(self, differences: Array) -> list[bool]:
        """Return for each column whether it differs significantly from zero, after correction."""
        p_values = sign_flip_columns(differences[self._order], self._key)
        known = [place for place, p in enumerate(p_values) if p is not None]
        corrected = adjust_holm([p for p in p_values if p is not None])
        sure = [False] * len(p_values)
        for place, p in zip(known, corrected, strict=True):
            sure[place] = p < SIGNIFICANCE_LEVEL
        return sure


def to_interval_dict(interval: Interval | None) -> JsonDict:
    """Return an interval as a JSON object."""
    if interval is None:
        return dict(_EMPTY_INTERVAL)
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def has_enough_inputs(inputs: int, comparisons: int) -> bool:
    """Return whether `inputs` are enough for any of `comparisons` to be significant."""
    return inputs >= count_needed_examples(max(1, comparisons), SIGNIFICANCE_LEVEL)


MAX_CHANGED_HEADS = 10


def rank_columns(
    summary: InputStatistics, values: Array, means: list[JsonDict]
) -> list[tuple[int, bool]]:
    """Return the columns of (inputs, columns) by descending mean, and whether each equals the first.

    A column equals the first if the sign-flip test over the same inputs, corrected for all columns, is not significant.
    Ties keep their order.
    """
    order = sorted(range(len(means)), key=lambda place: -float(means[place]["mean"]))
    first, rest = order[0], order[1:]
    apart = summary.find_significant(values[:, [first]] - values[:, rest]) if rest else []
    return [(first, True), *((place, not sure) for place, sure in zip(rest, apart, strict=True))]


def find_moved_columns(summary: InputStatistics, a: Array, b: Array) -> JsonDict:
    """Return the columns that are significantly higher in the second model, and those lower."""
    change = b - a
    sure = np.array(summary.find_significant(change), dtype=bool)
    up = change.mean(0) > 0
    return {
        "more": np.flatnonzero(sure & up).tolist(),
        "less": np.flatnonzero(sure & ~up).tolist(),
        "of": len(sure),
    }


def find_most_changed(
    summary: InputStatistics,
    divergence: Array,  # (inputs, layers, heads)
    special: tuple[Array, Array],  # of both models, the same shape
    entropy: tuple[Array, Array],
    heads: list[JsonDict],
    layers: list[JsonDict],
) -> JsonDict:
    """Return the most changed heads and layers, and heads with other special attention or entropy."""
    inputs, depth, width = divergence.shape
    flat = divergence.reshape(inputs, -1)
    by_head = rank_columns(summary, flat, [head["divergence"] for head in heads])
    by_layer = rank_columns(summary, divergence.mean(2), [layer["divergence"] for layer in layers])
    return {
        "heads": [
            {**_select_place(heads[at]), "equal": equal}
            for at, equal in by_head[:MAX_CHANGED_HEADS]
        ],
        "equal_heads": sum(equal for _, equal in by_head),
        "layers": [{**_select_place(layers[at]), "equal": equal} for at, equal in by_layer],
        "equal_layers": sum(equal for _, equal in by_layer),
        "special": _to_layer_head(
            find_moved_columns(summary, *(_flatten_inputs(side) for side in special)), width
        ),
        "entropy": _to_layer_head(
            find_moved_columns(summary, *(_flatten_inputs(side) for side in entropy)), width
        ),
        "enough": has_enough_inputs(inputs, depth * width),
        "rule": (
            "Ranked by the mean divergence. `equal`: cannot be told from the first; `more` and `less`: heads that "
            "surely moved. A difference counts if the sign-flip test over the same inputs gives p < 0.05 after "
            "Holm's correction for all heads or layers."
        ),
    }


def _flatten_inputs(values: Array) -> Array:
    return values.reshape(len(values), -1)


def _select_place(row: JsonDict) -> JsonDict:
    return {key: row[key] for key in ("layer", "head", "divergence", "decision") if key in row}


def _to_layer_head(columns: JsonDict, width: int) -> JsonDict:
    """Replace column indices by (layer, head)."""
    return {
        key: [list(divmod(place, width)) for place in value] if isinstance(value, list) else value
        for key, value in columns.items()
    }


def compute_comparison_statistics(
    measures: DatasetMeasures, summary: InputStatistics, coverage: float, specials: bool
) -> JsonDict:
    """Return the statistics of heads, layers, token kinds and flow overlap, and the largest changes."""
    width = measures.shape[1]

    def summarise(what: str) -> JsonDict:
        return summary.mean(np.array([getattr(overlap, what) for overlap in measures.overlaps]))

    divergence, decision = (
        np.stack([getattr(measure, what) for measure in measures.head_measures])
        for what in ("divergence", "decision")
    )  # (inputs, layers, heads)
    special, entropy = (
        np.stack([getattr(measure, what) for measure in measures.head_measures], axis=1)
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
                summary.means(_flatten_inputs(divergence)),
                summary.means(_flatten_inputs(decision)),
                summary.pairs(*map(_flatten_inputs, special)),
                summary.pairs(*map(_flatten_inputs, entropy)),
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
                summary.means(np.stack([measure.strangers for measure in measures.head_measures])),
                summary.means(np.stack([overlap.layers for overlap in measures.overlaps])),
                summary.means(np.stack([overlap.layers_chance for overlap in measures.overlaps])),
                strict=True,
            )
        )
    ]
    return {
        "heads": heads,
        "layers": layers,
        "segments": _pair_by_name(
            summary, [measure.segments for measure in measures.head_measures], SEGMENT_PAIRS
        ),
        "specials": _pair_by_name(summary, [measure.kinds for measure in measures.head_measures]),
        "overlap": {
            "coverage": coverage,
            "specials": specials,
            **{what: summarise(what) for what in ("jaccard", "chance", "only_a", "only_b")},
            "other": {
                "specials": not specials,
                "jaccard": summarise("other_jaccard"),
                "chance": summarise("other_chance"),
            },
        },
        "changed": find_most_changed(
            summary,
            divergence,
            (special[0], special[1]),
            (entropy[0], entropy[1]),
            heads,
            layers,
        ),
    }


def _pair_by_name(
    summary: InputStatistics, by_input: list[dict[str, Array]], order: tuple[str, ...] = ()
) -> list[JsonDict]:
    """Return the pair of figures for each name; inputs without the name do not count."""
    known = {name for figures in by_input for name in figures}
    names = [name for name in order if name in known] or sorted(known)
    if not names:
        return []
    missing = np.full(2, np.nan)
    both = np.array([[figures.get(name, missing) for name in names] for figures in by_input])
    pairs = summary.pairs(both[:, :, 0], both[:, :, 1])
    return [{"name": name, "figures": pair} for name, pair in zip(names, pairs, strict=True)]


OptionalPredictions = Sequence[Prediction | None]


def compare_predictions(
    models: tuple[Explainer, Explainer],
    predictions: tuple[OptionalPredictions, OptionalPredictions],
    examples: Sequence[Example],
    summary: InputStatistics,
) -> JsonDict | None:
    """Compare predictions with each other and with true labels; None if neither model predicts."""
    tasks = [model.loaded.task for model in models]
    if not any(model.loaded.is_classifier for model in models):
        return None
    same_labels = models[0].labels == models[1].labels and tasks[0] == tasks[1]
    facts: JsonDict = {"agreement": None, "without_agreement": None}
    if same_labels and tasks[0] != "regression":
        facts["agreement"] = summary.mean(_compare_classes(*predictions))
    elif same_labels:
        facts["without_agreement"] = "The models predict a number: agreement is counted of classes."
    else:
        facts["without_agreement"] = _describe_no_agreement(models)
    return {**facts, **_compare_accuracy(models, predictions, examples, summary)}


def _describe_no_agreement(models: tuple[Explainer, Explainer]) -> str:
    for which, model in zip(("first", "second"), models, strict=True):
        if not model.loaded.is_classifier:
            return f"The {which} model has no classification head, and predicts nothing."
    return "The models do not have the same labels."


def _compare_classes(first: OptionalPredictions, second: OptionalPredictions) -> Array:
    pairs = zip(first, second, strict=True)
    return np.array(
        [float(a is not None and b is not None and a.index == b.index) for a, b in pairs]
    )


def _compare_accuracy(
    models: tuple[Explainer, Explainer],
    predictions: tuple[OptionalPredictions, OptionalPredictions],
    examples: Sequence[Example],
    summary: InputStatistics,
) -> JsonDict:
    right: list[Array | None] = []
    why = None
    for explainer, own in zip(models, predictions, strict=True):
        try:
            right.append(_compute_correctness(explainer, own, examples))
        except BadExamples as error:
            right.append(None)
            why = str(error)
    first, second = right
    if first is None and second is None:
        return {"accuracy": None, "without_accuracy": why}
    return {
        "accuracy": {
            "a": None if first is None else summary.mean(first),
            "b": None if second is None else summary.mean(second),
            "change": None if first is None or second is None else summary.mean(second - first),
        },
        "without_accuracy": None,
    }


def _compute_correctness(
    explainer: Explainer, predictions: OptionalPredictions, examples: Sequence[Example]
) -> Array | None:
    """Return 1 for correct predictions, NaN without a true label; None if the model has no classes."""
    if explainer.loaded.task != "single_label":
        return None
    labels = [example.label for example in examples]
    if all(label is None for label in labels):
        raise BadExamples("The examples have no labels.")
    places = find_label_indices([label for label in labels if label is not None], explainer.labels)
    return np.array(
        [
            np.nan if true is None or own is None else float(own.index == places[true])
            for own, true in zip(predictions, labels, strict=True)
        ]
    )
