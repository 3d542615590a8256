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
