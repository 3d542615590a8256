"""Trials of metrics: ties, shuffled scores, nulls; also prediction cache, random weights, verdict bars, p-value."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.repeat_trials import PREDICTED, build_trial
from whence.core.types import InputText
from whence.data.batches import BatchRules, Variants
from whence.data.tokens import EncodedInput
from whence.explain.repeat import BatchRepeater
from whence.metrics._requests import OtherClass, Randomised
from whence.stats.intervals import Percentile, sign_flip_columns
from whence.tracing.alter import randomise_weights
from whence.tracing.ask import PredictionCache
from whence.tracing.structure import list_stages
from whence.trust.trust_rules import VERDICT_RULES, Measurement


def test_trial_orders_tied_features_alike_for_all_explanations_and_not_by_position():
    units = 12
    scores = np.zeros((2, units))
    scores[1, 3] = 1
    orders = build_trial(scores).orders
    assert sorted(orders[0]) == list(range(units))
    assert list(orders[0]) != list(range(units)) and list(orders[0]) != list(range(units))[::-1]
    assert orders[1][0] == 3
    assert [one for one in orders[1] if one != 3] == [one for one in orders[0] if one != 3]


def test_shuffled_scores_of_a_trial_stay_signed_or_unsigned():
    trial = replace(build_trial([[1, 2, 3], [4, 5, 6]]), signed=(True, False))
    assert trial.with_shuffled_scores(0, 3).signed == (True,) * 3
    assert trial.with_shuffled_scores(1, 2).signed == (False,) * 2


def test_shuffled_trial_has_one_null_for_all_stages_of_a_randomisation():
    """Its stages share their lower layers, so that the mean over them scatters like one of them."""
    scores = list(range(8))
    trial = build_trial(
        scores, lambda _: ([scores], PREDICTED), stages=("head", "layer", "embeddings")
    )
    null = trial.with_shuffled_scores(0, 5)
    first, last = (null.again(Randomised(stage, 0)).scores for stage in (0, 2))
    np.testing.assert_array_equal(first, last)
    assert (null.again(Randomised(0, 1)).scores != first).any()


def test_null_of_constant_scores_requests_no_repeat():
    trial = build_trial([2, 2, 2], lambda _: ([[1, 2, 3]], PREDICTED))
    trial.with_shuffled_scores(0, 3).again(OtherClass())
    assert trial.again.asked == []


def test_prediction_cache_distinguishes_equal_ids_in_other_segments():
    model = zoo.make("bert")
    device = torch.device("cpu")
    answers = PredictionCache(model, pad_id=0, device=device, policy=BatchRules(8, 512))

    def item(segments):
        features = {
            "input_ids": (2, 5, 6, 3),
            "attention_mask": (1,) * 4,
            "token_type_ids": segments,
        }
        return EncodedInput(features, (), (), InputText(None))

    (one, other), _ = answers.answer(Variants.of([item((0, 0, 0, 0)), item((0, 0, 1, 1))]), [0, 1])
    assert answers.forwards == 2
    assert not torch.equal(one, other)
    answers.answer(Variants.of([item((0, 0, 1, 1))]), [0])
    assert answers.forwards == 2


def test_randomise_weights_preserves_the_mean_of_layer_norm_weights():
    model = zoo.make("bert")
    norm = model.bert.encoder.layer[0].output.LayerNorm.weight
    with torch.no_grad():
        norm.copy_(5 + 0.1 * torch.arange(len(norm)) / len(norm))
    with randomise_weights(model, len(list_stages(model)) - 1, 0):
        # Weights from 5 to 5.1 deviate by 0.03; the mean of 32 or more draws by 0.005, and a tenth is far off.
        assert abs(float(norm.detach().mean()) - 5.05) < 0.1


def test_batch_repeater_neighbours_include_one_of_half_the_length():
    explainer = whence.load("reviews")
    found = explainer.explain("a film about nothing much at all").item
    policy = BatchRules(64, 1024, mixed=True)
    lengths = [len(item) for item in BatchRepeater(explainer.loaded, policy)._neighbours(found)]
    assert lengths == [len(found), len(found) // 2]


@pytest.mark.parametrize(
    ("chance", "verdict"), [(0.05, "holds"), (0.0501, "weak"), (0.25, "weak"), (0.2501, "fails")]
)
def test_measurement_exactly_on_a_bar_gets_the_better_verdict(chance, verdict):
    place = Percentile(90.0, 80.0, 95.0, 90, 0, 100)
    found, _ = VERDICT_RULES[0].judge(Measurement(0.5, None, place, chance))
    assert found == verdict


def test_sign_flip_columns_of_40_equal_gains_gives_a_p_value_above_zero():
    """Forty gains of one sign: no draw of signs does as well, and the data themselves count as one."""
    (p,) = sign_flip_columns(np.ones((40, 1)), ("test",), 999)
    assert p == pytest.approx(1 / 1000)
