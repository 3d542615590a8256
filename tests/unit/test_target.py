"""Targets: labels, indices, ranks, contrasts and lists are resolved, and anything else is refused."""

import numpy as np
import pytest
import torch

import whence
from whence.core.errors import BadParameter, BadPlan, NotFinite, UnknownTarget
from whence.tracing.target import ResolvedTargets, TargetSpec, build_predictions, check_finite

LABELS = ("negative", "neutral", "positive")
LOGITS = torch.tensor([[0.0, 1.0, 3.0], [2.0, 1.0, 0.0]], dtype=torch.float64)


def value(asked, of="logit", logits=LOGITS):
    spec = TargetSpec.parse(asked, LABELS, of)
    return ResolvedTargets(*spec.resolve(logits), spec, "single_label").value(logits).tolist()


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
        (("positive", 0), [3, -2]),
        ("positive:negative", [3, -2]),
        (("predicted", "runner-up"), [2, 1]),
        (np.int64(2), [3, 0]),
        (torch.tensor(2), [3, 0]),
    ],
)
def test_target_spec_resolves_labels_indices_ranks_and_contrasts(asked, wanted):
    assert value(asked) == wanted


def test_value_of_a_probability_target_is_the_softmax():
    assert value("positive", of="probability") == LOGITS.softmax(-1)[:, 2].tolist()


def test_predicted_target_of_tied_logits_is_the_first_label():
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
        ["positive", "negative"],  # one each, and there is one input
        object(),
    ],
)
def test_target_spec_parse_of_an_invalid_target_raises_unknown_target(asked):
    with pytest.raises(UnknownTarget):
        TargetSpec.parse(asked, LABELS)


def test_target_spec_errors_list_the_labels_and_allowed_values():
    with pytest.raises(
        UnknownTarget, match=r"Did you mean 'positive'. The labels are 0 'negative', 1 'neutral'"
    ):
        TargetSpec.parse("positiv", LABELS)
    with pytest.raises(UnknownTarget, match="one output"):
        TargetSpec.parse("runner-up", ("score",))
    with pytest.raises(BadParameter, match="'logit' or 'probability'"):
        TargetSpec.parse(None, LABELS, "odds")


def test_target_spec_parses_labels_that_contain_a_colon():
    assert TargetSpec.parse("a:b", ("a:b", "c")).main == 0
    spec = TargetSpec.parse("a:b:c:d", ("x", "c:d", "a:b"))
    assert (spec.main, spec.against) == (2, 1)


def test_check_finite_of_nan_logits_raises_not_finite():
    with pytest.raises(NotFinite, match="nan"):
        check_finite(torch.tensor([[1.0, float("nan")]]), "logits")


def test_build_predictions_uses_sigmoid_for_multi_label_and_no_probability_for_regression():
    (said,) = build_predictions(torch.tensor([[1.0, -1.0]]), "multi_label", ("a", "b"))
    assert said.probabilities["a"] == pytest.approx(torch.tensor(1.0).sigmoid().item())
    (said,) = build_predictions(torch.tensor([[2.5]]), "regression", ("score",))
    assert said.probability is None
    assert said.logits == (2.5,)


def test_predicted_index_equals_the_default_target_for_saturated_multi_label_logits():
    logits = torch.tensor([[40.0, 50.0, 0.0]])
    (said,) = build_predictions(logits, "multi_label", LABELS)
    assert said.index == int(TargetSpec.parse(None, LABELS).resolve(logits)[0])


TEXTS = ["a good film", "a bad film", "thin"]
MANY = ["negative", ("positive", "negative"), 1]


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews")


def test_explain_with_a_list_of_targets_equals_single_explanations(reviews):
    found = reviews.explain(TEXTS, target=MANY, method="grad_x_input")
    alone = [
        reviews.explain(text, target=target, method="grad_x_input")
        for text, target in zip(TEXTS, MANY, strict=True)
    ]
    assert [str(one.target) for one in found] == [
        *("negative", "positive rather than negative", "positive"),
    ]
    for one, other in zip(found, alone, strict=True):
        # float32: padding and the other batch change only the last bits.
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


@pytest.mark.parametrize("asked", [[1, 0], np.array([1, 0]), torch.tensor([1, 0])])
def test_explain_takes_one_target_per_text_from_a_list_array_or_tensor(reviews, asked):
    found = reviews.explain(TEXTS[:2], target=asked, method="gradient")
    assert [one.target.index for one in found] == [1, 0]
    assert reviews.explain(TEXTS[0], target=["negative"]).target.label == "negative"
    assert reviews.explain([], target=[]) == []


def test_trials_with_a_failing_input_and_evaluate_take_one_target_per_input(reviews):
    texts, asked, failed = ["a good film", "", "a bad film"], ["negative", 0, "positive"], []
    found = reviews.trials(
        texts, method=["gradient"], target=asked, failed=lambda number, *_: failed.append(number)
    )
    assert {number: str(one["gradient"].target) for number, _, one in found} == {
        0: "negative",
        2: "positive",
    }
    assert failed == [1]
    table = whence.evaluate(reviews, TEXTS[:2], ["gradient"], ["sufficiency"], target=[0, 1])
    assert table.to_dict()["setting"]["target"] == {"each": [0, 1]}
    assert table.to_dict()["examples"]["explained"] == 2


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda e: e.explain(TEXTS, target=["positive", "negative"]), "list of 2.* are 3 inputs"),
        (lambda e: e.explain(TEXTS[0], target=["positive", "negative"]), "is 1 input.*tuple"),
        (lambda e: e.explain(TEXTS[:2], target=[["positive", "negative"], 1]), "has the list"),
        (lambda e: e.trust(TEXTS[0], target=["positive", "negative"]), "is a tuple"),
        (lambda e: e.inside(TEXTS[0], target=["positive", "negative"]), "is a tuple"),
        (lambda e: e.trace(TEXTS[:2], target=["positive", "negative"]), "have one target"),
        (lambda e: whence.evaluate(e, TEXTS, ["gradient"], target=[0]), "are 3 inputs"),
        (
            lambda e: whence.run(model="reviews", data="a.tsv", out="none", target=["a", "b"]),
            "which is a tuple",
        ),
    ],
)
def test_list_of_targets_of_wrong_length_or_place_is_refused_with_advice(reviews, ask, why):
    with pytest.raises((BadParameter, BadPlan), match=why):
        ask(reviews)
