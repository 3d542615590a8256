"""Score maps over an image: PNG sheet, HTML figures and patch tables, terminal blocks or digits; PNG encoding.

One map for each method and class lies over the image in dark grey, the stronger the score, the more
opaque. Between the centres of patches a map is interpolated. In a terminal, half a character is a pixel;
without 24-bit colour a digit stands for each patch, 9 for the strongest. Pillow is imported where it is
needed.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

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
from whence.render.text import (
    describe_prediction,
    format_unit,
    sanitise_text,
)

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
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


_MAX_SIDE, _MIN_SIDE = (
    384,
    256,
)  # pixels of the longer side: larger images are reduced, smaller ones enlarged


@dataclass(frozen=True)
class ScoreMap:
    """The scores of one method for one class, drawn over the image."""

    method: str
    target: str
    share: float | None  # the probability of the class
    signed: bool
    reach: str  # range of the scores, in words
    pixels: Pixels

    @property
    def title(self) -> str:
        """The class and its probability."""
        return self.target if self.share is None else f"{self.target} ({self.share:.1%})"


def decode_display_image(payload: Mapping[str, Any]) -> Pixels:
    """Return the image of a payload, enlarged or reduced for display."""
    pixels = decode_png_base64(payload["picture"]["png"])
    height, width = pixels.shape[:2]
    longest = max(height, width)
    if longest > _MAX_SIDE:
        return resize_image(
            pixels, *(max(1, round(side * _MAX_SIDE / longest)) for side in (height, width))
        )
    times = max(1, round(_MIN_SIDE / longest))
    return resize_image(pixels, height * times, width * times)


def build_score_maps(payload: Mapping[str, Any], picture: Pixels) -> list[ScoreMap]:
    """Draw every explanation of a payload over its image."""
    target = payload["target"]
    share = (
        None
        if target.get("against")
        else payload["prediction"]["probabilities"].get(target["label"])
    )
    return [
        ScoreMap(
            sanitise_text(explanation["method"]),
            sanitise_text(format_target(target)),
            share,
            explanation["signed"],
            describe_score_range(explanation),
            overlay_scores(
                picture,
                explanation["scores"],
                payload["picture"]["grid"],
                signed=explanation["signed"],
                floor=get_colour_scale(explanation, "patch")["floor"],
            ),
        )
        for explanation in payload.get("explanations") or payload["methods"]
    ]


def arrange_score_maps(payloads: Sequence[dict[str, Any]], picture: Pixels) -> list[list[ScoreMap]]:
    """Arrange maps in rows: one row per class, or a single row if there is only one method."""
    rows = [build_score_maps(payload, picture) for payload in payloads]
    if all(len(row) == 1 for row in rows):
        return [[panel for row in rows for panel in row]]
    return rows


def describe_group_prediction(payloads: Sequence[dict[str, Any]]) -> str:
    """Describe the prediction; with several explained classes, without naming a target."""
    first = payloads[0]
    if len(payloads) == 1:
        return describe_prediction(first)
    return describe_prediction({**first, "target": {"index": first["prediction"]["index"]}})


def describe_score_range(explanation: Mapping[str, Any]) -> str:
    """Describe the range of the scores and their unit, or why the map is blank."""
    scores = np.asarray(explanation["scores"], dtype=np.float64)
    if not scale_scores(scores, signed=explanation["signed"]).any():
        return FLAT_MAP_NOTE
    sign = "+" if explanation["signed"] else ""
    scale = get_colour_scale(explanation, "patch")
    text = f"scores from {scores.min():{sign}.3g} to {scores.max():{sign}.3g}{format_unit(explanation)}"
    return f"{text}. {scale['note']}" if scale["note"] else text


def group_by_image(payloads: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group consecutive payloads of the same image; a payload without image is a group of its own."""
    groups: list[list[dict[str, Any]]] = []
    for payload in payloads:
        own = payload.get("picture")
        if own and groups and groups[-1][0].get("picture") == own:
            groups[-1].append(payload)
        else:
            groups.append([payload])
    return groups


_PAPER, _INK, _DIM = (255, 255, 255), (27, 31, 36), (92, 102, 112)
_MARGIN, _SHEET_GAP = 28, 16
_CAPTION_HEIGHT = 70  # under each map
_LARGE_FONT, _MIDDLE_FONT, _SMALL_FONT = 24, 17, 15
_LINE_HEIGHT = 19  # of the small font
_MAPS_PER_ROW = 5  # maps beside the image; more go to the next row
_MIN_SHEET_WIDTH = 560  # narrower sheets have no space for the lines of text


def render_image_sheet_png(payloads: Sequence[dict[str, Any]]) -> bytes:
    """Return the maps of one image, with one payload per class, as PNG bytes."""
    picture = decode_display_image(payloads[0])
    rows = _wrap_map_rows(arrange_score_maps(payloads, picture))
    headline, source = describe_group_prediction(payloads), _describe_source(payloads[0])
    maps = "; ".join(f"{one.method} for {one.title}, {one.reach}" for row in rows for one in row)
    # The description keeps the labels' own characters, which the drawing's font may lack.
    text = f"{source}: {headline}. {maps}. {IMAGE_SCALE_NOTE}"
    return encode_png(_draw_image_sheet(headline, source, picture, rows), {"Description": text})


