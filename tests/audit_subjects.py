"""`AuditSubject`s for tests of audit experiments: six texts, read by `reviews` or an untrained attentive RNN."""

from functools import cache
from typing import Any

import numpy as np

import whence
from whence.explain.inputs import encode_inputs
from whence.models.rnn import AttentiveConfig, build_word_tokenizer, initialise_model
from whence.studies.audit.subject import AuditSubject

TEXTS = (
    "a gripping and wonderful film",
    "dull , dull and endless",
    "the plot is thin but the actors are great fun to watch",
    "I hated every minute of it",
    "not bad at all",
    "a mess",
)
TRUTH = (1, 0, 1, 0, 0, 0)


def subject_of(
    explainer: Any, texts: Any = TEXTS, truth: Any = TRUTH, **setting: Any
) -> AuditSubject:
    """Put a model before some texts."""
    items, _ = encode_inputs(list(texts), explainer.loaded, truncate=False)
    known = None if truth is None else np.array(truth)
    return AuditSubject(explainer.loaded, items, known, **setting)


@cache
def reviews() -> Any:
    """Return a built-in Transformer that reads reviews, in float64: what differs is more than rounding."""
    return whence.load("reviews", dtype="float64")


@cache
def attentive(
    encoder: str = "bilstm", labels: int = 2, query: bool = False, kind: str | None = None
) -> Any:
    """Return an untrained model of Jain and Wallace that knows the words of `TEXTS`, in float64.

    Its weights are larger than a fresh model's are, so that its answers are far apart.
    """
    tokenizer = build_word_tokenizer(TEXTS)
    config = AttentiveConfig(
        vocab_size=len(tokenizer),
        embedding_size=8,
        hidden_size=8,
        encoder=encoder,
        num_labels=labels,
        query=query,
        problem_type=kind,
    )
    model = initialise_model(config, 0).double()
    for weight in model.parameters():
        weight.data *= 2
    return whence.load(model, tokenizer=tokenizer)
