"""A trial: how ties are put in order, what its nulls keep, and which variants are the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.remade import PREDICTED, remade
from whence.capture import Answers
from whence.capture.changed.altered import randomised, stages
from whence.core.types import Source
from whence.data import Encoded, Policy
from whence.explainer.verify.again import Remaker
from whence.stats.interval import Percentile
from whence.stats.together import sign_flips
from whence.trial import OtherClass, Randomised
from whence.trust.rules import RULES, Found


def test_ties_are_in_no_order_of_the_text_and_in_the_same_for_all():
    units = 12
    scores = np.zeros((2, units))
    scores[1, 3] = 1
    orders = remade(scores).orders
    assert sorted(orders[0]) == list(range(units))
    assert list(orders[0]) != list(range(units)) and list(orders[0]) != list(range(units))[::-1]
    assert orders[1][0] == 3
    assert [one for one in orders[1] if one != 3] == [one for one in orders[0] if one != 3]


def test_shuffles_keep_what_kind_of_scores_they_are():
    trial = replace(remade([[1, 2, 3], [4, 5, 6]]), signed=(True, False))
    assert trial.shuffled(0, 3).signed == (True,) * 3
    assert trial.shuffled(1, 2).signed == (False,) * 2


def test_a_cascade_has_one_unrelated_explanation():
    """Its stages share their lower layers, so that the mean over them scatters like one of them."""
    scores = list(range(8))
    trial = remade(scores, lambda _: ([scores], PREDICTED), stages=("head", "layer", "embeddings"))
    null = trial.shuffled(0, 5)
    first, last = (null.again(Randomised(stage, 0)).scores for stage in (0, 2))
    np.testing.assert_array_equal(first, last)
    assert (null.again(Randomised(0, 1)).scores != first).any()


def test_what_ranks_nothing_is_not_made_again_for_its_null():
    trial = remade([2, 2, 2], lambda _: ([[1, 2, 3]], PREDICTED))
    trial.shuffled(0, 3).again(OtherClass())
    assert trial.again.asked == []


def test_the_same_ids_in_another_segment_are_another_input():
    model = zoo.make("bert")
    device = torch.device("cpu")
    answers = Answers(model, pad_id=0, device=device, policy=Policy(8, 512))

    def item(segments):
        features = {
            "input_ids": (2, 5, 6, 3),
            "attention_mask": (1,) * 4,
            "token_type_ids": segments,
        }
        return Encoded(features, (), (), Source(None))

    one, other = answers([item((0, 0, 0, 0)), item((0, 0, 1, 1))])
    assert answers.forwards == 2
    assert not torch.equal(one, other)
    answers([item((0, 0, 1, 1))])
    assert answers.forwards == 2


def test_random_weights_lie_about_where_the_old_ones_did():
    model = zoo.make("bert")
    norm = model.bert.encoder.layer[0].output.LayerNorm.weight
    with torch.no_grad():
        norm.copy_(5 + 0.1 * torch.arange(len(norm)) / len(norm))
    with randomised(model, len(stages(model)) - 1, 0):
        # Weights from 5 to 5.1 deviate by 0.03; the mean of 32 or more draws by 0.005, and a tenth is far off.
        assert abs(float(norm.detach().mean()) - 5.05) < 0.1


def test_neighbours_are_of_another_length_too():
    explainer = whence.load("reviews")
    found = explainer.explain("a film about nothing much at all").item
    policy = Policy(64, 1024, mixed=True)
    lengths = [len(item) for item in Remaker(explainer.loaded, policy)._neighbours(found)]
    assert lengths == [len(found), len(found) // 2]


@pytest.mark.parametrize(
    ("chance", "verdict"), [(0.05, "holds"), (0.0501, "weak"), (0.25, "weak"), (0.2501, "fails")]
)
def test_the_bars_belong_to_the_better_verdict(chance, verdict):
    place = Percentile(90.0, 80.0, 95.0, 90, 0, 100)
    found, _ = RULES[0].judge(Found(0.5, None, place, chance))
    assert found == verdict


def test_no_p_value_of_a_sample_is_zero():
    """Forty gains of one sign: no draw of signs does as well, and the data themselves count as one."""
    (p,) = sign_flips(np.ones((40, 1)), ("test",), 999)
    assert p == pytest.approx(1 / 1000)
