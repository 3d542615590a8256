"""Security of the server: hosts, origins, headers, body sizes, waiting times and loading of models."""

import asyncio
import threading
import time
from dataclasses import replace

import httpx
import pytest

from tests.web.serving import HOME, ask, assert_error, bearer, begin_job, wait_for_job
from whence.app.models import ServedModel
from whence.app.security import APP_POLICY
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import UnknownModel

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost", "LOCALHOST:9000", "[::1]:8765", "127.0.0.1"]
)
def test_requests_with_a_local_host_header_are_accepted(app, host):
    assert ask(app, "GET", "/api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8765",
        "evil.example:127.0.0.1",
        "",
        "[",
        "10.0.0.1",
        "localhost/.evil.com",
        "localhost?.evil.com",
        "localhost#.evil.com",
        "evil.com@localhost",
        "localhost:8765/.evil.com",
        "localhost\\.evil.com",
        "localhost:evil",
        "localhost ",
        "localhost,evil.com",
        "[::1].evil.com",
        "localhost:",
        "[::1",
        "127.0.0.1:8765:1",
    ],
)
def test_requests_with_a_foreign_host_header_are_refused(app, host):
    """DNS rebinding: the browser thinks that this server is the stranger's."""
    for path in ("/", "/api/health", "/app.js"):
        assert_error(ask(app, "GET", path, headers={"host": host}), 403, "not-allowed")


def test_host_header_that_only_resembles_the_configured_host_is_refused():
    app = create_app(Settings(host="films.example", token=TOKEN))
    try:
        for host in ("notfilms.example", "x.films.example", "1127.0.0.1", "films.example.evil"):
            headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
            assert_error(ask(app, "GET", "/api/health", headers=headers), 403, "not-allowed")
        for host in ("films.example:8765", "FILMS.example", "127.0.0.1"):
            headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
            assert ask(app, "GET", "/api/health", headers=headers).status_code == 200
    finally:
        assert app.state.app_state.close(10)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1", "http://[", ""],
)
def test_explain_endpoint_refuses_requests_of_a_foreign_origin(app, origin):
    body = {"input": {"model": "reviews", "text": "a film"}, "methods": ["attcat"]}
    answer = ask(app, "POST", "/api/explain", json=body, headers={"origin": origin})
    assert_error(answer, 403, "not-allowed")
    assert "access-control-allow-origin" not in answer.headers


def test_api_refuses_cross_site_requests_without_an_origin(app):
    """A picture or a script of another site: its request has no Origin, but says where it comes from."""
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        assert_error(ask(app, "GET", "/api/session", headers=headers), 403, "not-allowed")
        assert ask(app, "GET", "/", headers=headers).status_code == 200  # a link to the page


def test_api_accepts_requests_of_its_own_page(app):
    headers = {"origin": HOME, "sec-fetch-site": "same-origin"}
    assert ask(app, "GET", "/api/health", headers=headers).status_code == 200


def test_every_response_has_strict_security_headers(app):
    for path in ("/", "/app.js", "/api/session", "/api/nothing", "/nothing"):
        headers = ask(app, "GET", path).headers
        assert headers["content-security-policy"] == APP_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
    refused_too = ask(app, "GET", "/", headers={"host": "evil.example"}).headers
    assert refused_too["content-security-policy"] == APP_POLICY
    assert "unsafe" not in APP_POLICY
    assert "default-src 'none'" in APP_POLICY


def test_result_page_may_be_framed_by_the_app_alone_and_runs_no_script(app):
    headers = ask(app, "GET", "/api/results/why/page").headers
    policy = headers.get_list("content-security-policy")
    assert len(policy) == 1
    assert "frame-ancestors 'self'" in policy[0]
    assert "sandbox" in policy[0]
    assert "script" not in policy[0]
    assert headers["x-frame-options"] == "SAMEORIGIN"


def test_the_page_holds_no_inline_code(app):
    """The policy would refuse it, and the page would stay white."""
    page = ask(app, "GET", "/").text
    assert "<style" not in page
    assert " style=" not in page
    assert " onload=" not in page
    for script in page.split("<script")[1:]:
        assert "src=" in script.partition(">")[0]


def test_a_large_body_is_refused(app, settings):
    large = b"x" * (settings.body + 1)
    assert_error(ask(app, "POST", "/api/explain", content=large), 413, "too-large")


def test_endless_request_body_is_refused_at_the_size_limit(app, settings):
    """Without a stated length; and no more of it is taken than is allowed."""
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 100_000
            yield b"x" * 100_000

    async def asked():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
            own = bearer(settings)
            return await client.post("/api/explain", content=endless(), headers=own)

    assert_error(asyncio.run(asked()), 413, "too-large")
    assert sent <= settings.body + 200_000


