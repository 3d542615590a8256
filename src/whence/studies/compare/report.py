"""Documents of a comparison of two models, over a data set and on one input.

Every figure is a mean over the inputs with its 95% bootstrap interval and n.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from whence.render import document as doc
from whence.render.blocks import build_provenance, build_tinted_input
from whence.render.document import choose_decimals, format_interval
from whence.render.text import format_columns, format_count, format_drawn_sample
from whence.studies.compare.summary import EDGE_KINDS, get_model_names

_PAGE_TITLE = "whence: what changed between two models?"
_PAGE_FOOT = "Every figure is a mean over the inputs with a 95% bootstrap interval. Layers and heads count from 0."
_DIVERGENCE_LEGEND = (
    "Divergence: the Jensen-Shannon divergence of a head's attention from its twin's, from 0 to 1 bit, in the mean "
    "over the rows of an input; decision: of the rows that the decision reads alone; strangers: of a head from "
    "another head of its layer. Figures are means over the inputs with 95% intervals."
)
_OVERLAP_LEGEND = (
    "Overlap: the Jaccard index of the edges {which} that carry {coverage:.0%} of what all such edges carry back "
    "from the decision; chance: the same of random edges, as many in each layer."
)
_EQUAL_LEGEND = "°: cannot be told from the most changed (sign-flip test over the same inputs, corrected by Holm)."
_TARGETS_LEGEND = (
    "In the mean over all layers, heads and rows. Between texts: of the rows of one text's words, what goes to "
    "words of the other; the rest goes to special tokens."
)
_MAX_HEADS = 10
# The figures of each table, by the words above them.
_LAYER_FIGURES: dict[str, Callable[[doc.JsonObject], doc.JsonObject]] = {
    "divergence": lambda layer: layer["divergence"],
    "strangers": lambda layer: layer["strangers"],
    "decision": lambda layer: layer["decision"],
    "on special tokens": lambda layer: layer["special"]["change"],
    "overlap": lambda layer: layer["overlap"],
    "chance": lambda layer: layer["chance"],
}
_HEAD_FIGURES: dict[str, Callable[[doc.JsonObject], doc.JsonObject]] = {
    "divergence": lambda head: head["divergence"],
    "decision": lambda head: head["decision"],
    "on special tokens": lambda head: head["special"]["change"],
    "entropy": lambda head: head["entropy"]["change"],
}
_PAIR_FIGURES: dict[str, Callable[[doc.JsonObject], doc.JsonObject]] = {
    "first model": lambda row: row["figures"]["a"],
    "second model": lambda row: row["figures"]["b"],
    "change": lambda row: row["figures"]["change"],
}
# The figures of layers that are drawn on a page, those on one scale together.
_DRAWN_FIGURES = (("divergence", "strangers", "decision"), ("on special tokens",))


def build_document(data: doc.JsonObject) -> doc.Document:
    """Return the document of a comparison over a data set."""
    overlap, used = data["overlap"], data["data"]["used"]
    edges = EDGE_KINDS[overlap["specials"]]
    legend = _OVERLAP_LEGEND.format(coverage=overlap["coverage"], which=edges)
    overview = doc.Section(
        "{} and {}".format(*get_model_names(data)),
        [
            doc.Paragraph(data["sentence"], "strong"),
            doc.FactList(_list_facts(data)),
            *(doc.Paragraph(line, "dim") for line in (_DIVERGENCE_LEGEND, legend, _EQUAL_LEGEND)),
        ],
    )
    heads = sorted(data["heads"], key=lambda row: -float(row["divergence"]["mean"]))
    names = [f"{head['layer']}.{head['head']}{_mark_equal(data, 'heads', head)}" for head in heads]
    all_heads = _build_table("head", names, heads, _HEAD_FIGURES, used)
    most_changed = doc.Table(all_heads.heads, all_heads.rows[:_MAX_HEADS], "The most changed heads")
    layers = [f"{row['layer']}{_mark_equal(data, 'layers', row)}" for row in data["layers"]]
    all_layers = _build_table("layer", layers, data["layers"], _LAYER_FIGURES, used, _DRAWN_FIGURES)
    more_heads = [all_heads] if len(heads) > _MAX_HEADS else []
    head_blocks: list[doc.Block] = [
        doc.Details("", list(_build_head_maps(data))),
        most_changed,
        doc.Details(f"All {len(heads)} heads", more_heads),
    ]
    sections = [
        overview,
        doc.Section("Layers", [all_layers, doc.Paragraph(_describe_flow_overlap(data))]),
        doc.Section("Heads", head_blocks),
    ]
    targets = [
        _build_table(head, [row["name"] for row in data[what]], data[what], _PAIR_FIGURES, used)
        for what, head in (("specials", "attention to"), ("segments", "attention between texts"))
    ]
    if any(table.rows for table in targets):
        legend_of_targets = doc.Paragraph(_TARGETS_LEGEND, "dim")
        sections.append(doc.Section("Where attention goes", [legend_of_targets, *targets]))
    cost = f"{data['calls']['forward']:,} forward passes of both models, {data['seconds']:,.1f} s."
    origin = [
        {f"{which} model's {key}": value for key, value in data[side].items()}
        for which, side in (("first", "a"), ("second", "b"))
    ]
    unused = [
        f"{format_count(one['count'], 'input')} not used: {one['why']}."
        for one in data["data"]["why_not"]
    ]
    remarks: list[doc.Block] = [
        doc.Bullets([line for line in _list_remarks(data) if line]),
        doc.Bullets(unused, "warning"),
        doc.Paragraph(cost, "dim"),
        build_provenance({"provenance": data["provenance"]}, a=origin[0], b=origin[1]),
    ]
    return doc.Document(
        _PAGE_TITLE, [*sections, doc.Section("Words and predictions", remarks)], _PAGE_FOOT
    )


def _list_facts(data: doc.JsonObject) -> list[tuple[str, str]]:
    """Return the facts about the compared models, data and setting, with their names."""
    setting = data["setting"]
    first, second = (
        f"{model['name']} ({model['class']})" if model.get("class") else model["name"]
        for model in (data["a"], data["b"])
    )
    edges = (
        f"the edges {EDGE_KINDS[setting['specials']]} that carry {setting['coverage']:.0%} of it"
    )
    return [
        ("first model", first),
        ("second model", second),
        ("shape", f"{setting['layers']} layers of {setting['heads']} heads, counted from 0"),
        ("data", _format_data(data["data"], setting)),
        ("decision", setting["decision"]),
        ("flow", f"weighed by {setting['weight']}, {edges}"),
        ("seed", str(setting["seed"])),
    ]


def _format_data(data: doc.JsonObject, setting: doc.JsonObject) -> str:
    sample = format_drawn_sample(setting, data)
    text = f"{data['name']}, {data['used']:,} of {data['given']:,} inputs{sample}, {data['tokens']:.0f} tokens each"
    text += format_columns(data, data.get("guessed"))
    return text + (f"; {data['cut']:,} were too long and lost their end" if data["cut"] else "")


def _build_table(
    head: str,
    names: Sequence[str],
    rows: Sequence[doc.JsonObject],
    figures: dict[str, Callable[[doc.JsonObject], doc.JsonObject]],
    used: int,
    drawn: Sequence[Sequence[str]] = (),
) -> doc.Table:
    """Return a table of figures, each column with the same decimals; a page draws the groups in `drawn`."""
    cells = {name: [find(row) for row in rows] for name, find in figures.items()}
    ends, columns = {}, []
    for group in drawn:
        scale = _find_ends([cell for name in group for cell in cells[name]])
        ends.update(dict.fromkeys(group, scale))
    for name, own in cells.items():
        digits = choose_decimals([cell for cell in own if cell["mean"] is not None])
        columns.append([_build_cell(cell, digits, used, ends.get(name)) for cell in own])
    return doc.Table((head, *figures), list(zip(names, *columns, strict=True)), wide="split")


def _find_ends(figures: Sequence[doc.JsonObject]) -> tuple[float, float]:
    """Return the scale of some figures: from zero, or with zero in the middle, to the largest end of an interval."""
    keys = ("mean", "low", "high")
    known = [one[key] for one in figures for key in keys if one[key] is not None]
    most = max(map(abs, known), default=0.0) or 1.0
    return (-most if min(known, default=0.0) < 0 else 0.0, most)


def _build_cell(
    figure: doc.JsonObject, digits: int | None, used: int, ends: tuple[float, float] | None
) -> doc.Cell:
    mean = figure["mean"]
    if mean is None:
        return doc.Cell("-")
    low, high = (mean if figure[end] is None else figure[end] for end in ("low", "high"))
    track = ends and doc.Track(mean, low, high, ends, mark=0.0 if ends[0] < 0 else None)
    return doc.Cell(format_interval(figure, digits, used), track=track)


def _mark_equal(data: doc.JsonObject, what: str, row: doc.JsonObject) -> str:
    """Return a mark (°) if a head or layer is not significantly different from the most changed."""
    for other in data["changed"][what]:
        if (other["layer"], other.get("head")) == (row["layer"], row.get("head")):
            return " °" if other["equal"] else ""
    return ""


def _build_head_maps(data: doc.JsonObject) -> Iterator[doc.Block]:
    """Yield the maps of the heads by their divergence and by their attention to special tokens, deepest layer first."""
    first, second = get_model_names(data)
    layers, heads = data["setting"]["layers"], data["setting"]["heads"]
    for figure, title, says in (
        (
            "divergence",
            "Divergence of each head, in bits",
            f"How far the attention of {second} is from that of {first}, head by head",
        ),
        (
            "on special tokens",
            "Change of the attention to special tokens",
            f"Blue: more in {second}, orange: less",
        ),
    ):
        values = [float(_HEAD_FIGURES[figure](row)["mean"]) for row in data["heads"]]
        full = max(map(abs, values), default=0.0)
        yield doc.Plot(
            {
                "kind": "matrix",
                "title": title,
                "rows": [f"layer {layer}" for layer in reversed(range(layers))],
                "columns": list(range(heads)),
                "values": [values[at * heads : (at + 1) * heads] for at in reversed(range(layers))],
                "range": (0 if figure == "divergence" else -full, full),
                "brief": True,
            }
        )
        yield doc.Paragraph(f"{says}; full colour: {full:.2g}.", "dim")


def _describe_flow_overlap(data: doc.JsonObject) -> str:
    """Describe the share of the flow that both models have in common."""
    overlap, used = data["overlap"], data["data"]["used"]
    if not overlap["jaccard"]["n"]:
        return "Flow: not known, as no input has any along edges, or too many edges carry it to be sorted."
    jaccard, chance, only_a, only_b, other, other_chance = (
        _format_figure(figure, used)
        for figure in (
            *(overlap[what] for what in ("jaccard", "chance", "only_a", "only_b")),
            *(overlap["other"][what] for what in ("jaccard", "chance")),
        )
    )
    return (
        f"Flow: overlap {jaccard} (random edges: {chance}); of all edges in either set {only_a} are only in the first "
        f"model's, {only_b} only in the second's. Of the edges {EDGE_KINDS[overlap['other']['specials']]}: overlap "
        f"{other} (random edges: {other_chance})."
    )


def _format_figure(figure: doc.JsonObject, used: int) -> str:
    if figure["mean"] is None:
        return "-"
    return format_interval(figure, choose_decimals([figure]), used)


def _list_remarks(data: doc.JsonObject) -> Iterator[str]:
    """Yield further findings, and the reasons for missing ones."""
    changed, used, predictions = data["changed"], data["data"]["used"], data["predictions"]
    if changed["enough"]:
        in_second = "in the second model"
        for heads, more, less in (
            (changed["special"], f"attend more to special tokens {in_second}", "attend less"),
            (changed["entropy"], f"look more widely {in_second}", "look less widely"),
        ):
            yield f"{len(heads['more'])} of {heads['of']} heads surely {more}, and {len(heads['less'])} {less}."
    else:
        yield f"{used} inputs are too few to say of any head whether it surely changed: more would."
    yield _describe_attributions(data)
    if predictions is None:
        yield "Neither model has a classification head: there are no predictions to compare."
        return
    if predictions["agreement"] is not None:
        same = _format_figure(predictions["agreement"], used)
        yield f"The models predict the same on {same} of the inputs."
    accuracy = predictions["accuracy"]
    if accuracy is None:
        why = predictions["without_accuracy"]
        yield f"Accuracy is not known: {why}" if why else ""
        return
    parts = [
        f"{name} {_format_figure(accuracy[side], used)}"
        for name, side in zip((*get_model_names(data), "change"), ("a", "b", "change"), strict=True)
        if accuracy[side] is not None
    ]
    yield f"Accuracy: {', '.join(parts)}."


def _describe_attributions(data: doc.JsonObject) -> str:
    attribution, used = data["attribution"], data["data"]["used"]
    if attribution is None:
        return f"Attributions were not compared: {data['without_attribution']}"
    text = (
        f"Attributions by {attribution['method']}, for what the second model predicts: tau-b of the words "
        f"{_format_figure(attribution['tau'], used)} (random rankings: 0)"
    )
    if attribution["top"]["n"]:
        text += (
            f", overlap of the {attribution['k']} strongest words {_format_figure(attribution['top'], used)} "
            f"(random rankings: {_format_figure(attribution['chance'], used)})"
        )
    return f"{text}."


def build_input_document(comparison: doc.JsonObject) -> doc.Document:
    """Return the document of the comparison of two models on one input."""
    names = get_model_names(comparison)
    source = comparison["input"]
    predictions = zip(names, map(_format_prediction, comparison["predictions"]), strict=True)
    heads = [
        (f"{head['layer']}.{head['head']}", f"{head['divergence']:.3f}", f"{head['decision']:.3f}")
        for head in comparison["changed"][:_MAX_HEADS]
    ]
    layers = comparison["layers"]
    most = max(range(len(layers)), key=lambda layer: layers[layer])
    farthest = (
        f"Attention is farthest apart in layer {most}: {layers[most]:.3f} bits, in the mean over its heads and rows."
        if layers[most]
        else "Both attend alike to the last bit."
    )
    blocks: list[doc.Block] = [
        *(doc.Paragraph(source[part] or "") for part in ("text", "pair")),
        doc.Table(("model", "prediction"), list(predictions)),
    ]
    for side, explanation in enumerate(comparison["explanations"]):
        if explanation is not None:
            payload: dict[str, Any] = {**comparison, "target": comparison["flows"][side]["target"]}
            blocks.append(doc.Heading(f"{names[side]}, {explanation['method']}"))
            blocks += build_tinted_input(payload, explanation)
    blocks += [
        doc.Paragraph(farthest),
        doc.Table(("most changed head", "divergence, bits", "of the decision's rows"), heads),
        *(doc.Paragraph(warned["message"], "dim") for warned in comparison["warnings"]),
    ]
    return doc.Document(_PAGE_TITLE, [doc.Section("{} and {}".format(*names), blocks)])


def _format_prediction(prediction: doc.JsonObject | None) -> str:
    if prediction is None:
        return "none: it has no classification head"
    share, label = prediction["probability"], prediction["label"]
    return f"{prediction['logits'][0]:.4g}" if share is None else f"{label} {share:.1%}"
