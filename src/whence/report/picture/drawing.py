"""A sheet of maps as one PNG file: the picture, every method and every class side by side, with captions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np

from whence.report.picture.colour import SCALE, hues, strengths
from whence.report.picture.maps import Map, arranged, predicted, shown
from whence.report.picture.png import Pixels, png
from whence.report.text import visible

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

_PAPER, _INK, _DIM = (255, 255, 255), (27, 31, 36), (92, 102, 112)
_MARGIN, _GAP = 28, 16
_CAPTION = 70  # under each map
_LARGE, _MIDDLE, _SMALL = 24, 17, 15
_LINE = 19  # of small letters
_ACROSS = 5  # maps beside the picture; more go to the next line
_NARROWEST = 560  # of a sheet, or its lines of text would not fit


def sheet(payloads: Sequence[dict[str, Any]]) -> bytes:
    """Return the maps of one picture, a payload for each class, as a PNG file."""
    picture = shown(payloads[0])
    rows = _folded(arranged(payloads, picture))
    said, source = predicted(payloads), _source(payloads[0])
    maps = "; ".join(f"{one.method} for {one.title}, {one.reach}" for row in rows for one in row)
    # In the letters of the labels, which the drawing's font may lack.
    told = f"{source}: {said}. {maps}. {SCALE}"
    return png(_drawn(said, source, picture, rows), {"Description": told})


def _folded(rows: list[list[Map]]) -> list[list[Map]]:
    return [row[at : at + _ACROSS] for row in rows for at in range(0, len(row), _ACROSS)]


def _source(payload: dict[str, Any]) -> str:
    name = payload["picture"].get("name")
    return visible(payload["model"]["name"] + (f", {name}" if name else ""))


def _drawn(said: str, source: str, picture: Pixels, rows: list[list[Map]]) -> Pixels:
    from PIL import Image, ImageDraw

    high, wide = picture.shape[:2]
    columns = 1 + max(map(len, rows))
    width = max(_NARROWEST, 2 * _MARGIN + columns * (wide + _GAP) - _GAP)
    top = _MARGIN + 64
    below = top + len(rows) * (high + _CAPTION + _GAP)
    kinds = list(dict.fromkeys(one.signed for row in rows for one in row))
    room = width - 2 * _MARGIN
    foot = _wrapped(SCALE, _SMALL, room)
    end = below + 34 * len(kinds) + 6
    canvas = Image.new("RGB", (width, end + _LINE * len(foot) + _MARGIN), _PAPER)
    pen = _Pen(ImageDraw.Draw(canvas))
    pen.write(_MARGIN, _MARGIN - 4, said, _LARGE, _INK, room)
    pen.write(_MARGIN, _MARGIN + 29, source, _SMALL, _DIM, room)
    for number, row in enumerate(rows):
        y = top + number * (high + _CAPTION + _GAP)
        if not number:
            canvas.paste(Image.fromarray(picture), (_MARGIN, y))
            pen.write(_MARGIN, y + high + 6, "the picture", _MIDDLE, _INK, wide)
            pen.write(_MARGIN, y + high + 28, "as the model sees it", _SMALL, _DIM, wide)
        for place, one in enumerate(row, start=1):
            x = _MARGIN + place * (wide + _GAP)
            canvas.paste(Image.fromarray(one.pixels), (x, y))
            pen.write(x, y + high + 6, one.method, _MIDDLE, _INK, wide)
            pen.write(x, y + high + 28, f"for {one.title}", _SMALL, _DIM, wide)
            pen.write(x, y + high + 47, one.reach, _SMALL, _DIM, wide)
    for number, signed in enumerate(kinds):
        y = below + 34 * number
        canvas.paste(Image.fromarray(_bar(signed)), (_MARGIN, y + 2))
        key = (
            "from against the class to for it"
            if signed
            else "from the least to the most, without sign"
        )
        pen.write(_MARGIN + 190, y, key, _SMALL, _DIM, room - 190)
    for number, line in enumerate(foot):
        pen.write(_MARGIN, end + _LINE * number, line, _SMALL, _DIM, room)
    return np.asarray(canvas)


def _bar(signed: bool, width: int = 176, height: int = 14) -> Pixels:
    """Return the key to the colours, on the dark grey that they stand on."""
    values = np.linspace(-1.0 if signed else 0.0, 1.0, width)
    alpha = strengths(values)[:, None]
    line = 60 * (1 - alpha) + hues(values, signed=signed) * alpha
    return np.repeat(np.round(line).astype(np.uint8)[None], height, axis=0)


class _Pen:
    """Writes lines that fit, in the letters that the built-in font has."""

    def __init__(self, draw: "ImageDraw") -> None:
        self._draw = draw

    def write(
        self, x: int, y: int, text: str, size: int, ink: tuple[int, int, int], room: int
    ) -> None:
        """Write one line, with its end cut off where there is no room."""
        font, line = _font(size), _letters(text)
        if self._draw.textlength(line, font) > room:
            while line and self._draw.textlength(f"{line}...", font) > room:
                line = line[:-1]
            line = f"{line.rstrip()}..."
        self._draw.text((x, y), line, ink, font)


def _wrapped(text: str, size: int, room: int) -> list[str]:
    """Cut a sentence into lines that fit."""
    font, lines = _font(size), [""]
    for word in _letters(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _font(size: int) -> "FreeTypeFont | ImageFont":
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _letters(text: str) -> str:
    """Write a text in the letters of the font: without accents, and with a question mark for any other sign."""
    plain = normalize("NFKD", text)
    return "".join(
        sign if sign.isascii() else "" if 0x300 <= ord(sign) < 0x370 else "?" for sign in plain
    )
