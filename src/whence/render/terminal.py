"""The writer of the terminal: rich texts and tables, fitted to its width and characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


_STYLES = {"": "", "strong": "bold", "dim": "dim", "warning": "yellow"}
_STYLES |= {"good": "green", "weak": "yellow", "bad": "red"}
_SHORT_CELL = 28  # columns; a longer text is wrapped where the table would be too wide
_MIN_CHART_WIDTH = 36  # columns of one of two charts side by side


@dataclass
class TerminalDocument:
    """A document as a rich renderable; `ascii_only` is what the console said that it was last printed on."""

    document: doc.Document
    ascii_only: bool = False

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the sections and their blocks, with empty lines where they are needed."""
        self.ascii_only, width = options.ascii_only, options.max_width
        sections = self.document.list_sections()
        style = "bold underline" if len(sections) > 1 else "bold"
        for number, section in enumerate(sections):
            yield from [Text()] if number else []
            before: doc.Block = doc.Heading(section.title, section.badge)
            if section.title or section.badge:
                yield from self._render_block(before, width, style)
            for block in flatten(section.blocks, columns=True):
                own = list(self._render_block(block, width))
                if own and needs_gap(before, block):
                    yield Text()
                yield from own
                before = block if own else before

    def _render_block(
        self, block: doc.Block, width: int, style: str = "bold"
    ) -> Iterator[RenderableType]:
        match block:
            case doc.Heading(text, badge):
                parts = [self._write(to_line(text), style)] if text else []
                yield Text("  ").join([*parts, *([self._render_cell(badge)] if badge else [])])
            case doc.Paragraph(text, tone):
                yield self._write(to_line(text), _STYLES[tone])
            case doc.Bullets(lines, tone):
                yield from (self._write(to_line(line), _STYLES[tone]) for line in lines)
            case doc.FactList(pairs):
                known = [(self._write(n, "dim"), self._write(to_line(t))) for n, t in pairs if t]
                if width < _MIN_SIDE_BY_SIDE:
                    colon = Text(": ", "dim")
                    yield Group(*(Text.assemble(name, colon, fact) for name, fact in known))
                    return
                facts = Table.grid(padding=(0, 2, 0, 0))
                facts.add_column(no_wrap=True)
                facts.add_column(overflow="fold")
                for pair in known:
                    facts.add_row(*pair)
                yield facts
            case doc.Table(name=name):
                yield from [self._write(to_line(name), "bold")] if name else []
                yield from self._render_table(block, width)
            case doc.TintedText(pieces, legend):
                tints = (p for p in pieces if p.kind != "special")
                line = Text.assemble(*(self._write(p.text, tint=p.shade) for p in tints))
                yield Padding.indent(line, 2) if block.beside else line
                yield from [self._write(to_line(legend), "dim")] if legend else []
            case doc.Plot(plot):
                for row in sketch_plot(plot, width):
                    line = self._write(row)
                    line.no_wrap, line.overflow = True, "ellipsis"
                    yield line
            case doc.Columns(inner):
                yield from self._render_columns(doc.drop_empty(inner), width)
            case doc.Code(text):
                yield from (_indent_line(self._write(line)) for line in text.splitlines())

    def _render_columns(self, inner: Sequence[doc.Block], width: int) -> Iterator[RenderableType]:
        """Yield blocks in two columns, if there is room."""
        beside = 2 if width >= 2 * _MIN_CHART_WIDTH + 2 else 1
        room = (width - 2 * (beside - 1)) // beside
        for at in range(0, len(inner), beside):
            yield from [Text()] if at else []
            grid = Table.grid(padding=(0, 2, 0, 0))
            for _ in range(beside):
                grid.add_column(width=room)
            row = (Group(*self._render_block(one, room)) for one in inner[at : at + beside])
            grid.add_row(*row)
            yield grid

    def _render_table(self, table: doc.Table, width: int) -> Iterator[RenderableType]:
        for number, (heads, rows) in enumerate(select_columns(table, width, bars=True)):
            yield from [Text()] if number else []
            grid = [[self._render_cell(cell) for cell in row] for row in rows]
            names = [Text.assemble(self._render_cell(head), style="dim") for head in heads]
            lengths = [
                max(cell_len(text.plain) for text in column)
                for column in zip(names, *grid, strict=True)
            ]
            needed = sum(min(length, _SHORT_CELL) for length in lengths) + 2 * (len(lengths) - 1)
            if needed > width and (len(lengths) > 2 or table.wide == "split"):
                yield from (_stack_row(names, cells) for cells in grid)
                continue
            show_heads = any(name.plain for name in names)
            made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=show_heads)
            for name, length, first in zip(names, lengths, rows[0], strict=True):
                short = length <= _SHORT_CELL
                made.add_column(name, no_wrap=short, overflow="fold", justify=first.align)
            for cells in grid:
                cells[0].stylize("bold" if show_heads and not cells[0].style else "")
                made.add_row(*cells)
            yield made

    def _render_cell(self, cell: doc.Cell) -> Text:
        """Return a cell as rich text: shaded, in its tone, with its bar and its note."""
        text = self._write(to_line(cell.text), _STYLES[cell.tone], cell.tint or 0.0)
        if cell.bar is not None:
            colour = compute_shade_colour(1.0 if cell.bar > 0 else -1.0)
            bar = self._write("█" * round(_BAR_WIDTH * min(1.0, abs(cell.bar))))
            text.append(bar.plain, "rgb({},{},{})".format(*colour))
        if cell.note:
            text = Text.assemble(text, " ", self._write(to_line(cell.note), "dim"))
        return text

    def _write(self, text: str, style: str = "", tint: float = 0.0) -> Text:
        """Return a text in its style or, where it has a tint, in black on the colour of that."""
        plain = sanitise_text(text)
        # Nearly white would be the brightest spot on a dark terminal, so faint scores get no colour.
        if abs(tint) >= 0.1:
            colour = compute_shade_colour(tint * 0.7 + (0.3 if tint > 0 else -0.3))
            style = "rgb(0,0,0) on rgb({},{},{})".format(*colour)
        return Text(plain.translate(_ASCII_SIGNS) if self.ascii_only else plain, style)


def _stack_row(heads: Sequence[Text], cells: Sequence[Text]) -> RenderableType:
    """Return a row as its name and, below it, what its columns say."""
    pairs = [
        Text(" ").join([*([head] if head.plain else []), text])
        for head, text in zip(heads, cells, strict=True)
    ]
    said = (pair for pair, text in zip(pairs[1:], cells[1:], strict=True) if text)
    return Group(pairs[0], _indent_line(Text("; ").join(said)))


def _indent_line(line: Text) -> RenderableType:
    """Indent a line by two columns and let it wrap anywhere."""
    line.overflow = "fold"
    return Padding.indent(line, 2)
