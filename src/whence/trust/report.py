"""Trust card report: verdict sentences, number formats, plain text, terminal tables, HTML page, curve charts.

Curves show the prediction as tokens are removed (deletion) or kept (sufficiency), with the band in which
95 of 100 random rankings lie.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import factorial
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from whence.render.colour import IMAGE_SCALE_NOTE as PICTURE_SCALE
from whence.render.colour import TEXT_SCALE_NOTE, compute_shades
from whence.render.former import IMAGE_STYLE as PICTURE_STYLE
from whence.render.former import (
    can_show_images,
    render_image_map,
    render_image_maps,
    render_notebook_cell,
    render_page,
    render_patch_grid,
    render_patch_table,
    render_provenance,
    render_text_strips,
    render_token_table,
    render_word_table,
    tint_words,
)
from whence.render.former import render_colour_key as colours
from whence.render.text import describe_prediction, format_input_warnings, sanitise_text
from whence.trust.trust_rules import AXIOM_TESTS, MAIN_TESTS, VERDICT_RULES

ChartCellKind = Literal["blank", "band", "line"]


class ChartCell(NamedTuple):
    """One character of a chart, and the element it belongs to."""

    kind: ChartCellKind
    glyph: str


class ChartPen(NamedTuple):
    """The characters of a chart."""

    band: str
    flat: str
    upright: str
    falls: tuple[str, str]  # characters where a falling line leaves its row, and where it arrives
    rises: tuple[str, str]
    frame: tuple[str, str, str]  # the left edge, the corner, the lower edge


CHART_LINES = ChartPen("░", "━", "┃", ("┓", "┗"), ("┛", "┏"), ("│", "└", "─"))
CHART_ASCII = ChartPen(":", "*", "*", ("*", "*"), ("*", "*"), ("|", "+", "-"))


def draw_curve_chart(
    curve: dict[str, Any], ends: tuple[float, float], columns: int, rows: int, pen: ChartPen
) -> list[list[ChartCell]]:
    """Return the rows of the chart, top first."""
    canvas = [[ChartCell("blank", " ")] * columns for _ in range(rows)]
    spread = [
        _compute_levels(curve["at"], curve[n], ends, columns, rows)
        for n in ("null_low", "null_high")
    ]
    for column, (low, high) in enumerate(zip(*spread, strict=True)):
        for level in range(low, high + 1):
            canvas[level][column] = ChartCell("band", pen.band)
    line = _compute_levels(curve["at"], curve["values"], ends, columns, rows)
    canvas[line[0]][0] = ChartCell("line", pen.flat)
    for column, (before, now) in enumerate(pairwise(line), start=1):
        for level, glyph in _draw_step(before, now, pen):
            canvas[level][column] = ChartCell("line", glyph)
    return canvas[::-1]


def _draw_step(before: int, now: int, pen: ChartPen) -> list[tuple[int, str]]:
    """Return the characters of a line in one column, on its way from one level to another."""
    if before == now:
        return [(now, pen.flat)]
    leaves, arrives = pen.falls if now < before else pen.rises
    between = range(min(before, now) + 1, max(before, now))
    return [(before, leaves), *((level, pen.upright) for level in between), (now, arrives)]


def _compute_levels(
    at: Sequence[float], values: Sequence[float], ends: tuple[float, float], columns: int, rows: int
) -> list[int]:
    """Return the row of each column, counted from the bottom, interpolated between the values."""
    low, high = ends
    places = np.linspace(at[0], at[-1], columns)
    share = (np.interp(places, at, values) - low) / (high - low)
    return [int(level) for level in np.clip(np.round(share * (rows - 1)), 0, rows - 1)]


def render_trust_html(
    payload: dict[str, Any], title: str = "whence: should you believe this explanation?"
) -> str:
    """Return an HTML page of a trust card."""
    scale = PICTURE_SCALE if payload.get("picture") else TEXT_SCALE_NOTE
    return render_page(title, _render_card(payload), scale, TRUST_STYLE + PICTURE_STYLE)


def render_trust_fragment(payload: dict[str, Any]) -> str:
    """Return a trust card as HTML for a notebook cell."""
    return render_notebook_cell(_render_card(payload), TRUST_STYLE + PICTURE_STYLE)


def _render_card(payload: dict[str, Any]) -> str:
    return "\n".join(
        [
            '<div class="card">',
            _render_overview(payload),
            *(_render_method_html(payload, method) for method in payload["methods"]),
            _render_rules(payload),
            "</div>",
        ]
    )


def _render_overview(payload: dict[str, Any]) -> str:
    note, matters = format_input_warnings(payload), payload["removal_matters"]
    return "\n".join(
        [
            '<section class="overall">',
            f"<h2>{escape(payload['sentence'])}</h2>",
            f"<p>{escape(payload['model']['name'])} said <strong>{escape(describe_prediction(payload))}</strong></p>",
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            f'<p class="dim">{escape(describe_setup(payload))}. {escape(describe_card_cost(payload))}.</p>',
            f"<p>{escape(matters)}</p>" if matters else "",
            _render_verdict_matrix(payload) if len(payload["methods"]) > 1 else "",
            "</section>",
        ]
    )


def _render_verdict_chip(verdict: str) -> str:
    return f'<span class="chip {escape(verdict.replace(" ", "-"))}">{escape(verdict)}</span>'


def _render_verdict_matrix(payload: dict[str, Any]) -> str:
    names = list_test_names(payload)
    head = "".join(f'<th scope="col">{escape(to_words(name))}</th>' for name in names)
    rows = []
    for method in payload["methods"]:
        tests = select_deciding_tests(payload, method)
        cells = (
            _render_verdict_chip(tests[n]["verdict"] if n in tests else "not tested") for n in names
        )
        rows.append(
            f'<tr><th scope="row">{escape(method["method"])}</th><td>{_render_verdict_chip(method["verdict"])}</td>'
            f"{''.join(f'<td>{chip}</td>' for chip in cells)}</tr>"
        )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="all verdicts"><table class="matrix">'
        f'<thead><tr><th scope="col">method</th><th scope="col">overall</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _render_method_html(payload: dict[str, Any], method: dict[str, Any]) -> str:
    chosen = ", ".join(f"{name} = {value}" for name, value in method["params"].items())
    sentence = get_method_sentence(payload, method)
    visible, summary, tables = (
        _render_patch_parts if payload.get("picture") else _render_word_parts
    )(payload, method)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(method['method'])} {_render_verdict_chip(method['verdict'])}</h2>",
            f"<p>{escape(sentence)}</p>" if sentence else "",
            *visible,
            _render_curves_html(payload, method),
            _render_test_table(payload, method),
            f"<details><summary>{summary}</summary>",
            f'<p class="dim">{escape(chosen) or "no parameters"}</p>',
            '<div class="wide">',
            *tables,
            "</div></details>",
            "</section>",
        ]
    )


_MethodParts = tuple[list[str], str, list[str]]  # visible HTML, and folded parts as (title, HTML)


def _render_word_parts(payload: dict[str, Any], method: dict[str, Any]) -> _MethodParts:
    tints = compute_shades(payload, method)
    visible = [
        render_text_strips(payload, method, tints),
        f'<p class="dim">{escape(tints.legend)}</p>',
    ]
    tables = [render_word_table(payload, method, tints.words), render_token_table(payload, method)]
    return visible, "All words and tokens", tables


def _render_patch_parts(payload: dict[str, Any], method: dict[str, Any]) -> _MethodParts:
    visible = [render_image_maps([{**payload, "methods": [method]}]), colours(payload, method)]
    return (
        visible,
        "All patches",
        [render_patch_table(payload, method), render_patch_grid(payload, method)],
    )


def _render_curves_html(payload: dict[str, Any], method: dict[str, Any]) -> str:
    first, *others = payload["remove"]
    tests = select_curve_tests(method)
    if not tests:
        return ""
    parts = [
        _render_curve_figures(payload, method, [test for test in tests if test["remove"] == first])
    ]
    parts.append(
        f'<p class="legend"><span>{render_line_sample("own")} {escape(method["method"])}</span>'
        f"<span>{render_line_sample('random')} 95 of 100 random rankings</span><span>{render_line_sample('mean')} their mean</span></p>"
    )
    if others:
        # Both curves of one removal side by side.
        other_tests = [test for kind in others for test in tests if test["remove"] == kind]
        parts += [
            "<details><summary>The curves of the other kinds of removal</summary>",
            _render_curve_figures(payload, method, other_tests),
            "</details>",
        ]
    return "\n".join(parts)


def _render_curve_figures(
    payload: dict[str, Any], method: dict[str, Any], tests: Sequence[dict[str, Any]]
) -> str:
    several = len(payload["remove"]) > 1
    figures = []
    for test in tests:
        kind = f", {describe_removal(test['remove'])}" if several else ""
        figures.append(
            f"<figure><figcaption><strong>{escape(to_words(test['name']))}</strong>"
            f"{escape(f'{kind}: {describe_good_curve(test)}')}</figcaption>{render_curve_svg(payload, method, test)}</figure>"
        )
    return f'<div class="curves">{"".join(figures)}</div>'


def _render_test_table(payload: dict[str, Any], method: dict[str, Any]) -> str:
    questions = {rule["name"]: rule["question"] for rule in payload["rules"]}
    several = len(payload["remove"]) > 1
    rows = []
    for name, tests in group_by_name(method["tests"]).items():
        question = f'<span class="dim">{escape(questions.get(name, ""))}</span>'
        title = f"<strong>{escape(to_words(name))}</strong> {question}"
        split = several and tests[0]["remove"] is not None
        if split:
            rows.append(f'<tr class="group"><th scope="rowgroup" colspan="6">{title}</th></tr>')
        for test in tests:
            rows.append(
                _render_test_row(test, escape(describe_removal(test["remove"])) if split else title)
            )
    heads = ("test", "verdict", "value", "by chance", "beats random", "in words")
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    return (
        f'<table class="tests"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _render_test_row(test: dict[str, Any], title: str) -> str:
    better = f"{test['direction']} is better"
    beats = (
        render_percentile_track(test)
        + _render_noted_value(format_percentile(test), format_beaten_count(test))
        if is_ranked(test)
        else ""
    )
    cells = {
        "verdict": _render_verdict_chip(test["verdict"]),
        "value": ""
        if test["value"] is None
        else _render_noted_value(format_test_value(test, 3), better),
        "by chance": _render_noted_value(*format_null(test, 3)) if test["null"] else "",
        "beats random": beats,
        "in words": escape(test["why"]),
    }
    row = "".join(
        f'<td data-label="{label}">{body}</td>' if body else f'<td class="none">{NO_VALUE}</td>'
        for label, body in cells.items()
    )
    return f'<tr><th scope="row">{title}</th>{row}</tr>'


def _render_noted_value(value: str, note: str) -> str:
    return f'<span>{escape(value)}</span> <span class="dim">{escape(note)}</span>'


def _render_rules(payload: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(to_words(rule["name"]))}</th>'
        + "".join(
            f'<td data-label="{escape(word)}">{escape(rule[word] or "")}</td>'
            for word in ("question", "holds", "weak", "fails")
        )
        + "</tr>"
        for rule in payload["rules"]
    )
    heads = ("test", "question", "holds", "weak", "fails")
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    return "\n".join(
        [
            "<section><details><summary>When a test holds, is weak or fails</summary>",
            '<p class="dim">The thresholds were set before any result was seen.</p>',
            f'<table class="tests"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>',
            render_provenance(payload),
            "</section>",
        ]
    )


TRUST_STYLE = """
.whence .card section { background: #fff; }
.whence .card > section > h2 { font-size: 1.15rem; margin-bottom: .3rem; overflow-wrap: anywhere; }
.whence .card .overall > h2 { font-size: 1.4rem; line-height: 1.35; margin-bottom: .6rem; text-wrap: balance; }
.whence .card p { overflow-wrap: anywhere; }
.whence .chip { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.5; padding: 0 .55em;
  border: 1px solid; border-radius: 99px; white-space: nowrap; vertical-align: .1em; }
.whence .chip.holds { color: #17603a; background: #e8f5ec; border-color: #b5dcc2; }
.whence .chip.weak { color: #6f4a00; background: #fdf4dc; border-color: #ecd79b; }
.whence .chip.fails { color: #94201b; background: #fdecea; border-color: #f0bfbb; }
.whence .chip.not-tested { color: #56606a; background: #f3f5f7; border-color: #d9dee3; font-weight: 400; }
.whence .wide { overflow-x: auto; margin-top: .9rem; }
.whence .card details :is(th, td) { overflow-wrap: anywhere; }
.whence .matrix th, .whence .matrix td { padding: .28rem .5rem .28rem 0; vertical-align: bottom; }
.whence .matrix th:last-child, .whence .matrix td:last-child { padding-right: 0; }
.whence .matrix thead th { font-size: .74rem; font-weight: 500; line-height: 1.25; }
.whence .matrix .chip { font-size: .72rem; padding: 0 .45em; }
.whence .matrix tbody th { border: 0; white-space: nowrap; }
.whence .curves { display: flex; flex-wrap: wrap; gap: .8rem 1.6rem; margin-top: 1.1rem; }
.whence .curves figure { margin: 0; flex: 1 1 19rem; min-width: 0; max-width: 27rem; }
.whence .curves figcaption strong { color: var(--ink); }
.whence .curve { display: block; width: 100%; height: auto; }
.whence .curve text { font-size: 12px; fill: var(--dim); }
.whence svg .grid { stroke: var(--rule); stroke-width: 1; }
.whence svg .random { fill: #d5dbe1; fill-opacity: .75; }
.whence svg .mean { fill: none; stroke: #79848f; stroke-width: 1.3; stroke-dasharray: 4 3; }
.whence svg polyline.own, .whence svg line.own { fill: none; stroke: #2166ac; stroke-width: 2.2; }
.whence svg circle.own { fill: #2166ac; }
.whence .legend { display: flex; flex-wrap: wrap; gap: .1rem 1.4rem; font-size: .87rem; color: var(--dim); }
.whence .key { width: 26px; height: 12px; vertical-align: -1px; }
.whence .track { display: block; width: 110px; height: 12px; margin: .35rem 0 .1rem -5px; }
.whence .track .rail { stroke: var(--rule); stroke-width: 2; }
.whence .track .spread { stroke: #8fb3d6; stroke-width: 4; stroke-linecap: round; }
.whence .card .dim { font-weight: 400; }
.whence .tests { width: 100%; margin-top: 1.1rem; }
.whence .tests th, .whence .tests td { padding: .5rem 1rem .5rem 0; vertical-align: top;
  border-bottom: 1px solid #e9edf0; overflow-wrap: break-word; }
.whence .tests th:last-child, .whence .tests td:last-child { padding-right: 0; }
.whence .tests tbody tr:last-child > * { border-bottom: 0; }
.whence .tests thead th { font-size: .82rem; padding-bottom: .2rem; border-bottom-color: #b9c1c9; }
.whence .tests tbody th { font-weight: 400; min-width: 8rem; }
.whence .tests td > span { white-space: nowrap; }
.whence .tests td[data-label="value"] { width: 5rem; }
.whence .tests td[data-label="value"] .dim { white-space: normal; }
.whence .tests th .dim, .whence .tests td .dim { display: block; line-height: 1.4; }
.whence .tests .none { color: var(--dim); }
.whence .tests .group th { border-bottom: 0; padding-bottom: 0; }
.whence .tests .group th .dim { display: inline; }
.whence .card details table { margin-bottom: .8rem; }
@media (max-width: 44rem) {
  .whence .tests thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .tests, .whence .tests tbody, .whence .tests tr, .whence .tests tbody th { display: block; }
  .whence .tests tr { padding: .6rem 0; border-bottom: 1px solid var(--rule); }
  .whence .tests tbody th, .whence .tests td { padding: .1rem 0; border: 0; }
  .whence .tests td { display: grid; grid-template-columns: 8.2rem minmax(0, 1fr); justify-items: start; }
  .whence .tests td > * { grid-column: 2; }
  .whence .tests td > span:not(.chip) { white-space: normal; }
  .whence .tests td.none { display: none; }
  .whence .tests td::before { content: attr(data-label); color: var(--dim); grid-row: 1; }
}
"""

_WIDTH, _HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 380, 14, 204


def render_curve_svg(payload: dict[str, Any], method: dict[str, Any], test: dict[str, Any]) -> str:
    """Return the chart of one curve as SVG; screen readers get its values."""
    drawn = test["curve"]
    ends = compute_value_bounds([test])
    at = drawn["at"]
    high, low = drawn["null_high"], drawn["null_low"]
    across = [_scale_x(place, at) for place in at]
    band = [*_scale_points(across, high, ends), *reversed(_scale_points(across, low, ends))]
    line = _scale_points(across, drawn["values"], ends)
    name, label = f"{to_words(test['name'])}, {method['method']}", format_curve_label(payload, ends)
    over = format_axis_title(payload, test)
    return "".join(
        [
            f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
            f"<title>{escape(f'{name}: {label} over {over}')}</title>",
            f"<desc>{escape(_describe_curve(test, over))}</desc>",
            *_render_axes(at, ends, label, over),
            f'<polygon class="random" points="{_format_points(band)}"/>',
            f'<polyline class="mean" points="{_format_points(_scale_points(across, drawn["null_mean"], ends))}"/>',
            f'<polyline class="own" points="{_format_points(line)}"/>',
            *(f'<circle class="own" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in line),
            "</svg>",
        ]
    )


def render_percentile_track(test: dict[str, Any]) -> str:
    """Return a percentile with its interval as a dot on a line from 0 to 100, to stand beside text."""
    low, high = test["interval"] or (test["percentile"],) * 2
    return (
        '<svg class="track" viewBox="-5 0 110 12" aria-hidden="true">'
        '<line class="rail" x1="0" x2="100" y1="6" y2="6"/>'
        f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="6" y2="6"/>'
        f'<circle class="own" cx="{test["percentile"]:.1f}" cy="6" r="4"/></svg>'
    )


def render_line_sample(kind: str) -> str:
    """Return the sample of one kind of line for the legend."""
    shapes = {
        "own": '<line class="own" x1="0" x2="26" y1="6" y2="6"/><circle class="own" cx="13" cy="6" r="2.6"/>',
        "random": '<rect class="random" width="26" height="12"/>',
        "mean": '<line class="mean" x1="0" x2="26" y1="6" y2="6"/>',
    }
    return f'<svg class="key" viewBox="0 0 26 12" aria-hidden="true">{shapes[kind]}</svg>'


def _render_axes(
    at: Sequence[float], ends: tuple[float, float], label: str, over: str
) -> Iterable[str]:
    middle = (_TOP + _BOTTOM) / 2
    for value in (ends[0], (ends[0] + ends[1]) / 2, ends[1]):
        y = _scale_y(value, ends)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{format_tick(value, ends)}</text>'
    for place in (at[0], (at[0] + at[-1]) / 2, at[-1]):
        x = _scale_x(place, at)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_BOTTOM}" y2="{_BOTTOM + 4}"/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{place:.0%}</text>'
    yield (
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(over)}</text>'
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(_shorten_label(label))}</text>"
    )


def _describe_curve(test: dict[str, Any], over: str) -> str:
    """Describe a curve: its value at every point, and the band of random rankings there."""
    drawn = test["curve"]
    rows = zip(drawn["at"], drawn["values"], drawn["null_low"], drawn["null_high"], strict=True)
    points = (
        f"at {place:.0%} {format_short_number(value)}, random {format_short_number(low)} to {format_short_number(high)}"
        for place, value, low, high in rows
    )
    return f"{describe_good_curve(test)}. {over}: {'; '.join(points)}."


def _shorten_label(label: str, most: int = 30) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _scale_x(place: float, at: Sequence[float]) -> float:
    width = (at[-1] - at[0]) or 1.0
    return _LEFT + (place - at[0]) / width * (_RIGHT - _LEFT)


def _scale_y(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)


def _scale_points(
    across: Sequence[float], values: Sequence[float], ends: tuple[float, float]
) -> list[tuple[float, float]]:
    return [(x, _scale_y(value, ends)) for x, value in zip(across, values, strict=True)]


def _format_points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


_VERDICT_STYLES = {"holds": "green", "weak": "yellow", "fails": "red", "not tested": "dim"}
_CHART_ROWS = 9  # odd, so that there is a middle row to label
_MAX_CHART_WIDTH = 44
_MIN_CHART_WIDTH = 36
_CHART_GAP = 2


class TrustRenderable:
    """A rich renderable of a trust card, fitted to the terminal's width and characters."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the parts of the card."""
        payload = self._payload
        pen = CHART_ASCII if options.ascii_only else CHART_LINES
        yield Text(sanitise_text(payload["sentence"]), "bold")
        yield Text()
        yield Text.assemble(
            (sanitise_text(payload["model"]["name"]), "bold"), "  ", describe_prediction(payload)
        )
        if note := format_input_warnings(payload):
            yield Text(note, "yellow")
        yield Text(describe_setup(payload), "dim")
        yield Text(describe_card_cost(payload), "dim")
        if payload["removal_matters"]:
            yield Text(sanitise_text(payload["removal_matters"]))
        if len(payload["methods"]) > 1:
            yield from _render_verdict_tables(payload, options.max_width)
        for method in payload["methods"]:
            yield Text()
            yield from _render_method_terminal(
                payload, method, options.max_width, pen, can_show_images(console, options)
            )
        if len(payload["remove"]) > 1:
            yield Text()
            yield Text("A page (--html FILE) has the curves of every kind of removal.", "dim")


def render_trust_terminal(payload: dict[str, Any]) -> RenderableType:
    """Return a trust card as a rich renderable."""
    return TrustRenderable(payload)


def _style_verdict(verdict: str) -> Text:
    return Text(verdict, _VERDICT_STYLES.get(verdict, ""))


def _render_verdict_tables(payload: dict[str, Any], width: int) -> Iterator[RenderableType]:
    """Yield all verdicts as tables of tests by methods, as many methods as fit."""
    names = list_test_names(payload)
    left = max(map(len, [*names, "overall"]))
    row: list[dict[str, Any]] = []
    used = left
    for method in payload["methods"]:
        needed = max(len(method["method"]), len("not tested")) + _CHART_GAP
        if row and used + needed > width:
            yield Text()
            yield _build_verdict_table(payload, names, row)
            row, used = [], left
        row.append(method)
        used += needed
    yield Text()
    yield _build_verdict_table(payload, names, row)


def _build_verdict_table(
    payload: dict[str, Any], names: list[str], methods: list[dict[str, Any]]
) -> RenderableType:
    table = Table.grid(padding=(0, _CHART_GAP, 0, 0))
    table.add_row("", *(Text(method["method"], "bold", overflow="fold") for method in methods))
    table.add_row(
        Text("overall", "bold"), *(_style_verdict(method["verdict"]) for method in methods)
    )
    decided = [select_deciding_tests(payload, method) for method in methods]
    for name in names:
        verdicts = (tests[name]["verdict"] if name in tests else "not tested" for tests in decided)
        table.add_row(to_words(name), *map(_style_verdict, verdicts))
    return table


def _render_method_terminal(
    payload: dict[str, Any], method: dict[str, Any], width: int, pen: ChartPen, colours: bool
) -> Iterator[RenderableType]:
    yield Text.assemble((method["method"], "bold"), "  ", _style_verdict(method["verdict"]))
    if sentence := get_method_sentence(payload, method):
        yield Text(sanitise_text(sentence))
    if payload.get("picture"):
        yield from render_image_map(payload, method, width, colours)
    else:
        tints = compute_shades(payload, method)
        yield tint_words(payload, tints.words)
        yield Text(sanitise_text(tints.legend), "dim")
    yield Text()
    yield _build_test_table(payload, method, width)
    if whys := _build_reason_table(payload, method):
        yield Text()
        yield whys
    yield from _render_curves_terminal(payload, method, width, pen)


def _build_test_table(
    payload: dict[str, Any], method: dict[str, Any], width: int
) -> RenderableType:
    several = len(payload["remove"]) > 1
    roomy = width >= 72
    head = ["test", "verdict", "value", *(["by chance"] if roomy else []), "beats random"]
    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for column in table.columns:
        column.overflow = "fold"  # not every encoding has an ellipsis
    table.columns[2].justify = "right"
    for name, tests in group_by_name(method["tests"]).items():
        split = several and tests[0]["remove"] is not None
        if split:
            table.add_row(to_words(name))
        for test in tests:
            table.add_row(
                f"  {test['remove']}" if split else to_words(name),
                _style_verdict(test["verdict"]),
                format_test_value(test),
                *([format_null_text(test)] if roomy else []),
                format_percentile(test),
            )
    return table


def _build_reason_table(payload: dict[str, Any], method: dict[str, Any]) -> RenderableType | None:
    """Return the reasons of the deciding tests that do not hold."""
    table = Table.grid(padding=(0, _CHART_GAP, 0, 0))
    for why, tests in group_by_reason(payload, method).items():
        names = [to_words(test["name"]) for test in tests if test["verdict"] != "holds"]
        if names:
            table.add_row("\n".join(names), Text(sanitise_text(why), "dim", overflow="fold"))
    return table if table.rows else None


def _render_curves_terminal(
    payload: dict[str, Any], method: dict[str, Any], width: int, pen: ChartPen
) -> Iterator[RenderableType]:
    """Yield the curves of the deciding tests, side by side if there is space."""
    tests = [test for test in select_curve_tests(method) if test["remove"] == payload["remove"][0]]
    if not tests:
        return
    ends = compute_value_bounds(tests)
    beside = 2 if width >= 2 * _MIN_CHART_WIDTH + _CHART_GAP else 1
    room = min(_MAX_CHART_WIDTH, (width - _CHART_GAP * (beside - 1)) // beside)
    for start in range(0, len(tests), beside):
        yield Text()
        line = Table.grid(padding=(0, _CHART_GAP, 0, 0))
        line.add_row(
            *(
                _render_curve_chart(payload, t, ends, room, pen)
                for t in tests[start : start + beside]
            )
        )
        yield line
    yield Text.assemble(
        (f"{pen.flat * 2} {method['method']}", "cyan"),
        f"  {pen.band * 2} 95 of 100 random rankings",
        (f"  up: {sanitise_text(format_curve_label(payload, ends))}", "dim"),
    )


def _render_curve_chart(
    payload: dict[str, Any],
    test: dict[str, Any],
    ends: tuple[float, float],
    room: int,
    pen: ChartPen,
) -> RenderableType:
    low, high = ends
    places = {0: high, _CHART_ROWS // 2: (low + high) / 2, _CHART_ROWS - 1: low}
    labels = {row: format_tick(value, ends) for row, value in places.items()}
    left = max(map(len, labels.values())) + 1
    columns = room - left - 1
    edge, corner, floor = pen.frame
    picture = Text(f"{to_words(test['name'])}: {describe_good_curve(test)}\n", no_wrap=True)
    for row, cells in enumerate(draw_curve_chart(test["curve"], ends, columns, _CHART_ROWS, pen)):
        picture.append(f"{labels.get(row, ''):>{left - 1}} {edge}", "dim")
        for cell in cells:
            picture.append(cell.glyph, {"line": "cyan", "band": "dim"}.get(cell.kind, ""))
        picture.append("\n")
    under = format_axis_title(payload, test)
    picture.append(" " * left + corner + floor * columns + "\n", "dim")
    picture.append(" " * left + f"0%{under:^{columns - 5}}100%", "dim")
    return picture


_TEST_HEADS = ("test", "verdict", "value", "by chance", "beats random")


def format_trust_text(payload: dict[str, Any]) -> str:
    """Return a trust card as plain text."""
    lines = [
        sanitise_text(payload["sentence"]),
        f"{sanitise_text(payload['model']['name'])}: {describe_prediction(payload)}",
        *([note] if (note := format_input_warnings(payload)) else []),
        describe_setup(payload),
        describe_card_cost(payload),
    ]
    if payload["removal_matters"]:
        lines.append(sanitise_text(payload["removal_matters"]))
    if len(payload["methods"]) > 1:
        lines += ["", *(_format_method_summary(payload, method) for method in payload["methods"])]
    for method in payload["methods"]:
        lines += ["", *_format_method_text(payload, method)]
    return "\n".join(lines)


def _format_method_summary(payload: dict[str, Any], method: dict[str, Any]) -> str:
    verdicts = (
        f"{to_words(name)} {test['verdict']}"
        for name, test in select_deciding_tests(payload, method).items()
    )
    return f"{method['method']}: {method['verdict']} ({', '.join(verdicts)})"


def _format_method_text(payload: dict[str, Any], method: dict[str, Any]) -> list[str]:
    table = [_TEST_HEADS, *_build_test_rows(payload, method)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  "
        + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    whys = [
        f"  {', '.join(to_words(test['name']) for test in tests)}: {sanitise_text(why)}"
        for why, tests in group_by_reason(payload, method).items()
    ]
    sentence = get_method_sentence(payload, method)
    return [
        f"{method['method']}: {method['verdict']}",
        *([sanitise_text(sentence)] if sentence else []),
        *lines,
        *whys,
    ]


def _build_test_rows(payload: dict[str, Any], method: dict[str, Any]) -> list[tuple[str, ...]]:
    several = len(payload["remove"]) > 1
    return [
        (
            f"{to_words(name)}, {test['remove']}" if several and test["remove"] else to_words(name),
            test["verdict"],
            format_test_value(test),
            format_null_text(test),
            format_percentile(test),
        )
        for name, tests in group_by_name(method["tests"]).items()
        for test in tests
    ]


NO_VALUE = "-"

_REMOVAL_PHRASES = {
    "delete": "deleted",
    "mask": "replaced by the mask token",
    "pad": "replaced by padding",
    "unk": "replaced by the token for unknown words",
    "draw": "replaced by what a masked language model draws",
    "black": "painted black",
    "mean": "painted in the mean colour of the picture",
    "blur": "replaced by a blur of the picture",
}
# The axis of each test's curve, and the curve of a good explanation.
_CURVE_TESTS = {
    "deletion": ("removed", "below the band is good"),
    "sufficiency": ("kept", "above the band is good"),
}


def to_words(name: str) -> str:
    """Return the name of a test in words."""
    return name.replace("_", " ")


def describe_removal(remove: str) -> str:
    """Describe how tokens or patches were removed."""
    return _REMOVAL_PHRASES.get(remove, remove)


def format_aligned_numbers(values: Sequence[float], digits: int = 2) -> list[str]:
    """Format related figures briefly, with the same decimals."""
    largest = max(map(abs, values), default=0.0)
    if largest == 0 or 10**-digits <= largest < 1000:
        # Adding 0.0 turns the -0.0 of a small negative number into 0.0.
        return [f"{round(value, digits) + 0.0:.{digits}f}" for value in values]
    return [f"{value:.2g}" for value in values]


def format_short_number(value: float | None, digits: int = 2) -> str:
    """Format a figure briefly, or as a dash if there is none."""
    return NO_VALUE if value is None else format_aligned_numbers([value], digits)[0]


def format_test_value(test: dict[str, Any], digits: int = 2) -> str:
    """Format the value of a test, with the same decimals as its null."""
    value, null = test["value"], test["null"]
    if value is None or null is None or null["low"] == null["high"]:
        return format_short_number(value, digits)
    return format_aligned_numbers([value, null["mean"], null["low"], null["high"]], digits)[0]


def format_null(test: dict[str, Any], digits: int = 2) -> tuple[str, str]:
    """Return the mean of random explanations, and their 95% range if they differ."""
    null = test["null"]
    if null is None:
        return NO_VALUE, ""
    mean, low, high = format_aligned_numbers(
        [null[name] for name in ("mean", "low", "high")], digits
    )
    return mean, f"{low} to {high}" if null["low"] < null["high"] else ""


def format_null_text(test: dict[str, Any]) -> str:
    """Return the mean and the range of random explanations as one text."""
    mean, spread = format_null(test)
    return f"{mean} ({spread})" if spread else mean


def is_ranked(test: dict[str, Any]) -> bool:
    """Return whether a test was compared with random rankings, so that its percentile is shown."""
    return test["percentile"] is not None and test["remove"] is not None


def format_percentile(test: dict[str, Any]) -> str:
    """Format the share of random rankings that the explanation beats, with its interval."""
    if not is_ranked(test):
        return NO_VALUE
    share = f"{round(test['percentile'], 1):g}%"
    if test["interval"] is None:
        return share
    low, high = (f"{round(end, 1):g}" for end in test["interval"])
    return f"{share} ({low} to {high})"


def format_beaten_count(test: dict[str, Any]) -> str:
    """Format the count behind a percentile."""
    if test["beaten"] is None or test["of"] is None:
        return ""
    tied = test.get("tied")
    ties = f", {tied:g} {_format_plural('tie', tied)}" if tied else ""
    return f"{test['beaten']:g} of {test['of']:g}{ties}"


def group_by_name(tests: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group tests by name: the same test under different removals."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        groups.setdefault(test["name"], []).append(test)
    return groups


def select_deciding_tests(
    payload: dict[str, Any], method: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the tests that decide the verdicts, by name: those under the first removal."""
    first = payload["remove"][0]
    return {test["name"]: test for test in method["tests"] if test["remove"] in (None, first)}


def group_by_reason(
    payload: dict[str, Any], method: dict[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """Return the reasons of the verdicts, each once, with its tests."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for test in select_deciding_tests(payload, method).values():
        if test["why"]:
            groups.setdefault(test["why"], []).append(test)
    return groups


def list_test_names(payload: dict[str, Any]) -> list[str]:
    """Return the names of all tests, in the order of the card."""
    return list(dict.fromkeys(t["name"] for m in payload["methods"] for t in m["tests"]))


def get_method_sentence(payload: dict[str, Any], method: dict[str, Any]) -> str:
    """Return the sentence on a method, or an empty string if it is the card's own sentence."""
    return "" if method["sentence"] == payload["sentence"] else str(method["sentence"])


def select_curve_tests(method: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tests with a curve of the prediction as tokens are removed or kept."""
    return [t for t in method["tests"] if t["curve"] is not None and t["name"] in _CURVE_TESTS]


def get_curve_axis(test: dict[str, Any]) -> str:
    """Return the quantity on the horizontal axis of a curve."""
    return _CURVE_TESTS[test["name"]][0]


def describe_good_curve(test: dict[str, Any]) -> str:
    """Describe the curve of a good explanation."""
    return _CURVE_TESTS[test["name"]][1]


def compute_value_bounds(tests: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Return the bounds of the value axis: 0 and 1 for probabilities, whatever their range."""
    curves = [test["curve"] for test in tests]
    known = [v for c in curves for name in ("values", "null_low", "null_high") for v in c[name]]
    if all(0 <= value <= 1 for value in known):
        return 0.0, 1.0
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, low + 1)


def format_tick(value: float, ends: tuple[float, float]) -> str:
    """Return the label of a tick on the value axis."""
    return f"{value:.0%}" if ends == (0.0, 1.0) else f"{value:.3g}"


def format_curve_label(payload: dict[str, Any], ends: tuple[float, float]) -> str:
    """Return the quantity that a curve shows."""
    # A contrast of two labels has no probability; the first label's is shown.
    label = str(payload["target"]["label"])
    return f"probability of {label}" if ends == (0.0, 1.0) else label


def describe_setup(payload: dict[str, Any]) -> str:
    """Describe the removed features, and the random rankings that the figures are compared with."""
    units, unit, rankings = payload["units"], payload["unit"], payload["rankings"]
    first, *others = payload["remove"]
    away = f"{units:,} {_format_plural(unit, units)}, {describe_removal(first)}"
    if others:
        away += f" (the verdicts rest on this), and for comparison by {', '.join(others)}"
    if not rankings:
        return f"{away}; no random rankings to compare with"
    if units < 12 and rankings == factorial(units):
        return f"{away}; compared with all {rankings:,} rankings of them"
    same = "picture" if payload.get("picture") else "text"
    return f"{away}; compared with {rankings:,} random rankings of the same {same}"


def format_axis_title(payload: dict[str, Any], test: dict[str, Any]) -> str:
    """Return the title of a curve's axis."""
    return f"{_format_plural(payload['unit'], 2)} {get_curve_axis(test)}"


def describe_card_cost(payload: dict[str, Any]) -> str:
    """Describe the cost of the card."""
    spent = payload["cost"]
    return (
        f"{spent['forward']:,} forward and {spent['backward']:,} backward passes, {spent['seconds']:.1f} s; "
        f"the tests took {spent['tests']:,} forward passes of their budget of {payload['budget']:,}"
    )


def _format_plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return f"{word}es" if word.endswith("ch") else f"{word}s"


_VERDICT_ADVICE = {
    "holds": "can be believed here",
    "weak": "is to be taken with care",
    "fails": "is not to be relied on",
    "not tested": "could not be tested",
}


# The result that decides each verdict: the first entry (result, tests) that occurs.
_BEHAVIOUR_TESTS = tuple(rule.name for rule in VERDICT_RULES if rule.name not in AXIOM_TESTS)
_DECISIVE_RESULTS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "weak": [("fails", _BEHAVIOUR_TESTS), ("weak", _BEHAVIOUR_TESTS), ("not tested", MAIN_TESTS)],
    "not tested": [("not tested", MAIN_TESTS)],
}

_COUNT_PHRASES = (
    ("holds", "can be believed", "can be believed"),
    ("weak", "is to be taken with care", "are to be taken with care"),
    ("fails", "is not to be relied on", "are not to be relied on"),
    ("not tested", "could not be tested", "could not be tested"),
)


def describe_method_verdict(method: str, verdict: str, tests: Sequence[Mapping[str, Any]]) -> str:
    """Describe the verdict on a method, with the result that decided it."""
    index = {test["name"]: test for test in tests}
    head = f"{method} {_VERDICT_ADVICE[verdict]}: "
    if verdict == "holds":
        untested = [name for name in _BEHAVIOUR_TESTS if index[name]["verdict"] == "not tested"]
        missing = f" Not tested: {', '.join(untested).replace('_', ' ')}." if untested else ""
        return (
            head + _join_sentences(index["deletion"]["why"], index["sufficiency"]["why"]) + missing
        )
    for result, names in _DECISIVE_RESULTS.get(verdict) or [("fails", _list_failing_tests(index))]:
        for test in tests:
            if test["verdict"] == result and test["name"] in names:
                return head + _lower_first(test["why"])
    return head + "no test was decisive."


def _list_failing_tests(index: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the tests by which a method fails: a main test, or else randomisation."""
    by_main = any(index[name]["verdict"] == "fails" for name in MAIN_TESTS)
    return MAIN_TESTS if by_main else ("randomisation",)


def describe_card_verdict(methods: Sequence[Mapping[str, Any]]) -> str:
    """Describe the verdicts on all methods in one sentence."""
    if len(methods) == 1:
        return str(methods[0]["sentence"])
    parts = []
    for verdict, one, several in _COUNT_PHRASES:
        names = [method["method"] for method in methods if method["verdict"] == verdict]
        if names:
            parts.append(f"{len(names)} {one if len(names) == 1 else several} ({', '.join(names)})")
    return f"Of {len(methods)} explanations of this prediction, {', '.join(parts)}."


def describe_removal_effect(
    methods: Sequence[Mapping[str, Any]], removals: Sequence[str]
) -> str | None:
    """Describe how much the verdicts depend on the removal, if several were tried."""
    if len(removals) < 2:
        return None
    widest, changed, phrase = -1.0, 0, ""
    for method in methods:
        for name in dict.fromkeys(test["name"] for test in method["tests"] if test["remove"]):
            placed = [
                (test["percentile"], test["remove"], test["verdict"])
                for test in method["tests"]
                if test["name"] == name and test["percentile"] is not None
            ]
            if not placed:
                continue
            changed += len({verdict for _, _, verdict in placed}) > 1
            (least, worst, _), (most, best, _) = min(placed), max(placed)
            if most - least > widest:
                widest = most - least
                phrase = (
                    f"most for {name.replace('_', ' ')} of {method['method']}, which beats {least:.0f}% of random "
                    f"rankings with {worst} and {most:.0f}% with {best}"
                )
    if widest < 0:
        return "How tokens are removed could not be compared: nothing could be tested."
    if not changed and widest < 1:
        return "How tokens are removed changes no verdict here, and next to nothing in the percentiles."
    if not changed:
        return f"How tokens are removed changes no verdict; it matters {phrase}."
    return f"How tokens are removed changes {changed} verdict{'s' * (changed > 1)}; it matters {phrase}."


def to_patch_wording(sentence: str) -> str:
    """Replace "token" by "patch" in a sentence for images; the sentence must hold no user text."""
    return sentence.replace("tokens", "patches").replace("token", "patch")


def _join_sentences(first: str, second: str) -> str:
    return f"{_lower_first(first).removesuffix('.')}, and {_lower_first(second)}"


def _lower_first(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
