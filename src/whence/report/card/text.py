"""A trust card as plain text: for a log, a pipe, or print()."""

from typing import Any

from whence.report.card.wording import (
    by_chance,
    by_name,
    cost,
    deciding,
    in_words,
    measured,
    own_sentence,
    percentile,
    reasons,
    setup,
)
from whence.report.text import cut, headline, visible

_HEAD = ("test", "verdict", "value", "by chance", "beats random")


def plain(payload: dict[str, Any]) -> str:
    """Write a card as lines of text."""
    lines = [
        visible(payload["sentence"]),
        f"{visible(payload['model']['name'])}: {headline(payload)}",
        *([note] if (note := cut(payload)) else []),
        setup(payload),
        cost(payload),
    ]
    if payload["removal_matters"]:
        lines.append(visible(payload["removal_matters"]))
    if len(payload["methods"]) > 1:
        lines += ["", *(_summary(payload, method) for method in payload["methods"])]
    for method in payload["methods"]:
        lines += ["", *_method(payload, method)]
    return "\n".join(lines)


def _summary(payload: dict[str, Any], method: dict[str, Any]) -> str:
    found = (
        f"{in_words(name)} {test['verdict']}" for name, test in deciding(payload, method).items()
    )
    return f"{method['method']}: {method['verdict']} ({', '.join(found)})"


def _method(payload: dict[str, Any], method: dict[str, Any]) -> list[str]:
    table = [_HEAD, *_rows(payload, method)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  "
        + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    whys = [
        f"  {', '.join(in_words(test['name']) for test in tests)}: {visible(why)}"
        for why, tests in reasons(payload, method).items()
    ]
    said = own_sentence(payload, method)
    return [
        f"{method['method']}: {method['verdict']}",
        *([visible(said)] if said else []),
        *lines,
        *whys,
    ]


def _rows(payload: dict[str, Any], method: dict[str, Any]) -> list[tuple[str, ...]]:
    several = len(payload["remove"]) > 1
    return [
        (
            f"{in_words(name)}, {test['remove']}" if several and test["remove"] else in_words(name),
            test["verdict"],
            measured(test),
            by_chance(test),
            percentile(test),
        )
        for name, tests in by_name(method["tests"]).items()
        for test in tests
    ]
