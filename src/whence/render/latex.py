"""LaTeX for reports: escaping of special characters, and booktabs tables."""

from collections.abc import Collection, Sequence

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


def format_latex_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], below: Collection[str] = ()
) -> list[str]:
    """Return the lines of a booktabs table; rows named in `below` start below a rule.

    Heads are plain text and are escaped; cells are LaTeX.
    """
    lines = []
    for row in rows:
        lines += ["\\midrule"] if row[0] in below else []
        lines.append(_format_latex_row(row))
    return [
        f"\\begin{{tabular}}{{{'l' * len(heads)}}}",
        "\\toprule",
        _format_latex_row([escape_latex(head) for head in heads]),
        "\\midrule",
        *lines,
        "\\bottomrule",
        "\\end{tabular}",
        "",
    ]


def _format_latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + " \\\\"
