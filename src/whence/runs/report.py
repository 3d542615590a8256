"""What the report of one run says, in the order in which it is read."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from whence.report.audit.wording import answer, one_line
from whence.report.data import rows_told
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Document,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Section,
    Table,
)
from whence.report.run.wording import (
    REASONS,
    classes,
    counted,
    example,
    figure,
    labels,
    listed,
    model,
    percent,
    progress,
    reasons,
    short_name,
)
from whence.report.table.grid import COSTS, COSTS_LEGEND, costs

Payload = Mapping[str, Any]

_TITLES = {
    "best": "Fared best",
    "worst": "Fared worst",
    "disagreed": "Methods disagree most",
    "example": "An example",
}
_EXAMPLES = (
    "Of each method, the explanations that did best and worst by the first metric it was tested by, against random "
    "explanations of the same example. They are the extremes of many: the tables say how it does as a rule."
)

_UNTESTED = (
    "Nothing was tested, so these are no extremes: a wrong prediction, where there is one, and the first example of "
    "each class that was predicted."
)


def of_run(payload: Payload) -> Document:
    """Lay out a run."""
    name = f"{short_name(payload['model']['name'])} on {one_line(payload['data']['name'])}"
    made = [
        Section(name, list(_overall(payload))),
        Section("Methods held against each other", list(_evaluated(payload))),
        Section("Drawings", [Drawing(plot) for plot in payload["plots"]]),
        Section(_heading(payload), list(_examples(payload))),
        Section("Is attention an explanation here?", list(_audited(payload))),
        Section("What is left out", list(_left_out(payload))),
        Section("Where this comes from", list(_origin(payload))),
        Section("How to reproduce it", list(_again(payload))),
    ]
    return Document("whence: a run", [one for one in made if one.blocks])


def _overall(payload: Payload) -> Iterator[Block]:
    if payload["advice"]:
        yield Line(one_line(payload["advice"]), "strong")
    yield Line(progress(payload), "" if payload["state"] == "complete" else "warning")
    yield from (Line(one_line(line), "warning") for line in payload["damage"])
    if payload["data"].get("warning"):
        yield Line(one_line(payload["data"]["warning"]), "warning")
    yield Facts([(name, text) for name, text in _facts(payload) if text])


def _facts(payload: Payload) -> Iterator[tuple[str, str]]:
    data, setting = payload["data"], payload["setting"]
    yield "model", model(payload["model"])
    yield "data", _data(payload)
    yield "methods", listed(payload["methods"], 40)
    yield "metrics", listed(payload["metrics"], 40)
    if payload["metrics"]:
        how = f"removed by {one_line(setting['remove'])}, " if setting.get("remove") else ""
        unit = one_line(setting["unit"])
        rankings = counted(setting["rankings"], "random explanation")
        yield "tested", f"{how}{unit} by {unit}, {rankings} of each example"
    yield "seed", str(setting["seed"])
    found = payload["predictions"]
    yield "predicted", classes(found["classes"])
    yield "labels of the data", labels(found.get("labels"))
    if found["accuracy"]:
        share = f"; always the most frequent label: {found['majority']:.1%}"
        yield "accuracy", percent(found["accuracy"]) + share
    yield "bad rows", f"{data['bad']['count']:,}" if data["bad"]["count"] else ""
    failed = sum(row["count"] for row in payload["failures"])
    yield "failures", counted(failed, "explanation") if failed else ""
    if payload["audit"]:
        yield "attention is an explanation here", answer(payload["audit"])


def _data(payload: Payload) -> str:
    data = payload["data"]
    columns = ", ".join(
        f"{role} from {one_line(name)!r}" for role, name in data.get("columns", {}).items()
    )
    guessed = f" ({listed(data['guessed'])} guessed)" if data.get("guessed") else ""
    said = f"{one_line(data['name'])}, {counted(payload['examples'], 'example')}"
    taken = (payload["evaluation"] or {}).get("data")
    if taken and taken["drawn"] is not None:
        said += f", {rows_told(taken)}"
    return said + (f"; {columns}{guessed}" if columns else "")


def _evaluated(payload: Payload) -> Iterator[Block]:
    table = payload["evaluation"]
    if table is None:
        return
    if table["metrics"] and table["examples"]["explained"]:
        yield Evaluated(table)
        yield from _agreement(table)
        return
    if not table["examples"]["explained"]:
        yield Line("No example is explained, so there is nothing to hold against each other.")
        return
    yield Line("Explanations were made and not tested: the plan has no metrics.")
    yield Table(COSTS, costs(table))
    yield Line(COSTS_LEGEND, "dim")


def _agreement(table: Payload) -> Iterator[Block]:
    """Return how much each two methods agree, with the intervals that a drawing has no room for."""
    rows = [
        (
            one_line(one["a"]),
            one_line(one["b"]),
            one_line(one["measure"]).replace("_", " "),
            figure(one),
            figure(one["null"]),
        )
        for one in table["agreement"]
        if one["n"]
    ]
    if len(rows) > 1:
        heads = ("method", "and method", "measure", "agreement", "chance")
        yield Table(heads, rows, "Agreement of each two methods", folded=True)


def _heading(payload: Payload) -> str:
    tested = any(one["which"] in ("best", "worst") for one in payload["extremes"])
    return "Best and worst explanations" if tested else "Explanations"


def _examples(payload: Payload) -> Iterator[Block]:
    if any(one["which"] in ("best", "worst") for one in payload["extremes"]):
        yield Line(_EXAMPLES, "dim")
    elif payload["extremes"]:
        yield Line(_UNTESTED, "dim")
    for one in payload["extremes"]:
        yield example(one, _TITLES[one["which"]])


def _audited(payload: Payload) -> Iterator[Block]:
    if payload["audit"]:
        yield Audited(payload["audit"])


def _left_out(payload: Payload) -> Iterator[Block]:
    if payload["not_audited"]:
        yield Line("Experiments on attention that were asked for and found nothing:")
        rows = [(one_line(one["name"]), one_line(one["why"])) for one in payload["not_audited"]]
        yield Table(("experiment", "why"), rows)
    bad = payload["data"]["bad"]
    if bad["count"]:
        shown = len(bad["first"])
        first = "" if shown == bad["count"] else f" The first {shown}:"
        yield Line(
            f"{counted(bad['count'], 'row')} could not be read and had to be skipped.{first}"
        )
        rows = [(one_line(one["where"]), one_line(one["why"])) for one in bad["first"]]
        yield Table(("where", "why"), rows)
    if payload["failures"]:
        yield Line("What could not be explained; --retry-failed tries again.")
        yield Table(REASONS, reasons(payload["failures"]))


def _origin(payload: Payload) -> Iterator[Block]:
    told = {**payload["model"], **payload["provenance"]}
    yield Facts([(one_line(name), _plain(value)) for name, value in told.items() if value])
    yield from _settings(payload["settings"])
    if payload["sessions"]:
        heads = ("began", "took", "workers", "tasks", "with")
        yield Table(heads, [_session(one) for one in payload["sessions"]], "Sessions", folded=True)
        yield Line("Times are of the machine that did the work; no result depends on them.", "dim")


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return listed((f"{name} = {own}" for name, own in value.items()), 40) or "none"
    if value is None:
        return "none"
    return listed(value) if isinstance(value, list | tuple) else one_line(value)


def _settings(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """Say what determines a result: what all have in common, and what each digest in the tables stands for."""
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
        shared = "; ".join(f"{one_line(key)} {_plain(first[key])}" for key in sorted(common))
        rows = [
            (digest, one_line(facts.get(name)), _rest(facts, {*common, name}))
            for digest, facts in own.items()
        ]
        yield Line(f"Every {kind} here: {shared}.", "dim")
        yield Table(
            (kind, name, "what else determines it"), rows, f"Digests of {kind}s", folded=True
        )


def _rest(facts: Mapping[str, Any], known: Collection[str]) -> str:
    told = {name: value for name, value in facts.items() if name not in known and value is not None}
    return "; ".join(f"{one_line(name)} {_plain(value)}" for name, value in told.items()) or "-"


def _time(at: Any) -> str:
    """Write a time of the journal, which is in UTC, to the second."""
    return f"{one_line(at)[:19].replace('T', ' ')} UTC" if at else "-"


def _session(one: Mapping[str, Any]) -> tuple[str, ...]:
    took = "-" if one["seconds"] is None else f"{one['seconds']:,.1f} s"
    known = {**one["with"]}
    return (
        _time(one["began"]),
        took,
        one_line(one["workers"] or "-"),
        f"{one['tasks']:,}",
        "; ".join(f"{one_line(name)} {one_line(value)}" for name, value in known.items()),
    )


def _again(payload: Payload) -> Iterator[Block]:
    again = payload["reproduce"]
    yield Line("The plan:")
    yield Code(again["plan"], "toml")
    yield Line("The same from the command line:")
    yield Code(again["command"], "sh")


"""A run, or two runs compared: as text, in a terminal, in Markdown, in LaTeX and on a page.

