"""Workers: records give the numbers of `whence.evaluate`, and a failing example affects no other record."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from draw_shapes import draw_scene

import whence
from tests.approx_equality import assert_nearly_equal
from tests.task_models import TAGS
from tests.task_models import explainer as tiny
from tests.unit.small_tokenizers import make_panicking_tokenizer
from tests.worker_tasks import TEXTS, items, list_records, plan, run_as_one_task, table
from whence.core.errors import (
    BadParameter,
    NotCapturable,
    OutOfMemory,
    UnknownMethod,
    UnknownTarget,
)
from whence.data.dataset import read_dataset
from whence.data.eraser import RationaleSpan
from whence.data.example import Example
from whence.explain.pipeline import describe_origin
from whence.explain.request import resolve_methods
from whence.methods import method
from whence.runs.plan import Execution
from whence.runs.records import SCHEMAS
from whence.runs.task import Task
from whence.runs.worker import ResultFailure, Worker, build_failure_tables
from whence.studies.evaluation.evaluate import evaluate
from whence.studies.evaluation.evaluation import build_evaluation_data
from whence.studies.evaluation.measure import resolve_metrics
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import AgreementScores
from whence.studies.evaluation.stored_rows import (
    StoredSetting,
    find_stored_units,
    record_stored_rows,
)
from whence.tracing.out_of_memory import is_device_lost

TRAP = "worse"  # one text of all has this word: row 1
MARKED = [
    Example(text, ("negative", "positive")[n % 2], (RationaleSpan(0, 0, 6),))
    for n, text in enumerate(TEXTS)
]


def capture_panic():
    """Return what a panic of Rust raises, which is no Exception."""
    try:
        make_panicking_tokenizer()("a plot")
    except BaseException as error:
        assert not isinstance(error, Exception)
        return error


@cache
def reviews():
    return whence.load("reviews", dtype="float64")


@pytest.fixture
def make_trapped_model():
    """Return a model that does something bad with a text that has the trap, until the test is over."""
    explainer = whence.load("reviews", dtype="float64")
    trap = explainer.tokenizer.convert_tokens_to_ids(TRAP)
    mask = explainer.tokenizer.mask_token_id
    hooks = []

    def set_trap(how, variants=False):
        def before(_, args, named):
            ids = named["input_ids"]
            here = (ids == trap).any(1) & ((ids == mask).any(1) if variants else True)
            if here.any() and isinstance(how, BaseException):
                raise how

        def after(_, args, named, out):
            here = (named["input_ids"] == trap).any(1)
            if here.any() and how == "nan":
                out.logits[here] = float("nan")
            return out

        hooks.append(explainer.model.register_forward_pre_hook(before, with_kwargs=True))
        hooks.append(explainer.model.register_forward_hook(after, with_kwargs=True))
        return explainer

    yield set_trap
    for hook in hooks:
        hook.remove()


def evaluate_from_records(explainer, given, methods, metrics, **asked):
    """Return the evaluation that is made of a worker's rows, as they come back from a file."""
    given = read_dataset(given).examples
    found = run_as_one_task(explainer, given, methods=methods, metrics=metrics, **asked)
    rows = json.loads(json.dumps(list_records(found)))
    chosen, wanted = (
        resolve_methods(list(methods), None, explainer.fillers),
        resolve_metrics(list(metrics)),
    )
    params = {one.name: one.params for one in chosen}
    notes = ScoreTables(list(params), [m for m in wanted if m.kind != "agreement"], len(given), 5)
    alike = AgreementScores(
        [m for m in wanted if m.kind == "agreement"], notes.methods, len(given), 5
    )
    setting = StoredSetting(params, asked.get("unit", "token"), 0, explainer.loaded.task)
    for number in range(len(given)):
        own = [row for row in rows if row["row"] == number]
        kinds = [
            [row for row in own if row["table"] == name] for name in ("explanations", "metrics")
        ]
        record_stored_rows(notes, alike, number, *kinds, setting)
    digests = [item.digest for item in items(given)]
    return build_evaluation_data(
        notes, alike, methods=params, origin=describe_origin(explainer.loaded), setting={}, digests=digests, data={},
        seed=0, calls=None, seconds=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "methods", "metrics", "asked"),
    [
        (
            [*TEXTS[:4], "", "good film " * 300],
            ("rollout", "attcat"),
            ("comprehensiveness", "tau_b"),
            {},
        ),
        (TEXTS[:3], ("attcat", "leave_one_out"), ("infidelity", "pearson"), {}),
        (
            MARKED,
            ("rollout", "attcat"),
            ("iou_f1", "top_k_overlap"),
            {"target": "gold", "unit": "word"},
        ),
    ],
    ids=["bad and long texts", "its own null for each", "rationales, words, gold"],
)
def test_worker_records_give_the_same_evaluation_as_evaluate(given, methods, metrics, asked):
    expected = evaluate(reviews(), given, list(methods), list(metrics), **asked).to_dict()
    found = evaluate_from_records(reviews(), given, methods, metrics, **asked)
    for name in ("examples", "metrics", "cells", "pairs", "agreement"):
        assert_nearly_equal(found[name], expected[name], at=name)
    for own, other in zip(found["methods"], expected["methods"], strict=True):
        assert {**own, "seconds": None} == {**other, "seconds": None}


