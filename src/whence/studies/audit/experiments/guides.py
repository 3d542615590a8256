"""Experiment: context-free models guided by the model's, uniform or adversarial attention (Wiegreffe & Pinter).

Guided models (their section 4) have no context: each token has its own state tanh(W e + b), the prediction is
read from the weighted mean of the states, and only the weights differ: uniform, learnt with the rest, or those
of another model, given for every example.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from whence.core.params import Range
from whence.core.types import InputText
from whence.data.batches import Batch
from whence.data.tokens import EncodedInput
from whence.models.rnn import AttentiveConfig, initialise_model
from whence.studies.audit.audit import AuditCostEstimate
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import (
    build_bars,
    group_by_class,
    summarise,
    summarise_performance,
)
from whence.studies.audit.retrain import TRAINING_PASS, Retrainer, count_training_passes
from whence.studies.audit.subject import AuditSubject, Labels, Numbers
from whence.studies.training.fit import build_cross_entropy, fit
from whence.studies.training.performance import LabelledInput, predict_logits
from whence.studies.training.recipe import Recipe, choose_recipe

# The initial word vectors: the audited model's, scaled to a standard deviation of 1, or random. With random vectors,
# words that are in no training example are unknown.
VectorSource = Literal["model", "drawn"]

# The cost of a pass of a context-free model, in passes of the audited RNN or Transformer.
_RNN_PASS_COST, _TRANSFORMER_PASS_COST = 0.25, 0.05
# A context-free model starts from random weights: with fewer steps it learns nothing.
_MIN_STEPS = 300
_MIN_STD = 1e-12  # equal vectors have a standard deviation of 0
# 2 and 3 are special tokens, which these models lack.
_PAD_ID, _UNKNOWN_ID, _FIRST_WORD_ID = 0, 1, 4
_ARMS = {
    "uniform": "uniform",
    "learned": "learned with it",
    "guide": "the model's attention",
    "adversary": "the adversary's",
}


@dataclass(frozen=True, eq=False)
class AttentionGuide:
    """Attention weights over the content of every training example and every audited example."""

    train: Sequence[Numbers]
    test: Sequence[Numbers]


class _FixedScores(nn.Module):
    """Attention scores whose softmax is the weights given for the batch."""

    weights: Tensor

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return the score of each state, (batch, tokens)."""
        return self.weights.to(states).clamp(min=torch.finfo(states.dtype).tiny).log()

    def set_weights(self, weights: Sequence[Numbers], batch: Batch, numbers: Sequence[int]) -> None:
        """Set the attention weights of a batch of examples, given those of all by their numbers."""
        padded = np.zeros(tuple(batch.real.shape))
        for row, number in enumerate(numbers):
            padded[row, : len(weights[number])] = weights[number]
        self.weights = torch.from_numpy(padded).to(batch.device)


