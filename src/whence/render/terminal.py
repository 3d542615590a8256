"""The writer of the terminal: rich texts and tables, fitted to its width and characters."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.render import document as doc
from whence.render.charts import sketch_plot
from whence.render.colour import compute_shade_colour
from whence.render.text import flatten, needs_gap, sanitise_text, select_columns, to_line

_BAR_WIDTH = 16
_MIN_SIDE_BY_SIDE = 50  # columns; a narrower terminal shows everything in one column
# Substitutes for characters that an ASCII terminal would show as escape codes.
_ASCII_SIGNS = str.maketrans("↑↓°✓✗–�…·▁▂▃▄▅▆▇█░━┃┏┓┗┛│└─", "^v~+x-?~ ._-=+*%#:******|+-")


class TerminalWriter:
    """Makes rich texts and tables, with ASCII substitutes if the terminal's encoding needs them."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._signs = _ASCII_SIGNS if ascii_only else {}

    def __call__(self, text: str, style: str = "") -> Text:
        """Return a text in a style."""
        return Text(sanitise_text(text).translate(self._signs), style)

    def heading(self, text: str, badge: doc.Cell | None, style: str = "bold") -> Text:
        """Return a heading with its verdict."""
        parts = [self(to_line(text), style)] if text else []
        return Text("  ").join([*parts, *([self.cell(badge)] if badge else [])])

    def blocks(
        self, given: Sequence[doc.Block], width: int, before: doc.Block
    ) -> Iterator[RenderableType]:
        """Yield blocks one below the other, with empty lines where they are needed."""
        for block in flatten(given, columns=True):
            own = list(self._render_block(block, width))
            if own and needs_gap(before, block):
                yield Text()
            yield from own
            before = block if own else before

    def _render_block(self, block: doc.Block, width: int) -> Iterator[RenderableType]:
        match block:
            case doc.Heading(text, badge):
                yield self.heading(text, badge)
            case doc.Paragraph(text, tone):
                yield self(to_line(text), _STYLES[tone])
            case doc.Bullets(lines, tone):
                yield from (self(to_line(line), _STYLES[tone]) for line in lines)
            case doc.FactList(pairs):
                yield render_fact_list([(n, to_line(t)) for n, t in pairs if t], self, width)
            case doc.Table(name=name):
                yield from [self(to_line(name), "bold")] if name else []
                yield from self._render_table(block, width)
            case doc.TintedText(pieces, legend):
                line = Text.assemble(
                    *(
                        self(p.text, choose_tint_style(p.shade))
                        for p in pieces
                        if p.kind != "special"
                    )
                )
                yield Padding.indent(line, 2) if block.beside else line
                yield from [self(to_line(legend), "dim")] if legend else []
            case doc.Plot(plot):
                for row in sketch_plot(plot, width):
                    yield Text(row.translate(self._signs), no_wrap=True, overflow="ellipsis")
            case doc.Columns(inner):
                yield from self._render_columns(doc.drop_empty(inner), width)
            case doc.Code(text):
                yield from (indent_line(self(line)) for line in text.splitlines())

    def _render_columns(self, inner: Sequence[doc.Block], width: int) -> Iterator[RenderableType]:
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

    def cell(self, cell: doc.Cell) -> Text:
        """Return a cell as rich text: shaded, in its tone, with its bar and its note."""
        tint = "" if cell.tint is None else choose_tint_style(cell.tint)
        text = self(to_line(cell.text), tint or _STYLES[cell.tone])
        if cell.bar is not None:
            colour = compute_shade_colour(1.0 if cell.bar > 0 else -1.0)
            blocks_of = "█" * round(_BAR_WIDTH * min(1.0, abs(cell.bar)))
            text.append(blocks_of.translate(self._signs), "rgb({},{},{})".format(*colour))
        if cell.note:
            text = Text.assemble(text, " ", self(to_line(cell.note), "dim"))
        return text

    def _render_table(self, table: doc.Table, width: int) -> Iterator[RenderableType]:
        for number, (heads, rows) in enumerate(select_columns(table, width, bars=True)):
            yield from [Text()] if number else []
            grid = [[self.cell(cell) for cell in row] for row in rows]
            names = [Text.assemble(self.cell(head), style="dim") for head in heads]
            lengths = [
                max(cell_len(text.plain) for text in column)
                for column in zip(names, *grid, strict=True)
            ]
            needed = sum(min(length, _SHORT_CELL) for length in lengths) + 2 * (len(lengths) - 1)
            if needed > width and (len(lengths) > 2 or table.wide == "split"):
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

    def __init__(self, document: doc.Document) -> None:
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
            yield from write.blocks(section.blocks, width, doc.Heading(""))


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


def indent_line(line: Text) -> RenderableType:
    """Indent a line by two columns and let it wrap anywhere."""
    line.overflow = "fold"
    return Padding.indent(line, 2)
