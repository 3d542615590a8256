"""Attention overrides: uniform and detached attention, and attention watched during a forward pass."""

import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.data.batches import collate
from whence.explain.inputs import encode_inputs
from whence.kernels.maps import VisibleKeys
from whence.tracing.attention_interface import apply_attention_override, attention_override
from whence.tracing.attention_layer import ComputedAttention
from whence.tracing.attention_override import override_attention, watch_attention
from whence.tracing.forward import compute_plain_logits
from whence.tracing.restore import set_variable
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

ONE_STREAM = [name for name in zoo.ARCHITECTURES if name not in zoo.TWO_STREAMS]
SPEC = TargetSpec("predicted", None, "logit")


def batch_of(model, ids=(2, 11, 23, 5, 7, 3)):
    loaded = whence.load(model).loaded
    items, _ = encode_inputs([{"input_ids": [list(ids)]}], loaded, truncate=False)
    return collate(items, pad_id=loaded.pad_id, device=loaded.device)


@pytest.mark.parametrize("name", ONE_STREAM)
def test_uniform_override_weighs_all_visible_keys_equally_and_restores_the_model(name):
    model = zoo.make(name)
    batch = batch_of(model)
    before, own = snapshot(model), compute_plain_logits(model, batch)
    with override_attention(model, "uniform"), watch_attention(model, 1) as seen:
        changed = model(**batch.inputs).logits.detach()
    assert_unchanged(before, snapshot(model))
    assert torch.equal(compute_plain_logits(model, batch), own)
    assert (changed - own).abs().max() > 1e-6
    for layer in seen:
        weights = layer.weights().detach()
        for row in weights.reshape(-1, weights.shape[-1]):
            shown = row[row > 0]
            # The same to rounding, whatever keys and biases say.
            torch.testing.assert_close(shown, torch.full_like(shown, 1 / len(shown)))
        if name in zoo.CAUSAL:
            assert weights[0, 0, 0, 1:].eq(0).all()


@pytest.mark.parametrize("name", ["bert", "deberta-v2", "gpt2", "mpnet"])
def test_detached_override_changes_the_gradient_and_not_the_logits(name):
    model = zoo.make(name)
    batch = batch_of(model)
    own = run_traced(model, batch, {"embedding_grad"}, SPEC, "single_label")
    with override_attention(model, "detached"):
        detached = run_traced(model, batch, {"embedding_grad"}, SPEC, "single_label")
    torch.testing.assert_close(detached.logits, own.logits)
    assert (detached.embedding_grad - own.embedding_grad).abs().max() > 1e-6


def test_detached_override_equals_the_gradient_with_constant_attention_weights():
    """A model of one layer: with the weights taken out of it, the rest can be written down and differentiated."""
    model = whence.load("decoy", dtype="float64").model
    batch = batch_of(model, (2, 5, 6, 3))
    with watch_attention(model, 1) as seen:
        model(**batch.inputs)
    weights = [layer.weights().detach() for layer in seen]
    with override_attention(model, "detached"):
        found = run_traced(model, batch, {"embedding_grad"}, SPEC, "single_label")
    maps = iter(weights)

    def constant(module, query, key, value, mask, **_):
        return (next(maps) @ value).transpose(1, 2).contiguous(), None

    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register("constant", constant)
    AttentionMaskInterface.register("constant", sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("constant")
    try:
        expected = run_traced(model, batch, {"embedding_grad"}, SPEC, "single_label")
    finally:
        model.set_attn_implementation(before)
    torch.testing.assert_close(found.embedding_grad, expected.embedding_grad)


def test_override_attention_restores_the_model_after_an_exception():
    model = zoo.make("bert")
    before = snapshot(model)
    with pytest.raises(RuntimeError, match="on purpose"), override_attention(model, "uniform"):
        raise RuntimeError("on purpose")
    assert_unchanged(before, snapshot(model))


def test_watch_attention_passes_gradients_to_the_weights_of_a_training_model():
    model = zoo.make("bert").train()
    batch = batch_of(model)
    with watch_attention(model, 1) as seen:
        model(**batch.inputs)
    seen[-1].weights()[:, :, 0].square().sum().backward()
    assert model.bert.encoder.layer[2].attention.self.query.weight.grad.abs().sum() > 0
    assert model.training


@pytest.mark.parametrize(
    "also",
    [
        {"bias": torch.arange(4.0).reshape(1, 1, 1, 4)},
        {"sink": torch.ones(2)},
        {"softcap": 0.5},
    ],
)
def test_uniform_override_ignores_biases_sinks_softcaps_and_soft_masks(also):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4, 3, generator=draw) for _ in range(3))
    mask = torch.tensor([0.0, -1.5, torch.finfo(torch.float32).min, 0.0]).reshape(1, 1, 1, 4)
    layer = ComputedAttention(q=q, k=k, v=v, visible=VisibleKeys(dense=mask), **also)
    with set_variable(attention_override, "uniform"):
        found = apply_attention_override(layer).weights()
    wanted = torch.tensor([1, 1, 0, 1]) / 3  # -1.5 makes a key less likely, and hides it not
    torch.testing.assert_close(found, wanted.expand_as(found))
