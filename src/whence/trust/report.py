"""How a trust card says things, on every surface the same."""

from collections.abc import Sequence
from math import factorial
from typing import Any

NOTHING = "-"

_GONE = {
    "delete": "deleted",
    "mask": "replaced by the mask token",
    "pad": "replaced by padding",
    "unk": "replaced by the token for unknown words",
    "draw": "replaced by what a masked language model draws",
    "black": "painted black",
    "mean": "painted in the mean colour of the picture",
    "blur": "replaced by a blur of the picture",
}
# What the curves of a test are drawn over, and how a good explanation looks there.
_CURVES = {
    "deletion": ("removed", "below the band is good"),
    "sufficiency": ("kept", "above the band is good"),
}


def in_words(name: str) -> str:
    """Name a test in words."""
    return name.replace("_", " ")


def gone(remove: str) -> str:
    """Say what became of the tokens or patches that were removed."""
    return _GONE.get(remove, remove)


def figures(values: Sequence[float], digits: int = 2) -> list[str]:
    """Write figures that belong together shortly, all to the same place."""
    largest = max(map(abs, values), default=0.0)
    if largest == 0 or 10**-digits <= largest < 1000:
        # Adding nothing makes the zero of a small negative number a plain zero.
        return [f"{round(value, digits) + 0.0:.{digits}f}" for value in values]
    return [f"{value:.2g}" for value in values]


def number(value: float | None, digits: int = 2) -> str:
    """Write a figure shortly, or a dash where there is none."""
    return NOTHING if value is None else figures([value], digits)[0]


def measured(test: dict[str, Any], digits: int = 2) -> str:
    """Write the value of a test, to the same place as what chance gets."""
    value, null = test["value"], test["null"]
    if value is None or null is None or null["low"] == null["high"]:
        return number(value, digits)
    return figures([value, null["mean"], null["low"], null["high"]], digits)[0]


def chance(test: dict[str, Any], digits: int = 2) -> tuple[str, str]:
    """Write what explanations that know nothing get: the mean, and where 95 of 100 lie if not all at one place."""
    null = test["null"]
    if null is None:
        return NOTHING, ""
    mean, low, high = figures([null[name] for name in ("mean", "low", "high")], digits)
    return mean, f"{low} to {high}" if null["low"] < null["high"] else ""


def by_chance(test: dict[str, Any]) -> str:
    """Write the same as one text."""
    mean, spread = chance(test)
    return f"{mean} ({spread})" if spread else mean


def is_ranked(test: dict[str, Any]) -> bool:
    """Whether a test was held against random rankings; other chances are no share that is beaten."""
    return test["percentile"] is not None and test["remove"] is not None


def percentile(test: dict[str, Any]) -> str:
    """Write the share of random rankings that are beaten, with its interval."""
    if not is_ranked(test):
        return NOTHING
    share = f"{round(test['percentile'], 1):g}%"
    if test["interval"] is None:
        return share
    low, high = (f"{round(end, 1):g}" for end in test["interval"])
    return f"{share} ({low} to {high})"


def beaten(test: dict[str, Any]) -> str:
    """Write the count behind a percentile."""
    if test["beaten"] is None or test["of"] is None:
        return ""
    tied = test.get("tied")
    ties = f", {tied:g} {_many('tie', tied)}" if tied else ""
    return f"{test['beaten']:g} of {test['of']:g}{ties}"


