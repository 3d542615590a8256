"""Maps over a picture in a terminal: half a character is a pixel; without colours, figures stand for patches."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whence.report.picture.colour import SCALE, colour_of, legend
from whence.report.picture.figures import figures
from whence.report.picture.maps import arranged, predicted, remark, shown
from whence.report.picture.png import Pixels, resized
from whence.report.text import cut, notes, visible
from whence.view.heat import strongest
from whence.view.scale import scale_in
from whence.view.shade import target_name

_WIDEST, _NARROWEST, _LEAST, _GAP = 44, 24, 16, 2
_BAR = 16
WITHOUT = (
    "No picture here: it takes a terminal with 24-bit colour (COLORTERM=truecolor says it has that). "
    "--out FILE.png and --html FILE show it."
)


class Pictures:
    """Payloads of one picture, one for each class, as wide as the terminal and with what it can show."""

    def __init__(self, payloads: Sequence[dict[str, Any]], top: int = 8) -> None:
        self._payloads, self._top = payloads, top

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay them out."""
        payloads, first = self._payloads, self._payloads[0]
        yield Text.assemble(
            (visible(first["model"]["name"]), "dim"), "  ", (predicted(payloads), "bold")
        )
        for said in dict.fromkeys(cut(payload) for payload in payloads):
            if said:
                yield Text(said, "yellow")
        colours = seen(console, options)
        if colours:
            yield Text()
            yield beside(payloads, options.max_width)
            yield Text(SCALE, "dim")
        else:
            yield Text(WITHOUT, "dim")
        for payload in payloads:
            for explanation in payload["explanations"]:
                yield Text()
                yield from _told(payload, explanation, self._top, options.max_width, colours)


def seen(console: Console, options: ConsoleOptions) -> bool:
    """Whether the terminal shows any colour, and half blocks."""
    return console.color_system == "truecolor" and not (console.no_color or options.ascii_only)


def one_map(
    payload: dict[str, Any], explanation: dict[str, Any], width: int, colours: bool
) -> Iterator[RenderableType]:
    """Yield one map beside its picture, or in figures where there are no colours, and what it means."""
    if colours:
        yield beside([{**payload, "explanations": [explanation]}], width)
        scale = scale_in(explanation, "patch")
        said = visible(legend(payload["target"], signed=explanation["signed"]))
        yield Text(f"{said}; {scale['legend']}", "dim")
        if scale["note"]:
            yield Text(scale["note"], "dim")
    else:
        yield from map(Text, figures(payload, explanation, width))


