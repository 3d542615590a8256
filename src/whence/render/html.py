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
from whence.render.colour import IMAGE_SCALE_NOTE as PICTURE_SCALE
from whence.render.colour import (
    TEXT_SCALE_NOTE,
    Shades,
    compute_shade_colour,
    compute_shades,
    format_target,
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
from whence.render.text import format_input_warnings, list_explanation_notes
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
