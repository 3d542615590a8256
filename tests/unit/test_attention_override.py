"""A model that attends in another manner, and one that is watched."""

import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.capture import TargetSpec, attention_as, bare_logits, trace, watching
from whence.capture.attention.layer import Computed
from whence.capture.attention.seam import attending, in_manner
from whence.data import collate
from whence.explainer.intake import take
from whence.kernels import Visible

ONE_STREAM = [name for name in zoo.ARCHITECTURES if name not in zoo.TWO_STREAMS]
SPEC = TargetSpec("predicted", None, "logit")


def batch_of(model, ids=(2, 11, 23, 5, 7, 3)):
    loaded = whence.load(model).loaded
    items, _ = take([{"input_ids": [list(ids)]}], loaded, truncate=False)
    return collate(items, pad_id=loaded.pad_id, device=loaded.device)


@pytest.mark.parametrize("name", ONE_STREAM)
def test_uniform_attention_sees_all_that_may_be_seen_alike(name):
    model = zoo.make(name)
    batch = batch_of(model)
    before, own = snapshot(model), bare_logits(model, batch)
    with attention_as(model, "uniform"), watching(model, 1) as seen:
        changed = model(**batch.inputs).logits.detach()
    assert_unchanged(before, snapshot(model))
    assert torch.equal(bare_logits(model, batch), own)
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
def test_detached_attention_changes_the_gradient_and_not_the_answer(name):
    model = zoo.make(name)
    batch = batch_of(model)
    own = trace(model, batch, {"embedding_grad"}, SPEC, "single_label")
    with attention_as(model, "detached"):
        detached = trace(model, batch, {"embedding_grad"}, SPEC, "single_label")
    torch.testing.assert_close(detached.logits, own.logits)
    assert (detached.embedding_grad - own.embedding_grad).abs().max() > 1e-6


def test_detached_is_the_gradient_with_constant_weights():
    """A model of one layer: with the weights taken out of it, the rest can be written down and differentiated."""
    model = whence.load("decoy", dtype="float64").model
    batch = batch_of(model, (2, 5, 6, 3))
    with watching(model, 1) as seen:
        model(**batch.inputs)
    weights = [layer.weights().detach() for layer in seen]
    with attention_as(model, "detached"):
        found = trace(model, batch, {"embedding_grad"}, SPEC, "single_label")
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
        expected = trace(model, batch, {"embedding_grad"}, SPEC, "single_label")
    finally:
        model.set_attn_implementation(before)
    torch.testing.assert_close(found.embedding_grad, expected.embedding_grad)


def test_an_exception_leaves_the_model_as_it_was():
    model = zoo.make("bert")
    before = snapshot(model)
    with pytest.raises(RuntimeError, match="on purpose"), attention_as(model, "uniform"):
        raise RuntimeError("on purpose")
    assert_unchanged(before, snapshot(model))


def test_a_watched_model_can_be_trained():
    model = zoo.make("bert").train()
    batch = batch_of(model)
    with watching(model, 1) as seen:
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
def test_uniform_attention_knows_neither_biases_nor_sinks_nor_soft_masks(also):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4, 3, generator=draw) for _ in range(3))
    mask = torch.tensor([0.0, -1.5, torch.finfo(torch.float32).min, 0.0]).reshape(1, 1, 1, 4)
    layer = Computed(q=q, k=k, v=v, visible=Visible(dense=mask), **also)
    with attending("uniform"):
        found = in_manner(layer).weights()
    wanted = torch.tensor([1, 1, 0, 1]) / 3  # -1.5 makes a key less likely, and hides it not
    torch.testing.assert_close(found, wanted.expand_as(found))
