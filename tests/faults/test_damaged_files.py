"""Damaged store files, truncated, bit-flipped or deleted: each is named, and made again to the byte."""

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.run_harness import contents
from whence.runs.store import verify_store

pytestmark = pytest.mark.xdist_group("faults")
BAD_STORE = 42


def truncate_to_half(path: Path) -> None:
    """Let the second half be lost."""
    os.truncate(path, path.stat().st_size // 2)


def flip_one_bit(path: Path) -> None:
    """Flip one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def delete_file(path: Path) -> None:
    """Delete it."""
    path.unlink()


HARMS = (truncate_to_half, flip_one_bit, delete_file)


def test_run_after_damage_to_any_store_file_restores_the_same_bytes(
    scene, undisturbed, expected_contents
):
    """Each file once, by one harm after the other; bench/run/soak.py tries all harms on all files."""
    out = scene.folder / "damaged"
    shutil.copytree(undisturbed, out)
    for number, name in enumerate(expected_contents):
        harm = HARMS[number % len(HARMS)]
        harm(out / name)
        # What is gone is missed in the manifest's totals.
        missed = "manifest.json" if harm is delete_file else name
        assert missed in [problem.where for problem in verify_store(out)], (name, harm.__name__)
        assert scene.run(out) == 0, (name, harm.__name__, scene.told(out))
        assert contents(out) == expected_contents, (name, harm.__name__)
        assert list(verify_store(out)) == []


def test_store_verify_names_a_damaged_file_and_the_next_run_sets_the_file_aside(
    scene, undisturbed, expected_contents
):
    out = scene.folder / "repaired"
    shutil.copytree(undisturbed, out)
    flip_one_bit(out / "metrics" / "000001-000.parquet")
    assert scene.store("verify", str(out), out=out) == BAD_STORE
    assert "metrics/000001-000.parquet" in scene.told(out)
    assert scene.run(out) == 0, scene.told(out)
    assert "metrics/000001-000.parquet is damaged" in scene.told(out)
    (kept,) = (out / "damaged").iterdir()
    assert kept.name == "metrics-000001-000.parquet.1"
    assert contents(out) == expected_contents


def test_run_removes_half_written_temporary_files_from_the_store(
    scene, undisturbed, expected_contents
):
    out = scene.folder / "littered"
    shutil.copytree(undisturbed, out)
    # As whence.core.files calls a file that is not whole yet.
    (out / "explanations" / ".000001-000.parquet.abcd1234").write_bytes(b"PAR1 half of")
    (out / ".manifest.json.abcd1234").write_bytes(b'{"format"')
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == expected_contents
