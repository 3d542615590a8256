"""A generated answer as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.generation.wording import (
    CHANCE,
    Row,
    effort,
    headline,
    heads,
    hundredths,
    largest,
    legend,
    notes,
    one_line,
    percent,
    rows,
    setting,
)
from whence.report.sheet import cell, provenance, sheet
from whence.report.text import tame
from whence.view.scale import Scale, scale_of
from whence.view.shade import colour

Facts = Mapping[str, Any]

_PIECES = 300  # rows that a page shows; the weakest beyond are one
_WIDE = 160  # characters of a piece in the matrix
_TITLE = "whence: what did the answer come from?"
_FOOT = "Full colour is the largest |score| of a piece; special tokens are shown and do not set the scale."
_STYLE = """
.whence .wide { overflow-x: auto; margin: .5rem 0; }
.whence .wide table { border-collapse: separate; border-spacing: 2px; }
.whence .wide th, .whence .wide td { padding: .15rem .4rem; border: 0; vertical-align: top; }
.whence .wide thead th { text-align: right; white-space: pre; vertical-align: bottom; }
.whence .wide tbody th { font-weight: 400; text-align: left; max-width: 26rem; min-width: 8rem;
  overflow-wrap: anywhere; }
.whence .wide tbody th.marked { border-left: 3px solid #6b7785; padding-left: .5rem; }
.whence .wide td { text-align: right; color: #000; border-radius: 3px; }
.whence .wide .sum { padding-left: 1.2rem; }
.whence .strip mark.marked { outline: 1px solid #6b7785; }
"""


def page(payload: Facts, heading: str = _TITLE) -> str:
    """Return a whole page."""
    return tame(sheet(heading, _section(payload), _FOOT, _STYLE))


def fragment(payload: Facts) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_section(payload), _STYLE))


def _section(payload: Facts) -> str:
    found = rows(payload, _PIECES)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(headline(payload))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}; {escape(setting(payload))}</p>',
            *(f"<p><strong>{escape(note)}</strong></p>" for note in notes(payload)),
            "<h3>The prompt, over the whole answer</h3>",
            _strip(payload),
            "<h3>Piece by piece</h3>",
            f'<p class="dim">{escape(legend(payload))}</p>',
            _matrix(payload, found),
            f'<p class="dim">{escape(CHANCE)}</p>',
            f'<p class="dim">{escape(effort(payload))}</p>',
            provenance(dict(payload)),
            "</section>",
        ]
    )


def _strip(payload: Facts) -> str:
    """Return the prompt with each piece on the colour of its sum, and the answer behind it."""
    text, pieces = payload["input"]["text"], payload["pieces"]
    plain = [piece for piece in pieces if not piece["special"]]
    own: Scale = payload.get("total_scale") or scale_of(
        [piece["total"] for piece in plain], "relative", part="piece"
    )
    scale = own["full"] or 1.0
    parts, at = [], 0
    for piece in plain:
        known = text is not None and piece["start"] is not None
        if known and piece["start"] < at:  # a part of a character that is shown already
            continue
        parts.append(escape(text[at : piece["start"]]) if known else " ")
        at = piece["end"] if known else at
        marked = ' class="marked"' if piece["marked"] else ""
        parts.append(
            f'<mark{marked} style="background: {_css(piece["total"] / scale)}" title="{piece["total"]:+.6g}">'
            f"{escape(piece['text'])}</mark>"
        )
    parts.append(escape(text[at:]) if text is not None else "")
    said = payload["text"] if payload["text"] is not None else " " + headline(payload)
    told = own["legend"] if not own["note"] else f"{own['legend']}. {own['note']}"
    return (
        f'<div class="strip" dir="auto">{"".join(parts)}<strong>{escape(said)}</strong></div>'
        f'<p class="dim">{escape(told)}</p>'
    )


def _matrix(payload: Facts, found: Sequence[Row]) -> str:
    scale = largest(payload)
    names = "".join(
        f'<th scope="col" title="{output["probability"]:.2%}">{escape(name)}</th>'
        for name, output in zip(heads(payload), payload["outputs"], strict=True)
    )
    sums = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (("sum", ' class="sum"'), ("share", ""), ("by length", ""))
    )
    body = "".join(_row(row, scale) for row in found)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Pieces of the prompt by parts of the answer">'
        "<table>"
        f'<thead><tr><th scope="col"></th>{names}{sums}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(row: Row, scale: float) -> str:
    kind = ' class="marked"' if row.marked else ' class="dim"' if row.special else ""
    cells = "".join(
        f'<td style="background: {_css(value / scale)}" title="{value:+.6g}">{hundredths(value, scale)}</td>'
        for value in row.cells
    )
    sums = f'<td class="sum">{row.total:+.3g}</td><td>{percent(row.share)}</td><td>{percent(row.chance)}</td>'
    return f'<tr><th scope="row"{kind}>{escape(one_line(row.text, _WIDE))}</th>{cells}{sums}</tr>'


def _css(tint: float) -> str:
    clipped = max(-1.0, min(1.0, tint))
    return "transparent" if abs(clipped) < 0.005 else "rgb({},{},{})".format(*colour(clipped))
