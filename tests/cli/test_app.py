"""`whence app` command in real processes: ports, hosts, tokens, models, data, signals, and refusals by status."""

import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import httpx
import pytest

from whence.cli import app_command
from whence.models.model_files import BUILTIN

pytestmark = pytest.mark.xdist_group("app")
TEXT = "the plot is thin, but the actors are wonderful"


def start_cold_process(*arguments):
    """Start a process as a shell would, with all that Python takes to start."""
    command = [sys.executable, "-m", "whence", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def start_app(warm):
    """Return a function that starts the app at once."""
    return partial(_start_app, warm.start)


@contextmanager
def _start_app(start, *arguments):
    """Start the app and wait until it answers; yields the process, the address it printed and a client."""
    with start("app", "--no-open", *arguments) as process:
        try:
            line = process.stdout.readline()
            found = re.fullmatch(r"whence is at (http://\S+)\n", line)
            assert found, (line, process.communicate(timeout=60))
            home, token = re.fullmatch(r"(.+)/\?token=([^#]+)(?:#.*)?", found[1]).groups()
            own = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=home, headers=own, timeout=60) as client:
                _await(client)
                yield process, found[1], client
        finally:
            process.kill()


def _await(client):
    until = time.monotonic() + 60
    while True:
        try:
            client.get("/api/health")
            return
        except httpx.TransportError:
            assert time.monotonic() < until
            time.sleep(0.05)


def stop_with_sigint(process):
    """Press Ctrl-C, and return the seconds it took and what was said."""
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return time.monotonic() - started, out, err


def test_app_command_without_arguments_serves_the_built_in_models():
    with _start_app(start_cold_process, "--port", 0) as (process, address, client):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
        session = client.get("/api/session").json()
        assert [model["id"] for model in session["models"]] == list(BUILTIN)
        assert session["models"][0]["id"] == "reviews"
        assert session["compare"] == ["reviews-base", "reviews"]
        given = {"model": "reviews", "text": session["samples"][0]["text"]}
        said = client.post("/api/explain", json={"input": given, "methods": ["attcat"]})
        assert said.json()["prediction"]["label"] == "positive"
        assert client.get("/").status_code == 200
        seconds, out, err = stop_with_sigint(process)
    assert (process.returncode, err) == (0, "")
    assert "whence has stopped." in out
    assert seconds < 10


def test_sigint_stops_the_app_while_a_job_is_running_and_watched(start_app):
    with start_app("--port", 0, "--model", "reviews") as (process, _, client):
        body = {
            "input": {"model": "reviews", "text": f"{TEXT} " * 5},
            "methods": ["kernel_shap", "lime"],
            "budget": 20_000,
        }
        job = client.post("/api/jobs/trust", json=body).json()
        with client.stream("GET", f"/api/jobs/{job['id']}/events") as stream:
            for line in stream.iter_lines():
                if '"running"' in line:
                    break
            seconds, out, err = stop_with_sigint(process)
    assert (process.returncode, err) == (0, "")
    assert "whence has stopped." in out
    assert seconds < 10  # one second for connections, one for the thread, and a slow machine


def test_app_restarted_after_a_kill_has_a_new_token_and_start_time(start_app):
    with start_app("--model", "reviews") as (process, address, client):
        before = client.get("/api/health").json()["started"]
        process.kill()
        process.wait(30)
        with pytest.raises(httpx.TransportError):
            client.get("/api/health")
        home, token = address.split("?")
        port = home.rsplit(":", 1)[1].strip("/")
        with start_app("--model", "reviews", "--port", port) as (_, again, other):
            assert again.split("?")[0] == home
            assert again.split("?")[1] != token  # whoever had the old address is not let in
            assert client.get("/api/health").status_code == 401
            assert other.get("/api/health").json()["started"] != before


