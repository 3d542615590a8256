"""What is in the folder of a run, told to people: what `whence.evaluate` says, finished or not, whole or damaged."""

import json

import numpy as np
import pytest

import whence
from tests import reports, stores
from whence.core.errors import BadStore, UnknownMethod
from whence.report import page, plain
from whence.run.results import Run, is_run
from whence.run.results.explained import explained
from whence.run.results.noted import noted
from whence.run.results.summary import RunReport
from whence.run.store import Store


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def done(tmp_path_factory, explainer):
    """Return a small finished run; tests must leave it as it is."""
    folder = tmp_path_factory.mktemp("run")
    return reports.made(folder / "out", reports.written(folder), explainer)


def plainly(evaluation):
    """Return an evaluation as a file keeps it, without what depends on the machine."""
    found = json.loads(evaluation.to_json())
    for name in ("seconds", "calls"):
        del found[name]
    for method in found["methods"]:
        del method["seconds"]
    del found["data"]  # a file here, a list there: tests/unit/test_data_named.py
    return found


def test_the_evaluation_is_that_of_evaluate(done, explainer):
    texts = [{"text": text, "label": label} for text, label in reports.ROWS]
    wanted = whence.evaluate(
        explainer, texts, list(reports.METHODS), [*reports.METRICS, "tau_b", "spearman"]
    )
    assert plainly(done.evaluation(["tau_b", "spearman"])) == plainly(wanted)


def test_figures_with_parts_are_those_of_evaluate(tmp_path, explainer):
    # `iou_f1` has a figure of its own for a data set, made of parts, and of the parts of each random draw.
    rows = [{"text": text, "label": label, "rationale": [[0, 6]]} for text, label in reports.ROWS]
    data = tmp_path / "marked.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = reports.made(
        tmp_path / "out",
        data,
        explainer,
        methods=("attcat", "gradient"),
        metrics=("iou_f1", "token_f1"),
    )
    wanted = whence.evaluate(
        explainer, data, ["attcat", "gradient"], ["iou_f1", "token_f1", "tau_b"]
    )
    assert plainly(run.evaluation()) == plainly(wanted)


def test_methods_and_metrics_stand_in_the_order_of_the_plan(done):
    assert (done.methods, done.metrics) == (list(reports.METHODS), list(reports.METRICS))
    assert done.evaluation().methods == list(reports.METHODS)


def test_times_are_those_of_the_journal(done):
    (task,) = done.store.events("task")
    told = done.evaluation().cost["rollout"]["seconds"]
    assert told.mean == pytest.approx(task["costs"]["rollout"]["seconds"] / len(reports.ROWS))
    assert told.n == 1


def test_without_a_journal_nothing_is_timed(tmp_path, explainer):
    run = reports.made(tmp_path / "out", reports.written(tmp_path), explainer, metrics=())
    for path in (tmp_path / "out" / "journal").iterdir():
        path.unlink()
    told = Run(run.folder).report()
    assert told.evaluation.cost["rollout"]["seconds"] is None
    assert told.payload["sessions"] == []
    assert "not tested" in str(told)


def test_an_explanation_is_as_it_was(done, explainer):
    text = reports.ROWS[4][0]
    # Alone or among others, an input is padded or not: sums may be of another order, in float32.
    own = explainer.explain(text, method="attcat").to_dict()
    found = done.explanation(4, "attcat")
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
    assert "funny" in page([found])
    assert "funny" in plain(found)


def test_what_is_not_there_is_said(done):
    with pytest.raises(UnknownMethod, match=r"attcta.*attcat"):
        done.explanation(0, "attcta")
    with pytest.raises(BadStore, match="no explanation of row 99"):
        done.explanation(99, "attcat")
    with pytest.raises(BadStore, match="explanations and metrics"):
        done.table("audits")


def test_tables_are_there_for_other_programs(done):
    table = done.table("explanations").to_table(columns=["row", "method"])
    assert table.num_rows == len(reports.ROWS) * len(reports.METHODS)


def test_facts(done, tmp_path):
    facts = done.facts()
    assert (facts["state"], facts["done"], facts["total"]) == ("complete", 8, 8)
    assert (facts["model"], facts["data"], facts["failed"]) == ("reviews", "reviews.tsv", 0)
    assert done.complete
    assert done.written is not None
    assert not is_run(tmp_path)
    with pytest.raises(BadStore, match="holds no run"):
        Run(tmp_path)
    with pytest.raises(BadStore, match="is no folder"):
        Run(tmp_path / "nowhere")


