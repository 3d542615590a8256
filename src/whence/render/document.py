"""Documents made of blocks, their writers as methods, and the format of numbers.

A `Document` is sections of blocks. It holds plain texts, as they came: writers put a text on one line, take out
control characters and escape it, so that no report does. A report.py has one function, which lays out the result
once for every surface:

    def build_document(data: JsonObject) -> Document:
        rows = [
            (one["name"], Cell(one["verdict"], VERDICT_TONES[one["verdict"]], badge=True))
            for one in data["methods"]
        ]
        facts = FactList([("model", data["model"]["name"]), ("seed", str(data["seed"]))])
        table = Table(("method", "verdict"), rows, name="Verdicts")
        details = Details("Code", [Code(data["code"])], instead=[Paragraph("--html has the code.", "dim")])
        overview = Section(data["sentence"], [Paragraph(data["warning"], "warning"), facts, table])
        return Document("whence: a result", [overview, Section("Details", [details])])

Blocks without content (an empty text, no rows, no blocks) are left out, and sections without blocks, too, so a report
needs no `if` around them. A mean is written with its interval, to as many decimals as show the width of most intervals
in two digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import RenderableType

JsonObject = Mapping[str, Any]

# How a text is set off: "good", "weak" and "bad" are verdicts, green, yellow and red where there are colours.
Tone = Literal["", "strong", "dim", "warning", "good", "weak", "bad"]
VERDICT_TONES: Mapping[str, Tone] = {
    "holds": "good",
    "yes": "good",
    "weak": "weak",
    "undecided": "weak",
    "fails": "bad",
    "no": "bad",
    "not tested": "dim",
}


@dataclass(frozen=True)
class Track:
    """A value with its interval as a dot on a line, which pages draw; the text beside it has the numbers."""

    value: float
    low: float
    high: float
    ends: tuple[float, float]  # of the line
    mark: float | None = None  # a threshold


@dataclass(frozen=True)
class Cell:
    """A text in a table or heading, with what sets it off."""

    text: str
    tone: Tone = ""
    note: str = ""  # said after the text, in dim
    align: Literal["left", "right"] = "left"
    badge: bool = False  # a verdict: a chip on a page
    tint: float | None = None  # from -1 to 1: the shade behind the text
    bar: float | None = None  # from -1 to 1: a bar beside the text, blue or, if negative, orange
    track: Track | None = None
    link: str = ""  # the title of the section it leads to, on a page
    title: str = ""  # what a page shows when one points at it

    @property
    def plain(self) -> str:
        """The text and its note."""
        return f"{self.text} {self.note}".strip() if self.note else self.text


def to_cell(value: "str | Cell") -> Cell:
    """Return a text as a cell."""
    return value if isinstance(value, Cell) else Cell(value)


@dataclass(frozen=True)
class Heading:
    """A heading within a section, with a verdict if it has one."""

    text: str
    badge: Cell | None = None


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of one or more sentences."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Bullets:
    """A list of lines."""

    lines: Sequence[str]
    tone: Tone = ""


@dataclass(frozen=True)
class FactList:
    """A list of names and values; those without a value are left out."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A table: a header row, or none, and rows whose first cell is their name.

    Where it is too wide, `wide` says what becomes of it: its rows are stacked, or its columns are split into several
    tables that repeat the first. Rows below `ruled` rows from the end stand below a rule (random explanations).
    """

    heads: Sequence[str | Cell]
    rows: Sequence[Sequence[str | Cell]]
    name: str = ""  # a heading above it, and its name for screen readers
    wide: Literal["stack", "split"] = "stack"
    ruled: int = 0


@dataclass(frozen=True)
class Tint:
    """A piece of a text with the shade behind it."""

    text: str
    shade: float = 0.0  # from -1 to 1
    title: str = ""  # its score
    kind: Literal["", "special", "marked"] = ""


@dataclass(frozen=True)
class TintedText:
    """A text whose pieces are tinted by their scores. Pieces with spaces between them are pieces, too."""

    pieces: Sequence[Tint]
    legend: str = ""
    plain: str = ""  # what text and Markdown show, which have no shades
    beside: bool = False  # the second text of a pair


@dataclass(frozen=True)
class Picture:
    """A picture as base64 PNG, with its caption."""

    png: str
    size: tuple[int, int]  # height and width
    title: str
    under: str
    alt: str


@dataclass(frozen=True)
class Pictures:
    """Rows of pictures side by side, which only pages show; the first row starts with the picture itself."""

    rows: Sequence[Sequence[Picture]]


@dataclass(frozen=True)
class Plot:
    """A plot, see whence.render.charts: drawn on a page, sketched in characters elsewhere."""

    plot: JsonObject


@dataclass(frozen=True)
class Code:
    """Code to copy verbatim."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Columns:
    """Blocks side by side, where there is room."""

    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class Details:
    """Blocks folded away on a page, or open if they have no title; elsewhere `instead` stands for them."""

    title: str
    blocks: "Sequence[Block]"
    instead: "Sequence[Block]" = ()


