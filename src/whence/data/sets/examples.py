"""A data set: texts, pairs of texts or pictures, with a label and what people marked, where there is some."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import generator
from whence.data.sets import address, album, eraser, hub, pictures
from whence.data.sets.columns import known, text_columns
from whence.data.sets.example import Example
from whence.data.sets.rationale import Span, marked
from whence.data.sets.rows import Row, is_file, parsed, rows, whole
from whence.data.sets.table import built, pictured, settled

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
    if isinstance(given, str | Path) and (folder := _folder(given)) is not None:
        found = [pictured(one) for one in album.pictures_in(folder)]
    elif isinstance(given, str | Path):
        name, read_rows = address.file_name(given), rows(given)
        seen = None if text else pictures.columns(read_rows[0][1], label or None)
        found = [
            _example(where, row, text, pair, label, name)
            if seen is None
            else pictured(seen.found(where, row))
            for where, row in read_rows
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
    given: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    most: int | None = None,
) -> Read:
    """Read a file, a Hugging Face data set by its name, or a list, and say which columns were taken.

    As `examples`, and: the usual names of a label are known too, and of a passage and its question the passage is
    the first text. All rows have the same columns; a row without the label is an example without a label. A `pair`
    or `label` of "" says that there is none, whatever the columns are called. More rows of a file than `most` are
    an error.
    """
    if isinstance(given, Read):
        return given
    if isinstance(given, str | Path):
        return _stored(given, text, pair, label, most)
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
    most: int | None = None,
) -> Read:
    """Read the bytes of a file whose name says what it is, as `read` reads one, and at most so many rows."""
    return _read(name, parsed(name, raw, most), text, pair, label)


def _stored(
    given: str | Path, text: str | None, pair: str | None, label: str | None, most: int | None
) -> Read:
    if (annotated := eraser.table(given, pair)) is not None:
        found = whole(annotated.name, annotated.rows(), most)
        return _read(annotated.name, found, text, pair, label, annotated.guessed)
    if (folder := _folder(given)) is not None and album.holds_pictures(folder):
        return Read(
            [pictured(one) for one in album.pictures_in(folder)], folder.name, pictures=True
        )
    if hub.is_name(str(given)):
        name, found, split_guessed = hub.rows(str(given))
        return _read(name, found, text, pair, label, ("split",) if split_guessed else ())
    return _read(address.file_name(given), rows(given, most), text, pair, label)


def _folder(given: str | Path) -> address.Folder | None:
    return None if is_file(given) else address.folder(given)


def _read(
    name: str,
    found: Sequence[Row],
    text: str | None,
    pair: str | None,
    label: str | None,
    guessed: tuple[str, ...] = (),
) -> Read:
    columns = settled(name, found, text, pair, label)
    return Read(
        [columns.example(where, row) for where, row in found],
        name,
        columns.texts[0],
        columns.pair,
        columns.label,
        guessed + columns.guessed,
        columns.has,
        columns.seen is not None,
    )


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
        return pictured(seen)
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
    return built(where, row, columns, None if said is None else str(said))
