"""Documents of explanations and of generated answers.

In the matrix of an answer, rows are pieces of the prompt and columns parts of the answer. `share` is a piece's part of
the size of all scores; `by length` is the part that an explanation which knows nothing would give it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whence.explain.word_scores import (
    ColourScale,
    SegmentScore,
    WordAggregation,
    compute_colour_scale,
    sum_by_segment,
)
from whence.render.blocks import (
    build_pictures,
    build_provenance,
    build_score_details,
    build_tinted_input,
    build_top_table,
)
from whence.render.colour import IMAGE_SCALE_NOTE, TEXT_SCALE_NOTE, format_target
from whence.render.document import (
    Block,
    Cell,
    Details,
    Document,
    Heading,
    JsonObject,
    Paragraph,
    Section,
    Table,
    Tint,
    TintedText,
    Tone,
)
from whence.render.images import describe_group_prediction, group_by_image
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
# Pieces in the matrix and characters of each; the weakest beyond are merged into one row.
_PAGE_PIECES, _PAGE_WIDTH = 300, 160
_LINE_PIECES, _LINE_WIDTH, _HEAD_WIDTH = 14, 32, 9


def build_document(
    payloads: Sequence[JsonObject], top: int = 10, title: str = PAGE_TITLE, *, listed: bool = False
) -> Document:
    """Return the document of the explanations of one input or several; `listed` lists the predictions first."""
    groups = group_by_image(payloads)
    notes = [IMAGE_SCALE_NOTE if own[0].get("picture") else TEXT_SCALE_NOTE for own in groups]
    sections = [_build_section(own, top) for own in groups]
    if listed:
        rows = [
            (str(n), Cell(describe_prediction(one), "strong")) for n, one in enumerate(payloads, 1)
        ]
        sections.insert(0, Section("", [Table((), rows)]))
    return Document(title, sections, " ".join(dict.fromkeys(notes)))


def _build_section(own: Sequence[JsonObject], top: int) -> Section:
    """Return the section of one input; several payloads are several classes of one picture."""
    first = own[0]
    blocks: list[Block] = [
        Paragraph(format_input_warnings(first), "warning"),
        _build_probability_table(first["prediction"]),
        *build_pictures(own),
    ]
    for payload in own:
        for explanation in payload["explanations"]:
            blocks += _build_explanation_blocks(payload, explanation, top)
    title = f"{first['model']['name']}: {describe_group_prediction(own)}"
    return Section(title, [*blocks, build_provenance(first)])


def _build_explanation_blocks(
    payload: JsonObject, explanation: JsonObject, top: int
) -> list[Block]:
    """Return one explanation: the text tinted, the strongest words or patches, notes, and all scores folded away."""
    target = format_target(payload["target"])
    return [
        Heading(f"{explanation['method']} for {target}{format_unit(explanation)}"),
        *build_tinted_input(payload, explanation),
        build_top_table(payload, explanation, top),
        *(Paragraph(note, "dim") for note in _list_explanation_notes(payload, explanation)),
        build_score_details(payload, explanation),
    ]


def _build_probability_table(prediction: JsonObject) -> Details:
    """Return the eight most probable labels with bars, which a page shows."""
    shares = sorted(prediction["probabilities"].items(), key=lambda pair: -pair[1])[:8]
    rows = [
        (label, Cell(f"{share:.1%}", align="right"), Cell("", bar=share)) for label, share in shares
    ]
    return Details("", [Table((), rows)])


def _format_axioms(explanation: JsonObject) -> str:
    """Return an explanation's axiom residuals; those of layers ("conservation.layer0") together."""
    alone, layered = [], dict[str, list[str]]()
    for name, residual in explanation["axioms"].items():
        axiom, _, layer = name.replace("_", " ").partition(".")
        if layer:
            layered.setdefault(axiom, []).append(f"{residual:.1e}")
        else:
            alone.append(f"{axiom}: off by {residual:.1e}")
    layers = [f"{axiom} by layer: off by {', '.join(off)}" for axiom, off in layered.items()]
    return "; ".join([*alone, *layers])


def _format_segments(payload: JsonObject, explanation: JsonObject) -> str:
    """Return the shares of the two texts of a pair in an explanation; empty for a single text.

    Methods whose word scores are no sums have no total.
    """
    adds_up = explanation.get("words_by", "sum") == "sum"
    segments = _sum_segments(payload, explanation)
    tokens = sum(segment.tokens for segment in segments)
    parts = []
    for name, segment in zip(("first", "second"), segments, strict=False):
        size = "no score" if segment.share is None else f"{segment.share:.0%} of all scores by size"
        chance = f"{segment.tokens / tokens:.0%} of the tokens"
        total = f" {segment.total:+.3g}," if adds_up else ""
        parts.append(f"{name} text{total} {size} ({chance})")
    return "; ".join(parts)


