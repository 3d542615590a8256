"""Tables of docs/science/truth.md, from the results of `python -m bench.science.truth`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whence.core.registry import Entry
from whence.methods import method

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.science.truth import MODELS, collect_results


def format_table(rows: Iterable[tuple[Entry | str, Iterable[str]]]) -> str:
    """Return a table with a column per model."""
    models = [f"`{model}`" for model in MODELS]
    lines = ["| " + " | ".join(["method", "family", *models, "all"]) + " |"]
    lines.append("|---|---|" + "---:|" * (len(models) + 1))
    for who, cells in rows:
        named = (f"*{who}*", "") if isinstance(who, str) else (f"`{who.name}`", who.facts["family"])
        lines.append("| " + " | ".join([*named, *cells]) + " |")
    return "\n".join(lines)


def format_counts(counts: list[tuple[int, int]]) -> list[str]:
    """Return counts out of totals, and their sum; bold where none is missing."""
    counts = [*counts, (sum(right for right, _ in counts), sum(n for _, n in counts))]
    return [f"**{right}/{n}**" if right == n else f"{right}/{n}" for right, n in counts]


def format_tables(found: dict[str, Any]) -> str:
    """Return the two tables of docs/science/truth.md: by family, `random` last."""
    entries = sorted(
        (entry for entry in method if entry.name in found["methods"]),
        key=lambda entry: (entry.facts["family"] == "baseline", entry.facts["family"], entry.name),
    )

    def collect_counts(entry: Entry, right: str, of: str) -> list[str]:
        models = found["methods"][entry.name]["models"]
        return format_counts([(models[model][right], models[model][of]) for model in MODELS])

    places: list[tuple[Entry | str, list[str]]] = [
        (entry, collect_counts(entry, "recovered", "sentences")) for entry in entries
    ]
    expected = [found["chance"][model] for model in MODELS]
    places.append(("expected of chance", [f"{n:.1f}" for n in (*expected, sum(expected))]))
    signs = [
        (entry, collect_counts(entry, "right_signs", "signs"))
        for entry in entries
        if entry.facts["signed"]
    ]
    made = found["provenance"]
    return "\n\n".join(
        (
            "Sentences in which every word that counts stands above every word that does not:",
            format_table(places),
            "Words whose sign is right, for the methods that have signs:",
            format_table(signs),
            f"Made by `python -m bench.science.truth` with whence {made['whence']} (commit {made['commit']}), "
            f"torch {made['torch']}, transformers {made['transformers']}, {made['dtype']}. "
            "In full: `bench/results/truth.json`.",
        )
    )


def render_tables() -> str:
    """Return the tables of the stored results."""
    return format_tables(collect_results())
