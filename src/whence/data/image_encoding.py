"""Pictures to pixels as a model takes them, cut into patches that have a place each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import BadPicture
from whence.core.types import Source, Token, Word
from whence.data.text.encode import Encoded
from whence.data.vision.image import name_of, opened
from whence.data.vision.picture import Layout, Picture


@dataclass(frozen=True)
class Colours:
    """How pixels from 0 to 255 became what a model takes: (pixel x factor - mean) / deviation, by channel."""

    factor: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, processor: Any) -> "Colours":
        """Ask an image processor."""
        rescales = getattr(processor, "do_rescale", True)
        normalises = getattr(processor, "do_normalize", True)
        mean = getattr(processor, "image_mean", None) if normalises else None
        deviation = getattr(processor, "image_std", None) if normalises else None
        return cls(
            float(getattr(processor, "rescale_factor", 1 / 255)) if rescales else 1.0,
            tuple(map(float, mean or (0.0,))),
            tuple(map(float, deviation or (1.0,))),
        )

    def black(self, channels: int) -> tuple[float, ...]:
        """Return what black is to the model."""
        pairs = zip(_each(self.mean, channels), _each(self.deviation, channels), strict=True)
        return tuple(-mean / deviation for mean, deviation in pairs)

    def shown(self, pixels: Tensor) -> Tensor:
        """Return what the model sees, from 0 to 255."""
        channels = len(pixels)
        mean = pixels.new_tensor(_each(self.mean, channels))[:, None, None]
        deviation = pixels.new_tensor(_each(self.deviation, channels))[:, None, None]
        return (pixels * deviation + mean) / self.factor


def _each(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values if len(values) == channels else values[:1] * channels


def see(
    given: Any, processor: Any, *, dtype: torch.dtype, lay: Callable[[Tensor], Layout]
) -> list[Encoded]:
    """Take a picture, or pixel values of one or several; `lay` says where a model's patches are in pixels."""
    if isinstance(given, Mapping) or hasattr(given, "keys"):
        every, name = _given_pixels(given), None
    else:
        every, name = _processed(given, processor)[None], name_of(given)
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    colours = None if processor is None else Colours.of(processor)
    return [_encoded(pixels.to(kept), lay, colours, name) for pixels in every]


def _processed(given: Any, processor: Any) -> Tensor:
    picture = opened(given)
    if processor is None:
        raise BadPicture(
            "The model has no image processor, so that a picture cannot be brought into the form it takes. Pass one "
            "(whence.load(model, processor=...)), or give pixels: a mapping with 'pixel_values'."
        )
    try:
        found = processor(images=picture, return_tensors="np")["pixel_values"]
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadPicture(
            f"The image processor cannot take {name_of(given)!r} of {picture.width} x {picture.height} pixels: "
            f"{error}. Give another picture, or pixels: a mapping with 'pixel_values'."
        ) from None
    return torch.from_numpy(np.array(found[0]))


def _given_pixels(given: Any) -> Tensor:
    names = sorted(map(str, given.keys()))
    if "pixel_values" not in names:
        raise BadPicture(
            f"An encoded picture needs 'pixel_values'; this mapping has {names}. Give what the image processor "
            "returned."
        )
    if others := [name for name in names if name not in ("pixel_values", "labels")]:
        raise BadPicture(
            f"A picture model does not take {others[0]!r}. Leave it out of the mapping."
        )
    try:
        pixels = _tensor(given["pixel_values"])
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadPicture(f"'pixel_values' must be one array of numbers: {error}.") from None
    if pixels.dim() == 3:
        pixels = pixels[None]
    if pixels.dim() != 4 or not pixels.numel():
        raise BadPicture(
            "'pixel_values' must be (channels, height, width), or that for several pictures. "
            f"Got {tuple(pixels.shape)}."
        )
    if not pixels.is_floating_point():
        kind = str(pixels.dtype).removeprefix("torch.")
        raise BadPicture(
            f"'pixel_values' are {kind}: they must be real numbers, normalised as the model was trained. Give the "
            "picture itself, or what the image processor returned."
        )
    if not pixels.isfinite().all():
        raise BadPicture("'pixel_values' hold NaN or infinity. Give finite numbers.")
    return pixels


def _tensor(value: Any) -> Tensor:
    """Take a tensor, an array, or a list of either."""
    if isinstance(value, Sequence) and value and isinstance(value[0], Tensor):
        value = torch.stack(list(value))
    found = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    return found.detach().cpu()


def _encoded(
    pixels: Tensor, lay: Callable[[Tensor], Layout], colours: Colours | None, name: str | None
) -> Encoded:
    laid = lay(pixels)
    if colours is None:
        # How these were normalised is not known: the darkest that there is stands for black.
        low, high = pixels.amin(), pixels.amax()
        black = (float(low),) * len(pixels)
        shown = (pixels - low) / (high - low).clamp(min=torch.finfo(pixels.dtype).tiny) * 255
    else:
        black, shown = colours.black(len(pixels)), colours.shown(pixels)
    picture = Picture(pixels, laid.grid, laid.lead, laid.tokens, black, _eight_bits(shown), name)
    tokens, words = [], []
    for number in range(len(picture)):
        row, column = divmod(number, laid.grid[1])
        text = f"row {row + 1}, column {column + 1}"
        tokens.append(Token(text, None, None, 0, False, picture.ids[number]))
        words.append(Word(text, None, None, 0, (number,)))
    return Encoded({}, tuple(tokens), tuple(words), Source(None), picture)


def _eight_bits(shown: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return (height, width, 3): of channels that are no colours, their mean in grey."""
    if len(shown) != 3:
        shown = shown.mean(0, keepdim=True).expand(3, -1, -1)
    eight = shown.clamp(0, 255).round().to(torch.uint8)
    found: np.ndarray[Any, np.dtype[np.uint8]] = eight.permute(1, 2, 0).contiguous().numpy()
    return found
