"""The rows of a table as examples: which columns hold what is settled once, then every row is read alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadExamples
from whence.data.sets import pictures
from whence.data.sets.columns import PASSAGE_FIRST, known, label_column, label_of, text_columns
from whence.data.sets.example import Example
from whence.data.sets.rationale import rationale_of
from whence.data.sets.rows import Row


@dataclass(frozen=True)
class Columns:
    """Which columns are read, and which of them nobody named."""

    texts: tuple[str, ...]  # one, or two of a pair; of pictures the column that holds them
    label: str | None
    guessed: tuple[str, ...]  # of text, pair and label
    has: tuple[str, ...]  # that there are
    seen: pictures.Columns | None = None

    @property
    def pair(self) -> str | None:
        """The column of second texts."""
        return self.texts[1] if len(self.texts) == 2 else None

    def example(self, where: str, row: Mapping[str, Any]) -> Example:
        """Make an example of one row."""
        if self.seen is not None:
            return pictured(self.seen.found(where, row))
        for column in self.texts:
            known(row, column, where)
        label = None if self.label is None else label_of(where, self.label, row.get(self.label))
        return built(where, row, self.texts, label)


def settled(
    name: str,
    found: Sequence[Row],
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    two: Sequence[tuple[str, str]] = PASSAGE_FIRST,
) -> Columns:
    """Choose the columns by some rows, the first included: those that were named, else the usual ones.

    `two`: the usual names of two texts, in their order.
    """
    first = found[0][1]
    has = tuple(dict.fromkeys(str(key) for _, row in found for key in row))
    seen = None if text else pictures.columns(first, label or None)
    if seen is not None:
        own = ("text",) if label or seen.label is None else ("text", "label")
        return Columns((seen.picture,), seen.label, own, has, seen)
    texts = text_columns(first, text or None, pair or None, name, () if pair == "" else two)
    said = label or label_column([row for _, row in found], texts) if label != "" else None
    if label:
        known(has, label, name)
    roles = {
        "text": (text, texts[0]),
        "pair": (pair, texts[1] if len(texts) == 2 else None),
        "label": (label, said),
    }
    guessed = tuple(role for role, (asked, used) in roles.items() if asked is None and used)
    return Columns(texts, said, guessed, has)


def pictured(found: pictures.Found) -> Example:
    """Make an example of a picture."""
    return Example(found.picture, found.label, mask=found.mask)


def built(
    where: str, row: Mapping[str, Any], columns: tuple[str, ...], label: str | None
) -> Example:
    """Make an example of the texts in a row."""
    parts = [_part(where, name, row[name]) for name in columns]
    return Example(
        parts[0] if len(parts) == 1 else (parts[0], parts[1]),
        label,
        rationale_of(where, row, columns, parts),
    )


def _part(where: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return " ".join(value)
    raise BadExamples(
        f"{where}: {name!r} is {str(value)[:40]!r} ({type(value).__name__}). Allowed: a text, or a list of tokens."
    )
