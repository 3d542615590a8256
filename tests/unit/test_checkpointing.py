"""Gradient checkpointing: equal scores in less memory; skipped with a warning where a block is unsafe to rerun."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import encoder_decoder_models, zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.memory_meter import PeakMemoryMeter
from whence.data.batches import BatchRules, collate
from whence.metrics._requests import Dropout
from whence.tracing.ask import ModelQuery
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

ASKED = TargetSpec("predicted", None, "logit")
METHODS = (
    "generic_attention",
    "attcat",
    "cat",
    "gradient",
    "grad_x_input",
    "attention_gradient",
    "rollout",
    "attention_gradcam",
)
ONE_STACK = [name for name in zoo.ARCHITECTURES if name not in zoo.TWO_STREAMS]
# Float64 throughout, but for the models whose norms or rotations are computed in float32.
_ANEW = {name: 1e-5 if name in zoo.CAUSAL - {"gpt2"} else 1e-12 for name in ONE_STACK}


@pytest.mark.parametrize("name", ONE_STACK)
def test_checkpointing_gives_the_same_scores_bit_for_bit(name):
    """The same operations on the same numbers in the same order; batches and padding, alone and together."""
    model, given = zoo.make(name), zoo.rows(name)
    plain, lean = whence.load(model), whence.load(model, checkpoint=True)
    before = snapshot(model)
    expected = plain.explain(given, method=list(METHODS))
    for own, found in zip(expected, lean.explain(given, method=list(METHODS)), strict=True):
        for method in METHODS:
            assert np.array_equal(own[method].scores, found[method].scores), method
            assert own[method].passes == found[method].passes
    for method in ("generic_attention", "attcat", "gradient"):
        for own, found in zip(expected, lean.explain(given, method=method), strict=True):
            assert np.array_equal(own[method].scores, found.scores), method
    # Without a gradient to take, PyTorch leaves no logarithms of the sums behind, and they are computed anew.
    for own, found in zip(expected, lean.explain(given, method="rollout"), strict=True):
        np.testing.assert_allclose(own["rollout"].scores, found.scores, rtol=_ANEW[name])
    assert_unchanged(before, snapshot(model))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("rollout", {"start_layer": 1}),
        ("generic_attention", {"start_layer": -1}),
        ("cat", {"layer": 1}),
    ],
)
def test_checkpointing_with_other_start_layers_gives_the_same_scores(method, params):
    model, given = zoo.make("bert"), zoo.rows("bert")
    plain, lean = (
        whence.load(model, checkpoint=checkpoint).explain(given, method=method, params=params)
        for checkpoint in (False, True)
    )
    for own, found in zip(plain, lean, strict=True):
        np.testing.assert_allclose(own.scores, found.scores, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(zoo.TWO_STREAMS))
def test_checkpointing_of_encoder_decoder_classifiers_gives_the_same_gradients(name):
    model, given = zoo.make(name), zoo.rows(name)
    plain = whence.load(model).explain(given, method="gradient")
    lean = whence.load(model, checkpoint=True).explain(given, method="gradient")
    # The gradients of several blocks that read the encoder are added in another order; T5's norms are in float32.
    for own, found in zip(plain, lean, strict=True):
        np.testing.assert_allclose(found.scores, own.scores, rtol=1e-5 if name == "t5" else 1e-12)


@pytest.mark.parametrize("name", encoder_decoder_models.NAMES)
def test_checkpointing_of_generating_encoder_decoders_gives_the_same_gradients(name):
    model = encoder_decoder_models.make(name)
    batch = collate(encoder_decoder_models.items(model), pad_id=0, device=torch.device("cpu"))
    needs = {"attention", "attention_grad", "hidden_grad", "embedding_grad"}
    plain, lean = (
        run_traced(model, batch, needs, ASKED, "sequence", readers=1, checkpoint=checkpoint)
        for checkpoint in (False, True)
    )
    # What several blocks give to the encoder is added in another order.
    close = {"rtol": encoder_decoder_models.tolerance(name), "atol": 1e-9}
    torch.testing.assert_close(lean.embeddings()[1], plain.embeddings()[1], **close)
    for own, found in zip(plain.attention, lean.attention, strict=True):
        torch.testing.assert_close(found.out_grad, own.out_grad, **close)
        torch.testing.assert_close(found.hidden_grad, own.hidden_grad, **close)


@pytest.mark.parametrize("method", ["integrated_gradients", "smoothgrad"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_checkpointing_of_gradient_query_methods_gives_equal_scores_in_less_memory(name, method):
    model, given = zoo.make(name), zoo.rows(name)
    peaks, found = [], []
    for checkpoint in (False, True):
        explainer = whence.load(model, checkpoint=checkpoint)
        with PeakMemoryMeter() as meter:
            found.append(explainer.explain(given, method=method))
        peaks.append(meter.peak)
    for own, one in zip(*found, strict=True):
        assert np.array_equal(own.scores, one.scores) and own.passes == one.passes
    assert peaks[1] < peaks[0]


def test_checkpointing_of_an_image_model_gives_the_same_scores():
    model = zoo.make_vit()
    drawn = torch.rand(zoo.PIXELS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pixels = {"pixel_values": drawn[None]}
    for method in ("generic_attention", "gradient"):
        plain = whence.load(model).explain(pixels, method=method)
        lean = whence.load(model, checkpoint=True).explain(pixels, method=method)
        assert np.array_equal(plain.scores, lean.scores)


def test_checkpointing_takes_less_than_a_third_of_the_memory():
    """Twelve layers: without the option all their values are kept, with it those of one, and each block's input.

    Per token and layer a block of BERT keeps its input, q, k, v, what attention gave, two sums and norms, and twice
    the four times wider middle: 17 times the width and more, of which one is left. So a third is generous.
    """
    width = {"hidden_size": 32, "intermediate_size": 128, "num_attention_heads": 4}
    config = hf.BertConfig(**width, num_hidden_layers=12, vocab_size=64, max_position_embeddings=64)
    model = zoo.seeded(lambda: hf.BertForSequenceClassification(config)).eval()
    given = {"input_ids": list(range(4, 62))}
    peaks = {}
    for checkpoint in (False, True):
        explainer = whence.load(model, checkpoint=checkpoint)
        for method in ("generic_attention", "attcat", "gradient"):
            with PeakMemoryMeter() as meter:
                explainer.explain(given, method=method)
            peaks[method, checkpoint] = meter.peak
            assert meter.now == 0
    for method in ("generic_attention", "attcat", "gradient"):
        assert peaks[method, True] < peaks[method, False] / 3, peaks


class Handing(torch.nn.Module):
    """A block that hands on two results, both of which count."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, hidden):
        made = self.block(hidden)
        made = made[0] if isinstance(made, tuple) else made
        return made, hidden * 0.5


