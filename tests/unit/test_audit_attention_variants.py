"""Attention variants of an audit: distances of distributions and exchanged weights, by hand and against scipy."""

from math import log

import numpy as np
import pytest
import scipy.spatial
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit_subjects import TEXTS, attentive, reviews, subject_of
from whence.explain.explainer import Explainer
from whence.studies.audit.attention_variants import (
    average_reads,
    build_inserter,
    build_last_token,
    build_uniform,
    draw_permutations,
    draw_random_weights,
    entropy,
    jsd,
    kl,
    normalise_movable,
    permute_weights,
    replay_copies,
    replay_permutations,
    tvd,
)

# 1e-10 under a logarithm moves a term p log p by at most 1e-10, and there are eight.
UNDER_LOG = 1e-9


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def distributions(draw):
    """Two distributions over two to eight places, some of them empty."""
    n = draw(st.integers(2, 8))
    row = st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any)
    return [np.array(one) / sum(one) for one in (draw(row), draw(row))]


# Distances


def test_tvd_equals_values_computed_by_hand_for_both_tasks():
    # Half of |0.7 - 0.4| + |0.2 - 0.5| + |0.1 - 0.1| = 0.6.
    p, q = tensor(0.7, 0.2, 0.1), tensor(0.4, 0.5, 0.1)
    assert float(tvd(p, q, "single_label")) == pytest.approx(0.3)
    # Three labels of their own: the mean of 0.3, 0.3 and 0.
    assert float(tvd(p, q, "multi_label")) == pytest.approx(0.2)
    # Two labels that exclude each other move by the same: the distance is that of either.
    assert float(tvd(tensor(0.9, 0.1), tensor(0.65, 0.35), "single_label")) == pytest.approx(0.25)


def test_kl_jsd_and_entropy_equal_values_computed_by_hand():
    # KL = 1 log(1 / 0.5); the middle of (1, 0) and (0.5, 0.5) is (0.75, 0.25).
    p, q = tensor(1, 0), tensor(0.5, 0.5)
    assert float(kl(p, q)) == pytest.approx(log(2), abs=UNDER_LOG)
    wanted = (log(1 / 0.75) + 0.5 * log(0.5 / 0.75) + 0.5 * log(0.5 / 0.25)) / 2
    assert float(jsd(p, q)) == pytest.approx(wanted, abs=UNDER_LOG)
    # Nothing in common: log 2, the most there is. The same: nothing.
    assert float(jsd(tensor(1, 0), tensor(0, 1))) == pytest.approx(log(2), abs=UNDER_LOG)
    assert float(jsd(q, q)) == 0
    assert float(entropy(q)) == pytest.approx(log(2), abs=UNDER_LOG)
    assert float(entropy(p)) == 0
    # What is not in q at all costs log 1e-10, not infinity: Jain and Wallace's convention.
    assert float(kl(tensor(0, 1), tensor(1, 0))) == pytest.approx(10 * log(10), rel=1e-9)


@given(distributions())
@settings(deadline=None)
def test_jsd_kl_and_entropy_equal_those_of_scipy(pair):
    p, q = (torch.from_numpy(one) for one in pair)
    wanted = scipy.spatial.distance.jensenshannon(*pair) ** 2
    assert float(jsd(p, q)) == pytest.approx(wanted, abs=UNDER_LOG)
    assert float(jsd(p, q)) == pytest.approx(float(jsd(q, p)), abs=1e-15)
    assert 0 <= float(jsd(p, q)) <= log(2) + UNDER_LOG
    assert float(entropy(p)) == pytest.approx(scipy.stats.entropy(pair[0]), abs=UNDER_LOG)
    if (pair[1] > 0).all():
        # Here the logarithm of 1 / 64 or more is moved by 64e-10 at most.
        assert float(kl(p, q)) == pytest.approx(scipy.stats.entropy(*pair), abs=1e-8)


def test_kl_jsd_tvd_and_entropy_pass_gradcheck():
    p = tensor(0.2, 0.5, 0.3).requires_grad_()
    q = tensor(0.6, 0.3, 0.1)
    for distance in (kl, jsd, lambda a, b: tvd(a, b, "single_label"), lambda a, _: entropy(a)):
        assert torch.autograd.gradcheck(lambda a, f=distance: f(a, q), (p,))


def test_average_reads_weighs_reads_by_their_shares():
    # One row, one copy, two channels, two reads of shares 0.75 and 0.25: channel means (2, 5) -> 1.5 + 1.25.
    values = tensor([[[1.0, 4.0], [3.0, 6.0]]])
    assert average_reads(values, tensor([0.75, 0.25])).tolist() == [[2.75]]


# Moving weights


def test_build_inserter_replaces_movable_weights_and_leaves_the_others():
    own = tensor([[[0.5, 0.1, 0.3, 0.1]]])  # one row, one channel, one read
    movable = torch.tensor([[False, True, True, False]])
    torch.testing.assert_close(normalise_movable(own, movable), tensor([[[0, 0.25, 0.75, 0]]]))
    # 0.4 is moved, and 0.6 stays: 0.5 on the first place and 0.1 on the last.
    other = tensor([[[[0, 0.5, 0.5, 0]]], [[[0, 1, 0, 0]]]])
    found = build_inserter(own, movable)(other)
    assert found.shape == (1, 2, 1, 1, 4)
    wanted = tensor([0.5, 0.2, 0.2, 0.1], [0.5, 0.4, 0, 0.1])
    torch.testing.assert_close(found[0, :, 0, 0], wanted)
    # Back to its own.
    torch.testing.assert_close(
        build_inserter(own, movable)(normalise_movable(own, movable)[:, None])[:, 0], own
    )


