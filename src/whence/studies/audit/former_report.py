"""The report of an audit as it was; it goes when the reports of runs and comparisons make documents.

Each experiment states its hypothesis, measure and threshold first, then the effect with its 95% interval.
It holds if the whole interval is on the side stated beforehand, fails if the whole interval is on the
other side, and is undecided otherwise. Plots are sketched in characters where no page can be shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.render.former import render_notebook_cell, render_page, render_provenance
from whence.render.former_charts import PLOT_STYLE as PLOTS
from whence.render.former_charts import PLOT_STYLE_DARK as PLOTS_IN_THE_DARK
from whence.render.former_charts import (
    AxisScale,
    compute_axis_bounds,
    compute_quartiles,
    render_effect_line,
    render_effect_plot,
    render_plot,
    select_heaviest_tokens,
)
from whence.render.markdown import escape_markdown, format_escaped_table
from whence.render.terminal import TerminalWriter
from whence.render.text import format_drawn_sample, sanitise_html
from whence.studies.audit.conclusion import (
    NO_VALUE,
    build_effect_interval,
    format_condition,
    format_effect,
    format_effect_summary,
    format_sample_size,
    format_threshold,
)
from whence.studies.audit.conclusion import (
    to_one_line as to_one_line,
)


def format_audit_markdown(payload: Mapping[str, Any]) -> str:
    """Return an audit in Markdown."""
    blocks = [
        f"**{AUDIT_QUESTION} {escape_markdown(format_answer(payload))}.**",
        escape_markdown(to_one_line(payload["conclusion"])),
        "\n".join(f"- {name}: {escape_markdown(text)}" for name, text in list_audit_facts(payload)),
    ]
    if payload["experiments"]:
        blocks.append(
            format_escaped_table(
                [
                    EXPERIMENT_HEADS,
                    *(build_experiment_row(result) for result in payload["experiments"]),
                ]
            )
        )
        blocks.append(VERDICT_LEGEND)
    for result in payload["experiments"]:
        blocks += _format_experiment_markdown(result)
    blocks.append(
        "\n".join(
            f"- {escape_markdown(line)}"
            for line in [*list_audit_omissions(payload), describe_audit_cost(payload)]
        )
    )
    return "\n\n".join(blocks) + "\n"


def _format_experiment_markdown(result: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Hypothesis: {to_one_line(result['hypothesis'])}",
        f"Measured: {to_one_line(result['measure'])}. {describe_verdict_rule(result)}",
        *list_experiment_remarks(result),
    ]
    lines += (
        [f"Misleads when: {to_one_line(result['misleads_when'])}"]
        if result.get("misleads_when")
        else []
    )
    lines += [f"Source: {to_one_line(result['cite'])}"] if result.get("cite") else []
    blocks = [
        f"### {escape_markdown(to_one_line(result['name']))}",
        "\n".join(f"- {escape_markdown(line)}" for line in lines),
    ]
    for which in ("class", "site"):
        if rows := build_part_rows(result, which):
            blocks.append(format_escaped_table([(which, "effect", "n"), *rows]))
    return blocks


_PAGE_FOOTER = "The hypotheses and thresholds were fixed before anything was measured."


def render_audit_html(
    payload: Mapping[str, Any], title: str = "whence: is attention an explanation here?"
) -> str:
    """Return an HTML page of an audit."""
    return sanitise_html(
        render_page(
            title,
            _render_audit_body(payload, linked=True),
            _PAGE_FOOTER,
            AUDIT_STYLE + AUDIT_PAGE_STYLE,
        )
    )


def render_audit_fragment(payload: Mapping[str, Any]) -> str:
    """Return an audit as HTML for a notebook cell."""
    return sanitise_html(
        render_notebook_cell(_render_audit_body(payload, linked=False), AUDIT_STYLE)
    )


def _render_audit_body(payload: Mapping[str, Any], *, linked: bool) -> str:
    return "\n".join(
        [
            '<div class="audit">',
            render_audit_sections(payload, linked=linked),
            f"<section>{render_provenance(dict(payload))}</section>",
            "</div>",
        ]
    )


def render_audit_sections(payload: Mapping[str, Any], *, linked: bool) -> str:
    """Return the HTML sections of an audit: the answer, then one for each experiment."""
    experiments = list(enumerate(payload["experiments"]))
    return "\n".join(
        [
            _render_audit_overview(payload, linked=linked),
            *(
                _render_experiment_html(result, _format_anchor(number) if linked else "")
                for number, result in experiments
            ),
        ]
    )


def _format_anchor(number: int) -> str:
    return f"experiment-{number + 1}"


def _render_audit_overview(payload: Mapping[str, Any], *, linked: bool) -> str:
    return "\n".join(
        [
            '<section class="overall">',
            f'<p class="dim">{escape(AUDIT_QUESTION)}</p>',
            f"<h2>{escape(format_answer(payload))}</h2>",
            f'<p class="conclusion">{escape(to_one_line(payload["conclusion"]))}</p>',
            _render_definition_list(list_audit_facts(payload), "facts"),
            _render_contents(payload, linked=linked),
            f'<p class="dim">{escape(VERDICT_LEGEND)}</p>',
            _render_list(list_audit_omissions(payload)),
            f'<p class="dim">{escape(describe_audit_cost(payload))}</p>',
            "</section>",
        ]
    )


def _render_definition_list(pairs: Iterable[tuple[str, str]], kind: str) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f'<dl class="{kind}">{items}</dl>'


def _render_list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _render_verdict_badge(result: Mapping[str, Any]) -> str:
    return (
        f'<span class="badge {escape(result["verdict"])}">{escape(format_verdict(result))}</span>'
    )


def _render_contents(payload: Mapping[str, Any], *, linked: bool) -> str:
    """Return a table of all experiments, linked to their sections."""
    if not payload["experiments"]:
        return "<p>No experiment was made.</p>"
    rows = []
    for number, result in enumerate(payload["experiments"]):
        name, *cells = map(escape, build_experiment_row(result))
        cells[-1] = _render_verdict_badge(result)
        name = f'<a href="#{_format_anchor(number)}">{name}</a>' if linked else name
        body = "".join(
            f'<td data-label="{head}"{" class=none" if text == NO_VALUE else ""}>{text}</td>'
            for head, text in zip(EXPERIMENT_HEADS[1:], cells, strict=True)
        )
        rows.append(f'<tr><th scope="row">{name}</th>{body}</tr>')
    heads = "".join(f'<th scope="col">{head}</th>' for head in EXPERIMENT_HEADS)
    return (
        f'<nav aria-label="contents"><table class="summary"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></nav>"
    )


def _render_experiment_html(result: Mapping[str, Any], place: str) -> str:
    """Return the section of one experiment: hypothesis and rule, then effect, then details."""
    claim = [
        ("hypothesis", to_one_line(result["hypothesis"])),
        ("measured", to_one_line(result["measure"])),
        ("threshold", describe_verdict_rule(result)),
    ]
    summary = to_one_line(result.get("summary") or "")
    return "\n".join(
        [
            f'<section id="{place}">' if place else "<section>",
            f"<h2>{escape(to_one_line(result['name']))}</h2>",
            f'<p class="dim">{escape(summary)}</p>' if summary else "",
            _render_definition_list(claim, "facts claim"),
            _render_effect(result),
            _render_list(list_experiment_remarks(result)),
            *(render_plot(plot) for plot in result.get("plots") or ()),
            render_effect_table(result, "class", "By predicted class"),
            render_effect_table(result, "site", "At the other sites"),
            render_detail(result.get("detail") or {}),
            _render_experiment_details(result),
            "</section>",
        ]
    )


def _render_effect(result: Mapping[str, Any]) -> str:
    note = format_sample_size(result)
    if result.get("chance") is not None:
        note += f"; chance, dotted: {format_threshold(result['chance'])}"
    name = f"{to_one_line(result['name'])}: effect against the threshold"
    text = (
        f"{format_effect_summary(result)}; holds if {format_condition(result)}: {result['verdict']}"
    )
    drawing = render_effect_plot(result, name, text)
    return (
        f'<div class="found"><div>{_render_verdict_badge(result)}<p class="effect">{escape(format_effect(result))}</p>'
        f'<p class="dim">{escape(note)}</p></div>{drawing}</div>'
    )


def _render_experiment_details(result: Mapping[str, Any]) -> str:
    chosen = ", ".join(
        f"{to_one_line(name)} = {'none' if value is None else format_any_value(value)}"
        for name, value in (result.get("params") or {}).items()
    )
    calls = (result.get("calls") or {}).get("forward")
    spent = [f"{calls:,.0f} forward passes"] if calls is not None else []
    spent += [f"{result['seconds']:,.1f} s"] if result.get("seconds") is not None else []
    facts = [
        ("misleads when", to_one_line(result.get("misleads_when") or "")),
        ("source", to_one_line(result.get("cite") or "")),
        ("parameters", chosen),
        ("took", ", ".join(spent)),
    ]
    return _render_definition_list([(name, text) for name, text in facts if text], "facts small")


_MAX_SERIES = 4  # series of a sketched plot; an HTML page has all
_MAX_SKETCH_WIDTH = 76
_TOP_TOKENS = 5


class SketchPen(NamedTuple):
    """The characters of plots in text."""

    levels: str  # from the smallest count to the largest
    whisker: str
    quartiles: str
    median: str
    mark: str


SKETCH_LINES = SketchPen("▁▂▃▄▅▆▇█", "─", "━", "●", "▲")
SKETCH_ASCII = SketchPen("._-=+*%#", "-", "=", "o", "^")


def format_plot_sketch(plot: Mapping[str, Any], width: int, pen: SketchPen) -> list[str]:
    """Return a plot as lines of text at most `width` wide; empty if a sketch would not help."""
    draw = {
        "histogram": _sketch_histogram,
        "violin": _sketch_violin,
        "attention": _sketch_attention,
        "bars": _sketch_bars,
    }
    make = draw.get(plot["kind"])
    lines = list(make(plot, min(width, _MAX_SKETCH_WIDTH), pen)) if make else []
    return [to_one_line(plot["title"]), *lines] if lines else []


def format_count_strip(counts: Sequence[float], columns: int, pen: SketchPen) -> str:
    """Return counts as one line of blocks; neighbouring counts are merged to fit the columns."""
    step = -(-len(counts) // columns)
    sums = [sum(counts[at : at + step]) for at in range(0, len(counts), step)]
    most = max(sums, default=0) or 1
    top = len(pen.levels) - 1
    return "".join(" " if not c else pen.levels[min(top, int(c / most * top + 0.5))] for c in sums)


def _sketch_histogram(plot: Mapping[str, Any], width: int, pen: SketchPen) -> Iterator[str]:
    edges, series = plot["edges"], plot["series"][:_MAX_SERIES]
    if len(edges) < 2 or not series:
        return
    low, high = f"{edges[0]:.3g} ", f" {edges[-1]:.3g}"
    label = _choose_label_width([row["name"] for row in series], width)
    columns = max(1, width - 4 - label - len(low) - len(high) - len(", n=12345"))
    for row in series:
        blocks = format_count_strip(row["counts"], columns, pen)
        yield from _label_sketch(row["name"], label, f"{low}{blocks}{high}, n={row['n']}")
    value = plot.get("threshold")
    if value is not None and edges[0] <= value <= edges[-1]:
        place = int(AxisScale(edges[0], edges[-1], 0, len(blocks) - 1).at(value) + 0.5)
        yield f"{' ' * (4 + label + len(low) + place)}{pen.mark} {value:.4g}"
    yield from _describe_omitted_series(plot["series"])


def _sketch_violin(plot: Mapping[str, Any], width: int, pen: SketchPen) -> Iterator[str]:
    known = [q for row in plot["series"] for group in row["groups"] for q in group["quantiles"]]
    if not known:
        return
    low, high = compute_axis_bounds(known)
    label = _choose_label_width([g["name"] for row in plot["series"] for g in row["groups"]], width)
    columns = max(8, width - 4 - label - len(" 0.0000, n=12345"))
    scale = AxisScale(0.0 if min(known) >= 0 else low, high, 0, columns - 1)
    for row in plot["series"][:_MAX_SERIES]:
        yield f"  {to_one_line(row['name'])}"
        for group in row["groups"]:
            quartiles = compute_quartiles(group)
            if quartiles is not None:
                drawn = _sketch_box(group["quantiles"], quartiles, scale, pen)
                yield from _label_sketch(
                    group["name"], label, f"{drawn} {quartiles[1]:.3g}, n={group['n']}"
                )
    yield from _describe_omitted_series(plot["series"])


def _choose_label_width(names: Sequence[str], width: int) -> int:
    """Return the width of a column of names; 0 if they would take more than a third of the line."""
    longest = max((len(to_one_line(name)) for name in names), default=0)
    return longest + 2 if 3 * longest <= width else 0


def _label_sketch(name: str, label: int, drawn: str) -> Iterator[str]:
    """Return a sketch with its name before it, or above it if there is no space."""
    if not label:
        yield f"    {to_one_line(name)}"
    yield f"    {to_one_line(name) if label else '':<{label}}{drawn}"


def _sketch_box(
    values: Sequence[float], inner: tuple[float, float, float], scale: AxisScale, pen: SketchPen
) -> str:
    line = [" "] * (int(scale.end) + 1)
    for start, end, sign in (
        (values[0], values[-1], pen.whisker),
        (inner[0], inner[2], pen.quartiles),
        (inner[1], inner[1], pen.median),
    ):
        for place in range(round(scale.at(start)), round(scale.at(end)) + 1):
            line[place] = sign
    return "".join(line)


def _sketch_attention(plot: Mapping[str, Any], width: int, pen: SketchPen) -> Iterator[str]:
    for example in plot["examples"][:1]:
        yield f"  predicted {to_one_line(example['predicted'])}; the {_TOP_TOKENS} largest weights of the first example"
        for row in example["rows"]:
            words = select_heaviest_tokens(example["tokens"], row["weights"], _TOP_TOKENS)
            text = ", ".join(f"'{to_one_line(token)}' {weight:.2f}" for token, weight in words)
            yield f"    {to_one_line(row['name'])}: {text}"


def _sketch_bars(plot: Mapping[str, Any], width: int, pen: SketchPen) -> Iterator[str]:
    for bar in plot["bars"]:
        ends = [bar.get("low"), bar.get("high")]
        reach = f" {format_any_value(ends)}" if None not in ends else ""
        yield f"  {to_one_line(bar['name'])}: {format_any_value(bar.get('value'))}{reach}"


def _describe_omitted_series(series: Sequence[Any]) -> Iterator[str]:
    if len(series) > _MAX_SERIES:
        yield f"  {len(series) - _MAX_SERIES} more on the page"


AUDIT_STYLE = (
    PLOTS
    + """
