"""How much of a map is made at a time: inputs x heads x query rows that make a good tile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from whence.core.errors import BadParameter
from whence.kernels.maps import Maps
from whence.kernels.memory import lately_free
from whence.kernels.visible import Visible

# Bytes of one tile of a map. On a CPU the tile should stay in its cache: bench/tiles.py shows which sizes do.
# An accelerator wants more at a time.
_BYTES = {"cpu": 1 << 22}
_BYTES_ELSEWHERE = 1 << 26
# A few tiles stand side by side while they are combined, and others want memory, too.
_SHARE_OF_FREE = 16
_VARIABLE = "WHENCE_TILE_BYTES"

# Several inputs share a tile on a CPU only if one of them is small: it has to be copied for that.
_SMALL = 16
# Keys that no query of a tile sees are left out, which saves half of a causal map, if it is cut into enough rows.
_CUTS, _FEWEST_ROWS = 8, 64

_fixed: ContextVar[int | None] = ContextVar("whence_tile_bytes", default=None)


@contextmanager
def tile_of(size: int) -> Iterator[None]:
    """Let tiles have so many bytes, at least one row of one head."""
    token = _fixed.set(size)
    try:
        yield
    finally:
        _fixed.reset(token)


@dataclass(frozen=True)
class Cut:
    """How many inputs, heads and query rows a tile has."""

    inputs: int
    heads: int
    rows: int


def cut(layer: Maps, visible: Visible, dtype: torch.dtype, *, whole_heads: bool = False) -> Cut:
    """Return the size of a good tile: all rows of some heads, before some rows of all heads.

    `whole_heads` wants all heads of a row in one tile. Query heads that share a key head are parted evenly or not at
    all.
    """
    batch, key_heads, keys, _ = layer.v.shape
    heads, queries, on_cpu = layer.heads, layer.length, layer.v.device.type == "cpu"
    room = _bytes(layer.v.device) // dtype.itemsize
    rows = queries
    if visible.left is not None or visible.right is not None:
        rows = min(queries, max(_FEWEST_ROWS, -(-queries // _CUTS)))
    some = heads
    if not whole_heads:
        some = _parted(room // max(1, rows * keys), heads, heads // key_heads)
    rows = max(1, min(rows, room // max(1, some * keys)))
    inputs = 1
    if some == heads and rows == queries:
        room = room // _SMALL if on_cpu else room
        inputs = min(batch, room // max(1, heads * queries * keys))
    return Cut(max(1, inputs), some, rows)


def _parted(room: int, heads: int, groups: int) -> int:
    if room >= groups:
        return min(heads, room - room % groups)
    return max(one for one in range(1, groups + 1) if groups % one == 0 and one <= max(1, room))


def row_tiles(layer: Maps, like: Tensor) -> Iterator[slice]:
    """Yield all query rows, as many at a time as make a good tile of all inputs and heads."""
    per_row = like.shape[0] * layer.heads * layer.v.shape[2] * like.element_size()
    size = max(1, _bytes(like.device) // max(1, per_row))
    for start in range(0, layer.length, size):
        yield slice(start, start + size)


def _bytes(device: torch.device) -> int:
    fixed = _fixed.get()
    if fixed is not None:
        return fixed
    if _VARIABLE in os.environ:
        return _wanted(os.environ[_VARIABLE])
    good = _BYTES.get(device.type, _BYTES_ELSEWHERE)
    free = lately_free(device)
    return good if free is None else min(good, free // _SHARE_OF_FREE)


def _wanted(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise BadParameter(
        f"The environment variable {_VARIABLE} is {text!r}. It is the size of a tile in bytes, a whole number from 1 "
        f"on, such as {_BYTES['cpu']}; without it, whence chooses one."
    )
