"""`train_attention`: a model of Jain & Wallace, from a data set to a folder that `whence.load` takes."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from whence.core.errors import BadParameter, did_you_mean
from whence.models import Loaded, load, save
from whence.models.attentive import AttentiveConfig, fresh, word_tokenizer
from whence.training.corpus import Columns, Corpus, Lengths, gathered
from whence.training.course import Epoch
from whence.training.fit import fit, settings
from whence.training.folder import TRAINING, check_folder, finished
from whence.training.performance import Performance, judged
from whence.training.recipe import RECIPES, Recipe, usual
from whence.training.vectors import Vectors, vectors_for

ENCODERS = ("bilstm", "cnn", "average")
ATTENTIONS = ("tanh", "dot", "uniform")
_OTHER_WORDS = {
    "bi-lstm": "bilstm",
    "lstm": "bilstm",
    "avg": "average",
    "additive": "tanh",
    "scaled-dot": "dot",
}
_EMBEDDING = 300


@dataclass(frozen=True)
class Trained:
    """What a training came to. `whence.load(trained.folder)` explains with the model."""

    folder: Path
    loaded: Loaded
    dev: Performance
    test: Performance | None
    history: tuple[Mapping[str, Any], ...]  # of each epoch: number, loss, score
    best_epoch: int
    sizes: Mapping[str, int]
    notes: tuple[str, ...]  # what was guessed, left out or set aside, in sentences

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the outputs."""
        return self.loaded.labels

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        config = self.loaded.model.config
        return {
            "version": 1,
            "kind": "training",
            "folder": str(self.folder),
            "model": {
                name: getattr(config, name)
                for name in ("encoder", "attention", "query", "embedding_size", "hidden_size")
            },
            "labels": list(self.labels),
            "sizes": dict(self.sizes),
            "recipe": {field.name: config.training[field.name] for field in fields(Recipe)},
            "history": [dict(epoch) for epoch in self.history],
            "best_epoch": self.best_epoch,
            "dev": self.dev.to_dict(),
            "test": self.test and self.test.to_dict(),
            "notes": list(self.notes),
        }


def train_attention(
    train: Any,
    *,
    out: str | Path,
    dev: Any = None,
    test: Any = None,
    encoder: str = "bilstm",
    attention: str = "tanh",
    query: bool | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    embedding_size: int | None = None,
    hidden_size: int = 128,
    vectors: str | Path | None = None,
    min_df: int = 1,
    vocabulary: Sequence[str] | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    lowercase: bool = False,
    answers_in_passage: bool = False,
    recipe: Recipe | str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[Epoch], None] | None = None,
    announce: Callable[[str], None] = lambda note: None,
) -> Trained:
    """Train a model of Jain & Wallace on `train` and save it in the folder `out`.

    `train`, `dev` and `test` are files, Hugging Face data sets or lists of examples; `text`, `pair` and `label` name
    columns that have no usual name. Words are what stands between white space; those in fewer than `min_df` training
    texts are unknown, or those that are not in `vocabulary`. Without `dev`, 15 % of `train` are set aside to choose
    the best epoch by.

    `query`: the examples are pairs, and the first text is attended to with the second in mind; guessed from the
    examples. `answers_in_passage`: the labels are words, and only those of the first text can be the answer.
    `vectors` to start from: a text file with a word and its numbers in every line, or a transformers model, of whose
    table of pieces a word's vector is the mean. Without it embeddings of `embedding_size` (300) are drawn.
    `min_length` and `max_length` leave out examples whose first text does not have more words than the one and fewer
    than the other.

    `recipe` is a `Recipe`, or the name of one of `RECIPES`; by default Jain & Wallace's for such a task. What is
    given beside it wins. A training that was interrupted goes on when the same is called again, and ends the same.
    `progress` is called with (examples done, examples in all), `each` with every epoch that was trained, `announce`
    before all training with sentences about what was guessed, left out, set aside or trained before.
    """
    encoder = _one_of("encoder", encoder, ENCODERS)
    attention = _one_of("attention", attention, ATTENTIONS)
    folder = Path(out)
    check_folder(folder)
    corpus = gathered(
        train,
        dev,
        test,
        columns=Columns(text, pair, label),
        lengths=Lengths(min_length, max_length),
        query=query,
        seed=seed,
    )
    given = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    chosen = _recipe(recipe, corpus, given, seed)
    texts, least = (vocabulary, 1) if vocabulary else (corpus.train.texts(), min_df)
    tokenizer = word_tokenizer(texts, min_df=least, lowercase=lowercase)
    start = None if vectors is None else vectors_for(_words(tokenizer), vectors, seed)
    parts: dict[str, Any] = {
        "encoder": encoder,
        "attention": attention,
        "query": corpus.query,
        "embedding_size": _size(embedding_size, start),
        "hidden_size": hidden_size,
        "answers_in_passage": answers_in_passage,
    }
    config = AttentiveConfig(
        vocab_size=len(tokenizer),
        id2label=dict(enumerate(corpus.labels)),
        label2id={name: number for number, name in enumerate(corpus.labels)},
        answer_ids=_answers(corpus.labels, tokenizer) if answers_in_passage else (),
        **parts,
    )
    model = fresh(config, seed, start and start.rows)
    about = {
        **parts,
        "vectors": start and start.name,
        "min_df": min_df,
        "lowercase": lowercase,
        "min_length": min_length,
        "max_length": max_length,
    }
    if start is not None:
        corpus = replace(corpus, notes=(*corpus.notes, str(start)))
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    loaded = replace(load(model, tokenizer=tokenizer, device=where), name=str(folder))
    return _trained(loaded, folder, corpus, chosen, about, progress, each, announce)