class TwoResults(torch.nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.bert, self.config, self.dtype = bert, bert.config, bert.dtype
        self.blocks = torch.nn.ModuleList([Handing(one) for one in bert.bert.encoder.layer])

    def get_input_embeddings(self):
        return self.bert.get_input_embeddings()

    def _can_set_attn_implementation(self):
        return True

    def set_attn_implementation(self, name):
        self.bert.set_attn_implementation(name)

    def forward(self, input_ids, attention_mask=None):
        hidden = self.bert.bert.embeddings(input_ids)
        for block in self.blocks:
            hidden, beside = block(hidden)
            hidden = hidden + beside
        return type("Out", (), {"logits": self.bert.classifier(hidden[:, 0])})()


def test_checkpointing_of_blocks_with_two_results_gives_the_same_gradients():
    bert = zoo.make("bert")
    model = TwoResults(bert)
    batch = whence.load(bert).trace(zoo.rows("bert", (6, 6))).batch
    asked = ({"attention", "attention_grad"}, ASKED, "single_label")
    expected = run_traced(model, batch, *asked)
    found = run_traced(model, batch, *asked, checkpoint=True)
    for own, layer in zip(expected.layers, found.layers, strict=True):
        assert torch.equal(own.out_grad, layer.out_grad)


def test_model_query_slopes_with_checkpointing_of_blocks_with_two_results_are_the_same():
    bert = zoo.make("bert")
    model = TwoResults(bert)
    batch = whence.load(bert).trace(zoo.rows("bert", (6, 6))).batch
    seen = run_traced(model, batch, (), ASKED, "single_label")
    found = []
    for checkpoint in (False, True):
        ask = ModelQuery(
            model, batch, seen.logits, seen.targets, fillers={}, pad_id=0, policy=BatchRules(8, 64),
            checkpoint=checkpoint,
        )  # fmt: skip
        points = [(row, vectors / 2) for row, vectors in enumerate(ask.embeddings)]
        found.append(list(ask.slopes(points)))
    for own, one in zip(*found, strict=True):
        assert torch.equal(own, one)


class Failing(Exception):
    pass


def test_checkpointing_with_a_block_failing_on_rerun_leaves_the_model_unchanged():
    model = zoo.make("bert")
    runs = []

    def fail(*_):
        runs.append(1)
        if len(runs) == 2:
            raise Failing

    model.bert.encoder.layer[1].register_forward_pre_hook(fail)
    before = snapshot(model)
    with pytest.raises(Failing):
        whence.load(model, checkpoint=True).explain(zoo.rows("bert"), method="attcat")
    assert_unchanged(before, snapshot(model))
    assert torch.is_grad_enabled()


def test_checkpointing_under_dropout_gives_the_same_scores():
    """What is dropped depends on how often a module ran: it would not be the same."""
    found = []
    for checkpoint in (False, True):
        explainer = whence.load(zoo.make("bert"), checkpoint=checkpoint)
        ((_, trial, _),) = explainer.trials(zoo.rows("bert", (6,)), method="attcat", remove="pad")
        found.append(trial.again(Dropout(0)).scores)
    assert np.array_equal(*found)


def _write_into_input(block, hidden, *others, **named):
    hidden.mul_(2.0)
    return block(hidden, *others, **named)


def _scale_by_run_count(block, hidden, *others, runs, **named):
    runs[0] += 1
    return block(hidden * runs[0], *others, **named)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (_write_into_input, "writes into what it is given"),
        (_scale_by_run_count, "does not give the same when it is run again"),
    ],
)
@pytest.mark.parametrize(
    "method", ["generic_attention", "attcat", "gradient", "integrated_gradients"]
)
def test_checkpointing_of_a_block_unsafe_to_rerun_is_skipped_with_one_warning(method, act, words):
    """Run again, each would give other numbers, or none, and say nothing."""
    found = []
    for checkpoint in (False, True):
        model = zoo.make("bert")
        block = model.bert.encoder.layer[1]
        started = {"runs": [5]} if act is _scale_by_run_count else {}
        block.forward = partial(act, block.forward, **started)
        explainer = whence.load(model, checkpoint=checkpoint)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found.append(explainer.explain(zoo.rows("bert", (6, 6)), method=method))
        assert [words in str(one.message) for one in said] == [True] * checkpoint
    if act is not _scale_by_run_count:  # of which no two runs are the same, whoever makes them
        for own, one in zip(*found, strict=True):
            assert np.array_equal(own.scores, one.scores)
