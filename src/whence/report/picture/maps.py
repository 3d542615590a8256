"""The maps of one picture, as every surface arranges them: by several methods, for several classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.report.picture.colour import LEVEL, scaled
from whence.report.picture.overlay import overlay
from whence.report.picture.png import Pixels, decoded, resized
from whence.report.text import headline, unit_words, visible
from whence.view.scale import scale_in
from whence.view.shade import target_name

_LONGEST, _SHORTEST = 384, 256  # of a side that is shown: larger pictures shrink, smaller ones grow


@dataclass(frozen=True)
class Map:
    """One method's scores for one class, drawn over the picture."""

    method: str
    target: str
    share: float | None  # the probability that the model gives the class
    signed: bool
    reach: str  # how far the scores go
    pixels: Pixels

    @property
    def title(self) -> str:
        """The class, and how likely the model finds it."""
        return self.target if self.share is None else f"{self.target} ({self.share:.1%})"


def shown(payload: dict[str, Any]) -> Pixels:
    """Return the picture of a payload, large enough to look at."""
    pixels = decoded(payload["picture"]["png"])
    height, width = pixels.shape[:2]
    longest = max(height, width)
    if longest > _LONGEST:
        return resized(
            pixels, *(max(1, round(side * _LONGEST / longest)) for side in (height, width))
        )
    times = max(1, round(_SHORTEST / longest))
    return resized(pixels, height * times, width * times)


def maps(payload: dict[str, Any], picture: Pixels) -> list[Map]:
    """Draw every explanation of a payload over its picture."""
    target = payload["target"]
    share = (
        None
        if target.get("against")
        else payload["prediction"]["probabilities"].get(target["label"])
    )
    return [
        Map(
            visible(one["method"]),
            visible(target_name(target)),
            share,
            one["signed"],
            remark(one),
            overlay(
                picture,
                one["scores"],
                payload["picture"]["grid"],
                signed=one["signed"],
                floor=scale_in(one, "patch")["floor"],
            ),
        )
        for one in payload.get("explanations") or payload["methods"]
    ]


def arranged(payloads: Sequence[dict[str, Any]], picture: Pixels) -> list[list[Map]]:
    """Return rows of maps: a row for each class, or of one method all classes in a row."""
    rows = [maps(payload, picture) for payload in payloads]
    if all(len(row) == 1 for row in rows):
        return [[one for row in rows for one in row]]
    return rows


def predicted(payloads: Sequence[dict[str, Any]]) -> str:
    """Say what was predicted; of several explained classes each map names its own."""
    first = payloads[0]
    if len(payloads) == 1:
        return headline(first)
    return headline({**first, "target": {"index": first["prediction"]["index"]}})


def remark(explanation: dict[str, Any]) -> str:
    """Say how far the scores reach and in which unit, or of a map that shows nothing why that is."""
    scores = np.asarray(explanation["scores"], dtype=np.float64)
    if not scaled(scores, signed=explanation["signed"]).any():
        return LEVEL
    sign = "+" if explanation["signed"] else ""
    scale = scale_in(explanation, "patch")
    said = (
        f"scores from {scores.min():{sign}.3g} to {scores.max():{sign}.3g}{unit_words(explanation)}"
    )
    return f"{said}. {scale['note']}" if scale["note"] else said


def alike(payloads: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Put payloads that follow each other and are of one picture together; a text stays alone."""
    groups: list[list[dict[str, Any]]] = []
    for payload in payloads:
        own = payload.get("picture")
        if own and groups and groups[-1][0].get("picture") == own:
            groups[-1].append(payload)
        else:
            groups.append([payload])
    return groups
