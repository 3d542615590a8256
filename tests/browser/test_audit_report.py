"""An audit in a real browser: from disk, offline, on a phone and on a desk, by day and by night, and on paper."""

import pytest

from tests import audits
from tests.browser.pages import check_quiet_and_fitting, opened
from tests.browser.test_card import contrast
from whence.report.audit import fragment, page

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

AUDITS = {
    "all": audits.audit,
    "bare": audits.bare,
    "forty sites": lambda: audits.many_sites(40),
    "long and hostile": lambda: audits.hostile(pad=150),
}


def written(tmp_path, text):
    path = tmp_path / "audit.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("which", AUDITS)
def test_an_audit_is_offline_silent_and_fits(browser, tmp_path, which):
    path = written(tmp_path, page(AUDITS[which]()))
    opening, seen = opened(browser, path)
    check_quiet_and_fitting(opening, seen, path)
    opening.context.close()


def test_hostile_tokens_are_shown_as_they_are(browser, tmp_path):
    opening, _ = opened(browser, written(tmp_path, page(audits.hostile())))
    assert opening.locator("mark").first.inner_text() == audits.EVIL
    assert opening.title() == "whence: is attention an explanation here?"
    opening.context.close()


def test_the_contents_lead_to_every_experiment(browser, tmp_path):
    opening, seen = opened(browser, written(tmp_path, page(audits.audit())))
    links = opening.locator("nav a")
    assert [link.inner_text() for link in links.all()] == list(audits.NAMES)
    for place, name in enumerate(audits.NAMES):
        links.nth(place).click()
        target = opening.locator(":target h2")
        assert target.inner_text() == name
        assert target.is_visible()
    assert seen["errors"] == []
    opening.context.close()


def test_drawings_have_names_and_what_counts_most_is_the_darkest(browser, tmp_path):
    opening, _ = opened(browser, written(tmp_path, page(audits.audit())))
    for name in (
        "permutation: effect against the threshold",
        "How far attention can go without the prediction: negative, n=405",
        "Models that predict the same with other attention",
    ):
        assert opening.get_by_role("img", name=name).count() >= 1
    colours = opening.evaluate(
        """[...document.querySelectorAll('.strip')].slice(0, 2).map(row => [...row.querySelectorAll('mark')].map(
            m => [m.innerText, getComputedStyle(m).backgroundColor]))"""
    )
    darkest = [
        min(row, key=lambda pair: _light(pair[1]))[0] for row in colours
    ]  # of the model, of the adversary
    assert darkest == ["thin", "not"]
    opening.context.close()


def _light(colour):
    red, green, blue, *alpha = (float(part) for part in colour.strip("rgba()").split(","))
    return 765.0 if alpha == [0.0] else red + green + blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_by_day_and_by_night(browser, tmp_path, scheme):
    path = written(tmp_path, page(audits.audit(*(audits.experiment(n) for n in audits.NAMES[:8]),
                                               audits.holding("guides"))))  # fmt: skip
    context = browser.new_context(offline=True, color_scheme=scheme)
    opening = context.new_page()
    opening.goto(path.as_uri())
    badges = opening.evaluate(
        """[...document.querySelectorAll('.badge')].map(e => [e.innerText, getComputedStyle(e).color,
            getComputedStyle(e).backgroundColor])"""
    )
    assert {word for word, _, _ in badges} == {"✓ holds", "✗ fails", "? undecided"}
    for _, ink, paper in set(map(tuple, badges)):
        assert contrast(ink, paper) >= 4.5  # WCAG 2, level AA
    paper = opening.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    for css, what in (
        ("section p", "color"),
        (".dim", "color"),
        ("nav a", "color"),
        (".plot text", "fill"),
        ("text.threshold", "fill"),
        ("mark.pale", "color"),
    ):
        ink = opening.evaluate(
            f"getComputedStyle(document.querySelector('section {css.removeprefix('section ')}')).{what}"
        )
        assert contrast(ink, paper) >= 4.5, css
    # What is drawn stands out from the paper: level AA asks for 3 of what is no text.
    for css, what in (
        ("circle.own", "fill"),
        ("line.threshold", "stroke"),
        ("rect.column", "fill"),
    ):
        ink = opening.evaluate(f"getComputedStyle(document.querySelector('svg {css}')).{what}")
        assert contrast(ink, paper) >= 3, css
    context.close()


def test_on_paper_it_is_light_and_unfolded(browser, tmp_path):
    path = written(tmp_path, page(audits.many_sites(40)))
    context = browser.new_context(offline=True, color_scheme="dark")
    opening = context.new_page()
    opening.goto(path.as_uri())
    opening.emulate_media(media="print", color_scheme="dark")
    paper = opening.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert (
        opening.get_by_text("layer 9, head 2").first.evaluate(
            "e => e.getBoundingClientRect().height"
        )
        > 0
    )
    assert len(opening.pdf()) > 10_000
    context.close()


def test_notebook_fragment(browser, tmp_path):
    path = written(tmp_path, f"<!doctype html><meta charset=utf-8>{fragment(audits.audit())}")
    opening, seen = opened(browser, path)
    assert opening.locator(".overall h2").inner_text() == "No"
    assert opening.locator("nav a").count() == 0
    assert seen["errors"] == []
    opening.context.close()
