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
