"""HTML pages and notebook cells: the page template, tinted text, score tables, the embedded app.

Pages have no network access, and every piece of text is escaped. A static page has no script; a page with
the embedded app runs exactly one script, admitted by its SHA-256 hash in the content security policy.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from whence.core.errors import CannotServe
from whence.render.charts import PLOT_STYLE, render_plot, render_track
from whence.render.colour import IMAGE_SCALE_NOTE as PICTURE_SCALE
from whence.render.colour import (
    TEXT_SCALE_NOTE,
    Shades,
    compute_shade_colour,
    compute_shades,
    format_target,
)
from whence.render.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Columns,
    Details,
    Document,
    FactList,
    Heading,
    Paragraph,
    Picture,
    Pictures,
    Plot,
    Section,
    Table,
    Tint,
    TintedText,
    drop_empty,
    expand_plot,
    to_cell,
)
from whence.render.image_maps import (
    IMAGE_STYLE,
    describe_group_prediction,
    group_by_image,
    render_colour_key,
    render_image_maps,
    render_patch_grid,
    render_patch_table,
)
from whence.render.text import (
    format_input_warnings,
    list_explanation_notes,
    sanitise_html,
)
from whence.render.text import format_probability as percent

_HEAD_END = "</style>\n</head>"
_STATIC_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# Characters that could end a script element, open a comment or break a line in JavaScript.
_SCRIPT_ESCAPES = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embed_app(static: str, data: dict[str, Any]) -> str:
    """Embed the app's script and data into a static page, which remains readable without scripts."""
    script, style = read_front_end_file("embed.js"), read_front_end_file("embed.css")
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    tail = (
        f'<script type="application/json" id="whence-payload">{encode_script_json(data)}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    page = _replace_once(static, _STATIC_CSP, policy)
    page = _replace_once(page, _HEAD_END, f"</style>\n<style>{style}</style>\n</head>")
    return _replace_once(page, "</body>", tail)


def encode_script_json(data: dict[str, Any]) -> str:
    """Return data as JSON that cannot close the script element around it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in _SCRIPT_ESCAPES.items():
        text = text.replace(sign, code)
    return text


def read_front_end_file(name: str) -> str:
    """Return the text of a file of the built front end (app/static), read as package data."""
    path = files("whence").joinpath("app", "static", name)
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise CannotServe(
            f"{name} is missing from this installation. Install whence again; in a checkout: make bundle."
        ) from None


def _replace_once(text: str, old: str, new: str) -> str:
    """Replace the first occurrence of `old`, which must be present."""
    before, separator, after = text.partition(old)
    if not separator:
        raise ValueError(f"the static page has no {old!r}")
    return before + new + after


def render_explanations_html(
    payloads: Sequence[dict[str, Any]], title: str = "whence: why did the model say that?"
) -> str:
    """Return an HTML page with the explanations of one or more inputs."""
    groups = group_by_image(payloads)
    scales = dict.fromkeys(
        PICTURE_SCALE if own[0].get("picture") else TEXT_SCALE_NOTE for own in groups
    )
    return render_page(
        title, "\n".join(map(_render_explanation_section, groups)), " ".join(scales), IMAGE_STYLE
    )


def render_explanation_fragment(payload: dict[str, Any]) -> str:
    """Return the explanations of one input as HTML for a notebook cell."""
    return render_notebook_cell(_render_explanation_section([payload]), IMAGE_STYLE)


def _render_explanation_section(payloads: Sequence[dict[str, Any]]) -> str:
    """Return the section of one input; several payloads are several classes of one image."""
    payload = payloads[0]
    note = format_input_warnings(payload)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(describe_group_prediction(payloads))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}</p>',
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            _render_probabilities(payload["prediction"]),
            render_image_maps(payloads) if payload.get("picture") else "",
            *(_render_method_block(one, e) for one in payloads for e in one["explanations"]),
            render_provenance(payload),
            "</section>",
        ]
    )


def _render_probabilities(prediction: dict[str, Any]) -> str:
    shares = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])[:8]
    rows = "".join(
        f'<span>{escape(label)}</span><i style="width: {share * 100:.2f}%"></i><span>{percent(share)}</span>'
        for label, share in shares
    )
    return f'<div class="share">{rows}</div>' if rows else ""


def _render_method_block(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    parameters = ", ".join(f"{name} = {value}" for name, value in explanation["params"].items())
    passes, seconds = explanation["passes"], _format_seconds(explanation)
    render_parts = _render_patch_parts if payload.get("picture") else _render_word_parts
    body, summary, tables = render_parts(payload, explanation)
    return "\n".join(
        [
            *body,
            *(
                f'<p class="dim">{escape(note)}</p>'
                for note in list_explanation_notes(payload, explanation)
            ),
            f"<details><summary>{summary}</summary>",
            *tables,
            f'<p class="dim">{_format_explained_output(payload, explanation)}; {escape(parameters) or "no parameters"}; '
            f"forward passes {passes['forward']:d}, backward passes {passes['backward']:d}{seconds}</p>",
            "</details>",
        ]
    )


def _format_explained_output(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return the explained output: the logit or the probability of the target."""
    of = explanation.get("of", payload["target"]["of"])
    return f"of the {of} of {escape(format_target(payload['target']))}"


def _format_seconds(explanation: dict[str, Any]) -> str:
    """Return the computing time, if known; runs keep no times with their results."""
    return "" if explanation["seconds"] is None else f", {explanation['seconds']:.3f} s"


_MethodParts = tuple[list[str], str, list[str]]  # visible HTML; title and HTML of the fold


def _render_word_parts(payload: dict[str, Any], explanation: dict[str, Any]) -> _MethodParts:
    tints = compute_shades(payload, explanation)
    body = [
        f"<h3>{escape(explanation['method'])}</h3>",
        f'<p class="dim">{escape(tints.legend)}</p>',
        render_text_strips(payload, explanation, tints),
    ]
    tables = [
        render_word_table(payload, explanation, tints.words),
        render_token_table(payload, explanation),
    ]
    return body, "All words and tokens", tables


def _render_patch_parts(payload: dict[str, Any], explanation: dict[str, Any]) -> _MethodParts:
    body = [
        f"<h3>{escape(explanation['method'])} for {escape(format_target(payload['target']))}</h3>",
        render_colour_key(payload, explanation),
        render_patch_table(payload, explanation),
    ]
    return (
        body,
        "All patches, as they lie in the picture",
        [render_patch_grid(payload, explanation)],
    )


_BASE_STYLE = """
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

_PAGE_TEMPLATE = """<!doctype html>
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


def render_page(title: str, body: str, foot: str, style: str = "") -> str:
    """Return an HTML page; `body` is HTML, all else is text."""
    return _PAGE_TEMPLATE.format(
        title=escape(title), style=_BASE_STYLE + style, body=body, foot=escape(foot)
    )


def render_notebook_cell(body: str, style: str = "") -> str:
    """Wrap HTML for a notebook cell."""
    return f'<div class="whence"><style>{_BASE_STYLE}{style}</style>{body}</div>'


def render_provenance(payload: dict[str, Any]) -> str:
    """Return the model and the provenance of an explanation, folded away."""
    facts = {**payload["model"], **payload["provenance"]}
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td><td><code>{escape(str(value))}</code></td></tr>"
        for name, value in facts.items()
    )
    return f"<details><summary>Where this comes from</summary><table>{rows}</table></details>"


