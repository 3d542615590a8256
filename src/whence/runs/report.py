"""Report of a run, or of two runs compared: as text, in a terminal, in Markdown, LaTeX and HTML.

The report is laid out once, as a document of blocks (`build_run_document`), and every surface writes the
same blocks. Two runs are compared over the examples that both tested: 95% bootstrap intervals of the
gain, paired sign-flip tests corrected by Holm's procedure, and Kendall's tau-b between the scores. LaTeX
needs booktabs and xcolor.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from whence.render.colour import TEXT_SCALE_NOTE, compute_shade_colour, compute_shades
from whence.render.document import choose_decimals, format_interval, format_number
from whence.render.former import IMAGE_STYLE as PICTURES
from whence.render.former import (
    AuditBlock,
    Block,
    CodeBlock,
    Document,
    EvaluationBlock,
    ExplanationBlock,
    FactList,
    Paragraph,
    PlotBlock,
    Section,
    TableBlock,
    render_notebook_cell,
    render_page,
    render_patch_grid,
    render_patch_table,
    render_rows,
    render_text_strips,
    render_token_table,
    render_word_table,
    tint_words,
)
from whence.render.former_charts import render_plot
from whence.render.latex import escape_latex, format_latex_table
from whence.render.markdown import escape_markdown, format_escaped_table
from whence.render.terminal import TerminalWriter, indent_line, render_fact_list
from whence.render.text import (
    format_probability,
    format_row_sample,
    sanitise_html,
    sanitise_text,
    select_top_features,
)
from whence.studies.audit.conclusion import to_one_line
from whence.studies.audit.former_report import AUDIT_PAGE_STYLE as AUDIT_PAGE
from whence.studies.audit.former_report import AUDIT_STYLE as AUDIT
from whence.studies.audit.former_report import (
    EXPERIMENT_HEADS,
    SKETCH_ASCII,
    SKETCH_LINES,
    build_experiment_row,
    format_answer,
    format_plot_sketch,
    render_wide_table,
)
from whence.studies.audit.former_report import format_audit_markdown as audit_markdown
from whence.studies.audit.former_report import format_audit_text as audit_text
from whence.studies.audit.former_report import render_audit_sections as audit_sections
from whence.studies.audit.former_report import render_audit_terminal as audit
from whence.studies.evaluation.former_evaluation import (
    ARROWS,
    COST_HEADS,
    COST_LEGEND,
    build_cost_rows,
    describe_evaluation,
)
from whence.studies.evaluation.former_evaluation import EVALUATION_STYLE as TABLES
from whence.studies.evaluation.former_evaluation import format_evaluation_latex as table_latex
from whence.studies.evaluation.former_evaluation import format_evaluation_markdown as table_markdown
from whence.studies.evaluation.former_evaluation import format_evaluation_text as table_text
from whence.studies.evaluation.former_evaluation import render_evaluation_body as evaluation_body
from whence.studies.evaluation.former_evaluation import (
    render_evaluation_terminal as evaluation_terminal,
)


def build_run_document(payload: Mapping[str, Any]) -> Document:
    """Return the document of a run's report, or of a comparison of two runs."""
    return (
        build_run_comparison_document(payload)
        if payload["kind"] == "runs"
        else build_single_run_document(payload)
    )


_BRIEF_CELL = 32  # characters of a table cell that are not wrapped


def render_run_html(payload: Mapping[str, Any]) -> str:
    """Return the report as an HTML page."""
    document = build_run_document(payload)
    return sanitise_html(
        render_page(
            document.title,
            _render_document(document, linked=True),
            TEXT_SCALE_NOTE,
            RUN_STYLE + RUN_PAGE_STYLE,
        )
    )


def render_run_fragment(payload: Mapping[str, Any]) -> str:
    """Return the report as an HTML fragment for a notebook cell."""
    return sanitise_html(
        render_notebook_cell(_render_document(build_run_document(payload), linked=False), RUN_STYLE)
    )


def _render_document(document: Document, *, linked: bool) -> str:
    first, *rest = document.sections
    contents = _render_contents(rest) if linked else ""
    return "\n".join(
        [
            '<div class="audit">',  # sections, tables and fact lists use the audit's style
            _render_section(first, "", contents, linked=linked),
            *(
                _render_section(section, _format_anchor(number) if linked else "", linked=linked)
                for number, section in enumerate(rest)
            ),
            "</div>",
        ]
    )


def _format_anchor(number: int) -> str:
    return f"section-{number + 1}"


def _render_contents(sections: Sequence[Section]) -> str:
    links = "".join(
        f'<li><a href="#{_format_anchor(number)}">{escape(section.title)}</a></li>'
        for number, section in enumerate(sections)
    )
    return f'<nav aria-label="contents"><ul class="contents">{links}</ul></nav>'


def _render_section(section: Section, place: str, more: str = "", *, linked: bool) -> str:
    own = [block for block in section.blocks if not isinstance(block, AuditBlock)]
    audits = [block for block in section.blocks if isinstance(block, AuditBlock)]
    return "\n".join(
        [
            f'<section id="{place}">' if place else "<section>",
            f"<h2>{escape(section.title)}</h2>",
            *(html for block in own for html in _render_block_html(block)),
            more,
            "</section>",
            # An audit brings its own <section> elements, which must not be nested.
            *(audit_sections(block.payload, linked=linked) for block in audits),
        ]
    )


