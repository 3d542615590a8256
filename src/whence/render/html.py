"""HTML pages and notebook cells: the page template, tinted text, score tables, the embedded app.

Pages have no network access, and every piece of text is escaped. A static page has no script; a page with
the embedded app runs exactly one script, admitted by its SHA-256 hash in the content security policy.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from whence.core.errors import CannotServe
from whence.render.charts import PLOT_STYLE, draw_track, expand_plot, render_plot
from whence.render.colour import (
    compute_shade_colour,
)
from whence.render.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Columns,
    Details,
    Document,
    FactList,
    Heading,
    Paragraph,
    Picture,
    Pictures,
    Plot,
    Section,
    Table,
    Tint,
    TintedText,
    drop_empty,
    to_cell,
)
from whence.render.text import (
    sanitise_html,
)

_HEAD_END = "</style>\n</head>"
_STATIC_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# Characters that could end a script element, open a comment or break a line in JavaScript.
_SCRIPT_ESCAPES = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embed_app(static: str, data: dict[str, Any]) -> str:
    """Embed the app's script and data into a static page, which remains readable without scripts."""
    script, style = read_front_end_file("embed.js"), read_front_end_file("embed.css")
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    tail = (
        f'<script type="application/json" id="whence-payload">{encode_script_json(data)}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    page = _replace_once(static, _STATIC_CSP, policy)
    page = _replace_once(page, _HEAD_END, f"</style>\n<style>{style}</style>\n</head>")
    return _replace_once(page, "</body>", tail)


def encode_script_json(data: dict[str, Any]) -> str:
    """Return data as JSON that cannot close the script element around it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in _SCRIPT_ESCAPES.items():
        text = text.replace(sign, code)
    return text


def read_front_end_file(name: str) -> str:
    """Return the text of a file of the built front end (app/static), read as package data."""
    path = files("whence").joinpath("app", "static", name)
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise CannotServe(
            f"{name} is missing from this installation. Install whence again; in a checkout: make bundle."
        ) from None


def _replace_once(text: str, old: str, new: str) -> str:
    """Replace the first occurrence of `old`, which must be present."""
    before, separator, after = text.partition(old)
    if not separator:
        raise ValueError(f"the static page has no {old!r}")
    return before + new + after


def _format_css_colour(tint: float) -> str:
    return (
        "transparent" if abs(tint) < 0.005 else "rgb({},{},{})".format(*compute_shade_colour(tint))
    )


_LONG_CELL = 60  # characters; a table with a longer text is stacked on a phone
_BRIEF_CELL = 32  # characters that stay on one line
_MAX_OPEN_ROWS = 40  # of a table that stands open on a page

STYLE = """
.whence { --ink: #1b1f24; --dim: #5c6670; --rule: #d9dee3; --faint: #e6eaee; --paper: #fff; --code: #f6f8fa;
  --own: #2166ac; --bar: #5b93c7; --shape: #c3d9ee; --line: #a8500a; --held: #eaf4ee;
  --good: #17603a; --good-paper: #e8f5ec; --good-line: #8cc7a1; --bad: #94201b; --bad-paper: #fdecea;
  --bad-line: #e3a19b; --weak: #6f4a00; --weak-paper: #fdf4dc; --weak-line: #dcc078;
  color: var(--ink); background: var(--paper); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  text-align: left; }
.whence * { box-sizing: border-box; }
.whence section { background: var(--paper); border: 1px solid var(--rule); border-radius: 10px; padding: 1.1rem 1.3rem;
  margin: 0 0 1.2rem; }
.whence :is(p, dt, dd, li, h2, h3, summary, figcaption) { overflow-wrap: anywhere; }
.whence h1 { font-size: 1.35rem; margin: 0 0 1rem; }
.whence h2 { font-size: 1.25rem; line-height: 1.35; margin: 0 0 .3rem; text-wrap: balance; }
.whence h3 { font-size: 1rem; margin: 1.2rem 0 .1rem; }
.whence h2 + h3 { margin-top: .6rem; }
.whence p { margin: .25rem 0; }
.whence .dim { color: var(--dim); font-size: .87rem; font-weight: 400; }
.whence .strong { font-size: 1.05rem; font-weight: 600; max-width: 46rem; margin: .3rem 0 .6rem; }
.whence .warning { border-left: 3px solid var(--line); padding-left: .7rem; }
.whence ul { margin: .4rem 0; padding-left: 1.2rem; }
.whence nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; font-size: .92rem; }
.whence a { color: var(--own); }
.whence dl { display: grid; grid-template-columns: fit-content(14rem) minmax(0, 1fr); gap: .1rem 1.1rem; margin: .6rem 0;
  font-size: .92rem; }
