"""A model without context that is told where to look (Wiegreffe & Pinter 2019, section 4).

Each token has a state of its own, tanh(W e + b), whatever stands around it; the prediction is read from their
weighted mean. Only the weights differ: the same everywhere, learnt with the rest, or those of another model, given
for every example.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence.audit.subject import Subject
from whence.audit.workshop import TRAINING_PASS, Workshop
from whence.capture.forward import bare
from whence.core.types import Source
from whence.data import Batch, Encoded, Policy, batches, collate
from whence.models.attentive import AttentiveConfig, fresh
from whence.training import Recipe, Row, fit
from whence.training.objective import Loss, cross_entropy
from whence.training.recipe import usual

Numbers = NDArray[np.float64]
# The word vectors to start from: the examined model's, scaled to a deviation of 1, or drawn. What is drawn says
# nothing of words that are in no training example: to it they are unknown.
Vectors = Literal["model", "drawn"]

# What a pass of such a model takes, in passes of the one that is examined: of Jain & Wallace's and of a Transformer.
SHARE_OF_ATTENTIVE, SHARE_OF_TRANSFORMER = 0.25, 0.05
# It is small and starts from nothing: with fewer steps it learns nothing.
FEWEST_STEPS = 300
_FLAT = 1e-12  # vectors that are all alike have no deviation
_PAD, _UNKNOWN, _WORDS = 0, 1, 4  # 2 and 3 are special tokens, of which there are none here


@dataclass(frozen=True, eq=False)
class Guide:
    """Weights over the content of every training example and every example of the audit."""

    train: Sequence[Numbers]
    test: Sequence[Numbers]


class _Given(nn.Module):
    """Scores whose softmax are the weights that were given for this batch."""

    weights: Tensor

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        return self.weights.to(states).clamp(min=torch.finfo(states.dtype).tiny).log()


class Guided:
    """Trains such models on a workshop's examples, and asks them about a subject's."""

    def __init__(self, subject: Subject, workshop: Workshop, vectors: Vectors = "model") -> None:
        self._subject = subject
        self._workshop = workshop
        self._query = bool(getattr(subject.loaded.model.config, "query", False))
        seen = workshop.training(subject)
        read = [*_read(seen), *(_read(subject) if vectors == "model" else [])]
        known = sorted({item.ids[p] for item, content in read for p in self._places(item, content)})
        self._words = {identity: _WORDS + number for number, identity in enumerate(known)}
        self._vectors = self._scaled(known) if vectors == "model" else None
        labels = [row.label for row in workshop.rows]
        self._rows = [
            Row(self._bare(*one), label) for one, label in zip(_read(seen), labels, strict=True)
        ]
        self._items = [self._bare(*one) for one in _read(subject)]

    def said(
        self,
        seed: int,
        attention: Literal["uniform", "tanh"] | Guide,
        tick: Callable[[float], None],
    ) -> NDArray[np.int64]:
        """Train a model from a seed, the same start for all kinds of attention, and return the labels it predicts."""
        guide = attention if isinstance(attention, Guide) else None
        config = self._config("uniform" if isinstance(attention, Guide) else attention)
        model = fresh(config, seed, self._vectors).to(self._subject.loaded.device)
        recipe = replace(self.recipe, seed=seed)
        loss = cross_entropy(self._rows, config.num_labels, recipe)
        if guide is not None:
            model.attention.scores = _Given()
            loss = _told(loss, guide.train)
        fit(model, self._rows, recipe, pad_id=_PAD, loss=loss)
        tick(self.share * TRAINING_PASS * len(self._rows) * recipe.epochs)
        return self._predicted(model, guide)

    @property
    def share(self) -> float:
        """What a pass takes, in passes of the examined model."""
        return SHARE_OF_ATTENTIVE if self._workshop.attentive else SHARE_OF_TRANSFORMER

    @cached_property
    def recipe(self) -> Recipe:
        """How they are trained: as models of Jain & Wallace are, and as often as small data need it."""
        config = self._subject.loaded.model.config
        found = usual(query=self._query, labels=config.num_labels)
        if self._workshop.attentive:
            found = self._workshop.recipe
        epochs = ceil(FEWEST_STEPS / ceil(len(self._rows) / found.batch_size))
        return replace(found, epochs=max(found.epochs, epochs))

    def _predicted(self, model: Any, guide: Guide | None) -> NDArray[np.int64]:
        found = np.zeros(len(self._items), dtype=np.int64)
        with bare(model) as logits:
            for numbers in batches(self._items, Policy(64, 16384)):
                some = [self._items[i] for i in numbers]
                batch = collate(some, pad_id=_PAD, device=model.device)
                if guide is not None:
                    _tell(model, batch, [guide.test[i] for i in numbers])
                found[numbers] = logits(batch).argmax(1).cpu().numpy()
        return found

    def _config(self, attention: Literal["uniform", "tanh"]) -> AttentiveConfig:
        own = self._subject.loaded.model.config
        sizes = {}
        if self._workshop.attentive:
            sizes = {"embedding_size": own.embedding_size, "hidden_size": own.hidden_size}
        if self._vectors is not None:
            sizes["embedding_size"] = self._vectors.shape[1]
        possible = bool(getattr(own, "answers_in_passage", False))
        answers = [self._words.get(one, -1) for one in own.answer_ids] if possible else []
        return AttentiveConfig(
            vocab_size=_WORDS + len(self._words),
            encoder="average",
            attention=attention,
            query=self._query,
            num_labels=own.num_labels,
            answers_in_passage=possible,
            answer_ids=answers,
            **sizes,
        )

    def _scaled(self, known: Sequence[int]) -> Numbers:
        """Return the examined model's vectors of the words, and the mean of them where there is no word."""
        table = self._subject.loaded.model.get_input_embeddings().weight
        own = table.detach().double().cpu().numpy()[list(known)]
        own = (own - own.mean()) / max(float(own.std()), _FLAT)
        return np.concatenate([np.tile(own.mean(0), (_WORDS, 1)), own])

    def _places(self, item: Encoded, content: NDArray[np.int64]) -> list[int]:
        """Return the places that are read: the content, then the query if there is one."""
        return [*content.tolist(), *(_second(item) if self._query else [])]

    def _bare(self, item: Encoded, content: NDArray[np.int64]) -> Encoded:
        """Number the words anew, without special tokens."""
        places = self._places(item, content)
        ids = tuple(self._words.get(item.ids[place], _UNKNOWN) for place in places)
        features = {"input_ids": ids, "attention_mask": (1,) * len(ids)}
        if self._query:
            features["token_type_ids"] = (0,) * len(content) + (1,) * (len(ids) - len(content))
        return Encoded(features, (), (), Source(None))


def _read(subject: Subject) -> list[tuple[Encoded, NDArray[np.int64]]]:
    return list(zip(subject.items, subject.content, strict=True))


def _second(item: Encoded) -> list[int]:
    """Return the places of the second text."""
    return [p for p, token in enumerate(item.tokens) if token.segment == 1 and not token.special]


def _told(loss: Loss, weights: Sequence[Numbers]) -> Loss:
    def told(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
        _tell(model, batch, [weights[i] for i in numbers])
        return loss(model, batch, truth, numbers)

    return told


def _tell(model: Any, batch: Batch, weights: Sequence[Numbers]) -> None:
    """Say where to look in this batch."""
    padded = np.zeros(tuple(batch.real.shape))
    for row, own in enumerate(weights):
        padded[row, : len(own)] = own
    model.attention.scores.weights = torch.from_numpy(padded).to(batch.real.device)
