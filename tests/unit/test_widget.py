"""Workbench in a notebook: answers, state and errors of the widget, without a browser."""

import builtins
import copy
import re
from typing import get_args

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.conftest import ROOT
from tests.unit.small_tokenizers import make_panicking_tokenizer
from whence.app.schema import (
    Explanations,
    Flow,
    Heads,
    InputComparison,
    Job,
    Session,
    TrustCard,
    Verification,
)
from whence.app.widget import DEFAULT_STATE, ViewState
from whence.core.errors import BadParameter, CannotRead, CannotServe

TEXT = "the plot is thin, but the actors are wonderful"
INPUT = {
    "model": "reviews",
    "text": TEXT,
    "pair": None,
    "target": None,
    "of": "logit",
    "truncate": True,
}
QUERY = {"layers": None, "heads": [], "tokens": [], "segments": [], "least": 0, "specials": True}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets.*")


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture
def bench(explainer):
    return whence.workbench(explainer, TEXT, method=["attcat", "rollout"])


def ask_widget(bench, ask, **what):
    """Put a question as the page would, through the widget's own door, and return all that it says."""
    said = []
    bench.send = lambda content, buffers=None: said.append((content, buffers))
    bench._handle_custom_msg({"id": "7", "ask": ask, "asked": what}, [])
    assert all(content["id"] == "7" for content, _ in said)
    return said


def get_answer(bench, ask, **what):
    *before, (last, _) = ask_widget(bench, ask, **what)
    for content, _ in before:
        assert Job.model_validate(content["job"]).state == "running"
    assert "error" not in last, last
    return last["answer"]


def get_error(bench, ask, **what):
    ((last, _),) = ask_widget(bench, ask, **what)
    assert set(last["error"]) == {"code", "message", "hint", "see"}
    return last["error"]


def test_workbench_answers_fit_the_schema_of_the_server(bench):
    session = Session.model_validate(get_answer(bench, "session"))
    assert (session.models[0].layers, session.models[0].heads) == (4, 4)
    told = Explanations.model_validate(
        get_answer(bench, "explain", input=INPUT, methods=["attcat", "gradient"])
    )
    assert [one.method for one in told.explanations] == ["attcat", "gradient"]
    Flow.model_validate(get_answer(bench, "flow", input=INPUT, weight="norm", query=QUERY))
    Heads.model_validate(get_answer(bench, "heads", input=INPUT, statistic="entropy"))
    Heads.model_validate(get_answer(bench, "heads", input=INPUT, statistic="ablation"))
    verified = get_answer(bench, "verify", input=INPUT, edges=[[3, 0, 0, 1]], draws=5, seed=0)
    assert Verification.model_validate(verified).edges == 1


def test_workbench_flow_and_tensors_equal_those_of_the_explainer(bench, explainer):
    inside = explainer.inside(TEXT)
    query = {**QUERY, "layers": [1, 3], "heads": [[2, 1]], "specials": False}
    own = inside.flow(
        "attention", query=whence.flow.EdgeQuery(layers=(1, 3), heads=((2, 1),), specials=False)
    )
    assert get_answer(bench, "flow", input=INPUT, query=query) == own
    ((said, buffers),) = ask_widget(
        bench, "tensors", input=INPUT, keys=["attention.2.1", "thumbnails"]
    )
    first, second = said["tensors"]
    assert (first["name"], first["dtype"], second["dtype"]) == ("attention.2.1", "float32", "uint8")
    sent = np.frombuffer(buffers[0], "<f4").reshape(first["shape"])
    assert np.array_equal(sent, inside.attention()[2, 1])


