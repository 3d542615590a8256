"""Streamed backward pass: layers arrive one by one with the same gradients, and are freed once read."""

import gc
import weakref
from itertools import pairwise

import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.memory_meter import PeakMemoryMeter
from whence.core.errors import BadMethod, BadParameter
from whence.data.batches import collate
from whence.explain.inputs import encode_inputs
from whence.kernels.contract import (
    contract,
    contract_normalised,
    gather,
    get_implementation,
    use_implementation,
)
from whence.methods import method
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

ASKED = TargetSpec("predicted", None, "logit")
BOTH = {"attention", "attention_grad", "hidden_grad"}
READERS = ("generic_attention", "attcat", "cat", "attention_gradient", "attention_gradcam")
KIND = "positive_gradient_x_attention"


def batch_of(model, name, lengths=(9, 5, 7)):
    items, _ = encode_inputs(zoo.rows(name, lengths), whence.load(model).loaded, truncate=False)
    return collate(items, pad_id=0, device=torch.device("cpu"))


def trace_batch(model, batch, needs=BOTH, **how):
    return run_traced(model, batch, needs, ASKED, "single_label", **how)


def roll_down_rows(seen, start=0):
    return seen.descend(start, seen.rows, lambda layer, row: row + contract(layer, row, KIND))


@pytest.mark.parametrize("name", ["bert", "deberta-v2", "llama", "albert", "gemma3"])
def test_descend_gives_layers_from_last_to_first_with_the_gradients_of_a_full_pass(name):
    model = zoo.make(name)
    batch = batch_of(model, name)
    whole, came = trace_batch(model, batch), []

    def step(layer, expected):
        own = expected.pop()
        assert torch.equal(layer.out_grad, own.out_grad)
        assert torch.equal(layer.hidden_grad, own.hidden_grad)
        assert torch.equal(layer.v, own.v)
        came.append(own)
        return expected

    assert trace_batch(model, batch, readers=1).descend(0, list(whole.layers), step) == []
    assert came == whole.layers[::-1]


@pytest.mark.parametrize("name", READERS)
def test_methods_on_a_streamed_trace_equal_methods_on_a_finished_trace(name):
    model = zoo.make("bert")
    batch, entry = batch_of(model, "bert"), method.get(name)
    needs = entry.facts["needs"]
    finished = entry.fn(trace_batch(model, batch, needs))
    assert torch.equal(entry.fn(trace_batch(model, batch, needs, readers=1)), finished)
    # And when somebody else reads first.
    shared = trace_batch(model, batch, BOTH, readers=2)
    with shared.reading():
        roll_down_rows(shared)
    with shared.reading():
        assert torch.equal(entry.fn(shared), finished)


def test_descend_frees_each_layer_before_the_next_one():
    model = zoo.make("bert")
    seen, alive = trace_batch(model, batch_of(model, "bert"), readers=1), []

    def step(layer, count):
        gc.collect()
        assert [ref() for ref in alive] == [None] * len(alive)
        # The values of the layer above, whose graph has been used, are nobody's now.
        for tensor in (layer.q, layer.k, layer.v, layer.out_grad, layer.hidden_grad):
            alive.append(weakref.ref(tensor.untyped_storage()))
        return count + 1

    assert seen.descend(0, 0, step) == 3
    gc.collect()
    assert len(alive) == 15 and not any(ref() for ref in alive[:10])


def test_layers_are_freed_only_by_the_last_of_two_readers():
    model = zoo.make("bert")
    seen = trace_batch(model, batch_of(model, "bert"), readers=2)
    with seen.reading():
        first = roll_down_rows(seen)
        assert not any(layer.v.is_meta for layer in seen.attention)
    with seen.reading():
        assert torch.equal(roll_down_rows(seen), first)
        assert all(layer.v.is_meta for layer in seen.attention)
    assert seen.embedding is None and not seen.memo


def test_backward_pass_stops_at_the_lowest_requested_layer():
    """The backward of a block's first matrices runs only where something below it is wanted."""
    model = zoo.make("bert")
    batch = batch_of(model, "bert")
    reached = []
    trace_batch(
        model, batch, {"attention", "attention_grad"}
    )  # compared with itself, once, without gradients

    def watch(number):
        def hook(_, __, output):
            output.register_hook(lambda grad: reached.append(number))

        return hook

    for number, block in enumerate(model.bert.encoder.layer):
        block.attention.self.query.register_forward_hook(watch(number))
    roll_down_rows(trace_batch(model, batch, {"attention", "attention_grad"}, readers=1))
    assert reached == [2, 1]  # the gradient of layer 0's output is the last one needed
    reached.clear()
    roll_down_rows(trace_batch(model, batch, {"attention", "attention_grad"}, readers=1), -1)
    assert reached == []
    trace_batch(model, batch, {"attention", "attention_grad"})
    assert reached == [2, 1]


