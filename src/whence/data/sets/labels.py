"""The labels of a data set as numbers of a model's outputs."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whence.core.errors import BadExamples
from whence.data.sets.examples import Example

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
    return _placed(counts, labels, counts.total())


def _all(n: int) -> str:
    return f"All {n} examples have" if n > 1 else "The only example has"


def _placed(counts: Counter[str], labels: tuple[str, ...], n: int) -> dict[str, int]:
    """Find the number of every label that occurs, by the first way that knows them all."""
    best: dict[str, int] = {}
    for way in _ways(list(counts), labels):
        if len(way) == len(counts):
            return way
        best = max(best, way, key=len)
    has = ", ".join(f"{number} {label!r}" for number, label in enumerate(labels[:8]))
    has += f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    other = next(one for one in counts if one not in best)
    raise BadExamples(
        f"The label {other[:40]!r} ({counts[other]} of {n} examples) is not one of the model's: {has}. Give names or "
        f"numbers of these, not both, or name another column: {_COLUMN}."
    )


def _ways(said: Sequence[str], labels: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Yield, for each way to write a label, what it makes of those that occur."""
    stripped = {one: one.strip() for one in said}
    folded = [label.casefold() for label in labels]
    yield {one: labels.index(name) for one, name in stripped.items() if name in labels}
    yield {
        one: folded.index(name.casefold())
        for one, name in stripped.items()
        if folded.count(name.casefold()) == 1
    }
    yield _numbered(stripped, len(labels))
    if len(labels) == 2:
        truth = {"false": 0, "true": 1}
        yield {one: truth[name.lower()] for one, name in stripped.items() if name.lower() in truth}


def _numbered(stripped: Mapping[str, str], classes: int) -> dict[str, int]:
    found = {}
    for one, name in stripped.items():
        # A column of numbers with gaps is read as 1.0 by many programs.
        number = re.fullmatch(r"(?:LABEL_)?([0-9]{1,6})(?:\.0+)?", name)
        if number and int(number[1]) < classes:
            found[one] = int(number[1])
    return found
