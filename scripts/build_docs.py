"""Write what is computed in the documentation: tables in pages that people write, and whole files.

A page holds a pair of markers, ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``; what stands between
them is written here, the rest by people. Other files, drawings and pages, are written whole.

Usage::

    python scripts/build_docs.py                    # write everything
    python scripts/build_docs.py truth methods/     # write a table, and the files of a folder
    python scripts/build_docs.py --check            # write nothing, and fail if something is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import architecture_sweep
import architecture_table
import audit_tables
import command_reference
import evaluation_tables
import figures
import flow_table
import method_tables
import metric_tables
import notebooks
import peers_table
import precision_tables
import run_measured
import run_tables
import science_pages
import speed_tables
import store_tables
import truth_table

import cards

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Stands in every page that is written whole, so that one that nobody writes any more is found. Those of science are
# also written by their own commands, and say so.
MARK = "<!-- Written by `make docs`; do not edit. -->"

# The page of each table (a path from docs/, "../README.md" too), and the function that returns it as Markdown.
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "architectures": ("reference/architectures.md", architecture_table.markdown),
    "experiments": ("reference/audit.md", audit_tables.experiments),
    "peers": ("../README.md", peers_table.readme),
    "precision": ("reference/precision.md", precision_tables.markdown),
    "reasons": ("reference/audit.md", audit_tables.reasons),
    "methods": ("../README.md", method_tables.readme),
    "metrics": ("metrics/README.md", metric_tables.metrics),
    "rules": ("reference/trust.md", metric_tables.rules),
    "science": ("../README.md", science_pages.readme),
    "truth": ("science/truth.md", truth_table.markdown),
    "weights": ("reference/flow.md", flow_table.markdown),
    **{
        f"evaluation of {name}": (
            "science/evaluation.md",
            partial(evaluation_tables.markdown, name),
        )
        for name in evaluation_tables.NAMES
    },
    **{
        f"columns of {name}": ("reference/store.md", partial(store_tables.markdown, name))
        for name in store_tables.COLUMNS
    },
    **run_measured.TABLES,
    **run_tables.TABLES,
    **speed_tables.TABLES,
}
# The files that are written whole, and the function that returns each; None as long as there is nothing to write.
FILES: dict[str, Callable[[], str | None]] = {
    "reference/commands.md": command_reference.markdown,
    "reference/model-types.md": architecture_sweep.markdown,
    **cards.PAGES,
    **notebooks.PAGES,
    **science_pages.PAGES,
    **{
        f"science/evaluation-{name}.svg": partial(evaluation_tables.drawing, name)
        for name in evaluation_tables.NAMES
    },
    **speed_tables.DRAWINGS,
}
# Pages with measured numbers in their sentences.
FIGURES = {f"figures of {page}": page for page in figures.marked()}


def with_table(page: str, name: str, table: str) -> str:
    """Return the page with what stands between the table's markers replaced."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"The page for the table {name!r} needs the lines {begin!r} and {end!r}.")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def today(name: str) -> tuple[Path, str | None]:
    """Return the file of a table or the file itself, and what it should hold; None where there is nothing to say."""
    if name in TABLES:
        page, make = TABLES[name]
        return DOCS / page, with_table((DOCS / page).read_text(encoding="utf-8"), name, make())
    if name in FIGURES:
        file = DOCS.parent / FIGURES[name]
        return file, figures.filled(file.read_text(encoding="utf-8"))
    text = FILES[name]()
    if text is not None and name.endswith(".md") and name not in science_pages.PAGES:
        text = f"{text.rstrip()}\n\n{MARK}\n"
    return DOCS / name, text


def up_to_date(name: str) -> bool:
    """Say whether the table or the file holds what it should."""
    file, text = today(name)
    return text is None or (file.is_file() and file.read_text(encoding="utf-8") == text)


def orphans() -> list[Path]:
    """Return the pages that were written whole and that nothing writes any more."""
    ours = {DOCS / name for name in FILES}
    pages = sorted(set(DOCS.rglob("*.md")) - ours)
    return [page for page in pages if page.read_text(encoding="utf-8").rstrip().endswith(MARK)]


def main(given: list[str] | None = None) -> None:
    """Write or check the tables and files that are named, or all."""
    known = [*TABLES, *FILES, *FIGURES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a table, a file, or a folder/")
    parser.add_argument("--check", action="store_true", help="fail if one is out of date")
    options = parser.parse_args(given)
    names = [name for name in known if not options.names or _asked(name, options.names)]
    if unknown := [one for one in options.names if not any(_asked(name, [one]) for name in known)]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    gone = [] if options.names else orphans()
    if options.check:
        stale = [today(name)[0] for name in names if not up_to_date(name)]
        if stale := [_shown(file) for file in dict.fromkeys([*stale, *gone])]:
            sys.exit(f"Out of date: {', '.join(stale)}. Run `make docs`.")
        return
    for name in names:
        file, text = today(name)
        if text is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for page in gone:
        page.unlink()


def _asked(name: str, asked: list[str]) -> bool:
    return any(name == one or (one.endswith("/") and name.startswith(one)) for one in asked)


def _shown(file: Path) -> str:
    return file.resolve().relative_to(DOCS.parent).as_posix()


if __name__ == "__main__":
    main()