@pytest.mark.parametrize(
    "aim",
    [
        {"target": "positive"},
        {"target": "negative"},
        {"target": "positive:negative"},
        {"of": "probability"},
        {"pair": "good actors"},
    ],
)
def test_workbench_flow_is_computed_for_the_requested_target_and_pair(bench, explainer, aim):
    get_answer(
        bench, "flow", input=INPUT, weight="gradient_x_attention", query=QUERY
    )  # another one
    pair = aim.get("pair")
    own = explainer.inside(
        TEXT if pair is None else (TEXT, pair),
        target=aim.get("target"),
        of=aim.get("of", "logit"),
    ).flow("gradient_x_attention")
    asked_ = {**INPUT, **aim}
    found = get_answer(bench, "flow", input=asked_, weight="gradient_x_attention", query=QUERY)
    assert found == own


def swap_labels(explainer, longest):
    """The same model with its labels' outputs exchanged, and another longest input."""
    model = copy.deepcopy(explainer.model)
    with torch.no_grad():
        for parameter in (model.classifier.weight, model.classifier.bias):
            parameter.copy_(parameter.flip(0))
    tokenizer = copy.deepcopy(explainer.tokenizer)
    tokenizer.model_max_length = longest
    return whence.load(model, tokenizer=tokenizer)


def test_workbench_compare_cuts_both_models_alike_and_explains_one_class(explainer):
    other = swap_labels(explainer, 6)
    bench = whence.workbench(explainer, TEXT, against=other)
    a, b = bench.state["model"], bench.state["other"]
    found = InputComparison.model_validate(
        get_answer(bench, "compare", a=a, b=b, text=TEXT, query=QUERY, method="attcat")
    )
    assert len(found.tokens) == 6
    assert [len(one.word_scores) for one in found.explanations] == [len(found.words)] * 2
    first, second = (one.label for one in found.predictions)
    assert first != second
    assert [flow.target.label for flow in found.flows] == [second, second]
    # The whole text is still there.
    assert len(get_answer(bench, "flow", input=INPUT, query=QUERY)["tokens"]) > 6


def test_workbench_trust_reports_progress_before_the_card(bench):
    said = ask_widget(bench, "trust", input=INPUT, methods=["attcat"], budget=200)
    jobs = [content["job"] for content, _ in said[:-1]]
    assert jobs and all(job["done"] <= job["total"] for job in jobs)
    card = said[-1][0]["answer"]
    known = {name: card[name] for name in TrustCard.model_fields if name in card}
    assert TrustCard.model_validate(known).methods[0].method == "attcat"


def test_workbench_compare_of_equal_models_finds_no_difference(explainer):
    bench = whence.workbench("reviews", TEXT, against=explainer)
    assert bench.state["page"] == "compare"
    a, b = bench.state["model"], bench.state["other"]
    assert (a, b) == ("reviews", "reviews (2)")
    found = InputComparison.model_validate(
        get_answer(bench, "compare", a=a, b=b, text=TEXT, pair=None, target=None, weight="attention",
                 direction="back", token=None, query=QUERY, method="attcat", truncate=True)
    )  # fmt: skip
    # The same weights twice: nothing differs.
    assert max(max(row) for row in found.divergence) == 0
    assert found.difference.a == found.difference.b


def test_workbench_on_an_explanation_reuses_the_explanation(explainer):
    why = explainer.explain(TEXT, method="attcat", target="negative", params={})
    bench = whence.workbench(why)
    assert bench.state["target"] == "negative"
    assert bench.state["methods"] == ["attcat"]
    own = {**INPUT, "target": "negative"}
    told = get_answer(bench, "explain", input=own, methods=["attcat"])
    assert told["explanations"][0]["seconds"] == why.seconds
    assert told["target"]["label"] == "negative"


def test_workbench_opens_on_several_methods_of_a_pair_and_on_token_ids(explainer):
    pair = ("a good film", "a bad film")
    bench = whence.workbench(explainer.explain(pair, method=["attcat", "rollout"]))
    assert (bench.state["text"], bench.state["pair"]) == pair
    ids = [2, 40, 50, 3]
    bench = whence.workbench(whence.load(explainer.model).explain({"input_ids": [ids]}))
    own = {**INPUT, "model": bench.state["model"], "text": bench.state["text"]}
    flow = get_answer(bench, "flow", input=own, query=QUERY)
    assert [token["id"] for token in flow["tokens"]] == ids


