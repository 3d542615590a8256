"""Labels of a data set by the names of the model's, in what a run stores and reports."""

import json
import re

import pyarrow.parquet as pq
import pytest

import whence
from tests import stores
from whence.core.errors import BadExamples
from whence.data.sets.labels import label_names, label_places
from whence.run.store import Store
from whence.run.store.schema import EARLIER
from whence.run.store.verify import verify
from whence.web.runrows import example

ROWS = [
    ("a gripping, beautifully acted film", 1),
    ("dull, slow and far too long", 0),
    ("a warm and funny story", 0),  # which the model sees otherwise
    ("a mess from start to end", None),
]
STARS = ("1 star", "2 stars", "3 stars", "4 stars", "5 stars")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run one method without a metric over labels that are numbers."""
    folder = tmp_path_factory.mktemp("run")
    data = folder / "films.jsonl"
    data.write_text("".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in ROWS))
    return whence.run(model="reviews", data=str(data), methods="attcat", out=folder / "out")


def test_the_parquet_of_a_run_has_the_label_by_name_and_whether_the_model_is_right(done):
    (path,) = (done.folder / "explanations").glob("*.parquet")
    table = pq.read_table(path, columns=["label", "gold", "predicted", "right"]).to_pylist()
    assert [one["label"] for one in table] == ["1", "0", "0", None]
    assert [one["gold"] for one in table] == ["positive", "negative", "negative", None]
    for one in table[:3]:
        assert one["right"] is (one["gold"] == one["predicted"])
    assert table[3]["right"] is None
    assert {one["right"] for one in table} == {True, False, None}
    assert not list(verify(done.folder))


def test_the_report_names_labels_as_the_model_does_and_says_how_they_were_taken(done):
    said = str(done.report())
    assert re.search(r"predicted positive \([^)]*\), labelled negative", said)
    assert not re.search(r"labelled [01]\b", said)
    assert "taken for the model's labels counted from 0: 0 negative, 1 positive" in said


def test_a_run_without_metrics_has_a_report_that_shows_explanations(done):
    report = done.report()
    shown = report.payload["extremes"]
    assert {one["which"] for one in shown} == {"example"}
    texts = [one["explained"]["input"]["text"] for one in shown]
    assert ROWS[2][0] in texts  # the wrong one
    assert {one["explained"]["prediction"]["label"] for one in shown} == {"positive", "negative"}
    for surface in (str(report), report.to_markdown(), report.to_html(), report.to_latex()):
        assert "gripping" in surface


def test_the_app_names_the_label_of_a_row_as_the_model_does(done):
    assert example(done, 1, "attcat").label == "negative"


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
def test_labels_are_named_by_name_or_number_and_not_guessed_where_both_could_be_meant(
    said, labels, found
):
    names = label_names(said, labels)
    assert (None if names is None else dict(names.names)) == found


def test_a_number_that_may_be_a_place_or_a_name_is_refused_with_both():
    with pytest.raises(BadExamples, match=r"'1' may be '2 stars', number 1 from 0, or '1 star'"):
        label_places("1234", STARS)


def test_a_run_refuses_to_explain_own_labels_that_are_numbers_from_1(tmp_path):
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


def test_a_store_of_the_version_before_is_read_and_brought_up_to_date(tmp_path, monkeypatch):
    from whence.run.store import commit, manifest, pending, rows, schema

    with monkeypatch.context() as earlier:
        for module in (rows, pending, commit):
            earlier.setattr(module, "SCHEMAS", EARLIER)
        columns = {
            n: tuple(c for c in own if c.name not in schema.SINCE_2)
            for n, own in schema.COLUMNS.items()
        }
        earlier.setattr(rows, "COLUMNS", columns)
        earlier.setattr(commit.Now, "_judged", lambda self, table: table)
        for module in (commit, manifest):
            earlier.setattr(module, "VERSION", 1)
        folder = stores.filled(tmp_path / "out")
    before = pq.read_schema(next((folder / "explanations").glob("*.parquet")))
    assert "gold" not in before.names and before.metadata[b"version"] == b"1"
    assert not list(verify(folder))
    store = Store.read(folder)
    assert store.table("explanations").to_table()["gold"].null_count == 24
    assert sum(len(batch) for batch in store.batches("explanations")) == 24
    named = {**stores.DATA, "labels": {"by": "name", "names": {"positive": "positive"}}}
    with Store.locked(folder) as again:
        again.begin(stores.plan(), stores.identity(), named)
        for number in (0, 1):
            again.commit(stores.window(number))
        again.finish()
    assert set(Store.read(folder).table("explanations").to_table()["gold"].to_pylist()) == {
        "positive"
    }
    assert not list(verify(folder))
