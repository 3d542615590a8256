"""Explanation: fields, saving and loading, JSON, and output as HTML, terminal and text."""

import dataclasses
import json
from html.parser import HTMLParser
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import whence
from tests import zoo
from tests.unit.small_tokenizers import wordpiece
from whence.core.errors import CannotRead, CannotWrite
from whence.explain.explanation import Explanation
from whence.explain.page import read_front_end_file

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def explainer():
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    model.config.id2label = {0: "bad", 1: "so-so", 2: "good"}
    return whence.load(model.double(), tokenizer=wordpiece())


@pytest.fixture(scope="module")
def explanation(explainer):
    return explainer.explain("a gripping, beautifully acted film")


def test_explain_fills_method_params_prediction_target_passes_and_provenance(
    explainer, explanation
):
    e = explanation
    assert e.method == "attcat"
    assert e.params == {"layer": None, "absolute": False}
    assert len(e.scores) == len(e.tokens)
    assert sum(e.prediction.probabilities.values()) == pytest.approx(1)
    assert e.prediction.probability == max(e.prediction.probabilities.values())
    assert e.target.label == e.prediction.label
    assert (e.passes.forward, e.passes.backward) == (1, 1)
    assert e.model["fingerprint"].startswith("blake2b:")
    assert {"torch", "transformers", "whence", "dtype", "device"} <= set(e.provenance)


def test_word_scores_are_sums_of_token_scores_and_top_sorts_by_magnitude(explanation):
    words = explanation.words()
    assert [w.text for w in words] == ["a", "gripping", ",", "beautifully", "acted", "film"]
    assert sum(w.score for w in words) == pytest.approx(explanation.scores[1:-1].sum())
    for word in words:
        assert word.score == pytest.approx(explanation.scores[list(word.tokens)].sum())
    top = explanation.top(3)
    assert [abs(w.score) for w in top] == sorted((abs(w.score) for w in words), reverse=True)[:3]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_explanation_saved_and_loaded_is_equal_bit_for_bit(tmp_path, explanation, dtype):
    e = dataclasses.replace(explanation, scores=explanation.scores.astype(dtype))
    path = e.save(tmp_path / "e.json")
    back = Explanation.load(path)
    assert back.scores.dtype == e.scores.dtype
    assert (back.scores == e.scores).all()
    assert back.to_dict() == e.to_dict()
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]


def test_explanation_of_a_contrast_keeps_the_target_when_saved_and_loaded(tmp_path, explainer):
    e = explainer.explain("a film", target=("good", "bad"))
    back = Explanation.load(e.save(tmp_path / "e.json"))
    assert back.target == e.target
    assert str(back.target) == "good rather than bad"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9}', '{"version": 1}', '{"version": 1, "explanations": 3}']
)
def test_load_of_a_file_without_an_explanation_raises_cannot_read(tmp_path, text):
    path = tmp_path / "e.json"
    path.write_text(text)
    with pytest.raises(CannotRead):
        Explanation.load(path)


def test_load_and_save_at_missing_paths_raise_cannot_read_and_cannot_write(tmp_path, explanation):
    with pytest.raises(CannotRead, match="No such file"):
        Explanation.load(tmp_path / "none.json")
    for write in (explanation.save, explanation.to_html):
        with pytest.raises(CannotWrite, match=r"Cannot write .*none/e"):
            write(tmp_path / "none" / "e.json")


def test_to_dict_of_an_explanation_has_the_documented_json_keys(explanation):
    payload = json.loads(json.dumps(explanation.to_dict()))
    assert payload["version"] == 1
    assert payload["input"]["text"] == "a gripping, beautifully acted film"
    assert payload["input"]["pair"] is None
    assert {"text", "start", "end", "segment", "special"} <= set(payload["tokens"][0])
    assert {"text", "start", "end", "segment", "tokens"} <= set(payload["words"][0])
    assert {"label", "index", "probability", "probabilities"} <= set(payload["prediction"])
    assert {"label", "index"} <= set(payload["target"])
    (one,) = payload["explanations"]
    keys = {"method", "params", "signed", "scores", "word_scores", "axioms", "passes", "seconds"}
    assert keys <= set(one)
    assert one["scores"] == explanation.scores.tolist()


def visible_text(page):
    parts = []
    parser = HTMLParser()
    parser.handle_data = parts.append
    parser.feed(page)
    return "".join(parts)


def test_to_html_escapes_markup_in_the_text_and_loads_nothing_from_the_network(tmp_path, explainer):
    e = explainer.explain(f"a film {EVIL} acted")
    text = e.to_html(tmp_path / "e.html")
    assert (tmp_path / "e.html").read_text() == text
    own = text.replace(
        read_front_end_file("embed.js"), ""
    )  # the program is whence's, and the same in every page
    assert "<img" not in own
    assert own.lower().count("<script") == 2  # for the data and for the program
    assert EVIL in visible_text(own)
    assert "http" not in own.replace("http-equiv", "")
    assert "<img" not in e._repr_html_()


