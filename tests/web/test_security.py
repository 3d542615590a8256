"""Who may ask, and how much."""

import asyncio
import threading
import time
from dataclasses import replace

import httpx
import pytest

from tests.web.serving import HOME, ask, bearer, begun, ended, refused
from whence.core.errors import UnknownModel
from whence.web.app import create_app
from whence.web.guards import POLICY
from whence.web.models import Model
from whence.web.settings import Settings

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost", "LOCALHOST:9000", "[::1]:8765", "127.0.0.1"]
)
def test_names_of_this_machine(app, host):
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
def test_a_strangers_name_for_this_machine(app, host):
    """DNS rebinding: the browser thinks that this server is the stranger's."""
    for path in ("/", "/api/health", "/app.js"):
        refused(ask(app, "GET", path, headers={"host": host}), 403, "not-allowed")


def test_a_name_that_only_ends_like_the_servers():
    app = create_app(Settings(host="films.example", token=TOKEN))
    try:
        for host in ("notfilms.example", "x.films.example", "1127.0.0.1", "films.example.evil"):
            headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
            refused(ask(app, "GET", "/api/health", headers=headers), 403, "not-allowed")
        for host in ("films.example:8765", "FILMS.example", "127.0.0.1"):
            headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
            assert ask(app, "GET", "/api/health", headers=headers).status_code == 200
    finally:
        assert app.state.desk.close(10)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1", "http://[", ""],
)
def test_a_page_from_elsewhere(app, origin):
    body = {"input": {"model": "reviews", "text": "a film"}, "methods": ["attcat"]}
    answer = ask(app, "POST", "/api/explain", json=body, headers={"origin": origin})
    refused(answer, 403, "not-allowed")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_from_elsewhere_that_sends_no_origin(app):
    """A picture or a script of another site: its request has no Origin, but says where it comes from."""
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        refused(ask(app, "GET", "/api/session", headers=headers), 403, "not-allowed")
        assert ask(app, "GET", "/", headers=headers).status_code == 200  # a link to the page


def test_the_own_page(app):
    headers = {"origin": HOME, "sec-fetch-site": "same-origin"}
    assert ask(app, "GET", "/api/health", headers=headers).status_code == 200


def test_strict_headers_everywhere(app):
    for path in ("/", "/app.js", "/api/session", "/api/nothing", "/nothing"):
        headers = ask(app, "GET", path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
    refused_too = ask(app, "GET", "/", headers={"host": "evil.example"}).headers
    assert refused_too["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY


def test_a_result_may_be_framed_by_this_app_alone_and_runs_nothing(app):
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
    refused(ask(app, "POST", "/api/explain", content=large), 413, "too-large")


def test_a_large_body_is_refused_while_it_comes(app, settings):
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

    refused(asyncio.run(asked()), 413, "too-large")
    assert sent <= settings.body + 200_000


def test_a_question_that_waits_too_long(settings):
    """The model is at work on something that takes longer than anybody wants to wait."""
    app = create_app(replace(settings, seconds=0.3))
    desk = app.state.desk
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
        said = refused(ask(app, "POST", "/api/explain", json=body), 503, "busy")
        assert "something long" in said["message"]
        assert "of 1000" in said["message"]
        assert not worker._quick  # nobody waits for it, so it is not done
    finally:
        assert desk.close(10)


def test_models_that_are_not_on_the_list(app):
    said = refused(ask(app, "POST", "/api/models", json={"name": "spotlight"}), 403, "not-allowed")
    assert "--allow-load" in said["message"]


def test_models_may_be_loaded_where_that_is_allowed():
    app = create_app(Settings(models=("decoy",), allow_load=True))
    try:
        entry = ask(app, "POST", "/api/models", json={"name": "spotlight"}).json()
        assert (entry["id"], entry["state"]) == ("spotlight", "ready")
        missing = ask(app, "POST", "/api/models", json={"name": "no/such-model"})
        refused(missing, 404, "unknown-model")
        listed = [one["id"] for one in ask(app, "GET", "/api/session").json()["models"]]
        assert listed == ["decoy", "spotlight"]
    finally:
        assert app.state.desk.close(10)


@pytest.mark.parametrize("error", [UnknownModel("there is no model at all"), ValueError("oh")])
def test_who_waits_for_a_model_that_cannot_be_loaded_hears_why(
    data_file, monkeypatch, caplog, error
):
    """A question, a comparison that has taken the first model already, and one that has not begun."""
    loading, gate = threading.Event(), threading.Event()
    load = Model._load

    def slow(model):
        if model.id != "bad":
            return load(model)
        loading.set()
        assert gate.wait(30)
        raise error

    monkeypatch.setattr(Model, "_load", slow)
    app = create_app(Settings(models=("reviews",), allow_load=True, data=(data_file,)))
    desk, status = app.state.desk, 500 if isinstance(error, ValueError) else 404
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
        while len(worker._quick) < 1:
            time.sleep(0.001)
        both = {"a": "reviews", "b": "bad", "data": data_file.name}
        job = begun(app, "/api/jobs/compare", both)
        while len(worker._quick) < 2:  # the loan of the model
            time.sleep(0.001)
        verify = {"input": text, "edges": [[0, 0, 0, 0]], "draws": 5}
        later = begun(app, "/api/jobs/verify", verify)
        gate.set()
        for thread in threads:
            thread.join(30)
        for name in ("load", "flow"):
            assert str(error) in refused(said[name], status, code)["message"]
        for one in (job, later):
            failed = ended(app, one)
            assert (failed["state"], failed["error"]["code"]) == ("failed", code)
            assert str(error) in failed["error"]["message"]
        assert [model.id for model in desk.models] == ["reviews"]
        # The first model is free again.
        flow = {"input": {"model": "reviews", "text": "a film"}}
        assert ask(app, "POST", "/api/flow", json=flow).status_code == 200
    finally:
        gate.set()
        assert desk.close(10)


def test_a_model_of_the_list_that_cannot_be_loaded_says_why(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    app = create_app(Settings(models=(str(folder),)))
    try:
        assert ask(app, "POST", "/api/models", json={"name": "empty"}).status_code in (404, 422)
        (entry,) = ask(app, "GET", "/api/session").json()["models"]
        assert (entry["id"], entry["name"], entry["state"]) == ("empty", "empty", "failed")
        assert entry["error"]["message"]
    finally:
        assert app.state.desk.close(10)
