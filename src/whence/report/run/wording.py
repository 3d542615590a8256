"""How a report says things, of one run and of two."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whence.report.audit.wording import one_line
from whence.report.figures import digits_of, interval, number
from whence.report.run.blocks import Told
from whence.report.text import share

_NAMED = 8  # of a list that may be long

Facts = Mapping[str, Any]


def counted(count: int, what: str) -> str:
    """Write a number with what it counts."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def listed(names: Iterable[Any], most: int = _NAMED) -> str:
    """Write names one after the other; of very many the first."""
    told = [one_line(name) for name in names]
    more = [f"{len(told) - most:,} more"] if len(told) > most else []
    return ", ".join([*told[:most], *more])


def figure(one: Facts | None, digits: int | None = None) -> str:
    """Write a mean with its interval and its n."""
    if one is None or not one["n"]:
        return "not known"
    return interval(one, digits_of([one]) if digits is None else digits)


def percent(one: Facts | None) -> str:
    """Write a share with its interval and its n, in percent."""
    if one is None or not one["n"]:
        return "not known"
    return interval(one, 3) if one["low"] is None else _percent(one)


def _percent(one: Facts) -> str:
    ends = "" if one["low"] == one["high"] else f" [{one['low']:.1%}, {one['high']:.1%}]"
    return f"{one['mean']:.1%}{ends} n={one['n']}"


def p_value(p: float | None) -> str:
    """Write a p value."""
    if p is None:
        return "-"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def short_name(name: Any) -> str:
    """Return what a model is called: of a folder the last part of its path."""
    told = one_line(name)
    looks_like_path = told.startswith(("/", "./", "../", "~")) or told[1:3] == ":\\"
    return re.split(r"[/\\]", told.rstrip("/\\"))[-1] if looks_like_path else told


def model(facts: Facts) -> str:
    """Name a model with its class, revision and dtype."""
    told = [str(facts[name]) for name in ("class", "revision", "dtype") if facts.get(name)]
    return one_line(facts["name"]) + (f" ({one_line(', '.join(told))})" if told else "")


def progress(facts: Facts) -> str:
    """Say how far a run is."""
    done, total = facts["examples"], facts.get("total")
    if facts["state"] == "complete" and facts.get("parts"):
        parts = listed(f"{part} of {of}" for part, of in facts["parts"])
        told = f"{counted(done, 'example')} of part {parts} of the run"
        return f"All there is to do here is done: {told}. `whence store merge` brings the parts together."
    if facts["state"] == "complete":
        return f"The run is complete: {counted(done, 'example')}."
    of = "" if total is None else f" of {total:,}"
    return f"The run is not finished: {done:,}{of} examples are there. The same command goes on with it."


def classes(found: Mapping[str, int]) -> str:
    """Write how often each class was predicted, the most frequent first."""
    most = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return listed(f"{name} {count:,}" for name, count in most)


_BY = {
    "number": "numbers, taken for the model's labels counted from 0",
    "own number": "numbers, taken for those in the names of the model's labels",
    "truth": "false and true, taken for the first and the second of the model's labels",
}


def labels(found: Facts | None) -> str:
    """Say how the labels of the data were taken, where they are not the model's own names."""
    if not found or found["by"] not in _BY:
        return ""
    return f"{_BY[found['by']]}: {listed(f'{one} {name}' for one, name in found['names'].items())}"


def example(one: Facts, title: str) -> Told:
    """Lay out one explanation of one example, with what it got and what random explanations get."""
    told = one["explained"]
    (explanation,) = told["explanations"]
    said = told["prediction"]
    predicted = one_line(said["label"] or "nothing")
    if said["probability"] is not None:
        predicted += f" ({share(said['probability'])})"
    true = one.get("gold") or one.get("label")  # as the model calls it, where that is known
    label = f", labelled {one_line(true)}" if true is not None else ""
    says = [f"{one_line(one['id'])}: predicted {predicted}{label}."]
    if one.get("value") is not None:
        values = [value for value in (one["value"], one["null"]) if value is not None]
        digits = 3 if all(abs(value) < 1000 for value in values) else None
        random = (
            "" if one["null"] is None else f", random explanations {number(one['null'], digits)}"
        )
        says.append(
            f"{one_line(one['metric'])} {number(one['value'], digits)}{random} (this example alone)."
        )
    says += [one_line(line) for line in one.get("says") or ()]
    return Told(f"{title}: {one_line(explanation['method'])}", says, told)


def reasons(rows: Sequence[Facts]) -> list[tuple[str, ...]]:
    """Return failures as the cells below `REASONS`."""
    return [
        (
            one_line(row["method"] or "any method"),
            one_line(row["error"]),
            f"{row['count']:,}",
            listed(row["first"], 3),
            one_line(row["why"]),
        )
        for row in rows
    ]


REASONS = ("method", "error", "examples", "such as", "why")
