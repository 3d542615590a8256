"""The table of an evaluation in a notebook, on a phone and on a desk."""

import pytest

import whence
from tests.browser.pages import opened

TEXTS = ["a gripping film", "dull, slow and far too long", "not a bad film at all"]

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_a_table_is_offline_and_scrolls_by_itself(browser, tmp_path):
    found = whence.evaluate(
        whence.load("reviews"),
        TEXTS,
        ["attcat", "transformer_attribution"],
        ["comprehensiveness", "sufficiency", "infidelity", "loo_correlation"],
    )
    path = tmp_path / "table.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{found._repr_html_()}", encoding="utf-8")
    opening, seen = opened(browser, path)
    for summary in opening.locator("summary").all():
        summary.click()
    for width in (360, 1200):
        opening.set_viewport_size({"width": width, "height": 800})
        assert opening.evaluate("document.documentElement.scrollWidth") <= width
    # A drawing that is scrolled stays large enough to be read.
    opening.set_viewport_size({"width": 360, "height": 800})
    assert opening.evaluate("document.querySelector('svg').getBoundingClientRect().width") >= 600
    assert seen == {"requests": [path.as_uri()], "dialogs": [], "errors": []}
