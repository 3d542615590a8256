"""Soak test of a small run: every fault of tests/faults, many more times than in tests, bytes compared.

    PYTHONPATH=src:. python -m bench.run.soak [--minutes M] [--seed S] [--json FILE]

First at every moment between two operations on files: killed there, then the same command again. Then every file of a
finished store in turn, torn, flipped and deleted. Then, until the time is up, runs that are disturbed at random again
and again: killed at a moment or after some milliseconds, the disk full or failing, the clock jumping, by processes or
not. Whatever ends with another store than an undisturbed run is told, and what led to it.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.speed.measuring import Log
from tests.faults.run_harness import Launcher, Scene, contents, kill
from tests.faults.test_damaged_files import HARMS

ENDS = {0, -9, 40}  # done, killed, no room


def kill_at_every_moment(scene: Scene, whole: dict[str, bytes], counts: Counter[str]) -> None:
    """Kill a run at each of its moments, which a first run counts."""
    count = scene.folder / "moments"
    assert scene.run(scene.folder / "counted", counted={"file": str(count)}) == 0
    for at in range(1, int(count.read_text()) + 1):
        out = scene.folder / f"moment-{at}"
        ends = scene.run(out, killed={"at": at}), scene.run(out)
        _compare_store(scene, out, whole, counts, f"moment {at}", ends == (-9, 0))
        counts["kills at every moment"] += 1


def damage_every_file(scene: Scene, whole: dict[str, bytes], counts: Counter[str]) -> None:
    """Damage each file of a store in each way."""
    out = scene.folder / "files"
    assert scene.run(out) == 0
    for name in whole:
        for harm in HARMS:
            harm(out / name)
            named = scene.store("verify", str(out), out=out) == 42
            done = scene.run(out) == 0
            _compare_store(
                scene, out, whole, counts, f"{name} {harm.__name__}", named and done, keep=True
            )
            counts["files damaged"] += 1


def disturb_at_random(
    scene: Scene, whole: dict[str, bytes], counts: Counter[str], draw: random.Random
) -> None:
    """Disturb one store several times, and then let the run finish."""
    out, story = scene.folder / "random", []
    for _ in range(draw.randrange(1, 6)):
        harm, more = _draw_harm(draw)
        pid = scene.start(out, *more, **harm)
        if draw.random() < 0.5:
            time.sleep(draw.uniform(0.0, 3.0 if more else 1.2))
            kill(pid)
        end = scene.launcher.wait(pid)
        story.append((harm, more, end))
        counts["disturbed runs"] += 1
        counts["killed at random"] += end == -9
        counts["disk"] += end == 40
        if end not in ENDS:
            counts["FAILED"] += 1
            print(f"ended with {end}: {story}\n{scene.told(out)}", flush=True)
    done = scene.run(out) == 0
    _compare_store(scene, out, whole, counts, str(story), done)
    counts["stores compared"] += 1


def _draw_harm(draw: random.Random) -> tuple[dict[str, Any], tuple[str, ...]]:
    harm: dict[str, Any] = {}
    if draw.random() < 0.5:
        harm[draw.choice(["killed", "killed", "no_space", "broken"])] = {
            "at": draw.randrange(1, 60)
        }
    if draw.random() < 0.3:
        harm["jumping"] = {"seed": draw.randrange(1000)}
    more = ("--backend", "processes", "--workers", "2") if draw.random() < 0.1 else ()
    return harm, more


def _compare_store(
    scene: Scene, out: Path, whole: dict[str, bytes], counts: Counter[str], what: str, well: bool, keep: bool = False
) -> None:  # fmt: skip
    found = contents(out)
    if not well or found != whole:
        counts["FAILED"] += 1
        other = [name for name in {*found, *whole} if found.get(name) != whole.get(name)]
        print(f"{what}: other files {other}\n{scene.told(out)}", flush=True)
    if not keep:
        shutil.rmtree(out)


def main() -> None:
    """Disturb runs, compare their stores, and count failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="for the part that is drawn at random"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="append the counts to this file")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    log, draw = Log(options.json), random.Random(options.seed)
    with tempfile.TemporaryDirectory() as here, log.open_section("soak"):
        scene = Scene(Launcher(), Path(here))
        assert scene.run(scene.folder / "undisturbed") == 0
        whole = contents(scene.folder / "undisturbed")
        kill_at_every_moment(scene, whole, counts)
        damage_every_file(scene, whole, counts)
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            disturb_at_random(scene, whole, counts, draw)
        scene.launcher.close()
        log.add(
            "counts", seed=options.seed, **{name.replace(" ", "_"): n for name, n in counts.items()}
        )
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()
