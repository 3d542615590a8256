"""The key of a result: everything that determines it changes it, and nothing else does, nor changes the result."""

from dataclasses import replace
from functools import cache

import pytest
import torch

import whence
from tests.runs import TEXTS, done, items, plan, table
from whence.data.sets.examples import Example, Span
from whence.methods import method
from whence.run import code, settings
from whence.run.plan import Manner
from whence.run.worker import Worker

METRICS = ("comprehensiveness", "infidelity")
QUICK = {"infidelity.samples": 8}
LABELLED = [Example(text, ("negative", "positive")[n % 2]) for n, text in enumerate(TEXTS)]


@cache
def explainer(checkpoint=False):
    return whence.load("reviews", dtype="float64", checkpoint=checkpoint)


def keys(given=LABELLED, model=None, **changed):
    """Return the keys of all results, by row, method and metric."""
    asked = plan(**{"metrics": METRICS, "metric_params": QUICK, **changed})
    worker = Worker(asked, Manner(), model or explainer())
    identity = worker.identity
    found = {}
    for item in items(given):
        for name, setting in identity.explained.items():
            found[item.row, name, None] = identity.key(setting, item)
            for metric, test in identity.tested[name].items():
                found[item.row, name, metric] = identity.key(test, item)
    return found


def close(one, other):
    """Two rows say the same: words to the letter, numbers to rounding.

    In float64 a number of a model with four layers is a sum of some ten thousand products, each rounded by 1e-16 of
    its size: the order of summation moves it by 1e-12 at most, and 1e-9 leaves room for divisions. An error in
    padding, order or keys shows in the second digit.
    """
    assert one.keys() == other.keys()
    for name, value in one.items():
        numbers = isinstance(value, list) and value and isinstance(value[0], float)
        if isinstance(value, float) or numbers:
            assert value == pytest.approx(other[name], rel=1e-9, abs=1e-9), name
        elif name == "axioms" and value:
            assert [a["axiom"] for a in value] == [a["axiom"] for a in other[name]]
        else:
            assert value == other[name], name


def same(one, other, compare=close):
    assert one.keys() == other.keys()
    for at, row in one.items():
        compare(row, other[at])


def rows(found):
    return {**table(found, "explanations"), **table(found, "metrics")}


@cache
def expected():
    return rows(done(explainer(), metrics=METRICS, metric_params=QUICK))


def test_the_same_task_gives_the_same_bits_again():
    again = done(whence.load("reviews", dtype="float64"), metrics=METRICS, metric_params=QUICK)
    assert rows(again) == expected()


@pytest.mark.parametrize(
    "manner",
    [
        Manner(batch_size=1),
        Manner(batch_size=3),
        Manner(checkpoint=True),
        Manner(backend="processes", workers=7),
        Manner(backend="ray", address="somewhere", actors=3, gpus_per_actor=0.5),
        Manner(device="cpu"),
        pytest.param(
            Manner(device="cuda"),
            marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ),
    ],
    ids=["single", "three at a time", "checkpoint", "processes", "ray", "cpu", "cuda"],
)
def test_no_manner_of_working_is_in_a_key_or_changes_a_row(manner):
    model = explainer(manner.checkpoint) if manner.device is None else None
    found = rows(done(model, manner=manner, metrics=METRICS, metric_params=QUICK, dtype="float64"))
    same(found, expected())


def test_order_and_company_change_nothing():
    every = items()
    there = rows(done(explainer(), every[::-1], metrics=METRICS, metric_params=QUICK))
    same(there, expected())
    alone = [
        rows(done(explainer(), [item], metrics=METRICS, metric_params=QUICK)) for item in every
    ]
    same({at: row for one in alone for at, row in one.items()}, expected())


def test_other_methods_and_metrics_are_in_no_key():
    few = rows(done(explainer(), methods=("attcat",), metrics=METRICS[:1]))
    same(few, {at: row for at, row in expected().items() if at in few})


def test_where_an_example_stands_is_in_no_key():
    moved = rows(done(explainer(), items(first=100), metrics=METRICS, metric_params=QUICK))
    here = {(row + 100, *rest): one for (row, *rest), one in expected().items()}
    assert {at: one["key"] for at, one in moved.items()} == {
        at: one["key"] for at, one in here.items()
    }