def test_app_command_with_a_taken_port_exits_60(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, out, err = run("app", "--no-open", "--port", port)
        assert (status, out) == (60, "")
        assert err.startswith(f"whence: Port {port} of 127.0.0.1 cannot be listened at")
        assert "leave --port out" in err
        assert err.endswith("[cannot-serve, see docs/errors/cannot-serve.md]\n")


def test_listen_without_a_port_takes_the_next_free_port(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(app_command, "PORT", port)
        with app_command._listen("127.0.0.1", None) as found:
            assert port < found.getsockname()[1] < port + 50


def test_app_command_with_an_unknown_host_exits_60(run):
    status, _, err = run("app", "--no-open", "--host", "no.such.host.invalid")
    assert status == 60
    assert "There is no host 'no.such.host.invalid'" in err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_app_without_the_printed_token_answers_401_on_every_host(start_app, host):
    with start_app("--port", 0, "--host", host, "--model", "reviews") as (process, address, _):
        token = re.fullmatch(r"http://[^/]+/\?token=([\w-]{32})", address)[1]
        port = address.split("/")[2].rpartition(":")[2]
        home = f"http://127.0.0.1:{port}"
        after = process.stdout.readline()
        assert ("is not encrypted" in after) == (host == "0.0.0.0")
        with httpx.Client(base_url=home, follow_redirects=True) as stranger:
            page = stranger.get("/")
            assert page.status_code == 401
            assert f"whence is at http://127.0.0.1:{port}/?token=" in page.text
            assert stranger.get("/app.js").status_code == 401
            refused = stranger.get("/api/session")
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "not-allowed"
            entered = stranger.get(f"/?token={token}")
            assert entered.status_code == 200
            assert "token" not in str(entered.url)
            assert stranger.get("/api/session").status_code == 200  # by the cookie
        _, out, err = stop_with_sigint(process)
        assert token not in out + err


def test_browser_opened_by_the_app_command_gets_the_token(warm, tmp_path, monkeypatch):
    """A browser that writes down what it was asked to open."""
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {seen}.part && mv {seen}.part {seen}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with warm.start("app", "--open", "--port", 0, "--model", "reviews") as process:
        try:
            address = process.stdout.readline().removeprefix("whence is at ").strip()
            until = time.monotonic() + 60
            while not seen.exists():
                assert time.monotonic() < until
                time.sleep(0.05)
        finally:
            process.kill()
    assert "/?token=" in address
    assert seen.read_text() == address


def test_app_takes_its_token_from_the_environment(start_app, monkeypatch):
    monkeypatch.setenv("WHENCE_TOKEN", "a-token-of-my-own-0123")
    with start_app("--port", 0, "--model", "reviews") as (_, address, client):
        assert address.endswith("/?token=a-token-of-my-own-0123")
        assert client.get("/api/health").status_code == 200


def test_app_command_with_a_too_short_token_exits_22(run, monkeypatch):
    monkeypatch.setenv("WHENCE_TOKEN", "secret")
    status, out, err = run("app", "--no-open", "--port", 0)
    assert (status, out) == (22, "")
    assert err.startswith("whence: WHENCE_TOKEN has 6 characters, and a token has 16 to 200")
    assert "secret" not in err


def test_app_command_with_missing_data_or_results_exits_before_serving(run, tmp_path):
    status, out, err = run("app", "--no-open", "--port", 0, "--data", tmp_path / "none.tsv")
    assert (status, out) == (13, "")
    assert "none.tsv" in err
    status, out, err = run("app", "--no-open", "--port", 0, "--results", tmp_path / "none")
    assert (status, out) == (41, "")


def test_app_command_with_over_a_million_rows_exits_63(tmp_path, run):
    path = tmp_path / "rows.txt"
    path.write_bytes(b"a\n" * (1_000_001))
    status, out, err = run("app", "--no-open", "--port", 0, "--data", path)
    assert (status, out) == (63, "")
    assert err.startswith("whence: rows.txt has more than 1,000,000 rows")
    assert "Give a part of it" in err


def test_app_command_with_compare_opens_the_compare_page(start_app):
    with start_app("--port", 0, "--compare", "reviews-base", "reviews") as (_, address, client):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}#/compare", address)
        assert client.get("/api/session").json()["compare"] == ["reviews-base", "reviews"]


@pytest.mark.parametrize("asked", [("--compare", "reviews", "--no-open"), ("--model", "--no-open")])
def test_app_command_with_an_option_in_place_of_a_model_exits_22(run, asked):
    status, out, err = run("app", "--port", 0, *asked)
    assert (status, out) == (22, "")
    assert "'--no-open' is an option and no model" in err


def test_app_command_whose_only_model_fails_to_load_exits_30(warm, tmp_path):
    with warm.start("app", "--no-open", "--port", 0, "--model", tmp_path) as found:
        out, err = found.communicate()
    assert found.returncode == 30
    assert err.count("\n") == 1
    assert err.startswith("whence: ")
    assert str(tmp_path) in err
    assert "has stopped" not in out


def test_app_with_one_failing_model_names_the_failure_and_serves_the_other(start_app, tmp_path):
    both = ("--model", tmp_path, "--model", "reviews")
    with start_app("--port", 0, *both) as (process, _, client):
        line = process.stderr.readline()  # as soon as it fails, while the others are served
        assert line.startswith(f"whence: {tmp_path} cannot be loaded: ")
        first, second = client.get("/api/session").json()["models"]
        assert (first["state"], second["state"]) == ("failed", "waiting")
        assert "Choose another model" in first["error"]["hint"]
        said = client.post("/api/flow", json={"input": {"model": "reviews", "text": TEXT}})
        assert said.status_code == 200


def test_resolve_models_joins_the_listed_and_the_compared_models():
    assert app_command._resolve_models(None, None) == (tuple(BUILTIN), ("reviews-base", "reviews"))
    assert app_command._resolve_models(["a", "b"], None) == (("a", "b"), None)
    assert app_command._resolve_models(None, ("a", "b")) == (("b", "a"), ("a", "b"))
    assert app_command._resolve_models(["c"], ("a", "c")) == (("c", "a"), ("a", "c"))


def test_app_command_without_a_built_page_exits_60(run, monkeypatch, tmp_path):
    from whence.app import routes

    monkeypatch.setattr(routes, "files", lambda package: tmp_path)
    status, out, err = run("app", "--no-open", "--port", 0)
    assert (status, out) == (60, "")
    assert "npm run build" in err


def test_app_with_unknown_columns_serves_and_names_the_columns(start_app, tmp_path):
    data = tmp_path / "films.csv"
    data.write_text("body,stars\na fine film,positive\na dull one,negative\n")
    with start_app("--port", 0, "--model", "reviews", "--data", data) as (process, _, client):
        (entry,) = client.get("/api/session").json()["data"]
        assert entry["problem"]["table"]["columns"] == ["body", "stars"]
        _, _, err = stop_with_sigint(process)
    assert err.startswith("whence: films.csv has no column of texts; it has body, stars.")
    assert "--text COLUMN" in err and str(tmp_path) not in err
    named = ("--text", "body", "--label", "stars")
    with start_app("--port", 0, "--model", "reviews", "--data", data, *named) as (_, _, client):
        (entry,) = client.get("/api/session").json()["data"]
        assert (entry["text"], entry["label"], entry["problem"]) == ("body", "stars", None)


def test_app_command_with_a_column_but_no_data_exits_22(run):
    status, out, err = run("app", "--no-open", "--port", 0, "--text", "body")
    assert (status, out) == (22, "")
    assert "--text names a column of a data set. Give one: --data FILE." in err
