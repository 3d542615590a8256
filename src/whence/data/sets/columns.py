"""Which columns hold the text, the second text and the label: those that were named, else the usual ones."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from whence.core.errors import BadExamples, did_you_mean, short

ONE = ("text", "sentence", "review", "content")
TWO = (
    ("text", "pair"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "context"),
    ("question", "sentence"),
    ("question1", "question2"),
)
# Models with a query attend to the first text, so there the passage comes first.
PASSAGE_FIRST = (
    ("story", "question"),
    ("passage", "question"),
    ("context", "question"),
    ("tokens", "query"),
    *TWO,
)
LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "answer",
    "gold_label",
)
_SHOWN, _CELL = 5, 200  # rows to choose by, and characters of a cell
_ALLOWED = (
    f"{', '.join(ONE)}, tokens, or a pair such as premise and hypothesis. "
    "Name yours: text=..., --text COLUMN, or Columns on the page"
)


class UnknownColumns(BadExamples):
    """A table of which nobody can say which columns hold the texts, or that lacks one that was named.

    It has the names of the columns and the first rows, so that whoever is asked can choose.
    """

    def __init__(self, message: str, columns: Iterable[str]) -> None:
        super().__init__(message)
        self.columns = tuple(map(str, columns))
        self.first: tuple[tuple[str, ...], ...] = ()

    def with_rows(self, rows: Iterable[Mapping[str, Any]]) -> "UnknownColumns":
        """Return the error with the first rows, as texts that are cut where they are long."""
        some = list(islice(rows, _SHOWN))
        self.columns = tuple(dict.fromkeys([*self.columns, *(str(k) for row in some for k in row)]))
        self.first = tuple(tuple(_cell(row.get(one)) for one in self.columns) for row in some)
        return self


def _cell(value: Any) -> str:
    return "" if value is None else short(" ".join(str(value)[: 4 * _CELL].split()), _CELL)


def text_columns(
    row: Iterable[str],
    text: str | None,
    pair: str | None,
    file: str,
    two: Sequence[tuple[str, str]] = TWO,
) -> tuple[str, ...]:
    """Name the columns that hold the text, or the two texts: those asked for, else the usual ones."""
    row = list(row)
    if pair is not None and text is None:
        text = next((name for name in (*ONE, "tokens") if name in row and name != pair), "text")
    if text is not None:
        asked = (text,) if pair is None else (text, pair)
        return tuple(known(row, name, file) for name in asked)
    both = next((names for names in two if all(name in row for name in names)), None)
    if both is not None:
        return both
    # Spans of tokens fit the tokens, and a text only by chance.
    order = ("tokens", *ONE) if "rationale_spans" in row else (*ONE, "tokens")
    alone = next((name for name in order if name in row), None)
    if alone is None:
        has = ", ".join(map(str, row)) or "none"
        raise UnknownColumns(
            f"{file} has no column of texts; it has {has}. Allowed: {_ALLOWED}.", row
        )
    return (alone,)


def known(row: Iterable[str], name: str, file: str) -> str:
    """Return the name of a column, or say that there is none of that name."""
    has = [str(one) for one in row]
    if name not in has:
        raise UnknownColumns(
            f"{file} has no column {name!r}; it has {', '.join(has) or 'none'}.{did_you_mean(name, has)}",
            has,
        )
    return name


def label_column(rows: Sequence[Mapping[str, Any]], taken: Collection[str]) -> str | None:
    """Guess the column of labels: the first of the usual names that holds one name or number a row."""
    for name in LABELS:
        if name not in taken and any(name in row for row in rows):
            said = [row.get(name) for row in rows]
            if all(one is None or isinstance(one, str | int | float) for one in said):
                return name
    return None


def label_of(where: str, name: str, value: Any) -> str | None:
    """Return a label as text; None where there is none."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str | int | float):
        return str(value)
    raise BadExamples(
        f"{where}: the label in {name!r} is {str(value)[:40]!r} ({type(value).__name__}). "
        "Allowed: one name or number."
    )
