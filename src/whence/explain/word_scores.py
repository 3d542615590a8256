"""Scores of words and of texts from those of tokens, their colour scale, what they promise, and JSON of several methods.

A method states the unit of its scores: the unit of the explained output, the same weighted by attention, shares of a
whole, or none. Full colour is the largest |score| of a word, a patch or a piece, but never less than the floor: 0.02 of
a probability, 0.08 logits (the steepest slope of softmax and sigmoid is 1/4), 2% of a whole. So scores that change next
to nothing are next to white. No colour is 0; for methods without sign it is the smallest score, because otherwise
methods that give every word a share would paint all words alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from whence.methods import ScoreUnit

PAYLOAD_VERSION = 1


def merge_payloads(payloads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the explanations of one input by several methods into one payload."""
    first = payloads[0]
    # Warnings about the input are in every payload, warnings about a method in one: keep each once.
    warnings: list[Any] = []
    for payload in payloads:
        warnings += [warning for warning in payload.get("warnings", ()) if warning not in warnings]
    return {
        **first,
        "explanations": [e for payload in payloads for e in payload["explanations"]],
        **({"warnings": warnings} if warnings else {}),
    }


def wrap_payloads(payloads: Sequence[dict[str, Any]], kind: str = "entities") -> dict[str, Any]:
    """Wrap payloads about several "entities" or "targets" of one input in one object."""
    return {"version": PAYLOAD_VERSION, "kind": kind, kind: list(payloads)}


@dataclass(frozen=True)
class SegmentScore:
    """The scores of one text of an input, summed; special tokens belong to no text and do not count."""

    segment: int
    tokens: int
    total: float  # the sum of its tokens' scores
    positive: float | None  # share of the sum of positive scores; None: no score is positive
    share: float | None  # share of the sum of |scores|; None: all are zero


def sum_by_segment(
    segments: Sequence[int], special: Sequence[bool], scores: Sequence[float]
) -> list[SegmentScore]:
    """Sum scores by segment, in the order of the segments."""
    own: dict[int, list[float]] = {}
    for segment, hidden, score in zip(segments, special, scores, strict=True):
        if not hidden:
            own.setdefault(segment, []).append(float(score))
    positive = sum(max(score, 0.0) for part in own.values() for score in part)
    size = sum(abs(score) for part in own.values() for score in part)
    return [
        SegmentScore(
            segment,
            len(part),
            sum(part),
            sum(max(score, 0.0) for score in part) / positive if positive else None,
            sum(map(abs, part)) / size if size else None,
        )
        for segment, part in sorted(own.items())
    ]


NOT_CONSERVED_CODE = "not-conserved"


# float32 sums are exact to about 1e-7 of the sum of |terms|; smaller differences are rounding.
_ROUNDING_SHARE = 1e-6


def describe_conservation_failure(
    method: str,
    scores: Sequence[float],
    axioms: Mapping[str, float],
    output: float | None,
    of: str,
) -> str | None:
    """Return a warning if scores that should add up to the output are off by more than the output.

    The error is read from the axiom residuals of the explanation. With a residual of the tokens, the promised sum is
    the sum of the scores less the residual. With residuals of layers only, relevance started with 1 at the logit, and
    the error is the smaller of the worst layer's residual and the error of the scores. `output`: the explained value,
    if known.
    """
    total, size = float(sum(scores)), float(sum(abs(score) for score in scores))
    own = [value for name, value in axioms.items() if "." not in name]
    layers = [abs(value) for name, value in axioms.items() if "." in name]
    if own:
        promised = max(abs(total - value) for value in own)
        off = max(map(abs, own))
    elif layers:
        promised = 1.0
        off = min(max(layers), abs(total - (promised if output is None else output)))
    else:
        return None
    if off <= max(promised, abs(output or 0.0), _ROUNDING_SHARE * size):
        return None
    output_text = f"the {of} {output:.3g}" if output is not None else f"a {of}"
    return (
        f"{method}: this is no explanation of {output_text}: its scores add up to {total:.3g}, off by more than all that "
        "they should explain. Take another method, or test its ranking first: trust."
    )


