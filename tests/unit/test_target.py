"""Targets: labels, indices, ranks, contrasts, and clear answers to anything else."""

import numpy as np
import pytest
import torch

from whence.capture.target import Targets, TargetSpec, finite, predictions
from whence.core.errors import BadParameter, NotFinite, UnknownTarget

LABELS = ("negative", "neutral", "positive")
LOGITS = torch.tensor([[0.0, 1.0, 3.0], [2.0, 1.0, 0.0]], dtype=torch.float64)


def value(asked, of="logit", logits=LOGITS):
    spec = TargetSpec.parse(asked, LABELS, of)
    return Targets(*spec.resolve(logits), spec, "single_label").value(logits).tolist()


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (None, [3, 2]),
        ("predicted", [3, 2]),
        ("runner-up", [1, 1]),
        ("neutral", [1, 1]),
        (2, [3, 0]),
        ("2", [3, 0]),
        (("positive", "negative"), [3, -2]),
        (["positive", 0], [3, -2]),
        ("positive:negative", [3, -2]),
        (("predicted", "runner-up"), [2, 1]),
        (np.int64(2), [3, 0]),
        (torch.tensor(2), [3, 0]),
    ],
)
def test_what_can_be_asked_for(asked, wanted):
    assert value(asked) == wanted


def test_probability():
    assert value("positive", of="probability") == LOGITS.softmax(-1)[:, 2].tolist()


def test_a_tie_goes_to_the_first_label():
    assert TargetSpec.parse(None, LABELS).resolve(torch.zeros(1, 3))[0].tolist() == [0]


@pytest.mark.parametrize(
    "asked",
    [
        "positiv",
        3,
        -1,
        "7",
        "²",
        "--5",
        True,
        1.5,
        ("positive",),
        ("positive", "positive"),
        object(),
    ],
)
def test_what_cannot(asked):
    with pytest.raises(UnknownTarget):
        TargetSpec.parse(asked, LABELS)


def test_the_labels_are_listed():
    with pytest.raises(
        UnknownTarget, match=r"Did you mean 'positive'. The labels are 0 'negative', 1 'neutral'"
    ):
        TargetSpec.parse("positiv", LABELS)
    with pytest.raises(UnknownTarget, match="one output"):
        TargetSpec.parse("runner-up", ("score",))
    with pytest.raises(BadParameter, match="'logit' or 'probability'"):
        TargetSpec.parse(None, LABELS, "odds")


def test_a_label_with_a_colon_is_a_label():
    assert TargetSpec.parse("a:b", ("a:b", "c")).main == 0
    spec = TargetSpec.parse("a:b:c:d", ("x", "c:d", "a:b"))
    assert (spec.main, spec.against) == (2, 1)


def test_not_finite():
    with pytest.raises(NotFinite, match="nan"):
        finite(torch.tensor([[1.0, float("nan")]]), "logits")


def test_tasks():
    (said,) = predictions(torch.tensor([[1.0, -1.0]]), "multi_label", ("a", "b"))
    assert said.probabilities["a"] == pytest.approx(torch.tensor(1.0).sigmoid().item())
    (said,) = predictions(torch.tensor([[2.5]]), "regression", ("score",))
    assert said.probability is None
    assert said.logits == (2.5,)


def test_what_is_predicted_is_what_is_explained_also_when_saturated():
    logits = torch.tensor([[40.0, 50.0, 0.0]])
    (said,) = predictions(logits, "multi_label", LABELS)
    assert said.index == int(TargetSpec.parse(None, LABELS).resolve(logits)[0])
