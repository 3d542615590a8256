"""Statistics of a comparison: means with intervals, the most changed heads and layers, predictions.

NaN stands for an input without a value. Heads and layers are ranked by mean divergence; a difference
counts if the sign-flip test over the same inputs gives p < 0.05 after Holm's correction for all heads or
layers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.core.types import Prediction
from whence.data.dataset import find_label_indices
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.flow.graph import SEGMENT_PAIRS
from whence.render.document import choose_decimals, format_interval
from whence.stats.intervals import (
    adjust_holm,
    bootstrap_columns,
    count_needed_examples,
    sign_flip_columns,
)
from whence.studies.compare.pair_measures import Array, DatasetMeasures

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
        """Return the mean and interval of each column; what follows the inputs' axis is flattened."""
        ordered = values[self._order].reshape(len(values), -1)
        return [
            dict(_EMPTY_INTERVAL) if interval is None else asdict(interval)
            for start in range(0, ordered.shape[1], _COLUMN_CHUNK)
            for interval in bootstrap_columns(ordered[:, start : start + _COLUMN_CHUNK], self._key)
        ]

    def mean(self, values: Sequence[float] | Array) -> JsonDict:
        """Return the mean and interval of one value per input."""
        return self.means(np.asarray(values, dtype=np.float64))[0]

    def pairs(self, a: Array, b: Array) -> list[JsonDict]:
        """Return means and intervals of both models and of the change, for each column."""
        sides = zip(*map(self.means, (a, b, b - a)), strict=True)
        return [{"a": first, "b": second, "change": change} for first, second, change in sides]

    def find_significant(self, differences: Array) -> list[bool]:
        """Return for each column whether it differs significantly from zero, after correction."""
        p_values = adjust_holm(sign_flip_columns(differences[self._order], self._key))
        return [p is not None and p < SIGNIFICANCE_LEVEL for p in p_values]


MAX_CHANGED_HEADS = 10


def rank_columns(
    summary: InputStatistics, values: Array, means: list[JsonDict]
) -> list[tuple[int, bool]]:
    """Return the columns of (inputs, columns) by descending mean, and whether each equals the first.

    A column equals the first if the sign-flip test over the same inputs, corrected for all columns, is not significant.
    Ties keep their order.
    """
    first, *rest = sorted(range(len(means)), key=lambda place: -float(means[place]["mean"]))
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


def compute_comparison_statistics(
    measures: DatasetMeasures, summary: InputStatistics, coverage: float, specials: bool
) -> JsonDict:
    """Return the statistics of heads, layers, token kinds and flow overlap, and the largest changes."""
    depth, width = measures.shape
    # (inputs, layers, heads), and for both models (inputs, 2, layers, heads)
    divergence, decision, special, entropy = (
        np.stack([getattr(heads, what) for heads in measures.heads])
        for what in ("divergence", "decision", "special", "entropy")
    )
    overlap, other = (
        {what: np.array([getattr(one, what) for one in side]) for what in vars(side[0])}
        for side in zip(*measures.overlaps, strict=True)
    )
    heads = _join_columns(
        [{"layer": layer, "head": head} for layer in range(depth) for head in range(width)],
        divergence=summary.means(divergence),
        decision=summary.means(decision),
        special=summary.pairs(special[:, 0], special[:, 1]),
        entropy=summary.pairs(entropy[:, 0], entropy[:, 1]),
    )
    layers = _join_columns(
        [{"layer": layer} for layer in range(depth)],
        divergence=summary.means(divergence.mean(2)),
        decision=summary.means(decision.mean(2)),
        special=summary.pairs(special[:, 0].mean(2), special[:, 1].mean(2)),
        strangers=summary.means(np.stack([heads.strangers for heads in measures.heads])),
        overlap=summary.means(overlap["layers"]),
        chance=summary.means(overlap["layers_chance"]),
    )
    flat = divergence.reshape(len(divergence), -1)
    by_head = rank_columns(summary, flat, [head["divergence"] for head in heads])
    by_layer = rank_columns(summary, divergence.mean(2), [layer["divergence"] for layer in layers])
    return {
        "heads": heads,
        "layers": layers,
        "segments": _pair_by_name(summary, [one.segments for one in measures.heads], SEGMENT_PAIRS),
        "specials": _pair_by_name(summary, [one.kinds for one in measures.heads]),
        "overlap": {
            "coverage": coverage,
            "specials": specials,
            **{w: summary.mean(overlap[w]) for w in ("jaccard", "chance", "only_a", "only_b")},
            "other": {
                "specials": not specials,
                **{what: summary.mean(other[what]) for what in ("jaccard", "chance")},
            },
        },
        "changed": {
            "heads": [
                {**_select_place(heads[at]), "equal": equal}
                for at, equal in by_head[:MAX_CHANGED_HEADS]
            ],
            "equal_heads": sum(equal for _, equal in by_head),
            "layers": [{**_select_place(layers[at]), "equal": equal} for at, equal in by_layer],
            "equal_layers": sum(equal for _, equal in by_layer),
            "special": _find_moved_heads(summary, special),
            "entropy": _find_moved_heads(summary, entropy),
            "enough": len(flat) >= count_needed_examples(depth * width, SIGNIFICANCE_LEVEL),
            "rule": (
                "Ranked by the mean divergence. `equal`: cannot be told from the first; `more` and `less`: heads that "
                "surely moved. A difference counts if the sign-flip test over the same inputs gives p < 0.05 after "
                "Holm's correction for all heads or layers."
            ),
        },
    }


