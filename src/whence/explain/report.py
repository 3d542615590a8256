"""What is said about a generated answer, the same on every surface: its rows, its columns and their sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.report.text import cut, visible
from whence.view.scale import Scale, scale_of

Facts = Mapping[str, Any]

BEFORE = "(said before)"
CHANCE = (
    "share: the part of the size of all scores that fell on the piece, of the prompt's text; by length: the "
    "part that an explanation which knows nothing would give it."
)


@dataclass(frozen=True)
class Row:
    """One piece of the prompt, several together, or what was said before."""

    text: str
    cells: tuple[float, ...]  # one for each part of the answer
    total: float
    share: float | None = None
    chance: float | None = None
    special: bool = False
    marked: bool = False


def one_line(text: str, most: int = 0) -> str:
    """Return a text on one line, cut in its middle where it is longer than `most` characters."""
    line = " ".join(visible(text).split()) or repr(text)[1:-1].strip() or "(space)"
    if not most or len(line) <= most:
        return line
    head = (most - 1) * 2 // 3
    tail = most - 1 - head
    return f"{line[:head]}…{line[-tail:]}" if tail else f"{line[:head]}…"


def headline(payload: Facts) -> str:
    """Say what the model went on with."""
    said = payload["text"]
    if said is None:
        said = " ".join(token["text"] for token in payload["output_tokens"])
    return one_line(said) or "(nothing)"


def setting(payload: Facts) -> str:
    """Say how it was explained."""
    count = len(payload["output_tokens"])
    rather = ", each rather than the likeliest other" if payload["contrast"] else ""
    return f"{payload['method']}, by {payload['granularity']}, {count} token{'s' * (count != 1)}{rather}"


def legend(payload: Facts) -> str:
    """Say what the cells mean."""
    what = (
        "blue speaks for the part of the answer above it, orange against it"
        if payload["signed"]
        else "the stronger, the larger the score; this method has no sign"
    )
    scale = scale_in_generation(payload)
    said = f"{what}; figures are hundredths of full colour, special tokens do not set the scale; {scale['legend']}"
    return f"{said}. {scale['note']}" if scale["note"] else said


def effort(payload: Facts) -> str:
    """Say what it took."""
    passes = payload["passes"]
    return (
        f"{passes['decode']} steps to generate, {passes['forward']} forward and {passes['backward']} backward passes "
        f"to explain, {payload['seconds']:.2f} s"
    )


def scale_in_generation(payload: Facts) -> Scale:
    """Return the scale of the matrix that an answer carries; one of an older file gets one without a unit."""
    found: Scale | None = payload.get("scale")
    if found is not None:
        return found
    plain = [i for i, piece in enumerate(payload["pieces"]) if not piece["special"]]
    cells = [row[i] for row in payload["matrix"] for i in plain]
    return scale_of(cells, "relative", part="piece")


def largest(payload: Facts) -> float:
    """Return the score of full colour, for a division."""
    return scale_in_generation(payload)["full"] or 1.0


def rows(payload: Facts, most: int | None = None) -> list[Row]:
    """Return the pieces in the order of the prompt, the weakest beyond `most` as one, and what was said before."""
    pieces, matrix = payload["pieces"], payload["matrix"]
    columns = [tuple(cells[i] for cells in matrix) for i in range(len(pieces))]
    strength = [sum(map(abs, column)) for column in columns]
    order = sorted(range(len(pieces)), key=lambda i: (-strength[i], i))
    kept = sorted(order if most is None or len(order) <= most + 1 else order[:most])
    found = [
        Row(
            one_line(pieces[i]["text"]),
            columns[i],
            pieces[i]["total"],
            pieces[i]["share"],
            pieces[i]["chance"],
            pieces[i]["special"],
            pieces[i]["marked"],
        )
        for i in kept
    ]
    if rest := [i for i in range(len(pieces)) if i not in set(kept)]:
        found.append(_together(payload, rest, columns))
    before = tuple(sum(cells) for cells in payload["earlier"])
    if len(before) > 1:
        found.append(Row(BEFORE, before, sum(before), special=True))
    return found


def _together(payload: Facts, numbers: Sequence[int], columns: Sequence[tuple[float, ...]]) -> Row:
    pieces = [payload["pieces"][i] for i in numbers]
    cells = tuple(sum(values) for values in zip(*(columns[i] for i in numbers), strict=True))
    shares = [piece["share"] for piece in pieces if piece["share"] is not None]
    chances = [piece["chance"] for piece in pieces if piece["chance"] is not None]
    return Row(
        f"({len(numbers)} weaker ones)",
        cells,
        sum(piece["total"] for piece in pieces),
        sum(shares) if shares else None,
        sum(chances) if chances else None,
    )


def heads(payload: Facts) -> list[str]:
    """Return the parts of the answer, each on one line."""
    return [one_line(output["text"]) for output in payload["outputs"]]


def hundredths(value: float, scale: float) -> str:
    """Write a score in hundredths of the largest; nothing has a sign."""
    written = f"{100 * value / scale:+.0f}"
    return "0" if written in ("+0", "-0") else written


def percent(value: float | None) -> str:
    """Write a share."""
    return "" if value is None else f"{value:.1%}"


def notes(payload: Facts) -> list[str]:
    """Say what else a reader must know."""
    said = [cut(payload)]
    if payload.get("full"):
        said.append(
            f"The model's context is full after {len(payload['output_tokens'])} tokens: it cannot go on."
        )
    return [one for one in said if one]


"""A generated answer and what it came from: as text, in a terminal and on a page."""

from whence.report.generation.html import fragment, page
from whence.report.generation.text import plain

__all__ = ["fragment", "page", "plain"]


"""A generated answer as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.generation.wording import (
    CHANCE,
    Row,
    effort,
    headline,
    heads,
    hundredths,
    largest,
    legend,
    notes,
    one_line,
    percent,
    rows,
    setting,
)
from whence.report.sheet import cell, provenance, sheet
from whence.report.text import tame
from whence.view.scale import Scale, scale_of
from whence.view.shade import colour

Facts = Mapping[str, Any]

_PIECES = 300  # rows that a page shows; the weakest beyond are one
_WIDE = 160  # characters of a piece in the matrix
_TITLE = "whence: what did the answer come from?"
_FOOT = "Full colour is the largest |score| of a piece; special tokens are shown and do not set the scale."
_STYLE = """
.whence .wide { overflow-x: auto; margin: .5rem 0; }
.whence .wide table { border-collapse: separate; border-spacing: 2px; }
.whence .wide th, .whence .wide td { padding: .15rem .4rem; border: 0; vertical-align: top; }
.whence .wide thead th { text-align: right; white-space: pre; vertical-align: bottom; }
.whence .wide tbody th { font-weight: 400; text-align: left; max-width: 26rem; min-width: 8rem;
  overflow-wrap: anywhere; }
.whence .wide tbody th.marked { border-left: 3px solid #6b7785; padding-left: .5rem; }
.whence .wide td { text-align: right; color: #000; border-radius: 3px; }
.whence .wide .sum { padding-left: 1.2rem; }
.whence .strip mark.marked { outline: 1px solid #6b7785; }
"""


def page(payload: Facts, heading: str = _TITLE) -> str:
    """Return a whole page."""
    return tame(sheet(heading, _section(payload), _FOOT, _STYLE))


def fragment(payload: Facts) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_section(payload), _STYLE))


def _section(payload: Facts) -> str:
    found = rows(payload, _PIECES)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(headline(payload))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}; {escape(setting(payload))}</p>',
            *(f"<p><strong>{escape(note)}</strong></p>" for note in notes(payload)),
            "<h3>The prompt, over the whole answer</h3>",
            _strip(payload),
            "<h3>Piece by piece</h3>",
            f'<p class="dim">{escape(legend(payload))}</p>',
            _matrix(payload, found),
            f'<p class="dim">{escape(CHANCE)}</p>',
            f'<p class="dim">{escape(effort(payload))}</p>',
            provenance(dict(payload)),
            "</section>",
        ]
    )


def _strip(payload: Facts) -> str:
    """Return the prompt with each piece on the colour of its sum, and the answer behind it."""
    text, pieces = payload["input"]["text"], payload["pieces"]
    plain = [piece for piece in pieces if not piece["special"]]
    own: Scale = payload.get("total_scale") or scale_of(
        [piece["total"] for piece in plain], "relative", part="piece"
    )
    scale = own["full"] or 1.0
    parts, at = [], 0
    for piece in plain:
        known = text is not None and piece["start"] is not None
        if known and piece["start"] < at:  # a part of a character that is shown already
            continue
        parts.append(escape(text[at : piece["start"]]) if known else " ")
        at = piece["end"] if known else at
        marked = ' class="marked"' if piece["marked"] else ""
        parts.append(
            f'<mark{marked} style="background: {_css(piece["total"] / scale)}" title="{piece["total"]:+.6g}">'
            f"{escape(piece['text'])}</mark>"
        )
    parts.append(escape(text[at:]) if text is not None else "")
    said = payload["text"] if payload["text"] is not None else " " + headline(payload)
    told = own["legend"] if not own["note"] else f"{own['legend']}. {own['note']}"
    return (
        f'<div class="strip" dir="auto">{"".join(parts)}<strong>{escape(said)}</strong></div>'
        f'<p class="dim">{escape(told)}</p>'
    )


def _matrix(payload: Facts, found: Sequence[Row]) -> str:
    scale = largest(payload)
    names = "".join(
        f'<th scope="col" title="{output["probability"]:.2%}">{escape(name)}</th>'
        for name, output in zip(heads(payload), payload["outputs"], strict=True)
    )
    sums = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (("sum", ' class="sum"'), ("share", ""), ("by length", ""))
    )
    body = "".join(_row(row, scale) for row in found)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Pieces of the prompt by parts of the answer">'
        "<table>"
        f'<thead><tr><th scope="col"></th>{names}{sums}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(row: Row, scale: float) -> str:
    kind = ' class="marked"' if row.marked else ' class="dim"' if row.special else ""
    cells = "".join(
        f'<td style="background: {_css(value / scale)}" title="{value:+.6g}">{hundredths(value, scale)}</td>'
        for value in row.cells
    )
    sums = f'<td class="sum">{row.total:+.3g}</td><td>{percent(row.share)}</td><td>{percent(row.chance)}</td>'
    return f'<tr><th scope="row"{kind}>{escape(one_line(row.text, _WIDE))}</th>{cells}{sums}</tr>'


def _css(tint: float) -> str:
    clipped = max(-1.0, min(1.0, tint))
    return "transparent" if abs(clipped) < 0.005 else "rgb({},{},{})".format(*colour(clipped))


"""A generated answer in a terminal: pieces of the prompt by parts of the answer, and their sums."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.generation.wording import (
    CHANCE,
    Row,
    effort,
    headline,
    heads,
    hundredths,
    largest,
    legend,
    notes,
    one_line,
    percent,
    rows,
    setting,
)
from whence.report.terminal import Writer, tone
from whence.report.text import visible

_PIECES = 14
_NARROWEST, _WIDEST = 5, 9  # of a column


class Sheet:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the answer out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        width = options.max_width
        yield Text.assemble(
            write(visible(payload["model"]["name"]), "dim"), "  ", write(headline(payload), "bold")
        )
        yield write(setting(payload), "dim")
        for note in notes(payload):
            yield write(note, "yellow")
        table = rows(payload, _PIECES)
        label = max(12, min(max(cell_len(row.text) for row in table), width // 3))
        for some in _bands(heads(payload), width - label - 1):
            yield Text()
            yield _matrix(payload, table, some, label, write)
        yield write(legend(payload), "dim")
        yield Text()
        yield _sums(table, label, write)
        yield write(CHANCE, "dim")
        yield write(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay a generated answer out for rich."""
    return Sheet(payload)


def _bands(names: Sequence[str], width: int) -> Iterator[list[tuple[int, str, int]]]:
    """Yield as many columns at a time as there is room for: number, name and width of each."""
    band: list[tuple[int, str, int]] = []
    used = 0
    for number, name in enumerate(names):
        wide = max(_NARROWEST, min(_WIDEST, cell_len(name)))
        if band and used + wide + 1 > width:
            yield band
            band, used = [], 0
        band.append((number, name, wide))
        used += wide + 1
    yield band


def _matrix(
    payload: Mapping[str, Any],
    table: Sequence[Row],
    band: Sequence[tuple[int, str, int]],
    label: int,
    write: Writer,
) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=label, no_wrap=True)
    for _, _, wide in band:
        grid.add_column(width=wide, no_wrap=True, justify="right")
    grid.add_row("", *(write(one_line(name, wide), "bold") for _, name, wide in band))
    scale = largest(payload)
    for row in table:
        cells = [
            write(
                hundredths(row.cells[number], scale).rjust(wide),
                tone(max(-1.0, min(1.0, row.cells[number] / scale))),
            )
            for number, _, wide in band
        ]
        grid.add_row(write(one_line(row.text, label), "dim" if row.special else ""), *cells)
    return grid


def _sums(table: Sequence[Row], label: int, write: Writer) -> Table:
    """Return the sums over the answer, with what a piece would get by its length."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=label, no_wrap=True)
    for _ in range(3):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_row(
        write("whole answer", "dim"), *(write(h, "dim") for h in ("score", "share", "by length"))
    )
    for row in table:
        cells = [write(f"{row.total:+.3g}"), write(percent(row.share)), write(percent(row.chance))]
        grid.add_row(write(one_line(row.text, label), "dim" if row.special else ""), *cells)
    return grid


"""A generated answer as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping
from typing import Any

from whence.report.generation.wording import (
    effort,
    headline,
    heads,
    notes,
    one_line,
    percent,
    rows,
    scale_in_generation,
    setting,
)
from whence.report.text import share, unit_words, visible

_PIECES, _WIDE, _STRONGEST = 12, 48, 3


def plain(payload: Mapping[str, Any]) -> str:
    """Write a payload as lines of text."""
    scale = scale_in_generation(payload)
    lines = [
        f"{visible(payload['model']['name'])}: {headline(payload)}",
        setting(payload),
        *notes(payload),
        f"the prompt, over the whole answer (score{unit_words(payload)}, share, share by length):",
    ]
    table = rows(payload, _PIECES)
    width = max(len(one_line(row.text, _WIDE)) for row in table)
    lines += [
        f"  {one_line(row.text, _WIDE):<{width}}  {row.total:+9.3g}  {percent(row.share):>6}  "
        f"{percent(row.chance):>6}".rstrip()
        for row in table
    ]
    lines.append("token by token:" if payload["granularity"] != "word" else "word by word:")
    every = rows(payload)
    for number, (head, output) in enumerate(zip(heads(payload), payload["outputs"], strict=True)):
        best = sorted(every, key=lambda row: -abs(row.cells[number]))[:_STRONGEST]
        told = ", ".join(f"{one_line(row.text, 24)} {row.cells[number]:+.3g}" for row in best)
        lines.append(f"  {head} ({share(output['probability'])}): {told}")
    lines += [scale["note"]] if scale["note"] else []
    return "\n".join([*lines, effort(payload)])
