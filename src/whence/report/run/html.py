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
