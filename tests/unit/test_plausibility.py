"""Plausibility metrics (token F1, IOU F1, AUPRC) against hand-computed values, without queries to a model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.errors import BadParameter
from whence.core.registry import resolve_parameters
from whence.core.types import InputText, Token
from whence.data.tokens import EncodedInput
from whence.metrics import build_null_trial, metric
from whence.metrics._trial import Trial

NAMES = ("token_f1", "iou_f1", "auprc")


class NoRepeater:
    """Explains nothing again, and has no stage whose weights could be replaced."""

    stages = ()


def build_trial(scores, marked, segments=None, units=None):
    """Put rows of scores on trial, over tokens of one text, or of two where `segments` says so."""
    scores = np.atleast_2d(np.array(scores, dtype=float))
    n = scores.shape[1]
    tokens = tuple(
        Token(text="x", start=None, end=None, segment=segment, special=False, id=place)
        for place, segment in enumerate(segments or [0] * n)
    )
    return Trial(
        item=EncodedInput({"input_ids": tuple(range(n))}, tokens, (), InputText(None)),
        task="single_label",
        names=("toy",) * len(scores),
        scores=scores,
        signed=(True,) * len(scores),
        axioms=({},) * len(scores),
        units=units or tuple((place,) for place in range(n)),
        removed=None,
        again=NoRepeater(),
        marked=marked,
    )


def compute_outcome(name, on, **params):
    entry = metric.get(name)
    return entry.fn(on, **resolve_parameters(name, entry.parameters, params))


# Six tokens, of which people marked 0, 1 and 3; from the highest down the explanation says 0, 2, 3, 1, 5, 4.
MARKED = (True, True, False, True, False, False)
SCORES = [0.9, 0.3, 0.8, 0.5, -0.4, 0.1]


def test_token_f1_equals_hand_computed_values():
    # As many as were marked: 0, 2, 3. Two of the three are marked, of three that are.
    assert compute_outcome("token_f1", build_trial(SCORES, MARKED)).values == pytest.approx([2 / 3])
    # A third of six: 0 and 2. One of two is marked, one of three is found: 2 · 1/2 · 1/3 / (5/6).
    outcome = compute_outcome("token_f1", build_trial(SCORES, MARKED), top=1 / 3)
    assert outcome.values == pytest.approx([0.4])
    assert (outcome.parts["precision"], outcome.parts["recall"]) == (0.5, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("top", "count"), [(0.0, 1), (0.01, 1), (0.07, 7), (0.071, 8), (0.5, 50), (1.0, 100)]
)
def test_token_f1_rounds_the_number_of_top_tokens_up(top, count):
    # 0.07 · 100 is 7.000000000000001 in floating point. All that is chosen is marked, so the recall tells how much.
    scores, marked = -np.arange(100.0), (True,) * 99 + (False,)
    outcome = compute_outcome("token_f1", build_trial(scores, marked), top=top)
    assert outcome.parts["recall"] == pytest.approx([min(count, 99) / 99])


def test_iou_f1_equals_hand_computed_values():
    # Marked: (0, 2) and (3, 4). Chosen 0, 2, 3: (0, 1), which covers half of (0, 2), and (2, 4), which is half
    # covered by (3, 4). Both hit: P = R = 1.
    assert compute_outcome("iou_f1", build_trial(SCORES, MARKED)).values == [1.0]
    # More than a half is asked for: none hits.
    assert compute_outcome("iou_f1", build_trial(SCORES, MARKED), threshold=0.51).values == [0.0]
    # The first four, 0 to 3, are one span, and cover half of (0, 2): one of one hits, one of two is hit.
    outcome = compute_outcome("iou_f1", build_trial(SCORES, MARKED), top=4 / 6)
    assert outcome.values == pytest.approx([2 / 3])
    assert (outcome.parts["precision"], outcome.parts["recall"]) == (1.0, 0.5)


def test_iou_f1_aggregate_is_the_f1_of_mean_precision_and_recall():
    one = compute_outcome("iou_f1", build_trial(SCORES, MARKED), top=4 / 6)  # P 1, R 1/2
    other = compute_outcome(
        "iou_f1", build_trial([3, 0, 2, 1, 0], (True, True, True, False, False)), top=2 / 5
    )
    # Chosen (0, 1) and (2, 3), each a third of (0, 3): P 0, R 0. Of the means 1/2 and 1/4, F1 is 1/3.
    parts = {part: np.concatenate([one.parts[part], other.parts[part]]) for part in one.parts}
    assert metric.get("iou_f1").facts["aggregate"](parts) == pytest.approx(1 / 3)
    nothing = {part: np.zeros(2) for part in parts}
    assert metric.get("iou_f1").facts["aggregate"](nothing) == 0


def test_iou_f1_spans_do_not_cross_the_border_of_a_text_pair():
    marked, scores = (False, True, True, False), [0, 2, 1, 0]
    whole = compute_outcome("iou_f1", build_trial([1, 2, 3, 0], marked), threshold=1.0)
    assert whole.values == [1.0]  # (1, 3) is (1, 3)
    # In two texts of two tokens it is one span at the end of the first and one at the start of the second: chosen
    # 0 and 1 is one span of the first text, which is not the same as either.
    pair = build_trial([scores, [2, 1, 0, 0]], marked, segments=[0, 0, 1, 1])
    assert compute_outcome("iou_f1", pair, threshold=1.0).values.tolist() == [1.0, 0.0]
    assert compute_outcome("iou_f1", pair).parts["recall"].tolist() == [1.0, 0.5]


def test_auprc_equals_hand_computed_values_with_and_without_ties():
    # From the highest down: marked, not, marked, marked, not, not. Precision 1, 1/2, 2/3, 3/4 at recall 1/3, 1/3,
    # 2/3, 1. Trapezoids: 1/3 · 1, nothing, 1/3 · (1/2 + 2/3) / 2, 1/3 · (2/3 + 3/4) / 2.
    assert compute_outcome("auprc", build_trial(SCORES, MARKED)).values == pytest.approx(
        [(1 + 7 / 12 + 17 / 24) / 3]
    )
    # Two tokens of one score, one of them marked, are one step: precision 1/2 at recall 1, from 1 at 0.
    assert compute_outcome("auprc", build_trial([1, 1, 0], (True, False, False))).values == [0.75]


def test_plausibility_metrics_rank_words_by_the_sum_of_their_tokens():
    # Two words: 1 + 1 = 2 against 1.5. The second has the highest token, the first the highest sum.
    words = build_trial([1, 1, 1.5], (True, False), units=((0, 1), (2,)))
    for name in NAMES:
        assert compute_outcome(name, words).values == [1.0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("marked", "why"),
    [(None, "no human rationale"), ((False,) * 3, "marks nothing"), ((True,) * 3, "marks all")],
)
def test_plausibility_metrics_without_a_usable_rationale_are_nan_with_a_reason(name, marked, why):
    outcome = compute_outcome(name, build_trial([[1, 2, 3], [3, 2, 1]], marked))
    assert np.isnan(outcome.values).all()
    assert sorted(outcome.why_not) == [0, 1]
    assert all(why in sentence for sentence in outcome.why_not.values())


@pytest.mark.parametrize("name", NAMES)
def test_plausibility_metrics_of_equal_scores_are_nan_with_a_reason(name):
    outcome = compute_outcome(name, build_trial([[2, 2, 2], [3, 2, 1]], (True, False, False)))
    assert np.isnan(outcome.values).tolist() == [True, False]
    assert outcome.why_not.keys() == {0}


@pytest.mark.parametrize("name", NAMES)
def test_plausibility_metrics_of_an_empty_input_give_a_reason(name):
    outcome = compute_outcome(name, build_trial(np.empty((1, 0)), ()))
    assert outcome.why_not.keys() == {0}


@given(
    st.lists(st.integers(-4, 4), min_size=2, max_size=9).filter(lambda x: len(set(x)) > 1),
    st.integers(1, 2**9),
)
@settings(deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_plausibility_metrics_are_unchanged_by_monotone_transforms_of_scores(name, scores, bits):
    marked = tuple(bool(bits >> place & 1) for place in range(len(scores)))
    bent = [x**3 + 2 * x - 7 for x in scores]
    outcome = compute_outcome(name, build_trial([scores, bent], marked))
    assert (outcome.values[0] == outcome.values[1]) or outcome.why_not.keys() == {0, 1}
    # Below is what the ranges of the metrics promise; rounding may add to an area that is 1.
    assert ((outcome.values >= 0) & (outcome.values <= 1 + 1e-12)).all() or outcome.why_not


# All 720 rankings of six tokens, each once, are the null: no draw, no tolerance but rounding.


@pytest.mark.parametrize(("name", "perfect"), [("token_f1", 1), ("iou_f1", 4), ("auprc", 1)])
def test_plausibility_metrics_of_a_perfect_ranking_are_one_and_the_best_of_the_null(name, perfect):
    best = build_trial([[3, 3.5, 0, 4, 1, 2]], MARKED)
    assert compute_outcome(name, best).values == pytest.approx([1.0])
    null = compute_outcome(name, build_null_trial(metric.get(name), best, 0, 720))
    assert not null.why_not
    # Of the 20 choices of three tokens, 36 rankings each, one is right. The spans (0, 2) and (3, 4) are also hit by
    # (0, 1) with (2, 4), (0, 1) with (3, 5) and (1, 2) with (3, 5);
    # (1, 4) is one span and hits neither.
    assert int((null.values > 1 - 1e-12).sum()) == 36 * perfect


def test_null_of_token_f1_has_the_marked_share_as_its_mean():
    on = build_trial(SCORES, MARKED)
    values = compute_outcome(
        "token_f1", build_null_trial(metric.get("token_f1"), on, 0, 720)
    ).values
    assert values.mean() == pytest.approx(3 / 6)


@pytest.mark.parametrize(("name", "top"), [("token_f1", 1.5), ("iou_f1", -0.1)])
def test_plausibility_metrics_refuse_top_and_threshold_out_of_range(name, top):
    with pytest.raises(BadParameter, match="from 0 to 1"):
        compute_outcome(name, build_trial(SCORES, MARKED), top=top)
    with pytest.raises(BadParameter, match=r"from 0\.5 to 1"):
        compute_outcome("iou_f1", build_trial(SCORES, MARKED), threshold=0.3)
