"""Warnings about pairs given to a model of single texts, in every output of every function."""

import json
import re
from io import StringIO

import pytest
from rich.console import Console

import whence
from tests.web.serving import ask
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.explain.inputs import InputWarning

SAID = "seems to be trained on single texts"
PAIR = ("a gripping film", "and a dull one")
ROWS = [{"text": one, "pair": two} for one, two in (PAIR, ("not bad at all", "a mess"))]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def print_to_text(shown):
    console = Console(width=500, record=True, file=StringIO())
    console.print(shown)
    return console.export_text()


def test_an_explanation_of_a_pair_by_a_model_of_texts_warns_on_every_surface(explainer):
    found = explainer.explain(PAIR)
    for surface in (
        str(found),
        print_to_text(found),
        found._repr_html_(),
        json.dumps(found.to_dict()),
    ):
        assert SAID in surface


def test_an_evaluation_of_pairs_by_a_model_of_texts_warns_on_every_surface(explainer):
    found = whence.evaluate(explainer, ROWS, "attcat", "comprehensiveness")
    surfaces = (
        str(found),
        print_to_text(found),
        found.to_html(),
        found.to_markdown(),
        found.to_latex(),
        " ".join(re.sub("<[^>]*>", " ", found.plot()).split()),
    )
    for surface in surfaces:
        assert f"2 of 2 examples: BertForSequenceClassification {SAID}" in surface
    (warning,) = found.to_dict()["examples"]["warnings"]
    assert warning["count"] == 2


def test_a_run_of_pairs_by_a_model_of_texts_warns_also_in_its_report(tmp_path):
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with pytest.warns(InputWarning, match=SAID):
        run = whence.run(model="reviews", data=str(data), methods="attcat", out=tmp_path / "out")
    report = run.report()
    for surface in (str(report), print_to_text(report), report.to_html(), report.to_markdown()):
        assert SAID in surface


def test_the_app_warns_of_a_pair_for_a_model_of_texts():
    app = create_app(Settings())
    try:
        given = {"model": "reviews", "text": PAIR[0], "pair": PAIR[1]}
        answer = ask(app, "POST", "/api/explain", json={"input": given, "methods": ["attcat"]})
        assert any(SAID in one["message"] for one in answer.json()["warnings"])
    finally:
        assert app.state.app_state.close(10)


def test_single_texts_for_a_model_of_texts_have_no_warning(explainer):
    found = whence.evaluate(explainer, ["a gripping film", "a mess"], "attcat", "comprehensiveness")
    assert found.to_dict()["examples"]["warnings"] == []
