"""Answers do not depend on the batch, and batches are full: readers, askers, metrics and audits."""

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
from tests import every, zoo
from tests.subjects import subject_of
from whence.audit import importance
from whence.core.seed import generator
from whence.data import Encoded, collate
from whence.explainer.intake import take
from whence.explainer.sharing import INPUTS
from whence.methods import is_reader, method

# A few samples are enough: each is drawn by its input, whatever stands beside it.
PARAMS = {
    "integrated_gradients": {"steps": 5},
    "smoothgrad": {"samples": 3},
    "gradient_shap": {"samples": 3},
    "lime": {"samples": 20},
    "kernel_shap": {"samples": 80},
}
ASKERS = [entry.name for entry in method if not is_reader(entry)]
READERS = ["raw_attention", "rollout", "generic_attention", "attcat", "gradient", "partial_lrp"]
MIXED = tuple(int(n) for n in generator("lengths", 8).integers(4, 40, 64))
CELLS = 1024  # inputs x longest of a batch on a CPU


@cache
def bert() -> Any:
    return whence.load(zoo.make("bert"))


@contextmanager
def shapes_run(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """List the shape of every batch that a model is run on."""
    seen: list[tuple[int, ...]] = []

    def note(_: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(tuple(named["input_ids"].shape))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        hook.remove()


def needed(lengths: Any) -> int:
    """Return how many batches inputs of these lengths fill, if nothing were padded."""
    return max(ceil(sum(lengths) / CELLS), ceil(len(lengths) / INPUTS))


@pytest.mark.parametrize("name", [*ASKERS, *READERS])
def test_an_answer_does_not_depend_on_the_batch(name):
    given = zoo.rows("bert", lengths=(9, 4, 23, 7, 9, 15))
    explain = bert().explain
    asked = {"method": name, "params": PARAMS.get(name)}
    together = explain(given, **asked)
    order = generator("order", name).permutation(len(given)).tolist()
    moved = explain([given[i] for i in order], **asked)
    single = explain(given, batch_size=1, **asked)
    for place, i in enumerate(order):
        size = np.abs(together[i].scores).max()
        # float64: sums of some hundred terms in another order, through three layers.
        np.testing.assert_allclose(moved[place].scores, together[i].scores, 0, 1e-11 * size)
        np.testing.assert_allclose(single[i].scores, together[i].scores, 0, 1e-11 * size)
        assert moved[place].passes == single[i].passes == together[i].passes


@pytest.mark.parametrize("what", ["reader", "prediction"])
def test_inputs_of_many_lengths_fill_batches(what):
    explainer, given = bert(), zoo.rows("bert", lengths=MIXED)
    explainer.predict(given)  # whether such lengths may mix is found out once
    explainer.explain(
        given[:1], method="generic_attention"
    )  # and whether it is the same when it is watched
    with shapes_run(explainer.model) as seen:
        if what == "reader":
            explainer.explain(given, method="generic_attention")
        else:
            explainer.predict(given)
    assert sum(rows for rows, _ in seen) == len(given)
    assert len(seen) <= ceil(1.25 * needed(MIXED))


@pytest.mark.parametrize("name", ASKERS)
def test_askers_fill_batches(name):
    explainer, given = bert(), zoo.rows("bert", lengths=MIXED)
    explainer.predict(given[:2])
    with shapes_run(explainer.model) as seen:
        explainer.explain(given, method=name, params=PARAMS.get(name))
    # Each batch of inputs leaves one batch of variants that is not full, and one more where the baseline is asked.
    inputs = ceil(1.25 * needed(MIXED))
    cells = [length for rows, length in seen for _ in range(rows)]
    assert len(seen) <= 1.25 * needed(cells) + 3 * inputs


def test_a_model_is_tried_once_whoever_loads_it():
    model = zoo.make("bert", seed=3)
    given = zoo.rows("bert", lengths=(9, 5))
    whence.load(model).predict(given)
    with shapes_run(model) as seen:
        whence.load(model).predict(given)
    assert seen == [(2, 9)]


def test_what_is_found_out_about_padding_belongs_to_the_padding():
    model = zoo.make("gpt2")
    given = zoo.rows("gpt2", lengths=(9, 5))
    whence.load(model).predict(given)
    model.config.pad_token_id = None  # now it takes one at a time
    with shapes_run(model) as seen:
        whence.load(model).predict(given)
    assert sorted(seen[-2:]) == [(1, 5), (1, 9)]


def test_taggers_fill_batches():
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
    with shapes_run(model) as seen:
        found = whence.load(model).predict(given, at=1)
    for one, other in zip(found, alone, strict=False):
        np.testing.assert_allclose(one.logits, other.logits, 0, 1e-12)
    # Once to see the entities, once to read each; and what it takes to find out whether lengths may mix.
    assert len(seen) <= 2 * ceil(1.25 * needed(MIXED)) + 6


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


def evaluated(texts: Any, **more: Any) -> tuple[dict[str, Any], int]:
    """Evaluate two methods, and count the batches that took."""
    reviews().predict(TEXTS)  # whether lengths may mix is found out once
    with shapes_run(reviews().model) as seen:
        found = whence.evaluate(
            reviews(), texts, ["attcat", "gradient"], METRICS, rankings=2, **more
        )
    return found.to_dict(), len(seen)


def told(payload: dict[str, Any]) -> list[float]:
    """Return what each method gets by each metric, and what chance gets."""
    return [value for cell in payload["cells"] for value in (cell["mean"], cell["null"]["mean"])]


def test_metrics_ask_about_all_inputs_together(monkeypatch):
    together, batches = evaluated(TEXTS)
    monkeypatch.setattr("whence.explainer.verify.trials.rehearse", lambda *_: None)
    apart, many = evaluated(TEXTS)
    # Other neighbours in a batch, another order of summation.
    np.testing.assert_allclose(told(together), told(apart), rtol=0, atol=1e-12)
    assert together["calls"] == apart["calls"]
    # 8 inputs, 6 metrics and their nulls: about a hundred small questions, and a few large ones instead.
    assert batches < many / 4


def test_metrics_do_not_depend_on_the_order():
    whole, _ = evaluated(TEXTS)
    turned, _ = evaluated(TEXTS[::-1])
    assert whole["calls"] == turned["calls"]
    np.testing.assert_allclose(told(whole), told(turned), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "of", [importance.gradient, importance.loo, importance.integrated_gradients]
)
def test_audits_do_not_depend_on_the_batch(of):
    whole = of(subject_of(reviews(), TEXTS, None))
    turned = of(subject_of(reviews(), TEXTS[::-1], None))
    for one, other in zip(whole, reversed(turned), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    alone = of(subject_of(reviews(), TEXTS[2:3], None))[0]
    np.testing.assert_allclose(alone, whole[2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", ["one text", "source and answer", "picture"])
def test_parts_are_what_was_spread(task):
    if task == "picture":
        explainer = whence.load(zoo.make_vit())
        pixels = np.linspace(-1, 1, np.prod(zoo.PIXELS)).reshape(zoo.PIXELS)
        items: list[Encoded] = take({"pixel_values": pixels}, explainer.loaded, truncate=False)[0]
    else:
        explainer = bert()
        items = take(zoo.rows("bert"), explainer.loaded, truncate=False)[0]
        if task == "source and answer":
            items = [
                replace(
                    item, answer=item.ids[: 2 + n], tokens=(*item.tokens, *item.tokens[: 2 + n])
                )
                for n, item in enumerate(items)
            ]
    batch = collate(items, pad_id=0, device=explainer.loaded.device)
    draw = generator("parts", task)
    parts = [torch.tensor(draw.standard_normal((len(item), 2))) for item in items]
    placed = batch.spread(parts)
    assert placed.shape == (*batch.real.shape, 2)
    assert (placed[~batch.own] == 0).all()
    assert torch.equal(placed[batch.own], torch.cat(parts))
    for one, other in zip(batch.parts(placed), parts, strict=True):
        assert torch.equal(one, other)


def _bigbird() -> Any:
    config = hf.BigBirdConfig(
        **{**zoo._BERT, "max_position_embeddings": 128}, attention_type="block_sparse", block_size=4,
        num_random_blocks=1, bos_token_id=2, eos_token_id=3, sep_token_id=3,
    )  # fmt: skip
    return zoo.seeded(lambda: hf.BigBirdForSequenceClassification(config)).eval()


def _crowded() -> Any:
    """Experts that take four tokens of a batch each, whoever's they are: the rest is dropped."""
    config = hf.SwitchTransformersConfig(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, num_experts=4, expert_capacity=4,
        num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, pad_token_id=0, eos_token_id=3,
        decoder_start_token_id=0,
    )  # fmt: skip
    return zoo.seeded(lambda: hf.SwitchTransformersForConditionalGeneration(config)).eval()


# Models to which a batch is not what its inputs are one by one: by a width that it pads to, or by the neighbours.
WILFUL = {
    "reformer": lambda: every.make("reformer", "ReformerForSequenceClassification", torch.float32),
    "big_bird": _bigbird,
    "switch_transformers": _crowded,
}


@pytest.mark.parametrize("lengths", [(8, 8, 8), (8, 40, 64, 32)], ids=["equal", "mixed"])
@pytest.mark.parametrize("name", WILFUL)
def test_models_that_do_not_bear_a_batch_get_what_they_bear(name, lengths):
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
