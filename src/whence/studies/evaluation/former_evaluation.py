"""The evaluation within the report of a run, as it was: goes when that report is a document."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from statistics import mode
from textwrap import wrap
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whence.render.charts import AxisScale, compute_axis_bounds, compute_ticks
from whence.render.colour import POSITIVE
from whence.render.document import TOO_FEW, choose_decimals, format_interval
from whence.render.latex import escape_latex as latex_escaped
from whence.render.latex import format_latex_table as latex_table
from whence.render.markdown import escape_markdown, format_markdown_table
from whence.render.terminal import TerminalWriter
from whence.render.text import sanitise_text
from whence.studies.evaluation.report import (
    _PLOT_LEGEND,
    ARROWS,
    BEST_MARK,
    CHANCE_MARK,
    CHANCE_ROW,
    COST_HEADS,
    COST_LEGEND,
    MAX_PAIRED_METHODS,
    NOT_TESTED,
    PAIRS_LEGEND,
    TABLE_LEGEND,
    _format_p_value,
    build_cost_rows,
    list_data_lines,
    list_evaluation_cost,
    list_method_agreement,
    list_sample_notes,
)
from whence.studies.evaluation.report import _list_pairs_hint as list_pairs_hint
from whence.studies.evaluation.report import describe_evaluation as _describe_evaluation
from whence.studies.evaluation.report import list_evaluation_notes as _list_evaluation_notes

__all__ = ["ARROWS", "COST_HEADS", "COST_LEGEND", "build_cost_rows"]


def describe_evaluation(payload: Mapping[str, Any]) -> str:
    """Describe the evaluated model, examples and setting."""
    return sanitise_text(_describe_evaluation(payload))


def list_evaluation_notes(payload: Mapping[str, Any]) -> list[str]:
    """Return the notes without control characters."""
    return [sanitise_text(line) for line in _list_evaluation_notes(payload)]


@dataclass(frozen=True)
class MetricCell:
    """The text of one cell, and its marks."""

    own: str
    best: bool = False
    chance: bool = False  # not significantly better than random explanations
    null: str = ""  # result of random explanations, if it differs by method

    @property
    def text(self) -> str:
        """The method's value, and the random explanations' if it differs by method."""
        return f"{self.own}, {self.null}" if self.null else self.own


@dataclass(frozen=True)
class MetricTable:
    """A table of methods by some metrics of one kind, with random explanations in the last row."""

    kind: str
    metrics: tuple[str, ...]
    arrows: tuple[str, ...]
    counts: tuple[str, ...]  # number of examples of most methods; the others state their own
    rows: tuple[tuple[str, tuple[MetricCell, ...]], ...]


def build_metric_tables(payload: Mapping[str, Any], across: int) -> Iterator[MetricTable]:
    """Split the results of an evaluation into tables of at most `across` metrics."""
    for metrics in group_metrics(payload, across):
        yield _build_metric_table(payload, metrics[0]["kind"], metrics)


def group_metrics(payload: Mapping[str, Any], across: int) -> Iterator[list[Mapping[str, Any]]]:
    """Yield groups of metrics of one kind, at most `across` each."""
    kinds = dict.fromkeys(metric["kind"] for metric in payload["metrics"])
    for kind in kinds:
        own = [metric for metric in payload["metrics"] if metric["kind"] == kind]
        pieces = -(-len(own) // max(across, 1))
        ends = [
            -(-len(own) * piece // pieces) for piece in range(pieces + 1)
        ]  # groups of nearly equal size
        for start, end in pairwise(ends):
            yield own[start:end]


def _build_metric_table(
    payload: Mapping[str, Any], kind: str, metrics: Sequence[Mapping[str, Any]]
) -> MetricTable:
    columns = [_build_metric_column(payload, metric) for metric in metrics]
    names = [row["method"] for row in payload["methods"]]
    return MetricTable(
        kind,
        tuple(metric["metric"] for metric in metrics),
        tuple(ARROWS[metric["direction"]] for metric in metrics),
        tuple(count for count, _ in columns),
        tuple(
            (name, tuple(cells[place] for _, cells in columns))
            for place, name in enumerate([*names, CHANCE_ROW])
        ),
    )


def _build_metric_column(
    payload: Mapping[str, Any], metric: Mapping[str, Any]
) -> tuple[str, list[MetricCell]]:
    own = [cell for cell in payload["cells"] if cell["metric"] == metric["metric"]]
    tested = [cell for cell in own if cell["n"]]
    digits = choose_decimals([*tested, *([metric["null"]] if metric["null"] else [])])
    usual = mode(cell["n"] for cell in tested) if tested else 0
    cells = []
    for cell in own:
        if not cell["n"]:
            cells.append(MetricCell(NOT_TESTED))
            continue
        chance = ""
        if metric["null"] is None and cell["null"]:
            chance = f"{CHANCE_ROW} {format_interval(cell['null'], digits, cell['n'])}"
        marked = cell["beats_random"] is False and cell.get("enough", True)
        cells.append(MetricCell(format_interval(cell, digits, usual), cell["best"], marked, chance))
    null = metric["null"]
    last = format_interval(null, digits, usual) if null else "see each" if tested else NOT_TESTED
    return format_sample_size(own), [*cells, MetricCell(last)]


def format_sample_size(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of examples of most rows, and whether it is too small."""
    counts = [row["n"] for row in rows if row["n"]]
    if not counts:
        return ""
    usual = mode(counts)
    few = any(row["n"] == usual and row["low"] is None for row in rows)
    return f"n={usual}: {TOO_FEW}" if few else f"n={usual}"


