"""Pictures drawn by ourselves: two objects of different classes on textured ground, with the exact mask of each.

What is where is known, so an explanation of one class can be held against the truth by anyone, offline. The class
is in the outline alone: colours, places, sizes and turns are drawn without regard to it, and at one size every class
covers the same area.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import acos, cos, hypot, pi, sin, sqrt

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import BadParameter
from whence.core.seed import generator
from whence.data.vision.texture import texture

SIDE = 64  # pixels
POINTS = 8  # along each side of a pixel: coverage is counted at 8 x 8 points
SMALLEST, LARGEST = 13.0, 20.0  # the square root of an object's area, in pixels
GAP = 1.0  # at least so many pixels between the circles around two objects: they never overlap
APART = 0.45  # at least, in RGB from 0 to 1: an object's colour from both colours of the ground
PREFIX = "shapes:"
_DIGITS = 18  # of a picture's number: there are enough, and very long ones are slow to read

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture, and what is on it."""

    pixels: NDArray[np.uint8]  # (64, 64, 3)
    labels: tuple[str, ...]  # two different ones, unless asked for otherwise
    masks: dict[str, Mask]  # by label: the pixels of which the object covers more than half


@dataclass(frozen=True)
class Outline:
    """A shape of area 1 around the origin."""

    inside: Callable[[Array, Array], Mask]
    reach: float  # no point of it is further from the origin


def _polygon(corners: list[tuple[float, float]]) -> Outline:
    """Return a polygon, scaled to area 1."""
    ends = [*zip(corners, [*corners[1:], corners[0]], strict=True)]
    scale = 1 / sqrt(abs(sum(a * d - b * c for (a, b), (c, d) in ends)) / 2)

    def inside(x: Array, y: Array) -> Mask:
        # A point is inside if a ray from it crosses the border an odd number of times.
        odd = np.zeros(np.broadcast(x, y).shape, dtype=np.bool_)
        for (a, b), (c, d) in ends:
            if b != d:
                crossed = (b * scale > y) != (d * scale > y)
                odd ^= crossed & (x < scale * a + (y - scale * b) * (c - a) / (d - b))
        return odd

    return Outline(inside, scale * max(hypot(*corner) for corner in corners))


def _around(radii: list[float]) -> Outline:
    """Return the polygon with corners at these distances, at equal angles all round."""
    step = 2 * pi / len(radii)
    return _polygon([(r * cos(i * step), r * sin(i * step)) for i, r in enumerate(radii)])


def _ring(hole: float) -> Outline:
    """Return a disc with a hole of this part of its radius."""
    radius = 1 / sqrt(pi * (1 - hole**2))

    def inside(x: Array, y: Array) -> Mask:
        away = x**2 + y**2
        return (away <= radius**2) & (away >= (hole * radius) ** 2)

    return Outline(inside, radius)


def _crescent(bite: float, shift: float) -> Outline:
    """Return a disc of radius 1 less another of radius `bite` that is shifted; then scaled to area 1."""
    # What two discs share is a lens: two sectors, less the kite of their centres and the crossings of their borders.
    one = acos((shift**2 + 1 - bite**2) / (2 * shift))
    other = acos((shift**2 + bite**2 - 1) / (2 * shift * bite))
    radius = 1 / sqrt(pi - (one + bite**2 * other - shift * sin(one)))

    def inside(x: Array, y: Array) -> Mask:
        gone = (x - shift * radius) ** 2 + y**2 < (bite * radius) ** 2
        return (x**2 + y**2 <= radius**2) & ~gone

    return Outline(inside, radius)


def _heart() -> Outline:
    """Return a square with half a disc on each of two sides that meet."""
    half = 1 / sqrt(4 + pi)
    centre = half / 4  # about the middle of the circle around it

    def inside(x: Array, y: Array) -> Mask:
        u, v = x + centre, y + centre
        square = (np.abs(u) <= half) & (np.abs(v) <= half)
        lobes = [(u - half) ** 2 + v**2 <= half**2, u**2 + (v - half) ** 2 <= half**2]
        return square | lobes[0] | lobes[1]

    return Outline(inside, half + hypot(half - centre, centre))


OUTLINES: dict[str, Outline] = {
    "circle": _ring(0.0),
    "crescent": _crescent(0.75, 0.5),
    "cross": _polygon(
        [
            *((3, -1), (3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1)),
            *((-3, 1), (-3, -1), (-1, -1), (-1, -3), (1, -3), (1, -1)),
        ]
    ),
    "heart": _heart(),
    "ring": _ring(0.6),
    "square": _around([1.0] * 4),
    "star": _around([1.0, 0.45] * 5),
    "triangle": _around([1.0] * 3),
}
CLASSES: tuple[str, ...] = tuple(OUTLINES)