def _join_columns(places: list[JsonDict], **columns: list[JsonDict]) -> list[JsonDict]:
    """Return a row for each place, with its figure from each column."""
    rows = zip(*columns.values(), strict=True)
    return [
        {**place, **dict(zip(columns, row, strict=True))}
        for place, row in zip(places, rows, strict=True)
    ]


def _select_place(row: JsonDict) -> JsonDict:
    return {key: row[key] for key in ("layer", "head", "divergence", "decision") if key in row}


def _find_moved_heads(summary: InputStatistics, values: Array) -> JsonDict:
    """Return the heads, as (layer, head), that are surely higher or lower in the second model."""
    inputs, _, _, width = values.shape
    moved = find_moved_columns(summary, *(values[:, side].reshape(inputs, -1) for side in (0, 1)))
    places = {key: [list(divmod(place, width)) for place in moved[key]] for key in ("more", "less")}
    return {**moved, **places}


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


def compare_predictions(
    models: tuple[Explainer, Explainer],
    predictions: Sequence[tuple[Prediction | None, Prediction | None]],
    examples: Sequence[Example],
    summary: InputStatistics,
) -> JsonDict | None:
    """Compare predictions with each other and with true labels; None if neither model predicts."""
    first, second = (model.loaded for model in models)
    if not (first.is_classifier or second.is_classifier):
        return None
    agreement, without = None, None
    if first.labels != second.labels or first.task != second.task:
        headless = [
            f"The {which} model has no classification head, and predicts nothing."
            for which, model in (("first", first), ("second", second))
            if not model.is_classifier
        ]
        without = [*headless, "The models do not have the same labels."][0]
    elif first.task == "regression":
        without = "The models predict a number: agreement is counted of classes."
    else:
        agreement = summary.mean(
            [float(a is not None and b is not None and a.index == b.index) for a, b in predictions]
        )
    right: list[Array | None] = []
    why = None
    for model, own in zip(models, zip(*predictions, strict=True), strict=True):
        try:
            right.append(_compute_correctness(model, own, examples))
        except BadExamples as error:
            right.append(None)
            why = str(error)
    a, b = right
    accuracy = {"a": a, "b": b, "change": None if a is None or b is None else b - a}
    known = {
        name: None if values is None else summary.mean(values) for name, values in accuracy.items()
    }
    unknown = a is None and b is None
    return {
        "agreement": agreement,
        "without_agreement": without,
        "accuracy": None if unknown else known,
        "without_accuracy": why if unknown else None,
    }


def _compute_correctness(
    explainer: Explainer, predictions: Sequence[Prediction | None], examples: Sequence[Example]
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


# The edges that count, by whether those that end on special tokens are included.
EDGE_KINDS = {False: "to words", True: "to words and special tokens"}


def get_model_names(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the two models; a folder is shortened to its last part."""
    first, second = (
        Path(name).name if Path(name).is_absolute() else name
        for name in (data["a"]["name"], data["b"]["name"])
    )
    return first, second


def describe_comparison(data: Mapping[str, Any]) -> str:
    """Describe the findings of a comparison in sentences."""
    used, changed = data["data"]["used"], data["changed"]
    inputs = "1 input" if used == 1 else f"{used} inputs"
    first, second = get_model_names(data)
    if first == second:
        first, second = f"the first {first}", f"the second {second}"
    if all(head["divergence"]["mean"] == 0 for head in data["heads"]):
        return f"{first} and {second} attend alike to the last bit on {inputs}: no head diverges from its twin."

    def format_mean(interval: Mapping[str, Any], unit: str = "") -> str:
        return format_interval(interval, choose_decimals([interval]), used) + unit

    layers, far, head = data["layers"], changed["layers"][0], changed["heads"][0]
    near = min(layers, key=lambda layer: float(layer["divergence"]["mean"]))
    strangers = layers[far["layer"]]["strangers"]
    text = (
        f"Over {inputs}, the attention of {second} is farthest from that of {first} in layer {far['layer']} "
        f"({format_mean(far['divergence'], ' bits')})"
    )
    if len(layers) > 1:
        bits = format_mean(near["divergence"], " bits")
        text += f" and nearest in layer {near['layer']} ({bits})"
    if strangers["n"]:
        bits = format_mean(strangers, " bits")
        text += f"; two different heads of layer {far['layer']} are {bits} apart"
    text += f". The most changed head is {head['layer']}.{head['head']} ({format_mean(head['divergence'], ' bits')})"
    others = changed["equal_heads"] - 1
    if not changed["enough"]:
        verb = "is" if used == 1 else "are"
        text += f"; {inputs} {verb} too few to tell it from any other."
    elif others:
        text += f"; {others} other{'s' * (others > 1)} cannot be told from it."
    else:
        text += ", surely more than any other."

    def format_overlap(facts: Mapping[str, Any], unit: str = "") -> str:
        chance = format_mean(facts["chance"])
        return f"{format_mean(facts['jaccard'])} ({unit}random edges: {chance})"

    overlap, attribution = data["overlap"], data["attribution"]
    other = overlap["other"]
    if overlap["jaccard"]["n"]:
        text += (
            f" Of the edges {EDGE_KINDS[overlap['specials']]} that carry {overlap['coverage']:.0%} of what all such "
            f"edges carry, the models share {format_overlap(overlap, 'Jaccard index; ')}"
        )
        if other["jaccard"]["n"]:
            text += f"; of those {EDGE_KINDS[other['specials']]}, {format_overlap(other)}"
        text += "."
    if attribution is not None and attribution["tau"]["n"]:
        text += (
            f" By {attribution['method']} they rank the words alike with a mean tau-b of "
            f"{format_mean(attribution['tau'])} (random rankings: 0)."
        )
    return text
