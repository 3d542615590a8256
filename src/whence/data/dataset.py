"""Data sets: files, folders of images, ERASER folders, Hub data sets, tables and lists, read as one `Dataset`.

A `Dataset` is read when it is iterated, row by row and in bounded memory; an unreadable row comes with the
reason. Its `examples` are all of it, in memory; there an unreadable row is an error.

The labels of the data are matched with the model's by name, by number from 0, as false and true, or by a
number in each of the model's label names.

A folder of images has one folder for each class, or images alone. A mask lies beside its image, as
NAME_mask.png, or in a folder `masks` beside a folder `images`, under the same name.

A tuple of two texts in a list is a pair of texts. Where the second texts are evidently labels, the model
would read the answer, so such a list is refused.

The hash of an example covers its content alone, not its file name or location.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import build_generator
from whence.data.eraser import open_eraser
from whence.data.example import (
    IMAGE_ENDINGS,
    PAIR_COLUMNS,
    PASSAGE_FIRST_COLUMNS,
    TRIMAP,
    Columns,
    Example,
    ImageMask,
    StoredImage,
    UnknownColumns,
    parse_image,
    resolve_columns,
)
from whence.data.hub_datasets import is_dataset_name, open_hub_dataset
from whence.data.readers import (
    ALLOWED_FILES,
    DataFolder,
    Rows,
    RowSource,
    TableRow,
    UnreadableRow,
    is_data_file,
    is_data_frame,
    limit_rows,
    open_folder,
    open_frame,
    open_row_file,
    parse_file_name,
)

PEEK_ROWS = 100  # rows from which columns are chosen
ColumnResolver = Callable[[str, Sequence[TableRow]], Columns]  # from a name and some rows
ID_COLUMNS = ("id", "annotation_id", "idx")  # columns that name an example


@dataclass(frozen=True)
class DatasetRow:
    """One readable row of a data set."""

    row: int  # its number in the data, counted from 0; unreadable rows are counted, too
    id: str  # from a column "id", or the location: a line, a row, a file
    example: Example


@dataclass(frozen=True)
class SkippedRow:
    """One unreadable row of a data set, with its location and the reason."""

    row: int
    where: str
    why: str


@dataclass(eq=False)
class Dataset:
    """A data set that is read when it is iterated, as often as needed and always in the same order.

    Iteration gives a `DatasetRow` or a `SkippedRow` for each row; `examples` holds all of it in memory.
    """

    name: str  # the name of the file, or of the data set with its split
    source: RowSource
    build: Callable[[str, Any], Example]  # an example from the location of a row and its content
    text: str | None = None  # the columns; None: the examples came without columns
    pair: str | None = None
    label: str | None = None
    guessed: tuple[str, ...] = ()  # those of text, pair, label and split that were guessed
    columns: tuple[str, ...] = ()  # all columns of the data
    pictures: bool = False
    bare: bool = False  # whether some pairs were given as tuples in a list, without names
    sampled_from: int | None = None  # rows before sampling; None: not sampled
    seed: int | None = None  # the seed of the sample

    @classmethod
    def from_examples(cls, examples: Sequence[Example], name: str, **facts: Any) -> "Dataset":
        """Return a data set of examples in memory; `facts` are other fields of it."""

        def read_rows() -> Rows:
            for number, example in enumerate(examples):
                yield f"Example {number}", example

        source = RowSource(name, "list", read_rows, lambda: len(examples))
        return cls(name, source, lambda _, example: example, **facts)

    def __iter__(self) -> Iterator[DatasetRow | SkippedRow]:
        for number, row in enumerate(self.source.rows()):
            if isinstance(row, UnreadableRow):
                yield SkippedRow(number, row.where, row.why)
                continue
            where, content = row
            try:
                example = self.build(where, content)
                for text in example.texts:
                    _check_fit(text)
            except BadExamples as error:
                why = str(error).removeprefix(where).removeprefix(":").strip()
                yield SkippedRow(number, where, why)
                continue
            own = content.get(self._id_column) if isinstance(content, Mapping) else None
            named = isinstance(own, str | int) and not isinstance(own, bool) and own != ""
            name = str(own) if named else where.removeprefix(f"{self.name}, ")
            yield DatasetRow(number, name, example)

    @cached_property
    def examples(self) -> list[Example]:
        """All examples, in memory; an unreadable row is an error."""
        examples: list[Example] = []
        try:
            for row in self.source.rows():
                if isinstance(row, UnreadableRow):
                    raise row.to_error()
                examples.append(self.build(*row))
        except MemoryError:
            count = len(examples)
            examples.clear()
            raise BadExamples(
                f"{self.name} does not fit into memory: there is room for {count:,} of its rows. Give a part of it; "
                "`whence run` reads files of any size, row by row."
            ) from None
        return examples

    @cached_property
    def _count(self) -> int | None:
        return self.source.count()  # some files must be read completely to be counted

    def count(self) -> int | None:
        """Return the number of rows, good and bad; None if only a full read would tell."""
        return self._count

    def facts(self) -> dict[str, Any]:
        """Return name, kind, columns and guessed columns as plain data."""
        roles = {"text": self.text, "pair": self.pair, "label": self.label}
        return {
            "name": self.name,
            "kind": self.source.kind,
            "columns": {role: name for role, name in roles.items() if name is not None},
            "guessed": list(self.guessed),
            "id": self._id_column,
            "has": list(self.columns),
            "pictures": self.pictures,
        }

    def describe_sample(self) -> dict[str, Any]:
        """Return name, rows, sample and columns of the data set in memory as plain data."""
        return {
            "name": self.name,
            "rows": len(self.examples) if self.sampled_from is None else self.sampled_from,
            "drawn": None if self.sampled_from is None else len(self.examples),
            "seed": self.seed,
            "text": self.text,
            "pair": self.pair,
            "label": self.label,
            "guessed": list(self.guessed),
        }

    def __str__(self) -> str:
        what = "pictures" if self.pictures else "texts"
        columns = ((what, self.text), ("second texts", self.pair), ("labels", self.label))
        parts = [f"{what} from {name!r}" for what, name in columns if name is not None]
        if self.text is not None and self.label is None:
            parts.append("no labels")
        options = [f"--{role}" if role != "split" else "NAME:SPLIT" for role in self.guessed]
        guesses = f" (guessed: {', '.join(self.guessed)}; {', '.join(options)} say otherwise)"
        sample = ""
        if self.sampled_from is not None:
            sample = f"; {len(self.examples):,} of {self.sampled_from:,} rows drawn with seed {self.seed}"
        return f"{', '.join([self.name, *parts])}{guesses if self.guessed else ''}{sample}."

    def check_pairs(self, labels: Sequence[str]) -> None:
        """Refuse unnamed pairs whose second texts are the model's labels."""
        if self.bare:
            check_bare_pairs(self.examples, labels)

    def draw(self, n: int, seed: int = 0) -> "Dataset":
        """Return `n` random examples in their original order, or all; a larger sample includes a smaller one."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise BadParameter(f"A sample needs a whole number of examples, at least 1. Got {n!r}.")
        return self.select(sorted(shuffle_indices(self.examples, seed)[:n]), seed)

    def select(self, numbers: Sequence[int], seed: int) -> "Dataset":
        """Return the examples of these numbers, with the seed and the number of rows they come from."""
        if len(numbers) == len(self.examples):
            return self
        chosen = Dataset.from_examples([self.examples[number] for number in numbers], self.name)
        rows = self.sampled_from or len(self.examples)
        return replace(self, source=chosen.source, build=chosen.build, sampled_from=rows, seed=seed)

    @property
    def _id_column(self) -> str | None:
        return next((name for name in ID_COLUMNS if name in self.columns), None)


def _check_fit(text: str) -> None:
    """Refuse a text that no model can take."""
    if not text.strip():
        raise BadExamples("the text is empty. Give at least one word.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadExamples(
            f"the text holds half of a character ({text[error.start]!a}, a lone surrogate)."
        ) from None


def open_dataset(
    data: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    question_first: bool = False,
    streaming: bool = True,
    raw: bytes | None = None,
    most: int | None = None,
    most_bytes: int | None = None,
) -> Dataset:
    """Open a data set: a file, a folder, the name of a Hugging Face data set, a table, or a list.

    A folder holds pictures, or is in ERASER's format; a file may lie at an address that fsspec knows; a table is of
    pandas, polars, Arrow or datasets; a list has texts, pairs, pictures, mappings or examples. `text`, `pair` and
    `label` name the columns; "" says that there is none. Others are chosen from the first hundred readable rows. Of a
    passage and its question the passage is the first text, unless `question_first`. Without `streaming` all of it is
    read into memory at once, and an unreadable row is an error. `raw`: the content of a file called `data`. More
    than `most` rows, ten times as many cells, or `most_bytes` bytes are an error.
    """
    if isinstance(data, Dataset):
        return data
    two = PAIR_COLUMNS if question_first else PASSAGE_FIRST_COLUMNS
    resolve = partial(resolve_columns, text=text, pair=pair, label=label, two=two)
    source: RowSource | None = None  # None: a list of which some entries are no mappings
    if raw is not None:
        source = open_row_file(data, raw, most_bytes)
    elif isinstance(data, str | Path):
        source = _open_address(data, pair, streaming)
    elif is_data_frame(data):
        source = open_frame(data)
    elif isinstance(data, list | tuple) and data and all(isinstance(x, Mapping) for x in data):
        rows = [(f"Example {number}", row) for number, row in enumerate(data)]
        source = RowSource("the examples", "list", lambda: iter(rows), lambda: len(rows))
    elif not isinstance(data, Iterable) or isinstance(data, bytes | Mapping | tuple):
        raise BadExamples(
            f"Cannot take {str(data)[:40]!r} ({type(data).__name__}) for a data set: give the path of a file or a "
            "folder of pictures, a table, or a list of texts, pairs, pictures, mappings or examples."
        )
    if source is None:
        dataset = _build_mixed_list(list(data), resolve)
    elif source.kind == "pictures":
        dataset = Dataset(source.name, source, lambda _, example: example, pictures=True)
    else:
        if most is not None:
            source = replace(source, rows=partial(limit_rows, source, most, most_bytes))
        dataset = _build_table(source, resolve, streaming)
    if not streaming and not dataset.examples:
        raise BadExamples("The list of examples is empty. Give at least one text.")
    return dataset


# All of a data set in memory, where an unreadable row is an error.
read_dataset = partial(open_dataset, streaming=False)


def _open_address(address: str | Path, pair: str | None, streaming: bool) -> RowSource:
    """Open a file, an ERASER folder, a folder of pictures or a data set of the Hub as a source of rows."""
    if is_data_file(address):
        return open_row_file(address)
    if (annotations := open_eraser(address, pair)) is not None:
        return annotations
    folder = open_folder(address)
    root = None if folder is None else folder.root
    if isinstance(root, str):
        raise BadExamples(
            f"The folder {parse_file_name(address)!r} is remote, and holds no annotations in ERASER's format. Give a file: "
            f"{ALLOWED_FILES}; copy a folder of pictures to this machine."
        )
    files: list[str] = []  # sorted, subfolders included; links to folders are listed, not followed
    for home, folders, names in () if root is None else os.walk(root):
        links = [name for name in folders if (Path(home) / name).is_symlink()]
        within = Path(home).relative_to(str(root))
        files += [(within / name).as_posix() for name in (*names, *links)]
    files.sort(key=PurePosixPath)
    pictures = [name for name in files if PurePosixPath(name).suffix.lower() in IMAGE_ENDINGS]
    # A table about the pictures is read by `datasets`.
    has_table = any(PurePosixPath(name).stem == "metadata" for name in files)
    if folder is not None and pictures and not has_table:
        return _open_image_folder(folder, files)
    if not is_dataset_name(str(address)):
        return open_row_file(address)  # raises the error for this address
    try:
        return open_hub_dataset(str(address), streaming=streaming)
    except BadExamples as error:
        if folder is None or pictures:
            raise
        raise BadExamples(f"The folder {folder.name!r} has no pictures. {error}") from None


def _open_image_folder(folder: DataFolder, files: Sequence[str]) -> RowSource:
    """Open a local folder of images as a source of examples, sorted by name."""
    root = "images/" if any(name.startswith("images/") for name in files) else ""
    masks = "masks/" if root and any(name.startswith("masks/") for name in files) else None
    known = set(files)
    names = []
    for name in files:
        path = PurePosixPath(name)
        if path.suffix.lower() in IMAGE_ENDINGS:
            is_picture = not path.stem.endswith(("_mask", f"_{TRIMAP}"))
        else:  # a link to a folder: listed, so that it is reported
            is_picture = Path(str(folder.root), name).is_dir()
        if is_picture and name.startswith(root):
            names.append(name.removeprefix(root))
    if not names:
        raise BadExamples(
            f"The folder {folder.name!r} has no pictures ({', '.join(sorted(IMAGE_ENDINGS))}). Give one with a folder of "
            "pictures for each class, or with pictures alone."
        )

    def read_rows() -> Rows:
        for name in names:
            path = PurePosixPath(name)
            if masks is None:
                beside = [
                    f"{root}{path.with_name(f'{path.stem}_{end}.png')}" for end in ("mask", TRIMAP)
                ]
            else:
                own = (path, path.with_suffix(".png"), path.with_name(f"{path.stem}_mask.png"))
                beside = [f"{masks}{candidate}" for candidate in own]
            mask = next((candidate for candidate in beside if candidate in known), None)
            try:
                picture = StoredImage(folder.find_file(root + name), name)
                outline = mask and StoredImage(folder.find_file(mask), PurePosixPath(mask).name)
            except BadExamples as error:
                yield UnreadableRow(name, str(error))
                continue
            label = path.parts[0] if len(path.parts) > 1 else None
            trimap = masks is None and TRIMAP in str(mask)
            yield (
                name,
                Example(picture, label, mask=ImageMask(outline, trimap) if outline else None),
            )

    return RowSource(folder.name, "pictures", read_rows, lambda: len(names))


def _build_table(source: RowSource, resolve: ColumnResolver, streaming: bool) -> Dataset:
    """Return the data set of a source of rows; its columns are chosen from the first readable ones."""
    bad: UnreadableRow | None = None
    rows: list[TableRow] = []
    for row in source.rows():
        if isinstance(row, UnreadableRow):
            if not streaming:
                raise row.to_error()
            bad = bad or row
        else:
            rows.append(row)
        if len(rows) == PEEK_ROWS:
            break
    if not rows:
        if bad is not None:
            raise BadExamples(f"{source.name} has no row that can be read. {bad.to_error()}")
        raise BadExamples(f"{source.name} has no rows. Give a file with at least one text.")
    try:
        name = rows[0][0] if source.kind == "list" else source.name
        columns = resolve(name, rows)
    except UnknownColumns as error:
        raise error.with_rows(row for _, row in rows) from None
    return Dataset(
        source.name.lower() if source.kind == "table" else source.name,
        source,
        columns.build_example,
        columns.texts[0],
        columns.pair,
        columns.label,
        (*source.guessed, *columns.guessed),
        columns.has,
        columns.pictures,
    )


def _build_mixed_list(items: list[Any], resolve: ColumnResolver) -> Dataset:
    """Return the data set of a list; each entry may be of another type."""
    examples: list[Example] = []
    bare = []  # the pairs without names
    for number, item in enumerate(items):
        where = f"Example {number}"
        if isinstance(item, Mapping):
            examples.append(resolve(where, [(where, item)]).build_example(where, item))
        elif isinstance(item, Example | str):
            examples.append(Example(item) if isinstance(item, str) else item)
        elif (example := parse_image(where, item)) is not None:
            examples.append(example)
        else:
            what = f"{where} is {str(item)[:40]!r} ({type(item).__name__})"
            parts = item if isinstance(item, tuple | list) and len(item) == 2 else (None, None)
            if not isinstance(parts[0], str):
                raise BadExamples(
                    f"{what}. Allowed: a text, a pair (a, b) of texts, a picture, a mapping such as "
                    '{"text": ...}, or an Example.'
                )
            if not isinstance(parts[1], str):
                raise BadExamples(
                    f"{what}, and a pair (a, b) in a list is one of texts. {PAIR_HINT}"
                )
            bare.append(Example((parts[0], parts[1])))
            examples.append(bare[-1])
    check_bare_pairs(bare)
    return Dataset.from_examples(examples, "the examples", bare=bool(bare))


def shuffle_indices(examples: Sequence[Example], seed: int = 0) -> list[int]:
    """Return the numbers of the examples in random order."""
    return [int(i) for i in build_generator("sample of examples", seed).permutation(len(examples))]


def hash_json(facts: Any) -> str:
    """Return the hash of plain data; the order of mapping keys does not matter."""
    plain = json.dumps(
        facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return sha256(plain.encode()).hexdigest()


def compute_input_id(example: Example) -> str:
    """Return the hash of a model input: a text, a pair of texts or an image."""
    content = example.given
    if isinstance(content, StoredImage):
        return hash_json(["picture", *_identify_image(content)])
    return hash_json(["text", *example.texts])


def compute_example_id(example: Example, input_id: str | None = None) -> str:
    """Return the hash of an example: its input, label, rationale and mask.

    `input_id` is the hash of the input, if it is known: that of a picture is slow.
    """
    spans, mask = example.rationale, example.mask
    return hash_json(
        [
            input_id or compute_input_id(example),
            example.label,
            None if spans is None else [[span.segment, span.start, span.end] for span in spans],
            None if mask is None else [*_identify_image(mask.picture), mask.trimap],
        ]
    )


def _identify_image(picture: StoredImage) -> list[Any]:
    """Return the identity of an image: the hash of its file, or of its pixels."""
    try:
        content = picture.source
        if isinstance(content, Path):
            # Reading a pipe might never end.
            if not content.is_file():
                return ["no file", picture.name]
            with content.open("rb") as stream:
                return ["file", file_digest(stream, "sha256").hexdigest()]
    except OSError:
        return ["unreadable", picture.name]
    if isinstance(content, bytes | bytearray):
        return ["file", sha256(content).hexdigest()]
    if isinstance(content, str):
        return ["name", content]
    if getattr(content, "mode", None) == "P":
        content = content.convert("RGBA")  # palette indices mean nothing without the palette
    pixels = np.asarray(content)
    return ["pixels", str(pixels.dtype), list(pixels.shape), sha256(pixels.tobytes()).hexdigest()]


# How labels match: by name, by index from 0, as false and true, or by the number in each label name.
LabelMatch = Literal["name", "number", "truth", "own number"]
_LABEL_HINT = "label=..., --label COLUMN, or Columns on the page"


def resolve_label_indices(examples: Sequence[Example], labels: tuple[str, ...]) -> list[int]:
    """Return the index of each example's label among the model's labels.

    The data's labels are the model's names, letter for letter or in another case, or numbers from 0, alone or as
    LABEL_0; all of them in the same way.
    """
    missing = sum(example.label is None for example in examples)
    if missing == len(examples):
        raise BadExamples(
            f"None of the {missing} examples has a label. Name the column that holds them: {_LABEL_HINT}."
        )
    if missing:
        raise BadExamples(
            f"{missing} of {len(examples)} examples have no label. Take them out, or name another column: {_LABEL_HINT}."
        )
    data_labels = [str(example.label) for example in examples]
    place = find_label_indices(data_labels, labels)
    if len(set(place.values())) < 2:
        n = len(examples)
        have = f"All {n} examples have" if n > 1 else "The only example has"
        raise BadExamples(
            f"{have} the label {data_labels[0]!r}. Give examples of at least two classes, or name another column: "
            f"{_LABEL_HINT}."
        )
    return [place[label] for label in data_labels]


@dataclass(frozen=True)
class LabelNames:
    """The model's names for the labels of a data set, and how they were matched."""

    names: Mapping[str, str]  # label in the data -> the model's name
    by: LabelMatch

    def to_dict(self) -> dict[str, Any]:
        """Return the match as plain data."""
        return {"by": self.by, "names": dict(sorted(self.names.items()))}


