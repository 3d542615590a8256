"""Every link of every page leads to a file that is there, a heading that is there, or a well-formed address."""

import json
import os
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_links import Link, anchors, links, rewritten

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
    return frozenset(anchors(text_of(page)))


def wrong(page: Path, link: Link, root: Path = ROOT) -> str | None:
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
def test_every_link_leads_somewhere(page):
    faults = [
        f"{link.target}: {fault}" for link in links(text_of(page)) if (fault := wrong(page, link))
    ]
    assert faults == []


def test_the_check_has_pages_and_links_to_check():
    assert {"README.md", "CHANGELOG.md"} <= {page.name for page in PAGES}
    assert sum(1 for page in PAGES for _ in links(text_of(page))) > 200


def test_what_leads_nowhere_is_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "outside.png").touch()
    page = tmp_path / "docs" / "page.md"
    page.write_text("# A & B: `c_d`\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n")
    assert anchors(page.read_text()) == {"a--b-c_d", "twice", "twice-1"}

    def fault(target: str, picture: bool = False) -> str | None:
        return wrong(page, Link("text", target, picture), tmp_path)

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


def test_code_and_comments_hold_no_links_and_link_texts_may_hold_code():
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
    assert [(one.target, one.picture) for one in links(text)] == [
        ("f.md", False),
        ("g.md#h", False),
        ("i.png", True),
        ("j.md", False),
    ]
    assert rewritten(text, lambda link: None) == text
    assert (
        rewritten("see [x](x.md) `[x](x.md)`", lambda link: "[x](new.md)")
        == "see [x](new.md) `[x](x.md)`"
    )
