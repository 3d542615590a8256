"""A data set: texts or pairs of texts, with a label and a human rationale where there are some."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, BadParameter, did_you_mean
from whence.core.seed import generator
from whence.data.rationale import Span, marked, rationale_of
from whence.data.rows import rows

__all__ = ["Example", "Span", "examples", "marked", "sample", "shuffled"]

ONE = ("text", "sentence", "review", "content")
TWO = (
    ("text", "pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "context"),
    ("question", "sentence"),
    ("question1", "question2"),
)
_ALLOWED = (
    f"{', '.join(ONE)}, tokens, or a pair such as premise and hypothesis. "
    "Name yours: text=..., --text COLUMN"
)


@dataclass(frozen=True, slots=True)
class Example:
    """One input, and what people said about it."""

    given: str | tuple[str, str]
    label: str | None = None
    rationale: tuple[Span, ...] | None = None  # None: nobody was asked


def examples(
    given: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> list[Example]:
    """Read a file, or take a list of texts, pairs, mappings or examples.

    `text`, `pair` and `label` name the columns, where they do not have one of the usual names.
    """
    if isinstance(given, str | Path):
        name = Path(given).name
        found = [_example(where, row, text, pair, label, name) for where, row in rows(given)]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping | tuple):
        found = [
            _taken(f"Example {number}", one, text, pair, label) for number, one in enumerate(given)
        ]
    else:
        raise BadExamples(
            f"Cannot take {str(given)[:40]!r} ({type(given).__name__}) for a data set: give the path of a file, or a "
            "list of texts, pairs, mappings or examples."
        )
    if not found:
        raise BadExamples("The list of examples is empty. Give at least one text.")
    return found


def shuffled(given: Sequence[Example], seed: int = 0) -> list[int]:
    """Number the examples in an order that is drawn."""
    return [int(i) for i in generator("sample of examples", seed).permutation(len(given))]


def sample(given: Sequence[Example], n: int, seed: int = 0) -> list[Example]:
    """Draw `n` examples, in the order they had; all of them if there are no more. A larger sample holds a smaller."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadParameter(f"A sample needs a whole number of examples, at least 1. Got {n!r}.")
    return [given[i] for i in sorted(shuffled(given, seed)[:n])]


def _taken(where: str, one: Any, text: str | None, pair: str | None, label: str | None) -> Example:
    if isinstance(one, Example):
        return one
    if isinstance(one, Mapping):
        return _example(where, one, text, pair, label, where)
    if isinstance(one, str):
        return Example(one)
    if isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(x, str) for x in one):
        return Example((one[0], one[1]))
    raise BadExamples(
        f"{where} is {str(one)[:40]!r} ({type(one).__name__}). Allowed: a text, a pair (a, b) of texts, a mapping "
        'such as {"text": ...}, or an Example.'
    )


def _example(
    where: str,
    row: Mapping[str, Any],
    text: str | None,
    pair: str | None,
    label: str | None,
    file: str,
) -> Example:
    columns = _columns(row, text, pair, file)
    parts = [_part(where, name, row[name]) for name in columns]
    said = row[_known(row, label, file)] if label else row.get("label")
    rationale = rationale_of(where, row, columns, parts)
    return Example(
        parts[0] if len(parts) == 1 else (parts[0], parts[1]),
        None if said is None else str(said),
        rationale,
    )


def _columns(
    row: Mapping[str, Any], text: str | None, pair: str | None, file: str
) -> tuple[str, ...]:
    """Name the columns that hold the text, or the two texts: those asked for, else the usual ones."""
    if pair is not None and text is None:
        text = next((name for name in ONE if name in row and name != pair), "text")
    if text is not None:
        asked = (text,) if pair is None else (text, pair)
        return tuple(_known(row, name, file) for name in asked)
    both = next((two for two in TWO if all(name in row for name in two)), None)
    if both is not None:
        return both
    # Spans of tokens fit the tokens, and a text only by chance.
    order = ("tokens", *ONE) if "rationale_spans" in row else (*ONE, "tokens")
    alone = next((name for name in order if name in row), None)
    if alone is None:
        has = ", ".join(map(str, row)) or "none"
        raise BadExamples(f"{file} has no column of texts; it has {has}. Allowed: {_ALLOWED}.")
    return (alone,)


def _known(row: Mapping[str, Any], name: str, file: str) -> str:
    if name not in row:
        has = [str(one) for one in row]
        raise BadExamples(
            f"{file} has no column {name!r}; it has {', '.join(has) or 'none'}.{did_you_mean(name, has)}"
        )
    return name


def _part(where: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return " ".join(value)
    raise BadExamples(
        f"{where}: {name!r} is {str(value)[:40]!r} ({type(value).__name__}). Allowed: a text, or a list of tokens."
    )
