"""Whatever goes wrong, the answer has one shape, a fitting status and a next step."""

import json

import pytest

from tests.web.serving import ask, begun, ended, refused

INPUT = {"model": "reviews", "text": "a fine film"}


def explain(app, methods=("attcat",), **changed):
    return ask(
        app, "POST", "/api/explain", json={"input": {**INPUT, **changed}, "methods": [*methods]}
    )


def test_an_empty_text(app):
    said = refused(explain(app, text="  "), 422, "empty-text")
    assert said["see"] == "docs/errors/empty-text.md"
    assert said["hint"] == "Type a text."


def test_a_text_that_is_too_long(app):
    refused(explain(app, text="film " * 400, truncate=False), 422, "too-long")
    cut = explain(app, text="film " * 400)
    assert cut.status_code == 200
    assert "truncated" in {one["code"] for one in cut.json()["warnings"]}


@pytest.mark.parametrize(
    ("field", "name"), [("text", "The text"), ("pair", "The second text"), ("answer", "The answer")]
)
def test_more_than_50000_characters_give_one_sentence(app, field, name):
    said = refused(explain(app, **{field: "x" * 50_001}), 413, "too-large")
    assert said["message"] == (
        f"{name} has 50,001 characters, and the app takes 50,000: give a part of it."
    )


def test_names_that_nothing_has(app):
    refused(explain(app, target="sideways"), 422, "unknown-target")
    assert "'attcat'" in refused(explain(app, ["atcat"]), 422, "unknown-method")["message"]
    assert "'reviews'" in refused(explain(app, model="review"), 404, "unknown-model")["message"]
    refused(explain(app, model="/etc/passwd"), 404, "unknown-model")


def test_a_model_that_decides_nothing_here(app):
    said = refused(explain(app, model="reviews-base"), 422, "bad-encoding")
    assert "write [MASK]" in said["message"]  # and what flows can be seen all the same
    asked = {"input": {**INPUT, "model": "reviews-base"}}
    assert ask(app, "POST", "/api/flow", json=asked).status_code == 200
    relevance = ask(app, "POST", "/api/flow", json={**asked, "weight": "relevance"})
    refused(relevance, 422, "no-head")


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
def test_a_request_that_is_not_what_the_address_takes(app, path, body):
    refused(ask(app, "POST", path, json=body), 422, "bad-request")


def test_what_is_not_json(app):
    said = ask(app, "POST", "/api/flow", content=b"{", headers={"content-type": "application/json"})
    refused(said, 422, "bad-request")
    refused(ask(app, "POST", "/api/flow", content=b"\xff\xfe"), 422, "bad-request")
    for wrong in ("Infinity", "NaN"):  # Python reads them
        raw = json.dumps({"input": INPUT, "query": {"least": 7}}).replace("7", wrong)
        headers = {"content-type": "application/json"}
        said = ask(app, "POST", "/api/flow", content=raw, headers=headers)
        refused(said, 422, "bad-request")


def test_what_an_input_does_not_have(app):
    flow = {"input": INPUT, "token": 99}
    refused(ask(app, "POST", "/api/flow", json=flow), 422, "bad-parameter")
    keys = {"input": INPUT, "keys": ["attention.99.0"]}
    refused(ask(app, "POST", "/api/tensors", json=keys), 422, "bad-parameter")
    heads = {"input": INPUT, "statistic": "ablation"}
    said = refused(ask(app, "POST", "/api/heads", json=heads), 422, "bad-parameter")
    assert "/api/jobs/heads" in said["message"]


def test_addresses_that_are_not_there(app):
    refused(ask(app, "GET", "/api/nothing"), 404, "not-found")
    refused(ask(app, "PATCH", "/api/session"), 405, "not-found")
    refused(ask(app, "GET", "/api/jobs/none"), 404, "not-found")
    refused(ask(app, "DELETE", "/api/jobs/none"), 404, "not-found")
    refused(ask(app, "GET", "/api/jobs/none/events"), 404, "not-found")
    refused(ask(app, "GET", "/api/results/none"), 404, "not-found")
    refused(ask(app, "GET", "/api/results/none/page"), 404, "not-found")
    refused(ask(app, "POST", "/api/jobs/predict/none", json={"model": "reviews"}), 404, "not-found")


def test_two_models_that_do_not_fit(app):
    body = {"a": "decoy", "b": "reviews", "text": "a fine film"}
    assert ask(app, "POST", "/api/compare", json=body).status_code == 422


def test_a_method_that_fails_leaves_the_others(app):
    """Of all methods on `decoy`, those that work are shown, and those that do not say why."""
    from whence.methods import method

    for start in range(0, len(method.names()), 8):
        some = method.names()[start : start + 8]
        answer = explain(app, some, model="decoy", text="good film")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        told = [one["method"] for one in found["explanations"] + found["failed"]]
        assert sorted(told) == some


def test_a_job_that_fails_says_why(app):
    body = {"input": INPUT, "methods": ["atcat"]}
    job = ended(app, begun(app, "/api/jobs/trust", body))
    assert (job["state"], job["result"]) == ("failed", None)
    assert job["error"]["code"] == "unknown-method"


def test_what_nobody_foresaw_is_told_in_the_same_shape(app, monkeypatch, caplog):
    def broken():
        raise RuntimeError("a secret <b>detail</b>")

    monkeypatch.setattr(app.state.desk, "session", broken)
    answer = ask(app, "GET", "/api/session")
    said = refused(answer, 500, "internal-error")
    assert "RuntimeError" in said["message"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "GET /api/session failed" in caplog.text