_METRICS_ACROSS = 4
_MARKS = {"best": "Bold", "chance": "°"}


def format_evaluation_markdown(payload: Mapping[str, Any]) -> str:
    """Return an evaluation in Markdown."""
    parts = [
        " ".join(
            [
                escape_markdown(describe_evaluation(payload)) + ".",
                *map(escape_markdown, list_data_lines(payload)),
            ]
        )
    ]
    parts += [_format_markdown_grid(grid) for grid in build_metric_tables(payload, _METRICS_ACROSS)]
    pairs = [_format_markdown_grid(grid) for grid in build_pair_tables(payload, _METRICS_ACROSS)]
    parts += pairs
    parts.append(
        format_markdown_table(
            [COST_HEADS, *((f"`{name}`", *facts) for name, *facts in build_cost_rows(payload))]
        )
    )
    legend = [line.format(**_MARKS) for line in TABLE_LEGEND]
    parts.append(" ".join([*legend, *([PAIRS_LEGEND] if pairs else []), COST_LEGEND]))
    notes = [f"Agreement by {line}." for line in list_method_agreement(payload)]
    notes += [
        *list_evaluation_notes(payload),
        *list_pairs_hint(payload),
        *list_evaluation_cost(payload),
    ]
    parts.append("\n".join(f"- {escape_markdown(line)}" for line in notes))
    return "\n\n".join(parts) + "\n"


def _format_markdown_grid(grid: MetricTable) -> str:
    rows = [
        (_format_markdown_name(name), *(_mark_cell(cell, "**{}**".format, " °") for cell in cells))
        for name, cells in grid.rows
    ]
    return format_markdown_table([(grid.kind, *_format_metric_heads(grid)), *rows])


def _format_markdown_name(name: str) -> str:
    return (
        name if name == CHANCE_ROW else " over ".join(f"`{part}`" for part in name.split(" over "))
    )


def _format_metric_heads(grid: MetricTable) -> list[str]:
    return [
        " ".join(part for part in (name, arrow, f"({count})" if count else "") if part)
        for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    ]