def test_worker_records_of_pictures_with_masks_give_the_same_evaluation_as_evaluate():
    explainer = whence.load("shapes")
    scenes = [draw_scene(number) for number in range(2)]
    data = [(one.pixels, one.labels[0], one.masks[one.labels[0]]) for one in scenes]
    methods, metrics = (
        ("generic_attention", "gradient"),
        ("pointing_game", "segmentation_iou", "tau_b"),
    )
    expected = evaluate(explainer, data, list(methods), list(metrics), target="gold").to_dict()
    found = evaluate_from_records(explainer, data, methods, metrics, target="gold")
    for name in ("cells", "agreement"):
        assert_nearly_equal(found[name], expected[name], at=name)


def test_worker_records_have_the_columns_of_the_store():
    found = run_as_one_task(reviews(), ["a film", ""], metrics=("comprehensiveness",))
    assert found.tables.keys() == {"explanations", "metrics"}
    for name, rows in found.tables.items():
        assert rows.num_rows == 4
        assert rows.schema.equals(SCHEMAS[name], check_metadata=True)
    json.dumps(list_records(found), allow_nan=False)


def test_worker_record_of_a_text_pair_equals_the_explanation():
    pair = Example(("a dull-ish plot", "bad"), "negative")
    found = run_as_one_task(reviews(), [pair], methods=("gradient",))
    (row,) = list_records(found)  # no metric was asked for
    one = reviews().explain(pair.given, method="gradient")
    assert row["scores"] == one.scores.tolist()
    assert row["tokens"] == [token.text for token in one.tokens]
    assert (row["text"], row["pair"], row["label"]) == ("a dull-ish plot", "bad", "negative")
    assert row["predicted"] == row["target"] == one.prediction.label
    assert row["probability"] == one.prediction.probability
    assert row["segments"][-2:] == [1, 1]
    for place, token in enumerate(one.tokens):
        if token.special:
            assert row["starts"][place] is row["ends"][place] is row["words"][place] is None
        else:
            text = pair.given[token.segment]
            assert text[row["starts"][place] : row["ends"][place]].lower() == token.text.lower()
    assert find_stored_units(row["words"], "word") == tuple(word.tokens for word in one.spans)
    assert find_stored_units([None, 0, 0, -1, 1, None], "word") == ((1, 2), (4,))
    assert find_stored_units([None, 0, 0, -1, 1, None], "token") == ((1,), (2,), (3,), (4,))
    assert (row["forward"], row["backward"], row["dropped"]) == (1, 1, 0)
    costs = found.costs["gradient"]
    assert (costs["examples"], costs["forward"], costs["backward"]) == (1, 1, 1)
    assert 0 < costs["seconds"] <= found.seconds
    assert "" not in found.costs


