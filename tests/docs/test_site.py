"""Documentation site: page lists and titles, API reference of all public names, build hooks, offline use."""

import html
import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import site_hooks
from markdown_links import iterate_links

import whence
from tests.browser.conftest import browser as browser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SHOWN = re.findall(
    r"^::: (\S+)\n    options:\n      heading: (\S+)$",
    (DOCS / "reference" / "api.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)

built = pytest.mark.xdist_group("site")  # it is built once


def import_object(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def is_method_or_property(member: object) -> bool:
    """Say whether a member of a class is a method or a property, whose docstring is shown."""
    cached = hasattr(member, "func")
    return (
        cached
        or isinstance(member, property | classmethod | staticmethod)
        or inspect.isroutine(member)
    )


@pytest.mark.parametrize("folder", ["adr", "reference"])
def test_the_page_of_a_folder_lists_all_its_pages(folder):
    index = (DOCS / folder / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert {link.path for link in iterate_links(index) if "/" not in link.path} == pages


def test_every_page_begins_with_its_title():
    wrong = [
        page.relative_to(ROOT).as_posix()
        for page in DOCS.rglob("*.md")
        if not re.match(r"# \S.*\n", page.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_api_reference_names_everything_in_whence_all():
    named = {
        heading.removeprefix("whence.") for _, heading in SHOWN if heading.startswith("whence.")
    }
    assert {*named, "__version__"} == set(whence.__all__)
    for path, heading in SHOWN:
        thing = import_object(path)
        if heading.startswith("whence."):
            # whence.studies.audit and whence.runs are rooms that can be called like their function
            offered = getattr(whence, heading.removeprefix("whence."))
            assert thing is offered or inspect.signature(thing) == inspect.signature(offered)


@pytest.mark.parametrize("path", [path for path, _ in SHOWN])
def test_every_api_reference_object_and_its_members_have_docstrings(path):
    thing = import_object(path)
    assert thing.__module__ == path.rpartition(".")[0], "the site resolves real paths only"
    assert (thing.__doc__ or "").strip()
    if not inspect.isclass(thing):
        return
    held = {field.name for field in fields(thing)} if is_dataclass(thing) else set()
    silent = [
        f"{base.__name__}.{name}"
        for base in thing.__mro__
        if base.__module__.startswith("whence.")
        for name, member in vars(base).items()
        if not name.startswith("_") and name not in held and is_method_or_property(member)
        if not inspect.getdoc(member)
    ]
    assert silent == []


def test_on_config_expands_navigation_folders_into_their_pages(tmp_path):
    for page in ("a/README.md", "a/b.md", "a/c.md", "d.md"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).touch()
    nav = [{"A": "a/"}, {"D": ["d.md", "a/c.md", "a/"]}]
    made = site_hooks.on_config({"nav": nav, "docs_dir": str(tmp_path)})["nav"]
    assert made == [
        {"A": ["a/README.md", "a/b.md"]},
        {"D": ["d.md", "a/c.md", "a/README.md", "a/b.md"]},
    ]


def test_on_page_markdown_unlinks_outside_files_and_points_folders_to_readme(tmp_path):
    docs = tmp_path / "docs"
    (docs / "a").mkdir(parents=True)
    for file in ("docs/a/README.md", "docs/b.md", "source.py"):
        (tmp_path / file).touch()
    text = "[s](../source.py) `[s](../source.py)` [f](a) [f](a/) [p](b.md#x) [w](https://x.org) [n](no.md) ![i](a)"
    page = SimpleNamespace(file=SimpleNamespace(src_uri="b.md"))
    assert site_hooks.on_page_markdown(text, page, {"docs_dir": str(docs)}, None) == (
        "s `[s](../source.py)` [f](a/README.md) [f](a/README.md) [p](b.md#x) [w](https://x.org) [n](no.md) ![i](a)"
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Build the site, with every warning an error."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    # Not --quiet: it keeps the warnings from being counted, too.
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(folder),
    ]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@built
def test_built_site_has_one_html_page_for_every_markdown_page(site):
    made = {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - {"404.html"}
    wanted = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}
    assert made == {page.replace("README.html", "index.html") for page in wanted}


@built
def test_site_pages_and_style_sheets_fetch_nothing_from_other_hosts(site):
    fetched = re.compile(
        r"""<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//"""
    )
    pages = list(site.rglob("*.html"))
    assert [page for page in pages if fetched.search(page.read_text(encoding="utf-8"))] == []
    sheets = [*site.rglob("*.css")]
    assert sheets
    assert [
        one for one in sheets if re.search(r"url\([\"']?https?:", one.read_text(encoding="utf-8"))
    ] == []


@built
def test_built_api_reference_shows_signatures_docstrings_and_field_comments(site):
    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page)))
    assert ":::" not in text
    for path, _ in SHOWN:
        assert f'id="{path}"' in page, path
        first = inspect.cleandoc(import_object(path).__doc__).partition("\n\n")[0]
        assert " ".join(first.replace("`", "").split()) in text, path
    _, *parameters = inspect.signature(whence.Explainer.explain).parameters  # self is not shown
    for parameter in parameters:
        assert parameter in text.partition("explain(")[2][:2000]
    assert 'id="whence.explain.generation.Generation.to_html"' in page  # of its base
    # What is said about a field stands in a comment.
    assert "One number per token, special ones included, nothing rescaled" in text


@built
@pytest.mark.browser
def test_the_site_opens_and_is_searched_from_disk_without_a_network(site, browser):
    page = browser.new_page()
    asked, failed = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto((site / "reference" / "api.html").as_uri())
    page.locator("input.md-search__input").fill("rollout")
    page.locator(".md-search-result__item").first.wait_for(timeout=20_000)
    assert failed == []
    assert asked and [url for url in asked if not url.startswith("file:")] == []
    page.close()
