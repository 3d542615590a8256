"""Error responses: one JSON shape, a fitting status and a next step."""

import json

import pytest

from tests.web.serving import ask, assert_error, begin_job, wait_for_job

INPUT = {"model": "reviews", "text": "a fine film"}


def explain(app, methods=("attcat",), **changed):
    return ask(
        app, "POST", "/api/explain", json={"input": {**INPUT, **changed}, "methods": [*methods]}
    )


def test_explain_endpoint_refuses_an_empty_text_with_a_hint(app):
    said = assert_error(explain(app, text="  "), 422, "empty-text")
    assert said["see"] == "docs/errors/empty-text.md"
    assert said["hint"] == "Type a text."


def test_explain_endpoint_cuts_a_long_text_or_refuses_without_truncation(app):
    assert_error(explain(app, text="film " * 400, truncate=False), 422, "too-long")
    cut = explain(app, text="film " * 400)
    assert cut.status_code == 200
    assert "truncated" in {one["code"] for one in cut.json()["warnings"]}


@pytest.mark.parametrize(
    ("field", "name"), [("text", "The text"), ("pair", "The second text"), ("answer", "The answer")]
)
def test_text_of_more_than_50000_characters_is_refused_in_one_sentence(app, field, name):
    said = assert_error(explain(app, **{field: "x" * 50_001}), 413, "too-large")
    assert said["message"] == (
        f"{name} has 50,001 characters, and the app takes 50,000: give a part of it."
    )


def test_unknown_target_method_and_model_names_are_refused(app):
    assert_error(explain(app, target="sideways"), 422, "unknown-target")
    assert "'attcat'" in assert_error(explain(app, ["atcat"]), 422, "unknown-method")["message"]
    assert (
        "'reviews'" in assert_error(explain(app, model="review"), 404, "unknown-model")["message"]
    )
    assert_error(explain(app, model="/etc/passwd"), 404, "unknown-model")


def test_masked_language_model_without_a_mask_refuses_explain_but_gives_flow(app):
    said = assert_error(explain(app, model="reviews-base"), 422, "bad-encoding")
    assert "write [MASK]" in said["message"]  # and what flows can be seen all the same
    asked = {"input": {**INPUT, "model": "reviews-base"}}
    assert ask(app, "POST", "/api/flow", json=asked).status_code == 200
    relevance = ask(app, "POST", "/api/flow", json={**asked, "weight": "relevance"})
    assert_error(relevance, 422, "no-head")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/explain", {"methods": ["attcat"]}),
        ("/api/explain", {"input": INPUT, "methods": []}),
        ("/api/explain", {"input": INPUT, "methods": ["attcat"], "surprise": 1}),
        ("/api/flow", {"input": INPUT, "weight": "gravity"}),
        ("/api/flow", {"input": INPUT, "most": 5001}),
        ("/api/flow", {"input": INPUT, "query": {"least": -1}}),
        ("/api/flow", [1, 2]),
        ("/api/jobs/verify", {"input": INPUT, "edges": []}),
    ],
)
def test_request_body_with_wrong_fields_or_values_is_a_bad_request(app, path, body):
    assert_error(ask(app, "POST", path, json=body), 422, "bad-request")


def test_request_body_that_is_no_valid_json_is_a_bad_request(app):
    said = ask(app, "POST", "/api/flow", content=b"{", headers={"content-type": "application/json"})
    assert_error(said, 422, "bad-request")
    assert_error(ask(app, "POST", "/api/flow", content=b"\xff\xfe"), 422, "bad-request")
    for wrong in ("Infinity", "NaN"):  # Python reads them
        raw = json.dumps({"input": INPUT, "query": {"least": 7}}).replace("7", wrong)
        headers = {"content-type": "application/json"}
        said = ask(app, "POST", "/api/flow", content=raw, headers=headers)
        assert_error(said, 422, "bad-request")


def test_unknown_token_or_layer_and_ablation_outside_a_job_are_bad_parameters(app):
    flow = {"input": INPUT, "token": 99}
    assert_error(ask(app, "POST", "/api/flow", json=flow), 422, "bad-parameter")
    keys = {"input": INPUT, "keys": ["attention.99.0"]}
    assert_error(ask(app, "POST", "/api/tensors", json=keys), 422, "bad-parameter")
    heads = {"input": INPUT, "statistic": "ablation"}
    said = assert_error(ask(app, "POST", "/api/heads", json=heads), 422, "bad-parameter")
    assert "/api/jobs/heads" in said["message"]


def test_unknown_addresses_and_ids_are_not_found(app):
    assert_error(ask(app, "GET", "/api/nothing"), 404, "not-found")
    assert_error(ask(app, "PATCH", "/api/session"), 405, "not-found")
    assert_error(ask(app, "GET", "/api/jobs/none"), 404, "not-found")
    assert_error(ask(app, "DELETE", "/api/jobs/none"), 404, "not-found")
    assert_error(ask(app, "GET", "/api/jobs/none/events"), 404, "not-found")
    assert_error(ask(app, "GET", "/api/results/none"), 404, "not-found")
    assert_error(ask(app, "GET", "/api/results/none/page"), 404, "not-found")
    assert_error(
        ask(app, "POST", "/api/jobs/predict/none", json={"model": "reviews"}), 404, "not-found"
    )


def test_compare_endpoint_refuses_models_that_do_not_fit(app):
    body = {"a": "decoy", "b": "reviews", "text": "a fine film"}
    assert ask(app, "POST", "/api/compare", json=body).status_code == 422


def test_explain_endpoint_returns_every_method_as_explained_or_failed(app):
    """Of all methods on `decoy`, those that work are shown, and those that do not say why."""
    from whence.methods import method

    for start in range(0, len(method.names()), 8):
        some = method.names()[start : start + 8]
        answer = explain(app, some, model="decoy", text="good film")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        told = [one["method"] for one in found["explanations"] + found["failed"]]
        assert sorted(told) == some


def test_failed_job_has_an_error_code_and_no_result(app):
    body = {"input": INPUT, "methods": ["atcat"]}
    job = wait_for_job(app, begin_job(app, "/api/jobs/trust", body))
    assert (job["state"], job["result"]) == ("failed", None)
    assert job["error"]["code"] == "unknown-method"


def test_unexpected_exception_becomes_a_500_response_and_a_log_entry(app, monkeypatch, caplog):
    def broken():
        raise RuntimeError("a secret <b>detail</b>")

    monkeypatch.setattr(app.state.app_state, "session", broken)
    answer = ask(app, "GET", "/api/session")
    said = assert_error(answer, 500, "internal-error")
    assert "RuntimeError" in said["message"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "GET /api/session failed" in caplog.text
