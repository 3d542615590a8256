"""British spelling of the documentation's prose. Common misspellings are found by codespell, in `make lint`."""

import re
from pathlib import Path

import pytest
from markdown_links import WRITTEN

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
BOTH = {
    "program",
    "story",
    "check",
    "license",
    "practice",
    "meter",
    "draft",
    "tire",
}  # British, too
# A paper is called what its authors called it: in italics, in a list of references, and one in many a sentence.
TITLE = re.compile(
    r"\*[^*\n]+(?:\n[^*\n]+)*\*"
    r"|^- .*\b(?:19|20)\d\d\b.*\]\(https://\S+\)$"
    r"|Transformer Interpretability Beyond Attention Visualization",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def american():
    """Return American spellings and the British ones, from the list that codespell brings."""
    package = pytest.importorskip("codespell_lib")
    list_ = Path(package.__file__).parent / "data" / "dictionary_en-GB_to_en-US.txt"
    rows = [line.partition("->") for line in list_.read_text(encoding="utf-8").splitlines()]
    pairs = {theirs.strip(): ours for ours, _, many in rows for theirs in many.split(",")}
    return {theirs: ours for theirs, ours in pairs.items() if theirs and theirs not in BOTH}


def prose(text: str) -> str:
    """Return a page's text without code, style sheets, addresses and titles."""
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    return WRITTEN.sub(lambda match: match["text"] or "", TITLE.sub("", text))


def test_prose_of_every_page_has_no_american_spelling(american):
    found = [
        f"{page.relative_to(ROOT)}: {word}, not {american[word.lower()]}?"
        for page in PAGES
        for word in re.findall(r"[A-Za-z]+", prose(page.read_text(encoding="utf-8")))
        if word.lower() in american
    ]
    assert found == []


def test_prose_omits_code_and_titles_and_includes_link_texts(american):
    text = "The `color` of *Visualizing\nand Understanding* is [a color](color.md).\n\n```sh\ncolor\n```\n"
    assert [w for w in re.findall(r"\w+", prose(text)) if w in american] == ["color"]
