"""Whether two texts can be given to a model, and whether they must be."""

import copy

import pytest
from tokenizers.processors import TemplateProcessing

import whence
from tests import zoo
from tests.unit.tokenizers import byte_level, wordpiece
from whence.explainer.intake import takes_pairs


def together():
    """Return a tokenizer that puts the second text right behind the first."""
    found = copy.deepcopy(byte_level())
    found.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B:1")
    return found


@pytest.mark.parametrize(
    ("tokenizer", "wanted"), [(wordpiece, True), (byte_level, True), (together, False)]
)
def test_two_texts_can_be_given_where_the_tokenizer_keeps_them_apart(tokenizer, wanted):
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    assert takes_pairs(whence.load(model, tokenizer=tokenizer()).loaded) is wanted


def test_a_model_of_one_segment_takes_no_pairs():
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    tokenizer = copy.deepcopy(wordpiece())
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    assert takes_pairs(whence.load(model, tokenizer=tokenizer).loaded) is True
    model.config.type_vocab_size = 1
    assert takes_pairs(whence.load(model, tokenizer=tokenizer).loaded) is False


def test_a_model_without_a_tokenizer_takes_no_pairs():
    assert takes_pairs(whence.load(zoo.make("bert")).loaded) is False