def _mark_cell(cell: MetricCell, strong: Callable[[str], str], chance: str) -> str:
    """Return a cell with its marks after its own figures, before those of random explanations."""
    own = (strong(cell.own) if cell.best else cell.own) + (chance if cell.chance else "")
    return f"{own}, {cell.null}" if cell.null else own


def format_evaluation_latex(payload: Mapping[str, Any]) -> str:
    """Return an evaluation in LaTeX, with booktabs rules."""
    parts = [
        "% " + " ".join(line.split())
        for line in (describe_evaluation(payload), *list_data_lines(payload))
    ]
    parts.append("% \\usepackage{booktabs}")
    for grid in build_metric_tables(payload, _METRICS_ACROSS):
        parts += latex_table(
            [grid.kind, *_format_metric_heads(grid)], _format_latex_rows(grid), {CHANCE_ROW}
        )
    pairs = list(build_pair_tables(payload, _METRICS_ACROSS))
    for grid in pairs:
        parts += latex_table(
            [grid.kind, *_format_metric_heads(grid)], _format_latex_rows(grid), {CHANCE_ROW}
        )
    cost = [
        [latex_escaped(name), *(f"{{{latex_escaped(fact)}}}" for fact in facts)]
        for name, *facts in build_cost_rows(payload)
    ]
    parts += latex_table(COST_HEADS, cost)
    lines = [line.format(**_MARKS) for line in TABLE_LEGEND]
    lines += [*([PAIRS_LEGEND] if pairs else []), COST_LEGEND]
    lines += [f"Agreement by {line}." for line in list_method_agreement(payload)]
    lines += [
        *list_evaluation_notes(payload),
        *list_pairs_hint(payload),
        *list_evaluation_cost(payload),
    ]
    parts += [f"% {' '.join(line.split())}" for line in lines]
    return "\n".join(parts) + "\n"


def _format_latex_rows(grid: MetricTable) -> list[list[str]]:
    return [[latex_escaped(name), *map(_format_latex_cell, cells)] for name, cells in grid.rows]


def _format_latex_cell(cell: MetricCell) -> str:
    # LaTeX would take a bracket after a line break or a macro for its argument.
    safe = replace(cell, own=f"{{{latex_escaped(cell.own)}}}", null=latex_escaped(cell.null))
    return _mark_cell(safe, "\\textbf{}".format, "$^\\circ$")


EVALUATION_STYLE = """.whence td.chance, .whence tr.chance td { color: var(--dim); }
.whence .wide { overflow-x: auto; }
.whence svg { max-width: max(100%, 40rem); height: auto; }"""


def render_evaluation_body(payload: Mapping[str, Any]) -> str:
    """Return the plot, the tables and the notes of an evaluation, to stand below a heading."""
    legend = [line.format(best="Bold", chance="°") for line in TABLE_LEGEND]
    pairs = list(build_pair_tables(payload, _METRICS_ACROSS))
    legend += [*([PAIRS_LEGEND] if pairs else []), COST_LEGEND]
    agreement = [f"Agreement by {line}." for line in list_method_agreement(payload)]
    parts = [
        f'<div class="wide">{render_evaluation_plot(payload, titled=False)}</div>',
        *(_render_metric_table(grid) for grid in build_metric_tables(payload, _METRICS_ACROSS)),
        *(_render_metric_table(grid) for grid in pairs),
        _render_rows([COST_HEADS], build_cost_rows(payload)),
        *(f'<p class="dim">{escape(line)}</p>' for line in [*legend, *agreement]),
        *(f"<p>{escape(line)}</p>" for line in list_evaluation_notes(payload)),
        *(
            f'<p class="dim">{escape(line)}</p>'
            for line in [*list_pairs_hint(payload), *list_evaluation_cost(payload)]
        ),
    ]
    return "\n".join(parts)


