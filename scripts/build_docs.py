"""Command behind `make docs`: writes or checks computed tables within pages, and generated pages and drawings.

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
import cards
import cluster_tables
import command_reference
import evaluation_tables
import flow_table
import measured_numbers
import method_tables
import metric_tables
import notebooks
import peers_table
import precision_tables
import science_pages
import speed_tables
import store_tables
import throughput_tables
import truth_table

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Last line of every generated page, by which orphans are found. Pages of docs/science, which their own commands also
# write, have another.
MARK = "<!-- Written by `make docs`; do not edit. -->"

# The page of each table (a path from docs/, "../README.md" too), and the function that returns it as Markdown.
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "architectures": ("reference/architectures.md", architecture_table.render_table),
    "experiments": ("reference/audit.md", audit_tables.render_experiments),
    "peers": ("../README.md", peers_table.render_readme),
    "precision": ("reference/precision.md", precision_tables.render_table),
    "reasons": ("reference/audit.md", audit_tables.render_reasons),
    "methods": ("../README.md", method_tables.render_readme),
    "metrics": ("metrics/README.md", metric_tables.render_metrics),
    "rules": ("reference/trust.md", metric_tables.render_rules),
    "science": ("../README.md", science_pages.render_readme),
    "truth": ("science/truth.md", truth_table.render_tables),
    "weights": ("reference/flow.md", flow_table.render_table),
    **{
        f"evaluation of {name}": (
            "science/evaluation.md",
            partial(evaluation_tables.render_section, name),
        )
        for name in evaluation_tables.NAMES
    },
    **{
        f"columns of {name}": ("reference/store.md", partial(store_tables.render_table, name))
        for name in store_tables.COLUMNS
    },
    **throughput_tables.TABLES,
    **cluster_tables.TABLES,
    **speed_tables.TABLES,
}
# The files that are written whole, and the function that returns each; None as long as there is nothing to write.
FILES: dict[str, Callable[[], str | None]] = {
    "reference/commands.md": command_reference.render_page,
    "reference/model-types.md": architecture_sweep.render_page,
    **cards.PAGES,
    **notebooks.PAGES,
    **science_pages.PAGES,
    **{
        f"science/evaluation-{name}.svg": partial(evaluation_tables.render_drawing, name)
        for name in evaluation_tables.NAMES
    },
    **speed_tables.DRAWINGS,
}
# Pages with measured numbers in their sentences.
FIGURES = {f"figures of {page}": page for page in measured_numbers.list_marked_pages()}


def replace_table(page: str, name: str, table: str) -> str:
    """Return the page with the text between the table's markers replaced."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"The page for the table {name!r} needs the lines {begin!r} and {end!r}.")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def compute_content(name: str) -> tuple[Path, str | None]:
    """Return the file of a table or page and its computed text; None where there are no results yet."""
    if name in TABLES:
        page, make = TABLES[name]
        return DOCS / page, replace_table((DOCS / page).read_text(encoding="utf-8"), name, make())
    if name in FIGURES:
        file = DOCS.parent / FIGURES[name]
        return file, measured_numbers.fill_numbers(file.read_text(encoding="utf-8"))
    text = FILES[name]()
    if text is not None and name.endswith(".md") and name not in science_pages.PAGES:
        text = f"{text.rstrip()}\n\n{MARK}\n"
    return DOCS / name, text


def is_up_to_date(name: str) -> bool:
    """Return whether a table or file holds its computed text."""
    file, text = compute_content(name)
    return text is None or (file.is_file() and file.read_text(encoding="utf-8") == text)


def find_orphans() -> list[Path]:
    """Return generated pages that no function writes any more."""
    ours = {DOCS / name for name in FILES}
    pages = sorted(set(DOCS.rglob("*.md")) - ours)
    return [page for page in pages if page.read_text(encoding="utf-8").rstrip().endswith(MARK)]


def main(given: list[str] | None = None) -> None:
    """Write or check the named tables and files, or all."""
    known = [*TABLES, *FILES, *FIGURES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a table, a file, or a folder/")
    parser.add_argument("--check", action="store_true", help="fail if one is out of date")
    options = parser.parse_args(given)
    names = [name for name in known if not options.names or _is_requested(name, options.names)]
    if unknown := [
        one for one in options.names if not any(_is_requested(name, [one]) for name in known)
    ]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    gone = [] if options.names else find_orphans()
    if options.check:
        stale = [compute_content(name)[0] for name in names if not is_up_to_date(name)]
        if stale := [_format_path(file) for file in dict.fromkeys([*stale, *gone])]:
            sys.exit(f"Out of date: {', '.join(stale)}. Run `make docs`.")
        return
    for name in names:
        file, text = compute_content(name)
        if text is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for page in gone:
        page.unlink()


def _is_requested(name: str, asked: list[str]) -> bool:
    return any(name == one or (one.endswith("/") and name.startswith(one)) for one in asked)


def _format_path(file: Path) -> str:
    return file.resolve().relative_to(DOCS.parent).as_posix()


if __name__ == "__main__":
    main()
