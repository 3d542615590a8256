"""Layers read by a thread beside the backward pass: what an accelerator does, here on a CPU."""

import threading

import pytest
import torch

from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.unit.test_streaming import BOTH, READERS, batch_of, rolled, traced
from whence.capture.memory import alongside
from whence.capture.memory.alongside import Alongside
from whence.kernels import using
from whence.kernels.choice import chosen
from whence.methods import method


@pytest.fixture(autouse=True)
def also_on_a_cpu(monkeypatch):
    monkeypatch.setattr(alongside, "_DEVICES", frozenset({"cpu"}))


@pytest.mark.parametrize("name", READERS)
def test_methods_say_the_same(name):
    model = zoo.make("bert")
    batch, entry = batch_of(model, "bert"), method.get(name)
    needs = entry.facts["needs"]
    finished = entry.fn(traced(model, batch, needs))
    assert torch.equal(entry.fn(traced(model, batch, needs, readers=1)), finished)


@pytest.mark.parametrize("name", ["llama", "albert", "gemma3"])
def test_every_layer_has_its_turn_in_one_other_thread(name):
    model = zoo.make(name)
    batch = batch_of(model, name)
    whole, threads = traced(model, batch), set()

    def step(layer, expected):
        threads.add(threading.get_ident())
        own = expected.pop()
        assert torch.equal(layer.out_grad, own.out_grad)
        assert torch.equal(layer.hidden_grad, own.hidden_grad)
        return expected

    seen = traced(model, batch, readers=1)
    assert seen.descend(0, list(whole.layers), step) == []
    assert len(threads) == 1 and threading.get_ident() not in threads
    assert all(layer.v.is_meta for layer in seen.attention)


def test_the_thread_knows_what_was_set_and_takes_no_gradients():
    model = zoo.make("bert")
    seen = traced(model, batch_of(model, "bert"), readers=1)
    with using("tiled"):
        found = seen.descend(0, [], lambda _, so: [*so, (chosen(), torch.is_grad_enabled())])
    assert found == [("tiled", False)] * 3


def test_what_a_step_raises_comes_out_as_it_is_and_no_other_step_is_done():
    model = zoo.make("bert")
    batch, came = batch_of(model, "bert"), []
    before, error = snapshot(model), KeyError("a step's own")

    def step(layer, state):
        came.append(layer)
        if len(came) == 2:
            raise error
        return state

    with pytest.raises(KeyError) as raised:
        traced(model, batch, readers=1).descend(0, None, step)
    assert raised.value is error and len(came) == 2
    assert_unchanged(before, snapshot(model))
    assert torch.equal(rolled(traced(model, batch, readers=1)), rolled(traced(model, batch)))


def test_an_error_of_the_backward_pass_stops_the_steps_too():
    model = zoo.make("bert")
    seen, came = traced(model, batch_of(model, "bert"), readers=1), []

    def refuse(_):
        raise ArithmeticError("on the way back")

    seen.attention[1].out.register_hook(refuse)
    threads = threading.active_count()
    with pytest.raises(ArithmeticError, match="on the way back"):
        seen.descend(0, None, lambda layer, _: came.append(layer))
    assert len(came) <= 1  # the last layer's, if it was done before the other error
    assert threading.active_count() == threads


def test_steps_are_done_in_order_and_before_the_block_ends():
    done = []
    with Alongside() as do:
        for number in range(100):
            do(lambda number=number: done.append(number))
    assert done == [*range(100)]


def test_devices_that_do_not_agree_have_no_thread_beside():
    model = zoo.make("bert")
    assert alongside.place([torch.device("cpu"), torch.device("meta")]) is None
    assert alongside.place([]) is None
    assert alongside.place(one.device for one in model.parameters()) is not None


def test_gradients_of_the_embeddings_come_too():
    model = zoo.make("bert")
    batch, needs = batch_of(model, "bert"), BOTH | {"embedding_grad"}
    whole, seen = traced(model, batch, needs), traced(model, batch, needs, readers=1)
    rolled(seen)
    assert torch.equal(seen.embeddings()[1], whole.embeddings()[1])