# "sum": scores are shares of a total, and add up. "mean": each score is an effect of its own, such as the fall of a
# probability without a token, and effects do not add up. "measured": the method scored whole words.
WordAggregation = Literal["sum", "mean", "measured"]


def compute_word_score(
    scores: Sequence[float], places: Sequence[int], by: WordAggregation
) -> float:
    """Return a word's score: the sum of its tokens' scores, or their mean if `by` is not "sum"."""
    total = sum(scores[place] for place in places)
    return total if by == "sum" else total / len(places)


# The smallest score of full colour. The steepest slope of softmax and sigmoid is 1/4: a smaller change of a logit moves a
# probability by less than two points. With more than a hundred features a share counts from twice an equal division.
_FLOORS = {"logit": 0.08, "probability": 0.02, "share": 0.02}
_TIMES_EQUAL = 2
# Contributions weighted by even attention in each layer, then summed over layers, shrink by features / layers;
# models have about this many layers.
_TYPICAL_LAYERS = 12
# The floor in words, for scores that are effects themselves.
_FLOOR_MEANINGS = {"logit": ", less than two points of probability", "probability": ", two points"}
NO_UNIT_NOTE = "no unit, colours only compare the {parts} of this input with each other"


class ColourScale(TypedDict):
    """The colour scale of one explanation, as in its JSON object."""

    unit: Literal["logit", "probability", "value", "share", "relative"]
    floor: float | None  # the smallest score of full colour; null: unknown
    start: float  # the score of no colour
    full: float  # the score of full colour
    legend: str  # the scale as a sentence, with the unit
    note: str | None  # states that no score reaches the floor, if so


def compute_colour_scale(
    scores: Sequence[float],
    unit: ScoreUnit,
    *,
    signed: bool = True,
    of: str = "logit",
    is_value: bool = False,
    part: str = "word",
    count: int | None = None,
) -> ColourScale:
    """Return the colour scale of scores; leave out those of special tokens.

    `signed`: whether the method's scores have a sign. `of`: scores of a "logit" or a "probability"; with `is_value`, of
    the value of a regression, for which no floor is known. `part`: the feature that has a score: "word", "patch",
    "piece"; `count`: the number of features, if they have several scores each.
    """
    largest = max(map(abs, scores), default=0.0)
    count = max(1, len(scores) if count is None else count)
    weighted = ", weighted by attention" if unit == "weighted" else ""
    kind: Any = unit
    if unit in ("output", "weighted"):
        kind = "value" if is_value else "probability" if of == "probability" else "logit"
    floor = _FLOORS.get(kind)
    if kind == "share":
        floor = min(_FLOORS[kind], _TIMES_EQUAL / count)
    elif floor is not None and weighted:
        floor *= min(1.0, _TYPICAL_LAYERS / count)
    start = 0.0 if signed else max(0.0, min(scores, default=0.0))
    full = max(largest, start + (floor or 0.0))
    legend, note = f"full colour: {format_amount(full, kind)}{weighted}", None
    if full == start:
        legend = f"no colour: every score is {start:.2g}"
    elif start:
        legend += f", no colour: {format_amount(start, kind, short=True)}"
    if kind == "relative" and full != start:
        parts = f"{part}es" if part.endswith("ch") else f"{part}s"
        legend += f"; {NO_UNIT_NOTE.format(parts=parts)}"
    if floor is not None and largest < floor:
        means = weighted or _FLOOR_MEANINGS.get(kind, "")
        note = f"No {part} reaches {format_amount(floor, kind)}{means}: no single {part} matters by this method."
    return {
        "unit": kind,
        "floor": floor,
        "start": start,
        "full": full,
        "legend": legend,
        "note": note,
    }


def format_amount(score: float, unit: str, *, short: bool = False) -> str:
    """Format a score with its unit; with `short`, without the unit's name."""
    size, percent = f"{score:.2g}", f"{100 * score:.2g}%"
    if short:
        return percent if unit == "share" else size
    named = {
        "logit": f"{size} logits",
        "probability": f"{size} of probability",
        "value": f"{size} in units of the output",
        "share": f"{percent} of the whole",
    }
    return named.get(unit, size)