.whence dt { color: var(--dim); } .whence dd { margin: 0; }
.whence .strip { font-size: 1.12rem; line-height: 2.05; margin: .35rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .strip mark { color: #000; border-radius: 4px; padding: .12em .1em; }
.whence .strip mark.marked { outline: 1px solid #6b7785; }
.whence .special { color: #333; font: .74rem/1 ui-monospace, monospace; border: 1px solid var(--rule);
  border-radius: 4px; padding: .15em .3em; margin: 0 .25em; vertical-align: middle; }
.whence .pair { border-left: 3px solid var(--rule); padding-left: .7rem; }
.whence .wide { overflow-x: auto; margin: .5rem 0; }
.whence table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.whence th { text-align: left; font-weight: 500; }
.whence thead th { font-weight: 600; font-size: .84rem; border-bottom: 1px solid var(--rule); vertical-align: bottom; }
.whence :is(th, td) { padding: .14rem .9rem .14rem 0; vertical-align: top; overflow-wrap: break-word; }
.whence .n { text-align: right; }
.whence .brief { white-space: nowrap; } .whence .many { min-width: 12rem; }
.whence tr.below > * { border-top: 1px solid var(--rule); color: var(--dim); }
.whence td.tint { color: #000; border: 2px solid var(--paper); border-radius: 5px; padding: .12rem .4rem; min-width: 1rem; }
.whence .bar { display: inline-block; height: .72em; border-radius: 2px; vertical-align: middle; min-width: 1px; }
.whence .track { display: block; width: 150px; height: 14px; }
.whence :is(td, th, h2, h3) .good { color: var(--good); } .whence :is(td, th) .bad { color: var(--bad); }
.whence :is(td, th) .weak { color: var(--weak); }
.whence .badge { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.5; padding: 0 .6em;
  border: 1px solid var(--rule); border-radius: 99px; white-space: nowrap; vertical-align: .1em; }
.whence .badge.good { color: var(--good); background: var(--good-paper); border-color: var(--good-line); }
.whence .badge.weak { color: var(--weak); background: var(--weak-paper); border-color: var(--weak-line); }
.whence .badge.bad { color: var(--bad); background: var(--bad-paper); border-color: var(--bad-line); }
.whence details { margin-top: .5rem; } .whence summary { cursor: pointer; color: var(--dim); font-size: .9rem; }
.whence pre { background: var(--code); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto; font-size: .85rem; line-height: 1.5; margin: .6rem 0; }
.whence pre code { white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .columns { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; }
.whence .columns > * { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence figure { margin: .8rem 0 0; }
.whence figcaption { font-weight: 600; font-size: .92rem; line-height: 1.35; }
.whence .pictures { display: grid; grid-template-columns: repeat(var(--columns), minmax(8rem, 16rem)); gap: .9rem;
  overflow-x: auto; margin: .7rem 0 .3rem; }
.whence .pictures figure { margin: 0; }
.whence .pictures img { display: block; width: 100%; height: auto; border-radius: 4px; image-rendering: pixelated; }
.whence .wide > svg { max-width: max(100%, 40rem); height: auto; }
.whence svg.plot { display: block; width: 100%; height: auto; max-width: 26rem; }
.whence :is(mark, .badge, td.tint, .bar) { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
@media (max-width: 44rem) {
  .whence section { padding: .9rem; }
  .whence dl { display: block; } .whence dd { margin: 0 0 .4rem; }
  .whence .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .stack, .whence .stack :is(tbody, tr, th, td) { display: block; }
  .whence .stack tr { border-top: 1px solid var(--faint); padding: .4rem 0; }
  .whence .stack td:empty { display: none; }
  .whence .stack td::before { content: attr(data-label) " "; color: var(--dim); }
}
"""

# For pages only: a notebook has its own background, which does not follow the system's dark mode. Tinted words keep a
# light background: the colours of scores are chosen for black text.
PAGE_STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: #f6f8fa; color-scheme: light; }
main.whence { background: none; }
@media (max-width: 36rem) { body { padding: .75rem; } }
@media screen and (prefers-color-scheme: dark) {
  body { background: #12161b; color-scheme: dark; }
  .whence { --ink: #e6e9ec; --dim: #a6b0ba; --rule: #39424b; --faint: #333c45; --paper: #1a2027; --code: #12161b;
    --own: #8cc0f0; --bar: #4f86bd; --shape: #27445f; --line: #f0a35e; --held: #1c3327;
    --good: #a3e0ba; --good-paper: #1c3327; --good-line: #2f6d49; --bad: #ffb8b0; --bad-paper: #421713;
    --bad-line: #8d4038; --weak: #f1d690; --weak-paper: #382c08; --weak-line: #77631f; }
  .whence .strip { background: #fff; color: #1b1f24; padding: .1rem .5rem; border-radius: 6px; }
}
@media print {
  body { background: #fff; max-width: none; padding: 0; }
  .whence section { border: 0; padding: 0; }
  .whence :is(figure, tr, pre) { break-inside: avoid; }
  .whence :is(h2, h3) { break-after: avoid; }
  .whence details::details-content { content-visibility: visible; block-size: auto; }
}
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main class="whence">
<h1>{title}</h1>
{body}
<p class="dim">{foot}</p>
</main>
</body>
</html>
"""


def write_page(document: Document) -> str:
    """Return a document as an HTML page that opens from disk with no network."""
    sections = document.list_sections()
    places = {one.title: f"section-{n}" for n, one in enumerate(sections, 1) if one.title}
    body = "\n".join(_render_section(section, places) for section in sections)
    if document.contents:
        links = "".join(
            f'<li><a href="#{place}">{escape(title)}</a></li>'
            for title, place in places.items()
            if title
        )
        body = f'<nav aria-label="contents"><ul>{links}</ul></nav>\n{body}'
    page = _PAGE.format(
        title=escape(document.title),
        style=STYLE + PLOT_STYLE + PAGE_STYLE,
        body=body,
        foot=escape(document.foot),
    )
    return sanitise_html(page)


def write_fragment(document: Document) -> str:
    """Return a document as HTML for a notebook cell."""
    body = "\n".join(_render_section(section, {}) for section in document.list_sections())
    return sanitise_html(f'<div class="whence"><style>{STYLE}{PLOT_STYLE}</style>{body}</div>')


def _render_section(section: Section, places: dict[str, str]) -> str:
    place = f' id="{places[section.title]}"' if section.title in places else ""
    head = [f"<h2>{_render_heading(section.title, section.badge)}</h2>"] if section.title else []
    blocks = [_render_block(block, places) for block in section.blocks]
    return "\n".join([f"<section{place}>", *head, *blocks, "</section>"])


def _render_heading(text: str, badge: Cell | None) -> str:
    return f"{escape(text)} {_render_cell_text(badge, {})}".strip() if badge else escape(text)


def _render_blocks(blocks: Sequence[Block], places: dict[str, str]) -> str:
    return "\n".join(_render_block(block, places) for block in drop_empty(blocks))


def _render_block(block: Block, places: dict[str, str]) -> str:
    match block:
        case Heading(text, badge):
            return f"<h3>{_render_heading(text, badge)}</h3>"
        case Paragraph(text, tone):
            return f"<p{_format_class(tone)}>{escape(text)}</p>"
        case Bullets(lines, tone):
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            return f"<ul{_format_class(tone)}>{items}</ul>"
        case FactList(pairs):
            items = "".join(f"<dt>{escape(n)}</dt><dd>{escape(t)}</dd>" for n, t in pairs if t)
            return f"<dl>{items}</dl>"
        case Table():
            return _render_table(block, places)
        case TintedText():
            return _render_tinted_text(block)
        case Pictures(rows):
            return _render_pictures(rows)
        case Plot(plot):
            return render_plot(plot) + _render_blocks(expand_plot(plot), places)
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Columns(inner):
            cells = "".join(f"<div>{_render_block(one, places)}</div>" for one in drop_empty(inner))
            return f'<div class="columns">{cells}</div>'
        case Details(title, inner):
            body = _render_blocks(inner, places)
            summary = f"<summary>{escape(title)}</summary>"
            return f"<details>{summary}{body}</details>" if title and body else body


def _format_class(*names: str) -> str:
    known = " ".join(name for name in names if name)
    return f' class="{known}"' if known else ""


def _render_table(table: Table, places: dict[str, str]) -> str:
    heads = [to_cell(head) for head in table.heads]
    rows = [[to_cell(cell) for cell in row] for row in table.rows]
    head = "".join(
        f'<th scope="col"{_format_class("n" * (rows[0][n].align == "right"))}>{_render_cell_text(one, places)}</th>'
        for n, one in enumerate(heads)
    )
    body = "".join(
        _render_row(row, heads, places, ruled=number == len(rows) - table.ruled)
        for number, row in enumerate(rows)
    )
    stacked = any(len(cell.plain) > _LONG_CELL for row in rows for cell in row)
    html = (
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(table.name or "table")}">'
        f"<table{_format_class('stack' * stacked)}>"
        + (f"<thead><tr>{head}</tr></thead>" if any(one.text for one in heads) else "")
        + f"<tbody>{body}</tbody></table></div>"
    )
    if len(rows) > _MAX_OPEN_ROWS and table.name:
        return f"<details><summary>{escape(table.name)} ({len(rows):,})</summary>{html}</details>"
    return f"<h3>{escape(table.name)}</h3>{html}" if table.name else html


def _render_row(
    row: Sequence[Cell], heads: Sequence[Cell], places: dict[str, str], *, ruled: bool
) -> str:
    cells = []
    for number, cell in enumerate(row):
        length = len(cell.plain)
        size = "many" if length > _LONG_CELL else "brief" if length <= _BRIEF_CELL else ""
        kind = _format_class("n" * (cell.align == "right"), size, "tint" * (cell.tint is not None))
        title = f' title="{escape(cell.title)}"' if cell.title else ""
        if not number:
            cells.append(f'<th scope="row"{kind}{title}>{_render_cell_text(cell, places)}</th>')
            continue
        label = f' data-label="{escape(heads[number].text)}"' if number < len(heads) else ""
        tint = f' style="background: {_format_css_colour(cell.tint)}"' if cell.tint else ""
        cells.append(f"<td{kind}{label}{tint}{title}>{_render_cell_text(cell, places)}</td>")
    return f"<tr{_format_class('below' * ruled)}>{''.join(cells)}</tr>"


def _render_cell_text(cell: Cell, places: dict[str, str]) -> str:
    text = escape(cell.text)
    if cell.badge:
        text = f'<span class="badge {cell.tone}">{text}</span>'
    elif cell.tone == "strong":
        text = f"<strong>{text}</strong>"
    elif cell.tone:
        text = f'<span class="{cell.tone}">{text}</span>'
    if cell.link and cell.link in places:
        text = f'<a href="#{places[cell.link]}">{text}</a>'
    if cell.bar is not None:
        colour = _format_css_colour(1.0 if cell.bar > 0 else -1.0)
        width = f"width: {min(1.0, abs(cell.bar)) * 9:.2f}rem"
        text += f'<span class="bar" style="{width}; background: {colour}"></span>'
    if cell.note:
        text += f' <span class="dim">{escape(cell.note)}</span>'
    return text + (draw_track(cell.track) if cell.track else "")


def _render_tinted_text(block: TintedText) -> str:
    legend = f'<p class="dim">{escape(block.legend)}</p>' if block.legend else ""
    words = "".join(map(_render_tint, block.pieces))
    return f'{legend}<div class="strip{" pair" * block.beside}" dir="auto">{words}</div>'


def _render_tint(piece: Tint) -> str:
    if not piece.title and not piece.kind and not piece.shade:
        return escape(piece.text)
    tag = "span" if piece.kind == "special" else "mark"
    style = f' style="background: {_format_css_colour(piece.shade)}" title="{escape(piece.title)}"'
    return f"<{tag}{_format_class(piece.kind)}{style}>{escape(piece.text)}</{tag}>"


def _render_pictures(rows: Sequence[Sequence[Picture]]) -> str:
    columns = max(map(len, rows))
    figures = []
    for row in rows:
        figures += ["<i></i>"] * (columns - len(row))  # only the first row starts with the picture
        figures += [
            f'<figure><img width="{one.size[1]}" height="{one.size[0]}" alt="{escape(one.alt)}" '
            f'src="data:image/png;base64,{one.png}"><figcaption>{escape(one.title)}<br>'
            f'<span class="dim">{escape(one.under)}</span></figcaption></figure>'
            for one in row
        ]
    return f'<div class="pictures" style="--columns: {columns}">{"".join(figures)}</div>'
