"""`whence run` and `whence runs` commands: resuming, signals, shards, limits, failures and refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import whence
from tests.conftest import ROOT
from whence.runs import chunks
from whence.runs.store import Store

WORDS = [
    "a",
    "film",
    "plot",
    "is",
    "gripping",
    "dull",
    "warm",
    "thin",
    "never",
    "not",
    "slow",
    "story",
]
METHODS = ("--methods", "attcat,rollout")
CHUNK = 3  # examples: so that a small file has many


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Cut chunks and windows small, and fold nothing where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(chunks, "CHUNK_EXAMPLES", CHUNK)
    monkeypatch.setattr(chunks.iterate_windows, "__defaults__", (8,))


@pytest.fixture
def data(tmp_path):
    """Write twenty reviews of several lengths; two are the same."""
    path = tmp_path / "reviews.tsv"
    texts = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, i % 6 + 3)) for i in range(20)]
    texts[7] = texts[3]
    path.write_text("sentence\tlabel\n" + "".join(f"{t}\t{i % 2}\n" for i, t in enumerate(texts)))
    return path


def files(folder: Path) -> dict[str, bytes]:
    """Return all that a run writes but the log."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in ("log.jsonl", "lock")
    }


def rows(folder: Path, table: str = "explanations") -> list[dict]:
    return Store.open_existing(folder).table(table).to_table().to_pylist()


def test_run_command_twice_computes_nothing_new_and_later_only_added_methods(run, data, tmp_path):
    out = tmp_path / "out"
    asked = ("run", "--data", data, "--model", "reviews", *METHODS, "--out", out)
    status, said, err = run(*asked)
    assert status == 0, err
    assert "20 examples explained by 2 methods: 40 explanations, 40 of them new" in said
    assert f"whence report {out}" in said
    assert "reviews.tsv, text from 'sentence', label from 'label' (guessed: text, label)" in err
    assert "20 rows, 40 explanations to make" in err
    first = files(out)
    assert len(rows(out)) == 40
    own = whence.load("reviews").explain(rows(out)[0]["text"], method="attcat")
    assert rows(out)[0]["method"] == "attcat"
    assert rows(out)[0]["scores"] == pytest.approx(own.scores.tolist(), abs=1e-6)  # float32
    status, said, err = run(*asked)
    assert status == 0, err
    assert "40 explanations, 0 of them new" in said
    assert "everything is there already" in err
    assert files(out) == first

    # More methods and metrics later compute only these, and a report can be made of them.
    status, said, err = run(*asked[:-4], "--methods", "attcat,rollout,gradient", "--out", out)
    assert (status, "60 explanations, 20 of them new" in said) == (0, True), err
    status, said, err = run("runs", tmp_path, "--json")
    assert status == 0, err
    (listed,) = json.loads(said)["runs"]
    assert listed["methods"] == ["attcat", "rollout", "gradient"]
    assert (listed["done"], listed["total"], listed["state"]) == (20, 20, "complete")
    assert listed["written"]
    status, said, err = run("runs", tmp_path)
    assert status == 0, err
    assert "20 of 20" in said
    assert "complete" in said


