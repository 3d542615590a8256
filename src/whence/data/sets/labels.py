"""The labels of a data set as numbers of a model's outputs."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whence.core.errors import BadExamples
from whence.data.sets.examples import Example

# By their names, by their numbers from 0, as false and true, or by a number that stands in each of the names.
By = Literal["name", "number", "truth", "own number"]
_COLUMN = "label=..., --label COLUMN, or Columns on the page"


def label_indices(examples: Sequence[Example], labels: tuple[str, ...]) -> list[int]:
    """Return the number of each example's label among the model's.

    The data's labels are the model's names, letter for letter or in another case, or numbers from 0, alone or as
    LABEL_0; all of them in the same way.
    """
    missing = sum(example.label is None for example in examples)
    if missing == len(examples):
        raise BadExamples(
            f"None of the {missing} examples has a label. Name the column that holds them: {_COLUMN}."
        )
    if missing:
        raise BadExamples(
            f"{missing} of {len(examples)} examples have no label. Take them out, or name another column: {_COLUMN}."
        )
    said = [str(example.label) for example in examples]
    counts = Counter(said)
    place = label_places(said, labels)
    if len({place[one] for one in counts}) < 2:
        raise BadExamples(
            f"{_all(len(examples))} the label {said[0]!r}. Give examples of at least two classes, or "
            f"name another column: {_COLUMN}."
        )
    return [place[one] for one in said]


def label_places(said: Iterable[str], labels: tuple[str, ...]) -> dict[str, int]:
    """Return the number among the model's labels of every label that occurs."""
    counts = Counter(said)
    return _placed(counts, labels, counts.total())[1]


@dataclass(frozen=True)
class LabelNames:
    """The labels of a data set as the model calls them, and by what they were found."""

    names: Mapping[str, str]  # by the label that the data has
    by: By

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"by": self.by, "names": dict(sorted(self.names.items()))}


def label_names(said: Iterable[str], labels: tuple[str, ...]) -> LabelNames | None:
    """Return what the model calls the labels that occur; None where they are not its labels, or nobody can tell."""
    counts = Counter(said)
    if not counts or not labels:
        return None
    try:
        by, places = _placed(counts, labels, counts.total())
    except BadExamples:
        return None
    return LabelNames({one: labels[place] for one, place in places.items()}, by)


def _all(n: int) -> str:
    return f"All {n} examples have" if n > 1 else "The only example has"


def _placed(counts: Counter[str], labels: tuple[str, ...], n: int) -> tuple[By, dict[str, int]]:
    """Find the number of every label that occurs, by the first way that knows them all, and what way that is."""
    best: dict[str, int] = {}
    for by, way in _ways(list(counts), labels):
        if len(way) == len(counts):
            if by == "number":
                _refuse_two_meanings(way, list(counts), labels)
            return by, way
        best = max(best, way, key=len)
    has = ", ".join(f"{number} {label!r}" for number, label in enumerate(labels[:8]))
    has += f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    other = next(one for one in counts if one not in best)
    raise BadExamples(
        f"The label {other[:40]!r} ({counts[other]} of {n} examples) is not one of the model's: {has}. Give names or "
        f"numbers of these, not both, or name another column: {_COLUMN}."
    )


def _refuse_two_meanings(
    way: Mapping[str, int], said: Sequence[str], labels: tuple[str, ...]
) -> None:
    """Refuse numbers that may be places from 0 as well as numbers that the model's own labels have: 1 of "1 star"."""
    named = _by_own_number(said, labels)
    other = next((one for one in said if one in named and named[one] != way[one]), None)
    if other is not None and len(named) == len(said):
        raise BadExamples(
            f"The label {other!r} may be {labels[way[other]]!r}, number {way[other]} from 0, or "
            f"{labels[named[other]]!r}. Give the names of the model's labels, or name another column: {_COLUMN}."
        )


def _by_own_number(said: Sequence[str], labels: tuple[str, ...]) -> dict[str, int]:
    """Return the places of labels that have the number in their own names, where each has one of its own."""
    numbers = [re.findall(r"[0-9]+", label) for label in labels]
    own = {int(found[0]): place for place, found in enumerate(numbers) if len(found) == 1}
    if len(own) < len(labels):
        return {}
    found = {one: re.fullmatch(r"\s*([0-9]{1,6})(?:\.0+)?\s*", one) for one in said}
    return {one: own[int(n[1])] for one, n in found.items() if n and int(n[1]) in own}


def _ways(said: Sequence[str], labels: tuple[str, ...]) -> Iterator[tuple[By, dict[str, int]]]:
    """Yield, for each way to write a label, what it makes of those that occur."""
    stripped = {one: one.strip() for one in said}
    folded = [label.casefold() for label in labels]
    yield "name", {one: labels.index(name) for one, name in stripped.items() if name in labels}
    yield (
        "name",
        {
            one: folded.index(name.casefold())
            for one, name in stripped.items()
            if folded.count(name.casefold()) == 1
        },
    )
    yield "number", _numbered(stripped, len(labels))
    if len(labels) == 2:
        truth = {"false": 0, "true": 1}
        known = {n: truth[name.lower()] for n, name in stripped.items() if name.lower() in truth}
        yield "truth", known
    yield "own number", _by_own_number(said, labels)


def _numbered(stripped: Mapping[str, str], classes: int) -> dict[str, int]:
    found = {}
    for one, name in stripped.items():
        # A column of numbers with gaps is read as 1.0 by many programs.
        number = re.fullmatch(r"(?:LABEL_)?([0-9]{1,6})(?:\.0+)?", name)
        if number and int(number[1]) < classes:
            found[one] = int(number[1])
    return found
