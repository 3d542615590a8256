"""Repeats of a trial under a change: a batch is repeated at once, and equals the repeats of single inputs."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

import whence
from tests.contract.state import assert_unchanged, snapshot
from tests.model_inputs import record_model_inputs
from whence.metrics._requests import Beside, Dropout, Noise, OtherClass, Padded, Randomised
from whence.tracing.ask import count_forwards

TEXTS = [
    "a gripping film that never ends",
    "the plot is thin",
    "I laughed once, and then I left",
]
METHODS = ["attcat", "transformer_attribution", "leave_one_out", "integrated_gradients"]
FEW = {"integrated_gradients": {"steps": 4}}
TOGETHER = [Noise(0.05, 3), Randomised(2, 1), Dropout(4), OtherClass()]
ALONE = [Padded(3), Beside()]


@pytest.fixture(scope="module")
def explainer():
    found = whence.load("reviews", dtype="float64")
    found.predict(TEXTS)  # finds out, once, that the model takes several lengths in one batch
    return found


def trials(explainer, texts, **options):
    found = explainer.trials(texts, method=METHODS, params=FEW, **options)
    return {number: trial for number, trial, _ in found}


@pytest.mark.parametrize("change", TOGETHER + ALONE, ids=str)
@pytest.mark.parametrize("target", [None, "negative", ("positive", "negative")], ids=str)
def test_trial_repeats_of_a_batch_equal_repeats_of_single_inputs(explainer, change, target):
    together = trials(explainer, TEXTS, target=target)
    for number, text in enumerate(TEXTS):
        (alone,) = trials(explainer, [text], target=target).values()
        found, expected = together[number].again(change), alone.again(change)
        assert found.predicted == expected.predicted
        assert found.why_not == expected.why_not
        # The same operations in another order of summation, and relevance divides by small sums.
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-7, atol=1e-10)
        assert together[number].again.passes == alone.again.passes


@pytest.mark.parametrize("change", TOGETHER, ids=str)
def test_trial_repeat_for_one_input_serves_the_whole_batch_without_more_passes(explainer, change):
    found = trials(explainer, TEXTS)
    before = snapshot(explainer.model)
    with record_model_inputs(explainer.model) as asked:
        first = found[0].again(change)
        made = len(asked)
        assert made > len(TEXTS)
        for number in (0, 1, 2):
            found[number].again(change)
        assert len(asked) == made
    assert_unchanged(before, snapshot(explainer.model))
    assert np.isfinite(first.scores).all()
    assert sum(found[n].again.passes.forward for n in found) == made


def test_trust_of_an_unregistered_method_runs_no_forward_pass_and_gives_the_reason(explainer):
    explanation = replace(explainer.explain(TEXTS[0]), method="mine", params={})
    with record_model_inputs(explainer.model) as asked:
        card = explanation.trust(budget=1)
    assert not asked
    assert card.test("stability")["why"] == ("It cannot be made again: there is no method 'mine'.")


def test_count_forwards_ignores_passes_of_another_thread(explainer):
    with count_forwards(explainer.model) as runs:
        other = Thread(target=explainer.predict, args=(TEXTS,))
        other.start()
        other.join()
        assert runs.forward == 0
        explainer.predict(TEXTS)
        assert runs.forward == len(TEXTS)