Block = (
    Heading
    | Paragraph
    | Bullets
    | FactList
    | Table
    | TintedText
    | Pictures
    | Plot
    | Code
    | Columns
    | Details
)


def drop_empty(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks that have content."""
    kept: list[Block] = []
    content: Any
    for block in blocks:
        match block:
            case Columns(inner):
                content = drop_empty(inner)
            case Details(_, inner, instead):
                content = drop_empty(inner) or drop_empty(instead)
            case Table(_, content) | Heading(content) | Paragraph(content) | Code(content):
                pass
            case Bullets(content) | FactList(content) | Pictures(content) | TintedText(content):
                pass
            case Plot(content):
                pass
        if content:
            kept.append(block)
    return kept


@dataclass(frozen=True)
class Section:
    """A heading, with a verdict if it has one, and blocks."""

    title: str
    blocks: Sequence[Block] = ()
    badge: Cell | None = None


@dataclass(frozen=True)
class Document:
    """The title of a page, sections, and a line at the foot of the page."""

    title: str
    sections: Sequence[Section]
    foot: str = ""
    contents: bool = False  # a page starts with links to its sections

    def list_sections(self) -> list[Section]:
        """Return the sections that have content, without their empty blocks."""
        sections = (replace(one, blocks=drop_empty(one.blocks)) for one in self.sections)
        return [one for one in sections if one.title or one.blocks]

    def to_text(self) -> str:
        """Return the document as plain text."""
        from whence.render.text import write_text_document

        return write_text_document(self)

    def to_terminal(self) -> "RenderableType":
        """Return the document as a rich renderable, fitted to the terminal's width and characters."""
        from whence.render.terminal import TerminalDocument

        return TerminalDocument(self)

    def to_html(self, *, fragment: bool = False) -> str:
        """Return a page that opens from disk with no network, or a fragment for a notebook cell."""
        from whence.render.html import write_fragment, write_page

        return write_fragment(self) if fragment else write_page(self)

    def to_markdown(self) -> str:
        """Return the document in Markdown."""
        from whence.render.markdown import write_markdown_document

        return write_markdown_document(self)

    def to_latex(self) -> str:
        """Return the document in LaTeX, for inclusion in another (needs booktabs and xcolor)."""
        from whence.render.latex import write_latex_document

        return write_latex_document(self)


TOO_FEW = "too few for an interval"


def choose_decimals(intervals: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the decimals that show the median interval width in two digits; None if more than 5."""
    widths = sorted(one["high"] - one["low"] for one in intervals if one["low"] is not None)
    widths = [width for width in widths if width > 0]
    if not widths:
        return 3
    decimals = 1 - floor(log10(widths[len(widths) // 2]))
    return None if decimals > 5 else max(0, min(decimals, 4))


def format_number(value: float, digits: int | None) -> str:
    """Format one number."""
    text = f"{value:.3g}" if digits is None else f"{value:.{digits}f}"
    return text.removeprefix("-") if not float(text) else text


def format_interval(interval: Mapping[str, Any], digits: int | None, usual_n: int = 0) -> str:
    """Format a mean with its interval, and n unless n equals `usual_n`; a constant gets "(always)"."""
    mean, low, high = (interval[end] for end in ("mean", "low", "high"))
    usual, text = interval["n"] == usual_n, format_number(mean, digits)
    if low is None:
        return text if usual else f"{text} (n={interval['n']}: {TOO_FEW})"
    n = "" if usual else f" n={interval['n']}"
    if low == high:
        return f"{text} (always){n}"
    return f"{text} [{format_number(low, digits)}, {format_number(high, digits)}]{n}"