def _render_metric_table(grid: MetricTable) -> str:
    heads = "".join(
        f'<th>{escape(name)} {arrow} <span class="dim">{escape(count)}</span></th>'
        for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    )
    rows = "".join(
        f'<tr class="{"chance" if name == CHANCE_ROW else "method"}"><td>{escape(name)}</td>'
        f"{''.join(_render_metric_cell(cell) for cell in cells)}</tr>"
        for name, cells in grid.rows
    )
    return _render_wide_table(f"<tr><th>{escape(grid.kind)}</th>{heads}</tr>", rows)


def _render_metric_cell(cell: MetricCell) -> str:
    text = escape(cell.own)
    text = f"<strong>{text}</strong>" if cell.best else text
    null = f'<br><span class="dim">{escape(cell.null)}</span>' if cell.null else ""
    return f'<td class="chance">{text} °{null}</td>' if cell.chance else f"<td>{text}{null}</td>"


def _render_rows(heads: Sequence[Sequence[str]], body: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(text)}</th>" for head in heads for text in head)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in body
    )
    return _render_wide_table(f"<tr>{top}</tr>", rows)


def _render_wide_table(head: str, rows: str) -> str:
    """Return a table that scrolls horizontally if the page is too narrow."""
    return f'<div class="wide"><table><thead>{head}</thead>{rows}</table></div>'


def build_pair_tables(payload: Mapping[str, Any], across: int) -> Iterator[MetricTable]:
    """Return tables of pairs of methods by metric, if there are at most 6 methods."""
    if not 2 <= len(payload["methods"]) <= MAX_PAIRED_METHODS:
        return
    for metrics in group_metrics(payload, across):
        columns = [
            [pair for pair in payload["pairs"] if pair["metric"] == metric["metric"]]
            for metric in metrics
        ]
        if not all(columns):
            continue
        names = [f"{pair['a']} over {pair['b']}" for pair in columns[0]]
        gains = [[pair["gain"] or {"n": 0, "low": None} for pair in pairs] for pairs in columns]
        cells = [_build_difference_cells(pairs) for pairs in columns]
        yield MetricTable(
            "difference",
            tuple(metric["metric"] for metric in metrics),
            ("",) * len(metrics),
            tuple(format_sample_size(own) for own in gains),
            tuple((name, tuple(own[place] for own in cells)) for place, name in enumerate(names)),
        )


def _build_difference_cells(pairs: Sequence[Mapping[str, Any]]) -> list[MetricCell]:
    tested = [pair["gain"] for pair in pairs if pair["gain"]]
    digits = choose_decimals(tested)
    usual = mode(gain["n"] for gain in tested) if tested else 0
    return [
        MetricCell(f"{format_interval(pair['gain'], digits, usual)} p={_format_p_value(pair['p'])}")
        if pair["gain"]
        else MetricCell(NOT_TESTED)
        for pair in pairs
    ]


_ROW_HEIGHT = 20  # height of a method's row
_PANEL_WIDTH = 210
_PANEL_GAP = 26
_PANEL_HEAD = 40
_PANEL_FOOT = 30
_PANELS_ACROSS = 4
_INK, _DIM, _RULE, _BAND = "#1b1f24", "#5c6670", "#e3e7eb", "#e9ecef"
_DOT_COLOUR = "#{:02x}{:02x}{:02x}".format(*POSITIVE)


