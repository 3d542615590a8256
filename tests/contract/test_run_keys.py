"""Result keys of runs: every setting that determines a result changes its key, and nothing else does."""

from dataclasses import replace
from functools import cache

import pytest
import torch

import whence
from tests.worker_tasks import TEXTS, items, plan, run_as_one_task, table
from whence.data.eraser import RationaleSpan
from whence.data.example import Example
from whence.methods import method
from whence.runs import task as task_module
from whence.runs import worker as worker_module
from whence.runs.plan import Execution
from whence.runs.worker import Worker

METRICS = ("comprehensiveness", "infidelity")
QUICK = {"infidelity.samples": 8}
LABELLED = [Example(text, ("negative", "positive")[n % 2]) for n, text in enumerate(TEXTS)]


@cache
def explainer(checkpoint=False):
    return whence.load("reviews", dtype="float64", checkpoint=checkpoint)


def keys(given=LABELLED, model=None, **changed):
    """Return the keys of all results, by row, method and metric."""
    asked = plan(**{"metrics": METRICS, "metric_params": QUICK, **changed})
    worker = Worker(asked, Execution(), model or explainer())
    identity = worker.identity
    found = {}
    for item in items(given):
        for name, setting in identity.explained.items():
            found[item.row, name, None] = identity.compute_key(setting, item)
            for metric, test in identity.tested[name].items():
                found[item.row, name, metric] = identity.compute_key(test, item)
    return found


def assert_rows_close(one, other):
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


def assert_tables_close(one, other, compare=assert_rows_close):
    assert one.keys() == other.keys()
    for at, row in one.items():
        compare(row, other[at])


def rows(found):
    return {**table(found, "explanations"), **table(found, "metrics")}


@cache
def expected():
    return rows(run_as_one_task(explainer(), metrics=METRICS, metric_params=QUICK))


def test_task_of_a_run_repeated_with_a_new_model_gives_identical_rows():
    again = run_as_one_task(
        whence.load("reviews", dtype="float64"), metrics=METRICS, metric_params=QUICK
    )
    assert rows(again) == expected()


@pytest.mark.parametrize(
    "manner",
    [
        Execution(batch_size=1),
        Execution(batch_size=3),
        Execution(checkpoint=True),
        Execution(backend="processes", workers=7),
        Execution(backend="ray", address="somewhere", actors=3, gpus_per_actor=0.5),
        Execution(device="cpu"),
        pytest.param(
            Execution(device="cuda"),
            marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ),
    ],
    ids=["single", "three at a time", "checkpoint", "processes", "ray", "cpu", "cuda"],
)
def test_execution_options_change_no_result_key_and_no_row(manner):
    model = explainer(manner.checkpoint) if manner.device is None else None
    found = rows(
        run_as_one_task(model, manner=manner, metrics=METRICS, metric_params=QUICK, dtype="float64")
    )
    assert_tables_close(found, expected())


def test_order_and_grouping_of_examples_change_no_result_key_and_no_row():
    every = items()
    there = rows(run_as_one_task(explainer(), every[::-1], metrics=METRICS, metric_params=QUICK))
    assert_tables_close(there, expected())
    alone = [
        rows(run_as_one_task(explainer(), [item], metrics=METRICS, metric_params=QUICK))
        for item in every
    ]
    assert_tables_close({at: row for one in alone for at, row in one.items()}, expected())


def test_result_keys_and_rows_do_not_depend_on_other_methods_and_metrics():
    few = rows(run_as_one_task(explainer(), methods=("attcat",), metrics=METRICS[:1]))
    assert_tables_close(few, {at: row for at, row in expected().items() if at in few})


def test_result_keys_do_not_depend_on_the_position_of_an_example():
    moved = rows(
        run_as_one_task(explainer(), items(first=100), metrics=METRICS, metric_params=QUICK)
    )
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
        ({"given": [replace(one, rationale=(RationaleSpan(0, 0, 1),)) for one in LABELLED]}, True),
        ({"given": [replace(one, label=None) for one in LABELLED]}, True),
        ({"given": [replace(one, given=f"{one.given}!") for one in LABELLED]}, False),
    ],
    ids=lambda one: ", ".join(one) if isinstance(one, dict) else "",
)
def test_each_setting_changes_exactly_the_result_keys_of_its_dependent_results(changed, tests_only):
    model = changed.get("model")
    more = {name: value for name, value in changed.items() if name != "model"}
    before, after = keys(), keys(model=None if model is None else model(), **more)
    assert before.keys() == after.keys()
    for at, key in before.items():
        assert (after[at] != key) == (at[2] is not None or not tests_only), at


def test_code_digest_changes_every_result_key_and_no_two_results_share_a_key(monkeypatch):
    before = keys()
    monkeypatch.setattr(worker_module, "compute_code_digest", lambda: "other code")
    after = keys()
    assert not set(before.values()) & set(after.values())
    # No two results of an example, and no two examples, have a key in common.
    assert len(set(before.values())) == len(before)
    assert task_module.compute_code_digest() != task_module.compute_audit_code_digest()


def test_labels_change_result_keys_of_explanations_only_for_the_gold_target():
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
    marked = [replace(one, rationale=(RationaleSpan(0, 0, 1),)) for one in LABELLED]
    gold = [keys(given, target="gold") for given in (LABELLED, marked)]
    assert all(gold[0][at] == gold[1][at] for at in own)


def test_result_keys_of_draw_removal_change_with_the_infill_model():
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


def test_result_keys_of_a_replaced_method_change_with_its_source(monkeypatch):
    before = keys()
    entry = method.get("attcat")

    def stranger(seen, *, layer: int | None = None, absolute: bool = False):
        """Do as the original does."""
        return entry.fn(seen, layer=layer, absolute=absolute)

    monkeypatch.setitem(method._entries, "attcat", replace(entry, fn=stranger))
    after = keys()
    for at, key in before.items():
        assert (after[at] != key) == (at[1] == "attcat"), at
