"""Token classification: entities by tag scheme, their logits, explanations of an entity or token, refusals."""

import numpy as np
import pytest
import torch

from tests.task_models import ARCHITECTURES, TAGS, explainer, run_model
from whence.core.errors import BadParameter, NoHead, UnknownTarget
from whence.data.tokens import encode
from whence.explain.tasks.tagging import _find_entities, parse_scheme

TEXT = "a gripping film, well-made but thin: the plot"
NEAR = 1e-10  # float64, the same sums in another order


def find_tagged_entities(words, tags, labels=TAGS, tokenizer=None):
    """Return the entities of a text whose words have these tags, as (text, kind)."""
    e = explainer("bert", "TokenClassification", labels)
    item = encode(" ".join(words), e.tokenizer, max_length=None, truncate=False)
    assert len(item.words) == len(tags)
    logits = torch.zeros(len(item), len(labels), dtype=torch.float64)
    for word, tag in zip(item.words, tags, strict=True):
        logits[word.tokens[0], labels.index(tag)] = 5
        # Later pieces of a word say something else, and are not asked.
        for place in word.tokens[1:]:
            logits[place, labels.index("O")] = 9
    return [
        (found.text, found.label) for found in _find_entities(item, logits, parse_scheme(labels))
    ]


WORDS = ["gripping", "film", "acted", "plot", "thin"]


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        (["B-PER", "I-PER", "O", "B-LOC", "O"], [("gripping film", "PER"), ("plot", "LOC")]),
        (["B-PER", "B-PER", "O", "O", "O"], [("gripping", "PER"), ("film", "PER")]),
        (["I-PER", "I-PER", "I-LOC", "O", "O"], [("gripping film", "PER"), ("acted", "LOC")]),
        (["B-PER", "O", "I-PER", "O", "O"], [("gripping", "PER"), ("acted", "PER")]),
        (["O"] * 5, []),
    ],
)
def test_find_entities_with_bio_tags_joins_and_splits_words(tags, wanted):
    assert find_tagged_entities(WORDS, tags) == wanted


def test_find_entities_with_bilou_tags_joins_and_splits_words():
    labels = ("O", "B-X", "I-X", "L-X", "U-X")
    tags = ["B-X", "I-X", "L-X", "U-X", "U-X"]
    assert find_tagged_entities(WORDS, tags, labels) == [
        ("gripping film acted", "X"), ("plot", "X"), ("thin", "X"),
    ]  # fmt: skip
    assert find_tagged_entities(WORDS, ["L-X", "I-X", "O", "O", "O"], labels) == [
        ("gripping", "X"),
        ("film", "X"),
    ]


def test_find_entities_with_bare_kinds_joins_neighbours_of_one_kind():
    labels = ("O", "PER", "LOC")
    tags = ["PER", "PER", "LOC", "O", "LOC"]
    assert find_tagged_entities(WORDS, tags, labels) == [
        ("gripping film", "PER"),
        ("acted", "LOC"),
        ("thin", "LOC"),
    ]


@pytest.mark.parametrize(
    ("tags", "kinds", "outside"),
    [
        (TAGS, ("O", "PER", "LOC"), "O"),
        (("B-per", "I-per", "O"), ("per", "O"), "O"),
        (("PER-B", "PER-I", "O"), ("PER", "O"), "O"),
        (("B_LOC", "I_LOC", "O"), ("LOC", "O"), "O"),
        (("NOUN", "VERB"), ("NOUN", "VERB"), None),
        (("O", "B-PER", "misc"), ("O", "B-PER", "misc"), "O"),
        (("LABEL_0", "LABEL_1"), ("LABEL_0", "LABEL_1"), None),
    ],
)
def test_parse_scheme_splits_tags_into_kinds_and_the_outside_tag(tags, kinds, outside):
    found = parse_scheme(tags)
    assert (found.kinds, found.outside) == (kinds, outside)


