"""Textured grounds for drawn pictures: two colours, mixed by a field of one of several kinds."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]


def _turned(draw: np.random.Generator, side: int) -> tuple[Field, Field]:
    """Return the coordinates of the pixels in a frame that is turned and moved at random."""
    down, across = np.mgrid[:side, :side].astype(np.float64) + draw.uniform(0, side, (2, 1, 1))
    angle = draw.uniform(0, np.pi)
    return (
        across * np.cos(angle) + down * np.sin(angle),
        down * np.cos(angle) - across * np.sin(angle),
    )


def _clouds(draw: np.random.Generator, side: int) -> Field:
    """Return smooth random hills, coarse ones and finer ones on them."""
    total = np.zeros((side, side))
    for cells, weight in ((int(draw.integers(3, 7)), 1.0), (int(draw.integers(8, 17)), 0.5)):
        heights = draw.uniform(-1, 1, (cells + 1, cells + 1))
        at = np.linspace(0, cells, side, endpoint=False)
        low = at.astype(int)
        part = (1 - np.cos(np.pi * (at - low))) / 2
        rows = heights[low] * (1 - part)[:, None] + heights[low + 1] * part[:, None]
        total += weight * (rows[:, low] * (1 - part) + rows[:, low + 1] * part)
    return 0.5 + 0.5 * np.tanh(1.5 * total)


def _stripes(draw: np.random.Generator, side: int) -> Field:
    across, _ = _turned(draw, side)
    return 0.5 + 0.5 * np.sin(2 * np.pi * across / draw.uniform(5, 14))


def _waves(draw: np.random.Generator, side: int) -> Field:
    across, down = _turned(draw, side)
    bent = across + draw.uniform(1, 3) * np.sin(2 * np.pi * down / draw.uniform(12, 30))
    return 0.5 + 0.5 * np.sin(2 * np.pi * bent / draw.uniform(5, 14))


def _checks(draw: np.random.Generator, side: int) -> Field:
    across, down = _turned(draw, side)
    step = draw.uniform(8, 18)
    product = np.sin(2 * np.pi * across / step) * np.sin(2 * np.pi * down / step)
    return np.asarray(0.5 + 0.5 * np.tanh(4 * product))


def _dots(draw: np.random.Generator, side: int) -> Field:
    """Return a lattice of dots, smaller than any object."""
    across, down = _turned(draw, side)
    step = draw.uniform(4, 8)
    waves = np.cos(2 * np.pi * across / step) + np.cos(2 * np.pi * down / step)
    return np.asarray(0.5 + 0.5 * np.tanh(2 * (waves - 0.5)))


def _slope(draw: np.random.Generator, side: int) -> Field:
    across, _ = _turned(draw, side)
    return np.asarray((across - across.min()) / np.ptp(across))


TEXTURES: dict[str, Callable[[np.random.Generator, int], Field]] = {
    "clouds": _clouds,
    "stripes": _stripes,
    "waves": _waves,
    "checks": _checks,
    "dots": _dots,
    "slope": _slope,
}


def texture(draw: np.random.Generator, side: int) -> Field:
    """Return a field from 0 to 1 of a kind drawn at random, (side, side)."""
    kind = sorted(TEXTURES)[int(draw.integers(len(TEXTURES)))]
    return TEXTURES[kind](draw, side)
