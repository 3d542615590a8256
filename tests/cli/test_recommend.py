"""`whence recommend` command: printed plan, sentence and table; JSON, budgets, progress, nothing tested."""

import json

import pytest

from tests.audit_data import ROWS


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def data(tmp_path):
    """Write a small file of reviews."""
    path = tmp_path / "reviews.txt"
    path.write_text("".join(f"{text}\n" for text, _ in ROWS))
    return path


def test_recommend_command_prints_plan_then_sentence_then_table(run, data):
    status, out, err = run(
        "recommend", "--data", data, "--method", "attcat", "--method", "rollout", "--budget", "1500"
    )
    assert status == 0
    assert "2 methods on 5 of 5 examples by comprehensiveness, sufficiency, loo_correlation" in err
    assert "of a budget of 1,500" in err
    assert "reviews.txt, texts from 'text', no labels (guessed: text; --text say otherwise)." in err
    first = out.splitlines()[0]
    # Five examples are too few for Holm: the smallest p is 2 / 2^5, and there are three comparisons; 6 / 2^7 = 0.047.
    assert first == (
        "No method can be recommended: n=5 examples are too few: with 2 methods compared, differences can only show "
        "from n=7 on. Give more examples, or compare fewer methods."
    )
    assert "of a budget of 1,500" in out.splitlines()[1]
    assert "comprehensiveness ↑ n=5" in out
    assert out.index(first) < out.index("comprehensiveness ↑")


def test_recommend_json_names_a_method_and_those_that_exceed_the_budget(run, tmp_path):
    path = tmp_path / "texts.txt"
    openings = ("a gripping", "a dull", "a warm", "a poor", "a fine", "a bad", "a great", "a weak")
    endings = ("film with good actors", "story that i did not like at all")
    path.write_text("".join(f"{a} {b}\n" for a in openings for b in endings))
    status, out, err = run(
        "recommend", "--data", path, "--method", "attcat", "--method", "leave_one_out",
        "--method", "lime", "--budget", "4000", "--json", "--seed", "2",
    )  # fmt: skip
    assert status == 0
    assert "lime (" in err
    payload = json.loads(out)
    assert payload["kind"] == "recommendation"
    assert payload["method"] in ("attcat", "leave_one_out")
    assert payload["sentence"].startswith(
        f"Use {payload['method']}: on 16 examples it beats random"
    )
    assert list(payload["plan"]["left_out"]) == ["lime"]
    assert payload["sentence"].endswith("Not tested, as the budget is too small for them: lime.")
    assert payload["evaluation"]["calls"]["forward"] <= payload["plan"]["calls"] <= 4000


def test_recommend_with_a_too_small_budget_exits_22(run, data):
    status, out, err = run("recommend", "--data", data, "--method", "attcat", "--budget", "9")
    assert (status, out) == (22, "")
    assert "A budget of 9 model calls is too small" in err
    assert run("recommend", "--data", data, "--budget", "0")[0] == 22


def test_recommend_without_a_terminal_prints_progress_and_takes_named_columns(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr("whence.cli.progress_bar.LINE_INTERVAL_SECONDS", 0.0)
    path = tmp_path / "films.tsv"
    path.write_text("body\tstars\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    named = ("--text", "body", "--label", "stars", "--json")
    status, out, err = run("recommend", "--data", path, "--method", "attcat", *named)
    assert status == 0
    assert "films.tsv, texts from 'body', labels from 'stars'.\n" in err
    assert "asking the model: 5 of 5\n" in err
    data = json.loads(out)["evaluation"]["data"]
    assert (data["text"], data["label"], data["guessed"]) == ("body", "stars", [])


def test_recommend_that_tested_nothing_exits_71_with_the_reason(run, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(
        "a good film\na bad film\n"
    )  # where this model would fill in a word, there is none
    status, out, err = run(
        "recommend", "--data", path, "--method", "attcat", "--json", "--model", "reviews-base"
    )
    assert status == 71 and "[nothing-explained" in err
    sentence = json.loads(out)["sentence"]
    for said in (sentence, err):
        assert (
            "Nothing was tested: 2 examples (number 0, 1) could not be taken by any method: There is no mask in the t"
            in said
        )
