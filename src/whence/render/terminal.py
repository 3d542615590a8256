"""An explanation in a terminal: the text tinted by its scores, and the words that count most as bars."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.report.picture.maps import alike
from whence.report.picture.terminal import Pictures
from whence.report.text import cut, headline, notes, ranked, visible
from whence.view.scale import scale_in
from whence.view.shade import colour, shades

_BAR = 16
_NARROW = 50  # columns; in fewer, nothing stands side by side
# What an encoding without these signs would show as numbers.
_ASCII = str.maketrans(
    {"↑": "^", "↓": "v", "°": "~", "✓": "+", "✗": "x", "–": "-", "�": "?", "…": "~"}
)


class Writer:
    """Makes text for rich, of signs that the terminal's encoding has."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._signs = _ASCII if ascii_only else {}

    def __call__(self, text: str, style: str = "") -> Text:
        """Return the text in a style."""
        return Text(text.translate(self._signs), style)


def render_all(payloads: Sequence[dict[str, Any]], top: int = 8) -> RenderableType:
    """Lay several payloads out for rich, with those of one picture side by side."""
    blocks: list[RenderableType] = []
    for group in alike(payloads):
        shown = Pictures(group, top) if group[0].get("picture") else render(group[0], top)
        blocks += [Text(), shown] if blocks else [shown]
    return Group(*blocks)


def render(payload: dict[str, Any], top: int = 8) -> RenderableType:
    """Lay a payload out for rich."""
    if payload.get("picture"):
        return Pictures([payload], top)
    parts: list[RenderableType] = [
        Text.assemble((visible(payload["model"]["name"]), "dim"), "  ", (headline(payload), "bold"))
    ]
    if note := cut(payload):
        parts.append(Text(note, "yellow"))
    for explanation in payload["explanations"]:
        tints = shades(payload, explanation)
        parts += [
            Text(),
            Text.assemble(
                (visible(explanation["method"]), "bold"), "  ", (visible(tints.legend), "dim")
            ),
            tinted(payload, tints.words),
            bars(payload, explanation, top),
        ]
        parts += [Text(note, "dim") for note in notes(payload, explanation)]
    return Group(*parts)


def summary(payloads: Sequence[dict[str, Any]]) -> Table:
    """List several things that were explained about one text, each with what the model said of it."""
    table = Table.grid(padding=(0, 2))
    for number, payload in enumerate(payloads, 1):
        table.add_row(Text(f"{number}", "dim"), Text(headline(payload), "bold"))
    return table


def tinted(payload: dict[str, Any], tints: tuple[float, ...]) -> Text:
    """Return the text with each word on the colour of its score."""
    line = Text()
    for segment, source in enumerate((payload["input"]["text"], payload["input"]["pair"])):
        chosen = [
            (w, t) for w, t in zip(payload["words"], tints, strict=True) if w["segment"] == segment
        ]
        if not chosen:
            continue
        if segment:
            line.append("  |  ", "dim")
        at = 0
        for word, tint in chosen:
            if source is None:
                line.append(" " if len(line) else "")
                line.append(visible(word["text"]), tone(tint))
                continue
            line.append(visible(source[at : word["start"]]))
            line.append(visible(source[word["start"] : word["end"]]), tone(tint))
            at = word["end"]
        if source is not None:
            line.append(visible(source[at:]), "dim")
    return line


def bars(payload: dict[str, Any], explanation: dict[str, Any], top: int) -> Table:
    """Return the strongest words as horizontal bars."""
    table = Table.grid(padding=(0, 2))
    words = ranked(payload, explanation, top)
    most = scale_in(explanation)["full"] or 1.0
    for word, score in words:
        blocks = "█" * round(_BAR * min(1.0, abs(score) / most))
        full = "rgb({},{},{})".format(*colour(1.0 if score > 0 else -1.0))
        table.add_row(Text("  " + word), Text(f"{score:+.3g}", justify="right"), Text(blocks, full))
    return table


def tone(tint: float) -> str:
    """Return the style of a shade: black on its colour."""
    # Nearly white would be the loudest thing on a dark terminal, so faint scores get no colour at all.
    if abs(tint) < 0.1:
        return ""
    return "rgb(0,0,0) on rgb({},{},{})".format(*colour(tint * 0.7 + (0.3 if tint > 0 else -0.3)))


def named(pairs: Sequence[tuple[str, str]], write: Writer, width: int) -> RenderableType:
    """Lay facts out beside their names, or where there is no room for that, after them."""
    if width < _NARROW:
        return Group(*(Text.assemble(write(f"{n}: ", "dim"), write(t)) for n, t in pairs))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in pairs:
        table.add_row(write(name, "dim"), write(text))
    return table


def rowed(
    heads: Sequence[str], rows: Sequence[Sequence[str]], write: Writer, width: int
) -> RenderableType:
    """Lay rows out one a line, or where there is no room for that, one below the other."""
    needed = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stacked(heads, cells, write) for cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for name, *cells in rows:
        table.add_row(write(name, "bold"), *map(write, cells))
    return table


def _stacked(heads: Sequence[str], cells: Sequence[str], write: Writer) -> RenderableType:
    name, *found = cells
    told = write("; ".join(f"{head} {text}" for head, text in zip(heads[1:], found, strict=True)))
    head = Text.assemble(write(f"{heads[0]} ", "dim"), write(name, "bold"))
    return Group(head, indented(told))


def indented(line: Text) -> RenderableType:
    """Put a line a little to the right, broken wherever it must be."""
    line.overflow = "fold"
    return Padding.indent(line, 2)