def test_normalise_movable_without_movable_weight_is_uniform():
    own = tensor([[[1, 0, 0, 0]]])
    movable = torch.tensor([[False, True, True, False]])
    assert normalise_movable(own, movable).tolist() == [[[[0, 0.5, 0.5, 0]]]]


def test_build_uniform_and_build_last_token_use_movable_positions_only():
    free = tensor([0, 1, 1, 0], [1, 1, 1, 1])
    assert build_uniform(free).tolist() == [[0, 0.5, 0.5, 0], [0.25] * 4]
    assert build_last_token(free).tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]


def test_permute_weights_moves_all_channels_by_the_same_index():
    # Place 1 gets what place 2 had, and the other way round; two channels in the same way.
    own = tensor([[[0.5, 0.1, 0.3, 0.1]], [[0.2, 0.4, 0.3, 0.1]]])
    index = torch.tensor([[[0, 2, 1, 3]]])
    assert permute_weights(own, index).tolist() == [
        [[[[0.5, 0.3, 0.1, 0.1]], [[0.2, 0.3, 0.4, 0.1]]]]
    ]


@pytest.fixture(scope="module", params=["reviews", "attentive"])
def subject(request):
    return subject_of(reviews() if request.param == "reviews" else attentive())


def test_draw_permutations_permutes_movable_positions_only(subject):
    for replayed in subject.build_replays(copies=2):
        drawn = draw_permutations(subject, replayed, 50)
        places = torch.arange(drawn.shape[-1])
        stays = ~replayed.movable[:, None].expand(drawn.shape)
        assert torch.equal(drawn.sort(-1).values, places.expand(drawn.shape))
        assert torch.equal(drawn[stays], places.expand(drawn.shape)[stays])
        assert (drawn != places).any(-1).any(-1).all()  # and they do move


def test_draw_permutations_draws_both_orders_of_two_words_equally_often(subject):
    """Two words have two orders: of 400 draws about half are the second, give or take five standard errors of 10."""
    few = subject_of(Explainer(subject.loaded), ["a mess"], None)
    (replayed,) = few.build_replays()
    drawn = draw_permutations(few, replayed, 400)[0]
    moved = (drawn != torch.arange(drawn.shape[-1])).any(-1).sum()
    assert 150 <= moved <= 250


def test_draw_random_weights_is_uniform_on_the_simplex(subject):
    """The largest of n even shares is (1 + 1/2 + ... + 1/n) / n in the mean, and each is 1 / n."""
    few = subject_of(Explainer(subject.loaded), ["not bad at all"], None)
    (replayed,) = few.build_replays()
    found = draw_random_weights(few, replayed, 4000)[0, :, 0, 0]
    found = found[:, replayed.movable[0]]
    n = found.shape[1]
    torch.testing.assert_close(found.sum(-1), torch.ones(4000, dtype=found.dtype))
    # The spread of a share is below 1 / n: five standard errors of 4000 draws are 0.08 / n.
    np.testing.assert_allclose(found.mean(0), 1 / n, atol=0.08 / n)
    wanted = sum(1 / k for k in range(1, n + 1)) / n
    assert float(found.max(1).values.mean()) == pytest.approx(wanted, abs=0.08 / n)


def test_drawn_permutations_and_weights_do_not_depend_on_the_batch(subject):
    together = {}
    for replayed in subject.build_replays(copies=1):
        for row, number in enumerate(replayed.numbers):
            free = replayed.movable[row]
            drawn = draw_permutations(subject, replayed, 3)[row][:, free]
            together[number] = (drawn, draw_random_weights(subject, replayed, 3)[row][..., free])
    for number, text in enumerate(TEXTS):
        alone = subject_of(Explainer(subject.loaded), [text], None)
        (replayed,) = alone.build_replays()
        free = replayed.movable[0]
        assert torch.equal(draw_permutations(alone, replayed, 3)[0][:, free], together[number][0])
        torch.testing.assert_close(
            draw_random_weights(alone, replayed, 3)[0][..., free],
            together[number][1],
            rtol=1e-14,
            atol=0,
        )


def test_replay_permutations_does_not_depend_on_copies_per_batch(subject):
    """Five copies at a time or one: the same answers, also where the last batch is not full."""
    answers = []
    for copies in (1, 5):
        found = {}
        for replayed in subject.build_replays(copies=copies):
            _, said = replay_permutations(subject, replayed, 7)
            found |= dict(zip(replayed.numbers, said, strict=True))
        answers.append(torch.stack([found[number] for number in range(len(TEXTS))]))
    # Probabilities in float64, summed in another order: a few units of rounding.
    torch.testing.assert_close(*answers, rtol=0, atol=1e-12)


def test_replay_copies_with_own_weights_gives_the_own_prediction(subject):
    for replayed in subject.build_replays(copies=3):
        frame = build_inserter(replayed.own, replayed.movable)
        own = normalise_movable(replayed.own, replayed.movable)[:, None].expand(-1, 4, -1, -1, -1)
        found = replay_copies(replayed, 4, lambda some, f=frame, o=own: f(o[:, some]))
        torch.testing.assert_close(
            found, replayed.base[:, None].expand(found.shape), rtol=0, atol=1e-12
        )
