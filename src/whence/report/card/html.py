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
