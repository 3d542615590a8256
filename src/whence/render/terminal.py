"""The writer of the terminal: rich texts and tables, fitted to its width and characters."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.render.charts import sketch_plot
from whence.render.colour import compute_shade_colour, compute_shades, get_colour_scale
from whence.render.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Columns,
    Details,
    Document,
    FactList,
    Heading,
    Paragraph,
    Plot,
    TintedText,
    drop_empty,
    expand_plot,
    select_columns,
)
from whence.render.document import Table as TableBlock
from whence.render.image_maps import ImageMapsRenderable, group_by_image
from whence.render.text import (
    describe_prediction,
    format_input_warnings,
    list_explanation_notes,
    needs_gap,
    sanitise_text,
    select_top_features,
    to_line,
)

_BAR_WIDTH = 16
_MIN_SIDE_BY_SIDE = 50  # columns; a narrower terminal shows everything in one column
# Substitutes for characters that an ASCII terminal would show as escape codes.
_ASCII_SIGNS = str.maketrans(
    {"↑": "^", "↓": "v", "°": "~", "✓": "+", "✗": "x", "–": "-", "�": "?", "…": "~"}
)


class TerminalWriter:
    """Makes rich texts and tables, with ASCII substitutes if the terminal's encoding needs them."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._ascii_only = ascii_only
        self._signs = _ASCII_SIGNS if ascii_only else {}

    def __call__(self, text: str, style: str = "") -> Text:
        """Return a text in a style."""
        return Text(sanitise_text(text).translate(self._signs), style)

    def heading(self, text: str, badge: Cell | None, style: str = "bold") -> Text:
        """Return a heading with its verdict."""
        parts = [self(to_line(text), style)] if text else []
        return Text("  ").join([*parts, *([self.cell(badge)] if badge else [])])

    def blocks(self, given: Sequence[Block], width: int, before: Block) -> Iterator[RenderableType]:
        """Yield blocks one below the other, with empty lines where they are needed."""
        for block in drop_empty(given):
            match block:
                case Details(_, _, instead):
                    inner = drop_empty(instead)
                    yield from self.blocks(inner, width, before)
                    before = inner[-1] if inner else before
                    continue
                case Plot() if (expanded := expand_plot(block)) != [block]:
                    yield from self.blocks(expanded, width, before)
                    before = block
                    continue
            own = list(self._render_block(block, width))
            if own and needs_gap(before, block):
                yield Text()
            yield from own
            before = block if own else before

    def _render_block(self, block: Block, width: int) -> Iterator[RenderableType]:
        match block:
            case Heading(text, badge):
                yield self.heading(text, badge)
            case Paragraph(text, tone):
                yield self(to_line(text), _STYLES[tone])
            case Bullets(lines, tone):
                yield from (self(to_line(line), _STYLES[tone]) for line in lines)
            case FactList(pairs):
                yield render_fact_list([(n, to_line(t)) for n, t in pairs if t], self, width)
            case TableBlock(name=name):
                yield from [self(to_line(name), "bold")] if name else []
                yield from self._render_table(block, width)
            case TintedText(pieces, legend):
                line = Text.assemble(
                    *(
                        self(p.text, choose_tint_style(p.shade))
                        for p in pieces
                        if p.kind != "special"
                    )
                )
                yield Padding.indent(line, 2) if block.beside else line
                yield from [self(to_line(legend), "dim")] if legend else []
            case Plot(plot):
                for row in sketch_plot(plot, width, ascii_only=self._ascii_only):
                    yield Text(row, no_wrap=True, overflow="ellipsis")
            case Columns(inner):
                yield from self._render_columns(drop_empty(inner), width)
            case Code(text):
                yield from (indent_line(self(line)) for line in text.splitlines())

    def _render_columns(self, inner: Sequence[Block], width: int) -> Iterator[RenderableType]:
        """Yield blocks in two columns, if there is room."""
        beside = 2 if width >= 2 * _MIN_CHART_WIDTH + 2 else 1
        room = (width - 2 * (beside - 1)) // beside
        for at in range(0, len(inner), beside):
            yield from [Text()] if at else []
            grid = Table.grid(padding=(0, 2, 0, 0))
            for _ in range(beside):
                grid.add_column(width=room)
            grid.add_row(
                *(Group(*self._render_block(one, room)) for one in inner[at : at + beside])
            )
            yield grid

    def cell(self, cell: Cell) -> Text:
        """Return a cell as rich text: shaded, in its tone, with its bar and its note."""
        tint = "" if cell.tint is None else choose_tint_style(cell.tint)
        text = self(to_line(cell.text), tint or _STYLES[cell.tone])
        if cell.bar is not None:
            colour = compute_shade_colour(1.0 if cell.bar > 0 else -1.0)
            sign = "#" if self._ascii_only else "█"
            blocks_of = sign * round(_BAR_WIDTH * min(1.0, abs(cell.bar)))
            text.append(blocks_of, "rgb({},{},{})".format(*colour))
        if cell.note:
            text = Text.assemble(text, " ", self(to_line(cell.note), "dim"))
        return text

    def _render_table(self, table: TableBlock, width: int) -> Iterator[RenderableType]:
        for number, (heads, rows) in enumerate(select_columns(table, width, bars=True)):
            yield from [Text()] if number else []
            grid = [[self.cell(cell) for cell in row] for row in rows]
            names = [Text.assemble(self.cell(head), style="dim") for head in heads]
            lengths = [
                max(cell_len(text.plain) for text in column)
                for column in zip(names, *grid, strict=True)
            ]
            needed = sum(min(length, _SHORT_CELL) for length in lengths) + 2 * (len(lengths) - 1)
            if needed > width and len(lengths) > 2:
                yield from (self._stack_row(names, cells) for cells in grid)
                continue
            show_heads = any(name.plain for name in names)
            made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=show_heads)
            for name, length, first in zip(names, lengths, rows[0], strict=True):
                made.add_column(
                    name, no_wrap=length <= _SHORT_CELL, overflow="fold", justify=first.align
                )
            for cells in grid:
                cells[0].stylize("bold" if show_heads and not cells[0].style else "")
                made.add_row(*cells)
            yield made

    def _stack_row(self, heads: Sequence[Text], cells: Sequence[Text]) -> RenderableType:
        """Return a row as its name and, below it, what its columns say."""
        named = zip(heads[1:], cells[1:], strict=True)
        line = Text("; ").join(
            Text(" ").join([*([head] if head.plain else []), text]) for head, text in named if text
        )
        top = Text(" ").join([*([heads[0]] if heads[0].plain else []), cells[0]])
        return Group(top, indent_line(line))


_STYLES = {"": "", "strong": "bold", "dim": "dim", "warning": "yellow"}
_STYLES |= {"good": "green", "weak": "yellow", "bad": "red"}
_SHORT_CELL = 28  # columns; a longer text is wrapped where the table would be too wide
_MIN_CHART_WIDTH = 36  # columns of one of two charts side by side


class TerminalDocument:
    """A document as a rich renderable."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the sections and their blocks."""
        write, width = TerminalWriter(ascii_only=options.ascii_only), options.max_width
        sections = self._document.list_sections()
        for number, section in enumerate(sections):
            yield from [Text()] if number else []
            style = "bold underline" if len(sections) > 1 else "bold"
            if section.title or section.badge:
                yield write.heading(section.title, section.badge, style)
            yield from write.blocks(section.blocks, width, Heading(""))


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
