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
