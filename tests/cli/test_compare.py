"""`whence compare` command: output, options, refusals and interrupts."""

import json

import pytest
import transformers as hf

from tests import zoo
from tests.audit_data import ROWS
from tests.cli.conftest import interrupt_while_loading
from tests.unit.small_tokenizers import wordpiece
from whence.app.schema import Comparison as Schema
from whence.studies.compare.comparison import Comparison


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def data(tmp_path):
    """Write a small file of reviews."""
    path = tmp_path / "reviews.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    return path


def test_compare_command_prints_divergence_overlap_and_accuracy(run, data):
    status, out, err = run("compare", "reviews-base", "reviews", "--data", data)
    assert (status, err) == (0, "")
    assert out.startswith("reviews-base and reviews\nOver 5 inputs, the attention of reviews is")
    for said in ("divergence", "strangers", "overlap", "chance", "[CLS]", "no classification head"):
        assert said in out
    assert "too few" in out  # of five inputs nothing is sure
    assert "Accuracy: reviews 1.0" in out


def test_compare_json_of_a_model_with_itself_has_no_difference(run, data):
    status, out, _ = run("compare", "reviews", "reviews", "--data", data, "--json")
    assert status == 0
    assert out.count("\n") == 1
    payload = json.loads(out)
    Schema.model_validate(payload)
    assert {one["divergence"]["mean"] for one in payload["heads"]} == {0}
    assert payload["overlap"]["jaccard"]["mean"] == 1
    assert payload["attribution"]["tau"]["mean"] == 1
    assert payload["predictions"]["agreement"]["mean"] == 1
    assert payload["a"]["fingerprint"] == payload["b"]["fingerprint"]


def test_compare_options_reach_the_json_and_sample_equals_limit(run, data):
    status, out, err = run(
        "compare", "reviews-base", "reviews", "--data", data, "--json", "--limit", "4", "--seed", "3",
        "--weight", "value_zeroing", "--coverage", "0.8", "--method", "none", "--dtype", "float64",
        "--no-truncate", "--text", "sentence", "--label", "label", "--specials",
    )  # fmt: skip
    assert (status, err) == (0, "")
    payload = json.loads(out)
    Schema.model_validate(payload)
    assert (payload["version"], payload["kind"]) == (1, "comparison")
    setting = payload["setting"]
    assert (setting["weight"], setting["coverage"], setting["seed"]) == ("value_zeroing", 0.8, 3)
    assert (setting["method"], setting["truncate"], setting["limit"]) == (None, False, 4)
    assert setting["specials"] is True
    assert (payload["data"]["given"], payload["data"]["used"]) == (5, 4)
    assert (payload["data"]["text"], payload["data"]["guessed"]) == ("sentence", [])
    assert payload["provenance"]["dtype"] == "float64"
    assert payload["without_attribution"]
    assert len(payload["heads"]) == setting["layers"] * setting["heads"] == 16
    sampled = run(
        "compare",
        "reviews-base",
        "reviews",
        "--data",
        data,
        "--json",
        "--sample",
        "4",
        "--seed",
        "3",
    )
    own = json.loads(sampled[1])
    assert own["data"]["used"] == 4
    again = json.loads(
        run(
            "compare",
            "reviews-base",
            "reviews",
            "--data",
            data,
            "--json",
            "--limit",
            "4",
            "--seed",
            "3",
        )[1]
    )
    assert {**again, "seconds": 0} == {**own, "seconds": 0}  # the same draws give the same numbers


def test_compare_html_equals_the_page_made_from_its_json(run, data, tmp_path):
    page = tmp_path / "changed.html"
    status, out, err = run("compare", "reviews-base", "reviews", "--data", data, "--html", page)
    assert status == 0
    assert f"wrote {page}" in err.replace("\n", "")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert "<script" not in text
    status, out, err = run(
        "compare", "reviews", "reviews", "--data", data, "--html", page, "--json"
    )
    assert Comparison.from_dict(json.loads(out)).to_html() == page.read_text()
    assert err == ""


def test_compare_html_escapes_markup_in_a_file_name(run, tmp_path):
    path = tmp_path / "<b>evil.tsv"
    path.write_text("sentence\n" + "".join(f"<i>{text}</i>\n" for text, _ in ROWS))
    page = tmp_path / "a.html"
    status, _, _ = run("compare", "reviews-base", "reviews", "--data", path, "--html", page)
    assert status == 0
    assert "<b>evil" not in page.read_text()
    assert "&lt;b&gt;evil" in page.read_text()


