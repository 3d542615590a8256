"""Generated documentation: tables, files and command pages equal what registries, commands and results give."""

import re

import build_docs
import command_reference
import pytest

SLOW = {
    "architectures"
}  # it has a test of its own, which makes it by trying: test_architectures.py
MADE = [
    name
    for name in (*build_docs.TABLES, *build_docs.FILES, *build_docs.FIGURES)
    if name not in SLOW
]


@pytest.mark.parametrize("name", MADE)
def test_a_table_or_file_of_the_docs_is_up_to_date(name):
    assert build_docs.is_up_to_date(name), f"{build_docs.compute_content(name)[0]}: run `make docs`"


def test_build_docs_finds_no_orphan_pages():
    assert build_docs.find_orphans() == []


def test_table_markers_of_the_docs_match_the_registered_tables_one_to_one():
    written = [
        (name, page.resolve())
        for page in (*build_docs.DOCS.rglob("*.md"), *build_docs.DOCS.parent.glob("*.md"))
        for name in re.findall(r"^<!-- begin: (.+) -->$", page.read_text(encoding="utf-8"), re.M)
    ]
    known = [
        (name, (build_docs.DOCS / page).resolve()) for name, (page, _) in build_docs.TABLES.items()
    ]
    assert sorted(written) == sorted(known)


def test_build_docs_check_names_stale_missing_and_orphan_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(build_docs, "DOCS", docs := tmp_path / "docs")
    docs.mkdir()
    monkeypatch.setattr(build_docs, "FIGURES", {})
    monkeypatch.setattr(build_docs, "TABLES", {"a": ("page.md", lambda: "| new |")})
    monkeypatch.setattr(
        build_docs, "FILES", {"whole.md": lambda: "# Whole", "none.svg": lambda: None}
    )
    (docs / "page.md").write_text("<!-- begin: a -->\n| old |\n<!-- end: a -->\n")
    (docs / "old.md").write_text(f"# Old\n\n{build_docs.MARK}\n")
    assert not build_docs.is_up_to_date("a") and not build_docs.is_up_to_date("whole.md")
    assert build_docs.is_up_to_date("none.svg")
    assert build_docs.find_orphans() == [docs / "old.md"]
    with pytest.raises(
        SystemExit, match=r"Out of date: docs/page.md, docs/whole.md, docs/old.md\. Run `make docs`"
    ):
        build_docs.main(["--check"])
    build_docs.main([])
    build_docs.main(["--check"])
    assert (docs / "whole.md").read_text() == f"# Whole\n\n{build_docs.MARK}\n"
    assert not (docs / "old.md").exists()


def test_every_command_and_option_is_on_the_page_of_commands():
    page = command_reference.render_page()
    for name, command in command_reference.iterate_commands():
        assert f"\n## {name}\n" in page
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert command.help.strip(), f"{name} says nothing"
        for one in command.params:
            if not one.name.endswith("_completion"):
                assert one.help, f"{name}: {one.name} says nothing"
                assert all(f"`{spelling}" in section for spelling in one.opts if "-" in spelling)