def test_question_to_a_busy_model_is_refused_as_busy_after_the_timeout(settings):
    """The model is at work on something that takes longer than anybody wants to wait."""
    app = create_app(replace(settings, seconds=0.3))
    desk = app.state.app_state
    worker = desk.models.get("reviews").worker

    def long(progress):
        for step in range(1000):
            progress(step, 1000)
            time.sleep(0.01)

    try:
        worker.put("something long", long, quick=False)
        while worker.current is None:
            time.sleep(0.01)
        body = {"input": {"model": "reviews", "text": "a film"}, "methods": ["attcat"]}
        said = assert_error(ask(app, "POST", "/api/explain", json=body), 503, "busy")
        assert "something long" in said["message"]
        assert "of 1000" in said["message"]
        assert not worker._queue  # nobody waits for it, so it is not done
    finally:
        assert desk.close(10)


def test_loading_an_unlisted_model_is_refused_by_default(app):
    said = assert_error(
        ask(app, "POST", "/api/models", json={"name": "spotlight"}), 403, "not-allowed"
    )
    assert "--allow-load" in said["message"]


def test_loading_an_unlisted_model_works_with_allow_load():
    app = create_app(Settings(models=("decoy",), allow_load=True))
    try:
        entry = ask(app, "POST", "/api/models", json={"name": "spotlight"}).json()
        assert (entry["id"], entry["state"]) == ("spotlight", "ready")
        missing = ask(app, "POST", "/api/models", json={"name": "no/such-model"})
        assert_error(missing, 404, "unknown-model")
        listed = [one["id"] for one in ask(app, "GET", "/api/session").json()["models"]]
        assert listed == ["decoy", "spotlight"]
    finally:
        assert app.state.app_state.close(10)


@pytest.mark.parametrize("error", [UnknownModel("there is no model at all"), ValueError("oh")])
def test_requests_and_jobs_waiting_for_a_model_fail_with_its_loading_error(
    data_file, monkeypatch, caplog, error
):
    """A question, a comparison that has taken the first model already, and one that has not begun."""
    loading, gate = threading.Event(), threading.Event()
    load = ServedModel._load

    def slow(model):
        if model.id != "bad":
            return load(model)
        loading.set()
        assert gate.wait(30)
        raise error

    monkeypatch.setattr(ServedModel, "_load", slow)
    app = create_app(Settings(models=("reviews",), allow_load=True, data=(data_file,)))
    desk, status = app.state.app_state, 500 if isinstance(error, ValueError) else 404
    code = "internal-error" if status == 500 else "unknown-model"
    said = {}

    def asking(name, path, body):
        thread = threading.Thread(
            target=lambda: said.update({name: ask(app, "POST", path, json=body)})
        )
        thread.start()
        return thread

    try:
        threads = [asking("load", "/api/models", {"name": "bad"})]
        assert loading.wait(30)
        worker = desk.models.get("bad").worker
        text = {"model": "bad", "text": "a film"}
        threads.append(asking("flow", "/api/flow", {"input": text}))
        while len(worker._queue) < 1:
            time.sleep(0.001)
        both = {"a": "reviews", "b": "bad", "data": data_file.name}
        job = begin_job(app, "/api/jobs/compare", both)
        while len(worker._queue) < 2:  # the loan of the model
            time.sleep(0.001)
        verify = {"input": text, "edges": [[0, 0, 0, 0]], "draws": 5}
        later = begin_job(app, "/api/jobs/verify", verify)
        gate.set()
        for thread in threads:
            thread.join(30)
        for name in ("load", "flow"):
            assert str(error) in assert_error(said[name], status, code)["message"]
        for one in (job, later):
            failed = wait_for_job(app, one)
            assert (failed["state"], failed["error"]["code"]) == ("failed", code)
            assert str(error) in failed["error"]["message"]
        assert [model.id for model in desk.models] == ["reviews"]
        # The first model is free again.
        flow = {"input": {"model": "reviews", "text": "a film"}}
        assert ask(app, "POST", "/api/flow", json=flow).status_code == 200
    finally:
        gate.set()
        assert desk.close(10)


def test_listed_model_that_fails_to_load_reports_the_error(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    app = create_app(Settings(models=(str(folder),)))
    try:
        assert ask(app, "POST", "/api/models", json={"name": "empty"}).status_code in (404, 422)
        (entry,) = ask(app, "GET", "/api/session").json()["models"]
        assert (entry["id"], entry["name"], entry["state"]) == ("empty", "empty", "failed")
        assert entry["error"]["message"]
    finally:
        assert app.state.app_state.close(10)
