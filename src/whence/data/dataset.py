"""Data sets loaded or streamed as examples: columns guessed, labels matched with the model's, example hashes.

`read_dataset` and `collect_examples` load a whole data set; `open_dataset` streams one, row by row, in
bounded memory, and yields an unreadable row together with the reason.

Columns are resolved once for a table: those named by the user, else the usual names. The labels of the data
are matched with the model's by name, by number from 0, as false and true, or by a number in each of the
model's label names.

A folder of images has one folder for each class, or images alone. A mask lies beside its image, as
NAME_mask.png, or in a folder `masks` beside a folder `images`, under the same name.

A tuple of two texts in a list is a pair of texts. Where the second texts are evidently labels, the model
would read the answer, so such a list is refused.

The hash of an example covers its content alone, not its file name or location.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol, TypeGuard

import numpy as np

from whence.core.errors import BadExamples, BadParameter
from whence.core.seed import build_generator
from whence.data import eraser, hub_datasets, readers
from whence.data import example as example_module
from whence.data.eraser import parse_rationale
from whence.data.example import (
    IMAGE_ENDINGS,
    PAIR_COLUMNS,
    PASSAGE_FIRST_COLUMNS,
    TRIMAP,
    Example,
    ImageMask,
    LabelledImage,
    StoredImage,
    UnknownColumns,
    check_column,
    find_text_columns,
    guess_label_column,
    parse_label,
)
from whence.data.readers import (
    ALLOWED_FILES,
    FRAME_NAME,
    DataFolder,
    RowSource,
    TableRow,
    UnreadableRow,
    collect_rows,
    is_data_file,
    is_data_frame,
    open_folder,
    open_row_file,
    parse_rows,
    read_frame_rows,
    read_row_file,
)


def has_images(folder: DataFolder) -> bool:
    """Return whether a folder holds images, and no metadata table about them."""
    files = [PurePosixPath(name) for name in folder.list_files()]
    tables = any(path.stem == "metadata" for path in files)
    return not tables and any(path.suffix.lower() in IMAGE_ENDINGS for path in files)


def list_images(folder: DataFolder) -> list[LabelledImage]:
    """Return the images of a folder, sorted by name; an unreadable one is an error."""
    images = []
    for image in stream_images(folder):
        if isinstance(image, UnreadableRow):
            raise BadExamples(image.why)
        images.append(image)
    return images


def stream_images(folder: DataFolder) -> Iterator[LabelledImage | UnreadableRow]:
    """Yield the images of a folder, sorted by name."""
    files = folder.list_files()
    root = "images/" if any(name.startswith("images/") for name in files) else ""
    masks = "masks/" if root and any(name.startswith("masks/") for name in files) else None
    names = set(files)
    inside = [name.removeprefix(root) for name in files if name.startswith(root)]
    own = [name for name in inside if _is_image_file(folder, root + name)]
    if not own:
        raise BadExamples(
            f"The folder {folder.name!r} has no pictures ({', '.join(sorted(IMAGE_ENDINGS))}). Give one with a folder of "
            "pictures for each class, or with pictures alone."
        )
    for name in own:
        path = PurePosixPath(name)
        beside = _list_masks_beside(root, path) if masks is None else _list_masks_among(masks, path)
        mask = next((candidate for candidate in beside if candidate in names), None)
        try:
            picture = StoredImage(folder.find_file(root + name), name)
            mask_file = mask and StoredImage(folder.find_file(mask), PurePosixPath(mask).name)
        except BadExamples as error:
            yield UnreadableRow(name, str(error))
            continue
        label = path.parts[0] if len(path.parts) > 1 else None
        outline = ImageMask(mask_file, masks is None and TRIMAP in str(mask)) if mask_file else None
        yield LabelledImage(picture, label, outline)


def _is_image_file(folder: DataFolder, name: str) -> bool:
    path = PurePosixPath(name)
    if path.suffix.lower() in IMAGE_ENDINGS:
        return not path.stem.endswith(("_mask", f"_{TRIMAP}"))
    return folder.is_linked_folder(name)  # listed, so that it is reported: links are not followed


def _list_masks_beside(root: str, path: PurePosixPath) -> Collection[str]:
    return [f"{root}{path.with_name(f'{path.stem}_{kind}.png')}" for kind in ("mask", TRIMAP)]


def _list_masks_among(masks: str, path: PurePosixPath) -> Collection[str]:
    own = (path, path.with_suffix(".png"), path.with_name(f"{path.stem}_mask.png"))
    return [f"{masks}{candidate}" for candidate in own]


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
        content = picture.read()
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


@dataclass(frozen=True)
class LoadedDataset:
    """A data set in memory, with its columns and which of them were guessed."""

    examples: list[Example]
    name: str
    text: str | None = None  # None: the examples came without columns
    pair: str | None = None
    label: str | None = None
    guessed: tuple[str, ...] = ()  # those of text, pair, label and split that were guessed
    columns: tuple[str, ...] = ()  # all columns of the data
    pictures: bool = False
    bare: bool = False  # whether some pairs were given as tuples in a list, without names
    rows: int | None = None  # rows before sampling; None: not sampled
    seed: int | None = None  # the seed of the sample

    def __len__(self) -> int:
        return len(self.examples)

    def __str__(self) -> str:
        what = "pictures" if self.pictures else "texts"
        columns = ((what, self.text), ("second texts", self.pair), ("labels", self.label))
        parts = [f"{what} from {name!r}" for what, name in columns if name is not None]
        if self.text is not None and self.label is None:
            parts.append("no labels")
        options = [f"--{role}" if role != "split" else "NAME:SPLIT" for role in self.guessed]
        guesses = f" (guessed: {', '.join(self.guessed)}; {', '.join(options)} say otherwise)"
        sample = (
            ""
            if self.rows is None
            else f"; {len(self):,} of {self.rows:,} rows drawn with seed {self.seed}"
        )
        return f"{', '.join([self.name, *parts])}{guesses if self.guessed else ''}{sample}."

    def check_pairs(self, labels: Sequence[str]) -> None:
        """Refuse unnamed pairs whose second texts are the model's labels."""
        if self.bare:
            check_bare_pairs([one.given for one in self.examples if _is_pair(one.given)], labels)

    def draw(self, n: int, seed: int = 0) -> "LoadedDataset":
        """Return a random sample of `n` examples in their original order; all if there are no more."""
        _check_sample_size(n)
        return self.select(sorted(shuffle_indices(self.examples, seed)[:n]), seed)

    def select(self, numbers: Sequence[int], seed: int) -> "LoadedDataset":
        """Return the examples of these numbers, with the seed and the number of rows they come from."""
        if len(numbers) == len(self):
            return self
        examples = [self.examples[number] for number in numbers]
        return replace(self, examples=examples, rows=self.rows or len(self), seed=seed)

    def facts(self) -> dict[str, Any]:
        """Return name, rows, sample and columns of the data set as plain data."""
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


