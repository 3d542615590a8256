"""LaTeX that says what it should, whatever signs a text has; tables have the rules of booktabs."""

from collections.abc import Collection, Sequence

_SIGNS = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
    "°": "$^\\circ$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escaped(text: str) -> str:
    """Escape what LaTeX would read as something else; a minus becomes a real one."""
    return "".join(
        "$-$" if sign == "-" and text[i + 1 : i + 2].isdigit() else _SIGNS.get(sign, sign)
        for i, sign in enumerate(text)
    )


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], below: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table: heads are text, cells LaTeX; a row named in `below` stands below a rule."""
    lines = []
    for row in rows:
        lines += ["\\midrule"] if row[0] in below else []
        lines.append(_row(row))
    return [
        f"\\begin{{tabular}}{{{'l' * len(heads)}}}",
        "\\toprule",
        _row([escaped(head) for head in heads]),
        "\\midrule",
        *lines,
        "\\bottomrule",
        "\\end{tabular}",
        "",
    ]


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + " \\\\"
