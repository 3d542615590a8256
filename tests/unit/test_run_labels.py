"""Gold labels of a run as the model's label names: store, report, app, ambiguous numbers, upgrade of old stores."""

import json
import re

import pyarrow.parquet as pq
import pytest

import whence
from tests import stores
from whence.app.library import build_example
from whence.core.errors import BadExamples
from whence.data.dataset import find_label_indices, match_label_names
from whence.runs.store import VERSION_1_SCHEMAS, Store, verify_store

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


def test_store_of_version_1_is_read_and_upgraded_with_gold_labels(tmp_path, monkeypatch):
    from whence.runs import store as store_module

    with monkeypatch.context() as earlier:
        for module in (store_module, store_module, store_module):
            earlier.setattr(module, "SCHEMAS", VERSION_1_SCHEMAS)
        columns = {
            n: tuple(c for c in own if c.name not in store_module.VERSION_2_COLUMNS)
            for n, own in store_module.COLUMNS.items()
        }
        earlier.setattr(store_module, "COLUMNS", columns)
        earlier.setattr(store_module.CurrentData, "_with_gold_labels", lambda self, table: table)
        for module in (store_module, store_module):
            earlier.setattr(module, "VERSION", 1)
        folder = stores.write_store(tmp_path / "out")
    before = pq.read_schema(next((folder / "explanations").glob("*.parquet")))
    assert "gold" not in before.names and before.metadata[b"version"] == b"1"
    assert not list(verify_store(folder))
    store = Store.open_existing(folder)
    assert store.table("explanations").to_table()["gold"].null_count == 24
    assert sum(len(batch) for batch in store.batches("explanations")) == 24
    named = {**stores.DATA, "labels": {"by": "name", "names": {"positive": "positive"}}}
    with Store.open_locked(folder) as again:
        again.begin(stores.plan(), stores.identity(), named)
        for number in (0, 1):
            again.commit_window(stores.window(number))
        again.finish()
    assert set(
        Store.open_existing(folder).table("explanations").to_table()["gold"].to_pylist()
    ) == {"positive"}
    assert not list(verify_store(folder))
