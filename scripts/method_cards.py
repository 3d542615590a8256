"""Text of docs/methods/NAME.md, the card of a method: registered facts, calls, cost and stored results."""

from __future__ import annotations

import card_markdown as parts
import method_results
import method_tables
import references
from card_markdown import format_code_block, format_facts, join_parts

from whence.core.registry import Entry
from whence.lrp import NOTICE
from whence.methods import is_trace_method, method

NEEDS = {
    "attention": "attention weights",
    "attention_grad": "the gradient of attention weights",
    "embedding_grad": "the gradient of embeddings",
    "hidden_grad": "the gradient of hidden states",
    "relevance": "every operation of the forward pass, on a tape",
    "steps": "every operation of the layers, on a tape",
}


def render_card(name: str) -> str:
    """Return the card of a method."""
    entry = method.get(name)
    first, *more = parts.format_docstring(entry).split("\n\n")
    notice = entry.facts.get("notice")
    half = (
        "In half precision its scores are mostly rounding ([precision](../reference/precision.md)); "
        'load the model with `dtype="float64"`.'
    )
    return join_parts(
        f"# {name}",
        first,
        format_facts(
            {
                "family": f"[{entry.facts['family']}](README.md): {method_tables.FAMILIES[entry.facts['family']]}",
                "works by": _format_way(entry),
                "signs": _format_signs(entry),
                "unit of its scores": _format_unit(entry),
                "passes": entry.facts["cost"] + _format_cost(name),
            }
        ),
        format_code_block("text", entry.facts["formula"]),
        *more,
        "## When it misleads",
        parts.format_misleads(entry),
        half if entry.facts.get("unsure_in_half") else "",
        f"**A note on a patent.** {NOTICE.partition(': ')[0]}. whence grants no licence to it; see the last "
        f"section of the "
        "[README](../../README.md)." if notice else "",
        *parts.format_settings(entry),
        *_format_calls(entry),
        "## What it promises",
        *method_results.format_axioms(name),
        "## Where the truth is known",
        *method_results.format_truth(entry),
        "## On trained models",
        *method_results.format_evaluation(name),
        *method_results.format_pictures(name),
        "## Which models",
        method_results.format_architectures(name),
        *parts.format_source(entry),
    )  # fmt: skip


def _format_way(entry: Entry) -> str:
    if is_trace_method(entry):
        needs = parts.format_list(NEEDS[need] for need in sorted(entry.facts["needs"]))
        return f"reading a trace of the model: {needs}"
    return (
        "asking the model again about changed inputs"
        if entry.name != "random"
        else "drawing numbers"
    )


def _format_signs(entry: Entry) -> str:
    if "signed_when" in entry.facts:
        return "yes, unless a parameter takes them away: what speaks against the target is negative"
    if entry.facts["signed"]:
        return "yes: what speaks against the target is negative"
    return "no: it does not tell what speaks for the target from what speaks against it"


_UNITS = {
    "output": "that of the explained output (a logit, a probability, or a regression's value)",
    "weighted": "that of the explained output, weighted by attention",
    "share": "parts of a whole",
    "relative": "none: scores compare the parts of one input, and nothing beyond it",
}


def _format_unit(entry: Entry) -> str:
    depends = "; another parameter may change that" if "unit_when" in entry.facts else ""
    return f"{_UNITS[entry.facts['unit']]}{depends} ([what colours mean](../reference/json.md#what-colours-mean))"


def _format_cost(name: str) -> str:
    """Return the measured cost of a method beside the bare passes."""
    for row in parts.load_rows("methods"):
        if (row["model"], row["batch"], row["what"]) == ("minilm", 1, name):
            return (
                f"; measured: {row['ratio']:.2g} times a bare forward and backward pass ({row['model']}, a text of "
                f"{row['tokens']} tokens, {row['machine']}, {row['threads']} thread)"
            )
    return ""


def _format_calls(entry: Entry) -> list[str]:
    python = (
        "import whence\n\n"
        'explainer = whence.load("reviews")  # or a folder, a Hub id, or model + tokenizer\n'
        f'why = explainer.explain("{parts.TEXT}", method="{entry.name}")\n'
        "print(why.top(3))"
    )
    option = ""
    if preset := next(iter(entry.presets), None):
        python += (
            f"\n\n# As in {references.describe_preset(entry.name, preset)}.\n"
            f'why = explainer.explain(\n    "{parts.TEXT}",\n    method="{entry.name}",\n'
            f'    params={{"preset": "{preset}"}},\n)'
        )
        option = f" --param preset={preset}"
    command = f'whence explain "{parts.TEXT}" --method {entry.name}{option}'
    return ["## Call it", format_code_block("python", python), format_code_block("sh", command)]
