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
        _scaled(explanation["word_scores"], scale["full"]),
        _scaled(explanation["scores"], scale["full"]),
        f"{said}. {scale['note']}" if scale["note"] else said,
    )


def _scaled(scores: Sequence[float], full: float) -> tuple[float, ...]:
    if full == 0:
        return (0.0,) * len(scores)
    return tuple(max(-1.0, min(1.0, score / full)) for score in scores)


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
