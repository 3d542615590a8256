"""Extractive question answering: ranked answers, targets, scores, batches, truncation, trust cards, refusals."""

import itertools

import numpy as np
import pytest
import torch

from tests.task_models import ARCHITECTURES, NLI, explainer, run_model
from whence.core.errors import BadEncoding, BadParameter, TooLong, UnknownTarget
from whence.data.readout import REST_LABEL
from whence.explain.tasks.question_answering import MAX_ANSWER_TOKENS, NO_ANSWER, rank_answers

QUESTION = "don't watch it"
CONTEXT = "a gripping, beautifully acted film: the plot is thin but the film well-made"
# float64 sums of a few hundred terms; between a batch and its singles only the order of summation differs.
NEAR = 1e-10


def context_of(item):
    return [i for i, t in enumerate(item.tokens) if t.segment == 1 and not t.special]


def best_span_by_loop(start, end, places):
    """Weigh every pair of places, one by one."""
    pairs = [
        (a, b) for (i, a), (j, b) in itertools.product(enumerate(places), repeat=2) if i <= j < i + MAX_ANSWER_TOKENS
    ]  # fmt: skip
    return max(pairs, key=lambda pair: float(start[pair[0]] + end[pair[1]]))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_question_answering_prediction_is_the_models_best_span_and_probability(name):
    e = explainer(name, "QuestionAnswering")
    found = e.explain((QUESTION, CONTEXT), method="gradient")
    given = run_model(e, QUESTION, CONTEXT)
    start, end = given.start_logits[0], given.end_logits[0]
    places = context_of(found.item)
    null = float(start[0] + end[0])
    first, last = best_span_by_loop(start, end, places)
    if null > float(start[first] + end[last]):
        first = last = 0
    share = float(start.softmax(0)[first] * end.softmax(0)[last])
    assert found.prediction.probability == pytest.approx(share, rel=NEAR)
    assert found.prediction.logits[0] == pytest.approx(float(start[first] + end[last]), rel=NEAR)
    assert sum(found.prediction.probabilities.values()) == pytest.approx(1, rel=NEAR)
    tokens = found.tokens
    said = CONTEXT[tokens[first].start : tokens[last].end] if first else NO_ANSWER
    assert found.prediction.label == found.target.label == said
    assert list(found.prediction.probabilities) == [said, REST_LABEL]
    assert found.read == (first, last)


def test_rank_answers_finds_the_same_best_span_as_a_loop_over_all_pairs():
    draw = torch.Generator().manual_seed(3)
    for length in (1, 2, 5, 45):
        places = list(range(3, 3 + length))
        for _ in range(20):
            start, end = torch.randn(2, 60, generator=draw, dtype=torch.float64)
            assert rank_answers(start, end, places)[0] == best_span_by_loop(start, end, places)


def test_rank_answers_gives_no_answer_longer_than_thirty_tokens():
    start, end = torch.zeros(50), torch.zeros(50)
    start[2] = end[40] = 9.0  # together 18, but 39 tokens long
    ((first, last), *_) = rank_answers(start, end, list(range(1, 50)))
    assert last - first < MAX_ANSWER_TOKENS


def test_rank_answers_runner_up_shares_no_token_with_the_best():
    # start 5 at token 2 and 4 at token 3; end 5 at token 3 and 1 at token 6: best (2, 3) with 10, the next that does
    # not touch it is (4, 6) with 0 + 1.
    start, end = torch.zeros(9), torch.zeros(9)
    start[2], start[3], end[3], end[6] = 5.0, 4.0, 5.0, 1.0
    assert rank_answers(start, end, list(range(1, 9))) == [(2, 3), (4, 6)]


def test_rank_answers_and_explain_accept_no_answer_as_the_null_span():
    start, end = torch.zeros(6), torch.zeros(6)
    start[0] = end[0] = 3.0
    assert rank_answers(start, end, [2, 3, 4], null=0)[0] == (0, 0)
    start[2], end[3] = 4.0, 4.0
    assert rank_answers(start, end, [2, 3, 4], null=0) == [(2, 3), (0, 0)]
    e = explainer("bert", "QuestionAnswering")
    found = e.explain((QUESTION, CONTEXT), target=NO_ANSWER, method="gradient")
    given = run_model(e, QUESTION, CONTEXT)
    assert found.target.label == NO_ANSWER
    assert found.prediction.logits[0] == pytest.approx(
        float(given.start_logits[0, 0] + given.end_logits[0, 0]), rel=NEAR
    )


