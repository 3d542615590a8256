"""Report of a comparison of two models: sentences, text, terminal and HTML page with head maps.

Every figure is a mean over the inputs with its 95% bootstrap interval and n.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from whence.render.colour import compute_shade_colour, compute_shades
from whence.render.document import choose_decimals, format_interval
from whence.render.former import (
    render_notebook_cell,
    render_page,
    render_provenance,
    render_rows,
    render_text_strips,
)
from whence.render.former_charts import PLOT_WIDTH, render_plot, render_svg, render_text
from whence.render.terminal import TerminalWriter, render_fact_list
from whence.render.text import format_drawn_sample, sanitise_html, sanitise_text
from whence.studies.audit.report import AUDIT_PAGE_STYLE, render_wide_table
from whence.studies.audit.report import AUDIT_STYLE as SECTIONS


def describe_comparison(payload: Mapping[str, Any]) -> str:
    """Describe the findings of a comparison in sentences."""
    used = payload["data"]["used"]
    if is_identical(payload):
        both = " and ".join(_distinguish_names(payload))
        return f"{both} attend alike to the last bit on {_format_input_count(used)}: no head diverges from its twin."
    parts = [
        _describe_layers(payload, used),
        _describe_heads(payload, used),
        _describe_flow(payload, used),
        _describe_words(payload),
    ]
    return " ".join(part for part in parts if part)


def is_identical(payload: Mapping[str, Any]) -> bool:
    """Return whether every head attends exactly as its counterpart, on all inputs."""
    return all(head["divergence"]["mean"] == 0 for head in payload["heads"])


def _describe_layers(payload: Mapping[str, Any], used: int) -> str:
    layers = payload["layers"]
    ranking = payload["changed"]["layers"]
    first = ranking[0]
    least = min(layers, key=lambda layer: float(layer["divergence"]["mean"]))
    first_name, second_name = _distinguish_names(payload)
    text = (
        f"Over {_format_input_count(used)}, the attention of {second_name} is farthest from that of {first_name} in layer {first['layer']} "
        f"({_format_bits(first['divergence'], used)})"
    )
    if len(layers) > 1:
        text += (
            f" and nearest in layer {least['layer']} ({_format_bits(least['divergence'], used)})"
        )
    strangers = layers[first["layer"]]["strangers"]
    if strangers["n"]:
        text += f"; two different heads of layer {first['layer']} are {_format_bits(strangers, used)} apart"
    return f"{text}."


def _describe_heads(payload: Mapping[str, Any], used: int) -> str:
    changed = payload["changed"]
    first = changed["heads"][0]
    text = f"The most changed head is {_format_head_name(first)} ({_format_bits(first['divergence'], used)})"
    others = changed["equal_heads"] - 1
    if not changed["enough"]:
        return f"{text}; {_format_input_count(used)} {'is' if used == 1 else 'are'} too few to tell it from any other."
    if not others:
        return f"{text}, surely more than any other."
    return f"{text}; {others} other{'s' * (others > 1)} cannot be told from it."


def _describe_flow(payload: Mapping[str, Any], used: int) -> str:
    overlap = payload["overlap"]
    if not overlap["jaccard"]["n"]:
        return ""
    text = (
        f"Of the edges {EDGE_KINDS[overlap['specials']]} that carry {overlap['coverage']:.0%} of what all such edges "
        f"carry, the models share {_format_mean(overlap['jaccard'], used)} (Jaccard index; random edges: "
        f"{_format_mean(overlap['chance'], used)})"
    )
    other = overlap["other"]
    if other["jaccard"]["n"]:
        text += (
            f"; of those {EDGE_KINDS[other['specials']]}, {_format_mean(other['jaccard'], used)} (random edges: "
            f"{_format_mean(other['chance'], used)})"
        )
    return f"{text}."


def _describe_words(payload: Mapping[str, Any]) -> str:
    attribution = payload["attribution"]
    if attribution is None or not attribution["tau"]["n"]:
        return ""
    return (
        f"By {attribution['method']} they rank the words alike with a mean tau-b of "
        f"{_format_mean(attribution['tau'], payload['data']['used'])} (random rankings: 0)."
    )


def _distinguish_names(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the models; equal names are numbered."""
    first, second = get_model_names(payload)
    return (first, second) if first != second else (f"the first {first}", f"the second {second}")