def assert_records_close(found, expected, but):
    """Rows are as undisturbed, to rounding (see tests/contract/test_run_keys.py), but for those of one example."""
    assert found.keys() == expected.keys()
    for at, row in expected.items():
        if at[0] != but:
            for name in ("scores", "value", "null"):
                if row.get(name) is not None:
                    np.testing.assert_allclose(found[at][name], row[name], rtol=1e-9, atol=1e-9)
            assert (found[at]["error"], found[at]["why"]) == (row["error"], row["why"])


@pytest.mark.parametrize(
    ("how", "code", "why"),
    [
        (
            RuntimeError("bad luck at 0x7f3a\nand more"),
            "model-failed",
            "BertForSequenceClassification fails on this input also by itself, without whence (RuntimeError: bad "
            "luck at 0x... and more). Look at its configuration, and at what its forward takes beside the text.",
        ),
        ("nan", "not-finite", None),
        (torch.OutOfMemoryError("CUDA out of memory. 3.21 GiB is free."), "out-of-memory", None),
        (MemoryError(), "out-of-memory", None),
        (capture_panic(), "model-failed", None),
        (SystemExit(3), "model-failed", None),
    ],
    ids=["raises", "nan", "accelerator's memory", "memory", "panic", "exit"],
)
@pytest.mark.filterwarnings("ignore:The memory is too small")
def test_failing_example_becomes_an_error_record_and_leaves_other_records_unchanged(
    make_trapped_model, how, code, why
):
    metrics = ("comprehensiveness",)
    expected = run_as_one_task(reviews(), TEXTS[:3], metrics=metrics)
    found = run_as_one_task(make_trapped_model(how), TEXTS[:3], metrics=metrics)
    for name in ("explanations", "metrics"):
        rows = table(found, name)
        assert_records_close(rows, table(expected, name), but=1)
        for (number, *_), row in rows.items():
            assert (row["error"] == code) == (number == 1), row
            if number == 1:
                assert row["why"] == why if why else row["why"]
                assert "GiB" not in row["why"] and "0x7" not in row["why"]
                assert not row.get("refused")
    assert {
        row["scores"] is None for row in table(found, "explanations").values() if row["error"]
    } == {True}


def test_failing_metric_leaves_the_explanation_and_other_metrics_unchanged(make_trapped_model):
    metrics = ("comprehensiveness", "conservation")
    expected = run_as_one_task(reviews(), methods=("attcat",), metrics=metrics)
    found = run_as_one_task(
        make_trapped_model(ValueError("no"), variants=True), methods=("attcat",), metrics=metrics
    )
    assert_records_close(table(found, "explanations"), table(expected, "explanations"), but=None)
    rows = table(found, "metrics")
    assert_records_close(rows, table(expected, "metrics"), but=1)
    assert rows[1, "attcat", "comprehensiveness"]["error"] == "model-failed"
    # What does not ask the model is as it ever was.
    other = table(expected, "metrics")[1, "attcat", "conservation"]
    assert rows[1, "attcat", "conservation"]["why"] == other["why"]


def test_method_that_the_model_cannot_run_fails_alone_and_is_tried_once(monkeypatch):
    calls = []

    def refuse(trace, **params):
        """Refuse."""
        calls.append(1)
        raise NotCapturable("Not this model.")

    entry = method.get("rollout")
    monkeypatch.setitem(method._entries, "rollout", replace(entry, fn=refuse))
    worker = Worker(
        plan(methods=("attcat", "rollout"), metrics=("comprehensiveness",)), Execution(), reviews()
    )
    expected = run_as_one_task(reviews(), methods=("attcat",), metrics=("comprehensiveness",))
    for _ in range(2):
        found = worker.do(Task(0, 0, items(), ("attcat", "rollout")))
        rows = table(found, "explanations")
        for number in range(len(TEXTS)):
            assert rows[number, "rollout", None]["error"] == "not-capturable"
            assert "Not this model." in rows[number, "rollout", None]["why"]
            # In one batch with the others it would have made all of them be done one by one: to the bit.
            own = table(expected, "explanations")[number, "attcat", None]
            assert rows[number, "attcat", None]["scores"] == own["scores"]
    assert len(calls) == 1