def _trained(
    loaded: Loaded,
    folder: Path,
    corpus: Corpus,
    recipe: Recipe,
    about: dict[str, Any],
    progress: Callable[[int, int], None] | None,
    each: Callable[[Epoch], None] | None,
    announce: Callable[[str], None],
) -> Trained:
    """Train, or go on, or find that all is done; save, and judge."""
    model, pad_id = loaded.model, loaded.pad_id
    rows, dev = corpus.train.rows(loaded.tokenizer), corpus.dev.rows(loaded.tokenizer)
    wanted = {**about, **settings(rows, recipe, dev)}
    record = finished(folder, wanted)
    notes = corpus.notes if record is None else (*corpus.notes, _DONE)
    for note in notes:
        announce(note)
    if record is None:
        fitted = fit(
            model,
            rows,
            recipe,
            pad_id=pad_id,
            dev=dev,
            keep=folder / TRAINING,
            about=about,
            progress=progress,
            each=each,
            resumed=lambda epoch: announce(
                f"Going on from epoch {epoch}: the earlier ones are kept."
            ),
        )
        record = {
            **wanted,
            "data": corpus.name,
            "best_epoch": fitted.best_epoch,
            "history": [
                {"number": epoch.number, "loss": epoch.loss, "score": epoch.score}
                for epoch in fitted.history
            ],
            "dev": judged(model, dev, pad_id=pad_id).to_dict(),
        }
        model.config.training = record
        save(model, loaded.tokenizer, folder)
    else:
        loaded = load(folder, device=loaded.device)
    shutil.rmtree(folder / TRAINING, ignore_errors=True)
    tested = None if corpus.test is None else corpus.test.rows(loaded.tokenizer)
    return Trained(
        folder,
        loaded,
        Performance.from_dict(record["dev"]),
        judged(loaded.model, tested, pad_id=loaded.pad_id) if tested else None,
        tuple(record["history"]),
        record["best_epoch"],
        _sizes(loaded, corpus),
        notes,
    )


_DONE = "The folder holds this very model, already trained: nothing was trained again."


