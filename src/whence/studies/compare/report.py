"""How a comparison says things, on every surface the same."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whence.report.data import drawn_told
from whence.report.figures import digits_of, interval
from whence.report.text import visible

Facts = Mapping[str, Any]
Row = tuple[str, ...]

NOTHING = "-"
QUESTION = "What changed between the two models?"
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
LEGEND = (
    "Divergence: the Jensen-Shannon divergence of a head's attention from its twin's, from 0 to 1 bit, in the mean "
    "over the rows of an input; decision: of the rows that the decision reads alone; strangers: of a head from "
    "another head of its layer. Figures are means over the inputs with 95% intervals."
)
OVERLAP_LEGEND = (
    "Overlap: the Jaccard index of the edges {which} that carry {coverage:.0%} of what all such edges carry back "
    "from the decision; chance: the same of random edges, as many in each layer."
)
# Which edges count, by whether those that end on special tokens do.
WHICH = {False: "to words", True: "to words and special tokens"}


def one_line(text: Any) -> str:
    """Return a text from outside on one line, without signs that could do anything."""
    return " ".join(visible(str(text)).split())


def names(payload: Facts) -> tuple[str, str]:
    """Return the names of the two models; a folder goes by its last name."""
    one, other = (one_line(payload[side]["name"]) for side in "ab")
    return _short(one), _short(other)


def _short(name: str) -> str:
    return Path(name).name if Path(name).is_absolute() else name


def title(payload: Facts) -> str:
    """Say what was compared."""
    return "{} and {}".format(*names(payload))


def facts(payload: Facts) -> list[tuple[str, str]]:
    """Return what was compared: each fact with its name."""
    data, setting = payload["data"], payload["setting"]
    one, other = (
        name + (f" ({one_line(model['class'])})" if model.get("class") else "")
        for model in (payload["a"], payload["b"])
        for name in [one_line(model["name"])]
    )
    told = [
        ("first model", one),
        ("second model", other),
        ("shape", f"{setting['layers']} layers of {setting['heads']} heads, counted from 0"),
        ("data", _data(data, setting)),
        ("decision", one_line(setting["decision"])),
        (
            "flow",
            f"weighed by {one_line(setting['weight'])}, the edges {WHICH[setting['specials']]} that carry "
            f"{setting['coverage']:.0%} of it",
        ),
        ("seed", str(setting["seed"])),
    ]
    return [(name, text) for name, text in told if text]


def _data(data: Facts, setting: Facts) -> str:
    columns = ", ".join(
        f"{what} from {one_line(data[what])!r}"
        for what in ("text", "pair", "label")
        if data.get(what) is not None
    )
    guessed = (
        f" ({', '.join(map(one_line, data['guessed']))} guessed)" if data.get("guessed") else ""
    )
    said = f"{one_line(data['name'])}, {data['used']:,} of {data['given']:,} inputs"
    said += f"{drawn_told(setting, data)}, {data['tokens']:.0f} tokens each"
    said += f"; {columns}{guessed}" if columns else ""
    return said + (f"; {data['cut']:,} were too long and lost their end" if data["cut"] else "")


def figure(one: Facts | None, beside: Sequence[Facts | None] = (), said: int = 0) -> str:
    """Write a mean with its interval, to the same place as those beside it; n where it is not `said`."""
    if one is None or one["mean"] is None:
        return NOTHING
    known = [other for other in beside or [one] if other is not None and other["mean"] is not None]
    return interval(one, digits_of(known), said)


def layer_rows(payload: Facts) -> list[Row]:
    """Return every layer as the cells below `LAYER_HEADS`."""
    return _rows(
        payload,
        [
            [
                one["divergence"],
                one["strangers"],
                one["decision"],
                one["special"]["change"],
                one["overlap"],
                one["chance"],
            ]
            for one in payload["layers"]
        ],
        [f"{one['layer']}{_mark(payload, 'layers', one)}" for one in payload["layers"]],
    )


def layer_tables(payload: Facts) -> list[tuple[Row, list[Row]]]:
    """Return the layers as two tables that a terminal has room for: attention, and where it goes."""
    rows = layer_rows(payload)
    parts = ((0, 1, 2, 3), (0, 4, 5, 6))
    return [
        (
            tuple(LAYER_HEADS[place] for place in part),
            [tuple(row[place] for place in part) for row in rows],
        )
        for part in parts
    ]


def head_rows(payload: Facts, most: int | None = None) -> list[Row]:
    """Return the heads, the most changed first, as the cells below `HEAD_HEADS`."""
    heads = sorted(payload["heads"], key=lambda one: -float(one["divergence"]["mean"]))[:most]
    return _rows(
        payload,
        [
            [one["divergence"], one["decision"], one["special"]["change"], one["entropy"]["change"]]
            for one in heads
        ],
        [f"{one['layer']}.{one['head']}{_mark(payload, 'heads', one)}" for one in heads],
    )


def _mark(payload: Facts, what: str, one: Facts) -> str:
    """Mark what cannot be told from the most changed."""
    for other in payload["changed"][what]:
        if (other["layer"], other.get("head")) == (one["layer"], one.get("head")):
            return " °" if other["equal"] else ""
    return ""


def pair_rows(payload: Facts, what: str) -> list[Row]:
    """Return figures of both models and their change, as the cells below `PAIR_HEADS`."""
    rows = payload[what]
    cells = [[one["figures"][side] for side in ("a", "b", "change")] for one in rows]
    return _rows(payload, cells, [one_line(one["name"]) for one in rows])


def _rows(payload: Facts, cells: list[list[Facts]], first: list[str]) -> list[Row]:
    """Write columns of figures, each to the same place from top to bottom."""
    used = payload["data"]["used"]
    columns = list(zip(*cells, strict=True))
    return [
        (name, *(figure(one, columns[place], used) for place, one in enumerate(row)))
        for name, row in zip(first, cells, strict=True)
    ]


def remarks(payload: Facts) -> list[str]:
    """Say what else was found, and what could not be."""
    return [
        line for line in [*_moved(payload), _agreement(payload), *_predictions(payload)] if line
    ]


def _moved(payload: Facts) -> list[str]:
    changed = payload["changed"]
    if not changed["enough"]:
        return [
            f"{payload['data']['used']} inputs are too few to say of any head whether it surely changed: more would."
        ]
    return [
        f"{len(found['more'])} of {found['of']} heads surely {more}, and {len(found['less'])} {less}."
        for found, more, less in (
            (
                changed["special"],
                "attend more to special tokens in the second model",
                "attend less",
            ),
            (changed["entropy"], "look more widely in the second model", "look less widely"),
        )
    ]


def _agreement(payload: Facts) -> str:
    found, used = payload["attribution"], payload["data"]["used"]
    if found is None:
        return f"Attributions were not compared: {one_line(payload['without_attribution'])}"
    said = (
        f"Attributions by {one_line(found['method'])}, for what the second model predicts: tau-b of the words "
        f"{figure(found['tau'], said=used)} (random rankings: 0)"
    )
    if found["top"]["n"]:
        said += (
            f", overlap of the {found['k']} strongest words {figure(found['top'], said=used)} "
            f"(random rankings: {figure(found['chance'], said=used)})"
        )
    return f"{said}."


def _predictions(payload: Facts) -> list[str]:
    found, used = payload["predictions"], payload["data"]["used"]
    if found is None:
        return ["Neither model has a classification head: there are no predictions to compare."]
    lines = []
    if found["agreement"] is not None:
        lines.append(
            f"The models predict the same on {figure(found['agreement'], said=used)} of the inputs."
        )
    accuracy = found["accuracy"]
    if accuracy is None:
        return [
            *lines,
            *(
                [f"Accuracy is not known: {one_line(found['without_accuracy'])}"]
                if found["without_accuracy"]
                else []
            ),
        ]
    told = [
        f"{name} {figure(accuracy[side], said=used)}"
        for name, side in zip(names(payload), "ab", strict=True)
        if accuracy[side] is not None
    ]
    change = f", change {figure(accuracy['change'], said=used)}" if accuracy["change"] else ""
    return [*lines, f"Accuracy: {', '.join(told)}{change}."]


def left_out(payload: Facts) -> list[str]:
    """Say which inputs were not used, and why."""
    return [
        f"{one['count']:,} input{'' if one['count'] == 1 else 's'} not used: {one_line(one['why'])}."
        for one in payload["data"]["why_not"]
    ]


def effort(payload: Facts) -> str:
    """Say what it took."""
    return f"{payload['calls']['forward']:,} forward passes of both models, {payload['seconds']:,.1f} s."


def legend(payload: Facts) -> list[str]:
    """Say how to read the figures."""
    return [
        LEGEND,
        OVERLAP_LEGEND.format(
            coverage=payload["overlap"]["coverage"], which=WHICH[payload["overlap"]["specials"]]
        ),
        "°: cannot be told from the most changed (sign-flip test over the same inputs, corrected by Holm).",
    ]


def overlap(payload: Facts) -> str:
    """Say how much of the flow both models share."""
    found, used = payload["overlap"], payload["data"]["used"]
    other = found["other"]
    if not found["jaccard"]["n"]:
        return "Flow: not known, as no input has any along edges, or too many edges carry it to be sorted."
    return (
        f"Flow: overlap {figure(found['jaccard'], said=used)} (random edges: "
        f"{figure(found['chance'], said=used)}); of all edges in either set "
        f"{figure(found['only_a'], said=used)} are only in the first model's, "
        f"{figure(found['only_b'], said=used)} only in the second's. Of the edges {WHICH[other['specials']]}: "
        f"overlap {figure(other['jaccard'], said=used)} (random edges: {figure(other['chance'], said=used)})."
    )


"""A comparison in a few sentences, every figure with its interval and n."""

from collections.abc import Mapping
from typing import Any

from whence.report.comparison.wording import WHICH, names
from whence.report.figures import digits_of, interval


def sentence(payload: Mapping[str, Any]) -> str:
    """Say what the comparison found."""
    used = payload["data"]["used"]
    if identical(payload):
        both = " and ".join(_names(payload))
        return f"{both} attend alike to the last bit on {_inputs(used)}: no head diverges from its twin."
    parts = [_layers(payload, used), _heads(payload, used), _flow(payload, used), _words(payload)]
    return " ".join(part for part in parts if part)


def identical(payload: Mapping[str, Any]) -> bool:
    """Whether no head of one model attends otherwise than its twin, on any input."""
    return all(one["divergence"]["mean"] == 0 for one in payload["heads"])


def _layers(payload: Mapping[str, Any], used: int) -> str:
    layers = payload["layers"]
    found = payload["changed"]["layers"]
    first = found[0]
    least = min(layers, key=lambda one: float(one["divergence"]["mean"]))
    one, other = _names(payload)
    said = (
        f"Over {_inputs(used)}, the attention of {other} is farthest from that of {one} in layer {first['layer']} "
        f"({_bits(first['divergence'], used)})"
    )
    if len(layers) > 1:
        said += f" and nearest in layer {least['layer']} ({_bits(least['divergence'], used)})"
    strangers = layers[first["layer"]]["strangers"]
    if strangers["n"]:
        said += (
            f"; two different heads of layer {first['layer']} are {_bits(strangers, used)} apart"
        )
    return f"{said}."


def _heads(payload: Mapping[str, Any], used: int) -> str:
    changed = payload["changed"]
    first = changed["heads"][0]
    said = f"The most changed head is {_name(first)} ({_bits(first['divergence'], used)})"
    others = changed["equal_heads"] - 1
    if not changed["enough"]:
        return f"{said}; {_inputs(used)} {'is' if used == 1 else 'are'} too few to tell it from any other."
    if not others:
        return f"{said}, surely more than any other."
    return f"{said}; {others} other{'s' * (others > 1)} cannot be told from it."


def _flow(payload: Mapping[str, Any], used: int) -> str:
    overlap = payload["overlap"]
    if not overlap["jaccard"]["n"]:
        return ""
    said = (
        f"Of the edges {WHICH[overlap['specials']]} that carry {overlap['coverage']:.0%} of what all such edges "
        f"carry, the models share {_figure(overlap['jaccard'], used)} (Jaccard index; random edges: "
        f"{_figure(overlap['chance'], used)})"
    )
    other = overlap["other"]
    if other["jaccard"]["n"]:
        said += (
            f"; of those {WHICH[other['specials']]}, {_figure(other['jaccard'], used)} (random edges: "
            f"{_figure(other['chance'], used)})"
        )
    return f"{said}."


def _words(payload: Mapping[str, Any]) -> str:
    found = payload["attribution"]
    if found is None or not found["tau"]["n"]:
        return ""
    return (
        f"By {found['method']} they rank the words alike with a mean tau-b of "
        f"{_figure(found['tau'], payload['data']['used'])} (random rankings: 0)."
    )


def _names(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Name the models; two of one name are told apart by their order."""
    one, other = names(payload)
    return (one, other) if one != other else (f"the first {one}", f"the second {other}")


