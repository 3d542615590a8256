"""The document of an audit: the answer and all verdicts, then each experiment, claim and threshold first.

It holds if the whole interval is on the side stated beforehand, fails if the whole interval is on the other side, and
is undecided otherwise. The conclusion is the first thing on a page, and the last in a terminal, where one looks.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from whence.render import document as doc
from whence.render.blocks import build_badge, build_provenance
from whence.render.charts import compute_axis_bounds
from whence.render.text import (
    format_columns,
    format_count,
    format_drawn_sample,
    format_list,
    format_name,
)
from whence.studies.audit.conclusion import (
    NO_VALUE,
    build_effect_interval,
    format_condition,
    format_effect,
    format_effect_summary,
    format_sample_size,
    format_threshold,
)

AUDIT_QUESTION = "May attention be read as an explanation here?"
EXPERIMENT_HEADS = ("experiment", "holds if", "effect", "chance", "n", "verdict")
VERDICT_LEGEND = (
    "An experiment holds if the whole 95% interval of its effect is on the side that was asked for beforehand, "
    "fails if the whole interval is on the other side, and is undecided otherwise, or where the examples are too few "
    "for a verdict or something else stands against one, which is then said. Chance: the effect of attention "
    "that means nothing, where it is known."
)
_TITLE = "whence: is attention an explanation here?"
_FOOT = "The hypotheses and thresholds were fixed before anything was measured."
_SIGNS = {"holds": "✓", "fails": "✗"}
_ANSWERS = {"yes": "Yes", "no": "No", "undecided": "Undecided"}
_SPECIAL = {
    "keep": "; the weights of special tokens are left as they are",
    "free": "; the weights of special tokens are moved like all others",
}
_MAX_LISTED = 12  # figures of a list that are written out


def build_document(data: doc.JsonObject) -> doc.Document:
    """Return the document of an audit."""
    return doc.Document(_TITLE, build_sections(data), _FOOT)


def build_sections(data: doc.JsonObject) -> list[doc.Section]:
    """Return the sections of an audit: overview, experiments, and what it took."""
    conclusion, cost = data["conclusion"], _describe_cost(data)
    overview: list[doc.Block] = [
        doc.Details("", [doc.Paragraph(conclusion)]),
        doc.FactList(_list_facts(data)),
        doc.Table(EXPERIMENT_HEADS, [build_experiment_row(one) for one in data["experiments"]]),
        doc.Paragraph("" if data["experiments"] else "No experiment was made."),
        doc.Paragraph(VERDICT_LEGEND if data["experiments"] else "", "dim"),
        doc.Bullets(_list_omissions(data), "warning"),
    ]
    answer = f"{AUDIT_QUESTION} {format_answer(data)}"
    took = doc.Paragraph(cost, "dim")
    lines = [doc.Paragraph(answer, "strong"), doc.Paragraph(conclusion), took]
    closing = doc.Details("", [took, build_provenance(data)], instead=lines)
    experiments = (_build_experiment(result) for result in data["experiments"])
    return [doc.Section(answer, overview), *experiments, doc.Section("", [closing])]


def format_answer(data: doc.JsonObject) -> str:
    """Return the answer in a word."""
    return _ANSWERS.get(data["answer"], str(data["answer"]))


def _list_facts(data: doc.JsonObject) -> list[tuple[str, str]]:
    """Return the facts about the audited model, data and setting, with their names."""
    model, examples, setting = data["model"], data["data"], data["setting"]
    first, *sites = setting.get("sites") or ["none"]
    others = f", and beside it {len(sites)} other{'s' * (len(sites) > 1)}" if sites else ""
    text = f"{examples['name']}, {examples['used']:,} of {examples['given']:,} examples"
    text += format_drawn_sample(setting, examples)
    largest = sorted((examples.get("classes") or {}).items(), key=lambda pair: -pair[1])
    seed = setting.get("seed")
    performance = _describe_performance(data.get("performance"), examples.get("without_labels"))
    return [
        ("model", model["name"] + (f" ({model['class']})" if model.get("class") else "")),
        ("data", text + format_columns(examples, examples.get("guessed"))),
        ("classes", format_list(f"{name} {count:,}" for name, count in largest)),
        ("accuracy", performance),
        ("attention", first + others + _SPECIAL.get(setting.get("special") or "", "")),
        ("training data", setting.get("train") or ""),
        ("seed", "" if seed is None else str(seed)),
    ]


def _describe_performance(performance: doc.JsonObject | None, why_not: str | None) -> str:
    if not performance or performance.get("accuracy") is None:
        return f"not known: {why_not or 'the data have no labels'}"
    text = f"{performance['accuracy']:.1%}"
    if performance.get("majority") is not None:
        text += f" (always the most frequent class: {performance['majority']:.1%})"
    if performance.get("f1") is not None:
        text += f", F1 {performance['f1']:.3f}"
    return f"{text}, n={performance['n']:,}" if performance.get("n") is not None else text


def build_experiment_row(result: doc.JsonObject) -> tuple[str | doc.Cell, ...]:
    """Return one experiment as the cells below `EXPERIMENT_HEADS`."""
    return (
        doc.Cell(result["name"], link=result["name"]),
        format_condition(result),
        format_effect(result),
        format_threshold(result.get("chance")),
        str(result["n"]),
        _build_badge(result),
    )


def _build_badge(result: doc.JsonObject) -> doc.Cell:
    return build_badge(result["verdict"], _SIGNS.get(result["verdict"], "?"))


def _list_omissions(data: doc.JsonObject) -> list[str]:
    """Return the examples that were not used and the experiments that were not run, with reasons."""
    lines = [
        f"{format_count(entry['count'], 'example')} not used: {entry['why']}"
        for entry in data["data"].get("why_not") or ()
    ]
    by_reason: dict[str, list[str]] = {}
    for entry in data.get("not_run") or ():
        by_reason.setdefault(entry["why"], []).append(entry["name"])
    return lines + [f"Not run: {', '.join(names)} ({why})." for why, names in by_reason.items()]


def _describe_cost(data: doc.JsonObject) -> str:
    calls = data.get("calls") or {}
    passes = [f"{calls[what]:,.0f} {what}" for what in ("forward", "backward") if calls.get(what)]
    if data["seconds"] is None:
        return "What it took is in the journal of the run."
    prefix = f"{' and '.join(passes)} passes of the model, " if passes else ""
    return f"{prefix}{data['seconds']:,.1f} s."


def _build_experiment(result: doc.JsonObject) -> doc.Section:
    """Return the section of one experiment: hypothesis and rule, then effect, then details."""
    other = "below" if result["direction"] == "above" else "above"
    condition, summary = format_condition(result), format_effect_summary(result)
    rule = (
        f"Holds if the whole 95% interval is {condition}, fails if the whole interval is {other}, is undecided "
        "otherwise, or with too few examples."
    )
    claim = [("hypothesis", result["hypothesis"]), ("measured", result["measure"])]
    claim.append(("threshold", rule))
    chance = result.get("chance")
    chance = "" if chance is None else f"Chance, dotted: {format_threshold(chance)}."
    effect = {
        **result,
        "kind": "effect",
        "title": f"{result['name']}: effect against the threshold",
        "desc": f"{summary}; holds if {condition}: {result['verdict']}",
    }
    remarks = [*filter(None, [result.get("why")]), *(result.get("notes") or ())]
    blocks: list[doc.Block] = [
        doc.Details("", [doc.Paragraph(result.get("summary") or "", "dim")]),
        doc.FactList(claim),
        doc.Heading(f"{format_effect(result)}, {format_sample_size(result)}", _build_badge(result)),
        doc.Details("", [doc.Plot(effect), doc.Paragraph(chance, "dim")]),
        doc.Paragraph(_describe_importance_agreement(result)),
        doc.Bullets(remarks, "warning"),
        *(doc.Plot(plot) for plot in result.get("plots") or ()),
        _build_part_table(result, "class", "By predicted class"),
        _build_part_table(result, "site", "At the other sites"),
        _build_figures(result.get("detail") or {}),
        _build_footnotes(result),
    ]
    return doc.Section(result["name"], blocks)


def _describe_importance_agreement(result: doc.JsonObject) -> str:
    """Describe the correlation of attention with each measure of importance, if measured."""
    pairs = (result.get("detail") or {}).get("pairs")
    texts = []
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, Mapping) and pair.get("one") == "attention" and _is_mean(pair):
            share = pair.get("significant")
            tau = NO_VALUE if pair["mean"] is None else f"{pair['mean']:.3f}"
            sure = "" if None in (share, pair["mean"]) else f" (significant in {share:.0%})"
            texts.append(f"{format_name(pair['other'])} {tau}{sure}")
    return f"attention's mean tau with {', '.join(texts)}" if texts else ""


def _build_part_table(result: doc.JsonObject, which: str, title: str) -> doc.Details:
    """Return the effect at each site or for each class, drawn against the threshold on a page."""
    threshold = result["threshold"]
    parts = [{"threshold": threshold, **part} for part in result.get(f"by_{which}") or ()]
    intervals = [build_effect_interval(part) for part in parts]
    known = (one[end] for one in intervals if one for end in ("mean", "low", "high"))
    ends = compute_axis_bounds([threshold, *(value for value in known if value is not None)])
    rows, texts = [], []
    for part, interval in zip(parts, intervals, strict=True):
        effect, n, track = format_effect(part, parts), str(part["n"]), None
        if interval is not None:
            mean = interval["mean"]
            low, high = part.get("interval") or (mean, mean)
            track = doc.Track(mean, low, high, ends, mark=threshold)
        right = (doc.Cell(text, align="right") for text in (effect, n))
        rows.append((part[which], *right, doc.Cell("", track=track)))
        texts.append(f"{part[which]} {effect} n={n}")
    table = doc.Table((which, "effect", "n", "against the threshold"), rows, name=title)
    line = f"{title[:1].lower()}{title[1:]}: {'; '.join(texts)}" if texts else ""
    return doc.Details("", [table], instead=[doc.Paragraph(line)])


def _build_footnotes(result: doc.JsonObject) -> doc.Details:
    params = (result.get("params") or {}).items()
    chosen = (f"{name} = {'none' if v is None else _format_value(v)}" for name, v in params)
    calls = (result.get("calls") or {}).get("forward")
    spent = [f"{calls:,.0f} forward passes"] if calls is not None else []
    spent += [f"{result['seconds']:,.1f} s"] if result.get("seconds") is not None else []
    facts = [
        ("misleads when", result.get("misleads_when") or ""),
        ("source", result.get("cite") or ""),
        ("parameters", ", ".join(chosen)),
        ("took", ", ".join(spent)),
    ]
    return doc.Details("", [doc.FactList(facts)], instead=[doc.FactList(facts[:2])])


def _build_figures(detail: doc.JsonObject) -> doc.Details:
    """Return all further figures, folded away: uniform lists as tables, all else as facts."""
    alone: list[tuple[str, str]] = []
    tables: list[doc.Table] = []

    def add(figures: doc.JsonObject, within: str) -> None:
        for key, value in figures.items():
            name = f"{within}{format_name(str(key))}"
            if _is_table(value):
                tables.extend(_build_figure_tables(name, value))
            elif (
                isinstance(value, Mapping)
                and not _is_mean(value)
                and any(isinstance(item, Mapping | list) for item in value.values())
            ):
                add(value, f"{name}, ")
            else:
                alone.append((name, _format_value(value)))

    add(detail, "")
    return doc.Details("All figures", [doc.FactList(alone), *tables])


def _build_figure_tables(name: str, rows: Sequence[doc.JsonObject]) -> list[doc.Table]:
    """Return the table of a list of figures, and the tables nested in its rows with the row's text columns."""
    inner: dict[str, list[doc.JsonObject]] = {}
    for row in rows:
        about = {key: value for key, value in row.items() if isinstance(value, str)}
        for key, value in row.items():
            if _is_table(value):
                inner.setdefault(key, []).extend({**about, **nested} for nested in value)
    own = [{key: value for key, value in row.items() if key not in inner} for row in rows]
    for row in own:
        if _is_mean(row):  # a mean and its interval are one figure
            row["mean"] = _format_mean(row)
            del row["interval"]
    keys = list(dict.fromkeys(key for row in own for key in row))
    cells = [[_format_value(row.get(key)) for key in keys] for row in own]
    tables = [doc.Table([*map(format_name, keys)], cells, name=name)]
    for key, some in inner.items():
        tables += _build_figure_tables(f"{name}, {format_name(key)}", some)
    return tables


def _is_mean(value: Any) -> bool:
    """Return whether a figure is a mean with its interval and n."""
    return isinstance(value, Mapping) and {"mean", "interval", "n"} <= value.keys()


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _format_mean(value: doc.JsonObject) -> str:
    return format_effect({"effect": value["mean"], **value})


def _format_value(value: Any) -> str:
    """Format a further figure of any type."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if _is_mean(value):
        mean = _format_mean(value)
        return mean if mean == NO_VALUE else f"{mean} n={value['n']}"
    if isinstance(value, Mapping):
        return "; ".join(f"{format_name(str(k))} {_format_value(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        if len(value) > _MAX_LISTED or any(isinstance(item, list | tuple) for item in value):
            return f"{len(value)} in the JSON"
        return f"[{', '.join(map(_format_value, value))}]"
    return str(value)
