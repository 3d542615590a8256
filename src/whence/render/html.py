"""The writer of HTML pages and notebook cells: no script, no network, and every text escaped and sanitised."""

from collections.abc import Sequence
from html import escape

from whence.render import document as doc
from whence.render.charts import draw_track, expand_plot, read_style, render_plot
from whence.render.colour import compute_shade_colour
from whence.render.text import sanitise_html

_LONG_CELL = 60  # characters; a table with a longer text is stacked on a phone
_BRIEF_CELL = 32  # characters that stay on one line
_MAX_OPEN_ROWS = 40  # of a table that stands open on a page


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


def write_page(document: doc.Document) -> str:
    """Return a document as an HTML page that opens from disk with no network."""
    sections = document.list_sections()
    places = {one.title: f"section-{n}" for n, one in enumerate(sections, 1) if one.title}
    body = "\n".join(_render_section(section, places) for section in sections)
    if document.contents:
        links = "".join(
            f'<li><a href="#{place}">{escape(title)}</a></li>' for title, place in places.items()
        )
        body = f'<nav aria-label="contents"><ul>{links}</ul></nav>\n{body}'
    title, foot = escape(document.title), escape(document.foot)
    style = "".join(map(read_style, ("plot", "fragment", "page")))
    return sanitise_html(_PAGE.format(title=title, style=style, body=body, foot=foot))


def write_fragment(document: doc.Document) -> str:
    """Return a document as HTML for a notebook cell."""
    body = "\n".join(_render_section(section, {}) for section in document.list_sections())
    style = read_style("plot") + read_style("fragment")
    return sanitise_html(f'<div class="whence"><style>{style}</style>{body}</div>')


def _render_section(section: doc.Section, places: dict[str, str]) -> str:
    place = f' id="{places[section.title]}"' if section.title in places else ""
    head = [f"<h2>{_render_heading(section.title, section.badge)}</h2>"] if section.title else []
    blocks = [_render_block(block, places) for block in section.blocks]
    return "\n".join([f"<section{place}>", *head, *blocks, "</section>"])


def _render_heading(text: str, badge: doc.Cell | None) -> str:
    return f"{escape(text)} {_render_cell_text(badge, {})}".strip() if badge else escape(text)


def _render_blocks(blocks: Sequence[doc.Block], places: dict[str, str]) -> str:
    return "\n".join(_render_block(block, places) for block in doc.drop_empty(blocks))


def _render_block(block: doc.Block, places: dict[str, str]) -> str:
    match block:
        case doc.Heading(text, badge):
            return f"<h3>{_render_heading(text, badge)}</h3>"
        case doc.Paragraph(text, tone):
            return f"<p{_format_class(tone)}>{escape(text)}</p>"
        case doc.Bullets(lines, tone):
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            return f"<ul{_format_class(tone)}>{items}</ul>"
        case doc.FactList(pairs):
            items = "".join(f"<dt>{escape(n)}</dt><dd>{escape(t)}</dd>" for n, t in pairs if t)
            return f"<dl>{items}</dl>"
        case doc.Table():
            return _render_table(block, places)
        case doc.TintedText(pieces, legend):
            above = f'<p class="dim">{escape(legend)}</p>' if legend else ""
            words = "".join(map(_render_tint, pieces))
            return f'{above}<div class="strip{" pair" * block.beside}" dir="auto">{words}</div>'
        case doc.Pictures(rows):
            return _render_pictures(rows)
        case doc.Plot(plot):
            return render_plot(plot) + _render_blocks(expand_plot(plot), places)
        case doc.Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case doc.Columns(inner):
            cells = [f"<div>{_render_block(one, places)}</div>" for one in doc.drop_empty(inner)]
            return f'<div class="columns">{"".join(cells)}</div>'
        case doc.Details(title, inner):
            body = _render_blocks(inner, places)
            summary = f"<summary>{escape(title)}</summary>"
            return f"<details>{summary}{body}</details>" if title and body else body


def _format_class(*names: str) -> str:
    known = " ".join(name for name in names if name)
    return f' class="{known}"' if known else ""


def _render_table(table: doc.Table, places: dict[str, str]) -> str:
    heads = [doc.to_cell(head) for head in table.heads]
    rows = [[doc.to_cell(cell) for cell in row] for row in table.rows]
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
    row: Sequence[doc.Cell], heads: Sequence[doc.Cell], places: dict[str, str], *, ruled: bool
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


def _render_cell_text(cell: doc.Cell, places: dict[str, str]) -> str:
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


def _render_tint(piece: doc.Tint) -> str:
    if not piece.title and not piece.kind and not piece.shade:
        return escape(piece.text)
    tag = "span" if piece.kind == "special" else "mark"
    style = f' style="background: {_format_css_colour(piece.shade)}" title="{escape(piece.title)}"'
    return f"<{tag}{_format_class(piece.kind)}{style}>{escape(piece.text)}</{tag}>"


def _render_pictures(rows: Sequence[Sequence[doc.Picture]]) -> str:
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


def _format_css_colour(tint: float) -> str:
    faint = abs(tint) < 0.005
    return "transparent" if faint else "rgb({},{},{})".format(*compute_shade_colour(tint))
