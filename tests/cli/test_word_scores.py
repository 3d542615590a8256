"""Word scores of words of several tokens, in the library and the commands: measured, mean or sum, by method."""

import json

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import zoo
from tests.unit.small_tokenizers import byte_level, wordpiece
from whence.explain.explanation import Explanation
from whence.explain.report import build_document
from whence.metrics._requests import OtherClass
from whence.runs.results import Run

TEXT = "an unfathomably cringeworthy but wonderful film"
PAIR = ("an unfathomably good film", "a cringeworthy story")
NOTE = "measured without the whole word"
MEAN = "is the mean of theirs"


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def _probability(explainer, ids, target):
    with torch.no_grad():
        logits = explainer.model(input_ids=torch.tensor([ids])).logits
    return float(logits.double().softmax(-1)[0, target])


@pytest.mark.parametrize("remove", ["mask", "delete", "unk", "pad"])
def test_leave_one_out_word_score_equals_probability_drop_without_the_whole_word(explainer, remove):
    why = explainer.explain(TEXT, method="leave_one_out", params={"remove": remove})
    ids, tokenizer = [token.id for token in why.tokens], explainer.tokenizer
    whole = _probability(explainer, ids, why.target.index)
    assert sum(len(word.tokens) > 1 for word in why.spans) >= 2
    for word, score in zip(why.spans, why.word_scores, strict=True):
        left = [
            getattr(tokenizer, f"{remove}_token_id", None) if place in word.tokens else one
            for place, one in enumerate(ids)
            if remove != "delete" or place not in word.tokens
        ]
        # The model computes in float32, whose steps near 1 are 6e-8; batches differ by a few of them.
        assert score == pytest.approx(
            whole - _probability(explainer, left, why.target.index), abs=2e-6
        )
        if len(word.tokens) == 1:
            assert score == why.scores[word.tokens[0]]
    # One call for each token, one for the text, and one for each word of several.
    pieced = sum(len(word.tokens) > 1 for word in why.spans)
    assert why.passes.forward == 1 + len(why.tokens) + pieced


def test_word_scores_of_leave_one_out_and_occlusion_are_at_most_one():
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    explainer = whence.load(model, tokenizer=wordpiece())
    for method in ("leave_one_out", "occlusion"):
        why = explainer.explain(TEXT, method=method)
        assert np.abs(why.word_scores).max() <= 1
        assert why.top(1)[0].score == pytest.approx(
            why.word_scores[np.abs(why.word_scores).argmax()]
        )


def test_leave_one_out_of_single_token_words_needs_no_extra_forward_passes(explainer):
    why = explainer.explain("a dull film", method="leave_one_out")
    assert all(len(word.tokens) == 1 for word in why.spans)
    assert why.passes.forward == 1 + len(why.tokens)
    assert NOTE not in str(why)


def test_word_scores_of_a_batch_equal_those_of_single_texts(explainer):
    texts = [TEXT, "a dull film", "the plot is unfathomably thin"]
    many = explainer.explain(texts, method="leave_one_out")
    for text, one in zip(texts, many, strict=True):
        alone = explainer.explain(text, method="leave_one_out")
        assert one.word_scores == pytest.approx(alone.word_scores, abs=2e-6)


def test_word_scores_of_additive_methods_equal_sums_of_token_scores(explainer):
    for method in ("lime", "attcat", "kernel_shap"):
        why = explainer.explain(TEXT, method=method)
        sums = [why.scores[list(word.tokens)].sum() for word in why.spans]
        assert why.words_by == "sum"
        assert why.word_scores.tolist() == pytest.approx(sums)


def test_word_scores_of_occlusion_equal_token_means_and_the_text_names_the_mean(explainer):
    why = explainer.explain(TEXT, method="occlusion")
    means = [why.scores[list(word.tokens)].mean() for word in why.spans]
    assert why.word_scores.tolist() == pytest.approx(means)
    assert MEAN in str(why)


