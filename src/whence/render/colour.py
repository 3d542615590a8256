"""The scale of the colours: at which score they are full, in which unit, and which scores are next to nothing.

The one place that decides it: explanations carry the result (`scale`), and every surface, the page of the app among
them, shows these numbers and sentences. A method states the unit of its scores: that of the output that is explained,
the same weighted by attention, parts of a whole, or none that means anything beyond one input. Full colour is the
largest |score| of a word, a patch or a piece, but never less than the floor, so that scores which change next to
nothing are next to white. No colour is 0; of methods without sign it is the smallest score, because from 0 those that
give every word its part would paint all of them alike, and full colour is at least the floor away from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

# What a method states of its scores.
Unit = Literal["output", "weighted", "share", "relative"]
UNITS: tuple[Unit, ...] = ("output", "weighted", "share", "relative")

_POINTS = 0.02  # of a probability: two points
# The steepest slope of softmax and of sigmoid is 1/4: a logit that changes by less moves no probability so far.
_LOGITS = 4 * _POINTS
_SHARE = 0.02
_TIMES_EQUAL = (
    2  # of more than a hundred parts, twice what each would get by equal division is enough
)
# A contribution that is weighted by attention in each layer and summed over the layers is smaller than it was by the
# number of parts over that of layers, where attention is even; models have about so many layers.
_LAYERS = 12

NO_UNIT = "no unit, colours only compare the {parts} of this input with each other"


class Scale(TypedDict):
    """What the colours of one explanation mean, as its JSON object has it."""

    unit: Literal["logit", "probability", "value", "share", "relative"]
    floor: float | None  # the least score of full colour; null: none is known
    start: float  # the score of no colour
    full: float  # the score of full colour
    legend: str  # the same in words, with the unit
    note: str | None  # says that no score reaches the floor, where that is so


def scale_of(
    scores: Sequence[float],
    unit: Unit,
    *,
    signed: bool = True,
    of: str = "logit",
    is_value: bool = False,
    part: str = "word",
    count: int | None = None,
) -> Scale:
    """Return the scale of scores; special tokens are to be left out. Those without a sign are `signed=False`.

    `of`: whether they are scores of a "logit" or a "probability"; with `is_value` of a regression's value, of which
    nobody knows how much is much. `part`: what has a score, in words: "word", "patch", "piece"; `count`: how many of
    them there are, where they have several scores each.
    """
    largest = max(map(abs, scores), default=0.0)
    kind: Any = unit
    if unit in ("output", "weighted"):
        kind = "value" if is_value else "probability" if of == "probability" else "logit"
    count = max(1, len(scores) if count is None else count)
    floor = {
        "logit": _LOGITS,
        "probability": _POINTS,
        "share": min(_SHARE, _TIMES_EQUAL / count),
    }.get(kind)
    if floor is not None and unit == "weighted":
        floor *= min(1.0, _LAYERS / count)
    start = 0.0 if signed else max(0.0, min(scores, default=0.0))
    full = max(largest, start + (floor or 0.0))
    weighted = ", weighted by attention" if unit == "weighted" else ""
    return {
        "unit": kind,
        "floor": floor,
        "start": start,
        "full": full,
        "legend": _legend(start, full, kind, part, weighted),
        "note": None
        if floor is None or largest >= floor
        else _note(floor, kind, part, weighted or _MEANING.get(kind, "")),
    }


def scale_in(explanation: Mapping[str, Any], part: str = "word") -> Scale:
    """Return the scale that an explanation carries; one of an older file gets one without a unit."""
    found = explanation.get("scale")
    if found is not None:
        scale: Scale = found
        return scale
    scores = explanation["word_scores"] or explanation["scores"]
    scale = scale_of(scores, "relative", signed=explanation["signed"], part=part)
    return {**scale, "legend": f"full colour: {scale['full']:.2g}"}


def amount(score: float, unit: str, *, short: bool = False) -> str:
    """Write a score's size with its unit, or of a share `short` without saying of what."""
    size = f"{score:.2g}"
    if unit == "share" and short:
        return f"{100 * score:.2g}%"
    return (
        size
        if short
        else {
            "logit": f"{size} logits",
            "probability": f"{size} of probability",
            "value": f"{size} in units of the output",
            "share": f"{100 * score:.2g}% of the whole",
        }.get(unit, size)
    )


def _legend(start: float, full: float, kind: str, part: str, weighted: str) -> str:
    if full == start:
        return f"no colour: every score is {start:.2g}"
    said = f"full colour: {amount(full, kind)}{weighted}"
    said += f", no colour: {amount(start, kind, short=True)}" if start else ""
    return said if kind != "relative" else f"{said}; {NO_UNIT.format(parts=several(part))}"


# What a floor comes to, where scores are the effects themselves.
_MEANING = {"logit": ", less than two points of probability", "probability": ", two points"}


def _note(floor: float, kind: str, part: str, means: str) -> str:
    return (
        f"No {part} reaches {amount(floor, kind)}{means}: no single {part} matters by this method."
    )


def several(part: str) -> str:
    """Name more than one part."""
    return f"{part}es" if part.endswith("ch") else f"{part}s"