def by_name(tests: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Put tests of one name together: the same test under other kinds of removal."""
    found: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        found.setdefault(test["name"], []).append(test)
    return found


def deciding(payload: dict[str, Any], method: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tests that the verdicts rest on, by name: those under the first kind of removal."""
    first = payload["remove"][0]
    return {test["name"]: test for test in method["tests"] if test["remove"] in (None, first)}


def reasons(payload: dict[str, Any], method: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return why the verdicts are what they are, each reason once, with its tests."""
    found: dict[str, list[dict[str, Any]]] = {}
    for test in deciding(payload, method).values():
        if test["why"]:
            found.setdefault(test["why"], []).append(test)
    return found


def all_names(payload: dict[str, Any]) -> list[str]:
    """Return the names of all tests, in the order they come."""
    return list(dict.fromkeys(t["name"] for m in payload["methods"] for t in m["tests"]))


def own_sentence(payload: dict[str, Any], method: dict[str, Any]) -> str:
    """Return what is said of a method, unless it is all that the card says and was said already."""
    return "" if method["sentence"] == payload["sentence"] else str(method["sentence"])


def drawn(method: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tests whose curve shows the prediction as tokens go or come."""
    return [t for t in method["tests"] if t["curve"] is not None and t["name"] in _CURVES]


def axis(test: dict[str, Any]) -> str:
    """Say what a curve is drawn over."""
    return _CURVES[test["name"]][0]


def good(test: dict[str, Any]) -> str:
    """Say how the curve of a good explanation looks."""
    return _CURVES[test["name"]][1]


def bounds(tests: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Return the lowest and highest value to draw: 0 and 1 for probabilities, whatever their range."""
    curves = [test["curve"] for test in tests]
    known = [v for c in curves for name in ("values", "null_low", "null_high") for v in c[name]]
    if all(0 <= value <= 1 for value in known):
        return 0.0, 1.0
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, low + 1)


def tick(value: float, ends: tuple[float, float]) -> str:
    """Label a place on the axis of values."""
    return f"{value:.0%}" if ends == (0.0, 1.0) else f"{value:.3g}"


def value_name(payload: dict[str, Any], ends: tuple[float, float]) -> str:
    """Say what a curve shows."""
    # A contrast of two labels has no probability of its own: it is the first label's that is watched.
    label = str(payload["target"]["label"])
    return f"probability of {label}" if ends == (0.0, 1.0) else label


def setup(payload: dict[str, Any]) -> str:
    """Say what was removed, and what the figures are compared with."""
    units, unit, rankings = payload["units"], payload["unit"], payload["rankings"]
    first, *others = payload["remove"]
    away = f"{units:,} {_many(unit, units)}, {gone(first)}"
    if others:
        away += f" (the verdicts rest on this), and for comparison by {', '.join(others)}"
    if not rankings:
        return f"{away}; no random rankings to compare with"
    if units < 12 and rankings == factorial(units):
        return f"{away}; compared with all {rankings:,} rankings of them"
    same = "picture" if payload.get("picture") else "text"
    return f"{away}; compared with {rankings:,} random rankings of the same {same}"


def counted(payload: dict[str, Any], test: dict[str, Any]) -> str:
    """Say what the axis of a curve counts."""
    return f"{_many(payload['unit'], 2)} {axis(test)}"


def cost(payload: dict[str, Any]) -> str:
    """Say what the card cost."""
    spent = payload["cost"]
    return (
        f"{spent['forward']:,} forward and {spent['backward']:,} backward passes, {spent['seconds']:.1f} s; "
        f"the tests took {spent['tests']:,} forward passes of their budget of {payload['budget']:,}"
    )


def _many(word: str, count: int) -> str:
    if count == 1:
        return word
    return f"{word}es" if word.endswith("ch") else f"{word}s"


"""The trust card: how far an explanation can be believed, as text, in a terminal and on a page."""

from whence.report.card.html import fragment, page
from whence.report.card.text import plain

__all__ = ["fragment", "page", "plain"]


"""A curve drawn in characters: the line of an explanation against the band of random rankings."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

Kind = Literal["blank", "band", "line"]


class Cell(NamedTuple):
    """One character of a chart, and what it belongs to."""

    kind: Kind
    glyph: str


class Pen(NamedTuple):
    """The characters to draw with."""

    band: str
    flat: str
    upright: str
    falls: tuple[str, str]  # where a falling line leaves its row, and where it arrives
    rises: tuple[str, str]
    frame: tuple[str, str, str]  # the left edge, the corner, the lower edge


LINES = Pen("░", "━", "┃", ("┓", "┗"), ("┛", "┏"), ("│", "└", "─"))
ASCII = Pen(":", "*", "*", ("*", "*"), ("*", "*"), ("|", "+", "-"))


def chart(
    curve: dict[str, Any], ends: tuple[float, float], columns: int, rows: int, pen: Pen
) -> list[list[Cell]]:
    """Return the rows of the chart, top first."""
    canvas = [[Cell("blank", " ")] * columns for _ in range(rows)]
    spread = [
        _levels(curve["at"], curve[n], ends, columns, rows) for n in ("null_low", "null_high")
    ]
    for column, (low, high) in enumerate(zip(*spread, strict=True)):
        for level in range(low, high + 1):
            canvas[level][column] = Cell("band", pen.band)
    line = _levels(curve["at"], curve["values"], ends, columns, rows)
    canvas[line[0]][0] = Cell("line", pen.flat)
    for column, (before, now) in enumerate(pairwise(line), start=1):
        for level, glyph in _step(before, now, pen):
            canvas[level][column] = Cell("line", glyph)
    return canvas[::-1]


def _step(before: int, now: int, pen: Pen) -> list[tuple[int, str]]:
    """Return what a line puts into one column on its way from one level to another."""
    if before == now:
        return [(now, pen.flat)]
    leaves, arrives = pen.falls if now < before else pen.rises
    between = range(min(before, now) + 1, max(before, now))
    return [(before, leaves), *((level, pen.upright) for level in between), (now, arrives)]


def _levels(
    at: Sequence[float], values: Sequence[float], ends: tuple[float, float], columns: int, rows: int
) -> list[int]:
    """Return the row of each column, counted from the bottom, with straight lines between the values."""
    low, high = ends
    places = np.linspace(at[0], at[-1], columns)
    share = (np.interp(places, at, values) - low) / (high - low)
    return [int(level) for level in np.clip(np.round(share * (rows - 1)), 0, rows - 1)]


"""A trust card as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.card.style import STYLE
from whence.report.card.svg import curve, key, track
from whence.report.card.wording import (
    NOTHING,
    all_names,
    beaten,
    by_name,
    chance,
    cost,
    deciding,
    drawn,
    gone,
    good,
    in_words,
    is_ranked,
    measured,
    own_sentence,
    percentile,
    setup,
)
from whence.report.picture.colour import SCALE as PICTURE_SCALE
from whence.report.picture.html import STYLE as PICTURE_STYLE
from whence.report.picture.html import every_patch, figures, patch_table
from whence.report.picture.html import key as colours
from whence.report.sheet import cell, provenance, sheet
from whence.report.strip import strips, token_table, word_table
from whence.report.text import cut, headline
from whence.view.shade import SCALE, shades


def page(
    payload: dict[str, Any], title: str = "whence: should you believe this explanation?"
) -> str:
    """Return a whole page."""
    scale = PICTURE_SCALE if payload.get("picture") else SCALE
    return sheet(title, _body(payload), scale, STYLE + PICTURE_STYLE)


def fragment(payload: dict[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return cell(_body(payload), STYLE + PICTURE_STYLE)


def _body(payload: dict[str, Any]) -> str:
    return "\n".join(
        [
            '<div class="card">',
            _overall(payload),
            *(_method(payload, method) for method in payload["methods"]),
            _small_print(payload),
            "</div>",
        ]
    )


def _overall(payload: dict[str, Any]) -> str:
    note, matters = cut(payload), payload["removal_matters"]
    return "\n".join(
        [
            '<section class="overall">',
            f"<h2>{escape(payload['sentence'])}</h2>",
            f"<p>{escape(payload['model']['name'])} said <strong>{escape(headline(payload))}</strong></p>",
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            f'<p class="dim">{escape(setup(payload))}. {escape(cost(payload))}.</p>',
            f"<p>{escape(matters)}</p>" if matters else "",
            _matrix(payload) if len(payload["methods"]) > 1 else "",
            "</section>",
        ]
    )


def _chip(verdict: str) -> str:
    return f'<span class="chip {escape(verdict.replace(" ", "-"))}">{escape(verdict)}</span>'


def _matrix(payload: dict[str, Any]) -> str:
    names = all_names(payload)
    head = "".join(f'<th scope="col">{escape(in_words(name))}</th>' for name in names)
    rows = []
    for method in payload["methods"]:
        tests = deciding(payload, method)
        cells = (_chip(tests[n]["verdict"] if n in tests else "not tested") for n in names)
        rows.append(
            f'<tr><th scope="row">{escape(method["method"])}</th><td>{_chip(method["verdict"])}</td>'
            f"{''.join(f'<td>{chip}</td>' for chip in cells)}</tr>"
        )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="all verdicts"><table class="matrix">'
        f'<thead><tr><th scope="col">method</th><th scope="col">overall</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _method(payload: dict[str, Any], method: dict[str, Any]) -> str:
    chosen = ", ".join(f"{name} = {value}" for name, value in method["params"].items())
    said = own_sentence(payload, method)
    shown, summary, tables = (_patches if payload.get("picture") else _words)(payload, method)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(method['method'])} {_chip(method['verdict'])}</h2>",
            f"<p>{escape(said)}</p>" if said else "",
            *shown,
            _curves(payload, method),
            _tests(payload, method),
            f"<details><summary>{summary}</summary>",
            f'<p class="dim">{escape(chosen) or "no parameters"}</p>',
            '<div class="wide">',
            *tables,
            "</div></details>",
            "</section>",
        ]
    )


_Told = tuple[list[str], str, list[str]]  # what is shown, and what is folded away under which name


def _words(payload: dict[str, Any], method: dict[str, Any]) -> _Told:
    tints = shades(payload, method)
    shown = [strips(payload, method, tints), f'<p class="dim">{escape(tints.legend)}</p>']
    tables = [word_table(payload, method, tints.words), token_table(payload, method)]
    return shown, "All words and tokens", tables


def _patches(payload: dict[str, Any], method: dict[str, Any]) -> _Told:
    shown = [figures([{**payload, "methods": [method]}]), colours(payload, method)]
    return shown, "All patches", [patch_table(payload, method), every_patch(payload, method)]


def _curves(payload: dict[str, Any], method: dict[str, Any]) -> str:
    first, *others = payload["remove"]
    tests = drawn(method)
    if not tests:
        return ""
    shown = [_figures(payload, method, [test for test in tests if test["remove"] == first])]
    shown.append(
        f'<p class="legend"><span>{key("own")} {escape(method["method"])}</span>'
        f"<span>{key('random')} 95 of 100 random rankings</span><span>{key('mean')} their mean</span></p>"
    )
    if others:
        # Both curves of one kind of removal beside each other.
        again = [test for kind in others for test in tests if test["remove"] == kind]
        shown += [
            "<details><summary>The curves of the other kinds of removal</summary>",
            _figures(payload, method, again),
            "</details>",
        ]
    return "\n".join(shown)


def _figures(
    payload: dict[str, Any], method: dict[str, Any], tests: Sequence[dict[str, Any]]
) -> str:
    several = len(payload["remove"]) > 1
    figures = []
    for test in tests:
        kind = f", {gone(test['remove'])}" if several else ""
        figures.append(
            f"<figure><figcaption><strong>{escape(in_words(test['name']))}</strong>"
            f"{escape(f'{kind}: {good(test)}')}</figcaption>{curve(payload, method, test)}</figure>"
        )
    return f'<div class="curves">{"".join(figures)}</div>'


def _tests(payload: dict[str, Any], method: dict[str, Any]) -> str:
    questions = {rule["name"]: rule["question"] for rule in payload["rules"]}
    several = len(payload["remove"]) > 1
    rows = []
    for name, tests in by_name(method["tests"]).items():
        asked = f'<span class="dim">{escape(questions.get(name, ""))}</span>'
        title = f"<strong>{escape(in_words(name))}</strong> {asked}"
        split = several and tests[0]["remove"] is not None
        if split:
            rows.append(f'<tr class="group"><th scope="rowgroup" colspan="6">{title}</th></tr>')
        for test in tests:
            rows.append(_row(test, escape(gone(test["remove"])) if split else title))
    heads = ("test", "verdict", "value", "by chance", "beats random", "in words")
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    return (
        f'<table class="tests"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _row(test: dict[str, Any], title: str) -> str:
    better = f"{test['direction']} is better"
    beats = track(test) + _figure(percentile(test), beaten(test)) if is_ranked(test) else ""
    cells = {
        "verdict": _chip(test["verdict"]),
        "value": "" if test["value"] is None else _figure(measured(test, 3), better),
        "by chance": _figure(*chance(test, 3)) if test["null"] else "",
        "beats random": beats,
        "in words": escape(test["why"]),
    }
    shown = "".join(
        f'<td data-label="{label}">{body}</td>' if body else f'<td class="none">{NOTHING}</td>'
        for label, body in cells.items()
    )
    return f'<tr><th scope="row">{title}</th>{shown}</tr>'


def _figure(value: str, note: str) -> str:
    return f'<span>{escape(value)}</span> <span class="dim">{escape(note)}</span>'


def _small_print(payload: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(in_words(rule["name"]))}</th>'
        + "".join(
            f'<td data-label="{escape(word)}">{escape(rule[word] or "")}</td>'
            for word in ("question", "holds", "weak", "fails")
        )
        + "</tr>"
        for rule in payload["rules"]
    )
    heads = ("test", "question", "holds", "weak", "fails")
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    return "\n".join(
        [
            "<section><details><summary>When a test holds, is weak or fails</summary>",
            '<p class="dim">The thresholds were set before any result was seen.</p>',
            f'<table class="tests"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>',
            provenance(payload),
            "</section>",
        ]
    )


"""The style of a trust card, beside that of every page."""

STYLE = """
.whence .card section { background: #fff; }
.whence .card > section > h2 { font-size: 1.15rem; margin-bottom: .3rem; overflow-wrap: anywhere; }
.whence .card .overall > h2 { font-size: 1.4rem; line-height: 1.35; margin-bottom: .6rem; text-wrap: balance; }
.whence .card p { overflow-wrap: anywhere; }
.whence .chip { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.5; padding: 0 .55em;
  border: 1px solid; border-radius: 99px; white-space: nowrap; vertical-align: .1em; }
.whence .chip.holds { color: #17603a; background: #e8f5ec; border-color: #b5dcc2; }
.whence .chip.weak { color: #6f4a00; background: #fdf4dc; border-color: #ecd79b; }
.whence .chip.fails { color: #94201b; background: #fdecea; border-color: #f0bfbb; }
.whence .chip.not-tested { color: #56606a; background: #f3f5f7; border-color: #d9dee3; font-weight: 400; }
.whence .wide { overflow-x: auto; margin-top: .9rem; }
.whence .card details :is(th, td) { overflow-wrap: anywhere; }
.whence .matrix th, .whence .matrix td { padding: .28rem .5rem .28rem 0; vertical-align: bottom; }
.whence .matrix th:last-child, .whence .matrix td:last-child { padding-right: 0; }
.whence .matrix thead th { font-size: .74rem; font-weight: 500; line-height: 1.25; }
.whence .matrix .chip { font-size: .72rem; padding: 0 .45em; }
.whence .matrix tbody th { border: 0; white-space: nowrap; }
.whence .curves { display: flex; flex-wrap: wrap; gap: .8rem 1.6rem; margin-top: 1.1rem; }
.whence .curves figure { margin: 0; flex: 1 1 19rem; min-width: 0; max-width: 27rem; }
.whence .curves figcaption strong { color: var(--ink); }
.whence .curve { display: block; width: 100%; height: auto; }
.whence .curve text { font-size: 12px; fill: var(--dim); }
.whence svg .grid { stroke: var(--rule); stroke-width: 1; }
.whence svg .random { fill: #d5dbe1; fill-opacity: .75; }
.whence svg .mean { fill: none; stroke: #79848f; stroke-width: 1.3; stroke-dasharray: 4 3; }
.whence svg polyline.own, .whence svg line.own { fill: none; stroke: #2166ac; stroke-width: 2.2; }
.whence svg circle.own { fill: #2166ac; }
.whence .legend { display: flex; flex-wrap: wrap; gap: .1rem 1.4rem; font-size: .87rem; color: var(--dim); }
.whence .key { width: 26px; height: 12px; vertical-align: -1px; }
.whence .track { display: block; width: 110px; height: 12px; margin: .35rem 0 .1rem -5px; }
.whence .track .rail { stroke: var(--rule); stroke-width: 2; }
.whence .track .spread { stroke: #8fb3d6; stroke-width: 4; stroke-linecap: round; }
.whence .card .dim { font-weight: 400; }
.whence .tests { width: 100%; margin-top: 1.1rem; }
.whence .tests th, .whence .tests td { padding: .5rem 1rem .5rem 0; vertical-align: top;
  border-bottom: 1px solid #e9edf0; overflow-wrap: break-word; }
.whence .tests th:last-child, .whence .tests td:last-child { padding-right: 0; }
.whence .tests tbody tr:last-child > * { border-bottom: 0; }
.whence .tests thead th { font-size: .82rem; padding-bottom: .2rem; border-bottom-color: #b9c1c9; }
.whence .tests tbody th { font-weight: 400; min-width: 8rem; }
.whence .tests td > span { white-space: nowrap; }
.whence .tests td[data-label="value"] { width: 5rem; }
.whence .tests td[data-label="value"] .dim { white-space: normal; }
.whence .tests th .dim, .whence .tests td .dim { display: block; line-height: 1.4; }
.whence .tests .none { color: var(--dim); }
.whence .tests .group th { border-bottom: 0; padding-bottom: 0; }
.whence .tests .group th .dim { display: inline; }
.whence .card details table { margin-bottom: .8rem; }
@media (max-width: 44rem) {
  .whence .tests thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .tests, .whence .tests tbody, .whence .tests tr, .whence .tests tbody th { display: block; }
  .whence .tests tr { padding: .6rem 0; border-bottom: 1px solid var(--rule); }
  .whence .tests tbody th, .whence .tests td { padding: .1rem 0; border: 0; }
  .whence .tests td { display: grid; grid-template-columns: 8.2rem minmax(0, 1fr); justify-items: start; }
  .whence .tests td > * { grid-column: 2; }
  .whence .tests td > span:not(.chip) { white-space: normal; }
  .whence .tests td.none { display: none; }
  .whence .tests td::before { content: attr(data-label); color: var(--dim); grid-row: 1; }
}
"""


"""A curve as a drawing on a page: axes with labels, the band of random rankings, and the explanation's line."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from whence.report.card.wording import bounds, counted, good, in_words, number, tick, value_name

_WIDTH, _HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 380, 14, 204


def curve(payload: dict[str, Any], method: dict[str, Any], test: dict[str, Any]) -> str:
    """Return one chart; a reader who does not see it gets the values in words."""
    drawn = test["curve"]
    ends = bounds([test])
    at = drawn["at"]
    high, low = drawn["null_high"], drawn["null_low"]
    across = [_across(place, at) for place in at]
    band = [*_points(across, high, ends), *reversed(_points(across, low, ends))]
    line = _points(across, drawn["values"], ends)
    name, label = f"{in_words(test['name'])}, {method['method']}", value_name(payload, ends)
    over = counted(payload, test)
    return "".join(
        [
            f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
            f"<title>{escape(f'{name}: {label} over {over}')}</title>",
            f"<desc>{escape(_description(test, over))}</desc>",
            *_axes(at, ends, label, over),
            f'<polygon class="random" points="{_path(band)}"/>',
            f'<polyline class="mean" points="{_path(_points(across, drawn["null_mean"], ends))}"/>',
            f'<polyline class="own" points="{_path(line)}"/>',
            *(f'<circle class="own" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in line),
            "</svg>",
        ]
    )


def track(test: dict[str, Any]) -> str:
    """Return a percentile as a dot on a line from 0 to 100, with its interval; the words stand beside it."""
    low, high = test["interval"] or (test["percentile"],) * 2
    return (
        '<svg class="track" viewBox="-5 0 110 12" aria-hidden="true">'
        '<line class="rail" x1="0" x2="100" y1="6" y2="6"/>'
        f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="6" y2="6"/>'
        f'<circle class="own" cx="{test["percentile"]:.1f}" cy="6" r="4"/></svg>'
    )


def key(kind: str) -> str:
    """Return the sample of one kind of line for the legend."""
    shapes = {
        "own": '<line class="own" x1="0" x2="26" y1="6" y2="6"/><circle class="own" cx="13" cy="6" r="2.6"/>',
        "random": '<rect class="random" width="26" height="12"/>',
        "mean": '<line class="mean" x1="0" x2="26" y1="6" y2="6"/>',
    }
    return f'<svg class="key" viewBox="0 0 26 12" aria-hidden="true">{shapes[kind]}</svg>'


def _axes(at: Sequence[float], ends: tuple[float, float], label: str, over: str) -> Iterable[str]:
    middle = (_TOP + _BOTTOM) / 2
    for value in (ends[0], (ends[0] + ends[1]) / 2, ends[1]):
        y = _up(value, ends)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{tick(value, ends)}</text>'
    for place in (at[0], (at[0] + at[-1]) / 2, at[-1]):
        x = _across(place, at)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_BOTTOM}" y2="{_BOTTOM + 4}"/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{place:.0%}</text>'
    yield (
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(over)}</text>'
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(_short(label))}</text>"
    )


def _description(test: dict[str, Any], over: str) -> str:
    """Say the curve in words: its value at every place, and where random rankings lie there."""
    drawn = test["curve"]
    rows = zip(drawn["at"], drawn["values"], drawn["null_low"], drawn["null_high"], strict=True)
    told = (
        f"at {place:.0%} {number(value)}, random {number(low)} to {number(high)}"
        for place, value, low, high in rows
    )
    return f"{good(test)}. {over}: {'; '.join(told)}."


def _short(label: str, most: int = 30) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _across(place: float, at: Sequence[float]) -> float:
    width = (at[-1] - at[0]) or 1.0
    return _LEFT + (place - at[0]) / width * (_RIGHT - _LEFT)


def _up(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)


def _points(
    across: Sequence[float], values: Sequence[float], ends: tuple[float, float]
) -> list[tuple[float, float]]:
    return [(x, _up(value, ends)) for x, value in zip(across, values, strict=True)]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


"""A trust card in a terminal: the sentence first, then the tests as a table and the curves drawn."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.card.chart import ASCII, LINES, Pen, chart
from whence.report.card.wording import (
    all_names,
    bounds,
    by_chance,
    by_name,
    cost,
    counted,
    deciding,
    drawn,
    good,
    in_words,
    measured,
    own_sentence,
    percentile,
    reasons,
    setup,
    tick,
    value_name,
)
from whence.report.picture.terminal import one_map, seen
from whence.report.terminal import tinted
from whence.report.text import cut, headline, visible
from whence.view.shade import shades

_TONES = {"holds": "green", "weak": "yellow", "fails": "red", "not tested": "dim"}
_ROWS = 9  # of a chart: an odd number, so that there is a middle to label
_WIDEST = 44
_NARROWEST = 36
_GAP = 2


class Card:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the card out."""
        payload = self._payload
        pen = ASCII if options.ascii_only else LINES
        yield Text(visible(payload["sentence"]), "bold")
        yield Text()
        yield Text.assemble((visible(payload["model"]["name"]), "bold"), "  ", headline(payload))
        if note := cut(payload):
            yield Text(note, "yellow")
        yield Text(setup(payload), "dim")
        yield Text(cost(payload), "dim")
        if payload["removal_matters"]:
            yield Text(visible(payload["removal_matters"]))
        if len(payload["methods"]) > 1:
            yield from _matrix(payload, options.max_width)
        for method in payload["methods"]:
            yield Text()
            yield from _method(payload, method, options.max_width, pen, seen(console, options))
        if len(payload["remove"]) > 1:
            yield Text()
            yield Text("A page (--html FILE) has the curves of every kind of removal.", "dim")


def render(payload: dict[str, Any]) -> RenderableType:
    """Lay a card out for rich."""
    return Card(payload)


def _verdict(verdict: str) -> Text:
    return Text(verdict, _TONES.get(verdict, ""))


def _matrix(payload: dict[str, Any], width: int) -> Iterator[RenderableType]:
    """Yield all verdicts: tests down, methods across, as many at a time as fit."""
    names = all_names(payload)
    left = max(map(len, [*names, "overall"]))
    row: list[dict[str, Any]] = []
    used = left
    for method in payload["methods"]:
        needed = max(len(method["method"]), len("not tested")) + _GAP
        if row and used + needed > width:
            yield Text()
            yield _verdicts(payload, names, row)
            row, used = [], left
        row.append(method)
        used += needed
    yield Text()
    yield _verdicts(payload, names, row)


def _verdicts(
    payload: dict[str, Any], names: list[str], methods: list[dict[str, Any]]
) -> RenderableType:
    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_row("", *(Text(method["method"], "bold", overflow="fold") for method in methods))
    table.add_row(Text("overall", "bold"), *(_verdict(method["verdict"]) for method in methods))
    decided = [deciding(payload, method) for method in methods]
    for name in names:
        found = (tests[name]["verdict"] if name in tests else "not tested" for tests in decided)
        table.add_row(in_words(name), *map(_verdict, found))
    return table


def _method(
    payload: dict[str, Any], method: dict[str, Any], width: int, pen: Pen, colours: bool
) -> Iterator[RenderableType]:
    yield Text.assemble((method["method"], "bold"), "  ", _verdict(method["verdict"]))
    if said := own_sentence(payload, method):
        yield Text(visible(said))
    if payload.get("picture"):
        yield from one_map(payload, method, width, colours)
    else:
        tints = shades(payload, method)
        yield tinted(payload, tints.words)
        yield Text(visible(tints.legend), "dim")
    yield Text()
    yield _tests(payload, method, width)
    if whys := _whys(payload, method):
        yield Text()
        yield whys
    yield from _curves(payload, method, width, pen)


def _tests(payload: dict[str, Any], method: dict[str, Any], width: int) -> RenderableType:
    several = len(payload["remove"]) > 1
    roomy = width >= 72
    head = ["test", "verdict", "value", *(["by chance"] if roomy else []), "beats random"]
    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for column in table.columns:
        column.overflow = "fold"  # an ellipsis is not in every encoding
    table.columns[2].justify = "right"
    for name, tests in by_name(method["tests"]).items():
        split = several and tests[0]["remove"] is not None
        if split:
            table.add_row(in_words(name))
        for test in tests:
            table.add_row(
                f"  {test['remove']}" if split else in_words(name),
                _verdict(test["verdict"]),
                measured(test),
                *([by_chance(test)] if roomy else []),
                percentile(test),
            )
    return table


def _whys(payload: dict[str, Any], method: dict[str, Any]) -> RenderableType | None:
    """Say why, for the tests that the verdicts rest on and that do not simply hold."""
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for why, tests in reasons(payload, method).items():
        names = [in_words(test["name"]) for test in tests if test["verdict"] != "holds"]
        if names:
            table.add_row("\n".join(names), Text(visible(why), "dim", overflow="fold"))
    return table if table.rows else None


def _curves(
    payload: dict[str, Any], method: dict[str, Any], width: int, pen: Pen
) -> Iterator[RenderableType]:
    """Yield the curves that the verdicts rest on, beside each other where there is room."""
    tests = [test for test in drawn(method) if test["remove"] == payload["remove"][0]]
    if not tests:
        return
    ends = bounds(tests)
    beside = 2 if width >= 2 * _NARROWEST + _GAP else 1
    room = min(_WIDEST, (width - _GAP * (beside - 1)) // beside)
    for start in range(0, len(tests), beside):
        yield Text()
        line = Table.grid(padding=(0, _GAP, 0, 0))
        line.add_row(*(_curve(payload, t, ends, room, pen) for t in tests[start : start + beside]))
        yield line
    yield Text.assemble(
        (f"{pen.flat * 2} {method['method']}", "cyan"),
        f"  {pen.band * 2} 95 of 100 random rankings",
        (f"  up: {visible(value_name(payload, ends))}", "dim"),
    )


def _curve(
    payload: dict[str, Any], test: dict[str, Any], ends: tuple[float, float], room: int, pen: Pen
) -> RenderableType:
    low, high = ends
    places = {0: high, _ROWS // 2: (low + high) / 2, _ROWS - 1: low}
    labels = {row: tick(value, ends) for row, value in places.items()}
    left = max(map(len, labels.values())) + 1
    columns = room - left - 1
    edge, corner, floor = pen.frame
    picture = Text(f"{in_words(test['name'])}: {good(test)}\n", no_wrap=True)
    for row, cells in enumerate(chart(test["curve"], ends, columns, _ROWS, pen)):
        picture.append(f"{labels.get(row, ''):>{left - 1}} {edge}", "dim")
        for cell in cells:
            picture.append(cell.glyph, {"line": "cyan", "band": "dim"}.get(cell.kind, ""))
        picture.append("\n")
    under = counted(payload, test)
    picture.append(" " * left + corner + floor * columns + "\n", "dim")
    picture.append(" " * left + f"0%{under:^{columns - 5}}100%", "dim")
    return picture


"""A trust card as plain text: for a log, a pipe, or print()."""

from typing import Any

from whence.report.card.wording import (
    by_chance,
    by_name,
    cost,
    deciding,
    in_words,
    measured,
    own_sentence,
    percentile,
    reasons,
    setup,
)
from whence.report.text import cut, headline, visible

_HEAD = ("test", "verdict", "value", "by chance", "beats random")


def plain(payload: dict[str, Any]) -> str:
    """Write a card as lines of text."""
    lines = [
        visible(payload["sentence"]),
        f"{visible(payload['model']['name'])}: {headline(payload)}",
        *([note] if (note := cut(payload)) else []),
        setup(payload),
        cost(payload),
    ]
    if payload["removal_matters"]:
        lines.append(visible(payload["removal_matters"]))
    if len(payload["methods"]) > 1:
        lines += ["", *(_summary(payload, method) for method in payload["methods"])]
    for method in payload["methods"]:
        lines += ["", *_method(payload, method)]
    return "\n".join(lines)


def _summary(payload: dict[str, Any], method: dict[str, Any]) -> str:
    found = (
        f"{in_words(name)} {test['verdict']}" for name, test in deciding(payload, method).items()
    )
    return f"{method['method']}: {method['verdict']} ({', '.join(found)})"


def _method(payload: dict[str, Any], method: dict[str, Any]) -> list[str]:
    table = [_HEAD, *_rows(payload, method)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  "
        + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    whys = [
        f"  {', '.join(in_words(test['name']) for test in tests)}: {visible(why)}"
        for why, tests in reasons(payload, method).items()
    ]
    said = own_sentence(payload, method)
    return [
        f"{method['method']}: {method['verdict']}",
        *([visible(said)] if said else []),
        *lines,
        *whys,
    ]


def _rows(payload: dict[str, Any], method: dict[str, Any]) -> list[tuple[str, ...]]:
    several = len(payload["remove"]) > 1
    return [
        (
            f"{in_words(name)}, {test['remove']}" if several and test["remove"] else in_words(name),
            test["verdict"],
            measured(test),
            by_chance(test),
            percentile(test),
        )
        for name, tests in by_name(method["tests"]).items()
        for test in tests
    ]


"""The card's results in sentences that need no special knowledge."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.trust.rules import AXIOMS, MAIN, RULES

_ADVICE = {
    "holds": "can be believed here",
    "weak": "is to be taken with care",
    "fails": "is not to be relied on",
    "not tested": "could not be tested",
}


# By verdict: which result of which tests it rests on, the first that there is.
_BEHAVIOUR = tuple(rule.name for rule in RULES if rule.name not in AXIOMS)
_DECISIVE: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "weak": [("fails", _BEHAVIOUR), ("weak", _BEHAVIOUR), ("not tested", MAIN)],
    "not tested": [("not tested", MAIN)],
}

_COUNTED = (
    ("holds", "can be believed", "can be believed"),
    ("weak", "is to be taken with care", "are to be taken with care"),
    ("fails", "is not to be relied on", "are not to be relied on"),
    ("not tested", "could not be tested", "could not be tested"),
)


def method_sentence(method: str, verdict: str, tests: Sequence[Mapping[str, Any]]) -> str:
    """Say what a method's tests come to, with the result that decided."""
    found = {test["name"]: test for test in tests}
    said = f"{method} {_ADVICE[verdict]}: "
    if verdict == "holds":
        open_ = [name for name in _BEHAVIOUR if found[name]["verdict"] == "not tested"]
        missing = f" Not tested: {', '.join(open_).replace('_', ' ')}." if open_ else ""
        return said + _joined(found["deletion"]["why"], found["sufficiency"]["why"]) + missing
    for wanted, names in _DECISIVE.get(verdict) or [("fails", _failing(found))]:
        for test in tests:
            if test["verdict"] == wanted and test["name"] in names:
                return said + _lowered(test["why"])
    return said + "no test was decisive."


def _failing(found: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Name the tests by which a method fails: what it points at, or else that it does not come from the model."""
    by_main = any(found[name]["verdict"] == "fails" for name in MAIN)
    return MAIN if by_main else ("randomisation",)


def card_sentence(methods: Sequence[Mapping[str, Any]]) -> str:
    """Say what all of it comes to."""
    if len(methods) == 1:
        return str(methods[0]["sentence"])
    parts = []
    for verdict, one, several in _COUNTED:
        names = [method["method"] for method in methods if method["verdict"] == verdict]
        if names:
            parts.append(f"{len(names)} {one if len(names) == 1 else several} ({', '.join(names)})")
    return f"Of {len(methods)} explanations of this prediction, {', '.join(parts)}."


def removal_sentence(methods: Sequence[Mapping[str, Any]], removals: Sequence[str]) -> str | None:
    """Say how much it matters how tokens are removed, if several ways were tried."""
    if len(removals) < 2:
        return None
    widest, changed, said = -1.0, 0, ""
    for one in methods:
        for name in dict.fromkeys(test["name"] for test in one["tests"] if test["remove"]):
            placed = [
                (test["percentile"], test["remove"], test["verdict"])
                for test in one["tests"]
                if test["name"] == name and test["percentile"] is not None
            ]
            if not placed:
                continue
            changed += len({verdict for _, _, verdict in placed}) > 1
            (least, worst, _), (most, best, _) = min(placed), max(placed)
            if most - least > widest:
                widest = most - least
                said = (
                    f"most for {name.replace('_', ' ')} of {one['method']}, which beats {least:.0f}% of random "
                    f"rankings with {worst} and {most:.0f}% with {best}"
                )
    if widest < 0:
        return "How tokens are removed could not be compared: nothing could be tested."
    if not changed and widest < 1:
        return "How tokens are removed changes no verdict here, and next to nothing in the percentiles."
    if not changed:
        return f"How tokens are removed changes no verdict; it matters {said}."
    return (
        f"How tokens are removed changes {changed} verdict{'s' * (changed > 1)}; it matters {said}."
    )


def of_patches(sentence: str) -> str:
    """Say of the patches of a picture what was said of tokens; only for sentences that hold no text of a user."""
    return sentence.replace("tokens", "patches").replace("token", "patch")


def _joined(first: str, second: str) -> str:
    return f"{_lowered(first).removesuffix('.')}, and {_lowered(second)}"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