def test_setting_part_of_workbench_state_leaves_the_rest_and_refuses_unknown_fields(bench):
    bench.state = {"view": "rings", "coverage": 0.8}
    assert (bench.state["view"], bench.state["coverage"], bench.state["text"]) == (
        "rings",
        0.8,
        TEXT,
    )
    with pytest.raises(BadParameter, match=r"The view has no 'vew'\. Did you mean 'view'"):
        bench.state = {"vew": "rings"}
    assert bench.state["view"] == "rings"
    assert bench.selection == {"tokens": [], "edges": [], "head": None}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"view": "ring"}, r"view must be one of ladder, .*\. Got 'ring'\. Did you mean 'rings'"),
        ({"coverage": 7}, r"coverage must be a share from 0 to 1, or None\. Got 7"),
        ({"coverage": True}, "Got True"),
        ({"least": float("nan")}, r"least must be a number of 0 or more\. Got nan"),
        ({"token": 1.0}, "token must be the number of a token"),
        ({"head": [1]}, "head must be a layer and a head"),
        ({"heads": [[0, 1], [2]]}, "heads must be a list of heads"),
        ({"segments": ["A>C"]}, "segments must be a list of A>A, A>B"),
        ({"text": None}, r"text must be a text\. Got None"),
        ({"words": 1}, "words must be True or False"),
        ({"methods": "attcat"}, "methods must be a list of methods"),
        ({"classic": {}}, "classic must be a threshold, a decay and a carry, or None"),
    ],
)
def test_workbench_state_with_an_invalid_value_raises_and_stays_unchanged(bench, change, said):
    before = dict(bench.state)
    with pytest.raises(BadParameter, match=said):
        bench.state = change
    assert bench.state == before


def test_workbench_state_accepts_valid_values_of_every_kind(bench):
    bench.state = {
        "view": "sankey",
        "coverage": 1,
        "layers": [0, 2],
        "heads": [[0, 1]],
        "head": (1, 2),
        "token": 3,
        "tokens": [1],
        "segments": ["A>B"],
        "classic": {"threshold": 0.1, "decay": 0.5, "carry": True},
        "pair": None,
        "target": "negative",
    }
    assert bench.state["head"] == (1, 2)
    bench.state = dict(DEFAULT_STATE)


def test_widget_choices_equal_those_of_the_web_page():
    source = (ROOT / "web" / "src" / "state" / "choices.ts").read_text()
    for name, record in (
        ("page", "PAGES"),
        ("view", "VIEWS"),
        ("weight", "WEIGHTS"),
        ("direction", "DIRECTIONS"),
        ("specials", "SPECIALS"),
        ("statistic", "STATISTICS"),
    ):
        body = (
            source[source.index(f"export const {record}:") :].partition("= {")[2].partition("}")[0]
        )
        assert tuple(re.findall(r"^  (\w+): ", body, re.MULTILINE)) == get_args(
            ViewState.model_fields[name].annotation
        )


def test_workbench_on_an_object_of_another_type_raises_bad_parameter():
    with pytest.raises(
        BadParameter, match=r"cannot be opened on '3' \(int\)\. Give an explanation"
    ):
        whence.workbench(3, TEXT)
    with pytest.raises(BadParameter, match=r"cannot be opened on '3' \(int\)"):
        whence.workbench("reviews", TEXT, against=3)


