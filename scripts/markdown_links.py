"""The links, pictures and anchors of a Markdown text, as GitHub and the site read it; code is no link."""

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
    """A link or a picture: what is read, and where it leads."""

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


def links(text: str) -> Iterator[Link]:
    """Go through the links and pictures of a text."""
    return (_link(match) for match in WRITTEN.finditer(text) if match["target"] is not None)


def rewritten(text: str, new: Callable[[Link], str | None]) -> str:
    """Return the text with each link replaced by what `new` makes of it; None leaves it as it is."""

    def replaced(match: re.Match[str]) -> str:
        made = None if match["target"] is None else new(_link(match))
        return match[0] if made is None else made

    return WRITTEN.sub(replaced, text)


def anchors(text: str) -> set[str]:
    """Return the anchors of a text's headings, spelt as GitHub spells them."""
    found: dict[str, int] = {}
    plain = re.sub(FENCE, "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.+?)[ #]*$", plain, re.MULTILINE):
        slug = _slug(heading)
        count = found[slug] = found.get(slug, -1) + 1
        if count:
            found[f"{slug}-{count}"] = 0
    return set(found)


def _slug(heading: str) -> str:
    """Lower case, spaces to dashes, and of the rest only letters, digits, dashes and underscores."""
    read = rewritten(heading, lambda link: link.text)
    return re.sub(r"[^\w\- ]", "", read.strip().lower()).replace(" ", "-")


def _link(match: re.Match[str]) -> Link:
    return Link(match["text"], match["target"], bool(match["picture"]))
