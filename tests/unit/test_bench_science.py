"""The protocols of bench/science: rows become what whence.evaluate says, and a job goes on where it stopped."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.science import arenas, attcat, eraser, evaluation, findings, many, pets
from bench.science.rows import evaluated, made_by, read, rounded
from PIL import Image

import whence
from whence.data.sets.examples import Example, Span
from whence.data.sets.pictures import Outlined, Stored
from whence.data.vision.shapes import CLASSES, draw
from whence.stats.spans import runs, tokens

TEXTS = (
    ("the plot is thin , but the actors are wonderful and warm", "positive"),
    ("a dull and lifeless film that nobody should ever watch again", "negative"),
    ("a gripping , beautifully acted film about love and loss indeed", "negative"),  # it is not
)
GIVEN = [Example(text, label, (Span(0, 4, 16),)) for text, label in TEXTS]


@pytest.fixture
def options(tmp_path):
    return Namespace(
        shared=tmp_path, rows=tmp_path, device="cpu", few=1, limit=None, photographs=None, without=[]
    )  # fmt: skip


def small(job, **methods):
    return replace(job, model="reviews", methods=methods or {"attcat": None, "rollout": None})


def done(job, given, options):
    file = options.rows / f"{job.name}.jsonl"
    many.run(job, given, file)
    return read(file)


def test_rows_become_what_evaluate_says(options):
    job = small(attcat.job("sst2", "delete", options))
    found = evaluated(job, GIVEN, *done(job, GIVEN, options))
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


def test_a_job_goes_on_where_it_stopped_and_refuses_rows_of_another(options):
    job = small(attcat.job("sst2", "pad", options), attcat=None, leave_one_out=1)
    file = options.rows / f"{job.name}.jsonl"
    done(job, GIVEN, options)
    before = file.read_text("utf-8")
    _, lines = done(job, GIVEN, options)
    assert file.read_text("utf-8") == before
    assert {(one["number"], name) for one in lines for name in one["methods"]} == {
        *((n, "attcat") for n in range(3)),
        (0, "leave_one_out"),
    }
    # A line that was cut short is made again, and one that is there twice counts once.
    *kept, last = before.splitlines()
    file.write_text("\n".join([*kept, kept[1], last[:40]]) + "\n", encoding="utf-8")
    _, again = done(job, GIVEN, options)
    assert len(again) == len(lines)
    with pytest.raises(AssertionError, match="other setting"):
        many.run(replace(job, target=None), GIVEN, file)


def test_the_curve_counts_as_by_hand():
    example = Example("a b c d e f g h i j", "x", (Span(0, 2, 5), Span(0, 16, 17)))  # b, c, i
    row = {"method": "m", "error": None, "starts": [None, 0, 2, 4, 6, None]}
    # b has most, then d, and c nothing: what is beyond d was cut off, i among it.
    found = eraser.curves(example, [{**row, "scores": [9.0, 0.1, 0.9, -0.5, 0.4, 9.0]}])
    assert found["f1"]["m"] == [2 * 2 / (4 + 3)] * len(
        eraser.TOP
    )  # four words are all there is to choose
    chosen = tokens(
        runs([True] * 4 + [False] * 6), runs([False, True, True, *[False] * 5, True, False])
    )
    assert found["f1"]["m"][0] == pytest.approx(chosen.f1)
    assert found["random"][0] == pytest.approx(chosen.f1)
    assert eraser.curves(Example("a b", "x", ()), []) is None


def test_a_word_has_the_highest_of_its_pieces():
    example = Example("good film " + "x " * 8 + "y", "x", (Span(0, 0, 4),))
    row = {"method": "m", "error": None, "starts": [0, 2, *range(5, 28, 2)]}
    scores = np.linspace(0.2, 0.1, len(row["starts"]))
    scores[1] = 0.9  # the second piece of the first word
    high = eraser.curves(example, [{**row, "scores": scores.tolist()}])
    assert high["f1"]["m"][0] == pytest.approx(2 / (5 + 1))


def test_rationales_with_documents_that_are_explained_for_two_classes(options, monkeypatch):
    jobs = [small(one, attcat=None, leave_one_out=2) for one in eraser.jobs(options)]
    monkeypatch.setattr(eraser, "jobs", lambda _: jobs)
    data = options.shared / eraser.DATA
    data.parent.mkdir(parents=True)
    data.write_bytes(b"any")
    for job in jobs:
        header, lines = done(job, GIVEN, options)
    assert header["wrong"] == [2]
    assert {one["number"] for one in lines} == {2}
    assert {own["target"] for one in lines for own in one["explained"]} == {"negative"}
    found = eraser.gathered(GIVEN, options)
    assert found["right"] == {"of": 3, "n": 2}
    assert found["curve"]["methods"]["attcat"][0]["n"] == 3
    assert found["curve"]["methods"]["leave_one_out"][0]["n"] == 2
    assert {one["metric"] for one in found["cells"]} == set(eraser.METRICS)


def test_a_table_of_two_parts_says_what_was_left_out(options, monkeypatch):
    part, anew = evaluation.TABLES["sst2"].parts
    parts = (
        replace(part, metrics=("comprehensiveness", "tau_b")),
        replace(anew, metrics=("class_sensitivity",), left_out={"rollout": "it is dear"}),
    )
    monkeypatch.setitem(evaluation.TABLES, "sst2", replace(evaluation.TABLES["sst2"], parts=parts))
    plain = evaluation.job

    def job(name, part, options):
        methods = {one: None for one in ("attcat", "rollout") if one not in part.left_out}
        return small(plain(name, part, options), **methods)

    monkeypatch.setattr(evaluation, "job", job)
    data = options.shared / evaluation.TABLES["sst2"].data
    data.parent.mkdir(parents=True)
    data.write_bytes(b"any")
    for one in parts:
        done(job("sst2", one, options), GIVEN, options)
    found = evaluation.gathered("sst2", GIVEN, options)
    why = {(one["method"], one["metric"]): one["why_not"] for one in found["cells"]}
    assert why["rollout", "class_sensitivity"][0]["why"] == "left out: it is dear"
    assert why["attcat", "class_sensitivity"] == []
    both = whence.evaluate(
        whence.load("reviews", device="cpu"), GIVEN, ["attcat", "rollout"], ["tau_b"]
    )
    assert found["agreement"][0]["mean"] == pytest.approx(
        both.payload["agreement"][0]["mean"], abs=1e-6
    )


def test_photographs_for_the_class_that_people_named(options, monkeypatch):
    explainer, count = whence.load("shapes", device="cpu"), 3
    given = []
    for number in range(count):
        seen = Image.fromarray(draw(number).pixels)
        mask = Image.new("L", seen.size)
        mask.paste(255, (0, 0, seen.width // 2, seen.height))
        said = explainer.predict(seen).label
        label = said if number else next(name for name in CLASSES if name != said)
        given.append(Example(Stored(seen, f"{number}"), label, mask=Outlined(Stored(mask, "mask"))))
    jobs = pets.jobs(options)
    jobs = {
        "predicted": replace(jobs["predicted"], model="shapes", methods={"attcat": None}, metrics=("deletion",)),
        "gold": replace(jobs["gold"], model="shapes", methods={"attcat": None}, metrics=("deletion",)),
    }  # fmt: skip
    monkeypatch.setattr(pets, "jobs", lambda _: jobs)
    for job in jobs.values():
        header, lines = done(job, given, options)
    assert header["wrong"] == [0]
    assert [one["number"] for one in lines] == [0]
    found = pets.gathered(given, options)
    first, second = (found[part]["cells"][0] for part in ("predicted", "gold"))
    assert first["n"] == second["n"] == count
    assert first["mean"] != second["mean"]


def test_ranks_share_their_places_and_the_page_names_no_method_by_hand():
    assert arenas.ranks({"a": 2.0, "b": 1.0, "c": 2.0}) == {"a": 1.5, "b": 3, "c": 1.5}
    assert arenas.alike({"a": 1, "b": 2, "c": 3, "d": 9}, {"a": 3, "b": 2, "c": 1}) == (-1.0, 3)
    text = Path(findings.__file__).read_text("utf-8")
    assert [one for one in whence.methods.method.names() if f'"{one}"' in text] == ["raw_attention"]


def test_numbers_are_rounded_wherever_they_stand():
    assert rounded({"a": [1.23456789, (2,)], "b": "x"}) == {"a": [1.23457, [2]], "b": "x"}
    assert made_by()["source"]
