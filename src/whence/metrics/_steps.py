"""Shared parts of metrics: removal steps, pixel maps, checks for masks and rationales, areas.

The 'attcat' counting follows the code of Qiang et al. 2022: shares of all tokens, special ones included,
inputs of fewer than 10 tokens skipped.
"""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.metrics import NO_PROMISE, NOTHING_PROMISED, Outcome, build_outcome
from whence.metrics._requests import Numbers
from whence.metrics._trial import Trial
from whence.render.colour import compute_heatmap
from whence.stats.rationale import RationaleCounts
from whence.stats.segmentation import BACKGROUND, OBJECT


def find_image_obstacle(trial: Trial) -> str | None:
    """Return the reason why explanations of this input are not maps of an image; None if they are."""
    if trial.item.picture is None:
        return "It is measured on the pixels of a picture, and this input is a text."
    return None


def find_mask_obstacle(trial: Trial) -> str | None:
    """Return the reason why no map of this input can be compared with a mask; None if one can."""
    if why := find_image_obstacle(trial):
        return why
    if trial.mask is None:
        return "There is no mask for this picture: nobody outlined what is on it."
    if not (trial.mask == OBJECT).any():
        return "The mask marks nothing of this picture: there is nothing to find."
    if not (trial.mask == BACKGROUND).any():
        return "The mask marks all of this picture: nothing could be wrong."
    return None


def compute_pixel_maps(trial: Trial) -> Numbers:
    """Return each explanation spread over the picture as the model sees it, (explanations, height, width).

    Where a method gives every pixel a score, the map is that.
    """
    picture = trial.item.picture
    assert picture is not None, "asked about before"
    _, height, width = picture.pixels.shape
    fine = trial.fine or (None,) * len(trial.scores)
    return np.stack(
        [
            compute_heatmap(row, picture.grid, (height, width))
            if own is None
            else own.astype(np.float64)
            for row, own in zip(trial.scores, fine, strict=True)
        ]
    )


Counting = Literal["units", "attcat"]
ATTCAT_STEPS = 9
_ATTCAT_MIN_TOKENS = 10  # tokens; the authors' code skips shorter inputs


def build_step_schedule(
    trial: Trial, steps: int, counting: Counting
) -> tuple[NDArray[np.int64], Numbers] | str:
    """Return the number of highest units removed at each step, (explanations, steps), 0 first, and the shares.

    A sentence instead says why there are no steps.

    "units" counts removable units, in even steps to the last. "attcat" follows the authors' code: it
    counts shares of all tokens, special ones too, and then removes that number of non-special tokens, or all; and
    it never reaches the last place of the ranking of all tokens, so that the one there stays unless it is special.
    """
    units, rows = len(trial.units), len(trial.names)
    if counting == "units":
        gone = np.array([0, *build_even_counts(units, steps)])
        return np.tile(gone, (rows, 1)), gone / units
    inside = {place for unit in trial.units for place in unit}
    others = [place for place in range(len(trial.item)) if place not in inside]
    places = units + len(others)
    if places < _ATTCAT_MIN_TOKENS:
        return (
            f"The input has {places} tokens with special ones; the authors of AttCAT skip inputs of fewer than "
            f"{_ATTCAT_MIN_TOKENS}."
        )
    counts = np.unique(np.round(np.linspace(0, 1, steps + 1) * places).astype(np.int64))
    lowest_other = trial.scores[:, others].min(1, initial=np.inf)
    last_stays = trial.values.min(1) < lowest_other
    return np.minimum(counts, units - last_stays[:, None]), counts / places


def find_rationale_obstacle(trial: Trial) -> str | None:
    """Return the reason why no explanation can be compared with a rationale; None if one can."""
    if trial.item.picture is not None:
        return "It compares tokens of a text with a rationale; for pictures with masks there is segmentation."
    if trial.marked is None:
        return "There is no human rationale for this input."
    if not any(trial.marked):
        return "The human rationale marks nothing of this input: there is nothing to find."
    if all(trial.marked):
        return "The human rationale marks all of this input: nothing could be wrong."
    return None


def select_highest_units(trial: Trial, top: float | None) -> NDArray[np.bool_]:
    """Return a mask of the units that each explanation ranks highest, (explanations, units).

    They are a share of `top` of all units, rounded up and at least one, or as many as people marked.
    """
    units = len(trial.units)
    count = (
        sum(trial.marked or ()) if top is None else max(1, count_units(Decimal(str(top)), units))
    )
    highest = np.zeros((len(trial.names), units), dtype=bool)
    np.put_along_axis(highest, trial.orders[:, :count], True, axis=1)
    return highest


def build_f1_outcome(counts: Iterable[RationaleCounts]) -> Outcome:
    """Return the F1 of each explanation, with precision and recall as its parts."""
    values = np.array([(count.f1, count.precision, count.recall) for count in counts])
    return Outcome(values[:, 0], parts={"precision": values[:, 1], "recall": values[:, 2]})


def parse_shares(owner: str, bins: str) -> list[Decimal]:
    """Parse the shares in a metric's `bins`, as exact decimals."""
    try:
        shares = [Decimal(part.strip()) for part in bins.split(",")]
        fits = all(0 <= share <= 1 for share in shares)
    except InvalidOperation:  # not a number, or the Decimal "NaN", which has no order
        fits = False
    if not fits or any(late <= early for early, late in pairwise(shares)):
        raise BadParameter(
            f"The 'bins' parameter of {owner} must be rising shares from 0 to 1, like '0.01,0.05,0.1,0.2,0.5'. "
            f"Got {bins!r}."
        )
    return shares


def count_units(share: Decimal, units: int) -> int:
    """Return the number of units in a share, rounded up; with decimals, 0.1 of 30 is exactly 3."""
    return ceil(share * units)


def build_even_counts(units: int, steps: int) -> list[int]:
    """Return `steps` evenly spaced counts from above 0 to all units; every count if units are few."""
    return sorted({-(-units * step // steps) for step in range(1, steps + 1)})


def compute_area(heights: Numbers, at: Numbers) -> Numbers:
    """Return the area under each row by the trapezoid rule."""
    middles: Numbers = (heights[:, 1:] + heights[:, :-1]) / 2
    return np.asarray(middles @ np.diff(at))


def compute_axiom_errors(trial: Trial, axiom: str, otherwise: float = 0.0) -> Outcome:
    """Return the largest residual of an axiom, and of those of its layers, as a share of what was promised.

    What was promised is the sum of the scores less the residual of the tokens, or `otherwise` where that is not known.
    """
    values = np.full(len(trial.names), np.nan)
    why_not = {}
    for row, (axioms, scores) in enumerate(zip(trial.axioms, trial.scores, strict=True)):
        # The axiom of the tokens is its name alone; those of layers are like "conservation.LAYER".
        missed = [value for name, value in axioms.items() if name.partition(".")[0] == axiom]
        total = otherwise
        if axiom in axioms:
            total = float(scores.sum()) - axioms[axiom]
            # Sums in float32 are good to about 1e-7 of the summed sizes; a total below 1e-6 of them counts as 0.
            total = total if abs(total) > 1e-6 * float(np.abs(scores).sum()) else 0.0
        if missed and total:
            values[row] = max(abs(residual / total) for residual in missed)
        elif missed:
            why_not[row] = NOTHING_PROMISED
    return build_outcome(values, why_not, NO_PROMISE)
