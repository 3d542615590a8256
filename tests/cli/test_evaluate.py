"""`whence evaluate` and `whence list metrics` commands: tables, files, options and refusals."""

import csv
import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.audit_data import ROWS


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def data(tmp_path):
    """Write a small file of reviews."""
    path = tmp_path / "reviews.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    return path


TAKEN = (
    "reviews.tsv, texts from 'sentence', labels from 'label' "
    "(guessed: text, label; --text, --label say otherwise)"
)
TWO = ("--method", "attcat", "--method", "rollout", "--metric", "comprehensiveness")


def test_evaluate_command_prints_a_table_with_metrics_and_chance(run, data):
    status, out, err = run("evaluate", "--data", data, *TWO, "--metric", "sufficiency")
    assert (status, err) == (0, f"{TAKEN}.\n")
    assert "reviews: 2 methods on 5 of 5 examples, removed by mask" in out
    assert "comprehensiveness ↑ n=5" in out
    assert "sufficiency ↓ n=5" in out
    assert "chance" in out
    assert "forward and" in out


def test_evaluate_command_writes_json_and_every_table_and_plot_file(run, data, tmp_path):
    files = {
        name: tmp_path / f"table.{name}" for name in ("markdown", "latex", "csv", "pairs", "plot")
    }
    options = [part for name, path in files.items() for part in (f"--{name}", path)]
    status, out, err = run("evaluate", "--data", data, *TWO, "--json", *options, "--sample", "3")
    assert (status, err) == (0, f"{TAKEN}; 3 of 5 rows drawn with seed 0.\n")
    payload = json.loads(out)
    assert out.count("\n") == 1
    assert (payload["version"], payload["kind"]) == (1, "evaluation")
    assert payload["examples"]["given"] == 3
    assert payload["model"]["fingerprint"]
    assert payload["provenance"]["whence"]
    assert "| chance |" in files["markdown"].read_text()
    assert "\\toprule" in files["latex"].read_text()
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert [row["method"] for row in rows] == ["attcat", "rollout"]
    rows = list(csv.DictReader(files["pairs"].read_text().splitlines()))
    assert [(row["a"], row["b"]) for row in rows] == [("attcat", "rollout")]
    assert ElementTree.parse(files["plot"]).getroot().tag.endswith("svg")


def test_evaluate_with_all_removals_gives_a_table_and_a_plot_for_each(run, data, tmp_path):
    plot, table = tmp_path / "p.svg", tmp_path / "t.csv"
    status, out, err = run(
        "evaluate", "--data", data, *TWO, "--remove", "all", "--plot", plot, "--csv", table
    )
    assert status == 0
    ways = {"mask", "delete", "pad", "unk"}
    assert all(f"removed by {way}" in out for way in ways)
    assert "By comprehensiveness," in out
    assert "moves most" in out
    assert {path.name for path in tmp_path.glob("*.svg")} == {f"p-{way}.svg" for way in ways}
    assert err.count("wrote") == 5
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 8
    assert {row["remove"] for row in rows} == ways
    status, out, _ = run("evaluate", "--data", data, *TWO, "--remove", "all", "--json")
    payload = json.loads(out)
    assert payload["kind"] == "evaluations"
    assert len(payload["evaluations"]) == 4
    assert "moves most" in payload["removal_matters"]


def test_evaluate_params_reach_their_method_and_metric(run, data):
    status, out, _ = run(
        "evaluate", "--data", data, *TWO, "--json", "--param", "rollout.start_layer=1",
        "--param", "bins=0.2,0.5", "--param", "comprehensiveness.averaging=paper",
    )  # fmt: skip
    assert status == 0
    payload = json.loads(out)
    assert payload["methods"][1]["params"]["start_layer"] == 1
    assert payload["metrics"][0]["params"] == {"bins": "0.2,0.5", "averaging": "paper"}


def test_evaluate_with_a_named_text_column_measures_auprc_on_rationales(run, tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [
        {"body": text, "rationale": [[0, 9]], "title": "a film"}
        for text, _ in ROWS
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, _, err = run("evaluate", "--data", path, *TWO)
    assert status == 13
    assert "a.jsonl has no column of texts; it has body, rationale, title" in err
    status, out, _ = run(
        "evaluate", "--data", path, "--text", "body", "--method", "attcat", "--metric", "auprc", "--json"
    )  # fmt: skip
    assert status == 0
    assert json.loads(out)["cells"][0]["n"] == 5


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--metric", "sufficency"], 23, "Did you mean 'sufficiency'?"),
        (["--method", "atcat"], 20, "Did you mean 'attcat'?"),
        (["--remove", "burn"], 22, "--remove must be one of mask, delete"),
        (["--unit", "letter"], 22, "--unit must be one of token, word"),
        (["--param", "steps"], 22, "--param takes NAME=VALUE"),
        (["--metric", "aopc", "--param", "averaging=code"], 22, "aopc has no parameter 'averaging'"),
        (["--model", "nowhere/at-all"], 30, "nowhere/at-all"),
        (["--csv", "none/at/all.csv"], 40, "there is no folder"),
        (["--target", "neutral"], 21, "neutral"),
    ],
)  # fmt: skip
def test_evaluate_with_bad_options_prints_one_line_and_its_own_status(
    run, data, options, status, said
):
    found, out, err = run("evaluate", "--data", data, "--method", "attcat", *options)
    assert (found, out) == (status, "")
    assert said in err
    # Which columns were taken is said when the model is there and the work begins.
    assert err.removeprefix(f"{TAKEN}.\n").count("\n") == 1


