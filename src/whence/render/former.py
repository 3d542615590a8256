"""What the reports that are not yet documents of blocks need; it goes with the last of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whence.render.colour import (
    Shades,
    compute_map_colour,
    compute_shade_colour,
    format_image_legend,
    format_target,
    get_colour_scale,
    scale_scores,
    select_strongest_patches,
)
from whence.render.image_maps import (
    Pixels,
    ScoreMap,
    arrange_score_maps,
    decode_display_image,
    describe_score_range,
    encode_png_base64,
    resize_image,
)
from whence.render.terminal import TerminalWriter, choose_tint_style, indent_line
from whence.render.text import sanitise_html, sanitise_text

Tone = Literal["", "strong", "dim", "warning"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of one or more sentences."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class FactList:
    """A list of names and values."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TableBlock:
    """A table with a header row; if `folded`, it is folded away under its `name`."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    folded: bool = False


@dataclass(frozen=True)
class EvaluationBlock:
    """The tables of an evaluation, written by the evaluation's own report."""

    payload: JsonObject


@dataclass(frozen=True)
class AuditBlock:
    """An audit, written by the audit's own report."""

    payload: JsonObject


@dataclass(frozen=True)
class PlotBlock:
    """A plot, see whence.render.charts."""

    plot: JsonObject


@dataclass(frozen=True)
class ExplanationBlock:
    """The explanation of one example, its words tinted by their scores."""

    title: str
    says: Sequence[str]
    payload: JsonObject  # the payload of an explanation by one method (docs/reference/json.md)


@dataclass(frozen=True)
class CodeBlock:
    """A code block to copy verbatim."""

    text: str
    language: str = ""


Block = (
    Paragraph
    | FactList
    | TableBlock
    | EvaluationBlock
    | AuditBlock
    | PlotBlock
    | ExplanationBlock
    | CodeBlock
)


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: Sequence[Block] = field(default=())


@dataclass(frozen=True)
class Document:
    """A title and its sections."""

    title: str
    sections: Sequence[Section]


def _format_css_colour(tint: float) -> str:
    return (
        "transparent" if abs(tint) < 0.005 else "rgb({},{},{})".format(*compute_shade_colour(tint))
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


_CELL_WIDTH = 2  # a sign or a space, and the digit


def format_digit_map(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], width: int
) -> list[str]:
    """Return a map as lines of digits no wider than `width`, followed by a legend."""
    rows, columns = payload["picture"]["grid"]
    patches = np.asarray(explanation["scores"], dtype=np.float64).reshape(rows, columns)
    side = _choose_cell_side((rows, columns), width)
    floor = get_colour_scale(explanation, "patch")["floor"]
    values = scale_scores(_average_cells(patches, side), signed=explanation["signed"], floor=floor)
    lines = ["".join(map(_format_digit, row)).rstrip() for row in values]
    return [*lines, *_describe_digit_map(payload, explanation, side)]


def _format_digit(value: float) -> str:
    level = round(9 * abs(value))
    return " ." if not level else f"{'-' if value < 0 else ' '}{level}"


