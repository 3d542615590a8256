"""Equal to the code of Jain & Wallace on three sentences: the adversary, from the same random numbers.

Theirs is float32, and so is ours here. Each of 500 steps moves a score by at most 0.01, in the direction that Adam
finds: a rounding of 6e-8 in a slope changes that by as little, unless a distance just crosses epsilon, which then
shows in the next step and is undone. Left is the rounding of 500 steps, some 1e-6 if it all went one way.
"""

import numpy as np
import pytest
import torch

import whence
from tests.parity.test_jain_wallace import golden, model_of
from tests.subjects import subject_of
from whence.audit.adversary import Search, searched
from whence.audit.distance import jsd, tvd
from whence.audit.moving import framed, part
from whence.models.attentive import word_tokenizer

ROUNDED = {"rtol": 0, "atol": 2e-6}
SEED, EPSILON = 3, 0.05  # theirs


@pytest.fixture(scope="module", params=["tanh", "dot"])
def case(request):
    return golden()[request.param]


@pytest.fixture(scope="module")
def subject(case):
    # The words of their vocabulary, 4 to 11, are letters here.
    letters = "efghijkl"
    explainer = whence.load(model_of(case).float(), tokenizer=word_tokenizer([" ".join(letters)]))
    texts = [" ".join(letters[identity - 4] for identity in ids[1:-1]) for ids in case["X"]]
    subject = subject_of(explainer, texts, None)
    assert [list(item.ids) for item in subject.items] == case["X"]
    return subject


@pytest.fixture(scope="module")
def found(subject):
    """Return divergences and distances, (sentences, candidates), from their noise."""
    noise = torch.randn(3, 5, 9, generator=torch.Generator().manual_seed(SEED))
    (replayed,) = subject.replays(copies=5)
    order = torch.tensor(replayed.numbers)
    parts = searched(replayed, noise[order][:, :, None, None], Search(), "single_label")
    own = part(replayed.own, replayed.movable)[:, None]
    answers = replayed(framed(replayed.own, replayed.movable)(parts)).detach()
    back = order.argsort()
    apart = tvd(answers, replayed.base[:, None], "single_label")
    return jsd(parts, own)[back, :, 0, 0].numpy(), apart[back].numpy()


def test_divergences(case, found):
    theirs = [one["jsd"][:5] for one in case["adversarial"]]
    np.testing.assert_allclose(found[0], theirs, **ROUNDED)


def test_distances(case, found):
    theirs = [one["delta_y"][:5] for one in case["adversarial"]]
    np.testing.assert_allclose(found[1], theirs, **ROUNDED)


def test_the_farthest_that_counts(case, found):
    for far, moved, theirs in zip(*found, case["adversarial"], strict=True):
        kept = np.where(moved <= EPSILON, far, 0)
        assert kept.argmax() == theirs["best"]
        assert kept.max() == pytest.approx(theirs["max_jsd"], abs=ROUNDED["atol"])


def test_the_original_is_their_sixth_candidate(case):
    for one in case["adversarial"]:
        assert (one["jsd"][5], one["delta_y"][5]) == (0, 0)
