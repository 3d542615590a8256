"""Images: safe decoding of files, bytes and arrays; `EncodedImage` with patch grid, patch removal and fills.

A small file can hold an image that fills all memory once it is decoded. Its size is in its header, so it
is checked before a pixel is read.

A removed patch is filled with black, with the image's mean colour, or with the image blurred by a Gaussian as
wide as a patch.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from whence.core.errors import BadParameter, BadPicture, shorten_quote
from whence.core.seed import build_generator

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 64 * 2**20  # some 200 MB once decoded
_MAX_FILE_BYTES = 256 * 2**20  # bytes of an encoded file
_STRIP_PIXELS = 2**20  # pixels of one strip
_EXIF_ORIENTATION = 0x0112  # the EXIF tag of the orientation
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
ALLOWED_IMAGES = "PNG, JPEG, WebP, GIF, BMP, TIFF or PPM"
SAMPLE_IMAGES = 12  # pictures for the built-in model `shapes`, called shapes:0 to shapes:11 (scripts/draw_shapes.py)
_SAMPLE_PREFIX = "shapes:"


def is_image(value: Any) -> bool:
    """Return whether this is a PIL image or an array of pixels."""
    array = isinstance(value, np.ndarray) and value.ndim in (2, 3) and value.dtype.kind in "buif"
    return array or _is_pil_image(value)


def can_read_image(value: Any) -> bool:
    """Return whether this is an image, or bytes or a stream to read one from; paths excluded."""
    return is_image(value) or isinstance(value, bytes | bytearray) or _is_readable(value)


def open_image(source: Any, name: str | None = None) -> "Image":
    """Return an image in RGB, upright and in memory; `name` is its name in errors."""
    name = name or find_image_name(source)
    if _is_readable(source):
        source = source.read()
        if isinstance(source, str):
            raise BadPicture(f"{name!r} holds text. Open the file in binary: open(path, 'rb').")
    if isinstance(source, str) and source.startswith(_SAMPLE_PREFIX):
        source = find_sample_image(source)
    if isinstance(source, np.ndarray):
        source = _from_array(source, name)
    if isinstance(source, str | Path):
        source = _read_file_bytes(Path(source), name)
    if isinstance(source, bytes | bytearray):
        return _decode_image(bytes(source), name)
    if not _is_pil_image(source):
        raise BadPicture(
            f"Cannot take a {type(source).__name__} for a picture. Give a file ({ALLOWED_IMAGES}), a PIL image, an array of "
            "(height, width, 3), or a mapping with 'pixel_values'."
        )
    _check_image_size(source.size, name)
    return _to_upright_rgb(source, name)


def find_image_name(source: Any) -> str:
    """Return the name of an image: its file name, or "the picture"."""
    if isinstance(source, str | Path):
        return Path(source).name
    own = getattr(source, "name", None) or getattr(source, "filename", None)
    return Path(own).name if isinstance(own, str) and own else "the picture"


def find_sample_image(name: str) -> Path:
    """Return the file of a picture that whence ships, by a name such as ``shapes:7``."""
    number = name.removeprefix(_SAMPLE_PREFIX)
    if number not in map(str, range(SAMPLE_IMAGES)):
        raise BadParameter(
            f"{shorten_quote(name)!r} names no picture. whence has {_SAMPLE_PREFIX}0 to {_SAMPLE_PREFIX}{SAMPLE_IMAGES - 1}; "
            "give one of these, or a file."
        )
    return Path(__file__).parent / "pictures" / f"{number}.png"


def _is_pil_image(value: Any) -> bool:
    # Checked by module name, so that PIL is not imported for users of text models.
    return any(kind.__module__ == "PIL.Image" for kind in type(value).__mro__)


def _is_readable(value: Any) -> bool:
    return callable(getattr(value, "read", None)) and not _is_pil_image(value)


def _read_file_bytes(path: Path, name: str) -> bytes:
    try:
        status = path.stat()
        if status.st_size > _MAX_FILE_BYTES:
            raise BadPicture(
                f"{name!r} has {status.st_size / 2**20:.0f} MB; files of at most {_MAX_FILE_BYTES >> 20} MB are read as "
                "pictures. Make it smaller."
            )
        # Reading a pipe or a device might never end.
        if not (S_ISREG(status.st_mode) or S_ISDIR(status.st_mode)):
            raise BadPicture(
                f"{name!r} is no ordinary file. Give the path of a picture: {ALLOWED_IMAGES}."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        if str(path).startswith(("http:", "https:")):
            why = "whence fetches nothing from the network; save the picture first"
        raise BadPicture(
            f"Cannot read {shorten_quote(name, 60)!r}: {why}. Give the path of a picture: {ALLOWED_IMAGES}."
        ) from None


def _decode_image(raw: bytes, name: str) -> "Image":
    from PIL import Image, UnidentifiedImageError

    try:
        # Our limit is checked first. PIL's own, which some formats check while decoding, is made an error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # broken camera metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(raw), formats=IMAGE_FORMATS) as image:
                _check_image_size(image.size, name)
                image.load()  # the first frame of an animation
                return _to_upright_rgb(image, name)
    except UnidentifiedImageError:
        raise BadPicture(
            f"{name!r} is not a picture that can be read here: {ALLOWED_IMAGES}."
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _build_size_error(name, "more pixels than can be unpacked safely") from None
    # Two dozen decoders raise these for broken files; the user needs one error with a remedy.
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


def _check_image_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if not width or not height:
        raise BadPicture(f"{name!r} is empty: {width} x {height} pixels. Give another.")
    if width * height > MAX_PIXELS:
        raise _build_size_error(name, f"{width} x {height} pixels")


def _build_size_error(name: str, what: str) -> BadPicture:
    return BadPicture(
        f"{name!r} has {what}; at most {MAX_PIXELS / 1e6:.0f} million are read, for memory's sake. "
        "Make it smaller: models see a few hundred pixels across."
    )


def _to_upright_rgb(picture: "Image", name: str) -> "Image":
    """Rotate an image by its EXIF tag and convert it to RGB; transparency becomes white."""
    from PIL import ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if picture.getexif().get(_EXIF_ORIENTATION, 1) != 1:
                picture = ImageOps.exif_transpose(picture)
        if picture.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
            return _to_eight_bit_grey(picture)
        if picture.has_transparency_data:
            return _flatten_on_white(picture)
        return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise BadPicture(
            f"{name!r} is cut off or broken: {error}. Save the picture once more."
        ) from None


def _iterate_strips(picture: "Image") -> Iterator[tuple[int, "Image"]]:
    """Yield horizontal strips of an image, each with its top: saves memory for intermediate results."""
    height = max(1, _STRIP_PIXELS // picture.width)
    for top in range(0, picture.height, height):
        yield top, picture.crop((0, top, picture.width, min(top + height, picture.height)))


def _flatten_on_white(picture: "Image") -> "Image":
    """Return an image with its transparent parts on white."""
    from PIL import Image

    whole = Image.new("RGB", picture.size)
    for top, strip in _iterate_strips(picture):
        strip = strip.convert("RGBA")
        ground = Image.new("RGBA", strip.size, "white")
        whole.paste(Image.alpha_composite(ground, strip).convert("RGB"), (0, top))
    return whole


def _to_eight_bit_grey(picture: "Image") -> "Image":
    """Return a 16-bit or float grey image in 8 bits; floats from 0 to 1 are shares of white.

    Any other range is stretched.
    """
    from PIL import Image

    smallest, largest = np.inf, -np.inf
    for _, strip in _iterate_strips(picture):
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
    for top, strip in _iterate_strips(picture):
        values = np.asarray(strip, dtype=np.float64)
        grey = np.round((values - low) / (high - low) * 255).astype(np.uint8)
        whole.paste(Image.fromarray(grey).convert("RGB"), (0, top))
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
    _check_image_size((values.shape[1], values.shape[0]), name)
    if values.dtype.kind == "f":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise BadPicture("An array of real numbers is a picture only if all lie from 0 to 1.")
        values = np.round(values * 255).astype(np.uint8)
    if values.dtype != np.uint8:
        raise BadPicture(
            f"An array of {values.dtype} is no picture: give uint8 (0 to 255), or real numbers from 0 to 1."
        )
    return Image.fromarray(np.ascontiguousarray(values))


# The replacement of a removed patch: black, the picture's mean colour, or the blurred picture.
ImageFill = Literal["black", "mean", "blur"]
IMAGE_FILLS: tuple[ImageFill, ...] = get_args(ImageFill)


@dataclass(frozen=True)
class PatchLayout:
    """The positions of a model's tokens in images of one size."""

    grid: tuple[int, int]  # patches down and across
    lead: int  # tokens before the first patch: a class token, registers
    tokens: int  # tokens in all; 0: there is no one row of them (windows, merged patches)


