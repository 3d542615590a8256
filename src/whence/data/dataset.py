"""A data set: texts, pairs of texts or pictures, with a label and what people marked, where there is some."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import generator
from whence.data.sets import address, album, eraser, hub, pictures
from whence.data.sets.bare_pairs import HOW, refuse_labels
from whence.data.sets.columns import (
    PASSAGE_FIRST,
    TWO,
    UnknownColumns,
    known,
    label_column,
    label_of,
    text_columns,
)
from whence.data.sets.example import Example
from whence.data.sets.frames import NAME, frame_rows, is_frame
from whence.data.sets.rationale import Span, marked
from whence.data.sets.rows import Row, is_file, parsed, rows, whole
from whence.data.sets.table import built, pictured, settled

__all__ = [
    "Example",
    "Read",
    "Span",
    "collect",
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
    bare: bool = False  # pairs among them were given without names, as tuples in a list
    rows: int | None = None  # that there were, where the examples were drawn from them
    seed: int | None = None  # that they were drawn by

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
        drawn = (
            ""
            if self.rows is None
            else f"; {len(self):,} of {self.rows:,} rows drawn with seed {self.seed}"
        )
        return f"{', '.join([self.name, *parts])}{told if self.guessed else ''}{drawn}."

    def refuse_labels(self, labels: Sequence[str]) -> None:
        """Refuse pairs that were given without names where the second ones are the model's labels."""
        if self.bare:
            refuse_labels([one.given for one in self.examples if _is_pair(one.given)], labels)

    def draw(self, n: int, seed: int = 0) -> "Read":
        """Return so many of the examples, drawn, in the order they had; all of them if there are no more."""
        _check_size(n)
        return self.choose(sorted(shuffled(self.examples, seed)[:n]), seed)

    def choose(self, numbers: Sequence[int], seed: int) -> "Read":
        """Return the examples of these numbers, which were drawn by a seed, and remember from how many."""
        if len(numbers) == len(self):
            return self
        some = [self.examples[number] for number in numbers]
        return replace(self, examples=some, rows=self.rows or len(self), seed=seed)

    def facts(self) -> dict[str, Any]:
        """Say what was read and what was drawn of it, as plain data."""
        return {
            "name": self.name,
            "rows": len(self) if self.rows is None else self.rows,
            "drawn": None if self.rows is None else len(self),
            "seed": self.seed,
            "text": self.text,
            "pair": self.pair,
            "label": self.label,
            "guessed": list(self.guessed),
        }


def examples(
    given: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> list[Example]:
    """Return the examples of a data set, as `collect` reads it."""
    return collect(given, text=text, pair=pair, label=label).examples


def collect(
    given: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> Read:
    """Read a file, a folder of pictures, a table in memory (pandas, polars, Arrow, datasets) or a list of examples.

    A list holds texts, pairs, pictures, mappings or examples. `text`, `pair` and `label` name the columns, where they
    do not have one of the usual names. A picture in a list comes alone, as (picture, label), or as
    (picture, label, mask). Other than for `read`, each row may have columns of its own, and of a question and its
    context the question is the first text.
    """
    if isinstance(given, Read):
        return given
    if is_frame(given):
        return _read_frame(given, text, pair, label, TWO)
    if isinstance(given, str | Path) and (folder := _folder(given)) is not None:
        seen = [pictured(one) for one in album.pictures_in(folder)]
        found = Read(seen, folder.name, pictures=True)
    elif isinstance(given, str | Path):
        found = _collect_rows(address.file_name(given), rows(given), text, pair, label)
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping | tuple):
        found = _listed(list(given), text, pair, label)
    else:
        raise BadExamples(
            f"Cannot take {str(given)[:40]!r} ({type(given).__name__}) for a data set: give the path of a file or a "
            "folder of pictures, a table, or a list of texts, pairs, pictures, mappings or examples."
        )
    if not found.examples:
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
    if is_frame(given):
        return _read_frame(given, text, pair, label, PASSAGE_FIRST)
    if isinstance(given, list | tuple) and given and all(isinstance(e, Mapping) for e in given):
        numbered = [(f"Example {number}", row) for number, row in enumerate(given)]
        return _read("the examples", numbered, text, pair, label)
    return collect(given, text=text, pair=pair, label=label)


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
    two: Sequence[tuple[str, str]] = PASSAGE_FIRST,
) -> Read:
    try:
        columns = settled(name, found, text, pair, label, two)
    except UnknownColumns as error:
        raise error.with_rows(row for _, row in found) from None
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
    _check_size(n)
    return [given[i] for i in sorted(shuffled(given, seed)[:n])]


