"""Documents of explanations and of generated answers.

In the matrix of an answer, rows are pieces of the prompt and columns parts of the answer. `share` is a piece's part of
the size of all scores; `by length` is the part that an explanation which knows nothing would give it.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from whence.explain.word_scores import (
    ColourScale,
    WordAggregation,
    compute_colour_scale,
    sum_by_segment,
)
from whence.render import document as doc
from whence.render.blocks import (
    build_pictures,
    build_provenance,
    build_score_details,
    build_tinted_input,
    build_top_table,
)
from whence.render.colour import IMAGE_SCALE_NOTE, TEXT_SCALE_NOTE, format_target
from whence.render.text import (
    describe_prediction,
    format_input_warnings,
    format_probability,
    format_unit,
    to_line,
)

PAGE_TITLE = "whence: why did the model say that?"
_GENERATION_TITLE = "whence: what did the answer come from?"
_GENERATION_FOOT = "Full colour is the largest |score| of a piece; special tokens are shown and do not set the scale."
EARLIER_LABEL = "(said before)"
_SHARE_LEGEND = (
    "share: the part of the size of all scores that fell on the piece, of the prompt's text; by length: the "
    "part that an explanation which knows nothing would give it."
)
_MATRIX_LEGEND = "figures are hundredths of full colour, special tokens do not set the scale"
# Pieces in the matrix and characters of each; the weakest beyond are merged into one row.
_PAGE_PIECES, _PAGE_WIDTH = 300, 160
_LINE_PIECES, _LINE_WIDTH, _HEAD_WIDTH = 14, 32, 9


def build_document(
    payloads: Sequence[doc.JsonObject],
    top: int = 10,
    title: str = PAGE_TITLE,
    *,
    listed: bool = False,
) -> doc.Document:
    """Return the document of the explanations of one input or several; `listed` lists the predictions first."""
    # Consecutive payloads of one picture are several classes of it, and share a section.
    runs = groupby(enumerate(payloads), lambda pair: pair[1].get("picture") or pair[0])
    groups = [[payload for _, payload in run] for _, run in runs]
    sections = []
    if listed:
        rows = [
            (str(n), doc.Cell(describe_prediction(one), "strong"))
            for n, one in enumerate(payloads, 1)
        ]
        sections.append(doc.Section("", [doc.Table((), rows)]))
    for own in groups:
        first = own[0]
        # Eight labels at most; only a page shows their shares, as text names the likeliest.
        shares = sorted(first["prediction"]["probabilities"].items(), key=lambda pair: -pair[1])[:8]
        bars = [
            (name, doc.Cell(f"{p:.1%}", align="right"), doc.Cell("", bar=p)) for name, p in shares
        ]
        warning = doc.Paragraph(format_input_warnings(first), "warning")
        blocks: list[doc.Block] = [warning, doc.Details("", [doc.Table((), bars)])]
        blocks += build_pictures(own) if first.get("picture") else []
        for payload in own:
            target = format_target(payload["target"])
            for explanation in payload["explanations"]:
                blocks += [
                    doc.Heading(f"{explanation['method']} for {target}{format_unit(explanation)}"),
                    *build_tinted_input(payload, explanation),
                    build_top_table(payload, explanation, top),
                    *(doc.Paragraph(note, "dim") for note in _list_notes(payload, explanation)),
                    build_score_details(payload, explanation),
                ]
        prediction = describe_prediction(first, with_target=len(own) == 1)
        title_of_input = f"{first['model']['name']}: {prediction}"
        sections.append(doc.Section(title_of_input, [*blocks, build_provenance(first)]))
    notes = [IMAGE_SCALE_NOTE if own[0].get("picture") else TEXT_SCALE_NOTE for own in groups]
    return doc.Document(title, sections, " ".join(dict.fromkeys(notes)))


_WORD_NOTES: dict[WordAggregation, str] = {
    "sum": "",
    "mean": "the score of a word in several pieces is the mean of theirs, not what happens without the word",
    "measured": "the score of a word in several pieces was measured without the whole word; it is not their sum",
}


def _list_notes(payload: doc.JsonObject, explanation: doc.JsonObject) -> Iterator[str]:
    """Yield how a contrast of long answers and scores of words were formed, texts of a pair, and axioms."""
    yield payload["provenance"].get("contrast", "")
    by: WordAggregation = explanation.get("words_by", "sum")
    yield _WORD_NOTES[by] if any(len(word["tokens"]) > 1 for word in payload["words"]) else ""
    # The shares of the two texts of a pair. Effects have no total.
    places = [token["segment"] for token in payload["tokens"]]
    special = [token["special"] for token in payload["tokens"]]
    segments = sum_by_segment(places, special, explanation["scores"]) if any(places) else []
    count = sum(segment.tokens for segment in segments)
    parts = []
    for name, one in zip(("first", "second"), segments if len(segments) > 1 else (), strict=False):
        size = "no score" if one.share is None else f"{one.share:.0%} of all scores by size"
        total = f" {one.total:+.3g}," if by == "sum" else ""
        parts.append(f"{name} text{total} {size} ({one.tokens / count:.0%} of the tokens)")
    yield "; ".join(parts)
    alone, layered = [], dict[str, list[str]]()
    for name, residual in explanation["axioms"].items():
        axiom, _, layer = name.replace("_", " ").partition(".")
        if layer:
            layered.setdefault(axiom, []).append(f"{residual:.1e}")
        else:
            alone.append(f"{axiom}: off by {residual:.1e}")
    layers = [f"{axiom} by layer: off by {', '.join(off)}" for axiom, off in layered.items()]
    yield "; ".join([*alone, *layers])


def build_generation_document(payload: doc.JsonObject) -> doc.Document:
    """Return the document of a generated answer."""
    tokens, passes = payload["output_tokens"], payload["passes"]
    plain = [place for place, piece in enumerate(payload["pieces"]) if not piece["special"]]
    # Files of older versions have no scales, and get them without a unit.
    totals = [payload["pieces"][place]["total"] for place in plain]
    total = payload.get("total_scale") or compute_colour_scale(totals, "relative", part="piece")
    values = [row[place] for row in payload["matrix"] for place in plain]
    scale = payload.get("scale") or compute_colour_scale(values, "relative", part="piece")
    signs = (
        "blue speaks for the part of the answer above it, orange against it"
        if payload["signed"]
        else "the stronger, the larger the score; this method has no sign"
    )
    written = " ".join(token["text"] for token in tokens)
    answer = written if payload["text"] is None else payload["text"]
    rather = ", each rather than the likeliest other" if payload["contrast"] else ""
    count = f"{len(tokens)} token{'s' * (len(tokens) != 1)}"
    full = f"The model's context is full after {len(tokens)} tokens: it cannot go on."
    end = doc.Tint(answer if payload["text"] else f" {answer}")
    page = _build_matrix(payload, scale, _PAGE_PIECES, _PAGE_WIDTH, _PAGE_WIDTH)
    lines = _build_matrix(payload, scale, _LINE_PIECES, _LINE_WIDTH, _HEAD_WIDTH)
    cost = (
        f"{passes['decode']} steps to generate, {passes['forward']} forward and {passes['backward']} backward "
        f"passes to explain, {payload['seconds']:.2f} s"
    )
    blocks: list[doc.Block] = [
        doc.Paragraph(f"{payload['method']}, by {payload['granularity']}, {count}{rather}", "dim"),
        doc.Paragraph(format_input_warnings(payload), "warning"),
        doc.Paragraph(full if payload.get("full") else "", "warning"),
        doc.Heading(f"The prompt, over the whole answer{format_unit(payload)}"),
        doc.TintedText([*_list_prompt_pieces(payload, total["full"] or 1.0), end]),
        doc.Paragraph(_format_scale(total), "dim"),
        doc.Heading("Piece by piece"),
        doc.Details("", [page], instead=[lines]),
        doc.Paragraph(f"{signs}; {_MATRIX_LEGEND}; {_format_scale(scale)}", "dim"),
        doc.Paragraph(_SHARE_LEGEND, "dim"),
        doc.Paragraph(cost, "dim"),
        build_provenance(payload),
    ]
    title = f"{payload['model']['name']}: {_shorten(answer)}"
    return doc.Document(_GENERATION_TITLE, [doc.Section(title, blocks)], _GENERATION_FOOT)


def _format_scale(scale: ColourScale) -> str:
    return f"{scale['legend']}. {scale['note']}" if scale["note"] else scale["legend"]


def _shorten(text: str, most: int = 10**6) -> str:
    """Return a text on one line, cut in its middle if it is longer than `most` characters."""
    line = to_line(text) or repr(text)[1:-1].strip() or "(space)"
    head = (most - 1) * 2 // 3
    return line if len(line) <= most else f"{line[:head]}…{line[len(line) - (most - 1 - head) :]}"


def _list_prompt_pieces(payload: doc.JsonObject, full: float) -> Iterator[doc.Tint]:
    """Yield the prompt, each piece on the colour of its total."""
    text, at = payload["input"]["text"], 0
    for piece in payload["pieces"]:
        known = text is not None and piece["start"] is not None
        if piece["special"] or (known and piece["start"] < at):  # part of a character shown before
            continue
        yield doc.Tint(text[at : piece["start"]] if known else " ")
        at = piece["end"] if known else at
        shade = max(-1.0, min(1.0, piece["total"] / full))
        title = f"{piece['total']:+.6g}"
        yield doc.Tint(piece["text"], shade, title, "marked" if piece["marked"] else "")
    yield doc.Tint("" if text is None else text[at:])


def _build_matrix(
    payload: doc.JsonObject, scale: ColourScale, most: int, width: int, head_width: int
) -> doc.Table:
    """Return the scores of pieces by parts of the answer, in hundredths of full colour.

    Rows are the `most` strongest pieces in the order of the prompt, the others summed up, and the answer so far.
    """
    pieces, matrix, outputs = payload["pieces"], payload["matrix"], payload["outputs"]
    columns = [[row[place] for row in matrix] for place in range(len(pieces))]
    order = sorted(range(len(pieces)), key=lambda place: -sum(map(abs, columns[place])))
    chosen = set(order if len(order) <= most + 1 else order[:most])
    rows = [
        _build_matrix_row(pieces[place], columns[place], scale, width) for place in sorted(chosen)
    ]
    if rest := order[len(chosen) :]:
        weak: dict[str, Any] = {"text": f"({len(rest)} weaker ones)"}
        for name in ("total", "share", "chance"):
            known = [pieces[place][name] for place in rest if pieces[place][name] is not None]
            weak[name] = sum(known) if known else None
        sums = [sum(row[place] for place in rest) for row in matrix]
        rows.append(_build_matrix_row(weak, sums, scale, width))
    if len(payload["earlier"]) > 1:
        before = [sum(cells) for cells in payload["earlier"]]
        about = {"text": EARLIER_LABEL, "total": sum(before), "special": True}
        rows.append(_build_matrix_row(about, before, scale, width))
    likely = (format_probability(output["probability"]) for output in outputs)
    texts = ("probability", "", "", "", *likely)
    rows.append([doc.Cell(text, "dim", align="right") for text in texts])
    heads = (
        doc.Cell(_shorten(one["text"], head_width), "strong", align="right") for one in outputs
    )
    return doc.Table(["", "sum", "share", "by length", *heads], rows, wide="split")


def _build_matrix_row(
    piece: doc.JsonObject, values: Sequence[float], scale: ColourScale, width: int
) -> list[doc.Cell]:
    full = scale["full"] or 1.0
    tone: doc.Tone = "strong" if piece.get("marked") else "dim" if piece.get("special") else ""
    shares = (piece.get(name) for name in ("share", "chance"))
    sums = [f"{piece['total']:+.3g}", *("" if one is None else f"{one:.1%}" for one in shares)]
    row = [doc.Cell(_shorten(piece["text"], width), tone)]
    row += [doc.Cell(text, align="right") for text in sums]
    for value in values:
        text = f"{round(100 * value / full) or 0:+d}".replace("+0", "0")
        tint = max(-1.0, min(1.0, value / full))
        row.append(doc.Cell(text, align="right", tint=tint, title=f"{value:+.6g}"))
    return row
