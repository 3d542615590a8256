"""Results page of the app: the first result is open, and the list gives the answer of every audit."""

import json

import pytest
from playwright.sync_api import expect

from tests.audit_payloads import audit
from tests.browser.app import APP, App, Visitor, photograph, settle

pytestmark = APP


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the app with two stored results."""
    folder = tmp_path_factory.mktemp("results")
    stored = folder / "stored"
    stored.mkdir()
    for name, answer in (("first", "undecided"), ("second", "no")):
        (stored / f"{name}.json").write_text(
            json.dumps({**audit(), "answer": answer}), encoding="utf-8"
        )
    running = App(folder, "--model", "reviews", "--results", str(stored))
    yield running
    running.kill()


@pytest.fixture
def visit(browser, results):
    visitor = Visitor(browser, results)
    yield visitor
    visitor.close()


def test_results_page_opens_the_first_result_and_lists_every_audit_answer(visit):
    page = visit("#/results")
    settle(page)
    expect(page.get_by_title("Audit: first.json")).to_be_visible()
    expect(page.get_by_text("Choose a result")).to_have_count(0)
    listed = page.get_by_role("navigation", name="Stored results")
    for answer in ("Undecided.", "No."):
        said = listed.get_by_text(f"May attention be read as an explanation here? {answer}")
        # Where the answer ends is inside of what is shown of the summary.
        ends = said.evaluate(
            """(element, answer) => {
                const range = document.createRange();
                const text = element.firstChild;
                const at = text.textContent.indexOf(answer) + answer.length;
                range.setStart(text, at - 1);
                range.setEnd(text, at);
                return range.getBoundingClientRect().bottom - element.getBoundingClientRect().bottom;
            }""",
            answer,
        )
        assert ends <= 0
    photograph(page, "results")
    listed.get_by_role("button").nth(1).click()
    expect(page.get_by_title("Audit: second.json")).to_be_visible()