def _inputs(used: int) -> str:
    return "1 input" if used == 1 else f"{used} inputs"


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['layer']}.{one['head']}"


def _bits(one: Mapping[str, Any], used: int) -> str:
    return f"{_figure(one, used)} bits"


def _figure(one: Mapping[str, Any], used: int) -> str:
    return interval(one, digits_of([one]), used)


"""A comparison of two models: as text, in a terminal and on a page."""

from whence.report.comparison.html import fragment, page
from whence.report.comparison.text import plain

__all__ = ["fragment", "page", "plain"]


"""All heads at a glance: a cell for each layer and head, tinted by one figure; who points at it reads the figure."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from whence.report.comparison.wording import figure
from whence.report.plot.frame import WIDTH, svg, text
from whence.view.shade import colour

Facts = Mapping[str, Any]

_LEFT, _TOP, _BELOW = 34, 20, 44
_GAP = 1
_TALLEST = 22
_LABELS = 16  # numbers along an edge, at most


def headmap(
    payload: Facts, name: str, told: str, of: Callable[[Facts], Facts], signed: bool
) -> str:
    """Draw one figure of every head; the deepest layer is on top, and full colour is the largest of all."""
    layers, heads = payload["setting"]["layers"], payload["setting"]["heads"]
    width = (WIDTH - _LEFT - 4) / heads
    height = min(_TALLEST, width)
    floor = _TOP + layers * height
    values = [float(of(one)["mean"]) for one in payload["heads"]]
    largest = max((abs(value) for value in values), default=0.0)
    used = payload["data"]["used"]
    body = [
        _cell(
            _LEFT + one["head"] * width,
            _TOP + (layers - 1 - one["layer"]) * height,
            (width - _GAP, height - _GAP),
            value / largest if largest else 0.0,
            f"head {one['layer']}.{one['head']}: {figure(of(one), said=used)}",
        )
        for one, value in zip(payload["heads"], values, strict=True)
    ]
    for layer in _labelled(layers):
        middle = _TOP + (layers - 0.5 - layer) * height
        body.append(text(_LEFT - 5, middle + 4, str(layer), "end"))
    for head in _labelled(heads):
        body.append(text(_LEFT + (head + 0.5) * width, floor + 12, str(head), "middle"))
    body.append(text(2, 12, "layer"))
    body.append(text(WIDTH - 4, 12, "heads below", "end"))
    body += _scale(floor + 22, largest, signed)
    return svg(WIDTH, floor + _BELOW, name, f"{told} {_summary(payload, values)}", body)


def _cell(x: float, y: float, size: tuple[float, float], share: float, told: str) -> str:
    tint = "rgb({},{},{})".format(*colour(share))
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" style="fill: {tint}">'
        f"<title>{escape(told)}</title></rect>"
    )


def _labelled(count: int) -> Sequence[int]:
    return range(0, count, max(1, -(-count // _LABELS)))


def _scale(top: float, largest: float, signed: bool) -> list[str]:
    """Draw what the tints mean, with figures at the ends."""
    if not largest:
        return [text(_LEFT, top + 10, "0 everywhere")]
    steps = [step / 10 for step in range(-10 if signed else 0, 11)]
    wide = 8.0
    left = text(_LEFT + 44, top + 10, f"{-largest:.2g}" if signed else "0", "end")
    cells = [
        _cell(_LEFT + 50 + place * wide, top, (wide, 12), step, f"{step * largest:.2g}")
        for place, step in enumerate(steps)
    ]
    end = _LEFT + 56 + len(steps) * wide
    return [left, *cells, text(end, top + 10, f"{largest:.2g}")]


def _summary(payload: Facts, values: Sequence[float]) -> str:
    """Say the ends in words, for who does not see the map; a table has all figures."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    low, high = (payload["heads"][order[end]] for end in (0, -1))
    return (
        f"From {values[order[0]]:.3g} (head {low['layer']}.{low['head']}) to {values[order[-1]]:.3g} "
        f"(head {high['layer']}.{high['head']})."
    )


