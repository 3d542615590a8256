"""Small labelled inputs and small models for tests of training, and a comparison of their weights."""

import torch

from tests import zoo
from whence.core.seed import build_generator
from whence.core.types import InputText
from whence.data.tokens import EncodedInput
from whence.models.rnn import AttentiveConfig, initialise_model
from whence.studies.training.performance import LabelledInput
from whence.studies.training.recipe import Recipe

WORD = 5  # tells the label: it stands in every text of the second one


def row(ids, label):
    ids = tuple(ids)
    return LabelledInput(
        EncodedInput(
            {"input_ids": ids, "attention_mask": (1,) * len(ids)}, (), (), InputText(None)
        ),
        label,
    )


def texts(n=24, seed=0, vocabulary=20):
    """Make texts of which every second one has the word that counts."""
    rng = build_generator("texts", seed)
    rows = []
    for number in range(n):
        words = [int(w) for w in rng.integers(6, vocabulary, int(rng.integers(2, 8)))]
        if number % 2:
            words[int(rng.integers(len(words)))] = WORD
        rows.append(row([2, *words, 3], number % 2))
    return rows


def attentive(seed=0, encoder="average", labels=2, **others):
    config = AttentiveConfig(
        vocab_size=20, embedding_size=4, hidden_size=6, encoder=encoder, num_labels=labels, **others
    )
    return initialise_model(config, seed)


def bert():
    """Build a Transformer with dropout."""
    model = zoo.make("bert", dtype=torch.float32)
    model.config.num_labels = 3
    assert any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in model.modules())
    return model


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


QUICK = Recipe(epochs=4, batch_size=5, learning_rate=0.05)
