"""Blocks that several reports share: the explanation of one input, its pictures, and where a result comes from.

`payload` is the JSON object of one input's explanations (docs/reference/json.md), `explanation` one of its methods.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whence.render import document as doc
from whence.render.colour import (
    compute_shades,
    format_legend,
    format_target,
    get_colour_scale,
    scale_scores,
)
from whence.render.image_maps import (
    arrange_score_maps,
    decode_display_image,
    describe_score_range,
    encode_png_base64,
)
from whence.render.text import (
    select_top_features,
)

MAPS_NOTE = (
    "The maps over the picture are on the page (--html FILE) and in the picture (--out FILE.png)."
)


def build_tinted_input(
    payload: doc.JsonObject, explanation: doc.JsonObject, plain: str = ""
) -> list[doc.Block]:
    """Return the text, or both texts of a pair, tinted by scores, and the legend; for a picture the legend alone.

    `plain` stands for the text where there are no shades.
    """
    if payload.get("picture"):
        legend = f"{format_legend(payload, explanation)}; {describe_score_range(explanation)}"
        return [doc.Paragraph(legend, "dim")]
    legend, note = format_legend(payload, explanation), get_colour_scale(explanation)["note"] or ""
    blocks: list[doc.Block] = [
        doc.TintedText(pieces, "" if n else legend, "" if n else plain, beside=bool(n))
        for n, pieces in enumerate(_list_pieces(payload, explanation, n) for n in (0, 1))
    ]
    return [*blocks, doc.Paragraph(note, "dim")]


def _list_pieces(
    payload: doc.JsonObject, explanation: doc.JsonObject, segment: int
) -> list[doc.Tint]:
    """Return the pieces of one text: words by score, the text between them, and special tokens."""
    source = payload["input"]["pair" if segment else "text"]
    pieces: list[tuple[int, doc.Tint]] = []
    at = 0
    scores = explanation["word_scores"]
    shades = compute_shades(explanation, scores)
    for word, shade, score in zip(payload["words"], shades, scores, strict=True):
        if word["segment"] != segment:
            continue
        place = word["tokens"][0]
        gap = " " if source is None else source[at : word["start"]]
        at = at if source is None else word["end"]
        pieces += [(place, doc.Tint(gap)), (place, doc.Tint(word["text"], shade, f"{score:+.6g}"))]
    if source is not None and pieces:
        pieces.append((len(payload["tokens"]), doc.Tint(source[at:])))
    scores = explanation["scores"]
    shades = compute_shades(explanation, scores)
    for index, (token, shade) in enumerate(zip(payload["tokens"], shades, strict=True)):
        # A mask token is part of the text, and is shown inside it.
        if token["special"] and token["segment"] == segment and token["start"] is None:
            tint = doc.Tint(token["text"], shade, f"{scores[index]:+.6g}", "special")
            pieces.append((index, tint))
    return [piece for _, piece in sorted(pieces, key=lambda pair: pair[0]) if piece.text]


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
        return doc.Details(
            "All patches, as they lie in the picture", [_build_grid(payload, explanation), about]
        )
    full = get_colour_scale(explanation)["full"] or 1.0
    words = [
        (name, doc.Cell(f"{score:+.6g}", align="right"), doc.Cell("", bar=score / full))
        for name, score in select_top_features(payload, explanation, None)
    ]
    tokens = [
        (
            str(index),
            token["text"],
            "" if token["start"] is None else f"{token['start']}:{token['end']}",
            doc.Cell(f"{score:+.6g}", align="right"),
        )
        for index, (token, score) in enumerate(
            zip(payload["tokens"], explanation["scores"], strict=True)
        )
    ]
    heads = ("word", "score", f"for {format_target(payload['target'])}")
    tables = [doc.Table(heads, words), doc.Table(("#", "token", "characters", "score"), tokens)]
    return doc.Details("All words and tokens", [*tables, about])


def _build_grid(payload: doc.JsonObject, explanation: doc.JsonObject) -> doc.Table:
    """Return the scores of all patches, arranged as in the picture."""
    height, width = payload["picture"]["grid"]
    floor = get_colour_scale(explanation)["floor"]
    tints = scale_scores(explanation["scores"], signed=explanation["signed"], floor=floor)
    cells = [
        doc.Cell(f"{score:.3g}", align="right", tint=float(tint))
        for score, tint in zip(explanation["scores"], tints, strict=True)
    ]
    rows: list[list[str | doc.Cell]] = [
        [str(row + 1), *cells[row * width : (row + 1) * width]] for row in range(height)
    ]
    return doc.Table(["", *map(str, range(1, width + 1))], rows)


def build_pictures(payloads: Sequence[doc.JsonObject]) -> list[doc.Block]:
    """Return a picture and its maps side by side, with one payload per class; empty without a picture."""
    if not payloads[0].get("picture"):
        return []
    pixels = decode_display_image(payloads[0])
    name = str(payloads[0]["picture"].get("name") or "")
    own = (pixels, "the picture", name or "as the model sees it", f"the picture {name}")
    rows = [
        [
            (one.pixels, one.method, f"for {one.title}", f"{one.method} for {one.title}")
            for one in row
        ]
        for row in arrange_score_maps(payloads, pixels)
    ]
    figures = [
        [
            doc.Picture(
                encode_png_base64(drawn), (drawn.shape[0], drawn.shape[1]), title, under, alt
            )
            for drawn, title, under, alt in row
        ]
        for row in [[own, *rows[0]], *rows[1:]]
    ]
    return [doc.Details("", [doc.Pictures(figures)], instead=[doc.Paragraph(MAPS_NOTE, "dim")])]


def build_provenance(payload: doc.JsonObject, **more: Mapping[str, Any]) -> doc.Details:
    """Return the model and the provenance of a result, folded away on a page."""
    return doc.Details("Where this comes from", [doc.FactList(list(_list_facts(payload, more)))])


def _list_facts(
    payload: doc.JsonObject, more: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    for facts in (payload.get("model", {}), *more.values(), payload["provenance"]):
        yield from ((str(name), str(value)) for name, value in facts.items())


def build_top_table(
    payload: doc.JsonObject, explanation: doc.JsonObject, top: int | None
) -> doc.Table:
    """Return the words or patches with the largest scores, with bars; all of them if `top` is None."""
    full = get_colour_scale(explanation)["full"] or 1.0
    features = select_top_features(payload, explanation, top)
    rows = [
        (name, doc.Cell(f"{score:+.3g}", align="right"), doc.Cell("", bar=score / full))
        for name, score in features
    ]
    return doc.Table((), rows)
