"""Explanations of a picture as maps over its pixels, and the picture with pixels taken away in their order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.data.vision.picture import Fill
from whence.stats.segmentation import GROUND, OBJECT
from whence.trial.removed import Numbers
from whence.trial.trial import Trial
from whence.view.heat import heatmap

TENTHS = range(1, 10)  # how much of the picture is taken away, as in the authors' code


def no_picture(trial: Trial) -> str | None:
    """Say why explanations of this input are no maps of a picture, if so."""
    if trial.item.picture is None:
        return "It is measured on the pixels of a picture, and this input is a text."
    return None


def unoutlined(trial: Trial) -> str | None:
    """Say why no map of this input can be compared with an outline, if so."""
    if why := no_picture(trial):
        return why
    if trial.mask is None:
        return "There is no mask for this picture: nobody outlined what is on it."
    if not (trial.mask == OBJECT).any():
        return "The mask marks nothing of this picture: there is nothing to find."
    if not (trial.mask == GROUND).any():
        return "The mask marks all of this picture: nothing could be wrong."
    return None


def maps(trial: Trial) -> Numbers:
    """Return each explanation spread over the picture as the model sees it, (explanations, height, width).

    Methods that give every pixel a score are taken at their word.
    """
    picture = trial.item.picture
    assert picture is not None, "asked about before"
    _, height, width = picture.pixels.shape
    fine = trial.fine or (None,) * len(trial.scores)
    return np.stack(
        [
            heatmap(row, picture.grid, (height, width)) if own is None else own.astype(np.float64)
            for row, own in zip(trial.scores, fine, strict=True)
        ]
    )


def perturbed(trial: Trial, fill: Fill, *, lowest: bool) -> Numbers:
    """Return what every label gets with more and more pixels gone, (explanations, steps, labels); none at first.

    The highest pixels of the map go first, or the lowest. An explanation that ranks nothing has NaN.
    """
    ranks = np.flatnonzero(~trial.flat)
    labels = len(trial.removed.whole)
    found = np.full((len(trial.names), 1 + len(TENTHS), labels), np.nan)
    if len(ranks):
        asked = trial.removed.covered(trial.item, _covers(trial, ranks.tolist(), lowest), fill)
        found[ranks, 1:] = asked.reshape(len(ranks), len(TENTHS), labels)
        found[ranks, 0] = trial.removed.whole
    return found


def _covers(
    trial: Trial, rows: Sequence[int], lowest: bool
) -> Iterator[np.ndarray[Any, np.dtype[np.bool_]]]:
    """Yield, for each explanation and each tenth, the pixels that are gone, (height, width).

    Equal pixels go in an order that is drawn, the same for every explanation.
    """
    every = maps(trial)
    size = every.shape[1:]
    pixels = size[0] * size[1]
    drawn = generator("pixels", trial.seed, trial.item.key).permutation(pixels)
    for row in rows:
        heights = every[row].reshape(-1)[drawn]
        order = drawn[np.argsort(heights if lowest else -heights, kind="stable")]
        for tenth in TENTHS:
            gone = np.zeros(pixels, dtype=bool)
            gone[order[: pixels * tenth // 10]] = True
            yield gone.reshape(size)


"""How a model fares as a picture's pixels go, in the order of an explanation (Chefer, Gur & Wolf 2021)."""

from typing import Literal

import numpy as np

from whence.data.vision.picture import Fill
from whence.trial.pixels import TENTHS, no_picture, perturbed
from whence.trial.removed import Numbers
from whence.trial.trial import Trial

Of = Literal["accuracy", "probability"]
AT = np.array([0, *TENTHS]) / 10  # the shares of the picture that are gone


def unperturbable(trial: Trial, of: Of) -> str | None:
    """Say why this cannot be measured on an input, if so."""
    if why := no_picture(trial):
        return why
    if of == "probability":
        return None
    if trial.task != "single_label":
        return "Accuracy is that of a single label. Measure of=probability instead."
    if trial.truth is None:
        return "The picture has no label, so nothing can be right or wrong. Give labels, or measure of=probability."
    return None


def curves(trial: Trial, of: Of, fill: Fill, *, lowest: bool) -> Numbers:
    """Return whether the model is right, or the target's probability, at each share, (explanations, shares)."""
    shares = perturbed(trial, fill, lowest=lowest)
    rows, steps, labels = shares.shape
    if of == "probability":
        flat = shares.reshape(rows * steps, labels)
        return trial.removed.explained(flat).reshape(rows, steps)
    right = (shares.argmax(2) == trial.truth).astype(np.float64)
    return np.asarray(np.where(trial.flat[:, None], np.nan, right))


