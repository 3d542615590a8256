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
