"""Inputs that a model takes or refuses, by length and features; batches whose scores equal those of singles."""

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from tests.unit.small_tokenizers import wordpiece
from whence.core.errors import BadEncoding
from whence.models.load import load_model


def test_load_model_takes_max_length_from_the_position_embeddings(tmp_path):
    assert load_model(zoo.make("bert")).max_length == 48
    assert load_model(zoo.make("roberta")).max_length == 46  # positions count from padding_idx + 1
    assert load_model(zoo.make("t5")).max_length is None
    assert load_model(zoo.make("bert"), tokenizer=wordpiece()).max_length == 48


def test_explain_takes_an_input_of_max_length_and_refuses_a_longer_one():
    for name in ("bert", "roberta", "gpt2"):
        explainer = whence.load(zoo.make(name))
        longest = load_model(explainer.model).max_length
        explainer.explain(zoo.rows(name, lengths=(longest,))[0])
        with pytest.raises(whence.WhenceError, match=f"at most {longest}"):
            explainer.explain(zoo.rows(name, lengths=(longest + 1,))[0])


def test_explain_without_a_padding_token_equals_inputs_one_by_one():
    model = zoo.make("gpt2")
    alone = [whence.load(model).explain(row).scores for row in zoo.rows("gpt2")]
    model.config.pad_token_id = None
    found = whence.load(model).explain(zoo.rows("gpt2"))
    assert all((e.scores == s).all() for e, s in zip(found, alone, strict=True))


def test_explain_with_a_tokenizer_larger_than_the_embeddings_raises_whence_error():
    explainer = whence.load(zoo.make("bert"), tokenizer=wordpiece())
    with pytest.raises(whence.WhenceError, match="64 token embeddings"):
        explainer.explain("a gripping, beautifully acted film")


def test_explain_ignores_unused_token_type_ids_and_refuses_unknown_features():
    explainer = whence.load(zoo.make("distilbert"))
    row = {"input_ids": [[5, 6]], "token_type_ids": [[0, 0]]}
    assert len(explainer.explain(row).scores) == 2
    with pytest.raises(whence.WhenceError, match="does not take 'colour'"):
        explainer.explain({"input_ids": [[5, 6]], "colour": [[0, 0]]})


def test_decoder_whose_tokenizer_alone_has_padding_is_explained_one_at_a_time():
    model = zoo.make("llama")
    alone = [
        whence.load(model).explain(row, method="leave_one_out").scores for row in zoo.rows("llama")
    ]
    model.config.pad_token_id = None
    explainer = whence.load(model, tokenizer=wordpiece())
    assert explainer.fillers["pad"] == 0
    found = explainer.explain(
        zoo.rows("llama"), method="leave_one_out", params={"remove": "delete"}
    )
    for e, wanted in zip(found, alone, strict=True):
        torch.testing.assert_close(torch.tensor(e.scores), torch.tensor(wanted))
    with pytest.raises(whence.WhenceError, match="one at a time"):
        explainer.trace(zoo.rows("llama"))


def test_explain_strips_padding_of_both_model_and_tokenizer():
    model = zoo.make("bert")
    model.config.pad_token_id = 9
    explainer = whence.load(model, tokenizer=wordpiece())
    given = {
        "input_ids": [[5, 6, 7], [5, 6, 0], [5, 6, 9]],
        "attention_mask": [[1, 1, 1], [1, 1, 0], [1, 1, 0]],
    }
    assert [len(e.scores) for e in explainer.explain(given)] == [3, 2, 2]


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (hf.XLNetConfig(vocab_size=64, d_model=32, n_layer=2, n_head=4, d_inner=48, num_labels=3, pad_token_id=5),
         hf.XLNetForSequenceClassification),
        (hf.FNetConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, intermediate_size=48, num_labels=3,
                       max_position_embeddings=48), hf.FNetForSequenceClassification),
        (hf.ConvBertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_labels=3,
                           intermediate_size=48, embedding_size=32, max_position_embeddings=48),
         hf.ConvBertForSequenceClassification),
    ],
    ids=["xlnet", "fnet", "convbert"],
)  # fmt: skip
def test_batch_of_a_model_that_sees_padding_equals_its_singles(config, kind):
    """No mask, convolutions, or a head that reads the last place: a batch must still equal its singles."""
    explainer = whence.load(zoo.seeded(lambda: kind(config)).double().eval())
    rows = [{"input_ids": [9, 6, 7]}, {"input_ids": [8, 9, 6, 7, 11, 12]}, {"input_ids": [8, 9, 6]}]
    names = ["gradient", "leave_one_out"]
    together = explainer.explain(rows, method=names)
    for row, found in zip(rows, together, strict=True):
        for name, one in explainer.explain(row, method=names).items():
            torch.testing.assert_close(torch.tensor(found[name].scores), torch.tensor(one.scores))
            assert found[name].prediction.logits == pytest.approx(one.prediction.logits)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"input_ids": [5, 6], "token_type_ids": [0, 7]}, "'token_type_ids' must lie from 0 to 1"),
        ({"input_ids": [5, 6], "position_ids": [0, 99]}, "'position_ids' must lie from 0 to 47"),
    ],
)
def test_explain_with_features_out_of_range_raises_bad_encoding(row, message):
    with pytest.raises(BadEncoding, match=message):
        whence.load(zoo.make("bert")).explain(row)


def test_bart_refuses_inputs_without_end_token_and_takes_mixed_numbers_of_end_tokens():
    explainer = whence.load(zoo.make("bart"))
    with pytest.raises(BadEncoding, match="end-of-sequence token"):
        explainer.explain({"input_ids": [5, 6, 7]}, method="gradient")
    rows = [{"input_ids": [5, 3, 7, 3]}, {"input_ids": [5, 6, 7, 3]}]
    found = explainer.explain(rows, method="gradient")
    alone = [explainer.explain(row, method="gradient") for row in rows]
    assert [e.prediction.index for e in found] == [e.prediction.index for e in alone]
    lonely = explainer.explain({"input_ids": [3]}, method="leave_one_out")
    assert lonely.scores.tolist() == [0]


def test_inputs_with_different_features_never_share_a_batch():
    explainer = whence.load(zoo.make("bert"))
    rows = [{"input_ids": [5, 6, 7]}, {"input_ids": [5, 6, 7], "token_type_ids": [0, 0, 1]}]
    assert len(explainer.explain(rows)) == 2
    with pytest.raises(BadEncoding, match="one at a time"):
        explainer.trace(rows)


def test_trace_of_an_empty_list_raises_whence_error():
    with pytest.raises(whence.WhenceError, match="nothing to trace"):
        whence.load(zoo.make("bert")).trace([])