def _wrap_map_rows(rows: list[list[ScoreMap]]) -> list[list[ScoreMap]]:
    return [
        row[at : at + _MAPS_PER_ROW] for row in rows for at in range(0, len(row), _MAPS_PER_ROW)
    ]


def _describe_source(payload: Mapping[str, Any]) -> str:
    name = payload["picture"].get("name")
    return sanitise_text(payload["model"]["name"] + (f", {name}" if name else ""))


def _draw_image_sheet(
    headline: str, source: str, picture: Pixels, rows: list[list[ScoreMap]]
) -> Pixels:
    from PIL import Image, ImageDraw

    high, wide = picture.shape[:2]
    columns = 1 + max(map(len, rows))
    width = max(_MIN_SHEET_WIDTH, 2 * _MARGIN + columns * (wide + _SHEET_GAP) - _SHEET_GAP)
    top = _MARGIN + 64
    below = top + len(rows) * (high + _CAPTION_HEIGHT + _SHEET_GAP)
    kinds = list(dict.fromkeys(panel.signed for row in rows for panel in row))
    room = width - 2 * _MARGIN
    foot = _wrap_text(IMAGE_SCALE_NOTE, _SMALL_FONT, room)
    end = below + 34 * len(kinds) + 6
    canvas = Image.new("RGB", (width, end + _LINE_HEIGHT * len(foot) + _MARGIN), _PAPER)
    pen = _TextPen(ImageDraw.Draw(canvas))
    pen.write(_MARGIN, _MARGIN - 4, headline, _LARGE_FONT, _INK, room)
    pen.write(_MARGIN, _MARGIN + 29, source, _SMALL_FONT, _DIM, room)
    for number, row in enumerate(rows):
        y = top + number * (high + _CAPTION_HEIGHT + _SHEET_GAP)
        if not number:
            canvas.paste(Image.fromarray(picture), (_MARGIN, y))
            pen.write(_MARGIN, y + high + 6, "the picture", _MIDDLE_FONT, _INK, wide)
            pen.write(_MARGIN, y + high + 28, "as the model sees it", _SMALL_FONT, _DIM, wide)
        for place, panel in enumerate(row, start=1):
            x = _MARGIN + place * (wide + _SHEET_GAP)
            canvas.paste(Image.fromarray(panel.pixels), (x, y))
            pen.write(x, y + high + 6, panel.method, _MIDDLE_FONT, _INK, wide)
            pen.write(x, y + high + 28, f"for {panel.title}", _SMALL_FONT, _DIM, wide)
            pen.write(x, y + high + 47, panel.reach, _SMALL_FONT, _DIM, wide)
    for number, signed in enumerate(kinds):
        y = below + 34 * number
        canvas.paste(Image.fromarray(_draw_colour_key(signed)), (_MARGIN, y + 2))
        key = (
            "from against the class to for it"
            if signed
            else "from the least to the most, without sign"
        )
        pen.write(_MARGIN + 190, y, key, _SMALL_FONT, _DIM, room - 190)
    for number, line in enumerate(foot):
        pen.write(_MARGIN, end + _LINE_HEIGHT * number, line, _SMALL_FONT, _DIM, room)
    return np.asarray(canvas)


def _draw_colour_key(signed: bool, width: int = 176, height: int = 14) -> Pixels:
    """Return the key to the colours, on the dark grey of the maps."""
    values = np.linspace(-1.0 if signed else 0.0, 1.0, width)
    alpha = compute_opacity(values)[:, None]
    line = 60 * (1 - alpha) + compute_hues(values, signed=signed) * alpha
    return np.repeat(np.round(line).astype(np.uint8)[None], height, axis=0)


class _TextPen:
    """Draws single lines of text in Pillow's built-in font."""

    def __init__(self, draw: "ImageDraw") -> None:
        self._draw = draw

    def write(
        self, x: int, y: int, text: str, size: int, ink: tuple[int, int, int], room: int
    ) -> None:
        """Draw one line of text, cut off with an ellipsis if it is wider than `room`."""
        font, line = _load_font(size), _to_ascii(text)
        if self._draw.textlength(line, font) > room:
            while line and self._draw.textlength(f"{line}...", font) > room:
                line = line[:-1]
            line = f"{line.rstrip()}..."
        self._draw.text((x, y), line, ink, font)


def _wrap_text(text: str, size: int, room: int) -> list[str]:
    """Break a sentence into lines that fit the width."""
    font, lines = _load_font(size), [""]
    for word in _to_ascii(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _load_font(size: int) -> "FreeTypeFont | ImageFont":
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _to_ascii(text: str) -> str:
    """Return a text in ASCII: accents are dropped, other characters become question marks."""
    plain = normalize("NFKD", text)
    return "".join(
        sign if sign.isascii() else "" if 0x300 <= ord(sign) < 0x370 else "?" for sign in plain
    )


_LUMINANCE = np.array([0.299, 0.587, 0.114])  # perceived brightness of red, green and blue
_BRIGHTNESS_SHARE, _BLACK_LEVEL = (
    0.42,
    16.0,
)  # share of the image's brightness that remains, and the grey level of black


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
    alpha = compute_opacity(values)[..., None]
    mixed = dim_image(picture) * (1 - alpha) + compute_hues(values, signed=signed) * alpha
    return np.clip(np.round(mixed), 0, 255).astype(np.uint8)
