"""Fixtures of browser tests: Chromium for all pages, and a running app for those that need a server."""

import os
import shutil

import pytest

from tests.browser.app import App, Visitor, folder_model, stored_runs, table

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip


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


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """Return the app with built-in models, one in a folder, two to compare, a small data set, and runs."""
    folder = tmp_path_factory.mktemp("app")
    rows = table(folder / "rows.tsv")
    own = folder_model(folder / "own-reviews")
    running = App(folder, "--model", "reviews", "--model", "decoy", "--model", str(own),
                  "--compare", "reviews-base", "reviews", "--data", str(rows),
                  "--runs", str(stored_runs(folder / "runs")))  # fmt: skip
    yield running
    running.kill()


@pytest.fixture
def visit(browser, app):
    """Return a function that opens the app at a link."""
    visitor = Visitor(browser, app)
    yield visitor
    visitor.close()


@pytest.fixture(scope="module")
def tour(browser, app):
    """Return a function that goes from link to link in one page, which all tests of a file share."""
    visitor = Visitor(browser, app)
    page = visitor("#/help", permissions=["clipboard-read", "clipboard-write"])
    yield lambda link: visitor.again(page, link)
    visitor.close()