def list_examples(
    data: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> list[Example]:
    """Return the examples of a data set, as `collect_examples` reads it."""
    return collect_examples(data, text=text, pair=pair, label=label).examples


def collect_examples(
    data: Any, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> LoadedDataset:
    """Read a file, a folder of pictures, a table in memory (pandas, polars, Arrow, datasets) or a list of examples.

    A list holds texts, pairs, pictures, mappings or examples. `text`, `pair` and `label` name the columns, where they
    do not have one of the usual names. A picture in a list comes alone, as (picture, label), or as
    (picture, label, mask). Unlike in `read_dataset`, each row may have its own columns, and of a question and its
    context the question is the first text.
    """
    if isinstance(data, LoadedDataset):
        return data
    if is_data_frame(data):
        return _read_frame(data, text, pair, label, PAIR_COLUMNS)
    if isinstance(data, str | Path) and (folder := _find_folder(data)) is not None:
        examples = [build_image_example(image) for image in list_images(folder)]
        dataset = LoadedDataset(examples, folder.name, pictures=True)
    elif isinstance(data, str | Path):
        dataset = _load_rows(readers.parse_file_name(data), read_row_file(data), text, pair, label)
    elif isinstance(data, Iterable) and not isinstance(data, bytes | Mapping | tuple):
        dataset = _load_list(list(data), text, pair, label)
    else:
        raise BadExamples(
            f"Cannot take {str(data)[:40]!r} ({type(data).__name__}) for a data set: give the path of a file or a "
            "folder of pictures, a table, or a list of texts, pairs, pictures, mappings or examples."
        )
    if not dataset.examples:
        raise BadExamples("The list of examples is empty. Give at least one text.")
    return dataset


def read_dataset(
    data: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    most: int | None = None,
) -> LoadedDataset:
    """Read a file, a Hugging Face data set by its name, or a list, and record the chosen columns.

    As `list_examples`, and: the usual label names are known too, and of a passage and its question the passage is
    the first text. All rows have the same columns; a row without the label is an unlabelled example. A `pair`
    or `label` of "" says that there is none, whatever the columns are called. More rows of a file than `most` are
    an error.
    """
    if isinstance(data, LoadedDataset):
        return data
    if isinstance(data, str | Path):
        return _read_address(data, text, pair, label, most)
    if is_data_frame(data):
        return _read_frame(data, text, pair, label, PASSAGE_FIRST_COLUMNS)
    if isinstance(data, list | tuple) and data and all(isinstance(e, Mapping) for e in data):
        rows = [(f"Example {number}", row) for number, row in enumerate(data)]
        return _build_dataset("the examples", rows, text, pair, label)
    return collect_examples(data, text=text, pair=pair, label=label)


def read_dataset_bytes(
    name: str,
    raw: bytes,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    most: int | None = None,
) -> LoadedDataset:
    """Read the bytes of a named file, as `read_dataset` does; more than `most` rows are an error."""
    return _build_dataset(name, parse_rows(name, raw, most), text, pair, label)


def _read_address(
    address: str | Path, text: str | None, pair: str | None, label: str | None, most: int | None
) -> LoadedDataset:
    if (annotations := eraser.open_eraser(address, pair)) is not None:
        rows = collect_rows(annotations.name, annotations.rows(), most)
        return _build_dataset(annotations.name, rows, text, pair, label, annotations.guessed)
    if (folder := _find_folder(address)) is not None and has_images(folder):
        return LoadedDataset(
            [build_image_example(image) for image in list_images(folder)],
            folder.name,
            pictures=True,
        )
    if hub_datasets.is_dataset_name(str(address)):
        name, rows, split_guessed = hub_datasets.load_hub_rows(str(address))
        return _build_dataset(name, rows, text, pair, label, ("split",) if split_guessed else ())
    return _build_dataset(
        readers.parse_file_name(address), read_row_file(address, most), text, pair, label
    )


def _find_folder(address: str | Path) -> readers.DataFolder | None:
    return None if is_data_file(address) else readers.open_folder(address)


def _build_dataset(
    name: str,
    rows: Sequence[TableRow],
    text: str | None,
    pair: str | None,
    label: str | None,
    guessed: tuple[str, ...] = (),
    two: Sequence[tuple[str, str]] = PASSAGE_FIRST_COLUMNS,
) -> LoadedDataset:
    try:
        columns = resolve_columns(name, rows, text, pair, label, two)
    except UnknownColumns as error:
        raise error.with_rows(row for _, row in rows) from None
    return LoadedDataset(
        [columns.build_example(where, row) for where, row in rows],
        name,
        columns.texts[0],
        columns.pair,
        columns.label,
        guessed + columns.guessed,
        columns.has,
        columns.images is not None,
    )


def shuffle_indices(examples: Sequence[Example], seed: int = 0) -> list[int]:
    """Return the numbers of the examples in random order."""
    return [int(i) for i in build_generator("sample of examples", seed).permutation(len(examples))]


def sample_examples(examples: Sequence[Example], n: int, seed: int = 0) -> list[Example]:
    """Return `n` random examples in their original order; a larger sample includes a smaller one."""
    _check_sample_size(n)
    return [examples[i] for i in sorted(shuffle_indices(examples, seed)[:n])]


def _check_sample_size(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadParameter(f"A sample needs a whole number of examples, at least 1. Got {n!r}.")


def _read_frame(
    frame: Any,
    text: str | None,
    pair: str | None,
    label: str | None,
    two: Sequence[tuple[str, str]],
) -> LoadedDataset:
    """Read the rows of a table in memory."""
    dataset = _build_dataset(FRAME_NAME, read_frame_rows(frame), text, pair, label, two=two)
    return replace(dataset, name=FRAME_NAME.lower())


def _load_rows(
    name: str, rows: Sequence[TableRow], text: str | None, pair: str | None, label: str | None
) -> LoadedDataset:
    """Build the examples of a file; each row may have columns of its own."""
    if text is None and example_module.find_image_columns(rows[0][1], label or None) is not None:
        return _build_dataset(name, rows, text, pair, label)
    two = _select_pair_columns(pair)
    first = find_text_columns(rows[0][1], text, pair or None, name, two)
    column = _find_label_column(label, [row for _, row in rows], first)
    if label:
        for _, row in rows:
            check_column(row, label, name)
    examples = [
        build_text_example(
            where,
            row,
            find_text_columns(row, text, pair or None, name, two),
            None if column is None else parse_label(where, column, row.get(column)),
        )
        for where, row in rows
    ]
    return _record_columns(examples, name, rows[0][1], first, column, (text, pair, label))


def _load_list(
    items: list[Any], text: str | None, pair: str | None, label: str | None
) -> LoadedDataset:
    """Build the examples of a list; each entry may be of another type."""
    mappings = [item for item in items if isinstance(item, Mapping)]
    column = _find_label_column(label, mappings, ())
    examples = [
        _parse_entry(f"Example {number}", item, text, pair, column, label)
        for number, item in enumerate(items)
    ]
    pairs = [e.given for e, item in zip(examples, items, strict=True) if _is_bare_pair(item, e)]
    check_bare_pairs([texts for texts in pairs if _is_pair(texts)])
    if not mappings or len(mappings) < len(items) or any(one.is_image for one in examples):
        return LoadedDataset(examples, "the examples", bare=bool(pairs))
    first = find_text_columns(
        mappings[0], text, pair or None, "the examples", _select_pair_columns(pair)
    )
    return _record_columns(
        examples, "the examples", mappings[0], first, column, (text, pair, label)
    )


def _record_columns(
    examples: list[Example],
    name: str,
    row: Mapping[str, Any],
    texts: tuple[str, ...],
    label: str | None,
    requested: tuple[str | None, str | None, str | None],
) -> LoadedDataset:
    """Return the data set with its columns, as found in the first row."""
    used = (texts[0], texts[1] if len(texts) == 2 else None, label)
    roles = zip(("text", "pair", "label"), requested, used, strict=True)
    guessed = tuple(role for role, named, own in roles if named is None and own)
    return LoadedDataset(examples, name, *used, guessed, tuple(map(str, row)))


def _find_label_column(
    requested: str | None, rows: Sequence[Mapping[str, Any]], texts: tuple[str, ...]
) -> str | None:
    """Return the label column: the requested one, or one with a usual name; "" means none."""
    return guess_label_column(rows, texts) if requested is None else requested or None


def _select_pair_columns(pair: str | None) -> tuple[tuple[str, str], ...]:
    return () if pair == "" else PAIR_COLUMNS


def _is_pair(value: Any) -> TypeGuard[tuple[str, str]]:
    return isinstance(value, tuple) and len(value) == 2


def _is_bare_pair(item: Any, example: Example) -> bool:
    return isinstance(item, tuple | list) and _is_pair(example.given)


def _parse_entry(
    where: str,
    item: Any,
    text: str | None,
    pair: str | None,
    label: str | None,
    requested: str | None,
) -> Example:
    """Build an example from one entry of a list; `label` is the `requested` column or a guessed one."""
    if isinstance(item, Example):
        return item
    image = example_module.parse_image(where, item)
    if image is None and isinstance(item, Mapping) and text is None:
        image = example_module.parse_image_mapping(where, item, requested or None)
    if image is not None:
        return build_image_example(image)
    if isinstance(item, Mapping):
        columns = find_text_columns(item, text, pair or None, where, _select_pair_columns(pair))
        value = (
            None
            if label is None
            else item[check_column(item, label, where)]
            if requested
            else item.get(label)
        )
        return build_text_example(
            where, item, columns, None if value is None else parse_label(where, str(label), value)
        )
    if isinstance(item, str):
        return Example(item)
    if isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(x, str) for x in item):
        return Example((item[0], item[1]))
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
        raise BadExamples(
            f"{where} is {str(item)[:40]!r} ({type(item).__name__}), and a pair (a, b) in a list is one of texts. {PAIR_HINT}"
        )
    raise BadExamples(
        f"{where} is {str(item)[:40]!r} ({type(item).__name__}). Allowed: a text, a pair (a, b) of texts, a picture, "
        'a mapping such as {"text": ...}, or an Example.'
    )


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
    counts = Counter(data_labels)
    place = find_label_indices(data_labels, labels)
    if len({place[label] for label in counts}) < 2:
        raise BadExamples(
            f"{_format_all(len(examples))} the label {data_labels[0]!r}. Give examples of at least two classes, or "
            f"name another column: {_LABEL_HINT}."
        )
    return [place[label] for label in data_labels]


def find_label_indices(data_labels: Iterable[str], labels: tuple[str, ...]) -> dict[str, int]:
    """Return the index among the model's labels of each label that occurs."""
    counts = Counter(data_labels)
    return _match_labels(counts, labels, counts.total())[1]


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
    counts = Counter(data_labels)
    if not counts or not labels:
        return None
    try:
        by, places = _match_labels(counts, labels, counts.total())
    except BadExamples:
        return None
    return LabelNames({label: labels[place] for label, place in places.items()}, by)


def _format_all(n: int) -> str:
    return f"All {n} examples have" if n > 1 else "The only example has"


def _match_labels(
    counts: Counter[str], labels: tuple[str, ...], n: int
) -> tuple[LabelMatch, dict[str, int]]:
    """Match each label by the first rule that knows all of them; return the rule and the indices."""
    best: dict[str, int] = {}
    for by, indices in _iterate_matches(list(counts), labels):
        if len(indices) == len(counts):
            if by == "number":
                _check_ambiguous_numbers(indices, list(counts), labels)
            return by, indices
        best = max(best, indices, key=len)
    has = ", ".join(f"{number} {label!r}" for number, label in enumerate(labels[:8]))
    has += f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    other = next(label for label in counts if label not in best)
    raise BadExamples(
        f"The label {other[:40]!r} ({counts[other]} of {n} examples) is not one of the model's: {has}. Give names or "
        f"numbers of these, not both, or name another column: {_LABEL_HINT}."
    )


def _check_ambiguous_numbers(
    indices: Mapping[str, int], data_labels: Sequence[str], labels: tuple[str, ...]
) -> None:
    """Refuse numbers that could be indices from 0 or numbers in label names, as 1 for "1 star"."""
    own = _match_own_numbers(data_labels, labels)
    other = next((one for one in data_labels if one in own and own[one] != indices[one]), None)
    if other is not None and len(own) == len(data_labels):
        raise BadExamples(
            f"The label {other!r} may be {labels[indices[other]]!r}, number {indices[other]} from 0, or "
            f"{labels[own[other]]!r}. Give the names of the model's labels, or name another column: {_LABEL_HINT}."
        )


def _match_own_numbers(data_labels: Sequence[str], labels: tuple[str, ...]) -> dict[str, int]:
    """Match labels by the number in each label name, where every name has one of its own."""
    numbers = [re.findall(r"[0-9]+", label) for label in labels]
    own = {int(digits[0]): place for place, digits in enumerate(numbers) if len(digits) == 1}
    if len(own) < len(labels):
        return {}
    matches = {label: re.fullmatch(r"\s*([0-9]{1,6})(?:\.0+)?\s*", label) for label in data_labels}
    return {label: own[int(n[1])] for label, n in matches.items() if n and int(n[1]) in own}


def _iterate_matches(
    data_labels: Sequence[str], labels: tuple[str, ...]
) -> Iterator[tuple[LabelMatch, dict[str, int]]]:
    """Yield, for each matching rule, the labels that it knows with their indices."""
    stripped = {label: label.strip() for label in data_labels}
    folded = [label.casefold() for label in labels]
    yield "name", {label: labels.index(name) for label, name in stripped.items() if name in labels}
    yield (
        "name",
        {
            label: folded.index(name.casefold())
            for label, name in stripped.items()
            if folded.count(name.casefold()) == 1
        },
    )
    yield "number", _match_numbers(stripped, len(labels))
    if len(labels) == 2:
        truth = {"false": 0, "true": 1}
        known = {n: truth[name.lower()] for n, name in stripped.items() if name.lower() in truth}
        yield "truth", known
    yield "own number", _match_own_numbers(data_labels, labels)


def _match_numbers(stripped: Mapping[str, str], classes: int) -> dict[str, int]:
    indices = {}
    for label, name in stripped.items():
        # Many programs write 1 as 1.0 in a column with gaps.
        number = re.fullmatch(r"(?:LABEL_)?([0-9]{1,6})(?:\.0+)?", name)
        if number and int(number[1]) < classes:
            indices[label] = int(number[1])
    return indices


PEEK_ROWS = 100  # rows from which columns are chosen
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


class DatasetStream(Protocol):
    """Interface: a data set that can be iterated repeatedly, always in the same order."""

    @property
    def name(self) -> str:
        """The name of the file, or of the data set with its split."""
        ...

    def __iter__(self) -> Iterator[DatasetRow | SkippedRow]: ...

    def count(self) -> int | None:
        """Return the number of rows, good and bad; None if only a full read would tell."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return name, kind, columns and guessed columns as plain data."""
        ...


def open_dataset(
    address: str, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> DatasetStream:
    """Open a data set: a file, an image folder, ERASER's format, a Hugging Face name, a fsspec address.

    `text`, `pair` and `label` name columns, as in `whence.data.dataset.read_dataset`; else columns are chosen
    from the first hundred readable rows. A data set without a readable row, or with an unknown number of
    lost rows, is an error.
    """
    if is_data_file(address):
        return _RowDataset(open_row_file(address), text, pair, label)
    annotations = eraser.open_eraser(address, pair)
    if annotations is not None:
        return _RowDataset(annotations, text, pair, label)
    folder = open_folder(address)
    if folder is not None and has_images(folder):
        return _ImageDataset(folder)
    if hub_datasets.is_dataset_name(address):
        return _RowDataset(hub_datasets.open_hub_dataset(address), text, pair, label)
    if folder is not None:
        raise BadExamples(
            f"The folder {folder.name!r} holds neither pictures nor annotations. Give a file: {ALLOWED_FILES}."
        )
    return _RowDataset(
        open_row_file(address), text, pair, label
    )  # raises the error for this address


class _RowDataset:
    """A data set from a table, read row by row."""

    def __init__(
        self, rows: RowSource, text: str | None, pair: str | None, label: str | None
    ) -> None:
        self._table = rows
        self._columns = resolve_columns(rows.name, self._peek_rows(), text, pair, label)
        self._id = next((name for name in ID_COLUMNS if name in self._columns.has), None)
        self._count: int | None = None  # cached: some files must be read completely to be counted

    @property
    def name(self) -> str:
        return self._table.name

    def __iter__(self) -> Iterator[DatasetRow | SkippedRow]:
        for number, row in enumerate(self._table.rows()):
            if isinstance(row, UnreadableRow):
                yield SkippedRow(number, row.where, row.why)
            else:
                yield self._build_row(number, *row)

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
            "pictures": columns.images is not None,
        }

    def _peek_rows(self) -> list[TableRow]:
        """Return the first 100 readable rows."""
        bad: list[UnreadableRow] = []
        rows: list[TableRow] = []
        for row in self._table.rows():
            if isinstance(row, UnreadableRow):
                bad = bad or [row]
            else:
                rows.append(row)
            if len(rows) == PEEK_ROWS:
                break
        if rows:
            return rows
        if bad:
            raise BadExamples(f"{self.name} has no row that can be read. {bad[0].to_error()}")
        raise BadExamples(f"{self.name} has no rows. Give a file with at least one text.")

    def _build_row(
        self, number: int, where: str, row: Mapping[str, Any]
    ) -> DatasetRow | SkippedRow:
        try:
            example = self._columns.build_example(where, row)
        except BadExamples as error:
            return SkippedRow(
                number, where, str(error).removeprefix(where).removeprefix(":").strip()
            )
        wrong = next((why for text in example.texts if (why := _describe_unfit(text))), None)
        if wrong is not None:
            return SkippedRow(number, where, wrong)
        own = None if self._id is None else row.get(self._id)
        has_id = isinstance(own, str | int) and not isinstance(own, bool) and own != ""
        return DatasetRow(
            number, str(own) if has_id else where.removeprefix(f"{self.name}, "), example
        )


class _ImageDataset:
    """A data set from a folder of images, read one by one."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return self._folder.name

    def __iter__(self) -> Iterator[DatasetRow | SkippedRow]:
        for number, image in enumerate(stream_images(self._folder)):
            if isinstance(image, UnreadableRow):
                yield SkippedRow(number, image.where, image.why)
            else:
                yield DatasetRow(number, image.picture.name, build_image_example(image))

    def count(self) -> int:
        return sum(1 for _ in stream_images(self._folder))

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


def _describe_unfit(text: str) -> str | None:
    """Return the reason why no model can take this text; None if one can."""
    if not text.strip():
        return "the text is empty. Give at least one word."
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"the text holds half of a character ({text[error.start]!a}, a lone surrogate)."
    return None


@dataclass(frozen=True)
class DatasetColumns:
    """The columns that are read, and which of them were guessed."""

    texts: tuple[str, ...]  # one, or two of a pair; for pictures the column that holds them
    label: str | None
    guessed: tuple[str, ...]  # those of text, pair and label that were guessed
    has: tuple[str, ...]  # all columns of the data
    images: example_module.ImageColumns | None = None

    @property
    def pair(self) -> str | None:
        """The column of second texts."""
        return self.texts[1] if len(self.texts) == 2 else None

    def build_example(self, where: str, row: Mapping[str, Any]) -> Example:
        """Build an example from one row."""
        if self.images is not None:
            return build_image_example(self.images.read_image(where, row))
        for column in self.texts:
            check_column(row, column, where)
        label = None if self.label is None else parse_label(where, self.label, row.get(self.label))
        return build_text_example(where, row, self.texts, label)


def resolve_columns(
    name: str,
    rows: Sequence[TableRow],
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    two: Sequence[tuple[str, str]] = PASSAGE_FIRST_COLUMNS,
) -> DatasetColumns:
    """Choose the columns from some rows, the first included: the named ones, else the usual ones.

    `two`: the usual names of two texts, in their order.
    """
    first = rows[0][1]
    has = tuple(dict.fromkeys(str(key) for _, row in rows for key in row))
    images = None if text else example_module.find_image_columns(first, label or None)
    if images is not None:
        own = ("text",) if label or images.label is None else ("text", "label")
        return DatasetColumns((images.picture,), images.label, own, has, images)
    texts = find_text_columns(first, text or None, pair or None, name, () if pair == "" else two)
    column = label or guess_label_column([row for _, row in rows], texts) if label != "" else None
    if label:
        check_column(has, label, name)
    roles = {
        "text": (text, texts[0]),
        "pair": (pair, texts[1] if len(texts) == 2 else None),
        "label": (label, column),
    }
    guessed = tuple(role for role, (requested, used) in roles.items() if requested is None and used)
    return DatasetColumns(texts, column, guessed, has)


def build_image_example(image: example_module.LabelledImage) -> Example:
    """Build an example from an image."""
    return Example(image.picture, image.label, mask=image.mask)


def build_text_example(
    where: str, row: Mapping[str, Any], columns: tuple[str, ...], label: str | None
) -> Example:
    """Build an example from the texts in a row."""
    parts = [_parse_text(where, name, row[name]) for name in columns]
    return Example(
        parts[0] if len(parts) == 1 else (parts[0], parts[1]),
        label,
        parse_rationale(where, row, columns, parts),
    )


def _parse_text(where: str, name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return " ".join(value)
    raise BadExamples(
        f"{where}: {name!r} is {str(value)[:40]!r} ({type(value).__name__}). Allowed: a text, or a list of tokens."
    )


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


def check_bare_pairs(pairs: Sequence[tuple[str, str]], labels: Sequence[str] = ()) -> None:
    """Refuse pairs whose second texts look like labels: the model's, usual ones, or few repeated words."""
    second = [two.strip() for _, two in pairs]
    if not second or not (_has_known_labels(second, labels) or _has_few_words(pairs, second)):
        return
    named = ", ".join(repr(text[:20]) for text in list(dict.fromkeys(second))[:3])
    raise BadExamples(
        f"A pair (a, b) in a list is a pair of texts, and the second ones look like labels ({named}): the model "
        f"would read them. {PAIR_HINT}"
    )


def _has_known_labels(second: Sequence[str], labels: Sequence[str]) -> bool:
    own = {label.strip().casefold() for label in labels}
    return all(
        text.casefold() in own or _COMMON_LABEL.fullmatch(text) or _NUMBER_LABEL.fullmatch(text)
        for text in second
    )


def _has_few_words(pairs: Sequence[tuple[str, str]], second: Sequence[str]) -> bool:
    """Return whether a few single words repeat as second texts, beside first texts of several words."""
    words = all(one and len(one.split()) == 1 and len(one) <= _MAX_LABEL_LENGTH for one in second)
    several = all(len(first.split()) > 1 for first, _ in pairs)
    return words and several and len(second) >= _MIN_PAIRS and 2 * len(set(second)) <= len(second)
