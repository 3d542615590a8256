"""Colour scales, word shades and image-map colours of scores; scores summed by text; merged JSON of methods.

Scale: an explanation carries the score of full colour, its unit and its legend (`scale`); every surface,
the page of the app among them, shows these numbers. A method states the unit of its scores: the unit of
the explained output, the same weighted by attention, shares of a whole, or none. Full colour is the
largest |score| of a word, a patch or a piece, but never less than the floor: 0.02 of a probability, 0.08
logits (the steepest slope of softmax and sigmoid is 1/4), 2% of a whole. So scores that change next to
nothing are next to white. No colour is 0; for methods without sign it is the smallest score, because
otherwise methods that give every word a share would paint all words alike.

Shades: special tokens are shown but do not set the scale; they often carry scores that would make every
word pale. A signed method gets two colours, blue for the target and orange against it; an unsigned one
gets a single colour. Which it is follows from the method, never from the data. Image maps use brighter
colours, as they stand on a dark image; the unsigned ramp goes from blue over green to yellow and can be
read in grey, too.

Also here: word scores from token scores (sum, mean or measured), scores by segment of a text pair, and
the check that scores which should add up to the output do so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np

ValueArray = np.ndarray[Any, np.dtype[np.float64]]

IMAGE_POSITIVE = (60, 160, 255)
IMAGE_NEGATIVE = (255, 130, 40)
_UNSIGNED_RAMP = np.array(
    [(52, 60, 140), (30, 130, 150), (60, 190, 120), (170, 225, 70), (255, 236, 80)],
    dtype=np.float64,
)
_IMAGE_LEGEND_SIGNED = "blue speaks for {target}, orange against it"
_IMAGE_LEGEND_UNSIGNED = "the brighter, the larger the score; this method has no sign: it may count for {target} or against"
IMAGE_SCALE_NOTE = (
    "Full colour is the largest |score| of a patch in its own map, or where that is next to nothing the least that "
    "is not; of a method without sign no colour is the smallest score. Between the centres of patches the map is "
    "interpolated."
)
FLAT_MAP_NOTE = "all patches have the same score: nothing stands out"


def scale_scores(scores: Any, *, signed: bool, floor: float | None = None) -> ValueArray:
    """Scale signed scores to [-1, 1] around zero, or unsigned ones to [0, 1] from their minimum.

    Scores that differ by less than the floor (module docstring) do not get the whole range of colours.
    """
    values = np.asarray(scores, dtype=np.float64)
    low = 0.0 if signed else values.min(initial=np.inf)
    spread = np.abs(values - low).max(initial=0.0)
    # Scores that are equal up to rounding differ by noise only.
    if spread <= 1e-9 * np.abs(values).max(initial=0.0):
        return np.zeros_like(values)
    return np.asarray((values - low) / max(spread, floor or 0.0))


def compute_hues(values: ValueArray, *, signed: bool) -> ValueArray:
    """Return the RGB colour of each scaled value, (..., 3), at full strength."""
    if signed:
        return np.where(
            values[..., None] >= 0, np.array(IMAGE_POSITIVE), np.array(IMAGE_NEGATIVE)
        ).astype(float)
    stops = np.linspace(0, 1, len(_UNSIGNED_RAMP))
    return np.stack(
        [np.interp(values, stops, _UNSIGNED_RAMP[:, channel]) for channel in range(3)], -1
    )


def compute_map_colour(value: float, *, signed: bool) -> tuple[int, int, int]:
    """Return the RGB colour of one scaled value, at full strength."""
    red, green, blue = compute_hues(np.array(value), signed=signed).round().astype(int).tolist()
    return red, green, blue


def compute_opacity(values: ValueArray) -> ValueArray:
    """Return the opacity of each scaled value.

    The root keeps small scores visible; the cap of 0.9 keeps the image visible.
    """
    return np.asarray(0.9 * np.abs(values) ** 0.75)


def format_image_legend(target: Mapping[str, Any], *, signed: bool) -> str:
    """Return the legend of the colours of an image map."""
    return (_IMAGE_LEGEND_SIGNED if signed else _IMAGE_LEGEND_UNSIGNED).format(
        target=format_target(target)
    )


Heatmap = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class PatchScore:
    """A patch and its score; rows and columns count from 1, from the top left."""

    row: int
    column: int
    score: float

    def __str__(self) -> str:
        return f"row {self.row}, column {self.column}"


def select_strongest_patches(
    scores: Sequence[float], grid: Sequence[int], top: int | None
) -> list[PatchScore]:
    """Return the patches with the largest absolute scores; ties go to the first."""
    order = sorted(range(len(scores)), key=lambda place: -abs(scores[place]))[:top]
    width = grid[1]
    return [PatchScore(place // width + 1, place % width + 1, scores[place]) for place in order]


def compute_heatmap(scores: Any, grid: Sequence[int], size: Sequence[int]) -> Heatmap:
    """Interpolate patch scores, given row by row, over an image of `size` (height, width).

    Bilinear between the centres of patches and flat beyond the outermost, as torch's
    `interpolate(mode="bilinear", align_corners=False)`.
    """
    rows, columns = grid
    patches = np.asarray(scores, dtype=np.float64).reshape(rows, columns)
    height, width = size
    return _compute_interpolation(rows, height) @ patches @ _compute_interpolation(columns, width).T


def _compute_interpolation(patches: int, pixels: int) -> Heatmap:
    """Return the interpolation weights of each pixel along one side, by patch."""
    places = (np.arange(pixels) + 0.5) * patches / pixels - 0.5
    places = np.clip(places, 0, patches - 1)
    before = np.minimum(places.astype(int), patches - 1)
    after = np.minimum(before + 1, patches - 1)
    share = places - before
    weights = np.zeros((pixels, patches))
    weights[np.arange(pixels), before] += 1 - share
    weights[np.arange(pixels), after] += share
    return weights


# Blue and orange differ in every common form of colour blindness.
POSITIVE = (33, 102, 172)
NEGATIVE = (214, 96, 20)

LEGEND_SIGNED = "blue speaks for {target}, orange against it"
LEGEND_UNSIGNED = "the stronger, the larger the score; this method has no sign: it may count for {target} or against"
TEXT_SCALE_NOTE = (
    "Full colour is the largest |score| of a word, or where that is next to nothing the least that is not: two "
    "points of probability, 0.08 logits, 2% of a whole. Special tokens are shown and do not set the scale."
)


@dataclass(frozen=True)
class Shades:
    """The values in [-1, 1] by which words and tokens are tinted, with their legend."""

    words: tuple[float, ...]
    tokens: tuple[float, ...]
    legend: str
    colours: str  # the legend without the note
    note: str  # states that no score reaches the floor, if so


def compute_shades(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> Shades:
    """Scale one explanation for display."""
    scale = get_colour_scale(explanation)
    template = LEGEND_SIGNED if explanation["signed"] else LEGEND_UNSIGNED
    legend = f"{template.format(target=format_target(payload['target']))}; {scale['legend']}"
    return Shades(
        _scale_to_shades(
            explanation["word_scores"], scale["start"], scale["full"], explanation["signed"]
        ),
        _scale_to_shades(
            explanation["scores"], scale["start"], scale["full"], explanation["signed"]
        ),
        f"{legend}. {scale['note']}" if scale["note"] else legend,
        legend,
        scale["note"] or "",
    )


def _scale_to_shades(
    scores: Sequence[float], start: float, full: float, signed: bool
) -> tuple[float, ...]:
    # Scores that are equal up to rounding differ by noise only.
    if full - start <= 1e-9 * full:
        return (0.0,) * len(scores)
    least = -1.0 if signed else 0.0
    return tuple(max(least, min(1.0, (score - start) / (full - start))) for score in scores)


def format_target(target: Mapping[str, Any]) -> str:
    """Return the name of a target."""
    if target.get("against"):
        return f"{target['label']} rather than {target['against']['label']}"
    return str(target["label"])


def compute_shade_colour(value: float) -> tuple[int, int, int]:
    """Return the background colour of a shade, mixed with white."""
    red, green, blue = POSITIVE if value > 0 else NEGATIVE
    # The root keeps small scores visible; the cap keeps black text readable on full colour.
    strength = 0.75 * abs(value) ** 0.7
    return (
        round(255 + (red - 255) * strength),
        round(255 + (green - 255) * strength),
        round(255 + (blue - 255) * strength),
    )


# The units of scores that a method can declare.
ScoreUnit = Literal["output", "weighted", "share", "relative"]
SCORE_UNITS: tuple[ScoreUnit, ...] = ("output", "weighted", "share", "relative")

_MIN_PROBABILITY = 0.02  # two percentage points
# The steepest slope of softmax and sigmoid is 1/4: a smaller change of a logit moves a probability by less.
_MIN_LOGIT = 4 * _MIN_PROBABILITY
_MIN_SHARE = 0.02
_MIN_TIMES_EQUAL = (
    2  # with more than a hundred features, the floor is twice the share of an equal division
)
# Contributions weighted by even attention in each layer, then summed over layers, shrink by features / layers;
# models have about this many layers.
_TYPICAL_LAYERS = 12

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
    kind: Any = unit
    if unit in ("output", "weighted"):
        kind = "value" if is_value else "probability" if of == "probability" else "logit"
    count = max(1, len(scores) if count is None else count)
    floor = {
        "logit": _MIN_LOGIT,
        "probability": _MIN_PROBABILITY,
        "share": min(_MIN_SHARE, _MIN_TIMES_EQUAL / count),
    }.get(kind)
    if floor is not None and unit == "weighted":
        floor *= min(1.0, _TYPICAL_LAYERS / count)
    start = 0.0 if signed else max(0.0, min(scores, default=0.0))
    full = max(largest, start + (floor or 0.0))
    weighted = ", weighted by attention" if unit == "weighted" else ""
    return {
        "unit": kind,
        "floor": floor,
        "start": start,
        "full": full,
        "legend": _format_scale_legend(start, full, kind, part, weighted),
        "note": None
        if floor is None or largest >= floor
        else _format_floor_note(floor, kind, part, weighted or _FLOOR_MEANINGS.get(kind, "")),
    }


def get_colour_scale(explanation: Mapping[str, Any], part: str = "word") -> ColourScale:
    """Return the colour scale of an explanation; files of older versions get a scale without unit."""
    value = explanation.get("scale")
    if value is not None:
        scale: ColourScale = value
        return scale
    scores = explanation["word_scores"] or explanation["scores"]
    scale = compute_colour_scale(scores, "relative", signed=explanation["signed"], part=part)
    return {**scale, "legend": f"full colour: {scale['full']:.2g}"}


def format_amount(score: float, unit: str, *, short: bool = False) -> str:
    """Format a score with its unit; with `short`, without the unit's name."""
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


def _format_scale_legend(start: float, full: float, kind: str, part: str, weighted: str) -> str:
    if full == start:
        return f"no colour: every score is {start:.2g}"
    text = f"full colour: {format_amount(full, kind)}{weighted}"
    text += f", no colour: {format_amount(start, kind, short=True)}" if start else ""
    return (
        text if kind != "relative" else f"{text}; {NO_UNIT_NOTE.format(parts=format_plural(part))}"
    )


# The floor in words, for scores that are effects themselves.
_FLOOR_MEANINGS = {"logit": ", less than two points of probability", "probability": ", two points"}


def _format_floor_note(floor: float, kind: str, part: str, means: str) -> str:
    return f"No {part} reaches {format_amount(floor, kind)}{means}: no single {part} matters by this method."


def format_plural(part: str) -> str:
    """Return the plural of the name of a feature: words, patches."""
    return f"{part}es" if part.endswith("ch") else f"{part}s"
