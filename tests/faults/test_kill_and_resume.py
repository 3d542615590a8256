"""Runs killed by SIGKILL: the same command resumes to the bytes of an undisturbed run."""

import random
import time

import pytest

from tests.faults.run_harness import contents, kill

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture(scope="module")
def moments(scene) -> int:
    """Return how many moments there are in a run at which a file was just written, put in its place or removed."""
    out, count = scene.folder / "counted", scene.folder / "moments"
    assert scene.run(out, counted={"file": str(count)}) == 0, scene.told(out)
    return int(count.read_text())


def test_run_killed_between_file_operations_resumes_to_the_same_bytes(
    scene, expected_contents, moments
):
    assert (
        moments > 30
    )  # windows are written, chunks before them: the run is not over in a few operations
    # Spread over the run; bench/run/soak.py takes every moment there is.
    for at in (1, moments // 5, moments // 3, moments // 2, moments - 1):
        out = scene.folder / f"killed-{at}"
        assert scene.run(out, killed={"at": at}) == -9, scene.told(out)
        assert scene.run(out) == 0, scene.told(out)
        assert contents(out) == expected_contents, f"killed at moment {at} of {moments}"


def test_run_killed_repeatedly_resumes_to_the_same_bytes(scene, expected_contents, moments):
    """Each attempt gets a few operations further, or is killed while it tidies up what the last one left."""
    out, draw = scene.folder / "again", random.Random(9)
    deaths = [scene.run(out, killed={"at": draw.randrange(2, moments // 2)}) for _ in range(4)]
    assert deaths.count(-9) >= 2, scene.told(out)
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == expected_contents


def test_run_killed_at_random_times_resumes_to_the_same_bytes(scene, expected_contents):
    out, draw = scene.folder / "random", random.Random(10)
    long = 1.0  # seconds; about what a run takes on a machine that has nothing else to do
    for _ in range(4):
        pid = scene.start(out)
        time.sleep(draw.uniform(0, long))
        kill(pid)
        assert scene.launcher.wait(pid) in (-9, 0), scene.told(out)
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == expected_contents


def test_run_on_a_complete_store_changes_no_byte(scene, undisturbed, expected_contents):
    assert scene.run(undisturbed) == 0, scene.told(undisturbed)
    assert contents(undisturbed) == expected_contents
