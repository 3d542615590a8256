"""Two runs on one folder, a clock that jumps, a worker that is killed, Ctrl-C."""

import os
import signal
import time

import pytest

from tests.faults.scene import contents, family, kill

pytestmark = pytest.mark.xdist_group("faults")
STORE_IN_USE, INTERRUPTED = 43, 130


def waited(true, seconds=60):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_the_second_run_on_a_folder_is_refused_and_harms_nothing(scene, whole):
    out = scene.folder / "shared"
    first = scene.start(out)
    waited((out / "manifest.json").exists)
    os.kill(first, signal.SIGSTOP)  # so that it is still there when the second one comes
    try:
        assert scene.run(out) == STORE_IN_USE, scene.told(out)
    finally:
        os.kill(first, signal.SIGCONT)
    assert scene.launcher.wait(first) == 0, scene.told(out)
    assert contents(out) == whole


def test_a_clock_that_jumps_changes_no_result(scene, whole):
    out = scene.folder / "jumping"
    assert scene.run(out, jumping={"seed": 1}, killed={"at": 12}) == -9, scene.told(out)
    assert scene.run(out, jumping={"seed": 2}) == 0, scene.told(out)
    assert contents(out) == whole


def test_an_interrupt_ends_the_run_and_the_same_command_goes_on(scene, whole):
    out = scene.folder / "interrupted"
    pid = scene.start(out)
    waited(lambda: any((out / "pending").glob("0*")))
    os.kill(pid, signal.SIGINT)
    assert scene.launcher.wait(pid) == INTERRUPTED, scene.told(out)
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == whole


def test_a_worker_is_killed_and_the_run_goes_on(scene, whole):
    out = scene.folder / "workers"
    pid = scene.start(out, "--backend", "processes", "--workers", "2")
    waited(lambda: any((out / "pending").glob("0*")))
    os.kill(pid, signal.SIGSTOP)  # so that it is not done before its worker dies
    workers = sorted(set(family(pid)) - {pid})
    assert len(workers) == 2
    kill(workers[-1])
    os.kill(pid, signal.SIGCONT)
    assert scene.launcher.wait(pid) == 0, scene.told(out)
    waited(lambda: not family(pid))  # and no worker outlives it
    assert contents(out) == whole
