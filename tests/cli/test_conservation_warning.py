"""Warning that scores miss the output by more than its size: given in text, HTML, files, commands and app."""

import json
from io import StringIO

import pytest
from rich.console import Console

import whence
from tests.web.serving import ask
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.explain.word_scores import describe_conservation_failure

TEXT = "the plot is thin, but the actors are wonderful"
NONE = "full_lrp: this is no explanation of the logit"


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def blown(explainer):
    why = explainer.explain(TEXT, method="full_lrp")
    output = why.prediction.logits[why.target.index]
    assert abs(why.scores.sum() - output) > 10 * abs(output)  # what 0.1 showed without a word
    return why


def test_full_lrp_with_scores_far_from_the_output_warns_not_conserved(blown):
    (code, sentence), *others = blown.warnings
    assert code == "not-conserved"
    assert not others
    assert NONE in sentence
    assert f"{blown.prediction.logits[blown.target.index]:.3g}" in sentence
    assert f"{blown.scores.sum():.3g}" in sentence


def test_conservation_warning_appears_in_text_html_files_and_command_line(
    blown, run, wide, tmp_path
):
    terminal = StringIO()
    Console(file=terminal, width=400).print(blown)
    html = blown.to_html(tmp_path / "why.html")
    for shown in (str(blown), terminal.getvalue(), blown._repr_html_(), html):
        assert NONE in shown
    assert NONE in str(whence.Explanation.load(blown.save(tmp_path / "why.json")))
    status, out, _ = run("explain", TEXT, "--method", "full_lrp")
    assert status == 0
    assert NONE in out
    # Also as one of several, and not the first.
    status, out, _ = run("explain", TEXT, "--method", "attcat", "--method", "full_lrp", "--json")
    assert status == 0
    (warning,) = json.loads(out)["warnings"]
    assert warning["code"] == "not-conserved"
    assert NONE in warning["message"]


def test_app_explain_answer_has_the_conservation_warning_once():
    app = create_app(Settings(models=("reviews",)))
    try:
        asked = {"input": {"model": "reviews", "text": TEXT}, "methods": ["attcat", "full_lrp"]}
        found = ask(app, "POST", "/api/explain", json=asked).json()
        assert [NONE in one["message"] for one in found["warnings"]].count(True) == 1
    finally:
        assert app.state.app_state.close(10)


def test_methods_whose_scores_add_up_have_no_warnings(explainer):
    for method in ("integrated_gradients", "decompx", "transformer_attribution", "attcat"):
        assert explainer.explain(TEXT, method=method).warnings == ()


def test_stored_explanation_prints_the_conservation_warning(run, tmp_path):
    from whence.explain.report import build_document
    from whence.runs.results import Run

    table = tmp_path / "texts.tsv"
    table.write_text(f"text\tlabel\n{TEXT}\tpositive\n", encoding="utf-8")
    status, _, err = run(
        *("run", "--model", "reviews", "--data", table, "--methods", "full_lrp"),
        *("--out", tmp_path / "store"),
    )
    assert status == 0, err
    payload = Run(tmp_path / "store").explanation(0, "full_lrp")
    assert "this is no explanation" in build_document([payload]).to_text()


@pytest.mark.parametrize(
    ("scores", "axioms", "output", "said"),
    [
        ([3.0, 2.0], {"conservation": 2.9}, 2.1, True),  # 5 of 2.1
        ([3.0, 1.0], {"conservation": 1.9}, 2.1, False),  # 4 of 2.1: off by less than it
        ([-1.0, -2.0], {"completeness": -5.0}, 2.0, True),
        ([9e4, 8e3], {"conservation.layer0": 9.8e4, "conservation.layer1": 3.0}, 2.0, True),
        ([0.6, 0.4], {"conservation.layer0": 1e-7}, 0.1, False),  # kept, and no share of the output
        (
            [0.5, 0.3],
            {"conservation.layer0": 900.0},
            2.0,
            False,
        ),  # the scores themselves are not off
        ([1.0, -1.0], {"conservation": 1e-7}, 1e-9, False),  # rounding
        ([50.0, 60.0], {}, 2.0, False),  # nothing was promised
    ],
)
def test_describe_conservation_failure_reports_only_misses_above_the_output(
    scores, axioms, output, said
):
    assert (
        describe_conservation_failure("any", scores, axioms, output, "logit") is not None
    ) == said
