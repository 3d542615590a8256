"""Means of what is known, where NaN stands for what is not."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def mean_of_known(values: Array, axis: int = 0) -> Array:
    """Return the means along an axis without the entries that are NaN; NaN where there is no other."""
    known = ~np.isnan(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    mean: Array = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean
