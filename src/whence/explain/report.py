"""A generated answer and the scores of its prompt, as text, in a terminal and on an HTML page.

Rows are pieces of the prompt, columns parts of the answer. `share` is a piece's part of the size of all
scores; `by length` is the part that an explanation which knows nothing would give it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from whence.render.colour import ColourScale, compute_colour_scale, compute_shade_colour
from whence.render.html import render_notebook_cell, render_page, render_provenance
from whence.render.terminal import TerminalWriter, choose_tint_style
from whence.render.text import (
    format_input_warnings,
    format_probability,
    format_unit,
    sanitise_html,
    sanitise_text,
)

JsonObject = Mapping[str, Any]

EARLIER_LABEL = "(said before)"
SHARE_LEGEND = (
    "share: the part of the size of all scores that fell on the piece, of the prompt's text; by length: the "
    "part that an explanation which knows nothing would give it."
)


@dataclass(frozen=True)
class PieceRow:
    """One row of the score matrix: a piece, several weak pieces together, or the answer so far."""

    text: str
    cells: tuple[float, ...]  # one for each part of the answer
    total: float
    share: float | None = None
    chance: float | None = None
    special: bool = False
    marked: bool = False


def to_short_line(text: str, most: int = 0) -> str:
    """Return a text on one line, cut in its middle if it is longer than `most` characters."""
    line = " ".join(sanitise_text(text).split()) or repr(text)[1:-1].strip() or "(space)"
    if not most or len(line) <= most:
        return line
    head = (most - 1) * 2 // 3
    tail = most - 1 - head
    return f"{line[:head]}…{line[-tail:]}" if tail else f"{line[:head]}…"


def describe_answer(payload: JsonObject) -> str:
    """Return the generated answer on one line."""
    answer = payload["text"]
    if answer is None:
        answer = " ".join(token["text"] for token in payload["output_tokens"])
    return to_short_line(answer) or "(nothing)"


def describe_generation_setting(payload: JsonObject) -> str:
    """Return a phrase on method, granularity and number of tokens."""
    count = len(payload["output_tokens"])
    rather = ", each rather than the likeliest other" if payload["contrast"] else ""
    return f"{payload['method']}, by {payload['granularity']}, {count} token{'s' * (count != 1)}{rather}"


def format_matrix_legend(payload: JsonObject) -> str:
    """Return the legend of the matrix: the meaning of its colours and figures."""
    what = (
        "blue speaks for the part of the answer above it, orange against it"
        if payload["signed"]
        else "the stronger, the larger the score; this method has no sign"
    )
    scale = get_generation_scale(payload)
    legend = f"{what}; figures are hundredths of full colour, special tokens do not set the scale; {scale['legend']}"
    return f"{legend}. {scale['note']}" if scale["note"] else legend


def describe_generation_cost(payload: JsonObject) -> str:
    """Return a phrase on the cost: steps, passes and seconds."""
    passes = payload["passes"]
    return (
        f"{passes['decode']} steps to generate, {passes['forward']} forward and {passes['backward']} backward passes "
        f"to explain, {payload['seconds']:.2f} s"
    )


def get_generation_scale(payload: JsonObject) -> ColourScale:
    """Return the colour scale of the matrix; an older file without one gets a scale without a unit."""
    scale: ColourScale | None = payload.get("scale")
    if scale is not None:
        return scale
    plain = [i for i, piece in enumerate(payload["pieces"]) if not piece["special"]]
    cells = [row[i] for row in payload["matrix"] for i in plain]
    return compute_colour_scale(cells, "relative", part="piece")


def get_full_colour_score(payload: JsonObject) -> float:
    """Return the score of full colour as a divisor, never 0."""
    return get_generation_scale(payload)["full"] or 1.0


def build_piece_rows(payload: JsonObject, most: int | None = None) -> list[PieceRow]:
    """Return a row per piece in prompt order, one for the weakest beyond `most`, one for the answer."""
    pieces, matrix = payload["pieces"], payload["matrix"]
    columns = [tuple(cells[i] for cells in matrix) for i in range(len(pieces))]
    strength = [sum(map(abs, column)) for column in columns]
    order = sorted(range(len(pieces)), key=lambda i: (-strength[i], i))
    strongest = sorted(order if most is None or len(order) <= most + 1 else order[:most])
    rows = [
        PieceRow(
            to_short_line(pieces[i]["text"]),
            columns[i],
            pieces[i]["total"],
            pieces[i]["share"],
            pieces[i]["chance"],
            pieces[i]["special"],
            pieces[i]["marked"],
        )
        for i in strongest
    ]
    if rest := [i for i in range(len(pieces)) if i not in set(strongest)]:
        rows.append(_merge_rows(payload, rest, columns))
    before = tuple(sum(cells) for cells in payload["earlier"])
    if len(before) > 1:
        rows.append(PieceRow(EARLIER_LABEL, before, sum(before), special=True))
    return rows


def _merge_rows(
    payload: JsonObject, numbers: Sequence[int], columns: Sequence[tuple[float, ...]]
) -> PieceRow:
    pieces = [payload["pieces"][i] for i in numbers]
    cells = tuple(sum(values) for values in zip(*(columns[i] for i in numbers), strict=True))
    shares = [piece["share"] for piece in pieces if piece["share"] is not None]
    chances = [piece["chance"] for piece in pieces if piece["chance"] is not None]
    return PieceRow(
        f"({len(numbers)} weaker ones)",
        cells,
        sum(piece["total"] for piece in pieces),
        sum(shares) if shares else None,
        sum(chances) if chances else None,
    )


def list_output_texts(payload: JsonObject) -> list[str]:
    """Return the parts of the answer, each on one line."""
    return [to_short_line(output["text"]) for output in payload["outputs"]]


def format_hundredths(value: float, scale: float) -> str:
    """Format a score in hundredths of full colour, with a sign unless it is 0."""
    written = f"{100 * value / scale:+.0f}"
    return "0" if written in ("+0", "-0") else written


def format_optional_percent(value: float | None) -> str:
    """Format a share as a percentage; None is ""."""
    return "" if value is None else f"{value:.1%}"


def list_generation_notes(payload: JsonObject) -> list[str]:
    """Return the notes on a generation: input warnings, and a full context."""
    notes = [format_input_warnings(payload)]
    if payload.get("full"):
        notes.append(
            f"The model's context is full after {len(payload['output_tokens'])} tokens: it cannot go on."
        )
    return [note for note in notes if note]


_HTML_MAX_PIECES = 300  # rows of a page; the weakest beyond are merged into one
_HTML_PIECE_WIDTH = 160  # characters of a piece in the matrix
_PAGE_TITLE = "whence: what did the answer come from?"
_PAGE_FOOTER = "Full colour is the largest |score| of a piece; special tokens are shown and do not set the scale."
_GENERATION_STYLE = """
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


def render_generation_html(payload: JsonObject, heading: str = _PAGE_TITLE) -> str:
    """Return the HTML page of a generated answer."""
    return sanitise_html(
        render_page(heading, _render_generation_section(payload), _PAGE_FOOTER, _GENERATION_STYLE)
    )


def render_generation_fragment(payload: JsonObject) -> str:
    """Return the HTML fragment of a generated answer, for a notebook cell."""
    return sanitise_html(
        render_notebook_cell(_render_generation_section(payload), _GENERATION_STYLE)
    )


def _render_generation_section(payload: JsonObject) -> str:
    rows = build_piece_rows(payload, _HTML_MAX_PIECES)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(describe_answer(payload))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}; {escape(describe_generation_setting(payload))}</p>',
            *(f"<p><strong>{escape(note)}</strong></p>" for note in list_generation_notes(payload)),
            "<h3>The prompt, over the whole answer</h3>",
            _render_prompt_strip(payload),
            "<h3>Piece by piece</h3>",
            f'<p class="dim">{escape(format_matrix_legend(payload))}</p>',
            _render_score_matrix(payload, rows),
            f'<p class="dim">{escape(SHARE_LEGEND)}</p>',
            f'<p class="dim">{escape(describe_generation_cost(payload))}</p>',
            render_provenance(dict(payload)),
            "</section>",
        ]
    )


def _render_prompt_strip(payload: JsonObject) -> str:
    """Return the prompt as HTML, each piece on the colour of its total, and the answer after it."""
    text, pieces = payload["input"]["text"], payload["pieces"]
    plain = [piece for piece in pieces if not piece["special"]]
    colours: ColourScale = payload.get("total_scale") or compute_colour_scale(
        [piece["total"] for piece in plain], "relative", part="piece"
    )
    scale = colours["full"] or 1.0
    parts, at = [], 0
    for piece in plain:
        known = text is not None and piece["start"] is not None
        if known and piece["start"] < at:  # part of a character that an earlier piece shows
            continue
        parts.append(escape(text[at : piece["start"]]) if known else " ")
        at = piece["end"] if known else at
        marked = ' class="marked"' if piece["marked"] else ""
        parts.append(
            f'<mark{marked} style="background: {_format_css_colour(piece["total"] / scale)}" title="{piece["total"]:+.6g}">'
            f"{escape(piece['text'])}</mark>"
        )
    parts.append(escape(text[at:]) if text is not None else "")
    answer = payload["text"] if payload["text"] is not None else " " + describe_answer(payload)
    legend = colours["legend"] if not colours["note"] else f"{colours['legend']}. {colours['note']}"
    return (
        f'<div class="strip" dir="auto">{"".join(parts)}<strong>{escape(answer)}</strong></div>'
        f'<p class="dim">{escape(legend)}</p>'
    )


def _render_score_matrix(payload: JsonObject, rows: Sequence[PieceRow]) -> str:
    scale = get_full_colour_score(payload)
    names = "".join(
        f'<th scope="col" title="{output["probability"]:.2%}">{escape(name)}</th>'
        for name, output in zip(list_output_texts(payload), payload["outputs"], strict=True)
    )
    sums = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (("sum", ' class="sum"'), ("share", ""), ("by length", ""))
    )
    body = "".join(_render_piece_row(row, scale) for row in rows)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Pieces of the prompt by parts of the answer">'
        "<table>"
        f'<thead><tr><th scope="col"></th>{names}{sums}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _render_piece_row(row: PieceRow, scale: float) -> str:
    kind = ' class="marked"' if row.marked else ' class="dim"' if row.special else ""
    cells = "".join(
        f'<td style="background: {_format_css_colour(value / scale)}" title="{value:+.6g}">{format_hundredths(value, scale)}</td>'
        for value in row.cells
    )
    share, chance = format_optional_percent(row.share), format_optional_percent(row.chance)
    sums = f'<td class="sum">{row.total:+.3g}</td><td>{share}</td><td>{chance}</td>'
    return f'<tr><th scope="row"{kind}>{escape(to_short_line(row.text, _HTML_PIECE_WIDTH))}</th>{cells}{sums}</tr>'


def _format_css_colour(tint: float) -> str:
    clipped = max(-1.0, min(1.0, tint))
    return (
        "transparent"
        if abs(clipped) < 0.005
        else "rgb({},{},{})".format(*compute_shade_colour(clipped))
    )


_TERMINAL_MAX_PIECES = 14
_MIN_COLUMN_WIDTH, _MAX_COLUMN_WIDTH = 5, 9  # characters of a column


