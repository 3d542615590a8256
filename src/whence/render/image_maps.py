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