def match_label_names(data_labels: Iterable[str], labels: tuple[str, ...]) -> LabelNames | None:
    """Return the model's names for the labels that occur; None where they do not match."""
    data_labels = list(data_labels)
    if not data_labels or not labels:
        return None
    try:
        by, places = _match_labels(data_labels, labels)
    except BadExamples:
        return None
    return LabelNames({label: labels[place] for label, place in places.items()}, by)


def find_label_indices(data_labels: Iterable[str], labels: tuple[str, ...]) -> dict[str, int]:
    """Return the index among the model's labels of each label that occurs."""
    return _match_labels(data_labels, labels)[1]


def _match_labels(
    data_labels: Iterable[str], labels: tuple[str, ...]
) -> tuple[LabelMatch, dict[str, int]]:
    """Match each label by the first rule that knows all of them; return the rule and the indices."""
    counts = Counter(data_labels)
    matches = [
        (by, {label: table[key] for label in counts if (key := parse(label.strip())) in table})
        for by, parse, table in _build_label_rules(labels)
    ]
    for by, indices in matches:
        if len(indices) < len(counts):
            continue
        own = matches[-1][1]  # by the numbers in the model's names
        other = next((one for one in indices if own.get(one, indices[one]) != indices[one]), None)
        if by == "number" and other is not None and len(own) == len(indices):
            # Indices from 0, or numbers in names, as 1 for "1 star".
            raise BadExamples(
                f"The label {other!r} may be {labels[indices[other]]!r}, number {indices[other]} from 0, or "
                f"{labels[own[other]]!r}. Give the names of the model's labels, or name another column: {_LABEL_HINT}."
            )
        return by, indices
    best = max((indices for _, indices in matches), key=len)
    has = ", ".join(f"{number} {label!r}" for number, label in enumerate(labels[:8]))
    has += f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    other = next(label for label in counts if label not in best)
    raise BadExamples(
        f"The label {other[:40]!r} ({counts[other]} of {counts.total()} examples) is not one of the model's: {has}. Give "
        f"names or numbers of these, not both, or name another column: {_LABEL_HINT}."
    )


