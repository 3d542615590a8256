"""The tables of one experiment on a page: by site, by class, and all further figures."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.wording import any_figure, effect, ends, in_words, is_mean, parts
from whence.report.plot.against import track
from whence.report.scale import Scale, bounds

Facts = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

_SHOWN = 12  # rows of a table; a longer one is folded away
_BRIEF = 32  # letters of a cell that stay on one line


def by(one: Mapping[str, Any], which: str, title: str) -> str:
    """Return the effect at each site or for each class, drawn against the threshold."""
    rows = one.get(f"by_{which}") or []
    if not rows:
        return ""
    scale = _scale(one, rows)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{escape(found)}</td><td class="n">{escape(n)}</td>'
        f"<td>{track(part, one['threshold'], scale)}</td></tr>"
        for part, (name, found, n) in zip(rows, parts(one, which), strict=True)
    )
    heads = (
        f'<th scope="col">{which}</th><th scope="col" class="n">effect</th><th scope="col" class="n">n</th>'
        '<th scope="col">against the threshold</th>'
    )
    table = wide(f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>", title)
    if len(rows) > _SHOWN:
        return f"<details><summary>{escape(title)} ({len(rows)})</summary>{table}</details>"
    return f"<h3>{escape(title)}</h3>{table}"


def _scale(one: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Scale:
    known = [found for part in rows if (found := ends(part)) is not None]
    values = [f[end] for f in known for end in ("mean", "low", "high") if f[end] is not None]
    return Scale(*bounds([one["threshold"], *values]), 6, 144)


def further(detail: Mapping[str, Any]) -> str:
    """Return all further figures, folded away: lists of alike things as tables, the rest by name."""
    if not detail:
        return ""
    alone, tables = _sorted(detail)
    shown = _facts(alone) if alone else ""
    shown += "".join(f"<h3>{escape(name)}</h3>{_table(rows, name)}" for name, rows in tables)
    return f"<details><summary>All figures</summary>{shown}</details>"


def _sorted(detail: Mapping[str, Any], within: str = "") -> tuple[Facts, list[tuple[str, Rows]]]:
    """Take figures within figures out of them, each under the names of all that it is in; and apart, tables."""
    alone: Facts = {}
    tables: list[tuple[str, Rows]] = []
    for key, value in detail.items():
        name = f"{within}, {in_words(str(key))}" if within else in_words(str(key))
        if _is_table(value):
            tables += _split(name, value)
        elif isinstance(value, Mapping) and _is_nested(value):
            inner, more = _sorted(value, name)
            alone |= inner
            tables += more
        else:
            alone[name] = value
    return alone, tables


def _is_nested(value: Mapping[str, Any]) -> bool:
    """Whether there is more in it than single figures, which are said on one line."""
    return not is_mean(value) and any(isinstance(one, Mapping | list) for one in value.values())


def _split(name: str, rows: Rows) -> list[tuple[str, Rows]]:
    """Return a table and those that are within its rows, which repeat what the row is about."""
    inner: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        about = {key: value for key, value in row.items() if isinstance(value, str)}
        for key, value in row.items():
            if _is_table(value):
                inner.setdefault(key, []).extend({**about, **one} for one in value)
    own = [{key: value for key, value in row.items() if key not in inner} for row in rows]
    return [(name, own), *((f"{name}, {in_words(key)}", found) for key, found in inner.items())]


def _is_table(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def _table(rows: Rows, name: str) -> str:
    rows = [_joined(row) for row in rows]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f'<th scope="col">{escape(in_words(str(key)))}</th>' for key in heads)
    body = "".join(
        f"<tr>{''.join(_cell(any_figure(row.get(key))) for key in heads)}</tr>" for row in rows
    )
    return wide(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", name)


def _cell(text: str) -> str:
    brief = ' class="brief"' if len(text) <= _BRIEF else ""
    return f"<td{brief}>{escape(text)}</td>"


def _joined(row: Mapping[str, Any]) -> Facts:
    """Return a row in which a mean and its interval are one figure."""
    if not is_mean(row):
        return dict(row)
    mean = effect({"effect": row["mean"], **row})
    return {
        key: mean if key == "mean" else value for key, value in row.items() if key != "interval"
    }


def _facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{_cell(any_figure(value))}</tr>'
        for name, value in facts.items()
    )
    return wide(f"<tbody>{rows}</tbody>", "figures", "deep")


def wide(body: str, name: str, kind: str = "") -> str:
    """Return a table that scrolls by itself where the page is too narrow for it."""
    css = f' class="{kind}"' if kind else ""
    region = f'role="region" aria-label="{escape(name)}"'
    return f'<div class="wide" tabindex="0" {region}><table{css}>{body}</table></div>'
