"""Idle connections: closed in time, and no obstacle to other requests."""

import socket
import time

import httpx

from tests.web.serving import bearer, serve_in_thread
from whence.app import server
from whence.app.settings import Settings

SERVED = Settings(models=("decoy",))


def is_closed(line, seconds=10):
    """Whether the server closes a connection in time."""
    line.settimeout(seconds)
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False


def connect(home):
    host, _, port = home.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)))


def test_a_connection_without_a_request_is_closed(monkeypatch):
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.5)
    with serve_in_thread(SERVED) as home:
        with connect(home) as silent, connect(home) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: ")  # and no more than that
            assert is_closed(silent)
            assert is_closed(slow)
        with httpx.Client(base_url=home, headers=bearer(SERVED)) as client:
            assert client.get("/api/health").status_code == 200
            time.sleep(1)  # one that has asked stays for the next question
            assert client.get("/api/health").status_code == 200


def test_request_is_answered_despite_more_idle_connections_than_the_limit(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    with serve_in_thread(SERVED) as home:
        idle = [connect(home) for _ in range(30)]
        try:
            assert sum(is_closed(line, 0.5) for line in idle) >= 10
            answer = httpx.get(f"{home}/api/health", headers=bearer(SERVED))
            assert answer.status_code == 200
        finally:
            for line in idle:
                line.close()
