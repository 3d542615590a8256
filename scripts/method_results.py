"""Stored results of one method for its card: axioms, truth, trained models, pictures, architectures."""

from __future__ import annotations

import re
from typing import Any

import card_markdown as parts
from card_markdown import format_interval, format_table, load_result

from whence.core.registry import Entry
from whence.metrics import metric

AXIOMS = {
    "completeness": "**Completeness**: the scores add up to what they explain. The explanation carries the "
    "difference, "
    '`why.axioms["completeness"]`.',
    "conservation": "**Conservation**: relevance is neither made nor lost on its way. The explanation carries the "
    'difference at each layer, `why.axioms["conservation.layer0"]` and so on; biases, and rules that do not '
    "conserve, take a share.",
    "sums_to_one": "**Sums to one**: the scores of a text add up to 1. The explanation carries the difference, "
    '`why.axioms["sums_to_one"]`. This says nothing about the model.',
}
# The metrics that a card shows, of those that are there.
SHOWN = (
    *("comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion", "insertion", "loo_correlation"),
    *("infidelity", "auprc", "token_f1", "sensitivity", "class_sensitivity", "randomisation"),
)  # fmt: skip
LEGEND = "Bold: no method is better by more than chance. °: cannot be told from random explanations, or is worse."


def format_axioms(name: str) -> list[str]:
    judged = (load_result("truth") or {"methods": {}})["methods"].get(name)
    if judged is None:
        return ["Not looked at yet: run `python -m bench.science.truth`."]
    if not judged["axioms"]:
        return [
            "Nothing that could be checked: its scores need not add up to anything, and it reports no residual."
        ]
    told = [AXIOMS[axiom] for axiom in judged["axioms"]]
    sizes = []
    for data, title in parts.EVALUATIONS.items():
        for axiom in judged["axioms"]:
            cell = _load_figures(data).get((name, axiom))
            if cell and cell["mean"] is not None:
                sizes.append(f"{axiom} on {title} {format_interval(cell)}")
    if sizes:
        told.append(
            f"Its size, in parts of what should have come out (0 is perfect): {'; '.join(sizes)}. "
            "These are means, which a few bad inputs can carry: look at your own."
        )
    return told


def format_truth(entry: Entry) -> list[str]:
    found = load_result("truth")
    judged = (found or {"methods": {}})["methods"].get(entry.name)
    if found is None or judged is None:
        return ["Not judged yet: run `python -m bench.science.truth`."]
    models = judged["models"]
    head = ["", *(f"`{model}`" for model in models), "all"]

    def format_counts(right: str, of: str) -> list[str]:
        every = [*models.values(), judged["all"]]
        return [
            f"**{n[right]}/{n[of]}**" if n[right] == n[of] else f"{n[right]}/{n[of]}" for n in every
        ]

    chance = [
        *(f"{found['chance'][model]:.1f}" for model in models),
        f"{sum(found['chance'].values()):.1f}",
    ]
    body = [
        ["sentences recovered", *format_counts("recovered", "sentences")],
        ["*expected of chance*", *chance],
    ]
    if judged["all"]["signs"]:
        body.append(["signs right", *format_counts("right_signs", "signs")])
    fooled = [
        f"`{model}`"
        for model, verdict in models.items()
        if verdict["recovered"] < verdict["sentences"]
    ]
    return [
        "On models whose weights were set by hand ([what each of them asks](../science/truth.md)): a sentence "
        "is recovered "
        "if every word that counts scores higher, by size, than every word that does not.",
        format_table(head, body),
        f"It is fooled by {parts.format_list(fooled)}." if fooled else "None of them fools it.",
    ]  # fmt: skip


@parts.cache
def _load_figures(data: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = load_result(f"table-{data}")
    return {(cell["method"], cell["metric"]): cell for cell in found["cells"]} if found else {}


def format_cell(data: str, name: str, measured: str) -> str:
    cell = _load_figures(data).get((name, measured))
    text = format_interval(cell)
    if not cell or cell["mean"] is None:
        return text
    text = f"**{text}**" if cell["best"] else text
    return f"{text} °" if cell["beats_random"] is False and cell["enough"] else text


def format_evaluation(name: str) -> list[str]:
    data = [one for one in parts.EVALUATIONS if any(who == name for who, _ in _load_figures(one))]
    if not data:
        return ["Not evaluated yet."]
    body = []
    for measured in SHOWN:
        found = [_load_figures(one).get((name, measured)) for one in data]
        if not any(one and one["mean"] is not None for one in found):
            continue
        arrow = "↑" if metric.get(measured).facts["direction"] == "higher" else "↓"
        row = [f"[{measured}](../metrics/{measured}.md) {arrow}"]
        for one, figure in zip(data, found, strict=True):
            row += [format_cell(one, name, measured), format_interval((figure or {}).get("null"))]
        body.append(row)
    reached = [f"`{one}`" for one in SHOWN if metric.get(one).facts.get("aim") == "reach"]
    head = ["metric", *(text for one in data for text in (parts.EVALUATIONS[one], "random"))]
    named = []
    for one in data:
        kept = load_result(f"table-{one}") or {}
        named.append(
            f"{parts.EVALUATIONS[one]}: `{kept['model']['name']}` on {kept['data']['title']}"
        )
    return [
        f"Means with 95% intervals, and what random explanations get. ↑ more is better, ↓ less is better. {LEGEND}"
        + (
            f" What random explanations get is the aim in {parts.format_list(reached)}."
            if reached
            else ""
        ),
        format_table(head, body),
        f"{'; '.join(named)}. [All methods beside each other](../science/evaluation.md).",
    ]


def format_pictures(name: str) -> list[str]:
    found = (load_result("shapes") or {"methods": {}})["methods"]
    if name not in found or "random" not in found:
        return []
    shown = {
        "points at the object": "pointing",
        "its own object, of both": "specific",
        "mIoU": "miou",
    }
    body = [
        [told, format_interval(found[name][key]), format_interval(found["random"][key])]
        for told, key in shown.items()
    ]
    return [
        "## On pictures",
        "On drawn pictures of two objects whose masks are known ([what is counted](../science/shapes.md)):",
        format_table(["", "it", "random"], body),
    ]


@parts.cache
def _collect_refusals() -> dict[str, dict[str, list[str]]]:
    """Return the architectures that refuse each method, by reason, from the table of architectures."""
    text = (parts.ROOT / "docs" / "reference" / "architectures.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    reasons = dict(re.findall(r"^- ([a-z]): (.+)\.$", text, re.MULTILINE))
    _, *names = lines[0]
    refused: dict[str, dict[str, list[str]]] = {}
    for who, *cells in lines[1:]:
        own = refused.setdefault(who.strip("`"), {})
        for architecture, cell in zip(names, cells, strict=True):
            if cell in reasons:
                own.setdefault(reasons[cell], []).append(architecture)
    return refused


def format_architectures(name: str) -> str:
    table_of_all = "[every architecture that is tried](../reference/architectures.md)"
    refused = _collect_refusals().get(name)
    if refused is None:
        return f"Not tried yet: see {table_of_all}."
    if not refused:
        return f"It works on {table_of_all}."
    told = [f"- {parts.format_list(names)}: {why}." for why, names in refused.items()]
    return f"It works on {table_of_all}, but for\n\n" + "\n".join(told)
