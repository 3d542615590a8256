"""Evaluation table of a notebook in a browser: no requests, no overflow on narrow and wide screens."""

import pytest

import whence
from tests.browser.pages import open_page

TEXTS = ["a gripping film", "dull, slow and far too long", "not a bad film at all"]

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_evaluation_table_is_offline_and_fits_narrow_and_wide_screens(browser, tmp_path):
    found = whence.evaluate(
        whence.load("reviews"),
        TEXTS,
        ["attcat", "transformer_attribution"],
        ["comprehensiveness", "sufficiency", "infidelity", "loo_correlation"],
    )
    path = tmp_path / "table.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{found._repr_html_()}", encoding="utf-8")
    opening, seen = open_page(browser, path)
    for summary in opening.locator("summary").all():
        summary.click()
    for width in (360, 1200):
        opening.set_viewport_size({"width": width, "height": 800})
        assert opening.evaluate("document.documentElement.scrollWidth") <= width
    # A drawing that is scrolled stays large enough to be read.
    opening.set_viewport_size({"width": 360, "height": 800})
    assert opening.evaluate("document.querySelector('svg').getBoundingClientRect().width") >= 600
    assert seen == {"requests": [path.as_uri()], "dialogs": [], "errors": []}