def test_evaluate_of_missing_or_broken_data_exits_2_or_13(run, tmp_path):
    broken = tmp_path / "a.jsonl"
    broken.write_text('{"text": "a fine film", "rationale": [[2, 99]]}\n')
    status, out, err = run("evaluate", "--data", broken)
    assert (status, out) == (13, "")
    assert "a.jsonl, line 1: the rationale 2:99 lies outside of its text of 11 characters" in err
    assert "docs/errors/bad-examples.md" in err
    assert run("evaluate", "--data", tmp_path / "none.txt")[0] == 13
    assert run("evaluate")[0] == 2


def test_list_metrics_shows_names_facts_and_presets(run):
    status, out, _ = run("list", "metrics")
    assert status == 0
    for name in ("faithfulness", "comprehensiveness", "token_f1", "randomisation", "tau_b"):
        assert name in out
    status, out, _ = run("list", "metrics", "sufficiency")
    assert status == 0
    for name in (
        "formula",
        "range",
        "-1 to 1",
        "random rankings",
        "misleads when",
        "bins",
        "DeYoung",
    ):
        assert name in out
    status, out, _ = run("list", "metrics", "--json")
    facts = {one["name"]: one for one in json.loads(out)}
    assert facts["sufficiency"]["direction"] == "lower"
    assert facts["precision_at_k"]["range"] == [0, None]
    assert facts["precision_at_k"]["presets"] == {"attcat": {"k": 20, "of": "count"}}
    assert run("list", "metrics", "sufficency")[0] == 23


def test_evaluate_without_a_terminal_prints_progress_in_lines(run, data, monkeypatch):
    monkeypatch.setattr("whence.cli.progress_bar.LINE_INTERVAL_SECONDS", 0.0)
    status, _, err = run("evaluate", "--data", data, *TWO)
    assert status == 0
    lines = [line for line in err.splitlines() if line.startswith("asking the model: ")]
    assert lines[-1] == "asking the model: 5 of 5"


DELETION = ("--method", "attcat", "--metric", "deletion")
LONG = " ".join(["good film"] * 400)


@pytest.mark.parametrize(
    ("lines", "options", "reasons"),
    [
        (
            [LONG, f"{LONG} good"],
            ["--no-truncate"],
            ["2 examples (number 0, 1) could not be taken by any method: The text has 802 tokens"],
        ),
        (
            ["good", "bad", "fine"],
            [],
            ["deletion could not be tested on 3 examples: The input has only one token"],
        ),
        (
            ["good", LONG, "bad"],
            ["--no-truncate"],
            [
                "deletion could not be tested on 2 examples: The input has only one token",
                "1 example (number 1) could not be taken by any method: The text has 802 tokens",
            ],
        ),
        (
            ["a good film", "a dull film"],
            ["--model", "reviews-base"],
            [
                "2 examples (number 0, 1) could not be taken by any method: There is no mask in the text"
            ],
        ),
    ],
    ids=["too long", "too short", "both", "no mask"],
)
def test_evaluate_that_tested_nothing_exits_71_with_reasons_and_counts(
    run, tmp_path, lines, options, reasons
):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(lines) + "\n")
    status, out, err = run("evaluate", "--data", path, *DELETION, *options)
    assert status == 71
    columns, _, failure = err.partition("\n")
    assert columns.startswith("texts.txt, texts from 'text'")
    assert failure.count("\n") == 1 and "[nothing-explained" in failure
    found = [failure.index(reason) for reason in reasons]
    assert found == sorted(found) and failure.startswith("whence: Nothing was tested: ")
    assert "Nothing was tested." in out and "promise too much" not in out  # there are no figures
    assert all(reason.partition(": ")[2] in out for reason in reasons)
    status, out, _ = run("evaluate", "--data", path, *DELETION, *options, "--json")
    told = json.loads(out)["failure"]
    assert status == 71
    assert all(reason in told for reason in reasons)


def test_evaluate_that_tested_nothing_with_all_removals_exits_71(run, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("good\nbad\n")
    status, out, err = run("evaluate", "--data", path, *DELETION, "--remove", "all", "--json")
    assert status == 71 and "only one token" in err
    assert all(one["failure"] for one in json.loads(out)["evaluations"])
