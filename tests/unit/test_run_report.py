"""Reports of runs on every surface, and two runs compared."""

import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import whence
from tests import reports
from whence.core.errors import BadExamples, CannotRead
from whence.report.run import fragment, latex, markdown, page, plain
from whence.run.results.compare import RunComparison, _difference
from whence.run.results.summary import RunReport, reproduce

MANY = {"metrics": ("comprehensiveness",), "methods": ("attcat", "rollout")}


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def first(folder, explainer):
    return reports.made(folder / "first", reports.written(folder), explainer, **MANY)


@pytest.fixture(scope="module")
def second(folder, explainer):
    """Return a run over the same data with two rows less, in which attcat ignores signs."""
    data = reports.written(folder, reports.ROWS[:-2], "fewer.tsv")
    asked = {
        **MANY,
        "methods": ("attcat", "rollout", "gradient"),
        "params": {"attcat.absolute": True},
    }
    return reports.made(folder / "second", data, explainer, **asked)


@pytest.fixture(scope="module")
def shown(first):
    return first.report()


def terminal(found, width=100, **options):
    console = Console(width=width, record=True, file=StringIO(), **options)
    console.print(found)
    return console.export_text()


def surfaces(payload):
    found = RunComparison(payload) if payload["kind"] == "runs" else RunReport(payload)
    return {
        "text": plain(payload),
        "terminal": terminal(found),
        "page": page(payload),
        "cell": fragment(payload),
        "markdown": markdown(payload),
        "latex": latex(payload),
    }


def test_a_report_says_the_same_everywhere(shown):
    for surface, text in surfaces(shown.to_dict()).items():
        flat = " ".join(re.sub(r"[\\*`]", "", text).split())
        for said in ("reviews on reviews.tsv", "The run is complete: 8 examples", "Fared best: attcat",
                     "Fared worst: rollout", "random explanations", "How to reproduce it"):  # fmt: skip
            assert said in flat, (surface, said)
        assert "nan" not in re.split(r"[^a-z]+", flat.lower()), surface


def test_best_and_worst_are_those_of_the_deciding_metric(first, shown):
    table = first.table("metrics").to_table().to_pylist()
    gains = {row["row"]: row["value"] - row["null"] for row in table if row["method"] == "attcat"}
    picked = {
        one["which"]: one["row"] for one in shown.payload["extremes"] if one["method"] == "attcat"
    }
    assert picked["best"] == max(gains, key=gains.get)
    assert picked["worst"] == min(gains, key=gains.get)


def test_accuracy_is_counted(first, shown):
    rows = first.table("explanations").to_table(columns=["row", "label", "predicted"]).to_pylist()
    names = {"0": "negative", "1": "positive"}
    right = {row["row"]: names[row["label"]] == row["predicted"] for row in rows}
    found = shown.payload["predictions"]
    assert found["accuracy"]["mean"] == sum(right.values()) / 8
    assert found["accuracy"]["n"] == 8
    assert found["majority"] == 0.5  # four of each


def test_the_plan_is_one_that_can_be_read(tmp_path, shown, first):
    from whence.run.plan.fields import planned
    from whence.run.plan.file import read_plan

    path = tmp_path / "plan.toml"
    path.write_text(shown.payload["reproduce"]["plan"])
    plan, _ = planned(read_plan(path), "the plan")
    assert plan.methods == ("attcat", "rollout")
    # By its name, beside the plan: where it lay before is nobody's business.
    assert plan.data == str(tmp_path / first.manifest["plan"]["data"])
    assert "whence run --model reviews" in shown.payload["reproduce"]["command"]
    contrast = {
        **first.manifest,
        "plan": {**first.manifest["plan"], "target": ["positive", "negative"]},
    }
    assert " --target positive:negative " in reproduce(contrast, "out")["command"]


def test_a_report_is_saved_and_read_back(tmp_path, shown):
    path = shown.save(tmp_path / "report.json")
    assert str(RunReport.read(path)) == str(shown)
    with pytest.raises(CannotRead, match="not a saved run"):
        RunReport.from_dict({"kind": "runs", "version": 1})
    with pytest.raises(CannotRead, match="not a saved run"):
        RunReport.from_dict({"kind": "run", "version": 1})


@pytest.mark.parametrize("make", [reports.run, reports.runs])
def test_every_case_made_by_hand_can_be_shown(make):
    for surface, text in surfaces(make()).items():
        assert "attcat" in text, surface


@pytest.mark.parametrize("make", [reports.run, reports.runs])
@pytest.mark.parametrize(
    "evil", ["</script><img src=x onerror=alert(1)>", "\x1b[31m|_*`$\\end{tabular}&%#{}", "‮evil"]
)
def test_hostile_texts_are_shown_as_they_are(make, evil):
    found = surfaces(reports.hostile(make(), evil))
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


def test_a_narrow_terminal_without_signs(shown):
    text = terminal(shown, width=40)
    assert max(map(len, text.splitlines())) <= 40


def test_two_runs_compared_by_hand(first, second):
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


def test_a_run_and_itself(first):
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


def test_what_rounding_does_is_no_difference():
    one = np.array([0.5, 0.5, np.nan])
    other = np.array([0.5 + 5e-7, 0.5 + 5e-6, 0.5])
    np.testing.assert_allclose(_difference(one, other), [0, 5e-6, np.nan], rtol=1e-9)


def test_copies_are_paired_in_their_order(folder, first, explainer):
    rows = [reports.ROWS[0], reports.ROWS[0], reports.ROWS[1]]
    data = reports.written(folder, rows, "copies.tsv")
    copies = reports.made(folder / "copies", data, explainer, **MANY)
    assert first.report(copies).payload["data"]["shared"] == 2
    assert copies.report(copies).payload["data"]["shared"] == 3


def test_other_data_is_refused(folder, first, explainer):
    data = reports.written(folder, [("something else", "1"), ("another thing", "0")], "other.tsv")
    other = reports.made(folder / "other", data, explainer, **MANY)
    with pytest.raises(BadExamples, match=r"no example in common.*reviews\.tsv.*other\.tsv"):
        first.report(other)