def _check_size(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadParameter(f"A sample needs a whole number of examples, at least 1. Got {n!r}.")


def _read_frame(
    given: Any,
    text: str | None,
    pair: str | None,
    label: str | None,
    two: Sequence[tuple[str, str]],
) -> Read:
    """Take the rows of a table in memory."""
    found = _read(NAME, frame_rows(given), text, pair, label, two=two)
    return replace(found, name=NAME.lower())


def _collect_rows(
    name: str, found: Sequence[Row], text: str | None, pair: str | None, label: str | None
) -> Read:
    """Take the rows of a file, each by the columns that it has."""
    if text is None and pictures.columns(found[0][1], label or None) is not None:
        return _read(name, found, text, pair, label)
    two = _two(pair)
    first = text_columns(found[0][1], text, pair or None, name, two)
    said = _label(label, [row for _, row in found], first)
    if label:
        for _, row in found:
            known(row, label, name)
    taken = [
        built(
            where,
            row,
            text_columns(row, text, pair or None, name, two),
            None if said is None else label_of(where, said, row.get(said)),
        )
        for where, row in found
    ]
    return _told(taken, name, found[0][1], first, said, (text, pair, label))


def _listed(given: list[Any], text: str | None, pair: str | None, label: str | None) -> Read:
    """Take the entries of a list, each by what it is."""
    mappings = [one for one in given if isinstance(one, Mapping)]
    said = _label(label, mappings, ())
    found = [
        _taken(f"Example {number}", one, text, pair, said, label)
        for number, one in enumerate(given)
    ]
    pairs = [e.given for e, one in zip(found, given, strict=True) if _is_bare(one, e)]
    refuse_labels([one for one in pairs if _is_pair(one)])
    if not mappings or len(mappings) < len(given) or any(one.seen for one in found):
        return Read(found, "the examples", bare=bool(pairs))
    first = text_columns(mappings[0], text, pair or None, "the examples", _two(pair))
    return _told(found, "the examples", mappings[0], first, said, (text, pair, label))


def _told(
    found: list[Example],
    name: str,
    row: Mapping[str, Any],
    texts: tuple[str, ...],
    label: str | None,
    asked: tuple[str | None, str | None, str | None],
) -> Read:
    """Say which columns were taken, by those of the first row."""
    used = (texts[0], texts[1] if len(texts) == 2 else None, label)
    roles = zip(("text", "pair", "label"), asked, used, strict=True)
    guessed = tuple(role for role, named, own in roles if named is None and own)
    return Read(found, name, *used, guessed, tuple(map(str, row)))


def _label(
    asked: str | None, rows: Sequence[Mapping[str, Any]], taken: tuple[str, ...]
) -> str | None:
    """Return the column of the labels: the one asked for, else one of the usual names; "" asks for none."""
    return label_column(rows, taken) if asked is None else asked or None


def _two(pair: str | None) -> tuple[tuple[str, str], ...]:
    return () if pair == "" else TWO


def _is_pair(given: Any) -> TypeGuard[tuple[str, str]]:
    return isinstance(given, tuple) and len(given) == 2


def _is_bare(one: Any, example: Example) -> bool:
    return isinstance(one, tuple | list) and _is_pair(example.given)


def _taken(
    where: str,
    one: Any,
    text: str | None,
    pair: str | None,
    label: str | None,
    asked: str | None,
) -> Example:
    """Make an example of one entry of a list; `label` is the column that was `asked` for, or found."""
    if isinstance(one, Example):
        return one
    seen = pictures.taken(where, one)
    if seen is None and isinstance(one, Mapping) and text is None:
        seen = pictures.from_mapping(where, one, asked or None)
    if seen is not None:
        return pictured(seen)
    if isinstance(one, Mapping):
        columns = text_columns(one, text, pair or None, where, _two(pair))
        said = None if label is None else one[known(one, label, where)] if asked else one.get(label)
        return built(
            where, one, columns, None if said is None else label_of(where, str(label), said)
        )
    if isinstance(one, str):
        return Example(one)
    if isinstance(one, tuple | list) and len(one) == 2 and all(isinstance(x, str) for x in one):
        return Example((one[0], one[1]))
    if isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[0], str):
        raise BadExamples(
            f"{where} is {str(one)[:40]!r} ({type(one).__name__}), and a pair (a, b) in a list is one of texts. {HOW}"
        )
    raise BadExamples(
        f"{where} is {str(one)[:40]!r} ({type(one).__name__}). Allowed: a text, a pair (a, b) of texts, a picture, "
        'a mapping such as {"text": ...}, or an Example.'
    )
