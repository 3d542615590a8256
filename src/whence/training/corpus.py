"""The examples of a training: read, filtered, divided, and their labels numbered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.core.errors import BadExamples
from whence.core.seed import generator
from whence.core.types import Source
from whence.data import Encoded
from whence.data.sets.examples import Example, Read, read
from whence.data.sets.labels import label_indices
from whence.data.text.encode import tokenizing
from whence.training.performance import Row

_DEV = 0.15  # of the training examples, where no others were given


@dataclass(frozen=True)
class Part:
    """Some of the examples, with the numbers of their labels."""

    examples: tuple[Example, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.examples)

    def texts(self) -> list[str]:
        """Return all texts, both of a pair."""
        return [text for example in self.examples for text in example.texts]

    def rows(self, tokenizer: Any) -> list[Row]:
        """Encode all at once: ids and no more, because nothing will be explained to a person."""
        given = [example.texts for example in self.examples]
        pairs = len(given[0]) == 2
        first = [one[0] for one in given]
        second = [one[1] for one in given] if pairs else None
        with tokenizing(first):
            encoded = tokenizer(first, second, return_attention_mask=True, verbose=False)
        features = [
            {name: tuple(values[i]) for name, values in encoded.items()} for i in range(len(given))
        ]
        return [
            Row(Encoded(feature, (), (), Source(None)), label)
            for feature, label in zip(features, self.labels, strict=True)
        ]


@dataclass(frozen=True)
class Corpus:
    """All that a training is given."""

    name: str
    labels: tuple[str, ...]
    query: bool
    train: Part
    dev: Part
    test: Part | None
    notes: tuple[str, ...]  # what was guessed, left out or set aside, in sentences


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; None: guess."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Lengths:
    """How many words the first text of an example may have: more than `least` and fewer than `most`."""

    least: int | None = None
    most: int | None = None

    def __contains__(self, words: int) -> bool:
        low, high = self.least is None or words > self.least, self.most is None or words < self.most
        return low and high

    def __str__(self) -> str:
        bounds = [f"more than {self.least}"] if self.least is not None else []
        bounds += [f"fewer than {self.most}"] if self.most is not None else []
        return f"{' and '.join(bounds)} words" if bounds else "a word"


def gathered(
    train: Any,
    dev: Any,
    test: Any,
    *,
    columns: Columns,
    lengths: Lengths,
    query: bool | None,
    seed: int,
) -> Corpus:
    """Read all examples; without `dev`, some of the training examples are set aside for it."""
    notes: list[str] = []
    name, examples = _taken(_to_train_on(train, columns), columns, lengths, notes)
    labels = _names(examples)
    query = isinstance(examples[0].given, tuple) if query is None else query

    def part(given: Any) -> Part:
        where, found = _taken(given, columns, lengths, notes)
        return _part(where, found, labels, query)

    whole = _part(name, examples, labels, query)
    given_dev = None if dev is None else part(dev)
    given_test = None if test is None else part(test)
    if given_dev is None:
        whole, given_dev = _divided(whole, seed)
        notes.append(
            f"No development set was given: {len(given_dev)} of {len(examples)} training examples were drawn to "
            "choose the best epoch by, and are not trained on."
        )
    return Corpus(name, labels, query, whole, given_dev, given_test, tuple(notes))


def _to_train_on(given: Any, columns: Columns) -> Read:
    """Read the training examples. Of a data set by name the split is asked for: the likely guess is to test on."""
    found = read(given, text=columns.text, pair=columns.pair, label=columns.label)
    if "split" in found.guessed:
        raise BadExamples(
            f"Which split of {str(given)!r} is to be trained on? Name it: {str(given) + ':train'!r}."
        )
    return found


def _taken(
    given: Any, columns: Columns, lengths: Lengths, notes: list[str]
) -> tuple[str, list[Example]]:
    """Read a data set, and leave out what has no words, too few or too many."""
    found = read(given, text=columns.text, pair=columns.pair, label=columns.label)
    if any(example.seen for example in found.examples):
        raise BadExamples(
            f"{found.name} has pictures, and attention is trained on texts. Give a file of texts and labels."
        )
    if found.guessed:
        notes.append(f"Read {found}")
    kept = [
        example
        for example in found.examples
        if all(_words(example)) and _words(example)[0] in lengths
    ]
    if not kept:
        raise BadExamples(
            f"Nothing is left of the {len(found)} examples of {found.name}: none has {lengths}. Widen min_length and "
            "max_length, or give other texts."
        )
    if out := len(found) - len(kept):
        notes.append(f"{out} of {len(found)} examples of {found.name} do not have {lengths}.")
    return found.name, kept


def _words(example: Example) -> list[int]:
    """Count the words of the text, or of both texts."""
    return [len(text.split()) for text in example.texts]


def _names(examples: Sequence[Example]) -> tuple[str, ...]:
    """Name the labels: by the alphabet, or in the order of their numbers."""
    names = {example.label.strip() for example in examples if example.label is not None}
    if len(names) == len(examples) > 2:
        raise BadExamples(
            f"Every one of the {len(examples)} examples has a label of its own. Name the column of the labels: "
            "label=..., --label COLUMN."
        )
    return tuple(sorted(names, key=lambda name: (int(name) if name.isdecimal() else -1, name)))


def _part(where: str, examples: Sequence[Example], labels: tuple[str, ...], query: bool) -> Part:
    odd = sum(isinstance(example.given, tuple) is not query for example in examples)
    if odd:
        wanted, got = ("pairs", "one text") if query else ("single texts", "two texts")
        raise BadExamples(
            f"{where} has {odd} examples of {got}, and {wanted} are wanted. Name the columns: text=..., pair=...; "
            "--text, --pair."
        )
    return Part(tuple(examples), tuple(label_indices(examples, labels)))


def _divided(part: Part, seed: int) -> tuple[Part, Part]:
    """Draw examples of every label, in proportion; one that occurs once stays."""
    rng = generator("development set", seed)
    labels = np.asarray(part.labels)
    aside: set[int] = set()
    for label in range(int(labels.max()) + 1):
        places = rng.permutation(np.flatnonzero(labels == label))
        count = max(round(_DEV * len(places)), 1) if len(places) > 1 else 0
        aside.update(int(place) for place in places[:count])
    return (
        _chosen(part, [i for i in range(len(part)) if i not in aside]),
        _chosen(part, sorted(aside)),
    )


def _chosen(part: Part, places: Sequence[int]) -> Part:
    return Part(tuple(part.examples[i] for i in places), tuple(part.labels[i] for i in places))