class ParallelBlocks(torch.nn.Module):
    """Two blocks side by side: the second is not above the first."""

    def __init__(self, bert):
        super().__init__()
        self.bert, self.config, self.dtype = bert, bert.config, bert.dtype
        self.blocks = bert.bert.encoder.layer

    def get_input_embeddings(self):
        return self.bert.get_input_embeddings()

    def _can_set_attn_implementation(self):
        return True

    def set_attn_implementation(self, name):
        self.bert.set_attn_implementation(name)

    def forward(self, input_ids, attention_mask=None):
        hidden = self.bert.bert.embeddings(input_ids)
        both = [_first(self.blocks[0](hidden)), _first(self.blocks[1](hidden))]
        return type("Out", (), {"logits": self.bert.classifier((both[0] + both[1])[:, 0])})()


def _first(output):
    return output[0] if isinstance(output, tuple) else output


def test_parallel_blocks_are_traced_without_streaming_and_give_the_same_rows():
    model = ParallelBlocks(zoo.make("bert"))
    model.config.num_hidden_layers = 2
    batch = batch_of(model.bert, "bert", (6, 6))
    needs = {"attention", "attention_grad"}
    expected = roll_down_rows(trace_batch(model, batch, needs))
    assert torch.equal(roll_down_rows(trace_batch(model, batch, needs, readers=1)), expected)
    # It is remembered: nothing is tried the second time.
    assert trace_batch(model, batch, needs, readers=1).pending is None


class Stop(Exception):
    pass


def test_error_in_a_descend_step_propagates_and_leaves_the_model_unchanged():
    model = zoo.make("bert")
    batch = batch_of(model, "bert")
    before = snapshot(model)

    def step(layer, state):
        raise Stop("here")

    with pytest.raises(Stop, match=r"^here$"):
        trace_batch(model, batch, readers=1).descend(0, None, step)
    assert_unchanged(before, snapshot(model))
    seen = trace_batch(model, batch, readers=1)
    with pytest.raises(BadParameter, match="There is no layer 7"):
        roll_down_rows(seen, 7)
    assert torch.equal(
        roll_down_rows(seen), roll_down_rows(trace_batch(model, batch))
    )  # nothing was used up


def test_descend_steps_see_the_kernel_implementation_of_their_context():
    model = zoo.make("bert")
    with use_implementation("tiled"):
        seen = trace_batch(model, batch_of(model, "bert"), readers=1)
        assert seen.descend(0, [], lambda _, found: [*found, get_implementation()]) == ["tiled"] * 3


def test_memory_of_a_streamed_backward_pass_falls_from_layer_to_layer():
    """At once, q, k, v and the gradient of all three layers are there until the end."""
    model = zoo.make("bert", dtype=torch.float32)
    batch = batch_of(model, "bert", (48, 48))
    needs, held = {"attention", "attention_grad"}, []
    for how in ({"readers": 1}, {}):
        with PeakMemoryMeter() as meter:
            seen = trace_batch(model, batch, needs, **how)
            held.append(seen.descend(0, [], lambda _, found: [*found, meter.now]))
            del seen
    one = 2 * 48 * 32 * 4  # bytes of (inputs, tokens, width)
    streamed, at_once = held
    # A block that has been passed leaves with q, k, v, its input, its middle and more behind.
    assert all(below < above - 4 * one for above, below in pairwise(streamed))
    assert len(set(at_once)) == 1
    # Of the lowest layer, a part of its own graph is still there, but nothing of the two above.
    assert at_once[-1] >= 12 * one
    assert streamed[-1] < at_once[-1] - 2 * one


@pytest.mark.parametrize("layer", [-1, 0, None])
@pytest.mark.parametrize("name", ["bert", "deberta-v2", "llama"])
def test_raw_attention_with_max_query_equals_the_column_maxima_of_the_map(name, layer):
    """The largest entry of each column of the map, by hand: each token's row is read."""
    model = zoo.make(name)
    given = zoo.rows(name, (7,))
    (found,) = whence.load(model).explain(
        given, method="raw_attention", params={"layer": layer, "query": "max"}
    )
    layers = whence.load(model).trace(given).layers
    chosen = layers if layer is None else [layers[layer]]
    maps = torch.stack([one.map()[0].mean(0) for one in chosen]).mean(0)
    torch.testing.assert_close(torch.tensor(found.scores), maps.amax(0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "read",
    [
        lambda layer, rows: contract(layer, rows),
        lambda layer, rows: contract_normalised(layer, rows, KIND),
        lambda layer, rows: gather(layer, rows[..., None], "attention"),
        lambda layer, _: layer.weights(),
        lambda layer, _: layer.map_grad(),
        lambda layer, _: layer.compute_cat(),
    ],
)
@pytest.mark.parametrize("name", ["bert", "deberta-v2"])
def test_reading_a_freed_layer_raises_bad_method(name, read):
    """It has shapes and no numbers: sums over them would be zeros."""
    model = zoo.make(name)
    seen = trace_batch(model, batch_of(model, name), readers=1)
    kept = seen.descend(0, [], lambda layer, found: [*found, layer])
    with pytest.raises(BadMethod, match=r"let go of\. Layers come once"):
        read(kept[0], seen.rows)
