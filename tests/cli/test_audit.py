"""`whence audit` and `whence list experiments` as a stranger meets them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import transformers as hf

from tests import zoo
from tests.cli.conftest import interrupted
from tests.cli.test_evaluate import ROWS
from tests.unit.tokenizers import wordpiece

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
QUICK = ("--experiment", "permutation", "--param", "permutations=5")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "400")


def table(path, rows, header="sentence\tlabel"):
    path.write_text(f"{header}\n" + "".join("\t".join(row) + "\n" for row in rows))
    return path


@pytest.fixture
def data(tmp_path):
    """Write a small file of reviews."""
    return table(tmp_path / "reviews.tsv", ROWS)


def saved(model, folder):
    """Save a tiny model with a tokenizer of words."""
    model.resize_token_embeddings(400)
    model.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


def fnet():
    """Build a model that mixes tokens by a Fourier transform, without any attention."""
    config = hf.FNetConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        max_position_embeddings=64, pad_token_id=0, num_labels=2,
    )  # fmt: skip
    return zoo.seeded(lambda: hf.FNetForSequenceClassification(config)).eval()


def test_an_audit(run, data):
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


def test_json(run, data):
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


def test_html(run, data, tmp_path):
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
def test_every_kind_of_data(run, tmp_path, monkeypatch, kind):
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


def test_settings_reach_the_audit(run, data):
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


def test_kin_that_are_trained_or_given(run, data):
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


def test_an_audit_without_labels_where_none_are_needed(run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{text}\n" for text, _ in ROWS))
    status, out, _ = run("audit", path, *QUICK, "--json")
    assert status == 0
    payload = json.loads(out)
    assert payload["performance"] is None
    assert payload["data"]["label"] is None


BAD_REQUESTS = [
    (["--experiment", "permutations"], 24, "Did you mean 'permutation'? Known: adversarial"),
    (["--special", "drop"], 22, "--special must be keep or free. Got 'drop'"),
    (["--site", "middle"], 22, "There is no site 'middle'. Allowed: last"),
    (["--param", "permutations"], 22, "--param takes NAME=VALUE"),
    ([*QUICK, "--param", "steps=3"], 22, "has a parameter 'steps'"),
    (
        [*QUICK, "--param", "permutations=none"],
        22,
        "must be an integer from 1 to 10000. Got 'none'",
    ),
    (["--text", "body"], 13, "reviews.tsv has no column 'body'; it has sentence, label"),
    (["--label", "gold"], 13, "reviews.tsv has no column 'gold'; it has sentence, label"),
    (["--train", "none.tsv"], 13, "Cannot read 'none.tsv'"),
    (["--html", "none/at/all.html"], 40, "there is no folder 'none/at'"),
    (["--html", "."], 40, "it is a folder"),
    (["--experiment", "guides"], 22, "--train"),
]


@pytest.mark.parametrize(("options", "status", "said"), BAD_REQUESTS)
def test_a_bad_request_is_refused_before_a_model_is_loaded(run, data, options, status, said):
    found, out, err = run("audit", data, *options, "--model", "nowhere/at-all")
    assert (found, out) == (status, "")
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def refused(run, tmp_path, *arguments):
    """Run what cannot work; nothing may be left behind."""
    page = tmp_path / "audit.html"
    status, out, err = run("audit", *arguments, "--html", page)
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "internal error" not in err
    assert not page.exists()
    assert not list(tmp_path.glob(".audit.html*"))
    return status, err


def test_data_without_labels(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(text,) for text, _ in ROWS], "sentence")
    status, err = refused(run, tmp_path, path)
    assert status == 13
    assert "None of the 5 examples has a label. Name the column that holds them" in err
    assert "--experiment" in err


def test_one_class_only(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(text, "1") for text, _ in ROWS])
    status, err = refused(run, tmp_path, path)
    assert status == 13
    assert "All 5 examples have the label '1'. Give examples of at least two classes" in err


def test_labels_that_the_model_does_not_have(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(text, f"class {label}") for text, label in ROWS])
    status, err = refused(run, tmp_path, path)
    assert status == 13
    assert "The label 'class 1' (3 of 5 examples) is not one of the model's: 0 'negative'" in err


def test_texts_that_are_all_too_long(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(f"{text} " * 200, label) for text, label in ROWS])
    status, err = refused(run, tmp_path, path, *QUICK, "--no-truncate")
    assert status == 11
    assert "None of the 5 examples can be used" in err
    assert "takes at most" in err
    status, out, _ = run("audit", path, *QUICK, "--limit", "2", "--json")
    assert status == 0
    assert json.loads(out)["data"]["used"] == 2


def test_texts_with_nothing_to_attend_to(run, tmp_path):
    path = table(tmp_path / "a.tsv", [("good", "1"), ("bad", "0")])
    status, err = refused(run, tmp_path, path, *QUICK)
    assert status == 13
    assert "fewer than two tokens" in err


def test_a_model_without_attention(run, data, tmp_path):
    status, err = refused(run, tmp_path, data, "--model", saved(fnet(), tmp_path / "fnet"))
    assert status == 36
    assert "FNetForSequenceClassification" in err


def test_models_that_do_not_classify(run, data, tmp_path):
    config = hf.BertConfig(
        **{**zoo._BERT, "num_labels": 1, "max_position_embeddings": 64}, problem_type="regression"
    )
    scorer = zoo.seeded(lambda: hf.BertForSequenceClassification(config)).eval()
    status, err = refused(run, tmp_path, data, "--model", saved(scorer, tmp_path / "scorer"))
    assert status == 34
    assert "predicts a number" in err
    status, err = refused(run, tmp_path, data, "--model", "reviews-base")
    assert status == 34
    assert "does not classify whole inputs" in err


def test_models_with_two_streams(run, data, tmp_path):
    folder = saved(zoo.make("bart"), tmp_path / "bart")
    status, err = refused(run, tmp_path, data, "--model", folder)
    assert status == 36
    assert "encoder and a decoder" in err


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--site", "9"], 22, "There is no site '9': the model has the layers 0 to 3"),
        (["--site", "3.9"], 22, "with the heads 0 to 3"),
        (["--other", "decoy"], 22, "'decoy' (BertForSequenceClassification, 79 tokens"),
        (["--other", "nowhere/at-all"], 30, "There is no model 'nowhere/at-all'"),
        (["--train", "{one}"], 13, "All 5 examples have the label '1'"),
    ],
)
def test_what_does_not_fit_the_model(run, data, tmp_path, options, status, said):
    one = table(tmp_path / "one.tsv", [(text, "1") for text, _ in ROWS])
    found, err = refused(run, tmp_path, data, *QUICK, *(part.format(one=one) for part in options))
    assert found == status
    assert said in err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "", "a.tsv has no rows"),
        ("a.tsv", "sentence\tlabel\n", "a.tsv has no rows"),
        ("a.jsonl", '{"text": \n', "a.jsonl, line 1: not JSON"),
        ("a.parquet", "text\n", "a.parquet is not a whole Parquet file"),
        ("a.xml", "<a/>", "a.xml: .xml is no kind of file that is read here. Allowed: .txt"),
    ],
)
def test_files_that_cannot_be_read(run, tmp_path, name, content, said):
    path = tmp_path / name
    path.write_text(content)
    status, err = refused(run, tmp_path, path)
    assert status == 13
    assert said in err


def test_a_data_set_that_nobody_has(run, tmp_path):
    status, err = refused(run, tmp_path, "someone/nothing-of-that-name")
    assert status == 13
    assert "There is no file 'someone/nothing-of-that-name', and the Hub" in err


def test_a_page_that_may_not_be_written(run, data, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    page = folder / "audit.html"
    page.mkdir()
    status, out, err = run("audit", data, *QUICK, "--html", page)
    assert (status, out, err.count("\n")) == (40, "", 1)
    assert list(folder.iterdir()) == [page]


def test_wrong_calls(run, data):
    assert run("audit")[0] == 2
    assert run("audit", data, "--limit", "0")[0] == 2
    assert run("audit", data, "--epochs", "0")[0] == 2
    assert run("audit", data, *QUICK, "--model", "nowhere/at-all")[0] == 30


def test_a_real_interrupt_ends_in_one_line_and_leaves_nothing(data, tmp_path):
    found = interrupted("audit", data, "--html", tmp_path / "audit.html")
    assert found == (130, "", "whence: interrupted; nothing was left half-written.\n")
    assert list(tmp_path.iterdir()) == [data]


def test_list_experiments(run):
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


def test_completion_knows_experiments_without_importing_torch():
    program = (
        "import sys; from whence.cli.asking import experiment_names;"
        "print(experiment_names('per')); assert 'torch' not in sys.modules"
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


def test_help_teaches(run):
    status, out, _ = run("audit", "--help")
    assert status == 0
    assert "whence audit reviews.tsv --model path/to/model" in out
    assert "whence audit reviews.tsv" in run("--help")[1]
