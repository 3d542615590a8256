"""Pages of docs/science for build_docs.py: each rendered by its bench.science module from stored results."""

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


def render_from_file(module: str, name: str) -> str | None:
    """Return the page that a module renders from one results file; None as long as it is missing."""
    file = RESULTS / name
    if not file.is_file():
        return None
    return str(import_module(module).render_page(json.loads(file.read_text(encoding="utf-8"))))


def render_from_results(module: str, kept: str) -> str | None:
    """Return the page that one module renders from the results that another loads; None without results."""
    found = import_module(kept).load_results()
    return str(import_module(module).render_page(found)) if found else None


def render_audits() -> str | None:
    """Return the page of the audits of Transformers."""
    files = {name: RESULTS / f"audit-{name}.json" for name in ("sst2", "movies")}
    kept = {n: json.loads(f.read_text(encoding="utf-8")) for n, f in files.items() if f.is_file()}
    return str(import_module("bench.science.transformers").render_page(kept)) if kept else None


def render_jain_wallace() -> str:
    """Return the page of Jain & Wallace's table."""
    table = import_module("bench.science.jain_wallace.table")
    return str(table.render_page(table.load_results()))


def render_findings() -> str | None:
    """Return the page of findings over all results."""
    found: str | None = import_module("bench.science.findings").render_page()
    return found


def render_readme() -> str:
    """Return the findings as the few lines of the README."""
    return str(import_module("bench.science.findings").render_readme())


PAGES: dict[str, Callable[[], str | None]] = {
    "science/README.md": render_findings,
    "science/attcat.md": partial(
        render_from_results, "bench.science.attcat_page", "bench.science.attcat"
    ),
    "science/compare.md": partial(render_from_file, "bench.science.compare", "compare-sst2.json"),
    "science/eraser.md": partial(
        render_from_results, "bench.science.eraser_page", "bench.science.eraser"
    ),
    "science/jain_wallace.md": render_jain_wallace,
    "science/peers.md": partial(render_from_results, "bench.peers.page", "bench.peers.__main__"),
    "science/pets.md": partial(
        render_from_results, "bench.science.pets_page", "bench.science.pets"
    ),
    "science/shapes.md": partial(render_from_file, "bench.science.shapes_page", "shapes.json"),
    "science/tasks.md": partial(render_from_file, "bench.science.tasks_page", "tasks.json"),
    "science/transformers.md": render_audits,
}
