"""Explaining again: what one input of a batch asks for is made for all, and is what each would get alone."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

import whence
from tests.asked import listening
from tests.contract.state import assert_unchanged, snapshot
from whence.capture.asking.counted import counted
from whence.trial import Beside, Dropout, Noise, OtherClass, Padded, Randomised

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
def test_a_batch_is_made_again_as_its_inputs_one_by_one(explainer, change, target):
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
def test_what_one_asks_for_is_made_for_all(explainer, change):
    found = trials(explainer, TEXTS)
    before = snapshot(explainer.model)
    with listening(explainer.model) as asked:
        first = found[0].again(change)
        made = len(asked)
        assert made > len(TEXTS)
        for number in (0, 1, 2):
            found[number].again(change)
        assert len(asked) == made
    assert_unchanged(before, snapshot(explainer.model))
    assert np.isfinite(first.scores).all()
    assert sum(found[n].again.passes.forward for n in found) == made


def test_what_cannot_be_made_again_asks_nothing(explainer):
    explanation = replace(explainer.explain(TEXTS[0]), method="mine", params={})
    with listening(explainer.model) as asked:
        card = explanation.trust(budget=1)
    assert not asked
    assert card.test("stability")["why"] == ("It cannot be made again: there is no method 'mine'.")


def test_passes_of_another_thread_are_not_counted(explainer):
    with counted(explainer.model) as runs:
        other = Thread(target=explainer.predict, args=(TEXTS,))
        other.start()
        other.join()
        assert runs.forward == 0
        explainer.predict(TEXTS)
        assert runs.forward == len(TEXTS)
