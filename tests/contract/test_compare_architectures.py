"""Every architecture can be compared: with itself, and with its own encoder, which has no head."""

import pytest

import whence
from tests import zoo
from tests.unit.tokenizers import wordpiece
from whence.comparison import compare, compared
from whence.core.errors import NotCapturable

TEXTS = ["a gripping film", "the plot is thin and the jokes are worse", "not bad"]
TWO_STREAMS = ("bart", "t5")


def pair(name):
    """Return the encoder of a model, and the model."""
    model = zoo.make(name)
    model.resize_token_embeddings(400, mean_resizing=False)
    encoder = getattr(model, model.base_model_prefix)
    return [whence.load(one, tokenizer=wordpiece()) for one in (encoder, model)]


@pytest.mark.parametrize("name", [one for one in zoo.ARCHITECTURES if one not in TWO_STREAMS])
def test_an_encoder_is_like_the_model_that_holds_it(name):
    encoder, model = pair(name)
    for base in (encoder, model):
        found = compare(base, model, TEXTS, method="grad_x_input").to_dict()
        # The very same weights in the very same batches: not a bit differs.
        assert {one["divergence"]["mean"] for one in found["heads"]} == {0}
        assert {one["decision"]["mean"] for one in found["heads"]} == {0}
        assert found["overlap"]["jaccard"]["mean"] == 1
        assert (found["attribution"] is None) == (base is encoder)
    one, other = (side.inside(TEXTS[0]) for side in (encoder, model))
    found = compared(one, other)
    assert found["difference"]["layer"] == []
    assert found["changed"] == []


@pytest.mark.parametrize("name", TWO_STREAMS)
def test_two_streams_are_refused(name):
    model = pair(name)[1]
    with pytest.raises(NotCapturable, match="an encoder and a decoder"):
        compare(model, model, TEXTS)