def _build_label_rules(
    labels: tuple[str, ...],
) -> list[tuple[LabelMatch, Callable[[str], Any], dict[Any, int]]]:
    """Return the rules in their order: how a label is read, and the model's index of what is read."""
    folded = Counter(label.casefold() for label in labels)
    digits = [re.findall(r"[0-9]+", label) for label in labels]
    own = {int(found[0]): place for place, found in enumerate(digits) if len(found) == 1}
    return [
        ("name", str, {label: i for i, label in reversed(list(enumerate(labels)))}),
        (
            "name",
            str.casefold,
            {one.casefold(): i for i, one in enumerate(labels) if folded[one.casefold()] == 1},
        ),
        (
            "number",
            lambda label: _parse_number(label.removeprefix("LABEL_")),
            {i: i for i in range(len(labels))},
        ),
        ("truth", str.lower, {"false": 0, "true": 1} if len(labels) == 2 else {}),
        # Only where every name has a number of its own; "LABEL_1" is an index and no such number.
        ("own number", _parse_number, own if len(own) == len(labels) else {}),
    ]


def _parse_number(label: str) -> int | None:
    # 1.0: many programs write 1 so in a column with gaps
    number = re.fullmatch(r"([0-9]{1,6})(?:\.0+)?", label)
    return None if number is None else int(number[1])


