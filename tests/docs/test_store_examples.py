"""Store examples of docs/reference/store.md: duckdb, polars, pandas and datasets read the stored results."""

import re

import pytest

from tests import stores
from tests.conftest import ROOT
from tests.docs import shell
from tests.docs.code_blocks import blocks
from tests.docs.test_code_blocks import DUCKDB

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
PYTHON = [one.text for one in blocks(PAGE) if one.language == "python"]
CODE = dict(zip(READERS, PYTHON, strict=True))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    who = stores.identity(metrics=("comprehensiveness",))
    stores.write_store(folder / "results", who=who, failing=(2,))
    return folder


@pytest.mark.parametrize("package", READERS)
def test_store_page_example_of_each_reader_prints_the_stored_results(
    results, package, tmp_path, monkeypatch, capsys
):
    more, expected = READERS[package]
    assert re.search(rf"^(import|from) {package}\b", CODE[package], re.M)
    monkeypatch.chdir(results)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    if package == "datasets":  # it reads the variable once, when it is imported
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path))
    if DUCKDB in CODE[package]:
        status, printed = shell.python(CODE[package])
        assert status == 0, printed
    else:
        exec(CODE[package] + more, {})  # noqa: S102 - this repository's own page
        printed = capsys.readouterr().out
    assert re.search(expected, printed), printed


def test_store_page_names_every_file_and_folder_of_a_store(results):
    folder = results / "results"
    assert all(f"results/{path.name}" in PAGE for path in folder.iterdir())
