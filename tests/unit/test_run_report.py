"""Reports of runs on every surface."""

import re
from io import StringIO

import pytest
from rich.console import Console

import whence
from tests import run_reports
from whence.core.errors import CannotRead
from whence.runs.results import (
    RunReport,
    describe_reproduction,
)

MANY = {"metrics": ("comprehensiveness",), "methods": ("attcat", "rollout")}


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def first(folder, explainer):
    return run_reports.make_run(
        folder / "first", run_reports.write_dataset(folder), explainer, **MANY
    )


@pytest.fixture(scope="module")
def first_report(first):
    return first.report()


def terminal(found, width=100, **options):
    console = Console(width=width, record=True, file=StringIO(), **options)
    console.print(found)
    return console.export_text()


def surfaces(payload):
    found = RunReport(payload)
    return {
        "text": str(found),
        "terminal": terminal(found),
        "page": found.to_html(),
        "cell": found._repr_html_(),
        "markdown": found.to_markdown(),
        "latex": found.to_latex(),
    }


def test_run_report_has_the_same_statements_on_every_surface(first_report):
    for surface, text in surfaces(first_report.to_dict()).items():
        flat = " ".join(re.sub(r"[\\*`]", "", text).split())
        for said in ("reviews on reviews.tsv", "The run is complete: 8 examples", "Fared best: attcat",
                     "Fared worst: rollout", "random explanations", "How to reproduce it"):  # fmt: skip
            assert said in flat, (surface, said)
        assert "nan" not in re.split(r"[^a-z]+", flat.lower()), surface


def test_run_report_extremes_have_the_largest_and_smallest_gain_over_the_null(first, first_report):
    table = first.table("metrics").to_table().to_pylist()
    gains = {row["row"]: row["value"] - row["null"] for row in table if row["method"] == "attcat"}
    picked = {
        one["which"]: one["row"]
        for one in first_report.payload["extremes"]
        if one["method"] == "attcat"
    }
    assert picked["best"] == max(gains, key=gains.get)
    assert picked["worst"] == min(gains, key=gains.get)


def test_run_report_accuracy_equals_the_share_of_correct_predictions(first, first_report):
    rows = first.table("explanations").to_table(columns=["row", "label", "predicted"]).to_pylist()
    names = {"0": "negative", "1": "positive"}
    right = {row["row"]: names[row["label"]] == row["predicted"] for row in rows}
    found = first_report.payload["predictions"]
    assert found["accuracy"]["mean"] == sum(right.values()) / 8
    assert found["accuracy"]["n"] == 8
    assert found["majority"] == 0.5  # four of each


def test_run_report_gives_a_plan_that_can_be_read_and_a_command(tmp_path, first_report, first):
    from whence.runs.plan import build_plan, read_plan

    path = tmp_path / "plan.toml"
    path.write_text(first_report.payload["reproduce"]["plan"])
    plan, _ = build_plan(read_plan(path), "the plan")
    assert plan.methods == ("attcat", "rollout")
    # By its name, beside the plan: where it lay before is nobody's business.
    assert plan.data == str(tmp_path / first.manifest["plan"]["data"])
    assert "whence run --model reviews" in first_report.payload["reproduce"]["command"]
    contrast = {
        **first.manifest,
        "plan": {**first.manifest["plan"], "target": ["positive", "negative"]},
    }
    assert " --target positive:negative " in describe_reproduction(contrast, "out")["command"]


def test_run_report_is_read_back_from_json_and_other_payloads_are_refused(tmp_path, first_report):
    path = first_report.save(tmp_path / "report.json")
    assert str(RunReport.load(path)) == str(first_report)
    with pytest.raises(CannotRead, match="not a saved run"):
        RunReport.from_dict({"kind": "runs", "version": 1})
    with pytest.raises(CannotRead, match="not a saved run"):
        RunReport.from_dict({"kind": "run", "version": 1})


def test_hand_made_run_payloads_are_rendered_on_every_surface():
    for surface, text in surfaces(run_reports.report_payload()).items():
        assert "attcat" in text, surface


@pytest.mark.parametrize(
    "evil", ["</script><img src=x onerror=alert(1)>", "\x1b[31m|_*`$\\end{tabular}&%#{}", "‮evil"]
)
def test_run_report_escapes_hostile_texts_on_every_surface(evil):
    found = surfaces(run_reports.with_hostile_texts(run_reports.report_payload(), evil))
    for surface in ("page", "cell"):
        assert "<img" not in found[surface]
        assert "\x1b" not in found[surface]
        assert "‮" not in found[surface]
    for surface in ("text", "terminal", "markdown", "latex"):
        assert "\x1b" not in found[surface], surface
    own = found["latex"]
    assert own.count("\\begin{tabular}") == own.count("\n\\end{tabular}")
    assert own.count("\\begin{verbatim}") == own.count("\n\\end{verbatim}")
    rows = [line for line in found["markdown"].splitlines() if line.startswith("| ")]
    heads = [line for line in rows if set(line) <= set("|- ")]
    assert heads  # the cells of every row are as many as those of some head: no sign has cut one
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in heads}
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} <= widths


def test_run_report_in_a_terminal_of_40_columns_stays_within_40_columns(first_report):
    text = terminal(first_report, width=40)
    assert max(map(len, text.splitlines())) <= 40
