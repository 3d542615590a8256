"""Score maps over an image: PNG sheet, HTML figures and patch tables, terminal blocks or digits; PNG encoding.

One map for each method and class lies over the image in dark grey, the stronger the score, the more
opaque. Between the centres of patches a map is interpolated. In a terminal, half a character is a pixel;
without 24-bit colour a digit stands for each patch, 9 for the strongest. Pillow is imported where it is
needed.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whence.render.colour import (
    FLAT_MAP_NOTE,
    IMAGE_SCALE_NOTE,
    compute_heatmap,
    compute_hues,
    compute_map_colour,
    compute_opacity,
    format_image_legend,
    format_target,
    get_colour_scale,
    scale_scores,
    select_strongest_patches,
)
from whence.render.text import (
    describe_prediction,
    format_input_warnings,
    format_unit,
    list_explanation_notes,
    sanitise_html,
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


_CELL_WIDTH = 2  # a sign or a space, and the digit


def format_digit_map(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], width: int
) -> list[str]:
    """Return a map as lines of digits no wider than `width`, followed by a legend."""
    rows, columns = payload["picture"]["grid"]
    patches = np.asarray(explanation["scores"], dtype=np.float64).reshape(rows, columns)
    side = _choose_cell_side((rows, columns), width)
    floor = get_colour_scale(explanation, "patch")["floor"]
    values = scale_scores(_average_cells(patches, side), signed=explanation["signed"], floor=floor)
    lines = ["".join(map(_format_digit, row)).rstrip() for row in values]
    return [*lines, *_describe_digit_map(payload, explanation, side)]


def _format_digit(value: float) -> str:
    level = round(9 * abs(value))
    return " ." if not level else f"{'-' if value < 0 else ' '}{level}"


def _choose_cell_side(grid: Sequence[int], width: int) -> int:
    """Return the side, in patches, of the square that one digit stands for, so that a row fits."""
    return max(1, -(-grid[1] * _CELL_WIDTH // max(width, _CELL_WIDTH)))


def _average_cells(patches: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """Return the means of squares of patches; squares at the right and lower edges may be smaller."""
    if side == 1:
        return patches
    down, across = (range(0, size, side) for size in patches.shape)
    return np.array([[patches[y : y + side, x : x + side].mean() for x in across] for y in down])


def _describe_digit_map(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], side: int
) -> list[str]:
    target, scale = (
        sanitise_text(format_target(payload["target"])),
        get_colour_scale(explanation, "patch"),
    )
    own = "a patch" if side == 1 else f"the mean of {side} x {side} patches"
    if explanation["signed"]:
        text = f"Each figure is {own}, 9 the largest |score|, - speaks against {target}"
    else:
        text = (
            f"Each figure is {own}, from . for the smallest score to 9 for the largest; this method has no sign: "
            f"it may count for {target} or against"
        )
    legend = scale["legend"].replace("full colour:", "9 is")
    return [f"{text}; {legend}.", *([scale["note"]] if scale["note"] else [])]


IMAGE_STYLE = """
.whence .maps { display: flex; flex-wrap: wrap; gap: .9rem; margin: .7rem 0 .3rem; }
.whence .maps figure { margin: 0; flex: 0 1 16rem; min-width: 8rem; }
.whence .maps.lines { display: grid; grid-template-columns: repeat(var(--columns), minmax(8rem, 16rem)); }
.whence .maps img { display: block; width: 100%; height: auto; border-radius: 4px; image-rendering: pixelated; }
.whence .maps figcaption { line-height: 1.35; margin-top: .3rem; overflow-wrap: anywhere; }
.whence .maps figcaption strong { color: var(--ink); font-weight: 600; }
.whence .ramp { display: inline-block; width: 7rem; height: .7em; border-radius: 2px; vertical-align: -.02em;
  margin-right: .5rem; }
.whence .patches { font-size: .72rem; } .whence .patches td { padding: .1rem .35rem; text-align: right; }
.whence .scroll { overflow-x: auto; }
"""
_TOP_PATCHES = 10


def render_image_maps(payloads: Sequence[dict[str, Any]]) -> str:
    """Return the image and its maps side by side; with several classes and methods, one row per class."""
    picture = decode_display_image(payloads[0])
    rows = arrange_score_maps(payloads, picture)
    name = sanitise_text(str(payloads[0]["picture"].get("name") or ""))
    own = _render_figure(
        picture, f"the picture {name}".strip(), "the picture", name or "as the model sees it"
    )
    lines = ["".join(map(_render_map_figure, row)) for row in rows]
    if len(lines) == 1:
        return f'<div class="maps">{own}{lines[0]}</div>'
    columns = 1 + len(rows[0])
    body = "<i></i>".join(lines)  # only the first row starts with the image
    return f'<div class="scroll"><div class="maps lines" style="--columns: {columns}">{own}{body}</div></div>'


def render_colour_key(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Return the colour key of one map."""
    signed = explanation["signed"]
    stops = [place / 8 for place in range(-8 if signed else 0, 9)]
    ramp = ", ".join(_blend_on_grey(stop, signed) for stop in stops)
    full = get_colour_scale(explanation, "patch")["legend"]
    legend = f"{format_image_legend(payload['target'], signed=signed)}; {full}; {describe_score_range(explanation)}"
    return (
        f'<p class="dim"><span class="ramp" style="background: linear-gradient(90deg, {ramp})"></span>'
        f"{escape(sanitise_html(legend))}</p>"
    )


