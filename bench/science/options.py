"""Command-line parser shared by the bench.science commands, and their default folders."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bench.science.rows import ROOT

SHARED = Path(os.environ.get("WHENCE_SHARED", ROOT.parent / "shared"))
RESULTS = ROOT / "bench" / "results"
WORK = ROOT / "build" / "science"  # where rows are kept; outside of git


def build_parser(doc: str | None, names: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of the common options."""
    found = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    found.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    found.add_argument("--shared", type=Path, default=SHARED, help="the folder of models and data")
    found.add_argument(
        "--rows", type=Path, default=WORK, help="the folder of rows, which is gone on with"
    )
    found.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    found.add_argument("--device")
    found.add_argument("--workers", type=int, default=1, help="processes that share the device")
    found.add_argument("--seconds", type=float, default=float("inf"), help="for each job")
    found.add_argument("--limit", type=int, help="examples, at most")
    found.add_argument(
        "--rows-only", action="store_true", help="make rows, and nothing of them yet"
    )
    found.add_argument(
        "--gather", action="store_true", help="make results of the rows that are there"
    )
    found.add_argument("--page", action="store_true", help="write the page alone")
    return found