def _format_input_count(used: int) -> str:
    return "1 input" if used == 1 else f"{used} inputs"


def _format_head_name(head: Mapping[str, Any]) -> str:
    return f"{head['layer']}.{head['head']}"


def _format_bits(interval: Mapping[str, Any], used: int) -> str:
    return f"{_format_mean(interval, used)} bits"


def _format_mean(interval: Mapping[str, Any], used: int) -> str:
    return format_interval(interval, choose_decimals([interval]), used)


JsonObject = Mapping[str, Any]

_MAP_LEFT, _MAP_TOP, _MAP_BELOW = 34, 20, 44
_MAP_GAP = 1
_MAX_CELL_HEIGHT = 22
_MAX_LABELS = 16  # axis labels


def render_head_map(
    payload: JsonObject, name: str, text: str, of: Callable[[JsonObject], JsonObject], signed: bool
) -> str:
    """Return a map of one figure of every head, the deepest layer on top.

    Full colour is the largest |value|.
    """
    layers, heads = payload["setting"]["layers"], payload["setting"]["heads"]
    width = (PLOT_WIDTH - _MAP_LEFT - 4) / heads
    height = min(_MAX_CELL_HEIGHT, width)
    floor = _MAP_TOP + layers * height
    values = [float(of(row)["mean"]) for row in payload["heads"]]
    largest = max((abs(value) for value in values), default=0.0)
    used = payload["data"]["used"]
    body = [
        _render_head_cell(
            _MAP_LEFT + row["head"] * width,
            _MAP_TOP + (layers - 1 - row["layer"]) * height,
            (width - _MAP_GAP, height - _MAP_GAP),
            value / largest if largest else 0.0,
            f"head {row['layer']}.{row['head']}: {format_figure(of(row), common_n=used)}",
        )
        for row, value in zip(payload["heads"], values, strict=True)
    ]
    for layer in _select_labels(layers):
        middle = _MAP_TOP + (layers - 0.5 - layer) * height
        body.append(render_text(_MAP_LEFT - 5, middle + 4, str(layer), "end"))
    for head in _select_labels(heads):
        body.append(render_text(_MAP_LEFT + (head + 0.5) * width, floor + 12, str(head), "middle"))
    body.append(render_text(2, 12, "layer"))
    body.append(render_text(PLOT_WIDTH - 4, 12, "heads below", "end"))
    body += _render_tint_key(floor + 22, largest, signed)
    return render_svg(
        PLOT_WIDTH, floor + _MAP_BELOW, name, f"{text} {_describe_extremes(payload, values)}", body
    )