def _list_explanation_notes(payload: JsonObject, explanation: JsonObject) -> list[str]:
    """Return the notes below an explanation: contrast, word scores, segments and axiom residuals."""
    contrast = payload["provenance"].get(
        "contrast", ""
    )  # how a contrast of long answers was formed
    notes = (
        contrast,
        _format_word_note(payload, explanation),
        _format_segments(payload, explanation),
        _format_axioms(explanation),
    )
    return [note for note in notes if note]


def _sum_segments(payload: JsonObject, explanation: JsonObject) -> list[SegmentScore]:
    """Sum the scores of an explanation by text of a pair; return an empty list for a single text."""
    tokens = payload["tokens"]
    segments = sum_by_segment(
        [token["segment"] for token in tokens],
        [token["special"] for token in tokens],
        explanation["scores"],
    )
    return segments if len(segments) > 1 else []


_WORD_NOTES: dict[WordAggregation, str] = {
    "sum": "",
    "mean": "the score of a word in several pieces is the mean of theirs, not what happens without the word",
    "measured": "the score of a word in several pieces was measured without the whole word; it is not their sum",
}


def _format_word_note(payload: JsonObject, explanation: JsonObject) -> str:
    """Return a note on how word scores are computed, if some word has several tokens."""
    by: WordAggregation = explanation.get("words_by", "sum")
    return _WORD_NOTES[by] if any(len(word["tokens"]) > 1 for word in payload["words"]) else ""


def build_generation_document(payload: JsonObject) -> Document:
    """Return the document of a generated answer."""
    total: ColourScale = payload.get("total_scale") or compute_colour_scale(
        [piece["total"] for piece in payload["pieces"] if not piece["special"]],
        "relative",
        part="piece",
    )
    unit = format_unit(payload)
    blocks: list[Block] = [
        Paragraph(_describe_setting(payload), "dim"),
        *(Paragraph(note, "warning") for note in _list_notes(payload)),
        Heading(f"The prompt, over the whole answer{unit}"),
        TintedText(list(_list_prompt_pieces(payload, total["full"] or 1.0))),
        Paragraph(_format_scale(total), "dim"),
        Heading("Piece by piece"),
        Details(
            "",
            [_build_matrix(payload, _PAGE_PIECES, _PAGE_WIDTH, _PAGE_WIDTH)],
            instead=[_build_matrix(payload, _LINE_PIECES, _LINE_WIDTH, _HEAD_WIDTH)],
        ),
        Paragraph(_format_matrix_legend(payload), "dim"),
        Paragraph(_SHARE_LEGEND, "dim"),
        Paragraph(_describe_cost(payload), "dim"),
        build_provenance(payload),
    ]
    title = f"{payload['model']['name']}: {_describe_answer(payload)}"
    return Document(_GENERATION_TITLE, [Section(title, blocks)], _GENERATION_FOOT)


@dataclass(frozen=True)
class _PieceRow:
    """One row of the score matrix: a piece, several weak pieces together, or the answer so far."""

    text: str
    cells: tuple[float, ...]  # one for each part of the answer
    total: float
    share: float | None = None
    chance: float | None = None
    special: bool = False
    marked: bool = False


def _shorten(text: str, most: int = 0) -> str:
    """Return a text on one line, cut in its middle if it is longer than `most` characters."""
    line = " ".join(to_line(text).split()) or repr(text)[1:-1].strip() or "(space)"
    if not most or len(line) <= most:
        return line
    head = (most - 1) * 2 // 3
    tail = most - 1 - head
    return f"{line[:head]}…{line[-tail:]}" if tail else f"{line[:head]}…"


def _describe_answer(payload: JsonObject) -> str:
    """Return the generated answer on one line."""
    answer = payload["text"]
    if answer is None:
        answer = " ".join(token["text"] for token in payload["output_tokens"])
    return _shorten(answer) or "(nothing)"


def _describe_setting(payload: JsonObject) -> str:
    """Return a phrase on method, granularity and number of tokens."""
    count = len(payload["output_tokens"])
    rather = ", each rather than the likeliest other" if payload["contrast"] else ""
    return f"{payload['method']}, by {payload['granularity']}, {count} token{'s' * (count != 1)}{rather}"


def _format_matrix_legend(payload: JsonObject) -> str:
    """Return the legend of the matrix: the meaning of its colours and figures."""
    what = (
        "blue speaks for the part of the answer above it, orange against it"
        if payload["signed"]
        else "the stronger, the larger the score; this method has no sign"
    )
    scale = _get_scale(payload)
    legend = f"{what}; figures are hundredths of full colour, special tokens do not set the scale; {scale['legend']}"
    return f"{legend}. {scale['note']}" if scale["note"] else legend


def _describe_cost(payload: JsonObject) -> str:
    """Return a phrase on the cost: steps, passes and seconds."""
    passes = payload["passes"]
    return (
        f"{passes['decode']} steps to generate, {passes['forward']} forward and {passes['backward']} backward passes "
        f"to explain, {payload['seconds']:.2f} s"
    )


