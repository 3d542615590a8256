"""Files that are torn, flipped or gone, one at a time: they are named, and made again to the byte."""

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.scene import contents
from whence.run.store.verify import verify

pytestmark = pytest.mark.xdist_group("faults")
BAD_STORE = 42


def torn(path: Path) -> None:
    """Let the second half be lost."""
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    """Flip one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def gone(path: Path) -> None:
    """Delete it."""
    path.unlink()


HARMS = (torn, flipped, gone)


def test_every_file_can_be_damaged(scene, undisturbed, whole):
    """Each file once, by one harm after the other; bench/run/soak.py tries all harms on all files."""
    out = scene.folder / "damaged"
    shutil.copytree(undisturbed, out)
    for number, name in enumerate(whole):
        harm = HARMS[number % len(HARMS)]
        harm(out / name)
        # An index that is gone is missed by the files that it told of: they bear its number.
        known = Path(name).stem.removeprefix("part-")
        assert any(known in problem.where for problem in verify(out)), (name, harm.__name__)
        assert scene.run(out) == 0, (name, harm.__name__, scene.told(out))
        assert contents(out) == whole, (name, harm.__name__)
        assert list(verify(out)) == []


def test_verify_says_so_and_repair_leaves_what_is_sound(scene, undisturbed, whole):
    out = scene.folder / "repaired"
    shutil.copytree(undisturbed, out)
    flipped(out / "metrics" / "part-000001.parquet")
    assert scene.store("verify", str(out), out=out) == BAD_STORE
    assert "metrics/part-000001.parquet" in scene.told(out)
    assert scene.store("repair", str(out), out=out) == 0, scene.told(out)
    (kept,) = (out / "damaged").rglob("*part-000001.parquet*")
    assert kept.is_file()
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == whole


def test_what_was_half_written_is_cleared_away(scene, undisturbed, whole):
    out = scene.folder / "littered"
    shutil.copytree(undisturbed, out)
    # As whence.core.io calls a file that is not whole yet.
    (out / "explanations" / ".part-000001.parquet.abcd1234").write_bytes(b"PAR1 half of")
    (out / ".manifest.json.abcd1234").write_bytes(b'{"format"')
    assert scene.run(out) == 0, scene.told(out)
    assert contents(out) == whole
