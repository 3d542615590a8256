"""HookWorker: layers read in a thread beside the backward pass, as on an accelerator, here on a CPU."""

import threading
import time
from queue import Queue

import pytest
import torch

from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.unit.test_backward_streaming import BOTH, READERS, batch_of, roll_down_rows, trace_batch
from whence.kernels.contract import get_implementation, use_implementation
from whence.methods import method
from whence.tracing import backward
from whence.tracing.backward import HookWorker


@pytest.fixture(autouse=True)
def hook_worker_on_cpu(monkeypatch):
    monkeypatch.setattr(backward, "_WORKER_DEVICES", frozenset({"cpu"}))


@pytest.mark.parametrize("name", READERS)
def test_trace_methods_with_a_hook_worker_give_equal_scores(name):
    model = zoo.make("bert")
    batch, entry = batch_of(model, "bert"), method.get(name)
    needs = entry.facts["needs"]
    finished = entry.fn(trace_batch(model, batch, needs))
    assert torch.equal(entry.fn(trace_batch(model, batch, needs, readers=1)), finished)


@pytest.mark.parametrize("name", ["llama", "albert", "gemma3"])
def test_descend_steps_through_every_layer_in_one_other_thread(name):
    model = zoo.make(name)
    batch = batch_of(model, name)
    whole, threads = trace_batch(model, batch), set()

    def step(layer, expected):
        threads.add(threading.get_ident())
        own = expected.pop()
        assert torch.equal(layer.out_grad, own.out_grad)
        assert torch.equal(layer.hidden_grad, own.hidden_grad)
        return expected

    seen = trace_batch(model, batch, readers=1)
    assert seen.descend(0, list(whole.layers), step) == []
    assert len(threads) == 1 and threading.get_ident() not in threads
    assert all(layer.v.is_meta for layer in seen.attention)


def test_hook_worker_thread_keeps_the_chosen_kernel_and_disables_gradients():
    model = zoo.make("bert")
    seen = trace_batch(model, batch_of(model, "bert"), readers=1)
    with use_implementation("tiled"):
        found = seen.descend(
            0, [], lambda _, so: [*so, (get_implementation(), torch.is_grad_enabled())]
        )
    assert found == [("tiled", False)] * 3


class QueueHeldUntilExit(Queue):
    """A queue that gives its first call at once, and the others when the worker is being left."""

    def __init__(self):
        super().__init__()
        self.is_left, self.given = threading.Event(), 0

    def put(self, call):
        super().put(call)
        if call is None:
            self.is_left.set()

    def get(self):
        if self.given:
            self.is_left.wait(10)
        self.given += 1
        return super().get()


def test_hook_worker_left_after_an_error_skips_the_calls_still_queued():
    worker, called = HookWorker(), []
    worker._steps = QueueHeldUntilExit()

    def fail():
        raise KeyError("a call's own")

    with pytest.raises(KeyError, match="a call's own"), worker:
        worker(fail)
        while not worker._stopped:
            time.sleep(0.001)
        worker(lambda: called.append(1))
    assert not called


def test_descend_reraises_the_error_of_a_step_and_runs_no_further_step():
    model = zoo.make("bert")
    batch, came = batch_of(model, "bert"), []
    before, error = snapshot(model), KeyError("a step's own")

    def step(layer, state):
        came.append(layer)
        if len(came) == 2:
            raise error
        return state

    with pytest.raises(KeyError) as raised:
        trace_batch(model, batch, readers=1).descend(0, None, step)
    assert raised.value is error and len(came) == 2
    assert_unchanged(before, snapshot(model))
    assert torch.equal(
        roll_down_rows(trace_batch(model, batch, readers=1)),
        roll_down_rows(trace_batch(model, batch)),
    )


def test_descend_with_error_in_the_backward_pass_stops_the_steps_and_the_thread():
    model = zoo.make("bert")
    seen, came = trace_batch(model, batch_of(model, "bert"), readers=1), []

    def refuse(_):
        raise ArithmeticError("on the way back")

    seen.attention[1].out.register_hook(refuse)
    threads = threading.active_count()
    with pytest.raises(ArithmeticError, match="on the way back"):
        seen.descend(0, None, lambda layer, _: came.append(layer))
    assert len(came) <= 1  # the last layer's, if it was done before the other error
    assert threading.active_count() == threads


def test_hook_worker_runs_steps_in_order_before_its_block_ends():
    done = []
    with HookWorker() as do:
        for number in range(100):
            do(lambda number=number: done.append(number))
    assert done == [*range(100)]


def test_find_stream_with_mixed_or_no_devices_returns_none():
    model = zoo.make("bert")
    assert backward.find_stream([torch.device("cpu"), torch.device("meta")]) is None
    assert backward.find_stream([]) is None
    assert backward.find_stream(one.device for one in model.parameters()) is not None


def test_embedding_gradients_with_a_hook_worker_equal_those_without():
    model = zoo.make("bert")
    batch, needs = batch_of(model, "bert"), BOTH | {"embedding_grad"}
    whole, seen = trace_batch(model, batch, needs), trace_batch(model, batch, needs, readers=1)
    roll_down_rows(seen)
    assert torch.equal(seen.embeddings()[1], whole.embeddings()[1])