def render_text_strips(payload: dict[str, Any], explanation: dict[str, Any], tints: Shades) -> str:
    """Return the text, or both texts of a pair, tinted by scores."""
    strips = [
        _render_segment_strip(payload, explanation, tints.words, tints.tokens, segment)
        for segment in (0, 1)
    ]
    return "\n".join(["<figure style='margin: 0'>", *strips, "</figure>"])


def _render_segment_strip(
    payload: dict[str, Any],
    explanation: dict[str, Any],
    words: tuple[float, ...],
    tokens: tuple[float, ...],
    segment: int,
) -> str:
    """Return the text of one segment, words tinted by score and special tokens as chips."""
    source = payload["input"]["pair" if segment else "text"]
    pieces: list[tuple[int, str]] = []
    at = 0
    for word, tint, score in zip(payload["words"], words, explanation["word_scores"], strict=True):
        if word["segment"] != segment:
            continue
        gap = " " if source is None else source[at : word["start"]]
        at = at if source is None else word["end"]
        mark = f'<mark style="background: {_format_css_colour(tint)}" title="{score:+.6g}">{escape(word["text"])}</mark>'
        pieces.append((word["tokens"][0], escape(gap) + mark))
    if source is not None and pieces:
        pieces.append((len(payload["tokens"]), escape(source[at:])))
    for index, token in enumerate(payload["tokens"]):
        # A mask token is part of the text, and is shown inside it.
        if token["special"] and token["segment"] == segment and token["start"] is None:
            title = f"{explanation['scores'][index]:+.6g}"
            style = f"background: {_format_css_colour(tokens[index])}"
            chip = f'<span class="special" style="{style}" title="{title}">{escape(token["text"])}</span>'
            pieces.append((index, chip))
    if not pieces:
        return ""
    body = "".join(text for _, text in sorted(pieces, key=lambda piece: piece[0]))
    return f'<div class="strip{" pair" if segment else ""}" dir="auto">{body}</div>'


