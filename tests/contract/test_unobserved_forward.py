"""Models run without anybody watching their attention: no mask is written out, and they say what they always say."""

from threading import Thread

import pytest
import torch
import transformers as hf
from torch import nn
from transformers.masking_utils import create_causal_mask

import whence
from tests import zoo
from tests.contract.test_masks import LENGTHS, WINDOWS, made, padded
from tests.unit.test_masks import Largest
from whence.capture import bare_logits
from whence.capture.asking.counted import counted
from whence.capture.attention.manner import attention_as
from whence.capture.attention.seam import NAME, implementations
from whence.capture.attention.unwatched import offers_seam, unmasked, unwatched
from whence.data import collate
from whence.explainer.intake import take

LONG = 8192


def long_model(window):
    config = hf.MistralConfig(
        **{**zoo._DECODER, "max_position_embeddings": LONG, "num_hidden_layers": 1},
        sliding_window=window,
    )
    return zoo.seeded(lambda: hf.MistralForSequenceClassification(config)).eval()


def batch_of(model, *rows):
    items, _ = take([{"input_ids": row} for row in rows], whence.load(model).loaded, truncate=False)
    return collate(items, pad_id=0, device=torch.device("cpu"))


def ids(length):
    return [3 + 7 * i % 60 for i in range(length)]


@pytest.mark.parametrize("window", [256, None], ids=["window", "causal"])
def test_nothing_is_queries_x_keys_by_gradient(window):
    """The largest tensor is a block of a mask, 2^20 answers; one map of one head has 2^26."""
    explainer = whence.load(long_model(window))
    with Largest() as largest:
        found = explainer.explain({"input_ids": ids(LONG)}, method="gradient")
    assert len(found.scores) == LONG
    assert largest.elements <= LONG * LONG / 32


