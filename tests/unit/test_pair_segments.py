"""The two texts of a pair: what falls on each, and what crosses from one to the other."""

import numpy as np
import pytest
import torch

import whence
from tests.heads import NLI, explainer
from whence.core.errors import BadParameter
from whence.flow import attention_weights, crossing, trace_flow
from whence.report import fragment, plain
from whence.view.segments import by_segment

PAIR = ("a gripping film", "the plot is thin")


def test_scores_are_added_up_by_text():
    # [CLS] a b [SEP] c [SEP]: 1 - 3 = -2 for the first text and 4 for the second; special tokens do not count.
    # What speaks for it is 1 + 4 = 5, and all sizes 1 + 3 + 4 = 8.
    first, second = by_segment(
        [0, 0, 0, 0, 1, 1], [True, False, False, True, False, True], [9.0, 1.0, -3.0, 9.0, 4.0, 9.0]
    )
    assert (first.total, first.positive, first.share, first.tokens) == (-2.0, 1 / 5, 4 / 8, 2)
    assert (second.total, second.positive, second.share, second.tokens) == (4.0, 4 / 5, 4 / 8, 1)


def test_scores_that_are_all_zero_have_no_parts():
    first, second = by_segment([0, 1], [False, False], [0.0, 0.0])
    assert first.share is first.positive is second.share is None
    assert first.total == 0


def test_an_explanation_knows_its_segments():
    found = explainer("bert", "SequenceClassification", NLI).explain(PAIR, method="attcat")
    content = [(t.segment, s) for t, s in zip(found.tokens, found.scores, strict=True) if not t.special]  # fmt: skip
    wanted = {segment: sum(s for own, s in content if own == segment) for segment in (0, 1)}
    assert found.by_segment() == pytest.approx(wanted)
    payload = found.to_dict()
    note = "of all scores by size"
    assert note in plain(payload) and note in fragment(payload)
    single = explainer("bert", "SequenceClassification", NLI).explain(PAIR[0], method="attcat")
    assert note not in plain(single.to_dict())
    assert list(single.by_segment()) == [0]


def slow_crossing(maps, share, root, segments, special):
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


def test_what_crosses_is_what_its_edges_carry():
    draw = np.random.default_rng(5)
    maps = draw.dirichlet(np.ones(7), size=(3, 2, 7))
    root = draw.dirichlet(np.ones(7))
    segments, special = np.array([0, 0, 0, 0, 1, 1, 1]), np.array([1, 0, 0, 1, 0, 0, 1], dtype=bool)
    found = crossing(trace_flow(attention_weights(maps, 0.3), root), segments, special)
    for layer, parts in enumerate(slow_crossing(maps, 0.3, root, segments, special)):
        for name, value in parts.items():
            assert getattr(found, name)[layer] == pytest.approx(value, rel=1e-12)
    # Of two tokens of each text, 4 * 4 pairs, 2 * 2 * 2 cross.
    assert found.chance == 8 / 16


def test_where_nothing_flows_there_is_no_part():
    maps = np.zeros((1, 1, 4, 4))
    weights = attention_weights(maps)
    traced = trace_flow(weights, np.ones(4) / 4)
    found = crossing(traced, np.array([0, 0, 1, 1]), np.zeros(4, dtype=bool))
    assert np.isnan(found.between).all()


def test_a_model_can_be_asked_what_crosses():
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


def test_several_labels_and_values_go_through_pairs_too():
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