def _render_block_html(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text, tone):
            yield _render_paragraph(text, tone)
        case FactList(pairs):
            items = "".join(f"<dt>{escape(n)}</dt><dd>{escape(text)}</dd>" for n, text in pairs)
            yield f'<dl class="facts">{items}</dl>'
        case TableBlock(heads, rows, name, folded):
            table = _render_table(heads, rows, name)
            title = f"<h3>{escape(name)}</h3>" if name else ""
            summary = f"{escape(name)} ({len(rows):,})"
            yield (
                f"<details><summary>{summary}</summary>{table}</details>"
                if folded
                else title + table
            )
        case EvaluationBlock(payload):
            yield f'<p class="dim">{escape(describe_evaluation(payload))}.</p>'
            yield evaluation_body(payload)
        case PlotBlock(plot):
            yield render_plot(plot)
        case ExplanationBlock():
            yield _render_explanation_block(block)
        case CodeBlock(text):
            yield f"<pre><code>{escape(text)}</code></pre>"
        case AuditBlock():
            return


def _render_paragraph(text: str, tone: str) -> str:
    if tone == "strong":
        return f'<p class="conclusion">{escape(text)}</p>'
    return f'<p class="{tone}">{escape(text)}</p>' if tone else f"<p>{escape(text)}</p>"