def test_measured_word_scores_appear_with_their_note_in_text_html_json_cli_and_file(
    explainer, run, wide, tmp_path
):
    why = explainer.explain(TEXT, method="leave_one_out")
    payload = why.to_dict()
    assert payload["explanations"][0]["words_by"] == "measured"
    assert payload["explanations"][0]["word_scores"] == why.word_scores.tolist()
    word = next(word for word in why.words() if word.text == "unfathomably")
    pieces = {piece.text: piece.score for piece in why.pieces("word")}
    assert pieces["unfathomably"] == word.score
    for shown in (str(why), why._repr_html_(), why.to_html(flows=False)):
        assert NOTE in shown
    assert f"{word.score:+.3g}" in str(why)
    assert f"{word.score:+.6g}" in why._repr_html_()
    status, out, _ = run("explain", TEXT, "--method", "leave_one_out", "--top", "20")
    assert status == 0
    assert NOTE in out
    assert f"{word.score:+.3g}" in out
    status, out, _ = run("explain", TEXT, "--method", "leave_one_out", "--json")
    found = json.loads(out)["explanations"][0]
    assert found["word_scores"] == pytest.approx(why.word_scores.tolist(), abs=2e-6)
    again = Explanation.load(why.save(tmp_path / "why.json"))
    assert again.word_scores.tolist() == why.word_scores.tolist()
    assert again.words_by == "measured"


def test_explanation_from_payload_without_words_by_sums_token_scores(explainer):
    payload = explainer.explain(TEXT, method="leave_one_out").to_dict()
    del payload["explanations"][0]["words_by"]
    old = Explanation.from_dict(payload)
    sums = [old.scores[list(word.tokens)].sum() for word in old.spans]
    assert old.word_scores.tolist() == pytest.approx(sums)


def test_explanation_text_of_a_pair_has_no_text_sums_for_leave_one_out():
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    explainer = whence.load(model, tokenizer=wordpiece())
    falls = str(explainer.explain(PAIR, method="leave_one_out"))
    assert "first text " in falls
    assert "first text +" not in falls
    assert "first text -" not in falls
    sums = str(explainer.explain(PAIR, method="lime", params={"samples": 20}))
    assert "first text +" in sums or "first text -" in sums


def test_trials_and_trust_with_unit_word_use_measured_word_scores(explainer):
    (number, trial, found), *_ = explainer.trials([TEXT], method=["leave_one_out"], unit="word")
    why = found["leave_one_out"]
    assert number == 0
    assert trial.values[0].tolist() == pytest.approx(why.word_scores.tolist())
    card = explainer.trust(TEXT, method="leave_one_out", unit="word", budget=400).to_dict()
    (test,) = [one for one in card["methods"][0]["tests"] if one["name"] == "leave_one_out"]
    assert test["value"] == pytest.approx(1.0)  # it is the same question


def test_repeat_for_the_other_class_with_unit_word_has_measured_word_scores(explainer):
    (_, trial, found), *_ = explainer.trials([TEXT], method=["leave_one_out"], unit="word")
    anew = trial.by_unit(trial.again(OtherClass()).scores)[0]
    # Of two classes, what the one loses the other gains.
    assert anew == pytest.approx(-found["leave_one_out"].word_scores, abs=2e-6)


def test_generate_with_granularity_word_has_measured_word_scores():
    torch.manual_seed(0)
    config = hf.GPT2Config(vocab_size=400, n_embd=32, n_layer=2, n_head=4, initializer_range=0.5)
    config.bos_token_id = config.eos_token_id = None
    explainer = whence.load(hf.GPT2LMHeadModel(config).eval(), tokenizer=byte_level())
    made = explainer.generate("a gripping film", 2, method="leave_one_out", granularity="word")
    first = made.explanations[0]
    assert first.words_by == "measured"
    assert any(len(word.tokens) > 1 for word in first.spans)
    words = [word.score for word in first.words()]
    kept = [place for place, piece in enumerate(made.pieces) if not piece["special"]]
    if made.outputs[0]["tokens"] == [0]:  # a part of the answer for itself
        assert made.matrix[0][kept] == pytest.approx(words)
    restored = type(made)(made.to_dict())
    assert restored.explanations[1].word_scores == pytest.approx(made.explanations[1].word_scores)


def test_run_store_of_leave_one_out_has_mean_word_scores_and_names_the_mean(run, tmp_path):
    table = tmp_path / "texts.tsv"
    table.write_text(f"text\tlabel\n{TEXT}\tpositive\n", encoding="utf-8")
    status, _, err = run(
        *("run", "--model", "reviews", "--data", table, "--methods", "leave_one_out"),
        *("--out", tmp_path / "store"),
    )
    assert status == 0, err
    payload = Run(tmp_path / "store").explanation(0, "leave_one_out")
    assert payload["explanations"][0]["words_by"] == "mean"
    assert MEAN in build_document([payload]).to_text()