def weight():
    """Return the same model with one number of one weight changed."""
    other = whence.load("reviews", dtype="float64")
    with torch.no_grad():
        next(other.model.classifier.parameters())[0, 0] += 1e-9
    return other


def tokenizer():
    other = whence.load("reviews", dtype="float64")
    other.tokenizer.add_tokens(["gripping!"])
    return other


@pytest.mark.parametrize(
    ("changed", "tests_only"),
    [
        ({"params": {"attcat.absolute": True, "leave_one_out.remove": "unk"}}, False),
        ({"model": weight}, False),
        ({"model": tokenizer}, False),
        ({"model": lambda: whence.load("reviews", dtype="float32")}, False),
        ({"target": "positive"}, False),
        ({"target": ["positive", "negative"]}, False),
        ({"target": "gold"}, False),
        ({"truncate": False}, False),
        ({"seed": 1}, True),
        ({"rankings": 6}, True),
        ({"remove": "delete"}, True),
        ({"unit": "word"}, True),
        ({"metric_params": {"comprehensiveness.bins": "0.5", "infidelity.samples": 7}}, True),
        ({"given": [replace(one, rationale=(Span(0, 0, 1),)) for one in LABELLED]}, True),
        ({"given": [replace(one, label=None) for one in LABELLED]}, True),
        ({"given": [replace(one, given=f"{one.given}!") for one in LABELLED]}, False),
    ],
    ids=lambda one: ", ".join(one) if isinstance(one, dict) else "",
)
def test_each_thing_that_counts_changes_the_keys_of_all_that_it_counts_for(changed, tests_only):
    model = changed.get("model")
    more = {name: value for name, value in changed.items() if name != "model"}
    before, after = keys(), keys(model=None if model is None else model(), **more)
    assert before.keys() == after.keys()
    for at, key in before.items():
        assert (after[at] != key) == (at[2] is not None or not tests_only), at


def test_code_and_names_change_every_key(monkeypatch):
    before = keys()
    monkeypatch.setattr(settings, "code_of_rows", lambda: "other code")
    after = keys()
    assert not set(before.values()) & set(after.values())
    # No two results of an example, and no two examples, have a key in common.
    assert len(set(before.values())) == len(before)
    assert code.code_of_rows() != code.code_of_audits()


def test_labels_count_for_an_explanation_of_them_and_for_no_other():
    bare = [Example(text) for text in TEXTS]
    flipped = [
        replace(one, label={"negative": "positive", "positive": "negative"}[one.label])
        for one in LABELLED
    ]
    own = [at for at in keys() if at[2] is None]
    for target, count in ((None, True), ("predicted", True), ("gold", False)):
        found = [keys(given, target=target) for given in (LABELLED, bare, flipped)]
        for at in own:
            assert (len({one[at] for one in found}) == 1) == count
    # However it was asked for, it is the same thing.
    assert keys(target="positive") == keys(target=1)
    assert keys(target=None) == keys(target="predicted")
    marked = [replace(one, rationale=(Span(0, 0, 1),)) for one in LABELLED]
    gold = [keys(given, target="gold") for given in (LABELLED, marked)]
    assert all(gold[0][at] == gold[1][at] for at in own)


def test_a_method_that_draws_is_keyed_by_who_it_draws_from():
    how = {"params": {"leave_one_out.remove": "draw"}}
    drawing = whence.load("reviews", dtype="float64", mlm="reviews-base")
    before = keys(model=drawing, **how)
    with torch.no_grad():
        next(drawing.loaded.infiller.loaded.model.parameters())[0, 0] += 1e-9
    after = keys(model=drawing, **how)
    for at, key in before.items():
        assert (after[at] != key) == (at[1] == "leave_one_out"), at
    tests = [keys(model=drawing, remove="draw"), keys(remove="mask", model=drawing)]
    assert all(tests[0][at] != tests[1][at] for at in before if at[2] is not None)


def test_somebody_elses_method_is_keyed_by_its_source(monkeypatch):
    before = keys()
    entry = method.get("attcat")

    def stranger(seen, *, layer: int | None = None, absolute: bool = False):
        """Do as the original does."""
        return entry.fn(seen, layer=layer, absolute=absolute)

    monkeypatch.setitem(method._entries, "attcat", replace(entry, fn=stranger))
    after = keys()
    for at, key in before.items():
        assert (after[at] != key) == (at[1] == "attcat"), at