"""A comparison as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.style import PAGE
from whence.report.audit.style import STYLE as SECTIONS
from whence.report.audit.tables import wide
from whence.report.comparison.headmap import headmap
from whence.report.comparison.text import MOST, PAIRS
from whence.report.comparison.wording import (
    HEAD_HEADS,
    PAIR_HEADS,
    effort,
    facts,
    head_rows,
    layer_tables,
    left_out,
    legend,
    names,
    one_line,
    overlap,
    pair_rows,
    remarks,
    title,
)
from whence.report.plot import draw
from whence.report.sheet import cell, provenance, sheet
from whence.report.text import tame

Facts = Mapping[str, Any]

_FOOT = "Every figure is a mean over the inputs with a 95% bootstrap interval. Layers and heads count from 0."
_STYLE = """
.whence .panels > figure { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
"""
_TITLE = "whence: what changed between two models?"


def page(payload: Facts, heading: str = _TITLE) -> str:
    """Return a whole page."""
    return tame(sheet(heading, _body(payload), _FOOT, SECTIONS + _STYLE + PAGE))


def fragment(payload: Facts) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_body(payload), SECTIONS + _STYLE))


def _body(payload: Facts) -> str:
    return "\n".join(
        [
            '<div class="audit">',  # the style of sections, tables and facts is the audit's
            _overall(payload),
            _layers(payload),
            _heads(payload),
            _tokens(payload),
            _rest(payload),
            "</div>",
        ]
    )


def _overall(payload: Facts) -> str:
    told = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts(payload)
    )
    return _section(
        title(payload),
        f'<p class="conclusion">{escape(one_line(payload["sentence"]))}</p>',
        f'<dl class="facts">{told}</dl>',
        *(f'<p class="dim">{escape(line)}</p>' for line in legend(payload)),
    )


def _layers(payload: Facts) -> str:
    drawn = [
        _bars(payload, "Divergence by layer", "bits", lambda one: one["divergence"]),
        _bars(payload, "Divergence of the decision's rows", "bits", lambda one: one["decision"]),
        _bars(payload, "Overlap of the flow by layer", "Jaccard index", lambda one: one["overlap"]),
    ]
    return _section(
        "Layers",
        '<div class="panels">' + "".join(drawn) + "</div>",
        *(_table("Layers", heads, rows) for heads, rows in layer_tables(payload)),
        f"<p>{escape(overlap(payload))}</p>",
    )


def _bars(payload: Facts, name: str, unit: str, of: Callable[[Facts], Facts]) -> str:
    bars = [
        {"name": f"layer {one['layer']}", "value": of(one)["mean"], **_ends(of(one))}
        for one in reversed(payload["layers"])
    ]
    return draw({"kind": "bars", "title": name, "y": unit, "bars": bars, "threshold": None})


def _ends(one: Facts) -> dict[str, Any]:
    return {"low": one["low"], "high": one["high"]}


def _heads(payload: Facts) -> str:
    first, second = names(payload)
    maps = [
        (
            "Divergence of each head, in bits",
            f"How far the attention of {second} is from that of {first}, head by head.",
            headmap(
                payload,
                "Divergence of each head",
                "Mean Jensen-Shannon divergence in bits, by layer and head.",
                lambda one: one["divergence"],
                signed=False,
            ),
        ),
        (
            "Change of the attention to special tokens",
            f"Blue: more in {second}, orange: less.",
            headmap(
                payload,
                "Change of the attention to special tokens",
                "Share of attention on special tokens in the second model less that in the first.",
                lambda one: one["special"]["change"],
                signed=True,
            ),
        ),
    ]
    drawn = "".join(
        f'<figure><figcaption>{escape(name)}</figcaption><p class="dim">{escape(told)}</p>'
        f"{drawing}</figure>"
        for name, told, drawing in maps
    )
    every = head_rows(payload)
    rest = _table("All heads", HEAD_HEADS, every)
    return _section(
        "Heads",
        f'<div class="panels">{drawn}</div>',
        "<h3>The most changed</h3>",
        _table("The most changed heads", HEAD_HEADS, every[:MOST]),
        f"<details><summary>All {len(every)} heads</summary>{rest}</details>"
        if len(every) > MOST
        else "",
    )


def _tokens(payload: Facts) -> str:
    tables = [
        _table(head, (head, *PAIR_HEADS[1:]), rows)
        for what, head in PAIRS
        if (rows := pair_rows(payload, what))
    ]
    note = (
        "In the mean over all layers, heads and rows. Between texts: of the rows of one text's words, what goes to "
        "words of the other; the rest goes to special tokens."
    )
    return _section("Where attention goes", f'<p class="dim">{note}</p>', *tables) if tables else ""


def _rest(payload: Facts) -> str:
    both = {
        "model": {
            f"{which} {key}": value
            for which, side in (("first model's", "a"), ("second model's", "b"))
            for key, value in payload[side].items()
        },
        "provenance": dict(payload["provenance"]),
    }
    return _section(
        "Words and predictions",
        _list([*remarks(payload), *left_out(payload)]),
        f'<p class="dim">{escape(effort(payload))}</p>',
        provenance(both),
    )


def _section(heading: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *parts, "</section>"])


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f'<td class="brief">{escape(text)}</td>' for text in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return wide(f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>", name)


"""Two models on one input as a piece of HTML: what shows where no script runs."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.style import STYLE as SECTIONS
from whence.report.comparison.wording import names, one_line
from whence.report.sheet import cell
from whence.report.strip import strips
from whence.report.text import tame
from whence.view.shade import shades

Facts = Mapping[str, Any]

_MOST = 10  # heads


def one_fragment(found: Facts) -> str:
    """Return what two models did with one input, for a notebook cell."""
    one, other = names(found)
    rows = [
        _prediction(name, said)
        for name, said in zip((one, other), found["predictions"], strict=True)
    ]
    heads = [
        (f"{head['layer']}.{head['head']}", f"{head['divergence']:.3f}", f"{head['decision']:.3f}")
        for head in found["changed"][:_MOST]
    ]
    body = [
        "<section>",
        f"<h2>{escape(one)} and {escape(other)}</h2>",
        *(f"<p>{escape(text)}</p>" for text in _texts(found["input"])),
        _table(("model", "prediction"), rows),
        *(_strip(found, side, name) for side, name in enumerate((one, other))),
        f"<p>{escape(_moved(found))}</p>",
        _table(("most changed head", "divergence, bits", "of the decision's rows"), heads)
        if heads
        else "",
        *(
            f'<p class="dim">{escape(one_line(warned["message"]))}</p>'
            for warned in found["warnings"]
        ),
        "</section>",
    ]
    return tame(cell("\n".join(part for part in body if part), SECTIONS))


def _texts(source: Facts) -> list[str]:
    return [one_line(source[part]) for part in ("text", "pair") if source[part] is not None]


def _prediction(name: str, said: Facts | None) -> tuple[str, str]:
    if said is None:
        return name, "none: it has no classification head"
    share = said["probability"]
    value = (
        f"{said['logits'][0]:.4g}" if share is None else f"{one_line(said['label'])} {share:.1%}"
    )
    return name, value


def _strip(found: Facts, side: int, name: str) -> str:
    """Return the text tinted by one model's scores, where it has any."""
    explanation = found["explanations"][side]
    if explanation is None:
        return ""
    payload = {**found, "target": found["flows"][side]["target"]}
    tints = shades(payload, explanation)
    told = f"{escape(name)}, {escape(explanation['method'])}"
    return f'<h3>{told}</h3><p class="dim">{escape(tints.legend)}</p>{strips(payload, explanation, tints)}'


def _moved(found: Facts) -> str:
    layers = found["layers"]
    most = max(range(len(layers)), key=lambda layer: layers[layer])
    if not layers[most]:
        return "Both attend alike to the last bit."
    bits = f"{layers[most]:.3f} bits, in the mean over its heads and rows"
    return f"Attention is farthest apart in layer {most}: {bits}."


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


"""A comparison in a terminal: the sentences first, then layers, heads and the rest."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from whence.report.comparison.text import MOST, PAIRS
from whence.report.comparison.wording import (
    HEAD_HEADS,
    PAIR_HEADS,
    effort,
    facts,
    head_rows,
    layer_tables,
    left_out,
    legend,
    one_line,
    overlap,
    pair_rows,
    remarks,
    title,
)
from whence.report.terminal import Writer, named, rowed


class Sheet:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the comparison out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        width = options.max_width
        yield write(title(payload), "bold")
        yield write(one_line(payload["sentence"]))
        yield Text()
        yield named(facts(payload), write, width)
        for heads, rows in layer_tables(payload):
            yield Text()
            yield rowed(heads, rows, write, width)
        yield Text()
        yield rowed(HEAD_HEADS, head_rows(payload, MOST), write, width)
        for what, head in PAIRS:
            if rows := pair_rows(payload, what):
                yield Text()
                yield rowed((head, *PAIR_HEADS[1:]), rows, write, width)
        yield Text()
        for line in legend(payload):
            yield write(line, "dim")
        yield Text()
        for line in [overlap(payload), *remarks(payload)]:
            yield write(line)
        for line in left_out(payload):
            yield write(line, "yellow")
        yield write(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay a comparison out for rich."""
    return Sheet(payload)


"""A comparison as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.report.comparison.wording import (
    HEAD_HEADS,
    PAIR_HEADS,
    effort,
    facts,
    head_rows,
    layer_tables,
    left_out,
    legend,
    one_line,
    overlap,
    pair_rows,
    remarks,
    title,
)

MOST = 10
PAIRS = (("specials", "attention to"), ("segments", "attention between texts"))


def plain(payload: Mapping[str, Any]) -> str:
    """Write a comparison as lines of text."""
    lines = [title(payload), "", one_line(payload["sentence"]), ""]
    lines += [f"{name}: {text}" for name, text in facts(payload)]
    for heads, rows in layer_tables(payload):
        lines += ["", *_table(heads, rows)]
    lines += ["", *_table(HEAD_HEADS, head_rows(payload, MOST))]
    for what, head in PAIRS:
        if rows := pair_rows(payload, what):
            lines += ["", *_table((head, *PAIR_HEADS[1:]), rows)]
    lines += ["", *legend(payload), "", overlap(payload), *remarks(payload), *left_out(payload)]
    return "\n".join([*lines, "", effort(payload)])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)).rstrip()
        for cells in (heads, *rows)
    ]
