"""Protocols of bench/science: job rows equal `whence.evaluate`, jobs resume, ERASER curves and gathered results."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.science import attcat, eraser, evaluation, findings, job_runner, pets, rankings
from bench.science.rows import build_evaluation, collect_provenance, read_rows, round_numbers
from draw_shapes import SHAPE_CLASSES, draw_scene
from PIL import Image

import whence
from whence.data.eraser import RationaleSpan
from whence.data.example import Example, ImageMask, StoredImage
from whence.stats.rationale import count_tokens, find_spans

TEXTS = (
    ("the plot is thin , but the actors are wonderful and warm", "positive"),
    ("a dull and lifeless film that nobody should ever watch again", "negative"),
    ("a gripping , beautifully acted film about love and loss indeed", "negative"),  # it is not
)
GIVEN = [Example(text, label, (RationaleSpan(0, 4, 16),)) for text, label in TEXTS]


@pytest.fixture
def options(tmp_path):
    return Namespace(
        shared=tmp_path, rows=tmp_path, device="cpu", few=1, limit=None, photographs=None, without=[]
    )  # fmt: skip


def shrink_job(job, **methods):
    return replace(job, model="reviews", methods=methods or {"attcat": None, "rollout": None})


def run_job(job, given, options):
    file = options.rows / f"{job.name}.jsonl"
    job_runner.run_job(job, given, file)
    return read_rows(file)


def test_evaluated_rows_of_a_job_equal_whence_evaluate(options):
    job = shrink_job(attcat.build_job("sst2", "delete", options))
    found = build_evaluation(job, GIVEN, *run_job(job, GIVEN, options))
    same = whence.evaluate(
        whence.load("reviews", device="cpu", dtype="float32"),
        GIVEN,
        list(job.methods),
        list(job.metrics),
        params={name: own for name, own in job.params.items() if name in job.methods},
        metric_params=job.metric_params,
        remove="delete",
        target="gold",
    ).to_dict()
    for one, two in zip(found["cells"], same["cells"], strict=True):
        assert (one["method"], one["metric"], one["n"]) == (two["method"], two["metric"], two["n"])
        # One batch or another: float32.
        assert one["mean"] == pytest.approx(two["mean"], rel=1e-4)
        assert one["null"]["mean"] == pytest.approx(two["null"]["mean"], rel=1e-4)
    assert found["setting"]["target"] == "gold"
    assert found["model"]["fingerprint"] == same["model"]["fingerprint"]
    assert {"machine", "source", "commit", "day", "torch", "dtype"} <= set(found["provenance"])


def test_job_resumes_after_a_torn_line_and_refuses_rows_of_another_setting(options):
    job = shrink_job(attcat.build_job("sst2", "pad", options), attcat=None, leave_one_out=1)
    file = options.rows / f"{job.name}.jsonl"
    run_job(job, GIVEN, options)
    before = file.read_text("utf-8")
    _, lines = run_job(job, GIVEN, options)
    assert file.read_text("utf-8") == before
    assert {(one["number"], name) for one in lines for name in one["methods"]} == {
        *((n, "attcat") for n in range(3)),
        (0, "leave_one_out"),
    }
    # A line that was cut short is made again, and one that is there twice counts once.
    *kept, last = before.splitlines()
    file.write_text("\n".join([*kept, kept[1], last[:40]]) + "\n", encoding="utf-8")
    _, again = run_job(job, GIVEN, options)
    assert len(again) == len(lines)
    with pytest.raises(AssertionError, match="other setting"):
        job_runner.run_job(replace(job, target=None), GIVEN, file)


def test_eraser_curves_equal_hand_counted_token_f1():
    example = Example(
        "a b c d e f g h i j", "x", (RationaleSpan(0, 2, 5), RationaleSpan(0, 16, 17))
    )  # b, c, i
    row = {"method": "m", "error": None, "starts": [None, 0, 2, 4, 6, None]}
    # b has most, then d, and c nothing: what is beyond d was cut off, i among it.
    found = eraser.compute_curves(example, [{**row, "scores": [9.0, 0.1, 0.9, -0.5, 0.4, 9.0]}])
    assert found["f1"]["m"] == [2 * 2 / (4 + 3)] * len(
        eraser.TOP
    )  # four words are all there is to choose
    chosen = count_tokens(
        find_spans([True] * 4 + [False] * 6),
        find_spans([False, True, True, *[False] * 5, True, False]),
    )
    assert found["f1"]["m"][0] == pytest.approx(chosen.f1)
    assert found["random"][0] == pytest.approx(chosen.f1)
    assert eraser.compute_curves(Example("a b", "x", ()), []) is None


def test_eraser_curves_score_a_word_by_its_highest_token():
    example = Example("good film " + "x " * 8 + "y", "x", (RationaleSpan(0, 0, 4),))
    row = {"method": "m", "error": None, "starts": [0, 2, *range(5, 28, 2)]}
    scores = np.linspace(0.2, 0.1, len(row["starts"]))
    scores[1] = 0.9  # the second piece of the first word
    high = eraser.compute_curves(example, [{**row, "scores": scores.tolist()}])
    assert high["f1"]["m"][0] == pytest.approx(2 / (5 + 1))


def test_eraser_gathered_merges_jobs_and_explains_wrong_documents_for_the_gold_class(
    options, monkeypatch
):
    jobs = [shrink_job(one, attcat=None, leave_one_out=2) for one in eraser.build_jobs(options)]
    monkeypatch.setattr(eraser, "build_jobs", lambda _: jobs)
    data = options.shared / eraser.DATA
    data.parent.mkdir(parents=True)
    data.write_bytes(b"any")
    for job in jobs:
        header, lines = run_job(job, GIVEN, options)
    assert header["wrong"] == [2]
    assert {one["number"] for one in lines} == {2}
    assert {own["target"] for one in lines for own in one["explained"]} == {"negative"}
    found = eraser.gather_results(GIVEN, options)
    assert found["right"] == {"of": 3, "n": 2}
    assert found["curve"]["methods"]["attcat"][0]["n"] == 3
    assert found["curve"]["methods"]["leave_one_out"][0]["n"] == 2
    assert {one["metric"] for one in found["cells"]} == set(eraser.METRICS)


def test_evaluation_gathered_of_two_parts_states_which_methods_were_left_out(options, monkeypatch):
    part, anew = evaluation.TABLES["sst2"].parts
    parts = (
        replace(part, metrics=("comprehensiveness", "tau_b")),
        replace(anew, metrics=("class_sensitivity",), left_out={"rollout": "it is dear"}),
    )
    monkeypatch.setitem(evaluation.TABLES, "sst2", replace(evaluation.TABLES["sst2"], parts=parts))
    plain = evaluation.build_job

    def job(name, part, options):
        methods = {one: None for one in ("attcat", "rollout") if one not in part.left_out}
        return shrink_job(plain(name, part, options), **methods)

    monkeypatch.setattr(evaluation, "build_job", job)
    data = options.shared / evaluation.TABLES["sst2"].data
    data.parent.mkdir(parents=True)
    data.write_bytes(b"any")
    for one in parts:
        run_job(job("sst2", one, options), GIVEN, options)
    found = evaluation.gather_results("sst2", GIVEN, options)
    why = {(one["method"], one["metric"]): one["why_not"] for one in found["cells"]}
    assert why["rollout", "class_sensitivity"][0]["why"] == "left out: it is dear"
    assert why["attcat", "class_sensitivity"] == []
    both = whence.evaluate(
        whence.load("reviews", device="cpu"), GIVEN, ["attcat", "rollout"], ["tau_b"]
    )
    assert found["agreement"][0]["mean"] == pytest.approx(
        both.payload["agreement"][0]["mean"], abs=1e-6
    )


def test_pets_gathered_explains_wrong_predictions_for_the_gold_class(options, monkeypatch):
    explainer, count = whence.load("shapes", device="cpu"), 3
    given = []
    for number in range(count):
        seen = Image.fromarray(draw_scene(number).pixels)
        mask = Image.new("L", seen.size)
        mask.paste(255, (0, 0, seen.width // 2, seen.height))
        said = explainer.predict(seen).label
        label = said if number else next(name for name in SHAPE_CLASSES if name != said)
        given.append(
            Example(
                StoredImage(seen, f"{number}"), label, mask=ImageMask(StoredImage(mask, "mask"))
            )
        )
    jobs = pets.build_jobs(options)
    jobs = {
        "predicted": replace(jobs["predicted"], model="shapes", methods={"attcat": None}, metrics=("deletion",)),
        "gold": replace(jobs["gold"], model="shapes", methods={"attcat": None}, metrics=("deletion",)),
    }  # fmt: skip
    monkeypatch.setattr(pets, "build_jobs", lambda _: jobs)
    for job in jobs.values():
        header, lines = run_job(job, given, options)
    assert header["wrong"] == [0]
    assert [one["number"] for one in lines] == [0]
    found = pets.gather_results(given, options)
    first, second = (found[part]["cells"][0] for part in ("predicted", "gold"))
    assert first["n"] == second["n"] == count
    assert first["mean"] != second["mean"]


def test_ranks_average_ties_and_findings_hard_codes_only_raw_attention():
    assert rankings.compute_ranks({"a": 2.0, "b": 1.0, "c": 2.0}) == {"a": 1.5, "b": 3, "c": 1.5}
    assert rankings.correlate({"a": 1, "b": 2, "c": 3, "d": 9}, {"a": 3, "b": 2, "c": 1}) == (
        -1.0,
        3,
    )
    text = Path(findings.__file__).read_text("utf-8")
    assert [one for one in whence.methods.method.names() if f'"{one}"' in text] == ["raw_attention"]


def test_rounded_rounds_numbers_in_nested_containers():
    assert round_numbers({"a": [1.23456789, (2,)], "b": "x"}) == {"a": [1.23457, [2]], "b": "x"}
    assert collect_provenance()["source"]
