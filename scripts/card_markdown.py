"""What the cards of methods, metrics and experiments have in common: stored results, tables and sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from inspect import cleandoc, getsourcefile
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
def stored(name: str) -> dict[str, Any] | None:
    """Return the results that a file holds; None as long as there is none."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


@cache
def rows(name: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a file that has one a line."""
    file = RESULTS / f"{name}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return tuple(json.loads(line) for line in lines)


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def facts(pairs: Mapping[str, str]) -> str:
    """Return a table of two columns: what, and what of it."""
    return table(["", ""], [[f"**{name}**", value] for name, value in pairs.items()])


def said(entry: Entry) -> str:
    """Return what a function says of itself: as paragraphs."""
    return cleandoc(entry.fn.__doc__ or "")


def within(figure: Mapping[str, Any] | None) -> str:
    """Return a mean with its interval, or a dash."""
    if not figure or figure.get("mean") is None:
        return "–"
    mean = f"{figure['mean']:.3f}"
    if figure.get("low") is None:
        return mean
    return f"{mean} [{figure['low']:.3f}, {figure['high']:.3f}]"


def misleads(entry: Entry) -> str:
    """Say when it misleads."""
    when = entry.facts["misleads_when"]
    return f"{when[0].upper()}{when[1:]}."


def settings(entry: Entry) -> list[str]:
    """Return the section on parameters and presets."""
    if not entry.parameters:
        return ["## Parameters", "None."]
    parameters = table(
        ["parameter", "default", "allowed"],
        [[f"`{p.name}`", f"`{_value(p.default)}`", _allowed(p.allowed)] for p in entry.parameters.values()],
    )  # fmt: skip
    found = ["## Parameters", parameters]
    if entry.presets:
        presets = [
            [f"`{name}`", _given(values), references.preset(entry.name, name)]
            for name, values in entry.presets.items()
        ]
        found.append(table(["preset", "sets", "reproduces"], presets))
    return found


def source(entry: Entry) -> list[str]:
    """Return the section on where it comes from."""
    works = references.references(entry.facts["cite"])
    cited = [f"Cited as: {entry.facts['cite']}.", "\n".join(f"- {work}" for work in works)]
    return ["## Source", *(part for part in cited if part), f"Code: {code(entry)}."]


def code(entry: Entry) -> str:
    """Return a link to the file that it stands in."""
    path = Path(getsourcefile(entry.fn) or "").relative_to(ROOT).as_posix()
    return f"[`{path}`](../../{path})"


def block(language: str, text: str, before: str = "") -> str:
    """Return a block of code."""
    return f"{before}```{language}\n{text.strip()}\n```"


def page(*parts: str) -> str:
    """Return a page of its parts."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names as people list them."""
    *most, final = names
    return f"{', '.join(most)} {last} {final}" if most else final


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _value(value: Any) -> str:
    return (
        "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _given(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={_value(value)}`" for name, value in values.items())


def _allowed(words: str) -> str:
    return words.replace("'", "`")