def test_worker_passes_on_keyboard_interrupt_and_records_no_failure(make_trapped_model):
    with pytest.raises(KeyboardInterrupt):
        run_as_one_task(make_trapped_model(KeyboardInterrupt()))


def test_worker_passes_on_the_error_of_a_lost_device(make_trapped_model):
    lost = RuntimeError("CUDA error: device-side assert triggered")
    with pytest.raises(RuntimeError, match="device-side"):
        run_as_one_task(make_trapped_model(lost))
    assert is_device_lost(lost)
    assert not is_device_lost(RuntimeError("CUDA out of memory: CUDA error: out of memory"))


def test_worker_with_an_impossible_plan_raises_before_any_work():
    for error, changed in (
        (UnknownTarget, {"target": "neutral"}),
        (UnknownMethod, {"methods": ("attcatt",)}),
        (BadParameter, {"remove": "blur"}),
    ):
        with pytest.raises(error):
            Worker(plan(**changed), Execution(), reviews())


def test_worker_resolves_gold_labels_row_by_row_and_refuses_unknown_ones():
    given = [
        Example("a good film", "positive"),
        Example("a good film", "1"),
        Example("a bad film", "so-so"),
    ]
    given.append(Example("a film"))
    rows = table(
        run_as_one_task(reviews(), given, methods=("gradient",), target="gold"), "explanations"
    )
    # A name and a number: what one of them means does not depend on the other.
    assert [rows[n, "gradient", None]["target"] for n in range(2)] == ["positive"] * 2
    for number, why in ((2, "'so-so'"), (3, "no label")):
        row = rows[number, "gradient", None]
        assert (row["error"], row["refused"]) == ("bad-examples", True)
        assert why in row["why"]


def test_worker_explains_the_first_entity_and_refuses_a_text_without_a_mask():
    explainer = tiny("bert", "TokenClassification", TAGS)
    text = "a gripping film, well-made but thin: the plot, and nothing else in it is good"
    first, *_ = explainer.explain(text, method="gradient")
    (row,) = list_records(run_as_one_task(explainer, [text], methods=("gradient",)))
    # Alone in its batch here, beside the other entities there.
    assert_nearly_equal(row["scores"], first.scores.tolist())
    (row,) = list_records(
        run_as_one_task(tiny("bert", "MaskedLM"), ["no mask"], methods=("gradient",))
    )
    assert row["refused"] and row["error"]


def test_build_failure_tables_have_the_keys_of_real_results():
    worker = Worker(plan(metrics=("comprehensiveness",)), Execution(), reviews())
    task = Task(3, 4, items(TEXTS[:2]), ("attcat",))
    failed = build_failure_tables(worker.identity, task, "worker-died", "Workers die of it.")
    real = worker.do(task).tables
    for name, rows in failed.items():
        assert rows["key"].to_pylist() == real[name]["key"].to_pylist()
        assert set(rows["error"].to_pylist()) == {"worker-died"}
        assert set(rows["why"].to_pylist()) == {"Workers die of it."}


def test_result_failure_reason_is_short_and_without_memory_figures():
    assert ResultFailure.from_error(ValueError()).why == "The model failed: no reason given"
    assert len(ResultFailure.from_error(ValueError("x" * 1000)).why) < 350
    said = "One input of 900 tokens is too large for the memory. It takes 3.1 GiB, and 2.2 GiB are free. Try another."
    assert (
        ResultFailure.from_error(OutOfMemory(said)).why
        == "One input of 900 tokens is too large for the memory."
    )
