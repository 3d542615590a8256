"""Encoding of images for a model: normalised pixel values, and one token for each patch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import BadPicture
from whence.core.types import InputText, Token, Word
from whence.data.images import EncodedImage, PatchLayout, find_image_name, open_image
from whence.data.tokens import EncodedInput


@dataclass(frozen=True)
class PixelNormalisation:
    """The normalisation of pixels from 0 to 255: (pixel x factor - mean) / deviation, by channel."""

    factor: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, processor: Any) -> "PixelNormalisation":
        """Return the normalisation of an image processor."""
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
        """Return normalised black, by channel."""
        pairs = zip(
            _repeat_channels(self.mean, channels),
            _repeat_channels(self.deviation, channels),
            strict=True,
        )
        return tuple(-mean / deviation for mean, deviation in pairs)

    def denormalise(self, pixels: Tensor) -> Tensor:
        """Return the pixels from 0 to 255."""
        channels = len(pixels)
        mean = pixels.new_tensor(_repeat_channels(self.mean, channels))[:, None, None]
        deviation = pixels.new_tensor(_repeat_channels(self.deviation, channels))[:, None, None]
        return (pixels * deviation + mean) / self.factor


def _repeat_channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values if len(values) == channels else values[:1] * channels


def encode_image(
    source: Any, processor: Any, *, dtype: torch.dtype, lay: Callable[[Tensor], PatchLayout]
) -> list[EncodedInput]:
    """Encode an image, or pixel values of one or several; `lay` returns the patch layout of pixels."""
    if isinstance(source, Mapping) or hasattr(source, "keys"):
        images, name = _parse_pixel_values(source), None
    else:
        images, name = _process_image(source, processor)[None], find_image_name(source)
    pixel_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    colours = None if processor is None else PixelNormalisation.of(processor)
    return [_encode_pixels(pixels.to(pixel_dtype), lay, colours, name) for pixels in images]


def _process_image(source: Any, processor: Any) -> Tensor:
    picture = open_image(source)
    if processor is None:
        raise BadPicture(
            "The model has no image processor, so that a picture cannot be brought into the form it takes. Pass one "
            "(whence.load(model, processor=...)), or give pixels: a mapping with 'pixel_values'."
        )
    try:
        pixels = processor(images=picture, return_tensors="np")["pixel_values"]
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadPicture(
            f"The image processor cannot take {find_image_name(source)!r} of {picture.width} x {picture.height} pixels: "
            f"{error}. Give another picture, or pixels: a mapping with 'pixel_values'."
        ) from None
    return torch.from_numpy(np.array(pixels[0]))


def _parse_pixel_values(mapping: Any) -> Tensor:
    names = sorted(map(str, mapping.keys()))
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
        pixels = _to_tensor(mapping["pixel_values"])
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


def _to_tensor(value: Any) -> Tensor:
    """Convert a tensor, an array, or a list of either to a tensor on the CPU."""
    if isinstance(value, Sequence) and value and isinstance(value[0], Tensor):
        value = torch.stack(list(value))
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    return tensor.detach().cpu()


def _encode_pixels(
    pixels: Tensor,
    lay: Callable[[Tensor], PatchLayout],
    colours: PixelNormalisation | None,
    name: str | None,
) -> EncodedInput:
    laid = lay(pixels)
    if colours is None:
        # The normalisation is unknown: the darkest value is taken for black.
        low, high = pixels.amin(), pixels.amax()
        black = (float(low),) * len(pixels)
        view = (pixels - low) / (high - low).clamp(min=torch.finfo(pixels.dtype).tiny) * 255
    else:
        black, view = colours.black(len(pixels)), colours.denormalise(pixels)
    picture = EncodedImage(pixels, laid.grid, laid.lead, laid.tokens, black, _to_uint8(view), name)
    tokens, words = [], []
    for number in range(len(picture)):
        row, column = divmod(number, laid.grid[1])
        text = f"row {row + 1}, column {column + 1}"
        tokens.append(Token(text, None, None, 0, False, picture.ids[number]))
        words.append(Word(text, None, None, 0, (number,)))
    return EncodedInput({}, tuple(tokens), tuple(words), InputText(None), picture)


def _to_uint8(pixels: Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return pixels for display, (height, width, 3); channels other than three become their grey mean."""
    if len(pixels) != 3:
        pixels = pixels.mean(0, keepdim=True).expand(3, -1, -1)
    rounded = pixels.clamp(0, 255).round().to(torch.uint8)
    array: np.ndarray[Any, np.dtype[np.uint8]] = rounded.permute(1, 2, 0).contiguous().numpy()
    return array