@pytest.mark.parametrize("part", ["start", "end"])
def test_target_start_or_end_reads_the_probability_of_one_end_of_the_answer(part):
    e = explainer("bert", "QuestionAnswering")
    found = e.explain((QUESTION, CONTEXT), target=part, method="gradient")
    logits = getattr(run_model(e, QUESTION, CONTEXT), f"{part}_logits")[0]
    place = found.read[0 if part == "start" else 1]
    assert found.prediction.probability == pytest.approx(float(logits.softmax(0)[place]), rel=NEAR)
    assert found.target.label.startswith(f"{part} of ")


def test_target_answer_is_read_at_its_best_place_and_leaves_the_prediction_unchanged():
    e = explainer("distilbert", "QuestionAnswering")  # whose own answer is another one
    found = e.explain((QUESTION, CONTEXT), target="film", method="gradient")
    given = run_model(e, QUESTION, CONTEXT)
    start, end = given.start_logits[0], given.end_logits[0]
    twice = [i for i in context_of(found.item) if found.tokens[i].text == "film"]
    assert len(twice) == 2
    best = max(twice, key=lambda i: float(start[i] + end[i]))
    assert found.read == (best, best)
    share = float(start.softmax(0)[best] * end.softmax(0)[best])
    assert found.prediction.probabilities["film"] == pytest.approx(share, rel=NEAR)
    assert found.target.label == "film"
    predicted = e.predict((QUESTION, CONTEXT))
    assert found.prediction.label == predicted.label != "film"
    assert found.prediction.probability == pytest.approx(predicted.probability, rel=NEAR)


@pytest.mark.parametrize("target", [("film", "plot"), "film:plot"])
def test_contrast_of_two_answers_has_a_small_completeness_residual(target):
    e = explainer("bert", "QuestionAnswering")
    both = e.explain((QUESTION, CONTEXT), target=target, method="integrated_gradients")
    assert str(both.target) == "film rather than plot"
    assert abs(both.axioms["completeness"]) < 1e-6


def test_integrated_gradients_of_an_answer_have_a_small_completeness_residual():
    e = explainer("roberta", "QuestionAnswering")
    found = e.explain((QUESTION, CONTEXT), method="integrated_gradients")
    assert abs(found.axioms["completeness"]) < 1e-6


def test_leave_one_out_of_an_answer_equals_a_plain_loop_over_tokens():
    e = explainer("distilbert", "QuestionAnswering")
    found = e.explain((QUESTION, CONTEXT), method="leave_one_out", params={"remove": "mask"})
    first, last = found.read
    ids = torch.tensor([found.item.ids])
    with torch.no_grad():
        for place in range(ids.shape[1]):
            changed = ids.clone()
            changed[0, place] = e.tokenizer.mask_token_id
            given = e.model(input_ids=changed, attention_mask=torch.ones_like(ids))
            left = float(
                given.start_logits[0].softmax(0)[first] * given.end_logits[0].softmax(0)[last]
            )
            assert found.scores[place] == pytest.approx(
                found.prediction.probability - left, abs=NEAR
            )


def test_question_answering_batch_equals_its_single_inputs():
    e = explainer("bert", "QuestionAnswering")
    pairs = [
        (QUESTION, CONTEXT),
        ("the plot", "a thin film"),
        {"question": "film", "context": CONTEXT},
    ]
    methods = ["attcat", "integrated_gradients", "leave_one_out", "attn_lrp"]
    together = e.explain(pairs, method=methods)
    for pair, found in zip(pairs, together, strict=True):
        alone = e.explain(pair, method=methods)
        for name in methods:
            assert found[name].prediction.label == alone[name].prediction.label
            np.testing.assert_allclose(found[name].scores, alone[name].scores, atol=1e-9)


def test_explain_of_a_question_and_context_mapping_equals_the_pair():
    e = explainer("bert", "QuestionAnswering")
    one = e.explain({"context": CONTEXT, "question": QUESTION}, method="gradient")
    assert one.source.text == QUESTION
    np.testing.assert_array_equal(
        one.scores, e.explain((QUESTION, CONTEXT), method="gradient").scores
    )


