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


"""The colours of a map over a picture.

A signed method gets two colours around nothing: blue speaks for the target, orange against it, as in texts, but
brighter, for they stand on a dark picture. An unsigned one gets a single ramp that brightens from blue over green to
yellow. Both can be read with every common form of colour blindness, the ramp also in grey.
"""

from typing import Any

import numpy as np

from whence.view.shade import target_name

Values = np.ndarray[Any, np.dtype[np.float64]]

FOR = (60, 160, 255)
AGAINST = (255, 130, 40)
_RAMP = np.array(
    [(52, 60, 140), (30, 130, 150), (60, 190, 120), (170, 225, 70), (255, 236, 80)],
    dtype=np.float64,
)
_SIGNED = "blue speaks for {target}, orange against it"
_UNSIGNED = "the brighter, the larger the score; this method has no sign: it may count for {target} or against"
SCALE = (
    "Full colour is the largest |score| of a patch in its own map, or where that is next to nothing the least that "
    "is not; of a method without sign no colour is the smallest score. Between the centres of patches the map is "
    "interpolated."
)
LEVEL = "all patches have the same score: nothing stands out"


def scaled(scores: Any, *, signed: bool, floor: float | None = None) -> Values:
    """Bring scores into [-1, 1] around zero, or, without sign, into [0, 1] from the smallest to the largest.

    What lies apart by less than the floor (whence.view.scale) does not get the whole range of colours.
    """
    values = np.asarray(scores, dtype=np.float64)
    low = 0.0 if signed else values.min(initial=np.inf)
    spread = np.abs(values - low).max(initial=0.0)
    # Where all scores are the same to rounding, what is left of them is noise.
    if spread <= 1e-9 * np.abs(values).max(initial=0.0):
        return np.zeros_like(values)
    return np.asarray((values - low) / max(spread, floor or 0.0))


def hues(values: Values, *, signed: bool) -> Values:
    """Return the colour of each scaled value, (..., 3), at full strength."""
    if signed:
        return np.where(values[..., None] >= 0, np.array(FOR), np.array(AGAINST)).astype(float)
    stops = np.linspace(0, 1, len(_RAMP))
    return np.stack([np.interp(values, stops, _RAMP[:, channel]) for channel in range(3)], -1)


def colour_of(value: float, *, signed: bool) -> tuple[int, int, int]:
    """Return the colour of one scaled value, at full strength."""
    red, green, blue = hues(np.array(value), signed=signed).round().astype(int).tolist()
    return red, green, blue


def strengths(values: Values) -> Values:
    """Return how opaque each scaled value is; the root keeps small scores visible, the cap the picture beneath."""
    return np.asarray(0.9 * np.abs(values) ** 0.75)


def legend(target: dict[str, Any], *, signed: bool) -> str:
    """Say what the colours of a map mean."""
    return (_SIGNED if signed else _UNSIGNED).format(target=target_name(target))


"""What any surface may know: one payload, and how scores become shades."""

from whence.view.payload import VERSION, listed, merge
from whence.view.shade import Shades, shades

__all__ = ["VERSION", "Shades", "listed", "merge", "shades"]


"""Whether scores that should add up to what is explained are off by more than that: then they explain nothing."""

from collections.abc import Mapping, Sequence

CODE = "not-conserved"
# Sums in float32 are good to about 1e-7 of the sizes of what is added: what is less than some of that is rounding.
_ROUNDING = 1e-6


def unconserved(
    method: str,
    scores: Sequence[float],
    axioms: Mapping[str, float],
    output: float | None,
    of: str,
) -> str | None:
    """Say that an explanation is none, where its method promises sums and they are off by more than the output.

    Whether the promise is kept, the residuals say that the explanation came with. Where there is one of the tokens,
    the sum of their scores less that is what they were given. Where there are those of layers alone, relevance began
    with 1 at the logit: it is off where a layer's is, and the scores are, too. `output`: what is explained, if known.
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
    if off <= max(promised, abs(output or 0.0), _ROUNDING * size):
        return None
    given = f"the {of} {output:.3g}" if output is not None else f"a {of}"
    return (
        f"{method}: this is no explanation of {given}: its scores add up to {total:.3g}, off by more than all that "
        "they should explain. Take another method, or test its ranking first: trust."
    )


"""The scores of a picture's patches: the strongest of them, and a map over the picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Map = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch with its score; rows and columns count from 1, from the top left."""

    row: int
    column: int
    score: float

    def __str__(self) -> str:
        return f"row {self.row}, column {self.column}"


