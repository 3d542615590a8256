"""Batching: results do not depend on the batch, and batches are full, for methods, metrics and audits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import ceil
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import text_model_classes, zoo
from tests.audit_subjects import subject_of
from whence.core.seed import build_generator
from whence.data.batches import collate
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import _CPU_SIZE as MAX_INPUTS
from whence.explain.inputs import encode_inputs
from whence.methods import is_trace_method, method
from whence.metrics._requests import run_together
from whence.studies.audit import importance

# A few samples are enough: each is drawn by its input, whatever stands beside it.
PARAMS = {
    "integrated_gradients": {"steps": 5},
    "smoothgrad": {"samples": 3},
    "gradient_shap": {"samples": 3},
    "lime": {"samples": 20},
    "kernel_shap": {"samples": 80},
}
ASKERS = [entry.name for entry in method if not is_trace_method(entry)]
READERS = ["raw_attention", "rollout", "generic_attention", "attcat", "gradient", "partial_lrp"]
MIXED = tuple(int(n) for n in build_generator("lengths", 8).integers(4, 40, 64))
CELLS = 1024  # inputs x longest of a batch on a CPU


@cache
def bert() -> Any:
    return whence.load(zoo.make("bert"))


@contextmanager
def record_batch_shapes(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """List the shape of every batch that a model is run on."""
    seen: list[tuple[int, ...]] = []

    def note(_: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(tuple(named["input_ids"].shape))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        hook.remove()


def count_full_batches(lengths: Any) -> int:
    """Return how many batches inputs of these lengths fill, if nothing were padded."""
    return max(ceil(sum(lengths) / CELLS), ceil(len(lengths) / MAX_INPUTS))


@pytest.mark.parametrize("name", [*ASKERS, *READERS])
def test_scores_and_passes_do_not_depend_on_batch_size_or_order(name):
    given = zoo.rows("bert", lengths=(9, 4, 23, 7, 9, 15))
    explain = bert().explain
    asked = {"method": name, "params": PARAMS.get(name)}
    together = explain(given, **asked)
    order = build_generator("order", name).permutation(len(given)).tolist()
    moved = explain([given[i] for i in order], **asked)
    single = explain(given, batch_size=1, **asked)
    for place, i in enumerate(order):
        size = np.abs(together[i].scores).max()
        # float64: sums of some hundred terms in another order, through three layers.
        np.testing.assert_allclose(moved[place].scores, together[i].scores, 0, 1e-11 * size)
        np.testing.assert_allclose(single[i].scores, together[i].scores, 0, 1e-11 * size)
        assert moved[place].passes == single[i].passes == together[i].passes


@pytest.mark.parametrize("what", ["reader", "prediction"])
def test_explain_and_predict_on_mixed_lengths_fill_their_batches(what):
    explainer, given = bert(), zoo.rows("bert", lengths=MIXED)
    explainer.predict(given)  # whether such lengths may mix is found out once
    explainer.explain(
        given[:1], method="generic_attention"
    )  # and whether it is the same when it is watched
    with record_batch_shapes(explainer.model) as seen:
        if what == "reader":
            explainer.explain(given, method="generic_attention")
        else:
            explainer.predict(given)
    assert sum(rows for rows, _ in seen) == len(given)
    assert len(seen) <= ceil(1.25 * count_full_batches(MIXED))


@pytest.mark.parametrize("name", ASKERS)
def test_query_methods_on_mixed_lengths_fill_their_batches(name):
    explainer, given = bert(), zoo.rows("bert", lengths=MIXED)
    explainer.predict(given[:2])
    with record_batch_shapes(explainer.model) as seen:
        explainer.explain(given, method=name, params=PARAMS.get(name))
    # Each batch of inputs leaves one batch of variants that is not full, and one more where the baseline is asked.
    inputs = ceil(1.25 * count_full_batches(MIXED))
    cells = [length for rows, length in seen for _ in range(rows)]
    assert len(seen) <= 1.25 * count_full_batches(cells) + 3 * inputs


def test_model_loaded_twice_is_probed_for_batching_once():
    model = zoo.make("bert", seed=3)
    given = zoo.rows("bert", lengths=(9, 5))
    whence.load(model).predict(given)
    with record_batch_shapes(model) as seen:
        whence.load(model).predict(given)
    assert seen == [(2, 9)]


def test_predict_after_removal_of_the_pad_token_runs_inputs_one_by_one():
    model = zoo.make("gpt2")
    given = zoo.rows("gpt2", lengths=(9, 5))
    whence.load(model).predict(given)
    model.config.pad_token_id = None  # now it takes one at a time
    with record_batch_shapes(model) as seen:
        whence.load(model).predict(given)
    assert sorted(seen[-2:]) == [(1, 5), (1, 9)]


def test_predict_of_a_tagger_on_mixed_lengths_fills_batches_and_equals_singles():
    config = hf.BertConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=64,
        max_position_embeddings=48,
        pad_token_id=0,
        num_labels=5,
    )
    model = zoo.seeded(lambda: hf.BertForTokenClassification(config)).double().eval()
    given = zoo.rows("bert", lengths=MIXED)
    alone = [whence.load(model).predict(row, at=1) for row in given[:6]]
    with record_batch_shapes(model) as seen:
        found = whence.load(model).predict(given, at=1)
    for one, other in zip(found, alone, strict=False):
        np.testing.assert_allclose(one.logits, other.logits, 0, 1e-12)
    # Once to see the entities, once to read each; and what it takes to find out whether lengths may mix.
    assert len(seen) <= 2 * ceil(1.25 * count_full_batches(MIXED)) + 6


METRICS = ["comprehensiveness", "sufficiency", "aopc", "flip", "loo_correlation", "infidelity"]
TEXTS = [
    "a gripping and wonderful film",
    "dull , dull and endless",
    "the plot is thin but the actors are great fun to watch",
    "I hated every minute of it",
    "not bad at all",
    "a mess",
    "what a joy to see such a warm and funny story again",
    "nothing works here",
]


@cache
def reviews() -> Any:
    return whence.load("reviews", dtype="float64")


def evaluate_and_count_batches(texts: Any, **more: Any) -> tuple[dict[str, Any], int]:
    """Evaluate two methods, and count the batches that took."""
    reviews().predict(TEXTS)  # whether lengths may mix is found out once
    with record_batch_shapes(reviews().model) as seen:
        found = whence.evaluate(
            reviews(), texts, ["attcat", "gradient"], METRICS, rankings=2, **more
        )
    return found.to_dict(), len(seen)


def list_means(payload: dict[str, Any]) -> list[float]:
    """Return what each method gets by each metric, and what chance gets."""
    return [value for cell in payload["cells"] for value in (cell["mean"], cell["null"]["mean"])]


def test_evaluate_with_metrics_run_together_needs_fewer_batches_for_equal_results(monkeypatch):
    together, batches = evaluate_and_count_batches(TEXTS)
    alone = lambda steps: [result for step in steps for result in run_together([step])]  # noqa: E731
    monkeypatch.setattr("whence.explain.trials.run_together", alone)
    apart, many = evaluate_and_count_batches(TEXTS)
    # Other neighbours in a batch, another order of summation.
    np.testing.assert_allclose(list_means(together), list_means(apart), rtol=0, atol=1e-12)
    assert together["calls"] == apart["calls"]
    # 8 inputs, 6 metrics and their nulls: about a hundred small questions, and a few large ones instead.
    assert batches < many / 4


def test_evaluate_results_do_not_depend_on_the_order_of_texts():
    whole, _ = evaluate_and_count_batches(TEXTS)
    turned, _ = evaluate_and_count_batches(TEXTS[::-1])
    assert whole["calls"] == turned["calls"]
    np.testing.assert_allclose(list_means(whole), list_means(turned), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "of", [importance.gradient, importance.leave_one_out, importance.integrated_gradients]
)
def test_audit_importance_does_not_depend_on_batch_or_order(of):
    whole = of(subject_of(reviews(), TEXTS, None))
    turned = of(subject_of(reviews(), TEXTS[::-1], None))
    for one, other in zip(whole, reversed(turned), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    alone = of(subject_of(reviews(), TEXTS[2:3], None))[0]
    np.testing.assert_allclose(alone, whole[2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", ["one text", "source and answer", "picture"])
def test_batch_unpad_values_restores_the_parts_given_to_pad_values(task):
    if task == "picture":
        explainer = whence.load(zoo.make_vit())
        pixels = np.linspace(-1, 1, np.prod(zoo.PIXELS)).reshape(zoo.PIXELS)
        items: list[EncodedInput] = encode_inputs(
            {"pixel_values": pixels}, explainer.loaded, truncate=False
        )[0]
    else:
        explainer = bert()
        items = encode_inputs(zoo.rows("bert"), explainer.loaded, truncate=False)[0]
        if task == "source and answer":
            items = [
                replace(
                    item, answer=item.ids[: 2 + n], tokens=(*item.tokens, *item.tokens[: 2 + n])
                )
                for n, item in enumerate(items)
            ]
    batch = collate(items, pad_id=0, device=explainer.loaded.device)
    draw = build_generator("parts", task)
    parts = [torch.tensor(draw.standard_normal((len(item), 2))) for item in items]
    placed = batch.pad_values(parts)
    assert placed.shape == (*batch.real.shape, 2)
    own = batch.real.clone()  # no padding, and no class token of an image
    if (picture := items[0].picture) is not None:
        own[:, : picture.lead] = False
        own[:, picture.lead + len(picture) :] = False
    assert (placed[~own] == 0).all()
    assert torch.equal(placed[own], torch.cat(parts))
    for one, other in zip(batch.unpad_values(placed), parts, strict=True):
        assert torch.equal(one, other)


def _bigbird() -> Any:
    config = hf.BigBirdConfig(
        **{**zoo._BERT, "max_position_embeddings": 128}, attention_type="block_sparse", block_size=4,
        num_random_blocks=1, bos_token_id=2, eos_token_id=3, sep_token_id=3,
    )  # fmt: skip
    return zoo.seeded(lambda: hf.BigBirdForSequenceClassification(config)).eval()


def _switch_transformers() -> Any:
    """Experts that take four tokens of a batch each, whoever's they are: the rest is dropped."""
    config = hf.SwitchTransformersConfig(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, num_experts=4, expert_capacity=4,
        num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, pad_token_id=0, eos_token_id=3,
        decoder_start_token_id=0,
    )  # fmt: skip
    return zoo.seeded(lambda: hf.SwitchTransformersForConditionalGeneration(config)).eval()


# Models to which a batch is not what its inputs are one by one: by a width that it pads to, or by the neighbours.
WILFUL = {
    "reformer": lambda: text_model_classes.make(
        "reformer", "ReformerForSequenceClassification", torch.float32
    ),
    "big_bird": _bigbird,
    "switch_transformers": _switch_transformers,
}


@pytest.mark.parametrize("lengths", [(8, 8, 8), (8, 40, 64, 32)], ids=["equal", "mixed"])
@pytest.mark.parametrize("name", WILFUL)
def test_leave_one_out_in_a_batch_equals_singles_on_batch_dependent_models(name, lengths):
    explainer = whence.load(WILFUL[name]())
    if name == "reformer":
        lengths = tuple(min(n, 40) for n in lengths)
    rows = [
        {"input_ids": [*(4 + (7 * i + k) % 50 for i in range(n - 1)), 3]}
        for k, n in enumerate(lengths)
    ]
    many = explainer.explain(rows, method="leave_one_out")
    for row, found in zip(rows, many, strict=True):
        alone = explainer.explain(row, method="leave_one_out")
        # float32, in batches of other shapes.
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)
