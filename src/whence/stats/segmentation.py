"""Agreement of maps over an image with human outlines: pixel accuracy, IoU, precision, the pointing game.

Maps are (rows, height, width). A mask is (height, width): 1 on the object, 0 on the background, -1 where
unlabelled, as on the blurred border of an outline; such pixels count for nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.stats.rationale import average_precision

Array = NDArray[np.float64]
SegmentationMask = NDArray[np.int8]
OBJECT, BACKGROUND, UNLABELLED = 1, 0, -1


@dataclass(frozen=True)
class SegmentationOverlap:
    """Pixel counts of maps cut at their mean against a mask: (rows,), or (rows, 2), background first."""

    correct: Array
    labelled: Array
    shared: Array  # intersection of map and mask, for the background and the object
    joined: Array  # union of map and mask, for the background and the object

    @property
    def accuracy(self) -> Array:
        """The share of labelled pixels on which map and mask agree."""
        return self.correct / self.labelled

    @property
    def iou(self) -> Array:
        """The mean intersection over union of background and object; a side with empty union is left out."""
        return mean_iou(self.shared, self.joined)


def scale_to_unit(maps: ArrayLike) -> Array:
    """Scale each map to 0 to 1 by its own minimum and maximum; a constant map becomes 0."""
    values = np.asarray(maps, dtype=np.float64)
    low, high = (end(values, axis=(-2, -1), keepdims=True) for end in (np.min, np.max))
    spread = np.where(high > low, high - low, 1.0)
    return np.asarray((values - low) / spread)


def count_overlap(maps: ArrayLike, mask: SegmentationMask) -> SegmentationOverlap:
    """Cut each map at its mean, with the object above it, and count pixels against the mask."""
    between = scale_to_unit(maps)
    predicted = between > between.mean((-2, -1), keepdims=True)
    labelled = mask != UNLABELLED
    predicted, truth = predicted[:, labelled], (mask == OBJECT)[labelled]
    sides = [(~predicted, ~truth), (predicted, truth)]
    shared = np.stack([(ours & theirs).sum(1) for ours, theirs in sides], 1)
    joined = np.stack([(ours | theirs).sum(1) for ours, theirs in sides], 1)
    return SegmentationOverlap(
        shared.sum(1).astype(np.float64),
        np.full(len(predicted), truth.size, dtype=np.float64),
        shared.astype(np.float64),
        joined.astype(np.float64),
    )


def mean_iou(shared: ArrayLike, joined: ArrayLike) -> Array:
    """Return the mean IoU over background and object, the last axis, without empty unions."""
    both, either = np.asarray(shared, dtype=np.float64), np.asarray(joined, dtype=np.float64)
    there = either > 0
    ratios = np.divide(both, either, out=np.zeros_like(both), where=there)
    return np.asarray(ratios.sum(-1) / np.maximum(there.sum(-1), 1))


def two_sided_precision(maps: ArrayLike, mask: SegmentationMask) -> Array:
    """Return the average precision of background and object pooled, (rows,).

    Each pixel counts twice: with the scaled map as its score for the object, and with 1 minus that as
    its score for the background.
    """
    labelled = mask != UNLABELLED
    sure = scale_to_unit(maps)[:, labelled]
    truth = (mask == OBJECT)[labelled]
    ap = average_precision(
        np.concatenate([~truth, truth]), np.concatenate([1 - sure, sure], axis=1)
    )
    assert ap is not None, "every pixel is on one of the sides, so half of the answers are right"
    return ap


def compute_pointing_hits(maps: ArrayLike, mask: SegmentationMask, tolerance: float = 0.0) -> Array:
    """Return whether each map's highest pixel is within `tolerance` pixels of the object, (rows,).

    If several are highest, it is the share of them that are. Unlabelled pixels do not count.
    """
    values = np.asarray(maps, dtype=np.float64)
    labelled = mask != UNLABELLED
    near = _dilate(mask == OBJECT, tolerance)[labelled]
    heights = values[:, labelled]
    highest = heights == heights.max(1, keepdims=True)
    return np.asarray((highest & near).sum(1) / highest.sum(1))


def _dilate(inside: NDArray[np.bool_], tolerance: float) -> NDArray[np.bool_]:
    """Return the pixels within `tolerance` of a pixel inside, from centre to centre."""
    from scipy.ndimage import binary_dilation

    reach = int(tolerance)
    down, across = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    near: NDArray[np.bool_] = binary_dilation(inside, down**2 + across**2 <= tolerance**2)
    return near


def share_inside(maps: ArrayLike, inside: ArrayLike) -> Array:
    """Return the share of each map's positive part that is inside, (rows,); NaN if none is positive."""
    positive = np.maximum(np.asarray(maps, dtype=np.float64), 0.0)
    total = positive.sum((-2, -1))
    part = (positive * np.asarray(inside, dtype=bool)).sum((-2, -1))
    shares: Array = np.divide(part, total, out=np.full(total.shape, np.nan), where=total > 0)
    return shares
