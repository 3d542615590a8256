"""Explanations as plain text; sanitising of foreign text; predictions, scores, axioms and data sets in words.

`sanitise_text` replaces control characters: a text must not be able to move the cursor or recolour the
screen. `sanitise_html` also replaces characters that turn the direction of text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from whence.render import document as doc
from whence.render.charts import expand_plot, sketch_plot
from whence.render.colour import format_target

_TEXT_WIDTH = 100  # columns of tables and plots


def flatten(
    blocks: Sequence[doc.Block], *, columns: bool = False, plots: bool = True
) -> list[doc.Block]:
    """Return blocks one below the other, for details what stands instead; columns stay if wanted."""
    flat: list[doc.Block] = []
    for block in doc.drop_empty(blocks):
        match block:
            case doc.Details(_, _, instead):
                flat += flatten(instead, columns=columns, plots=plots)
            case doc.Columns(inner) if not columns:
                flat += flatten(inner, plots=plots)
            case doc.Plot(plot):
                flat += [block, *flatten(expand_plot(plot), columns=columns)] if plots else []
            case _:
                flat.append(block)
    return flat


def select_columns(
    table: doc.Table, width: int, *, bars: bool = False
) -> list[tuple[list[doc.Cell], list[list[doc.Cell]]]]:
    """Return the heads and rows of a table, or of several that fit the width, if it is to be split.

    doc.Columns without text are left out, or with `bars` those without text and bar, and short rows are filled up.
    """
    columns = max(map(len, [table.heads, *table.rows]))
    grid = [
        [*map(doc.to_cell, row), *[doc.Cell("")] * (columns - len(row))]
        for row in [table.heads, *table.rows]
    ]
    used = [
        place
        for place in range(columns)
        if not place or any(row[place].plain or (bars and row[place].bar) for row in grid[1:])
    ]
    widths = [max(len(row[place].plain) for row in grid) for place in used]
    bands: list[list[int]] = [[]]
    taken = widths[0]
    for place, wide in zip(used[1:], widths[1:], strict=True):
        if table.wide == "split" and bands[-1] and taken + 2 + wide > width:
            bands.append([])
            taken = widths[0]
        bands[-1].append(place)
        taken += 2 + wide
    return [
        (
            [grid[0][place] for place in (0, *band)],
            [[row[place] for place in (0, *band)] for row in grid[1:]],
        )
        for band in bands
    ]


def to_line(text: str) -> str:
    """Return a foreign text on one line, without control characters."""
    return " ".join(sanitise_text(text).split())


def write_text_document(document: doc.Document) -> str:
    """Return a document as plain text."""
    sections = document.list_sections()
    parts = []
    for section in sections:
        title = format_heading(section.title, section.badge)
        lines = [title] if title else []
        lines += ["-" * len(title)] if title and len(sections) > 1 else []
        before: doc.Block = doc.Heading("")
        for block in flatten(section.blocks):
            own = list(_format_block(block))
            lines += [""] if own and needs_gap(before, block) else []
            lines += own
            before = block if own else before
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def format_heading(text: str, badge: doc.Cell | None) -> str:
    """Return a heading with its verdict."""
    return to_line(f"{text}: {badge.plain}" if badge and text else badge.plain if badge else text)


def needs_gap(before: doc.Block, block: doc.Block) -> bool:
    """Return whether an empty line stands between two blocks: none between lines, nor below a heading."""
    prose = (doc.Paragraph, doc.Bullets, doc.TintedText)
    both = isinstance(block, prose) and isinstance(before, prose)
    return isinstance(block, doc.Heading) or not (both or isinstance(before, doc.Heading))


def _format_block(block: doc.Block) -> Iterator[str]:
    match block:
        case doc.Heading(text, badge):
            yield format_heading(text, badge)
        case doc.Paragraph(text):
            yield to_line(text)
        case doc.Bullets(lines):
            yield from map(to_line, lines)
        case doc.FactList(pairs):
            yield from (to_line(f"{name}: {text}") for name, text in pairs if text)
        case doc.Table():
            yield from [to_line(block.name)] if block.name else []
            for number, (heads, rows) in enumerate(select_columns(block, _TEXT_WIDTH)):
                yield from [""] if number else []
                yield from align_columns([heads, *rows])
        case doc.TintedText():
            yield from [f"  {to_line(block.plain)}"] if block.plain else []
        case doc.Plot(plot):
            yield from map(sanitise_text, sketch_plot(plot, _TEXT_WIDTH))
        case doc.Code(text):
            yield from (f"    {sanitise_text(line)}" for line in text.splitlines())


def align_columns(rows: Sequence[Sequence[doc.Cell]]) -> list[str]:
    """Return rows as indented lines with aligned columns; an empty row of heads is left out."""
    texts = [[to_line(cell.plain) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    signs = [">" if cell.align == "right" else "<" for cell in rows[1]]
    return [
        f"  {'  '.join(f'{t:{s}{w}}' for t, s, w in zip(line, signs, widths, strict=True))}".rstrip()
        for line in texts
        if any(line)
    ]


def escape_formula(value: Any) -> Any:
    """Quote a text that a spreadsheet would run as a formula; numbers stay as they are."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r\n" and value else value


