"""Text of docs/metrics/NAME.md, the card of a metric: facts, calls, stored results, agreement of methods."""

from __future__ import annotations

from typing import Any

import card_markdown as parts
from card_markdown import format_code_block, format_facts, format_interval, join_parts, load_result

from whence.core.registry import Entry
from whence.metrics import metric

KINDS = {
    "faithfulness": "does the model use what the explanation points at?",
    "plausibility": "does the explanation point at what people marked?",
    "robustness": "does the explanation stay where it should, and change where it should?",
    "sanity": "does the explanation depend on the model, and keep its own promises?",
    "agreement": "do several explanations of one prediction say the same?",
}
NULLS = {
    "rankings": "what random rankings of the same input get, measured beside every explanation",
    "reversed": "what random rankings of the same input get, upside down (they share the questions to the model), "
    "measured beside every explanation",
    "shuffles": "what the explanation's own scores get when they are dealt out to other tokens",
}
# Evaluations that a metric's figures are taken from, in this order: the file, the part of it, and what it is.
FOUND = (
    ("table-sst2", None, "SST-2"),
    ("table-movies", None, "Movies"),
    ("pets", "predicted", "photographs of cats and dogs"),
)
PAGES = {
    "SST-2": "../science/evaluation.md",
    "Movies": "../science/evaluation.md",
    "photographs of cats and dogs": "../science/pets.md",
}


def render_card(name: str) -> str:
    """Return the card of a metric."""
    entry = metric.get(name)
    first, *more = parts.format_docstring(entry).split("\n\n")
    low, high = (f"{end:g}".replace("inf", "∞") for end in entry.facts["range"])
    null = entry.facts["null"]
    reached = entry.facts.get("aim") == "reach"
    takes = {"text": "texts only", "picture": "pictures only"}
    return join_parts(
        f"# {name}",
        first,
        format_facts(
            {
                "kind": f"[{entry.facts['kind']}](README.md): {KINDS[entry.facts['kind']]}",
                "better": "more" if entry.facts["direction"] == "higher" else "less",
                "range": f"{low} to {high}",
                "null": (NULLS[null] if isinstance(null, str) else f"{null:g}")
                + (": a good explanation comes down to it" if reached else ""),
                "cost": entry.facts["cost"],
                "needs": _format_needs(entry),
                "takes": takes.get(entry.facts.get("takes", ""), "texts and pictures"),
            }
        ),
        format_code_block("text", entry.facts["formula"]),
        *more,
        "## When it misleads",
        parts.format_misleads(entry),
        *parts.format_settings(entry),
        *_format_calls(entry),
        "## What is usual",
        *_format_results(entry),
        *parts.format_source(entry),
    )


def _format_needs(entry: Entry) -> str:
    if entry.facts.get("group") == "perturbation":
        return "labels (unless `of=probability`)"
    if entry.facts["kind"] == "plausibility" or entry.facts.get("rationales"):
        return (
            "masks"
            if entry.facts.get("takes") == "picture"
            else "what people marked: rationales, or answers"
        )
    if entry.facts["kind"] == "agreement":
        return "two methods at least"
    if "again" in entry.facts:
        return "the explanation, made again"
    return "nothing but examples"


_TEXTS = (parts.TEXT, "the plot is thin and the jokes are worse")
# Methods that state the axiom: for others the metric is undefined.
_METHODS = {
    "completeness": ("integrated_gradients", "decompx"),
    "conservation": ("attn_lrp", "cp_lrp"),
}
_MARKED = """
import json
from pathlib import Path

marked = {"text": "a gripping film", "label": "positive", "rationale": [[2, 10]]}  # characters
Path("marked.jsonl").write_text(json.dumps(marked) + "\\n")
"""


# Accuracy is that of a single label, and `shapes` has several.
_OF_ONE_LABEL = ("negative_perturbation", "positive_perturbation")


