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


"""A folder of pictures, here or elsewhere: one folder for each class, or pictures alone.

A mask lies beside its picture, as NAME_mask.png, or in a folder `masks` beside a folder `images`, under the same
name.
"""

from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from whence.core.errors import BadExamples
from whence.data.sets.address import Folder
from whence.data.sets.pictures import ENDINGS, TRIMAP, Found, Outlined, Stored
from whence.data.sets.stream import Unreadable


def holds_pictures(folder: Folder) -> bool:
    """Say whether a folder holds pictures, and no table of what else is to be read about them."""
    files = [PurePosixPath(name) for name in folder.files()]
    tables = any(one.stem == "metadata" for one in files)
    return not tables and any(one.suffix.lower() in ENDINGS for one in files)


def pictures_in(folder: Folder) -> list[Found]:
    """Find the pictures of a folder, in the order of their names; one that cannot be there is an error."""
    found = []
    for one in stream(folder):
        if isinstance(one, Unreadable):
            raise BadExamples(one.why)
        found.append(one)
    return found


def stream(folder: Folder) -> Iterator[Found | Unreadable]:
    """Yield the pictures of a folder, in the order of their names."""
    files = folder.files()
    root = "images/" if any(name.startswith("images/") for name in files) else ""
    masks = "masks/" if root and any(name.startswith("masks/") for name in files) else None
    names = set(files)
    inside = [name.removeprefix(root) for name in files if name.startswith(root)]
    own = [name for name in inside if _is_picture(folder, root + name)]
    if not own:
        raise BadExamples(
            f"The folder {folder.name!r} has no pictures ({', '.join(sorted(ENDINGS))}). Give one with a folder of "
            "pictures for each class, or with pictures alone."
        )
    for name in own:
        path = PurePosixPath(name)
        beside = _mask_beside(root, path) if masks is None else _mask_among(masks, path)
        mask = next((one for one in beside if one in names), None)
        try:
            picture = Stored(folder.place(root + name), name)
            drawn = mask and Stored(folder.place(mask), PurePosixPath(mask).name)
        except BadExamples as error:
            yield Unreadable(name, str(error))
            continue
        label = path.parts[0] if len(path.parts) > 1 else None
        outlined = Outlined(drawn, masks is None and TRIMAP in str(mask)) if drawn else None
        yield Found(picture, label, outlined)


def _is_picture(folder: Folder, name: str) -> bool:
    path = PurePosixPath(name)
    if path.suffix.lower() in ENDINGS:
        return not path.stem.endswith(("_mask", f"_{TRIMAP}"))
    return folder.is_linked_folder(name)  # what lies behind it would go missing without a word


def _mask_beside(root: str, path: PurePosixPath) -> Collection[str]:
    return [f"{root}{path.with_name(f'{path.stem}_{kind}.png')}" for kind in ("mask", TRIMAP)]


def _mask_among(masks: str, path: PurePosixPath) -> Collection[str]:
    own = (path, path.with_suffix(".png"), path.with_name(f"{path.stem}_mask.png"))
    return [f"{masks}{one}" for one in own]


"""Pairs in a list, given without names: two texts for a model of pairs, or a text with its label by mistake.

A tuple of two texts is a pair of texts. Where the second ones are evidently labels, showing them to the model would
tell it the answer, so such a list is refused.
"""

import re
from collections.abc import Sequence

from whence.core.errors import BadExamples

