"""Snapshots of what library, commands and pages give (tests/snapshots): compared as text, or rewritten.

    python scripts/snapshots.py                    compare all; print what differs; status 1 if anything does
    python scripts/snapshots.py --only NAME ...    compare these
    python scripts/snapshots.py --accept [NAME...] write all, or these
    python scripts/snapshots.py --list             print the names

A name may end in *, for all that begin so.
The first trace of a model costs one more forward pass, so --only may show a few more passes than a whole comparison.
"""

import argparse
import difflib
import math
import os
import re
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
}.items():
    os.environ.setdefault(_name, _value)
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "snapshots"
sys.path.insert(0, str(ROOT))

from tests.snapshots.calls import CALLS, made  # noqa: E402 - the settings above come first

# Another processor adds up in another order: float64 then differs by some 1e-16 of the largest term, which the least
# stable method, full_lrp on pictures, makes 5e-9 of a score (AVX-512 against SSE4); ten times that is allowed.
RELATIVE, ABSOLUTE = 5e-8, 1e-12
_DECIMAL = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")


def equals_but_for_rounding(before: str, now: str) -> bool:
    """Return whether two texts are the same, their decimal numbers up to the rounding of another processor."""
    if _DECIMAL.sub("", before) != _DECIMAL.sub("", now):
        return False
    pairs = zip(_DECIMAL.findall(before), _DECIMAL.findall(now), strict=True)
    return all(
        math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs
    )


def format_difference(name: str, now: str) -> str:
    """Return the difference between a stored snapshot and the text now; empty if they are the same."""
    file = FOLDER / f"{name}.txt"
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    if before == now or equals_but_for_rounding(before, now):
        return ""
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"stored {name}", f"now {name}", lineterm=""
    )
    return "\n".join(lines)


def choose_names(wanted: list[str]) -> list[str]:
    """Return the names that match the patterns, all without patterns; exit if one matches nothing."""
    for one in wanted:
        if not any(fnmatchcase(name, one) for name in CALLS):
            sys.exit(f"There is no snapshot {one!r}. --list prints the names.")
    return [name for name in CALLS if not wanted or any(fnmatchcase(name, w) for w in wanted)]


def find_unknown() -> list[str]:
    """Return the stored files that belong to no call."""
    return sorted(file.name for file in FOLDER.glob("*.txt") if file.stem not in CALLS)


def main() -> int:
    """Compare, write or list the snapshots."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("--accept", nargs="*", metavar="NAME")
    asked.add_argument("--only", nargs="+", metavar="NAME", default=[])
    asked.add_argument("--list", action="store_true")
    asked.add_argument("--times", action="store_true", help="say how long each takes")
    given = asked.parse_args()
    if given.list:
        print("\n".join(CALLS))
        return 0
    accept, differing = given.accept is not None, 0
    for name in choose_names([*given.only, *(given.accept or ())]):
        started = time.perf_counter()
        now = made(name)
        if given.times:
            print(f"{time.perf_counter() - started:6.1f} s {len(now):8d} characters {name}")
        changed = format_difference(name, now)
        if not changed:
            continue
        differing += 1
        if accept:
            (FOLDER / f"{name}.txt").write_text(now, encoding="utf-8")
            print(f"written: {name}")
        else:
            print(changed)
    for file in find_unknown():
        print(f"tests/snapshots/{file} belongs to no call: remove it.")
    if not accept:
        print(f"{differing} of {len(CALLS)} snapshots differ.")
    return int(not accept and bool(differing or find_unknown()))


if __name__ == "__main__":
    sys.exit(main())
