"""Interference with a run: a second run is refused; clock jumps, Ctrl-C or a killed worker change no result."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.run_harness import contents, kill, list_session_processes

pytestmark = pytest.mark.xdist_group("faults")
STORE_IN_USE, INTERRUPTED = 43, 130


def wait_until(true, seconds=60):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def command_line(pid):
    """Return what a process was started with."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_the_second_run_on_a_folder_is_refused_and_harms_nothing(scene, expected_contents):
    out = scene.folder / "shared"
    first = scene.start(out)
    wait_until((out / "manifest.json").exists)
    os.kill(first, signal.SIGSTOP)  # so that it is still there when the second one comes
    try:
        assert scene.run(out) == STORE_IN_USE, scene.told(out)
    finally:
        os.kill(first, signal.SIGCONT)
    assert scene.launcher.wait(first) == 0, scene.told(out)
    assert contents(out) == expected_contents


def test_a_clock_that_jumps_changes_no_result(scene, expected_contents):
    out = scene.folder / "jumping"
    assert scene.run(out, jumping={"seed": 1}, killed={"at": 12}) == -9, scene.told(out)
    assert scene.run(out, jumping={"seed": 2}) == 0, scene.told(out)
    assert contents(out) == expected_contents


def test_run_command_after_sigint_resumes_to_the_same_bytes(scene, expected_contents):
    out = scene.folder / "interrupted"
    pid = scene.start(out)
    wait_until(lambda: any((out / "metrics").glob("0*")))
    os.kill(pid, signal.SIGINT)
    assert scene.launcher.wait(pid) == INTERRUPTED, scene.told(out)
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == expected_contents


def test_run_with_a_killed_worker_completes_with_the_same_bytes(scene, expected_contents):
    out = scene.folder / "workers"
    pid = scene.start(out, "--backend", "processes", "--workers", "2")
    wait_until(lambda: any((out / "metrics").glob("0*")))
    os.kill(pid, signal.SIGSTOP)  # so that it is not done before its worker dies
    workers = [one for one in list_session_processes(pid) if "spawn_main" in command_line(one)]
    assert len(workers) == 2
    kill(workers[-1])
    os.kill(pid, signal.SIGCONT)
    assert scene.launcher.wait(pid) == 0, scene.told(out)
    wait_until(lambda: not list_session_processes(pid))  # and no worker outlives it
    assert contents(out) == expected_contents
