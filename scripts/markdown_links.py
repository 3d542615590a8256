"""Links, pictures and anchors of a Markdown text, as GitHub and the site read it; code is no link."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

FENCE = r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?\n)??[ \t]*(?P=fence)[`~]*[ \t]*$"
COMMENT = r"<!--.*?-->"
CODE = r"(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
LINK = r"(?P<picture>!?)\[(?P<text>[^\]\[]*(?:\[[^\]\[]*\][^\]\[]*)?)\]\((?P<target>[^)\s]*)\)"
WRITTEN = re.compile("|".join((FENCE, COMMENT, LINK, CODE)), re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Link:
    """A link or a picture, with its text and target."""

    text: str
    target: str
    picture: bool

    @property
    def path(self) -> str:
        """The part before the anchor; empty for a place in the same page."""
        return self.target.partition("#")[0]

    @property
    def anchor(self) -> str:
        """The part behind the #."""
        return self.target.partition("#")[2]

    @property
    def away(self) -> bool:
        """Whether it leads to another site."""
        return re.match(r"[a-z][a-z+.-]*:|//", self.target) is not None


def iterate_links(text: str) -> Iterator[Link]:
    """Yield the links and pictures of a text."""
    return (_parse_link(match) for match in WRITTEN.finditer(text) if match["target"] is not None)


def rewrite_links(text: str, new: Callable[[Link], str | None]) -> str:
    """Return the text with each link replaced by the result of `new`; None leaves it as it is."""

    def replace(match: re.Match[str]) -> str:
        made = None if match["target"] is None else new(_parse_link(match))
        return match[0] if made is None else made

    return WRITTEN.sub(replace, text)


def list_anchors(text: str) -> set[str]:
    """Return the anchors of a text's headings, spelt as GitHub spells them."""
    found: dict[str, int] = {}
    plain = re.sub(FENCE, "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.+?)[ #]*$", plain, re.MULTILINE):
        slug = _build_slug(heading)
        count = found[slug] = found.get(slug, -1) + 1
        if count:
            found[f"{slug}-{count}"] = 0
    return set(found)


def _build_slug(heading: str) -> str:
    """Return the anchor of a heading: lower case, spaces to dashes, only letters, digits, - and _ kept."""
    read = rewrite_links(heading, lambda link: link.text)
    return re.sub(r"[^\w\- ]", "", read.strip().lower()).replace(" ", "-")


def _parse_link(match: re.Match[str]) -> Link:
    return Link(match["text"], match["target"], bool(match["picture"]))
