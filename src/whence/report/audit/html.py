"""An audit as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from whence.report.audit.style import PAGE, STYLE
from whence.report.audit.tables import by, further
from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    NOTHING,
    QUESTION,
    answer,
    any_figure,
    asked,
    counted,
    effect,
    effort,
    facts,
    figures,
    left_out,
    one_line,
    plain_number,
    remarks,
    row,
    rule,
    verdict,
)
from whence.report.plot import draw
from whence.report.plot.against import against
from whence.report.sheet import cell, provenance, sheet
from whence.report.text import tame

_FOOT = "The hypotheses and thresholds were fixed before anything was measured."


def page(
    payload: Mapping[str, Any], title: str = "whence: is attention an explanation here?"
) -> str:
    """Return a whole page."""
    return tame(sheet(title, _body(payload, linked=True), _FOOT, STYLE + PAGE))


def fragment(payload: Mapping[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_body(payload, linked=False), STYLE))


def _body(payload: Mapping[str, Any], *, linked: bool) -> str:
    return "\n".join(
        [
            '<div class="audit">',
            sections(payload, linked=linked),
            f"<section>{provenance(dict(payload))}</section>",
            "</div>",
        ]
    )


def sections(payload: Mapping[str, Any], *, linked: bool) -> str:
    """Return the answer and the experiments, each in a section of its own."""
    experiments = list(enumerate(payload["experiments"]))
    return "\n".join(
        [
            _overall(payload, linked=linked),
            *(_experiment(one, _place(number) if linked else "") for number, one in experiments),
        ]
    )


def _place(number: int) -> str:
    return f"experiment-{number + 1}"


def _overall(payload: Mapping[str, Any], *, linked: bool) -> str:
    return "\n".join(
        [
            '<section class="overall">',
            f'<p class="dim">{escape(QUESTION)}</p>',
            f"<h2>{escape(answer(payload))}</h2>",
            f'<p class="conclusion">{escape(one_line(payload["conclusion"]))}</p>',
            _named(facts(payload), "facts"),
            _contents(payload, linked=linked),
            f'<p class="dim">{escape(LEGEND)}</p>',
            _list(left_out(payload)),
            f'<p class="dim">{escape(effort(payload))}</p>',
            "</section>",
        ]
    )


def _named(pairs: Iterable[tuple[str, str]], kind: str) -> str:
    told = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f'<dl class="{kind}">{told}</dl>'


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _badge(one: Mapping[str, Any]) -> str:
    return f'<span class="badge {escape(one["verdict"])}">{escape(verdict(one))}</span>'


def _contents(payload: Mapping[str, Any], *, linked: bool) -> str:
    """Return all experiments as a table, each the way to its own section."""
    if not payload["experiments"]:
        return "<p>No experiment was made.</p>"
    rows = []
    for number, one in enumerate(payload["experiments"]):
        name, *cells = map(escape, row(one))
        cells[-1] = _badge(one)
        name = f'<a href="#{_place(number)}">{name}</a>' if linked else name
        shown = "".join(
            f'<td data-label="{head}"{" class=none" if text == NOTHING else ""}>{text}</td>'
            for head, text in zip(HEADS[1:], cells, strict=True)
        )
        rows.append(f'<tr><th scope="row">{name}</th>{shown}</tr>')
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS)
    return (
        f'<nav aria-label="contents"><table class="summary"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></nav>"
    )


def _experiment(one: Mapping[str, Any], place: str) -> str:
    """Return one experiment: what was claimed and what would decide, then the number, then all that is behind it."""
    claim = [
        ("hypothesis", one_line(one["hypothesis"])),
        ("measured", one_line(one["measure"])),
        ("threshold", rule(one)),
    ]
    summary = one_line(one.get("summary") or "")
    return "\n".join(
        [
            f'<section id="{place}">' if place else "<section>",
            f"<h2>{escape(one_line(one['name']))}</h2>",
            f'<p class="dim">{escape(summary)}</p>' if summary else "",
            _named(claim, "facts claim"),
            _found(one),
            _list(remarks(one)),
            *(draw(plot) for plot in one.get("plots") or ()),
            by(one, "class", "By predicted class"),
            by(one, "site", "At the other sites"),
            further(one.get("detail") or {}),
            _small_print(one),
            "</section>",
        ]
    )


def _found(one: Mapping[str, Any]) -> str:
    said = counted(one)
    if one.get("chance") is not None:
        said += f"; chance, dotted: {plain_number(one['chance'])}"
    name = f"{one_line(one['name'])}: effect against the threshold"
    told = f"{figures(one)}; holds if {asked(one)}: {one['verdict']}"
    drawing = against(one, name, told)
    return (
        f'<div class="found"><div>{_badge(one)}<p class="effect">{escape(effect(one))}</p>'
        f'<p class="dim">{escape(said)}</p></div>{drawing}</div>'
    )


def _small_print(one: Mapping[str, Any]) -> str:
    chosen = ", ".join(
        f"{one_line(name)} = {'none' if value is None else any_figure(value)}"
        for name, value in (one.get("params") or {}).items()
    )
    calls = (one.get("calls") or {}).get("forward")
    spent = [f"{calls:,.0f} forward passes"] if calls is not None else []
    spent += [f"{one['seconds']:,.1f} s"] if one.get("seconds") is not None else []
    told = [
        ("misleads when", one_line(one.get("misleads_when") or "")),
        ("source", one_line(one.get("cite") or "")),
        ("parameters", chosen),
        ("took", ", ".join(spent)),
    ]
    return _named([(name, text) for name, text in told if text], "facts small")
