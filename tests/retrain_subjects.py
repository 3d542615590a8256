"""Audit subjects for retraining: tasks with a known answer, and small models trained on them."""

from functools import cache
from typing import Any

import numpy as np

import whence
from whence.core.seed import build_generator
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.explain.inputs import encode_inputs
from whence.models.rnn import AttentiveConfig, build_word_tokenizer, initialise_model
from whence.studies.audit.retrain import Retrainer
from whence.studies.audit.subject import AuditSubject
from whence.studies.training.fit import fit
from whence.studies.training.performance import LabelledInput
from whence.studies.training.recipe import Recipe

NOISE = [f"n{number}" for number in range(20)]
RECIPE = Recipe(epochs=10, batch_size=16, learning_rate=1e-2, seed=77)


def make_cue_examples(count: int, key: str) -> list[Example]:
    """One word of eight tells the label, and stands anywhere among noise."""
    draw, made = build_generator("cue", key), []
    for number in range(count):
        words = [str(one) for one in draw.choice(NOISE, 7)]
        words.insert(int(draw.integers(8)), ("bad", "good")[number % 2])
        made.append(Example(" ".join(words), ("no", "yes")[number % 2]))
    return made


def train_model(train: list[Example], recipe: Recipe = RECIPE, **parts: Any) -> Explainer:
    """Train a small model of Jain & Wallace."""
    texts = [
        text for one in train for text in ([one.given] if isinstance(one.given, str) else one.given)
    ]
    tokenizer = build_word_tokenizer(texts)
    config = AttentiveConfig(
        vocab_size=len(tokenizer),
        **{"embedding_size": 16, "hidden_size": 16, **parts},
        id2label={0: "no", 1: "yes"},
        training=recipe.to_dict(),
    )
    explainer = whence.load(initialise_model(config, recipe.seed), tokenizer=tokenizer)
    items = [encode_inputs(one.given, explainer.loaded, truncate=True)[0][0] for one in train]
    rows = [
        LabelledInput(item, int(one.label == "yes")) for item, one in zip(items, train, strict=True)
    ]
    fit(explainer.model, rows, recipe, pad_id=0)
    return explainer


def subject_of(
    explainer: Explainer, test: list[Example], train: list[Example], **how: Any
) -> AuditSubject:
    items = [encode_inputs(one.given, explainer.loaded, truncate=True)[0][0] for one in test]
    labels = list(explainer.labels)
    truth = np.array([labels.index(str(one.label)) for one in test])
    workshop = Retrainer(explainer.loaded, train, **how)
    return AuditSubject(explainer.loaded, items, truth, workshop=workshop)


@cache
def cue_model() -> Explainer:
    return train_model(make_cue_examples(96, "train"), encoder="average")


def cue_subject(**how: Any) -> AuditSubject:
    return subject_of(
        cue_model(), make_cue_examples(40, "test"), make_cue_examples(96, "train"), **how
    )


REVIEWS = [
    Example("a gripping and moving film", "positive"),
    Example("dull and far too long", "negative"),
    Example("the actors are wonderful here", "positive"),
    Example("a waste of time and money", "negative"),
    Example("funny and warm from the first scene", "positive"),
    Example("the plot makes no sense at all", "negative"),
]


def reviews_subject(**how: Any) -> AuditSubject:
    return subject_of(whence.load("reviews"), REVIEWS, REVIEWS, **how)
