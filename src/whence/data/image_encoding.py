"""Encoding of images for a model: normalised pixel values, and one token for each patch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import BadPicture
from whence.core.types import InputText, Token, Word
from whence.data.images import EncodedImage, PatchLayout, find_image_name, open_image
from whence.data.tokens import EncodedInput


def encode_image(
    source: Any, processor: Any, *, dtype: torch.dtype, lay: Callable[[Tensor], PatchLayout]
) -> list[EncodedInput]:
    """Encode an image, or pixel values of one or several; `lay` returns the patch layout of pixels."""
    if isinstance(source, Mapping) or hasattr(source, "keys"):
        images, name = _parse_pixel_values(source), None
    else:
        images, name = _process_image(source, processor)[None], find_image_name(source)
    pixel_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    return [_encode_pixels(pixels.to(pixel_dtype), lay, processor, name) for pixels in images]


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
        value = mapping["pixel_values"]
        if isinstance(value, Sequence) and value and isinstance(value[0], Tensor):
            value = torch.stack(list(value))
        pixels = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
        pixels = pixels.detach().cpu()
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


def _encode_pixels(
    pixels: Tensor, lay: Callable[[Tensor], PatchLayout], processor: Any, name: str | None
) -> EncodedInput:
    laid, channels = lay(pixels), len(pixels)
    if processor is None:
        # The normalisation is unknown: the darkest value is taken for black.
        low, high = pixels.amin(), pixels.amax()
        black = (float(low),) * channels
        view = (pixels - low) / (high - low).clamp(min=torch.finfo(pixels.dtype).tiny) * 255
    else:
        factor, mean, deviation = read_normalisation(processor, channels)
        black = tuple(-m / d for m, d in zip(mean, deviation, strict=True))
        scale, shift = (pixels.new_tensor(own)[:, None, None] for own in (deviation, mean))
        view = (pixels * scale + shift) / factor
    if channels != 3:  # their grey mean is shown
        view = view.mean(0, keepdim=True).expand(3, -1, -1)
    shown = view.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    picture = EncodedImage(pixels, laid.grid, laid.lead, laid.tokens, black, shown, name)
    tokens, words = [], []
    for number, identity in enumerate(picture.ids):
        row, column = divmod(number, laid.grid[1])
        text = f"row {row + 1}, column {column + 1}"
        tokens.append(Token(text, None, None, 0, False, identity))
        words.append(Word(text, None, None, 0, (number,)))
    return EncodedInput({}, tuple(tokens), tuple(words), InputText(None), picture)


def read_normalisation(
    processor: Any, channels: int
) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Return factor, mean and deviation of an image processor, the last two by channel.

    They turn pixels from 0 to 255 into (pixel x factor - mean) / deviation.
    """
    rescales = getattr(processor, "do_rescale", True)
    normalises = getattr(processor, "do_normalize", True)
    mean = (getattr(processor, "image_mean", None) if normalises else None) or (0.0,)
    deviation = (getattr(processor, "image_std", None) if normalises else None) or (1.0,)
    both = [tuple(map(float, own)) for own in (mean, deviation)]
    shift, scale = (own if len(own) == channels else own[:1] * channels for own in both)
    return float(getattr(processor, "rescale_factor", 1 / 255)) if rescales else 1.0, shift, scale
