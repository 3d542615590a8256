"""Forward passes that record no attention: no dense mask, the model's own logits, attention restored, threads."""

from threading import Thread

import pytest
import torch
import transformers as hf
from torch import nn
from transformers.masking_utils import create_causal_mask

import whence
from tests import zoo
from tests.contract.test_masks import LENGTHS, WINDOWS, build_model, build_padded_inputs
from tests.unit.test_masks import Largest
from whence.data.batches import collate
from whence.explain.inputs import encode_inputs
from whence.models.facts import get_facts
from whence.tracing.ask import count_forwards
from whence.tracing.attention_interface import IMPLEMENTATION_NAME, list_attention_configs
from whence.tracing.attention_override import override_attention
from whence.tracing.forward import (
    compute_plain_logits,
    route_unobserved,
    run_without_dense_masks,
)

LONG = 8192


def list_implementations(model):
    return [config._attn_implementation for config in list_attention_configs(model)]


def long_model(window):
    config = hf.MistralConfig(
        **{**zoo._DECODER, "max_position_embeddings": LONG, "num_hidden_layers": 1},
        sliding_window=window,
    )
    return zoo.seeded(lambda: hf.MistralForSequenceClassification(config)).eval()


def batch_of(model, *rows):
    items, _ = encode_inputs(
        [{"input_ids": row} for row in rows], whence.load(model).loaded, truncate=False
    )
    return collate(items, pad_id=0, device=torch.device("cpu"))


def ids(length):
    return [3 + 7 * i % 60 for i in range(length)]


@pytest.mark.parametrize("window", [256, None], ids=["window", "causal"])
def test_gradient_at_8192_tokens_makes_no_tensor_of_queries_times_keys(window):
    """The largest tensor is a block of a mask, 2^20 answers; one map of one head has 2^26."""
    explainer = whence.load(long_model(window))
    with Largest() as largest:
        found = explainer.explain({"input_ids": ids(LONG)}, method="gradient")
    assert len(found.scores) == LONG
    assert largest.elements <= LONG * LONG / 32


@pytest.mark.parametrize("window", [256, None], ids=["window", "causal"])
def test_compute_plain_logits_of_a_padded_batch_makes_no_tensor_of_queries_times_keys(window):
    model = long_model(window)
    batch = batch_of(model, ids(LONG), ids(LONG - 2000))
    with Largest() as largest:
        found = compute_plain_logits(model, batch)
    assert largest.elements <= LONG * LONG / 32
    alone = compute_plain_logits(model, batch_of(model, ids(LONG - 2000)))
    # In float32; sums of 256 keys in another order.
    torch.testing.assert_close(found[1:], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta", "llama", *sorted(WINDOWS)])
def test_route_unobserved_gives_the_models_own_logits_and_restores_attention(name):
    # By itself, padded and in float64, Gemma 2 gives NaN: its eager attention hides keys by the lowest number of
    # float64, and its softmax is in float32.
    inputs = build_padded_inputs(name, "right", (19,) if name == "gemma2" else LENGTHS)
    model = build_model(name)
    with torch.inference_mode():
        wanted = model(**inputs).logits
        with route_unobserved(model) as do:
            found = do(lambda: model(**inputs).logits)
            assert IMPLEMENTATION_NAME in list_implementations(model)
    assert IMPLEMENTATION_NAME not in list_implementations(model)
    # Many have norms, or an eager softmax, in float32, and some layers above them.
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["gradient", "integrated_gradients", "leave_one_out"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_methods_with_routed_attention_give_the_scores_of_own_attention(method, checkpoint):
    """Checkpointing runs blocks again with the masks they were given, after the pass that made them."""
    params = {"steps": 4} if method == "integrated_gradients" else {}
    rows = zoo.rows("llama", (19, 6))
    explainer = whence.load(build_model("mistral"), checkpoint=checkpoint)
    found = explainer.explain(rows, method=method, params=params)
    get_facts(explainer.model).is_routable = False
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
def test_run_without_dense_masks_on_an_unroutable_model_gives_its_own_logits(subtracts):
    config = hf.LlamaConfig(**zoo._DECODER, attn_implementation="eager")
    model = zoo.seeded(lambda: Past(config)).double().eval()
    model.subtracts = subtracts
    inputs = build_padded_inputs("llama", "left")
    with torch.inference_mode():
        wanted = model(**inputs).logits
        with count_forwards(model) as runs:
            assert torch.equal(
                run_without_dense_masks(model, lambda: model(**inputs).logits), wanted
            )
        assert not get_facts(model).is_routable
        with count_forwards(model) as more:
            assert torch.equal(
                run_without_dense_masks(model, lambda: model(**inputs).logits), wanted
            )
    assert (runs.forward, more.forward) == (2 * 3, 3)  # of three inputs


def test_run_without_dense_masks_after_a_failure_restores_the_attention():
    model = zoo.make("llama")
    before = list_implementations(model)

    def fail():
        raise RuntimeError("not enough memory")

    with pytest.raises(RuntimeError, match="memory"):
        run_without_dense_masks(model, fail)
    assert list_implementations(model) == before
    assert get_facts(model).is_routable, "memory says nothing about the seam"


def test_override_attention_of_one_model_leaves_another_model_unchanged():
    """A model that attends uniformly, and beside it another one, as the language model that fills holes."""
    first, second = zoo.make("bert"), zoo.make("bert", seed=1)
    batch = batch_of(first, ids(9))
    apart = compute_plain_logits(second, batch)
    own = compute_plain_logits(first, batch)
    with override_attention(first, "uniform"):
        assert torch.equal(compute_plain_logits(second, batch), apart)
        assert not torch.allclose(compute_plain_logits(first, batch), own)
    assert torch.equal(compute_plain_logits(first, batch), own)


def test_watch_attention_sees_every_layer_of_compute_plain_logits():
    from whence.tracing.attention_override import watch_attention

    model = zoo.make("bert")
    batch = batch_of(model, ids(9))
    with watch_attention(model, 1) as seen:
        compute_plain_logits(model, batch)
    assert len(seen) == model.config.num_hidden_layers


def test_compute_plain_logits_in_four_threads_equals_one_thread():
    model = build_model("mistral")
    rows = [ids(length) for length in (19, 11, 6)]
    wanted = compute_plain_logits(model, batch_of(model, *rows))
    found = []
    threads = [
        Thread(target=lambda: found.append(compute_plain_logits(model, batch_of(model, *rows))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(torch.equal(one, wanted) for one in found)
    assert IMPLEMENTATION_NAME not in list_implementations(model)


def test_compute_plain_logits_uses_an_attention_registered_by_the_user():
    """Somebody's own, under a name of its own."""
    from transformers.modeling_utils import AttentionInterface

    calls = []

    def attend(module, query, key, value, mask, **_):
        calls.append(1)
        return value.transpose(1, 2), None

    AttentionInterface.register("somebodys", attend)
    model = zoo.seeded(lambda: hf.BertForSequenceClassification(hf.BertConfig(**zoo._BERT))).eval()
    model.set_attn_implementation("somebodys")
    compute_plain_logits(model, batch_of(model, ids(9)))
    assert len(calls) == model.config.num_hidden_layers
