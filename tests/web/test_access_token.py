"""Access token: required by every page and endpoint, in the address, a cookie or a bearer header."""

import asyncio
import re

import httpx
import pytest

from tests.web.serving import HOME, ask, assert_error
from whence.app.access_token import TOKEN_VARIABLE, resolve_token
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import BadParameter

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def open_app():
    """An application that can be reached from other machines."""
    app = create_app(Settings(host="0.0.0.0", token=TOKEN))
    yield app
    assert app.state.app_state.close(10)


@pytest.fixture(params=["this machine alone", "other machines, too"])
def token_app(request, app, open_app):
    """An application wherever it can be reached from: the token is asked for in the same way."""
    return app if request.param == "this machine alone" else open_app


@pytest.mark.parametrize("path", ["/", "/app.js", "/nothing", "/?token=wrong", "/?token="])
def test_page_without_the_token_is_a_401_that_states_where_to_find_the_token(token_app, path):
    answer = ask(token_app, "GET", path, stranger=True)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "whence is at http://127.0.0.1:8765/?token=" in answer.text
    assert "in the terminal in which it was started" in answer.text
    assert not re.search(r"src=|<link|<script|https:|url\(|http://(?!127)", answer.text)
    assert "set-cookie" not in answer.headers
    assert token_app.state.app_state.settings.token not in answer.text + str(answer.headers)


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
def test_api_without_the_token_is_a_401_json_error(token_app, method, path):
    answer = ask(token_app, method, path, stranger=True)
    said = assert_error(answer, 401, "not-allowed")
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
def test_wrong_or_misplaced_token_in_the_headers_is_refused(token_app, headers):
    token = token_app.state.app_state.settings.token
    sent = {name: value.format(token=token) for name, value in headers.items()}
    assert_error(
        ask(token_app, "GET", "/api/health", headers=sent, stranger=True), 401, "not-allowed"
    )
    assert ask(token_app, "GET", "/", headers=sent, stranger=True).status_code == 401


def test_request_body_sent_without_the_token_is_not_read(app):
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

    assert_error(asyncio.run(asked()), 401, "not-allowed")
    assert sent == 0


def test_page_address_with_the_token_sets_a_session_cookie_and_redirects(token_app):
    token = token_app.state.app_state.settings.token
    answer = ask(token_app, "GET", f"/?a=1&token={token}", stranger=True)
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
    assert ask(token_app, "GET", "/api/health", headers=sent, stranger=True).status_code == 200
    assert ask(token_app, "GET", "/", headers=sent, stranger=True).status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_api_accepts_the_token_as_bearer_in_any_case(token_app, scheme):
    script = {"authorization": f"{scheme} {token_app.state.app_state.settings.token}"}
    assert ask(token_app, "GET", "/api/health", headers=script, stranger=True).status_code == 200


def test_api_accepts_the_token_in_the_address_without_a_redirect(token_app):
    path = f"/api/health?token={token_app.state.app_state.settings.token}"
    answer = ask(token_app, "GET", path, stranger=True)
    assert (answer.status_code, answer.json()["ok"]) == (200, True)


def test_cross_site_link_with_the_token_sets_the_cookie_on_a_page(app):
    """A terminal in a browser: after a redirect the strict cookie would be kept back, after a page it is sent."""
    headers = {"sec-fetch-site": "cross-site"}
    token = app.state.app_state.settings.token
    answer = ask(app, "GET", f"/?token={token}&a=%22%3E", headers=headers, stranger=True)
    assert answer.status_code == 200
    assert f"whence-8765={token}" in answer.headers["set-cookie"]
    assert 'content="0; url=/?a=%22%3E"' in answer.text
    assert token not in answer.text


def test_settings_make_a_new_long_token_that_repr_does_not_reveal(settings):
    tokens = {Settings().token for _ in range(50)}
    assert len(tokens) == 50
    assert all(len(token) == 32 for token in tokens)
    assert settings.token not in repr(settings)


def test_resolve_token_takes_the_token_from_the_environment(monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert resolve_token() != resolve_token()
    monkeypatch.setenv(TOKEN_VARIABLE, "My-own_token.of~16")
    assert resolve_token() == "My-own_token.of~16"


@pytest.mark.parametrize(
    "token", ["", "short", "x" * 201, "with a blank in the middle", "ünïcödë-token-of-16"]
)
def test_resolve_token_refuses_a_bad_environment_token_without_repeating_the_value(
    monkeypatch, token
):
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(BadParameter, match=rf"WHENCE_TOKEN has {len(token)} characters") as refusal:
        resolve_token()
    assert not token or token not in str(refusal.value)


def test_redirect_after_the_token_stays_on_the_own_host(open_app):
    answer = ask(open_app, "GET", f"http://127.0.0.1:8765//evil.example/x?token={TOKEN}")
    assert answer.headers["location"] == "/evil.example/x"


def test_api_refuses_a_foreign_origin_with_a_valid_cookie(open_app):
    headers = {"cookie": f"whence-8765={TOKEN}", "origin": "http://evil.example"}
    answer = ask(open_app, "GET", "/api/health", headers=headers, stranger=True)
    assert_error(answer, 403, "not-allowed")
