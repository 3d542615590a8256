"""One picture, from whatever was given: a file, its bytes, a PIL image or an array. What is dangerous is refused.

A small file can hold a picture that fills all memory once it is unpacked. Its size stands at its beginning, so it is
known, and checked, before a pixel is read.
"""

import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.errors import BadPicture, short
from whence.data.vision.shapes import named

if TYPE_CHECKING:
    from PIL.Image import Image

LIMIT = 64 * 2**20  # pixels: some 200 MB once unpacked
_BYTES = 256 * 2**20  # of a file
_STRIP = 2**20  # pixels that are worked on at once
_ORIENTATION = 0x0112  # what EXIF calls the way the camera was held
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
ALLOWED = "PNG, JPEG, WebP, GIF, BMP, TIFF or PPM"


def is_picture(given: Any) -> bool:
    """Say whether this can be nothing but a picture: an image, or an array of numbers."""
    array = isinstance(given, np.ndarray) and given.ndim in (2, 3) and given.dtype.kind in "buif"
    return array or _is_image(given)


def holds_picture(given: Any) -> bool:
    """Say whether this is a picture or what one can be read from, other than the path of a file."""
    return is_picture(given) or isinstance(given, bytes | bytearray) or _is_stored(given)


def opened(given: Any, name: str | None = None) -> "Image":
    """Return a picture in RGB, upright and in memory; `name` is what an error calls it."""
    name = name or name_of(given)
    if _is_stored(given):
        given = given.read()
        if isinstance(given, str):
            raise BadPicture(f"{name!r} holds text. Open the file in binary: open(path, 'rb').")
    if isinstance(given, str) and (scene := named(given)) is not None:
        given = scene.pixels
    if isinstance(given, np.ndarray):
        given = _from_array(given, name)
    if isinstance(given, str | Path):
        given = _bytes_of(Path(given), name)
    if isinstance(given, bytes | bytearray):
        return _read(bytes(given), name)
    if not _is_image(given):
        raise BadPicture(
            f"Cannot take a {type(given).__name__} for a picture. Give a file ({ALLOWED}), a PIL image, an array of "
            "(height, width, 3), or a mapping with 'pixel_values'."
        )
    _check_size(given.size, name)
    return _upright(given, name)


def name_of(given: Any) -> str:
    """Return what to call a picture."""
    if isinstance(given, str | Path):
        return Path(given).name
    own = getattr(given, "name", None) or getattr(given, "filename", None)
    return Path(own).name if isinstance(own, str) and own else "the picture"


def _is_image(given: Any) -> bool:
    # By its class, not by an import: whoever gives one has imported PIL, nobody else need pay for it.
    return any(kind.__module__ == "PIL.Image" for kind in type(given).__mro__)


def _is_stored(given: Any) -> bool:
    return callable(getattr(given, "read", None)) and not _is_image(given)


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        found = path.stat()
        if found.st_size > _BYTES:
            raise BadPicture(
                f"{name!r} has {found.st_size / 2**20:.0f} MB; files of at most {_BYTES >> 20} MB are read as "
                "pictures. Make it smaller."
            )
        # A pipe would be waited for without end, and a device has no end.
        if not (S_ISREG(found.st_mode) or S_ISDIR(found.st_mode)):
            raise BadPicture(
                f"{name!r} is no ordinary file. Give the path of a picture: {ALLOWED}."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        if str(path).startswith(("http:", "https:")):
            why = "whence fetches nothing from the network; save the picture first"
        raise BadPicture(
            f"Cannot read {short(name, 60)!r}: {why}. Give the path of a picture: {ALLOWED}."
        ) from None


def _read(raw: bytes, name: str) -> "Image":
    from PIL import Image, UnidentifiedImageError

    try:
        # Our own limit comes first. PIL's, which some formats check while they unpack, is a warning at first.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what a camera wrote may be broken
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(raw), formats=FORMATS) as found:
                _check_size(found.size, name)
                found.load()  # of several pictures (an animation), the first
                return _upright(found, name)
    except UnidentifiedImageError:
        raise BadPicture(f"{name!r} is not a picture that can be read here: {ALLOWED}.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(name, "more pixels than can be unpacked safely") from None
    # What a broken file can set off in two dozen decoders: each ends here, with one question: what now?
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        ArithmeticError,
        LookupError,
        TypeError,
    ) as error:
        raise BadPicture(
            f"{name!r} is cut off or broken: {error}. Save the picture once more."
        ) from None


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if not width or not height:
        raise BadPicture(f"{name!r} is empty: {width} x {height} pixels. Give another.")
    if width * height > LIMIT:
        raise _too_large(name, f"{width} x {height} pixels")