@dataclass(frozen=True, eq=False)
class EncodedImage:
    """One image, ready for a model."""

    pixels: Tensor  # (channels, height, width), normalised as the model takes them, on the CPU
    grid: tuple[int, int]  # patches down and across
    lead: int  # tokens of the model before the first patch: a class token, registers
    tokens: int  # tokens of the model in all; 0: the model has no one row of them (windows)
    black: tuple[float, ...]  # normalised black, by channel
    shown: np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3), for display
    name: str | None = None
    blot: bytes | None = None  # bit mask of covered pixels, row by row
    fill: ImageFill = "black"
    _fills: dict[ImageFill, Tensor] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def ids(self) -> tuple[int, ...]:
        """Negative ids for the patches, distinct from token ids."""
        return tuple(range(-1, -1 - len(self), -1))

    @cached_property
    def digest(self) -> int:
        """A hash of the pixels."""
        return int.from_bytes(sha256(self.pixels.contiguous().numpy().tobytes()).digest()[:8])

    @property
    def patch(self) -> tuple[int, int]:
        """The height and width of a patch, in pixels."""
        _, height, width = self.pixels.shape
        return height // self.grid[0], width // self.grid[1]

    def without_pixels(
        self, pixels: np.ndarray[Any, np.dtype[np.bool_]], fill: ImageFill
    ) -> "EncodedImage":
        """Return the image with the pixels of a mask (height, width) removed, across patches."""
        image = replace(self, blot=np.packbits(pixels).tobytes(), fill=fill)
        # The pixels are the same, and hashing thousands of variants would be slow.
        image.__dict__["digest"] = self.digest
        return image

    def with_noise(self, radius: float, seed: int) -> "EncodedImage":
        """Return the image with each patch moved in a random direction, by `radius` times its norm."""
        rows = split_patches(self.pixels, self.grid)
        normals = build_generator("noise", seed, self.digest).standard_normal(tuple(rows.shape))
        directions = torch.from_numpy(normals).to(rows)
        noisy = rows + radius * directions * (rows.norm(dim=1) / directions.norm(dim=1))[:, None]
        channels, height, width = self.pixels.shape
        return replace(
            self, pixels=join_patches(noisy, self.grid, (channels, height, width)), _fills={}
        )

    def render_pixels(self) -> Tensor:
        """Return the pixels, with the fill in place of covered ones."""
        if self.blot is None:
            return self.pixels
        size = self.pixels.shape[1:]
        bits = np.unpackbits(np.frombuffer(self.blot, np.uint8), count=size.numel())
        covered = torch.from_numpy(bits).reshape(size).bool()
        return torch.where(covered, self.build_fill(self.fill), self.pixels)

    def spread_over_pixels(self, patches: Tensor) -> Tensor:
        """Spread one value for each patch over its pixels, (..., height, width)."""
        down, across = self.patch
        rows = patches.reshape(*patches.shape[:-1], *self.grid).repeat_interleave(down, -2)
        return rows.repeat_interleave(across, -1)

    def build_fill(self, fill: ImageFill) -> Tensor:
        """Return the pixels that replace removed ones."""
        if fill in self._fills:
            return self._fills[fill]
        colour = self.pixels.new_tensor(self.black)
        if fill == "mean":
            colour = self.pixels.mean((1, 2))
        if fill != "blur":
            return self._fills.setdefault(fill, colour[:, None, None].expand_as(self.pixels))
        # A Gaussian with a sigma of one patch: wide enough to hide the content of the patch.
        sigma = float(max(self.patch))
        reach = int(min(3 * sigma, *(side - 1 for side in self.pixels.shape[1:])))
        places = torch.arange(-reach, reach + 1, dtype=self.pixels.dtype)
        weights = torch.exp(-(places**2) / (2 * sigma**2))
        weights = (weights / weights.sum()).expand(self.pixels.shape[0], 1, -1)
        wide = F.pad(self.pixels[None], (reach,) * 4, mode="reflect")
        channels = self.pixels.shape[0]
        wide = F.conv2d(wide, weights[:, :, :, None], groups=channels)
        blurred = F.conv2d(wide, weights[:, :, None, :], groups=channels)[0]
        return self._fills.setdefault(fill, blurred)


def split_patches(pixels: Tensor, grid: tuple[int, int]) -> Tensor:
    """Split pixels (..., channels, height, width) into (..., patches, channels x pixels of a patch)."""
    *front, channels, height, width = pixels.shape
    down, across = height // grid[0], width // grid[1]
    cut = pixels.reshape(*front, channels, grid[0], down, grid[1], across)
    n = len(front)
    order = (*range(n), n + 1, n + 3, n, n + 2, n + 4)
    return cut.permute(order).reshape(*front, grid[0] * grid[1], channels * down * across)


def join_patches(patches: Tensor, grid: tuple[int, int], size: tuple[int, int, int]) -> Tensor:
    """Join the rows of `split_patches` to pixels; `size` is channels, height, width."""
    *front, _, _ = patches.shape
    channels, height, width = size
    down, across = height // grid[0], width // grid[1]
    cut = patches.reshape(*front, *grid, channels, down, across)
    n = len(front)
    order = (*range(n), n + 2, n, n + 3, n + 1, n + 4)
    return cut.permute(order).reshape(*front, channels, height, width)
