"""Explanations in a terminal: the text tinted by its scores, bars of the strongest words, rich tables."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.render.colour import compute_shade_colour, compute_shades, get_colour_scale
from whence.render.image_maps import ImageMapsRenderable, group_by_image
from whence.render.text import (
    describe_prediction,
    format_input_warnings,
    list_explanation_notes,
    sanitise_text,
    select_top_features,
)

_BAR_WIDTH = 16
_MIN_SIDE_BY_SIDE = 50  # columns; a narrower terminal shows everything in one column
# Substitutes for characters that an ASCII terminal would show as escape codes.
_ASCII_SIGNS = str.maketrans(
    {"↑": "^", "↓": "v", "°": "~", "✓": "+", "✗": "x", "–": "-", "�": "?", "…": "~"}
)


class TerminalWriter:
    """Makes rich texts, with ASCII substitutes if the terminal's encoding needs them."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._signs = _ASCII_SIGNS if ascii_only else {}

    def __call__(self, text: str, style: str = "") -> Text:
        """Return a text in a style."""
        return Text(text.translate(self._signs), style)


def render_explanations(payloads: Sequence[dict[str, Any]], top: int = 8) -> RenderableType:
    """Return several payloads as a rich renderable, maps of one image side by side."""
    blocks: list[RenderableType] = []
    for group in group_by_image(payloads):
        renderable = (
            ImageMapsRenderable(group, top)
            if group[0].get("picture")
            else render_explanation(group[0], top)
        )
        blocks += [Text(), renderable] if blocks else [renderable]
    return Group(*blocks)


def render_explanation(payload: dict[str, Any], top: int = 8) -> RenderableType:
    """Return a payload as a rich renderable."""
    if payload.get("picture"):
        return ImageMapsRenderable([payload], top)
    parts: list[RenderableType] = [
        Text.assemble(
            (sanitise_text(payload["model"]["name"]), "dim"),
            "  ",
            (describe_prediction(payload), "bold"),
        )
    ]
    if note := format_input_warnings(payload):
        parts.append(Text(note, "yellow"))
    for explanation in payload["explanations"]:
        tints = compute_shades(payload, explanation)
        parts += [
            Text(),
            Text.assemble(
                (sanitise_text(explanation["method"]), "bold"),
                "  ",
                (sanitise_text(tints.legend), "dim"),
            ),
            tint_words(payload, tints.words),
            render_word_bars(payload, explanation, top),
        ]
        parts += [Text(note, "dim") for note in list_explanation_notes(payload, explanation)]
    return Group(*parts)


def render_headline_list(payloads: Sequence[dict[str, Any]]) -> Table:
    """Return a numbered list of the predictions of several payloads about one text."""
    table = Table.grid(padding=(0, 2))
    for number, payload in enumerate(payloads, 1):
        table.add_row(Text(f"{number}", "dim"), Text(describe_prediction(payload), "bold"))
    return table


def tint_words(payload: dict[str, Any], tints: tuple[float, ...]) -> Text:
    """Return the text with each word tinted by its score."""
    line = Text()
    for segment, source in enumerate((payload["input"]["text"], payload["input"]["pair"])):
        pairs = [
            (w, t) for w, t in zip(payload["words"], tints, strict=True) if w["segment"] == segment
        ]
        if not pairs:
            continue
        if segment:
            line.append("  |  ", "dim")
        at = 0
        for word, tint in pairs:
            if source is None:
                line.append(" " if len(line) else "")
                line.append(sanitise_text(word["text"]), choose_tint_style(tint))
                continue
            line.append(sanitise_text(source[at : word["start"]]))
            line.append(sanitise_text(source[word["start"] : word["end"]]), choose_tint_style(tint))
            at = word["end"]
        if source is not None:
            line.append(sanitise_text(source[at:]), "dim")
    return line


def render_word_bars(payload: dict[str, Any], explanation: dict[str, Any], top: int) -> Table:
    """Return the words with the largest scores as horizontal bars."""
    table = Table.grid(padding=(0, 2))
    words = select_top_features(payload, explanation, top)
    most = get_colour_scale(explanation)["full"] or 1.0
    for word, score in words:
        blocks = "█" * round(_BAR_WIDTH * min(1.0, abs(score) / most))
        full = "rgb({},{},{})".format(*compute_shade_colour(1.0 if score > 0 else -1.0))
        table.add_row(Text("  " + word), Text(f"{score:+.3g}", justify="right"), Text(blocks, full))
    return table


def choose_tint_style(tint: float) -> str:
    """Return the terminal style of a shade: black text on its colour."""
    # Nearly white would be the brightest spot on a dark terminal, so faint scores get no colour.
    if abs(tint) < 0.1:
        return ""
    return "rgb(0,0,0) on rgb({},{},{})".format(
        *compute_shade_colour(tint * 0.7 + (0.3 if tint > 0 else -0.3))
    )


def render_fact_list(
    pairs: Sequence[tuple[str, str]], write: TerminalWriter, width: int
) -> RenderableType:
    """Return facts as two columns, or as "name: value" lines in a narrow terminal."""
    if width < _MIN_SIDE_BY_SIDE:
        return Group(*(Text.assemble(write(f"{n}: ", "dim"), write(t)) for n, t in pairs))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in pairs:
        table.add_row(write(name, "dim"), write(text))
    return table


def render_rows(
    heads: Sequence[str], rows: Sequence[Sequence[str]], write: TerminalWriter, width: int
) -> RenderableType:
    """Return rows as a table, or stacked one below the other in a narrow terminal."""
    needed = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stack_row(heads, cells, write) for cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for name, *cells in rows:
        table.add_row(write(name, "bold"), *map(write, cells))
    return table


def _stack_row(heads: Sequence[str], cells: Sequence[str], write: TerminalWriter) -> RenderableType:
    name, *values = cells
    line = write("; ".join(f"{head} {text}" for head, text in zip(heads[1:], values, strict=True)))
    head = Text.assemble(write(f"{heads[0]} ", "dim"), write(name, "bold"))
    return Group(head, indent_line(line))


def indent_line(line: Text) -> RenderableType:
    """Indent a line by two columns and let it wrap anywhere."""
    line.overflow = "fold"
    return Padding.indent(line, 2)