def render_evaluation_plot(payload: Mapping[str, Any], *, titled: bool = True) -> str:
    """Return the plot as SVG; methods are sorted by their means in the first metric, best first."""
    methods = _order_methods(payload)
    metrics = payload["metrics"]
    label = 18 + 7.2 * max(len(name) for name in methods)  # width of the names in a font of size 12
    across = min(_PANELS_ACROSS, len(metrics)) or 1
    tall = _PANEL_HEAD + _ROW_HEIGHT * len(methods) + _PANEL_FOOT
    down = -(-len(metrics) // across)
    width = label + across * (_PANEL_WIDTH + _PANEL_GAP) + 8
    title = _wrap_lines(describe_evaluation(payload), width, 13) if titled else []
    below = (*list_data_lines(payload), *_PLOT_LEGEND, *list_sample_notes(payload))
    foot = [line for note in below for line in _wrap_lines(note, width, 11)]
    above = 22 + 17 * len(title) if titled else 4
    height = above + down * tall + 14 + 16 * len(foot)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="12" '
        f'role="img"><title>{escape(describe_evaluation(payload))}</title>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        *(
            _render_text(8, 24 + 17 * row, line, size=13, weight="600")
            for row, line in enumerate(title)
        ),
    ]
    for place, metric in enumerate(metrics):
        top = above + tall * (place // across)
        left = label + (place % across) * (_PANEL_WIDTH + _PANEL_GAP)
        if place % across == 0:
            parts += [
                _render_text(
                    label - 10,
                    top + _PANEL_HEAD + _ROW_HEIGHT * (row + 0.5) + 4,
                    name,
                    anchor="end",
                )
                for row, name in enumerate(methods)
            ]
        parts.append(_render_panel(payload, metric, methods, left, top))
    bottom = height - 16 * len(foot)
    parts += [
        _render_text(8, bottom + 16 * row, line, colour=_DIM, size=11)
        for row, line in enumerate(foot)
    ]
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _wrap_lines(text: str, width: float, size: int) -> list[str]:
    """Break a text into lines that fit; letters are on average less than 0.6 of the font size wide."""
    return wrap(text, max(20, int((width - 16) / (0.6 * size))))


def _order_methods(payload: Mapping[str, Any]) -> list[str]:
    names = [row["method"] for row in payload["methods"]]
    if not payload["metrics"]:
        return names
    first = payload["metrics"][0]
    sign = 1 if first["direction"] == "higher" else -1
    means = {
        cell["method"]: cell["mean"]
        for cell in payload["cells"]
        if cell["metric"] == first["metric"] and cell["n"]
    }
    return sorted(names, key=lambda name: -sign * means[name] if name in means else float("inf"))


def _render_panel(
    payload: Mapping[str, Any],
    metric: Mapping[str, Any],
    methods: Sequence[str],
    left: float,
    top: float,
) -> str:
    cells = {
        cell["method"]: cell for cell in payload["cells"] if cell["metric"] == metric["metric"]
    }
    tested = [cells[name] for name in methods if cells[name]["n"]]
    first, last = top + _PANEL_HEAD, top + _PANEL_HEAD + _ROW_HEIGHT * len(methods)
    better = "more is better" if metric["direction"] == "higher" else "less is better"
    counts = sorted({cell["n"] for cell in tested})
    n = (
        ""
        if not counts
        else f", n={counts[0]}"
        if len(counts) == 1
        else f", n={counts[0]}–{counts[-1]}"
    )
    parts = [
        f"<g><title>{escape(metric['metric'])}</title>",
        _render_text(
            left, top + 14, f"{metric['metric']} {ARROWS[metric['direction']]}", weight="600"
        ),
        _render_text(left, top + 30, better + n, colour=_DIM, size=11),
    ]
    if not tested:
        parts.append(_render_text(left, first + 14, "not tested", colour=_DIM))
        return "\n".join([*parts, "</g>"])
    scale = _build_panel_scale(tested, left)
    for tick, label in compute_ticks(scale.low, scale.high):
        x = scale.at(tick)
        parts.append(_render_line(x, first, x, last, _RULE))
        parts.append(_render_text(x, last + 14, label, anchor="middle", colour=_DIM, size=10))
    for row, name in enumerate(methods):
        cell, y = cells[name], first + _ROW_HEIGHT * row
        if cell["n"] and cell["null"]:
            parts.append(_render_random_band(scale, cell["null"], y))
    for row, name in enumerate(methods):
        cell, y = cells[name], first + _ROW_HEIGHT * (row + 0.5)
        parts.append(
            _render_dot(scale, cell, y)
            if cell["n"]
            else _render_text(left, y + 4, "not tested", colour=_DIM, size=10)
        )
    return "\n".join([*parts, "</g>"])


def _render_random_band(scale: AxisScale, null: Mapping[str, Any], y: float) -> str:
    """Return the interval of random explanations behind one method's row of a panel."""
    x = scale.at(null["mean"])
    dashed = f'stroke="{_DIM}" stroke-dasharray="4 3"'
    line = f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + _ROW_HEIGHT:.1f}" {dashed}/>'
    if null["low"] is None:
        return line
    low, high = scale.at(null["low"]), scale.at(null["high"])
    band = f'<rect x="{low:.1f}" y="{y:.1f}" width="{high - low:.1f}" height="{_ROW_HEIGHT}" fill="{_BAND}"/>'
    return band + line