What is said is laid out once, as a document of blocks (`document`), and every surface writes the same blocks.
"""

from whence.report.run.html import fragment, page
from whence.report.run.latex import latex
from whence.report.run.markdown import markdown
from whence.report.run.text import plain

__all__ = ["fragment", "latex", "markdown", "page", "plain"]


"""What a report says, laid out once for all surfaces."""

from collections.abc import Mapping
from typing import Any

from whence.report.run.blocks import Document
from whence.report.run.one import of_run
from whence.report.run.two import of_runs


def document(payload: Mapping[str, Any]) -> Document:
    """Lay out a run, or two runs that were compared."""
    return of_runs(payload) if payload["kind"] == "runs" else of_run(payload)


"""A report as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.html import sections as audit_sections
from whence.report.audit.tables import wide
from whence.report.picture.html import every_patch, patch_table
from whence.report.plot import draw
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Document,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Section,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.run.style import PAGE, STYLE
from whence.report.sheet import cell, sheet
from whence.report.strip import strips, token_table, word_table
from whence.report.table.grid import headline
from whence.report.table.html import body as evaluation
from whence.report.text import tame
from whence.view.shade import SCALE, shades

_BRIEF = 32  # letters of a cell that stay on one line


def page(payload: Mapping[str, Any]) -> str:
    """Return a whole page."""
    made = document(payload)
    return tame(sheet(made.title, _body(made, linked=True), SCALE, STYLE + PAGE))