# Units of scores, as shown beside them.
_UNIT_NOTES = {
    "logit": ", in logits",
    "probability": ", in parts of a probability",
    "value": ", in units of the output",
    "share": ", in parts of a whole",
    "relative": ", without a unit",
}


def format_unit(explanation: Mapping[str, Any]) -> str:
    """Return the unit of an explanation's scores, or an empty string for files of older versions."""
    scale = explanation.get("scale")
    return "" if scale is None else _UNIT_NOTES[scale["unit"]]


def sanitise_text(text: str) -> str:
    """Replace control characters: a text must not be able to move the cursor or recolour the screen."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


_UNSAFE_CHARACTERS = dict.fromkeys(
    [*range(9), *range(0xB, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)],
    "�",
)  # fmt: skip


def sanitise_html(html: str) -> str:
    """Replace control characters and those that change text direction; joiners within words stay."""
    return html.translate(_UNSAFE_CHARACTERS)


def format_probability(probability: float) -> str:
    """Format a probability in percent, or in scientific notation below 0.05%."""
    return f"{probability:.1e}" if 0 < probability < 0.0005 else f"{probability:.1%}"


def describe_prediction(payload: Mapping[str, Any], *, with_target: bool = True) -> str:
    """Describe the prediction, and the target if it is another class."""
    prediction, target = payload["prediction"], payload["target"]
    if prediction["probability"] is None:
        text = f"{prediction['label']} = {prediction['logits'][prediction['index']]:.4g}"
    else:
        text = f"{prediction['label']} ({format_probability(prediction['probability'])})"
    if with_target and (target.get("against") or target["index"] != prediction["index"]):
        text += f"; explained: {format_target(target)}"
    if payload["model"]["class"].endswith("ForTokenClassification") and payload.get("read"):
        text = f"{_format_output_words(payload)}: {text}"
    return sanitise_text(text)


def _format_output_words(payload: Mapping[str, Any]) -> str:
    """Return the words at whose positions the output was read."""
    places = set(payload["read"])
    words = [word for word in payload["words"] if places.intersection(word["tokens"])]
    if not words:
        return " ".join(payload["tokens"][place]["text"] for place in sorted(places))
    first, last = words[0], words[-1]
    source = payload["input"]["pair" if first["segment"] else "text"]
    if source is None or first["start"] is None:
        return " ".join(word["text"] for word in words)
    return str(source[first["start"] : last["end"]])


def format_input_warnings(payload: Mapping[str, Any]) -> str:
    """Return the warnings about an input, truncation first."""
    dropped, text = payload["input"].get("dropped", 0), payload["input"]["text"] or ""
    own = [token["start"] for token in payload["tokens"] if token["start"] is not None]
    # Prompts of language models are truncated at the start, all other texts at the end.
    where = "first" if own and text[: own[0]].strip() else "last"
    warnings = [f"The {where} {dropped} tokens did not fit and were cut off."] if dropped else []
    warnings += [sanitise_text(warning["message"]) for warning in payload.get("warnings", ())]
    return " ".join(warnings)


def format_list(names: Iterable[Any], most: int = 8) -> str:
    """Return names joined by commas, the first `most` and a count of the rest."""
    texts = [str(name) for name in names]
    more = [f"{len(texts) - most:,} more"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


def format_count(count: int, noun: str, plural: str = "s") -> str:
    """Return a number with its noun; `plural` is the ending of the plural."""
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def format_dataset(facts: Mapping[str, Any] | None) -> str:
    """Return the name of a data set, its columns and the rows used; empty if not recorded."""
    if not facts or not {"name", "rows", "drawn", "seed"} <= facts.keys():
        return ""
    parts = [f"{to_line(str(facts['name']))}: {format_row_sample(facts)}"]
    for role, what in (("text", "texts"), ("pair", "second texts"), ("label", "labels")):
        if facts.get(role) is not None:
            parts.append(f"{what} from {to_line(str(facts[role]))!r}")
    return "; ".join(parts)


def format_columns(
    names: Mapping[str, Any],
    guessed: Sequence[str] | None,
    roles: Iterable[str] = ("text", "pair", "label"),
) -> str:
    """Return what is read from which column, to stand behind the name of a data set; empty without columns."""
    columns = ", ".join(f"{role} from {names[role]!r}" for role in roles if names.get(role))
    more = f" ({', '.join(guessed)} guessed)" if guessed else ""
    return f"; {columns}{more}" if columns else ""


def format_name(name: str) -> str:
    """Return the name of a test, figure or parameter in words."""
    return name.replace("_", " ")


def format_row_sample(facts: Mapping[str, Any]) -> str:
    """Describe how many rows were taken, of how many, and how."""
    rows, drawn, seed = facts["rows"], facts["drawn"], facts["seed"]
    of = "" if rows is None else f" of {rows:,}"
    if drawn is None:
        return "all rows" if rows is None else "its only row" if rows == 1 else f"all {rows:,} rows"
    if seed is None:
        return f"the first {drawn:,}{of} rows"
    return f"{drawn:,}{of} rows drawn with seed {seed}"


def format_drawn_sample(setting: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Return the seed of a drawn sample, if a limit was smaller than the data set."""
    limit = setting.get("limit")
    if not isinstance(limit, int) or limit >= data["given"]:
        return ""
    count = "" if limit == data["used"] else f"{limit:,} "  # some may be unusable
    return f", {count}drawn with seed {setting['seed']}"