def _format_css_colour(tint: float) -> str:
    return (
        "transparent" if abs(tint) < 0.005 else "rgb({},{},{})".format(*compute_shade_colour(tint))
    )


def render_word_table(
    payload: dict[str, Any], explanation: dict[str, Any], tints: tuple[float, ...]
) -> str:
    """Return a table of words and scores, the strongest first."""
    order = sorted(range(len(tints)), key=lambda i: -abs(tints[i]))
    rows = "".join(
        f"<tr><td>{escape(payload['words'][i]['text'])}</td>"
        f'<td class="n">{explanation["word_scores"][i]:+.6g}</td>'
        f'<td><span class="bar" style="width: {abs(tints[i]) * 9:.2f}rem; '
        f'background: {_format_css_colour(1.0 if tints[i] > 0 else -1.0)}"></span></td></tr>'
        for i in order
    )
    target = escape(format_target(payload["target"]))
    return f"<table><thead><tr><th>word</th><th>score</th><th>for {target}</th></tr></thead>{rows}</table>"


def _format_character_span(token: dict[str, Any]) -> str:
    return "" if token["start"] is None else f"{token['start']:d}:{token['end']:d}"


def render_token_table(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return a table of tokens and scores, in the order of the text."""
    rows = "".join(
        f'<tr><td class="n">{index}</td><td>{escape(token["text"])}</td>'
        f'<td class="n">{_format_character_span(token)}</td>'
        f'<td class="n">{score:+.6g}</td></tr>'
        for index, (token, score) in enumerate(
            zip(payload["tokens"], explanation["scores"], strict=True)
        )
    )
    return (
        "<table><thead><tr><th>#</th><th>token</th><th>characters</th><th>score</th></tr></thead>"
        f"{rows}</table>"
    )


_LONG_CELL = 60  # characters; a table with a longer text is stacked on a phone
_BRIEF_CELL = 32  # characters that stay on one line
_MAX_OPEN_ROWS = 40  # of a table that stands open on a page

STYLE = """
.whence { --ink: #1b1f24; --dim: #5c6670; --rule: #d9dee3; --faint: #e6eaee; --paper: #fff; --code: #f6f8fa;
  --own: #2166ac; --bar: #5b93c7; --shape: #c3d9ee; --line: #a8500a; --held: #eaf4ee;
  --good: #17603a; --good-paper: #e8f5ec; --good-line: #8cc7a1; --bad: #94201b; --bad-paper: #fdecea;
  --bad-line: #e3a19b; --weak: #6f4a00; --weak-paper: #fdf4dc; --weak-line: #dcc078;
  color: var(--ink); background: var(--paper); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  text-align: left; }
.whence * { box-sizing: border-box; }
.whence section { background: var(--paper); border: 1px solid var(--rule); border-radius: 10px; padding: 1.1rem 1.3rem;
  margin: 0 0 1.2rem; }
.whence :is(p, dd, li, h2, h3, summary, figcaption) { overflow-wrap: anywhere; }
.whence h1 { font-size: 1.35rem; margin: 0 0 1rem; }
.whence h2 { font-size: 1.25rem; line-height: 1.35; margin: 0 0 .3rem; text-wrap: balance; }
.whence h3 { font-size: 1rem; margin: 1.2rem 0 .1rem; }
.whence h2 + h3 { margin-top: .6rem; }
.whence p { margin: .25rem 0; }
.whence .dim { color: var(--dim); font-size: .87rem; font-weight: 400; }
.whence .strong { font-size: 1.05rem; font-weight: 600; max-width: 46rem; margin: .3rem 0 .6rem; }
.whence .warning { border-left: 3px solid var(--line); padding-left: .7rem; }
.whence ul { margin: .4rem 0; padding-left: 1.2rem; }
.whence nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; font-size: .92rem; }
.whence a { color: var(--own); }
.whence dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1.1rem; margin: .6rem 0;
  font-size: .92rem; }
