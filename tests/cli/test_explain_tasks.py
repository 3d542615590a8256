"""`whence explain` command for question answering, tagging, masks, zero-shot and pairs, on tiny saved models."""

import json

import pytest

from tests.task_models import NLI, TAGS, explainer

QUESTION, CONTEXT = "who acted", "a gripping film: the plot is thin"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of tiny models by task."""
    root = tmp_path_factory.mktemp("models")
    heads = {
        "answer": ("QuestionAnswering", ()),
        "mask": ("MaskedLM", ()),
        "tags": ("TokenClassification", TAGS),
        "nli": ("SequenceClassification", NLI),
    }
    for task, (head, labels) in heads.items():
        made = explainer("bert", head, labels)
        made.model.save_pretrained(root / task)
        made.tokenizer.save_pretrained(root / task)
    return root


def test_explain_question_answering_explains_the_target_span(run, models):
    asked = ("explain", QUESTION, "--pair", CONTEXT, "--model", models / "answer", "--json")
    status, out, err = run(*asked, "--target", "plot")
    assert (status, err) == (0, "")
    payload = json.loads(out)
    assert payload["target"]["label"] == "plot"
    (first, last) = payload["read"]
    assert payload["tokens"][first]["text"] == payload["tokens"][last]["text"] == "plot"
    assert json.loads(run(*asked, "--target", "start")[1])["target"]["label"].startswith("start of")
    status, _, err = run(*asked, "--target", "nowhere")
    assert status == 21 and "does not stand in the context" in err


def test_explain_tagging_lists_and_explains_every_entity(run, models, tmp_path):
    text = "a gripping film, well-made but thin: the plot"
    page = tmp_path / "why.html"
    status, out, _ = run("explain", text, "--model", models / "tags", "--html", page)
    assert status == 0
    listed = json.loads(run("explain", text, "--model", models / "tags", "--json")[1])
    assert listed["kind"] == "entities" and len(listed["entities"]) > 1
    lines = out.splitlines()
    for number, payload in enumerate(listed["entities"], 1):
        said = f": {payload['prediction']['label']} ("
        assert any(line.startswith(f"{number}  ") and said in line for line in lines)
    assert page.read_text("utf-8").count("thin") >= len(listed["entities"])
    one = json.loads(run("explain", text, "--model", models / "tags", "--at", "plot", "--json")[1])
    assert one["prediction"]["label"] in TAGS
    status, _, err = run("explain", text, "--model", models / "tags", "--at", "novel")
    assert status == 22 and "does not stand" in err


def test_explain_masked_lm_explains_the_target_at_the_chosen_mask(run, models):
    asked = ("explain", "--model", models / "mask", "--json", "--target", "thin")
    status, out, _ = run(*asked, "the plot is [MASK]")
    assert status == 0 and json.loads(out)["target"]["label"] == "thin"
    status, _, err = run(*asked, "the plot is")
    assert status == 12 and "no mask in the text" in err
    assert json.loads(run(*asked, "[MASK] and [MASK]", "--at", "1")[1])["read"] == [3]


def test_explain_zero_shot_chooses_among_the_given_labels(run, models):
    asked = ("explain", "a gripping film", "--model", models / "nli")
    status, out, _ = run(*asked, "--labels", "thin, well-made", "--template", "It is {}.", "--json")
    payload = json.loads(out)
    assert status == 0
    assert set(payload["prediction"]["probabilities"]) == {"thin", "well-made"}
    assert payload["input"]["pair"] == f"It is {payload['target']['label']}."
    for labels, template, said in (("thin,thin", "It is {}.", "twice"), ("thin", "It is", "template")):  # fmt: skip
        status, _, err = run(*asked, "--labels", labels, "--template", template)
        assert status == 22 and said in err
    status, _, err = run("explain", "a gripping film", "--labels", "a,b")
    assert status == 34 and "models of entailment" in err


def test_explain_of_a_pair_prints_the_share_of_each_text(run, models):
    status, out, _ = run("explain", "a film", "--pair", "the plot", "--model", models / "nli")
    assert status == 0
    assert "first text" in out and "of all scores by size" in " ".join(out.split())