def _render_dot(scale: AxisScale, cell: Mapping[str, Any], y: float) -> str:
    x = scale.at(cell["mean"])
    # With too few examples to show any difference, no method is greyed out.
    grey = cell["beats_random"] is False and cell.get("enough", True)
    colour = "#8a939c" if grey else _DOT_COLOUR
    fill = colour if cell["best"] else "#fff"
    title = f"{cell['method']}: {cell['mean']:.4g}"
    line = ""
    if cell["low"] is not None:
        title += f" [{cell['low']:.4g}, {cell['high']:.4g}], n={cell['n']}"
        line = _render_line(scale.at(cell["low"]), y, scale.at(cell["high"]), y, colour, 2)
    else:
        title += f", n={cell['n']}: {TOO_FEW}"
    return (
        f"<g><title>{escape(title)}</title>{line}"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/></g>'
    )


def _build_panel_scale(cells: Sequence[Mapping[str, Any]], left: float) -> AxisScale:
    """Return a scale that covers all intervals of a panel."""
    ends = [
        interval[end]
        for cell in cells
        for interval in (cell, cell["null"] or cell)
        for end in ("mean", "low", "high")
        if interval[end] is not None
    ]
    return AxisScale(*compute_axis_bounds(ends), left, left + _PANEL_WIDTH)


def _render_line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def _render_text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = _INK,
    size: int = 12,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


_CELL_WIDTH = 27  # approximate columns of a metric
_PAIR_WIDTH = 34  # approximate columns of a difference with its p
_OVER_WORD = " over "


