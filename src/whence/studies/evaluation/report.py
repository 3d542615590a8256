"""Documents of evaluations and recommendations: methods by metrics, differences, costs and notes; CSV.

Never a mean without its interval or n. A method is marked as best (*) if no other is better by more than
chance, and as chance (°) if it cannot be told from random explanations: paired sign-flip tests, corrected
by Holm's procedure for all comparisons of a metric, at 5%. Where too few examples were tested for any
difference to show, the notes say so and give the number needed.
"""

from collections.abc import Iterator, Sequence
from math import floor, log10
from statistics import mode
from typing import Any

from whence.render import document as doc
from whence.render.blocks import build_provenance
from whence.render.document import TOO_FEW, choose_decimals, format_interval
from whence.render.text import format_dataset, format_name
from whence.studies.evaluation.evaluation import describe_failure, list_reasons
from whence.studies.evaluation.statistics import describe_too_few

PAGE_TITLE = "whence: methods held against each other"
ARROWS = {"higher": "↑", "lower": "↓"}
NOT_TESTED = "not tested"
CHANCE_ROW = "chance"  # not "random", which is also the name of a method
BEST_MARK, CHANCE_MARK = "*", "°"
TABLE_LEGEND = (
    "Mean over the examples [95% bootstrap interval]. ↑ more is better, ↓ less is better. Chance: what random "
    "explanations of the same examples get.",
    "{best}: no other method is better by more than chance. {chance}: cannot be told from random explanations, or is "
    "worse. Paired sign-flip tests, corrected by Holm's procedure for all comparisons of a metric, at 5%.",
)
MAX_PAIRED_METHODS = 6  # more methods have too many pairs to read
PAIRS_LEGEND = (
    "By how much the first method is better than the second, example by example [95% bootstrap interval], and p of "
    "that difference, corrected with all comparisons of the metric."
)
COST_HEADS = ("method", "seconds per example", "forwards", "backwards", "explained")
COST_LEGEND = (
    "Costs are means over the explained examples [95% bootstrap interval]; one number alone: the same for each. "
    "Seconds are timed batch by batch: of fewer than 5 batches no interval is known."
)
_PLOT_LEGEND = (
    "Dot: mean; line: 95% bootstrap interval. Dashed, with its interval as a band: random explanations of the same "
    "examples.",
    "Filled: no other method is better by more than chance. Grey: cannot be told from random explanations, or is "
    "worse.",
)


def build_document(*evaluations: doc.JsonObject, answer: str = "", plan: str = "") -> doc.Document:
    """Return the document of one evaluation, or of several, below the recommendation that they led to."""
    sections = [
        doc.Section(describe_evaluation(data), [*build_blocks(data), build_provenance(data)])
        for data in evaluations
    ]
    if answer:
        above = [doc.Paragraph(answer, "strong"), doc.Paragraph(plan, "dim")]
        sections.insert(0, doc.Section("", above))
    return doc.Document(PAGE_TITLE, sections)


def build_blocks(data: doc.JsonObject) -> list[doc.Block]:
    """Return the plot, the tables and the notes of an evaluation, to stand below a heading."""
    pairs = list(_build_pair_tables(data))
    legend = [line.format(best=BEST_MARK, chance=CHANCE_MARK) for line in TABLE_LEGEND]
    legend += [*([PAIRS_LEGEND] if pairs else []), COST_LEGEND]
    legend += [f"Agreement by {line}." for line in list_method_agreement(data)]
    closing = list_evaluation_cost(data)
    if len(data["methods"]) > MAX_PAIRED_METHODS and data["pairs"]:
        hint = (
            f"The {len(data['pairs']):,} comparisons of each two methods are in the JSON object, and one a row in "
            'what `--pairs FILE` and `to_csv(what="pairs")` write.'
        )
        closing.insert(0, hint)
    return [
        *(doc.Paragraph(line, "dim") for line in list_data_lines(data)),
        doc.Details("", [doc.Plot(build_plot(data))]),
        *build_metric_tables(data),
        *pairs,
        doc.Table(COST_HEADS, build_cost_rows(data)),
        *(doc.Paragraph(line, "dim") for line in legend),
        *(doc.Paragraph(line, "warning") for line in list_evaluation_notes(data)),
        *(doc.Paragraph(line, "dim") for line in closing),
    ]