PAIR_HINT = (
    'Give mappings that name what is what: {"text": ..., "label": ...}, or of two texts {"text": ..., "pair": ...}; '
    "or a table with text=... and label=...."
)
_COMMON_LABEL = re.compile(
    "positive|negative|neutral|mixed|pos|neg|true|false|yes|no|(not_)?entailment|contradiction|spam|ham",
    re.IGNORECASE,
)
_NUMBER_LABEL = re.compile(r"(label[_ -]?)?-?\d{1,6}(\.0+)?|\d[ _-]?stars?", re.IGNORECASE)
_MIN_PAIRS = 4  # fewer pairs with the same second words prove nothing
_MAX_LABEL_LENGTH = 40  # characters of a label


def check_bare_pairs(examples: Iterable[Example], labels: Sequence[str] = ()) -> None:
    """Refuse pairs whose second texts look like labels: the model's, usual ones, or few repeated words."""
    pairs = [example.texts for example in examples if len(example.texts) == 2]
    second = [two.strip() for _, two in pairs]
    own = {label.strip().casefold() for label in labels}
    known = all(
        text.casefold() in own or _COMMON_LABEL.fullmatch(text) or _NUMBER_LABEL.fullmatch(text)
        for text in second
    )
    # A few single words that repeat, beside first texts of several words.
    words = all(len(one.split()) == 1 and len(one) <= _MAX_LABEL_LENGTH for one in second)
    several = all(len(first.split()) > 1 for first, _ in pairs)
    repeat = len(second) >= _MIN_PAIRS and 2 * len(set(second)) <= len(second)
    if not second or not (known or (words and several and repeat)):
        return
    named = ", ".join(repr(text[:20]) for text in list(dict.fromkeys(second))[:3])
    raise BadExamples(
        f"A pair (a, b) in a list is a pair of texts, and the second ones look like labels ({named}): the model "
        f"would read them. {PAIR_HINT}"
    )
