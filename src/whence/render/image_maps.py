"""Score maps over a picture: for pages, and as one PNG. Pillow is imported where it is needed.

One map for each method and class lies over the picture in dark grey, the stronger the score, the more opaque. Between
the centres of patches a map is interpolated.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import combining, normalize

import numpy as np

from whence.render.colour import (
    FLAT_MAP_NOTE,
    IMAGE_SCALE_NOTE,
    compute_heatmap,
    compute_hues,
    compute_opacity,
    format_target,
    get_colour_scale,
    scale_scores,
)
from whence.render.text import describe_prediction, format_unit, sanitise_text

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3)


def encode_png(pixels: Pixels, texts: Mapping[str, str] | None = None) -> bytes:
    """Return an image as PNG bytes; `texts` are text entries of the file, such as a description."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    notes = PngInfo()
    for name, text in (texts or {}).items():
        notes.add_itxt(name, text)
    stream = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "PNG", pnginfo=notes, optimize=True)
    return stream.getvalue()


def encode_png_base64(pixels: Pixels) -> str:
    """Return an image as a base64 PNG for a JSON object."""
    return b64encode(encode_png(pixels)).decode("ascii")


def decode_png_base64(letters: str) -> Pixels:
    """Return the pixels of an image encoded by `encode_png_base64`."""
    from PIL import Image

    with Image.open(BytesIO(b64decode(letters, validate=True)), formats=["PNG"]) as picture:
        return np.asarray(picture.convert("RGB"))


def resize_image(pixels: Pixels, height: int, width: int) -> Pixels:
    """Resize an image: nearest pixel for enlargement by whole numbers, otherwise Lanczos."""
    from PIL import Image

    if (height, width) == pixels.shape[:2]:
        return pixels
    grows = height % pixels.shape[0] == 0 and width % pixels.shape[1] == 0
    how = Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), how))


# Pixels of the longer side: larger pictures are reduced, smaller ones enlarged.
_MAX_SIDE, _MIN_SIDE = 384, 256


class ScoreMap(NamedTuple):
    """The scores of one method for one class, drawn over the picture."""

    method: str
    title: str  # the class and its probability
    signed: bool
    reach: str  # range of the scores, in words
    pixels: Pixels


def decode_display_image(payload: Mapping[str, Any]) -> Pixels:
    """Return the picture of a payload, enlarged or reduced for display."""
    pixels = decode_png_base64(payload["picture"]["png"])
    longest = max(pixels.shape[:2])
    enlarged = max(1, round(_MIN_SIDE / longest))
    times = enlarged if longest <= _MIN_SIDE else min(1.0, _MAX_SIDE / longest)
    height, width = (max(1, round(side * times)) for side in pixels.shape[:2])
    return resize_image(pixels, height, width)


def arrange_score_maps(
    payloads: Sequence[Mapping[str, Any]], picture: Pixels
) -> list[list[ScoreMap]]:
    """Draw every explanation over its picture: one row for each class, or a single row if there is only one method."""
    rows = []
    for payload in payloads:
        name = format_target(payload["target"])
        shares = {} if payload["target"].get("against") else payload["prediction"]["probabilities"]
        title = f"{name} ({shares[name]:.1%})" if name in shares else name
        row = []
        for own in payload.get("explanations") or payload["methods"]:
            signed, floor = own["signed"], get_colour_scale(own)["floor"]
            grid = payload["picture"]["grid"]
            drawn = overlay_scores(picture, own["scores"], grid, signed=signed, floor=floor)
            row.append(ScoreMap(own["method"], title, signed, describe_score_range(own), drawn))
        rows.append(row)
    alone = all(len(row) == 1 for row in rows)
    return [[panel for row in rows for panel in row]] if alone else rows


def describe_score_range(explanation: Mapping[str, Any]) -> str:
    """Describe the range of the scores and their unit, or why the map is blank."""
    scores, note = explanation["scores"], get_colour_scale(explanation)["note"]
    if not scale_scores(scores, signed=explanation["signed"]).any():
        return FLAT_MAP_NOTE
    sign = "+" if explanation["signed"] else ""
    text = (
        f"scores from {min(scores):{sign}.3g} to {max(scores):{sign}.3g}{format_unit(explanation)}"
    )
    return f"{text}. {note}" if note else text


_PAPER, _INK, _DIM = (255, 255, 255), (27, 31, 36), (92, 102, 112)
_MARGIN, _SHEET_GAP, _CAPTION_HEIGHT, _LINE_HEIGHT = 28, 16, 70, 19
_LARGE_FONT, _MIDDLE_FONT, _SMALL_FONT = 24, 17, 15
_MAPS_PER_ROW = 5  # maps beside the picture; more go to the next row
_MIN_SHEET_WIDTH = 560  # narrower sheets have no space for the lines of text
_SIGNED_KEY = "from against the class to for it"
_UNSIGNED_KEY = "from the least to the most, without sign"