@dataclass(frozen=True)
class Placed:
    """An object: which, where its origin is (across, down), how large and how it is turned."""

    label: str
    across: float
    down: float
    size: float
    angle: float

    def coverage(self) -> Array:
        """Return what share of each pixel is covered, (64, 64)."""
        outline = OUTLINES[self.label]
        found = np.zeros((SIDE, SIDE))
        reach = outline.reach * self.size
        rows, columns = (
            slice(max(0, int(at - reach)), min(SIDE, int(at + reach) + 1))
            for at in (self.down, self.across)
        )
        down = _points(rows)[:, None] - self.down
        across = _points(columns)[None, :] - self.across
        x = (across * cos(self.angle) + down * sin(self.angle)) / self.size
        y = (down * cos(self.angle) - across * sin(self.angle)) / self.size
        counted = outline.inside(x, y)
        pixels = counted.reshape(counted.shape[0] // POINTS, POINTS, -1, POINTS)
        found[rows, columns] = pixels.mean((1, 3))
        return found


def _points(pixels: slice) -> Array:
    """Return where coverage is counted along a run of pixels."""
    return np.arange(pixels.start, pixels.stop, 1 / POINTS) + 0.5 / POINTS


def place(number: int, seed: int = 0, objects: int = 2) -> list[Placed]:
    """Return the objects of a picture, of different classes and apart from each other."""
    chance = generator("shapes", "objects", seed, number, objects)
    labels = [CLASSES[i] for i in chance.choice(len(CLASSES), objects, replace=False)]
    sizes = chance.uniform(SMALLEST, LARGEST, objects)
    angles = chance.uniform(0, 2 * pi, objects)
    reach = np.array([OUTLINES[label].reach for label in labels]) * sizes
    while True:
        at = chance.uniform(reach + 1, SIDE - 1 - reach, (2, objects))
        away = np.hypot(*(at[:, :, None] - at[:, None, :]))
        apart = away >= reach[:, None] + reach + GAP
        if (apart | np.eye(objects, dtype=bool)).all():
            break
    return [*map(Placed, labels, at[0].tolist(), at[1].tolist(), sizes.tolist(), angles.tolist())]


def draw(number: int, seed: int = 0, objects: int = 2) -> Scene:
    """Draw the picture of this number: the same number and seed give the same picture anywhere.

    `objects` may be 0, 1 or 2. The built-in model learnt from pictures of another seed than 0.
    """
    if objects not in (0, 1, 2):
        raise BadParameter(f"objects must be 0, 1 or 2. Got {objects!r}.")
    placed = place(number, seed, objects)
    chance = generator("shapes", "colours", seed, number, objects)
    first = chance.uniform(0.1, 0.9, 3)
    second = np.clip(first + chance.uniform(-0.25, 0.25, 3), 0, 1)
    mix = texture(chance, SIDE)[:, :, None]
    picture = first * (1 - mix) + second * mix
    masks = {}
    for one in placed:
        covered = one.coverage()
        # Lighter on one side than on the other, as in light that comes from somewhere.
        light = 1 + chance.uniform(-0.1, 0.1) * np.linspace(-1, 1, SIDE)[:, None, None]
        fill = np.clip(_colour(chance, first, second) * light, 0, 1)
        picture = picture * (1 - covered[:, :, None]) + fill * covered[:, :, None]
        masks[one.label] = covered > 0.5
    picture = picture + chance.uniform(0, 0.05) * chance.standard_normal(picture.shape)  # grain
    pixels = np.rint(255 * np.clip(picture, 0, 1)).astype(np.uint8)
    return Scene(pixels, tuple(one.label for one in placed), masks)


def _colour(chance: np.random.Generator, *ground: Array) -> Array:
    """Return a colour that stands out from the ground's."""
    while True:
        colour = chance.uniform(0, 1, 3)
        if all(np.linalg.norm(colour - other) >= APART for other in ground):
            return colour


def named(text: str) -> Scene | None:
    """Return the picture that a text such as ``shapes:7`` names, or None if it names none of ours."""
    if not text.startswith(PREFIX):
        return None
    number = text.removeprefix(PREFIX)
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        raise BadParameter(
            f"{text[:40]!r} names no picture: after {PREFIX!r} comes a whole number from 0, of at most {_DIGITS} "
            f"digits, such as {PREFIX}7."
        )
    return draw(int(number))


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