@pytest.mark.parametrize("base", ["reviews-base", "reviews"])
def test_comparison_workbench_renders_as_html_without_scripts(explainer, base):
    bench = whence.workbench(base, TEXT, against=explainer)
    names = "reviews-base and reviews" if base == "reviews-base" else "reviews and reviews (2)"
    assert repr(bench) == f"<Workbench {names} on {TEXT[:37]!r:.38}...'>"
    data, _ = bench._repr_mimebundle_()
    assert data["text/plain"] == repr(bench)
    html = data["text/html"]
    assert "<script" not in html
    assert TEXT in html
    assert ("has no classification head" in html) == (base == "reviews-base")
    assert html.count('class="strip"') == (1 if base == "reviews-base" else 2)
    found = get_answer(bench, "compare", a=bench.state["model"], b=bench.state["other"], text=TEXT,
                     pair=None, target=None, query=QUERY, method=None)  # fmt: skip
    if base == "reviews-base":
        most = max(found["layers"])
        assert f"in layer {found['layers'].index(most)}: {most:.3f} bits" in html
    else:
        assert "Both attend alike to the last bit." in html


def test_default_widget_state_equals_that_of_the_web_page():
    source = (ROOT / "web" / "src" / "state" / "state.ts").read_text()
    default = source[source.index("export const DEFAULT") :]
    fields = dict(re.findall(r"^  (\w+): (.+),$", default, re.MULTILINE))
    written = {"null": None, "true": True, "false": False, "[]": [], '["attcat"]': ["attcat"]}
    page = {
        name: written.get(value, value.strip('"') if value.startswith('"') else value)
        for name, value in fields.items()
    }
    assert {name: str(value) for name, value in page.items()} == {
        name: str(value) for name, value in DEFAULT_STATE.items()
    }


def test_workbench_errors_have_code_message_hint_and_link(bench, monkeypatch):
    assert get_error(bench, "nothing")["code"] == "bad-parameter"
    assert "has no model 'x'" in get_error(bench, "flow", input={**INPUT, "model": "x"})["message"]
    assert get_error(bench, "explain", input=INPUT, methods=["no_such"])["code"] == "unknown-method"
    assert get_error(bench, "flow", input={**INPUT, "text": " "})["code"] == "empty-text"
    broken = get_error(bench, "heads", statistic="entropy")  # a question without its input
    assert broken["code"] == "internal-error"

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench._session, "answer", interrupted)
    assert get_error(bench, "session")["code"] == "interrupted"


def test_workbench_explain_returns_the_other_methods_when_one_fails():
    model = whence.load(zoo.make("bilstm"), tokenizer=make_panicking_tokenizer())
    bench = whence.workbench(model, "a film", method="leave_one_out")
    given = {"model": bench.state["model"], "text": "a film"}
    told = get_answer(bench, "explain", input=given, methods=["leave_one_out", "attcat"])
    assert [one["method"] for one in told["explanations"]] == ["leave_one_out"]
    assert told["failed"][0]["method"] == "attcat"
    # An unknown method is an error of the request, as in the app.
    said = get_error(bench, "explain", input=given, methods=["leave_one_out", "no_such"])
    assert said["code"] == "unknown-method"
    assert "no_such" in said["message"]


def test_workbench_without_a_model_or_exactly_one_text_raises_with_the_reason(explainer, tmp_path):
    path = tmp_path / "e.json"
    explainer.explain("a film").save(path)
    with pytest.raises(CannotRead, match="came without its model"):
        whence.workbench(whence.Explanation.load(path))
    with pytest.raises(BadParameter, match="There is no text"):
        whence.workbench(explainer)
    with pytest.raises(BadParameter, match="Got 2: open one for each"):
        whence.workbench(explainer, ["a film", "another"])
    with pytest.raises(BadParameter, match="has its text already"):
        whence.workbench(explainer.explain("a film"), "another")


def test_workbench_without_anywidget_names_the_package_to_install(explainer, monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "whence.app.workbench", raising=False)
    plain = builtins.__import__

    def without(name, *rest, **named):
        if name == "anywidget":
            raise ImportError(name)
        return plain(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CannotServe, match=r"pip install 'whence\[notebook\]'"):
        whence.workbench(explainer, TEXT)


def test_workbench_mime_bundle_has_a_widget_view_and_html_without_scripts(bench):
    data, _ = bench._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"].startswith('<div class="whence">')
    assert "<script" not in data["text/html"]
