"""What a trace leaves out because it takes time: walks of the modules, switches of the attention, waits."""

import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from whence.capture import bare_logits
from whence.capture.anatomy.rows import waited_for
from whence.capture.found import as_found
from whence.models import fingerprint
from whence.models.parts import held, parts, weights


@pytest.mark.parametrize("name", ["bert", "albert", "t5", "distilbert"])
def test_the_same_walk_as_pytorchs(name):
    model = zoo.make(name)
    assert parts(model) == list(model.modules())
    every = list(model.parameters())
    assert [id(one) for one in weights(parts(model))] == [id(one) for one in every]


def test_a_model_is_walked_once_while_it_is_held_and_anew_afterwards():
    model = zoo.make("bert")
    with held(model) as first:
        with held(model) as second:
            assert first is second is parts(model)
        assert parts(model) is first
    model.extra = torch.nn.Linear(2, 2)
    assert parts(model) == list(model.modules())


def test_what_was_switched_to_training_meanwhile_is_switched_back():
    model = zoo.make("bert").eval()
    model.classifier.train()
    with as_found(model):
        assert not model.classifier.training
        model.bert.train()
    assert [m for m in model.modules() if m.training] == [model.classifier]


def test_a_new_configuration_is_switched_too():
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


def test_a_fingerprint_sees_what_was_changed_behind_autograds_back_and_the_configuration():
    model = zoo.make("bert")
    first = fingerprint(model)
    assert fingerprint(model) == first
    weight = model.bert.encoder.layer[1].output.dense.weight
    own = weight.data.clone()
    weight.data.mul_(2)
    second = fingerprint(model)
    weight.data.copy_(own)
    assert second != first == fingerprint(model)
    model.config.hidden_act = "relu"
    third = fingerprint(model)
    assert third not in (first, second)
    model.config.hidden_act = "gelu"
    assert fingerprint(model) == first
    # Turned round in memory, it is another model, and no reading beyond its end.
    weight.data = own.T.contiguous().T
    assert fingerprint(model) == first


@pytest.mark.parametrize("read", [None, torch.tensor([[True, False], [False, False]])])
def test_one_wait_says_what_must_be_known(read):
    fine = torch.zeros(2, 3)
    bad = torch.tensor([[0.0, torch.nan, 0.0], [0.0, 0.0, 0.0]])
    blind = read is not None  # the second input reads no row
    assert waited_for(fine, read) == (True, blind)
    assert waited_for(bad, read) == (False, blind)


def test_logits_that_are_not_finite_are_refused_after_the_backward_pass_as_before_it():
    model = zoo.make("bert")
    with torch.no_grad():
        model.classifier.bias[0] = torch.inf
    row = zoo.rows("bert")[0]
    for name in ("generic_attention", "gradient", "raw_attention"):
        with pytest.raises(whence.core.errors.NotFinite, match="logits are not finite"):
            whence.load(model).explain(row, method=name)
    items = whence.load(zoo.make("bert")).trace(row).batch
    with pytest.raises(whence.core.errors.NotFinite):
        bare_logits(model, items)
