"""An explanation read from a file is tested as the one that was saved: the same input, read at the same place."""

import json

import pytest
import transformers as hf

import whence
from tests import zoo
from tests.heads import NLI, TAGS, explainer
from tests.unit.tokenizers import wordpiece
from whence.core.errors import BadParameter, CannotRead
from whence.data.reading import AtPlace, Span
from whence.data.recorded import recorded, reread
from whence.explainer.explanation import Explanation

PAIR = ("don't watch it", "a gripping, beautifully acted film: the plot is thin")
TEXT = "a gripping, beautifully acted film"
LONG = " ".join([TEXT] * 20)


def language(kind, config):
    return whence.load(zoo.seeded(lambda: kind(config), 3).double().eval(), tokenizer=wordpiece())


def gpt2():
    config = hf.GPT2Config(
        vocab_size=260, n_embd=24, n_layer=2, n_head=3, n_positions=72, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    return language(hf.GPT2LMHeadModel, config)


def t5():
    config = hf.T5Config(
        vocab_size=260, d_model=24, d_kv=8, d_ff=32, num_layers=2, num_heads=3, decoder_start_token_id=0,
        pad_token_id=0,
    )  # fmt: skip
    return language(hf.T5ForConditionalGeneration, config)


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


def again(found):
    """Return an explanation as a file gives it back."""
    return Explanation.from_dict(json.loads(json.dumps(found.to_dict())))


def card(trust):
    """Return what a card says but for its clock."""
    facts = trust.to_dict()
    del facts["cost"]
    return facts


@pytest.mark.parametrize("name", CASES)
def test_it_is_tested_as_it_was(name):
    make, given, asked = CASES[name]
    e = make()
    found = e.explain(*given, method="gradient", **asked)
    restored = again(found)
    assert restored.to_dict() == found.to_dict()
    ours, theirs = found.trust(150), restored.trust(150, explainer=e)
    assert card(ours) == card(theirs)
    assert (e.inside(restored).item, restored.item) == (found.item, None)


def test_every_entity_is_tested_as_it_was():
    e = heads("TokenClassification", TAGS)
    for found in e.explain(TEXT, method="gradient"):
        assert e.inside(again(found)).item == found.item


def test_a_token_on_the_way_is_tested_as_it_was():
    e = gpt2()
    for prompt in (TEXT, LONG):  # the long one is cut, to leave room for the answer
        last = e.generate(prompt, 3, method="gradient", truncate=True).explanations[-1]
        assert e.inside(again(last)).item == last.item


def test_a_label_longer_than_its_text_is_whole_again():
    e = heads("SequenceClassification", NLI)
    # 30 and 40 tokens of the 64 that go in: the text is cut, though it is the shorter one.
    found = e.explain("a t " * 15, labels=["t a " * 19 + "t a"], template="{}", truncate=True)
    assert found.source.dropped
    assert e.inside(again(found)).item == found.item


def test_a_difference_of_two_explanations_is_not_tested():
    e = gpt2()
    found = e.explain(TEXT, answer=("is good", "is not bad"))
    for one in (found, again(found)):
        with pytest.raises(BadParameter, match=r"difference of two explanations.*answer="):
            one.trust(explainer=e)


def test_a_picture_and_an_encoded_input_are_explained_anew():
    e = whence.load("shapes")
    with pytest.raises(CannotRead, match="Explain the picture anew"):
        again(e.explain("shapes:3")).trust(explainer=e)
    e = heads("QuestionAnswering")
    encoded = {"input_ids": [2, 30, 31, 3, 32, 33, 3], "token_type_ids": [0, 0, 0, 0, 1, 1, 1]}
    found = again(e.explain(encoded))
    found = Explanation.from_dict(
        {**found.to_dict(), "input": {"text": None, "pair": None, "dropped": 0}}
    )
    with pytest.raises(CannotRead, match="holds no text"):
        found.trust(explainer=e)


def test_without_a_word_on_how_it_was_read_it_is_not_tested():
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
def test_a_reading_that_was_tampered_with_is_not_read(change):
    facts = heads("QuestionAnswering").explain(PAIR).to_dict()
    with pytest.raises(CannotRead, match="not a saved explanation"):
        Explanation.from_dict({**facts, "reading": {**facts["reading"], **change}})


def test_a_place_that_is_not_there_is_not_read():
    e = heads("QuestionAnswering")
    facts = e.explain(PAIR).to_dict()
    facts["reading"]["start"] = 99
    with pytest.raises(CannotRead, match="tokens that are not there"):
        Explanation.from_dict(facts).trust(explainer=e)


def test_a_reading_as_a_file_keeps_it():
    span = Span(3, 4, "span", ((0, 0),))
    assert recorded(span) == {
        "kind": "span", "start": 3, "end": 4, "part": "span", "others": [[0, 0]],
    }  # fmt: skip
    assert reread(recorded(span)) == span
    assert reread(recorded(AtPlace(-1, (5, 6)))) == AtPlace(-1, (5, 6))
