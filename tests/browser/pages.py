"""Helpers for HTML pages in a browser: open a file offline, record its requests and errors, check its layout."""

import re

# Nothing sticks out of its section, except what is scrolled and headings that a phone does not show.
STICKS_OUT = """[...document.querySelectorAll('section *')].filter(e => !e.closest('.wide, svg, .summary thead')
    && e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right + 0.5)
    .map(e => e.outerHTML.slice(0, 80))"""
# Nothing in a drawing is cut off by its frame.
CUT_OFF = """[...document.querySelectorAll('svg')].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text, polyline, polygon, circle, rect, line')].filter(e => {
        const box = e.getBoundingClientRect();
        return box.left < frame.left - 1.5 || box.right > frame.right + 1.5 || box.top < frame.top - 1.5
            || box.bottom > frame.bottom + 1.5;
    }).map(e => e.outerHTML.slice(0, 120))})"""


def open_page(browser, path, scripts=True):
    """Open a file offline; collect everything the page asks for, says and complains about."""
    context = browser.new_context(
        offline=True, viewport={"width": 900, "height": 700}, java_script_enabled=scripts
    )
    page = context.new_page()
    seen = {"requests": [], "dialogs": [], "errors": []}
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("dialog", lambda dialog: (seen["dialogs"].append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("console", lambda message: seen["errors"].append(message.text))
    page.goto(path.as_uri())
    return page, seen


def word(page, text):
    """Find a word of the tinted text; of several methods, of the first."""
    return page.get_by_role("button", name=re.compile(f"^{re.escape(text)}: ")).first


def check_quiet_and_fitting(opening, seen, path):
    """Unfold all of a report, wide and narrow: nothing sticks out or is cut off, runs, or asks for anything."""
    for summary in opening.locator("summary").all():
        summary.click()
    for width in (360, 1200):
        opening.set_viewport_size({"width": width, "height": 800})
        assert opening.evaluate("document.documentElement.scrollWidth") <= width
        assert opening.evaluate(STICKS_OUT) == []
        assert opening.evaluate(CUT_OFF) == []
    opening.wait_for_timeout(100)
    assert seen == {"requests": [path.as_uri()], "dialogs": [], "errors": []}
    assert opening.locator("script, img").count() == 0
