"""Equal to the code of Jain & Wallace on three sentences: the adversary, from the same random numbers.

Theirs is float32, and so is ours here. Each of 500 steps moves a score by at most 0.01, in the direction that Adam
finds: a rounding of 6e-8 in a slope changes that by as little, unless a distance just crosses epsilon, which then
shows in the next step and is undone. Left is the rounding of 500 steps, some 1e-6 if it all went one way.
"""

import numpy as np
import pytest
import torch

import whence
from tests.audit_subjects import subject_of
from tests.parity.test_jain_wallace import golden, model_of
from whence.models.rnn import build_word_tokenizer
from whence.studies.audit.adversary import SearchOptions, optimise_attention
from whence.studies.audit.attention_variants import build_inserter, jsd, normalise_movable, tvd

ROUNDED = {"rtol": 0, "atol": 2e-6}
SEED, EPSILON = 3, 0.05  # theirs


@pytest.fixture(scope="module", params=["tanh", "dot"])
def case(request):
    return golden()[request.param]


@pytest.fixture(scope="module")
def subject(case):
    # The words of their vocabulary, 4 to 11, are letters here.
    letters = "efghijkl"
    explainer = whence.load(
        model_of(case).float(), tokenizer=build_word_tokenizer([" ".join(letters)])
    )
    texts = [" ".join(letters[identity - 4] for identity in ids[1:-1]) for ids in case["X"]]
    subject = subject_of(explainer, texts, None)
    assert [list(item.ids) for item in subject.items] == case["X"]
    return subject


@pytest.fixture(scope="module")
def found(subject):
    """Return divergences and distances, (sentences, candidates), from their noise."""
    noise = torch.randn(3, 5, 9, generator=torch.Generator().manual_seed(SEED))
    (replayed,) = subject.build_replays(copies=5)
    order = torch.tensor(replayed.numbers)
    parts = optimise_attention(
        replayed, noise[order][:, :, None, None], SearchOptions(), "single_label"
    )
    own = normalise_movable(replayed.own, replayed.movable)[:, None]
    answers = replayed(build_inserter(replayed.own, replayed.movable)(parts)).detach()
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
