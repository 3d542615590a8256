"""The rows that two decisions read."""

from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]


class Reads(Protocol):
    """One input in one model."""

    @property
    def rows(self) -> Array:
        """The weights of the rows that the decision reads, (tokens,)."""

    @property
    def has_head(self) -> bool:
        """Whether the model decides anything."""


def read_rows(one: Reads, other: Reads) -> tuple[Array, Array]:
    """Return the rows that each decision reads; where only one model decides, its rows stand for both."""
    if one.has_head == other.has_head:
        return one.rows, other.rows
    known = one.rows if one.has_head else other.rows
    return known, known
