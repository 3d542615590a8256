"""Doubts (leave_one_out contradicts the strongest word's sign): when raised, their cost, in text, app, commands."""

import dataclasses
import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import whence
from tests.web.serving import ask
from whence.app.server import create_app
from whence.app.settings import Settings

TEXT = "the plot is thin, but the actors are wonderful"
SAID = "do not trust the sign; leave_one_out measures it"


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def explain_with_wrong_sign(explainer, text=TEXT, **how):
    """Return an explanation whose strongest word has the sign that leave_one_out does not find."""
    truth = explainer.explain(text, method="leave_one_out", **how)
    place = int(np.abs(truth.word_scores).argmax())
    why = explainer.explain(text, method="attcat", **how)
    scores = np.zeros_like(why.scores)
    scores[why.spans[place].tokens[0]] = -0.005 * np.sign(truth.word_scores[place])
    return dataclasses.replace(why, scores=scores), truth, place


def test_doubts_name_a_sign_that_leave_one_out_contradicts(explainer):
    why, truth, place = explain_with_wrong_sign(explainer)
    ((code, said),) = why.doubts
    assert code == "sign"
    assert said.startswith(f"attcat has '{why.spans[place].text}' against positive (-0.005), but ")
    whole = truth.prediction.probabilities["positive"]
    without = whole - truth.word_scores[place]
    assert f"without it positive falls from {whole:.1%}".replace("%", " %") in said
    assert f"to {without:.1%}".replace("%", " %") in said
    assert said.endswith(f"{SAID}.")


def test_sign_doubt_appears_in_text_terminal_html_and_display_dict(explainer, tmp_path):
    why, _, _ = explain_with_wrong_sign(explainer)
    terminal = StringIO()
    Console(file=terminal, width=400).print(why)
    html = why.to_html(tmp_path / "why.html", flows=False)
    for shown in (str(why), terminal.getvalue(), why._repr_html_(), html):
        assert SAID in shown
    assert why.to_display_dict()["warnings"][-1]["code"] == "sign"
    # What is kept in a file is what was explained; it has no model to ask.
    kept = whence.Explanation.load(why.save(tmp_path / "why.json"))
    assert kept.doubts == ()
    assert SAID not in str(kept)


def test_doubts_are_empty_where_leave_one_out_confirms_the_sign(explainer):
    why, _, _ = explain_with_wrong_sign(explainer)
    right = dataclasses.replace(why, scores=-why.scores)
    assert right.doubts == ()
    assert SAID not in str(right)


def test_doubts_of_a_contrast_and_of_another_target_state_the_change(explainer):
    why, _, _ = explain_with_wrong_sign(explainer, target=("positive", "negative"))
    ((_, said),) = why.doubts
    assert "the lead of positive over negative falls from" in said
    why, _, _ = explain_with_wrong_sign(explainer, target="negative")
    ((_, said),) = why.doubts
    assert "for negative (+0.005), but without it negative rises from" in said


def test_explain_makes_no_extra_pass_and_rendering_makes_only_one(explainer):
    runs = []
    hook = explainer.model.register_forward_hook(lambda *_: runs.append(1))
    try:
        why, _, _ = explain_with_wrong_sign(explainer)
        runs.clear()
        explainer.explain(TEXT, method="attcat")
        explained = len(runs)
        runs.clear()
        str(why), str(why), why._repr_html_()
        assert len(runs) == 1
        runs.clear()
        explainer.explain(TEXT, method="attcat").to_dict()
        assert len(runs) == explained
    finally:
        hook.remove()


def test_doubts_are_empty_for_unsigned_methods_leave_one_out_and_long_texts(explainer):
    assert explainer.explain(TEXT, method="rollout").doubts == ()
    assert explainer.explain(TEXT, method="leave_one_out").doubts == ()
    long, _, _ = explain_with_wrong_sign(explainer, " ".join([TEXT] * 8))
    assert len(long.spans) > 64
    assert long.doubts == ()


def test_doubts_are_empty_after_the_model_was_changed(explainer):
    other = whence.load("reviews")
    why, _, _ = explain_with_wrong_sign(other)
    other.model.classifier.bias.data[0] += 1.0
    assert why.doubts == ()


def test_command_line_and_app_give_the_same_sign_doubt_as_python(run, wide, explainer):
    texts = [
        "a waste of good actors", "not a bad film", "the plot is thin", "hardly a wonderful film",
        "it is not without charm", "too clever to be dull", "the best of a bad lot",
        "neither good nor bad", "less than the sum of its parts", "nothing here is boring",
    ]  # fmt: skip
    methods = ("attcat", "grad_x_input", "integrated_gradients")
    found = {
        (text, method): explainer.explain(text, method=method).doubts
        for text in texts
        for method in methods
    }
    text, method = next(key for key, doubts in found.items() if doubts)
    ((_, said),) = found[text, method]
    status, out, _ = run("explain", text, "--method", method)
    assert status == 0
    assert SAID in out
    status, out, _ = run("explain", text, "--method", "rollout", "--method", method, "--json")
    assert status == 0
    assert {"code": "sign", "message": said} in json.loads(out)["warnings"]
    app = create_app(Settings(models=("reviews",)))
    try:
        asked = {"input": {"model": "reviews", "text": text}, "methods": [method]}
        answer = ask(app, "POST", "/api/explain", json=asked).json()
        assert said in [one["message"] for one in answer["warnings"]]
    finally:
        assert app.state.app_state.close(10)