def describe_evaluation(data: doc.JsonObject) -> str:
    """Describe the evaluated model, examples and setting."""
    setting, examples = data["setting"], data["examples"]
    count = len(data["methods"])
    methods = "1 method" if count == 1 else f"{count} methods"
    # The removal is unknown if no example could be explained.
    how = f"removed by {setting['remove']}, {setting['unit']} by {setting['unit']}, "
    removed = how if setting["remove"] else ""
    return (
        f"{' '.join(data['model']['name'].split())}: {methods} on {examples['explained']} of {examples['given']} "
        f"examples, {removed}{setting['rankings']} random explanations each, seed {setting['seed']}"
    )


def list_data_lines(data: doc.JsonObject) -> list[str]:
    """Return the line on the data set and its sample; empty for files of older versions."""
    text = format_dataset(data.get("data"))
    return [f"{text}."] if text else []


def build_metric_tables(data: doc.JsonObject) -> Iterator[doc.Table]:
    """Yield a table of methods by metrics for each kind of metric, with random explanations in the last row."""
    names = [*(row["method"] for row in data["methods"]), doc.Cell(CHANCE_ROW, "dim")]
    for kind in dict.fromkeys(metric["kind"] for metric in data["metrics"]):
        metrics = [metric for metric in data["metrics"] if metric["kind"] == kind]
        columns = [_build_metric_column(data, metric) for metric in metrics]
        heads = (kind, *(head for head, _ in columns))
        rows = list(zip(names, *(cells for _, cells in columns), strict=True))
        yield doc.Table(heads, rows, wide="split", ruled=1)


def _build_metric_column(
    data: doc.JsonObject, metric: doc.JsonObject
) -> tuple[doc.Cell, list[doc.Cell]]:
    own = [cell for cell in data["cells"] if cell["metric"] == metric["metric"]]
    tested, null = [cell for cell in own if cell["n"]], metric["null"]
    digits = choose_decimals([*tested, *([null] if null else [])])
    usual = mode(cell["n"] for cell in tested) if tested else 0
    last = format_interval(null, digits, usual) if null else "see each" if tested else NOT_TESTED
    cells = [_build_metric_cell(cell, digits, usual, alone=null is None) for cell in own]
    name = f"{metric['metric']} {ARROWS[metric['direction']]}"
    return doc.Cell(name, note=_format_sample_size(own)), [*cells, doc.Cell(last, "dim")]


def _build_metric_cell(
    cell: doc.JsonObject, digits: int | None, usual: int, *, alone: bool
) -> doc.Cell:
    """Return a method's figure with its marks; `alone`: with the random explanations' beside it."""
    if not cell["n"]:
        return doc.Cell(NOT_TESTED)
    chance = _is_chance(cell)
    marks = [BEST_MARK] * cell["best"] + [CHANCE_MARK] * chance
    text = " ".join([format_interval(cell, digits, usual), *marks])
    note = ""
    if alone and cell["null"]:
        note = f"({CHANCE_ROW} {format_interval(cell['null'], digits, cell['n'])})"
    return doc.Cell(text, "strong" if cell["best"] else "dim" if chance else "", note)


def _is_chance(cell: doc.JsonObject) -> bool:
    """Return whether a method cannot be told from random explanations, though there are enough examples."""
    return cell["beats_random"] is False and cell.get("enough", True)


def _format_sample_size(rows: Sequence[doc.JsonObject]) -> str:
    """Return the number of examples of most rows, and whether it is too small."""
    counts = [row["n"] for row in rows if row["n"]]
    if not counts:
        return ""
    usual = mode(counts)
    few = any(row["n"] == usual and row["low"] is None for row in rows)
    return f"n={usual}: {TOO_FEW}" if few else f"n={usual}"


