"""Stored runs in the app: list, rows, single rows and reports; paths, links and damaged runs are refused."""

import json
import os
from urllib.parse import quote

import pytest

from tests import stores
from tests.web.serving import ask, assert_error
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import CannotRead
from whence.runs.store import Store

EVIL = "<script>alert(1)</script> fine"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a finished run in a folder of its own, one that is being written, and what is no run."""
    runs = tmp_path_factory.mktemp("runs")
    stores.write_store(runs / "films" / "first <b>", failing=(2,))
    with Store.open_locked(runs / "live") as store:
        who = stores.identity(methods=("attcat",), metrics=())
        store.begin(stores.plan(), who, stores.DATA)
        stores.complete_window(store, who, stores.window(0))
        store.find_results(stores.window(1))
        store.add_result(stores.make_task_result(who, stores.window(1), 0))
    (runs / "notes").mkdir()
    (runs / "notes" / "read.me").write_text("no run")
    return runs


@pytest.fixture(scope="module")
def app(folder):
    app = create_app(Settings(runs=folder))
    yield app
    assert app.state.app_state.close(10)


def list_runs(app):
    answer = ask(app, "GET", "/api/runs")
    assert answer.status_code == 200, answer.text
    return {entry["name"]: entry for entry in answer.json()["runs"]}


@pytest.fixture(scope="module")
def first_run_id(app):
    return list_runs(app)["films/first <b>"]["id"]


def rows(app, run, **query):
    answer = ask(app, "GET", f"/api/runs/{run}/rows", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_runs_endpoint_lists_runs_with_state_counts_and_methods(app, folder):
    entries = list_runs(app)
    assert entries.keys() == {"films/first <b>", "live"}
    one = entries["films/first <b>"]
    assert one["state"] == "complete"
    # Two windows of six examples, by two methods: row 2 failed by both.
    assert (one["done"], one["total"], one["failed"]) == (12, 12, 2)
    assert one["methods"] == ["attcat", "rollout"]
    assert one["metrics"] == ["sufficiency"]
    assert (one["model"], one["data"], one["asks"]) == ("reviews", "reviews.tsv", "reviews")
    live = entries["live"]
    # A window of six, and a chunk of two of the next.
    assert (live["state"], live["done"]) == ("running", 8)
    assert live["quiet"] < 600


def test_runs_endpoint_counts_new_results_of_a_run_being_written(folder, app):
    before = list_runs(app)["live"]
    with Store.open_locked(folder / "live") as store:
        who = stores.identity(methods=("attcat",), metrics=())
        store.begin(stores.plan(), who, stores.DATA)
        store.find_results(stores.window(1))
        store.add_result(stores.make_task_result(who, stores.window(1), 1))
        # The writer holds its lock all the while, and whoever looks does not wait for it.
        after = list_runs(app)["live"]
    assert after["done"] == before["done"] + 2
    assert after["version"] != before["version"]
    assert rows(app, "live")["found"] == after["done"]


def test_runs_setting_may_be_the_folder_of_one_run(folder):
    app = create_app(Settings(runs=folder / "live"))
    assert list(list_runs(app)) == ["live"]
    app.state.app_state.close(10)


def test_runs_endpoint_without_a_runs_folder_is_empty(tmp_path):
    app = create_app(Settings())
    assert ask(app, "GET", "/api/runs").json() == {"folder": None, "runs": [], "left_out": 0}
    assert_error(ask(app, "GET", "/api/runs/live/page"), 404, "not-found")
    app.state.app_state.close(10)


def test_create_app_with_a_missing_runs_folder_raises_cannot_read(tmp_path):
    with pytest.raises(CannotRead, match="--runs takes a run"):
        create_app(Settings(runs=tmp_path / "nowhere"))


def test_run_rows_come_in_the_order_of_the_data(app, first_run_id):
    found = rows(app, first_run_id)
    assert found["found"] == 24
    assert [(one["row"], one["method"]) for one in found["rows"][:3]] == [
        (0, "attcat"),
        (0, "rollout"),
        (1, "attcat"),
    ]
    assert found["rows"][0]["text"] == "review number 0"
    assert found["rows"][0]["value"] is None


def test_run_rows_are_filtered_by_method_failure_and_text(app, first_run_id):
    failed = rows(app, first_run_id, failed=True)["rows"]
    assert [(one["row"], one["error"]) for one in failed] == [(2, "not-finite")] * 2
    made = rows(app, first_run_id, method="rollout", failed=False)
    assert made["found"] == 11
    assert {one["method"] for one in made["rows"]} == {"rollout"}
    # "number 1", "number 10" and "number 11", by two methods; letters count whatever their case.
    assert rows(app, first_run_id, search="NUMBER 1")["found"] == 6
    assert rows(app, first_run_id, search="[.*")["found"] == 0


@pytest.mark.parametrize(("order", "sign"), [("best", -1), ("worst", 1)])
def test_run_rows_ordered_by_a_metric_have_missing_values_last(app, first_run_id, order, sign):
    # Of sufficiency less is better.
    found = rows(app, first_run_id, metric="sufficiency", order=order, method="attcat")["rows"]
    values = [one["value"] for one in found]
    assert values[-1] is None
    assert values[:-1] == sorted(values[:-1], reverse=sign > 0)
    assert found[-1]["row"] == 2


def test_run_rows_ordered_without_a_metric_are_a_bad_request(app, first_run_id):
    answer = ask(app, "GET", f"/api/runs/{first_run_id}/rows", params={"order": "best"})
    assert_error(answer, 422, "bad-request")


def test_run_row_pages_continue_across_windows_in_data_and_metric_order(tmp_path):
    stores.write_store(tmp_path / "long", windows=range(5), size=24)
    app = create_app(Settings(runs=tmp_path))
    pages = [rows(app, "long", page=number, metric="sufficiency") for number in range(6)]
    seen = [(one["row"], one["method"]) for page in pages for one in page["rows"]]
    assert seen == [(row, method) for row in range(120) for method in ("attcat", "rollout")]
    assert [page["first"] for page in pages] == [0, 50, 100, 150, 200, 250]
    ordered = [
        rows(app, "long", page=number, metric="sufficiency", order="best") for number in range(5)
    ]
    values = [one["value"] for page in ordered for one in page["rows"]]
    # The value of a row is that row's, on whatever page and in whatever order it stands.
    by_row = {one["row"]: one["value"] for page in pages for one in page["rows"]}
    assert values == sorted(by_row[row] for row in range(120) for _ in range(2))
    app.state.app_state.close(10)


def test_run_row_endpoint_gives_words_tests_and_reason_of_failure(app, first_run_id):
    one = ask(app, "GET", f"/api/runs/{first_run_id}/rows/3", params={"method": "rollout"}).json()
    assert one["methods"] == ["attcat", "rollout"]
    assert one["input"]["text"] == "review number 3"
    assert [word["text"] for word in one["words"]] == ["review", "number", "3"]
    assert one["tests"][0]["metric"] == "sufficiency"
    assert one["tests"][0]["value"] is not None
    failed = ask(app, "GET", f"/api/runs/{first_run_id}/rows/2").json()
    assert failed["words"] == []
    assert failed["why"] == "It did not work."
    assert_error(ask(app, "GET", f"/api/runs/{first_run_id}/rows/99"), 404, "not-found")
    assert_error(ask(app, "GET", f"/api/runs/{first_run_id}/rows/3?method=lime"), 404, "not-found")


def test_run_report_page_is_sandboxed_and_has_no_script(app, first_run_id):
    answer = ask(app, "GET", f"/api/runs/{first_run_id}/page")
    assert answer.status_code == 200, answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert "<script" not in answer.text
    assert "first &lt;b&gt;" in answer.text


@pytest.mark.parametrize("format", ["html", "md", "tex", "json"])
def test_run_report_is_an_attachment_in_every_format(app, first_run_id, format):
    query = {"format": format}
    answer = ask(app, "GET", f"/api/runs/{first_run_id}/report", params=query)
    assert answer.status_code == 200, answer.text
    kept = answer.headers["content-disposition"]
    assert kept.startswith("attachment;")
    assert kept.endswith(f'.{format}"')
    if format == "json":
        assert json.loads(answer.text)["version"]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../live",
        "%2e%2e%2flive",
        "/etc",
        "live/../live",
        "films/first <b>",
        "~",
        "live\0",
        "",
    ],
)
def test_run_endpoints_given_a_path_as_id_are_not_found(app, name):
    for part in ("page", "rows", "report", "rows/0"):
        answer = ask(app, "GET", f"/api/runs/{quote(name, safe='')}/{part}")
        assert_error(answer, 404, "not-found")


def test_runs_endpoint_does_not_follow_links_out_of_the_folder(tmp_path):
    outside = stores.write_store(tmp_path / "outside")
    inside = tmp_path / "inside"
    stores.write_store(inside / "own")
    (inside / "link").symlink_to(outside)
    part = inside / "own" / "explanations" / "000000-000.parquet"
    part.unlink()
    part.symlink_to(outside / "explanations" / "000000-000.parquet")
    app = create_app(Settings(runs=inside))
    entries = list_runs(app)
    assert entries.keys() == {"own"}
    assert entries["own"]["state"] == "damaged"
    assert "is a link" in entries["own"]["problem"]
    assert_error(ask(app, "GET", "/api/runs/link/page"), 404, "not-found")
    assert_error(ask(app, "GET", "/api/runs/own/rows"), 422, "bad-store")
    app.state.app_state.close(10)


@pytest.mark.parametrize(
    "manifest", [b"", b"{", b"[1]", b'{"format": "whence run"}', b"\xff\xfe", b'{"a": ' * 5000]
)
def test_run_with_a_damaged_manifest_is_listed_as_damaged_and_refused(tmp_path, manifest):
    stores.write_store(tmp_path / "torn")
    stores.write_store(tmp_path / "whole")
    (tmp_path / "torn" / "manifest.json").write_bytes(manifest)
    app = create_app(Settings(runs=tmp_path))
    entries = list_runs(app)
    assert entries["whole"]["state"] == "complete"
    assert entries["torn"]["state"] == "damaged"
    assert "manifest" in entries["torn"]["problem"]
    for part in ("page", "rows", "rows/0", "report"):
        assert_error(ask(app, "GET", f"/api/runs/torn/{part}"), 422, "bad-store")
    app.state.app_state.close(10)


def test_run_rows_of_a_torn_file_are_left_out_and_reported(tmp_path):
    stores.write_store(tmp_path / "torn")
    part = tmp_path / "torn" / "explanations" / "000000-000.parquet"
    part.write_bytes(part.read_bytes()[:-100])
    app = create_app(Settings(runs=tmp_path))
    found = rows(app, "torn", metric="sufficiency", order="best")
    assert {one["row"] for one in found["rows"]} == set(range(2, 12))
    assert "000000" in found["problems"][0]
    assert_error(ask(app, "GET", "/api/runs/torn/rows/0"), 422, "bad-store")
    assert ask(app, "GET", "/api/runs/torn/page").status_code == 200
    app.state.app_state.close(10)


def test_reading_a_run_through_the_app_changes_no_file(folder, app, first_run_id):
    def seen():
        return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}

    before = seen()
    for part in ("page", "rows?metric=sufficiency&order=best", "rows/0", "report?format=json"):
        assert ask(app, "GET", f"/api/runs/{first_run_id}/{part}").status_code == 200
    assert seen() == before


def test_run_folder_with_a_name_that_is_not_utf8_is_listed(tmp_path):
    stores.write_store(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    app = create_app(Settings(runs=tmp_path))
    ((name, entry),) = list_runs(app).items()
    assert name == "caf\ufffd"
    assert rows(app, entry["id"])["found"] == 24
    app.state.app_state.close(10)


def test_runs_endpoint_refuses_foreign_hosts_and_origins(app):
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert_error(ask(app, "GET", "/api/runs", headers=headers), 403, "not-allowed")


def test_html_in_run_texts_is_plain_in_rows_and_escaped_on_the_page(tmp_path):
    who = stores.identity()
    with Store.open_locked(tmp_path / "evil") as store:
        store.begin(stores.plan(), who, stores.DATA)
        stores.complete_window(
            store, who, stores.window(items=[stores.item(0, EVIL), stores.item(1)])
        )
        store.finish()
    app = create_app(Settings(runs=tmp_path))
    assert rows(app, "evil", search="<script>")["rows"][0]["text"] == EVIL
    assert "<script" not in ask(app, "GET", "/api/runs/evil/page").text
    app.state.app_state.close(10)
