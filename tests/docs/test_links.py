"""Links of every page: each leads to an existing file, an existing heading, or a well-formed address."""

import json
import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_links import Link, iterate_links, list_anchors, rewrite_links

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(page for room in ("bench", "src", "tests") for page in (ROOT / room).rglob("README.md")),
        *(ROOT / "web").glob("*.md"),
    }
)
HOST = re.compile(r"([a-z0-9-]+\.)+[a-z]{2,}")


@cache
def text_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


@cache
def anchors_of(page: Path) -> frozenset[str]:
    return frozenset(list_anchors(text_of(page)))


def find_link_fault(page: Path, link: Link, root: Path = ROOT) -> str | None:
    """Return what is wrong with a link of a page."""
    if link.away:
        address = urlsplit(link.target)
        good = address.scheme == "https" and HOST.fullmatch(address.netloc)
        return None if good else "an address begins with https:// and a host"
    if link.path.startswith("/"):
        return "a path begins at the page, not at the root"
    path = unquote(link.path)
    target = Path(os.path.normpath(page.parent / path)) if path else page
    if not target.is_relative_to(root):
        return "it leaves the project"
    if not target.exists():
        return "there is no such file"
    docs = root / "docs"
    if link.picture and page.is_relative_to(docs) and not target.is_relative_to(docs):
        return "the site has only the pictures of docs/"
    if not link.anchor:
        return None
    known = anchors_of(target) if target.suffix in (".md", ".ipynb") else frozenset()
    return None if link.anchor in known else f"there is no such heading; there are {sorted(known)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_heading_or_address(page):
    faults = [
        f"{link.target}: {fault}"
        for link in iterate_links(text_of(page))
        if (fault := find_link_fault(page, link))
    ]
    assert faults == []


def test_link_check_covers_readme_changelog_and_over_200_links():
    assert {"README.md", "CHANGELOG.md"} <= {page.name for page in PAGES}
    assert sum(1 for page in PAGES for _ in iterate_links(text_of(page))) > 200


def test_find_link_fault_names_broken_links_and_accepts_good_ones(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "outside.png").touch()
    page = tmp_path / "docs" / "page.md"
    page.write_text("# A & B: `c_d`\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n")
    assert list_anchors(page.read_text()) == {"a--b-c_d", "twice", "twice-1"}

    def fault(target: str, picture: bool = False) -> str | None:
        return find_link_fault(page, Link("text", target, picture), tmp_path)

    for good in (
        "page.md",
        "#twice-1",
        "page.md#a--b-c_d",
        "../outside.png",
        "https://arxiv.org/abs/1",
    ):
        assert fault(good) is None, good
    for bad in (
        *("missing.md", "/docs/page.md", "#no-heading", "page.md#Twice", "../../else.md"),
        *(
            "http://arxiv.org",
            "https://localhost/x",
            "https:/arxiv.org",
            "file:///x",
            "//arxiv.org",
        ),
    ):
        assert fault(bad) is not None, bad
    assert "pictures" in str(fault("../outside.png", picture=True))


def test_links_and_rewritten_ignore_code_and_comments_and_read_code_in_link_texts():
    text = """
`[a](code.md)` and ``[b](`code`.md)`` <!-- [c](comment.md) -->

```sh
[d](fence.md)
```

   ~~~
   [e](fence.md)
   ~~~

[`f`](f.md), [two
lines](g.md#h), ![i](i.png) and [[j]](j.md)
"""
    assert [(one.target, one.picture) for one in iterate_links(text)] == [
        ("f.md", False),
        ("g.md#h", False),
        ("i.png", True),
        ("j.md", False),
    ]
    assert rewrite_links(text, lambda link: None) == text
    assert (
        rewrite_links("see [x](x.md) `[x](x.md)`", lambda link: "[x](new.md)")
        == "see [x](new.md) `[x](x.md)`"
    )
