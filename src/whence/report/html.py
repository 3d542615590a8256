"""One HTML file: no script, no network, every piece of text escaped."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.text import axioms, cut, headline
from whence.view.shade import SCALE, colour, shades, target_name

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
<p class="dim">{scale}</p>
</main>
</body>
</html>
"""


def page(
    payloads: Sequence[dict[str, Any]], title: str = "whence: why did the model say that?"
) -> str:
    """Return a whole page about one input or several."""
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        body="\n".join(_section(payload) for payload in payloads),
        scale=escape(SCALE),
    )


def fragment(payload: dict[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return f'<div class="whence"><style>{_STYLE}</style>{_section(payload)}</div>'


def _section(payload: dict[str, Any]) -> str:
    note = cut(payload)
    return "\n".join(
        [
            "<section>",
            f"<h2>{escape(headline(payload))}</h2>",
            f'<p class="dim">{escape(payload["model"]["name"])}</p>',
            f"<p><strong>{escape(note)}</strong></p>" if note else "",
            _probabilities(payload["prediction"]),
            *(_explanation(payload, explanation) for explanation in payload["explanations"]),
            _provenance(payload),
            "</section>",
        ]
    )


def _probabilities(prediction: dict[str, Any]) -> str:
    shares = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])[:8]
    rows = "".join(
        f'<span>{escape(label)}</span><i style="width: {share * 100:.2f}%"></i><span>{share:.1%}</span>'
        for label, share in shares
    )
    return f'<div class="share">{rows}</div>' if rows else ""


def _explanation(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    tints = shades(payload, explanation)
    chosen = ", ".join(f"{name} = {value}" for name, value in explanation["params"].items())
    residuals = axioms(explanation)
    passes = explanation["passes"]
    return "\n".join(
        [
            f"<h3>{escape(explanation['method'])}</h3>",
            f'<p class="dim">{escape(tints.legend)}</p>',
            "<figure style='margin: 0'>",
            *(
                _strip(payload, explanation, tints.words, tints.tokens, segment)
                for segment in (0, 1)
            ),
            "</figure>",
            f'<p class="dim">{escape(residuals)}</p>' if residuals else "",
            "<details><summary>All words and tokens</summary>",
            _word_table(payload, explanation, tints.words),
            _token_table(payload, explanation),
            f'<p class="dim">{escape(chosen) or "no parameters"}; forward passes {passes["forward"]:d}, '
            f"backward passes {passes['backward']:d}, {explanation['seconds']:.3f} s</p>",
            "</details>",
        ]
    )


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
        if token["special"] and token["segment"] == segment:
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


def _word_table(
    payload: dict[str, Any], explanation: dict[str, Any], tints: tuple[float, ...]
) -> str:
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


def _token_table(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
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


def _provenance(payload: dict[str, Any]) -> str:
    facts = {**payload["model"], **payload["provenance"]}
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td><td><code>{escape(str(value))}</code></td></tr>"
        for name, value in facts.items()
    )
    return f"<details><summary>Where this comes from</summary><table>{rows}</table></details>"
