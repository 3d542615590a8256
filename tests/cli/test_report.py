"""`whence report` command: one run, file formats and refusals."""

import json

import pytest

import whence
from tests import run_reports, stores
from whence.runs.results import RunReport


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a run."""
    found, explainer = tmp_path_factory.mktemp("runs"), whence.load("reviews")
    data = run_reports.write_dataset(found)
    few = {"methods": ("attcat", "rollout"), "metrics": ("sufficiency",)}
    run_reports.make_run(found / "one", data, explainer, **few)
    return found


def test_report_command_prints_a_run_and_writes_html_markdown_and_latex(run, folder, tmp_path):
    files = [tmp_path / name for name in ("r.html", "r.md", "r.tex")]
    status, out, err = run(
        "report", folder / "one", "--html", files[0], "--md", files[1], "--latex", files[2]
    )
    assert status == 0
    for said in (
        "reviews on reviews.tsv",
        "sufficiency",
        "chance",
        "[",
        "Fared worst",
        "whence run --model reviews",
    ):
        assert said in out
    assert [line.split()[-1] for line in err.splitlines()] == [str(path) for path in files]
    html, markdown, latex = (path.read_text() for path in files)
    assert html.startswith("<!doctype html>")
    assert "<script" not in html
    assert "| attcat |" in markdown
    assert "\\toprule" in latex


def test_report_json_is_read_by_run_report_from_dict(run, folder):
    status, out, err = run("report", folder / "one", "--json")
    assert (status, err) == (0, "")
    payload = json.loads(out)
    assert (payload["kind"], payload["version"], payload["state"]) == ("run", 1, "complete")
    assert RunReport.from_dict(payload).evaluation.cell("attcat", "sufficiency").value.n == 8


def test_report_of_two_runs_is_refused_with_what_to_do(run, folder):
    status, out, err = run("report", folder / "one", folder / "one")
    assert (status, out) == (20, "") or status != 0
    assert "To compare two, read both folders with pandas or polars" in err
    assert "whence.compare" in err


def test_report_of_bad_folders_or_unwritable_files_is_refused(run, folder, tmp_path):
    for where, said in ((tmp_path / "nowhere", "is no folder"), (tmp_path, "holds no run")):
        status, out, err = run("report", where)
        assert (status, out) == (42, "")
        assert said in err
        assert "bad-store" in err
    status, _, err = run("report", folder / "one", "--html", tmp_path / "no" / "r.html")
    assert status == 40
    assert "no folder" in err


def test_report_of_an_empty_run_states_that_no_example_is_explained(run, tmp_path):
    out = stores.write_store(tmp_path / "out", windows=())
    status, said, err = run("report", out)
    assert (status, err) == (0, "")
    assert "0 examples" in said
    assert "No example is explained" in said
    assert "the plan has no metrics" not in said
