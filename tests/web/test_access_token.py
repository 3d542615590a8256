"""The token: whoever does not bring it is told where to find it, wherever the server can be reached from."""

import asyncio
import re

import httpx
import pytest

from tests.web.serving import HOME, ask, refused
from whence.core.errors import BadParameter
from whence.web.app import create_app
from whence.web.settings import Settings
from whence.web.tokens import VARIABLE, choose_token

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def open_app():
    """An application that can be reached from other machines."""
    app = create_app(Settings(host="0.0.0.0", token=TOKEN))
    yield app
    assert app.state.desk.close(10)


@pytest.fixture(params=["this machine alone", "other machines, too"])
def guarded(request, app, open_app):
    """An application wherever it can be reached from: the token is asked for in the same way."""
    return app if request.param == "this machine alone" else open_app


@pytest.mark.parametrize("path", ["/", "/app.js", "/nothing", "/?token=wrong", "/?token="])
def test_a_visitor_without_the_token_is_told_where_to_find_it(guarded, path):
    answer = ask(guarded, "GET", path, stranger=True)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "whence is at http://127.0.0.1:8765/?token=" in answer.text
    assert "in the terminal in which it was started" in answer.text
    assert not re.search(r"src=|<link|<script|https:|url\(|http://(?!127)", answer.text)
    assert "set-cookie" not in answer.headers
    assert guarded.state.desk.settings.token not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/session"),
        ("GET", "/api/health"),
        ("GET", "/api/openapi.json"),
        ("GET", "/api/session?token=wrong"),
        ("POST", "/api/explain"),
        ("PUT", "/api/data?name=a.txt"),
        ("DELETE", "/api/jobs/1"),
        ("GET", "/api/nothing"),
    ],
)
def test_the_api_without_the_token_is_a_json_error(guarded, method, path):
    answer = ask(guarded, method, path, stranger=True)
    said = refused(answer, 401, "not-allowed")
    assert "Authorization: Bearer" in said["message"]
    assert "whence app` printed" in said["message"]
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "headers",
    [
        {"cookie": "whence-8765=wrong"},
        {"cookie": "whence-8765="},
        {"cookie": "\x7f;;=["},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer"},
        {"authorization": "Basic {token}"},
        {"authorization": "{token}"},
        {"cookie": "whence-8764={token}"},
        {"authorization": "Bearer {token}x"},
    ],
)
def test_what_is_nearly_the_token_is_not(guarded, headers):
    token = guarded.state.desk.settings.token
    sent = {name: value.format(token=token) for name, value in headers.items()}
    refused(ask(guarded, "GET", "/api/health", headers=sent, stranger=True), 401, "not-allowed")
    assert ask(guarded, "GET", "/", headers=sent, stranger=True).status_code == 401


def test_nothing_is_read_of_what_a_stranger_sends(app):
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b"x"

    async def asked():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
            return await client.post("/api/explain", content=endless())

    refused(asyncio.run(asked()), 401, "not-allowed")
    assert sent == 0


def test_the_token_becomes_a_cookie(guarded):
    token = guarded.state.desk.settings.token
    answer = ask(guarded, "GET", f"/?a=1&token={token}", stranger=True)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?a=1"
    assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = answer.headers["set-cookie"]
    assert f"whence-8765={token}" in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "max-age" not in cookie.lower() and "expires" not in cookie.lower()
    # What other servers of this machine put beside it does not matter.
    sent = {"cookie": f'other={{"a": [1]}}; whence-8765={token}; =;'}
    assert ask(guarded, "GET", "/api/health", headers=sent, stranger=True).status_code == 200
    assert ask(guarded, "GET", "/", headers=sent, stranger=True).status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_script_sends_the_token_as_bearer(guarded, scheme):
    script = {"authorization": f"{scheme} {guarded.state.desk.settings.token}"}
    assert ask(guarded, "GET", "/api/health", headers=script, stranger=True).status_code == 200


def test_the_token_in_an_address_of_the_api_is_answered_there(guarded):
    path = f"/api/health?token={guarded.state.desk.settings.token}"
    answer = ask(guarded, "GET", path, stranger=True)
    assert (answer.status_code, answer.json()["ok"]) == (200, True)


def test_a_link_with_the_token_on_a_page_from_elsewhere_lets_in(app):
    """A terminal in a browser: after a redirect the strict cookie would be kept back, after a page it is sent."""
    headers = {"sec-fetch-site": "cross-site"}
    token = app.state.desk.settings.token
    answer = ask(app, "GET", f"/?token={token}&a=%22%3E", headers=headers, stranger=True)
    assert answer.status_code == 200
    assert f"whence-8765={token}" in answer.headers["set-cookie"]
    assert 'content="0; url=/?a=%22%3E"' in answer.text
    assert token not in answer.text


def test_a_token_is_long_new_and_not_shown(settings):
    tokens = {Settings().token for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) == 32 for token in tokens)
    assert settings.token not in repr(settings)


def test_the_token_of_the_environment(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert choose_token() != choose_token()
    monkeypatch.setenv(VARIABLE, "My-own_token.of~16")
    assert choose_token() == "My-own_token.of~16"


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 201, "with a blank in the middle", "ünïcödë-token-of-16"]
)
def test_a_bad_token_of_the_environment_is_refused_and_not_repeated(monkeypatch, token):
    monkeypatch.setenv(VARIABLE, token)
    with pytest.raises(BadParameter, match=rf"WHENCE_TOKEN has {len(token)} characters") as refusal:
        choose_token()
    assert not token or token not in str(refusal.value)


def test_the_way_on_leads_nowhere_else(open_app):
    answer = ask(open_app, "GET", f"http://127.0.0.1:8765//evil.example/x?token={TOKEN}")
    assert answer.headers["location"] == "/evil.example/x"


def test_a_page_from_elsewhere_does_not_get_in_by_the_cookie(open_app):
    headers = {"cookie": f"whence-8765={TOKEN}", "origin": "http://evil.example"}
    answer = ask(open_app, "GET", "/api/health", headers=headers, stranger=True)
    refused(answer, 403, "not-allowed")
