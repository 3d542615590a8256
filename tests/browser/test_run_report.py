"""The report of a run in a real browser: from disk, offline, on a phone and on a desk, by day and by night."""

import pytest

import whence
from tests import reports
from tests.browser.pages import check_quiet_and_fitting, opened
from tests.browser.test_card import contrast
from whence.report.run import page

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def evaluation():
    texts = [text for text, _ in reports.ROWS]
    return whence.evaluate(
        whence.load("reviews"), texts, ["attcat", "rollout"], ["comprehensiveness", "sufficiency"]
    ).to_dict()


def written(tmp_path, payload):
    path = tmp_path / "report.html"
    path.write_text(page(payload), encoding="utf-8")
    return path


@pytest.mark.parametrize("evil", [False, True])
@pytest.mark.parametrize("kind", ["run", "runs"])
def test_a_report_is_offline_silent_and_fits(browser, tmp_path, evaluation, kind, evil):
    payload = reports.run(evaluation) if kind == "run" else reports.runs()
    path = written(tmp_path, reports.hostile(payload) if evil else payload)
    opening, seen = opened(browser, path)
    check_quiet_and_fitting(opening, seen, path)
    if evil:
        assert opening.locator("mark").first.inner_text() == reports.EVIL
    opening.context.close()


def test_the_contents_lead_to_every_section(browser, tmp_path, evaluation):
    opening, _ = opened(browser, written(tmp_path, reports.run(evaluation)))
    links = opening.locator(".contents a")
    assert links.count() == 7
    for place, link in enumerate(links.all()):
        name = link.inner_text()
        link.click()
        assert opening.locator(f"#section-{place + 1} > h2").inner_text() == name
    opening.context.close()


def test_words_and_drawings_can_be_read_at_night(browser, tmp_path, evaluation):
    context = browser.new_context(offline=True, color_scheme="dark")
    opening = context.new_page()
    opening.goto(written(tmp_path, reports.run(evaluation)).as_uri())

    def style(css, what):
        return opening.evaluate(f"getComputedStyle(document.querySelector('{css}')).{what}")

    paper = style("section", "backgroundColor")
    for css, what in (
        ("section > p", "color"),
        ("section .dim", "color"),
        (".contents a", "color"),
        ("pre code", "color"),
        (".wide > svg text", "fill"),
        (".wide > svg g text", "fill"),
    ):
        assert contrast(style(css, what), paper) >= 4.5, css  # WCAG 2, level AA
    # A word stands on light ground, as the colours of scores are made for.
    assert style(".told .strip", "backgroundColor") == "rgb(255, 255, 255)"
    assert contrast(style(".told .strip mark", "color"), "rgb(255, 255, 255)") >= 4.5
    assert style(".wide > svg rect", "fill") == paper
    context.close()