def _choose_cell_side(grid: Sequence[int], width: int) -> int:
    """Return the side, in patches, of the square that one digit stands for, so that a row fits."""
    return max(1, -(-grid[1] * _CELL_WIDTH // max(width, _CELL_WIDTH)))


def _average_cells(patches: np.ndarray[Any, Any], side: int) -> np.ndarray[Any, Any]:
    """Return the means of squares of patches; squares at the right and lower edges may be smaller."""
    if side == 1:
        return patches
    down, across = (range(0, size, side) for size in patches.shape)
    return np.array([[patches[y : y + side, x : x + side].mean() for x in across] for y in down])


def _describe_digit_map(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], side: int
) -> list[str]:
    target, scale = (
        sanitise_text(format_target(payload["target"])),
        get_colour_scale(explanation, "patch"),
    )
    own = "a patch" if side == 1 else f"the mean of {side} x {side} patches"
    if explanation["signed"]:
        text = f"Each figure is {own}, 9 the largest |score|, - speaks against {target}"
    else:
        text = (
            f"Each figure is {own}, from . for the smallest score to 9 for the largest; this method has no sign: "
            f"it may count for {target} or against"
        )
    legend = scale["legend"].replace("full colour:", "9 is")
    return [f"{text}; {legend}.", *([scale["note"]] if scale["note"] else [])]


IMAGE_STYLE = """
.whence .maps { display: flex; flex-wrap: wrap; gap: .9rem; margin: .7rem 0 .3rem; }
.whence .maps figure { margin: 0; flex: 0 1 16rem; min-width: 8rem; }
.whence .maps.lines { display: grid; grid-template-columns: repeat(var(--columns), minmax(8rem, 16rem)); }
.whence .maps img { display: block; width: 100%; height: auto; border-radius: 4px; image-rendering: pixelated; }
.whence .maps figcaption { line-height: 1.35; margin-top: .3rem; overflow-wrap: anywhere; }
.whence .maps figcaption strong { color: var(--ink); font-weight: 600; }
.whence .ramp { display: inline-block; width: 7rem; height: .7em; border-radius: 2px; vertical-align: -.02em;
  margin-right: .5rem; }
.whence .patches { font-size: .72rem; } .whence .patches td { padding: .1rem .35rem; text-align: right; }
.whence .scroll { overflow-x: auto; }
"""


_TOP_PATCHES = 10


def render_image_maps(payloads: Sequence[dict[str, Any]]) -> str:
    """Return the image and its maps side by side; with several classes and methods, one row per class."""
    picture = decode_display_image(payloads[0])
    rows = arrange_score_maps(payloads, picture)
    name = sanitise_text(str(payloads[0]["picture"].get("name") or ""))
    own = _render_figure(
        picture, f"the picture {name}".strip(), "the picture", name or "as the model sees it"
    )
    lines = ["".join(map(_render_map_figure, row)) for row in rows]
    if len(lines) == 1:
        return f'<div class="maps">{own}{lines[0]}</div>'
    columns = 1 + len(rows[0])
    body = "<i></i>".join(lines)  # only the first row starts with the image
    return f'<div class="scroll"><div class="maps lines" style="--columns: {columns}">{own}{body}</div></div>'


def render_colour_key(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Return the colour key of one map."""
    signed = explanation["signed"]
    stops = [place / 8 for place in range(-8 if signed else 0, 9)]
    ramp = ", ".join(_blend_on_grey(stop, signed) for stop in stops)
    full = get_colour_scale(explanation, "patch")["legend"]
    legend = f"{format_image_legend(payload['target'], signed=signed)}; {full}; {describe_score_range(explanation)}"
    return (
        f'<p class="dim"><span class="ramp" style="background: linear-gradient(90deg, {ramp})"></span>'
        f"{escape(sanitise_html(legend))}</p>"
    )


def render_patch_table(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], top: int = _TOP_PATCHES
) -> str:
    """Return a table of the patches with the largest absolute scores."""
    patches = select_strongest_patches(explanation["scores"], payload["picture"]["grid"], top)
    largest = get_colour_scale(explanation, "patch")["full"] or 1.0
    rows = "".join(
        f'<tr><td class="n">{patch.row}</td><td class="n">{patch.column}</td><td class="n">{patch.score:+.6g}</td>'
        f'<td><span class="bar" style="width: {abs(patch.score) / largest * 9:.2f}rem; '
        f'background: {_format_css_rgba(patch.score / largest, explanation["signed"])}"></span></td></tr>'
        for patch in patches
    )
    target = escape(sanitise_html(format_target(payload["target"])))
    return (
        "<table><thead><tr><th>row</th><th>column</th><th>score</th>"
        f"<th>for {target}</th></tr></thead>{rows}</table>"
    )


def render_patch_grid(payload: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """Return a table of the scores of all patches, arranged as in the image."""
    height, width = payload["picture"]["grid"]
    scores = explanation["scores"]
    floor = get_colour_scale(explanation, "patch")["floor"]
    tints = scale_scores(scores, signed=explanation["signed"], floor=floor)
    head = "".join(f'<th scope="col">{column}</th>' for column in range(1, width + 1))
    rows = []
    for row in range(height):
        cells = "".join(
            f'<td style="background: {_format_css_rgba(tints[place], explanation["signed"], abs(tints[place]) * 0.6)}">'
            f"{scores[place]:.3g}</td>"
            for place in range(row * width, (row + 1) * width)
        )
        rows.append(f'<tr><th scope="row">{row + 1}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="patches"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _render_map_figure(panel: ScoreMap) -> str:
    return _render_figure(
        panel.pixels, f"{panel.method} for {panel.title}", panel.method, f"for {panel.title}"
    )


def _render_figure(pixels: Pixels, alt: str, title: str, under: str) -> str:
    height, width = pixels.shape[:2]
    return (
        f'<figure><img width="{width}" height="{height}" alt="{escape(sanitise_html(alt))}" '
        f'src="data:image/png;base64,{encode_png_base64(pixels)}"><figcaption><strong>{escape(sanitise_html(title))}</strong><br>'
        f"{escape(sanitise_html(under))}</figcaption></figure>"
    )


def _format_css_rgba(value: float, signed: bool, alpha: float = 1.0) -> str:
    return "rgba({},{},{},{:.3f})".format(*compute_map_colour(value, signed=signed), alpha)


def _blend_on_grey(value: float, signed: bool) -> str:
    """Return the colour of a value blended with the dark grey beneath."""
    share = abs(value) ** 0.75
    mixed = (60 + (part - 60) * share for part in compute_map_colour(value, signed=signed))
    return "rgb({:.0f},{:.0f},{:.0f})".format(*mixed)


_MAX_PANEL_WIDTH, _MIN_PANEL_WIDTH, _MIN_PAIR_WIDTH, _PANEL_GAP = 44, 24, 16, 2


_BAR_WIDTH = 16


def can_show_images(console: Console, options: ConsoleOptions) -> bool:
    """Return whether the terminal has 24-bit colour and half-block characters."""
    return console.color_system == "truecolor" and not (console.no_color or options.ascii_only)


def render_image_map(
    payload: Mapping[str, Any], explanation: Mapping[str, Any], width: int, colours: bool
) -> Iterator[RenderableType]:
    """Yield one map beside its image, or in digits without colours, and its legend."""
    if colours:
        yield render_maps_side_by_side([{**payload, "explanations": [explanation]}], width)
        scale = get_colour_scale(explanation, "patch")
        legend = sanitise_text(format_image_legend(payload["target"], signed=explanation["signed"]))
        yield Text(f"{legend}; {scale['legend']}", "dim")
        if scale["note"]:
            yield Text(scale["note"], "dim")
    else:
        yield from map(Text, format_digit_map(payload, explanation, width))


def render_maps_side_by_side(payloads: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Return the image and all maps side by side, as many per row as fit."""
    picture = decode_display_image(payloads[0])
    panels = [("the picture", "", picture)]
    for row in arrange_score_maps(payloads, picture):
        panels += [(panel.method, panel.title, panel.pixels) for panel in row]
    least = (
        2 if width >= 2 * _MIN_PAIR_WIDTH + _PANEL_GAP else 1
    )  # a map stands beside its image if two panels fit
    across = min(len(panels), max(least, (width + _PANEL_GAP) // (_MIN_PANEL_WIDTH + _PANEL_GAP)))
    room = min(_MAX_PANEL_WIDTH, (width - _PANEL_GAP * (across - 1)) // across)
    lines: list[RenderableType] = []
    for at in range(0, len(panels), across):
        table = Table.grid(padding=(0, _PANEL_GAP, 0, 0))
        row_panels = panels[at : at + across]
        for _ in row_panels:
            table.add_column(width=room)
        table.add_row(*(_render_half_blocks(pixels, room) for _, _, pixels in row_panels))
        table.add_row(*(_truncate_line(title, room, "bold") for title, _, _ in row_panels))
        table.add_row(*(_truncate_line(under, room, "dim") for _, under, _ in row_panels))
        lines += [table, Text()]
    return Group(*lines)


def _truncate_line(text: str, room: int, style: str) -> Text:
    line = Text(text, style, no_wrap=True)
    line.truncate(room, overflow="ellipsis")
    return line


def _render_half_blocks(pixels: Pixels, columns: int) -> RenderableType:
    """Return pixels as half-block characters: foreground is the upper pixel, background the lower."""
    rows = max(1, round(columns * pixels.shape[0] / pixels.shape[1] / 2))
    small = resize_image(pixels, 2 * rows, columns)
    cells = []
    for upper, lower in zip(small[::2], small[1::2], strict=True):
        cells += [
            Segment("▀", _build_block_style(above, below))
            for above, below in zip(upper, lower, strict=True)
        ]
        cells.append(Segment.line())
    return Segments(cells[:-1])


def _build_block_style(above: np.ndarray[Any, Any], below: np.ndarray[Any, Any]) -> Style:
    return Style.from_color(Color.from_rgb(*map(int, above)), Color.from_rgb(*map(int, below)))


def tint_words(payload: dict[str, Any], tints: tuple[float, ...]) -> Text:
    """Return the text with each word tinted by its score."""
    line = Text()
    for segment, source in enumerate((payload["input"]["text"], payload["input"]["pair"])):
        pairs = [
            (w, t) for w, t in zip(payload["words"], tints, strict=True) if w["segment"] == segment
        ]
        if not pairs:
            continue
        if segment:
            line.append("  |  ", "dim")
        at = 0
        for word, tint in pairs:
            if source is None:
                line.append(" " if len(line) else "")
                line.append(sanitise_text(word["text"]), choose_tint_style(tint))
                continue
            line.append(sanitise_text(source[at : word["start"]]))
            line.append(sanitise_text(source[word["start"] : word["end"]]), choose_tint_style(tint))
            at = word["end"]
        if source is not None:
            line.append(sanitise_text(source[at:]), "dim")
    return line


def render_rows(
    heads: Sequence[str], rows: Sequence[Sequence[str]], write: TerminalWriter, width: int
) -> RenderableType:
    """Return rows as a table, or stacked one below the other in a narrow terminal."""
    needed = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stack_row_of(heads, cells, write) for cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    for name, *cells in rows:
        table.add_row(write(name, "bold"), *map(write, cells))
    return table


def _stack_row_of(
    heads: Sequence[str], cells: Sequence[str], write: TerminalWriter
) -> RenderableType:
    name, *values = cells
    line = write("; ".join(f"{head} {text}" for head, text in zip(heads[1:], values, strict=True)))
    head = Text.assemble(write(f"{heads[0]} ", "dim"), write(name, "bold"))
    return Group(head, indent_line(line))
