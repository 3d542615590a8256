"""`whence audit` and `whence list experiments` commands: output, options, data formats and interrupts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit_data import QUICK, ROWS
from tests.cli.conftest import interrupt_while_loading

NAMES = (
    "correlation",
    "permutation",
    "replacement",
    "adversarial",
    "diversity",
    "uniform_training",
    "seeds",
    "trained_adversary",
    "guides",
)
TRAINING = {"uniform_training", "seeds", "trained_adversary", "guides"}
pytestmark = pytest.mark.usefixtures("wide")


def test_audit_command_prints_the_cost_on_stderr_and_verdicts_on_stdout(run, data):
    status, out, err = run("audit", data, *QUICK, "--experiment", "replacement")
    assert status == 0
    # What it will take, and which columns were guessed, comes first and apart from the answer.
    assert "texts from 'sentence', labels from 'label' (guessed: text, label" in err
    assert "5 of 5 examples" in err
    assert "It will take" in err
    assert "permutation" in out
    assert "replacement" in out
    assert any(word in out for word in ("holds", "fails", "undecided"))
    assert "0.1" in out  # the threshold of permutation


def test_audit_json_holds_effect_verdict_and_settings_and_repeats_with_a_seed(run, data):
    status, out, _ = run("audit", data, *QUICK, "--json", "--seed", "3")
    assert status == 0
    assert out.count("\n") == 1
    payload = json.loads(out)
    assert (payload["version"], payload["kind"]) == (1, "audit")
    (one,) = payload["experiments"]
    assert one["name"] == "permutation"
    assert one["hypothesis"].startswith("It matters which word gets which weight")
    assert (one["threshold"], one["direction"], one["n"]) == (0.1, "above", 5)
    assert one["verdict"] in ("holds", "fails", "undecided")
    low, high = one["interval"]
    assert low <= one["effect"] <= high
    assert one["params"] == {"permutations": 5}
    assert payload["conclusion"]
    assert payload["answer"] in ("yes", "no", "undecided")
    assert payload["data"]["name"] == "reviews.tsv"
    assert payload["data"]["guessed"] == ["text", "label"]
    assert (payload["data"]["given"], payload["data"]["used"]) == (5, 5)
    assert payload["setting"]["seed"] == 3
    assert {one["name"] for one in payload["not_run"]} == set(NAMES) - {"permutation"}
    assert payload["model"]["name"] == "reviews"
    assert payload["provenance"]["whence"]
    again = json.loads(run("audit", data, *QUICK, "--json", "--seed", "3")[1])
    assert again["experiments"][0]["effect"] == one["effect"]
    few = json.loads(run("audit", data, *QUICK, "--json", "--limit", "4")[1])
    assert (few["data"]["used"], few["experiments"][0]["n"], few["setting"]["limit"]) == (4, 4, 4)


def test_audit_of_too_few_examples_states_so_in_its_conclusion(run, data, tmp_path):
    page = tmp_path / "audit.html"
    status, out, _ = run("audit", data, *QUICK, "--html", page)
    assert status == 0
    why = "5 examples are too few: 20 are needed for a verdict"
    for shown in (out, page.read_text(encoding="utf-8")):
        because = " ".join(shown.split()).partition("It is undecided because")[2]
        assert why in because.partition(". ")[0]
    payload = json.loads(run("audit", data, *QUICK, "--json")[1])
    assert payload["answer"] == "undecided" and why in payload["conclusion"]
    assert payload["experiments"][0]["why"] == f"{why}."


def test_audit_html_writes_the_page_and_reports_its_path(run, data, tmp_path):
    page = tmp_path / "audit.html"
    status, out, err = run("audit", data, *QUICK, "--html", page)
    assert status == 0
    assert f"wrote {page}" in err.replace("\n", "")
    assert page.read_text().startswith("<!doctype html>")
    assert "permutation" in page.read_text()
    status, out, err = run("audit", data, *QUICK, "--html", page, "--json")
    assert json.loads(out)["kind"] == "audit"
    assert "wrote" not in err


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "folder"])
def test_audit_command_reads_every_data_format_with_named_columns(run, tmp_path, monkeypatch, kind):
    rows = [{"body": text, "stars": int(label)} for text, label in ROWS]
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        lines = [f'"{row["body"]}",{row["stars"]}' for row in rows]
        path.write_text("\n".join(["body,stars", *lines]) + "\n")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        import datasets

        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
        path.mkdir()
        (path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, _, err = run("audit", path, *QUICK)
    assert status == 13
    assert "has no column of texts; it has body, stars" in err
    status, out, _ = run("audit", path, *QUICK, "--text", "body", "--label", "stars", "--json")
    assert status == 0
    found = json.loads(out)["data"]
    assert (found["text"], found["label"]) == ("body", "stars")
    assert found["guessed"] == (["split"] if kind == "folder" else [])
    assert found["classes"] == {"negative": 2, "positive": 3}


def test_audit_options_reach_the_settings_of_the_payload(run, data):
    status, out, _ = run(
        "audit", data, *QUICK, "--json", "--site", "layers", "--special", "free", "--no-truncate",
        "--dtype", "float64", "--param", "permutation.permutations=3",
    )  # fmt: skip
    assert status == 0
    payload = json.loads(out)
    setting = payload["setting"]
    assert (setting["site"], setting["special"], setting["truncate"]) == ("layers", "free", False)
    assert payload["experiments"][0]["params"] == {"permutations": 3}
    assert len(payload["experiments"][0]["by_site"]) == len(setting["sites"]) - 1 > 0
    assert payload["provenance"]["dtype"] == "float64"


def test_seeds_experiment_takes_a_trained_or_a_given_retrained_model(run, data):
    status, out, err = run(
        "audit", data, "--experiment", "seeds", "--train", data, "--base", "reviews-base",
        "--epochs", "1", "--param", "seeds=1", "--json",
    )  # fmt: skip
    assert status == 0
    assert "It will take" in err
    payload = json.loads(out)
    assert (payload["setting"]["train"], payload["setting"]["epochs"]) == ("reviews.tsv", 1)
    assert payload["experiments"][0]["params"] == {"seeds": 1}
    # A model has no distance from itself.
    status, out, _ = run("audit", data, "--experiment", "seeds", "--other", "reviews", "--json")
    assert status == 0
    assert json.loads(out)["experiments"][0]["effect"] == 0


def test_audit_of_unlabelled_texts_has_no_performance(run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{text}\n" for text, _ in ROWS))
    status, out, _ = run("audit", path, *QUICK, "--json")
    assert status == 0
    payload = json.loads(out)
    assert payload["performance"] is None
    assert payload["data"]["label"] is None


def test_audit_html_onto_a_folder_exits_40_and_writes_nothing(run, data, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    page = folder / "audit.html"
    page.mkdir()
    status, out, err = run("audit", data, *QUICK, "--html", page)
    assert (status, out, err.count("\n")) == (40, "", 1)
    assert list(folder.iterdir()) == [page]


def test_audit_command_with_bad_arguments_exits_2_or_30(run, data):
    assert run("audit")[0] == 2
    assert run("audit", data, "--limit", "0")[0] == 2
    assert run("audit", data, "--epochs", "0")[0] == 2
    assert run("audit", data, *QUICK, "--model", "nowhere/at-all")[0] == 30


def test_audit_command_after_sigint_exits_130_and_leaves_no_file(data, tmp_path):
    found = interrupt_while_loading("audit", data, "--html", tmp_path / "audit.html")
    assert found == (130, "", "whence: interrupted; nothing was left half-written.\n")
    assert list(tmp_path.iterdir()) == [data]


def test_list_experiments_shows_names_facts_and_costs(run):
    status, out, _ = run("list", "experiments")
    assert status == 0
    assert all(name in out for name in NAMES)
    status, out, _ = run("list", "experiments", "permutation")
    assert status == 0
    for fact in ("hypothesis", "above 0.1", "cost", "permutations = 100", "misleads when", "Jain"):
        assert fact in out
    status, out, _ = run("list", "experiments", "--json")
    facts = {one["name"]: one for one in json.loads(out)}
    assert tuple(facts) == NAMES
    assert {name for name, one in facts.items() if one["trains"]} == TRAINING
    # 100 texts, each of them permuted 100 times, and a few passes as it is.
    assert 100 * 100 < facts["permutation"]["cost"]["forward"] < 100 * 110
    assert run("list", "experiments", "permutations")[0] == 24


def test_completion_of_complete_experiment_does_not_import_torch():
    program = (
        "import sys; from whence.cli.options import complete_experiment;"
        "print(complete_experiment('per')); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['permutation']\n"
    asked = {
        "_WHENCE_COMPLETE": "complete_bash",
        "COMP_WORDS": "whence audit x --experiment per",
        "COMP_CWORD": "4",
    }
    command = Path(sys.executable).with_name("whence")
    shown = subprocess.run(
        [command], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert shown.stdout.split() == ["permutation"]


def test_audit_help_shows_an_example_command(run):
    status, out, _ = run("audit", "--help")
    assert status == 0
    assert "whence audit reviews.tsv --model path/to/model" in out
    assert "whence audit reviews.tsv" in run("--help")[1]
