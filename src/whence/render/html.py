"""The sheet that every page is set on: its style and its frame, offline, without a script."""

from html import escape
from typing import Any

_STYLE = """
.whence { --ink: #1b1f24; --dim: #5c6670; --rule: #d9dee3; color: var(--ink); background: #fff;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; text-align: left; }
.whence * { box-sizing: border-box; }
.whence section { border: 1px solid var(--rule); border-radius: 10px; padding: 1.1rem 1.3rem; margin: 0 0 1.2rem; }
.whence h2 { font-size: 1.15rem; margin: 0 0 .2rem; }
.whence h3 { font-size: 1rem; margin: 1.2rem 0 .1rem; }
.whence p { margin: .2rem 0; }
.whence .dim, .whence figcaption { color: var(--dim); font-size: .87rem; }
.whence .strip { font-size: 1.12rem; line-height: 2.05; margin: .35rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .strip mark { color: #000; border-radius: 4px; padding: .12em .1em; }
.whence .special { color: var(--dim); font: .74rem/1 ui-monospace, monospace; border: 1px solid var(--rule);
  border-radius: 4px; padding: .15em .3em; margin: 0 .25em; vertical-align: middle; color: #333; }
.whence .pair { border-left: 3px solid var(--rule); padding-left: .7rem; }
.whence table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.whence th { text-align: left; font-weight: 600; border-bottom: 1px solid var(--rule); }
.whence th, .whence td { padding: .12rem .9rem .12rem 0; }
.whence td.n { text-align: right; }
.whence .bar { display: inline-block; height: .72em; border-radius: 2px; vertical-align: middle; }
.whence .share { display: grid; grid-template-columns: max-content 12rem max-content; gap: .1rem .8rem; align-items: center;
  font-size: .9rem; margin: .5rem 0; }
.whence .share i { display: block; height: .7em; background: #6b7785; border-radius: 2px; min-width: 1px; }
.whence details { margin-top: .5rem; } .whence summary { cursor: pointer; color: var(--dim); font-size: .9rem; }
.whence code { font-size: .88em; overflow-wrap: anywhere; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>body {{ margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: #f6f8fa; color-scheme: light; }}{style}</style>
</head>
<body>
<main class="whence" style="background: none">
<h1 style="font-size: 1.35rem; margin: 0 0 1rem">{title}</h1>
{body}
<p class="dim">{foot}</p>
</main>
</body>
</html>
"""


def sheet(title: str, body: str, foot: str, style: str = "") -> str:
    """Return a whole page; `body` is HTML, the rest is text."""
    return _PAGE.format(title=escape(title), style=_STYLE + style, body=body, foot=escape(foot))


def cell(body: str, style: str = "") -> str:
    """Return a piece of HTML for a notebook cell."""
    return f'<div class="whence"><style>{_STYLE}{style}</style>{body}</div>'


def provenance(payload: dict[str, Any]) -> str:
    """Return which model this is and what computed it, folded away."""
    facts = {**payload["model"], **payload["provenance"]}
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td><td><code>{escape(str(value))}</code></td></tr>"
        for name, value in facts.items()
    )
    return f"<details><summary>Where this comes from</summary><table>{rows}</table></details>"


"""One file that draws: a static page, the data, and the page's own program, which nothing but its hash lets run."""

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from whence.core.errors import CannotServe

