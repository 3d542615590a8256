"""A comparison as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.style import PAGE
from whence.report.audit.style import STYLE as SECTIONS
from whence.report.audit.tables import wide
from whence.report.comparison.headmap import headmap
from whence.report.comparison.text import MOST, PAIRS
from whence.report.comparison.wording import (
    HEAD_HEADS,
    PAIR_HEADS,
    effort,
    facts,
    head_rows,
    layer_tables,
    left_out,
    legend,
    names,
    one_line,
    overlap,
    pair_rows,
    remarks,
    title,
)
from whence.report.plot import draw
from whence.report.sheet import cell, provenance, sheet
from whence.report.text import tame

Facts = Mapping[str, Any]

_FOOT = "Every figure is a mean over the inputs with a 95% bootstrap interval. Layers and heads count from 0."
_STYLE = """
.whence .panels > figure { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
"""
_TITLE = "whence: what changed between two models?"


def page(payload: Facts, heading: str = _TITLE) -> str:
    """Return a whole page."""
    return tame(sheet(heading, _body(payload), _FOOT, SECTIONS + _STYLE + PAGE))


def fragment(payload: Facts) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_body(payload), SECTIONS + _STYLE))


def _body(payload: Facts) -> str:
    return "\n".join(
        [
            '<div class="audit">',  # the style of sections, tables and facts is the audit's
            _overall(payload),
            _layers(payload),
            _heads(payload),
            _tokens(payload),
            _rest(payload),
            "</div>",
        ]
    )


def _overall(payload: Facts) -> str:
    told = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts(payload)
    )
    return _section(
        title(payload),
        f'<p class="conclusion">{escape(one_line(payload["sentence"]))}</p>',
        f'<dl class="facts">{told}</dl>',
        *(f'<p class="dim">{escape(line)}</p>' for line in legend(payload)),
    )


def _layers(payload: Facts) -> str:
    drawn = [
        _bars(payload, "Divergence by layer", "bits", lambda one: one["divergence"]),
        _bars(payload, "Divergence of the decision's rows", "bits", lambda one: one["decision"]),
        _bars(payload, "Overlap of the flow by layer", "Jaccard index", lambda one: one["overlap"]),
    ]
    return _section(
        "Layers",
        '<div class="panels">' + "".join(drawn) + "</div>",
        *(_table("Layers", heads, rows) for heads, rows in layer_tables(payload)),
        f"<p>{escape(overlap(payload))}</p>",
    )


def _bars(payload: Facts, name: str, unit: str, of: Callable[[Facts], Facts]) -> str:
    bars = [
        {"name": f"layer {one['layer']}", "value": of(one)["mean"], **_ends(of(one))}
        for one in reversed(payload["layers"])
    ]
    return draw({"kind": "bars", "title": name, "y": unit, "bars": bars, "threshold": None})


def _ends(one: Facts) -> dict[str, Any]:
    return {"low": one["low"], "high": one["high"]}


def _heads(payload: Facts) -> str:
    first, second = names(payload)
    maps = [
        (
            "Divergence of each head, in bits",
            f"How far the attention of {second} is from that of {first}, head by head.",
            headmap(
                payload,
                "Divergence of each head",
                "Mean Jensen-Shannon divergence in bits, by layer and head.",
                lambda one: one["divergence"],
                signed=False,
            ),
        ),
        (
            "Change of the attention to special tokens",
            f"Blue: more in {second}, orange: less.",
            headmap(
                payload,
                "Change of the attention to special tokens",
                "Share of attention on special tokens in the second model less that in the first.",
                lambda one: one["special"]["change"],
                signed=True,
            ),
        ),
    ]
    drawn = "".join(
        f'<figure><figcaption>{escape(name)}</figcaption><p class="dim">{escape(told)}</p>'
        f"{drawing}</figure>"
        for name, told, drawing in maps
    )
    every = head_rows(payload)
    rest = _table("All heads", HEAD_HEADS, every)
    return _section(
        "Heads",
        f'<div class="panels">{drawn}</div>',
        "<h3>The most changed</h3>",
        _table("The most changed heads", HEAD_HEADS, every[:MOST]),
        f"<details><summary>All {len(every)} heads</summary>{rest}</details>"
        if len(every) > MOST
        else "",
    )


def _tokens(payload: Facts) -> str:
    tables = [
        _table(head, (head, *PAIR_HEADS[1:]), rows)
        for what, head in PAIRS
        if (rows := pair_rows(payload, what))
    ]
    note = (
        "In the mean over all layers, heads and rows. Between texts: of the rows of one text's words, what goes to "
        "words of the other; the rest goes to special tokens."
    )
    return _section("Where attention goes", f'<p class="dim">{note}</p>', *tables) if tables else ""


def _rest(payload: Facts) -> str:
    both = {
        "model": {
            f"{which} {key}": value
            for which, side in (("first model's", "a"), ("second model's", "b"))
            for key, value in payload[side].items()
        },
        "provenance": dict(payload["provenance"]),
    }
    return _section(
        "Words and predictions",
        _list([*remarks(payload), *left_out(payload)]),
        f'<p class="dim">{escape(effort(payload))}</p>',
        provenance(both),
    )


def _section(heading: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *parts, "</section>"])


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f'<td class="brief">{escape(text)}</td>' for text in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return wide(f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", name)