class ContextFreeTrainer:
    """A trainer of context-free models, which predict the audited examples afterwards."""

    def __init__(
        self, subject: AuditSubject, workshop: Retrainer, vectors: VectorSource = "model"
    ) -> None:
        self._loaded = subject.loaded
        self._is_rnn = workshop.is_rnn
        self._query = bool(getattr(subject.loaded.model.config, "query", False))
        train = self._list_words(workshop.build_training_subject(subject))
        test = self._list_words(subject)
        read = train + test if vectors == "model" else train
        known = sorted({word for words, _ in read for word in words})
        self._words = {word: _FIRST_WORD_ID + number for number, word in enumerate(known)}
        own = subject.loaded.model.config
        sizes = {}
        if workshop.is_rnn:
            sizes = {"embedding_size": own.embedding_size, "hidden_size": own.hidden_size}
        self._vectors = None
        if vectors == "model":
            # The model's word vectors, standardised; reserved ids get their mean.
            table = subject.loaded.model.get_input_embeddings().weight
            rows = table.detach().double().cpu().numpy()[known]
            rows = (rows - rows.mean()) / max(float(rows.std()), _MIN_STD)
            self._vectors = np.concatenate([np.tile(rows.mean(0), (_FIRST_WORD_ID, 1)), rows])
            sizes["embedding_size"] = rows.shape[1]
        possible = bool(getattr(own, "answers_in_passage", False))
        self._settings = {
            "vocab_size": _FIRST_WORD_ID + len(self._words),
            "encoder": "average",
            "query": self._query,
            "num_labels": own.num_labels,
            "answers_in_passage": possible,
            "answer_ids": [self._words.get(i, -1) for i in own.answer_ids] if possible else [],
            **sizes,
        }
        self._rows = [
            LabelledInput(self._renumber_words(*words), row.label)
            for words, row in zip(train, workshop.rows, strict=True)
        ]
        self._items = [self._renumber_words(*words) for words in test]
        recipe = choose_recipe(query=self._query, labels=len(subject.loaded.labels))
        recipe = workshop.recipe if workshop.is_rnn else recipe
        self._recipe = replace(recipe, epochs=recipe.count_epochs(len(self._rows), _MIN_STEPS))

    def train_and_predict(
        self,
        seed: int,
        attention: Literal["uniform", "tanh"] | AttentionGuide,
        tick: Callable[[float], None],
    ) -> Labels:
        """Train a context-free model, from the same weights for all kinds of attention; return its predictions."""
        guide = attention if isinstance(attention, AttentionGuide) else None
        kind = "uniform" if isinstance(attention, AttentionGuide) else attention
        config = AttentiveConfig(attention=kind, **self._settings)
        model = initialise_model(config, seed, self._vectors).to(self._loaded.device)
        recipe = replace(self._recipe, seed=seed)
        cross_entropy = build_cross_entropy(self._rows, config.num_labels, recipe)
        scores = _FixedScores()
        if guide is not None:
            model.attention.scores = scores

        def loss(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
            if guide is not None:
                scores.set_weights(guide.train, batch, numbers)
            return cross_entropy(model, batch, truth, numbers)

        fit(model, self._rows, recipe, pad_id=_PAD_ID, loss=loss)
        passes = _RNN_PASS_COST if self._is_rnn else _TRANSFORMER_PASS_COST
        tick(passes * TRAINING_PASS * len(self._rows) * recipe.epochs)
        prepare = None if guide is None else partial(scores.set_weights, guide.test)
        logits = predict_logits(model, self._items, pad_id=_PAD_ID, prepare=prepare)
        predicted: Labels = logits.argmax(1)
        return predicted

    def _list_words(self, subject: AuditSubject) -> list[tuple[list[int], int]]:
        """Return each example's ids, the content and then the query if there is one, and how many are content."""
        words = []
        for item, content in zip(subject.items, subject.content, strict=True):
            places = content.tolist()
            if self._query:
                second = (p for p, t in enumerate(item.tokens) if t.segment == 1 and not t.special)
                places += second
            words.append(([item.ids[place] for place in places], len(content)))
        return words

    def _renumber_words(self, words: Sequence[int], content: int) -> EncodedInput:
        """Number the words consecutively, without special tokens."""
        ids = tuple(self._words.get(word, _UNKNOWN_ID) for word in words)
        features = {"input_ids": ids, "attention_mask": (1,) * len(ids)}
        if self._query:
            features["token_type_ids"] = (0,) * content + (1,) * (len(ids) - content)
        return EncodedInput(features, (), (), InputText(None))


def _count_calls(plan: AuditCostEstimate, params: Mapping[str, Any]) -> float:
    """Return the estimated forward passes: one per training example, and those of small models."""
    share = _RNN_PASS_COST if plan.layers == 1 else _TRANSFORMER_PASS_COST
    epochs = Recipe().count_epochs(plan.train, _MIN_STEPS)
    trained = count_training_passes(plan.train, 1) * epochs * params["runs"] * len(_ARMS)
    return float(plan.train + share * trained)


@experiment(
    "guides",
    hypothesis="The model's attention points at words that tell the label: a model without context that is told to "
    "look there does better than one that looks everywhere alike.",
    measure="mean over examples of right (1) or wrong (0) of a model without context guided by the model's "
    "attention, less that of one with uniform weights: the difference of their accuracies",
    threshold=0.01,
    direction="above",
    labels=True,
    trains=True,
    calls=_count_calls,
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="single words tell the label so well that the model without context needs no guide; or what "
    "matters is how words stand together, which a model without context cannot see wherever it looks",
)
def guides(
    subject: AuditSubject,
    *,
    runs: Annotated[int, Range(1, 100)] = 3,
    vectors: VectorSource = "model",
) -> Finding:
    """Train a model without context whose attention is fixed to uniform, to the model's, or to the adversary's.

    `runs`: how often each is trained, from another seed each time; the effect is the mean. `vectors`: the word
    vectors that all start from: the model's own table, or drawn ones, which need many more examples. Beside these,
    one learns its attention with the rest. The adversary is the one that trained_adversary found, if that was part of
    the audit: where it guides as well as the model, its attention is as good an explanation.
    """
    workshop, truth = subject.workshop, subject.known_truth
    assert workshop is not None, "an experiment that trains is not run without a workshop"
    training = workshop.build_training_subject(subject)
    guided = ContextFreeTrainer(subject, workshop, vectors)
    arms: dict[str, Literal["uniform", "tanh"] | AttentionGuide] = {
        "uniform": "uniform",
        "learned": "tanh",
        "guide": AttentionGuide(training.attention(), subject.attention()),
    }
    adversary = subject.memo.get("adversary")
    if adversary is not None:
        arms["adversary"] = AttentionGuide(
            adversary.apply_to(training).attention(), adversary.apply_to(subject).attention()
        )
    predictions: dict[str, list[Labels]] = {name: [] for name in arms}
    for seed in workshop.list_seeds(runs):
        for name, arm in arms.items():
            predictions[name].append(guided.train_and_predict(seed, arm, subject.tick))
    right = {
        name: np.mean([row == truth for row in rows], axis=0) for name, rows in predictions.items()
    }
    values = right["guide"] - right["uniform"]
    detail: dict[str, Any] = {
        name: {
            "accuracy": summarise(right[name], "accuracy", name, subject.seed),
            "f1": _average_intervals(
                [summarise_performance(subject, row, name)["f1"] for row in rows]
            ),
        }
        for name, rows in predictions.items()
    }
    for name in set(arms) - {"uniform", "guide"}:
        gain = right[name] - right["uniform"]
        detail[name]["gain"] = summarise(gain, "gain", name, subject.seed)
    return Finding(
        values,
        by_class=group_by_class(subject, values),
        chance=0.0,
        detail=detail,
        plots=[
            build_bars(
                "A model without context, told where to look",
                "accuracy",
                [(_ARMS[name], arm["accuracy"]) for name, arm in detail.items()],
            )
        ],
        notes=["The interval is over examples; the accuracies are means over the runs."],
        undecided=_explain_undecided(detail, truth),
    )


def _average_intervals(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of several figures of the same examples, and of the ends of their intervals."""
    ends = [figure["interval"] for figure in figures if figure["interval"]]
    interval = [float(np.mean([end[at] for end in ends])) for at in (0, 1)] if ends else None
    mean = float(np.mean([figure["mean"] for figure in figures]))
    return {"mean": mean, "interval": interval, "n": figures[0]["n"]}


def _explain_undecided(detail: dict[str, Any], truth: Labels) -> str | None:
    """Return why there is no verdict, if no model is clearly better than the commonest label."""
    commonest = float(np.bincount(truth).max() / len(truth))
    best = max((arm["accuracy"] for arm in detail.values()), key=lambda accuracy: accuracy["mean"])
    if best["interval"] is None or best["interval"][0] > commonest:
        return None
    return (
        f"No model without context does better than always saying the commonest label ({commonest:.2f}), wherever it "
        "looks: guides cannot be told apart. Give more training examples."
    )