def test_parse_scheme_columns_are_the_other_kinds_with_the_same_prefix():
    found = parse_scheme(TAGS)
    assert found.columns(TAGS.index("B-PER")) == (0, 1, 3)
    assert found.columns(TAGS.index("I-LOC")) == (0, 2, 4)
    assert parse_scheme(("O", "B-A", "I-A", "B-B")).columns(2) == (0, 2, 3)  # there is no I-B


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_entity_logits_are_the_mean_over_the_first_tokens_of_its_words(name):
    e = explainer(name, "TokenClassification", TAGS)
    logits = run_model(e, TEXT).logits[0]
    listed, found = e.entities(TEXT), e.explain(TEXT, method="gradient")
    assert listed and len(listed) == len(found)
    for entity, explanation in zip(listed, found, strict=True):
        firsts = [w.tokens[0] for w in explanation.spans if set(w.tokens) <= set(entity.tokens)]
        assert explanation.read == tuple(firsts) == entity.reading.places
        tags = logits[firsts].argmax(-1).tolist()
        kinds = ("O", "PER", "LOC")
        means = []
        for kind in kinds:
            columns = [0 if kind == "O" else TAGS.index(f"{TAGS[tag][0]}-{kind}") for tag in tags]
            means.append(
                np.mean([float(logits[p, c]) for p, c in zip(firsts, columns, strict=True)])
            )
        assert explanation.prediction.logits == pytest.approx(means, rel=NEAR)
        share = float(torch.tensor(means).softmax(0)[kinds.index(entity.label)])
        assert explanation.prediction.label == explanation.target.label == entity.label
        assert explanation.prediction.probability == pytest.approx(share, rel=NEAR)
        assert entity.probability == pytest.approx(share, rel=NEAR)
        assert TEXT[entity.start : entity.end] == entity.text


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_explain_at_one_token_has_the_models_own_tag_logits(name):
    e = explainer(name, "TokenClassification", TAGS)
    found = e.explain(TEXT, at="plot", method="gradient")
    (place,) = found.read
    assert found.tokens[place].text == "plot"
    row = run_model(e, TEXT).logits[0, place]
    assert found.prediction.logits == pytest.approx(row.tolist(), rel=NEAR)
    shares = dict(zip(TAGS, row.softmax(0).tolist(), strict=True))
    assert found.prediction.probabilities == pytest.approx(shares)
    assert e.explain(TEXT, at=place, method="gradient").read == (place,)
    assert e.explain(TEXT, at=place, target="I-LOC", method="gradient").target.label == "I-LOC"
    against = e.explain(TEXT, at=str(place), target="I-LOC:O", method="integrated_gradients")
    assert abs(against.axioms["completeness"]) < 1e-6


def test_explain_at_an_entity_by_tokens_or_text_reads_that_entity():
    e = explainer("bert", "TokenClassification", TAGS)
    for entity in e.entities(TEXT):
        by_places = e.explain(TEXT, at=entity.tokens, method="gradient")
        assert by_places.read == entity.reading.places
        if len(entity.text.split()) > 1:
            assert e.explain(TEXT, at=entity.text, method="gradient").read == entity.reading.places
        other = e.explain(TEXT, at=entity.tokens, target="O", method="gradient")
        assert other.target.label == "O" and other.prediction.label == entity.label


def test_leave_one_out_of_a_tag_equals_a_plain_loop_over_tokens():
    e = explainer("roberta", "TokenClassification", TAGS)
    found = e.explain(TEXT, at="film", method="leave_one_out")
    (place,) = found.read
    ids = torch.tensor([found.item.ids])
    column = found.target.index
    for hole in range(ids.shape[1]):
        changed = ids.clone()
        changed[0, hole] = e.tokenizer.mask_token_id
        with torch.no_grad():
            logits = e.model(input_ids=changed, attention_mask=torch.ones_like(ids)).logits
        left = float(logits[0, place].softmax(0)[column])
        assert found.scores[hole] == pytest.approx(found.prediction.probability - left, abs=NEAR)


def test_tagging_batch_equals_its_single_inputs():
    e = explainer("bert", "TokenClassification", TAGS)
    texts = [TEXT, "the plot is thin", "café"]
    methods = ["attcat", "leave_one_out", "attn_lrp"]
    for text, every in zip(texts, e.explain(texts, method=methods), strict=True):
        alone = e.explain(text, method=methods)
        assert len(alone) == len(every)
        for one, other in zip(alone, every, strict=True):
            for name in methods:
                np.testing.assert_allclose(one[name].scores, other[name].scores, atol=1e-9)


def test_explain_of_a_text_without_entities_raises_bad_parameter():
    e = explainer("bert", "TokenClassification", TAGS)
    with torch.no_grad():
        e.model.classifier.bias[0] = 1e3
    assert e.entities(TEXT) == []
    with pytest.raises(BadParameter, match="tags nothing"):
        e.explain(TEXT)
    assert e.explain(TEXT, at="film", method="gradient").prediction.label == "O"


def test_tagging_with_a_bad_place_or_target_is_refused():
    e = explainer("bert", "TokenClassification", TAGS)
    with pytest.raises(BadParameter, match="does not stand"):
        e.explain(TEXT, at="novel")
    with pytest.raises(BadParameter, match="2 times"):
        e.explain("thin and thin", at="thin")
    with pytest.raises(BadParameter, match="There is no token 99"):
        e.explain(TEXT, at=99)
    with pytest.raises(BadParameter, match="not part of the text"):
        e.explain(TEXT, at=0)
    with pytest.raises(BadParameter, match="No entity"):
        e.explain(TEXT, at=(1, 99))
    with pytest.raises(BadParameter, match="a word or a token's number"):
        e.explain(TEXT, at=1.5)
    with pytest.raises(UnknownTarget, match="There is no target 'ORG'"):
        e.explain(TEXT, target="ORG")
    with pytest.raises(NoHead, match="tags no tokens"):
        explainer("bert", "QuestionAnswering").entities(TEXT)


@pytest.mark.parametrize(
    ("head", "labels"), [("TokenClassification", TAGS), ("QuestionAnswering", ()), ("MaskedLM", ())]
)
def test_every_method_works_on_tagging_question_answering_and_masked_lm(head, labels):
    found = explainer("bert", head, labels).examine()["methods"]
    assert [(one["method"], one["why_not"]) for one in found if not one["works"]] == []