def _format_calls(entry: Entry) -> list[str]:
    sample = 4 if entry.facts["kind"] == "agreement" else 2  # not only texts of a few words
    model, data, before = "reviews", f"reviews.tsv --sample {sample}", ""
    examples = "[\n" + "".join(f'    "{text}",\n' for text in _TEXTS) + "]  # or a file"
    if entry.facts.get("takes") == "picture":
        model, data = "shapes", "photos --sample 2"
        examples = '"photos"  # a folder with one for each class, and masks beside the pictures'
    elif _format_needs(entry).startswith("what people marked"):
        data, examples, before = "marked.jsonl", '"marked.jsonl"', _MARKED
    first, second = _METHODS.get(entry.name, ("attcat", "rollout"))
    called = f'whence.evaluate(explainer, examples, ["{first}", "{second}"], "{entry.name}")'
    more = ""
    if entry.name in _OF_ONE_LABEL:
        called, more = (
            f'{called[:-1]}, metric_params={{"of": "probability"}})',
            " --param of=probability",
        )
    return [
        "## Call it",
        format_code_block(
            "python",
            f'{before}\nimport whence\n\nexplainer = whence.load("{model}")\nexamples = {examples}\nprint({called})',
        ),
        format_code_block(
            "sh",
            f"whence evaluate --model {model} --data {data} --method {first} --method {second} "
            f"--metric {entry.name}{more}",
        ),
    ]


def _format_results(entry: Entry) -> list[str]:
    if entry.facts["kind"] == "agreement":
        return _format_agreement(entry)
    lines = []
    for file, part, title in FOUND:
        found = load_result(file)
        found = found.get(part) if found and part else found
        one = next((m for m in (found or {}).get("metrics", []) if m["metric"] == entry.name), None)
        if found is not None and one is not None:
            lines.append(f"- {_format_result(entry, found, one, title)}")
    if not lines:
        return ["It stands in no table yet."]
    return ["\n".join(lines)]


def _format_result(entry: Entry, found: dict[str, Any], one: dict[str, Any], title: str) -> str:
    cells = [c for c in found["cells"] if c["metric"] == entry.name and c["mean"] is not None]
    cells = [c for c in cells if c["method"] != "random"]
    told = f"[{title}]({PAGES[title]}): "
    null = one["null"]
    if isinstance(entry.facts["null"], str):
        means = [c["null"]["mean"] for c in cells if c["null"]]
        if null:
            told += f"random explanations get {format_interval(null)}; "
        elif means:
            told += f"random explanations get from {min(means):.3f} to {max(means):.3f}, by the method; "
    if not cells:
        return told + "no method could be tested."
    if entry.facts.get("aim") != "reach":
        beat = sum(bool(c["beats_random"]) for c in cells)
        told += f"{beat} of {len(cells)} methods are better by more than chance; "
    ends = (max, min) if entry.facts["direction"] == "higher" else (min, max)
    best, worst = (end(cells, key=lambda c: c["mean"]) for end in ends)
    return told + (
        f"from [`{worst['method']}`](../methods/{worst['method']}.md), {format_interval(worst)}, to "
        f"[`{best['method']}`](../methods/{best['method']}.md), {format_interval(best)} (n = {best['n']})."
    )


def _format_agreement(entry: Entry) -> list[str]:
    lines = []
    for data, title in parts.EVALUATIONS.items():
        found = load_result(f"table-{data}") or {"agreement": []}
        pairs = [
            one
            for one in found["agreement"]
            if one["measure"] == entry.name and one["mean"] is not None
        ]
        pairs = [one for one in pairs if "random" not in (one["a"], one["b"])]
        if pairs:
            most, least = (end(pairs, key=lambda one: one["mean"]) for end in (max, min))
            lines.append(
                f"- [{title}]({PAGES[title]}): two methods agree by {format_interval(least)} (`{least['a']}` and "
                f"`{least['b']}`) to "
                f"{format_interval(most)} (`{most['a']}` and `{most['b']}`); random rankings by {format_interval(most['null'])}."
            )
    return ["\n".join(lines)] if lines else ["It stands in no table yet."]