def beside(payloads: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Return the picture and all maps side by side, as many on a line as there is room for."""
    picture = shown(payloads[0])
    panels = [("the picture", "", picture)]
    for row in arranged(payloads, picture):
        panels += [(one.method, one.title, one.pixels) for one in row]
    two = 2 if width >= 2 * _LEAST + _GAP else 1  # a map is to be seen beside its picture
    across = min(len(panels), max(two, (width + _GAP) // (_NARROWEST + _GAP)))
    room = min(_WIDEST, (width - _GAP * (across - 1)) // across)
    lines: list[RenderableType] = []
    for at in range(0, len(panels), across):
        table = Table.grid(padding=(0, _GAP, 0, 0))
        chosen = panels[at : at + across]
        for _ in chosen:
            table.add_column(width=room)
        table.add_row(*(_blocks(pixels, room) for _, _, pixels in chosen))
        table.add_row(*(_fitted(title, room, "bold") for title, _, _ in chosen))
        table.add_row(*(_fitted(under, room, "dim") for _, under, _ in chosen))
        lines += [table, Text()]
    return Group(*lines)


def _fitted(text: str, room: int, style: str) -> Text:
    line = Text(text, style, no_wrap=True)
    line.truncate(room, overflow="ellipsis")
    return line


def _blocks(pixels: Pixels, columns: int) -> RenderableType:
    """Return pixels as characters: the upper half of each is its own colour, the lower its ground."""
    rows = max(1, round(columns * pixels.shape[0] / pixels.shape[1] / 2))
    small = resized(pixels, 2 * rows, columns)
    cells = []
    for upper, lower in zip(small[::2], small[1::2], strict=True):
        cells += [
            Segment("▀", _style(above, below)) for above, below in zip(upper, lower, strict=True)
        ]
        cells.append(Segment.line())
    return Segments(cells[:-1])


def _style(above: np.ndarray[Any, Any], below: np.ndarray[Any, Any]) -> Style:
    return Style.from_color(Color.from_rgb(*map(int, above)), Color.from_rgb(*map(int, below)))


def _told(
    payload: dict[str, Any], explanation: dict[str, Any], top: int, width: int, colours: bool
) -> Iterator[RenderableType]:
    """Yield what one map means, or the map in figures where there are no colours, and its strongest patches."""
    method, target = visible(explanation["method"]), visible(target_name(payload["target"]))
    if colours:
        said = visible(legend(payload["target"], signed=explanation["signed"]))
        full = scale_in(explanation, "patch")["legend"]
        yield Text.assemble((method, "bold"), "  ", (f"{said}; {full}", "dim"))
    else:
        yield Text.assemble((method, "bold"), f" for {target}")
        yield from map(Text, figures(payload, explanation, width))
    yield Text(remark(explanation), "dim")
    yield _bars(payload, explanation, top)
    yield from (Text(note, "dim") for note in notes(payload, explanation))


def _bars(payload: dict[str, Any], explanation: dict[str, Any], top: int) -> Table:
    table = Table.grid(padding=(0, 2))
    patches = strongest(explanation["scores"], payload["picture"]["grid"], top)
    largest = scale_in(explanation, "patch")["full"] or 1.0
    for patch in patches:
        blocks = "█" * round(_BAR * min(1.0, abs(patch.score) / largest))
        tone = "rgb({},{},{})".format(
            *colour_of(patch.score / largest, signed=explanation["signed"])
        )
        table.add_row(
            f"  {patch}",
            Text(f"{patch.score:+.3g}", justify="right"),
            Text(blocks, tone),
        )
    return table


"""Maps over a picture: as a PNG sheet, in a terminal, on a page. Pillow is imported where it is needed."""


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


"""A map without colours: one figure for each patch, 9 for the strongest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.report.picture.colour import scaled
from whence.report.text import visible
from whence.view.scale import scale_in
from whence.view.shade import target_name

_CELL = 2  # a sign, or room between figures, and the figure


def figures(payload: dict[str, Any], explanation: dict[str, Any], width: int) -> list[str]:
    """Return the map as lines of text no wider than `width`, and under them what the figures mean."""
    rows, columns = payload["picture"]["grid"]
    patches = np.asarray(explanation["scores"], dtype=np.float64).reshape(rows, columns)
    side = _joined((rows, columns), width)
    floor = scale_in(explanation, "patch")["floor"]
    values = scaled(_means(patches, side), signed=explanation["signed"], floor=floor)
    lines = ["".join(map(_figure, row)).rstrip() for row in values]
    return [*lines, *_key(payload, explanation, side)]


def _figure(value: float) -> str:
    level = round(9 * abs(value))
    return " ." if not level else f"{'-' if value < 0 else ' '}{level}"


def _joined(grid: Sequence[int], width: int) -> int:
    """Return how many patches a side share a figure, so that a row of them fits."""
    return max(1, -(-grid[1] * _CELL // max(width, _CELL)))


def _means(patches: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """Return the means of squares of patches; those at the right and lower edge may be cut."""
    if side == 1:
        return patches
    down, across = (range(0, size, side) for size in patches.shape)
    return np.array([[patches[y : y + side, x : x + side].mean() for x in across] for y in down])


def _key(payload: dict[str, Any], explanation: dict[str, Any], side: int) -> list[str]:
    target, scale = visible(target_name(payload["target"])), scale_in(explanation, "patch")
    own = "a patch" if side == 1 else f"the mean of {side} x {side} patches"
    if explanation["signed"]:
        said = f"Each figure is {own}, 9 the largest |score|, - speaks against {target}"
    else:
        said = (
            f"Each figure is {own}, from . for the smallest score to 9 for the largest; this method has no sign: "
            f"it may count for {target} or against"
        )
    meant = scale["legend"].replace("full colour:", "9 is")
    return [f"{said}; {meant}.", *([scale["note"]] if scale["note"] else [])]


"""Maps over a picture on a page: images within the page itself, a legend, and the scores of patches as tables."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.picture.colour import colour_of, legend, scaled
from whence.report.picture.maps import Map, arranged, remark, shown
from whence.report.picture.png import Pixels, encoded
from whence.report.text import tame, visible
from whence.view.heat import strongest
from whence.view.scale import scale_in
from whence.view.shade import target_name

STYLE = """
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
_TOP = 10


def figures(payloads: Sequence[dict[str, Any]]) -> str:
    """Return the picture and its maps side by side: of several classes and methods, a line for each class."""
    picture = shown(payloads[0])
    rows = arranged(payloads, picture)
    name = visible(str(payloads[0]["picture"].get("name") or ""))
    own = _figure(
        picture, f"the picture {name}".strip(), "the picture", name or "as the model sees it"
    )
    lines = ["".join(map(_map, row)) for row in rows]
    if len(lines) == 1:
        return f'<div class="maps">{own}{lines[0]}</div>'
    columns = 1 + len(rows[0])
    body = "<i></i>".join(lines)  # the picture stands in the first line alone
    return f'<div class="scroll"><div class="maps lines" style="--columns: {columns}">{own}{body}</div></div>'


def key(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return what the colours of one map mean."""
    signed = explanation["signed"]
    stops = [place / 8 for place in range(-8 if signed else 0, 9)]
    ramp = ", ".join(_mixed(stop, signed) for stop in stops)
    full = scale_in(explanation, "patch")["legend"]
    said = f"{legend(payload['target'], signed=signed)}; {full}; {remark(explanation)}"
    return (
        f'<p class="dim"><span class="ramp" style="background: linear-gradient(90deg, {ramp})"></span>'
        f"{escape(tame(said))}</p>"
    )


def patch_table(payload: dict[str, Any], explanation: dict[str, Any], top: int = _TOP) -> str:
    """Return the patches that count most, with their scores."""
    patches = strongest(explanation["scores"], payload["picture"]["grid"], top)
    largest = scale_in(explanation, "patch")["full"] or 1.0
    rows = "".join(
        f'<tr><td class="n">{patch.row}</td><td class="n">{patch.column}</td><td class="n">{patch.score:+.6g}</td>'
        f'<td><span class="bar" style="width: {abs(patch.score) / largest * 9:.2f}rem; '
        f'background: {_css(patch.score / largest, explanation["signed"])}"></span></td></tr>'
        for patch in patches
    )
    target = escape(tame(target_name(payload["target"])))
    return (
        "<table><thead><tr><th>row</th><th>column</th><th>score</th>"
        f"<th>for {target}</th></tr></thead>{rows}</table>"
    )


def every_patch(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return the scores of all patches as they lie in the picture."""
    height, width = payload["picture"]["grid"]
    scores = explanation["scores"]
    floor = scale_in(explanation, "patch")["floor"]
    tints = scaled(scores, signed=explanation["signed"], floor=floor)
    head = "".join(f'<th scope="col">{column}</th>' for column in range(1, width + 1))
    rows = []
    for row in range(height):
        cells = "".join(
            f'<td style="background: {_css(tints[place], explanation["signed"], abs(tints[place]) * 0.6)}">'
            f"{scores[place]:.3g}</td>"
            for place in range(row * width, (row + 1) * width)
        )
        rows.append(f'<tr><th scope="row">{row + 1}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="patches"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _map(one: Map) -> str:
    return _figure(one.pixels, f"{one.method} for {one.title}", one.method, f"for {one.title}")


def _figure(pixels: Pixels, said: str, title: str, under: str) -> str:
    height, width = pixels.shape[:2]
    return (
        f'<figure><img width="{width}" height="{height}" alt="{escape(tame(said))}" '
        f'src="data:image/png;base64,{encoded(pixels)}"><figcaption><strong>{escape(tame(title))}</strong><br>'
        f"{escape(tame(under))}</figcaption></figure>"
    )


def _css(value: float, signed: bool, alpha: float = 1.0) -> str:
    return "rgba({},{},{},{:.3f})".format(*colour_of(value, signed=signed), alpha)


def _mixed(value: float, signed: bool) -> str:
    """Return the colour of a value as it looks on dark grey."""
    share = abs(value) ** 0.75
    mixed = (60 + (part - 60) * share for part in colour_of(value, signed=signed))
    return "rgb({:.0f},{:.0f},{:.0f})".format(*mixed)


"""The maps of one picture, as every surface arranges them: by several methods, for several classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.report.picture.colour import LEVEL, scaled
from whence.report.picture.overlay import overlay
from whence.report.picture.png import Pixels, decoded, resized
from whence.report.text import headline, unit_words, visible
from whence.view.scale import scale_in
from whence.view.shade import target_name

_LONGEST, _SHORTEST = 384, 256  # of a side that is shown: larger pictures shrink, smaller ones grow


@dataclass(frozen=True)
class Map:
    """One method's scores for one class, drawn over the picture."""

    method: str
    target: str
    share: float | None  # the probability that the model gives the class
    signed: bool
    reach: str  # how far the scores go
    pixels: Pixels

    @property
    def title(self) -> str:
        """The class, and how likely the model finds it."""
        return self.target if self.share is None else f"{self.target} ({self.share:.1%})"


def shown(payload: dict[str, Any]) -> Pixels:
    """Return the picture of a payload, large enough to look at."""
    pixels = decoded(payload["picture"]["png"])
    height, width = pixels.shape[:2]
    longest = max(height, width)
    if longest > _LONGEST:
        return resized(
            pixels, *(max(1, round(side * _LONGEST / longest)) for side in (height, width))
        )
    times = max(1, round(_SHORTEST / longest))
    return resized(pixels, height * times, width * times)


def maps(payload: dict[str, Any], picture: Pixels) -> list[Map]:
    """Draw every explanation of a payload over its picture."""
    target = payload["target"]
    share = (
        None
        if target.get("against")
        else payload["prediction"]["probabilities"].get(target["label"])
    )
    return [
        Map(
            visible(one["method"]),
            visible(target_name(target)),
            share,
            one["signed"],
            remark(one),
            overlay(
                picture,
                one["scores"],
                payload["picture"]["grid"],
                signed=one["signed"],
                floor=scale_in(one, "patch")["floor"],
            ),
        )
        for one in payload.get("explanations") or payload["methods"]
    ]


def arranged(payloads: Sequence[dict[str, Any]], picture: Pixels) -> list[list[Map]]:
    """Return rows of maps: a row for each class, or of one method all classes in a row."""
    rows = [maps(payload, picture) for payload in payloads]
    if all(len(row) == 1 for row in rows):
        return [[one for row in rows for one in row]]
    return rows


def predicted(payloads: Sequence[dict[str, Any]]) -> str:
    """Say what was predicted; of several explained classes each map names its own."""
    first = payloads[0]
    if len(payloads) == 1:
        return headline(first)
    return headline({**first, "target": {"index": first["prediction"]["index"]}})


def remark(explanation: dict[str, Any]) -> str:
    """Say how far the scores reach and in which unit, or of a map that shows nothing why that is."""
    scores = np.asarray(explanation["scores"], dtype=np.float64)
    if not scaled(scores, signed=explanation["signed"]).any():
        return LEVEL
    sign = "+" if explanation["signed"] else ""
    scale = scale_in(explanation, "patch")
    said = (
        f"scores from {scores.min():{sign}.3g} to {scores.max():{sign}.3g}{unit_words(explanation)}"
    )
    return f"{said}. {scale['note']}" if scale["note"] else said


def alike(payloads: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Put payloads that follow each other and are of one picture together; a text stays alone."""
    groups: list[list[dict[str, Any]]] = []
    for payload in payloads:
        own = payload.get("picture")
        if own and groups and groups[-1][0].get("picture") == own:
            groups[-1].append(payload)
        else:
            groups.append([payload])
    return groups


"""A map laid over its picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whence.report.picture.colour import hues, scaled, strengths
from whence.report.picture.png import Pixels
from whence.view.heat import heatmap

_GREY = np.array([0.299, 0.587, 0.114])  # how bright each channel looks
_DIMMED, _FLOOR = 0.42, 16.0  # of the picture's brightness is left, and how dark black is


def dimmed(picture: Pixels) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the picture in dark grey, so that every colour on it is the map's."""
    grey = _FLOOR + _DIMMED * (picture @ _GREY)
    return np.repeat(grey[..., None], 3, axis=-1)


def overlay(
    picture: Pixels, scores: Any, grid: Sequence[int], *, signed: bool, floor: float | None = None
) -> Pixels:
    """Return the picture in dark grey with the scores of its patches over it, the stronger the more opaque."""
    values = heatmap(scaled(scores, signed=signed, floor=floor), grid, picture.shape[:2])
    alpha = strengths(values)[..., None]
    mixed = dimmed(picture) * (1 - alpha) + hues(values, signed=signed) * alpha
    return np.clip(np.round(mixed), 0, 255).astype(np.uint8)


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