def _render_head_cell(
    x: float, y: float, size: tuple[float, float], share: float, title: str
) -> str:
    tint = "rgb({},{},{})".format(*compute_shade_colour(share))
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" style="fill: {tint}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _select_labels(count: int) -> Sequence[int]:
    return range(0, count, max(1, -(-count // _MAX_LABELS)))


def _render_tint_key(top: float, largest: float, signed: bool) -> list[str]:
    """Return the colour key with values at both ends."""
    if not largest:
        return [render_text(_MAP_LEFT, top + 10, "0 everywhere")]
    steps = [step / 10 for step in range(-10 if signed else 0, 11)]
    wide = 8.0
    left = render_text(_MAP_LEFT + 44, top + 10, f"{-largest:.2g}" if signed else "0", "end")
    cells = [
        _render_head_cell(
            _MAP_LEFT + 50 + place * wide, top, (wide, 12), step, f"{step * largest:.2g}"
        )
        for place, step in enumerate(steps)
    ]
    end = _MAP_LEFT + 56 + len(steps) * wide
    return [left, *cells, render_text(end, top + 10, f"{largest:.2g}")]


def _describe_extremes(payload: JsonObject, values: Sequence[float]) -> str:
    """Describe the smallest and largest value, for screen readers; a table has all values."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    low, high = (payload["heads"][order[end]] for end in (0, -1))
    return (
        f"From {values[order[0]]:.3g} (head {low['layer']}.{low['head']}) to {values[order[-1]]:.3g} "
        f"(head {high['layer']}.{high['head']})."
    )


_PAGE_FOOTER = "Every figure is a mean over the inputs with a 95% bootstrap interval. Layers and heads count from 0."
_COMPARISON_STYLE = """
.whence .panels > figure { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
"""
_PAGE_TITLE = "whence: what changed between two models?"


def render_comparison_html(payload: JsonObject, heading: str = _PAGE_TITLE) -> str:
    """Return an HTML page of a comparison."""
    return sanitise_html(
        render_page(
            heading,
            _render_comparison_body(payload),
            _PAGE_FOOTER,
            SECTIONS + _COMPARISON_STYLE + AUDIT_PAGE_STYLE,
        )
    )


def render_comparison_fragment(payload: JsonObject) -> str:
    """Return a comparison as HTML for a notebook cell."""
    return sanitise_html(
        render_notebook_cell(_render_comparison_body(payload), SECTIONS + _COMPARISON_STYLE)
    )


def _render_comparison_body(payload: JsonObject) -> str:
    return "\n".join(
        [
            '<div class="audit">',  # uses the audit's style for sections, tables and facts
            _render_overview(payload),
            _render_layers(payload),
            _render_heads(payload),
            _render_attention_targets(payload),
            _render_remarks(payload),
            "</div>",
        ]
    )


def _render_overview(payload: JsonObject) -> str:
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
        for name, text in list_comparison_facts(payload)
    )
    return _render_section(
        format_comparison_title(payload),
        f'<p class="conclusion">{escape(to_one_line(payload["sentence"]))}</p>',
        f'<dl class="facts">{facts}</dl>',
        *(f'<p class="dim">{escape(line)}</p>' for line in list_comparison_legend(payload)),
    )


def _render_layers(payload: JsonObject) -> str:
    drawn = [
        _render_layer_bars(payload, "Divergence by layer", "bits", lambda row: row["divergence"]),
        _render_layer_bars(
            payload, "Divergence of the decision's rows", "bits", lambda row: row["decision"]
        ),
        _render_layer_bars(
            payload, "Overlap of the flow by layer", "Jaccard index", lambda row: row["overlap"]
        ),
    ]
    return _render_section(
        "Layers",
        '<div class="panels">' + "".join(drawn) + "</div>",
        *(
            _render_figure_table("Layers", heads, rows)
            for heads, rows in build_layer_tables(payload)
        ),
        f"<p>{escape(describe_flow_overlap(payload))}</p>",
    )


def _render_layer_bars(
    payload: JsonObject, name: str, unit: str, of: Callable[[JsonObject], JsonObject]
) -> str:
    bars = [
        {"name": f"layer {row['layer']}", "value": of(row)["mean"], **_get_interval_ends(of(row))}
        for row in reversed(payload["layers"])
    ]
    return render_plot({"kind": "bars", "title": name, "y": unit, "bars": bars, "threshold": None})


def _get_interval_ends(interval: JsonObject) -> dict[str, Any]:
    return {"low": interval["low"], "high": interval["high"]}


def _render_heads(payload: JsonObject) -> str:
    first, second = get_model_names(payload)
    maps = [
        (
            "Divergence of each head, in bits",
            f"How far the attention of {second} is from that of {first}, head by head.",
            render_head_map(
                payload,
                "Divergence of each head",
                "Mean Jensen-Shannon divergence in bits, by layer and head.",
                lambda head: head["divergence"],
                signed=False,
            ),
        ),
        (
            "Change of the attention to special tokens",
            f"Blue: more in {second}, orange: less.",
            render_head_map(
                payload,
                "Change of the attention to special tokens",
                "Share of attention on special tokens in the second model less that in the first.",
                lambda head: head["special"]["change"],
                signed=True,
            ),
        ),
    ]
    drawn = "".join(
        f'<figure><figcaption>{escape(name)}</figcaption><p class="dim">{escape(description)}</p>'
        f"{drawing}</figure>"
        for name, description, drawing in maps
    )
    rows = build_head_rows(payload)
    rest = _render_figure_table("All heads", HEAD_HEADS, rows)
    return _render_section(
        "Heads",
        f'<div class="panels">{drawn}</div>',
        "<h3>The most changed</h3>",
        _render_figure_table("The most changed heads", HEAD_HEADS, rows[:MAX_HEADS]),
        f"<details><summary>All {len(rows)} heads</summary>{rest}</details>"
        if len(rows) > MAX_HEADS
        else "",
    )


def _render_attention_targets(payload: JsonObject) -> str:
    tables = [
        _render_figure_table(head, (head, *PAIR_HEADS[1:]), rows)
        for what, head in PAIR_TABLES
        if (rows := build_pair_rows(payload, what))
    ]
    note = (
        "In the mean over all layers, heads and rows. Between texts: of the rows of one text's words, what goes to "
        "words of the other; the rest goes to special tokens."
    )
    return (
        _render_section("Where attention goes", f'<p class="dim">{note}</p>', *tables)
        if tables
        else ""
    )


def _render_remarks(payload: JsonObject) -> str:
    both = {
        "model": {
            f"{which} {key}": value
            for which, side in (("first model's", "a"), ("second model's", "b"))
            for key, value in payload[side].items()
        },
        "provenance": dict(payload["provenance"]),
    }
    return _render_section(
        "Words and predictions",
        _render_list([*list_comparison_remarks(payload), *list_unused_inputs(payload)]),
        f'<p class="dim">{escape(describe_comparison_cost(payload))}</p>',
        render_provenance(both),
    )


def _render_section(heading: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *parts, "</section>"])


def _render_list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _render_figure_table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f'<td class="brief">{escape(text)}</td>' for text in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return render_wide_table(f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", name)


_TOP_HEADS = 10  # heads


def render_input_comparison_fragment(comparison: JsonObject) -> str:
    """Return the comparison of two models on one input as HTML for a notebook cell."""
    first, second = get_model_names(comparison)
    rows = [
        _format_prediction_row(name, prediction)
        for name, prediction in zip((first, second), comparison["predictions"], strict=True)
    ]
    heads = [
        (f"{head['layer']}.{head['head']}", f"{head['divergence']:.3f}", f"{head['decision']:.3f}")
        for head in comparison["changed"][:_TOP_HEADS]
    ]
    body = [
        "<section>",
        f"<h2>{escape(first)} and {escape(second)}</h2>",
        *(f"<p>{escape(text)}</p>" for text in _list_texts(comparison["input"])),
        _render_plain_table(("model", "prediction"), rows),
        *(_render_tinted_text(comparison, side, name) for side, name in enumerate((first, second))),
        f"<p>{escape(_describe_farthest_layer(comparison))}</p>",
        _render_plain_table(
            ("most changed head", "divergence, bits", "of the decision's rows"), heads
        )
        if heads
        else "",
        *(
            f'<p class="dim">{escape(to_one_line(warned["message"]))}</p>'
            for warned in comparison["warnings"]
        ),
        "</section>",
    ]
    return sanitise_html(render_notebook_cell("\n".join(part for part in body if part), SECTIONS))


def _list_texts(source: JsonObject) -> list[str]:
    return [to_one_line(source[part]) for part in ("text", "pair") if source[part] is not None]


def _format_prediction_row(name: str, prediction: JsonObject | None) -> tuple[str, str]:
    if prediction is None:
        return name, "none: it has no classification head"
    share = prediction["probability"]
    value = (
        f"{prediction['logits'][0]:.4g}"
        if share is None
        else f"{to_one_line(prediction['label'])} {share:.1%}"
    )
    return name, value


def _render_tinted_text(comparison: JsonObject, side: int, name: str) -> str:
    """Return the text tinted by one model's scores, if it has any."""
    explanation = comparison["explanations"][side]
    if explanation is None:
        return ""
    payload = {**comparison, "target": comparison["flows"][side]["target"]}
    tints = compute_shades(payload, explanation)
    title = f"{escape(name)}, {escape(explanation['method'])}"
    return f'<h3>{title}</h3><p class="dim">{escape(tints.legend)}</p>{render_text_strips(payload, explanation, tints)}'


def _describe_farthest_layer(comparison: JsonObject) -> str:
    layers = comparison["layers"]
    most = max(range(len(layers)), key=lambda layer: layers[layer])
    if not layers[most]:
        return "Both attend alike to the last bit."
    bits = f"{layers[most]:.3f} bits, in the mean over its heads and rows"
    return f"Attention is farthest apart in layer {most}: {bits}."


def _render_plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class ComparisonRenderable:
    """A rich renderable of a comparison, fitted to the terminal's width and characters."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the parts of the comparison."""
        payload, write = self._payload, TerminalWriter(ascii_only=options.ascii_only)
        width = options.max_width
        yield write(format_comparison_title(payload), "bold")
        yield write(to_one_line(payload["sentence"]))
        yield Text()
        yield render_fact_list(list_comparison_facts(payload), write, width)
        for heads, rows in build_layer_tables(payload):
            yield Text()
            yield render_rows(heads, rows, write, width)
        yield Text()
        yield render_rows(HEAD_HEADS, build_head_rows(payload, MAX_HEADS), write, width)
        for what, head in PAIR_TABLES:
            if rows := build_pair_rows(payload, what):
                yield Text()
                yield render_rows((head, *PAIR_HEADS[1:]), rows, write, width)
        yield Text()
        for line in list_comparison_legend(payload):
            yield write(line, "dim")
        yield Text()
        for line in [describe_flow_overlap(payload), *list_comparison_remarks(payload)]:
            yield write(line)
        for line in list_unused_inputs(payload):
            yield write(line, "yellow")
        yield write(describe_comparison_cost(payload), "dim")


def render_comparison_terminal(payload: Mapping[str, Any]) -> RenderableType:
    """Return a comparison as a rich renderable."""
    return ComparisonRenderable(payload)


MAX_HEADS = 10
PAIR_TABLES = (("specials", "attention to"), ("segments", "attention between texts"))


def format_comparison_text(payload: Mapping[str, Any]) -> str:
    """Return a comparison as plain text."""
    lines = [format_comparison_title(payload), "", to_one_line(payload["sentence"]), ""]
    lines += [f"{name}: {text}" for name, text in list_comparison_facts(payload)]
    for heads, rows in build_layer_tables(payload):
        lines += ["", *_format_text_table(heads, rows)]
    lines += ["", *_format_text_table(HEAD_HEADS, build_head_rows(payload, MAX_HEADS))]
    for what, head in PAIR_TABLES:
        if rows := build_pair_rows(payload, what):
            lines += ["", *_format_text_table((head, *PAIR_HEADS[1:]), rows)]
    lines += [
        "",
        *list_comparison_legend(payload),
        "",
        describe_flow_overlap(payload),
        *list_comparison_remarks(payload),
        *list_unused_inputs(payload),
    ]
    return "\n".join([*lines, "", describe_comparison_cost(payload)])


def _format_text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (heads, *rows)
    ]


TextRow = tuple[str, ...]

NO_VALUE = "-"
COMPARISON_QUESTION = "What changed between the two models?"
LAYER_HEADS = (
    "layer",
    "divergence",
    "strangers",
    "decision",
    "on special tokens",
    "overlap",
    "chance",
)
HEAD_HEADS = ("head", "divergence", "decision", "on special tokens", "entropy")
PAIR_HEADS = ("", "first model", "second model", "change")
DIVERGENCE_LEGEND = (
    "Divergence: the Jensen-Shannon divergence of a head's attention from its twin's, from 0 to 1 bit, in the mean "
    "over the rows of an input; decision: of the rows that the decision reads alone; strangers: of a head from "
    "another head of its layer. Figures are means over the inputs with 95% intervals."
)
OVERLAP_LEGEND = (
    "Overlap: the Jaccard index of the edges {which} that carry {coverage:.0%} of what all such edges carry back "
    "from the decision; chance: the same of random edges, as many in each layer."
)
# The edges that count, by whether those that end on special tokens are included.
EDGE_KINDS = {False: "to words", True: "to words and special tokens"}


def to_one_line(text: Any) -> str:
    """Return a foreign text on one line, without control characters."""
    return " ".join(sanitise_text(str(text)).split())


def get_model_names(payload: JsonObject) -> tuple[str, str]:
    """Return the names of the two models; a folder is shortened to its last part."""
    first, second = (to_one_line(payload[side]["name"]) for side in "ab")
    return _shorten_path(first), _shorten_path(second)


def _shorten_path(name: str) -> str:
    return Path(name).name if Path(name).is_absolute() else name


def format_comparison_title(payload: JsonObject) -> str:
    """Return the title of a comparison."""
    return "{} and {}".format(*get_model_names(payload))


def list_comparison_facts(payload: JsonObject) -> list[tuple[str, str]]:
    """Return the facts about the compared models, data and setting, with their names."""
    data, setting = payload["data"], payload["setting"]
    first, second = (
        name + (f" ({to_one_line(model['class'])})" if model.get("class") else "")
        for model in (payload["a"], payload["b"])
        for name in [to_one_line(model["name"])]
    )
    facts = [
        ("first model", first),
        ("second model", second),
        ("shape", f"{setting['layers']} layers of {setting['heads']} heads, counted from 0"),
        ("data", _format_comparison_data(data, setting)),
        ("decision", to_one_line(setting["decision"])),
        (
            "flow",
            f"weighed by {to_one_line(setting['weight'])}, the edges {EDGE_KINDS[setting['specials']]} that carry "
            f"{setting['coverage']:.0%} of it",
        ),
        ("seed", str(setting["seed"])),
    ]
    return [(name, text) for name, text in facts if text]


def _format_comparison_data(data: JsonObject, setting: JsonObject) -> str:
    columns = ", ".join(
        f"{what} from {to_one_line(data[what])!r}"
        for what in ("text", "pair", "label")
        if data.get(what) is not None
    )
    guessed = (
        f" ({', '.join(map(to_one_line, data['guessed']))} guessed)" if data.get("guessed") else ""
    )
    text = f"{to_one_line(data['name'])}, {data['used']:,} of {data['given']:,} inputs"
    text += f"{format_drawn_sample(setting, data)}, {data['tokens']:.0f} tokens each"
    text += f"; {columns}{guessed}" if columns else ""
    return text + (f"; {data['cut']:,} were too long and lost their end" if data["cut"] else "")


def format_figure(
    figure: JsonObject | None, beside: Sequence[JsonObject | None] = (), common_n: int = 0
) -> str:
    """Format a mean with its interval, to the decimals of those beside it; with n unless n is `common_n`."""
    if figure is None or figure["mean"] is None:
        return NO_VALUE
    known = [
        other for other in beside or [figure] if other is not None and other["mean"] is not None
    ]
    return format_interval(figure, choose_decimals(known), common_n)


def build_layer_rows(payload: JsonObject) -> list[TextRow]:
    """Return every layer as the cells below `LAYER_HEADS`."""
    return _format_columns(
        payload,
        [
            [
                layer["divergence"],
                layer["strangers"],
                layer["decision"],
                layer["special"]["change"],
                layer["overlap"],
                layer["chance"],
            ]
            for layer in payload["layers"]
        ],
        [f"{layer['layer']}{_mark_equal(payload, 'layers', layer)}" for layer in payload["layers"]],
    )


def build_layer_tables(payload: JsonObject) -> list[tuple[TextRow, list[TextRow]]]:
    """Return the layers as two tables that fit a terminal: divergence; special tokens and overlap."""
    rows = build_layer_rows(payload)
    parts = ((0, 1, 2, 3), (0, 4, 5, 6))
    return [
        (
            tuple(LAYER_HEADS[place] for place in part),
            [tuple(row[place] for place in part) for row in rows],
        )
        for part in parts
    ]


def build_head_rows(payload: JsonObject, most: int | None = None) -> list[TextRow]:
    """Return the heads, the most changed first, as the cells below `HEAD_HEADS`."""
    heads = sorted(payload["heads"], key=lambda row: -float(row["divergence"]["mean"]))[:most]
    return _format_columns(
        payload,
        [
            [row["divergence"], row["decision"], row["special"]["change"], row["entropy"]["change"]]
            for row in heads
        ],
        [f"{row['layer']}.{row['head']}{_mark_equal(payload, 'heads', row)}" for row in heads],
    )


def _mark_equal(payload: JsonObject, what: str, row: JsonObject) -> str:
    """Return a mark (°) if a head or layer is not significantly different from the most changed."""
    for other in payload["changed"][what]:
        if (other["layer"], other.get("head")) == (row["layer"], row.get("head")):
            return " °" if other["equal"] else ""
    return ""


def build_pair_rows(payload: JsonObject, what: str) -> list[TextRow]:
    """Return figures of both models and their change as the cells below `PAIR_HEADS`."""
    rows = payload[what]
    cells = [[row["figures"][side] for side in ("a", "b", "change")] for row in rows]
    return _format_columns(payload, cells, [to_one_line(row["name"]) for row in rows])


def _format_columns(
    payload: JsonObject, cells: list[list[JsonObject]], first: list[str]
) -> list[TextRow]:
    """Format columns of figures, each with the same decimals throughout."""
    used = payload["data"]["used"]
    columns = list(zip(*cells, strict=True))
    return [
        (name, *(format_figure(cell, columns[place], used) for place, cell in enumerate(row)))
        for name, row in zip(first, cells, strict=True)
    ]


def list_comparison_remarks(payload: JsonObject) -> list[str]:
    """Return further findings, and the reasons for missing ones."""
    return [
        line
        for line in [
            *_describe_moved_heads(payload),
            _describe_attributions(payload),
            *_describe_predictions(payload),
        ]
        if line
    ]


def _describe_moved_heads(payload: JsonObject) -> list[str]:
    changed = payload["changed"]
    if not changed["enough"]:
        return [
            f"{payload['data']['used']} inputs are too few to say of any head whether it surely changed: more would."
        ]
    return [
        f"{len(heads['more'])} of {heads['of']} heads surely {more}, and {len(heads['less'])} {less}."
        for heads, more, less in (
            (
                changed["special"],
                "attend more to special tokens in the second model",
                "attend less",
            ),
            (changed["entropy"], "look more widely in the second model", "look less widely"),
        )
    ]


def _describe_attributions(payload: JsonObject) -> str:
    attribution, used = payload["attribution"], payload["data"]["used"]
    if attribution is None:
        return f"Attributions were not compared: {to_one_line(payload['without_attribution'])}"
    text = (
        f"Attributions by {to_one_line(attribution['method'])}, for what the second model predicts: tau-b of the words "
        f"{format_figure(attribution['tau'], common_n=used)} (random rankings: 0)"
    )
    if attribution["top"]["n"]:
        text += (
            f", overlap of the {attribution['k']} strongest words {format_figure(attribution['top'], common_n=used)} "
            f"(random rankings: {format_figure(attribution['chance'], common_n=used)})"
        )
    return f"{text}."


def _describe_predictions(payload: JsonObject) -> list[str]:
    predictions, used = payload["predictions"], payload["data"]["used"]
    if predictions is None:
        return ["Neither model has a classification head: there are no predictions to compare."]
    lines = []
    if predictions["agreement"] is not None:
        lines.append(
            f"The models predict the same on {format_figure(predictions['agreement'], common_n=used)} of the inputs."
        )
    accuracy = predictions["accuracy"]
    if accuracy is None:
        return [
            *lines,
            *(
                [f"Accuracy is not known: {to_one_line(predictions['without_accuracy'])}"]
                if predictions["without_accuracy"]
                else []
            ),
        ]
    parts = [
        f"{name} {format_figure(accuracy[side], common_n=used)}"
        for name, side in zip(get_model_names(payload), "ab", strict=True)
        if accuracy[side] is not None
    ]
    change = (
        f", change {format_figure(accuracy['change'], common_n=used)}" if accuracy["change"] else ""
    )
    return [*lines, f"Accuracy: {', '.join(parts)}{change}."]


def list_unused_inputs(payload: JsonObject) -> list[str]:
    """Return the numbers of unused inputs, with reasons."""
    return [
        f"{reason['count']:,} input{'' if reason['count'] == 1 else 's'} not used: {to_one_line(reason['why'])}."
        for reason in payload["data"]["why_not"]
    ]


def describe_comparison_cost(payload: JsonObject) -> str:
    """Describe the cost of the comparison."""
    return f"{payload['calls']['forward']:,} forward passes of both models, {payload['seconds']:,.1f} s."


def list_comparison_legend(payload: JsonObject) -> list[str]:
    """Return the legend of the figures."""
    return [
        DIVERGENCE_LEGEND,
        OVERLAP_LEGEND.format(
            coverage=payload["overlap"]["coverage"],
            which=EDGE_KINDS[payload["overlap"]["specials"]],
        ),
        "°: cannot be told from the most changed (sign-flip test over the same inputs, corrected by Holm).",
    ]


def describe_flow_overlap(payload: JsonObject) -> str:
    """Describe the share of the flow that both models have in common."""
    overlap, used = payload["overlap"], payload["data"]["used"]
    other = overlap["other"]
    if not overlap["jaccard"]["n"]:
        return "Flow: not known, as no input has any along edges, or too many edges carry it to be sorted."
    return (
        f"Flow: overlap {format_figure(overlap['jaccard'], common_n=used)} (random edges: "
        f"{format_figure(overlap['chance'], common_n=used)}); of all edges in either set "
        f"{format_figure(overlap['only_a'], common_n=used)} are only in the first model's, "
        f"{format_figure(overlap['only_b'], common_n=used)} only in the second's. Of the edges {EDGE_KINDS[other['specials']]}: "
        f"overlap {format_figure(other['jaccard'], common_n=used)} (random edges: {format_figure(other['chance'], common_n=used)})."
    )
