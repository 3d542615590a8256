"""MkDocs hooks: folders in the navigation expanded, links out of docs/ replaced, long table cells marked.

The pages are read on GitHub, too, where a link to a source file works; in the site there is no such file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file alone

from markdown_links import Link, rewrite_links

SENTENCE = re.compile(r"<td>(?=[^\n]{60,}</td>\n)")


def on_config(config: Any) -> Any:
    """Replace each folder of the navigation by its pages that are not listed by name."""
    named = set(_list_pages(config["nav"]))
    config["nav"] = _expand_folders(config["nav"], Path(config["docs_dir"]), named)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links that leave the documentation into names, and those to a folder into links to its page."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_uri).parent

    def rewrite_link(link: Link) -> str | None:
        target = (here / link.path).resolve()
        if link.picture or link.away or not link.path or not target.exists():
            return None  # mkdocs complains about what is not there
        if not target.is_relative_to(docs):
            return link.text
        page = (target / "README.md").is_file()
        return f"[{link.text}]({link.path.rstrip('/')}/README.md)" if page else None

    return rewrite_links(markdown, rewrite_link)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Mark table cells that are sentences, and pages with messages of one long line, for the style sheet."""
    html = SENTENCE.sub('<td class="sentence">', html)
    return (
        f'<div class="messages">{html}</div>' if page.file.src_uri.startswith("errors/") else html
    )


def _list_pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [] if nav.endswith("/") else [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _list_pages(part)]


def _expand_folders(nav: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _expand_folders(part, docs, named) for title, part in nav.items()}
    if isinstance(nav, list):
        done = []
        for part in nav:
            made = _expand_folders(part, docs, named)
            done += made if isinstance(part, str) and part.endswith("/") else [made]
        return done
    if not nav.endswith("/"):
        return nav
    found = sorted(path.relative_to(docs).as_posix() for path in (docs / nav).glob("*.md"))
    # The page of the folder itself comes first.
    found.sort(key=lambda page: not page.endswith("README.md"))
    return [page for page in found if page not in named]
