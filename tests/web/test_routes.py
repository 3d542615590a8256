"""Every address gives what the library gives, in the documented shape."""

import json

import numpy as np
import pytest
from safetensors.numpy import load

from tests.web.serving import ask, begun, ended, refused
from whence import __version__
from whence.comparison import compare
from whence.core.errors import all_errors
from whence.flow import Query
from whence.web.app import create_app
from whence.web.errors import HINT
from whence.web.help import _plain
from whence.web.schema import compare as two
from whence.web.schema import explain as one
from whence.web.schema import flow as along
from whence.web.schema import session as there
from whence.web.settings import Settings

TEXT = "the plot is thin, but the actors are wonderful"
INPUT = {"model": "reviews", "text": TEXT}


def post(app, path, **body):
    answer = ask(app, "POST", path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_session_says_what_is_there(app, settings):
    said = there.Session.model_validate(ask(app, "GET", "/api/session").json())
    assert said.version == __version__
    assert [model.id for model in said.models] == ["reviews", "reviews-base", "decoy"]
    assert said.compare == ("reviews-base", "reviews")
    assert said.data[0].model_dump() == {
        "id": "films.tsv", "name": "films.tsv", "rows": 6, "text": "text", "pair": None,
        "label": "label", "guessed": ["text", "label"], "columns": ["text", "label"], "problem": None,
    }  # fmt: skip
    assert said.samples[0].text == TEXT
    assert not said.allow_load
    assert said.limits.upload == settings.upload
    health = ask(app, "GET", "/api/health").json()
    assert health == {"ok": True, "started": said.started}


def test_a_model_is_loaded_when_it_is_asked_for(app):
    entry = ask(app, "POST", "/api/models", json={"name": "decoy"}).json()
    assert (entry["state"], entry["error"]) == ("ready", None)
    assert entry["labels"] == ["negative", "positive"]
    assert entry["attention"] is None
    assert entry["layers"] >= 1
    assert entry["heads"] >= 1
    assert (entry["pairs"], entry["takes_pairs"]) == (False, True)
    listed = ask(app, "GET", "/api/session").json()["models"]
    assert entry in listed


def test_a_folder_is_found_by_its_short_name_and_by_its_path(tmp_path, explainer):
    folder = tmp_path / "films"
    explainer.model.save_pretrained(folder)
    explainer.tokenizer.save_pretrained(folder)
    app = create_app(Settings(models=(str(folder),)))
    try:
        (entry,) = ask(app, "GET", "/api/session").json()["models"]
        assert (entry["id"], entry["name"]) == ("films", "films")  # no path of this machine
        assert (entry["state"], entry["takes_pairs"]) == ("waiting", None)
        short, whole = (
            post(app, "/api/flow", input={**INPUT, "model": name})
            for name in ("films", str(folder))
        )
        assert short == whole
    finally:
        assert app.state.desk.close(10)


def test_explanations_are_those_of_the_library(app, explainer):
    found = post(app, "/api/explain", input=INPUT, methods=["attcat", "rollout", "attcat"])
    one.Explanations.model_validate(found)
    own = explainer.explain(TEXT, method=["attcat", "rollout"])
    for got, want in zip(found["explanations"], own.values(), strict=True):
        assert got["method"] == want.method
        assert got["scores"] == want.scores.tolist()  # bit for bit, as JSON writes doubles
    assert found["runner_up"] == "negative"
    assert found["failed"] == []
    (pair,) = found["agreement"]
    assert (pair["a"], pair["b"]) == ("attcat", "rollout")
    assert -1 <= pair["tau"] <= 1


def test_a_contrast_and_a_probability(app, explainer):
    given = {**INPUT, "target": "negative:positive", "of": "probability"}
    found = post(app, "/api/explain", input=given, methods=["grad_x_input"])
    own = explainer.explain(
        TEXT, method="grad_x_input", target=("negative", "positive"), of="probability"
    )
    assert found["explanations"][0]["scores"] == own.scores.tolist()
    assert found["target"]["against"]["label"] == "positive"


@pytest.mark.parametrize("weight", ["attention", "norm", "gradient_x_attention", "relevance"])
def test_a_flow_is_that_of_the_library(app, explainer, weight):
    body = {"input": INPUT, "weight": weight, "query": {"layers": [1, 3], "specials": False}}
    found = post(app, "/api/flow", **body, most=7)
    along.Flow.model_validate(found)
    query = Query(layers=(1, 3), specials=False)
    want = explainer.inside(TEXT).flow(weight, query=query, most=7)
    assert found == json.loads(json.dumps(want))
    assert len(found["edges"]["flow"]) == 7


def test_flow_forward_through_a_token_and_the_classic_one(app, explainer):
    for direction in ("forward", "through"):
        found = post(app, "/api/flow", input=INPUT, direction=direction, token=2)
        want = explainer.inside(TEXT).flow(direction=direction, token=2)
        assert found["shares"] == want["shares"]
    classic = post(app, "/api/flow", input=INPUT, classic={"threshold": 0.3})
    assert classic["influence"]["threshold"] == 0.3


@pytest.mark.parametrize("statistic", ["entropy", "special", "gradient"])
def test_heads(app, explainer, statistic):
    found = post(app, "/api/heads", input=INPUT, statistic=statistic)
    assert found["values"] == explainer.inside(TEXT).head_values(statistic).tolist()


def test_tensors_are_safetensors(app, explainer):
    answer = ask(
        app,
        "POST",
        "/api/tensors",
        json={"input": INPUT, "keys": ["attention.1.2", "thumbnails"]},
    )
    assert answer.headers["content-type"] == "application/octet-stream"
    found = load(answer.content)
    maps = explainer.inside(TEXT).attention()
    assert np.array_equal(found["attention.1.2"], maps[1, 2])
    assert found["attention.1.2"].dtype == np.float32
    assert found["thumbnails"].dtype == np.uint8
    assert found["thumbnails"].shape[:2] == maps.shape[:2]


def test_two_models_on_one_input(app):
    found = post(app, "/api/compare", a="reviews-base", b="reviews", text=TEXT, method="attcat")
    two.Compared.model_validate(found)
    assert found["a"]["name"] == "reviews-base"
    assert found["predictions"][0] is None
    assert found["explanations"][0] is None
    assert found["explanations"][1]["method"] == "attcat"
    assert max(map(max, found["divergence"])) > 0


def test_a_model_and_itself_are_the_same(app):
    found = post(app, "/api/compare", a="reviews", b="reviews", text=TEXT)
    assert found["flows"][0] == found["flows"][1]
    assert max(map(max, found["divergence"])) == 0


def test_a_trust_card(app, explainer):
    job = begun(app, "/api/jobs/trust", {"input": INPUT, "methods": ["attcat"], "budget": 300})
    assert (job["kind"], job["model"], job["error"]) == ("trust", "reviews", None)
    found = ended(app, job)
    assert found["state"] == "done", found
    assert found["done"] == found["total"] > 0
    card = explainer.trust(TEXT, method="attcat", budget=300).to_dict()
    assert found["result"]["sentence"] == card["sentence"]
    assert found["result"]["methods"][0]["tests"] == json.loads(
        json.dumps(card["methods"][0]["tests"])
    )


def test_a_path_is_verified(app, explainer):
    edges = [[3, 0, 0, 1], [2, 1, 0, 2]]
    found = ended(app, begun(app, "/api/jobs/verify", {"input": INPUT, "edges": edges, "draws": 5}))
    assert found["state"] == "done", found
    want = explainer.inside(TEXT).verify([tuple(edge) for edge in edges], draws=5)
    assert found["result"] == json.loads(json.dumps(want))


def test_the_ablation_of_heads_is_a_job(app, explainer):
    found = ended(app, begun(app, "/api/jobs/heads", {"input": INPUT, "statistic": "ablation"}))
    assert found["state"] == "done", found
    want = explainer.inside(TEXT).head_values("ablation")
    assert np.array_equal(np.array(found["result"]["values"]), want)


def test_predictions_of_a_data_set(app):
    found = ended(app, begun(app, "/api/jobs/predict/films.tsv", {"model": "reviews"}))
    assert found["state"] == "done", found
    assert [row["number"] for row in found["result"]["rows"]] == [0, 1, 2, 3, 4, 5]
    assert found["result"]["accuracy"]["n"] == 6


def test_words_and_habits_of_a_data_set(app):
    words = ended(app, begun(app, "/api/jobs/words/films.tsv", {"model": "reviews", "least": 1}))
    assert words["state"] == "done", words
    assert {one["label"] for one in words["result"]["classes"]} == {"negative", "positive"}
    habits = ended(app, begun(app, "/api/jobs/habits/films.tsv", {"model": "reviews"}))
    assert habits["state"] == "done", habits
    assert habits["result"]["used"] == 6


def test_two_models_over_a_data_set(app, data_file):
    body = {
        "a": "reviews-base",
        "b": "reviews",
        "data": "films.tsv",
        "limit": 5,
        "method": "attcat",
    }
    found = ended(app, begun(app, "/api/jobs/compare", body))
    assert found["state"] == "done", found
    want = compare("reviews-base", "reviews", data_file, limit=5).to_dict()
    got = found["result"]
    assert got["heads"] == json.loads(json.dumps(want["heads"]))
    assert got["overlap"] == json.loads(json.dumps(want["overlap"]))
    # The other way round, by the same two threads.
    other = ended(
        app, begun(app, "/api/jobs/compare", {**body, "a": "reviews", "b": "reviews-base"})
    )
    assert other["result"]["a"]["name"] == "reviews"


def test_every_card_is_there(app):
    cards = there.Help.model_validate(ask(app, "GET", "/api/help").json()).cards
    names = {(card.kind, card.name) for card in cards}
    assert len(names) == len(cards)
    assert {("method", "attcat"), ("metric", "aopc"), ("weight", "value_zeroing")} <= names
    assert {card.kind for card in cards} == {"method", "metric", "experiment", "weight"}
    assert all(card.facts["misleads_when"] and card.facts["cite"] for card in cards)


def test_facts_are_as_json_has_them():
    facts = {"range": (0, float("inf")), "needs": {"b", "a"}, "signed": True}
    assert _plain(facts) == {"range": [0, None], "needs": ["a", "b"], "signed": True}


def test_the_page_and_its_parts(app):
    page = ask(app, "GET", "/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    script = ask(app, "GET", "/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    known = {"if-none-match": script.headers["etag"]}
    assert ask(app, "GET", "/app.js", headers=known).status_code == 304
    for path in ("/../app.py", "/..%2fapp.py", "/app.py", "/static/app.js", "/nothing.js"):
        refused(ask(app, "GET", path), 404, "not-found")


def test_every_error_has_a_next_step():
    of_runs = {
        "bad-plan",
        "store-in-use",
        "workers-failed",
        "nothing-explained",
    }  # the app only reads
    unhinted = {error.code for error in all_errors()} - HINT.keys()
    assert unhinted <= {"bad-method", "cannot-serve", *of_runs}