def _render_table(heads: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row" class="{_choose_cell_class(first)}">{escape(first)}</th>'
        + "".join(f'<td class="{_choose_cell_class(text)}">{escape(text)}</td>' for text in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return render_wide_table(f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", name or "table")


def _choose_cell_class(text: str) -> str:
    return "brief" if len(text) <= _BRIEF_CELL else "many"


def _render_explanation_block(block: ExplanationBlock) -> str:
    payload: dict[str, Any] = dict(block.payload)
    (explanation,) = payload["explanations"]
    tints = compute_shades(payload, explanation)
    if payload.get("picture"):
        body = [render_patch_table(payload, explanation)]
        summary, tables = "All patches", [render_patch_grid(payload, explanation)]
    else:
        body = [
            f'<p class="dim">{escape(tints.legend)}</p>',
            render_text_strips(payload, explanation, tints),
        ]
        words = render_word_table(payload, explanation, tints.words)
        summary, tables = "All words and tokens", [words, render_token_table(payload, explanation)]
    return "\n".join(
        [
            f'<div class="told"><h3>{escape(block.title)}</h3>',
            *(f'<p class="dim">{escape(line)}</p>' for line in block.says),
            *body,
            f"<details><summary>{summary}</summary>",
            *(f'<div class="wide">{table}</div>' for table in tables),
            "</details></div>",
        ]
    )


_MIN_TINT = 0.02  # share of the full colour below which a word is not tinted


def format_run_latex(payload: Mapping[str, Any]) -> str:
    """Return the report in LaTeX, for inclusion in a document."""
    document = build_run_document(payload)
    parts = [f"% {document.title}", "% \\usepackage{booktabs}", "% \\usepackage{xcolor}"]
    for section in document.sections:
        if all(isinstance(block, PlotBlock) for block in section.blocks):
            continue
        parts += ["", f"\\section*{{{escape_latex(section.title)}}}"]
        parts += [text for block in section.blocks for text in ("", *_format_block_latex(block))]
    return "\n".join(parts) + "\n"


def _format_block_latex(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text, tone):
            yield f"\\textbf{{{escape_latex(text)}}}" if tone == "strong" else escape_latex(text)
        case FactList(pairs):
            yield "\\begin{description}"
            yield from (
                f"\\item[{{{escape_latex(name)}}}] {escape_latex(text)}" for name, text in pairs
            )
            yield "\\end{description}"
        case TableBlock(_, rows, name, True):
            yield escape_latex(describe_folded_table(name, len(rows)))
        case TableBlock(heads, rows):
            yield from format_latex_table(
                heads, [[_format_latex_cell(cell) for cell in cells] for cells in rows]
            )
        case EvaluationBlock(payload):
            yield table_latex(payload)
        case AuditBlock(payload):
            yield f"\\textbf{{{escape_latex(format_answer(payload))}.}} {escape_latex(to_one_line(payload['conclusion']))}"
            yield ""
            table = [
                [*build_experiment_row(one)[:-1], one["verdict"]] for one in payload["experiments"]
            ]
            yield from format_latex_table(
                EXPERIMENT_HEADS, [[_format_latex_cell(cell) for cell in cells] for cells in table]
            )
        case ExplanationBlock(title, says, payload):
            yield f"\\paragraph{{{escape_latex(title)}}} {escape_latex(' '.join(says))}"
            yield ""
            yield _format_tinted_latex(payload)
        case CodeBlock(text):
            # Only \end{verbatim} can end the block, so it is altered within the text.
            safe = sanitise_text(text).replace("\\end{verbatim}", "\\ end{verbatim}")
            yield f"\\begin{{verbatim}}\n{safe.rstrip()}\n\\end{{verbatim}}"
        case PlotBlock():
            return


def _format_latex_cell(text: str) -> str:
    # LaTeX takes a bracket after \\ for its optional argument; braces prevent it.
    return f"{{{escape_latex(text)}}}"


def _format_tinted_latex(payload: Mapping[str, Any]) -> str:
    if payload.get("picture"):
        return escape_latex(format_top_features(payload))
    (explanation,) = payload["explanations"]
    tints = compute_shades(dict(payload), explanation)
    words = [
        _format_latex_word(" ".join(sanitise_text(word["text"]).split()), tint)
        for word, tint in zip(payload["words"], tints.words, strict=True)
    ]
    paragraph = f"{{\\setlength{{\\fboxsep}}{{1pt}}\\raggedright {' '.join(words)}\\par}}"
    return f"{paragraph}\n{{\\footnotesize {escape_latex(sanitise_text(tints.legend))}\\par}}"


def _format_latex_word(text: str, tint: float) -> str:
    if abs(tint) < _MIN_TINT:
        return escape_latex(text)
    return (
        "\\colorbox[RGB]{{{},{},{}}}".format(*compute_shade_colour(tint))
        + f"{{\\strut {escape_latex(text)}}}"
    )


def format_run_markdown(payload: Mapping[str, Any]) -> str:
    """Return the report in Markdown, without the plots, which only the HTML page has."""
    document = build_run_document(payload)
    parts = [f"# {escape_markdown(document.title)}"]
    for section in document.sections:
        if all(isinstance(block, PlotBlock) for block in section.blocks):
            continue
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [text for block in section.blocks for text in _format_block_markdown(block)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _format_block_markdown(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text, tone):
            yield f"**{escape_markdown(text)}**" if tone == "strong" else escape_markdown(text)
        case FactList(pairs):
            yield "\n".join(
                f"- {escape_markdown(name)}: {escape_markdown(text)}" for name, text in pairs
            )
        case TableBlock(_, rows, name, True):
            yield escape_markdown(describe_folded_table(name, len(rows)))
        case TableBlock(heads, rows, name):
            yield from [f"**{escape_markdown(name)}**"] if name else []
            yield format_escaped_table([heads, *rows])
        case EvaluationBlock(payload):
            yield table_markdown(payload)
        case AuditBlock(payload):
            yield audit_markdown(payload)
        case ExplanationBlock(title, says, payload):
            yield f"**{escape_markdown(title)}**"
            yield "\n".join(
                f"- {escape_markdown(line)}" for line in [*says, format_top_features(payload)]
            )
            yield f"> {escape_markdown(format_explained_input(payload))}"
        case CodeBlock(text, language):
            yield format_code_fence(text, language)
        case PlotBlock():
            pass


def format_code_fence(text: str, language: str = "") -> str:
    """Return a text in a Markdown code fence longer than any fence within it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{sanitise_text(text).rstrip()}\n{fence}"


Payload = Mapping[str, Any]

_EXAMPLE_TITLES = {
    "best": "Fared best",
    "worst": "Fared worst",
    "disagreed": "Methods disagree most",
    "example": "An example",
}
_EXTREMES_NOTE = (
    "Of each method, the explanations that did best and worst by the first metric it was tested by, against random "
    "explanations of the same example. They are the extremes of many: the tables say how it does as a rule."
)

_UNTESTED_NOTE = (
    "Nothing was tested, so these are no extremes: a wrong prediction, where there is one, and the first example of "
    "each class that was predicted."
)


def build_single_run_document(payload: Payload) -> Document:
    """Return the document of a single run's report."""
    name = (
        f"{shorten_model_name(payload['model']['name'])} on {to_one_line(payload['data']['name'])}"
    )
    sections = [
        Section(name, list(_build_run_overview(payload))),
        Section("Methods held against each other", list(_build_evaluation_section(payload))),
        Section("Drawings", [PlotBlock(plot) for plot in payload["plots"]]),
        Section(_choose_examples_heading(payload), list(_build_extreme_examples(payload))),
        Section("Is attention an explanation here?", list(_build_audit_section(payload))),
        Section("What is left out", list(_build_omissions(payload))),
        Section("Where this comes from", list(_build_provenance(payload))),
        Section("How to reproduce it", list(_build_reproduction(payload))),
    ]
    return Document("whence: a run", [one for one in sections if one.blocks])


def _build_run_overview(payload: Payload) -> Iterator[Block]:
    if payload["advice"]:
        yield Paragraph(to_one_line(payload["advice"]), "strong")
    yield Paragraph(describe_progress(payload), "" if payload["state"] == "complete" else "warning")
    yield from (Paragraph(to_one_line(line), "warning") for line in payload["damage"])
    if payload["data"].get("warning"):
        yield Paragraph(to_one_line(payload["data"]["warning"]), "warning")
    yield FactList([(name, text) for name, text in _list_run_facts(payload) if text])


def _list_run_facts(payload: Payload) -> Iterator[tuple[str, str]]:
    data, setting = payload["data"], payload["setting"]
    yield "model", describe_model(payload["model"])
    yield "data", _format_run_data(payload)
    yield "methods", format_list(payload["methods"], 40)
    yield "metrics", format_list(payload["metrics"], 40)
    if payload["metrics"]:
        how = f"removed by {to_one_line(setting['remove'])}, " if setting.get("remove") else ""
        unit = to_one_line(setting["unit"])
        rankings = format_count(setting["rankings"], "random explanation")
        yield "tested", f"{how}{unit} by {unit}, {rankings} of each example"
    yield "seed", str(setting["seed"])
    predictions = payload["predictions"]
    yield "predicted", format_classes(predictions["classes"])
    yield "labels of the data", describe_labels(predictions.get("labels"))
    if predictions["accuracy"]:
        share = f"; always the most frequent label: {predictions['majority']:.1%}"
        yield "accuracy", format_percent(predictions["accuracy"]) + share
    yield "bad rows", f"{data['bad']['count']:,}" if data["bad"]["count"] else ""
    failed = sum(row["count"] for row in payload["failures"])
    yield "failures", format_count(failed, "explanation") if failed else ""
    if payload["audit"]:
        yield "attention is an explanation here", format_answer(payload["audit"])


def _format_run_data(payload: Payload) -> str:
    data = payload["data"]
    columns = ", ".join(
        f"{role} from {to_one_line(name)!r}" for role, name in data.get("columns", {}).items()
    )
    guessed = f" ({format_list(data['guessed'])} guessed)" if data.get("guessed") else ""
    text = f"{to_one_line(data['name'])}, {format_count(payload['examples'], 'example')}"
    sample = (payload["evaluation"] or {}).get("data")
    if sample and sample["drawn"] is not None:
        text += f", {format_row_sample(sample)}"
    return text + (f"; {columns}{guessed}" if columns else "")


def _build_evaluation_section(payload: Payload) -> Iterator[Block]:
    table = payload["evaluation"]
    if table is None:
        return
    if table["metrics"] and table["examples"]["explained"]:
        yield EvaluationBlock(table)
        yield from _build_agreement_table(table)
        return
    if not table["examples"]["explained"]:
        yield Paragraph("No example is explained, so there is nothing to hold against each other.")
        return
    yield Paragraph("Explanations were made and not tested: the plan has no metrics.")
    yield TableBlock(COST_HEADS, build_cost_rows(table))
    yield Paragraph(COST_LEGEND, "dim")


def _build_agreement_table(table: Payload) -> Iterator[Block]:
    """Yield the table of pairwise agreement with intervals, which the chart does not show."""
    rows = [
        (
            to_one_line(pair["a"]),
            to_one_line(pair["b"]),
            to_one_line(pair["measure"]).replace("_", " "),
            format_mean(pair),
            format_mean(pair["null"]),
        )
        for pair in table["agreement"]
        if pair["n"]
    ]
    if len(rows) > 1:
        heads = ("method", "and method", "measure", "agreement", "chance")
        yield TableBlock(heads, rows, "Agreement of each two methods", folded=True)


def _choose_examples_heading(payload: Payload) -> str:
    tested = any(example["which"] in ("best", "worst") for example in payload["extremes"])
    return "Best and worst explanations" if tested else "Explanations"


def _build_extreme_examples(payload: Payload) -> Iterator[Block]:
    if any(example["which"] in ("best", "worst") for example in payload["extremes"]):
        yield Paragraph(_EXTREMES_NOTE, "dim")
    elif payload["extremes"]:
        yield Paragraph(_UNTESTED_NOTE, "dim")
    for example in payload["extremes"]:
        yield build_explanation_block(example, _EXAMPLE_TITLES[example["which"]])


def _build_audit_section(payload: Payload) -> Iterator[Block]:
    if payload["audit"]:
        yield AuditBlock(payload["audit"])


def _build_omissions(payload: Payload) -> Iterator[Block]:
    if payload["not_audited"]:
        yield Paragraph("Experiments on attention that were asked for and found nothing:")
        rows = [
            (to_one_line(one["name"]), to_one_line(one["why"])) for one in payload["not_audited"]
        ]
        yield TableBlock(("experiment", "why"), rows)
    bad = payload["data"]["bad"]
    if bad["count"]:
        n_shown = len(bad["first"])
        first = "" if n_shown == bad["count"] else f" The first {n_shown}:"
        yield Paragraph(
            f"{format_count(bad['count'], 'row')} could not be read and had to be skipped.{first}"
        )
        rows = [(to_one_line(row["where"]), to_one_line(row["why"])) for row in bad["first"]]
        yield TableBlock(("where", "why"), rows)
    if payload["failures"]:
        yield Paragraph("What could not be explained; --retry-failed tries again.")
        yield TableBlock(FAILURE_HEADS, build_failure_rows(payload["failures"]))


def _build_provenance(payload: Payload) -> Iterator[Block]:
    facts = {**payload["model"], **payload["provenance"]}
    yield FactList(
        [(to_one_line(name), _format_value(value)) for name, value in facts.items() if value]
    )
    yield from _build_setting_tables(payload["settings"])
    if payload["sessions"]:
        heads = ("began", "took", "workers", "tasks", "with")
        yield TableBlock(
            heads,
            [_format_session_row(session) for session in payload["sessions"]],
            "Sessions",
            folded=True,
        )
        yield Paragraph(
            "Times are of the machine that did the work; no result depends on them.", "dim"
        )


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return format_list((f"{name} = {own}" for name, own in value.items()), 40) or "none"
    if value is None:
        return "none"
    return format_list(value) if isinstance(value, list | tuple) else to_one_line(value)


def _build_setting_tables(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the settings of results: those common to all, and a table of digests."""
    for kind, name in (("explanation", "method"), ("test", "metric")):
        own = {digest: facts for digest, facts in settings.items() if facts.get("kind") == kind}
        if not own:
            continue
        first = next(iter(own.values()))
        common = [
            key
            for key in first
            if key != name and all(facts.get(key) == first[key] for facts in own.values())
        ]
        shared = "; ".join(
            f"{to_one_line(key)} {_format_value(first[key])}" for key in sorted(common)
        )
        rows = [
            (digest, to_one_line(facts.get(name)), _format_other_settings(facts, {*common, name}))
            for digest, facts in own.items()
        ]
        yield Paragraph(f"Every {kind} here: {shared}.", "dim")
        yield TableBlock(
            (kind, name, "what else determines it"), rows, f"Digests of {kind}s", folded=True
        )


def _format_other_settings(facts: Mapping[str, Any], known: Collection[str]) -> str:
    rest = {name: value for name, value in facts.items() if name not in known and value is not None}
    return (
        "; ".join(f"{to_one_line(name)} {_format_value(value)}" for name, value in rest.items())
        or "-"
    )


def _format_utc_time(at: Any) -> str:
    """Return a time of the journal, which is in UTC, to the second."""
    return f"{to_one_line(at)[:19].replace('T', ' ')} UTC" if at else "-"


def _format_session_row(session: Mapping[str, Any]) -> tuple[str, ...]:
    took = "-" if session["seconds"] is None else f"{session['seconds']:,.1f} s"
    known = {**session["with"]}
    return (
        _format_utc_time(session["began"]),
        took,
        to_one_line(session["workers"] or "-"),
        f"{session['tasks']:,}",
        "; ".join(f"{to_one_line(name)} {to_one_line(value)}" for name, value in known.items()),
    )


def _build_reproduction(payload: Payload) -> Iterator[Block]:
    reproduction = payload["reproduce"]
    yield Paragraph("The plan:")
    yield CodeBlock(reproduction["plan"], "toml")
    yield Paragraph("The same from the command line:")
    yield CodeBlock(reproduction["command"], "sh")


RUN_STYLE = (
    TABLES
    + AUDIT
    + PICTURES
    + """
.whence .contents { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; margin: .6rem 0 0 !important;
  padding: 0 !important; font-size: .92rem; }
.whence .warning { border-left: 3px solid var(--line); padding-left: .7rem; }
.whence .told { border-left: 3px solid var(--rule); padding-left: .9rem; margin: 1.1rem 0; }
.whence .told h3 { margin: 0; }
.whence .told .strip { font-size: 1.02rem; line-height: 1.95; border-radius: 6px; }
.whence pre { background: var(--code, #f6f8fa); border: 1px solid var(--rule); border-radius: 6px;
  padding: .7rem .9rem; overflow-x: auto; font-size: .85rem; line-height: 1.5; margin: .6rem 0; }
.whence pre code { font-size: inherit; white-space: pre-wrap; }
.whence .audit .wide :is(th, td).brief { white-space: nowrap; min-width: 0; }
.whence .audit .wide :is(th, td).many { min-width: 12rem; }
"""
)

# An evaluation's SVG has its own light colours, since it is also a file; on a dark page they are replaced.
# Words keep a light background: the colours of scores are chosen for black text.
RUN_PAGE_STYLE = (
    AUDIT_PAGE
    + """
@media screen and (prefers-color-scheme: dark) {
  .whence { --code: #12161b; }
  .whence .told .strip { background: #fff; color: #1b1f24; padding: .1rem .5rem; }
  .whence .wide > svg rect[fill="#fff"] { fill: var(--paper); }
  .whence .wide > svg rect[fill="#e9ecef"] { fill: #2b333b; }
  .whence .wide > svg text[fill="#1b1f24"] { fill: var(--ink); }
  .whence .wide > svg text[fill="#5c6670"] { fill: var(--dim); }
  .whence .wide > svg line[stroke="#e3e7eb"] { stroke: var(--rule); }
  .whence .wide > svg line[stroke="#5c6670"] { stroke: var(--dim); }
  .whence .wide > svg circle[fill="#fff"] { fill: var(--paper); }
  .whence .wide > svg :is(circle, line)[stroke="#2166ac"] { stroke: var(--own); }
  .whence .wide > svg circle[fill="#2166ac"] { fill: var(--own); }
}
@media print { .whence .told, .whence pre { break-inside: avoid; } }
"""
)

_TONE_STYLES = {"": "", "strong": "bold", "dim": "dim", "warning": "yellow"}


class RunRenderable:
    """A run's report as a rich renderable."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the sections and blocks of the report."""
        document, write = (
            build_run_document(self._payload),
            TerminalWriter(ascii_only=options.ascii_only),
        )
        yield write(document.title, "bold")
        for section in document.sections:
            yield Text()
            yield write(section.title, "bold underline")
            for block in section.blocks:
                if not isinstance(block, Paragraph):
                    yield Text()
                yield from _render_block_terminal(block, write, options)


def render_run_terminal(payload: Mapping[str, Any]) -> RenderableType:
    """Return the report as a rich renderable."""
    return RunRenderable(payload)


def _render_block_terminal(
    block: Block, write: TerminalWriter, options: ConsoleOptions
) -> Iterator[RenderableType]:
    match block:
        case Paragraph(text, tone):
            yield write(text, _TONE_STYLES[tone])
        case FactList(pairs):
            yield render_fact_list(pairs, write, options.max_width)
        case TableBlock(_, rows, name, True):
            yield write(describe_folded_table(name, len(rows)), "dim")
        case TableBlock(heads, rows, name):
            yield from [write(name, "bold")] if name else []
            yield render_rows(heads, rows, write, options.max_width)
        case EvaluationBlock(payload):
            yield evaluation_terminal(payload)
        case AuditBlock(payload):
            yield audit(payload)
        case PlotBlock(plot):
            pen = SKETCH_ASCII if options.ascii_only else SKETCH_LINES
            yield from (write(line) for line in format_plot_sketch(plot, options.max_width, pen))
        case ExplanationBlock(title, says, payload):
            yield write(title, "bold")
            yield from (indent_line(write(line, "dim")) for line in says)
            yield indent_line(_render_input_text(payload, write))
            yield from (indent_line(write(line, "dim")) for line in _list_legend_lines(payload))
            yield indent_line(write(format_top_features(payload)))
        case CodeBlock(text):
            yield from (indent_line(write(sanitise_text(line))) for line in text.splitlines())


def _list_legend_lines(payload: Mapping[str, Any]) -> list[str]:
    """Return the legend of the word colours; empty for a picture, whose patches have none."""
    (explanation,) = payload["explanations"]
    return (
        []
        if payload.get("picture")
        else [sanitise_text(compute_shades(dict(payload), explanation).legend)]
    )


def _render_input_text(payload: Mapping[str, Any], write: TerminalWriter) -> Text:
    if payload.get("picture"):
        return write(format_explained_input(payload))
    (explanation,) = payload["explanations"]
    line = tint_words(dict(payload), compute_shades(dict(payload), explanation).words)
    return Text(" ").join(line.split())  # all lines of the text joined into one


_TEXT_WIDTH = 80
_TOP_WORDS = 6  # words listed per example


def format_run_text(payload: Mapping[str, Any]) -> str:
    """Return the report as plain text."""
    document = build_run_document(payload)
    parts = [document.title, *("\n".join(_format_section_text(one)) for one in document.sections)]
    return "\n\n".join(parts)


def _format_section_text(section: Section) -> list[str]:
    lines = [section.title, "-" * len(section.title)]
    for block in section.blocks:
        if lines[-1] and not isinstance(block, Paragraph):
            lines.append("")
        lines += _format_block_text(block)
    return lines


def _format_block_text(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text):
            yield text
        case FactList(pairs):
            yield from (f"{name}: {text}" for name, text in pairs)
        case TableBlock(_, rows, name, True):
            yield describe_folded_table(name, len(rows))
        case TableBlock(heads, rows, name):
            yield from [name] if name else []
            yield from align_columns([heads, *rows])
        case EvaluationBlock(payload):
            yield table_text(payload)
        case AuditBlock(payload):
            yield audit_text(payload)
        case PlotBlock(plot):
            yield from format_plot_sketch(plot, _TEXT_WIDTH, SKETCH_LINES)
        case ExplanationBlock(title, says, payload):
            yield title
            yield from (f"  {line}" for line in [*says, format_explained_input(payload)])
            yield f"  {format_top_features(payload)}"
        case CodeBlock(text):
            yield from (f"    {sanitise_text(line)}" for line in text.splitlines())


def describe_folded_table(name: str, rows: int) -> str:
    """Return the line that stands for a folded table: its size, and where to find it."""
    return f"{name}: {rows:,}, on the page (--html) and in the JSON object (--json)."


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def format_explained_input(payload: Mapping[str, Any]) -> str:
    """Return the explained text on one line, or the name of the explained picture."""
    if payload.get("picture"):
        return f"the picture {' '.join(sanitise_text(str(payload['picture']['name'])).split())}"
    texts = [payload["input"]["text"], payload["input"]["pair"]]
    return " | ".join(" ".join(sanitise_text(text).split()) for text in texts if text)


def format_top_features(payload: Mapping[str, Any], top: int = _TOP_WORDS) -> str:
    """Return the words or patches with the largest scores, as text."""
    (explanation,) = payload["explanations"]
    words = select_top_features(dict(payload), explanation, top)
    return ", ".join(f"{' '.join(word.split())} {score:+.3g}" for word, score in words)


_SIDES = (("a", "first"), ("b", "second"))
_GAIN_HEADS = ("method", "metric", "n", "gain of the second", "p", "verdict")
_GAIN_LEGEND = (
    "By how much the second run is better than the first, example by example, over the examples that both tested "
    "[95% bootstrap interval]; what differs by rounding alone does not differ. Paired "
    "sign-flip tests, corrected by Holm's procedure for all rows of this table, at 5%."
)
_MEAN_HEADS = ("method", "metric", "n", "first run", "its chance", "second run", "its chance")
_MEAN_LEGEND = (
    "Means over the same examples. ↑ more is better, ↓ less is better. Chance: what random explanations of these "
    "examples get."
)
_AGREEMENT_HEADS = ("method", "agreement of the ranks", "chance")
_AGREEMENT_LEGEND = (
    "Kendall's τ-b between the scores of the first run and the second, over the examples that both cut into the same "
    "tokens and explained for the same target; 1 is the same order. Chance: the second run's scores dealt out at "
    "random."
)


def build_run_comparison_document(payload: Payload) -> Document:
    """Return the document of a comparison of two runs."""
    names = " and ".join(to_one_line(payload[side]["name"]) for side, _ in _SIDES)
    sections = [
        Section(names, list(_build_comparison_overview(payload))),
        Section("What differs between the settings", list(_build_setting_differences(payload))),
        Section("Are the explanations better?", list(_build_gain_tables(payload))),
        Section("Are they the same?", list(_build_rank_agreement(payload))),
        Section("Predictions", list(_build_prediction_changes(payload))),
        Section("Where they differ most", list(_build_divergent_examples(payload))),
    ]
    return Document("whence: two runs compared", [one for one in sections if one.blocks])


def _build_comparison_overview(payload: Payload) -> Iterator[Block]:
    yield Paragraph(to_one_line(payload["sentence"]), "strong")
    for side, which in _SIDES:
        if payload[side]["state"] != "complete":
            yield Paragraph(f"The {which} run: {describe_progress(payload[side])}", "warning")
        for line in payload[side]["damage"]:
            yield Paragraph(f"The {which} run: {to_one_line(line)}", "warning")
    facts = []
    for side, which in _SIDES:
        run = payload[side]
        facts.append((f"{which} run", to_one_line(run["name"])))
        facts.append(("model", describe_model(run["model"])))
        sample = run.get("taken") or {"drawn": None}
        rows = "" if sample["drawn"] is None else f", {format_row_sample(sample)}"
        facts.append(
            (
                "data",
                f"{to_one_line(run['data'])}, {format_count(run['examples'], 'example')}{rows}",
            )
        )
    facts.append(("examples of both", _format_shared_examples(payload["data"])))
    yield FactList(facts)


def _format_shared_examples(data: Mapping[str, Any]) -> str:
    alone = [
        f"{data[f'only_{side}']:,} only in the {which}"
        for side, which in _SIDES
        if data[f"only_{side}"]
    ]
    return f"{data['shared']:,}" + (f"; {', '.join(alone)}" if alone else "")


def _build_setting_differences(payload: Payload) -> Iterator[Block]:
    for side, which in _SIDES:
        if payload["only"][side]:
            yield Paragraph(f"Only in the {which} run: {format_list(payload['only'][side], 40)}.")
    if not payload["differences"]:
        yield Paragraph("Nothing that determines a result differs.")
        return
    rows = [
        (to_one_line(row["what"]), to_one_line(row["a"]), to_one_line(row["b"]))
        for row in payload["differences"]
    ]
    yield TableBlock(("setting", "first run", "second run"), rows)


def _build_gain_tables(payload: Payload) -> Iterator[Block]:
    rows = payload["gains"]
    if not rows:
        yield Paragraph("No metric was tested in both runs by the same method.")
        return
    yield TableBlock(_GAIN_HEADS, [_format_gain_row(row) for row in rows])
    yield Paragraph(_GAIN_LEGEND, "dim")
    if not any(row["enough"] for row in rows):
        yield Paragraph(
            f"The examples are too few: with {format_count(payload['comparisons'], 'comparison')}, differences can only "
            f"show from n={payload['needed']} on.",
            "warning",
        )
    yield TableBlock(_MEAN_HEADS, [_format_mean_row(row) for row in rows if row["gain"]])
    yield Paragraph(_MEAN_LEGEND, "dim")


def _format_gain_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    gain, name = row["gain"], (to_one_line(row["method"]), to_one_line(row["metric"]))
    if not gain:
        return (*name, "0", "-", "-", to_one_line(row["verdict"]))
    text = format_interval(gain, choose_decimals([gain]), gain["n"])
    return (*name, f"{gain['n']:,}", text, format_p_value(row["p"]), to_one_line(row["verdict"]))


def _format_mean_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    n, four = row["gain"]["n"], [row[name] for name in ("a", "null_a", "b", "null_b")]
    digits = choose_decimals([figure for figure in four if figure])
    cells = [format_interval(figure, digits, n) if figure else "-" for figure in four]
    return (
        to_one_line(row["method"]),
        f"{to_one_line(row['metric'])} {ARROWS[row['direction']]}",
        f"{n:,}",
        *cells,
    )


def _build_rank_agreement(payload: Payload) -> Iterator[Block]:
    rows = [
        (to_one_line(row["method"]), format_mean(row["tau"]), format_mean(row["null"]))
        for row in payload["agreement"]
        if row["tau"]
    ]
    if rows:
        yield TableBlock(_AGREEMENT_HEADS, rows)
        yield Paragraph(_AGREEMENT_LEGEND, "dim")
    for row in payload["agreement"]:
        if not row["tau"]:
            yield Paragraph(f"{to_one_line(row['method'])}: {to_one_line(row['why'])}")
    equal = [row for row in payload["agreement"] if row["equal"]]
    if equal:
        counts = [
            f"{to_one_line(row['method'])} {row['equal']:,} of {row['tau']['n']:,}" for row in equal
        ]
        yield Paragraph(f"Equal to the last bit: {format_list(counts, 40)}.")


def _build_prediction_changes(payload: Payload) -> Iterator[Block]:
    facts = payload["predictions"]
    if not facts["same"]:
        return
    yield Paragraph(f"Both runs predict the same: {format_percent(facts['same'])}.")
    for side, which in _SIDES:
        if facts[f"accuracy_{side}"]:
            yield Paragraph(
                f"Accuracy of the {which}: {format_percent(facts[f'accuracy_{side}'])}."
            )
    if facts["changed"]:
        note = (
            f" The first {len(facts['first'])}:" if facts["changed"] > len(facts["first"]) else ""
        )
        yield Paragraph(f"{format_count(facts['changed'], 'prediction')} changed.{note}")
        rows = [
            tuple(
                to_one_line(part or "-")
                for part in (
                    *(change["id"], change["a"], change["b"]),
                    change.get("gold") or change["label"],
                    change["text"],
                )
            )
            for change in facts["first"]
        ]
        yield TableBlock(("example", "first run", "second run", "label", "text"), rows)


def _build_divergent_examples(payload: Payload) -> Iterator[Block]:
    if payload["apart"]:
        yield Paragraph("Of each method, the example on which the two runs agree least.", "dim")
    for example in payload["apart"]:
        yield build_explanation_block(example["a"], "First run")
        yield build_explanation_block(example["b"], "Second run")


_MAX_LISTED = 8  # names shown of a long list

JsonObject = Mapping[str, Any]


def format_count(count: int, what: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_list(names: Iterable[Any], most: int = _MAX_LISTED) -> str:
    """Return names joined by commas, the first `most` and a count of the rest."""
    texts = [to_one_line(name) for name in names]
    more = [f"{len(texts) - most:,} more"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


def format_mean(interval: JsonObject | None, digits: int | None = None) -> str:
    """Return a mean with its interval and n, as text."""
    if interval is None or not interval["n"]:
        return "not known"
    return format_interval(interval, choose_decimals([interval]) if digits is None else digits)


def format_percent(share: JsonObject | None) -> str:
    """Return a share in percent with its interval and n, as text."""
    if share is None or not share["n"]:
        return "not known"
    return format_interval(share, 3) if share["low"] is None else _format_percent_interval(share)


def _format_percent_interval(share: JsonObject) -> str:
    ends = "" if share["low"] == share["high"] else f" [{share['low']:.1%}, {share['high']:.1%}]"
    return f"{share['mean']:.1%}{ends} n={share['n']}"


def format_p_value(p: float | None) -> str:
    """Return a p-value as text: three decimals, or one significant digit below 0.001."""
    if p is None:
        return "-"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def shorten_model_name(name: Any) -> str:
    """Return a model's name; for a folder, the last part of its path."""
    text = to_one_line(name)
    looks_like_path = text.startswith(("/", "./", "../", "~")) or text[1:3] == ":\\"
    return re.split(r"[/\\]", text.rstrip("/\\"))[-1] if looks_like_path else text


def describe_model(facts: JsonObject) -> str:
    """Return a model's name with class, revision and dtype."""
    details = [str(facts[name]) for name in ("class", "revision", "dtype") if facts.get(name)]
    return to_one_line(facts["name"]) + (f" ({to_one_line(', '.join(details))})" if details else "")


def describe_progress(facts: JsonObject) -> str:
    """Return a sentence on the progress of a run."""
    examples, total = facts["examples"], facts.get("total")
    if facts["state"] == "complete" and facts.get("parts"):
        parts = format_list(f"{part} of {of}" for part, of in facts["parts"])
        extent = f"{format_count(examples, 'example')} of part {parts} of the run"
        return f"All there is to do here is done: {extent}. `whence store merge` brings the parts together."
    if facts["state"] == "complete":
        return f"The run is complete: {format_count(examples, 'example')}."
    of = "" if total is None else f" of {total:,}"
    return f"The run is not finished: {examples:,}{of} examples are there. The same command goes on with it."


def format_classes(counts: Mapping[str, int]) -> str:
    """Return the counts of predicted classes as text, most frequent first."""
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return format_list(f"{name} {count:,}" for name, count in most)


_LABEL_READINGS = {
    "number": "numbers, taken for the model's labels counted from 0",
    "own number": "numbers, taken for those in the names of the model's labels",
    "truth": "false and true, taken for the first and the second of the model's labels",
}


def describe_labels(match: JsonObject | None) -> str:
    """Return how the data's labels were matched to the model's; empty if the names are equal."""
    if not match or match["by"] not in _LABEL_READINGS:
        return ""
    return f"{_LABEL_READINGS[match['by']]}: {format_list(f'{label} {name}' for label, name in match['names'].items())}"


def build_explanation_block(example: JsonObject, title: str) -> ExplanationBlock:
    """Return the block of one explanation, with its metric value and that of random ones."""
    payload = example["explained"]
    (explanation,) = payload["explanations"]
    prediction = payload["prediction"]
    predicted = to_one_line(prediction["label"] or "nothing")
    if prediction["probability"] is not None:
        predicted += f" ({format_probability(prediction['probability'])})"
    true = example.get("gold") or example.get("label")  # in the model's words, if matched
    label = f", labelled {to_one_line(true)}" if true is not None else ""
    says = [f"{to_one_line(example['id'])}: predicted {predicted}{label}."]
    if example.get("value") is not None:
        values = [value for value in (example["value"], example["null"]) if value is not None]
        digits = 3 if all(abs(value) < 1000 for value in values) else None
        random = (
            ""
            if example["null"] is None
            else f", random explanations {format_number(example['null'], digits)}"
        )
        says.append(
            f"{to_one_line(example['metric'])} {format_number(example['value'], digits)}{random} (this example alone)."
        )
    says += [to_one_line(line) for line in example.get("says") or ()]
    return ExplanationBlock(f"{title}: {to_one_line(explanation['method'])}", says, payload)


def build_failure_rows(rows: Sequence[JsonObject]) -> list[tuple[str, ...]]:
    """Return the table rows of failures, with the columns of `FAILURE_HEADS`."""
    return [
        (
            to_one_line(row["method"] or "any method"),
            to_one_line(row["error"]),
            f"{row['count']:,}",
            format_list(row["first"], 3),
            to_one_line(row["why"]),
        )
        for row in rows
    ]


FAILURE_HEADS = ("method", "error", "examples", "such as", "why")
