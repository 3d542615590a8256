"""Audit page in a browser: no requests, no overflow, hostile text as text, contents, contrast, print, fragment."""

import pytest

from tests import audit_payloads
from tests.browser.pages import check_quiet_and_fitting, open_page
from tests.browser.test_trust_card import contrast
from whence.studies.audit.audit import Audit

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

AUDITS = {
    "all": audit_payloads.audit,
    "bare": audit_payloads.bare,
    "forty sites": lambda: audit_payloads.many_sites(40),
    "long and hostile": lambda: audit_payloads.hostile(pad=150),
}


def render_audit_html(payload):
    return Audit(payload).to_html()


def render_audit_fragment(payload):
    return Audit(payload)._repr_html_()


def write_audit_page(tmp_path, text):
    path = tmp_path / "audit.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("which", AUDITS)
def test_audit_page_is_offline_and_silent_and_fits_its_width(browser, tmp_path, which):
    path = write_audit_page(tmp_path, render_audit_html(AUDITS[which]()))
    opening, seen = open_page(browser, path)
    check_quiet_and_fitting(opening, seen, path)
    opening.context.close()


def test_audit_page_displays_hostile_tokens_as_plain_text(browser, tmp_path):
    opening, _ = open_page(
        browser, write_audit_page(tmp_path, render_audit_html(audit_payloads.hostile()))
    )
    assert opening.locator("mark").first.inner_text() == audit_payloads.EVIL
    assert opening.title() == "whence: is attention an explanation here?"
    opening.context.close()


def test_contents_of_the_audit_page_lead_to_every_experiment(browser, tmp_path):
    opening, seen = open_page(
        browser, write_audit_page(tmp_path, render_audit_html(audit_payloads.audit()))
    )
    links = opening.locator("section a")
    assert [link.inner_text() for link in links.all()] == list(audit_payloads.NAMES)
    for place, name in enumerate(audit_payloads.NAMES):
        links.nth(place).click()
        target = opening.locator(":target h2")
        assert target.inner_text() == name
        assert target.is_visible()
    assert seen["errors"] == []
    opening.context.close()


def test_audit_drawings_have_names_and_the_largest_weight_is_darkest(browser, tmp_path):
    opening, _ = open_page(
        browser, write_audit_page(tmp_path, render_audit_html(audit_payloads.audit()))
    )
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
def test_audit_page_has_wcag_aa_contrast_in_light_and_dark_schemes(browser, tmp_path, scheme):
    path = write_audit_page(
        tmp_path,
        render_audit_html(
            audit_payloads.audit(
                *(audit_payloads.experiment(n) for n in audit_payloads.NAMES[:8]),
                audit_payloads.holding("guides"),
            )
        ),
    )
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
        ("a", "color"),
        (".plot text", "fill"),
        ("text.threshold", "fill"),
    ):
        ink = opening.evaluate(
            f"getComputedStyle(document.querySelector('section {css.removeprefix('section ')}')).{what}"
        )
        assert contrast(ink, paper) >= 4.5, css
    # Tokens without a shade stand on the white of their text, also in the dark.
    marks = opening.evaluate(
        """[...document.querySelectorAll('mark')].map(e => [getComputedStyle(e).color,
            getComputedStyle(e).backgroundColor, getComputedStyle(e.closest('.strip')).backgroundColor])"""
    )
    for ink, *behind in set(map(tuple, marks)):
        ground = next((one for one in behind if one != "rgba(0, 0, 0, 0)"), paper)
        assert contrast(ink, ground) >= 4.5
    # What is drawn stands out from the paper: level AA asks for 3 of what is no text.
    for css, what in (
        ("circle.own", "fill"),
        ("line.threshold", "stroke"),
        ("rect.column", "fill"),
    ):
        ink = opening.evaluate(f"getComputedStyle(document.querySelector('svg {css}')).{what}")
        assert contrast(ink, paper) >= 3, css
    context.close()


def test_printed_audit_page_is_light_and_unfolded(browser, tmp_path):
    path = write_audit_page(tmp_path, render_audit_html(audit_payloads.many_sites(40)))
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


def test_audit_fragment_shows_the_answer_without_contents_or_errors(browser, tmp_path):
    path = write_audit_page(
        tmp_path,
        f"<!doctype html><meta charset=utf-8>{render_audit_fragment(audit_payloads.audit())}",
    )
    opening, seen = open_page(browser, path)
    assert opening.locator("h2").first.inner_text().endswith("explanation here? No")
    assert opening.locator("a").count() == 0
    assert seen["errors"] == []
    opening.context.close()
