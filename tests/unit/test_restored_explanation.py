"""Explanations restored from JSON: trust card and encoded input equal the original's; bad readouts are refused."""

import json

import pytest
import transformers as hf

import whence
from tests import zoo
from tests.task_models import NLI, TAGS, explainer
from tests.unit.small_tokenizers import wordpiece
from whence.core.errors import BadParameter, CannotRead
from whence.data.readout import SpanReadout, TokenReadout, dump_readout, parse_readout
from whence.explain.explanation import Explanation

PAIR = ("don't watch it", "a gripping, beautifully acted film: the plot is thin")
TEXT = "a gripping, beautifully acted film"
LONG = " ".join([TEXT] * 20)


def load_language_model(kind, config):
    return whence.load(zoo.seeded(lambda: kind(config), 3).double().eval(), tokenizer=wordpiece())


def gpt2():
    config = hf.GPT2Config(
        vocab_size=260, n_embd=24, n_layer=2, n_head=3, n_positions=72, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    return load_language_model(hf.GPT2LMHeadModel, config)


def t5():
    config = hf.T5Config(
        vocab_size=260, d_model=24, d_kv=8, d_ff=32, num_layers=2, num_heads=3, decoder_start_token_id=0,
        pad_token_id=0,
    )  # fmt: skip
    return load_language_model(hf.T5ForConditionalGeneration, config)


def heads(head, labels=()):
    return explainer("bert", head, labels)


# By name: the explainer, and what is asked of it.
CASES = {
    "the best answer": (lambda: heads("QuestionAnswering"), (PAIR,), {}),
    "an answer's end": (lambda: heads("QuestionAnswering"), (PAIR,), {"target": "end"}),
    "two answers": (lambda: heads("QuestionAnswering"), (PAIR,), {"target": "film:plot"}),
    "no answer": (lambda: heads("QuestionAnswering"), (PAIR,), {"target": "(no answer)"}),
    "a cut context": (
        lambda: heads("QuestionAnswering"), ((PAIR[0], LONG),), {"truncate": True},
    ),
    "a tag": (lambda: heads("TokenClassification", TAGS), (TEXT,), {"at": "film"}),
    "a mask": (lambda: heads("MaskedLM"), ("a [MASK] film",), {"target": "a:t"}),
    "a label to choose": (
        lambda: heads("SequenceClassification", NLI), (TEXT,), {"labels": ["good", "bad"]},
    ),
    "a label of a cut text": (
        lambda: heads("SequenceClassification", NLI), (LONG,), {"labels": ["good"], "truncate": True},
    ),
    "a pair": (lambda: heads("SequenceClassification", NLI), (PAIR,), {}),
    "the next token": (gpt2, (TEXT,), {"target": "a:t"}),
    "a whole answer": (gpt2, (TEXT,), {"answer": "is good"}),
    "a decoder's first token": (t5, (TEXT,), {}),
    "a decoder's answer": (t5, (TEXT,), {"answer": "is good"}),
}  # fmt: skip


def round_trip(found):
    """Return an explanation as a file gives it back."""
    return Explanation.from_dict(json.loads(json.dumps(found.to_dict())))


def card_without_cost(trust):
    """Return what a card says but for its clock."""
    facts = trust.to_dict()
    del facts["cost"]
    return facts


@pytest.mark.parametrize("name", CASES)
def test_trust_of_a_restored_explanation_equals_trust_of_the_original(name):
    make, given, asked = CASES[name]
    e = make()
    found = e.explain(*given, method="gradient", **asked)
    restored = round_trip(found)
    assert restored.to_dict() == found.to_dict()
    ours, theirs = found.trust(150), restored.trust(150, explainer=e)
    assert card_without_cost(ours) == card_without_cost(theirs)
    assert (e.inside(restored).item, restored.item) == (found.item, None)


def test_restored_explanation_of_every_entity_has_the_original_encoded_input():
    e = heads("TokenClassification", TAGS)
    for found in e.explain(TEXT, method="gradient"):
        assert e.inside(round_trip(found)).item == found.item


def test_restored_explanation_of_a_generated_token_has_the_original_encoded_input():
    e = gpt2()
    for prompt in (TEXT, LONG):  # the long one is cut, to leave room for the answer
        last = e.generate(prompt, 3, method="gradient", truncate=True).explanations[-1]
        assert e.inside(round_trip(last)).item == last.item


def test_restored_zero_shot_input_keeps_a_label_longer_than_its_cut_text():
    e = heads("SequenceClassification", NLI)
    # 30 and 40 tokens of the 64 that go in: the text is cut, though it is the shorter one.
    found = e.explain("a t " * 15, labels=["t a " * 19 + "t a"], template="{}", truncate=True)
    assert found.source.dropped
    assert e.inside(round_trip(found)).item == found.item


def test_trust_of_a_difference_of_two_answers_raises_bad_parameter():
    e = gpt2()
    found = e.explain(TEXT, answer=("is good", "is not bad"))
    for one in (found, round_trip(found)):
        with pytest.raises(BadParameter, match=r"difference of two explanations.*answer="):
            one.trust(explainer=e)


def test_trust_of_a_restored_image_or_encoded_input_raises_cannot_read():
    e = whence.load("shapes")
    with pytest.raises(CannotRead, match="Explain the picture anew"):
        round_trip(e.explain("shapes:3")).trust(explainer=e)
    e = heads("QuestionAnswering")
    encoded = {"input_ids": [2, 30, 31, 3, 32, 33, 3], "token_type_ids": [0, 0, 0, 0, 1, 1, 1]}
    found = round_trip(e.explain(encoded))
    found = Explanation.from_dict(
        {**found.to_dict(), "input": {"text": None, "pair": None, "dropped": 0}}
    )
    with pytest.raises(CannotRead, match="holds no text"):
        found.trust(explainer=e)


def test_trust_of_a_restored_explanation_without_readout_raises_cannot_read():
    e = heads("QuestionAnswering")
    facts = e.explain(PAIR).to_dict()
    del facts["reading"]
    with pytest.raises(CannotRead, match="does not say all of how"):
        Explanation.from_dict(facts).trust(explainer=e)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "guess"},
        {"part": "middle"},
        {"start": None},
        {"others": [[True, 1]]},
        {"labels": ["film"]},
        {"labels": 3},
    ],
)
def test_explanation_from_dict_with_a_tampered_readout_raises_cannot_read(change):
    facts = heads("QuestionAnswering").explain(PAIR).to_dict()
    with pytest.raises(CannotRead, match="not a saved explanation"):
        Explanation.from_dict({**facts, "reading": {**facts["reading"], **change}})


def test_trust_with_a_readout_beyond_the_tokens_raises_cannot_read():
    e = heads("QuestionAnswering")
    facts = e.explain(PAIR).to_dict()
    facts["reading"]["start"] = 99
    with pytest.raises(CannotRead, match="tokens that are not there"):
        Explanation.from_dict(facts).trust(explainer=e)


def test_parse_readout_restores_dumped_span_and_token_readouts():
    span = SpanReadout(3, 4, "span", ((0, 0),))
    assert dump_readout(span) == {
        "kind": "span", "start": 3, "end": 4, "part": "span", "others": [[0, 0]],
    }  # fmt: skip
    assert parse_readout(dump_readout(span)) == span
    assert parse_readout(dump_readout(TokenReadout(-1, (5, 6)))) == TokenReadout(-1, (5, 6))