def fragment(payload: Mapping[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_body(document(payload), linked=False), STYLE))


def _body(made: Document, *, linked: bool) -> str:
    first, *rest = made.sections
    contents = _contents(rest) if linked else ""
    return "\n".join(
        [
            '<div class="audit">',  # the style of sections, tables and facts is the audit's
            _section(first, "", contents, linked=linked),
            *(
                _section(one, _place(number) if linked else "", linked=linked)
                for number, one in enumerate(rest)
            ),
            "</div>",
        ]
    )


def _place(number: int) -> str:
    return f"section-{number + 1}"


def _contents(sections: Sequence[Section]) -> str:
    links = "".join(
        f'<li><a href="#{_place(number)}">{escape(one.title)}</a></li>'
        for number, one in enumerate(sections)
    )
    return f'<nav aria-label="contents"><ul class="contents">{links}</ul></nav>'


def _section(section: Section, place: str, more: str = "", *, linked: bool) -> str:
    own = [block for block in section.blocks if not isinstance(block, Audited)]
    audits = [block for block in section.blocks if isinstance(block, Audited)]
    return "\n".join(
        [
            f'<section id="{place}">' if place else "<section>",
            f"<h2>{escape(section.title)}</h2>",
            *(html for block in own for html in _block(block)),
            more,
            "</section>",
            # An audit has sections of its own.
            *(audit_sections(block.payload, linked=linked) for block in audits),
        ]
    )


def _block(block: Block) -> Iterator[str]:
    match block:
        case Line(text, tone):
            yield _line(text, tone)
        case Facts(pairs):
            told = "".join(f"<dt>{escape(n)}</dt><dd>{escape(text)}</dd>" for n, text in pairs)
            yield f'<dl class="facts">{told}</dl>'
        case Table(heads, rows, name, folded):
            found = _table(heads, rows, name)
            title = f"<h3>{escape(name)}</h3>" if name else ""
            summary = f"{escape(name)} ({len(rows):,})"
            yield (
                f"<details><summary>{summary}</summary>{found}</details>"
                if folded
                else title + found
            )
        case Evaluated(payload):
            yield f'<p class="dim">{escape(headline(payload))}.</p>'
            yield evaluation(payload)
        case Drawing(plot):
            yield draw(plot)
        case Told():
            yield _told(block)
        case Code(text):
            yield f"<pre><code>{escape(text)}</code></pre>"
        case Audited():
            return


