"""Drawn test images: two shapes of different classes on a textured background, with exact masks.

    python scripts/draw_shapes.py     write the twelve pictures that whence ships, src/whence/data/pictures

The contents are known, so an explanation of one class can be checked against the truth by anyone, offline.
The class is in the outline alone: colours, positions, sizes and rotations are independent of it, and at one
size every class covers the same area. The built-in model `shapes` learnt from such pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import acos, cos, hypot, pi, sin, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from whence.core.errors import BadParameter
from whence.core.seed import build_generator

IMAGE_SIDE = 64  # pixels
SUBPIXELS = 8  # along each side of a pixel: coverage is counted at 8 x 8 points
MIN_SIZE, MAX_SIZE = 13.0, 20.0  # the square root of an object's area, in pixels
MIN_GAP = 1.0  # least pixels between the circles around two objects, so that they never overlap
MIN_COLOUR_DISTANCE = (
    0.45  # least distance, in RGB from 0 to 1, of an object's colour from both background colours
)
SHIPPED_FOLDER = Path(__file__).resolve().parents[1] / "src" / "whence" / "data" / "pictures"
# The drawing that is shipped as shapes:0, shapes:1, ...: every class three times, in small files. The pages name 3 and 7.
SHIPPED = (841, 420, 3155, 3, 3398, 3306, 2867, 7, 3311, 75, 344, 1792)

Array = NDArray[np.float64]
PixelMask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Scene:
    """A drawn image with its labels and masks."""

    pixels: NDArray[np.uint8]  # (64, 64, 3)
    labels: tuple[str, ...]  # two different ones by default
    masks: dict[str, PixelMask]  # by label: the pixels of which the object covers more than half


@dataclass(frozen=True)
class Outline:
    """A shape of area 1 around the origin."""

    inside: Callable[[Array, Array], PixelMask]
    reach: float  # the radius of the circle around it


def _build_polygon(corners: list[tuple[float, float]]) -> Outline:
    """Return a polygon, scaled to area 1."""
    ends = [*zip(corners, [*corners[1:], corners[0]], strict=True)]
    scale = 1 / sqrt(abs(sum(a * d - b * c for (a, b), (c, d) in ends)) / 2)

    def inside(x: Array, y: Array) -> PixelMask:
        # A point is inside if a ray from it crosses the border an odd number of times.
        odd = np.zeros(np.broadcast(x, y).shape, dtype=np.bool_)
        for (a, b), (c, d) in ends:
            if b != d:
                crossed = (b * scale > y) != (d * scale > y)
                odd ^= crossed & (x < scale * a + (y - scale * b) * (c - a) / (d - b))
        return odd

    return Outline(inside, scale * max(hypot(*corner) for corner in corners))


def _build_radial_polygon(radii: list[float]) -> Outline:
    """Return the polygon with corners at these distances, at equal angles."""
    step = 2 * pi / len(radii)
    return _build_polygon([(r * cos(i * step), r * sin(i * step)) for i, r in enumerate(radii)])


def _build_ring(hole: float) -> Outline:
    """Return a disc with a hole; `hole` is the ratio of the radii."""
    radius = 1 / sqrt(pi * (1 - hole**2))

    def inside(x: Array, y: Array) -> PixelMask:
        away = x**2 + y**2
        return (away <= radius**2) & (away >= (hole * radius) ** 2)

    return Outline(inside, radius)


def _build_crescent(bite: float, shift: float) -> Outline:
    """Return a disc of radius 1 minus a shifted one of radius `bite`, scaled to area 1."""
    # The intersection of two discs is a lens: two sectors minus the kite of centres and crossing points.
    angle = acos((shift**2 + 1 - bite**2) / (2 * shift))
    bite_angle = acos((shift**2 + bite**2 - 1) / (2 * shift * bite))
    radius = 1 / sqrt(pi - (angle + bite**2 * bite_angle - shift * sin(angle)))

    def inside(x: Array, y: Array) -> PixelMask:
        gone = (x - shift * radius) ** 2 + y**2 < (bite * radius) ** 2
        return (x**2 + y**2 <= radius**2) & ~gone

    return Outline(inside, radius)


def _build_heart() -> Outline:
    """Return a square with half a disc on each of two adjacent sides."""
    half = 1 / sqrt(4 + pi)
    centre = half / 4  # about the middle of the circle around it

    def inside(x: Array, y: Array) -> PixelMask:
        u, v = x + centre, y + centre
        square = (np.abs(u) <= half) & (np.abs(v) <= half)
        lobes = [(u - half) ** 2 + v**2 <= half**2, u**2 + (v - half) ** 2 <= half**2]
        return square | lobes[0] | lobes[1]

    return Outline(inside, half + hypot(half - centre, centre))


OUTLINES: dict[str, Outline] = {
    "circle": _build_ring(0.0),
    "crescent": _build_crescent(0.75, 0.5),
    "cross": _build_polygon(
        [
            *((3, -1), (3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1)),
            *((-3, 1), (-3, -1), (-1, -1), (-1, -3), (1, -3), (1, -1)),
        ]
    ),
    "heart": _build_heart(),
    "ring": _build_ring(0.6),
    "square": _build_radial_polygon([1.0] * 4),
    "star": _build_radial_polygon([1.0, 0.45] * 5),
    "triangle": _build_radial_polygon([1.0] * 3),
}
SHAPE_CLASSES: tuple[str, ...] = tuple(OUTLINES)


@dataclass(frozen=True)
class PlacedShape:
    """A shape in an image: its class, origin (across, down), size and rotation."""

    label: str
    across: float
    down: float
    size: float
    angle: float

    def coverage(self) -> Array:
        """Return the covered share of each pixel, (64, 64)."""
        outline = OUTLINES[self.label]
        shares = np.zeros((IMAGE_SIDE, IMAGE_SIDE))
        reach = outline.reach * self.size
        rows, columns = (
            slice(max(0, int(at - reach)), min(IMAGE_SIDE, int(at + reach) + 1))
            for at in (self.down, self.across)
        )
        down = _sample_points(rows)[:, None] - self.down
        across = _sample_points(columns)[None, :] - self.across
        x = (across * cos(self.angle) + down * sin(self.angle)) / self.size
        y = (down * cos(self.angle) - across * sin(self.angle)) / self.size
        counted = outline.inside(x, y)
        pixels = counted.reshape(counted.shape[0] // SUBPIXELS, SUBPIXELS, -1, SUBPIXELS)
        shares[rows, columns] = pixels.mean((1, 3))
        return shares


def _sample_points(pixels: slice) -> Array:
    """Return the sample points for coverage along a run of pixels."""
    return np.arange(pixels.start, pixels.stop, 1 / SUBPIXELS) + 0.5 / SUBPIXELS


def place_shapes(number: int, seed: int = 0, objects: int = 2) -> list[PlacedShape]:
    """Return the shapes of an image, of different classes and without overlap."""
    chance = build_generator("shapes", "objects", seed, number, objects)
    labels = [SHAPE_CLASSES[i] for i in chance.choice(len(SHAPE_CLASSES), objects, replace=False)]
    sizes = chance.uniform(MIN_SIZE, MAX_SIZE, objects)
    angles = chance.uniform(0, 2 * pi, objects)
    reach = np.array([OUTLINES[label].reach for label in labels]) * sizes
    while True:
        at = chance.uniform(reach + 1, IMAGE_SIDE - 1 - reach, (2, objects))
        away = np.hypot(*(at[:, :, None] - at[:, None, :]))
        apart = away >= reach[:, None] + reach + MIN_GAP
        if (apart | np.eye(objects, dtype=bool)).all():
            break
    return [
        *map(PlacedShape, labels, at[0].tolist(), at[1].tolist(), sizes.tolist(), angles.tolist())
    ]


def draw_scene(number: int, seed: int = 0, objects: int = 2) -> Scene:
    """Draw the image of this number: the same number and seed give the same image anywhere.

    `objects` may be 0, 1 or 2. The built-in model learnt from pictures of another seed than 0.
    """
    if objects not in (0, 1, 2):
        raise BadParameter(f"objects must be 0, 1 or 2. Got {objects!r}.")
    shapes = place_shapes(number, seed, objects)
    chance = build_generator("shapes", "colours", seed, number, objects)
    first = chance.uniform(0.1, 0.9, 3)
    second = np.clip(first + chance.uniform(-0.25, 0.25, 3), 0, 1)
    mix = draw_texture(chance, IMAGE_SIDE)[:, :, None]
    picture = first * (1 - mix) + second * mix
    masks = {}
    for shape in shapes:
        covered = shape.coverage()
        # A brightness gradient, as from light on one side.
        light = 1 + chance.uniform(-0.1, 0.1) * np.linspace(-1, 1, IMAGE_SIDE)[:, None, None]
        fill = np.clip(_draw_colour(chance, first, second) * light, 0, 1)
        picture = picture * (1 - covered[:, :, None]) + fill * covered[:, :, None]
        masks[shape.label] = covered > 0.5
    picture = picture + chance.uniform(0, 0.05) * chance.standard_normal(picture.shape)  # grain
    pixels = np.rint(255 * np.clip(picture, 0, 1)).astype(np.uint8)
    return Scene(pixels, tuple(shape.label for shape in shapes), masks)


def _draw_colour(chance: np.random.Generator, *ground: Array) -> Array:
    """Return a random colour at least 0.45 from both background colours."""
    while True:
        colour = chance.uniform(0, 1, 3)
        if all(np.linalg.norm(colour - other) >= MIN_COLOUR_DISTANCE for other in ground):
            return colour


TextureField = NDArray[np.float64]


def _rotate_grid(draw: np.random.Generator, side: int) -> tuple[TextureField, TextureField]:
    """Return the coordinates of the pixels in a randomly rotated and shifted frame."""
    down, across = np.mgrid[:side, :side].astype(np.float64) + draw.uniform(0, side, (2, 1, 1))
    angle = draw.uniform(0, np.pi)
    return (
        across * np.cos(angle) + down * np.sin(angle),
        down * np.cos(angle) - across * np.sin(angle),
    )


def _draw_clouds(draw: np.random.Generator, side: int) -> TextureField:
    """Return smooth random clouds, coarse and fine ones added."""
    total = np.zeros((side, side))
    for cells, weight in ((int(draw.integers(3, 7)), 1.0), (int(draw.integers(8, 17)), 0.5)):
        heights = draw.uniform(-1, 1, (cells + 1, cells + 1))
        at = np.linspace(0, cells, side, endpoint=False)
        low = at.astype(int)
        part = (1 - np.cos(np.pi * (at - low))) / 2
        rows = heights[low] * (1 - part)[:, None] + heights[low + 1] * part[:, None]
        total += weight * (rows[:, low] * (1 - part) + rows[:, low + 1] * part)
    return 0.5 + 0.5 * np.tanh(1.5 * total)


def _draw_stripes(draw: np.random.Generator, side: int) -> TextureField:
    across, _ = _rotate_grid(draw, side)
    return 0.5 + 0.5 * np.sin(2 * np.pi * across / draw.uniform(5, 14))


def _draw_waves(draw: np.random.Generator, side: int) -> TextureField:
    across, down = _rotate_grid(draw, side)
    bent = across + draw.uniform(1, 3) * np.sin(2 * np.pi * down / draw.uniform(12, 30))
    return 0.5 + 0.5 * np.sin(2 * np.pi * bent / draw.uniform(5, 14))


def _draw_checks(draw: np.random.Generator, side: int) -> TextureField:
    across, down = _rotate_grid(draw, side)
    step = draw.uniform(8, 18)
    product = np.sin(2 * np.pi * across / step) * np.sin(2 * np.pi * down / step)
    return np.asarray(0.5 + 0.5 * np.tanh(4 * product))


def _draw_dots(draw: np.random.Generator, side: int) -> TextureField:
    """Return a lattice of dots, smaller than any shape."""
    across, down = _rotate_grid(draw, side)
    step = draw.uniform(4, 8)
    waves = np.cos(2 * np.pi * across / step) + np.cos(2 * np.pi * down / step)
    return np.asarray(0.5 + 0.5 * np.tanh(2 * (waves - 0.5)))


def _draw_slope(draw: np.random.Generator, side: int) -> TextureField:
    across, _ = _rotate_grid(draw, side)
    return np.asarray((across - across.min()) / np.ptp(across))


TEXTURES: dict[str, Callable[[np.random.Generator, int], TextureField]] = {
    "clouds": _draw_clouds,
    "stripes": _draw_stripes,
    "waves": _draw_waves,
    "checks": _draw_checks,
    "dots": _draw_dots,
    "slope": _draw_slope,
}


def draw_texture(draw: np.random.Generator, side: int) -> TextureField:
    """Return a texture of random kind, values from 0 to 1, (side, side)."""
    kind = sorted(TEXTURES)[int(draw.integers(len(TEXTURES)))]
    return TEXTURES[kind](draw, side)


def main() -> None:
    """Write the shipped pictures, each with a map of its pixels: 0 ground, 1 and 2 its first and second object."""
    SHIPPED_FOLDER.mkdir(exist_ok=True)
    for place, number in enumerate(SHIPPED):
        scene = draw_scene(number)
        objects = sum(i * mask.astype(np.uint8) for i, mask in enumerate(scene.masks.values(), 1))
        Image.fromarray(scene.pixels).save(SHIPPED_FOLDER / f"{place}.png", optimize=True)
        outline = Image.fromarray(np.asarray(objects, np.uint8))
        outline.save(SHIPPED_FOLDER / f"{place}_objects.png", optimize=True)
    size = sum(path.stat().st_size for path in SHIPPED_FOLDER.iterdir())
    print(f"wrote {len(SHIPPED)} pictures to {SHIPPED_FOLDER}, {size:,} bytes")


if __name__ == "__main__":
    main()