_HEAD_END = "</style>\n</head>"
_STATIC_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# What a script element must not hold: the end of an element, a comment, and what JavaScript takes for line ends.
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embedded(static: str, data: dict[str, Any]) -> str:
    """Put data and program into a static page, which stays for readers without scripts."""
    script, style = built("embed.js"), built("embed.css")
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    tail = (
        f'<script type="application/json" id="whence-payload">{in_script(data)}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    page = _once(static, _STATIC_CSP, policy)
    page = _once(page, _HEAD_END, f"</style>\n<style>{style}</style>\n</head>")
    return _once(page, "</body>", tail)


def in_script(data: dict[str, Any]) -> str:
    """Write data so that no text in it can end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in _ESCAPED.items():
        text = text.replace(sign, code)
    return text


def built(name: str) -> str:
    """Return a file of the built front end; it lies in the room above, and is read, not imported."""
    path = files("whence").joinpath("web", "static", name)
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise CannotServe(
            f"{name} is missing from this installation. Install whence again; in a checkout: make bundle."
        ) from None


def _once(text: str, old: str, new: str) -> str:
    """Replace the first of what must be there."""
    before, found, after = text.partition(old)
    if not found:
        raise ValueError(f"the static page has no {old!r}")
    return before + new + after


"""One HTML file: no script, no network, every piece of text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.picture.colour import SCALE as PICTURE_SCALE
from whence.report.picture.html import STYLE, every_patch, figures, key, patch_table
from whence.report.picture.maps import alike, predicted
from whence.report.sheet import cell, provenance, sheet
from whence.report.strip import strips, token_table, word_table
from whence.report.text import cut, notes
from whence.report.text import share as percent
from whence.view.shade import SCALE, shades, target_name


def page(
    payloads: Sequence[dict[str, Any]], title: str = "whence: why did the model say that?"
) -> str:
    """Return a whole page about one input or several."""
    groups = alike(payloads)
    scales = dict.fromkeys(PICTURE_SCALE if own[0].get("picture") else SCALE for own in groups)
    return sheet(title, "\n".join(map(_section, groups)), " ".join(scales), STYLE)


def fragment(payload: dict[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return cell(_section([payload]), STYLE)


def _section(payloads: Sequence[dict[str, Any]]) -> str:
    """Return what is said about one input; several payloads are of several classes of one picture."""
    payload = payloads[0]
    note = cut(payload)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(predicted(payloads))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}</p>',
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            _probabilities(payload["prediction"]),
            figures(payloads) if payload.get("picture") else "",
            *(_explanation(one, told) for one in payloads for told in one["explanations"]),
            provenance(payload),
            "</section>",
        ]
    )


def _probabilities(prediction: dict[str, Any]) -> str:
    shares = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])[:8]
    rows = "".join(
        f'<span>{escape(label)}</span><i style="width: {share * 100:.2f}%"></i><span>{percent(share)}</span>'
        for label, share in shares
    )
    return f'<div class="share">{rows}</div>' if rows else ""