def _build_pair_tables(data: doc.JsonObject) -> Iterator[doc.Table]:
    """Yield tables of pairs of methods by metric, if there are at most 6 methods."""
    if not 2 <= len(data["methods"]) <= MAX_PAIRED_METHODS:
        return
    for kind in dict.fromkeys(metric["kind"] for metric in data["metrics"]):
        metrics = [metric["metric"] for metric in data["metrics"] if metric["kind"] == kind]
        columns = {m: [pair for pair in data["pairs"] if pair["metric"] == m] for m in metrics}
        columns = {metric: pairs for metric, pairs in columns.items() if pairs}
        if columns:
            names = [f"{pair['a']} over {pair['b']}" for pair in next(iter(columns.values()))]
            heads = [
                doc.Cell(m, note=_format_sample_size([p["gain"] or {"n": 0} for p in pairs]))
                for m, pairs in columns.items()
            ]
            rows = list(zip(names, *map(_format_differences, columns.values()), strict=True))
            yield doc.Table(("difference", *heads), rows, wide="split")


def _format_differences(pairs: Sequence[doc.JsonObject]) -> list[str]:
    tested = [pair["gain"] for pair in pairs if pair["gain"]]
    digits = choose_decimals(tested)
    usual = mode(gain["n"] for gain in tested) if tested else 0
    return [
        f"{format_interval(pair['gain'], digits, usual)} p={_format_p_value(pair['p'])}"
        if pair["gain"]
        else NOT_TESTED
        for pair in pairs
    ]


def _format_p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def build_cost_rows(data: doc.JsonObject) -> list[tuple[str, str, str, str, str]]:
    """Return the cost of each method: name, seconds, passes per example, and explained examples."""
    rows = []
    for entry in data["methods"]:
        forward, backward = (
            _format_passes(entry[what], entry["explained"]) if entry[what] else "-"
            for what in ("forward", "backward")
        )
        seconds = _format_seconds(entry["seconds"]) if entry["seconds"] else "-"
        explained = f"{entry['explained']} of {data['examples']['given']}"
        rows.append((entry["method"], seconds, forward, backward, explained))
    return rows


def _format_seconds(interval: doc.JsonObject) -> str:
    mean, n = interval["mean"], interval["n"]
    digits = 1 - floor(log10(mean)) if 0 < mean < 10 else 0
    return f"{format_interval(interval, digits, n)} ({n} {'batch' if n == 1 else 'batches'})"


def _format_passes(cost: doc.JsonObject, explained: int) -> str:
    if cost.get("least", cost["low"]) == cost.get("most", cost["high"]) and cost["mean"] % 1 == 0:
        return f"{cost['mean']:.0f}"
    if cost["low"] is None and "least" in cost:
        return f"{cost['mean']:.4g} (from {cost['least']:.0f} to {cost['most']:.0f})"
    return format_interval(cost, choose_decimals([cost]), explained)


def list_evaluation_cost(data: doc.JsonObject) -> list[str]:
    """Return the line on the cost of the evaluation, if known."""
    calls, seconds = data["calls"], data["seconds"]
    costs = [] if seconds is None else [f"{seconds:,.1f} s"]
    if calls is not None:
        passes = f"{calls['forward']:,} forward and {calls['backward']:,} backward passes"
        costs.insert(0, f"{passes} of the model in all")
    return [", ".join(costs) + "."] if costs else []


def list_method_agreement(data: doc.JsonObject) -> list[str]:
    """Describe which methods agree most and least, by each measure."""
    lines = []
    for measure in dict.fromkeys(row["measure"] for row in data["agreement"]):
        rows = [r for r in data["agreement"] if r["measure"] == measure and r["n"]]
        if not rows:
            continue
        rows.sort(key=lambda row: row["mean"])
        digits = choose_decimals(rows)
        ends = [("", rows[0])] if len(rows) == 1 else [("most ", rows[-1]), ("least ", rows[0])]
        parts = [
            f"{which}{row['a']} and {row['b']} {format_interval(row, digits)}"
            for which, row in ends
        ]
        if null := rows[-1].get("null"):
            parts.append(f"{CHANCE_ROW} {format_interval(null, digits)}")
        lines.append(f"{format_name(measure)}: {'; '.join(parts)}")
    return lines


def list_evaluation_notes(data: doc.JsonObject) -> list[str]:
    """Return notes on the sample, and on failed methods and metrics with reasons."""
    lines = [
        f"{entry['metric']}: what random explanations get is the aim here."
        for entry in data["metrics"]
        if entry.get("aim") == "reach"
    ]
    lines = ["Nothing was tested."] if describe_failure(data) else lines + list_sample_notes(data)
    return [*lines, *(reason for _, reason in list_reasons(data))]


