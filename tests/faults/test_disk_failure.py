"""Full or failing disk: the run stops with an error, and resumes when there is room."""

import os
import subprocess

import pytest

from tests.faults.run_harness import contents

pytestmark = pytest.mark.xdist_group("faults")
CANNOT_WRITE = 40


@pytest.mark.parametrize(
    ("harm", "said"), [("no_space", "no room for more"), ("broken", "Input/output error")]
)
def test_run_on_a_failing_disk_exits_with_cannot_write_and_later_resumes(
    scene, expected_contents, harm, said
):
    out = scene.folder / harm
    for at in (1, 4, 8):  # the later ones find what the earlier ones have left
        assert scene.run(out, **{harm: {"at": at, "times": 1000}}) == CANNOT_WRITE, scene.told(out)
        told = scene.told(out)
        assert said in told and "internal error" not in told, told
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == expected_contents


def test_run_on_a_full_tmpfs_exits_with_cannot_write_and_resumes_when_enlarged(
    scene, expected_contents
):
    place = scene.folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a disk of a few kilobytes")
    try:
        out, log = place / "run", scene.folder / "small.log"
        argv = scene.argv(out)
        assert scene.launcher.wait(scene.launcher.start(argv, log)) == CANNOT_WRITE, log.read_text()
        assert "no room for more" in log.read_text()
        subprocess.run(["mount", "-o", "remount,size=16m", str(place)], check=True)
        assert scene.launcher.wait(scene.launcher.start(argv, log)) == 0, log.read_text()
        assert contents(out) == expected_contents
    finally:
        subprocess.run(["umount", str(place)], check=True)
