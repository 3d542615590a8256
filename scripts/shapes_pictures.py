"""Training data and recipe of the built-in picture model `shapes`: pictures drawn, batches augmented."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch
from draw_shapes import IMAGE_SIDE, SHAPE_CLASSES, draw_scene
from torch import Tensor

PATCH = 8
GRID = IMAGE_SIDE // PATCH


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights; the model card prints it."""

    seed: int = 7
    pictures: int = 200_000
    steps: int = 15_000
    batch: int = 1024
    rate: float = 1e-3
    warmup: float = 0.05
    weight_decay: float = 0.05
    hidden: float = 0.4  # the share of pictures of which patches are taken away
    gone: float = 0.2  # with so much of its object left, or less, a class is not there
    there: float = 0.6  # with so much or more it is; in between it does not count
    width: int = 128
    layers: int = 6
    heads: int = 4
    inner: int = 256
    # What the logits are divided by at the end; a power of two, so that no answer changes.
    temper: float = 4.0


class Pictures(NamedTuple):
    """Drawn pictures, and how much of each class's object is in each patch."""

    pixels: Tensor  # (n, 3, 64, 64), uint8
    covered: Tensor  # (n, classes, 8, 8), uint8: pixels of the mask

    def to(self, device: torch.device) -> Pictures:
        """Move the tensors to a device."""
        return Pictures(self.pixels.to(device), self.covered.to(device))


def draw_range(what: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Draw pictures: (first number, one past the last, seed, objects)."""
    first, last, seed, objects = what
    pixels = np.empty((last - first, 3, IMAGE_SIDE, IMAGE_SIDE), np.uint8)
    covered = np.zeros((last - first, len(SHAPE_CLASSES), GRID, GRID), np.uint8)
    for row, number in enumerate(range(first, last)):
        scene = draw_scene(number, seed, objects)
        pixels[row] = scene.pixels.transpose(2, 0, 1)
        for label, mask in scene.masks.items():
            cut = mask.reshape(GRID, PATCH, GRID, PATCH).sum((1, 3))
            covered[row, SHAPE_CLASSES.index(label)] = cut
    return pixels, covered


def draw_pictures(counts: dict[int, int], seed: int) -> Pictures:
    """Draw so many pictures with so many objects, on all cores."""
    jobs = [
        (start, min(start + 500, count), seed, objects)
        for objects, count in counts.items()
        for start in range(0, count, 500)
    ]
    # Before anything is on a GPU, or the forked processes could not work.
    with get_context("fork").Pool(os.cpu_count()) as pool:
        parts = pool.map(draw_range, jobs, chunksize=1)
    return Pictures(*(torch.from_numpy(np.concatenate(part)) for part in zip(*parts, strict=True)))


class Batches:
    """Training batches: pictures turned, mirrored, with other colours, and with patches taken away."""

    def __init__(self, pictures: Pictures, recipe: Recipe) -> None:
        self.pictures, self.recipe = pictures, recipe
        self.device = pictures.pixels.device
        self.chance = torch.Generator(self.device).manual_seed(recipe.seed)
        colours = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
        self.colours = torch.tensor(colours, device=self.device)
        self.blur = build_blur_matrix(self.device)

    def draw_integers(self, high: int, *shape: int) -> Tensor:
        """Draw whole numbers below `high`."""
        return torch.randint(high, shape, generator=self.chance, device=self.device)

    def draw_uniform(self, *shape: int) -> Tensor:
        """Draw numbers from 0 to 1."""
        return torch.rand(shape, generator=self.chance, device=self.device)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield pixels, labels, and a mask of the labels that count in the loss."""
        n, recipe = self.recipe.batch, self.recipe
        while True:
            rows = self.draw_integers(len(self.pictures.pixels), n)
            colours = self.colours[self.draw_integers(len(self.colours), n)]
            pixels = normalise_pixels(self.pictures.pixels[rows[:, None], colours])
            covered = self.pictures.covered[rows].float()
            pixels, covered = turn_and_mirror(pixels), turn_and_mirror(covered)
            share = self.draw_uniform(n, 1, 1) * (self.draw_uniform(n, 1, 1) < recipe.hidden)
            hidden = self.draw_uniform(n, GRID, GRID) < share
            pixels = self.remove_patches(pixels, hidden)
            whole = covered.sum((2, 3))
            left = (covered * ~hidden[:, None]).sum((2, 3)) / whole.clamp(min=1)
            there = left >= recipe.there
            yield pixels, there.float(), there | (left <= recipe.gone)

    def remove_patches(self, pixels: Tensor, hidden: Tensor) -> Tensor:
        """Put black, the mean colour or the blurred picture in the place of hidden patches."""
        how = self.draw_integers(3, len(pixels), 1, 1, 1)
        mean = pixels.mean((2, 3), keepdim=True)
        blurred = self.blur @ pixels @ self.blur.T
        instead = torch.where(how == 0, -1.0, torch.where(how == 1, mean, blurred))
        over = hidden.repeat_interleave(PATCH, 1).repeat_interleave(PATCH, 2)
        return torch.where(over[:, None], instead, pixels)


def normalise_pixels(pixels: Tensor) -> Tensor:
    """Return pixels as the model takes them, from -1 to 1."""
    return pixels.float() / 127.5 - 1


def turn_and_mirror(given: Tensor) -> Tensor:
    """Turn and mirror: each eighth of a batch in another of the eight ways."""
    eighths = [torch.rot90(one, way % 4, (2, 3)) for way, one in enumerate(given.chunk(8))]
    return torch.cat([one.flip(3) if way > 3 else one for way, one in enumerate(eighths)])


def build_blur_matrix(device: torch.device) -> Tensor:
    """Return a matrix that blurs the rows of a picture by a Gaussian of one patch's width."""
    places = torch.arange(IMAGE_SIDE, device=device, dtype=torch.float32)
    weights = torch.exp(-((places[:, None] - places) ** 2) / (2 * PATCH**2))
    return weights / weights.sum(1, keepdim=True)
