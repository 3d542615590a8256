"""Run report in a browser: no requests, no overflow, contents lead to every section, contrast in dark scheme."""

import pytest

import whence
from tests import run_reports
from tests.browser.pages import check_quiet_and_fitting, open_page
from tests.browser.test_trust_card import contrast
from whence.runs.results import RunReport

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def evaluation():
    texts = [text for text, _ in run_reports.ROWS]
    return whence.evaluate(
        whence.load("reviews"), texts, ["attcat", "rollout"], ["comprehensiveness", "sufficiency"]
    ).to_dict()


def write_report_page(tmp_path, payload):
    path = tmp_path / "report.html"
    path.write_text(RunReport(payload).to_html(), encoding="utf-8")
    return path


@pytest.mark.parametrize("evil", [False, True])
def test_run_report_is_offline_and_silent_and_fits_its_width(browser, tmp_path, evaluation, evil):
    payload = run_reports.report_payload(evaluation)
    path = write_report_page(tmp_path, run_reports.with_hostile_texts(payload) if evil else payload)
    opening, seen = open_page(browser, path)
    check_quiet_and_fitting(opening, seen, path)
    if evil:
        assert opening.locator("mark").first.inner_text() == run_reports.EVIL
    opening.context.close()


def test_contents_of_the_run_report_lead_to_every_section(browser, tmp_path, evaluation):
    opening, _ = open_page(
        browser, write_report_page(tmp_path, run_reports.report_payload(evaluation))
    )
    links = opening.locator("nav a")
    assert links.count() == opening.locator("section > h2").count() > 7
    for link in links.all():
        link.click()
        heading = opening.locator(f"{link.get_attribute('href')} > h2")
        assert heading.inner_text().startswith(link.inner_text())
    opening.context.close()


def test_run_report_has_wcag_aa_contrast_in_the_dark_scheme(browser, tmp_path, evaluation):
    context = browser.new_context(offline=True, color_scheme="dark")
    opening = context.new_page()
    opening.goto(write_report_page(tmp_path, run_reports.report_payload(evaluation)).as_uri())

    def style(css, what):
        return opening.evaluate(f"getComputedStyle(document.querySelector('{css}')).{what}")

    paper = style("section", "backgroundColor")
    for css, what in (
        ("section > p", "color"),
        ("section .dim", "color"),
        ("nav a", "color"),
        ("pre code", "color"),
        ("svg.dots text", "fill"),
        ("svg.dots g text", "fill"),
    ):
        assert contrast(style(css, what), paper) >= 4.5, css  # WCAG 2, level AA
    # A word stands on light ground, as the colours of scores are made for.
    assert style(".strip", "backgroundColor") == "rgb(255, 255, 255)"
    assert contrast(style(".strip mark", "color"), "rgb(255, 255, 255)") >= 4.5
    context.close()