HOW = (
    'Give mappings that name what is what: {"text": ..., "label": ...}, or of two texts {"text": ..., "pair": ...}; '
    "or a table with text=... and label=...."
)
_USUAL = re.compile(
    "positive|negative|neutral|mixed|pos|neg|true|false|yes|no|(not_)?entailment|contradiction|spam|ham",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(label[_ -]?)?-?\d{1,6}(\.0+)?|\d[ _-]?stars?", re.IGNORECASE)
_FEWEST = 4  # pairs of which the same words at the second place say something
_LONGEST = 40  # characters of a label


def refuse_labels(pairs: Sequence[tuple[str, str]], labels: Sequence[str] = ()) -> None:
    """Refuse pairs whose second texts are evidently labels: the model's, usual ones, or few words again and again."""
    second = [two.strip() for _, two in pairs]
    if not second or not (_are_known(second, labels) or _are_few(pairs, second)):
        return
    named = ", ".join(repr(one[:20]) for one in list(dict.fromkeys(second))[:3])
    raise BadExamples(
        f"A pair (a, b) in a list is a pair of texts, and the second ones look like labels ({named}): the model "
        f"would read them. {HOW}"
    )


def _are_known(second: Sequence[str], labels: Sequence[str]) -> bool:
    own = {label.strip().casefold() for label in labels}
    return all(
        one.casefold() in own or _USUAL.fullmatch(one) or _NUMBER.fullmatch(one) for one in second
    )


def _are_few(pairs: Sequence[tuple[str, str]], second: Sequence[str]) -> bool:
    """Say whether a few single words stand second again and again, beside first texts of several words."""
    words = all(one and len(one.split()) == 1 and len(one) <= _LONGEST for one in second)
    several = all(len(first.split()) > 1 for first, _ in pairs)
    return words and several and len(second) >= _FEWEST and 2 * len(set(second)) <= len(second)


"""The hash of an example: of what it says, and of nothing else, such as where it lies or what its file is called."""

import json
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np

from whence.data.sets.examples import Example
from whence.data.sets.pictures import Stored


def digest(facts: Any) -> str:
    """Return the hash of plain data: equal data have equal hashes, whatever the order of their names."""
    plain = json.dumps(
        facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return sha256(plain.encode()).hexdigest()


def given_digest(example: Example) -> str:
    """Return the hash of what is given to a model: a text, a pair of texts or a picture."""
    given = example.given
    if isinstance(given, Stored):
        return digest(["picture", *_seen(given)])
    return digest(["text", *example.texts])


def example_digest(example: Example, given: str | None = None) -> str:
    """Return the hash of an example: what is given, its label, and what people marked.

    `given` is the hash of what is given, where it is known: of a picture it takes a while.
    """
    spans, mask = example.rationale, example.mask
    return digest(
        [
            given or given_digest(example),
            example.label,
            None if spans is None else [[one.segment, one.start, one.end] for one in spans],
            None if mask is None else [*_seen(mask.picture), mask.trimap],
        ]
    )


def _seen(picture: Stored) -> list[Any]:
    """Return what tells a picture from others: the bytes of its file, or its pixels."""
    try:
        kept = picture.read()
        if isinstance(kept, Path):
            # A pipe would be waited for without end.
            if not kept.is_file():
                return ["no file", picture.name]
            with kept.open("rb") as stream:
                return ["file", file_digest(stream, "sha256").hexdigest()]
    except OSError:
        return ["unreadable", picture.name]
    if isinstance(kept, bytes | bytearray):
        return ["file", sha256(kept).hexdigest()]
    if isinstance(kept, str):
        return ["name", kept]
    if getattr(kept, "mode", None) == "P":
        kept = kept.convert("RGBA")  # the pixels are numbers of colours in a table of its own
    pixels = np.asarray(kept)
    return ["pixels", str(pixels.dtype), list(pixels.shape), sha256(pixels.tobytes()).hexdigest()]


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


"""A data set as a stream: one row after the other, in bounded memory, each an example or a reason why it is none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from whence.core.errors import BadExamples
from whence.data.sets import album, eraser, hub
from whence.data.sets.address import Folder, folder
from whence.data.sets.example import Example
from whence.data.sets.rows import ALLOWED, Row, Table, is_file, table
from whence.data.sets.stream import Unreadable
from whence.data.sets.table import pictured, settled

PEEKED = 100  # rows by which columns are chosen
IDS = ("id", "annotation_id", "idx")  # columns that name an example


@dataclass(frozen=True)
class Entry:
    """One row that can be read."""

    row: int  # its place in the data, counted from 0; rows that cannot be read have one, too
    id: str  # its own, from a column "id", or what its place is called: a line, a row, a file
    example: Example


@dataclass(frozen=True)
class Bad:
    """One row that cannot be read, where it stands, and why."""

    row: int
    where: str
    why: str


class Source(Protocol):
    """A data set that can be gone through again and again, always in the same order."""

    @property
    def name(self) -> str:
        """What it is called: a file's name, or that of a data set with its split."""
        ...

    def __iter__(self) -> Iterator[Entry | Bad]: ...

    def count(self) -> int | None:
        """Return how many rows there are, good and bad; None where only going through all of it would tell."""
        ...

    def facts(self) -> dict[str, Any]:
        """Say what was read and how, as plain data: name, kind, columns, which of them were guessed."""
        ...


def source(
    address: str, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> Source:
    """Open a data set: a file, a folder of pictures, ERASER's format, a Hugging Face name, any fsspec address.

    `text`, `pair` and `label` name columns, as in `whence.data.sets.examples.read`; else columns are chosen
    by the first hundred rows that can be read. A data set of which no row can be read, or of which nobody could say
    how many rows are lost, is an error.
    """
    if is_file(address):
        return _Rows(table(address), text, pair, label)
    annotated = eraser.table(address, pair)
    if annotated is not None:
        return _Rows(annotated, text, pair, label)
    found = folder(address)
    if found is not None and album.holds_pictures(found):
        return _Pictures(found)
    if hub.is_name(address):
        return _Rows(hub.table(address), text, pair, label)
    if found is not None:
        raise BadExamples(
            f"The folder {found.name!r} holds neither pictures nor annotations. Give a file: {ALLOWED}."
        )
    return _Rows(table(address), text, pair, label)  # which says what is wrong with it


class _Rows:
    """A table, read row by row."""

    def __init__(self, rows: Table, text: str | None, pair: str | None, label: str | None) -> None:
        self._table = rows
        self._columns = settled(rows.name, self._first(), text, pair, label)
        self._id = next((name for name in IDS if name in self._columns.has), None)
        self._count: int | None = (
            None  # once it was counted: of some files that takes reading all of it
        )

    @property
    def name(self) -> str:
        return self._table.name

    def __iter__(self) -> Iterator[Entry | Bad]:
        for number, one in enumerate(self._table.rows()):
            if isinstance(one, Unreadable):
                yield Bad(number, one.where, one.why)
            else:
                yield self._entry(number, *one)

    def count(self) -> int | None:
        if self._count is None:
            self._count = self._table.count()
        return self._count

    def facts(self) -> dict[str, Any]:
        columns = self._columns
        roles = {"text": columns.texts[0], "pair": columns.pair, "label": columns.label}
        return {
            "name": self.name,
            "kind": self._table.kind,
            "columns": {role: name for role, name in roles.items() if name is not None},
            "guessed": [*self._table.guessed, *columns.guessed],
            "id": self._id,
            "has": list(columns.has),
            "pictures": columns.seen is not None,
        }

    def _first(self) -> list[Row]:
        """Take the first rows that can be read."""
        bad: list[Unreadable] = []
        found: list[Row] = []
        for one in self._table.rows():
            if isinstance(one, Unreadable):
                bad = bad or [one]
            else:
                found.append(one)
            if len(found) == PEEKED:
                break
        if found:
            return found
        if bad:
            raise BadExamples(f"{self.name} has no row that can be read. {bad[0].error()}")
        raise BadExamples(f"{self.name} has no rows. Give a file with at least one text.")

    def _entry(self, number: int, where: str, row: Mapping[str, Any]) -> Entry | Bad:
        try:
            example = self._columns.example(where, row)
        except BadExamples as error:
            return Bad(number, where, str(error).removeprefix(where).removeprefix(":").strip())
        wrong = next((why for one in example.texts if (why := _unfit(one))), None)
        if wrong is not None:
            return Bad(number, where, wrong)
        own = None if self._id is None else row.get(self._id)
        said = isinstance(own, str | int) and not isinstance(own, bool) and own != ""
        return Entry(number, str(own) if said else where.removeprefix(f"{self.name}, "), example)


class _Pictures:
    """A folder of pictures, read one by one."""

    def __init__(self, found: Folder) -> None:
        self._folder = found

    @property
    def name(self) -> str:
        return self._folder.name

    def __iter__(self) -> Iterator[Entry | Bad]:
        for number, one in enumerate(album.stream(self._folder)):
            if isinstance(one, Unreadable):
                yield Bad(number, one.where, one.why)
            else:
                yield Entry(number, one.picture.name, pictured(one))

    def count(self) -> int:
        return sum(1 for _ in album.stream(self._folder))

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "pictures",
            "columns": {},
            "guessed": [],
            "id": None,
            "has": [],
            "pictures": True,
        }


def _unfit(text: str) -> str | None:
    """Say why no model can be given this text."""
    if not text.strip():
        return "the text is empty. Give at least one word."
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"the text holds half of a character ({text[error.start]!a}, a lone surrogate)."
    return None


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
