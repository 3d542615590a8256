"""Segments of text pairs: scores summed by text, and flow of attention between the two texts."""

import numpy as np
import pytest
import torch

import whence
from tests.task_models import NLI, explainer
from whence.core.errors import BadParameter
from whence.explain.report import build_document
from whence.explain.word_scores import sum_by_segment
from whence.flow.graph import trace_flow
from whence.flow.heads import compute_cross_text_flow
from whence.flow.weights import compute_attention_weights

PAIR = ("a gripping film", "the plot is thin")


def test_sum_by_segment_equals_hand_computed_totals_without_special_tokens():
    # [CLS] a b [SEP] c [SEP]: 1 - 3 = -2 for the first text and 4 for the second; special tokens do not count.
    # What speaks for it is 1 + 4 = 5, and all sizes 1 + 3 + 4 = 8.
    first, second = sum_by_segment(
        [0, 0, 0, 0, 1, 1], [True, False, False, True, False, True], [9.0, 1.0, -3.0, 9.0, 4.0, 9.0]
    )
    assert (first.total, first.positive, first.share, first.tokens) == (-2.0, 1 / 5, 4 / 8, 2)
    assert (second.total, second.positive, second.share, second.tokens) == (4.0, 4 / 5, 4 / 8, 1)


def test_sum_by_segment_of_zero_scores_has_no_shares():
    first, second = sum_by_segment([0, 1], [False, False], [0.0, 0.0])
    assert first.share is first.positive is second.share is None
    assert first.total == 0


def test_by_segment_sums_token_scores_and_the_note_appears_for_pairs_only():
    found = explainer("bert", "SequenceClassification", NLI).explain(PAIR, method="attcat")
    content = [(t.segment, s) for t, s in zip(found.tokens, found.scores, strict=True) if not t.special]  # fmt: skip
    wanted = {segment: sum(s for own, s in content if own == segment) for segment in (0, 1)}
    assert found.by_segment() == pytest.approx(wanted)
    payload = found.to_dict()
    note = "of all scores by size"
    assert note in build_document([payload]).to_text() and note in build_document(
        [payload]
    ).to_html(fragment=True)
    single = explainer("bert", "SequenceClassification", NLI).explain(PAIR[0], method="attcat")
    assert note not in str(single)
    assert list(single.by_segment()) == [0]


def cross_text_flow_by_loops(maps, share, root, segments, special):
    """Follow every path of one edge at a time from the top, and sort what each edge carries."""
    layers, heads, tokens, _ = maps.shape
    here = root.copy()
    result = []
    for layer in reversed(range(layers)):
        below = np.zeros(tokens)
        parts = {"within": 0.0, "between": 0.0, "special": 0.0}
        for i in range(tokens):
            below[i] += here[i] * share
            for j in range(tokens):
                for head in range(heads):
                    carried = here[i] * (1 - share) * maps[layer, head, i, j] / heads
                    below[j] += carried
                    kind = "within" if segments[i] == segments[j] else "between"
                    parts["special" if special[i] or special[j] else kind] += carried
        here = below
        total = sum(parts.values())
        result.insert(0, {name: value / total for name, value in parts.items()})
    return result


def test_compute_cross_text_flow_equals_a_loop_over_edges():
    draw = np.random.default_rng(5)
    maps = draw.dirichlet(np.ones(7), size=(3, 2, 7))
    root = draw.dirichlet(np.ones(7))
    segments, special = np.array([0, 0, 0, 0, 1, 1, 1]), np.array([1, 0, 0, 1, 0, 0, 1], dtype=bool)
    found = compute_cross_text_flow(
        trace_flow(compute_attention_weights(maps, 0.3), root), segments, special
    )
    for layer, parts in enumerate(cross_text_flow_by_loops(maps, 0.3, root, segments, special)):
        for name, value in parts.items():
            assert getattr(found, name)[layer] == pytest.approx(value, rel=1e-12)
    # Of two tokens of each text, 4 * 4 pairs, 2 * 2 * 2 cross.
    assert found.chance == 8 / 16


def test_compute_cross_text_flow_of_zero_attention_is_nan():
    maps = np.zeros((1, 1, 4, 4))
    weights = compute_attention_weights(maps)
    traced = trace_flow(weights, np.ones(4) / 4)
    found = compute_cross_text_flow(traced, np.array([0, 0, 1, 1]), np.zeros(4, dtype=bool))
    assert np.isnan(found.between).all()


def test_between_segments_sums_to_one_and_refuses_a_single_text():
    inside = explainer("bert", "SequenceClassification", NLI).inside(PAIR)
    for weight in ("attention", "norm", "gradient_x_attention", "relevance", "value_zeroing"):
        found = inside.between_segments(weight)
        columns = [found[name] for name in ("within", "between", "special")]
        sums = [sum(parts) for parts in zip(*columns, strict=True)]
        assert sums == pytest.approx([1.0] * inside.layers)
    # The classification token alone is read: in the last layer only it attends, and it belongs to no text.
    assert found["special"][-1] == pytest.approx(1)
    with pytest.raises(BadParameter, match="single text"):
        explainer("bert", "SequenceClassification", NLI).inside(PAIR[0]).between_segments()


def test_explain_of_pairs_gives_model_logits_for_multi_label_and_regression():
    for problem, labels in (("multi_label_classification", NLI), ("regression", ("score",))):
        e = explainer("bert", "SequenceClassification", labels)
        e.model.config.problem_type = problem
        e = whence.load(e.model, tokenizer=e.tokenizer)
        found = e.explain(PAIR, method="integrated_gradients")
        with torch.no_grad():
            row = e.model(**e.tokenizer(*PAIR, return_tensors="pt")).logits[0]
        assert found.prediction.logits == pytest.approx(row.tolist(), rel=1e-10)
        assert set(found.by_segment()) == {0, 1}
        if problem == "regression":
            assert found.prediction.probability is None
        else:
            shares = dict(zip(NLI, row.sigmoid().tolist(), strict=True))
            assert found.prediction.probabilities == pytest.approx(shares)
