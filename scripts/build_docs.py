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
from functools import partial
from pathlib import Path

import architecture_table
import audit_tables
import evaluation_tables
import flow_table
import metric_tables
import run_measured
import run_tables
import speed_tables
import store_tables
import truth_table

DOCS = Path(__file__).resolve().parents[1] / "docs"

# The page of each table, and the function that returns it as Markdown.
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "architectures": ("reference/architectures.md", architecture_table.markdown),
    "experiments": ("reference/audit.md", audit_tables.experiments),
    "reasons": ("reference/audit.md", audit_tables.reasons),
    "metrics": ("metrics/README.md", metric_tables.metrics),
    "rules": ("reference/trust.md", metric_tables.rules),
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
# The files that are drawn, and the function that returns each; None as long as there is nothing to draw.
DRAWINGS: dict[str, Callable[[], str | None]] = {
    **{
        f"science/evaluation-{name}.svg": partial(evaluation_tables.drawing, name)
        for name in evaluation_tables.NAMES
    },
    **speed_tables.DRAWINGS,
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
    """Write or check the tables and drawings that are named, or all."""
    known = [*TABLES, *DRAWINGS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"out of {', '.join(known)}")
    parser.add_argument("--check", action="store_true", help="fail if one is out of date")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    stale = []
    for name in options.names or known:
        page = TABLES[name][0] if name in TABLES else name
        file = DOCS / page
        old = file.read_text(encoding="utf-8") if file.is_file() else None
        new = with_table(old or "", name, TABLES[name][1]()) if name in TABLES else DRAWINGS[name]()
        if new is None or new == old:
            continue
        if options.check:
            stale.append(page)
        else:
            file.write_text(new, encoding="utf-8")
    if stale:
        sys.exit(f"Out of date: docs/{', docs/'.join(dict.fromkeys(stale))}. Run `make docs`.")


if __name__ == "__main__":
    main()
