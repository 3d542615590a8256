"""The writer of LaTeX: blocks, booktabs tables, and escaping of special characters."""

from collections.abc import Iterator, Sequence

from whence.render import document as doc
from whence.render.colour import compute_shade_colour
from whence.render.text import flatten, format_heading, sanitise_text, select_columns, to_line

_PAGE_WIDTH = 110  # characters of tables that may be split
_MIN_SHADE = 0.02  # share of the full colour below which a word is not tinted


def write_latex_document(document: doc.Document) -> str:
    """Return a document in LaTeX, for inclusion in another."""
    lines = [f"% {to_line(document.title)}", "% \\usepackage{booktabs}", "% \\usepackage{xcolor}"]
    for section in document.list_sections():
        title = _escape_line(format_heading(section.title, section.badge))
        lines += ["", f"\\section*{{{title}}}"] if title else []
        for block in flatten(section.blocks, plots=False):
            own = list(_format_block(block))
            lines += ["", *own] if own else []
    return "\n".join(lines) + "\n"


def _escape_line(text: str) -> str:
    return escape_latex(to_line(text))


def _format_block(block: doc.Block) -> Iterator[str]:
    match block:
        case doc.Heading(text, badge):
            yield f"\\paragraph{{{_escape_line(format_heading(text, badge))}}}"
        case doc.Paragraph(text, tone):
            yield f"\\textbf{{{_escape_line(text)}}}" if tone == "strong" else _escape_line(text)
        case doc.Bullets(points):
            yield "\\begin{itemize}"
            yield from (f"\\item {{}}{_escape_line(line)}" for line in points)
            yield "\\end{itemize}"
        case doc.FactList(pairs):
            yield "\\begin{description}"
            for name, text in pairs:
                yield from (
                    [f"\\item[{{{_escape_line(name)}}}] {_escape_line(text)}"] if text else []
                )
            yield "\\end{description}"
        case doc.Table(name=name):
            yield from [f"\\textbf{{{_escape_line(name)}}}", ""] if name else []
            for heads, rows in select_columns(block, _PAGE_WIDTH):
                yield from _format_tabular(heads, rows, len(rows) - block.ruled)
        case doc.TintedText(pieces, legend):
            words = "".join(_format_tint(piece) for piece in pieces if piece.kind != "special")
            yield f"{{\\setlength{{\\fboxsep}}{{1pt}}\\raggedright {words}\\par}}"
            if legend:
                yield f"{{\\footnotesize {_escape_line(legend)}\\par}}"
        case doc.Code(text):
            # Only \end{verbatim} can end the block, so it is altered within the text.
            safe = sanitise_text(text).replace("\\end{verbatim}", "\\ end{verbatim}")
            yield f"\\begin{{verbatim}}\n{safe.rstrip()}\n\\end{{verbatim}}"


def _format_tabular(
    heads: Sequence[doc.Cell], rows: Sequence[Sequence[doc.Cell]], ruled: int
) -> Iterator[str]:
    """Yield the lines of a booktabs table; the rows from number `ruled` on stand below a rule."""
    yield f"\\begin{{tabular}}{{{''.join(cell.align[0] for cell in rows[0])}}}"
    yield "\\toprule"
    if any(cell.text for cell in heads):
        yield f"{' & '.join(map(_format_cell, heads))} \\\\"
        yield "\\midrule"
    for number, row in enumerate(rows):
        if number and number == ruled:
            yield "\\midrule"
        yield f"{' & '.join(map(_format_cell, row))} \\\\"
    yield from ("\\bottomrule", "\\end{tabular}", "")


def _format_cell(cell: doc.Cell) -> str:
    # LaTeX takes a bracket after \\ for its optional argument; braces prevent it.
    text = f"{{{_escape_line(cell.text)}}}"
    text = f"\\textbf{text}" if cell.tone == "strong" and cell.text else text
    return f"{text} {_escape_line(cell.note)}" if cell.note else text


def _format_tint(piece: doc.Tint) -> str:
    if abs(piece.shade) < _MIN_SHADE:  # with the spaces around it
        return escape_latex(sanitise_text(piece.text).replace("\n", " "))
    colour = "\\colorbox[RGB]{{{},{},{}}}".format(*compute_shade_colour(piece.shade))
    return f"{colour}{{\\strut {_escape_line(piece.text)}}}"


_LATEX_SIGNS = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
    "°": "$^\\circ$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    """Escape characters that are special in LaTeX; a minus sign becomes a mathematical one."""
    return "".join(
        "$-$" if sign == "-" and text[i + 1 : i + 2].isdigit() else _LATEX_SIGNS.get(sign, sign)
        for i, sign in enumerate(text)
    )
