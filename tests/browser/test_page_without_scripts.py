"""Explanation page without scripts in a browser: no requests, hostile text as text, colours, details, pairs."""

import pytest

import whence
from tests.browser.pages import open_page

EVIL = "</script><img src=x onerror=alert(1)>"
pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def test_page_from_disk_requests_nothing_and_displays_hostile_text_as_plain_text(
    browser, explainer, tmp_path
):
    path = tmp_path / "why.html"
    text = f"a beautifully acted film {EVIL}"
    explainer.explain(text).to_html(path)
    page, seen = open_page(browser, path, scripts=False)
    page.wait_for_timeout(200)
    assert seen == {"requests": [path.as_uri()], "dialogs": [], "errors": []}
    assert page.locator("img").count() == 0
    shown = page.locator(".strip").first.inner_text()
    assert EVIL in shown
    page.context.close()


def test_page_gives_the_strongest_word_the_darkest_colour(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    found = explainer.explain("a beautifully acted film")
    found.to_html(path)
    page, _ = open_page(browser, path, scripts=False)
    colours = page.evaluate(
        "[...document.querySelectorAll('.strip mark')].map(m => [m.innerText, getComputedStyle(m).backgroundColor])"
    )
    light = {word: sum(int(x) for x in colour.strip("rgba()").split(",")[:3]) for word, colour in colours
             if "rgba(0, 0, 0, 0)" not in colour}  # fmt: skip
    assert min(light, key=light.get) == found.top(1)[0].text
    page.context.close()


def test_page_details_unfold_and_a_long_text_does_not_overflow(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    explainer.explain("x" * 60 + " good " * 40, method="gradient").to_html(path)
    page, _ = open_page(browser, path, scripts=False)
    page.set_viewport_size({"width": 380, "height": 700})
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator("table").first.is_visible()
    assert page.evaluate(
        "document.querySelector('.strip').scrollWidth <= document.documentElement.clientWidth"
    )
    page.context.close()


def test_page_of_a_pair_shows_both_texts(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    explainer.explain(("a good film", "a bad film")).to_html(path)
    page, _ = open_page(browser, path, scripts=False)
    strips = [strip.inner_text() for strip in page.locator(".strip").all()]
    assert len(strips) == 2
    assert "good" in strips[0]
    assert "bad" in strips[1]
    page.context.close()


def test_explanation_fragment_shows_words_without_scripts_or_errors(browser, explainer, tmp_path):
    path = tmp_path / "cell.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{explainer.explain('a good film')._repr_html_()}"
    )
    page, seen = open_page(browser, path)
    assert page.locator("script").count() == 0
    assert "good" in page.locator(".strip").first.inner_text()
    assert seen["errors"] == []
    page.context.close()
