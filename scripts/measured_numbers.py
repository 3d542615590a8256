"""Measured numbers in prose: filled in from bench/results, and a search for numbers without a source.

A number that was measured is written into a sentence by a pair of marks::

    <!--= FILE PATH FORMAT -->text<!--/-->

FILE stands under bench/results. PATH goes down into it: keys and places in lists, joined by dots; `[key=value,...]`
picks the one element of a list, or line of a .jsonl file, that has these values, spaces written as `_`. Before a
path, `max:` and `min:` take the largest and the smallest of all elements that it fits. FORMAT is Python's, such as
`.2f`, after a factor where the unit is another: `*1e3:.0f`, `/1048576:,.0f`. `make docs` writes the text.

`unsourced` finds the numbers that look measured and have neither these marks, nor a table's, nor an entry in
tests/docs/stated.toml, which lists those that are no measurements, each with the reason.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
STATED = ROOT / "tests" / "docs" / "stated.toml"
MARK = re.compile(r"(<!--= (\S+) (\S+) (\S+) -->)(.*?)(<!--/-->)", re.DOTALL)
STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def list_pages() -> list[Path]:
    """Return the pages that people write, wholly or in part."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*found, *sorted((ROOT / "docs").rglob("*.md"))]


def list_marked_pages() -> list[str]:
    """Return the pages that have marked numbers, by their path from the root."""
    return [
        str(page.relative_to(ROOT)) for page in list_pages() if MARK.search(page.read_text("utf-8"))
    ]


def fill_numbers(text: str) -> str:
    """Return a page with every marked number replaced by its value in the results."""
    return MARK.sub(lambda m: f"{m[1]}{look_up(m[2], m[3], m[4])}{m[6]}", text)


def look_up(file: str, path: str, form: str) -> str:
    """Return the figure at a path of a results file, in the given format."""
    among, _, path = path.rpartition(":")
    values = [_load_results(file)]
    for chosen, key in STEP.findall(path):
        try:
            values = [part for value in values for part in _select_parts(value, chosen, key)]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise LookupError(
                f"bench/results/{file}, {path!r}, at {chosen or key!r}: {error!r}"
            ) from None
    if not values or (len(values) > 1 and not among):
        raise LookupError(f"bench/results/{file} has {len(values)} figures at {path!r}.")
    value = {"max": max, "min": min}[among](values) if among else values[0]
    factor, _, spec = form.rpartition(":")
    if factor:
        value = value * float(factor[1:]) if factor[0] == "*" else value / float(factor[1:])
    return format(value, spec)


def _select_parts(value: Any, chosen: str, key: str) -> list[Any]:
    """Return the values that one step of a path selects."""
    if not chosen:
        return [value[int(key) if isinstance(value, list) else key]]
    wanted = dict(pair.split("=", 1) for pair in chosen.split(","))
    return [
        row
        for row in value
        if all(str(_get_value(row, k)).replace(" ", "_") == v for k, v in wanted.items())
    ]


def _get_value(row: dict[str, Any], key: str) -> Any:
    """Return a row's value under a key, which may be dotted: `params.rules`."""
    first, _, rest = key.partition(".")
    return _get_value(row.get(first) or {}, rest) if rest else row.get(first)


@cache
def _load_results(file: str) -> Any:
    path = RESULTS / file
    text = path.read_text(encoding="utf-8")
    return (
        [json.loads(line) for line in text.splitlines()]
        if path.suffix == ".jsonl"
        else json.loads(text)
    )


# --- numbers without a source ---------------------------------------------------------------------------------------

# Spans replaced by spaces of the same length before the search, so that line numbers stay.
IGNORED = [
    re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE),  # blocks of code
    re.compile(r"<!-- begin: (.+?) -->.*?<!-- end: \1 -->", re.DOTALL),  # tables that are written
    MARK,
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"`[^`\n]+`"),  # names, commands and values in code
    re.compile(r"\]\([^)]*\)"),  # where links go
    re.compile(r"https?://\S+"),
    re.compile(r"(arXiv:|doi:)\S+"),
    re.compile(r"^#+ [\d.]+\s", re.MULTILINE),  # numbered headings
]
_UNIT = r"(?:ms|s|µs|seconds?|minutes?|hours?|[kKMGT]i?B|bytes?|times|×)"
NUMBERS = re.compile(
    rf"""(?<![\w./-])(?:
      [+-]?\d+(?:[.,]\d+)*\s?%                       # a share
    | [+-]?\d+(?:,\d{{3}})*(?:\.\d+)?\s?{_UNIT}\b     # with a unit of what is measured
    | \d+(?:\.\d+)?x\b                               # a multiple
    | [+-]?\d+\.\d+(?:e[+-]?\d+)?\b(?!\.\d)           # a decimal
    | \d+(?:\.\d+)?e[+-]?\d+\b                        # a power of ten
    | \d{{1,3}}(?:,\d{{3}})+\b                        # thousands
    | \d+\ (?:of|in|out\ of)\ \d+\b                   # so many of so many
    | (?:twice|(?:two|three|four|five|six|seven|eight|nine|ten)\s+times)\s+(?:as|more|less|fewer|faster|slower)\b
    | (?:half|a\ third|a\ quarter|a\ fifth|a\ tenth)\s+of\s+the\s+(?:time|memory|calls)\b
    )""",
    re.VERBOSE,
)
# Never a measurement: versions, and levels of intervals.
PLAIN = re.compile(r"^(95\s?%)$")
VERSIONED = re.compile(
    r"(Python|torch|transformers|numpy|Node|Apache|CUDA|version|whence|Captum|scipy|duckdb)[- ]\s?$",
    re.I,
)


@dataclass(frozen=True)
class MeasuredNumber:
    """A number in prose that looks measured."""

    number: str
    place: int  # in the text
    line: int


def find_numbers(text: str) -> Iterator[MeasuredNumber]:
    """Find the numbers of a page that look measured and are not marked."""
    bare = text
    for pattern in IGNORED:
        bare = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), bare)
    for match in NUMBERS.finditer(bare):
        before = bare[: match.start()]
        if not PLAIN.match(match[0]) and not VERSIONED.search(before):
            yield MeasuredNumber(match[0], match.start(), before.count("\n") + 1)


def find_unsourced(text: str, words: Iterable[str] = ()) -> list[MeasuredNumber]:
    """Return the numbers of a page that look measured, are not marked, and are in none of the words."""
    places = [match.span() for one in words for match in _compile_words(one).finditer(text)]
    return [
        found
        for found in find_numbers(text)
        if not any(start <= found.place < end for start, end in places)
    ]


def find_unused(text: str, words: Iterable[str]) -> list[str]:
    """Return the words that are not on the page, or contain no number that needs them."""
    found = [one.place for one in find_numbers(text)]
    spans = {one: [match.span() for match in _compile_words(one).finditer(text)] for one in words}
    return [
        one
        for one, places in spans.items()
        if not any(start <= place < end for start, end in places for place in found)
    ]


def load_stated() -> dict[str, dict[str, str]]:
    """Return the declared exceptions that are no measurements: by page, the words and the reason."""
    return tomllib.loads(STATED.read_text(encoding="utf-8"))


def _compile_words(words: str) -> re.Pattern[str]:
    """Return a pattern for words that may be folded into lines anywhere."""
    return re.compile(r"\s+".join(map(re.escape, words.split())))