def test_run_command_after_sigint_resumes_to_the_same_bytes(run, data, tmp_path):
    options = ("--data", data, "--model", "reviews", "--methods", "attcat,leave_one_out")
    options += ("--metrics", "comprehensiveness")
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    program = (
        "import sys; from whence.runs import chunks; from whence.cli.main import run; "
        f"chunks.CHUNK_EXAMPLES = {CHUNK}; chunks.iterate_windows.__defaults__ = (8,); sys.argv[0] = 'whence'; run()"
    )
    command = [sys.executable, "-c", program, "run", *map(str, options), "--out", str(disturbed)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        while not list(disturbed.glob("metrics/*.parquet")) and one.poll() is None:
            time.sleep(0.02)
        one.send_signal(signal.SIGINT)
        one.send_signal(signal.SIGINT)
        out, err = one.communicate(timeout=120)
    assert one.returncode == 130, err
    assert out == ""
    assert f"All that was done is safe in {disturbed}; the same command goes on" in err
    assert "Traceback" not in err
    status, said, err = run("run", *options, "--out", disturbed)
    assert status == 0, err
    assert "40 explanations" in said
    assert "40 of them new" not in said
    assert run("run", *options, "--out", whole)[0] == 0
    assert files(disturbed) == files(whole)


@pytest.fixture
def _signals():
    """Put the handlers back that an interrupted command leaves, as it is about to end."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize(
    ("moment", "number", "status"),
    [
        ("begin", signal.SIGINT, 130),
        ("count_results", signal.SIGTERM, 143),
        ("add_result", signal.SIGTERM, 143),
        ("find_results", signal.SIGINT, 130),
        ("close_window", signal.SIGINT, 130),
        ("finish", signal.SIGTERM, 143),
    ],
)
def test_run_command_after_a_signal_at_any_store_step_resumes_to_the_same_bytes(
    run, data, tmp_path, monkeypatch, moment, number, status
):
    options = ("run", "--data", data, "--model", "reviews", *METHODS, "--limit", "10", "--out")
    work = getattr(Store, moment)
    left = [2 if moment in ("add_result", "find_results") else 1]

    def struck(*args):
        """Do it, and be struck by the signal, twice, as soon as it is done the second time."""
        found = work(*args)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Store, moment, struck)
        found, out, err = run(*options, tmp_path / "disturbed")
    assert (found, out) == (status, ""), err
    assert err.count("whence: interrupted") == 1
    assert "the same command goes on" in err
    assert run(*options, tmp_path / "disturbed")[0] == 0
    assert run(*options, tmp_path / "whole")[0] == 0
    assert files(tmp_path / "disturbed") == files(tmp_path / "whole")


def test_merged_shards_equal_the_files_of_the_whole_run(run, data, tmp_path):
    options = ("--data", data, "--model", "reviews", *METHODS)
    folders = [tmp_path / f"part-{part}" for part in (1, 2)]
    for part, folder in enumerate(folders, 1):
        status, _, err = run("run", *options, "--shard", f"{part}/2", "--out", folder)
        assert status == 0, err
        assert 0 < len(rows(folder)) < 40
        assert f"part {part} of 2" in err
        assert (
            "everything is there already"
            in run("run", *options, "--shard", f"{part}/2", "--out", folder)[2]
        )
    assert run("store", "merge", tmp_path / "merged", *folders)[0] == 0
    assert run("run", *options, "--out", tmp_path / "whole")[0] == 0
    assert files(tmp_path / "merged") == files(tmp_path / "whole")


def test_run_command_with_a_larger_limit_computes_only_the_new_rows(run, data, tmp_path):
    options = ("run", "--data", data, "--model", "reviews", *METHODS, "--out", tmp_path / "out")
    assert "10 explanations, 10 of them new" in run(*options, "--limit", "5")[1]
    assert "24 explanations, 14 of them new" in run(*options, "--limit", "12")[1]
    assert sorted(row["row"] for row in rows(tmp_path / "out")) == sorted([*range(12)] * 2)
    status, _, err = run(*options, "--sample", "12")
    assert status == 42
    assert "another sample" in err


def test_dry_run_prints_an_estimate_and_writes_nothing(run, data, tmp_path):
    before = files(tmp_path)
    options = ("run", "--data", data, "--model", "reviews", *METHODS, "--dry-run")
    status, said, err = run(*options, "--out", tmp_path / "out")
    assert (status, said) == (0, "")
    assert "40 explanations to make" in err
    status, said, _ = run(*options, "--json")
    payload = json.loads(said)
    assert (payload["kind"], payload["rows"], payload["examples"]) == ("estimate", 20, 20)
    assert [part["method"] for part in payload["parts"]] == ["attcat", "rollout"]
    assert payload["seconds"][0] < payload["seconds"][1] < payload["seconds"][2]
    assert files(tmp_path) == before


def test_run_command_reports_bad_rows_and_failed_explanations(run, tmp_path):
    data = tmp_path / "reviews.jsonl"
    long = " ".join(["film"] * 600)
    data.write_text(f'{{"text": "a film"}}\nnot json\n{{"text": "{long}"}}\n')
    options = ("run", "--data", data, "--model", "reviews", *METHODS, "--no-truncate")
    status, said, err = run(*options, "--out", tmp_path / "out")
    assert status == 0, err
    assert "2 explanations failed: 2 too-long. The first, row 2, attcat:" in said
    assert "--retry-failed" in said
    assert "1 row was left out; the first: reviews.jsonl, line 2" in said
    status, said, _ = run(*options, "--out", tmp_path / "out", "--json")
    payload = json.loads(said)
    assert (status, payload["new"], payload["failed"]) == (0, 0, 2)
    assert payload["failures"][0]["error"] == "too-long"
    assert [one["row"] for one in payload["bad"]] == [1]
    assert (
        json.loads(run(*options, "--out", tmp_path / "out", "--json", "--retry-failed")[1])["new"]
        == 2
    )
    status, _, err = run(*options, "--out", tmp_path / "other", "--bad-rows", "fail")
    assert status == 13
    assert "line 2" in err
    assert not (tmp_path / "other").exists()
    data.write_text(f'{{"text": "{long}"}}\n')
    status, said, err = run(*options, "--out", tmp_path / "none")
    assert status == 71
    assert "Every one of 2 explanations failed, most of them with too-long" in err
    assert "2 explanations failed" in said


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ((), 25, "names no model"),
        (("nowhere.toml",), 25, "Cannot read the plan"),
        (("--model", "reviews", "--data", "nowhere.tsv", "--out", "o"), 13, "nowhere.tsv"),
        (("--model", "reviews", "--data", "DATA"), 25, "There is no folder for the results"),
        (("--model", "reviews", "--data", "DATA", "--out", "DATA"), 40, "it is a file"),
        (("--model", "nothing/here", "--data", "DATA", "--out", "o"), 30, "nothing/here"),
        (
            ("--model", "reviews", "--data", "DATA", "--methods", "attcut", "--out", "o"),
            20,
            "attcat",
        ),
        (
            ("--model", "reviews", "--data", "DATA", "--metrics", "x", "--out", "o"),
            23,
            "metric 'x'",
        ),
        (
            ("--model", "reviews", "--data", "DATA", "--audit", "x", "--out", "o"),
            24,
            "experiment 'x'",
        ),
        (("--model", "reviews", "--data", "DATA", "--param", "x=1", "--out", "o"), 22, "'x'"),
        (("--model", "reviews", "--data", "DATA", "--param", "x", "--out", "o"), 22, "NAME=VALUE"),
        (("--model", "reviews", "--data", "DATA", "--shard", "3/2", "--out", "o"), 25, "'shard'"),
        (("--model", "reviews", "--data", "DATA", "--actors", "2", "--out", "o"), 25, "'actors'"),
        (("--model", "reviews", "--data", "DATA", "--target", "x", "--out", "o"), 21, "'x'"),
        (("--model", "reviews", "--data", "DATA", "--limit", "0", "--out", "o"), 2, "limit"),
        (("--model", "reviews", "--data", "DATA", "--backend", "x", "--out", "o"), 2, "backend"),
        (("--model", "reviews", "--data", "DATA", "--text", "x", "--out", "o"), 13, "'x'"),
    ],
)
def test_run_command_with_bad_options_is_refused_without_a_manifest(
    run, data, tmp_path, monkeypatch, options, status, said
):
    monkeypatch.chdir(tmp_path)
    found, out, err = run("run", *(data if one == "DATA" else one for one in options))
    assert (found, out) == (status, ""), err
    assert said in err
    assert not (tmp_path / "o" / "manifest.json").exists()


def test_run_command_into_the_folder_of_another_or_active_run_is_refused(run, data, tmp_path):
    out = tmp_path / "out"
    assert (
        run("run", "--data", data, "--model", "reviews", *METHODS, "--out", out, "--limit", "2")[0]
        == 0
    )
    before = files(out)
    status, _, err = run("run", "--data", data, "--model", "decoy", *METHODS, "--out", out)
    assert status == 42
    assert "another model" in err
    with Store.open_locked(out):
        status, _, err = run("run", "--data", data, "--model", "reviews", *METHODS, "--out", out)
    assert status == 43
    assert files(out) == before


def test_run_command_with_the_documented_plan_completes(run, data, tmp_path, monkeypatch):
    text = (ROOT / "docs" / "reference" / "run.md").read_text(encoding="utf-8")
    (tmp_path / "plan.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    monkeypatch.chdir("/")
    asked = ("run", tmp_path / "plan.toml", "--limit", "3", "--backend", "in-process")
    status, said, err = run(*asked, "--methods", "attcat", "--audit", "", "--param", "layer=-1")
    assert status == 22
    assert (
        "'integrated_gradients.steps'" in err
    )  # it is in the file, and the method is no longer asked for
    status, said, err = run(*asked, "--json")
    assert status == 0, err
    payload = json.loads(said)
    assert (payload["examples"], payload["failed"]) == (3, 0)
    assert payload["folder"] == str(tmp_path / "results")
    found = whence.Run(tmp_path / "results")
    assert found.audits is not None
    settings = Store.open_existing(tmp_path / "results").manifest["settings"].values()
    steps = [
        one["params"]["steps"]
        for one in settings
        if one.get("method") == "integrated_gradients" and "metric" not in one
    ]
    assert steps == [10]


def test_run_function_equals_its_plan_and_refuses_bad_arguments(data, tmp_path):
    done = whence.run(
        model="reviews", data=str(data), methods="attcat", limit=2, out=tmp_path / "out"
    )
    assert isinstance(done, whence.Run)
    plan = whence.Plan("reviews", str(data), ("attcat",), limit=2)
    assert whence.run(plan, tmp_path / "same").facts()["done"] == 2
    assert files(tmp_path / "same") == files(tmp_path / "out")
    with pytest.raises(whence.WhenceError, match="There is no folder for the results"):
        whence.run(plan)
    with pytest.raises(whence.WhenceError, match=r"A plan is a whence.Plan or the path"):
        whence.run(3, tmp_path / "out")
    with pytest.raises(whence.WhenceError, match="has no 'method'"):
        whence.run(plan, tmp_path / "out", method="attcat")


def test_runs_command_reports_an_empty_folder_and_refuses_a_missing_one(run, tmp_path):
    status, said, _ = run("runs", tmp_path)
    assert (status, "There is no run in" in said) == (0, True)
    assert run("runs", tmp_path / "nowhere")[0] == 41


def test_run_help_shows_options_and_an_example_command(run):
    status, out, _ = run("run", "--help")
    assert status == 0
    assert "--retry-failed" in out
    assert "whence run --model" in run("--help")[1]


def test_run_command_with_texts_for_an_image_model_exits_25_without_a_run(run, data, tmp_path):
    out = tmp_path / "out"
    status, _, err = run("run", "--data", data, "--model", "shapes", *METHODS, "--out", out)
    assert (status, "has texts, and 'shapes' takes pictures" in err) == (25, True), err
    assert "There is no run in" in run("runs", out)[1]


def test_run_command_quotes_the_output_folder_in_its_next_step(run, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("run", "--data", data, "--model", "reviews", "--methods", "attcat", "--limit", "2")
    assert "Next: whence report './-a b'" in run(*asked, "--out", "-a b")[1]
    assert "2 of them new" in run(*asked, "--out", "x")[1]
    assert "1 backward pass of one" in run(*asked[:-1], "1", "--out", "y")[2]
