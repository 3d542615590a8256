"""Attention over the tokens of examples: one distribution below the other, each token on the shade of its weight."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.view.shade import colour

LEGEND = "Full colour is the largest weight in any row of the example; pointing at a token shows its weight."
_PALE = 0.02  # of the largest weight


def attention(plot: Mapping[str, Any]) -> list[str]:
    """Return the examples."""
    shown = [_example(one) for one in plot["examples"] if one["tokens"] and one["rows"]]
    return [f'<p class="dim">{LEGEND}</p>', *shown] if shown else []


def _example(one: Mapping[str, Any]) -> str:
    largest = max((w for row in one["rows"] for w in row["weights"]), default=0.0) or 1.0
    said = f"predicted {one['predicted']}"
    if one.get("probability") is not None:
        said += f" ({one['probability']:.1%})"
    rows = "".join(_row(one["tokens"], row, largest) for row in one["rows"])
    return f'<div class="example"><p class="dim">{escape(said)}</p>{rows}{_table(one)}</div>'


def _row(tokens: Sequence[str], row: Mapping[str, Any], largest: float) -> str:
    marks = " ".join(
        f'<mark {_tint(weight / largest)} title="{weight:.4g}">{escape(token)}</mark>'
        for token, weight in zip(tokens, row["weights"], strict=True)
    )
    note = f' <span class="dim">{escape(row["note"])}</span>' if row.get("note") else ""
    return f'<p class="who"><strong>{escape(row["name"])}</strong>{note}</p><p class="strip" dir="auto">{marks}</p>'


def _tint(share: float) -> str:
    # Next to nothing is left on the page's own paper, which may be dark.
    if share < _PALE:
        return 'class="pale"'
    return 'style="background: rgb({},{},{})"'.format(*colour(min(1.0, share)))


def heaviest(tokens: Sequence[str], weights: Sequence[float], most: int) -> list[tuple[str, float]]:
    """Return the tokens with the largest weights."""
    order = sorted(range(len(weights)), key=lambda place: -weights[place])
    return [(tokens[place], weights[place]) for place in order[:most]]


def _table(one: Mapping[str, Any]) -> str:
    head = "".join(f'<th scope="col">{escape(row["name"])}</th>' for row in one["rows"])
    columns = zip(*(row["weights"] for row in one["rows"]), strict=True)
    rows = "".join(
        f'<tr><th scope="row">{escape(token)}</th>'
        + "".join(f'<td class="n">{weight:.4f}</td>' for weight in weights)
        + "</tr>"
        for token, weights in zip(one["tokens"], columns, strict=True)
    )
    return (
        '<details><summary>All weights</summary><div class="wide"><table><thead><tr><th scope="col">token</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