def test_truncate_cuts_only_the_context_and_never_the_question():
    e = explainer("bert", "QuestionAnswering")
    long = " ".join(["the plot is thin"] * 30) + " café"
    with pytest.raises(TooLong):
        e.explain((QUESTION, long))
    found = e.explain((QUESTION, long), truncate=True, method="gradient")
    asked = [t.text for t in found.tokens if t.segment == 0 and not t.special]
    assert asked == [t.text for t in e.explain((QUESTION, "café"), method="gradient").tokens
                     if t.segment == 0 and not t.special]  # fmt: skip
    assert len(found.tokens) == e.loaded.max_length
    assert found.source.dropped > 0
    with pytest.raises(UnknownTarget, match="cut off"):
        e.explain((QUESTION, long), truncate=True, target="café")
    with pytest.raises(TooLong, match="first text"):
        e.explain((long, QUESTION), truncate=True)


def test_question_answering_with_a_bad_input_or_target_is_refused():
    e = explainer("bert", "QuestionAnswering")
    with pytest.raises(BadEncoding, match="question and a context"):
        e.explain("only a question")
    with pytest.raises(UnknownTarget, match="does not stand in the context"):
        e.explain((QUESTION, CONTEXT), target="a novel")
    with pytest.raises(UnknownTarget, match="shorter than it"):
        e.explain((QUESTION, "thin"), target="thin and very long")
    with pytest.raises(UnknownTarget, match="inside of a token"):
        e.explain((QUESTION, CONTEXT), target="fil")
    with pytest.raises(UnknownTarget, match="two different"):
        e.explain((QUESTION, CONTEXT), target=("plot", "plot"))
    with pytest.raises(UnknownTarget, match="There is no answer 3"):
        e.explain((QUESTION, CONTEXT), target=3)
    with pytest.raises(BadParameter, match="labels="):
        e.explain((QUESTION, CONTEXT), labels=["a"])


def test_trust_card_and_inside_of_a_question_use_the_answer():
    e = explainer("bert", "QuestionAnswering")
    card = e.trust((QUESTION, "the plot is thin"), method="attcat").to_dict()
    # Of this untrained model any test may be the one that decides the card's sentence; deletion's names the answer.
    (deletion,) = [test for test in card["methods"][0]["tests"] if test["name"] == "deletion"]
    answer = e.explain((QUESTION, "the plot is thin"), method="attcat").target.label
    assert card["target"]["label"] == answer
    assert f"the probability of {answer}" in deletion["why"]
    inside = e.inside((QUESTION, CONTEXT))
    # The last block's rows that the answer reads are its first and last token.
    read = e.explain((QUESTION, CONTEXT), method="gradient").read
    assert set(np.flatnonzero(inside.rows > 1e-9)) >= set(read)


def test_explain_of_a_data_set_row_with_question_and_context_equals_the_pair():
    e = explainer("bert", "QuestionAnswering")
    row = {"id": "7", "question": QUESTION, "context": CONTEXT, "answers": {"text": ["film"]}}
    assert e.explain(row).target == e.explain((QUESTION, CONTEXT)).target
    with pytest.raises(BadEncoding, match="no 'context'"):
        e.explain({"question": QUESTION})


def test_trust_with_remove_all_omits_delete_for_question_answering():
    e = explainer("bert", "QuestionAnswering")
    card = e.trust((QUESTION, CONTEXT), target="film", remove="all", budget=300).to_dict()
    assert card["remove"] == ["mask", "pad", "unk"]
    e = explainer("bert", "SequenceClassification", NLI)
    card = e.trust((QUESTION, CONTEXT), remove="all", budget=300).to_dict()
    assert card["remove"] == ["mask", "pad", "unk", "delete"]


def test_trust_card_cost_includes_the_forward_pass_that_found_the_answer():
    e = explainer("bert", "QuestionAnswering")
    whole = e.trust((QUESTION, CONTEXT), method="gradient", budget=50).to_dict()["cost"]
    found = e.explain((QUESTION, CONTEXT), method="gradient")
    tests = found.trust(50).to_dict()["cost"]
    assert found.passes.forward == 2
    assert whole["forward"] - tests["forward"] == found.passes.forward