def _line(text: str, tone: str) -> str:
    if tone == "strong":
        return f'<p class="conclusion">{escape(text)}</p>'
    return f'<p class="{tone}">{escape(text)}</p>' if tone else f"<p>{escape(text)}</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row" class="{_kind(first)}">{escape(first)}</th>'
        + "".join(f'<td class="{_kind(text)}">{escape(text)}</td>' for text in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return wide(f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", name or "table")


def _kind(text: str) -> str:
    return "brief" if len(text) <= _BRIEF else "many"


def _told(block: Told) -> str:
    payload: dict[str, Any] = dict(block.payload)
    (explanation,) = payload["explanations"]
    tints = shades(payload, explanation)
    if payload.get("picture"):
        shown = [patch_table(payload, explanation)]
        summary, tables = "All patches", [every_patch(payload, explanation)]
    else:
        shown = [f'<p class="dim">{escape(tints.legend)}</p>', strips(payload, explanation, tints)]
        words = word_table(payload, explanation, tints.words)
        summary, tables = "All words and tokens", [words, token_table(payload, explanation)]
    return "\n".join(
        [
            f'<div class="told"><h3>{escape(block.title)}</h3>',
            *(f'<p class="dim">{escape(line)}</p>' for line in block.says),
            *shown,
            f"<details><summary>{summary}</summary>",
            *(f'<div class="wide">{table}</div>' for table in tables),
            "</details></div>",
        ]
    )


"""A report in LaTeX, for a paper: the tables, the verdicts and the examples. Needs booktabs and xcolor."""

from collections.abc import Iterator, Mapping
from typing import Any

from whence.report.audit.wording import HEADS, answer, one_line, row
from whence.report.latex import escaped, table
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.run.text import folded, strongest
from whence.report.table.export import latex as table_latex
from whence.report.text import visible
from whence.view.shade import colour, shades

_PALE = 0.02  # of full colour


def latex(payload: Mapping[str, Any]) -> str:
    """Write a report in LaTeX, to be put into a document."""
    made = document(payload)
    parts = [f"% {made.title}", "% \\usepackage{booktabs}", "% \\usepackage{xcolor}"]
    for section in made.sections:
        if all(isinstance(block, Drawing) for block in section.blocks):
            continue
        parts += ["", f"\\section*{{{escaped(section.title)}}}"]
        parts += [text for block in section.blocks for text in ("", *_block(block))]
    return "\n".join(parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Line(text, tone):
            yield f"\\textbf{{{escaped(text)}}}" if tone == "strong" else escaped(text)
        case Facts(pairs):
            yield "\\begin{description}"
            yield from (f"\\item[{{{escaped(name)}}}] {escaped(text)}" for name, text in pairs)
            yield "\\end{description}"
        case Table(_, rows, name, True):
            yield escaped(folded(name, len(rows)))
        case Table(heads, rows):
            yield from table(heads, [[_cell(cell) for cell in cells] for cells in rows])
        case Evaluated(payload):
            yield table_latex(payload)
        case Audited(payload):
            yield f"\\textbf{{{escaped(answer(payload))}.}} {escaped(one_line(payload['conclusion']))}"
            yield ""
            found = [[*row(one)[:-1], one["verdict"]] for one in payload["experiments"]]
            yield from table(HEADS, [[_cell(cell) for cell in cells] for cells in found])
        case Told(title, says, payload):
            yield f"\\paragraph{{{escaped(title)}}} {escaped(' '.join(says))}"
            yield ""
            yield _tinted(payload)
        case Code(text):
            # No text can end this but its own last line, which is looked for.
            safe = visible(text).replace("\\end{verbatim}", "\\ end{verbatim}")
            yield f"\\begin{{verbatim}}\n{safe.rstrip()}\n\\end{{verbatim}}"
        case Drawing():
            return


def _cell(text: str) -> str:
    # A bracket that follows a line break would be taken for its argument.
    return f"{{{escaped(text)}}}"


def _tinted(payload: Mapping[str, Any]) -> str:
    if payload.get("picture"):
        return escaped(strongest(payload))
    (explanation,) = payload["explanations"]
    tints = shades(dict(payload), explanation)
    words = [
        _word(" ".join(visible(word["text"]).split()), tint)
        for word, tint in zip(payload["words"], tints.words, strict=True)
    ]
    shown = f"{{\\setlength{{\\fboxsep}}{{1pt}}\\raggedright {' '.join(words)}\\par}}"
    return f"{shown}\n{{\\footnotesize {escaped(visible(tints.legend))}\\par}}"


def _word(text: str, tint: float) -> str:
    if abs(tint) < _PALE:
        return escaped(text)
    return "\\colorbox[RGB]{{{},{},{}}}".format(*colour(tint)) + f"{{\\strut {escaped(text)}}}"


"""A report in Markdown: for a repository, or a page of documentation."""

from collections.abc import Iterator, Mapping
from typing import Any

from whence.report.audit.export import markdown as audit_markdown
from whence.report.markdown import escaped, plain_table
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.run.text import folded, sentence, strongest
from whence.report.table.export import markdown as table_markdown
from whence.report.text import visible


def markdown(payload: Mapping[str, Any]) -> str:
    """Write a report in Markdown; what can only be drawn is on the page alone."""
    made = document(payload)
    parts = [f"# {escaped(made.title)}"]
    for section in made.sections:
        if all(isinstance(block, Drawing) for block in section.blocks):
            continue
        parts.append(f"## {escaped(section.title)}")
        parts += [text for block in section.blocks for text in _block(block)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Line(text, tone):
            yield f"**{escaped(text)}**" if tone == "strong" else escaped(text)
        case Facts(pairs):
            yield "\n".join(f"- {escaped(name)}: {escaped(text)}" for name, text in pairs)
        case Table(_, rows, name, True):
            yield escaped(folded(name, len(rows)))
        case Table(heads, rows, name):
            yield from [f"**{escaped(name)}**"] if name else []
            yield plain_table([heads, *rows])
        case Evaluated(payload):
            yield table_markdown(payload)
        case Audited(payload):
            yield audit_markdown(payload)
        case Told(title, says, payload):
            yield f"**{escaped(title)}**"
            yield "\n".join(f"- {escaped(line)}" for line in [*says, strongest(payload)])
            yield f"> {escaped(sentence(payload))}"
        case Code(text, language):
            yield fenced(text, language)
        case Drawing():
            pass


def fenced(text: str, language: str = "") -> str:
    """Return a text between fences that are longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{visible(text).rstrip()}\n{fence}"


"""The style of a report, beside that of every page, of audits and of evaluations."""

from whence.report.audit.style import PAGE as AUDIT_PAGE
from whence.report.audit.style import STYLE as AUDIT
from whence.report.picture.html import STYLE as PICTURES
from whence.report.table.html import STYLE as TABLES

STYLE = (
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

# The drawing of an evaluation brings its own colours, as it is a file by itself, too; here it has the page's.
# Words keep their light ground: the colours of scores are made for black letters.
PAGE = (
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


"""A report in a terminal: the same blocks as everywhere, as wide as the terminal and with the characters it has."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from whence.report.audit.sketch import ASCII, LINES, sketch
from whence.report.audit.terminal import render as audit
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.run.text import folded, sentence, strongest
from whence.report.table.terminal import render as evaluation
from whence.report.terminal import Writer, indented, named, rowed, tinted
from whence.report.text import visible
from whence.view.shade import shades

_TONES = {"": "", "strong": "bold", "dim": "dim", "warning": "yellow"}


class Sheet:
    """A payload laid out for rich."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the report out."""
        made, write = document(self._payload), Writer(ascii_only=options.ascii_only)
        yield write(made.title, "bold")
        for section in made.sections:
            yield Text()
            yield write(section.title, "bold underline")
            for block in section.blocks:
                if not isinstance(block, Line):
                    yield Text()
                yield from _block(block, write, options)


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay a report out for rich."""
    return Sheet(payload)


def _block(block: Block, write: Writer, options: ConsoleOptions) -> Iterator[RenderableType]:
    match block:
        case Line(text, tone):
            yield write(text, _TONES[tone])
        case Facts(pairs):
            yield named(pairs, write, options.max_width)
        case Table(_, rows, name, True):
            yield write(folded(name, len(rows)), "dim")
        case Table(heads, rows, name):
            yield from [write(name, "bold")] if name else []
            yield rowed(heads, rows, write, options.max_width)
        case Evaluated(payload):
            yield evaluation(payload)
        case Audited(payload):
            yield audit(payload)
        case Drawing(plot):
            pen = ASCII if options.ascii_only else LINES
            yield from (write(line) for line in sketch(plot, options.max_width, pen))
        case Told(title, says, payload):
            yield write(title, "bold")
            yield from (indented(write(line, "dim")) for line in says)
            yield indented(_words(payload, write))
            yield from (indented(write(line, "dim")) for line in _legend(payload))
            yield indented(write(strongest(payload)))
        case Code(text):
            yield from (indented(write(visible(line))) for line in text.splitlines())


def _legend(payload: Mapping[str, Any]) -> list[str]:
    """Say what the colours of the words mean; patches of a picture are named and not coloured."""
    (explanation,) = payload["explanations"]
    return [] if payload.get("picture") else [visible(shades(dict(payload), explanation).legend)]


def _words(payload: Mapping[str, Any], write: Writer) -> Text:
    if payload.get("picture"):
        return write(sentence(payload))
    (explanation,) = payload["explanations"]
    line = tinted(dict(payload), shades(dict(payload), explanation).words)
    return Text(" ").join(line.split())  # a text of many lines takes up one


"""A report as plain text: for a log, a pipe, or print()."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whence.report.audit.sketch import LINES, sketch
from whence.report.audit.text import plain as audit_text
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Section,
    Table,
    Told,
)
from whence.report.run.document import document
from whence.report.table.text import plain as table_text
from whence.report.text import ranked, visible

_WIDTH = 80
_TOP = 6  # words of an example


def plain(payload: Mapping[str, Any]) -> str:
    """Write a report as lines of text."""
    made = document(payload)
    parts = [made.title, *("\n".join(_section(one)) for one in made.sections)]
    return "\n\n".join(parts)


def _section(section: Section) -> list[str]:
    lines = [section.title, "-" * len(section.title)]
    for block in section.blocks:
        if lines[-1] and not isinstance(block, Line):
            lines.append("")
        lines += _block(block)
    return lines


def _block(block: Block) -> Iterator[str]:
    match block:
        case Line(text):
            yield text
        case Facts(pairs):
            yield from (f"{name}: {text}" for name, text in pairs)
        case Table(_, rows, name, True):
            yield folded(name, len(rows))
        case Table(heads, rows, name):
            yield from [name] if name else []
            yield from aligned([heads, *rows])
        case Evaluated(payload):
            yield table_text(payload)
        case Audited(payload):
            yield audit_text(payload)
        case Drawing(plot):
            yield from sketch(plot, _WIDTH, LINES)
        case Told(title, says, payload):
            yield title
            yield from (f"  {line}" for line in [*says, sentence(payload)])
            yield f"  {strongest(payload)}"
        case Code(text):
            yield from (f"    {visible(line)}" for line in text.splitlines())


def folded(name: str, rows: int) -> str:
    """Say where a table is to be found that is too long for here."""
    return f"{name}: {rows:,}, on the page (--html) and in the JSON object (--json)."


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines whose columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def sentence(payload: Mapping[str, Any]) -> str:
    """Return what was explained, on one line; of a picture its name."""
    if payload.get("picture"):
        return f"the picture {' '.join(visible(str(payload['picture']['name'])).split())}"
    texts = [payload["input"]["text"], payload["input"]["pair"]]
    return " | ".join(" ".join(visible(text).split()) for text in texts if text)


def strongest(payload: Mapping[str, Any], top: int = _TOP) -> str:
    """Return the words, or patches, that count most, with their scores."""
    (explanation,) = payload["explanations"]
    words = ranked(dict(payload), explanation, top)
    return ", ".join(f"{' '.join(word.split())} {score:+.3g}" for word, score in words)


"""What the comparison of two runs says, in the order in which it is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from whence.report.audit.wording import one_line
from whence.report.data import rows_told
from whence.report.figures import digits_of, interval
from whence.report.run.blocks import Block, Document, Facts, Line, Section, Table
from whence.report.run.wording import (
    counted,
    example,
    figure,
    listed,
    model,
    p_value,
    percent,
    progress,
)
from whence.report.table.grid import ARROWS

Payload = Mapping[str, Any]

_SIDES = (("a", "first"), ("b", "second"))
_GAINS = ("method", "metric", "n", "gain of the second", "p", "verdict")
_GAINS_LEGEND = (
    "By how much the second run is better than the first, example by example, over the examples that both tested "
    "[95% bootstrap interval]; what differs by rounding alone does not differ. Paired "
    "sign-flip tests, corrected by Holm's procedure for all rows of this table, at 5%."
)
_MEANS = ("method", "metric", "n", "first run", "its chance", "second run", "its chance")
_MEANS_LEGEND = (
    "Means over the same examples. ↑ more is better, ↓ less is better. Chance: what random explanations of these "
    "examples get."
)
_ALIKE = ("method", "agreement of the ranks", "chance")
_ALIKE_LEGEND = (
    "Kendall's τ-b between the scores of the first run and the second, over the examples that both cut into the same "
    "tokens and explained for the same target; 1 is the same order. Chance: the second run's scores dealt out at "
    "random."
)


def of_runs(payload: Payload) -> Document:
    """Lay out a comparison."""
    names = " and ".join(one_line(payload[side]["name"]) for side, _ in _SIDES)
    made = [
        Section(names, list(_overall(payload))),
        Section("What differs between the settings", list(_settings(payload))),
        Section("Are the explanations better?", list(_gains(payload))),
        Section("Are they the same?", list(_alike(payload))),
        Section("Predictions", list(_predictions(payload))),
        Section("Where they differ most", list(_examples(payload))),
    ]
    return Document("whence: two runs compared", [one for one in made if one.blocks])


def _overall(payload: Payload) -> Iterator[Block]:
    yield Line(one_line(payload["sentence"]), "strong")
    for side, which in _SIDES:
        if payload[side]["state"] != "complete":
            yield Line(f"The {which} run: {progress(payload[side])}", "warning")
        for line in payload[side]["damage"]:
            yield Line(f"The {which} run: {one_line(line)}", "warning")
    told = []
    for side, which in _SIDES:
        one = payload[side]
        told.append((f"{which} run", one_line(one["name"])))
        told.append(("model", model(one["model"])))
        taken = one.get("taken") or {"drawn": None}
        rows = "" if taken["drawn"] is None else f", {rows_told(taken)}"
        told.append(
            ("data", f"{one_line(one['data'])}, {counted(one['examples'], 'example')}{rows}")
        )
    told.append(("examples of both", _shared(payload["data"])))
    yield Facts(told)


def _shared(data: Mapping[str, Any]) -> str:
    alone = [
        f"{data[f'only_{side}']:,} only in the {which}"
        for side, which in _SIDES
        if data[f"only_{side}"]
    ]
    return f"{data['shared']:,}" + (f"; {', '.join(alone)}" if alone else "")


def _settings(payload: Payload) -> Iterator[Block]:
    for side, which in _SIDES:
        if payload["only"][side]:
            yield Line(f"Only in the {which} run: {listed(payload['only'][side], 40)}.")
    if not payload["differences"]:
        yield Line("Nothing that determines a result differs.")
        return
    rows = [
        (one_line(one["what"]), one_line(one["a"]), one_line(one["b"]))
        for one in payload["differences"]
    ]
    yield Table(("setting", "first run", "second run"), rows)


def _gains(payload: Payload) -> Iterator[Block]:
    rows = payload["gains"]
    if not rows:
        yield Line("No metric was tested in both runs by the same method.")
        return
    yield Table(_GAINS, [_gain(one) for one in rows])
    yield Line(_GAINS_LEGEND, "dim")
    if not any(one["enough"] for one in rows):
        yield Line(
            f"The examples are too few: with {counted(payload['comparisons'], 'comparison')}, differences can only "
            f"show from n={payload['needed']} on.",
            "warning",
        )
    yield Table(_MEANS, [_means(one) for one in rows if one["gain"]])
    yield Line(_MEANS_LEGEND, "dim")


def _gain(one: Mapping[str, Any]) -> tuple[str, ...]:
    gain, name = one["gain"], (one_line(one["method"]), one_line(one["metric"]))
    if not gain:
        return (*name, "0", "-", "-", one_line(one["verdict"]))
    said = interval(gain, digits_of([gain]), gain["n"])
    return (*name, f"{gain['n']:,}", said, p_value(one["p"]), one_line(one["verdict"]))


def _means(one: Mapping[str, Any]) -> tuple[str, ...]:
    n, four = one["gain"]["n"], [one[name] for name in ("a", "null_a", "b", "null_b")]
    digits = digits_of([figure for figure in four if figure])
    told = [interval(figure, digits, n) if figure else "-" for figure in four]
    return (
        one_line(one["method"]),
        f"{one_line(one['metric'])} {ARROWS[one['direction']]}",
        f"{n:,}",
        *told,
    )


def _alike(payload: Payload) -> Iterator[Block]:
    rows = [
        (one_line(one["method"]), figure(one["tau"]), figure(one["null"]))
        for one in payload["agreement"]
        if one["tau"]
    ]
    if rows:
        yield Table(_ALIKE, rows)
        yield Line(_ALIKE_LEGEND, "dim")
    for one in payload["agreement"]:
        if not one["tau"]:
            yield Line(f"{one_line(one['method'])}: {one_line(one['why'])}")
    equal = [one for one in payload["agreement"] if one["equal"]]
    if equal:
        told = [
            f"{one_line(one['method'])} {one['equal']:,} of {one['tau']['n']:,}" for one in equal
        ]
        yield Line(f"Equal to the last bit: {listed(told, 40)}.")


def _predictions(payload: Payload) -> Iterator[Block]:
    found = payload["predictions"]
    if not found["same"]:
        return
    yield Line(f"Both runs predict the same: {percent(found['same'])}.")
    for side, which in _SIDES:
        if found[f"accuracy_{side}"]:
            yield Line(f"Accuracy of the {which}: {percent(found[f'accuracy_{side}'])}.")
    if found["changed"]:
        shown = (
            f" The first {len(found['first'])}:" if found["changed"] > len(found["first"]) else ""
        )
        yield Line(f"{counted(found['changed'], 'prediction')} changed.{shown}")
        rows = [
            tuple(
                one_line(part or "-")
                for part in (
                    *(one["id"], one["a"], one["b"]),
                    one.get("gold") or one["label"],
                    one["text"],
                )
            )
            for one in found["first"]
        ]
        yield Table(("example", "first run", "second run", "label", "text"), rows)


def _examples(payload: Payload) -> Iterator[Block]:
    if payload["apart"]:
        yield Line("Of each method, the example on which the two runs agree least.", "dim")
    for one in payload["apart"]:
        yield example(one["a"], "First run")
        yield example(one["b"], "Second run")


"""How a report says things, of one run and of two."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whence.report.audit.wording import one_line
from whence.report.figures import digits_of, interval, number
from whence.report.run.blocks import Told
from whence.report.text import share

_NAMED = 8  # of a list that may be long

Facts = Mapping[str, Any]


def counted(count: int, what: str) -> str:
    """Write a number with what it counts."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def listed(names: Iterable[Any], most: int = _NAMED) -> str:
    """Write names one after the other; of very many the first."""
    told = [one_line(name) for name in names]
    more = [f"{len(told) - most:,} more"] if len(told) > most else []
    return ", ".join([*told[:most], *more])


def figure(one: Facts | None, digits: int | None = None) -> str:
    """Write a mean with its interval and its n."""
    if one is None or not one["n"]:
        return "not known"
    return interval(one, digits_of([one]) if digits is None else digits)


def percent(one: Facts | None) -> str:
    """Write a share with its interval and its n, in percent."""
    if one is None or not one["n"]:
        return "not known"
    return interval(one, 3) if one["low"] is None else _percent(one)


def _percent(one: Facts) -> str:
    ends = "" if one["low"] == one["high"] else f" [{one['low']:.1%}, {one['high']:.1%}]"
    return f"{one['mean']:.1%}{ends} n={one['n']}"


def p_value(p: float | None) -> str:
    """Write a p value."""
    if p is None:
        return "-"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def short_name(name: Any) -> str:
    """Return what a model is called: of a folder the last part of its path."""
    told = one_line(name)
    looks_like_path = told.startswith(("/", "./", "../", "~")) or told[1:3] == ":\\"
    return re.split(r"[/\\]", told.rstrip("/\\"))[-1] if looks_like_path else told


def model(facts: Facts) -> str:
    """Name a model with its class, revision and dtype."""
    told = [str(facts[name]) for name in ("class", "revision", "dtype") if facts.get(name)]
    return one_line(facts["name"]) + (f" ({one_line(', '.join(told))})" if told else "")


def progress(facts: Facts) -> str:
    """Say how far a run is."""
    done, total = facts["examples"], facts.get("total")
    if facts["state"] == "complete" and facts.get("parts"):
        parts = listed(f"{part} of {of}" for part, of in facts["parts"])
        told = f"{counted(done, 'example')} of part {parts} of the run"
        return f"All there is to do here is done: {told}. `whence store merge` brings the parts together."
    if facts["state"] == "complete":
        return f"The run is complete: {counted(done, 'example')}."
    of = "" if total is None else f" of {total:,}"
    return f"The run is not finished: {done:,}{of} examples are there. The same command goes on with it."


def classes(found: Mapping[str, int]) -> str:
    """Write how often each class was predicted, the most frequent first."""
    most = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return listed(f"{name} {count:,}" for name, count in most)


_BY = {
    "number": "numbers, taken for the model's labels counted from 0",
    "own number": "numbers, taken for those in the names of the model's labels",
    "truth": "false and true, taken for the first and the second of the model's labels",
}


def labels(found: Facts | None) -> str:
    """Say how the labels of the data were taken, where they are not the model's own names."""
    if not found or found["by"] not in _BY:
        return ""
    return f"{_BY[found['by']]}: {listed(f'{one} {name}' for one, name in found['names'].items())}"


def example(one: Facts, title: str) -> Told:
    """Lay out one explanation of one example, with what it got and what random explanations get."""
    told = one["explained"]
    (explanation,) = told["explanations"]
    said = told["prediction"]
    predicted = one_line(said["label"] or "nothing")
    if said["probability"] is not None:
        predicted += f" ({share(said['probability'])})"
    true = one.get("gold") or one.get("label")  # as the model calls it, where that is known
    label = f", labelled {one_line(true)}" if true is not None else ""
    says = [f"{one_line(one['id'])}: predicted {predicted}{label}."]
    if one.get("value") is not None:
        values = [value for value in (one["value"], one["null"]) if value is not None]
        digits = 3 if all(abs(value) < 1000 for value in values) else None
        random = (
            "" if one["null"] is None else f", random explanations {number(one['null'], digits)}"
        )
        says.append(
            f"{one_line(one['metric'])} {number(one['value'], digits)}{random} (this example alone)."
        )
    says += [one_line(line) for line in one.get("says") or ()]
    return Told(f"{title}: {one_line(explanation['method'])}", says, told)


def reasons(rows: Sequence[Facts]) -> list[tuple[str, ...]]:
    """Return failures as the cells below `REASONS`."""
    return [
        (
            one_line(row["method"] or "any method"),
            one_line(row["error"]),
            f"{row['count']:,}",
            listed(row["first"], 3),
            one_line(row["why"]),
        )
        for row in rows
    ]


REASONS = ("method", "error", "examples", "such as", "why")