.whence .audit { --held-ink: #17603a; --held-line: #8cc7a1; --fail-ink: #94201b; --fail-paper: #fdecea;
  --fail-line: #e3a19b; --open-ink: #6f4a00; --open-paper: #fdf4dc; --open-line: #dcc078; }
.whence .audit section { background: var(--paper, #fff); }
.whence .audit :is(p, dd, li, h2, h3, summary, .summary td, .summary th) { overflow-wrap: anywhere; }
.whence .overall h2 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
.whence .conclusion { font-size: 1.05rem; max-width: 46rem; margin: .3rem 0 1rem; }
.whence .facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1.1rem; margin: .8rem 0;
  font-size: .92rem; }
.whence .facts dt { color: var(--dim); }
.whence .facts dd { margin: 0; }
.whence .claim dt { font-weight: 600; color: var(--ink); }
.whence .badge { display: inline-block; font-weight: 600; line-height: 1.5; padding: 0 .6em; border: 1px solid;
  border-radius: 99px; white-space: nowrap; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.whence .badge.holds { color: var(--held-ink); background: var(--held); border-color: var(--held-line); }
.whence .badge.fails { color: var(--fail-ink); background: var(--fail-paper); border-color: var(--fail-line); }
.whence .badge.undecided { color: var(--open-ink); background: var(--open-paper); border-color: var(--open-line); }
.whence .found { display: flex; flex-wrap: wrap; gap: .4rem 2rem; align-items: center; margin: .9rem 0 .3rem; }
.whence .found > div { flex: 1 1 15rem; min-width: 0; }
.whence .found svg { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence .effect { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; margin: .25rem 0 0; }
.whence .audit ul { margin: .4rem 0; padding-left: 1.2rem; }
.whence .wide { overflow-x: auto; }
.whence .audit table { margin: .5rem 0; }
.whence .audit a { color: var(--own); }
.whence .audit thead th { font-size: .84rem; }
.whence .audit tbody th { font-weight: 500; border-bottom: 0; }
.whence .audit .wide :is(th, td) { overflow-wrap: anywhere; min-width: 5.8rem; }
.whence .audit .wide :is(td.n, td.brief) { white-space: nowrap; min-width: 0; }
.whence .audit .wide thead th { overflow-wrap: normal; min-width: 0; }
.whence .audit th.n { text-align: right; }
.whence .summary { width: 100%; }
.whence .summary tbody :is(th, td) { border-top: 1px solid var(--faint); padding-block: .35rem; }
.whence .summary tbody th { font-weight: 600; border-bottom: 0; min-width: 7.5rem; }
.whence .summary .badge { font-size: .82rem; }
.whence .deep th { vertical-align: top; }
.whence .deep td { vertical-align: top; min-width: 4rem; }
.whence .small { font-size: .9rem; margin-top: .9rem; border-top: 1px solid var(--faint); padding-top: .6rem; }
@media (max-width: 36rem) {
  .whence .audit section { padding: .9rem; }
  .whence .facts { display: block; }
  .whence .facts dd { margin: 0 0 .5rem; }
  .whence .summary thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .summary, .whence .summary tbody, .whence .summary tr, .whence .summary :is(th, td) { display: block; }
  .whence .summary tr { border-top: 1px solid var(--faint); padding: .5rem 0; }
  .whence .summary tbody :is(th, td) { border: 0; padding: .05rem 0; }
  .whence .summary tbody td { display: inline-block; margin-right: .9rem; }
  .whence .summary td::before { content: attr(data-label) ": "; color: var(--dim); }
  .whence .summary td.none { display: none; }
}
"""
)

# For pages only: a notebook has its own background, which does not follow the system's dark mode.
AUDIT_PAGE_STYLE = f"""
@media (max-width: 36rem) {{ body {{ padding: .75rem !important; }} }}
@media screen and (prefers-color-scheme: dark) {{
  body {{ background: #12161b !important; color-scheme: dark !important; }}
  .whence {{ --ink: #e6e9ec; --dim: #a6b0ba; --rule: #39424b; --paper: #1a2027; }}
  .whence .audit {{ --held-ink: #a3e0ba; --held-line: #2f6d49; --fail-ink: #ffb8b0; --fail-paper: #421713;
    --fail-line: #8d4038; --open-ink: #f1d690; --open-paper: #382c08; --open-line: #77631f; }}
{PLOTS_IN_THE_DARK}
}}
@media print {{
  body {{ background: #fff !important; max-width: none !important; padding: 0 !important; }}
  .whence section {{ border: 0; padding: 0; }}
  .whence figure, .whence .found, .whence .example, .whence tr {{ break-inside: avoid; }}
  .whence h2 {{ break-after: avoid; }}
  .whence details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""

JsonDict = dict[str, Any]
DetailRows = Sequence[Mapping[str, Any]]

_MAX_OPEN_ROWS = 12  # rows of a table; a longer one is folded away
_BRIEF_CELL = 32  # characters of a cell that stay on one line


def render_effect_table(result: Mapping[str, Any], which: str, title: str) -> str:
    """Return the effect at each site or for each class, drawn against the threshold."""
    rows = result.get(f"by_{which}") or []
    if not rows:
        return ""
    scale = _build_effect_scale(result, rows)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{escape(effect)}</td><td class="n">{escape(n)}</td>'
        f"<td>{render_effect_line(part, result['threshold'], scale)}</td></tr>"
        for part, (name, effect, n) in zip(rows, build_part_rows(result, which), strict=True)
    )
    heads = (
        f'<th scope="col">{which}</th><th scope="col" class="n">effect</th><th scope="col" class="n">n</th>'
        '<th scope="col">against the threshold</th>'
    )
    table = render_wide_table(f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>", title)
    if len(rows) > _MAX_OPEN_ROWS:
        return f"<details><summary>{escape(title)} ({len(rows)})</summary>{table}</details>"
    return f"<h3>{escape(title)}</h3>{table}"


def _build_effect_scale(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> AxisScale:
    known = [interval for part in rows if (interval := build_effect_interval(part)) is not None]
    values = [f[end] for f in known for end in ("mean", "low", "high") if f[end] is not None]
    return AxisScale(*compute_axis_bounds([result["threshold"], *values]), 6, 144)


def render_detail(detail: Mapping[str, Any]) -> str:
    """Return all further figures, folded away: uniform lists as tables, all else as facts."""
    if not detail:
        return ""
    alone, tables = _separate_tables(detail)
    body = _render_detail_facts(alone) if alone else ""
    body += "".join(
        f"<h3>{escape(name)}</h3>{_render_detail_table(rows, name)}" for name, rows in tables
    )
    return f"<details><summary>All figures</summary>{body}</details>"


def _separate_tables(
    detail: Mapping[str, Any], within: str = ""
) -> tuple[JsonDict, list[tuple[str, DetailRows]]]:
    """Flatten nested figures into facts named by their path, and tables."""
    alone: JsonDict = {}
    tables: list[tuple[str, DetailRows]] = []
    for key, value in detail.items():
        name = f"{within}, {to_words(str(key))}" if within else to_words(str(key))
        if _is_table(value):
            tables += _split_nested_tables(name, value)
        elif isinstance(value, Mapping) and _is_nested(value):
            inner, more = _separate_tables(value, name)
            alone |= inner
            tables += more
        else:
            alone[name] = value
    return alone, tables


def _is_nested(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping holds mappings or lists; a mean with its interval does not count."""
    return not is_mean(value) and any(isinstance(item, Mapping | list) for item in value.values())


def _split_nested_tables(name: str, rows: DetailRows) -> list[tuple[str, DetailRows]]:
    """Split a table from the tables nested in its rows, which get the row's text columns."""
    inner: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        about = {key: value for key, value in row.items() if isinstance(value, str)}
        for key, value in row.items():
            if _is_table(value):
                inner.setdefault(key, []).extend({**about, **nested} for nested in value)
    own = [{key: value for key, value in row.items() if key not in inner} for row in rows]
    return [(name, own), *((f"{name}, {to_words(key)}", table) for key, table in inner.items())]


def _is_table(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def _render_detail_table(rows: DetailRows, name: str) -> str:
    rows = [_merge_mean_interval(row) for row in rows]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f'<th scope="col">{escape(to_words(str(key)))}</th>' for key in heads)
    body = "".join(
        f"<tr>{''.join(_render_detail_cell(format_any_value(row.get(key))) for key in heads)}</tr>"
        for row in rows
    )
    return render_wide_table(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", name)


def _render_detail_cell(text: str) -> str:
    brief = ' class="brief"' if len(text) <= _BRIEF_CELL else ""
    return f"<td{brief}>{escape(text)}</td>"


def _merge_mean_interval(row: Mapping[str, Any]) -> JsonDict:
    """Return a row in which a mean and its interval are one figure."""
    if not is_mean(row):
        return dict(row)
    mean = format_effect({"effect": row["mean"], **row})
    return {
        key: mean if key == "mean" else value for key, value in row.items() if key != "interval"
    }


def _render_detail_facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{_render_detail_cell(format_any_value(value))}</tr>'
        for name, value in facts.items()
    )
    return render_wide_table(f"<tbody>{rows}</tbody>", "figures", "deep")


def render_wide_table(body: str, name: str, kind: str = "") -> str:
    """Return a table that scrolls horizontally if the page is too narrow."""
    css = f' class="{kind}"' if kind else ""
    region = f'role="region" aria-label="{escape(name)}"'
    return f'<div class="wide" tabindex="0" {region}><table{css}>{body}</table></div>'


_VERDICT_STYLES = {"holds": "green", "fails": "red", "undecided": "yellow"}
_ANSWER_STYLES = {"yes": "green", "no": "red", "undecided": "yellow"}


class AuditRenderable:
    """A rich renderable of an audit, fitted to the terminal's width and characters."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the parts of the audit."""
        payload, write = self._payload, TerminalWriter(ascii_only=options.ascii_only)
        pen = SKETCH_ASCII if options.ascii_only else SKETCH_LINES
        yield _render_audit_facts(payload, write, options.max_width)
        yield Text()
        yield _render_experiment_rows(payload, write, options.max_width)
        yield Text()
        yield write(VERDICT_LEGEND, "dim")
        for result in payload["experiments"]:
            yield Text()
            yield from _render_experiment_terminal(result, write, options.max_width, pen)
        if lines := list_audit_omissions(payload):
            yield Text()
            for line in lines:
                yield write(line, "yellow")
        yield Text()
        tone = _ANSWER_STYLES.get(payload["answer"], "")
        yield Text.assemble(
            write(AUDIT_QUESTION, "bold"),
            " ",
            write(format_answer(payload), f"bold {tone}".strip()),
        )
        yield write(to_one_line(payload["conclusion"]))
        yield Text()
        yield write(describe_audit_cost(payload), "dim")


def render_audit_terminal(payload: Mapping[str, Any]) -> RenderableType:
    """Return an audit as a rich renderable."""
    return AuditRenderable(payload)


def _render_audit_facts(
    payload: Mapping[str, Any], write: TerminalWriter, width: int
) -> RenderableType:
    facts = list_audit_facts(payload)
    if width < 50:
        return Group(*(Text.assemble(write(f"{n}: ", "dim"), write(t)) for n, t in facts))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(write(name, "dim"), write(text, "bold" if name == "model" else ""))
    return table


def _render_experiment_rows(
    payload: Mapping[str, Any], write: TerminalWriter, width: int
) -> RenderableType:
    """Return the experiments as table rows, or stacked in a narrow terminal."""
    rows = [(result["verdict"], build_experiment_row(result)) for result in payload["experiments"]]
    if not rows:
        return write("No experiment was made.")
    needed = [
        max(map(len, column))
        for column in zip(EXPERIMENT_HEADS, *(r for _, r in rows), strict=True)
    ]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stack_experiment(verdict, cells, write) for verdict, cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in EXPERIMENT_HEADS:
        table.add_column(head, overflow="fold", justify="right" if head == "n" else "left")
    for verdict, (name, *cells, label) in rows:
        tone = _VERDICT_STYLES.get(verdict, "")
        table.add_row(write(name, "bold"), *map(write, cells), write(label, tone))
    return table


def _stack_experiment(
    verdict: str, cells: tuple[str, ...], write: TerminalWriter
) -> RenderableType:
    name, *values, label = cells
    line = "; ".join(
        f"{head} {text}" for head, text in zip(EXPERIMENT_HEADS[1:-1], values, strict=True)
    )
    head = Text.assemble(write(name, "bold"), "  ", write(label, _VERDICT_STYLES.get(verdict, "")))
    return Group(head, _indent_line(write(line)))


def _render_experiment_terminal(
    result: Mapping[str, Any], write: TerminalWriter, width: int, pen: SketchPen
) -> Iterator[RenderableType]:
    yield Text.assemble(
        write(to_one_line(result["name"]), "bold"), "  ", write(to_one_line(result["hypothesis"]))
    )
    yield _indent_line(write(f"measured: {to_one_line(result['measure'])}", "dim"))
    if agreement := describe_importance_agreement(result):
        yield _indent_line(write(agreement))
    for line in list_experiment_remarks(result):
        yield _indent_line(write(line, "yellow"))
    for line in _list_sketch_lines(result, width - 2, pen):
        yield _indent_line(write(line))


def _list_sketch_lines(result: Mapping[str, Any], width: int, pen: SketchPen) -> list[str]:
    """Return the first plot that can be sketched, and the examples; the HTML page has all plots."""
    plots = result.get("plots") or ()
    drawn = [format_plot_sketch(plot, width, pen) for plot in plots if plot["kind"] != "attention"]
    texts = [format_plot_sketch(plot, width, pen) for plot in plots if plot["kind"] == "attention"]
    return [line for lines in [*[d for d in drawn if d][:1], *texts] for line in lines]


def _indent_line(line: Text) -> RenderableType:
    line.overflow = "fold"
    return Padding.indent(line, 2)


_TEXT_WIDTH = 80


def format_audit_text(payload: Mapping[str, Any]) -> str:
    """Return an audit as plain text."""
    lines = [f"{AUDIT_QUESTION} {format_answer(payload)}", ""]
    lines += [f"{name}: {text}" for name, text in list_audit_facts(payload)]
    lines += ["", *_format_experiment_table(payload), "", VERDICT_LEGEND]
    for result in payload["experiments"]:
        lines += ["", *_format_experiment_text(result)]
    lines += ["", *list_audit_omissions(payload)] if list_audit_omissions(payload) else []
    return "\n".join(
        [*lines, "", to_one_line(payload["conclusion"]), "", describe_audit_cost(payload)]
    )


def _format_experiment_table(payload: Mapping[str, Any]) -> list[str]:
    if not payload["experiments"]:
        return ["No experiment was made."]
    rows = [EXPERIMENT_HEADS, *(build_experiment_row(result) for result in payload["experiments"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]


def _format_experiment_text(result: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{to_one_line(result['name'])}: {to_one_line(result['hypothesis'])}",
        f"  measured: {to_one_line(result['measure'])}",
    ]
    for which, title in (("class", "by class"), ("site", "at other sites")):
        parts = [f"{name} {effect} n={n}" for name, effect, n in build_part_rows(result, which)]
        lines += [f"  {title}: {'; '.join(parts)}"] if parts else []
    lines += [f"  {agreement}"] if (agreement := describe_importance_agreement(result)) else []
    lines += [f"  note: {line}" for line in list_experiment_remarks(result)]
    for plot in result.get("plots") or ():
        lines += [f"  {line}" for line in format_plot_sketch(plot, _TEXT_WIDTH - 2, SKETCH_LINES)]
    return lines


AUDIT_QUESTION = "May attention be read as an explanation here?"
VERDICT_SIGNS = {"holds": "✓", "fails": "✗", "undecided": "?"}
ANSWER_WORDS = {"yes": "Yes", "no": "No", "undecided": "Undecided"}
_MAX_LISTED = 12  # figures of a list that are written out
EXPERIMENT_HEADS = ("experiment", "holds if", "effect", "chance", "n", "verdict")
VERDICT_LEGEND = (
    "An experiment holds if the whole 95% interval of its effect is on the side that was asked for beforehand, "
    "fails if the whole interval is on the other side, and is undecided otherwise, or where the examples are too few "
    "for a verdict or something else stands against one, which is then said. Chance: the effect of attention "
    "that means nothing, where it is known."
)


def to_words(name: str) -> str:
    """Return the name of a figure in words."""
    return to_one_line(name).replace("_", " ")


def describe_verdict_rule(result: Mapping[str, Any]) -> str:
    """Describe the rule of the verdict, which was fixed before any result."""
    other = "below" if result["direction"] == "above" else "above"
    return (
        f"Holds if the whole 95% interval is {format_condition(result)}, fails if the whole interval is {other}, is undecided "
        "otherwise, or with too few examples."
    )


def format_verdict(result: Mapping[str, Any]) -> str:
    """Return a verdict as a symbol and a word."""
    return f"{VERDICT_SIGNS.get(result['verdict'], '?')} {result['verdict']}"


def build_experiment_row(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one experiment as the cells below `EXPERIMENT_HEADS`."""
    return (
        to_one_line(result["name"]),
        format_condition(result),
        format_effect(result),
        format_threshold(result.get("chance")),
        str(result["n"]),
        format_verdict(result),
    )


def format_answer(payload: Mapping[str, Any]) -> str:
    """Return the answer in a word."""
    return ANSWER_WORDS.get(payload["answer"], str(payload["answer"]))


def list_audit_facts(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts about the audited model, data and setting, with their names."""
    model, data, setting = payload["model"], payload["data"], payload["setting"]
    model_class = f" ({to_one_line(model['class'])})" if model.get("class") else ""
    first, *sites = setting.get("sites") or ["none"]
    others = f", and beside it {len(sites)} other{'s' * (len(sites) > 1)}" if sites else ""
    facts = [
        ("model", to_one_line(model["name"]) + model_class),
        ("data", _format_audit_data(data, payload["setting"])),
        ("classes", _format_class_counts(data.get("classes") or {})),
        ("accuracy", _format_performance(payload.get("performance"), data.get("without_labels"))),
        (
            "attention",
            to_one_line(first) + others + _describe_special_tokens(setting.get("special")),
        ),
        ("training data", to_one_line(setting["train"]) if setting.get("train") else ""),
        ("seed", str(setting["seed"]) if setting.get("seed") is not None else ""),
    ]
    return [(name, text) for name, text in facts if text]


def _format_audit_data(data: Mapping[str, Any], setting: Mapping[str, Any]) -> str:
    columns = ", ".join(
        f"{what} from {to_one_line(data[what])!r}"
        for what in ("text", "pair", "label")
        if data.get(what) is not None
    )
    guessed = (
        f" ({', '.join(map(to_one_line, data['guessed']))} guessed)" if data.get("guessed") else ""
    )
    text = f"{to_one_line(data['name'])}, {data['used']:,} of {data['given']:,} examples"
    text += format_drawn_sample(setting, data)
    return text + (f"; {columns}{guessed}" if columns else "")


def _format_class_counts(classes: Mapping[str, int]) -> str:
    largest = sorted(classes.items(), key=lambda pair: -pair[1])
    counts = [f"{to_one_line(name)} {count:,}" for name, count in largest[:8]]
    more = [f"{len(largest) - 8} more"] if len(largest) > 8 else []
    return ", ".join([*counts, *more])


def _format_performance(performance: Mapping[str, Any] | None, why_not: str | None) -> str:
    if not performance or performance.get("accuracy") is None:
        return f"not known: {to_one_line(why_not or 'the data have no labels')}"
    text = f"{performance['accuracy']:.1%}"
    if performance.get("majority") is not None:
        text += f" (always the most frequent class: {performance['majority']:.1%})"
    if performance.get("f1") is not None:
        text += f", F1 {performance['f1']:.3f}"
    return f"{text}, n={performance['n']:,}" if performance.get("n") is not None else text


def _describe_special_tokens(special: str | None) -> str:
    return {
        "keep": "; the weights of special tokens are left as they are",
        "free": "; the weights of special tokens are moved like all others",
    }.get(special or "", "")


def list_audit_omissions(payload: Mapping[str, Any]) -> list[str]:
    """Return the examples that were not used and the experiments that were not run, with reasons."""
    lines = []
    for entry in payload["data"].get("why_not") or ():
        count = entry["count"]
        lines.append(
            f"{count:,} example{'' if count == 1 else 's'} not used: {to_one_line(entry['why'])}"
        )
    by_reason: dict[str, list[str]] = {}
    for entry in payload.get("not_run") or ():
        by_reason.setdefault(to_one_line(entry["why"]), []).append(to_one_line(entry["name"]))
    lines += [f"Not run: {', '.join(names)} ({why})." for why, names in by_reason.items()]
    return lines


def describe_importance_agreement(result: Mapping[str, Any]) -> str:
    """Describe the correlation of attention with each measure of importance, if measured."""
    pairs = (result.get("detail") or {}).get("pairs")
    matches = [
        pair
        for pair in (pairs if isinstance(pairs, list) else ())
        if isinstance(pair, Mapping) and pair.get("one") == "attention" and is_mean(pair)
    ]
    texts = [f"{to_words(pair['other'])} {_format_tau(pair)}" for pair in matches]
    return f"attention's mean tau with {', '.join(texts)}" if texts else ""


def _format_tau(pair: Mapping[str, Any]) -> str:
    if pair["mean"] is None:
        return NO_VALUE
    share = pair.get("significant")
    return f"{pair['mean']:.3f}" + ("" if share is None else f" (significant in {share:.0%})")


def list_experiment_remarks(result: Mapping[str, Any]) -> list[str]:
    """Return the reason for the verdict and the notes of one experiment."""
    why = [to_one_line(result["why"])] if result.get("why") else []
    return [*why, *map(to_one_line, result.get("notes") or ())]


def describe_audit_cost(payload: Mapping[str, Any]) -> str:
    """Describe the cost of the audit."""
    calls = payload.get("calls") or {}
    passes = [f"{calls[what]:,.0f} {what}" for what in ("forward", "backward") if calls.get(what)]
    if payload["seconds"] is None:
        return "What it took is in the journal of the run."
    prefix = f"{' and '.join(passes)} passes of the model, " if passes else ""
    return f"{prefix}{payload['seconds']:,.1f} s."


def build_part_rows(result: Mapping[str, Any], which: str) -> list[tuple[str, str, str]]:
    """Return the effect by site or class, as rows of name, effect with interval and n."""
    rows = [{"threshold": result["threshold"], **part} for part in result.get(f"by_{which}") or ()]
    return [(to_one_line(part[which]), format_effect(part, rows), str(part["n"])) for part in rows]


def format_any_value(value: Any) -> str:
    """Format a further figure of any type."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if is_mean(value):
        known = {"effect": value["mean"], **value}
        return (
            NO_VALUE
            if build_effect_interval(known) is None
            else f"{format_effect(known)} n={value['n']}"
        )
    if isinstance(value, Mapping):
        return "; ".join(f"{to_words(str(k))} {format_any_value(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        if len(value) > _MAX_LISTED or any(isinstance(item, list | tuple) for item in value):
            return f"{len(value)} in the JSON"
        return f"[{', '.join(format_any_value(item) for item in value)}]"
    return to_one_line(value)


def is_mean(value: Any) -> bool:
    """Return whether a figure is a mean with its interval and n."""
    return isinstance(value, Mapping) and {"mean", "interval", "n"} <= value.keys()