def test_to_html_escapes_markup_in_labels_params_and_provenance(explanation):
    evil = dataclasses.replace(
        explanation,
        model={**explanation.model, "name": EVIL},
        target=dataclasses.replace(explanation.target, label=EVIL),
        prediction=dataclasses.replace(
            explanation.prediction, label=EVIL, probabilities={EVIL: 1.0}
        ),
        params={"x": EVIL},
        provenance={EVIL: EVIL},
    )
    assert "<img" not in evil.to_html().replace(read_front_end_file("embed.js"), "")


def test_explanation_prints_words_and_prediction_in_terminal_notebook_and_text(explanation):
    console = Console(record=True, width=100, file=StringIO())
    console.print(explanation)
    shown = console.export_text()
    assert "beautifully" in shown
    assert explanation.prediction.label in shown
    assert "beautifully" in str(explanation)
    assert repr(explanation).startswith("<Explanation attcat of")
    assert explanation._repr_html_().startswith('<div class="whence">')


def test_control_characters_in_the_text_do_not_reach_the_terminal(explainer):
    e = explainer.explain("film \x1b[2J\x1b[31m acted \x07 a")
    console = Console(record=True, width=100, force_terminal=False, file=StringIO())
    console.print(e)
    for shown in (console.export_text(styles=False), str(e)):
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_rich_markup_in_the_text_is_printed_as_plain_text(explainer):
    e = explainer.explain("a [bold]film[/bold] acted [/nonsense]")
    console = Console(record=True, width=100, file=StringIO())
    console.print(e)
    assert "[bold]film[/bold]" in console.export_text()


def test_explain_returns_one_or_several_as_inputs_and_methods_are_given(explainer):
    one = explainer.explain(("the film", "acted"))
    assert isinstance(one, Explanation)
    assert one.source.pair == "acted"
    many = explainer.explain(["a film", ("the film", "acted"), "beautifully acted film"])
    assert [e.source.text for e in many] == ["a film", "the film", "beautifully acted film"]
    named = explainer.explain("a film", method=["gradient", "rollout"])
    assert list(named.keys()) == [e.method for e in named] == ["gradient", "rollout"]
    assert explainer.explain([]) == []
    both = explainer.explain(["a film", "acted"], method=["gradient"])
    assert [[*e.keys()] for e in both] == [["gradient"], ["gradient"]]


def test_explain_params_by_method_name_or_dotted_name_reach_their_method(explainer):
    found = explainer.explain(
        "a film", method=["rollout", "cat"], params={"rollout": {"residual": 0.2}, "layer": 1}
    )
    assert found["rollout"].params["residual"] == 0.2
    assert found["cat"].params["layer"] == 1
    dotted = explainer.explain(
        "a film", method=["rollout", "cat"], params={"rollout.residual": 0.2}
    )
    assert (dotted["rollout"].scores == found["rollout"].scores).all()
    with pytest.raises(whence.WhenceError, match="None of the methods has a parameter 'x'"):
        explainer.explain("a film", method=["rollout", "cat"], params={"x": 1})


def test_rollout_explanation_reports_the_axiom_sums_to_one(explainer):
    found = explainer.explain("a film", method="rollout")
    assert abs(found.axioms["sums_to_one"]) < 1e-12
    assert np.isclose(found.scores.sum(), 1)


def test_explain_progress_never_falls_and_ends_at_its_total(explainer):
    seen = []
    explainer.explain(
        ["a film", "the film acted"],
        method=["attcat", "leave_one_out"],
        progress=lambda d, t: seen.append((d, t)),
    )
    assert seen[-1][0] == seen[-1][1]
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["tokens"][1].update(start="<img src=x onerror=alert(1)>"),
        lambda d: d["explanations"][0]["passes"].update(forward="<script>1</script>"),
        lambda d: d["explanations"][0]["scores"].pop(),
        lambda d: d["words"][0].update(tokens=[99]),
        lambda d: d["explanations"][0].update(dtype="U8"),
        lambda d: d["prediction"].update(probabilities={"x": "<img>"}),
        lambda d: d.update(target=3),
    ],
)
def test_load_of_a_tampered_explanation_file_raises_cannot_read(tmp_path, explanation, change):
    payload = json.loads(json.dumps(explanation.to_dict()))
    change(payload)
    (tmp_path / "e.json").write_text(json.dumps(payload))
    with pytest.raises(CannotRead):
        Explanation.load(tmp_path / "e.json")


def test_load_ignores_unknown_fields_of_a_later_version(tmp_path, explanation):
    payload = json.loads(json.dumps(explanation.to_dict()))
    payload["tokens"][0]["colour"] = payload["prediction"]["mood"] = payload["new"] = "x"
    (tmp_path / "e.json").write_text(json.dumps(payload))
    assert Explanation.load(tmp_path / "e.json").to_dict() == explanation.to_dict()


def test_control_characters_in_labels_and_names_do_not_reach_the_terminal(explanation):
    evil = "\x1b]0;gotcha\x07"
    e = dataclasses.replace(
        explanation,
        model={**explanation.model, "name": evil},
        target=dataclasses.replace(explanation.target, label=evil, index=2),
        prediction=dataclasses.replace(explanation.prediction, label=evil),
    )
    console = Console(record=True, width=100, file=StringIO())
    console.print(e)
    for shown in (console.export_text(styles=False), str(e)):
        assert "\x1b" not in shown
        assert "\x07" not in shown
