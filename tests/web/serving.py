"""Helpers of the web tests: requests to the app or to a server in a thread, jobs, tokens, error checks."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn

from whence.app.server import IdleTimeoutProtocol, create_app

HOME = "http://127.0.0.1:8765"


def ask(app, method, path, *, headers=None, stranger=False, **request):
    """Ask the application itself, without a network between; with its token, unless a stranger asks."""
    own = {} if stranger else bearer(app.state.app_state.settings)
    request["headers"] = {**own, **(headers or {})}

    async def asked():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=HOME, timeout=60) as client:
            return await client.request(method, path, **request)

    return asyncio.run(asked())


def bearer(settings):
    """Return the header that scripts of a user's own send."""
    return {"authorization": f"Bearer {settings.token}"}


@contextmanager
def serve_in_thread(settings):
    """Serve in a thread; yields the address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        timeout_graceful_shutdown=1,
        ws="none",
        http=IdleTimeoutProtocol,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


@contextmanager
def serve_with_client(settings):
    """Serve in a thread; yields a client that brings the token."""
    own = bearer(settings)
    with (
        serve_in_thread(settings) as home,
        httpx.Client(base_url=home, headers=own, timeout=60) as client,
    ):
        yield client


def wait_for_job(app, job, seconds=60):
    """Wait until a job has ended, and return it."""
    until = time.monotonic() + seconds
    while job["state"] in ("queued", "running"):
        assert time.monotonic() < until, job
        time.sleep(0.02)
        job = ask(app, "GET", f"/api/jobs/{job['id']}").json()
    return job


def begin_job(app, path, body):
    """Begin a job."""
    answer = ask(app, "POST", path, json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def assert_error(answer, status, code):
    """Check that an answer is an error in the one shape, and return what it says."""
    assert answer.status_code == status, answer.text
    payload = answer.json()
    assert payload.keys() == {"ok", "error"}
    assert payload["ok"] is False
    # A table whose columns have to be chosen brings them along.
    assert payload["error"].keys() - {"table"} == {"code", "message", "hint", "see"}
    said = [one for name, one in payload["error"].items() if name != "table"]
    assert all(isinstance(one, str) and one for one in said)
    assert payload["error"]["code"] == code
    return payload["error"]
