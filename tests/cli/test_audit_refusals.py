"""`whence audit` refusals (labels, texts, models, options, files): one line with the reason, exit statuses."""

import json

import pytest
import transformers as hf

from tests import zoo
from tests.audit_data import QUICK, ROWS, table
from tests.unit.small_tokenizers import wordpiece

pytestmark = pytest.mark.usefixtures("wide")


def save_tiny_model(model, folder):
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


BAD_REQUESTS = [
    (["--experiment", "permutations"], 24, "Did you mean 'permutation'? Known: adversarial"),
    (["--special", "drop"], 22, "--special must be keep or free. Got 'drop'"),
    (["--site", "middle"], 22, "There is no site 'middle'. Allowed: last"),
    (["--param", "permutations"], 22, "--param takes NAME=VALUE"),
    (
        [*QUICK, "--param", "steps=3"],
        22,
        "permutation has no parameter 'steps'; it has permutations",
    ),
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


def run_refused_audit(run, tmp_path, *arguments):
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


def test_audit_of_data_without_labels_exits_13(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(text,) for text, _ in ROWS], "sentence")
    status, err = run_refused_audit(run, tmp_path, path)
    assert status == 13
    assert "None of the 5 examples has a label. Name the column that holds them" in err
    assert "--experiment" in err


def test_audit_of_examples_of_one_class_exits_13(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(text, "1") for text, _ in ROWS])
    status, err = run_refused_audit(run, tmp_path, path)
    assert status == 13
    assert "All 5 examples have the label '1'. Give examples of at least two classes" in err


def test_audit_of_labels_unknown_to_the_model_exits_13(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(text, f"class {label}") for text, label in ROWS])
    status, err = run_refused_audit(run, tmp_path, path)
    assert status == 13
    assert "The label 'class 1' (3 of 5 examples) is not one of the model's: 0 'negative'" in err


def test_audit_of_too_long_texts_exits_11_unless_truncated(run, tmp_path):
    path = table(tmp_path / "a.tsv", [(f"{text} " * 200, label) for text, label in ROWS])
    status, err = run_refused_audit(run, tmp_path, path, *QUICK, "--no-truncate")
    assert status == 11
    assert "None of the 5 examples can be used" in err
    assert "takes at most" in err
    status, out, _ = run("audit", path, *QUICK, "--limit", "2", "--json")
    assert status == 0
    assert json.loads(out)["data"]["used"] == 2


def test_audit_of_texts_of_one_token_exits_13(run, tmp_path):
    path = table(tmp_path / "a.tsv", [("good", "1"), ("bad", "0")])
    status, err = run_refused_audit(run, tmp_path, path, *QUICK)
    assert status == 13
    assert "fewer than two tokens" in err


def test_audit_of_a_model_without_attention_exits_36(run, data, tmp_path):
    status, err = run_refused_audit(
        run, tmp_path, data, "--model", save_tiny_model(fnet(), tmp_path / "fnet")
    )
    assert status == 36
    assert "FNetForSequenceClassification" in err


def test_audit_of_a_regressor_or_a_masked_language_model_exits_34(run, data, tmp_path):
    config = hf.BertConfig(
        **{**zoo._BERT, "num_labels": 1, "max_position_embeddings": 64}, problem_type="regression"
    )
    scorer = zoo.seeded(lambda: hf.BertForSequenceClassification(config)).eval()
    status, err = run_refused_audit(
        run, tmp_path, data, "--model", save_tiny_model(scorer, tmp_path / "scorer")
    )
    assert status == 34
    assert "predicts a number" in err
    status, err = run_refused_audit(run, tmp_path, data, "--model", "reviews-base")
    assert status == 34
    assert "does not classify whole inputs" in err


def test_audit_of_an_encoder_decoder_model_exits_36(run, data, tmp_path):
    folder = save_tiny_model(zoo.make("bart"), tmp_path / "bart")
    status, err = run_refused_audit(run, tmp_path, data, "--model", folder)
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
def test_audit_options_that_do_not_fit_the_model_are_refused(
    run, data, tmp_path, options, status, said
):
    one = table(tmp_path / "one.tsv", [(text, "1") for text, _ in ROWS])
    found, err = run_refused_audit(
        run, tmp_path, data, *QUICK, *(part.format(one=one) for part in options)
    )
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
def test_audit_of_unreadable_files_exits_13(run, tmp_path, name, content, said):
    path = tmp_path / name
    path.write_text(content)
    status, err = run_refused_audit(run, tmp_path, path)
    assert status == 13
    assert said in err


def test_audit_of_an_unknown_data_set_exits_13(run, tmp_path):
    status, err = run_refused_audit(run, tmp_path, "someone/nothing-of-that-name")
    assert status == 13
    assert "There is no file 'someone/nothing-of-that-name', and the Hub" in err
