"""Every result is a `Result`: kind, version and data, to and from JSON, and shown alike on every surface."""

import json
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

import whence
from tests.conftest import ROOT
from tests.snapshots import models
from whence.core.result import Result

ROWS = [
    {"text": "a gripping film", "label": "positive"},
    {"text": "a dull and slow film", "label": "negative"},
    {"text": "not a bad film at all", "label": "positive"},
    {"text": "the plot is thin and slow", "label": "negative"},
]
KINDS = (
    "explanation", "explanations", "generation", "trust card", "evaluation", "recommendation", "comparison", "audit",
    "run",
)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    explainer = whence.load("reviews")
    data = folder / "films.tsv"
    lines = "".join(f"{row['text']}\t{row['label']}\n" for row in ROWS)
    data.write_text(f"text\tlabel\n{lines}")
    run = whence.run(model="reviews", data=str(data), methods="attcat", out=folder / "run")
    made = (
        explainer.explain("a gripping film", method="attcat"),
        explainer.explain(["a gripping film", "dull"], method=["attcat", "rollout"]),
        models.model("gpt").generate("the film is", 3, method="attcat"),
        explainer.trust("a gripping film", method="attcat", budget=200),
        whence.evaluate(explainer, ROWS, ["attcat", "rollout"], ["comprehensiveness"]),
        whence.recommend(explainer, ROWS, budget=400, methods=["attcat", "rollout"]),
        whence.compare(explainer, whence.load("reviews"), ROWS[:2]),
        whence.audit(explainer, ROWS, experiments=["permutation"]),
        run.report(),
    )
    return dict(zip(KINDS, made, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_a_kind_a_version_and_data_and_comes_back_from_json(results, kind, tmp_path):
    result = results[kind]
    assert isinstance(result, Result)
    assert result.kind == kind and result.version == result.data["version"]
    payload = result.to_dict()
    assert payload == dict(result.data)
    path = result.save(tmp_path / "result.json")
    assert json.loads(path.read_text()) == json.loads(json.dumps(payload))
    for again in (type(result).load(path), type(result).from_dict(json.loads(path.read_text()))):
        assert json.dumps(again.to_dict()) == json.dumps(payload)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_shows_itself_on_every_surface(results, kind, tmp_path):
    result = results[kind]
    shown = Console(file=StringIO(), record=True, width=300)
    shown.print(result)
    page, markdown, cell = result.to_html(), result.to_markdown(), result._repr_html_()
    assert page.startswith("<!") and "<html" in page
    assert "<html" not in cell and "<script" not in cell
    for surface in (str(result), shown.export_text(), markdown, cell):
        assert "attcat" in surface or kind in ("comparison", "audit")
        assert len(surface) > 40
    assert (tmp_path / "result.html") == result.save(tmp_path / "result.html")
    assert result.save(tmp_path / "result.md").read_text() == markdown


def test_calls_of_explain_have_the_types_that_their_arguments_say():
    """One input by one method is an `Explanation`, several of either are `Explanations`, and nothing is `Any`."""
    pytest.importorskip("mypy")
    calls = ROOT / "tests" / "typing" / "explain_calls.py"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(calls)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