def _too_large(name: str, what: str) -> BadPicture:
    return BadPicture(
        f"{name!r} has {what}; at most {LIMIT / 1e6:.0f} million are read, for memory's sake. "
        "Make it smaller: models see a few hundred pixels across."
    )


def _upright(picture: "Image", name: str) -> "Image":
    """Turn a picture as its camera says, and bring every kind of colour to RGB; what is transparent becomes white."""
    from PIL import ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if picture.getexif().get(_ORIENTATION, 1) != 1:
                picture = ImageOps.exif_transpose(picture)
        if picture.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
            return _grey(picture)
        if picture.has_transparency_data:
            return _on_white(picture)
        return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise BadPicture(
            f"{name!r} is cut off or broken: {error}. Save the picture once more."
        ) from None


def _strips(picture: "Image") -> Iterator[tuple[int, "Image"]]:
    """Yield a picture by strips, each with its upper edge: what is made on the way takes no room for all of it."""
    height = max(1, _STRIP // picture.width)
    for top in range(0, picture.height, height):
        yield top, picture.crop((0, top, picture.width, min(top + height, picture.height)))


def _on_white(picture: "Image") -> "Image":
    """Return a picture with white where it is transparent."""
    from PIL import Image

    whole = Image.new("RGB", picture.size)
    for top, strip in _strips(picture):
        strip = strip.convert("RGBA")
        ground = Image.new("RGBA", strip.size, "white")
        whole.paste(Image.alpha_composite(ground, strip).convert("RGB"), (0, top))
    return whole


def _grey(picture: "Image") -> "Image":
    """Return a picture of deep greys in eight bits: sixteen are cut down, numbers from 0 to 1 are shares of white.

    Any other range is stretched.
    """
    from PIL import Image

    smallest, largest = np.inf, -np.inf
    for _, strip in _strips(picture):
        values = np.asarray(strip)
        if not np.isfinite(values).all():
            raise ValueError("some of its pixels are NaN or infinite")
        smallest, largest = min(smallest, float(values.min())), max(largest, float(values.max()))
    low, high = 0.0, 255.0
    if picture.mode.startswith("I;16") or (picture.mode == "I" and largest > 255):
        high = 65535.0
    elif picture.mode == "F" and largest <= 1:
        high = 1.0
    if smallest < low or largest > high:
        low, high = smallest, largest if largest > smallest else smallest + 1
    whole = Image.new("RGB", picture.size)
    for top, strip in _strips(picture):
        values = np.asarray(strip, dtype=np.float64)
        eight = np.round((values - low) / (high - low) * 255).astype(np.uint8)
        whole.paste(Image.fromarray(eight).convert("RGB"), (0, top))
    return whole


def _from_array(values: np.ndarray[Any, Any], name: str) -> "Image":
    from PIL import Image

    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    fits = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))
    if not fits:
        raise BadPicture(
            f"An array of {values.shape} is no picture: give (height, width), (height, width, 3) or "
            "(height, width, 4)."
        )
    _check_size((values.shape[1], values.shape[0]), name)
    if values.dtype.kind == "f":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise BadPicture("An array of real numbers is a picture only if all lie from 0 to 1.")
        values = np.round(values * 255).astype(np.uint8)
    if values.dtype != np.uint8:
        raise BadPicture(
            f"An array of {values.dtype} is no picture: give uint8 (0 to 255), or real numbers from 0 to 1."
        )
    return Image.fromarray(np.ascontiguousarray(values))


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
