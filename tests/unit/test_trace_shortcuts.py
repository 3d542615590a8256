"""Shortcuts of a trace that save time: cached modules, restored modes, fingerprints and one finiteness check."""

import gc
import weakref

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from whence.data.batches import Batch
from whence.models.facts import get_facts, get_parts, hold_parts
from whence.models.fingerprint import compute_fingerprint
from whence.tracing.attention_layer import ComputedAttention
from whence.tracing.forward import compute_plain_logits
from whence.tracing.recorder import AttentionStructure, ForwardRecorder, compute_row_weights
from whence.tracing.restore import restore_on_exit


@pytest.mark.parametrize("name", ["bert", "albert", "t5", "distilbert"])
def test_get_parts_gives_the_modules_of_pytorch(name):
    model = zoo.make(name)
    parts = get_parts(model)
    assert parts.modules == list(model.modules())
    assert parts.embeddings == [m for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    assert parts.config_owners == [m for m in model.modules() if hasattr(m, "config")]


def test_hold_parts_walks_a_model_once_and_sees_new_modules_afterwards():
    model = zoo.make("bert")
    with hold_parts(model) as first:
        with hold_parts(model) as second:
            assert first is second is get_parts(model)
        assert get_parts(model) is first
    model.extra = torch.nn.Linear(2, 2)
    assert get_parts(model).modules == list(model.modules())


def test_facts_of_a_model_go_with_it():
    model = zoo.make("bert")
    whence.load(model).explain(zoo.rows("bert")[0], method="attcat")
    assert get_facts(model).verified_routes
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_restore_on_exit_resets_modules_switched_to_training():
    model = zoo.make("bert").eval()
    model.classifier.train()
    with restore_on_exit(model):
        assert not model.classifier.training
        model.bert.train()
    assert [m for m in model.modules() if m.training] == [model.classifier]


def test_trace_of_a_model_with_a_replaced_configuration_gives_the_same_maps():
    """What is remembered of a model holds for these very configurations."""
    model = zoo.make("bert")
    explainer = whence.load(model)
    row = zoo.rows("bert")[0]
    before = explainer.trace(row).layer(0).map()
    other = hf.BertConfig.from_dict(model.config.to_dict())
    other._attn_implementation = "eager"
    for part in model.modules():
        if hasattr(part, "config"):
            part.config = other
    after = explainer.trace(row).layer(0).map()
    assert torch.equal(before, after)
    assert other._attn_implementation == "eager"


def test_fingerprint_changes_with_weight_data_and_configuration_and_returns_when_undone():
    model = zoo.make("bert")
    first = compute_fingerprint(model)
    assert compute_fingerprint(model) == first
    weight = model.bert.encoder.layer[1].output.dense.weight
    own = weight.data.clone()
    weight.data.mul_(2)
    second = compute_fingerprint(model)
    weight.data.copy_(own)
    assert second != first == compute_fingerprint(model)
    model.config.hidden_act = "relu"
    third = compute_fingerprint(model)
    assert third not in (first, second)
    model.config.hidden_act = "gelu"
    assert compute_fingerprint(model) == first
    # Turned round in memory, it is another model, and no reading beyond its end.
    weight.data = own.T.contiguous().T
    assert compute_fingerprint(model) == first


@pytest.mark.parametrize("read", [None, torch.tensor([[True, False], [False, False]])])
def test_compute_row_weights_refuses_nonfinite_logits_and_fills_inputs_without_read_rows(read):
    real = torch.ones(2, 2, dtype=torch.bool)
    # Every query sees both keys: no causal model, so that the first row counts as read.
    layer = ComputedAttention(q=torch.ones(2, 1, 2, 1), k=torch.ones(2, 1, 2, 1), v=real)
    recorder = ForwardRecorder(Batch((), {}, real), cut=True, layers=[layer])
    structure, fine = AttentionStructure(read=read), torch.zeros(2, 3)
    bad = torch.tensor([[0.0, torch.nan, 0.0], [0.0, 0.0, 0.0]])
    wanted = [[0.0, 0.0]] * 2 if read is None else [[1.0, 0.0]] * 2
    found = compute_row_weights(fine, structure, recorder, is_checked=True)
    assert found.tolist() == wanted
    with pytest.raises(whence.core.errors.NotFinite, match="logits are not finite"):
        compute_row_weights(bad, structure, recorder, is_checked=True)
    unchecked = compute_row_weights(bad, structure, recorder, is_checked=False)
    assert unchecked.tolist() == wanted


def test_infinite_logits_raise_not_finite_with_and_without_a_backward_pass():
    model = zoo.make("bert")
    with torch.no_grad():
        model.classifier.bias[0] = torch.inf
    row = zoo.rows("bert")[0]
    for name in ("generic_attention", "gradient", "raw_attention"):
        with pytest.raises(whence.core.errors.NotFinite, match="logits are not finite"):
            whence.load(model).explain(row, method=name)
    items = whence.load(zoo.make("bert")).trace(row).batch
    with pytest.raises(whence.core.errors.NotFinite):
        compute_plain_logits(model, items)
