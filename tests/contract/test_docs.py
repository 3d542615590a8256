"""The pages with computed tables say what the registries and the stored results say today."""

import build_docs
import pytest

QUICK = [name for name in build_docs.TABLES if name not in {"truth", "architectures"}]


@pytest.mark.parametrize("name", QUICK)
def test_a_table_in_the_docs_is_up_to_date(name):
    page, make = build_docs.TABLES[name]
    old = (build_docs.DOCS / page).read_text(encoding="utf-8")
    assert build_docs.with_table(old, name, make()) == old, f"docs/{page}: run `make docs`"


@pytest.mark.parametrize("name", build_docs.DRAWINGS)
def test_a_drawing_in_the_docs_is_up_to_date(name):
    file, made = build_docs.DOCS / name, build_docs.DRAWINGS[name]()
    assert (file.read_text(encoding="utf-8") if file.exists() else None) == made
