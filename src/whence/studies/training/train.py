"""`train_attention`, the training of a Jain & Wallace model: corpus, splits, settings, resuming, model folder."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import torch

from whence.core.errors import BadExamples, BadParameter, CannotWrite, suggest_name
from whence.core.progress import Progress, announce
from whence.core.result import RESULT_VERSION, Result
from whence.core.seed import build_generator
from whence.core.types import InputText
from whence.data.dataset import Dataset, read_dataset, resolve_label_indices
from whence.data.example import Example
from whence.data.tokens import EncodedInput, wrap_tokenizer_errors
from whence.models.load import load_model, save_model
from whence.models.model import LoadedModel
from whence.models.rnn import (
    AttentionKind,
    AttentiveConfig,
    EncoderKind,
    build_word_tokenizer,
    initialise_model,
)
from whence.studies.training.fit import describe_difference, describe_settings, fit
from whence.studies.training.performance import LabelledInput, Performance, measure_performance
from whence.studies.training.recipe import RECIPES, Recipe, choose_recipe
from whence.studies.training.vectors import load_vectors

if TYPE_CHECKING:
    from whence.render.document import Document

_DEV = 0.15  # share of the training examples, if no development set was given


@dataclass(frozen=True)
class CorpusSplit:
    """One split of the examples, with label indices."""

    examples: tuple[Example, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.examples)

    def rows(self, tokenizer: Any) -> list[LabelledInput]:
        """Encode all examples at once, to ids only: nothing here is explained token by token."""
        first, *second = (
            list(texts) for texts in zip(*(e.texts for e in self.examples), strict=True)
        )
        with wrap_tokenizer_errors(first):
            encoded = tokenizer(first, *second, return_attention_mask=True, verbose=False)
        rows = []
        for i, label in enumerate(self.labels):
            features = {name: tuple(values[i]) for name, values in encoded.items()}
            rows.append(LabelledInput(EncodedInput(features, (), (), InputText(None)), label))
        return rows


@dataclass(frozen=True)
class Corpus:
    """The data of a training: its splits, labels and notes."""

    name: str
    labels: tuple[str, ...]
    query: bool
    train: CorpusSplit
    dev: CorpusSplit
    test: CorpusSplit | None
    notes: tuple[str, ...]  # sentences on guesses, omitted and set-aside examples


@dataclass(frozen=True)
class Lengths:
    """Bounds on the words of an example's first text: more than `least` and fewer than `most`."""

    least: int | None = None
    most: int | None = None

    def __contains__(self, words: int) -> bool:
        long = self.least is None or words > self.least
        return long and (self.most is None or words < self.most)

    def __str__(self) -> str:
        bounds = [f"more than {self.least}"] if self.least is not None else []
        bounds += [f"fewer than {self.most}"] if self.most is not None else []
        return f"{' and '.join(bounds)} words" if bounds else "a word"


def read_corpus(
    train: Any,
    dev: Any,
    test: Any,
    *,
    columns: Mapping[str, Any],
    lengths: Lengths,
    query: bool | None,
    seed: int,
) -> Corpus:
    """Read all splits; without `dev`, 15% of the training examples are set aside for it."""
    notes: list[str] = []
    dataset = read_dataset(train, **columns)
    if "split" in dataset.guessed:  # the guess would be "test"
        raise BadExamples(
            f"Which split of {str(train)!r} is to be trained on? Name it: {str(train) + ':train'!r}."
        )
    examples = _select_usable(dataset, lengths, notes)
    labels = _list_labels(examples)
    query = isinstance(examples[0].given, tuple) if query is None else query

    def build_split(name: str, some: Sequence[Example]) -> CorpusSplit:
        odd = sum(isinstance(example.given, tuple) is not query for example in some)
        if odd:
            expected, got = ("pairs", "one text") if query else ("single texts", "two texts")
            raise BadExamples(
                f"{name} has {odd} examples of {got}, and {expected} are wanted. Name the columns: text=..., "
                "pair=...; --text, --pair."
            )
        return CorpusSplit(tuple(some), tuple(resolve_label_indices(some, labels)))

    def read_split(data: Any) -> CorpusSplit | None:
        if data is None:
            return None
        part = read_dataset(data, **columns)
        return build_split(part.name, _select_usable(part, lengths, notes))

    train_split = build_split(dataset.name, examples)
    dev_split, test_split = read_split(dev), read_split(test)
    if dev_split is None:
        train_split, dev_split = _split_dev(train_split, seed)
        notes.append(
            f"No development set was given: {len(dev_split)} of {len(examples)} training examples were drawn to "
            "choose the best epoch by, and are not trained on."
        )
    return Corpus(dataset.name, labels, query, train_split, dev_split, test_split, tuple(notes))


