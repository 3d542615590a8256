"""Reports of runs on every surface, and comparisons of two runs."""

import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import whence
from tests import run_reports
from whence.core.errors import BadExamples, CannotRead
from whence.runs.results import (
    RunComparison,
    RunReport,
    _subtract_beyond_rounding,
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
def second(folder, explainer):
    """Return a run over the same data with two rows less, in which attcat ignores signs."""
    data = run_reports.write_dataset(folder, run_reports.ROWS[:-2], "fewer.tsv")
    asked = {
        **MANY,
        "methods": ("attcat", "rollout", "gradient"),
        "params": {"attcat.absolute": True},
    }
    return run_reports.make_run(folder / "second", data, explainer, **asked)


@pytest.fixture(scope="module")
def first_report(first):
    return first.report()


def terminal(found, width=100, **options):
    console = Console(width=width, record=True, file=StringIO(), **options)
    console.print(found)
    return console.export_text()


def surfaces(payload):
    found = RunComparison(payload) if payload["kind"] == "runs" else RunReport(payload)
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
    assert str(RunReport.read(path)) == str(first_report)
    with pytest.raises(CannotRead, match="not a saved run"):
        RunReport.from_dict({"kind": "runs", "version": 1})
    with pytest.raises(CannotRead, match="not a saved run"):
        RunReport.from_dict({"kind": "run", "version": 1})


@pytest.mark.parametrize("make", [run_reports.report_payload, run_reports.comparison_payload])
def test_hand_made_run_payloads_are_rendered_on_every_surface(make):
    for surface, text in surfaces(make()).items():
        assert "attcat" in text, surface


@pytest.mark.parametrize("make", [run_reports.report_payload, run_reports.comparison_payload])
@pytest.mark.parametrize(
    "evil", ["</script><img src=x onerror=alert(1)>", "\x1b[31m|_*`$\\end{tabular}&%#{}", "‮evil"]
)
def test_run_report_escapes_hostile_texts_on_every_surface(make, evil):
    found = surfaces(run_reports.with_hostile_texts(make(), evil))
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


def test_comparison_of_two_runs_equals_hand_computed_gains_and_differences(first, second):
    found = first.report(second).payload
    assert (found["data"]["shared"], found["data"]["only_a"], found["data"]["only_b"]) == (6, 2, 0)
    assert found["only"] == {"a": [], "b": ["gradient"]}
    changed = {one["what"]: (one["a"], one["b"]) for one in found["differences"]}
    assert changed["attcat.absolute"] == ("False", "True")
    assert changed["data"] == ("reviews.tsv", "fewer.tsv")
    assert "model: fingerprint" not in changed

    def values(run, method):
        rows = run.table("metrics").to_table().to_pylist()
        return {row["row"]: row["value"] for row in rows if row["method"] == method}

    a, b = values(first, "attcat"), values(second, "attcat")
    row = next(one for one in found["gains"] if one["method"] == "attcat")
    assert row["gain"]["n"] == 6
    # More comprehensiveness is better: the gain is the mean of what the second has more.
    assert row["gain"]["mean"] == pytest.approx(np.mean([b[i] - a[i] for i in range(6)]), abs=1e-6)
    assert row["a"]["mean"] == pytest.approx(np.mean([a[i] for i in range(6)]))
    # 2 tests: Holm doubles the least p that six examples can have, 2 * 2**-6 = 1/32, which is above 5%.
    assert row["enough"] is False
    assert row["verdict"] == "too few examples"
    assert found["needed"] == 7  # 2 * 2 * 2**-7 = 1/32 < 5%
    assert found["predictions"]["same"]["mean"] == 1
    assert "too few" in found["sentence"]


def test_comparison_of_a_run_with_itself_finds_no_differences(first):
    found = first.report(first).payload
    assert found["differences"] == []
    for one in found["gains"]:
        assert (one["gain"]["mean"], one["p"]) == (0, 1)
    for one in found["agreement"]:
        assert (one["tau"]["mean"], one["equal"]) == (1, 8)
        assert one["null"]["mean"] < 1
    assert found["apart"] == []
    assert "rank the tokens alike" in found["sentence"]
    assert "Nothing that determines a result differs." in str(first.report(first))


def test_subtract_beyond_rounding_sets_rounding_differences_to_zero():
    one = np.array([0.5, 0.5, np.nan])
    other = np.array([0.5 + 5e-7, 0.5 + 5e-6, 0.5])
    np.testing.assert_allclose(_subtract_beyond_rounding(one, other), [0, 5e-6, np.nan], rtol=1e-9)


def test_comparison_of_runs_pairs_duplicate_examples_in_order(folder, first, explainer):
    rows = [run_reports.ROWS[0], run_reports.ROWS[0], run_reports.ROWS[1]]
    data = run_reports.write_dataset(folder, rows, "copies.tsv")
    copies = run_reports.make_run(folder / "copies", data, explainer, **MANY)
    assert first.report(copies).payload["data"]["shared"] == 2
    assert copies.report(copies).payload["data"]["shared"] == 3


def test_comparison_of_runs_without_shared_examples_raises_bad_examples(folder, first, explainer):
    data = run_reports.write_dataset(
        folder, [("something else", "1"), ("another thing", "0")], "other.tsv"
    )
    other = run_reports.make_run(folder / "other", data, explainer, **MANY)
    with pytest.raises(BadExamples, match=r"no example in common.*reviews\.tsv.*other\.tsv"):
        first.report(other)
