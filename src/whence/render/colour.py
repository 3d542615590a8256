"""Colour scales, word shades and image-map colours of scores; scores summed by text; merged JSON of methods.

Scale: an explanation carries the score of full colour, its unit and its legend (`scale`, see explain/word_scores.py);
every surface, the page of the app among them, shows these numbers.

Shades: special tokens are shown but do not set the scale; they often carry scores that would make every
word pale. A signed method gets two colours, blue for the target and orange against it; an unsigned one
gets a single colour. Which it is follows from the method, never from the data. Image maps use brighter
colours, as they stand on a dark image; the unsigned ramp goes from blue over green to yellow and can be
read in grey, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ValueArray = np.ndarray[Any, np.dtype[np.float64]]

IMAGE_POSITIVE = (60, 160, 255)
IMAGE_NEGATIVE = (255, 130, 40)
_UNSIGNED_RAMP = np.array(
    [(52, 60, 140), (30, 130, 150), (60, 190, 120), (170, 225, 70), (255, 236, 80)],
    dtype=np.float64,
)
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


def compute_opacity(values: ValueArray) -> ValueArray:
    """Return the opacity of each scaled value.

    The root keeps small scores visible; the cap of 0.9 keeps the image visible.
    """
    return np.asarray(0.9 * np.abs(values) ** 0.75)


def compute_heatmap(scores: Any, grid: Sequence[int], size: Sequence[int]) -> ValueArray:
    """Interpolate patch scores, given row by row, over an image of `size` (height, width).

    Bilinear between the centres of patches and flat beyond the outermost, as torch's
    `interpolate(mode="bilinear", align_corners=False)`.
    """
    rows, columns = grid
    patches = np.asarray(scores, dtype=np.float64).reshape(rows, columns)
    height, width = size
    return _compute_interpolation(rows, height) @ patches @ _compute_interpolation(columns, width).T


def _compute_interpolation(patches: int, pixels: int) -> ValueArray:
    """Return the interpolation weights of each pixel along one side, by patch."""
    places = (np.arange(pixels) + 0.5) * patches / pixels - 0.5
    centres = np.arange(patches)
    return np.stack([np.interp(places, centres, own) for own in np.eye(patches)], axis=-1)


# Blue and orange differ in every common form of colour blindness.
POSITIVE = (33, 102, 172)
NEGATIVE = (214, 96, 20)

TEXT_SCALE_NOTE = (
    "Full colour is the largest |score| of a word, or where that is next to nothing the least that is not: two "
    "points of probability, 0.08 logits, 2% of a whole. Special tokens are shown and do not set the scale."
)


def compute_shades(explanation: Mapping[str, Any], scores: Sequence[float]) -> list[float]:
    """Return the values in [-1, 1] by which scores of words or tokens are tinted."""
    scale = get_colour_scale(explanation)
    start, full = scale["start"], scale["full"]
    # Scores that are equal up to rounding differ by noise only.
    if full - start <= 1e-9 * full:
        return [0.0] * len(scores)
    least = -1.0 if explanation["signed"] else 0.0
    return [max(least, min(1.0, (score - start) / (full - start))) for score in scores]


def format_target(target: Mapping[str, Any]) -> str:
    """Return the name of a target."""
    if target.get("against"):
        return f"{target['label']} rather than {target['against']['label']}"
    return str(target["label"])


def compute_shade_colour(value: float) -> tuple[int, ...]:
    """Return the background colour of a shade, red, green and blue, mixed with white."""
    # The root keeps small scores visible; the cap keeps black text readable on full colour.
    strength = 0.75 * abs(value) ** 0.7
    return tuple(round(255 + (c - 255) * strength) for c in (POSITIVE if value > 0 else NEGATIVE))


def get_colour_scale(explanation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the colour scale of an explanation; files of older versions get one without unit and floor."""
    scale: Mapping[str, Any] | None = explanation.get("scale")
    if scale is not None:
        return scale
    scores = explanation["word_scores"] or explanation["scores"]
    start = 0.0 if explanation["signed"] else max(0.0, min(scores, default=0.0))
    full = max(map(abs, scores), default=0.0)
    legend = f"full colour: {full:.2g}"
    return {"floor": None, "start": start, "full": full, "legend": legend, "note": None}
