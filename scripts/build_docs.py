"""Write the tables of the documentation that are computed, each into its place in a page.

A page holds a pair of markers, ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``; what stands between
them is written here, the rest by people.

Usage::

    python scripts/build_docs.py              # write all tables
    python scripts/build_docs.py truth        # write some of them
    python scripts/build_docs.py --check      # write nothing, and fail if one is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import architecture_table
import metric_tables
import truth_table

DOCS = Path(__file__).resolve().parents[1] / "docs"

# The page of each table, and the function that returns it as Markdown.
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "architectures": ("architectures.md", architecture_table.markdown),
    "metrics": ("metrics.md", metric_tables.metrics),
    "rules": ("trust.md", metric_tables.rules),
    "truth": ("truth.md", truth_table.markdown),
}


def with_table(page: str, name: str, table: str) -> str:
    """Return the page with what stands between the table's markers replaced."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"The page for the table {name!r} needs the lines {begin!r} and {end!r}.")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def main() -> None:
    """Write or check the tables that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"out of {', '.join(TABLES)}")
    parser.add_argument("--check", action="store_true", help="fail if a table is out of date")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(TABLES)):
        parser.error(f"there is no table {', '.join(unknown)}; there are {', '.join(TABLES)}")
    stale = []
    for name in options.names or TABLES:
        page, make = TABLES[name]
        old = (DOCS / page).read_text(encoding="utf-8")
        new = with_table(old, name, make())
        if new != old and options.check:
            stale.append(page)
        elif new != old:
            (DOCS / page).write_text(new, encoding="utf-8")
    if stale:
        sys.exit(f"Out of date: docs/{', docs/'.join(stale)}. Run `make docs`.")


if __name__ == "__main__":
    main()