def render_patch_table(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], top: int = _TOP_PATCHES
) -> str:
    """Return a table of the patches with the largest absolute scores."""
    patches = select_strongest_patches(explanation["scores"], payload["picture"]["grid"], top)
    largest = get_colour_scale(explanation, "patch")["full"] or 1.0
    rows = "".join(
        f'<tr><td class="n">{patch.row}</td><td class="n">{patch.column}</td><td class="n">{patch.score:+.6g}</td>'
        f'<td><span class="bar" style="width: {abs(patch.score) / largest * 9:.2f}rem; '
        f'background: {_format_css_rgba(patch.score / largest, explanation["signed"])}"></span></td></tr>'
        for patch in patches
    )
    target = escape(sanitise_html(format_target(payload["target"])))
    return (
        "<table><thead><tr><th>row</th><th>column</th><th>score</th>"
        f"<th>for {target}</th></tr></thead>{rows}</table>"
    )


def render_patch_grid(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Return a table of the scores of all patches, arranged as in the image."""
    height, width = payload["picture"]["grid"]
    scores = explanation["scores"]
    floor = get_colour_scale(explanation, "patch")["floor"]
    tints = scale_scores(scores, signed=explanation["signed"], floor=floor)
    head = "".join(f'<th scope="col">{column}</th>' for column in range(1, width + 1))
    rows = []
    for row in range(height):
        cells = "".join(
            f'<td style="background: {_format_css_rgba(tints[place], explanation["signed"], abs(tints[place]) * 0.6)}">'
            f"{scores[place]:.3g}</td>"
            for place in range(row * width, (row + 1) * width)
        )
        rows.append(f'<tr><th scope="row">{row + 1}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="patches"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _render_map_figure(panel: ScoreMap) -> str:
    return _render_figure(
        panel.pixels, f"{panel.method} for {panel.title}", panel.method, f"for {panel.title}"
    )


def _render_figure(pixels: Pixels, alt: str, title: str, under: str) -> str:
    height, width = pixels.shape[:2]
    return (
        f'<figure><img width="{width}" height="{height}" alt="{escape(sanitise_html(alt))}" '
        f'src="data:image/png;base64,{encode_png_base64(pixels)}"><figcaption><strong>{escape(sanitise_html(title))}</strong><br>'
        f"{escape(sanitise_html(under))}</figcaption></figure>"
    )


def _format_css_rgba(value: float, signed: bool, alpha: float = 1.0) -> str:
    return "rgba({},{},{},{:.3f})".format(*compute_map_colour(value, signed=signed), alpha)


def _blend_on_grey(value: float, signed: bool) -> str:
    """Return the colour of a value blended with the dark grey beneath."""
    share = abs(value) ** 0.75
    mixed = (60 + (part - 60) * share for part in compute_map_colour(value, signed=signed))
    return "rgb({:.0f},{:.0f},{:.0f})".format(*mixed)


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


_MAX_PANEL_WIDTH, _MIN_PANEL_WIDTH, _MIN_PAIR_WIDTH, _PANEL_GAP = 44, 24, 16, 2
_BAR_WIDTH = 16
NO_TRUECOLOR_NOTE = (
    "No picture here: it takes a terminal with 24-bit colour (COLORTERM=truecolor says it has that). "
    "--out FILE.png and --html FILE show it."
)


class ImageMapsRenderable:
    """A rich renderable of the maps of one image, with one payload per class."""

    def __init__(self, payloads: Sequence[dict[str, Any]], top: int = 8) -> None:
        self._payloads, self._top = payloads, top

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the maps, fitted to the width and colours of the terminal."""
        payloads, first = self._payloads, self._payloads[0]
        yield Text.assemble(
            (sanitise_text(first["model"]["name"]), "dim"),
            "  ",
            (describe_group_prediction(payloads), "bold"),
        )
        for warning in dict.fromkeys(format_input_warnings(payload) for payload in payloads):
            if warning:
                yield Text(warning, "yellow")
        colours = can_show_images(console, options)
        if colours:
            yield Text()
            yield render_maps_side_by_side(payloads, options.max_width)
            yield Text(IMAGE_SCALE_NOTE, "dim")
        else:
            yield Text(NO_TRUECOLOR_NOTE, "dim")
        for payload in payloads:
            for explanation in payload["explanations"]:
                yield Text()
                yield from _render_map_details(
                    payload, explanation, self._top, options.max_width, colours
                )


def can_show_images(console: Console, options: ConsoleOptions) -> bool:
    """Return whether the terminal has 24-bit colour and half-block characters."""
    return console.color_system == "truecolor" and not (console.no_color or options.ascii_only)


def render_image_map(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], width: int, colours: bool
) -> Iterator[RenderableType]:
    """Yield one map beside its image, or in digits without colours, and its legend."""
    if colours:
        yield render_maps_side_by_side([{**payload, "explanations": [explanation]}], width)
        scale = get_colour_scale(explanation, "patch")
        legend = sanitise_text(format_image_legend(payload["target"], signed=explanation["signed"]))
        yield Text(f"{legend}; {scale['legend']}", "dim")
        if scale["note"]:
            yield Text(scale["note"], "dim")
    else:
        yield from map(Text, format_digit_map(payload, explanation, width))