def _select_usable(dataset: Dataset, lengths: Lengths, notes: list[str]) -> list[Example]:
    """Return the examples of a data set without those that have no words, too few or too many."""
    given = dataset.examples
    if any(example.is_image for example in given):
        raise BadExamples(
            f"{dataset.name} has pictures, and attention is trained on texts. Give a file of texts and labels."
        )
    if dataset.guessed:
        notes.append(f"Read {dataset}")
    usable = []
    for example in given:
        words = [len(text.split()) for text in example.texts]
        if all(words) and words[0] in lengths:
            usable.append(example)
    if not usable:
        raise BadExamples(
            f"Nothing is left of the {len(given)} examples of {dataset.name}: none has {lengths}. Widen min_length and "
            "max_length, or give other texts."
        )
    if out := len(given) - len(usable):
        notes.append(f"{out} of {len(given)} examples of {dataset.name} do not have {lengths}.")
    return usable


def _list_labels(examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the labels: in alphabetical order, or numbers in ascending order."""
    names = {example.label.strip() for example in examples if example.label is not None}
    if len(names) == len(examples) > 2:
        raise BadExamples(
            f"Every one of the {len(examples)} examples has a label of its own. Name the column of the labels: "
            "label=..., --label COLUMN."
        )
    return tuple(sorted(names, key=lambda name: (int(name) if name.isdecimal() else -1, name)))


def _split_dev(part: CorpusSplit, seed: int) -> tuple[CorpusSplit, CorpusSplit]:
    """Split off development examples of every label in proportion; a label's only example stays."""
    rng = build_generator("development set", seed)
    labels = np.asarray(part.labels)
    aside: set[int] = set()
    for label in range(int(labels.max()) + 1):
        places = rng.permutation(np.flatnonzero(labels == label))
        count = max(round(_DEV * len(places)), 1) if len(places) > 1 else 0
        aside.update(int(place) for place in places[:count])
    sides = ([i for i in range(len(part)) if i not in aside], sorted(aside))
    first, second = (
        CorpusSplit(tuple(part.examples[i] for i in places), tuple(part.labels[i] for i in places))
        for places in sides
    )
    return first, second


_SYNONYMS = {
    "bi-lstm": "bilstm",
    "lstm": "bilstm",
    "avg": "average",
    "additive": "tanh",
    "scaled-dot": "dot",
}
_EMBEDDING = 300


class TrainingResult(Result):
    """The result of a training; `whence.load(result.folder)` explains with the model."""

    kind: ClassVar[str] = "training"

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return Path(self.data["folder"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the outputs."""
        return tuple(self.data["labels"])

    @property
    def dev(self) -> Performance:
        """The performance on the development examples."""
        return Performance.from_dict(self.data["dev"])

    @property
    def test(self) -> Performance | None:
        """The performance on the test examples, if there were any."""
        return self.data["test"] and Performance.from_dict(self.data["test"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on guesses, omitted and set-aside examples."""
        return tuple(self.data["notes"])

    def document(self) -> "Document":
        """Return the blocks that every surface shows."""
        from whence.render.document import Document, FactList, Section

        model, sizes = self.data["model"], self.data["sizes"]
        facts = [
            ("model", f"{model['encoder']} encoder, {model['attention']} attention"),
            ("labels", ", ".join(self.labels)),
            ("trained on", f"{sizes['train']} examples, {sizes['vocabulary']} words"),
            ("best epoch", f"{self.data['best_epoch']} of {len(self.data['history'])}"),
            ("dev", f"{self.dev} (n = {self.dev.n})"),
            ("test", "" if self.test is None else f"{self.test} (n = {self.test.n})"),
        ]
        return Document("whence: a trained model", [Section("", [FactList(facts)])])


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
    progress: Progress | None = None,
) -> TrainingResult:
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
    `progress` is called with (examples done, examples in all). Its method `announce`, if it has one, gets every `Epoch`
    that was trained and, before all training, sentences about what was guessed, left out, set aside or trained before.
    """
    encoder = _resolve_choice("encoder", encoder, get_args(EncoderKind))
    attention = _resolve_choice("attention", attention, get_args(AttentionKind))
    folder = Path(out)
    check_folder(folder)
    corpus = read_corpus(
        train,
        dev,
        test,
        columns={"text": text, "pair": pair, "label": label},
        lengths=Lengths(min_length, max_length),
        query=query,
        seed=seed,
    )
    overrides = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    chosen = _resolve_recipe(recipe, corpus, overrides, seed)
    given = [text for example in corpus.train.examples for text in example.texts]
    texts, least = (vocabulary, 1) if vocabulary else (given, min_df)
    tokenizer = build_word_tokenizer(texts, min_df=least, lowercase=lowercase)
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)  # by their ids
    start = None if vectors is None else load_vectors(words, vectors, seed)
    size = _EMBEDDING if start is None else start.size
    if start is not None and embedding_size not in (None, size):
        raise BadParameter(
            f"The vectors of {start.name} have {size} numbers, not embedding_size={embedding_size}. Leave that out."
        )
    parts: dict[str, Any] = {
        "encoder": encoder,
        "attention": attention,
        "query": corpus.query,
        "embedding_size": size if embedding_size is None else embedding_size,
        "hidden_size": hidden_size,
        "answers_in_passage": answers_in_passage,
    }
    config = AttentiveConfig(
        vocab_size=len(tokenizer),
        id2label=dict(enumerate(corpus.labels)),
        label2id={name: number for number, name in enumerate(corpus.labels)},
        answer_ids=_list_answer_ids(corpus.labels, tokenizer) if answers_in_passage else (),
        **parts,
    )
    model = initialise_model(config, seed, start and start.rows)
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
    loaded = replace(load_model(model, tokenizer=tokenizer, device=where), name=str(folder))
    return _train_or_resume(loaded, folder, corpus, chosen, about, progress)


def _train_or_resume(
    loaded: LoadedModel,
    folder: Path,
    corpus: Corpus,
    recipe: Recipe,
    about: dict[str, Any],
    progress: Progress | None,
) -> TrainingResult:
    """Train, resume or reuse a finished training; save the model and measure its performance."""
    model, pad_id = loaded.model, loaded.pad_id
    rows, dev = corpus.train.rows(loaded.tokenizer), corpus.dev.rows(loaded.tokenizer)
    settings = {**about, **describe_settings(rows, recipe, dev)}
    record = read_finished_record(folder, settings)
    notes = corpus.notes if record is None else (*corpus.notes, _DONE)
    for note in notes:
        announce(progress, note)
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
        )
        record = {
            **settings,
            "data": corpus.name,
            "best_epoch": fitted.best_epoch,
            "history": [
                {"number": epoch.number, "loss": epoch.loss, "score": epoch.score}
                for epoch in fitted.history
            ],
            "dev": measure_performance(model, dev, pad_id=pad_id).to_dict(),
        }
        model.config.training = record
        save_model(model, loaded.tokenizer, folder)
    else:
        loaded = load_model(folder, device=loaded.device)
    shutil.rmtree(folder / TRAINING, ignore_errors=True)
    model = loaded.model
    test = corpus.test and measure_performance(
        model, corpus.test.rows(loaded.tokenizer), pad_id=loaded.pad_id
    )
    names = ("encoder", "attention", "query", "embedding_size", "hidden_size")
    return TrainingResult(
        {
            "version": RESULT_VERSION,
            "kind": "training",
            "folder": str(folder),
            "model": {name: getattr(model.config, name) for name in names},
            "labels": list(loaded.labels),
            "sizes": {
                "train": len(corpus.train),
                "dev": len(corpus.dev),
                "test": len(corpus.test or ()),
                "vocabulary": model.config.vocab_size,
                "weights": sum(weight.numel() for weight in model.parameters()),
            },
            "recipe": {field.name: record[field.name] for field in fields(Recipe)},
            "history": list(record["history"]),
            "best_epoch": record["best_epoch"],
            "dev": record["dev"],
            "test": test and test.to_dict(),
            "notes": list(notes),
        }
    )


_DONE = "The folder holds this very model, already trained: nothing was trained again."


def _resolve_choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the allowed value that equals `value` or is its synonym; else raise."""
    word = str(value).lower().replace("_", "-")
    word = _SYNONYMS.get(word, word)
    if word not in allowed:
        raise BadParameter(
            f"{name} must be one of {', '.join(allowed)}. Got {value!r}.{suggest_name(word, list(allowed))}"
        )
    return word


def _resolve_recipe(
    request: Recipe | str | None, corpus: Corpus, overrides: Mapping[str, Any], seed: int
) -> Recipe:
    """Return the requested recipe; separate arguments override its settings."""
    if isinstance(request, str):
        if request not in RECIPES:
            raise BadParameter(
                f"There is no recipe {request!r}; there are {', '.join(RECIPES)}.{suggest_name(request, list(RECIPES))}"
            )
        request = RECIPES[request]
    recipe = request or choose_recipe(query=corpus.query, labels=len(corpus.labels))
    return replace(recipe, seed=seed, **{k: v for k, v in overrides.items() if v is not None})


def _list_answer_ids(labels: tuple[str, ...], tokenizer: Any) -> list[int]:
    """Return the token id of each label's word."""
    known = tokenizer.get_vocab()
    if missing := [label for label in labels if label not in known]:
        raise BadParameter(
            f"answers_in_passage: the label {missing[0]!r} is no word of the training texts, so it can never be the "
            "answer. Leave answers_in_passage out."
        )
    return [known[label] for label in labels]


TRAINING = "training"  # folder of an unfinished training; deleted when the model is saved
_TRAINING_FILES = {TRAINING, ".saving"}


def check_folder(folder: Path) -> None:
    """Refuse a folder that the model cannot be saved in, before the training starts."""
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        allowed = not existing.is_dir() or os.access(existing, os.W_OK | os.X_OK)
    except PermissionError:  # the folder cannot even be listed
        existing, allowed = folder, False
    if not allowed:
        raise CannotWrite(
            f"Cannot save a model in {str(folder)!r}: no permission. Choose a place that you may write to."
        )
    if not existing.is_dir():
        raise CannotWrite(
            f"Cannot save a model in {str(folder)!r}: {str(existing)!r} is a file. Give the name of a folder."
        )
    if folder.is_dir() and _read_record(folder) is None:
        others = sorted(path.name for path in folder.iterdir() if path.name not in _TRAINING_FILES)
        if others and not (folder / TRAINING).is_dir():
            raise CannotWrite(
                f"The folder {str(folder)!r} holds something else ({', '.join(others[:3])}). Give a new or an empty "
                "folder."
            )


def read_finished_record(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of the training that ended in `folder`, if any; refuse a different training."""
    record = _read_record(folder)
    if record is None:
        return None
    known = {name: record.get(name) for name in settings}
    if known != settings:
        raise BadParameter(
            f"The folder {str(folder)!r} holds another model: {describe_difference(known, settings)}. Give another folder, or "
            "delete this one."
        )
    return record


def _read_record(folder: Path) -> dict[str, Any] | None:
    """Return the training record of a model's configuration, if whence wrote it."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(config, dict) and config.get("model_type") == "attentive"
    record = config.get("training") if ours else None
    return record if isinstance(record, dict) and "learning_rate" in record else None
