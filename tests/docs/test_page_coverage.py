"""Documentation coverage: linked cards of registry entries, cited references, error pages, docstrings."""

import inspect
import re

import cards
import pytest
import references

import whence
from tests.conftest import ROOT
from whence.core.errors import list_errors
from whence.methods import method
from whence.metrics import metric
from whence.studies.audit.experiments import experiment

REGISTRIES = {"methods": method, "metrics": metric, "audits": experiment}
ENTRIES = [(folder, entry) for folder, registry in REGISTRIES.items() for entry in registry]
NAMES = [f"{folder}/{entry.name}" for folder, entry in ENTRIES]
# What a card must say, by the folder: headings.
SAID = {
    "methods": (
        *("## When it misleads", "## Parameters", "## Call it", "## What it promises"),
        *("## Where the truth is known", "## On trained models", "## Which models", "## Source"),
    ),
    "metrics": ("## When it misleads", "## Parameters", "## Call it", "## What is usual", "## Source"),
    "audits": ("## When it misleads", "## Parameters", "## Call it", "## Verdicts", "## Source"),
}  # fmt: skip


@pytest.mark.parametrize("folder", REGISTRIES)
def test_every_registered_name_has_a_card_and_no_card_is_left_over(folder):
    pages = {page.stem for page in (ROOT / "docs" / folder).glob("*.md")} - {"README"}
    assert pages == set(REGISTRIES[folder].names())


@pytest.mark.parametrize("folder", REGISTRIES)
def test_the_page_of_a_folder_links_to_every_card(folder):
    text = (ROOT / "docs" / folder / "README.md").read_text(encoding="utf-8")
    for name in REGISTRIES[folder].names():
        assert f"]({name}.md)" in text


def test_the_readme_links_to_the_card_of_every_method():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in method.names():
        assert f"](docs/methods/{name}.md)" in text


@pytest.mark.parametrize(("folder", "entry"), ENTRIES, ids=NAMES)
def test_card_page_states_facts_parameters_and_presets_of_its_registry_entry(folder, entry):
    page = cards.PAGES[f"{folder}/{entry.name}.md"]()
    assert page.startswith(f"# {entry.name}\n\n{entry.summary}")
    for heading in SAID[folder]:
        assert f"\n{heading}\n" in page
    misleads, cite = entry.facts["misleads_when"], entry.facts["cite"]
    assert misleads[1:] in page and cite in page
    for fact in ("formula", "cost", "hypothesis", "measure"):
        assert str(entry.facts.get(fact, "")) in page
    for parameter in entry.parameters.values():
        assert f"| `{parameter.name}` |" in page
    for preset in entry.presets:
        assert f"| `{preset}` |" in page
    if "notice" in entry.facts:
        assert "**A note on a patent.**" in page
    assert not re.search(r"\bnan\b|\bNone\b(?!\.| of them)", page)


@pytest.mark.parametrize(("folder", "entry"), ENTRIES, ids=NAMES)
def test_every_citation_of_a_registry_entry_resolves_to_references(folder, entry):
    works = references.list_references(entry.facts["cite"])
    assert works or entry.name == "random"


def test_reference_works_are_all_cited_and_presets_match_the_registry():
    cited = " ".join(entry.facts["cite"] for _, entry in ENTRIES)
    assert [work for work in (*references.WORKS, *references.NAMED) if work not in cited] == []
    presets = {name for _, entry in ENTRIES for name in entry.presets}
    assert {name.split()[-1] for name in references.PRESETS} == presets


@pytest.mark.parametrize("error", list_errors(), ids=lambda error: error.code)
def test_every_error_has_a_page(error):
    """What the pages must say: tests/contract/test_public_api.py."""
    assert (ROOT / "docs" / "errors" / f"{error.code}.md").is_file()


PUBLIC = [name for name in whence.__all__ if not name.startswith("__")]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_and_public_member_has_a_docstring(name):
    thing = getattr(whence, name)
    assert inspect.getdoc(thing), f"whence.{name} says nothing"
    if not inspect.isclass(thing):
        return
    for owner in thing.__mro__:
        if not owner.__module__.startswith("whence"):
            continue
        for attribute, value in vars(owner).items():
            if attribute.startswith("_") or not _is_offered(value):
                continue
            told = getattr(value, "__func__", value)  # of class and static methods
            assert inspect.getdoc(told), f"{owner.__qualname__}.{attribute} says nothing"


def _is_offered(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
