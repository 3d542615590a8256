"""The examples of docs/reference/store.md, run as they stand there, on a store."""

import os
import re
import subprocess
import sys

import pytest

from tests import stores
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "reference" / "store.md").read_text(encoding="utf-8")
FIRST = stores.records(stores.identity(), stores.item(0), "attcat")[0]
# Which reader each block is for, in this order, what else is asked of it, and what it must print.
READERS = {
    # Eleven examples of twelve worked.
    "duckdb": ("", r"rollout +│ +11 │"),
    "polars": ("", r"shape: \(10, 4\)"),
    "pandas": ("", r"4 +2 +line 3 +attcat +not-finite +It did not work\.\n5 +2 +line 3 +rollout"),
    "datasets": (
        "print(rows.num_rows, rows[0]['axioms'], rows[0]['starts'])",
        re.escape(f"{FIRST['tokens']} {FIRST['scores']}\n24 {FIRST['axioms']} {FIRST['starts']}\n"),
    ),
}
BLOCKS = dict(zip(READERS, re.findall(r"```python\n(.*?)```", PAGE, re.S), strict=True))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    who = stores.identity(metrics=("comprehensiveness",))
    stores.filled(folder / "results", who=who, failing=(2,))
    return folder


@pytest.mark.parametrize("package", READERS)
def test_the_example_for_each_reader_runs(results, package, tmp_path):
    more, expected = READERS[package]
    assert re.search(rf"^(import|from) {package}\b", BLOCKS[package], re.M)
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", BLOCKS[package] + more],
        cwd=results,
        env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout), done.stdout


def test_the_page_shows_every_kind_of_file(results):
    folder = results / "results"
    assert all(f"results/{path.name}" in PAGE for path in folder.iterdir())
