"""The pages of docs/science that are written whole, each from what its command kept in bench/results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
sys.path.insert(0, str(ROOT))


def of_file(module: str, name: str) -> str | None:
    """Return the page that a module writes from one file of results; None while there is none."""
    file = RESULTS / name
    if not file.is_file():
        return None
    return str(import_module(module).markdown(json.loads(file.read_text(encoding="utf-8"))))


def of_kept(module: str, kept: str) -> str | None:
    """Return the page that a module writes from what another one finds in the results; None while that is nothing."""
    found = import_module(kept).kept()
    return str(import_module(module).markdown(found)) if found else None


def audits() -> str | None:
    """Return the page of the audits of Transformers."""
    files = {name: RESULTS / f"audit-{name}.json" for name in ("sst2", "movies")}
    kept = {n: json.loads(f.read_text(encoding="utf-8")) for n, f in files.items() if f.is_file()}
    return str(import_module("bench.science.transformers").markdown(kept)) if kept else None


def jain_wallace() -> str:
    """Return the page of Jain & Wallace's table."""
    table = import_module("bench.science.jain_wallace.table")
    return str(table.markdown(table.results()))


def findings() -> str | None:
    """Return the page that says what all results together say."""
    found: str | None = import_module("bench.science.findings").markdown()
    return found


def readme() -> str:
    """Return the same in the few lines of the README."""
    return str(import_module("bench.science.findings").readme())


PAGES: dict[str, Callable[[], str | None]] = {
    "science/README.md": findings,
    "science/attcat.md": partial(of_kept, "bench.science.attcat_page", "bench.science.attcat"),
    "science/compare.md": partial(of_file, "bench.science.compare", "compare-sst2.json"),
    "science/eraser.md": partial(of_kept, "bench.science.eraser_page", "bench.science.eraser"),
    "science/jain_wallace.md": jain_wallace,
    "science/peers.md": partial(of_kept, "bench.peers.page", "bench.peers.__main__"),
    "science/pets.md": partial(of_kept, "bench.science.pets_page", "bench.science.pets"),
    "science/shapes.md": partial(of_file, "bench.science.shapes_page", "shapes.json"),
    "science/tasks.md": partial(of_file, "bench.science.tasks_page", "tasks.json"),
    "science/transformers.md": audits,
}