class EvaluationRenderable:
    """A rich renderable of an evaluation, fitted to the terminal's width."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the tables and notes."""
        payload, write = self._payload, TerminalWriter(ascii_only=options.ascii_only)
        longest = max((len(entry["method"]) for entry in payload["methods"]), default=0)
        room = options.max_width - longest
        yield write(describe_evaluation(payload), "bold")
        yield from (write(line, "dim") for line in list_data_lines(payload))
        for grid in build_metric_tables(payload, max(1, room // _CELL_WIDTH)):
            yield Text()
            yield _build_terminal_table(grid, write)
        pairs = list(
            build_pair_tables(payload, max(1, (room - longest - len(_OVER_WORD)) // _PAIR_WIDTH))
        )
        # Without space for two names side by side, the second goes below.
        between = (
            _OVER_WORD
            if room - longest - len(_OVER_WORD) >= _PAIR_WIDTH
            else f"{_OVER_WORD.rstrip()}\n"
        )
        for grid in pairs:
            yield Text()
            yield _build_terminal_table(grid, write, between)
        yield Text()
        yield _render_costs(payload, write, options.max_width)
        yield Text()
        legend = [line.format(best=BEST_MARK, chance=CHANCE_MARK) for line in TABLE_LEGEND]
        for line in [*legend, *([PAIRS_LEGEND] if pairs else []), COST_LEGEND]:
            yield write(line, "dim")
        for line in list_method_agreement(payload):
            yield write(f"Agreement by {line}.", "dim")
        for line in list_evaluation_notes(payload):
            yield write(line, "yellow")
        for line in [*list_pairs_hint(payload), *list_evaluation_cost(payload)]:
            yield write(line, "dim")


def render_evaluation_terminal(payload: Mapping[str, Any]) -> RenderableType:
    """Return an evaluation as a rich renderable."""
    return EvaluationRenderable(payload)


def _build_terminal_table(
    grid: MetricTable, write: TerminalWriter, between: str = _OVER_WORD
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(Text(grid.kind, "dim"), no_wrap=True)
    for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True):
        head = f"{name} {arrow}" if arrow else name
        both = Text.assemble(write(head, "bold"), " ", write(count, "dim"))
        table.add_column(both, overflow="fold")
    for name, cells in grid.rows:
        last = name == CHANCE_ROW
        table.add_row(
            Text(name.replace(_OVER_WORD, between), "dim" if last else "bold"),
            *(_build_terminal_cell(cell, last, write) for cell in cells),
        )
    return table


def _build_terminal_cell(cell: MetricCell, last: bool, write: TerminalWriter) -> Text:
    style = "dim" if last or cell.chance else "green" if cell.best else ""
    marks = (f" {BEST_MARK}" if cell.best else "") + (f" {CHANCE_MARK}" if cell.chance else "")
    text = write(cell.own + marks, style)
    return Text.assemble(text, "\n", write(cell.null, "dim")) if cell.null else text


def _render_costs(payload: Mapping[str, Any], write: TerminalWriter, width: int) -> RenderableType:
    """Return the costs as a table, or stacked if the terminal is too narrow for the longest words."""
    rows = [COST_HEADS, *build_cost_rows(payload)]
    words = [
        max(len(word) for text in column for word in text.split())
        for column in zip(*rows, strict=True)
    ]
    if sum(words) + 2 * (len(words) - 1) > width:
        lines = [
            Text.assemble(
                Text(name, "bold"),
                *(
                    write(f"\n  {head}: {fact}")
                    for head, fact in zip(COST_HEADS[1:], facts, strict=True)
                ),
            )
            for name, *facts in rows[1:]
        ]
        return Group(*lines)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in COST_HEADS:
        table.add_column(head, no_wrap=head == COST_HEADS[0], overflow="fold")
    for name, *facts in rows[1:]:
        table.add_row(Text(name, "bold"), *(write(fact) for fact in facts))
    return table


def format_evaluation_text(payload: Mapping[str, Any], across: int = 3) -> str:
    """Return an evaluation as plain text."""
    lines = [describe_evaluation(payload), *list_data_lines(payload), ""]
    for grid in build_metric_tables(payload, across):
        lines += [*_format_metric_table(grid), ""]
    pairs = [
        line
        for grid in build_pair_tables(payload, across)
        for line in [*_format_metric_table(grid), ""]
    ]
    lines += [*pairs, *_align_columns([COST_HEADS, *build_cost_rows(payload)]), ""]
    lines += [line.format(best=BEST_MARK, chance=CHANCE_MARK) for line in TABLE_LEGEND]
    lines += [PAIRS_LEGEND] if pairs else []
    lines += [COST_LEGEND]
    lines += [f"Agreement by {line}." for line in list_method_agreement(payload)]
    lines += [*list_evaluation_notes(payload), *list_pairs_hint(payload)]
    return "\n".join([*lines, *list_evaluation_cost(payload)])


def _format_metric_table(grid: MetricTable) -> list[str]:
    heads = [
        " ".join(part for part in parts if part)
        for parts in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    ]
    rows = [(name, *(format_cell(cell) for cell in cells)) for name, cells in grid.rows]
    return _align_columns([(grid.kind, *heads), *rows])


def format_cell(cell: MetricCell) -> str:
    """Return a cell with its marks."""
    own = (
        cell.own
        + (f" {BEST_MARK}" if cell.best else "")
        + (f" {CHANCE_MARK}" if cell.chance else "")
    )
    return f"{own}, {cell.null}" if cell.null else own


def _align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
