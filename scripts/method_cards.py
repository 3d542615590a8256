"""The card of each method, docs/methods/NAME.md, made from the registry and stored results."""

from __future__ import annotations

import card_parts as parts
import method_results
import method_tables
import references
from card_parts import block, facts, page

from whence.core.registry import Entry
from whence.lrp import NOTICE
from whence.methods import is_reader, method

NEEDS = {
    "attention": "attention weights",
    "attention_grad": "the gradient of attention weights",
    "embedding_grad": "the gradient of embeddings",
    "hidden_grad": "the gradient of hidden states",
    "relevance": "every operation of the forward pass, on a tape",
    "steps": "every operation of the layers, on a tape",
}


def card(name: str) -> str:
    """Return the card of a method."""
    entry = method.get(name)
    first, *more = parts.said(entry).split("\n\n")
    notice = entry.facts.get("notice")
    half = (
        "In half precision its scores are mostly rounding ([precision](../reference/precision.md)); "
        'load the model with `dtype="float64"`.'
    )
    return page(
        f"# {name}",
        first,
        facts(
            {
                "family": f"[{entry.facts['family']}](README.md): {method_tables.FAMILIES[entry.facts['family']]}",
                "works by": _way(entry),
                "signs": _signs(entry),
                "unit of its scores": _unit(entry),
                "passes": entry.facts["cost"] + _measured(name),
            }
        ),
        block("text", entry.facts["formula"]),
        *more,
        "## When it misleads",
        parts.misleads(entry),
        half if entry.facts.get("unsure_in_half") else "",
        f"**A note on a patent.** {NOTICE.partition(': ')[0]}. whence grants no licence to it; see the last "
        f"section of the "
        "[README](../../README.md)." if notice else "",
        *parts.settings(entry),
        *_called(entry),
        "## What it promises",
        *method_results.promised(name),
        "## Where the truth is known",
        *method_results.truth(entry),
        "## On trained models",
        *method_results.evaluated(name),
        *method_results.pictured(name),
        "## Which models",
        method_results.architectures(name),
        *parts.source(entry),
    )  # fmt: skip


def _way(entry: Entry) -> str:
    if is_reader(entry):
        needs = parts.listed(NEEDS[need] for need in sorted(entry.facts["needs"]))
        return f"reading a trace of the model: {needs}"
    return (
        "asking the model again about changed inputs"
        if entry.name != "random"
        else "drawing numbers"
    )


def _signs(entry: Entry) -> str:
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


def _unit(entry: Entry) -> str:
    depends = "; another parameter may change that" if "unit_when" in entry.facts else ""
    return f"{_UNITS[entry.facts['unit']]}{depends} ([what colours mean](../reference/json.md#what-colours-mean))"


def _measured(name: str) -> str:
    """Return what it cost when it was measured, beside the bare passes."""
    for row in parts.rows("methods"):
        if (row["model"], row["batch"], row["what"]) == ("minilm", 1, name):
            return (
                f"; measured: {row['ratio']:.2g} times a bare forward and backward pass ({row['model']}, a text of "
                f"{row['tokens']} tokens, {row['machine']}, {row['threads']} thread)"
            )
    return ""


def _called(entry: Entry) -> list[str]:
    python = (
        "import whence\n\n"
        'explainer = whence.load("reviews")  # or a folder, a Hub id, or model + tokenizer\n'
        f'why = explainer.explain("{parts.TEXT}", method="{entry.name}")\n'
        "print(why.top(3))"
    )
    option = ""
    if preset := next(iter(entry.presets), None):
        python += (
            f"\n\n# As in {references.preset(entry.name, preset)}.\n"
            f'why = explainer.explain(\n    "{parts.TEXT}",\n    method="{entry.name}",\n'
            f'    params={{"preset": "{preset}"}},\n)'
        )
        option = f" --param preset={preset}"
    command = f'whence explain "{parts.TEXT}" --method {entry.name}{option}'
    return ["## Call it", block("python", python), block("sh", command)]