def strongest(scores: Sequence[float], grid: Sequence[int], top: int) -> list[Patch]:
    """Return the patches that count most, by the size of their scores; of equals the first."""
    order = sorted(range(len(scores)), key=lambda place: -abs(scores[place]))[:top]
    width = grid[1]
    return [Patch(place // width + 1, place % width + 1, scores[place]) for place in order]


def heatmap(scores: Any, grid: Sequence[int], size: Sequence[int]) -> Map:
    """Spread the scores of patches, row by row, over a picture of `size` (height, width).

    Between the centres of patches it is bilinear, beyond the outermost flat: what torch's
    `interpolate(mode="bilinear", align_corners=False)` does.
    """
    rows, columns = grid
    patches = np.asarray(scores, dtype=np.float64).reshape(rows, columns)
    height, width = size
    return _between(rows, height) @ patches @ _between(columns, width).T


def _between(patches: int, pixels: int) -> Map:
    """Return how much each pixel along one side takes from each patch."""
    places = (np.arange(pixels) + 0.5) * patches / pixels - 0.5
    places = np.clip(places, 0, patches - 1)
    before = np.minimum(places.astype(int), patches - 1)
    after = np.minimum(before + 1, patches - 1)
    share = places - before
    weights = np.zeros((pixels, patches))
    weights[np.arange(pixels), before] += 1 - share
    weights[np.arange(pixels), after] += share
    return weights


"""The payload: one JSON object per input, the same on the command line, on a page and in a file."""

from collections.abc import Sequence
from typing import Any

VERSION = 1


def merge(payloads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the explanations of one input by several methods into one payload."""
    first = payloads[0]
    # What must be known of the input is said with each of them, and what of a method with that one alone.
    said: list[Any] = []
    for payload in payloads:
        said += [one for one in payload.get("warnings", ()) if one not in said]
    return {
        **first,
        "explanations": [e for payload in payloads for e in payload["explanations"]],
        **({"warnings": said} if said else {}),
    }


def listed(payloads: Sequence[dict[str, Any]], kind: str = "entities") -> dict[str, Any]:
    """Join what was explained about several "entities", or for several "targets", of one input into one object."""
    return {"version": VERSION, "kind": kind, kind: list(payloads)}


"""The two texts of a pair side by side: how much of an explanation falls on each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SegmentScore:
    """What one text of an input has of the scores; special tokens, which belong to none, do not count."""

    segment: int
    tokens: int
    total: float  # the sum of its tokens' scores
    positive: float | None  # its part of all that speaks for the target; None: nothing does
    share: float | None  # its part of all scores by their size; None: all are zero


def by_segment(
    segments: Sequence[int], special: Sequence[bool], scores: Sequence[float]
) -> list[SegmentScore]:
    """Add up scores by segment, in the order of the segments."""
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


def of_payload(payload: dict[str, Any], explanation: dict[str, Any]) -> list[SegmentScore]:
    """Add up the scores of one explanation of a payload; of a single text, nothing."""
    tokens = payload["tokens"]
    found = by_segment(
        [token["segment"] for token in tokens],
        [token["special"] for token in tokens],
        explanation["scores"],
    )
    return found if len(found) > 1 else []


"""From scores to shades: the one place that decides what is scaled, hidden and coloured, and says so.

Special tokens are shown but do not set the scale: they often carry scores that would make every word pale.
At which score colours are full is in the explanation's scale (whence.view.scale). A signed method gets two
colours, an unsigned one a single colour; which it is follows from the method, never from the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whence.view.scale import scale_in

# Blue and orange can be told apart with every common form of colour blindness.
POSITIVE = (33, 102, 172)
NEGATIVE = (214, 96, 20)

LEGEND_SIGNED = "blue speaks for {target}, orange against it"
LEGEND_UNSIGNED = "the stronger, the larger the score; this method has no sign: it may count for {target} or against"
SCALE = (
    "Full colour is the largest |score| of a word, or where that is next to nothing the least that is not: two "
    "points of probability, 0.08 logits, 2% of a whole. Special tokens are shown and do not set the scale."
)


@dataclass(frozen=True)
class Shades:
    """Values in [-1, 1] for words and tokens, and what they mean."""

    words: tuple[float, ...]
    tokens: tuple[float, ...]
    legend: str


def shades(payload: dict[str, Any], explanation: dict[str, Any]) -> Shades:
    """Scale one explanation for display."""
    scale = scale_in(explanation)
    template = LEGEND_SIGNED if explanation["signed"] else LEGEND_UNSIGNED
    said = f"{template.format(target=target_name(payload['target']))}; {scale['legend']}"
    return Shades(
        _scaled(explanation["word_scores"], scale["start"], scale["full"], explanation["signed"]),
        _scaled(explanation["scores"], scale["start"], scale["full"], explanation["signed"]),
        f"{said}. {scale['note']}" if scale["note"] else said,
    )


def _scaled(scores: Sequence[float], start: float, full: float, signed: bool) -> tuple[float, ...]:
    # Where all scores are the same to rounding, what is left of them is noise.
    if full - start <= 1e-9 * full:
        return (0.0,) * len(scores)
    least = -1.0 if signed else 0.0
    return tuple(max(least, min(1.0, (score - start) / (full - start))) for score in scores)


def target_name(target: dict[str, Any]) -> str:
    """Name a target in words."""
    if target.get("against"):
        return f"{target['label']} rather than {target['against']['label']}"
    return str(target["label"])


def colour(value: float) -> tuple[int, int, int]:
    """Return the background colour of a shade, mixed with white."""
    red, green, blue = POSITIVE if value > 0 else NEGATIVE
    # The root keeps small scores visible; the cap keeps black text readable on full colour.
    strength = 0.75 * abs(value) ** 0.7
    return (
        round(255 + (red - 255) * strength),
        round(255 + (green - 255) * strength),
        round(255 + (blue - 255) * strength),
    )


"""The score of a word: the sum of its tokens' scores, their mean, or a number that was measured on the whole word."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

# "sum": scores are shares of something, and add up. "mean": each is an effect of its own, such as the fall of a
# probability without a token, and such effects do not add up. "measured": the method was asked about whole words.
WordsBy = Literal["sum", "mean", "measured"]

_SAID: dict[WordsBy, str] = {
    "sum": "",
    "mean": "the score of a word in several pieces is the mean of theirs, not what happens without the word",
    "measured": "the score of a word in several pieces was measured without the whole word; it is not their sum",
}


def word_score(scores: Sequence[float], places: Sequence[int], by: WordsBy) -> float:
    """Return a word's score from those of its tokens; what was not measured on whole words is a mean of effects."""
    total = sum(scores[place] for place in places)
    return total if by == "sum" else total / len(places)


def words_note(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Say what the score of a word is where it is no sum, and there are words in several pieces."""
    by: WordsBy = explanation.get("words_by", "sum")
    return _SAID[by] if any(len(word["tokens"]) > 1 for word in payload["words"]) else ""
