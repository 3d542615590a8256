"""ERASER's figures for what a model says with part of its input: averages over bins, entropy, divergence."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Averaging = Literal["code", "paper"]


def over_bins(falls: ArrayLike, averaging: Averaging = "code") -> Array:
    """Return the mean over the bins, the last axis, of the falls of a probability.

    The authors' code divides their sum by the number of bins; their paper also counts the empty bin, whose fall is 0,
    and divides by one more.
    """
    given = np.asarray(falls, dtype=np.float64)
    bins = given.shape[-1] + (averaging == "paper")
    return np.asarray(given.sum(-1) / bins)


def entropy(shares: ArrayLike) -> Array:
    """Return the entropy in nats of each row of shares, scaled to add up to 1."""
    p = _shares(shares)
    return np.asarray(-_times_log(p, p).sum(-1))


def kl(shares: ArrayLike, reference: ArrayLike) -> Array:
    """Return the Kullback-Leibler divergence in nats of shares from a reference, both scaled to add up to 1.

    It is infinite where something has a share of which the reference has none.
    """
    p, q = _shares(shares), _shares(reference)
    return np.asarray((_times_log(p, p) - _times_log(p, q)).sum(-1))


def _shares(given: ArrayLike) -> Array:
    given = np.asarray(given, dtype=np.float64)
    return np.asarray(given / given.sum(-1, keepdims=True))


def _times_log(p: Array, q: Array) -> Array:
    """Return p log q, which is 0 where p is 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(q)
    return np.asarray(p * np.where(p > 0, logs, 0.0))
