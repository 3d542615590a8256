"""Markdown shared by the cards of methods, metrics and experiments: stored results, tables, sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from inspect import cleandoc, getsourcefile, unwrap
from pathlib import Path
from typing import Any

import references

from whence.core.registry import Entry

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
# Evaluations of all methods by all metrics on trained models: the file, and what to call it.
EVALUATIONS = {"sst2": "SST-2", "movies": "Movies"}
TEXT = "a gripping, beautifully acted film"


@cache
def load_result(name: str) -> dict[str, Any] | None:
    """Return the results of a file; None as long as the file is missing."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


@cache
def load_rows(name: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a JSON Lines file."""
    file = RESULTS / f"{name}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return tuple(json.loads(line) for line in lines)


def format_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(
        "| " + " | ".join(_escape_cell(cell) for cell in line) + " |" for line in lines
    )


def format_facts(pairs: Mapping[str, str]) -> str:
    """Return a table of two columns, names and values."""
    return format_table(["", ""], [[f"**{name}**", value] for name, value in pairs.items()])


def format_docstring(entry: Entry) -> str:
    """Return the docstring of a registered function as paragraphs."""
    return cleandoc(entry.fn.__doc__ or "")


def format_interval(figure: Mapping[str, Any] | None) -> str:
    """Return a mean with its interval, or a dash."""
    if not figure or figure.get("mean") is None:
        return "–"
    mean = f"{figure['mean']:.3f}"
    if figure.get("low") is None:
        return mean
    return f"{mean} [{figure['low']:.3f}, {figure['high']:.3f}]"


def format_misleads(entry: Entry) -> str:
    """Return the section on known pitfalls."""
    when = entry.facts["misleads_when"]
    return f"{when[0].upper()}{when[1:]}."


def format_settings(entry: Entry) -> list[str]:
    """Return the section on parameters and presets."""
    if not entry.parameters:
        return ["## Parameters", "None."]
    parameters = format_table(
        ["parameter", "default", "allowed"],
        [[f"`{p.name}`", f"`{_format_value(p.default)}`", _format_allowed(p.allowed_values)] for p in entry.parameters.values()],
    )  # fmt: skip
    found = ["## Parameters", parameters]
    if entry.presets:
        presets = [
            [f"`{name}`", _format_parameters(values), references.describe_preset(entry.name, name)]
            for name, values in entry.presets.items()
        ]
        found.append(format_table(["preset", "sets", "reproduces"], presets))
    return found


def format_source(entry: Entry) -> list[str]:
    """Return the section on papers and code."""
    works = references.list_references(entry.facts["cite"])
    cited = [f"Cited as: {entry.facts['cite']}.", "\n".join(f"- {work}" for work in works)]
    return ["## Source", *(part for part in cited if part), f"Code: {format_code_link(entry)}."]


def format_code_link(entry: Entry) -> str:
    """Return a link to the source file."""
    path = Path(getsourcefile(unwrap(entry.fn)) or "").relative_to(ROOT).as_posix()
    return f"[`{path}`](../../{path})"


def format_code_block(language: str, text: str, before: str = "") -> str:
    """Return a block of code."""
    return f"{before}```{language}\n{text.strip()}\n```"


def join_parts(*parts: str) -> str:
    """Return a page of its parts."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def format_list(names: Iterable[str], last: str = "and") -> str:
    """Return names as an English list."""
    *most, final = names
    return f"{', '.join(most)} {last} {final}" if most else final


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _format_value(value: Any) -> str:
    return (
        "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _format_parameters(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={_format_value(value)}`" for name, value in values.items())


def _format_allowed(words: str) -> str:
    return words.replace("'", "`")
