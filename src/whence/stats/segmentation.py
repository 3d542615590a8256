"""How well maps over a picture find what people outlined: the counts behind pixel accuracy, IoU and precision.

Maps are (rows, height, width). A mask is (height, width): 1 on the object, 0 on the ground, -1 where nobody said, as
on the blurred border of an outline; such pixels count for nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.stats.retrieval import average_precision

Array = NDArray[np.float64]
Mask = NDArray[np.int8]
OBJECT, GROUND, UNSAID = 1, 0, -1


@dataclass(frozen=True)
class Overlap:
    """How far maps, cut in two, cover object and ground: pixel counts, (rows,) or, ground first, (rows, 2)."""

    correct: Array
    labelled: Array
    shared: Array  # pixels that both the map and the mask give to the ground, to the object
    joined: Array  # pixels that either of them does

    @property
    def accuracy(self) -> Array:
        """The share of pixels that the map puts on the right side."""
        return self.correct / self.labelled

    @property
    def iou(self) -> Array:
        """The mean of intersection over union of ground and object; a side that nobody names does not count."""
        return mean_iou(self.shared, self.joined)


def scaled(maps: ArrayLike) -> Array:
    """Return the maps from 0 to 1, each by its own least and greatest value; one that is the same all over is 0."""
    given = np.asarray(maps, dtype=np.float64)
    low, high = (end(given, axis=(-2, -1), keepdims=True) for end in (np.min, np.max))
    spread = np.where(high > low, high - low, 1.0)
    return np.asarray((given - low) / spread)


def overlap(maps: ArrayLike, mask: Mask) -> Overlap:
    """Cut each map in two at its mean, above it the object, and count against the mask."""
    between = scaled(maps)
    found = between > between.mean((-2, -1), keepdims=True)
    said = mask != UNSAID
    found, truth = found[:, said], (mask == OBJECT)[said]
    sides = [(~found, ~truth), (found, truth)]
    shared = np.stack([(ours & theirs).sum(1) for ours, theirs in sides], 1)
    joined = np.stack([(ours | theirs).sum(1) for ours, theirs in sides], 1)
    return Overlap(
        shared.sum(1).astype(np.float64),
        np.full(len(found), truth.size, dtype=np.float64),
        shared.astype(np.float64),
        joined.astype(np.float64),
    )


def mean_iou(shared: ArrayLike, joined: ArrayLike) -> Array:
    """Return the mean over ground and object, the last axis, of shared by joined pixels, where there are any."""
    both, either = np.asarray(shared, dtype=np.float64), np.asarray(joined, dtype=np.float64)
    there = either > 0
    ratios = np.divide(both, either, out=np.zeros_like(both), where=there)
    return np.asarray(ratios.sum(-1) / np.maximum(there.sum(-1), 1))


def two_sided_precision(maps: ArrayLike, mask: Mask) -> Array:
    """Return the average precision of ground and object thrown together, (rows,).

    Each pixel asks twice: the scaled map says how surely it is the object, one less that how surely the ground.
    """
    said = mask != UNSAID
    sure = scaled(maps)[:, said]
    truth = (mask == OBJECT)[said]
    found = average_precision(
        np.concatenate([~truth, truth]), np.concatenate([1 - sure, sure], axis=1)
    )
    assert found is not None, "every pixel is on one of the sides, so half of the answers are right"
    return found


def pointed(maps: ArrayLike, mask: Mask, tolerance: float = 0.0) -> Array:
    """Return whether the highest pixel of each map lies on the object, or so many pixels off it at most, (rows,).

    Where several are highest, it is the share of them that do. Pixels of which nobody said anything do not count.
    """
    given = np.asarray(maps, dtype=np.float64)
    said = mask != UNSAID
    near = _within(mask == OBJECT, tolerance)[said]
    heights = given[:, said]
    highest = heights == heights.max(1, keepdims=True)
    return np.asarray((highest & near).sum(1) / highest.sum(1))


def _within(inside: NDArray[np.bool_], tolerance: float) -> NDArray[np.bool_]:
    """Return the pixels that are at most so far from one inside, from centre to centre."""
    reach = int(tolerance)
    if not reach:
        return inside
    height, width = inside.shape
    wide = np.pad(inside, reach)
    found = np.zeros_like(inside)
    for down in range(-reach, reach + 1):
        for across in range(-reach, reach + 1):
            if down**2 + across**2 <= tolerance**2:
                top, left = reach + down, reach + across
                found |= wide[top : top + height, left : left + width]
    return found


def share_inside(maps: ArrayLike, inside: ArrayLike) -> Array:
    """Return the share of each map's positive part that lies inside, (rows,); NaN where nothing is positive."""
    positive = np.maximum(np.asarray(maps, dtype=np.float64), 0.0)
    total = positive.sum((-2, -1))
    part = (positive * np.asarray(inside, dtype=bool)).sum((-2, -1))
    shares: Array = np.divide(part, total, out=np.full(total.shape, np.nan), where=total > 0)
    return shares
