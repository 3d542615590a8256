"""Endpoints and jobs of the server: results equal the library's, in the documented schema; static files."""

import json

import numpy as np
import pytest
from safetensors.numpy import load

from tests.web.serving import ask, assert_error, begin_job, wait_for_job
from whence._version import __version__
from whence.app import schema
from whence.app.answers import _to_json
from whence.app.error_responses import HINTS
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import list_errors
from whence.flow.graph import EdgeQuery
from whence.studies.compare.compare import compare

TEXT = "the plot is thin, but the actors are wonderful"
INPUT = {"model": "reviews", "text": TEXT}


def post(app, path, **body):
    answer = ask(app, "POST", path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_session_endpoint_lists_models_data_samples_and_limits(app, settings):
    said = schema.Session.model_validate(ask(app, "GET", "/api/session").json())
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


def test_models_endpoint_loads_a_model_and_describes_the_entry(app):
    entry = ask(app, "POST", "/api/models", json={"name": "decoy"}).json()
    assert (entry["state"], entry["error"]) == ("ready", None)
    assert entry["labels"] == ["negative", "positive"]
    assert entry["attention"] is None
    assert entry["layers"] >= 1
    assert entry["heads"] >= 1
    assert (entry["pairs"], entry["takes_pairs"]) == (False, True)
    listed = ask(app, "GET", "/api/session").json()["models"]
    assert entry in listed


def test_model_folder_is_found_by_short_name_and_by_path(tmp_path, explainer):
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
        assert app.state.app_state.close(10)


def test_explain_endpoint_equals_the_explanations_of_the_library(app, explainer):
    found = post(app, "/api/explain", input=INPUT, methods=["attcat", "rollout", "attcat"])
    schema.Explanations.model_validate(found)
    own = explainer.explain(TEXT, method=["attcat", "rollout"])
    for got, want in zip(found["explanations"], own.values(), strict=True):
        assert got["method"] == want.method
        assert got["scores"] == want.scores.tolist()  # bit for bit, as JSON writes doubles
    assert found["runner_up"] == "negative"
    assert found["failed"] == []
    (pair,) = found["agreement"]
    assert (pair["a"], pair["b"]) == ("attcat", "rollout")
    assert -1 <= pair["tau"] <= 1


def test_explain_endpoint_of_a_contrast_of_probabilities_equals_the_library(app, explainer):
    given = {**INPUT, "target": "negative:positive", "of": "probability"}
    found = post(app, "/api/explain", input=given, methods=["grad_x_input"])
    own = explainer.explain(
        TEXT, method="grad_x_input", target=("negative", "positive"), of="probability"
    )
    assert found["explanations"][0]["scores"] == own.scores.tolist()
    assert found["target"]["against"]["label"] == "positive"


@pytest.mark.parametrize("weight", ["attention", "norm", "gradient_x_attention", "relevance"])
def test_flow_endpoint_equals_the_flow_of_the_library(app, explainer, weight):
    body = {"input": INPUT, "weight": weight, "query": {"layers": [1, 3], "specials": False}}
    found = post(app, "/api/flow", **body, most=7)
    schema.Flow.model_validate(found)
    query = EdgeQuery(layers=(1, 3), specials=False)
    want = explainer.inside(TEXT).flow(weight, query=query, most=7)
    assert found == json.loads(json.dumps(want))
    assert len(found["edges"]["flow"]) == 7


def test_flow_endpoint_takes_a_direction_a_token_and_the_classic_threshold(app, explainer):
    for direction in ("forward", "through"):
        found = post(app, "/api/flow", input=INPUT, direction=direction, token=2)
        want = explainer.inside(TEXT).flow(direction=direction, token=2)
        assert found["shares"] == want["shares"]
    classic = post(app, "/api/flow", input=INPUT, classic={"threshold": 0.3})
    assert classic["influence"]["threshold"] == 0.3


@pytest.mark.parametrize("statistic", ["entropy", "special", "gradient"])
def test_heads_endpoint_equals_the_head_values_of_the_library(app, explainer, statistic):
    found = post(app, "/api/heads", input=INPUT, statistic=statistic)
    assert found["values"] == explainer.inside(TEXT).head_values(statistic).tolist()


def test_tensors_endpoint_returns_attention_and_thumbnails_as_safetensors(app, explainer):
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


def test_compare_endpoint_with_a_base_model_explains_only_the_other_model(app):
    found = post(app, "/api/compare", a="reviews-base", b="reviews", text=TEXT, method="attcat")
    schema.InputComparison.model_validate(found)
    assert found["a"]["name"] == "reviews-base"
    assert found["predictions"][0] is None
    assert found["explanations"][0] is None
    assert found["explanations"][1]["method"] == "attcat"
    assert max(map(max, found["divergence"])) > 0


def test_compare_endpoint_of_a_model_with_itself_finds_no_difference(app):
    found = post(app, "/api/compare", a="reviews", b="reviews", text=TEXT)
    assert found["flows"][0] == found["flows"][1]
    assert max(map(max, found["divergence"])) == 0


def test_trust_job_equals_the_trust_card_of_the_library(app, explainer):
    job = begin_job(app, "/api/jobs/trust", {"input": INPUT, "methods": ["attcat"], "budget": 300})
    assert (job["kind"], job["model"], job["error"]) == ("trust", "reviews", None)
    found = wait_for_job(app, job)
    assert found["state"] == "done", found
    assert found["done"] == found["total"] > 0
    card = explainer.trust(TEXT, method="attcat", budget=300).to_dict()
    assert found["result"]["sentence"] == card["sentence"]
    assert found["result"]["methods"][0]["tests"] == json.loads(
        json.dumps(card["methods"][0]["tests"])
    )


def test_verify_job_equals_the_verification_of_the_library(app, explainer):
    edges = [[3, 0, 0, 1], [2, 1, 0, 2]]
    found = wait_for_job(
        app, begin_job(app, "/api/jobs/verify", {"input": INPUT, "edges": edges, "draws": 5})
    )
    assert found["state"] == "done", found
    want = explainer.inside(TEXT).verify([tuple(edge) for edge in edges], draws=5)
    assert found["result"] == json.loads(json.dumps(want))


def test_heads_job_equals_the_ablation_values_of_the_library(app, explainer):
    found = wait_for_job(
        app, begin_job(app, "/api/jobs/heads", {"input": INPUT, "statistic": "ablation"})
    )
    assert found["state"] == "done", found
    want = explainer.inside(TEXT).head_values("ablation")
    assert np.array_equal(np.array(found["result"]["values"]), want)


def test_predict_job_returns_every_row_and_an_accuracy(app):
    found = wait_for_job(app, begin_job(app, "/api/jobs/predict/films.tsv", {"model": "reviews"}))
    assert found["state"] == "done", found
    assert [row["number"] for row in found["result"]["rows"]] == [0, 1, 2, 3, 4, 5]
    assert found["result"]["accuracy"]["n"] == 6


def test_words_and_habits_jobs_summarise_the_data_set(app):
    words = wait_for_job(
        app, begin_job(app, "/api/jobs/words/films.tsv", {"model": "reviews", "least": 1})
    )
    assert words["state"] == "done", words
    assert {one["label"] for one in words["result"]["classes"]} == {"negative", "positive"}
    habits = wait_for_job(app, begin_job(app, "/api/jobs/habits/films.tsv", {"model": "reviews"}))
    assert habits["state"] == "done", habits
    assert habits["result"]["used"] == 6


def test_compare_job_over_a_data_set_equals_compare_of_the_library(app, data_file):
    body = {
        "a": "reviews-base",
        "b": "reviews",
        "data": "films.tsv",
        "limit": 5,
        "method": "attcat",
    }
    found = wait_for_job(app, begin_job(app, "/api/jobs/compare", body))
    assert found["state"] == "done", found
    want = compare("reviews-base", "reviews", data_file, limit=5).to_dict()
    got = found["result"]
    assert got["heads"] == json.loads(json.dumps(want["heads"]))
    assert got["overlap"] == json.loads(json.dumps(want["overlap"]))
    # The other way round, by the same two threads.
    other = wait_for_job(
        app, begin_job(app, "/api/jobs/compare", {**body, "a": "reviews", "b": "reviews-base"})
    )
    assert other["result"]["a"]["name"] == "reviews"


def test_help_endpoint_has_cards_of_methods_metrics_experiments_and_weights(app):
    cards = schema.Help.model_validate(ask(app, "GET", "/api/help").json()).cards
    names = {(card.kind, card.name) for card in cards}
    assert len(names) == len(cards)
    assert {("method", "attcat"), ("metric", "aopc"), ("weight", "value_zeroing")} <= names
    assert {card.kind for card in cards} == {"method", "metric", "experiment", "weight"}
    assert all(card.facts["misleads_when"] and card.facts["cite"] for card in cards)


def test_to_json_turns_infinity_into_null_and_sets_into_sorted_lists():
    facts = {"range": (0, float("inf")), "needs": {"b", "a"}, "signed": True}
    assert _to_json(facts) == {"range": [0, None], "needs": ["a", "b"], "signed": True}


def test_page_and_script_are_served_with_etag_and_other_files_are_not_found(app):
    page = ask(app, "GET", "/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    script = ask(app, "GET", "/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    known = {"if-none-match": script.headers["etag"]}
    assert ask(app, "GET", "/app.js", headers=known).status_code == 304
    for path in ("/../app.py", "/..%2fapp.py", "/app.py", "/static/app.js", "/nothing.js"):
        assert_error(ask(app, "GET", path), 404, "not-found")


def test_every_error_code_that_the_app_can_return_has_a_hint():
    of_runs = {
        "bad-plan",
        "store-in-use",
        "workers-failed",
        "nothing-explained",
    }  # the app only reads
    unhinted = {error.code for error in list_errors()} - HINTS.keys()
    assert unhinted <= {"bad-method", "cannot-serve", *of_runs}
