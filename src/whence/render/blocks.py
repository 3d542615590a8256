"""Blocks that several reports share: the explanation of one input, its pictures, and where a result comes from.

`payload` is the JSON object of one input's explanations (docs/reference/json.md), `explanation` one of its methods.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.render import document as doc
from whence.render.colour import (
    compute_shades,
    format_target,
    get_colour_scale,
    scale_scores,
)
from whence.render.image_maps import (
    Pixels,
    arrange_score_maps,
    decode_display_image,
    describe_score_range,
    encode_png_base64,
)

MAPS_NOTE = (
    "The maps over the picture are on the page (--html FILE) and in the picture (--out FILE.png)."
)


def build_tinted_input(
    payload: doc.JsonObject, explanation: doc.JsonObject, plain: str = ""
) -> list[doc.Block]:
    """Return the text, or both texts of a pair, tinted by scores, and the legend; for a picture the legend alone.

    The pieces of a text are words by score, the text between them, and special tokens. `plain` stands for the text where
    there are no shades.
    """
    target, scale = format_target(payload["target"]), get_colour_scale(explanation)
    more = "brighter" if payload.get("picture") else "stronger"
    no_sign = f"this method has no sign: it may count for {target} or against"
    colours = (
        f"blue speaks for {target}, orange against it"
        if explanation["signed"]
        else f"the {more}, the larger the score; {no_sign}"
    )
    legend = f"{colours}; {scale['legend']}"
    if payload.get("picture"):
        return [doc.Paragraph(f"{legend}; {describe_score_range(explanation)}", "dim")]
    blocks: list[doc.Block] = []
    words, word_scores = payload["words"], explanation["word_scores"]
    word_shades = compute_shades(explanation, word_scores)
    tokens, scores = payload["tokens"], explanation["scores"]
    shades = compute_shades(explanation, scores)
    for segment, part in enumerate(("text", "pair")):
        source, at = payload["input"][part], 0
        pieces: list[tuple[int, doc.Tint]] = []
        for word, shade, score in zip(words, word_shades, word_scores, strict=True):
            if word["segment"] != segment:
                continue
            place = word["tokens"][0]
            gap = " " if source is None else source[at : word["start"]]
            at = at if source is None else word["end"]
            tint = doc.Tint(word["text"], shade, f"{score:+.6g}")
            pieces += [(place, doc.Tint(gap)), (place, tint)]
        if source is not None and pieces:
            pieces.append((len(tokens), doc.Tint(source[at:])))
        for place, (token, shade) in enumerate(zip(tokens, shades, strict=True)):
            # A mask token is part of the text, and is shown inside it.
            if token["special"] and token["segment"] == segment and token["start"] is None:
                tint = doc.Tint(token["text"], shade, f"{scores[place]:+.6g}", "special")
                pieces.append((place, tint))
        ordered = [piece for _, piece in sorted(pieces, key=lambda pair: pair[0]) if piece.text]
        above = ("", "") if segment else (legend, plain)
        blocks.append(doc.TintedText(ordered, *above, beside=bool(segment)))
    return [*blocks, doc.Paragraph(scale["note"] or "", "dim")]


def build_score_details(payload: doc.JsonObject, explanation: doc.JsonObject) -> doc.Details:
    """Return all scores, with the parameters and the cost, folded away."""
    passes, seconds = explanation.get("passes"), explanation.get("seconds")
    chosen = ", ".join(f"{name} = {value}" for name, value in explanation["params"].items())
    facts = f"of the {explanation.get('of', payload['target']['of'])} of {format_target(payload['target'])}"
    facts = f"{facts}; {chosen or 'no parameters'}"
    if passes:
        facts += f"; forward passes {passes['forward']}, backward passes {passes['backward']}"
    if seconds is not None:
        facts += f", {seconds:.3f} s"
    about = doc.Paragraph(facts, "dim")
    if payload.get("picture"):
        (height, width), scores = payload["picture"]["grid"], explanation["scores"]
        floor = get_colour_scale(explanation)["floor"]
        tints = scale_scores(scores, signed=explanation["signed"], floor=floor)
        cells = [
            doc.Cell(f"{score:.3g}", align="right", tint=float(tint))
            for score, tint in zip(scores, tints, strict=True)
        ]
        rows: list[list[str | doc.Cell]] = [
            [str(row + 1), *cells[row * width : (row + 1) * width]] for row in range(height)
        ]
        grid = doc.Table(["", *map(str, range(1, width + 1))], rows)
        return doc.Details("All patches, as they lie in the picture", [grid, about])
    tokens = []
    scored = zip(payload["tokens"], explanation["scores"], strict=True)
    for index, (token, score) in enumerate(scored):
        place = "" if token["start"] is None else f"{token['start']}:{token['end']}"
        value = doc.Cell(f"{score:+.6g}", align="right")
        tokens.append((str(index), token["text"], place, value))
    heads = ("word", "score", f"for {format_target(payload['target'])}")
    words = build_top_table(payload, explanation, heads=heads, digits=6)
    table = doc.Table(("#", "token", "characters", "score"), tokens)
    return doc.Details("All words and tokens", [words, table, about])


def build_pictures(payloads: Sequence[doc.JsonObject]) -> list[doc.Block]:
    """Return a picture and its maps side by side, with one payload per class; empty without a picture."""
    if not payloads[0].get("picture"):
        return []
    pixels = decode_display_image(payloads[0])
    name = str(payloads[0]["picture"].get("name") or "")
    figures = [
        [
            _build_picture(
                one.pixels, one.method, f"for {one.title}", f"{one.method} for {one.title}"
            )
            for one in row
        ]
        for row in arrange_score_maps(payloads, pixels)
    ]
    own = _build_picture(
        pixels, "the picture", name or "as the model sees it", f"the picture {name}"
    )
    figures[0].insert(0, own)
    return [doc.Details("", [doc.Pictures(figures)], instead=[doc.Paragraph(MAPS_NOTE, "dim")])]


def _build_picture(pixels: Pixels, title: str, under: str, alt: str) -> doc.Picture:
    height, width = pixels.shape[:2]
    return doc.Picture(encode_png_base64(pixels), (height, width), title, under, alt)


def build_badge(verdict: str, sign: str = "") -> doc.Cell:
    """Return a verdict in its tone."""
    tone = doc.VERDICT_TONES.get(verdict, "")
    return doc.Cell(f"{sign} {verdict}".strip(), tone, badge=True)


def build_provenance(payload: doc.JsonObject, **more: Mapping[str, Any]) -> doc.Details:
    """Return the model and the provenance of a result, folded away on a page."""
    facts = [
        (str(name), str(value))
        for part in (payload.get("model", {}), *more.values(), payload["provenance"])
        for name, value in part.items()
    ]
    return doc.Details("Where this comes from", [doc.FactList(facts)])


def build_top_table(
    payload: doc.JsonObject,
    explanation: doc.JsonObject,
    top: int | None = None,
    heads: Sequence[str] = (),
    digits: int = 3,
) -> doc.Table:
    """Return the words or patches with the largest scores, with bars; all of them if `top` is None."""
    full = get_colour_scale(explanation)["full"] or 1.0
    names = (word["text"] for word in payload["words"])
    pairs = zip(names, explanation["word_scores"], strict=True)
    rows = [
        (name, doc.Cell(f"{score:+.{digits}g}", align="right"), doc.Cell("", bar=score / full))
        for name, score in sorted(pairs, key=lambda pair: -abs(pair[1]))[:top]
    ]
    return doc.Table(heads, rows)