def render_image_sheet_png(payloads: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the maps of one picture, with one payload for each class, as PNG bytes."""
    first = payloads[0]
    picture = decode_display_image(first)
    rows = [
        row[at : at + _MAPS_PER_ROW]
        for row in arrange_score_maps(payloads, picture)
        for at in range(0, len(row), _MAPS_PER_ROW)
    ]
    name = first["picture"].get("name")
    source = first["model"]["name"] + (f", {name}" if name else "")
    headline = describe_prediction(first, with_target=len(payloads) == 1)
    maps = "; ".join(f"{one.method} for {one.title}, {one.reach}" for row in rows for one in row)
    # The description keeps the labels' own characters, which the drawing's font may lack.
    text = sanitise_text(f"{source}: {headline}. {maps}. {IMAGE_SCALE_NOTE}")
    return encode_png(_draw_image_sheet(headline, source, picture, rows), {"Description": text})


def _draw_image_sheet(
    headline: str, source: str, picture: Pixels, rows: list[list[ScoreMap]]
) -> Pixels:
    from PIL import Image, ImageDraw

    high, wide = picture.shape[:2]
    columns = 1 + max(map(len, rows))
    width = max(_MIN_SHEET_WIDTH, 2 * _MARGIN + columns * (wide + _SHEET_GAP) - _SHEET_GAP)
    room = width - 2 * _MARGIN
    top, tall = _MARGIN + 64, high + _CAPTION_HEIGHT + _SHEET_GAP
    kinds = list(dict.fromkeys(panel.signed for row in rows for panel in row))
    foot = _fit_lines(IMAGE_SCALE_NOTE, _SMALL_FONT, room)
    below = top + len(rows) * tall
    end = below + 34 * len(kinds) + 6
    canvas = Image.new("RGB", (width, end + _LINE_HEIGHT * len(foot) + _MARGIN), _PAPER)
    draw = ImageDraw.Draw(canvas)

    def write(x: int, y: int, text: str, size: int, most: int) -> None:
        (line, *more), font = _fit_lines(text, size, most), _load_font(size)
        if more or font.getlength(line) > most:
            while line and font.getlength(f"{line}...") > most:
                line = line[:-1]
            line = f"{line.rstrip()}..."
        draw.text((x, y), line, _DIM if size == _SMALL_FONT else _INK, font)

    write(_MARGIN, _MARGIN - 4, headline, _LARGE_FONT, room)
    write(_MARGIN, _MARGIN + 29, source, _SMALL_FONT, room)
    for number, row in enumerate(rows):
        panels = [(one.pixels, one.method, f"for {one.title}", one.reach) for one in row]
        if not number:  # only the first row starts with the picture
            panels.insert(0, (picture, "the picture", "as the model sees it", ""))
        for place, (pixels, title, under, reach) in enumerate(panels, bool(number)):
            x, y = _MARGIN + place * (wide + _SHEET_GAP), top + number * tall
            canvas.paste(Image.fromarray(pixels), (x, y))
            write(x, y + high + 6, title, _MIDDLE_FONT, wide)
            write(x, y + high + 28, under, _SMALL_FONT, wide)
            write(x, y + high + 47, reach, _SMALL_FONT, wide)
    for number, signed in enumerate(kinds):
        values = np.linspace(-1.0 if signed else 0.0, 1.0, 176)[None]
        key = _mix_colours(np.full((1, 176, 3), 60.0), values, signed=signed)
        at = below + 34 * number
        canvas.paste(Image.fromarray(np.repeat(key, 14, axis=0)), (_MARGIN, at + 2))
        write(_MARGIN + 190, at, _SIGNED_KEY if signed else _UNSIGNED_KEY, _SMALL_FONT, room - 190)
    for number, line in enumerate(foot):
        draw.text((_MARGIN, end + _LINE_HEIGHT * number), line, _DIM, _load_font(_SMALL_FONT))
    return np.asarray(canvas)


def _fit_lines(text: str, size: int, room: int) -> list[str]:
    """Break a text into lines that fit; Pillow's own font has ASCII only, so accents go and others become "?"."""
    letters = (sign for sign in normalize("NFKD", text) if not combining(sign))
    plain = "".join(sign if sign.isascii() else "?" for sign in letters)
    font, lines = _load_font(size), [""]
    for word in sanitise_text(plain).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _load_font(size: int) -> "FreeTypeFont | ImageFont":
    from PIL import ImageFont

    return ImageFont.load_default(size)


_LUMINANCE = np.array([0.299, 0.587, 0.114])  # perceived brightness of red, green and blue
# The share of the picture's brightness that remains, and the grey level of black.
_BRIGHTNESS_SHARE, _BLACK_LEVEL = 0.42, 16.0


def dim_image(picture: Pixels) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the image in dark grey, so that all colour comes from the map."""
    grey = _BLACK_LEVEL + _BRIGHTNESS_SHARE * (picture @ _LUMINANCE)
    return np.repeat(grey[..., None], 3, axis=-1)


def overlay_scores(
    picture: Pixels, scores: Any, grid: Sequence[int], *, signed: bool, floor: float | None = None
) -> Pixels:
    """Return the image in dark grey with patch scores over it: the larger, the more opaque."""
    values = compute_heatmap(
        scale_scores(scores, signed=signed, floor=floor), grid, picture.shape[:2]
    )
    return _mix_colours(dim_image(picture), values, signed=signed)


def _mix_colours(
    grey: np.ndarray[Any, Any], values: np.ndarray[Any, Any], *, signed: bool
) -> Pixels:
    """Return scaled values in their colours over grey."""
    alpha = compute_opacity(values)[..., None]
    mixed = grey * (1 - alpha) + compute_hues(values, signed=signed) * alpha
    return np.clip(np.round(mixed), 0, 255).astype(np.uint8)
