"""A data set: texts, pairs of texts or pictures, with a label and what people marked, where there is some."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import generator
from whence.data import hub, pictures
from whence.data.columns import PASSAGE_FIRST, known, label_column, label_of, text_columns
from whence.data.rationale import Span, marked, rationale_of
from whence.data.rows import Row, parsed, rows

__all__ = [
    "Example",
    "Read",
    "Span",
    "examples",
    "marked",
    "read",
    "read_bytes",
    "sample",
    "shuffled",
]


@dataclass(frozen=True, slots=True)
class Example:
    """One input, and what people said about it."""

    given: str | tuple[str, str] | pictures.Stored
    label: str | None = None
    rationale: tuple[Span, ...] | None = None  # None: nobody was asked
    mask: pictures.Outlined | None = None  # of a picture: what a person outlined

    @property
    def seen(self) -> bool:
        """Whether it is a picture."""
        return isinstance(self.given, pictures.Stored)

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text, or both of a pair; none of a picture."""
        if isinstance(self.given, pictures.Stored):
            return ()
        return (self.given,) if isinstance(self.given, str) else self.given


@dataclass(frozen=True)
class Read:
    """A data set that was read, and how: the columns, and which of them nobody named."""

    examples: list[Example]
    name: str
    text: str | None = None  # None: the examples came without columns
    pair: str | None = None
    label: str | None = None
    guessed: tuple[str, ...] = ()  # of text, pair, label and split
    columns: tuple[str, ...] = ()  # that there are
    pictures: bool = False

    def __len__(self) -> int:
        return len(self.examples)

    def __str__(self) -> str:
        what = "pictures" if self.pictures else "texts"
        columns = ((what, self.text), ("second texts", self.pair), ("labels", self.label))
        parts = [f"{what} from {name!r}" for what, name in columns if name is not None]
        if self.text is not None and self.label is None:
            parts.append("no labels")
        options = [f"--{one}" if one != "split" else "NAME:SPLIT" for one in self.guessed]
        told = f" (guessed: {', '.join(self.guessed)}; {', '.join(options)} say otherwise)"
        return f"{', '.join([self.name, *parts])}{told if self.guessed else ''}."


def examples(
    given: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> list[Example]:
    """Read a file or a folder of pictures, or take a list of texts, pairs, pictures, mappings or examples.

    `text`, `pair` and `label` name the columns, where they do not have one of the usual names. A picture in a list
    comes alone, as (picture, label), or as (picture, label, mask).
    """
    if isinstance(given, str | Path) and Path(given).is_dir():
        found = [_pictured(one) for one in pictures.in_folder(Path(given))]
    elif isinstance(given, str | Path):
        name, read_rows = Path(given).name, rows(given)
        found = _seen(read_rows, text, label) or [
            _example(where, row, text, pair, label, name) for where, row in read_rows
        ]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping | tuple):
        found = [
            _taken(f"Example {number}", one, text, pair, label) for number, one in enumerate(given)
        ]
    else:
        raise BadExamples(
            f"Cannot take {str(given)[:40]!r} ({type(given).__name__}) for a data set: give the path of a file or a "
            "folder of pictures, or a list of texts, pairs, pictures, mappings or examples."
        )
    if not found:
        raise BadExamples("The list of examples is empty. Give at least one text.")
    return found


def read(
    given: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> Read:
    """Read a file, a Hugging Face data set by its name, or a list, and say which columns were taken.

    As `examples`, and: the usual names of a label are known too, and of a passage and its question the passage is
    the first text. All rows have the same columns; a row without the label is an example without a label. A `pair`
    or `label` of "" says that there is none, whatever the columns are called.
    """
    if isinstance(given, Read):
        return given
    if isinstance(given, str | Path) and pictures.is_folder(Path(given)):
        return Read(examples(given), Path(given).name)
    if isinstance(given, str | Path) and hub.is_name(str(given)):
        name, found, split_guessed = hub.rows(str(given))
        return _read(name, found, text, pair, label, ("split",) if split_guessed else ())
    if isinstance(given, str | Path):
        return _read(Path(given).name, rows(given), text, pair, label)
    if isinstance(given, list | tuple) and given and all(isinstance(e, Mapping) for e in given):
        numbered = [(f"Example {number}", row) for number, row in enumerate(given)]
        return _read("the examples", numbered, text, pair, label)
    return Read(examples(given, text=text, pair=pair, label=label), "the examples")


def read_bytes(
    name: str,
    raw: bytes,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
) -> Read:
    """Read the bytes of a file whose name says what it is, as `read` reads one."""
    return _read(name, parsed(name, raw), text, pair, label)


def _read(
    name: str,
    found: Sequence[Row],
    text: str | None,
    pair: str | None,
    label: str | None,
    guessed: tuple[str, ...] = (),
) -> Read:
    if seen := _seen(found, text, label):
        column = pictures.picture_column(found[0][1])
        said = pictures.label_column(found[0][1], label or None)
        guessed += ("text",) if label or said is None else ("text", "label")
        has = tuple(found[0][1])
        return Read(seen, name, column, label=said, guessed=guessed, columns=has, pictures=True)
    two = () if pair == "" else PASSAGE_FIRST
    columns = text_columns(found[0][1], text or None, pair or None, name, two)
    said = label or label_column([row for _, row in found], columns) if label != "" else None
    if label:
        known(dict.fromkeys(key for _, row in found for key in row), label, name)
    taken = []
    for where, row in found:
        for column in columns:
            known(row, column, where)
        value = None if said is None else label_of(where, said, row.get(said))
        taken.append(_built(where, row, columns, value))
    roles = {
        "text": (text, columns[0]),
        "pair": (pair, columns[1] if len(columns) == 2 else None),
        "label": (label, said),
    }
    guessed += tuple(role for role, (own, used) in roles.items() if own is None and used)
    has = tuple(dict.fromkeys(str(key) for _, row in found for key in row))
    return Read(taken, name, columns[0], roles["pair"][1], said, guessed, has)


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
    seen = pictures.taken(where, one)
    if seen is None and isinstance(one, Mapping) and text is None:
        seen = pictures.from_mapping(where, one, label)
    if seen is not None:
        return _pictured(seen)
    if isinstance(one, Mapping):
        return _example(where, one, text, pair, label, where)
    if isinstance(one, str):
        return Example(one)
    if isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(x, str) for x in one):
        return Example((one[0], one[1]))
    raise BadExamples(
        f"{where} is {str(one)[:40]!r} ({type(one).__name__}). Allowed: a text, a pair (a, b) of texts, a picture, "
        'a mapping such as {"text": ...}, or an Example.'
    )


def _pictured(found: pictures.Found) -> Example:
    return Example(found.picture, found.label, mask=found.mask)


def _seen(found: Sequence[Row], text: str | None, label: str | None) -> list[Example] | None:
    """Take the pictures of a table; None if it has none, or if a column of texts was named."""
    seen = None if text else pictures.in_rows(found, label or None)
    return None if seen is None else [_pictured(one) for one in seen]


def _example(
    where: str,
    row: Mapping[str, Any],
    text: str | None,
    pair: str | None,
    label: str | None,
    file: str,
) -> Example:
    columns = text_columns(row, text, pair, file)
    said = row[known(row, label, file)] if label else row.get("label")
    return _built(where, row, columns, None if said is None else str(said))


def _built(
    where: str, row: Mapping[str, Any], columns: tuple[str, ...], label: str | None
) -> Example:
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
