"""Classes `Row` and `Corpus`, and what the loaders share: length filter, vocabulary, split, file reading."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

SPLITS = ("train", "dev", "test")


class Row(NamedTuple):
    """A text of words with single spaces between them, a second one for tasks that have a question, and the label."""

    text: str
    label: str
    pair: str | None = None

    @property
    def length(self) -> int:
        """Count the words of the text."""
        return len(self.text.split(" "))


@dataclass(frozen=True)
class Corpus:
    """Three splits, the words of the training split, the labels in the authors' order, and how it is trained."""

    title: str
    splits: Mapping[str, Sequence[Row]]
    words: Sequence[str]  # without the four special ones
    labels: Mapping[
        str, str
    ]  # in the order of the authors' classes: what the rows say, and what it means
    by_class: bool  # do the authors report predicted classes apart
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  # where the recipe is not the common one
    differs: str = ""  # from what the authors had


def filter_by_length(
    rows: Sequence[Row], shortest: int | None = None, longest: int | None = None
) -> list[Row]:
    """Keep rows longer than `shortest` and shorter than `longest`; None: the rows' own extremes.

    Both bounds are strict, so that without them the shortest and the longest rows are left out.
    """
    lengths = [row.length for row in rows]
    low = min(lengths) if shortest is None else shortest
    high = max(lengths) if longest is None else longest
    return [row for row, length in zip(rows, lengths, strict=True) if low < length < high]


def sort_by_length(rows: Sequence[Row]) -> list[Row]:
    """Sort rows, the shortest first."""
    return sorted(rows, key=lambda row: row.length)


def collect_words(rows: Iterable[Row], least: int) -> list[str]:
    """Return the words of at least so many texts, the most frequent first, then by the alphabet."""
    texts = [text.split(" ") for row in rows for text in (row.text, row.pair) if text is not None]
    holding = Counter(word for text in texts for word in set(text))
    often = Counter(word for text in texts for word in text if holding[word] >= least)
    return sorted(often, key=lambda word: (-often[word], word))


def split_rows(
    rows: Sequence[Any], share: float, seed: int, classes: Sequence[Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """Split rows in two as the authors did; the second part has the share."""
    from sklearn.model_selection import train_test_split

    most, rest = train_test_split(
        range(len(rows)), test_size=share, random_state=seed, stratify=classes
    )
    return [rows[i] for i in most], [rows[i] for i in rest]


def load_objects(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object a line."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def load_table(path: Path) -> list[dict[str, str]]:
    """Read tab separated values with a header and without quotes."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
