"""Results of a run folder: evaluation, explanations and tables as in memory, even if unfinished or damaged."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import whence
from tests import run_reports, stores
from whence.core.errors import BadStore, UnknownMethod
from whence.explain.report import build_document
from whence.runs.records import SCHEMAS
from whence.runs.results import Run, RunReport, build_explanation_data, collect_results
from whence.runs.store import Store


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, explainer):
    """Return a small finished run; tests must leave it as it is."""
    folder = tmp_path_factory.mktemp("run")
    return run_reports.make_run(folder / "out", run_reports.write_dataset(folder), explainer)


def without_machine_facts(evaluation):
    """Return an evaluation as a file keeps it, without what depends on the machine."""
    found = json.loads(evaluation.to_json())
    for name in ("seconds", "calls"):
        del found[name]
    for method in found["methods"]:
        del method["seconds"]
    del found["data"]  # a file here, a list there: tests/unit/test_public_names.py
    return found


def test_run_evaluation_equals_whence_evaluate_on_the_same_texts(finished_run, explainer):
    texts = [{"text": text, "label": label} for text, label in run_reports.ROWS]
    wanted = whence.evaluate(
        explainer, texts, list(run_reports.METHODS), [*run_reports.METRICS, "tau_b", "spearman"]
    )
    assert without_machine_facts(
        finished_run.evaluation(["tau_b", "spearman"])
    ) == without_machine_facts(wanted)


def test_run_evaluation_of_metrics_with_parts_equals_whence_evaluate(tmp_path, explainer):
    # `iou_f1` has a figure of its own for a data set, made of parts, and of the parts of each random draw.
    rows = [
        {"text": text, "label": label, "rationale": [[0, 6]]} for text, label in run_reports.ROWS
    ]
    data = tmp_path / "marked.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = run_reports.make_run(
        tmp_path / "out",
        data,
        explainer,
        methods=("attcat", "gradient"),
        metrics=("iou_f1", "token_f1"),
    )
    wanted = whence.evaluate(
        explainer, data, ["attcat", "gradient"], ["iou_f1", "token_f1", "tau_b"]
    )
    assert without_machine_facts(run.evaluation()) == without_machine_facts(wanted)


def test_run_lists_methods_and_metrics_in_the_order_of_the_plan(finished_run):
    assert (finished_run.methods, finished_run.metrics) == (
        list(run_reports.METHODS),
        list(run_reports.METRICS),
    )
    assert finished_run.evaluation().methods == list(run_reports.METHODS)


def test_run_evaluation_takes_seconds_per_method_from_the_log(finished_run):
    (task,) = finished_run.store.events("task")
    told = finished_run.evaluation().cost["rollout"]["seconds"]
    assert told.mean == pytest.approx(task["costs"]["rollout"]["seconds"] / len(run_reports.ROWS))
    assert told.n == 1


def test_run_report_without_a_log_has_no_times_and_no_sessions(tmp_path, explainer):
    run = run_reports.make_run(
        tmp_path / "out", run_reports.write_dataset(tmp_path), explainer, metrics=()
    )
    (tmp_path / "out" / "log.jsonl").unlink()
    told = Run(run.folder).report()
    assert told.evaluation.cost["rollout"]["seconds"] is None
    assert told.payload["sessions"] == []
    assert "not tested" in str(told)


def test_run_explanation_of_a_row_equals_explain_of_its_text(finished_run, explainer):
    text = run_reports.ROWS[4][0]
    # Alone or among others, an input is padded or not: sums may be of another order, in float32.
    own = explainer.explain(text, method="attcat").to_dict()
    found = finished_run.explanation(4, "attcat")
    for name in ("tokens", "words", "target"):
        assert found[name] == own[name]
    assert found["input"] == own["input"]
    assert found["prediction"]["label"] == own["prediction"]["label"]
    assert found["prediction"]["probability"] == pytest.approx(
        own["prediction"]["probability"], abs=1e-6
    )
    for name in ("scores", "word_scores"):
        np.testing.assert_allclose(
            found["explanations"][0][name], own["explanations"][0][name], atol=1e-5
        )
    assert found["explanations"][0]["signed"] is True
    assert "funny" in build_document([found]).to_html()
    assert "funny" in build_document([found]).to_text()


def test_run_raises_with_a_reason_for_unknown_method_row_or_table(finished_run):
    with pytest.raises(UnknownMethod, match=r"attcta.*attcat"):
        finished_run.explanation(0, "attcta")
    with pytest.raises(BadStore, match="no explanation of row 99"):
        finished_run.explanation(99, "attcat")
    with pytest.raises(BadStore, match="explanations and metrics"):
        finished_run.table("audits")


def test_run_table_has_a_record_per_example_and_method(finished_run):
    table = finished_run.table("explanations").to_table(columns=["row", "method"])
    assert table.num_rows == len(run_reports.ROWS) * len(run_reports.METHODS)


def test_run_facts_of_a_finished_run_are_complete_and_other_folders_are_refused(
    finished_run, tmp_path
):
    facts = finished_run.facts()
    assert (facts["state"], facts["done"], facts["total"]) == ("complete", 8, 8)
    assert (facts["model"], facts["data"], facts["failed"]) == ("reviews", "reviews.tsv", 0)
    assert finished_run.complete
    assert finished_run.last_write_time is not None
    with pytest.raises(BadStore, match="holds no run"):
        Run(tmp_path)
    with pytest.raises(BadStore, match="is no folder"):
        Run(tmp_path / "nowhere")


def test_run_evaluation_and_report_of_an_unfinished_run_count_finished_chunks(tmp_path, explainer):
    run = run_reports.make_run(
        tmp_path / "out",
        run_reports.write_dataset(tmp_path),
        explainer,
        finish=False,
        metrics=("sufficiency",),
    )
    assert not run.complete
    assert (run.facts()["state"], run.facts()["done"]) == ("running", 8)
    # What is there of it counts: chunks of a window that is not complete are results like others.
    assert run.evaluation().cell("attcat", "sufficiency").value.n == 8
    assert "The run is not finished: 8 examples are there." in str(run.report())


def test_run_report_names_a_damaged_file_and_leaves_the_file_in_place(tmp_path, explainer):
    run = run_reports.make_run(
        tmp_path / "out", run_reports.write_dataset(tmp_path), explainer, metrics=("sufficiency",)
    )
    path = run.folder / "metrics" / "000000-000.parquet"
    raw = bytearray(path.read_bytes())
    place = SCHEMAS["metrics"].get_field_index("value")
    column = pq.read_metadata(path).row_group(0).column(place)
    raw[column.data_page_offset + column.total_compressed_size - 1] ^= 1  # found when it is read
    path.write_bytes(bytes(raw))
    told = Run(run.folder).report()
    assert told.evaluation.cell("attcat", "sufficiency").value is None
    assert told.payload["evaluation"]["examples"]["explained"] == 8
    assert "metrics/000000-000.parquet is damaged and left out" in str(told)
    assert path.read_bytes() == bytes(raw)  # who reads leaves it where it is


def test_run_with_a_lost_manifest_is_damaged_and_has_no_report(tmp_path):
    folder = stores.write_store(tmp_path / "out")
    (folder / "manifest.json").write_bytes(b"{}")
    run = Run(folder)
    facts = run.facts()
    assert facts["state"] == "damaged"
    assert "manifest" in facts["why"]
    with pytest.raises(BadStore, match="manifest"):
        run.report()


def test_run_report_counts_failures_by_method_with_the_first_rows(tmp_path, explainer):
    def spoil(records):
        gone = (
            "tokens",
            "special",
            "starts",
            "ends",
            "segments",
            "ids",
            "words",
            "scores",
            "axioms",
        )
        nothing = dict.fromkeys((*gone, "forward", "backward", "dropped"))
        error = {"error": "not-finite", "why": "The scores are not finite."}
        for record in records:
            if record["row"] == 2 and record["method"] == "rollout":
                record |= error | ({"value": None, "null": None} if "value" in record else nothing)
        return records

    run = run_reports.make_run(
        tmp_path / "out",
        run_reports.write_dataset(tmp_path),
        explainer,
        spoil=spoil,
        metrics=("sufficiency",),
    )
    told = run.report().payload
    (failure,) = told["failures"]
    assert (failure["method"], failure["error"], failure["count"]) == ("rollout", "not-finite", 1)
    assert failure["first"] == ["line 4"]
    (row,) = [one for one in told["evaluation"]["methods"] if one["method"] == "rollout"]
    assert row["explained"] == 7
    assert row["why_not"] == [{"why": "The scores are not finite.", "count": 1, "examples": [2]}]
    with pytest.raises(BadStore, match="rollout failed for row 2"):
        run.explanation(2, "rollout")


def test_run_results_ignore_results_of_an_earlier_setting(tmp_path, explainer):
    data = run_reports.write_dataset(tmp_path)
    run_reports.make_run(
        tmp_path / "out", data, explainer, params={"rollout.residual": 0.9}, metrics=()
    )
    run = run_reports.make_run(tmp_path / "out", data, explainer, metrics=())
    assert run.table("explanations").count_rows() == 8 * 4  # rollout twice
    assert collect_results(run).notes.forward.shape == (8, 3)
    own = explainer.explain(run_reports.ROWS[0][0], method="rollout", params={"residual": 0.5})
    np.testing.assert_allclose(
        run.explanation(0, "rollout")["explanations"][0]["scores"], own.scores, atol=1e-6
    )


def test_collect_results_reads_every_window_and_marks_failed_rows(tmp_path):
    folder = stores.write_store(tmp_path / "out", windows=(0, 1, 2), failing=(7,))
    run = Run(folder)
    found = collect_results(run)
    assert [example.row for example in found.examples] == list(range(18))
    assert np.isnan(found.notes.forward[7]).all()
    assert len(found.notes) == 17
    # Each is what its own file says: the value of the hand-made store is a ninth of the digest's first half word.
    for number in (0, 11, 17):
        seed = int(found.examples[number].digest[:8], 16) / 2**32
        assert found.notes.values["sufficiency"][number, 0] == pytest.approx(seed / 9)


def test_build_explanation_data_of_patches_restores_the_image_grid():
    names = [f"row {row}, column {column}" for row in (1, 2) for column in (1, 2, 3)]
    nothing = [None] * 6
    record = {
        "row": 0, "id": "cat.jpg", "label": "cat", "text": None, "pair": None, "method": "attcat", "target": "cat",
        "predicted": "cat", "probability": 0.9, "tokens": names, "special": [False] * 6, "starts": nothing,
        "ends": nothing, "segments": [0] * 6, "ids": [-1] * 6, "words": [-1] * 6, "axioms": [],
        "scores": [0.1, -0.2, 0.3, 0.0, 0.7, 0.2], "forward": 1, "backward": 1, "dropped": 0,
    }  # fmt: skip
    found = build_explanation_data(
        record, {"name": "vit", "labels": ["cat", "dog"]}, {"params": {}}
    )
    assert found["picture"] == {"name": "cat.jpg", "grid": [2, 3]}
    assert [word["text"] for word in found["words"]] == names
    told = run_reports.report_payload(
        extremes=[{**run_reports.extreme(), "explained": found}], audit=None
    )
    assert "All patches, as they lie in the picture" in RunReport(told).to_html()
    assert re.search(r"row 2, column 2\W+\+0\.7", RunReport(told).to_latex())
    assert re.search(r"row 2, column 2 +\+0\.7", str(RunReport(told)))


def test_run_report_works_while_the_store_is_locked(finished_run):
    with Store.open_locked(finished_run.folder):
        assert finished_run.report().payload["examples"] == 8
