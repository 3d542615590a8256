"""The page in a real browser: from disk, offline, with hostile text."""

import os
import shutil

import pytest

import whence

EVIL = "</script><img src=x onerror=alert(1)>"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have Chromium: `make browser` installs it")
        pytest.skip("no Chromium on this machine (make browser)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def opened(browser, path):
    """Open a file offline; collect everything the page asks for, says and complains about."""
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 700})
    page = context.new_page()
    seen = {"requests": [], "dialogs": [], "errors": []}
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("console", lambda message: seen["errors"].append(message.text))
    page.goto(path.as_uri())
    return page, seen


def test_page_opens_from_disk_and_hostile_text_is_text(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    text = f"a beautifully acted film {EVIL}"
    explainer.explain(text).to_html(path)
    page, seen = opened(browser, path)
    page.wait_for_timeout(200)
    assert seen == {"requests": [path.as_uri()], "dialogs": [], "errors": []}
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 0
    shown = page.locator(".strip").first.inner_text()
    assert EVIL in shown
    page.context.close()


def test_what_counts_most_is_the_darkest(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    found = explainer.explain("a beautifully acted film")
    found.to_html(path)
    page, _ = opened(browser, path)
    colours = page.evaluate(
        "[...document.querySelectorAll('.strip mark')].map(m => [m.innerText, getComputedStyle(m).backgroundColor])"
    )
    light = {word: sum(int(x) for x in colour.strip("rgba()").split(",")[:3]) for word, colour in colours
             if "rgba(0, 0, 0, 0)" not in colour}  # fmt: skip
    assert min(light, key=light.get) == found.top(1)[0].text
    page.context.close()


def test_details_open_and_nothing_overflows(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    explainer.explain("x" * 60 + " good " * 40, method="gradient").to_html(path)
    page, _ = opened(browser, path)
    page.set_viewport_size({"width": 380, "height": 700})
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator("table").first.is_visible()
    assert page.evaluate(
        "document.querySelector('.strip').scrollWidth <= document.documentElement.clientWidth"
    )
    page.context.close()


def test_a_pair_shows_both_texts(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    explainer.explain(("a good film", "a bad film")).to_html(path)
    page, _ = opened(browser, path)
    strips = [strip.inner_text() for strip in page.locator(".strip").all()]
    assert len(strips) == 2
    assert "good" in strips[0]
    assert "bad" in strips[1]
    page.context.close()


def test_notebook_fragment(browser, explainer, tmp_path):
    path = tmp_path / "cell.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{explainer.explain('a good film')._repr_html_()}"
    )
    page, seen = opened(browser, path)
    assert "good" in page.locator(".strip").first.inner_text()
    assert seen["errors"] == []
    page.context.close()
