"""A picture as a model takes it: pixels, cut into patches, some of which may be taken away."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from whence.core.seed import generator

# What stands in the place of a patch that is taken away: black, the picture's mean colour, or a blurred picture.
Fill = Literal["black", "mean", "blur"]
FILLS: tuple[Fill, ...] = get_args(Fill)


@dataclass(frozen=True)
class Layout:
    """Where a model's tokens are in a picture of one size."""

    grid: tuple[int, int]  # patches down and across
    lead: int  # tokens before the first patch: a class token, registers
    tokens: int  # tokens in all; 0: there is no one row of them (windows, merged patches)


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture, ready for a model."""

    pixels: Tensor  # (channels, height, width), normalised as the model takes them, on the CPU
    grid: tuple[int, int]  # patches down and across
    lead: int  # tokens of the model before the first patch: a class token, registers
    tokens: int  # tokens of the model in all; 0: the model has no one row of them (windows)
    black: tuple[float, ...]  # by channel: what black is after normalisation
    shown: np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3): what it sees, for people
    name: str | None = None
    hidden: frozenset[int] = frozenset()  # patches that are taken away
    blot: bytes | None = None  # pixels that are covered: their bits, row by row
    fill: Fill = "black"
    _fills: dict[Fill, Tensor] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def ids(self) -> tuple[int, ...]:
        """Numbers for the patches: negative ones, that are no token's."""
        return tuple(range(-1, -1 - len(self), -1))

    @cached_property
    def digest(self) -> int:
        """A number that tells this picture from others."""
        return int.from_bytes(sha256(self.pixels.contiguous().numpy().tobytes()).digest()[:8])

    @property
    def patch(self) -> tuple[int, int]:
        """The height and width of a patch, in pixels."""
        _, height, width = self.pixels.shape
        return height // self.grid[0], width // self.grid[1]

    def without(self, patches: Collection[int], fill: Fill) -> "Picture":
        """Return the picture with some patches taken away."""
        return self._changed(hidden=frozenset(patches), fill=fill)

    def covered(self, pixels: np.ndarray[Any, np.dtype[np.bool_]], fill: Fill) -> "Picture":
        """Return the picture with some pixels taken away, (height, width), whatever patches they are of."""
        return self._changed(blot=np.packbits(pixels).tobytes(), fill=fill)

    def shaken(self, radius: float, seed: int) -> "Picture":
        """Return the picture with each patch moved in a random direction, by `radius` times its own length."""
        rows = as_patches(self.pixels, self.grid)
        drawn = generator("noise", seed, self.digest).standard_normal(tuple(rows.shape))
        way = torch.from_numpy(drawn).to(rows)
        moved = rows + radius * way * (rows.norm(dim=1) / way.norm(dim=1))[:, None]
        channels, height, width = self.pixels.shape
        return replace(
            self, pixels=as_pixels(moved, self.grid, (channels, height, width)), _fills={}
        )

    def _changed(self, **changes: Any) -> "Picture":
        changed = replace(self, **changes)
        # Of the same pixels, and there are changed pictures by the thousand.
        changed.__dict__["digest"] = self.digest
        return changed

    def filled(self) -> Tensor:
        """Return the pixels, with something else in the place of what is taken away."""
        if self.blot is not None:
            size = self.pixels.shape[1:]
            bits = np.unpackbits(np.frombuffer(self.blot, np.uint8), count=size.numel())
            covered = torch.from_numpy(bits).reshape(size).bool()
            return torch.where(covered, self.instead(self.fill), self.pixels)
        if not self.hidden:
            return self.pixels
        gone = torch.zeros(len(self), dtype=torch.bool)
        gone[list(self.hidden)] = True
        return torch.where(self.over(gone), self.instead(self.fill), self.pixels)

    def over(self, patches: Tensor) -> Tensor:
        """Spread one value for each patch over its pixels, (height, width)."""
        down, across = self.patch
        rows = patches.reshape(self.grid).repeat_interleave(down, 0)
        return rows.repeat_interleave(across, 1)

    def instead(self, fill: Fill) -> Tensor:
        """Return the picture that shows where a patch is taken away, as pixels."""
        if fill not in self._fills:
            self._fills[fill] = self._instead(fill)
        return self._fills[fill]

    def _instead(self, fill: Fill) -> Tensor:
        colour = self.pixels.new_tensor(self.black)
        if fill == "mean":
            colour = self.pixels.mean((1, 2))
        if fill != "blur":
            return colour[:, None, None].expand_as(self.pixels)
        # Wide enough that a patch says nothing of what was in it: a Gaussian of one patch's width.
        sigma = float(max(self.patch))
        reach = int(min(3 * sigma, *(side - 1 for side in self.pixels.shape[1:])))
        places = torch.arange(-reach, reach + 1, dtype=self.pixels.dtype)
        weights = torch.exp(-(places**2) / (2 * sigma**2))
        weights = (weights / weights.sum()).expand(self.pixels.shape[0], 1, -1)
        wide = F.pad(self.pixels[None], (reach,) * 4, mode="reflect")
        channels = self.pixels.shape[0]
        wide = F.conv2d(wide, weights[:, :, :, None], groups=channels)
        return F.conv2d(wide, weights[:, :, None, :], groups=channels)[0]


def as_patches(pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    """Cut pixels (..., channels, height, width) into rows, (..., patches, channels x pixels of a patch)."""
    *front, channels, height, width = pixels.shape
    down, across = height // grid[0], width // grid[1]
    cut = pixels.reshape(*front, channels, grid[0], down, grid[1], across)
    n = len(front)
    order = (*range(n), n + 1, n + 3, n, n + 2, n + 4)
    return cut.permute(order).reshape(*front, grid[0] * grid[1], channels * down * across)


def as_pixels(patches: Tensor, grid: tuple[int, int], size: tuple[int, int, int]) -> Tensor:
    """Put rows that `as_patches` cut together again; `size` is channels, height, width."""
    *front, _, _ = patches.shape
    channels, height, width = size
    down, across = height // grid[0], width // grid[1]
    cut = patches.reshape(*front, *grid, channels, down, across)
    n = len(front)
    order = (*range(n), n + 2, n, n + 3, n + 1, n + 4)
    return cut.permute(order).reshape(*front, channels, height, width)