def test_compare_command_of_pairs_shows_attention_between_texts(run, tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = zip(ROWS, ROWS[::-1], strict=True)
    path.write_text("one\tother\n" + "".join(f"{a[0]}\t{b[0]}\n" for a, b in rows))
    options = ("--data", path, "--text", "one", "--pair", "other")
    status, out, _ = run("compare", "reviews-base", "reviews", *options)
    assert status == 0
    assert "A>B" in out
    assert "attention between texts" in out


BAD_REQUESTS = [
    (["--weight", "attentoin"], 22, "weight must be one of attention, norm"),
    (["--coverage", "1.5"], 22, "coverage must be above 0 and at most 1. Got 1.5"),
    (["--method", "atcat"], 20, "Did you mean 'attcat'"),
    (["--text", "body"], 13, "reviews.tsv has no column 'body'; it has sentence, label"),
    (["--label", "gold"], 13, "reviews.tsv has no column 'gold'"),
    (["--html", "none/at/all.html"], 40, "there is no folder 'none/at'"),
]


@pytest.mark.parametrize(("options", "status", "said"), BAD_REQUESTS)
def test_a_bad_request_is_refused_before_a_model_is_loaded(run, data, options, status, said):
    found, out, err = run("compare", "nowhere/at-all", "nowhere", "--data", data, *options)
    assert (found, out) == (status, "")
    assert said in err
    assert err.count("\n") == 1


def run_refused_comparison(run, tmp_path, *arguments):
    """Run what cannot work; nothing may be left behind."""
    page = tmp_path / "changed.html"
    status, out, err = run("compare", *arguments, "--html", page)
    assert (out, err.count("\n")) == ("", 1)
    assert "internal error" not in err
    assert not page.exists()
    return status, err


def save_tiny_model(folder, model=None, **config):
    """Save a tiny model with a tokenizer of words."""
    if model is None:
        own = hf.BertConfig(**{**zoo._BERT, "max_position_embeddings": 64, **config})
        model = zoo.seeded(lambda: hf.BertForSequenceClassification(own)).eval()
    model.resize_token_embeddings(400)
    model.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


def test_compare_of_models_that_do_not_match_is_refused(run, data, tmp_path):
    status, err = run_refused_comparison(run, tmp_path, "reviews", "decoy", "--data", data)
    assert status == 33
    assert "'reviews' and 'decoy' have different tokenizers" in err
    one, other = (
        save_tiny_model(tmp_path / "one"),
        save_tiny_model(tmp_path / "two", num_hidden_layers=2),
    )
    status, err = run_refused_comparison(run, tmp_path, one, other, "--data", data)
    assert status == 22
    assert "has 3 layers of 4 heads" in err
    bart = save_tiny_model(tmp_path / "bart", zoo.make("bart"))
    status, err = run_refused_comparison(run, tmp_path, bart, bart, "--data", data)
    assert status == 36
    assert "encoder and a decoder" in err
    status, err = run_refused_comparison(run, tmp_path, "reviews", "nowhere/at-all", "--data", data)
    assert status == 30
    options = ("--data", data, "--weight", "relevance")
    status, err = run_refused_comparison(run, tmp_path, "reviews-base", "reviews", *options)
    assert status == 34
    assert "no decision that the weight 'relevance' could be about" in err


def test_compare_of_models_with_different_labels_skips_attributions(run, data, tmp_path):
    names = {"id2label": {0: "bad", 1: "good"}, "num_labels": 2}
    one = save_tiny_model(tmp_path / "one", **names)
    other = save_tiny_model(tmp_path / "two", **{**names, "id2label": {0: "no", 1: "yes"}})
    status, out, _ = run("compare", one, other, "--data", data)
    assert status == 0
    assert (
        "Attributions were not compared: The models have different labels (bad, good; no, yes)"
        in out
    )


@pytest.mark.parametrize("content", ["", "sentence\n", "sentence\n \n"])
def test_compare_of_a_file_without_texts_is_refused(run, tmp_path, content):
    path = tmp_path / "a.tsv"
    path.write_text(content)
    status, _ = run_refused_comparison(run, tmp_path, "reviews", "reviews", "--data", path)
    assert status in (10, 13)


def test_compare_command_with_bad_arguments_exits_2(run, data):
    assert run("compare", "reviews", "reviews")[0] == 2
    assert run("compare", "reviews", "--data", data)[0] == 2
    assert run("compare", "reviews", "reviews", "--data", data, "--limit", "0")[0] == 2


def test_compare_command_after_sigint_exits_130_and_leaves_no_file(data, tmp_path):
    found = interrupt_while_loading(
        "compare", "reviews", "reviews", "--data", data, "--html", tmp_path / "a.html"
    )
    assert found == (130, "", "whence: interrupted; nothing was left half-written.\n")
    assert list(tmp_path.iterdir()) == [data]


def test_compare_help_shows_an_example_command(run):
    status, out, _ = run("compare", "--help")
    assert status == 0
    assert "whence compare reviews-base reviews --data reviews.tsv" in out
    assert "whence compare" in run("--help")[1]