class GenerationRenderable:
    """A generated answer laid out for rich, as wide as the terminal and with its characters."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the parts of the layout for this console."""
        payload, write = self._payload, TerminalWriter(ascii_only=options.ascii_only)
        width = options.max_width
        yield Text.assemble(
            write(sanitise_text(payload["model"]["name"]), "dim"),
            "  ",
            write(describe_answer(payload), "bold"),
        )
        yield write(describe_generation_setting(payload), "dim")
        for note in list_generation_notes(payload):
            yield write(note, "yellow")
        table = build_piece_rows(payload, _TERMINAL_MAX_PIECES)
        label = max(12, min(max(cell_len(row.text) for row in table), width // 3))
        for band in _split_columns(list_output_texts(payload), width - label - 1):
            yield Text()
            yield _build_score_table(payload, table, band, label, write)
        yield write(format_matrix_legend(payload), "dim")
        yield Text()
        yield _build_totals_table(table, label, write)
        yield write(SHARE_LEGEND, "dim")
        yield write(describe_generation_cost(payload), "dim")


def render_generation_terminal(payload: Mapping[str, Any]) -> RenderableType:
    """Return a generated answer laid out for rich."""
    return GenerationRenderable(payload)


def _split_columns(names: Sequence[str], width: int) -> Iterator[list[tuple[int, str, int]]]:
    """Yield groups of columns that fit the terminal: number, name and width of each."""
    band: list[tuple[int, str, int]] = []
    used = 0
    for number, name in enumerate(names):
        wide = max(_MIN_COLUMN_WIDTH, min(_MAX_COLUMN_WIDTH, cell_len(name)))
        if band and used + wide + 1 > width:
            yield band
            band, used = [], 0
        band.append((number, name, wide))
        used += wide + 1
    yield band


def _build_score_table(
    payload: Mapping[str, Any],
    table: Sequence[PieceRow],
    band: Sequence[tuple[int, str, int]],
    label: int,
    write: TerminalWriter,
) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=label, no_wrap=True)
    for _, _, wide in band:
        grid.add_column(width=wide, no_wrap=True, justify="right")
    grid.add_row("", *(write(to_short_line(name, wide), "bold") for _, name, wide in band))
    scale = get_full_colour_score(payload)
    for row in table:
        cells = [
            write(
                format_hundredths(row.cells[number], scale).rjust(wide),
                choose_tint_style(max(-1.0, min(1.0, row.cells[number] / scale))),
            )
            for number, _, wide in band
        ]
        grid.add_row(write(to_short_line(row.text, label), "dim" if row.special else ""), *cells)
    return grid


def _build_totals_table(table: Sequence[PieceRow], label: int, write: TerminalWriter) -> Table:
    """Return the table of totals over the answer, with the share that length alone would give."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=label, no_wrap=True)
    for _ in range(3):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_row(
        write("whole answer", "dim"), *(write(h, "dim") for h in ("score", "share", "by length"))
    )
    for row in table:
        cells = [
            write(f"{row.total:+.3g}"),
            write(format_optional_percent(row.share)),
            write(format_optional_percent(row.chance)),
        ]
        grid.add_row(write(to_short_line(row.text, label), "dim" if row.special else ""), *cells)
    return grid


_TEXT_MAX_PIECES, _TEXT_PIECE_WIDTH, _TOP_PIECES = 12, 48, 3


def format_generation_text(payload: Mapping[str, Any]) -> str:
    """Format a generated answer as lines of text."""
    scale = get_generation_scale(payload)
    lines = [
        f"{sanitise_text(payload['model']['name'])}: {describe_answer(payload)}",
        describe_generation_setting(payload),
        *list_generation_notes(payload),
        f"the prompt, over the whole answer (score{format_unit(payload)}, share, share by length):",
    ]
    table = build_piece_rows(payload, _TEXT_MAX_PIECES)
    width = max(len(to_short_line(row.text, _TEXT_PIECE_WIDTH)) for row in table)
    lines += [
        f"  {to_short_line(row.text, _TEXT_PIECE_WIDTH):<{width}}  {row.total:+9.3g}  {format_optional_percent(row.share):>6}  "
        f"{format_optional_percent(row.chance):>6}".rstrip()
        for row in table
    ]
    lines.append("token by token:" if payload["granularity"] != "word" else "word by word:")
    rows = build_piece_rows(payload)
    for number, (head, output) in enumerate(
        zip(list_output_texts(payload), payload["outputs"], strict=True)
    ):
        best = sorted(rows, key=lambda row: -abs(row.cells[number]))[:_TOP_PIECES]
        text = ", ".join(f"{to_short_line(row.text, 24)} {row.cells[number]:+.3g}" for row in best)
        lines.append(f"  {head} ({format_probability(output['probability'])}): {text}")
    lines += [scale["note"]] if scale["note"] else []
    return "\n".join([*lines, describe_generation_cost(payload)])
