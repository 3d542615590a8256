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