@pytest.mark.parametrize("window", [256, None], ids=["window", "causal"])
def test_nothing_is_queries_x_keys_in_a_padded_batch(window):
    model = long_model(window)
    batch = batch_of(model, ids(LONG), ids(LONG - 2000))
    with Largest() as largest:
        found = bare_logits(model, batch)
    assert largest.elements <= LONG * LONG / 32
    alone = bare_logits(model, batch_of(model, ids(LONG - 2000)))
    # In float32; sums of 256 keys in another order.
    torch.testing.assert_close(found[1:], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta", "llama", *sorted(WINDOWS)])
def test_a_model_says_what_it_says_on_its_own(name):
    # By itself, padded and in float64, Gemma 2 gives NaN: its eager attention hides keys by the lowest number of
    # float64, and its softmax is in float32.
    inputs = padded(name, "right", (19,) if name == "gemma2" else LENGTHS)
    model = made(name)
    with torch.inference_mode():
        wanted = model(**inputs).logits
        with unwatched(model) as do:
            found = do(lambda: model(**inputs).logits)
            assert NAME in implementations(model)
    assert NAME not in implementations(model)
    # Many have norms, or an eager softmax, in float32, and some layers above them.
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["gradient", "integrated_gradients", "leave_one_out"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_methods_say_what_they_say_on_its_own(method, checkpoint, monkeypatch):
    """Checkpointing runs blocks again with the masks they were given, after the pass that made them."""
    params = {"steps": 4} if method == "integrated_gradients" else {}
    rows = zoo.rows("llama", (19, 6))
    explainer = whence.load(made("mistral"), checkpoint=checkpoint)
    found = explainer.explain(rows, method=method, params=params)
    monkeypatch.setattr("whence.capture.attention.unwatched.offers_seam", lambda _: False)
    wanted = explainer.explain(rows, method=method, params=params)
    for one, other in zip(found, wanted, strict=True):
        size = abs(other.scores).max()
        assert one.scores == pytest.approx(other.scores, abs=1e-5 * size)  # norms in float32


class OwnAttention(nn.Module):
    """Attends by itself, with a mask that is added to the scores, as eager attention has it."""

    def forward(self, hidden_states, mask):
        scores = hidden_states @ hidden_states.transpose(-1, -2)
        if mask is not None:
            scores = scores + (mask[:, 0] if mask.dtype != torch.bool else 100.0 * mask[:, 0])
        return scores.softmax(-1) @ hidden_states


class Past(hf.LlamaForSequenceClassification):
    """Offers the seam, as Llama does, and goes past it."""

    def __init__(self, config):
        super().__init__(config)
        self.own, self.subtracts = OwnAttention(), False

    def forward(self, input_ids, attention_mask=None, **_):
        hidden = self.model.embed_tokens(input_ids)
        mask = create_causal_mask(
            config=self.config, inputs_embeds=hidden, attention_mask=attention_mask,
            past_key_values=None, position_ids=None,
        )  # fmt: skip
        if self.subtracts and mask is not None:
            mask = -(mask - 0.0).abs()  # PyTorch subtracts no booleans
        return hf.modeling_outputs.SequenceClassifierOutput(
            logits=self.score(self.own(hidden, mask)[:, -1])
        )


Past.__module__ = hf.LlamaForSequenceClassification.__module__  # where transformers looks for it


@pytest.mark.parametrize("subtracts", [False, True])
def test_a_model_that_goes_past_the_seam_is_run_as_it_is(subtracts):
    config = hf.LlamaConfig(**zoo._DECODER, attn_implementation="eager")
    model = zoo.seeded(lambda: Past(config)).double().eval()
    model.subtracts = subtracts
    inputs = padded("llama", "left")
    with torch.inference_mode():
        wanted = model(**inputs).logits
        with counted(model) as runs:
            assert torch.equal(unmasked(model, lambda: model(**inputs).logits), wanted)
        assert not offers_seam(model)
        with counted(model) as more:
            assert torch.equal(unmasked(model, lambda: model(**inputs).logits), wanted)
    assert (runs.forward, more.forward) == (2 * 3, 3)  # of three inputs


def test_the_model_is_left_as_found_when_it_fails():
    model = zoo.make("llama")
    before = implementations(model)

    def fail():
        raise RuntimeError("not enough memory")

    with pytest.raises(RuntimeError, match="memory"):
        unmasked(model, fail)
    assert implementations(model) == before
    assert offers_seam(model), "memory says nothing about the seam"


def test_what_is_done_to_one_model_is_not_done_to_another():
    """A model that attends uniformly, and beside it another one, as the language model that fills holes."""
    first, second = zoo.make("bert"), zoo.make("bert", seed=1)
    batch = batch_of(first, ids(9))
    apart = bare_logits(second, batch)
    own = bare_logits(first, batch)
    with attention_as(first, "uniform"):
        assert torch.equal(bare_logits(second, batch), apart)
        assert not torch.allclose(bare_logits(first, batch), own)
    assert torch.equal(bare_logits(first, batch), own)


def test_who_watches_goes_on_watching():
    from whence.capture.attention.manner import watching

    model = zoo.make("bert")
    batch = batch_of(model, ids(9))
    with watching(model, 1) as seen:
        bare_logits(model, batch)
    assert len(seen) == model.config.num_hidden_layers


def test_two_threads_take_turns():
    model = made("mistral")
    rows = [ids(length) for length in (19, 11, 6)]
    wanted = bare_logits(model, batch_of(model, *rows))
    found = []
    threads = [
        Thread(target=lambda: found.append(bare_logits(model, batch_of(model, *rows))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(torch.equal(one, wanted) for one in found)
    assert NAME not in implementations(model)


def test_another_attention_stays_what_it_is():
    """Somebody's own, under a name of its own."""
    from transformers.modeling_utils import AttentionInterface

    calls = []

    def attend(module, query, key, value, mask, **_):
        calls.append(1)
        return value.transpose(1, 2), None

    AttentionInterface.register("somebodys", attend)
    model = zoo.seeded(lambda: hf.BertForSequenceClassification(hf.BertConfig(**zoo._BERT))).eval()
    model.set_attn_implementation("somebodys")
    bare_logits(model, batch_of(model, ids(9)))
    assert len(calls) == model.config.num_hidden_layers
