"""Comparison on every architecture: a model equals itself and its own encoder; encoder-decoders are refused."""

import pytest

import whence
from tests import zoo
from tests.unit.small_tokenizers import wordpiece
from whence.core.errors import NotCapturable
from whence.studies.compare.compare import compare, compare_on_input

TEXTS = ["a gripping film", "the plot is thin and the jokes are worse", "not bad"]
TWO_STREAMS = ("bart", "t5")


def load_encoder_and_model(name):
    """Return the encoder of a model, and the model."""
    model = zoo.make(name)
    model.resize_token_embeddings(400, mean_resizing=False)
    encoder = getattr(model, model.base_model_prefix)
    return [whence.load(one, tokenizer=wordpiece()) for one in (encoder, model)]


@pytest.mark.parametrize("name", [one for one in zoo.ARCHITECTURES if one not in TWO_STREAMS])
def test_compare_of_a_model_with_itself_or_its_encoder_finds_no_difference(name):
    encoder, model = load_encoder_and_model(name)
    for base in (encoder, model):
        found = compare(base, model, TEXTS, method="grad_x_input").to_dict()
        # The very same weights: not a bit differs.
        assert {one["divergence"]["mean"] for one in found["heads"]} == {0}
        assert {one["decision"]["mean"] for one in found["heads"]} == {0}
        assert found["overlap"]["jaccard"]["mean"] == 1
        assert (found["attribution"] is None) == (base is encoder)
    one, other = (side.inside(TEXTS[0]) for side in (encoder, model))
    found = compare_on_input(one, other)
    assert found["difference"]["layer"] == []
    assert found["changed"] == []


@pytest.mark.parametrize("name", TWO_STREAMS)
def test_compare_of_an_encoder_decoder_raises_not_capturable(name):
    model = load_encoder_and_model(name)[1]
    with pytest.raises(NotCapturable, match="an encoder and a decoder"):
        compare(model, model, TEXTS)