def test_an_unfinished_run(tmp_path, explainer):
    run = reports.made(
        tmp_path / "out",
        reports.written(tmp_path),
        explainer,
        commit=False,
        metrics=("sufficiency",),
    )
    assert not run.complete
    assert (run.facts()["state"], run.facts()["done"]) == ("running", 8)
    # What is there of it counts: pending chunks are results like others.
    assert run.evaluation().cell("attcat", "sufficiency").value.n == 8
    assert "The run is not finished: 8 examples are there." in str(run.report())


def test_a_damaged_file_is_left_out_and_named(tmp_path, explainer):
    run = reports.made(
        tmp_path / "out", reports.written(tmp_path), explainer, metrics=("sufficiency",)
    )
    path = run.folder / "metrics" / "part-000000.parquet"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    told = Run(run.folder).report()
    assert told.evaluation.cell("attcat", "sufficiency").value is None
    assert told.payload["evaluation"]["examples"]["explained"] == 8
    assert "metrics/part-000000.parquet is damaged and left out" in str(told)
    assert path.read_bytes() == bytes(raw)  # who reads leaves it where it is


def test_a_lost_manifest_is_told(tmp_path):
    folder = stores.filled(tmp_path / "out")
    (folder / "manifest.json").write_bytes(b"{}")
    run = Run(folder)
    facts = run.facts()
    assert facts["state"] == "damaged"
    assert "manifest" in facts["why"]
    with pytest.raises(BadStore, match="manifest"):
        run.report()


def test_failures_are_counted_and_named(tmp_path, explainer):
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

    run = reports.made(
        tmp_path / "out",
        reports.written(tmp_path),
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


def test_results_of_an_earlier_setting_do_not_count(tmp_path, explainer):
    data = reports.written(tmp_path)
    reports.made(tmp_path / "out", data, explainer, params={"rollout.residual": 0.9}, metrics=())
    run = reports.made(tmp_path / "out", data, explainer, metrics=())
    assert run.table("explanations").count_rows() == 8 * 4  # rollout twice
    assert noted(run).notes.forward.shape == (8, 3)
    own = explainer.explain(reports.ROWS[0][0], method="rollout", params={"residual": 0.5})
    np.testing.assert_allclose(
        run.explanation(0, "rollout")["explanations"][0]["scores"], own.scores, atol=1e-6
    )


def test_windows_are_read_one_by_one(tmp_path):
    folder = stores.filled(tmp_path / "out", windows=(0, 1, 2), failing=(7,))
    run = Run(folder)
    found = noted(run)
    assert found.rows == list(range(18))
    assert np.isnan(found.notes.forward[7]).all()
    assert len(found.notes) == 17
    # Each is what its own file says: the value of the hand-made store is a ninth of the digest's first half word.
    for number in (0, 11, 17):
        seed = int(found.digests[number][:8], 16) / 2**32
        assert found.notes.values["sufficiency"][number, 0] == pytest.approx(seed / 9)


def test_patches_of_a_picture_are_shown_as_they_lie():
    names = [f"row {row}, column {column}" for row in (1, 2) for column in (1, 2, 3)]
    nothing = [None] * 6
    record = {
        "row": 0, "id": "cat.jpg", "label": "cat", "text": None, "pair": None, "method": "attcat", "target": "cat",
        "predicted": "cat", "probability": 0.9, "tokens": names, "special": [False] * 6, "starts": nothing,
        "ends": nothing, "segments": [0] * 6, "ids": [-1] * 6, "words": [-1] * 6, "axioms": [],
        "scores": [0.1, -0.2, 0.3, 0.0, 0.7, 0.2], "forward": 1, "backward": 1, "dropped": 0,
    }  # fmt: skip
    found = explained(record, {"name": "vit", "labels": ["cat", "dog"]}, {"params": {}})
    assert found["picture"] == {"name": "cat.jpg", "grid": [2, 3]}
    assert found["words"] == []
    told = reports.run(extremes=[{**reports.extreme(), "explained": found}], audit=None)
    assert 'class="patches"' in RunReport(told).to_html()
    assert "row 2, column 2 +0.7" in RunReport(told).to_latex()
    assert "row 2, column 2 +0.7" in str(RunReport(told))


def test_nobody_is_locked_out_by_a_reader(done):
    with Store.locked(done.folder):
        assert done.report().payload["examples"] == 8
