"""Pixels to the bytes of a PNG file and back."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3)


def png(pixels: Pixels, told: Mapping[str, str] | None = None) -> bytes:
    """Return a picture as a PNG file; `told` are texts that go with it, such as a description."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    for name, text in (told or {}).items():
        notes.add_itxt(name, text)
    stream = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "PNG", pnginfo=notes, optimize=True)
    return stream.getvalue()


def encoded(pixels: Pixels) -> str:
    """Return a picture as a PNG in letters, as a JSON object carries it."""
    return b64encode(png(pixels)).decode("ascii")


def decoded(letters: str) -> Pixels:
    """Return the pixels of a picture that `encoded` wrote."""
    from PIL import Image

    with Image.open(BytesIO(b64decode(letters, validate=True)), formats=["PNG"]) as picture:
        return np.asarray(picture.convert("RGB"))


def resized(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return a picture in another size: pixels stay sharp where it grows by a whole number, and blend otherwise."""
    from PIL import Image

    if (height, width) == pixels.shape[:2]:
        return pixels
    grows = height % pixels.shape[0] == 0 and width % pixels.shape[1] == 0
    how = Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), how))