def _get_scale(payload: JsonObject) -> ColourScale:
    """Return the colour scale of the matrix; an older file without one gets a scale without a unit."""
    scale: ColourScale | None = payload.get("scale")
    if scale is not None:
        return scale
    plain = [i for i, piece in enumerate(payload["pieces"]) if not piece["special"]]
    cells = [row[i] for row in payload["matrix"] for i in plain]
    return compute_colour_scale(cells, "relative", part="piece")


def _build_piece_rows(payload: JsonObject, most: int | None = None) -> list[_PieceRow]:
    """Return a row per piece in prompt order, one for the weakest beyond `most`, one for the answer."""
    pieces, matrix = payload["pieces"], payload["matrix"]
    columns = [tuple(cells[i] for cells in matrix) for i in range(len(pieces))]
    strength = [sum(map(abs, column)) for column in columns]
    order = sorted(range(len(pieces)), key=lambda i: (-strength[i], i))
    strongest = sorted(order if most is None or len(order) <= most + 1 else order[:most])
    rows = [
        _PieceRow(
            _shorten(pieces[i]["text"]),
            columns[i],
            pieces[i]["total"],
            pieces[i]["share"],
            pieces[i]["chance"],
            pieces[i]["special"],
            pieces[i]["marked"],
        )
        for i in strongest
    ]
    if rest := [i for i in range(len(pieces)) if i not in set(strongest)]:
        rows.append(_merge_rows(payload, rest, columns))
    before = tuple(sum(cells) for cells in payload["earlier"])
    if len(before) > 1:
        rows.append(_PieceRow(EARLIER_LABEL, before, sum(before), special=True))
    return rows


def _merge_rows(
    payload: JsonObject, numbers: Sequence[int], columns: Sequence[tuple[float, ...]]
) -> _PieceRow:
    pieces = [payload["pieces"][i] for i in numbers]
    cells = tuple(sum(values) for values in zip(*(columns[i] for i in numbers), strict=True))
    shares = [piece["share"] for piece in pieces if piece["share"] is not None]
    chances = [piece["chance"] for piece in pieces if piece["chance"] is not None]
    return _PieceRow(
        f"({len(numbers)} weaker ones)",
        cells,
        sum(piece["total"] for piece in pieces),
        sum(shares) if shares else None,
        sum(chances) if chances else None,
    )


def _format_hundredths(value: float, scale: float) -> str:
    """Format a score in hundredths of full colour, with a sign unless it is 0."""
    written = f"{100 * value / scale:+.0f}"
    return "0" if written in ("+0", "-0") else written


def _list_notes(payload: JsonObject) -> list[str]:
    """Return the notes on a generation: input warnings, and a full context."""
    notes = [format_input_warnings(payload)]
    if payload.get("full"):
        notes.append(
            f"The model's context is full after {len(payload['output_tokens'])} tokens: it cannot go on."
        )
    return [note for note in notes if note]


def _format_scale(scale: ColourScale) -> str:
    return f"{scale['legend']}. {scale['note']}" if scale["note"] else scale["legend"]


def _list_prompt_pieces(payload: JsonObject, full: float) -> Iterator[Tint]:
    """Yield the prompt, each piece on the colour of its total, and the answer after it."""
    text, at = payload["input"]["text"], 0
    for piece in payload["pieces"]:
        known = text is not None and piece["start"] is not None
        if piece["special"] or (known and piece["start"] < at):  # part of a character shown before
            continue
        yield Tint(text[at : piece["start"]] if known else " ")
        at = piece["end"] if known else at
        shade = max(-1.0, min(1.0, piece["total"] / full))
        title = f"{piece['total']:+.6g}"
        yield Tint(piece["text"], shade, title, "marked" if piece["marked"] else "")
    yield Tint(text[at:] if text is not None else "")
    answer = payload["text"] if payload["text"] is not None else " " + _describe_answer(payload)
    yield Tint(answer, title="the answer", kind="marked")


def _build_matrix(payload: JsonObject, most: int, width: int, head_width: int) -> Table:
    """Return the scores of pieces by parts of the answer, in hundredths of full colour."""
    scale = _get_scale(payload)["full"] or 1.0
    heads = [
        Cell(_shorten(output["text"], head_width), "strong", align="right")
        for output in payload["outputs"]
    ]
    rows = []
    for row in _build_piece_rows(payload, most):
        parts = ["" if part is None else f"{part:.1%}" for part in (row.share, row.chance)]
        sums = [Cell(text, align="right") for text in (f"{row.total:+.3g}", *parts)]
        cells = [
            Cell(
                _format_hundredths(value, scale),
                align="right",
                tint=max(-1.0, min(1.0, value / scale)),
                title=f"{value:+.6g}",
            )
            for value in row.cells
        ]
        tone: Tone = "strong" if row.marked else "dim" if row.special else ""
        rows.append([Cell(_shorten(row.text, width), tone), *sums, *cells])
    likely = (format_probability(output["probability"]) for output in payload["outputs"])
    blank = [Cell("", align="right")] * 3
    last = (Cell(text, "dim", align="right") for text in likely)
    rows.append([Cell("probability", "dim"), *blank, *last])
    return Table(["", "sum", "share", "by length", *heads], rows, wide="split")