.whence dt { color: var(--dim); } .whence dd { margin: 0; }
.whence .strip { font-size: 1.12rem; line-height: 2.05; margin: .35rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .strip mark { color: #000; border-radius: 4px; padding: .12em .1em; }
.whence .strip mark.marked { outline: 1px solid #6b7785; }
.whence .special { color: #333; font: .74rem/1 ui-monospace, monospace; border: 1px solid var(--rule);
  border-radius: 4px; padding: .15em .3em; margin: 0 .25em; vertical-align: middle; }
.whence .pair { border-left: 3px solid var(--rule); padding-left: .7rem; }
.whence .wide { overflow-x: auto; margin: .5rem 0; }
.whence table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.whence th { text-align: left; font-weight: 500; }
.whence thead th { font-weight: 600; font-size: .84rem; border-bottom: 1px solid var(--rule); vertical-align: bottom; }
.whence :is(th, td) { padding: .14rem .9rem .14rem 0; vertical-align: top; overflow-wrap: break-word; }
.whence .n { text-align: right; }
.whence .brief { white-space: nowrap; } .whence .many { min-width: 12rem; }
.whence tr.below > * { border-top: 1px solid var(--rule); color: var(--dim); }
.whence td.tint { color: #000; border: 2px solid var(--paper); border-radius: 5px; padding: .12rem .4rem; min-width: 1rem; }
.whence .bar { display: inline-block; height: .72em; border-radius: 2px; vertical-align: middle; min-width: 1px; }
.whence .track { display: block; width: 150px; height: 14px; }
.whence :is(td, th, h2, h3) .good { color: var(--good); } .whence :is(td, th) .bad { color: var(--bad); }
.whence :is(td, th) .weak { color: var(--weak); }
.whence .badge { display: inline-block; font-size: .8rem; font-weight: 600; line-height: 1.5; padding: 0 .6em;
  border: 1px solid var(--rule); border-radius: 99px; white-space: nowrap; vertical-align: .1em; }
.whence .badge.good { color: var(--good); background: var(--good-paper); border-color: var(--good-line); }
.whence .badge.weak { color: var(--weak); background: var(--weak-paper); border-color: var(--weak-line); }
.whence .badge.bad { color: var(--bad); background: var(--bad-paper); border-color: var(--bad-line); }
.whence details { margin-top: .5rem; } .whence summary { cursor: pointer; color: var(--dim); font-size: .9rem; }
.whence pre { background: var(--code); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto; font-size: .85rem; line-height: 1.5; margin: .6rem 0; }
.whence pre code { white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .columns { display: flex; flex-wrap: wrap; gap: .6rem 1.4rem; }
.whence .columns > * { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence figure { margin: .8rem 0 0; }
.whence figcaption { font-weight: 600; font-size: .92rem; line-height: 1.35; }
.whence .pictures { display: grid; grid-template-columns: repeat(var(--columns), minmax(8rem, 16rem)); gap: .9rem;
  overflow-x: auto; margin: .7rem 0 .3rem; }
.whence .pictures figure { margin: 0; }
.whence .pictures img { display: block; width: 100%; height: auto; border-radius: 4px; image-rendering: pixelated; }
.whence .wide > svg { max-width: max(100%, 40rem); height: auto; }
.whence svg.plot { display: block; width: 100%; height: auto; max-width: 26rem; }
.whence :is(mark, .badge, td.tint, .bar) { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
@media (max-width: 44rem) {
  .whence section { padding: .9rem; }
  .whence dl { display: block; } .whence dd { margin: 0 0 .4rem; }
  .whence .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .stack, .whence .stack :is(tbody, tr, th, td) { display: block; }
  .whence .stack tr { border-top: 1px solid var(--faint); padding: .4rem 0; }
  .whence .stack td:empty { display: none; }
  .whence .stack td::before { content: attr(data-label) " "; color: var(--dim); }
}
"""

# For pages only: a notebook has its own background, which does not follow the system's dark mode. Tinted words keep a
# light background: the colours of scores are chosen for black text.
PAGE_STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: #f6f8fa; color-scheme: light; }
main.whence { background: none; }
@media (max-width: 36rem) { body { padding: .75rem; } }
@media screen and (prefers-color-scheme: dark) {
  body { background: #12161b; color-scheme: dark; }
  .whence { --ink: #e6e9ec; --dim: #a6b0ba; --rule: #39424b; --faint: #333c45; --paper: #1a2027; --code: #12161b;
    --own: #8cc0f0; --bar: #4f86bd; --shape: #27445f; --line: #f0a35e; --held: #1c3327;
    --good: #a3e0ba; --good-paper: #1c3327; --good-line: #2f6d49; --bad: #ffb8b0; --bad-paper: #421713;
    --bad-line: #8d4038; --weak: #f1d690; --weak-paper: #382c08; --weak-line: #77631f; }
  .whence .strip { background: #fff; color: #1b1f24; padding: .1rem .5rem; border-radius: 6px; }
}
@media print {
  body { background: #fff; max-width: none; padding: 0; }
  .whence section { border: 0; padding: 0; }
  .whence :is(figure, tr, pre) { break-inside: avoid; }
  .whence :is(h2, h3) { break-after: avoid; }
  .whence details::details-content { content-visibility: visible; block-size: auto; }
}
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main class="whence">
<h1>{title}</h1>
{body}
<p class="dim">{foot}</p>
</main>
</body>
</html>
"""


def write_page(document: Document) -> str:
    """Return a document as an HTML page that opens from disk with no network."""
    sections = document.list_sections()
    places = {section.title: f"section-{n}" for n, section in enumerate(sections, 1)}
    body = "\n".join(_render_section(section, places) for section in sections)
    if document.contents:
        links = "".join(
            f'<li><a href="#{place}">{escape(title)}</a></li>'
            for title, place in places.items()
            if title
        )
        body = f'<nav aria-label="contents"><ul>{links}</ul></nav>\n{body}'
    page = _PAGE.format(
        title=escape(document.title),
        style=STYLE + PLOT_STYLE + PAGE_STYLE,
        body=body,
        foot=escape(document.foot),
    )
    return sanitise_html(page)


def write_fragment(document: Document) -> str:
    """Return a document as HTML for a notebook cell."""
    body = "\n".join(_render_section(section, {}) for section in document.list_sections())
    return sanitise_html(f'<div class="whence"><style>{STYLE}{PLOT_STYLE}</style>{body}</div>')


def _render_section(section: Section, places: dict[str, str]) -> str:
    place = f' id="{places[section.title]}"' if section.title in places else ""
    head = [f"<h2>{_render_heading(section.title, section.badge)}</h2>"] if section.title else []
    blocks = [_render_block(block, places) for block in section.blocks]
    return "\n".join([f"<section{place}>", *head, *blocks, "</section>"])


def _render_heading(text: str, badge: Cell | None) -> str:
    return f"{escape(text)} {_render_cell_text(badge, {})}".strip() if badge else escape(text)


def _render_blocks(blocks: Sequence[Block], places: dict[str, str]) -> str:
    return "\n".join(_render_block(block, places) for block in drop_empty(blocks))


def _render_block(block: Block, places: dict[str, str]) -> str:
    match block:
        case Heading(text, badge):
            return f"<h3>{_render_heading(text, badge)}</h3>"
        case Paragraph(text, tone):
            return f"<p{_format_class(tone)}>{escape(text)}</p>"
        case Bullets(lines, tone):
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            return f"<ul{_format_class(tone)}>{items}</ul>"
        case FactList(pairs):
            items = "".join(f"<dt>{escape(n)}</dt><dd>{escape(t)}</dd>" for n, t in pairs if t)
            return f"<dl>{items}</dl>"
        case Table():
            return _render_table(block, places)
        case TintedText():
            return _render_tinted_text(block)
        case Pictures(rows):
            return _render_pictures(rows)
        case Plot(plot):
            expanded = expand_plot(block)
            return render_plot(plot) if expanded == [block] else _render_blocks(expanded, places)
        case Code(text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Columns(inner):
            cells = "".join(f"<div>{_render_block(one, places)}</div>" for one in drop_empty(inner))
            return f'<div class="columns">{cells}</div>'
        case Details(title, inner):
            body = _render_blocks(inner, places)
            summary = f"<summary>{escape(title)}</summary>"
            return f"<details>{summary}{body}</details>" if title and body else body


def _format_class(*names: str) -> str:
    known = " ".join(name for name in names if name)
    return f' class="{known}"' if known else ""


def _render_table(table: Table, places: dict[str, str]) -> str:
    heads = [to_cell(head) for head in table.heads]
    rows = [[to_cell(cell) for cell in row] for row in table.rows]
    head = "".join(
        f'<th scope="col"{_format_class("n" * (rows[0][n].align == "right"))}>{_render_cell_text(one, places)}</th>'
        for n, one in enumerate(heads)
    )
    body = "".join(
        _render_row(row, heads, places, ruled=number == len(rows) - table.ruled)
        for number, row in enumerate(rows)
    )
    stacked = any(len(cell.plain) > _LONG_CELL for row in rows for cell in row)
    html = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.name or "table")}">'
        f"<table{_format_class('stack' * stacked)}>"
        + (f"<thead><tr>{head}</tr></thead>" if any(one.text for one in heads) else "")
        + f"<tbody>{body}</tbody></table></div>"
    )
    if len(rows) > _MAX_OPEN_ROWS and table.name:
        return f"<details><summary>{escape(table.name)} ({len(rows):,})</summary>{html}</details>"
    return f"<h3>{escape(table.name)}</h3>{html}" if table.name else html


def _render_row(
    row: Sequence[Cell], heads: Sequence[Cell], places: dict[str, str], *, ruled: bool
) -> str:
    cells = [f'<th scope="row">{_render_cell_text(row[0], places)}</th>']
    for number, cell in enumerate(row[1:], 1):
        length = len(cell.plain)
        size = "many" if length > _LONG_CELL else "brief" if length <= _BRIEF_CELL else ""
        kind = _format_class("n" * (cell.align == "right"), size, "tint" * (cell.tint is not None))
        label = f' data-label="{escape(heads[number].text)}"' if number < len(heads) else ""
        tint = f' style="background: {_format_css_colour(cell.tint)}"' if cell.tint else ""
        title = f' title="{escape(cell.title)}"' if cell.title else ""
        cells.append(f"<td{kind}{label}{tint}{title}>{_render_cell_text(cell, places)}</td>")
    return f"<tr{_format_class('below' * ruled)}>{''.join(cells)}</tr>"


def _render_cell_text(cell: Cell, places: dict[str, str]) -> str:
    text = escape(cell.text)
    if cell.badge:
        text = f'<span class="badge {cell.tone}">{text}</span>'
    elif cell.tone == "strong":
        text = f"<strong>{text}</strong>"
    elif cell.tone:
        text = f'<span class="{cell.tone}">{text}</span>'
    if cell.link and cell.link in places:
        text = f'<a href="#{places[cell.link]}">{text}</a>'
    if cell.bar is not None:
        colour = _format_css_colour(1.0 if cell.bar > 0 else -1.0)
        width = f"width: {min(1.0, abs(cell.bar)) * 9:.2f}rem"
        text += f'<span class="bar" style="{width}; background: {colour}"></span>'
    if cell.note:
        text += f' <span class="dim">{escape(cell.note)}</span>'
    return text + (render_track(cell.track) if cell.track else "")


def _render_tinted_text(block: TintedText) -> str:
    legend = f'<p class="dim">{escape(block.legend)}</p>' if block.legend else ""
    words = "".join(map(_render_tint, block.pieces))
    return f'{legend}<div class="strip{" pair" * block.beside}" dir="auto">{words}</div>'


def _render_tint(piece: Tint) -> str:
    if not piece.title and not piece.kind and not piece.shade:
        return escape(piece.text)
    tag = "span" if piece.kind == "special" else "mark"
    style = f' style="background: {_format_css_colour(piece.shade)}" title="{escape(piece.title)}"'
    return f"<{tag}{_format_class(piece.kind)}{style}>{escape(piece.text)}</{tag}>"


def _render_pictures(rows: Sequence[Sequence[Picture]]) -> str:
    columns = max(map(len, rows))
    figures = []
    for row in rows:
        figures += ["<i></i>"] * (columns - len(row))  # only the first row starts with the picture
        figures += [
            f'<figure><img width="{one.size[1]}" height="{one.size[0]}" alt="{escape(one.alt)}" '
            f'src="data:image/png;base64,{one.png}"><figcaption>{escape(one.title)}<br>'
            f'<span class="dim">{escape(one.under)}</span></figcaption></figure>'
            for one in row
        ]
    return f'<div class="pictures" style="--columns: {columns}">{"".join(figures)}</div>'