def _explanation(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    chosen = ", ".join(f"{name} = {value}" for name, value in explanation["params"].items())
    passes, seconds = explanation["passes"], _seconds(explanation)
    told = _of_patches if payload.get("picture") else _of_words
    shown, summary, tables = told(payload, explanation)
    return "\n".join(
        [
            *shown,
            *(f'<p class="dim">{escape(note)}</p>' for note in notes(payload, explanation)),
            f"<details><summary>{summary}</summary>",
            *tables,
            f'<p class="dim">{_explained(payload, explanation)}; {escape(chosen) or "no parameters"}; '
            f"forward passes {passes['forward']:d}, backward passes {passes['backward']:d}{seconds}</p>",
            "</details>",
        ]
    )


def _explained(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Say what is explained: the logit or the probability of the target."""
    of = explanation.get("of", payload["target"]["of"])
    return f"of the {of} of {escape(target_name(payload['target']))}"


def _seconds(explanation: dict[str, Any]) -> str:
    """Say what it took, unless nobody knows: a run keeps no times with its results."""
    return "" if explanation["seconds"] is None else f", {explanation['seconds']:.3f} s"


_Told = tuple[list[str], str, list[str]]  # what is shown, and what is folded away under which name


def _of_words(payload: dict[str, Any], explanation: dict[str, Any]) -> _Told:
    tints = shades(payload, explanation)
    shown = [
        f"<h3>{escape(explanation['method'])}</h3>",
        f'<p class="dim">{escape(tints.legend)}</p>',
        strips(payload, explanation, tints),
    ]
    tables = [word_table(payload, explanation, tints.words), token_table(payload, explanation)]
    return shown, "All words and tokens", tables


def _of_patches(payload: dict[str, Any], explanation: dict[str, Any]) -> _Told:
    shown = [
        f"<h3>{escape(explanation['method'])} for {escape(target_name(payload['target']))}</h3>",
        key(payload, explanation),
        patch_table(payload, explanation),
    ]
    return shown, "All patches, as they lie in the picture", [every_patch(payload, explanation)]


"""Cells that a spreadsheet reads."""

from typing import Any


def harmless(value: Any) -> Any:
    """Keep a spreadsheet from running a text as a formula; numbers stay as they are."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r\n" and value else value


"""The explained text on a page: each word on the colour of its score, and the scores as tables."""

from html import escape
from typing import Any

from whence.view.shade import Shades, colour, target_name


def strips(payload: dict[str, Any], explanation: dict[str, Any], tints: Shades) -> str:
    """Return the text, or both texts of a pair, tinted."""
    shown = [_strip(payload, explanation, tints.words, tints.tokens, segment) for segment in (0, 1)]
    return "\n".join(["<figure style='margin: 0'>", *shown, "</figure>"])


def _strip(
    payload: dict[str, Any],
    explanation: dict[str, Any],
    words: tuple[float, ...],
    tokens: tuple[float, ...],
    segment: int,
) -> str:
    """Return one segment's text, each word on its colour, the special tokens around it as chips."""
    source = payload["input"]["pair" if segment else "text"]
    pieces: list[tuple[int, str]] = []
    at = 0
    for word, tint, score in zip(payload["words"], words, explanation["word_scores"], strict=True):
        if word["segment"] != segment:
            continue
        gap = " " if source is None else source[at : word["start"]]
        at = at if source is None else word["end"]
        mark = f'<mark style="background: {_css(tint)}" title="{score:+.6g}">{escape(word["text"])}</mark>'
        pieces.append((word["tokens"][0], escape(gap) + mark))
    if source is not None and pieces:
        pieces.append((len(payload["tokens"]), escape(source[at:])))
    for index, token in enumerate(payload["tokens"]):
        # A mask stands in the text itself, and is shown there.
        if token["special"] and token["segment"] == segment and token["start"] is None:
            title = f"{explanation['scores'][index]:+.6g}"
            style = f"background: {_css(tokens[index])}"
            chip = f'<span class="special" style="{style}" title="{title}">{escape(token["text"])}</span>'
            pieces.append((index, chip))
    if not pieces:
        return ""
    body = "".join(text for _, text in sorted(pieces, key=lambda piece: piece[0]))
    return f'<div class="strip{" pair" if segment else ""}" dir="auto">{body}</div>'


def _css(tint: float) -> str:
    return "transparent" if abs(tint) < 0.005 else "rgb({},{},{})".format(*colour(tint))


def word_table(
    payload: dict[str, Any], explanation: dict[str, Any], tints: tuple[float, ...]
) -> str:
    """Return the words and their scores, the largest first."""
    order = sorted(range(len(tints)), key=lambda i: -abs(tints[i]))
    rows = "".join(
        f"<tr><td>{escape(payload['words'][i]['text'])}</td>"
        f'<td class="n">{explanation["word_scores"][i]:+.6g}</td>'
        f'<td><span class="bar" style="width: {abs(tints[i]) * 9:.2f}rem; '
        f'background: {_css(1.0 if tints[i] > 0 else -1.0)}"></span></td></tr>'
        for i in order
    )
    target = escape(target_name(payload["target"]))
    return f"<table><thead><tr><th>word</th><th>score</th><th>for {target}</th></tr></thead>{rows}</table>"


def _place(token: dict[str, Any]) -> str:
    return "" if token["start"] is None else f"{token['start']:d}:{token['end']:d}"


def token_table(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return the tokens and their scores, in order."""
    rows = "".join(
        f'<tr><td class="n">{index}</td><td>{escape(token["text"])}</td>'
        f'<td class="n">{_place(token)}</td>'
        f'<td class="n">{score:+.6g}</td></tr>'
        for index, (token, score) in enumerate(
            zip(payload["tokens"], explanation["scores"], strict=True)
        )
    )
    return (
        "<table><thead><tr><th>#</th><th>token</th><th>characters</th><th>score</th></tr></thead>"
        f"{rows}</table>"
    )