def list_sample_notes(data: doc.JsonObject) -> list[str]:
    """Return notes that concern every figure: too few, duplicate or truncated examples, and warnings on inputs."""
    examples, lines = data["examples"], _list_power_notes(data)
    total, explained = examples["given"], examples["explained"]
    different, cut = examples.get("different", total), examples.get("cut", 0)
    if different < total:
        lines.append(
            f"Only {different} of the {total} examples {'is' if different == 1 else 'are'} different; intervals and "
            "tests take each for an observation of its own, so they promise too much."
        )
    if cut:
        verb = "was" if cut == 1 else "were"
        marked = any(metric["kind"] == "plausibility" for metric in data["metrics"])
        beyond = ", with what people marked beyond" if marked else ""
        longer = f"{verb} longer than the model takes and {verb} cut"
        lines.append(f"{cut} of {explained} examples {longer}{beyond}.")
    for row in examples.get("warnings", ()):
        lines.append(f"{row['count']} of {explained} examples: {row['message']}")
    return lines


def _list_power_notes(data: doc.JsonObject) -> list[str]:
    """Return notes on metrics with too few examples for any difference to be significant."""
    names_by_note: dict[str, list[str]] = {}
    alone: list[str] = []
    judged = [entry for entry in data["metrics"] if entry.get("needed")]
    for metric in judged:
        name = metric["metric"]
        cells = [cell for cell in data["cells"] if cell["metric"] == name and cell["n"]]
        few = [cell for cell in cells if not cell.get("enough", True)]
        if few and len(few) == len(cells):
            n = max(cell["n"] for cell in cells)
            note = describe_too_few(n, len(cells), metric["needed"])
            names_by_note.setdefault(note, []).append(name)
            continue
        for cell in few:
            short = f"{cell['method']} has too few examples, n={cell['n']}"
            alone.append(f"{name}: {short}, to be told from random explanations.")
    notes = [
        line if len(names) == len(judged) else f"{', '.join(names)}: {line}"
        for line, names in names_by_note.items()
    ]
    return [*notes, *alone]


def build_plot(data: doc.JsonObject) -> dict[str, Any]:
    """Return the plot, a panel for each metric; methods are sorted by their means in the first, best first."""
    methods, metrics = [row["method"] for row in data["methods"]], data["metrics"]
    found = {(cell["metric"], cell["method"]): cell for cell in data["cells"]}
    if metrics:
        first, sign = metrics[0], 1 if metrics[0]["direction"] == "higher" else -1
        means = {m: found[first["metric"], m] for m in methods}
        methods.sort(key=lambda m: -sign * means[m]["mean"] if means[m]["n"] else float("inf"))
    panels = []
    for metric in metrics:
        cells = [found[metric["metric"], name] for name in methods]
        counts = sorted({cell["n"] for cell in cells if cell["n"]})
        n = "–".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else ""
        better = "more is better" if metric["direction"] == "higher" else "less is better"
        panel = {
            "name": f"{metric['metric']} {ARROWS[metric['direction']]}",
            "note": f"{better}, n={n}" if counts else NOT_TESTED,
            "cells": [_build_dot(cell) if cell["n"] else None for cell in cells],
        }
        panels.append(panel)
    return {
        "kind": "dots",
        "title": describe_evaluation(data),
        "rows": methods,
        "notes": [*list_data_lines(data), *_PLOT_LEGEND, *list_sample_notes(data)],
        "panels": panels,
    }


def _build_dot(cell: doc.JsonObject) -> dict[str, Any]:
    title = f"{cell['method']}: {cell['mean']:.4g}"
    if cell["low"] is None:
        title += f", n={cell['n']}: {TOO_FEW}"
    else:
        title += f" [{cell['low']:.4g}, {cell['high']:.4g}], n={cell['n']}"
    own = {"value": cell["mean"], "low": cell["low"], "high": cell["high"], "null": cell["null"]}
    return {**own, "filled": cell["best"], "grey": _is_chance(cell), "title": title}
