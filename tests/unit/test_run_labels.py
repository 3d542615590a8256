"""Gold labels of a run as the model's label names: store, report, app, ambiguous numbers, upgrade of old stores."""

import json
import re

import pyarrow.parquet as pq
import pytest

import whence
from whence.app.library import build_example
from whence.core.errors import BadExamples
from whence.data.dataset import find_label_indices, match_label_names
from whence.runs.store import verify_store

ROWS = [
    ("a gripping, beautifully acted film", 1),
    ("dull, slow and far too long", 0),
    ("a warm and funny story", 0),  # which the model sees otherwise
    ("a mess from start to end", None),
]
STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")


@pytest.fixture(scope="module")
def numbered_label_run(tmp_path_factory):
    """Run one method without a metric over labels that are numbers."""
    folder = tmp_path_factory.mktemp("run")
    data = folder / "films.jsonl"
    data.write_text("".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in ROWS))
    return whence.run(model="reviews", data=str(data), methods="attcat", out=folder / "out")


def test_explanations_table_of_a_run_has_gold_label_names_and_correctness(numbered_label_run):
    (path,) = (numbered_label_run.folder / "explanations").glob("*.parquet")
    table = pq.read_table(path, columns=["label", "gold", "predicted", "right"]).to_pylist()
    assert [one["label"] for one in table] == ["1", "0", "0", None]
    assert [one["gold"] for one in table] == ["positive", "negative", "negative", None]
    for one in table[:3]:
        assert one["right"] is (one["gold"] == one["predicted"])
    assert table[3]["right"] is None
    assert {one["right"] for one in table} == {True, False, None}
    assert not list(verify_store(numbered_label_run.folder))


def test_run_report_uses_label_names_of_the_model_and_states_the_mapping(numbered_label_run):
    said = str(numbered_label_run.report())
    assert re.search(r"predicted positive \([^)]*\), labelled negative", said)
    assert not re.search(r"labelled [01]\b", said)
    assert "taken for the model's labels counted from 0: 0 negative, 1 positive" in said


def test_report_of_a_run_without_metrics_shows_example_explanations(numbered_label_run):
    report = numbered_label_run.report()
    shown = report.payload["extremes"]
    assert {one["which"] for one in shown} == {"example"}
    texts = [one["explained"]["input"]["text"] for one in shown]
    assert ROWS[2][0] in texts  # the wrong one
    assert {one["explained"]["prediction"]["label"] for one in shown} == {"positive", "negative"}
    for surface in (str(report), report.to_markdown(), report.to_html(), report.to_latex()):
        assert "gripping" in surface


def test_build_example_of_the_app_uses_the_label_name_of_the_model(numbered_label_run):
    assert build_example(numbered_label_run, 1, "attcat").label == "negative"


@pytest.mark.parametrize(
    ("said", "labels", "found"),
    [
        ("0123", TOPICS, {"0": "World", "1": "Sports", "2": "Business", "3": "Sci/Tech"}),
        ("1234", TOPICS, None),  # counted from 1, or of another model
        ("12345", STARS, dict(zip("12345", STARS, strict=True))),
        ("01234", STARS, dict(zip("01234", STARS, strict=True))),
        ("1234", STARS, None),  # nobody can tell
        (["world", "SPORTS"], TOPICS, {"world": "World", "SPORTS": "Sports"}),
    ],
)
def test_match_label_names_maps_names_or_numbers_and_refuses_ambiguous_numbers(said, labels, found):
    names = match_label_names(said, labels)
    assert (None if names is None else dict(names.names)) == found


def test_find_label_indices_of_an_ambiguous_number_raises_with_both_meanings():
    with pytest.raises(BadExamples, match=r"'1' may be '2 stars', number 1 from 0, or '1 star'"):
        find_label_indices("1234", STARS)


def test_run_with_target_gold_refuses_labels_numbered_from_1(tmp_path):
    data = tmp_path / "films.jsonl"
    rows = [{"text": text, "label": 1 + (label or 0)} for text, label in ROWS]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = {"model": "reviews", "data": str(data), "methods": "attcat"}
    # Taken for themselves, those labelled 1 would be explained as number 1 from 0, the class after theirs.
    with pytest.raises(BadExamples, match=r"The label '2' \(1 of 4 examples\) is not one of the"):
        whence.run(**plan, target="gold", out=tmp_path / "gold")
    found = whence.run(**plan, out=tmp_path / "out")
    assert found.table("explanations").to_table()["gold"].null_count == 4
    assert found.report().payload["predictions"]["accuracy"] is None