"""How many tokens go at each step of AOPC and log-odds: soundly, or as the authors of AttCAT count."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whence.trial.removed import Numbers
from whence.trial.steps import evenly
from whence.trial.trial import Trial

Counting = Literal["units", "attcat"]
ATTCAT_STEPS = 9
_ATTCAT_LEAST = 10  # tokens: they skip shorter inputs


@dataclass(frozen=True)
class Plan:
    """How many of the highest units are gone at each step, for each explanation; nothing at the first."""

    gone: np.ndarray[Any, np.dtype[np.int64]]  # (explanations, steps)
    at: Numbers  # the shares


def counted(trial: Trial, steps: int, counting: Counting) -> Plan | str:
    """Return the steps, or why there are none.

    "units" counts what can be removed, in even steps and to the last. "attcat" does what the authors' code does: it
    counts shares of all tokens, special ones too, and then removes so many of those that are not special, or all; and
    it never reaches the last place of the ranking of all tokens, so that the one there stays unless it is special.
    """
    units, rows = len(trial.units), len(trial.names)
    if counting == "units":
        gone = np.array([0, *evenly(units, steps)])
        return Plan(np.tile(gone, (rows, 1)), gone / units)
    inside = {place for unit in trial.units for place in unit}
    others = [place for place in range(len(trial.item)) if place not in inside]
    places = units + len(others)
    if places < _ATTCAT_LEAST:
        return (
            f"The input has {places} tokens with special ones; the authors of AttCAT skip inputs of fewer than "
            f"{_ATTCAT_LEAST}."
        )
    counts = np.unique(np.round(np.linspace(0, 1, steps + 1) * places).astype(np.int64))
    lowest_other = trial.scores[:, others].min(1, initial=np.inf)
    last_stays = trial.values.min(1) < lowest_other
    return Plan(np.minimum(counts, units - last_stays[:, None]), counts / places)


"""What people marked, and what an explanation would have marked in their place."""

from decimal import Decimal
from typing import Any

import numpy as np

from whence.trial.steps import count_of
from whence.trial.trial import Trial


def unmarked(trial: Trial) -> str | None:
    """Say why no explanation of this input can be compared with what people marked, if so."""
    if trial.item.picture is not None:
        return "It compares tokens of a text with a rationale; for pictures with masks there is segmentation."
    if trial.marked is None:
        return "There is no human rationale for this input."
    if not any(trial.marked):
        return "The human rationale marks nothing of this input: there is nothing to find."
    if all(trial.marked):
        return "The human rationale marks all of this input: nothing could be wrong."
    return None


def chosen(trial: Trial, top: float | None) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which units each explanation puts highest, (explanations, units).

    They are a share of `top` of all units, rounded up and at least one, or as many as people marked.
    """
    units = len(trial.units)
    count = sum(trial.marked or ()) if top is None else max(1, count_of(Decimal(str(top)), units))
    found = np.zeros((len(trial.names), units), dtype=bool)
    np.put_along_axis(found, trial.orders[:, :count], True, axis=1)
    return found


"""Going through a ranking in steps: how many units go at each, and what the model says then."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np

from whence.core.errors import BadParameter
from whence.trial.removed import Numbers
from whence.trial.trial import Trial

Counts = Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]


def shares_in(owner: str, bins: str) -> list[Decimal]:
    """Read the shares that the `bins` of a metric name, exactly as they are written."""
    try:
        shares = [Decimal(part.strip()) for part in bins.split(",")]
        fits = all(0 <= share <= 1 for share in shares)
    except InvalidOperation:  # not a number, which Decimal can also be called
        fits = False
    if not fits or any(late <= early for early, late in pairwise(shares)):
        raise BadParameter(
            f"The 'bins' parameter of {owner} must be rising shares from 0 to 1, like '0.01,0.05,0.1,0.2,0.5'. "
            f"Got {bins!r}."
        )
    return shares


def count_of(share: Decimal, units: int) -> int:
    """Return how many units a share of them is, rounded up. As decimals, 0.1 of 30 are 3 and no hair more."""
    return ceil(share * units)


def evenly(units: int, steps: int) -> list[int]:
    """Return so many counts, spread from above 0 to all units, rounded up; where units are few, every count."""
    return sorted({-(-units * step // steps) for step in range(1, steps + 1)})


def most(trial: Trial) -> int:
    """Return how many units can be gone at once: all, unless deleting them would leave nothing of the input."""
    nothing_else = sum(map(len, trial.units)) == len(trial.item)
    return len(trial.units) - (trial.removed.how == "delete" and nothing_else)


def without_highest(trial: Trial, counts: Counts) -> Numbers:
    """Return the target's probability with so many of the highest units removed, (explanations, counts).

    `counts` are the same for all explanations, or a row for each; more than can be gone count as that many. An
    explanation that ranks nothing has NaN.
    """
    return _probability(trial, counts, [order.tolist() for order in trial.orders])


def without_lowest(trial: Trial, counts: Counts) -> Numbers:
    """Return the target's probability with so many of the lowest units removed, (explanations, counts)."""
    return _probability(trial, counts, [order[::-1].tolist() for order in trial.orders])


def area(heights: Numbers, at: Numbers) -> Numbers:
    """Return the area under each row by the trapezoid rule."""
    middles: Numbers = (heights[:, 1:] + heights[:, :-1]) / 2
    return np.asarray(middles @ np.diff(at))


def _probability(trial: Trial, counts: Counts, orders: list[list[int]]) -> Numbers:
    each = np.broadcast_to(np.minimum(counts, most(trial)), (len(orders), np.shape(counts)[-1]))
    ranks = np.flatnonzero(~trial.flat)
    holes = [orders[row][:count] for row in ranks for count in each[row]]
    found = np.full(each.shape, np.nan)
    found[ranks] = trial.removed.probability(holes).reshape(len(ranks), each.shape[1])
    return found