def _sizes(loaded: Loaded, corpus: Corpus) -> dict[str, int]:
    return {
        "train": len(corpus.train),
        "dev": len(corpus.dev),
        "test": len(corpus.test or ()),
        "vocabulary": loaded.model.config.vocab_size,
        "weights": sum(weight.numel() for weight in loaded.model.parameters()),
    }


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Forgive other words for the same thing."""
    word = str(value).lower().replace("_", "-")
    word = _OTHER_WORDS.get(word, word)
    if word not in allowed:
        raise BadParameter(
            f"{name} must be one of {', '.join(allowed)}. Got {value!r}.{did_you_mean(word, list(allowed))}"
        )
    return word


def _recipe(
    given: Recipe | str | None, corpus: Corpus, others: Mapping[str, Any], seed: int
) -> Recipe:
    """Return the recipe that was asked for; what was given beside it wins."""
    if isinstance(given, str):
        if given not in RECIPES:
            raise BadParameter(
                f"There is no recipe {given!r}; there are {', '.join(RECIPES)}.{did_you_mean(given, list(RECIPES))}"
            )
        given = RECIPES[given]
    recipe = given or usual(query=corpus.query, labels=len(corpus.labels))
    return replace(recipe, seed=seed, **{k: v for k, v in others.items() if v is not None})


def _words(tokenizer: Any) -> list[str]:
    """Return the vocabulary in the order of its numbers."""
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)


def _size(asked: int | None, start: Vectors | None) -> int:
    if start is None:
        return _EMBEDDING if asked is None else asked
    if asked not in (None, start.size):
        raise BadParameter(
            f"The vectors of {start.name} have {start.size} numbers, not embedding_size={asked}. Leave that out."
        )
    return start.size


def _answers(labels: tuple[str, ...], tokenizer: Any) -> list[int]:
    """Return the number of each label's word."""
    known = tokenizer.get_vocab()
    if missing := [label for label in labels if label not in known]:
        raise BadParameter(
            f"answers_in_passage: the label {missing[0]!r} is no word of the training texts, so it can never be the "
            "answer. Leave answers_in_passage out."
        )
    return [known[label] for label in labels]


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


"""The folder that a model is trained into: empty, begun, or finished; never somebody else's."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.core.errors import BadParameter, CannotWrite
from whence.training.kept import difference

TRAINING = "training"  # holds an unfinished training; gone when the model is saved
_OURS = {TRAINING, ".saving"}


def check_folder(folder: Path) -> None:
    """Find out before the work that nothing can be saved in `folder`."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        allowed = not there.is_dir() or os.access(there, os.W_OK | os.X_OK)
    except PermissionError:  # not even to look
        there, allowed = folder, False
    if not allowed:
        raise CannotWrite(
            f"Cannot save a model in {str(folder)!r}: no permission. Choose a place that you may write to."
        )
    if not there.is_dir():
        raise CannotWrite(
            f"Cannot save a model in {str(folder)!r}: {str(there)!r} is a file. Give the name of a folder."
        )
    if folder.is_dir() and _record(folder) is None:
        others = sorted(path.name for path in folder.iterdir() if path.name not in _OURS)
        if others and not (folder / TRAINING).is_dir():
            raise CannotWrite(
                f"The folder {str(folder)!r} holds something else ({', '.join(others[:3])}). Give a new or an empty "
                "folder."
            )


def finished(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of a training that ended in `folder`, None where none did; another one is refused."""
    record = _record(folder)
    if record is None:
        return None
    known = {name: record.get(name) for name in wanted}
    if known != wanted:
        raise BadParameter(
            f"The folder {str(folder)!r} holds another model: {difference(known, wanted)}. Give another folder, or "
            "delete this one."
        )
    return record


def _record(folder: Path) -> dict[str, Any] | None:
    """Read what the configuration says about the training, if it is one of ours."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(found, dict) and found.get("model_type") == "attentive"
    record = found.get("training") if ours else None
    return record if isinstance(record, dict) and "learning_rate" in record else None