def render_maps_side_by_side(payloads: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Return the image and all maps side by side, as many per row as fit."""
    picture = decode_display_image(payloads[0])
    panels = [("the picture", "", picture)]
    for row in arrange_score_maps(payloads, picture):
        panels += [(panel.method, panel.title, panel.pixels) for panel in row]
    least = (
        2 if width >= 2 * _MIN_PAIR_WIDTH + _PANEL_GAP else 1
    )  # a map stands beside its image if two panels fit
    across = min(len(panels), max(least, (width + _PANEL_GAP) // (_MIN_PANEL_WIDTH + _PANEL_GAP)))
    room = min(_MAX_PANEL_WIDTH, (width - _PANEL_GAP * (across - 1)) // across)
    lines: list[RenderableType] = []
    for at in range(0, len(panels), across):
        table = Table.grid(padding=(0, _PANEL_GAP, 0, 0))
        row_panels = panels[at : at + across]
        for _ in row_panels:
            table.add_column(width=room)
        table.add_row(*(_render_half_blocks(pixels, room) for _, _, pixels in row_panels))
        table.add_row(*(_truncate_line(title, room, "bold") for title, _, _ in row_panels))
        table.add_row(*(_truncate_line(under, room, "dim") for _, under, _ in row_panels))
        lines += [table, Text()]
    return Group(*lines)


def _truncate_line(text: str, room: int, style: str) -> Text:
    line = Text(text, style, no_wrap=True)
    line.truncate(room, overflow="ellipsis")
    return line


def _render_half_blocks(pixels: Pixels, columns: int) -> RenderableType:
    """Return pixels as half-block characters: foreground is the upper pixel, background the lower."""
    rows = max(1, round(columns * pixels.shape[0] / pixels.shape[1] / 2))
    small = resize_image(pixels, 2 * rows, columns)
    cells = []
    for upper, lower in zip(small[::2], small[1::2], strict=True):
        cells += [
            Segment("▀", _build_block_style(above, below))
            for above, below in zip(upper, lower, strict=True)
        ]
        cells.append(Segment.line())
    return Segments(cells[:-1])


def _build_block_style(above: np.ndarray[Any, Any], below: np.ndarray[Any, Any]) -> Style:
    return Style.from_color(Color.from_rgb(*map(int, above)), Color.from_rgb(*map(int, below)))


def _render_map_details(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], top: int, width: int, colours: bool
) -> Iterator[RenderableType]:
    """Yield the legend of one map, or the map in digits without colours, and its strongest patches."""
    method, target = (
        sanitise_text(explanation["method"]),
        sanitise_text(format_target(payload["target"])),
    )
    if colours:
        legend = sanitise_text(format_image_legend(payload["target"], signed=explanation["signed"]))
        full = get_colour_scale(explanation, "patch")["legend"]
        yield Text.assemble((method, "bold"), "  ", (f"{legend}; {full}", "dim"))
    else:
        yield Text.assemble((method, "bold"), f" for {target}")
        yield from map(Text, format_digit_map(payload, explanation, width))
    yield Text(describe_score_range(explanation), "dim")
    yield _render_patch_bars(payload, explanation, top)
    yield from (Text(note, "dim") for note in list_explanation_notes(payload, explanation))


def _render_patch_bars(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], top: int
) -> Table:
    table = Table.grid(padding=(0, 2))
    patches = select_strongest_patches(explanation["scores"], payload["picture"]["grid"], top)
    largest = get_colour_scale(explanation, "patch")["full"] or 1.0
    for patch in patches:
        blocks = "█" * round(_BAR_WIDTH * min(1.0, abs(patch.score) / largest))
        tone = "rgb({},{},{})".format(
            *compute_map_colour(patch.score / largest, signed=explanation["signed"])
        )
        table.add_row(
            f"  {patch}",
            Text(f"{patch.score:+.3g}", justify="right"),
            Text(blocks, tone),
        )
    return table
